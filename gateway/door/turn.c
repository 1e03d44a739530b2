/* See turn.h. */
#include "gateway/door/turn.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static const char *const names[GW_TURN_PARTS] = {
    [GW_TURN_MESSAGES] = "messages of nodes",
    [GW_TURN_CONNECTIONS] = "connections",
    [GW_TURN_BODIES] = "bodies of requests",
    [GW_TURN_PAGES] = "pages",
    [GW_TURN_DECISIONS] = "decisions",
    [GW_TURN_SENDING] = "messages to nodes",
    [GW_TURN_TEXT] = "texts of tokens",
    [GW_TURN_ANSWERS] = "ends of requests",
    [GW_TURN_TIMERS] = "timers",
};

void gw_turn_init(gw_turn *t, gw_metrics *metrics)
{
    *t = (gw_turn){.metrics = metrics, .limit = {.every_ms = GW_TURN_LOG_MS},
                   .processor_us = bt_clock_thread_us()};
}

void gw_turn_begin(gw_turn *t)
{
    memset(t->spent_us, 0, sizeof t->spent_us);
    memset(t->times, 0, sizeof t->times);
    t->part = GW_TURN_MESSAGES;
    t->times[t->part] = 1;
    t->begun_us = t->since_us = bt_clock_us();
}

gw_turn_part gw_turn_go(gw_turn *t, gw_turn_part part)
{
    const gw_turn_part before = t->part;
    const int64_t now_us = bt_clock_us();
    t->spent_us[before] += now_us - t->since_us;
    t->since_us = now_us;
    t->times[part] += part != before;
    t->part = part;
    return before;
}

bool gw_turn_has_time(const gw_turn *t) { return bt_clock_us() - t->begun_us < GW_TURN_SPARE_US; }

/* The longest parts, the longest first. */
static void warn(gw_turn *t, int64_t took_us, int64_t ran_us)
{
    enum { SHOWN = 3 };
    char text[256];
    size_t len = 0;
    text[0] = 0;
    for (int n = 0; n < SHOWN; n++) {
        size_t most = 0;
        for (size_t i = 1; i < GW_TURN_PARTS; i++)
            if (t->spent_us[i] > t->spent_us[most]) most = i;
        if (n > 0 && t->spent_us[most] < 1000) break;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s %lld ms (%u time%s)", n ? ", " : "",
                                names[most], (long long)(t->spent_us[most] / 1000), t->times[most],
                                t->times[most] == 1 ? "" : "s");
        t->spent_us[most] = -1;
    }
    bt_log_ratelimited(&t->limit, BT_LOG_WARN,
                       "a turn of the loop took %lld ms, with %lld ms of work by a processor: %s",
                       (long long)(took_us / 1000), (long long)(ran_us / 1000), text);
}

void gw_turn_end(gw_turn *t)
{
    gw_turn_go(t, GW_TURN_MESSAGES);
    const int64_t took_us = t->since_us - t->begun_us;
    const int64_t before_us = t->processor_us; /* waiting takes no time of a processor */
    t->processor_us = bt_clock_thread_us();
    gw_metrics_turn(t->metrics, took_us);
    if (took_us > GW_TURN_LONG_US) warn(t, took_us, t->processor_us - before_us);
}
