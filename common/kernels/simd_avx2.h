#ifndef BT_KERNELS_SIMD_AVX2_H
#define BT_KERNELS_SIMD_AVX2_H
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* v16: the 16 lanes of the orders in kernels.h, here as two AVX2 registers. simd_avx512.h and simd_neon.h define the
 * same names over one and over four registers; kernel bodies (*_body.h) are written once over v16. load_n and store_n
 * touch the first n <= 16 elements only; load_n makes the other lanes +0. */
#define BT_VARIANT(name) name##_avx2
#define BT_V16_REGS      2
#define BT_INLINE        static inline __attribute__((always_inline, unused))
#define BT_NOINLINE      static __attribute__((noinline))

typedef struct v16 {
    __m256 a, b;
} v16;

BT_INLINE v16 v16_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
BT_INLINE v16 v16_set1(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
/* set1 of a float in memory, loaded anew at each use: where registers are short, a load costs less than a register that
 * keeps the float. */
BT_INLINE v16 v16_broadcast(const float *p)
{
    __m256 x;
    __asm__ volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(*p));
    return (v16){x, x};
}
BT_INLINE float v16_first(v16 x) { return _mm256_cvtss_f32(x.a); }
BT_INLINE v16 v16_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
BT_INLINE void v16_store(float *p, v16 x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
BT_INLINE v16 v16_add(v16 x, v16 y) { return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
BT_INLINE v16 v16_sub(v16 x, v16 y) { return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
BT_INLINE v16 v16_mul(v16 x, v16 y) { return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
BT_INLINE v16 v16_div(v16 x, v16 y) { return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
BT_INLINE v16 v16_min(v16 x, v16 y) { return (v16){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
BT_INLINE v16 v16_max(v16 x, v16 y) { return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
/* x * y + z and z - x * y, one rounding */
BT_INLINE v16 v16_fma(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
BT_INLINE v16 v16_fnma(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
BT_INLINE v16 v16_neg(v16 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
/* x where y >= z, else +0 */
BT_INLINE v16 v16_where_ge(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_and_ps(x.a, _mm256_cmp_ps(y.a, z.a, _CMP_GE_OQ)),
                 _mm256_and_ps(x.b, _mm256_cmp_ps(y.b, z.b, _CMP_GE_OQ))};
}
/* Whether x >= y in any lane. */
BT_INLINE int v16_any_ge(v16 x, v16 y)
{
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)));
}
BT_INLINE __m256 v8_where_bits(__m256 x, __m256i bits, const int32_t *lane)
{
    const __m256i both = _mm256_and_si256(bits, _mm256_loadu_si256((const void *)lane));
    const __m256 none = _mm256_castsi256_ps(_mm256_cmpeq_epi32(both, _mm256_setzero_si256()));
    return _mm256_blendv_ps(x, _mm256_set1_ps(-__builtin_inff()), none);
}
/* x in lanes with bits & lane[i] != 0, else -inf */
BT_INLINE v16 v16_where_bits(v16 x, int bits, const int32_t *lane)
{
    const __m256i all = _mm256_set1_epi32(bits);
    return (v16){v8_where_bits(x.a, all, lane), v8_where_bits(x.b, all, lane + 8)};
}
/* The float with the bits (bits of x + add) << shift. */
BT_INLINE v16 v16_bits_add_shift(v16 x, int add, int shift)
{
    const __m256i k = _mm256_set1_epi32(add);
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(x.a), k), shift)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(x.b), k), shift))};
}

BT_INLINE __m256i v16_mask8(size_t first, size_t n)
{
    const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)first));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}
BT_INLINE v16 v16_load_n(const float *p, size_t n)
{
    if (n == 16) return v16_load(p);
    v16 x = {_mm256_maskload_ps(p, v16_mask8(0, n)), _mm256_setzero_ps()};
    if (n > 8) x.b = _mm256_maskload_ps(p + 8, v16_mask8(8, n));
    return x;
}
BT_INLINE void v16_store_n(float *p, v16 x, size_t n)
{
    if (n == 16) { /* masked stores are slow on some CPUs */
        v16_store(p, x);
        return;
    }
    _mm256_maskstore_ps(p, v16_mask8(0, n), x.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, v16_mask8(8, n), x.b);
}
/* Stores x as integers, nearest even. */
BT_INLINE void v16_store_s32(int32_t *p, v16 x)
{
    _mm256_storeu_si256((void *)p, _mm256_cvtps_epi32(x.a));
    _mm256_storeu_si256((void *)(p + 8), _mm256_cvtps_epi32(x.b));
}
BT_INLINE unsigned v8_bits_within(__m256 x, __m256 low, __m256 high)
{
    return (unsigned)_mm256_movemask_ps(_mm256_and_ps(_mm256_cmp_ps(x, low, _CMP_GE_OQ),
                                                      _mm256_cmp_ps(x, high, _CMP_LE_OQ)));
}
/* A bit for each lane: whether low <= x <= high. */
BT_INLINE unsigned v16_bits_within(v16 x, v16 low, v16 high)
{
    return v8_bits_within(x.a, low.a, high.a) | v8_bits_within(x.b, low.b, high.b) << 8;
}
BT_INLINE v16 v16_load_f16(const uint16_t *p)
{
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8)))};
}
BT_INLINE v16 v16_load_s8(const int8_t *p)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p))),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 8))))};
}
/* 8 lanes from a, then 8 from b. */
BT_INLINE v16 v16_load_s8x8(const int8_t *a, const int8_t *b)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)a))),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)b)))};
}
/* 64 bytes of FP4 codes: 8 inputs of 16 outputs, laid out as forms.h says. The codes become floats in three steps:
 *   codes_low, codes_high   a code q becomes the byte 0x80 | q << 3: q of the low four bits of each byte (inputs 0 to
 *                           3), or of the high four (inputs 4 to 7)
 *   words_low, words_high   the byte becomes the word 0x3F80 | q << 3: of the first two of four inputs, or of the last
 *                           two
 *   even, odd               the word in the upper half of a lane is the float h of forms.h: of the first input, or of
 *                           the second
 * AVX2 takes 17 operations for 64 weights. */
typedef struct v16_codes {
    __m256i a, b;
} v16_codes;

BT_INLINE v16_codes v16_codes_load(const uint8_t *p)
{
    return (v16_codes){_mm256_loadu_si256((const void *)p), _mm256_loadu_si256((const void *)(p + 32))};
}
BT_INLINE __m256i v16_fp4_bytes(__m256i x)
{
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_set_epi64x((long long)0xf8f0e8e0d8d0c8c0, (long long)0xb8b0a8a098908880));
    return _mm256_shuffle_epi8(table, _mm256_and_si256(x, _mm256_set1_epi8(15)));
}
BT_INLINE v16_codes v16_codes_low(v16_codes x) { return (v16_codes){v16_fp4_bytes(x.a), v16_fp4_bytes(x.b)}; }
BT_INLINE v16_codes v16_codes_high(v16_codes x)
{
    return (v16_codes){v16_fp4_bytes(_mm256_srli_epi16(x.a, 4)), v16_fp4_bytes(_mm256_srli_epi16(x.b, 4))};
}
BT_INLINE v16_codes v16_words_low(v16_codes x)
{
    const __m256i top = _mm256_set1_epi8(0x3f);
    return (v16_codes){_mm256_unpacklo_epi8(x.a, top), _mm256_unpacklo_epi8(x.b, top)};
}
BT_INLINE v16_codes v16_words_high(v16_codes x)
{
    const __m256i top = _mm256_set1_epi8(0x3f);
    return (v16_codes){_mm256_unpackhi_epi8(x.a, top), _mm256_unpackhi_epi8(x.b, top)};
}
BT_INLINE v16 v16_even(v16_codes x)
{
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(x.a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(x.b, 16))};
}
BT_INLINE v16 v16_odd(v16_codes x)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    return (v16){_mm256_castsi256_ps(_mm256_and_si256(x.a, upper)), _mm256_castsi256_ps(_mm256_and_si256(x.b, upper))};
}
/* MX's codes in the same places: nibbles_low, nibbles_high give the codes as bytes, mx_low, mx_high the upper halves of
 * the floats q of forms.h, made of two tables; even and odd as above. */
BT_INLINE v16_codes v16_nibbles_low(v16_codes x)
{
    const __m256i all = _mm256_set1_epi8(15);
    return (v16_codes){_mm256_and_si256(x.a, all), _mm256_and_si256(x.b, all)};
}
BT_INLINE v16_codes v16_nibbles_high(v16_codes x)
{
    return v16_nibbles_low((v16_codes){_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}
BT_INLINE __m256i v16_mx_bytes(__m256i x, long long low, long long high)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_set_epi64x(high, low)), x);
}
BT_INLINE __m256i v16_mx_first(__m256i x) { return v16_mx_bytes(x, BT_MX_FIRST, BT_MX_FIRST); }
BT_INLINE __m256i v16_mx_second(__m256i x) { return v16_mx_bytes(x, BT_MX_SECOND, BT_MX_SECOND_NEG); }
BT_INLINE v16_codes v16_mx_low(v16_codes x)
{
    return (v16_codes){_mm256_unpacklo_epi8(v16_mx_first(x.a), v16_mx_second(x.a)),
                       _mm256_unpacklo_epi8(v16_mx_first(x.b), v16_mx_second(x.b))};
}
BT_INLINE v16_codes v16_mx_high(v16_codes x)
{
    return (v16_codes){_mm256_unpackhi_epi8(v16_mx_first(x.a), v16_mx_second(x.a)),
                       _mm256_unpackhi_epi8(v16_mx_first(x.b), v16_mx_second(x.b))};
}
/* The floats 2^(e - 128) of 16 bytes e. */
BT_INLINE __m256 v8_load_e8m0(const uint8_t *p)
{
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)), one = _mm256_set1_epi32(1);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, bits, _mm256_cmpgt_epi32(e, one)));
}
BT_INLINE v16 v16_load_e8m0(const uint8_t *p) { return (v16){v8_load_e8m0(p), v8_load_e8m0(p + 8)}; }
BT_INLINE void v16_store_f16(uint16_t *p, v16 x)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((void *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
/* First step of the tree of kernels.h: lane j plus, or max, lane j + 8. */
BT_INLINE __m256 v16_fold(v16 x) { return _mm256_add_ps(x.a, x.b); }
BT_INLINE __m256 v16_fold_max(v16 x) { return _mm256_max_ps(x.a, x.b); }

#include "kernels/simd_x86.h"
#endif
