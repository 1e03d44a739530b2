/* Attention for AVX-512 F, BW, VL and DQ: attn_body.h over simd_avx512.h. */
#include "kernels/variant.h"

#if defined(__AVX512F__)
#include "kernels/attention/attn_scratch.h"
#include "kernels/simd_avx512.h"

#include "kernels/attention/attn_pack_x86.h"
#include "kernels/attention/attn_body.h"
#endif
