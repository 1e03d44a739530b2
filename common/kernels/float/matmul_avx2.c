/* Matrix product for AVX2, FMA and F16C: matmul_body.h over simd_avx2.h. */
#include "kernels/variant.h"

#if defined(__AVX2__)
#include "kernels/simd_avx2.h"

#define TILE_PANELS 1
#include "kernels/float/matmul_body.h"
#endif
