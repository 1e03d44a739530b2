/* Linear layers in integers against sums written out, for every block edge, kind of input, weight and kernel;
 * shadow arithmetic. */
#include "npu/run/int_linear.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* The sums that the epilogue saw, exact. */
typedef struct sums {
    int64_t *y;
    size_t n;
    const int64_t *first; /* of a pair, in the second: there already */
} sums;

static void put(const sums *s, size_t row, size_t n, int64_t sum)
{
    assert_true(s->y[row * s->n + n] == INT64_MIN); /* handed on once */
    assert_true(!s->first || s->first[row * s->n + n] != INT64_MIN);
    s->y[row * s->n + n] = sum;
}

static void tile8(const void *ud, size_t row, size_t rows, size_t n, size_t cols, int32_t *acc)
{
    const sums *s = ud;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) put(s, row + r, n + c, acc[r * BT_INT_LINEAR_COLS + c]);
}
static void tile16(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi,
                   const int32_t *lo)
{
    const sums *s = ud;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            put(s, row + r, n + c,
                256 * (int64_t)hi[r * BT_INT_LINEAR_COLS + c] + lo[r * BT_INT_LINEAR_COLS + c]);
}
static void row64(const void *ud, size_t row, size_t n, size_t cols, int64_t *acc)
{
    const sums *s = ud;
    for (size_t c = 0; c < cols; c++) put(s, row, n + c, acc[c]);
}
static const bt_int_linear_epilogue epilogue = {tile8, tile16, row64};

typedef struct matrix {
    int8_t *w;
    uint8_t *panels;
    bt_int_group *groups;
    int32_t *colsum, *colsum_high;
    size_t n, k, group; /* group 0: none */
    unsigned bits;
} matrix;

/* The value that the weight stands for. */
static int weight(const matrix *m, size_t n, size_t k)
{
    const int w = m->w[n * m->k + k];
    if (!m->group) return w;
    const bt_int_group *g = &m->groups[n / 16 * (m->k / m->group) + k / m->group];
    return w * g->step[n % 16] + g->offset[n % 16];
}

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(p);
    memset(p, 0, (bytes + 63) / 64 * 64);
    return p;
}

static matrix matrix_new(size_t n, size_t k, unsigned bits, size_t group, uint64_t *seed)
{
    const int limit = bits == 4 ? 7 : 127;
    const size_t groups = group ? bt_int_panels(n) * (k / group) : 0;
    matrix m = {.n = n, .k = k, .bits = bits, .group = group};
    m.groups = zeroed((groups + 1) * sizeof *m.groups);
    for (size_t i = 0; i < 16 * groups; i++) {
        const int step = 1 + (int)(next(seed) % (bits == 4 ? 2000 : 120)),
                  room = BT_INT_GROUP_MAX - step * (bits == 4 ? 8 : 127);
        m.groups[i / 16].step[i % 16] = (int16_t)step;
        m.groups[i / 16].offset[i % 16] = (int16_t)((int)(next(seed) % (2 * (uint32_t)room + 1)) - room);
    }
    m.colsum_high = zeroed(16 * bt_int_panels(n) * sizeof *m.colsum_high);
    m.w = malloc(n * k);
    m.panels = zeroed(bt_int_panels(n) * bt_int_panel_bytes(k, bits));
    m.colsum = zeroed(16 * bt_int_panels(n) * sizeof *m.colsum);
    for (size_t i = 0; i < n * k; i++) {
        m.w[i] = (int8_t)((int)(next(seed) % (2 * (uint32_t)limit + 1)) - limit);
        const int v = weight(&m, i / k, i % k), high = group ? bt_int_plane_high(v) : 0;
        m.colsum[i / k] += v - 128 * high;
        m.colsum_high[i / k] += high;
    }
    bt_int_pack(m.panels, m.w, 0, n, k, bits);
    return m;
}

static void matrix_free(matrix *m)
{
    free(m->w);
    free(m->panels);
    free(m->groups);
    free(m->colsum);
    free(m->colsum_high);
}

/* Both matrices by all rows, taken by `parts` parts in turn. */
static void check_group(const bt_kernels *kernels, const matrix m[2], const bt_int_linear_input *in,
                        const int32_t *x, bool paired, size_t parts, void *scratch)
{
    const size_t rows = in->rows, k = in->k;
    sums s[2];
    bt_int_linear_matrix job[2];
    for (int g = 0; g < 2; g++) {
        s[g] = (sums){malloc(rows * m[g].n * sizeof(int64_t)), m[g].n, paired && g ? s[0].y : NULL};
        for (size_t j = 0; j < rows * m[g].n; j++) s[g].y[j] = INT64_MIN;
        job[g] = (bt_int_linear_matrix){.panels = m[g].panels,
                                        .colsum = m[g].colsum,
                                        .n = m[g].n,
                                        .bits = m[g].bits,
                                        .group = m[g].group,
                                        .groups = m[g].groups,
                                        .colsum_high = m[g].colsum_high,
                                        .ud = &s[g]};
    }
    bt_int_linear l = {.kernels = kernels,
                       .m = job,
                       .group = 2,
                       .paired = paired,
                       .in = in,
                       .epilogue = &epilogue,
                       .prepared = zeroed(bt_int_linear_prepared_bytes(rows, k, in->lo))};
    bt_int_linear_begin(&l, parts);
    for (size_t part = 0; part < parts; part++) bt_int_linear_prepare(&l);
    for (size_t part = 0; part < parts; part++) bt_int_linear_part(&l, scratch);
    free(l.prepared);
    for (int g = 0; g < 2; g++)
        for (size_t r = 0; r < rows; r++)
            for (size_t n = 0; n < m[g].n; n++) {
                int64_t want = 0;
                for (size_t c = 0; c < k; c++) want += (int64_t)x[r * k + c] * weight(&m[g], n, c);
                assert_true(s[g].y[r * m[g].n + n] == want);
            }
    free(s[0].y);
    free(s[1].y);
}

static void tiles_give_the_sums_of_every_row_and_output(void **state)
{
    (void)state;
    static const struct {
        size_t rows, k, n[2];
    } cases[] = {
        {1, 1, {1, 17}},      {63, 67, {64, 65}},   {64, 96, {48, 16}},  {65, 172, {100, 3}},
        {130, 33, {129, 64}}, {67, 96, {167, 167}}, {259, 41, {70, 70}}, {65, 256, {70, 70}},
    };
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        /* 8 bits, 16 bits, both with a shadow; weights of 8 and 4; those of both in groups, and with 16 bits
         * and a shadow of the first or of the second */
        for (int kind = 0; kind < 32; kind++) {
            const size_t rows = cases[i].rows, k = cases[i].k, ld = (k + 63) / 64 * 64;
            const unsigned bits = kind & 4 ? 4 : 8;
            if (kind >= 8 && (k % 32 || (kind < 24 && (kind & 3) != 3))) continue;
            const bool is_wide = kind & 1, has_shadow = kind & 2;
            matrix m[2];
            int8_t *hi = zeroed(rows * ld), *lo = zeroed(rows * ld);
            int32_t *x = malloc(rows * k * sizeof *x);
            bt_int_shadow *shadow = malloc(rows * k * sizeof *shadow);
            uint32_t *count = calloc(rows, sizeof *count);
            for (size_t r = 0; r < rows; r++)
                for (size_t c = 0; c < k; c++) {
                    int32_t v =
                        is_wide ? (int32_t)(next(&seed) % 65279) - 32639 : (int32_t)(next(&seed) % 255) - 127;
                    if (is_wide) {
                        lo[r * ld + c] = (int8_t)(uint8_t)v;
                        hi[r * ld + c] = (int8_t)((v - lo[r * ld + c]) / 256);
                    } else hi[r * ld + c] = (int8_t)v;
                    if (has_shadow && r % 3 == 0 && next(&seed) % 5 == 0) {
                        const int32_t size = r % 6 ? 500 : 8000000,
                                      beyond = (int32_t)(next(&seed) % (2 * (uint32_t)size)) - size;
                        shadow[r * k + count[r]++] = (bt_int_shadow){(uint32_t)c, beyond};
                        v += beyond;
                    }
                    x[r * k + c] = v;
                }
            for (int g = 0; g < 2; g++)
                m[g] = matrix_new(cases[i].n[g], k, bits, kind & 8 << g ? (k % 64 ? 32 : 64) : 0, &seed);
            const bt_int_linear_input in = {.hi = hi,        .lo = is_wide ? lo : NULL,
                                            .ld = ld,        .rows = rows,
                                            .k = k,          .shadow_count = has_shadow ? count : NULL,
                                            .shadow = shadow};
            void *scratch = zeroed(bt_int_linear_scratch_bytes(bits == 4 || kind >= 8 ? k : 0));
            for (size_t isa = 0; isa < bt_kernels_table_len; isa++) {
                if (!rows_usable(&bt_kernels_table[isa])) continue;
                for (size_t parts = 1; parts <= 3; parts++)
                    for (int paired = 0; paired <= (m[0].n == m[1].n); paired++)
                        check_group(&bt_kernels_table[isa], m, &in, x, paired, parts, scratch);
            }
            for (int g = 0; g < 2; g++) matrix_free(&m[g]);
            free(scratch);
            free(hi);
            free(lo);
            free(x);
            free(shadow);
            free(count);
        }
}

/* x with outliers: what a linear loses by the clip comes back with the shadow; dropped, the result is the
 * plain clip's. */
static void the_shadow_gives_back_what_the_clip_takes(void **state)
{
    (void)state;
    enum { K = 512, N = 40 };
    uint64_t seed = 99;
    const bt_kernels *kernels = bt_kernels_select(NULL);
    matrix m = matrix_new(N, K, 8, 0, &seed);
    void *scratch = zeroed(bt_int_linear_scratch_bytes(0));
    int8_t *hi = zeroed(K);
    bt_int_shadow shadow[K];
    uint32_t count[1];
    int64_t y[N];
    const sums s = {y, N, NULL};
    const bt_int_linear_matrix job = {.panels = m.panels, .colsum = m.colsum, .n = N, .bits = 8, .ud = &s};
    for (int outliers = 0; outliers <= 12; outliers += 6) {
        float x[K], calm[K];
        const float scale = 1.0f / 127; /* clip 1 */
        double error[3] = {0};          /* with shadow, without, of the calm row */
        for (int i = 0; i < K; i++) x[i] = calm[i] = (float)((int)(next(&seed) % 2001) - 1000) / 1000.0f;
        for (int i = 0; i < outliers; i++) x[i * 37 + 5] *= 60, calm[i * 37 + 5] = 0;
        for (int mode = 0; mode < 3; mode++) {
            const float *from = mode == 2 ? calm : x;
            kernels->quantise8(hi, K, from, K, 1 / scale, BT_INT_SYMMETRIC, 1, K, mode == 1 ? NULL : shadow,
                               mode == 1 ? NULL : count);
            const bt_int_linear_input in = {
                .hi = hi,        .ld = K, .rows = 1, .k = K, .shadow_count = mode == 1 ? NULL : count,
                .shadow = shadow};
            bt_int_linear l = {.kernels = kernels,
                               .m = &job,
                               .group = 1,
                               .in = &in,
                               .epilogue = &epilogue,
                               .prepared = zeroed(bt_int_linear_prepared_bytes(1, K, false))};
            for (int n = 0; n < N; n++) y[n] = INT64_MIN;
            bt_int_linear_begin(&l, 1);
            bt_int_linear_prepare(&l);
            bt_int_linear_part(&l, scratch);
            free(l.prepared);
            for (int n = 0; n < N; n++) {
                double want = 0;
                for (int k = 0; k < K; k++) want += (double)from[k] * m.w[n * K + k];
                error[mode] += fabs((double)y[n] * (double)scale - want);
            }
            if (mode == 1) { /* the plain clip, bit for bit */
                for (int n = 0; n < N; n++) {
                    int64_t want = 0;
                    for (int k = 0; k < K; k++) {
                        const double q = rint((double)(x[k] * (1 / scale)));
                        want += (int64_t)(q > 127 ? 127 : q < -127 ? -127 : q) * m.w[n * K + k];
                    }
                    assert_true(y[n] == want);
                }
            }
        }
        print_message("%d outliers: error %.3f with shadow, %.3f without, %.3f of the row without them\n",
                      outliers, error[0], error[1], error[2]);
        assert_true(error[0] <= 1.25 * error[2]);
        assert_true(outliers == 0 || error[1] > 10 * error[0]);
    }
    matrix_free(&m);
    free(hi);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_give_the_sums_of_every_row_and_output),
        cmocka_unit_test(the_shadow_gives_back_what_the_clip_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
