/* The kernels of edge.h for AVX-512 F, BW, VL and DQ: edge_body.h over simd_avx512.h. edge_avx2.c says what
 * each conversion means. */
#include "kernels/variant.h"

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"

BT_INLINE unsigned outside(__m512i q, int32_t low, int32_t high)
{
    return _mm512_cmpgt_epi32_mask(q, _mm512_set1_epi32(high)) |
           _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(low), q);
}
BT_INLINE unsigned v16_beyond(v16 x, int32_t low, int32_t high)
{
    return outside(_mm512_cvtps_epi32(x), low, high);
}
BT_INLINE __m256i v16_to_s16(v16 x) { return _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)); }
BT_INLINE __m128i s16_to_s8(__m256i x) { return _mm256_cvtsepi16_epi8(x); }
BT_INLINE __m128i v16_to_s8_in(v16 x, bt_int_range range, int *over)
{
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(range.zero));
    *over = outside(q, range.least, 127) != 0;
    return _mm_max_epi8(_mm512_cvtsepi32_epi8(q), _mm_set1_epi8((char)range.least));
}

BT_INLINE v16 v16_from_s8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
BT_INLINE v16 v16_from_s32(const int32_t *p) { return _mm512_cvtepi32_ps(_mm512_loadu_si512(p)); }
BT_INLINE v16 v16_pair(__m256 a, __m256 b) { return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1); }
BT_INLINE __m256 planes8(const int32_t *hi, const int32_t *lo)
{
    const __m512d h = _mm512_cvtepi32_pd(_mm256_loadu_si256((const void *)hi));
    const __m512d l = _mm512_cvtepi32_pd(_mm256_loadu_si256((const void *)lo));
    return _mm512_cvtpd_ps(_mm512_add_pd(_mm512_mul_pd(h, _mm512_set1_pd(256)), l));
}
BT_INLINE v16 v16_from_planes(const int32_t *hi, const int32_t *lo)
{
    return v16_pair(planes8(hi, lo), planes8(hi + 8, lo + 8));
}
BT_INLINE v16 v16_from_s64(const int64_t *p)
{
    return v16_pair(_mm512_cvtepi64_ps(_mm512_loadu_si512(p)), _mm512_cvtepi64_ps(_mm512_loadu_si512(p + 8)));
}

/* One length of butterflies. first: a of each lane's pair, second: b; lanes of the mask get a - b, others a +
 * b. */
BT_INLINE v16 butterfly(v16 first, v16 second, int mask)
{
    return _mm512_add_ps(first, _mm512_mask_xor_ps(second, (__mmask16)mask, second, _mm512_set1_ps(-0.0f)));
}
BT_INLINE v16 v16_butterflies(v16 x)
{
    x = butterfly(_mm512_moveldup_ps(x), _mm512_movehdup_ps(x), 0xaaaa);
    x = butterfly(_mm512_shuffle_ps(x, x, 0x44), _mm512_shuffle_ps(x, x, 0xee), 0xcccc);
    x = butterfly(_mm512_shuffle_f32x4(x, x, 0xa0), _mm512_shuffle_f32x4(x, x, 0xf5), 0xf0f0);
    return butterfly(_mm512_shuffle_f32x4(x, x, 0x44), _mm512_shuffle_f32x4(x, x, 0xee), 0xff00);
}

#include "kernels/float/edge_x86.h"

#include "kernels/float/edge_body.h"
#include "kernels/float/kvstore_body.h"
#endif
