/* The integer matrix product for AArch64 with i8mm. SMMLA multiplies eight inputs of two rows by the weights
 * of two outputs and adds to 2 x 2 sums, twice the work of SDOT. A single row takes SDOT. With two rows or
 * more, a panel's weights for a chunk of K are copied into the first cache, in pairs of outputs with eight
 * inputs each (zeros for a missing group), and six rows at a time stream past. Inputs are as for dotprod. */
#include "kernels/variant.h"

#if defined(__ARM_FEATURE_MATMUL_INT8)
enum { CHUNK_K4 = 158, EXTRAS_HERE = 1 }; /* even, so that the copy, in pairs of groups, fits the scratch */
#include "kernels/integer/int_extras.h"

INT_INLINE int32x4_t vec4_dot(int32x4_t sum, int8x16_t x, int8x16_t w) { return vdotq_s32(sum, x, w); }

#include "kernels/integer/int_neon_body.h"

enum { PAIRS = 3 }; /* pairs of rows in a tile: 24 registers of sums */

typedef struct pair_tile {
    int32_t *acc;
    size_t ldacc;
    const uint8_t *x;
    size_t record;
    const int8_t *w; /* the copy: 8 x 16 bytes for each eight inputs */
    size_t n2;
    int first;
} pair_tile;

/* Copies n groups of a panel's weights, two groups at a time: 16 bytes are eight inputs of outputs 2i and 2i
 * + 1. */
INT_INLINE void pair_copy(int8_t *restrict to, const int8_t *restrict w, size_t n)
{
    for (size_t k = 0; k < n; k += 2, w += 128, to += 128)
        INT_UNROLL_FOR(size_t i = 0; i < 4; i++) {
            const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(w + 16 * i)),
                            b = k + 1 < n ? vreinterpretq_s32_s8(vld1q_s8(w + 64 + 16 * i)) : vdupq_n_s32(0);
            vst1q_s8(to + 32 * i, vreinterpretq_s8_s32(vzip1q_s32(a, b)));
            vst1q_s8(to + 32 * i + 16, vreinterpretq_s8_s32(vzip2q_s32(a, b)));
        }
}

/* Eight inputs of two rows. Past an odd chunk's end it reads the bytes beside the record; their weights are
 * zeros. */
INT_INLINE int8x16_t pair_inputs(const uint8_t *a, const uint8_t *b)
{
    return vcombine_s8(vld1_s8((const void *)a), vld1_s8((const void *)b));
}

/* A tile of R pairs of rows; is_odd: the last pair is one row, taken twice. R and is_odd are constants at
 * every call. */
INT_INLINE void pair_run(const pair_tile *t, const size_t R, const int is_odd)
{
    int32x4_t sum[PAIRS][8];
    const uint8_t *x[2 * PAIRS];
    const int8_t *w = t->w;
    INT_UNROLL_FOR(size_t r = 0; r < 2 * R; r++)
        x[r] = t->x + (is_odd && r + 1 == 2 * R ? r - 1 : r) * t->record;
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        INT_UNROLL_FOR(size_t i = 0; i < 8; i++) sum[r][i] = vdupq_n_s32(0);
    for (size_t k = 0; k < t->n2; k++, w += 128) {
        int8x16_t g[PAIRS];
        INT_UNROLL_FOR(size_t r = 0; r < R; r++) g[r] = pair_inputs(x[2 * r] + 8 * k, x[2 * r + 1] + 8 * k);
        INT_UNROLL_FOR(size_t i = 0; i < 8; i++) {
            const int8x16_t v = vld1q_s8(w + 16 * i);
            INT_UNROLL_FOR(size_t r = 0; r < R; r++) sum[r][i] = vmmlaq_s32(sum[r][i], g[r], v);
        }
    }
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        INT_UNROLL_FOR(size_t i = 0; i < 4; i++) {
            const int64x2_t a = vreinterpretq_s64_s32(sum[r][2 * i]),
                            b = vreinterpretq_s64_s32(sum[r][2 * i + 1]);
            int32_t *acc = t->acc + 2 * r * t->ldacc + 4 * i;
            int32x4_t y = vreinterpretq_s32_s64(vzip1q_s64(a, b));
            vst1q_s32(acc, t->first ? y : vaddq_s32(y, vld1q_s32(acc)));
            if (is_odd && r + 1 == R) continue;
            acc += t->ldacc;
            y = vreinterpretq_s32_s64(vzip2q_s64(a, b));
            vst1q_s32(acc, t->first ? y : vaddq_s32(y, vld1q_s32(acc)));
        }
}

static void pair_any(const pair_tile *t, size_t rows)
{
    switch (rows) {
    case 1: pair_run(t, 1, 1); break;
    case 2: pair_run(t, 1, 0); break;
    case 3: pair_run(t, 2, 1); break;
    case 4: pair_run(t, 2, 0); break;
    case 5: pair_run(t, 3, 1); break;
    default: pair_run(t, 3, 0); break;
    }
}

/* Adds the extras of a chunk, of every row, to a panel's sums. */
static void pair_extras(const pair_tile *t, const uint8_t *more, size_t more_bytes, const int8_t *w, size_t n,
                        size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *b = t->x + r * t->record + 4 * n;
        int32_t *acc = t->acc + r * t->ldacc;
        uint32_t extras;
        memcpy(&extras, b, sizeof extras);
        for (uint32_t i = 0; i < extras; i++) {
            const uint8_t *from = i < EXTRAS_HERE ? b + offsetof(beside, extra) + i * sizeof(extra)
                                                  : more + r * more_bytes + (i - EXTRAS_HERE) * sizeof(extra);
            extra e;
            memcpy(&e, from, sizeof e);
            const group g = vreinterpretq_s8_s32(vdupq_n_s32(e.x));
            for (size_t j = 0; j < VECS; j++)
                int_store(acc + 4 * j,
                          int_extra(vld1q_s32(acc + 4 * j), g, e.times, w + 64 * e.k + 16 * j, 0));
        }
    }
}

static void pair_product(int32_t *acc, size_t ldacc, const bt_int_inputs *x, const uint8_t *plane, size_t row,
                         size_t rows, const int8_t *wp, size_t p0, size_t p1, int8_t *copy)
{
    const int_chunks chunks = int_chunks_of(x->k4, CHUNK_K4, BESIDE);
    const uint8_t *more = plane + int_records_bytes(x->rows, x->k4, &chunks, BESIDE);
    for (size_t c = 0; c < chunks.count; c++) {
        const size_t k = c * chunks.n, n = x->k4 - k < chunks.n ? x->k4 - k : chunks.n,
                     record = 4 * n + BESIDE;
        for (size_t p = p0; p < p1; p++) {
            const int8_t *w = wp + (p * x->k4 + k) * 64;
            pair_tile t = {.acc = acc + 16 * (p - p0),
                           .ldacc = ldacc,
                           .x = plane + c * chunks.record * x->rows + row * record,
                           .record = record,
                           .w = copy,
                           .n2 = (n + 1) / 2,
                           .first = c == 0};
            const pair_tile all = t;
            pair_copy(copy, w, n);
            for (size_t left = rows, height; left; left -= height) {
                height = left < 2 * PAIRS ? left : 2 * PAIRS;
                pair_any(&t, height);
                t.acc += height * ldacc, t.x += height * record;
            }
            pair_extras(&all, more + (row * x->k4 + k) * MORE_BYTES, x->k4 * MORE_BYTES, w, n, rows);
        }
    }
}

void bt_int_prepare_i8mm(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left)
{
    prepare(to, r0, r1, x, is_left);
}

void bt_int_matmul_i8mm(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                        size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                        size_t p1, void *restrict scratch)
{
    const uint8_t *low = x->memory + plane_bytes(x);
    if (t > 1) {
        pair_product(hi, ldacc, x, x->memory, row, t, wp, p0, p1, scratch);
        if (x->is_wide) pair_product(lo, ldacc, x, low, row, t, wp, p0, p1, scratch);
        return;
    }
    product(hi, ldacc, x, x->memory, row, t, wp, colsum, p0, p1, scratch);
    if (x->is_wide) product(lo, ldacc, x, low, row, t, wp, colsum, p0, p1, scratch);
}
#endif
