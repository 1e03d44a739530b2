/* Drafts by look-up: what is found is the longest suffix at its latest place, by a search written the plain
 * way; how many are brought follows what they cost and how often they were right. */
#include "decode-node/brain/lookup.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void finds_the_longest_suffix_at_its_latest_place(void **state)
{
    (void)state;
    size_t at = 99;
    const int32_t a[] = {1, 2, 3, 9, 2, 3, 8, 7, 3, 6, 1, 2, 3};
    assert_int_equal(dc_lookup_find(&at, a, 13), 3); /* 1 2 3, though 2 3 and 3 stand later */
    assert_int_equal(at, 3);
    assert_int_equal(dc_lookup_find(&at, a + 1, 12), 2); /* without the first 1: 2 3, the later one */
    assert_int_equal(at, 5);
    const int32_t b[] = {4, 4, 4};
    assert_int_equal(dc_lookup_find(&at, b, 3), 2); /* overlapping itself; the place is before the end */
    assert_int_equal(at, 2);
    assert_int_equal(dc_lookup_find(&at, a, 3), 0);
    assert_int_equal(dc_lookup_find(&at, a, 1), 0);
    assert_int_equal(dc_lookup_find(&at, a, 0), 0);
}

static uint32_t plain(size_t *ret, const int32_t *ids, size_t n)
{
    for (size_t len = 3; len > 0; len--)
        for (size_t end = n; end-- > len;) /* a place that ends before `end`, with ids[end] behind it */
            if (n > len && memcmp(ids + end - len, ids + n - len, len * sizeof *ids) == 0) {
                *ret = end;
                return (uint32_t)len;
            }
    return 0;
}

static void agrees_with_the_plain_search_on_random_tokens(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3000; i++) {
        const size_t n = bt_rng_u64(1, i) % 40;
        int32_t *ids = malloc(n * sizeof *ids + 1);
        size_t at = 0, want = 0;
        for (size_t k = 0; k < n; k++) ids[k] = (int32_t)(bt_rng_u64(i + 2, k) % (2 + i % 9));
        const uint32_t len = plain(&want, ids, n);
        assert_int_equal(dc_lookup_find(&at, ids, n), len);
        if (len) assert_int_equal(at, want);
        free(ids);
    }
}

static dc_lookup_cost costs(float first, float each)
{
    dc_lookup_cost c = {{0}};
    for (uint32_t r = 1; r <= DC_LOOKUP_ROWS; r++) c.step_us[r] = first + each * (float)(r - 1);
    return c;
}

static void rows_that_cost_nothing_are_all_taken_and_rows_that_cost_a_step_none(void **state)
{
    (void)state;
    const dc_lookup l = {{0}, {0}};
    const dc_lookup_cost free_rows = costs(1000, 0), dear = costs(1000, 1000), none = {{0}};
    for (uint32_t suffix = 1; suffix <= DC_LOOKUP_LONGEST; suffix++) {
        assert_true(dc_lookup_worth(&l, suffix, &free_rows, 1, 4) == 4);
        assert_int_equal(dc_lookup_worth(&l, suffix, &dear, 1, 4), 0);
        assert_true(dc_lookup_worth(&l, suffix, &none, 1, 4) == 4); /* not known: hoping for the best */
        assert_int_equal(dc_lookup_worth(&l, suffix, &free_rows, 1, 0), 0);
    }
    assert_int_equal(dc_lookup_worth(&l, 3, &free_rows, DC_LOOKUP_ROWS, 4), 0);
}

static void drafts_that_fail_are_given_up_and_tried_again_much_later(void **state)
{
    (void)state;
    dc_lookup l = {{0}, {0}};
    const dc_lookup_cost c = costs(1000, 100);
    uint32_t steps = 0, again = 0;
    while (dc_lookup_worth(&l, 2, &c, 1, 4)) {
        dc_lookup_learn(&l, 2, 4, 0);
        assert_true(++steps < 20);
    }
    assert_true(steps > 0);
    assert_true(dc_lookup_worth(&l, 3, &c, 1, 4) > 0); /* longer suffixes have their own belief */
    while (!dc_lookup_worth(&l, 2, &c, 1, 4)) {
        dc_lookup_forget(&l);
        assert_true(++again < 2000);
    }
    assert_true(again > 20);
}

static void drafts_that_are_right_are_taken_at_a_price(void **state)
{
    (void)state;
    dc_lookup l = {{0}, {0}};
    const dc_lookup_cost c = costs(1000, 600);
    assert_int_equal(dc_lookup_worth(&l, 1, &c, 1, 4), 0);
    for (int i = 0; i < 20; i++) dc_lookup_learn(&l, 1, 4, 4);
    assert_true(dc_lookup_belief(&l, 1) > 0.9f);
    assert_int_equal(dc_lookup_worth(&l, 1, &c, 1, 4), 4);
}

static void one_slow_step_is_forgotten(void **state)
{
    (void)state;
    const dc_lookup l = {{0}, {0}};
    dc_lookup_cost c = {{0}};
    uint32_t steps = 0;
    dc_lookup_took(&c, 1, 1000);
    for (uint32_t r = 2; r <= 5; r++) dc_lookup_took(&c, r, 50000);
    while (!dc_lookup_worth(&l, 3, &c, 1, 4)) {
        dc_lookup_took(&c, 1, 1000);
        assert_true(++steps < 5000);
    }
    dc_lookup_took(&c, 0, 1); /* no rows, or more than are looked at: nothing */
    dc_lookup_took(&c, DC_LOOKUP_ROWS + 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_longest_suffix_at_its_latest_place),
        cmocka_unit_test(agrees_with_the_plain_search_on_random_tokens),
        cmocka_unit_test(rows_that_cost_nothing_are_all_taken_and_rows_that_cost_a_step_none),
        cmocka_unit_test(drafts_that_fail_are_given_up_and_tried_again_much_later),
        cmocka_unit_test(drafts_that_are_right_are_taken_at_a_price),
        cmocka_unit_test(one_slow_step_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
