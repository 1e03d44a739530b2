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
    assert_int_equal(s.busy, 1);
    assert_ptr_equal(gw_places_victim(&s, S), &b);
    gw_places_enter(&s, &a, GW_PHASE_HEAD, 7); /* answered: the youngest of those that are silent */
    assert_int_equal(s.busy, 0);
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
        fast.bytes = 10 * GW_PLACES_MIN_BYTES_PER_S;
        slow.bytes = 10;
        assert_null(gw_places_victim(&s, GW_PLACES_GRACE_US - 1));
        assert_ptr_equal(gw_places_victim(&s, 2 * S), &slow);
        gw_places_shut(&s, &slow);
        assert_null(gw_places_victim(&s, 10 * S));
        assert_ptr_equal(gw_places_victim(&s, 11 * S), &fast); /* nothing more came */
        assert_int_equal(s.busy, phase == GW_PHASE_STREAMS);
        assert_ptr_equal(gw_places_unread(&s, 11 * S), phase == GW_PHASE_STREAMS ? &fast : NULL);
    }
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
        cmocka_unit_test(bytes_that_drip_win_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
