/* Row kernels for AVX-512 F, BW, VL and DQ: rows_body.h over simd_avx512.h. */
#include "kernels/variant.h"

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"
#include "kernels/float/rows_x86.h"

#include "kernels/float/rows_body.h"
#endif
