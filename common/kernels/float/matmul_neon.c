/* Matrix product for NEON: matmul_body.h over simd_neon.h. */
#include "kernels/kernels.h"

#if defined(__aarch64__)
#include "kernels/simd_neon.h"

#include "kernels/variant.h"
#define TILE_PANELS 1
#include "kernels/float/matmul_body.h"
#endif
