/* Hadamard rotations: orders, orthogonality, and the fast product against the dense one. */
#include "npu/quant/hadamard.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static void finds_the_smallest_base(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint32_t base, log2;
    } want[] = {{2, 1, 1},     {4, 1, 2},     {64, 1, 6},    {4096, 1, 12}, {131072, 1, 17},
                {12, 12, 0},   {24, 12, 1},   {96, 12, 3},   {576, 36, 4},  {896, 28, 5},
                {1536, 12, 7}, {2048, 1, 11}, {4864, 76, 6}, {5632, 44, 7}, {960, 60, 4},
                {3072, 12, 8}, {8192, 1, 13}, {20, 20, 0},   {36, 36, 0}};
    uint32_t base, log2;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_true(bt_hadamard_find(&base, &log2, want[i].n));
        if (base != want[i].base || log2 != want[i].log2) fail_msg("%zu = %u * 2^%u", want[i].n, base, log2);
    }
    static const size_t none[] = {0, 1, 3, 6, 10, 18, 92, 94, 11008, 131073, 262144};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(bt_hadamard_find(&base, &log2, none[i]));
}

static void every_base_times_its_transpose_is_a_multiple_of_one(void **state)
{
    (void)state;
    size_t bases = 0;
    int8_t *h = malloc(BT_HADAMARD_MAX_BASE * BT_HADAMARD_MAX_BASE);
    assert_non_null(h);
    for (size_t n = 2; n <= BT_HADAMARD_MAX_BASE; n++) {
        uint32_t base, log2;
        if (!bt_hadamard_find(&base, &log2, n) || log2 > 0) continue;
        bases++;
        bt_hadamard_base(h, base);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                int sum = 0;
                for (size_t k = 0; k < n; k++) sum += h[i * n + k] * h[j * n + k];
                assert_int_equal(sum, i == j ? (int)n : 0);
                assert_true(h[i * n + j] == 1 || h[i * n + j] == -1);
            }
    }
    assert_true(bases >= 20);
    free(h);
}

static void the_fast_product_is_the_dense_one_and_its_transpose_undoes_it(void **state)
{
    (void)state;
    static const size_t sizes[] = {2, 4, 8, 12, 24, 64, 96, 128, 256, 512, 576, 896, 1024, 1536, 2048, 4096};
    static bt_hadamard r;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int signs = 0; signs < 2; signs++) {
            const size_t n = sizes[s], width = n;
            bt_hadamard_init(&r, n, signs);
            assert_int_equal(bt_hadamard_size(&r), n);
            float *x = malloc(2 * n * sizeof *x), *y = malloc(2 * n * sizeof *y);
            double *back = calloc(n, sizeof *back);
            float *scratch = malloc(n * sizeof *scratch);
            assert_true(x && y && back && scratch);
            for (size_t i = 0; i < 2 * n; i++) x[i] = y[i] = (float)(bt_rng_uniform(7, i) - 0.5);
            bt_hadamard_apply(&r, bt_kernels_select(NULL), y, 2, scratch);
            free(scratch);
            for (size_t i = 0; i < width; i++) {
                double sum = 0;
                const size_t b = i >> r.log2, j = i & (((size_t)1 << r.log2) - 1);
                for (size_t k = 0; k < n; k++) {
                    const size_t kb = k >> r.log2, kj = k & (((size_t)1 << r.log2) - 1);
                    const int sylvester = __builtin_parityll(j & kj) ? -1 : 1;
                    const double e =
                        r.h[b * r.base + kb] * sylvester * (r.sign ? r.sign[k] : 1) / sqrt((double)n);
                    sum += e * x[n + k];
                    back[k] += e * y[n + i];
                }
                assert_true(fabs(sum - y[n + i]) < 1e-5);
            }
            for (size_t k = 0; k < n; k++) assert_true(fabs(back[k] - x[n + k]) < 1e-5);
            free(x);
            free(y);
            free(back);
            bt_hadamard_done(&r);
        }
    bt_hadamard_init(&r, 18, true);
    assert_int_equal(r.base, 0);
    bt_hadamard_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_smallest_base),
        cmocka_unit_test(every_base_times_its_transpose_is_a_multiple_of_one),
        cmocka_unit_test(the_fast_product_is_the_dense_one_and_its_transpose_undoes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
