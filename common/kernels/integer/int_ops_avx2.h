#ifndef BT_KERNELS_INT_OPS_AVX2_H
#define BT_KERNELS_INT_OPS_AVX2_H
#include <immintrin.h>
#include "kernels/integer/int_ops_math.h"
#include "kernels/variant.h"

/* int_ops_math.h in eight lanes of s32. Products of s64 are made in two halves, for the even and for the odd lanes.
 * AVX2 has no arithmetic shift of s64, so 2^63 is added before a logical shift, and 2^63 / 2^s subtracted after it. */
#define V8 static inline __attribute__((always_inline, unused)) __m256i

V8 v8_set(int32_t x) { return _mm256_set1_epi32(x); }
V8 v8_load(const int32_t *p) { return _mm256_loadu_si256((const void *)p); }
V8 v8_load16(const int16_t *p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)p)); }
static inline void v8_store(int32_t *p, __m256i x) { _mm256_storeu_si256((void *)p, x); }
V8 v8_odd(__m256i x) { return _mm256_srli_epi64(x, 32); }
V8 v8_join(__m256i even, __m256i odd) { return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa); }
V8 v8_within(__m256i x, int32_t low, int32_t high)
{
    return _mm256_max_epi32(_mm256_min_epi32(x, v8_set(high)), v8_set(low));
}
V8 v8_clamp(__m256i x, int32_t limit) { return v8_within(x, -limit, limit); }
/* Eight s32 in the range of s16, as s16. */
static inline __m128i v8_narrow(__m256i x)
{
    return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

/* A multiplier m / 2^s for halves of four s64, with rounding half up. */
typedef struct v8_mul {
    __m256i m, half, sign;
    __m128i s;
} v8_mul;
static inline v8_mul v8_mul_of(int32_t m, unsigned s)
{
    const uint64_t sign = UINT64_C(1) << 63;
    return (v8_mul){_mm256_set1_epi64x(m), _mm256_set1_epi64x((int64_t)(sign + (s ? UINT64_C(1) << (s - 1) : 0))),
                    _mm256_set1_epi64x((int64_t)(sign >> s)), _mm_cvtsi32_si128((int)s)};
}
V8 v8_round(__m256i product, v8_mul m)
{
    return _mm256_sub_epi64(_mm256_srl_epi64(_mm256_add_epi64(product, m.half), m.s), m.sign);
}
V8 v8_clamp64(__m256i x, int64_t lo, int64_t hi)
{
    const __m256i l = _mm256_set1_epi64x(lo), h = _mm256_set1_epi64x(hi);
    x = _mm256_blendv_epi8(x, h, _mm256_cmpgt_epi64(x, h));
    return _mm256_blendv_epi8(x, l, _mm256_cmpgt_epi64(l, x));
}
/* scale(v, m) clamped to [lo, hi], with m for each lane (even and odd lanes apart) and the shift of `m`. */
V8 v8_scale_by(__m256i v, __m256i m_even, __m256i m_odd, v8_mul m, int64_t lo, int64_t hi)
{
    const __m256i even = v8_round(_mm256_mul_epi32(v, m_even), m),
                  odd = v8_round(_mm256_mul_epi32(v8_odd(v), m_odd), m);
    return v8_join(v8_clamp64(even, lo, hi), v8_clamp64(odd, lo, hi));
}
V8 v8_scale(__m256i v, v8_mul m, int64_t lo, int64_t hi) { return v8_scale_by(v, m.m, m.m, m, lo, hi); }
/* scale(v, m) where the result is known to fit s32. */
V8 v8_scale_fits(__m256i v, v8_mul m)
{
    return v8_join(v8_round(_mm256_mul_epi32(v, m.m), m), v8_round(_mm256_mul_epi32(v8_odd(v), m.m), m));
}

V8 v8_mulh(__m256i a, __m256i b)
{
    const __m256i half = _mm256_set1_epi64x(1 << 30);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(a, b), half);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(v8_odd(a), v8_odd(b)), half);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);
}
V8 v8_rdp(__m256i a, int e)
{
    const __m256i rest = _mm256_and_si256(a, v8_set((1 << e) - 1));
    const __m256i limit = _mm256_sub_epi32(v8_set(((1 << e) - 1) >> 1), _mm256_srai_epi32(a, 31));
    return _mm256_sub_epi32(_mm256_srai_epi32(a, e), _mm256_cmpgt_epi32(rest, limit));
}
V8 v8_exp(__m256i a)
{
    static const int32_t step[7] = INT_EXP_STEPS;
    const __m256i m = _mm256_sub_epi32(_mm256_and_si256(a, v8_set((1 << 24) - 1)), v8_set(1 << 24)),
                  rest = _mm256_sub_epi32(m, a);
    const __m256i x = _mm256_add_epi32(_mm256_slli_epi32(m, 5), v8_set(1 << 28)), x2 = v8_mulh(x, x);
    const __m256i high = _mm256_add_epi32(v8_rdp(v8_mulh(x2, x2), 2), v8_mulh(x2, x));
    const __m256i poly = _mm256_add_epi32(x, v8_rdp(_mm256_add_epi32(v8_mulh(high, v8_set(INT_THIRD)), x2), 1));
    __m256i e = _mm256_add_epi32(v8_set(INT_EXP_EIGHTH), v8_mulh(v8_set(INT_EXP_EIGHTH), poly));
    for (int i = 0; i < 7; i++) {
        const __m256i has = _mm256_srai_epi32(_mm256_slli_epi32(rest, 7 - i), 31); /* bit 24 + i everywhere */
        e = _mm256_blendv_epi8(e, v8_mulh(e, v8_set(step[i])), has);
    }
    return _mm256_blendv_epi8(e, v8_set(INT32_MAX), _mm256_cmpeq_epi32(a, _mm256_setzero_si256()));
}
V8 v8_one_over_one_plus(__m256i a)
{
    /* (a + 2^31) / 2 as an unsigned number below 2^31 */
    const __m256i half = _mm256_srli_epi32(_mm256_add_epi32(a, v8_set(INT32_MIN)), 1);
    __m256i x = _mm256_sub_epi32(v8_set(INT_48_17), v8_mulh(half, v8_set(INT_32_17)));
    for (int i = 0; i < 3; i++) {
        const __m256i rest = _mm256_sub_epi32(v8_set(1 << 29), v8_mulh(half, x));
        x = _mm256_add_epi32(x, _mm256_slli_epi32(v8_mulh(x, rest), 2));
    }
    const __m256i over = _mm256_cmpgt_epi32(x, v8_set((1 << 30) - 1));
    return _mm256_blendv_epi8(_mm256_slli_epi32(x, 1), v8_set(INT32_MAX), over);
}

/* int_from_f16 of eight. */
V8 v8_from_f16(const uint16_t *p, int shift)
{
    const __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), zero = _mm256_setzero_si256();
    const __m256i e = _mm256_and_si256(_mm256_srli_epi32(h, 10), v8_set(31));
    const __m256i normal = _mm256_cmpgt_epi32(e, zero), sign = _mm256_srai_epi32(_mm256_slli_epi32(h, 16), 31);
    const __m256i mant = _mm256_or_si256(_mm256_and_si256(h, v8_set(0x3ff)), _mm256_and_si256(normal, v8_set(0x400)));
    const __m256i up = _mm256_add_epi32(_mm256_max_epi32(e, v8_set(1)), v8_set(shift - 25));
    const __m256i left = _mm256_min_epi32(_mm256_max_epi32(up, zero), v8_set(16));
    const __m256i right = _mm256_min_epi32(_mm256_max_epi32(_mm256_sub_epi32(zero, up), zero), v8_set(30));
    __m256i v = _mm256_sllv_epi32(mant, left);
    v = _mm256_blendv_epi8(v, v8_set(1 << 26), _mm256_cmpeq_epi32(e, v8_set(31)));
    v = _mm256_sub_epi32(_mm256_xor_si256(v, sign), sign);
    v = _mm256_add_epi32(v, _mm256_srli_epi32(_mm256_sllv_epi32(v8_set(1), right), 1));
    return v8_clamp(_mm256_srav_epi32(v, right), BT_INT_MAX16);
}
/* int_from_q8 of eight. */
V8 v8_from_q8(const int8_t *p, int_q8 s)
{
    const __m256i v =
        _mm256_mullo_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)), v8_set(s.mant * (1 << s.up)));
    const __m256i half = v8_set(s.down ? 1 << (s.down - 1) : 0);
    return v8_clamp(_mm256_sra_epi32(_mm256_add_epi32(v, half), _mm_cvtsi32_si128((int)s.down)), BT_INT_MAX16);
}
#endif
