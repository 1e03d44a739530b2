/* Integer attention for AVX2. K and V tiles become s16 in pairs, which madd multiplies and adds, once for a
 * block of queries. Queries and weights are split into two halves of 8 bits, so that sums within a tile fit
 * s32; sums over tiles are s64. */
#include "kernels/int_ops.h"

#if defined(__AVX2__)
#include "kernels/integer/int_ops_avx2.h"

#define INT_ATTN_OF(name) name##_avx2
#define INT_ATTN_STEP     2
#include "kernels/integer/int_ops_attn_body.h"

/* Transposes 8 x 8 values of 4 bytes, from rows ld apart to rows ldt apart. */
static void transpose8(int32_t *to, size_t ldt, const int32_t *from, size_t ld)
{
    __m256i r[8], p[8];
    for (int i = 0; i < 8; i++) r[i] = v8_load(from + (size_t)i * ld);
    for (int i = 0; i < 4; i++) {
        p[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        p[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_unpacklo_epi64(p[4 * i], p[4 * i + 2]);
        r[4 * i + 1] = _mm256_unpackhi_epi64(p[4 * i], p[4 * i + 2]);
        r[4 * i + 2] = _mm256_unpacklo_epi64(p[4 * i + 1], p[4 * i + 3]);
        r[4 * i + 3] = _mm256_unpackhi_epi64(p[4 * i + 1], p[4 * i + 3]);
    }
    for (size_t i = 0; i < 4; i++) {
        v8_store(to + i * ldt, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        v8_store(to + (i + 4) * ldt, _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
}

/* Fills the tile as [D16 / 2][KEYS] pairs of elements. */
static void load_k(const attn *a, size_t j0, size_t n, int shift)
{
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 8) {
        for (size_t i = 0; i < 8; i++) load_row(a, a->row + i * a->d16, 0, j0 + j + i, n, shift);
        for (size_t i = 0; i < a->d16 / 2; i += 8)
            transpose8((int32_t *)(void *)a->tile + i * INT_ATTN_KEYS + j, INT_ATTN_KEYS,
                       (const int32_t *)(void *)a->row + i, a->d16 / 2);
    }
}

/* Fills the tile as [KEYS / 2][D16] pairs of positions. */
static void load_v(const attn *a, size_t j0, size_t n, int shift)
{
    int16_t *to = a->tile;
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 2, to += 2 * a->d16) {
        load_row(a, a->row, 1, j0 + j, n, shift);
        load_row(a, a->row + a->d16, 1, j0 + j + 1, n, shift);
        for (size_t i = 0; i < a->d16; i += 8) {
            const __m128i x = _mm_loadu_si128((const void *)(a->row + i)),
                          y = _mm_loadu_si128((const void *)(a->row + a->d16 + i));
            _mm_storeu_si128((void *)(to + 2 * i), _mm_unpacklo_epi16(x, y));
            _mm_storeu_si128((void *)(to + 2 * i + 8), _mm_unpackhi_epi16(x, y));
        }
    }
}

static __m256i pair(const int16_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v8_set(v);
}

/* z of one query for 32 positions of the tile. Sums of |half of q| * |k| over D <= 256 stay below 2^31. */
static void scores32(int32_t *z, const int16_t *hi, const int16_t *lo, const int16_t *tile, size_t d16,
                     unsigned log2)
{
    __m256i h[4], l[4];
    for (int c = 0; c < 4; c++) h[c] = l[c] = _mm256_setzero_si256();
    for (size_t i = 0; i < d16; i += 2, tile += 2 * INT_ATTN_KEYS) {
        const __m256i qh = pair(hi + i), ql = pair(lo + i);
        for (int c = 0; c < 4; c++) {
            const __m256i k = v8_load((const void *)(tile + 16 * c));
            h[c] = _mm256_add_epi32(h[c], _mm256_madd_epi16(k, qh));
            l[c] = _mm256_add_epi32(l[c], _mm256_madd_epi16(k, ql));
        }
    }
    const __m256i half = v8_set(log2 ? 1 << (log2 - 1) : 0);
    const __m128i down = _mm_cvtsi32_si128((int)log2), up = _mm_cvtsi32_si128(8 - (int)log2);
    for (int c = 0; c < 4; c++) /* 256 * h is a multiple of 2^log2, so only l is rounded */
        v8_store(z + 8 * c, _mm256_add_epi32(_mm256_sll_epi32(h[c], up),
                                             _mm256_sra_epi32(_mm256_add_epi32(l[c], half), down)));
}

V8 widen_lo(__m256i x) { return _mm256_cvtepi32_epi64(_mm256_castsi256_si128(x)); }
V8 widen_hi(__m256i x) { return _mm256_cvtepi32_epi64(_mm256_extracti128_si256(x, 1)); }
/* acc[i] += 256 * hi[i] + lo[i]. */
static void add64(int64_t *acc, __m256i hi, __m256i lo)
{
    __m256i *p = (void *)acc;
    const __m256i first = _mm256_add_epi64(_mm256_slli_epi64(widen_lo(hi), 8), widen_lo(lo));
    const __m256i last = _mm256_add_epi64(_mm256_slli_epi64(widen_hi(hi), 8), widen_hi(lo));
    _mm256_storeu_si256(p, _mm256_add_epi64(_mm256_loadu_si256(p), first));
    _mm256_storeu_si256(p + 1, _mm256_add_epi64(_mm256_loadu_si256(p + 1), last));
}

/* Adds one query's weights of the tile times V to acc, 16 elements. */
static void weigh16(int64_t *acc, const int16_t *e, const int16_t *tile, size_t d16)
{
    __m256i h[2], l[2];
    for (int c = 0; c < 2; c++) h[c] = l[c] = _mm256_setzero_si256();
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 2, tile += 2 * d16) {
        const __m256i both = pair(e + j), eh = _mm256_srli_epi16(both, 8),
                      el = _mm256_and_si256(both, _mm256_set1_epi16(255));
        for (int c = 0; c < 2; c++) {
            const __m256i v = v8_load((const void *)(tile + 16 * c));
            h[c] = _mm256_add_epi32(h[c], _mm256_madd_epi16(v, eh));
            l[c] = _mm256_add_epi32(l[c], _mm256_madd_epi16(v, el));
        }
    }
    for (int c = 0; c < 2; c++) add64(acc + 8 * c, h[c], l[c]);
}
#endif
