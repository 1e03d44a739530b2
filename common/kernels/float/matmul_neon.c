/* Matrix product for NEON: matmul_body.h over simd_neon.h. */
#include "kernels/variant.h"

#if defined(__aarch64__)
#include "kernels/simd_neon.h"

#define TILE_PANELS 1
#include "kernels/float/matmul_body.h"
#endif
