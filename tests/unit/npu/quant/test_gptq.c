/* GPTQ's loops give the same bits for every instruction set. */
#include "npu/quant/gptq_code.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void variants_give_the_same_bits(void **state)
{
    (void)state;
#if defined(__x86_64__)
    enum { T = 21, ROWS = 13 };
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        puts("skipped: gptq avx2: not of this machine");
        skip();
    }
    static const size_t sizes[] = {1, 15, 16, 33, 200};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t k = sizes[s];
        float *x = malloc(T * k * sizeof *x), *u = malloc(k * k * sizeof *u), scale[ROWS];
        assert_true(x && u);
        for (size_t i = 0; i < T * k; i++) x[i] = (float)(bt_rng_uniform(1, i) - 0.5);
        for (size_t i = 0; i < k * k; i++) u[i] = i % (k + 1) ? (float)(bt_rng_uniform(2, i) - 0.5) / 8 : 1;
        for (size_t i = 0; i < ROWS; i++) scale[i] = 0.01f;
        const bt_gptq_code *code[2] = {&bt_gptq_ref, &bt_gptq_avx2};
        float *h[2], *w[2];
        double *l[2], *m[2];
        int8_t *q[2];
        for (int v = 0; v < 2; v++) {
            h[v] = calloc(k * k, sizeof *h[v]);
            w[v] = malloc(ROWS * k * sizeof *w[v]);
            l[v] = malloc(k * k * sizeof *l[v]);
            m[v] = calloc(k * k, sizeof *m[v]);
            q[v] = malloc(ROWS * k);
            assert_true(h[v] && w[v] && l[v] && m[v] && q[v]);
            bt_gptq_add_job add = {h[v], x, T, k};
            code[v]->add(&add, 0, 1);
            for (size_t i = 0; i < k * k; i++) l[v][i] = bt_rng_uniform(3, i) - 0.5 + (i % (k + 1) == 0);
            bt_gptq_factor_job factor = {l[v], m[v], k, k / 2, k};
            code[v]->factor(&factor, 0, 1);
            code[v]->invert(&factor, 0, 1);
            for (size_t i = 0; i < ROWS * k; i++) w[v][i] = (float)(bt_rng_uniform(4, i) - 0.5);
            const bt_gptq_grid grid = {scale, NULL, k, -127, 127};
            code[v]->round(q[v], w[v], &grid, ROWS, k, NULL, u);
        }
        assert_memory_equal(h[0], h[1], k * k * sizeof *h[0]);
        assert_memory_equal(l[0], l[1], k * k * sizeof *l[0]);
        assert_memory_equal(m[0], m[1], k * k * sizeof *m[0]);
        assert_memory_equal(q[0], q[1], ROWS * k);
        assert_memory_equal(w[0], w[1], ROWS * k * sizeof *w[0]);
        for (int v = 0; v < 2; v++) {
            free(h[v]);
            free(w[v]);
            free(l[v]);
            free(m[v]);
            free(q[v]);
        }
        free(x);
        free(u);
    }
#else
    puts("skipped: gptq avx2: not of this machine");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(variants_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
