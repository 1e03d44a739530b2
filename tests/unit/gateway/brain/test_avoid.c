/* Who is avoided, for how long, and that the table is bounded. */
#include "gateway/brain/avoid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

static void what_fails_is_avoided_for_longer_each_time_and_a_trial_makes_others_wait(void **s)
{
    (void)s;
    gw_avoid *a = calloc(1, sizeof *a);
    static const int64_t want[] = {500000, 1000000, 2000000, 4000000, 8000000, 8000000};
    int64_t now = 5;
    for (int i = 0; i < 6; i++) {
        gw_avoid_failed(a, 0, 9, now);
        assert_true(gw_avoid_is(a, 3, 9, now + want[i] - 1));
        assert_true(gw_avoid_is(a, 0, 9, now + want[i] - 1));
        assert_false(gw_avoid_is(a, 3, 8, now));
        now += want[i];
        assert_false(gw_avoid_is(a, 3, 9, now));
    }
    gw_avoid_tried(a, 3, 9, now);
    assert_true(gw_avoid_is(a, 4, 9, now + 7999999));
    gw_avoid_succeeded(a, 3, 9); /* the pair: not what is avoided */
    assert_true(gw_avoid_is(a, 4, 9, now));
    gw_avoid_succeeded(a, 0, 9);
    assert_false(gw_avoid_is(a, 4, 9, now));
    assert_int_equal(a->len, 0);
    assert_false(gw_avoid_fails(a, 9));
    gw_avoid_failed(a, 3, 9, now); /* a pair */
    assert_true(gw_avoid_fails(a, 9));
    assert_false(gw_avoid_fails(a, 8));
    assert_true(gw_avoid_is(a, 3, 9, now));
    assert_false(gw_avoid_is(a, 4, 9, now) || gw_avoid_is(a, 3, 8, now) || gw_avoid_is(a, 0, 9, now));
    free(a);
}

static void a_refusal_of_a_pair_ends_when_it_said_and_the_table_is_bounded(void **s)
{
    (void)s;
    gw_avoid *a = calloc(1, sizeof *a);
    gw_avoid_refused(a, 3, 9, 100, 0);
    gw_avoid_refused(a, 3, 8, 70, 0);
    assert_true(gw_avoid_refuses(a, 3, 9, 99));
    assert_false(gw_avoid_refuses(a, 3, 9, 100) || gw_avoid_refuses(a, 4, 9, 0) || gw_avoid_is(a, 3, 9, 0));
    assert_int_equal(gw_avoid_due_us(a, 0), 70);
    assert_int_equal(gw_avoid_due_us(a, 70), 100);
    assert_true(gw_avoid_due_us(a, 100) == INT64_MAX);
    for (uint64_t i = 1; i <= 1000; i++) {
        gw_avoid_failed(a, i, 0, 200 + (int64_t)i);
        gw_avoid_refused(a, i, 9, 10000000, 200 + (int64_t)i);
        assert_true(a->len <= GW_AVOID_MAX);
    }
    gw_avoid_failed(a, 5000, 0, 100000000); /* a minute later: the rest is forgotten */
    assert_int_equal(a->len, 1);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fails_is_avoided_for_longer_each_time_and_a_trial_makes_others_wait),
        cmocka_unit_test(a_refusal_of_a_pair_ends_when_it_said_and_the_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
