/* Shares of heads: in proportion to importance, none above all, their mean the ratio. */
#include "npu/quant/shares.h"
#include "npu/pkg/attention.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

enum { HEADS = 270 };

static double sum_of(const uint32_t *ppm, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ppm[i];
    return sum;
}

static void shares_are_in_proportion_and_their_mean_is_the_ratio(void **state)
{
    (void)state;
    static const uint32_t ratios[] = {1000, 100000, 200000, 600000, 900000};
    double importance[HEADS];
    uint32_t ppm[HEADS];
    for (size_t r = 0; r < sizeof ratios / sizeof *ratios; r++) {
        uint64_t at_all = 0;
        for (size_t i = 0; i < HEADS; i++) importance[i] = 0.01 + (double)(i * 7919 % 1000) / 300;
        bt_shares(ppm, importance, HEADS, ratios[r]);
        assert_true(fabs(sum_of(ppm, HEADS) - (double)ratios[r] * HEADS) <= HEADS);
        for (size_t i = 0; i < HEADS; i++) {
            assert_in_range(ppm[i], 1, BT_ATTENTION_ALL_PPM);
            at_all += ppm[i] == BT_ATTENTION_ALL_PPM;
            for (size_t k = 0; k < i; k++)
                if (ppm[i] < BT_ATTENTION_ALL_PPM && ppm[k] < BT_ATTENTION_ALL_PPM)
                    assert_true(fabs(ppm[i] * importance[k] - ppm[k] * importance[i]) <=
                                0.51 * (importance[i] + importance[k]));
        }
        assert_true(ratios[r] < 600000 ? at_all == 0 : at_all > 0);
        /* of the positions that a row keeps in all heads together, the ratio's within one a head; none keeps
         * less than one */
        for (uint32_t seen = 1; seen < 9000; seen = seen * 3 + 1) {
            double kept = 0;
            for (size_t i = 0; i < HEADS; i++) {
                const uint32_t k = bt_attention_keeps(ppm[i], seen);
                assert_in_range(k, 1, seen);
                kept += k;
            }
            const double want = (double)ratios[r] / 1e6 * HEADS * seen;
            assert_true(kept >= want - 1 && kept <= want + HEADS + 1);
        }
    }
}

static void the_excess_of_one_head_goes_to_the_others(void **state)
{
    (void)state;
    uint32_t ppm[4];
    bt_shares(ppm, (const double[]){100, 1, 1, 2}, 4, 500000);
    assert_int_equal(ppm[0], 1000000);
    assert_int_equal(ppm[1], 250000);
    assert_int_equal(ppm[2], 250000);
    assert_int_equal(ppm[3], 500000);
}

static void with_ratio_1_all_keep_all_and_what_is_no_number_counts_least(void **state)
{
    (void)state;
    uint32_t ppm[3];
    bt_shares(ppm, (const double[]){5, 0, 1e-9}, 3, 1000000);
    for (size_t i = 0; i < 3; i++) assert_int_equal(ppm[i], 1000000);
    bt_shares(ppm, (const double[]){NAN, 1, 0}, 3, 100000);
    assert_int_equal(ppm[0], ppm[2]);
    assert_true(ppm[1] > 900 * ppm[0]);
    bt_shares(ppm, (const double[]){0, 0, 0}, 3, 100000);
    for (size_t i = 0; i < 3; i++) assert_int_equal(ppm[i], 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_in_proportion_and_their_mean_is_the_ratio),
        cmocka_unit_test(the_excess_of_one_head_goes_to_the_others),
        cmocka_unit_test(with_ratio_1_all_keep_all_and_what_is_no_number_counts_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
