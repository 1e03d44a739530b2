#ifndef BT_KERNELS_ROWS_X86_H
#define BT_KERNELS_ROWS_X86_H
/* Rope for AVX2 and AVX-512; included by rows_avx2.c and rows_avx512.c after their simd header. */

/* One pair: a' = fma(a, cos, -(b sin)), b' = fma(a, sin, b cos). */
BT_INLINE void rope_pair(float *pa, float *pb, float cos, float sin)
{
    const __m128 a = _mm_set_ss(*pa), b = _mm_set_ss(*pb), c = _mm_set_ss(cos), s = _mm_set_ss(sin);
    *pa = _mm_cvtss_f32(_mm_fmsub_ss(a, c, _mm_mul_ss(b, s)));
    *pb = _mm_cvtss_f32(_mm_fmadd_ss(a, s, _mm_mul_ss(b, c)));
}

/* Pairs (i, i + half). */
BT_INLINE void rope_split(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i);
        const __m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; i < half; i++) rope_pair(x + i, x + half + i, cos[i], sin[i]);
}

/* Pairs (2i, 2i + 1): even lanes make a * cos - b * sin, odd lanes a * sin + b * cos. Subtracting a product has the
 * bits of adding its negation. */
BT_INLINE void rope_adjacent(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const __m256 v = _mm256_loadu_ps(x + 2 * i);
        const __m128 c = _mm_loadu_ps(cos + i), s = _mm_loadu_ps(sin + i);
        const __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
        const __m256 sc = _mm256_permute_ps(cs, 0xb1);
        const __m256 bx = _mm256_mul_ps(_mm256_movehdup_ps(v), sc);
        _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, bx));
    }
    for (; i < half; i++) rope_pair(x + 2 * i, x + 2 * i + 1, cos[i], sin[i]);
}
#endif
