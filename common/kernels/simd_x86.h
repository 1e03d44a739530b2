#ifndef BT_KERNELS_SIMD_X86_H
#define BT_KERNELS_SIMD_X86_H
/* What both widths share, written over v16: included at the end of simd_avx2.h and simd_avx512.h. */
#include "kernels/exp.h"

/* Loops over accumulators have constant bounds; they must become registers even at -O2. */
#if defined(__clang__)
#define BT_UNROLL_FOR _Pragma("unroll") for
#else
#define BT_UNROLL_FOR _Pragma("GCC unroll 16") for
#endif

/* Any address will do. */
BT_INLINE void v16_prefetch(const void *p) { _mm_prefetch(p, _MM_HINT_T0); }

/* bt_exp1 in each lane. */
BT_INLINE v16 v16_exp(v16 x)
{
    const v16 one = v16_set1(1.0f), y = v16_min(x, v16_set1(BT_EXP_HIGH));
    const v16 s = v16_fma(y, v16_set1(BT_EXP_LOG2E), v16_set1(BT_EXP_ROUND));
    const v16 n = v16_sub(s, v16_set1(BT_EXP_ROUND));
    v16 r = v16_fnma(n, v16_set1(BT_EXP_LN2_HI), y);
    r = v16_fnma(n, v16_set1(BT_EXP_LN2_LO), r);
    v16 p = v16_set1(BT_EXP_C6);
    p = v16_fma(p, r, v16_set1(BT_EXP_C5));
    p = v16_fma(p, r, v16_set1(BT_EXP_C4));
    p = v16_fma(p, r, v16_set1(BT_EXP_C3));
    p = v16_fma(p, r, v16_set1(BT_EXP_C2));
    p = v16_fma(p, r, one);
    p = v16_fma(p, r, one);
    return v16_where_ge(v16_mul(p, v16_bits_add_shift(s, 127, 23)), x, v16_set1(BT_EXP_LOW));
}

/* silu(g) * u in the order of bt_silu_mul_fn. */
BT_INLINE v16 v16_silu_mul(v16 g, v16 u)
{
    return v16_mul(v16_div(g, v16_add(v16_set1(1.0f), v16_exp(v16_neg(g)))), u);
}

/* The rest of the tree after v16_fold: 8 lanes to one. */
BT_INLINE float v8_sum(__m256 x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
BT_INLINE float v8_max(__m256 x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* The same tree for four vectors at once: the sums of x[0..3] in lanes 0..3. */
BT_INLINE __m128 v8_sum4(const __m256 x[4])
{
    /* l[j] += l[j+4]: the low half holds the first of the pair, the high half the second */
    const __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(x[0], x[2], 0x20), _mm256_permute2f128_ps(x[0], x[2], 0x31));
    const __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(x[1], x[3], 0x20), _mm256_permute2f128_ps(x[1], x[3], 0x31));
    /* l[j] += l[j+2]: a0 a1 b0 b1 | c0 c1 d0 d1 */
    const __m256 s = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee));
    /* l[0] += l[1] */
    const __m128 lo = _mm256_castps256_ps128(s), hi = _mm256_extractf128_ps(s, 1);
    return _mm_add_ps(_mm_shuffle_ps(lo, hi, 0x88), _mm_shuffle_ps(lo, hi, 0xdd));
}
#endif
