/* An alarm rings once, not before its time, and the last time that was set counts. */
#include "rt/alarm.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { DEADLINE_MS = 60000 };

typedef struct heard {
    bt_loop *loop;
    bt_alarm *alarm;
    int times;
    int64_t at_us;
} heard;

static void on_time(void *ud, unsigned events)
{
    heard *h = ud;
    (void)events;
    h->times++;
    h->at_us = bt_clock_us();
}

static void open_alarm(heard *h)
{
    *h = (heard){.times = 0};
    assert_int_equal(bt_loop_new(&h->loop, NULL), BT_OK);
    assert_int_equal(bt_alarm_new(&h->alarm, h->loop, on_time, h, NULL), BT_OK);
}

static void close_alarm(heard *h)
{
    bt_alarm_free(h->alarm);
    bt_loop_free(h->loop);
}

static void rings_once_and_never_early(void **state)
{
    (void)state;
    heard h;
    open_alarm(&h);
    const int64_t at = bt_clock_us() + 1500;
    bt_alarm_set(h.alarm, at);
    while (!h.times) assert_int_equal(bt_loop_step(h.loop, DEADLINE_MS, NULL), BT_OK);
    assert_true(h.at_us >= at);
    assert_int_equal(bt_loop_step(h.loop, 0, NULL), BT_OK);
    assert_int_equal(h.times, 1);
    bt_alarm_set(h.alarm, at); /* the same again, which is over */
    while (h.times < 2) assert_int_equal(bt_loop_step(h.loop, DEADLINE_MS, NULL), BT_OK);
    close_alarm(&h);
}

static void the_last_time_counts(void **state)
{
    (void)state;
    heard h;
    open_alarm(&h);
    bt_alarm_set(h.alarm, 0); /* at once, but not any more */
    bt_alarm_set(h.alarm, INT64_MAX);
    assert_int_equal(bt_loop_step(h.loop, 0, NULL), BT_OK);
    assert_int_equal(h.times, 0);
    bt_alarm_set(h.alarm, bt_clock_us() + 3600000000ll);
    bt_alarm_set(h.alarm, 0);
    while (!h.times) assert_int_equal(bt_loop_step(h.loop, DEADLINE_MS, NULL), BT_OK);
    close_alarm(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_once_and_never_early),
        cmocka_unit_test(the_last_time_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
