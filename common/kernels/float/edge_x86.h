#ifndef BT_KERNELS_EDGE_X86_H
#define BT_KERNELS_EDGE_X86_H
/* Shared by AVX2 and AVX-512; included by edge_avx2.c and edge_avx512.c after their v16_to_s16 and s16_to_s8. */

/* Stores x as integers clamped to +-BT_INT_MAX16, in two planes of bytes, 256 * hi + lo. Returns whether any was
 * beyond. */
BT_INLINE int v16_store_planes(int8_t *hi, int8_t *lo, v16 x)
{
    const __m256i limit = _mm256_set1_epi16(BT_INT_MAX16), low = _mm256_set1_epi16(-BT_INT_MAX16);
    const __m256i wide = v16_to_s16(x);
    const __m256i over = _mm256_or_si256(_mm256_cmpgt_epi16(wide, limit), _mm256_cmpgt_epi16(low, wide));
    const __m256i q = _mm256_max_epi16(_mm256_min_epi16(wide, limit), low);
    const __m256i h = _mm256_srai_epi16(_mm256_add_epi16(q, _mm256_set1_epi16(128)), 8);
    const __m256i l = _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8);
    _mm_storeu_si128((void *)hi, s16_to_s8(h));
    _mm_storeu_si128((void *)lo, s16_to_s8(l));
    return !_mm256_testz_si256(over, over);
}
#endif
