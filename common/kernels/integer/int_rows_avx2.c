/* The integer kernels around the product for AVX2: unpacking weights of 4 bits, palettes and groups, joining
 * planes, the shadow, requantisation. */
#include "kernels/variant.h"

#if defined(__AVX2__)
#include "kernels/integer/int_simd.h"

/* 64 numbers of 4 bits as bytes, in order: 32 in a, 32 in b. unpack works within 128-bit halves, so the
 * permute first gives each half the bytes that it needs. */
INT_INLINE void nibbles(__m256i *a, __m256i *b, const uint8_t *from)
{
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i v = _mm256_permute4x64_epi64(_mm256_loadu_si256((const void *)from), 0xd8);
    const __m256i even = _mm256_and_si256(v, low), odd = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    *a = _mm256_unpacklo_epi8(even, odd);
    *b = _mm256_unpackhi_epi8(even, odd);
}

void bt_int_unpack4_avx2(int8_t *restrict to, const uint8_t *restrict wp4, size_t k4, size_t p0, size_t p1)
{
    const uint8_t *from = wp4 + p0 * k4 * 32;
    const __m256i eight = _mm256_set1_epi8(8);
    for (size_t i = 0; i < (p1 - p0) * k4; i++, from += 32, to += 64) {
        __m256i a, b;
        nibbles(&a, &b, from);
        _mm256_storeu_si256((void *)to, _mm256_sub_epi8(_mm256_xor_si256(a, eight), eight));
        _mm256_storeu_si256((void *)(to + 32), _mm256_sub_epi8(_mm256_xor_si256(b, eight), eight));
    }
}

/* The palette entries of 32 indices, four of each of eight outputs. low: their low four bits; upper: a byte
 * for each output, with the upper two bits of its four indices. */
INT_INLINE __m256i pick64(const __m256i table[4], __m256i low, __m128i upper)
{
    const __m256i four = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5,
                                          5, 6, 6, 6, 6, 7, 7, 7, 7);
    const __m256i bit[2] = {_mm256_set1_epi32(0x40100401), _mm256_set1_epi32((int)0x80200802)};
    const __m256i v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(upper), four);
    const __m256i is_odd = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit[0]), bit[0]),
                  is_high = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit[1]), bit[1]);
    __m256i half[2];
    for (size_t i = 0; i < 2; i++)
        half[i] = _mm256_blendv_epi8(_mm256_shuffle_epi8(table[2 * i], low),
                                     _mm256_shuffle_epi8(table[2 * i + 1], low), is_odd);
    return _mm256_blendv_epi8(half[0], half[1], is_high);
}

void bt_int_palette_avx2(int8_t *restrict to, const uint8_t *restrict wp, unsigned bits,
                         const int8_t *restrict palettes, size_t k4, size_t run4, size_t p0, size_t p1)
{
    const size_t runs = k4 / run4;
    const uint8_t *from = wp + p0 * k4 * 8 * bits;
    for (size_t r = p0 * runs; r < p1 * runs; r++) {
        __m256i table[4], a, b;
        for (size_t i = 0; i < 4 && 16 * i < (size_t)1 << bits; i++)
            table[i] =
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(palettes + (r << bits) + 16 * i)));
        for (size_t k = 0; k < run4; k++, from += 8 * bits, to += 64) {
            nibbles(&a, &b, from);
            if (bits == 4) {
                a = _mm256_shuffle_epi8(table[0], a), b = _mm256_shuffle_epi8(table[0], b);
            } else {
                a = pick64(table, a, _mm_loadl_epi64((const void *)(from + 32)));
                b = pick64(table, b, _mm_loadl_epi64((const void *)(from + 40)));
            }
            _mm256_storeu_si256((void *)to, a);
            _mm256_storeu_si256((void *)(to + 32), b);
        }
    }
}

/* Splits 32 weights, four of each of eight outputs, into planes. step, offset: [2], for 16 weights each. */
INT_INLINE void planes32(int8_t *low, int8_t *high, __m256i w, const __m256i *step, const __m256i *offset)
{
    const __m256i half = _mm256_set1_epi16(64);
    __m256i v[2] = {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(w)),
                    _mm256_cvtepi8_epi16(_mm256_extracti128_si256(w, 1))},
            h[2];
    for (size_t i = 0; i < 2; i++) {
        v[i] = _mm256_add_epi16(_mm256_mullo_epi16(v[i], step[i]), offset[i]);
        h[i] = _mm256_srai_epi16(_mm256_add_epi16(v[i], half), 7);
        v[i] = _mm256_sub_epi16(v[i], _mm256_slli_epi16(h[i], 7));
    }
    _mm256_storeu_si256((void *)high, _mm256_permute4x64_epi64(_mm256_packs_epi16(h[0], h[1]), 0xd8));
    _mm256_storeu_si256((void *)low, _mm256_permute4x64_epi64(_mm256_packs_epi16(v[0], v[1]), 0xd8));
}

/* Repeats each of 16 words four times. */
INT_INLINE void spread16(__m256i to[4], const int16_t *from)
{
    const __m256i four = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4,
                                          5, 6, 7, 6, 7, 6, 7, 6, 7);
    for (size_t i = 0; i < 4; i++)
        to[i] =
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadl_epi64((const void *)(from + 4 * i))),
                                four);
}

void bt_int_planes_avx2(int8_t *restrict low, int8_t *restrict high, const uint8_t *restrict wp,
                        unsigned bits, const bt_int_group *restrict groups, size_t k4, size_t group4,
                        size_t p0, size_t p1)
{
    const __m256i fifteen = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);
    const size_t count = k4 / group4;
    const uint8_t *from = wp + p0 * k4 * (bits == 4 ? 32 : 64);
    for (const bt_int_group *g = groups + p0 * count; g < groups + p1 * count; g++) {
        __m256i step[4], offset[4];
        spread16(step, g->step);
        spread16(offset, g->offset);
        for (size_t k = 0; k < group4; k++, low += 64, high += 64) {
            __m256i half[2];
            if (bits == 4) {
                const __m256i w = _mm256_permute4x64_epi64(_mm256_loadu_si256((const void *)from), 0xd8);
                const __m256i even = _mm256_and_si256(w, fifteen),
                              odd = _mm256_and_si256(_mm256_srli_epi16(w, 4), fifteen);
                half[0] = _mm256_sub_epi8(_mm256_xor_si256(_mm256_unpacklo_epi8(even, odd), eight), eight);
                half[1] = _mm256_sub_epi8(_mm256_xor_si256(_mm256_unpackhi_epi8(even, odd), eight), eight);
                from += 32;
            } else {
                half[0] = _mm256_loadu_si256((const void *)from);
                half[1] = _mm256_loadu_si256((const void *)(from + 32));
                from += 64;
            }
            planes32(low, high, half[0], step, offset);
            planes32(low + 32, high + 32, half[1], step + 2, offset + 2);
        }
    }
}

/* Four sums of a plane, as s64. */
INT_INLINE __m256i plane4(bt_int_plane_sums p, size_t i)
{
    const __m256i hi = _mm256_cvtepi32_epi64(_mm_loadu_si128((const void *)(p.hi + i)));
    if (!p.lo) return hi;
    return _mm256_add_epi64(_mm256_slli_epi64(hi, 8),
                            _mm256_cvtepi32_epi64(_mm_loadu_si128((const void *)(p.lo + i))));
}

void bt_int_join_avx2(int64_t *restrict v, bt_int_plane_sums high, bt_int_plane_sums low, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        const __m256i planes = _mm256_add_epi64(_mm256_slli_epi64(plane4(high, i), 7), plane4(low, i));
        _mm256_storeu_si256((void *)(v + i),
                            _mm256_add_epi64(_mm256_loadu_si256((const void *)(v + i)), planes));
    }
}

void bt_int_shadow_avx2(int64_t *restrict acc, const bt_int_shadow *shadow, size_t count,
                        const int8_t *restrict wp, size_t k4, size_t p0, size_t p1)
{
    for (size_t p = p0; p < p1; p++, acc += 16) {
        __m256i sum[4];
        for (size_t j = 0; j < 4; j++) sum[j] = _mm256_loadu_si256((const void *)(acc + 4 * j));
        for (size_t i = 0; i < count; i++) {
            const int8_t *w = wp + (p * k4 + shadow[i].k / 4) * 64;
            const __m128i up = _mm_cvtsi32_si128((int)(24 - shadow[i].k % 4 * 8)); /* its byte to the top */
            const __m256i r = _mm256_set1_epi32(shadow[i].r);
            for (size_t h = 0; h < 2; h++) {
                const __m256i v = _mm256_sll_epi32(_mm256_loadu_si256((const void *)(w + 32 * h)), up);
                const __m256i y = _mm256_mullo_epi32(_mm256_srai_epi32(v, 24), r);
                sum[2 * h] = _mm256_add_epi64(sum[2 * h], _mm256_cvtepi32_epi64(_mm256_castsi256_si128(y)));
                sum[2 * h + 1] =
                    _mm256_add_epi64(sum[2 * h + 1], _mm256_cvtepi32_epi64(_mm256_extracti128_si256(y, 1)));
            }
        }
        for (size_t j = 0; j < 4; j++) _mm256_storeu_si256((void *)(acc + 4 * j), sum[j]);
    }
}

/* floor(v / 2^s). AVX2 has no arithmetic shift of 64 bits, so 2^63 is added before a logical shift, and
 * 2^(63 - s) subtracted after it. */
INT_INLINE __m256i shift4(__m256i v, __m256i s)
{
    const __m256i top = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_xor_si256(v, top), s), _mm256_srlv_epi64(top, s));
}

/* floor(v * m / 2^s + 1/2) for four v of s32, each in the low half of its lane: |v * m| < 2^62, so all fits
 * s64. */
INT_INLINE __m256i scale4(__m256i v, __m256i m, __m256i s)
{
    const __m256i one = _mm256_set1_epi64x(1), half = _mm256_sllv_epi64(one, _mm256_sub_epi64(s, one));
    return shift4(_mm256_add_epi64(_mm256_mul_epi32(v, m), half), s);
}

/* The same for |v| < 2^62 and s >= 33, with v = 2^32 * high + low. The added half is a multiple of 2^32, so
 * the bits of low * m below 2^32 cannot change the result. */
INT_INLINE __m256i scale4_wide(__m256i v, __m256i m, __m256i s)
{
    const __m256i high = _mm256_mul_epi32(_mm256_srli_epi64(v, 32), m);
    const __m256i low = _mm256_srli_epi64(_mm256_mul_epu32(v, m), 32);
    const __m256i half =
        _mm256_sllv_epi64(_mm256_set1_epi64x(1), _mm256_sub_epi64(s, _mm256_set1_epi64x(33)));
    return shift4(_mm256_add_epi64(_mm256_add_epi64(high, low), half),
                  _mm256_sub_epi64(s, _mm256_set1_epi64x(32)));
}

INT_INLINE __m256i shifts4(const uint8_t *s)
{
    int32_t four;
    memcpy(&four, s, sizeof four);
    return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
}
INT_INLINE __m256i multipliers4(const int32_t *m)
{
    return _mm256_cvtepi32_epi64(_mm_loadu_si128((const void *)m));
}

/* Stores four results, clamped to [-limit, limit]. */
INT_INLINE void store4(int16_t *y, __m256i v, int16_t limit)
{
    const __m256i high = _mm256_set1_epi64x(limit), low = _mm256_set1_epi64x(-limit);
    v = _mm256_blendv_epi8(v, high, _mm256_cmpgt_epi64(v, high));
    v = _mm256_blendv_epi8(v, low, _mm256_cmpgt_epi64(low, v));
    const __m256i halves = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    const __m128i four = _mm256_castsi256_si128(halves);
    _mm_storel_epi64((void *)y, _mm_packs_epi32(four, four));
}

static int16_t requant1(int64_t v, int32_t m, uint8_t s, int16_t limit)
{
    const int64_t y = bt_int_scale1(v, m, s);
    return (int16_t)(y < -limit ? -limit : y > limit ? limit : y);
}

void bt_int_requant32_avx2(int16_t *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                           const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                           size_t n)
{
    for (size_t row = 0; row < t; row++, y += ldy, acc += ldacc) {
        size_t i = 0;
        for (; i + 4 <= n; i += 4) {
            __m256i v = _mm256_cvtepi32_epi64(_mm_loadu_si128((const void *)(acc + i)));
            if (bias) v = _mm256_add_epi64(v, _mm256_loadu_si256((const void *)(bias + i)));
            /* whether v equals its low half, sign extended: fits s32 */
            const __m256i sign = _mm256_srai_epi32(_mm256_shuffle_epi32(v, 0xa0), 31);
            const __m256i narrow = _mm256_blend_epi32(v, sign, 0xaa);
            if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(v, narrow)) == -1) {
                store4(y + i, scale4(v, multipliers4(m + i), shifts4(s + i)), limit);
                continue;
            }
            for (size_t j = i; j < i + 4; j++)
                y[j] = requant1(acc[j] + (bias ? bias[j] : 0), m[j], s[j], limit);
        }
        for (; i < n; i++) y[i] = requant1(acc[i] + (bias ? bias[i] : 0), m[i], s[i], limit);
    }
}

void bt_int_requant64_avx2(int16_t *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                           const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                           size_t n)
{
    const __m256i least = _mm256_set1_epi64x(32);
    for (size_t row = 0; row < t; row++, y += ldy, acc += ldacc) {
        size_t i = 0;
        for (; i + 4 <= n; i += 4) {
            const __m256i shift = shifts4(s + i);
            if (_mm256_movemask_epi8(_mm256_cmpgt_epi64(shift, least)) == -1) {
                __m256i v = _mm256_loadu_si256((const void *)(acc + i));
                if (bias) v = _mm256_add_epi64(v, _mm256_loadu_si256((const void *)(bias + i)));
                store4(y + i, scale4_wide(v, multipliers4(m + i), shift), limit);
                continue;
            }
            for (size_t j = i; j < i + 4; j++)
                y[j] = requant1(acc[j] + (bias ? bias[j] : 0), m[j], s[j], limit);
        }
        for (; i < n; i++) y[i] = requant1(acc[i] + (bias ? bias[i] : 0), m[i], s[i], limit);
    }
}
#endif
