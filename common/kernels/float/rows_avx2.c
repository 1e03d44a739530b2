/* Row kernels for AVX2, FMA and F16C: rows_body.h over simd_avx2.h. */
#include "kernels/variant.h"

#if defined(__AVX2__)
#include "kernels/simd_avx2.h"
#include "kernels/float/rows_x86.h"

#include "kernels/float/rows_body.h"
#endif
