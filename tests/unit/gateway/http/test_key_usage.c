/* The rates of a key: they refill evenly, nothing is taken twice or for nothing, and waits are true. */
#include "gateway/http/key_usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { SECOND = 1000000, MINUTE = 60000000 };

static gw_key_usage limited(uint32_t requests, uint32_t tokens, uint32_t at_once)
{
    gw_key_usage u = {0};
    gw_key_usage_limit(&u, &(gw_key_limits){requests, tokens, at_once, 0}, 5);
    return u;
}

static void a_key_without_limits_is_never_refused(void **state)
{
    (void)state;
    gw_key_usage u = limited(0, 0, 0);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(gw_key_usage_arrive(&u, 5).limit, GW_KEY_FINE);
        const gw_key_verdict v = gw_key_usage_begin(&u, 1 << 20, 5);
        assert_int_equal(v.limit, GW_KEY_FINE);
        assert_int_equal(v.taken, 0);
    }
    assert_int_equal(u.in_flight, 10000);
}

static void a_minutes_requests_pass_at_once_and_then_one_each_time_the_bucket_has_one(void **state)
{
    (void)state;
    gw_key_usage u = limited(6, 0, 0); /* one in 10 s */
    for (int i = 0; i < 6; i++) assert_int_equal(gw_key_usage_arrive(&u, 5).limit, GW_KEY_FINE);
    gw_key_verdict v = gw_key_usage_arrive(&u, 5);
    assert_int_equal(v.limit, GW_KEY_REQUESTS);
    assert_int_equal(v.wait_us, 10 * SECOND);
    v = gw_key_usage_arrive(&u, 5 + 4 * SECOND); /* asking does not make it longer */
    assert_int_equal(v.wait_us, 6 * SECOND);
    assert_int_equal(gw_key_usage_arrive(&u, 5 + 10 * SECOND - 1).limit, GW_KEY_REQUESTS);
    assert_int_equal(gw_key_usage_arrive(&u, 5 + 10 * SECOND).limit, GW_KEY_FINE);
    assert_int_equal(gw_key_usage_arrive(&u, 5 + 10 * SECOND).limit, GW_KEY_REQUESTS);
    const int64_t later = (int64_t)1000 * MINUTE; /* a long silence saves up one minute's worth, no more */
    for (int i = 0; i < 6; i++) assert_int_equal(gw_key_usage_arrive(&u, later).limit, GW_KEY_FINE);
    assert_int_equal(gw_key_usage_arrive(&u, later).limit, GW_KEY_REQUESTS);
}

static void whoever_waits_as_long_as_was_said_gets_in(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t rate = seed % 100000 + 1, asked = (seed >> 8) % 200000 + 1;
        gw_key_usage u = limited(0, rate, 0);
        int64_t now = 5 + seed % 1000;
        for (int i = 0; i < 20; i++) {
            const gw_key_verdict v = gw_key_usage_begin(&u, asked, now);
            if (v.limit == GW_KEY_FINE) continue;
            assert_int_equal(v.limit, GW_KEY_TOKENS);
            assert_true(v.wait_us > 0);
            now += v.wait_us - 1;
            assert_int_equal(gw_key_usage_begin(&u, asked, now).limit, GW_KEY_TOKENS);
            now++;
            assert_int_equal(gw_key_usage_begin(&u, asked, now).limit, GW_KEY_FINE);
        }
    }
}

static void tokens_that_were_not_used_come_back(void **state)
{
    (void)state;
    gw_key_usage u = limited(0, 100, 0);
    gw_key_verdict v = gw_key_usage_begin(&u, 90, 5);
    assert_int_equal(v.taken, 90);
    assert_int_equal(gw_key_usage_begin(&u, 50, 5).limit, GW_KEY_TOKENS);
    gw_key_usage_end(&u, v.taken, 30, 5);
    assert_int_equal(gw_key_usage_begin(&u, 71, 5).limit, GW_KEY_TOKENS);
    v = gw_key_usage_begin(&u, 70, 5);
    assert_int_equal(v.limit, GW_KEY_FINE);
    gw_key_usage_end(&u, v.taken, 0, 5 + 30 * SECOND); /* 50 came in between: no more than fit */
    assert_int_equal(gw_key_usage_begin(&u, 100, 5 + 30 * SECOND).limit, GW_KEY_FINE);
    assert_int_equal(gw_key_usage_begin(&u, 1, 5 + 30 * SECOND).limit, GW_KEY_TOKENS);
}

static void a_request_above_a_minutes_tokens_waits_for_a_full_bucket_and_is_paid_off(void **state)
{
    (void)state;
    gw_key_usage u = limited(0, 60, 0); /* one a second */
    assert_int_equal(gw_key_usage_begin(&u, 1, 5).limit, GW_KEY_FINE);
    gw_key_verdict v = gw_key_usage_begin(&u, 600, 5);
    assert_int_equal(v.limit, GW_KEY_TOKENS);
    assert_int_equal(v.wait_us, SECOND);
    v = gw_key_usage_begin(&u, 600, 5 + SECOND);
    assert_int_equal(v.limit, GW_KEY_FINE);
    v = gw_key_usage_begin(&u, 1, 5 + SECOND);
    assert_int_equal(v.limit, GW_KEY_TOKENS);
    assert_int_equal(v.wait_us, 541 * SECOND);
    assert_int_equal(gw_key_usage_begin(&u, 1, 5 + 542 * SECOND).limit, GW_KEY_FINE);
}

static void so_many_at_once_and_one_more_when_one_has_ended(void **state)
{
    (void)state;
    gw_key_usage u = limited(0, 0, 2);
    assert_int_equal(gw_key_usage_begin(&u, 9, 5).limit, GW_KEY_FINE);
    assert_int_equal(gw_key_usage_begin(&u, 9, 5).limit, GW_KEY_FINE);
    gw_key_verdict v = gw_key_usage_begin(&u, 9, 5);
    assert_int_equal(v.limit, GW_KEY_AT_ONCE);
    assert_int_equal(v.wait_us, SECOND); /* nothing has ended yet */
    assert_int_equal(u.in_flight, 2);
    gw_key_usage_end(&u, 0, 9, 5);
    assert_int_equal(gw_key_usage_begin(&u, 9, 5).limit, GW_KEY_FINE);
    v = gw_key_usage_begin(&u, 9, 5 + 4 * SECOND); /* one ended in 4 s */
    assert_int_equal(v.limit, GW_KEY_AT_ONCE);
    assert_true(v.wait_us >= 4 * SECOND && v.wait_us < 4 * SECOND + 10);
}

static void limits_that_change_keep_what_was_taken(void **state)
{
    (void)state;
    gw_key_usage u = limited(0, 100, 0);
    assert_int_equal(gw_key_usage_begin(&u, 100, 5).limit, GW_KEY_FINE);
    gw_key_usage_limit(&u, &(gw_key_limits){.tokens_per_minute = 1000}, 5);
    assert_int_equal(gw_key_usage_begin(&u, 1, 5).limit, GW_KEY_TOKENS); /* larger, but as empty */
    assert_int_equal(gw_key_usage_begin(&u, 500, 5 + 30 * SECOND).limit, GW_KEY_FINE);
    gw_key_usage_limit(&u, &(gw_key_limits){.tokens_per_minute = 10}, 5 + 90 * SECOND);
    assert_int_equal(gw_key_usage_begin(&u, 11, 5 + 90 * SECOND).limit, GW_KEY_FINE); /* full at 10 */
    gw_key_usage_limit(&u, &(gw_key_limits){0}, 5 + 90 * SECOND);
    gw_key_usage_limit(&u, &(gw_key_limits){.tokens_per_minute = 10}, 5 + 90 * SECOND);
    assert_int_equal(gw_key_usage_begin(&u, 10, 5 + 90 * SECOND).limit, GW_KEY_FINE); /* a new limit begins
                                                                                         full */
}

static void the_largest_limits_do_not_overflow(void **state)
{
    (void)state;
    gw_key_usage u = limited(GW_KEY_MAX_PER_MINUTE, GW_KEY_MAX_PER_MINUTE, 0);
    const int64_t year = (int64_t)365 * 24 * 60 * MINUTE;
    for (int64_t now = 5; now < 100 * year; now += year) {
        const gw_key_verdict v = gw_key_usage_begin(&u, (uint64_t)1 << 33, now);
        assert_int_equal(v.limit, GW_KEY_FINE);
        assert_int_equal(gw_key_usage_begin(&u, 1, now).limit, GW_KEY_TOKENS);
        assert_int_equal(gw_key_usage_arrive(&u, now).limit, GW_KEY_FINE);
    }
    assert_int_equal(gw_key_usage_begin(&u, 1, 1).limit, GW_KEY_TOKENS); /* a clock that goes back gives
                                                                            nothing */
}

static void a_pace_is_that_of_the_last_ends_and_is_forgotten(void **state)
{
    (void)state;
    gw_key_pace p = {0};
    assert_int_equal(gw_key_pace_wait_us(&p, 3, 5), SECOND);
    for (int i = 0; i < 1000; i++) gw_key_pace_ended(&p, (int64_t)i * SECOND / 10);
    const int64_t now = 100 * SECOND; /* ten a second */
    assert_in_range(gw_key_pace_wait_us(&p, 20, now), 2 * SECOND, 2 * SECOND + 100);
    assert_int_equal(gw_key_pace_wait_us(&p, UINT64_MAX, now), GW_KEY_PACE_US);
    assert_int_equal(gw_key_pace_wait_us(&p, 20, now + 2 * MINUTE), SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_without_limits_is_never_refused),
        cmocka_unit_test(a_minutes_requests_pass_at_once_and_then_one_each_time_the_bucket_has_one),
        cmocka_unit_test(whoever_waits_as_long_as_was_said_gets_in),
        cmocka_unit_test(tokens_that_were_not_used_come_back),
        cmocka_unit_test(a_request_above_a_minutes_tokens_waits_for_a_full_bucket_and_is_paid_off),
        cmocka_unit_test(so_many_at_once_and_one_more_when_one_has_ended),
        cmocka_unit_test(limits_that_change_keep_what_was_taken),
        cmocka_unit_test(the_largest_limits_do_not_overflow),
        cmocka_unit_test(a_pace_is_that_of_the_last_ends_and_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
