/* Attention for AVX2, FMA and F16C: attn_body.h over simd_avx2.h. */
#include "kernels/variant.h"

#if defined(__AVX2__)
#include "kernels/attention/attn_scratch.h"
#include "kernels/simd_avx2.h"

#include "kernels/attention/attn_pack_x86.h"
#include "kernels/attention/attn_body.h"
#endif
