/* Perplexity sums on rows whose answers are known in closed form. */
#include "sample/perplexity.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void near(double a, double b) { assert_true(fabs(a - b) <= 1e-9 * (1 + fabs(b))); }

static void equal_logits_cost_the_logarithm_of_the_vocabulary(void **state)
{
    (void)state;
    const float z[4] = {900.0f, 900.0f, 900.0f, 900.0f};
    bt_perplexity p = {0};
    for (int i = 0; i < 10; i++) bt_perplexity_add(&p, bt_perplexity_nll(z, 4, i % 4));
    near(bt_perplexity_value(&p), 4.0);
    assert_true(bt_perplexity_error(&p) < 1e-6);
    assert_int_equal(p.tokens, 10);
}

static void a_row_with_known_probabilities_costs_minus_their_logarithm(void **state)
{
    (void)state;
    const float z[3] = {(float)log(0.5) + 3, (float)log(0.25) + 3, (float)log(0.25) + 3};
    assert_true(fabs(bt_perplexity_nll(z, 3, 0) - log(2)) < 1e-6);
    assert_true(fabs(bt_perplexity_nll(z, 3, 2) - log(4)) < 1e-6);
    const float bad[2] = {NAN, 0.0f};
    assert_true(isnan(bt_perplexity_nll(bad, 2, 1)));
}

static void the_error_is_that_of_the_mean(void **state)
{
    (void)state;
    bt_perplexity p = {0};
    assert_true(isnan(bt_perplexity_value(&p)));
    bt_perplexity_add(&p, 1.0);
    assert_true(isnan(bt_perplexity_error(&p)));
    bt_perplexity_add(&p, 3.0);
    near(bt_perplexity_value(&p), exp(2.0));
    near(bt_perplexity_error(&p), exp(2.0)); /* deviation 1 (of n), over sqrt(n - 1) = 1 */
}

static void windows_of_512_score_255_tokens_each(void **state)
{
    (void)state;
    bt_perplexity_plan p;
    assert_int_equal(bt_perplexity_plan_make(&p, 300000, 512, 20, NULL), BT_OK);
    assert_int_equal(p.windows, 20);
    assert_int_equal(p.first_scored, 256);
    assert_int_equal(p.last_scored, 510);
    assert_int_equal(p.windows * (p.last_scored - p.first_scored + 1), 5100);
    assert_int_equal(bt_perplexity_plan_make(&p, 1023, 512, 0, NULL), BT_OK);
    assert_int_equal(p.windows, 1);
    bt_fault f;
    assert_int_equal(bt_perplexity_plan_make(&p, 511, 512, 0, &f), BT_EARG);
    assert_non_null(strstr(f.text, "511"));
    assert_non_null(strstr(f.text, "512"));
    assert_int_equal(bt_perplexity_plan_make(&p, 511, 3, 0, &f), BT_EARG);
}

static void bos_takes_the_place_of_the_first_token_of_a_window(void **state)
{
    (void)state;
    const int32_t text[9] = {10, 11, 12, 13, 14, 15, 16, 17, 18};
    int32_t ids[4];
    bt_perplexity_plan p;
    assert_int_equal(bt_perplexity_plan_make(&p, 9, 4, 0, NULL), BT_OK);
    bt_perplexity_window(ids, &p, text, 1, 1);
    assert_memory_equal(ids, ((int32_t[]){1, 15, 16, 17}), sizeof ids);
    bt_perplexity_window(ids, &p, text, 1, -1);
    assert_memory_equal(ids, ((int32_t[]){14, 15, 16, 17}), sizeof ids);
}

static void differences_of_known_distributions_are_measured(void **state)
{
    (void)state;
    const float base[2] = {0.0f, 0.0f}, other[2] = {(float)log(3), 0.0f}, flipped[2] = {0.0f, 1.0f};
    bt_perplexity_diff *d = NULL;
    assert_int_equal(bt_perplexity_diff_new(&d, 100, NULL), BT_OK);
    assert_int_equal(bt_perplexity_diff_end(d).rows, 0);
    for (int i = 0; i < 98; i++) assert_int_equal(bt_perplexity_diff_add(d, base, base, 2, NULL), BT_OK);
    assert_int_equal(bt_perplexity_diff_add(d, base, other, 2, NULL), BT_OK);
    assert_int_equal(bt_perplexity_diff_add(d, base, flipped, 2, NULL), BT_OK);
    assert_int_equal(bt_perplexity_diff_add(d, base, base, 2, NULL), BT_ELIMIT);
    const bt_perplexity_diff_result r = bt_perplexity_diff_end(d);
    const double kl_other = 0.5 * log(0.5 / 0.75) + 0.5 * log(0.5 / 0.25), q = 1 / (1 + exp(1.0));
    const double kl_flipped = 0.5 * log(0.5 / q) + 0.5 * log(0.5 / (1 - q));
    assert_int_equal(r.rows, 100);
    assert_true(fabs(r.kl_mean - (kl_other + kl_flipped) / 100) < 1e-8);
    assert_true(fabs(r.kl_max - kl_other) < 1e-7);
    assert_true(fabs(r.kl_p99 - kl_flipped) < 1e-7);
    assert_true(fabs(r.top1_ratio - 0.99) < 1e-12);
    bt_perplexity_diff_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_logits_cost_the_logarithm_of_the_vocabulary),
        cmocka_unit_test(a_row_with_known_probabilities_costs_minus_their_logarithm),
        cmocka_unit_test(the_error_is_that_of_the_mean),
        cmocka_unit_test(windows_of_512_score_255_tokens_each),
        cmocka_unit_test(bos_takes_the_place_of_the_first_token_of_a_window),
        cmocka_unit_test(differences_of_known_distributions_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
