#ifndef BT_KERNELS_INT_WIDE_AVX2_H
#define BT_KERNELS_INT_WIDE_AVX2_H
#include "kernels/integer/int_simd.h"

/* The product of 16-bit inputs for AVX2. madd multiplies pairs of s16 inputs by weights that were widened to s16 in the
 * first cache: one product and one addition for 16 weights, half the cost of two planes of bytes. The sum of a chunk of
 * K fits s32: 4 * WIDE_K4 products of at most 32639 * 127. Over chunks a sum is 256 * hi + lo, to which each chunk adds
 * a lo in [0, 255]. */
enum { WIDE_K4 = 80, WIDE_ROWS = 3 };

/* Joins the planes of rows [r0, r1) to s16, in the records of int_chunks. */
INT_INLINE void int_wide_prepare(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *from)
{
    const size_t k4 = to->k4;
    const int_chunks chunks = int_chunks_of(k4, WIDE_K4, 0);
    for (size_t row = r0; row < r1; row++)
        for (size_t c = 0, k = 0; c < chunks.count; c++, k += chunks.n) {
            const size_t n = k4 - k < chunks.n ? k4 - k : chunks.n;
            const int8_t *h = from->hi + row * from->ld + 4 * k, *l = from->lo + row * from->ld + 4 * k;
            uint8_t *x = to->memory + 2 * (c * chunks.record * to->rows + row * 4 * n);
            size_t i = 0;
            for (; i + 16 <= 4 * n; i += 16) {
                const __m256i high = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(h + i))), 8);
                const __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(l + i)));
                _mm256_storeu_si256((void *)(x + 2 * i), _mm256_add_epi16(high, low));
            }
            for (; i < 4 * n; i++) {
                const int16_t v = (int16_t)(h[i] * 256 + l[i]);
                memcpy(x + 2 * i, &v, sizeof v);
            }
        }
}

typedef struct wide_tile {
    int32_t *hi, *lo;
    size_t ldacc;
    const uint8_t *x;
    size_t record;
    const int16_t *w; /* for each group of four inputs: the 16 outputs' first two weights, then their last two */
    size_t panel, n;
    int first;
} wide_tile;

INT_INLINE void wide_store(const wide_tile *t, size_t at, __m256i sum)
{
    __m256i high = _mm256_srai_epi32(sum, 8), low = _mm256_and_si256(sum, _mm256_set1_epi32(255));
    if (!t->first) {
        high = _mm256_add_epi32(high, _mm256_loadu_si256((const void *)(t->hi + at)));
        low = _mm256_add_epi32(low, _mm256_loadu_si256((const void *)(t->lo + at)));
    }
    _mm256_storeu_si256((void *)(t->hi + at), high);
    _mm256_storeu_si256((void *)(t->lo + at), low);
}

/* One tile: P panels (two registers of sums each) by R rows, which are constants at every call. */
INT_INLINE void wide_run(const wide_tile *t, const size_t P, const size_t R)
{
    __m256i sum[WIDE_ROWS][4];
    const int16_t *w = t->w;
    const uint8_t *x = t->x;
    const size_t record = t->record, panel = t->panel;
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        INT_UNROLL_FOR(size_t i = 0; i < 2 * P; i++) sum[r][i] = _mm256_setzero_si256();
    for (size_t k = 0; k < 2 * t->n; k++, w += 32, x += 4) {
        __m256i g[WIDE_ROWS];
        INT_UNROLL_FOR(size_t r = 0; r < R; r++) {
            int32_t pair;
            memcpy(&pair, x + r * record, sizeof pair);
            g[r] = _mm256_set1_epi32(pair);
        }
        INT_UNROLL_FOR(size_t i = 0; i < 2 * P; i++)
            INT_UNROLL_FOR(size_t r = 0; r < R; r++) {
                __m256i y = _mm256_madd_epi16(g[r], _mm256_load_si256((const void *)(w + i / 2 * panel + i % 2 * 16)));
                __asm__("" : "+x"(y));
                sum[r][i] = _mm256_add_epi32(sum[r][i], y);
                __asm__("" : "+r"(w));
            }
    }
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        INT_UNROLL_FOR(size_t i = 0; i < 2 * P; i++) wide_store(t, r * t->ldacc + 8 * i, sum[r][i]);
}

static void wide_any(const wide_tile *t, size_t panels, size_t rows)
{
    switch (panels * 4 + rows) {
    case 9: wide_run(t, 2, 1); break;
    case 10: wide_run(t, 2, 2); break;
    case 11: wide_run(t, 2, 3); break;
    case 5: wide_run(t, 1, 1); break;
    case 6: wide_run(t, 1, 2); break;
    default: wide_run(t, 1, 3); break;
    }
}

/* Widens n groups of a panel's weights: bytes 0 and 1 (then 2 and 3) of each lane of 32 bits become two s16. */
INT_INLINE void wide_copy(int16_t *restrict to, const int8_t *restrict w, size_t n)
{
    const __m256i first = _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 0, -1, 1, -1,
                                           4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    const __m256i last = _mm256_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1, 2, -1, 3, -1,
                                          6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15);
    for (size_t k = 0; k < n; k++, w += 64, to += 64)
        for (size_t h = 0; h < 2; h++) {
            const __m256i v = _mm256_load_si256((const void *)(w + 32 * h));
            _mm256_store_si256((void *)(to + 16 * h), _mm256_srai_epi16(_mm256_shuffle_epi8(v, first), 8));
            _mm256_store_si256((void *)(to + 32 + 16 * h), _mm256_srai_epi16(_mm256_shuffle_epi8(v, last), 8));
        }
}

/* The product of bt_int_matmul_fn for wide inputs. */
static void int_wide_product(int32_t *hi, int32_t *lo, size_t ldacc, const bt_int_inputs *x, size_t row, size_t rows,
                             const int8_t *wp, size_t p0, size_t p1, int16_t *copy)
{
    const int_chunks chunks = int_chunks_of(x->k4, WIDE_K4, 0);
    for (size_t c = 0; c < chunks.count; c++) {
        const size_t k = c * chunks.n, n = x->k4 - k < chunks.n ? x->k4 - k : chunks.n;
        for (size_t p = p0, wide; p < p1; p += wide) {
            wide = p1 - p < 2 ? 1 : 2;
            for (size_t i = 0; i < wide; i++) wide_copy(copy + i * 64 * n, wp + ((p + i) * x->k4 + k) * 64, n);
            wide_tile t = {.hi = hi + 16 * (p - p0), .lo = lo + 16 * (p - p0),
                           .ldacc = ldacc,           .x = x->memory + 2 * (c * chunks.record * x->rows + row * 4 * n),
                           .record = 8 * n,          .w = copy,
                           .panel = 64 * n,          .n = n,
                           .first = c == 0};
            for (size_t left = rows, height; left; left -= height) {
                height = left < WIDE_ROWS ? left : WIDE_ROWS;
                wide_any(&t, wide, height);
                t.hi += height * ldacc, t.lo += height * ldacc, t.x += height * t.record;
            }
        }
    }
}
#endif
