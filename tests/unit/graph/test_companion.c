/* The companion's operators where host and executor tests do not look: rotations against a dense matrix. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotations_are_the_dense_matrix_and_keep_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
