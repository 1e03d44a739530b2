#ifndef BT_KERNELS_SIMD_AVX512_H
#define BT_KERNELS_SIMD_AVX512_H
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* v16 as one AVX-512 register, with the names and meanings of simd_avx2.h. */
#define BT_VARIANT(name) name##_avx512
#define BT_V16_REGS      1
#define BT_INLINE        static inline __attribute__((always_inline, unused))
#define BT_NOINLINE      static __attribute__((noinline))

typedef __m512 v16;

BT_INLINE v16 v16_zero(void) { return _mm512_setzero_ps(); }
BT_INLINE v16 v16_set1(float x) { return _mm512_set1_ps(x); }
BT_INLINE v16 v16_broadcast(const float *p) { return _mm512_set1_ps(*p); }
BT_INLINE float v16_first(v16 x) { return _mm512_cvtss_f32(x); }
BT_INLINE v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
BT_INLINE void v16_store(float *p, v16 x) { _mm512_storeu_ps(p, x); }
BT_INLINE v16 v16_add(v16 x, v16 y) { return _mm512_add_ps(x, y); }
BT_INLINE v16 v16_sub(v16 x, v16 y) { return _mm512_sub_ps(x, y); }
BT_INLINE v16 v16_mul(v16 x, v16 y) { return _mm512_mul_ps(x, y); }
BT_INLINE v16 v16_div(v16 x, v16 y) { return _mm512_div_ps(x, y); }
BT_INLINE v16 v16_min(v16 x, v16 y) { return _mm512_min_ps(x, y); }
BT_INLINE v16 v16_max(v16 x, v16 y) { return _mm512_max_ps(x, y); }
BT_INLINE v16 v16_fma(v16 x, v16 y, v16 z) { return _mm512_fmadd_ps(x, y, z); }
BT_INLINE v16 v16_fnma(v16 x, v16 y, v16 z) { return _mm512_fnmadd_ps(x, y, z); }
BT_INLINE v16 v16_neg(v16 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }
BT_INLINE v16 v16_where_ge(v16 x, v16 y, v16 z) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, z, _CMP_GE_OQ), x); }
BT_INLINE int v16_any_ge(v16 x, v16 y) { return _mm512_cmp_ps_mask(x, y, _CMP_GE_OQ) != 0; }
BT_INLINE v16 v16_where_bits(v16 x, int bits, const int32_t *lane)
{
    const __mmask16 any = _mm512_test_epi32_mask(_mm512_set1_epi32(bits), _mm512_loadu_si512(lane));
    return _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), any, x);
}
BT_INLINE v16 v16_bits_add_shift(v16 x, int add, int shift)
{
    const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(add));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, (unsigned)shift));
}
BT_INLINE __mmask16 v16_mask(size_t n) { return (__mmask16)((1u << n) - 1); }
BT_INLINE v16 v16_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(v16_mask(n), p); }
BT_INLINE void v16_store_n(float *p, v16 x, size_t n) { _mm512_mask_storeu_ps(p, v16_mask(n), x); }
BT_INLINE void v16_store_s32(int32_t *p, v16 x) { _mm512_storeu_si512(p, _mm512_cvtps_epi32(x)); }
BT_INLINE unsigned v16_bits_within(v16 x, v16 low, v16 high)
{
    return (unsigned)(_mm512_cmp_ps_mask(x, low, _CMP_GE_OQ) & _mm512_cmp_ps_mask(x, high, _CMP_LE_OQ));
}
BT_INLINE v16 v16_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
BT_INLINE v16 v16_load_s8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
BT_INLINE v16 v16_load_s8x8(const int8_t *a, const int8_t *b)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpacklo_epi64(_mm_loadl_epi64((const void *)a),
                                                                      _mm_loadl_epi64((const void *)b))));
}
/* FP4 as in simd_avx2.h, with 16 operations for 128 weights: a shift and a ternary operation make the bytes. */
typedef __m512i v16_codes;

BT_INLINE v16_codes v16_codes_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
BT_INLINE __m512i v16_fp4_bytes(__m512i x) /* (x & 0x78) | 0x80 */
{
    return _mm512_ternarylogic_epi32(x, _mm512_set1_epi8(0x78), _mm512_set1_epi8((char)0x80), 0xea);
}
BT_INLINE v16_codes v16_codes_low(v16_codes x) { return v16_fp4_bytes(_mm512_slli_epi16(x, 3)); }
BT_INLINE v16_codes v16_codes_high(v16_codes x) { return v16_fp4_bytes(_mm512_srli_epi16(x, 1)); }
BT_INLINE v16_codes v16_words_low(v16_codes x) { return _mm512_unpacklo_epi8(x, _mm512_set1_epi8(0x3f)); }
BT_INLINE v16_codes v16_words_high(v16_codes x) { return _mm512_unpackhi_epi8(x, _mm512_set1_epi8(0x3f)); }
BT_INLINE v16 v16_even(v16_codes x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
BT_INLINE v16 v16_odd(v16_codes x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)));
}
BT_INLINE v16_codes v16_nibbles_low(v16_codes x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
BT_INLINE v16_codes v16_nibbles_high(v16_codes x) { return v16_nibbles_low(_mm512_srli_epi16(x, 4)); }
BT_INLINE __m512i v16_mx_bytes(__m512i x, long long low, long long high)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_set_epi64x(high, low)), x);
}
BT_INLINE __m512i v16_mx_first(__m512i x) { return v16_mx_bytes(x, BT_MX_FIRST, BT_MX_FIRST); }
BT_INLINE __m512i v16_mx_second(__m512i x) { return v16_mx_bytes(x, BT_MX_SECOND, BT_MX_SECOND_NEG); }
BT_INLINE v16_codes v16_mx_low(v16_codes x) { return _mm512_unpacklo_epi8(v16_mx_first(x), v16_mx_second(x)); }
BT_INLINE v16_codes v16_mx_high(v16_codes x) { return _mm512_unpackhi_epi8(v16_mx_first(x), v16_mx_second(x)); }
BT_INLINE v16 v16_load_e8m0(const uint8_t *p)
{
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)), one = _mm512_set1_epi32(1);
    const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(small, _mm512_cmpgt_epi32_mask(e, one), bits));
}
BT_INLINE void v16_store_f16(uint16_t *p, v16 x)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
BT_INLINE __m256 v16_fold(v16 x) { return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); }
BT_INLINE __m256 v16_fold_max(v16 x) { return _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); }

#include "kernels/simd_x86.h"
#endif
