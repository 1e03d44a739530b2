#ifndef BT_KERNELS_ATTN_PACK_X86_H
#define BT_KERNELS_ATTN_PACK_X86_H
/* Transposes elements of 16 rows into a packed panel (attn_copy_body.h), for AVX2 and AVX-512; included by attn_avx2.c
 * and attn_avx512.c after their simd header. */

/* 16 bytes of row r, then 16 bytes of row r + 8. */
BT_INLINE __m256i two_rows(const uint8_t *const row[16], size_t r, size_t offset)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)(row[r] + offset))),
                                   _mm_loadu_si128((const void *)(row[r + 8] + offset)), 1);
}

/* Elements [e, e + 8) of 16 rows of f16. */
BT_INLINE void pack_f16(uint8_t *to, const uint8_t *const row[16], size_t e)
{
    __m256i x[8], a[8], b[8];
    BT_UNROLL_FOR(size_t i = 0; i < 8; i++) x[i] = two_rows(row, i, 2 * e);
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 2)
        a[i] = _mm256_unpacklo_epi16(x[i], x[i + 1]), a[i + 1] = _mm256_unpackhi_epi16(x[i], x[i + 1]);
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 4) { /* b: elements 0 1, 2 3, 4 5, 6 7 of four rows */
        b[i] = _mm256_unpacklo_epi32(a[i], a[i + 2]), b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi32(a[i + 1], a[i + 3]), b[i + 3] = _mm256_unpackhi_epi32(a[i + 1], a[i + 3]);
    }
    BT_UNROLL_FOR(size_t i = 0; i < 4; i++) {
        _mm256_storeu_si256((void *)(to + 32 * (e + 2 * i)), _mm256_unpacklo_epi64(b[i], b[i + 4]));
        _mm256_storeu_si256((void *)(to + 32 * (e + 2 * i + 1)), _mm256_unpackhi_epi64(b[i], b[i + 4]));
    }
}

/* Elements [e, e + 16) of 16 rows of int8. */
BT_INLINE void pack_int8(uint8_t *to, const uint8_t *const row[16], size_t dp, size_t e)
{
    __m256i x[8], a[8], b[8];
    BT_UNROLL_FOR(size_t i = 0; i < 8; i++) x[i] = two_rows(row, i, e);
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 2) /* a: elements 0..7 and 8..15 of two rows */
        a[i] = _mm256_unpacklo_epi8(x[i], x[i + 1]), a[i + 1] = _mm256_unpackhi_epi8(x[i], x[i + 1]);
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 4) { /* b: 0..3, 4..7, 8..11, 12..15 of four rows */
        b[i] = _mm256_unpacklo_epi16(a[i], a[i + 2]), b[i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi16(a[i + 1], a[i + 3]), b[i + 3] = _mm256_unpackhi_epi16(a[i + 1], a[i + 3]);
    }
    BT_UNROLL_FOR(size_t i = 0; i < 4; i++) {
        const __m256i c[2] = {_mm256_unpacklo_epi32(b[i], b[i + 4]), _mm256_unpackhi_epi32(b[i], b[i + 4])};
        BT_UNROLL_FOR(size_t h = 0; h < 2; h++) { /* two elements of rows 0..7, and of 8..15 */
            _mm_storeu_si128((void *)(to + 8 * (e + 4 * i + 2 * h)), _mm256_castsi256_si128(c[h]));
            _mm_storeu_si128((void *)(to + 8 * (dp + e + 4 * i + 2 * h)), _mm256_extracti128_si256(c[h], 1));
        }
    }
}

/* Elements [e, e + 4) of 16 rows of floats. */
BT_INLINE void pack_f32(float *to, const uint8_t *const row[16], size_t e)
{
    for (size_t i = 0; i < 16; i += 4) {
        __m128 x[4];
        BT_UNROLL_FOR(size_t r = 0; r < 4; r++) x[r] = _mm_loadu_ps((const float *)(const void *)row[i + r] + e);
        _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
        BT_UNROLL_FOR(size_t r = 0; r < 4; r++) _mm_storeu_ps(to + (e + r) * 16 + i, x[r]);
    }
}
#endif
