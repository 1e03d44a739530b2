/* Matrix product for AVX-512 F, BW, VL and DQ: matmul_body.h over simd_avx512.h. */
#include "kernels/variant.h"

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"

#define TILE_PANELS 2
#include "kernels/float/matmul_body.h"
#endif
