/* A timerfd of the clock that base/clock.h reads. */
#include "rt/alarm.h"
#include "base/clock.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct bt_alarm {
    bt_loop *loop;
    bt_loop_fn *fn;
    void *ud;
    int fd;
    uint64_t watch;
    int64_t at_us;
};

static void on_time(void *ud, unsigned events)
{
    bt_alarm *a = ud;
    uint64_t times;
    (void)events;
    if (read(a->fd, &times, sizeof times) != (ssize_t)sizeof times) return; /* set anew meanwhile */
    a->at_us = INT64_MAX;
    a->fn(a->ud, 0);
}

bt_err bt_alarm_new(bt_alarm **ret, bt_loop *loop, bt_loop_fn *fn, void *ud, bt_fault *fault)
{
    bt_alarm *a = malloc(sizeof *a);
    if (!a) return bt_fail(fault, BT_ENOMEM, "out of memory for an alarm");
    *a = (bt_alarm){.loop = loop, .fn = fn, .ud = ud, .at_us = INT64_MAX};
    a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (a->fd < 0 || bt_loop_add_fd(&a->watch, loop, a->fd, BT_LOOP_IN, on_time, a) < 0) {
        bt_alarm_free(a);
        return bt_fail(fault, BT_EIO, "no file descriptor for an alarm");
    }
    *ret = a;
    return BT_OK;
}

void bt_alarm_free(bt_alarm *a)
{
    if (!a) return;
    bt_loop_remove(a->loop, a->watch);
    if (a->fd >= 0) close(a->fd);
    free(a);
}

void bt_alarm_set(bt_alarm *a, int64_t at_us)
{
    struct itimerspec t = {{0, 0}, {0, 0}}; /* none */
    if (at_us == a->at_us) return;
    a->at_us = at_us;
    if (at_us != INT64_MAX) {
        const int64_t at = at_us > 0 ? at_us : 1;
        t.it_value.tv_sec = at / 1000000;
        t.it_value.tv_nsec = at % 1000000 * 1000;
    }
    (void)timerfd_settime(a->fd, TFD_TIMER_ABSTIME, &t, NULL); /* of a descriptor and a time that are good */
}
