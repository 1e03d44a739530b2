/* Who gives way, and who had all the time there is: times are given, nothing is open. */
#include "gateway/http/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { S = 1000000, IDLE_S = 30 };

static void somebody_silent_gives_way_the_oldest_first(void **state)
{
    (void)state;
    gw_places s = {.idle_us = (int64_t)IDLE_S * S};
    gw_place a, b, c;
    assert_null(gw_places_victim(&s, 0));
    gw_places_add(&s, &a, 1);
    gw_places_add(&s, &b, 2);
    gw_places_add(&s, &c, 3);
    assert_int_equal(s.count, 3);
    assert_null(gw_places_victim(&s, GW_PLACES_HEAD_GRACE_US)); /* it may be about to speak */
    assert_ptr_equal(gw_places_victim(&s, GW_PLACES_HEAD_GRACE_US + 1), &a);
    gw_places_enter(&s, &a, GW_PHASE_WAITS, 5); /* it has asked for something */
    assert_int_equal(s.served + s.moving, 1);
    assert_ptr_equal(gw_places_victim(&s, S), &b);
    gw_places_enter(&s, &a, GW_PHASE_HEAD, 7); /* answered: the youngest of those that are silent */
    assert_int_equal(s.served + s.moving, 0);
    gw_places_shut(&s, &b);
    assert_ptr_equal(gw_places_victim(&s, S), &c);
    gw_places_shut(&s, &c);
    assert_ptr_equal(gw_places_victim(&s, S), &a);
    gw_places_enter(&s, &b, GW_PHASE_HEAD, 9); /* given up: never named again */
    gw_places_shut(&s, &a);
    assert_null(gw_places_victim(&s, S));
    assert_int_equal(s.shut, 3);
    gw_places_remove(&s, &b);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.shut, 2);
}

static void a_request_that_is_served_never_gives_way(void **state)
{
    (void)state;
    gw_places s = {.idle_us = (int64_t)IDLE_S * S};
    gw_place a;
    gw_places_add(&s, &a, 0);
    gw_places_enter(&s, &a, GW_PHASE_WAITS, 0);
    assert_null(gw_places_victim(&s, 3600LL * S));
    assert_null(gw_places_late(&s, 3600LL * S));
}

static void slow_bodies_and_readers_give_way_and_fast_ones_do_not(void **state)
{
    (void)state;
    static const gw_phase phases[] = {GW_PHASE_BODY, GW_PHASE_SENDS, GW_PHASE_STREAMS};
    for (size_t i = 0; i < 3; i++) {
        const gw_phase phase = phases[i];
        gw_places s = {.idle_us = (int64_t)IDLE_S * S};
        gw_place slow, fast;
        gw_places_add(&s, &fast, 0);
        gw_places_enter(&s, &fast, phase, 0);
        gw_places_add(&s, &slow, 0);
        gw_places_enter(&s, &slow, phase, 0);
        assert_null(gw_places_victim(&s, GW_PLACES_GRACE_US - 1));
        gw_places_moved(&fast, GW_PLACES_MIN_BYTES_PER_S, S);
        gw_places_moved(&slow, 10, S);
        assert_ptr_equal(gw_places_victim(&s, S + 1), &slow);
        assert_ptr_equal(gw_places_slow(&s, S + 1), &slow);
        assert_ptr_equal(gw_places_slow_body(&s, S + 1), phase == GW_PHASE_BODY ? &slow : NULL);
        gw_places_shut(&s, &slow);
        assert_null(gw_places_victim(&s, S + 1));
        assert_ptr_equal(gw_places_victim(&s, 2 * S), &fast); /* nothing more came */
        assert_int_equal(s.served + s.moving, 1);
    }
}

static void a_burst_wins_no_long_silence(void **state)
{
    (void)state;
    const int64_t end = GW_PLACES_AHEAD_US + GW_PLACES_GRACE_US;
    gw_places s = {.idle_us = (int64_t)IDLE_S * S};
    gw_place burst, answer;
    gw_places_add(&s, &burst, 0);
    gw_places_enter(&s, &burst, GW_PHASE_BODY, 0);
    gw_places_moved(&burst, 100 * GW_PLACES_MIN_BYTES_PER_S, 0);
    assert_null(gw_places_slow(&s, end - 1));
    assert_ptr_equal(gw_places_slow(&s, end), &burst);
    gw_places_moved(&burst, GW_PLACES_MIN_BYTES_PER_S, end); /* it goes on */
    assert_null(gw_places_slow(&s, end));
    gw_places_moved(&burst, SIZE_MAX, end); /* nothing overflows */
    assert_null(gw_places_slow(&s, end));
    gw_places_shut(&s, &burst);
    gw_places_add(&s, &answer, 0); /* of an answer nobody knows what has gone: it has the time of all of it */
    gw_places_enter(&s, &answer, GW_PHASE_SENDS, 0);
    gw_places_sends(&answer, 10 * GW_PLACES_MIN_BYTES_PER_S);
    assert_null(gw_places_slow(&s, 10 * S));
    assert_ptr_equal(gw_places_slow(&s, 10 * S + GW_PLACES_GRACE_US), &answer);
}

static void who_stalled_for_long_and_goes_on_is_forgiven_soon(void **state)
{
    (void)state;
    gw_places s = {.idle_us = (int64_t)IDLE_S * S};
    gw_place body;
    gw_places_add(&s, &body, 0);
    gw_places_enter(&s, &body, GW_PHASE_BODY, 0);
    assert_ptr_equal(gw_places_slow(&s, 20 * S), &body);
    gw_places_moved(&body, GW_PLACES_MIN_BYTES_PER_S, 20 * S);
    assert_null(gw_places_slow(&s, 20 * S));
}

static void bytes_that_drip_win_no_time(void **state)
{
    (void)state;
    gw_places s = {.idle_us = (int64_t)IDLE_S * S};
    gw_place head, body;
    gw_places_add(&s, &head, 0);
    gw_places_add(&s, &body, 0);
    gw_places_enter(&s, &body, GW_PHASE_BODY, 0);
    body.bytes = 4 * GW_PLACES_MIN_BYTES_PER_S; /* four seconds more */
    head.bytes = 1 << 20;                       /* none: a head has its time and no more */
    assert_null(gw_places_late(&s, IDLE_S * S - 1));
    assert_ptr_equal(gw_places_late(&s, IDLE_S * S), &head);
    gw_places_shut(&s, &head);
    assert_null(gw_places_late(&s, (IDLE_S + 4) * S - 1));
    assert_ptr_equal(gw_places_late(&s, (IDLE_S + 4) * S), &body);
    body.bytes = UINT64_MAX; /* nothing overflows */
    assert_null(gw_places_late(&s, (IDLE_S + 4) * S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(somebody_silent_gives_way_the_oldest_first),
        cmocka_unit_test(a_request_that_is_served_never_gives_way),
        cmocka_unit_test(slow_bodies_and_readers_give_way_and_fast_ones_do_not),
        cmocka_unit_test(a_burst_wins_no_long_silence),
        cmocka_unit_test(who_stalled_for_long_and_goes_on_is_forgiven_soon),
        cmocka_unit_test(bytes_that_drip_win_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
