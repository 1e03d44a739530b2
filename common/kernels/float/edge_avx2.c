/* The kernels of edge.h for AVX2: edge_body.h over simd_avx2.h. */
#include "kernels/variant.h"

#if defined(__AVX2__)
#include "kernels/simd_avx2.h"

/* One bit for each lane: whether its integer is outside [low, high]. */
BT_INLINE unsigned beyond8(__m256 x, int32_t low, int32_t high)
{
    const __m256i q = _mm256_cvtps_epi32(x);
    const __m256i over = _mm256_or_si256(_mm256_cmpgt_epi32(q, _mm256_set1_epi32(high)),
                                         _mm256_cmpgt_epi32(_mm256_set1_epi32(low), q));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(over));
}
BT_INLINE unsigned v16_beyond(v16 x, int32_t low, int32_t high)
{
    return beyond8(x.a, low, high) | beyond8(x.b, low, high) << 8;
}
/* Integers clamped to the range of s16. */
BT_INLINE __m256i v16_to_s16(v16 x)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)),
                                    0xd8);
}
/* s8 from s16, clamped to the range of s8. */
BT_INLINE __m128i s16_to_s8(__m256i x)
{
    return _mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
/* Integers plus range.zero, clamped to [range.least, 127]; *over: whether any was beyond. */
BT_INLINE __m128i v16_to_s8_in(v16 x, bt_int_range range, int *over)
{
    const __m256i q = _mm256_adds_epi16(v16_to_s16(x), _mm256_set1_epi16(range.zero)),
                  limit = _mm256_set1_epi16(127), low = _mm256_set1_epi16(range.least);
    const __m256i beyond = _mm256_or_si256(_mm256_cmpgt_epi16(q, limit), _mm256_cmpgt_epi16(low, q));
    *over = !_mm256_testz_si256(beyond, beyond);
    return s16_to_s8(_mm256_max_epi16(q, low));
}

BT_INLINE v16 v16_from_s8(const int8_t *p)
{
    const __m128i v = _mm_loadu_si128((const void *)p);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}
BT_INLINE v16 v16_from_s32(const int32_t *p)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_loadu_si256((const void *)p)),
                 _mm256_cvtepi32_ps(_mm256_loadu_si256((const void *)(p + 8)))};
}
/* A double holds 256 * hi + lo exactly, so only the conversion to float rounds. */
BT_INLINE __m128 planes4(const int32_t *hi, const int32_t *lo)
{
    const __m256d h = _mm256_cvtepi32_pd(_mm_loadu_si128((const void *)hi));
    const __m256d l = _mm256_cvtepi32_pd(_mm_loadu_si128((const void *)lo));
    return _mm256_cvtpd_ps(_mm256_add_pd(_mm256_mul_pd(h, _mm256_set1_pd(256)), l));
}
BT_INLINE v16 v16_from_planes(const int32_t *hi, const int32_t *lo)
{
    return (v16){_mm256_set_m128(planes4(hi + 4, lo + 4), planes4(hi, lo)),
                 _mm256_set_m128(planes4(hi + 12, lo + 12), planes4(hi + 8, lo + 8))};
}
/* Floats of |p[..]| < 2^53. AVX2 has no conversion from s64. The high half with its sign flipped becomes the
 * mantissa of a double of exponent 2^84, the low half that of one of exponent 2^52. Subtracting 2^84 + 2^63 +
 * 2^52 is exact, and so is the sum of both. */
BT_INLINE __m128 from_s64_4(const int64_t *p)
{
    const __m256i v = _mm256_loadu_si256((const void *)p);
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(v, 32), _mm256_set1_epi64x(0x4530000080000000));
    const __m256i low = _mm256_blend_epi32(v, _mm256_set1_epi64x(0x4330000000000000), 0xaa);
    const __m256d h = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52));
    return _mm256_cvtpd_ps(_mm256_add_pd(h, _mm256_castsi256_pd(low)));
}
BT_INLINE v16 v16_from_s64(const int64_t *p)
{
    return (v16){_mm256_set_m128(from_s64_4(p + 4), from_s64_4(p)),
                 _mm256_set_m128(from_s64_4(p + 12), from_s64_4(p + 8))};
}

/* Butterflies of lengths 1, 2 and 4 in 8 lanes: both lanes of a pair (a, b) get a, then + b or - b. */
BT_INLINE __m256 butterflies8(__m256 x)
{
    const __m256 m = _mm256_set1_ps(-0.0f), z = _mm256_setzero_ps();
    __m256 b = _mm256_xor_ps(_mm256_movehdup_ps(x), _mm256_blend_ps(z, m, 0xaa));
    x = _mm256_add_ps(_mm256_moveldup_ps(x), b);
    b = _mm256_xor_ps(_mm256_shuffle_ps(x, x, 0xee), _mm256_blend_ps(z, m, 0xcc));
    x = _mm256_add_ps(_mm256_shuffle_ps(x, x, 0x44), b);
    b = _mm256_xor_ps(_mm256_permute2f128_ps(x, x, 0x11), _mm256_blend_ps(z, m, 0xf0));
    return _mm256_add_ps(_mm256_permute2f128_ps(x, x, 0x00), b);
}
/* Lengths 1, 2, 4 and 8. */
BT_INLINE v16 v16_butterflies(v16 x)
{
    const __m256 a = butterflies8(x.a), b = butterflies8(x.b);
    return (v16){_mm256_add_ps(a, b), _mm256_sub_ps(a, b)};
}

#include "kernels/float/edge_x86.h"

#include "kernels/float/edge_body.h"
#include "kernels/float/kvstore_body.h"
#endif
