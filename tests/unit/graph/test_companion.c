/* The companion's operators where host and executor tests do not look: rotations against a dense matrix,
 * passes against the kernels that they call, over all rows at once. */
#include "graph/companion.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A Hadamard matrix of order 12 (Paley, q = 11), row by row. */
static void paley12(int8_t h[144])
{
    static const int square[11] = {0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0}; /* which residues mod 11 are squares */
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++) {
            int v = 1;
            if (i > 0 && j == 0) v = -1;
            if (i > 0 && j > 0) v = i == j ? 1 : square[(j - i + 11) % 11] ? 1 : -1;
            h[i * 12 + j] = (int8_t)v;
        }
}

static double entry(const bt_companion_rotation *r, size_t i, size_t k)
{
    const size_t run = (size_t)1 << r->log2;
    const int base = r->base > 1 ? r->h_base[i / run * r->base + k / run] : 1;
    const int sylvester = __builtin_popcountll((i % run) & (k % run)) % 2 ? -1 : 1;
    return (double)(base * sylvester * (r->sign ? r->sign[k] : 1)) * (double)r->scale;
}

static void rotations_are_the_dense_matrix_and_keep_lengths(void **state)
{
    (void)state;
    static const struct {
        uint32_t base, log2, blocks;
    } cases[] = {{1, 4, 6}, {1, 0, 3}, {12, 2, 2}, {12, 0, 1}, {1, 10, 1}};
    int8_t h12[144];
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    paley12(h12);
    for (size_t i = 0; i < 12; i++)
        for (size_t j = 0; j < 12; j++) {
            int dot = 0;
            for (size_t k = 0; k < 12; k++) dot += h12[i * 12 + k] * h12[j * 12 + k];
            assert_int_equal(dot, i == j ? 12 : 0);
        }
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const size_t e = (size_t)cases[n].base << cases[n].log2, blocks = cases[n].blocks, width = e * blocks,
                     t = 21;
        int8_t *sign = malloc(e);
        float *x = malloc(t * width * sizeof *x), *y = malloc(t * width * sizeof *y);
        assert_true(sign && x && y);
        for (size_t i = 0; i < e; i++) sign[i] = i * 7 % 5 < 2 ? -1 : 1;
        for (size_t i = 0; i < t * width; i++) x[i] = (float)((i * 2654435761u >> 16) % 2001) / 1000.0f - 1;
        memcpy(y, x, t * width * sizeof *y);
        const bt_companion_rotation r = {cases[n].base, cases[n].log2, cases[n].base > 1 ? h12 : NULL,
                                         n % 2 ? sign : NULL, 1 / sqrtf((float)e)};
        bt_companion c;
        const bt_companion_sizes sizes = {.heads = 1, .kv_heads = 1, .head_dim = 16, .rotate_elems = e};
        assert_int_equal(bt_companion_init(&c, bt_kernels_select(NULL), pool, &sizes, NULL), BT_OK);
        bt_companion_rotate(&c, y, t, blocks, &r);
        for (size_t b = 0; b < t * blocks; b++) {
            double before = 0, after = 0;
            for (size_t i = 0; i < e; i++) {
                double want = 0;
                for (size_t k = 0; k < e; k++) want += entry(&r, i, k) * (double)x[b * e + k];
                assert_true(fabs(want - (double)y[b * e + i]) < 1e-5);
                before += (double)(x[b * e + i] * x[b * e + i]);
                after += (double)(y[b * e + i] * y[b * e + i]);
            }
            assert_true(fabs(before - after) <= 1e-4 * before);
        }
        bt_companion_done(&c);
        free(sign);
        free(x);
        free(y);
    }
    bt_pool_free(pool);
}

/* t rows of k, but the stream, which has one more. */
typedef struct matrices {
    size_t t, k;
    float *stream, *norm, *gate, *noted, *picked;
} matrices;

static float *numbers(size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u >> 16) % 2001) / 1000.0f - 1;
    return x;
}

static matrices matrices_new(size_t t, size_t k)
{
    return (matrices){t, k, numbers((t + 1) * k), numbers(t * k), numbers(t * k), numbers(t * k), numbers(k)};
}

static void matrices_free(matrices *m)
{
    free(m->stream), free(m->norm), free(m->gate), free(m->noted), free(m->picked);
}

static void note_rows(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch)
{
    const matrices *m = ud;
    (void)what, (void)scratch;
    memcpy(m->noted + r0 * m->k, x, n * m->k * sizeof *x);
}

enum { ADDS = 9 }; /* more steps than wait at once */

/* The third step's input need not reach memory; the sixth writes rows that the first still has to read;
 * the last reads one row of all. */
static void in_a_pass(const bt_companion *c, const matrices *m, const float *w)
{
    const size_t t = m->t, k = m->k;
    const bt_companion_seq seq = {.valid = t};
    const bt_companion_rows rows = {.seq = &seq, .batch = 1, .rows = t};
    const bt_companion_area areas[] = {{m->norm, k * sizeof(float), false},
                                       {m->noted, k * sizeof(float), true}};
    bt_companion_begin(c);
    bt_companion_norm(c, c->kernels->rmsnorm, m->norm, m->stream, w, 1e-5f, t, k);
    bt_companion_qk_norm(c, m->norm, w, 1e-5f, t, 4, k / 4);
    bt_companion_step(c, t, k, m->norm, areas, 2, note_rows, (void *)m, NULL);
    bt_companion_drop(c, m->norm);
    bt_companion_gated(c, c->kernels->silu_mul, m->gate, m->stream, t, k);
    bt_companion_norm(c, c->kernels->rmsnorm, m->gate, m->gate, w, 1e-5f, t, k);
    bt_companion_add(c, m->stream + k, m->gate, 1, t, k);
    for (int i = 0; i < ADDS; i++) bt_companion_add(c, m->gate, m->stream, 1, t, k);
    bt_companion_select_rows(c, &rows, 1, m->picked, m->gate, k);
    bt_companion_end(c);
}

static void at_once(const bt_kernels *kernels, const matrices *m, const float *w)
{
    const size_t t = m->t, k = m->k;
    kernels->rmsnorm(m->norm, k, m->stream, k, w, 1e-5f, t, k);
    kernels->rmsnorm(m->norm, k / 4, m->norm, k / 4, w, 1e-5f, t * 4, k / 4);
    memcpy(m->noted, m->norm, t * k * sizeof(float));
    kernels->silu_mul(m->gate, m->gate, m->stream, t * k);
    kernels->rmsnorm(m->gate, k, m->gate, k, w, 1e-5f, t, k);
    kernels->add(m->stream + k, m->gate, t * k);
    for (int i = 0; i < ADDS; i++) kernels->add(m->gate, m->stream, t * k);
    memcpy(m->picked, m->gate + (t - 1) * k, k * sizeof(float));
}

static void a_pass_gives_the_bits_of_each_step_over_all_rows(void **state)
{
    (void)state;
    /* a row of the last is longer than a block */
    static const size_t ts[] = {1, 2, 37, 300}, ks[] = {8, 900, 16400};
    const bt_kernels *kernels = bt_kernels_select(NULL);
    for (size_t threads = 1; threads <= 3; threads++) {
        const bt_companion_sizes sizes = {.heads = 1, .kv_heads = 1, .head_dim = 16};
        bt_pool *pool = NULL;
        bt_companion c;
        assert_int_equal(bt_pool_new(&pool, threads, NULL), BT_OK);
        assert_int_equal(bt_companion_init(&c, kernels, pool, &sizes, NULL), BT_OK);
        for (size_t i = 0; i < sizeof ts / sizeof *ts; i++)
            for (size_t j = 0; j < sizeof ks / sizeof *ks; j++) {
                const size_t t = ts[i], k = ks[j], bytes = t * k * sizeof(float);
                if (t * k > 1000000) continue;
                matrices got = matrices_new(t, k), want = matrices_new(t, k);
                float *w = numbers(k);
                in_a_pass(&c, &got, w);
                at_once(kernels, &want, w);
                assert_memory_equal(got.stream, want.stream, bytes + k * sizeof(float));
                assert_memory_equal(got.gate, want.gate, bytes);
                assert_memory_equal(got.noted, want.noted, bytes);
                assert_memory_equal(got.picked, want.picked, k * sizeof(float));
                matrices_free(&got);
                matrices_free(&want);
                free(w);
            }
        bt_companion_done(&c);
        bt_pool_free(pool);
    }
}

static void what_is_dropped_does_not_reach_memory(void **state)
{
    (void)state;
    enum { T = 40, K = 64 };
    const bt_companion_sizes sizes = {.heads = 1, .kv_heads = 1, .head_dim = 16};
    const bt_companion_area areas[] = {{NULL, 0, false}};
    bt_companion c;
    assert_int_equal(bt_companion_init(&c, bt_kernels_select(NULL), NULL, &sizes, NULL), BT_OK);
    matrices m = matrices_new(T, K);
    float *w = numbers(K), *before = numbers(T * K);
    bt_companion_begin(&c);
    bt_companion_norm(&c, c.kernels->rmsnorm, m.norm, m.stream, w, 1e-5f, T, K);
    bt_companion_step(&c, T, K, m.norm, areas, 1, note_rows, &m, NULL);
    bt_companion_drop(&c, m.norm);
    bt_companion_end(&c);
    assert_memory_equal(m.norm, before, T * K * sizeof(float));
    assert_memory_not_equal(m.noted, before, T * K * sizeof(float));
    matrices_free(&m);
    free(w);
    free(before);
    bt_companion_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotations_are_the_dense_matrix_and_keep_lengths),
                                       cmocka_unit_test(a_pass_gives_the_bits_of_each_step_over_all_rows),
                                       cmocka_unit_test(what_is_dropped_does_not_reach_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
