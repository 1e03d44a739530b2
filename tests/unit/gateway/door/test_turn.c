/* Turns of the loop: what is counted, and what a long one says. */
#include "gateway/door/turn.h"
#include "base/clock.h"
#include "rt/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static gw_metrics *metrics;
static gw_turn turn;

static int begin(void **s)
{
    (void)s;
    if (gw_metrics_new(&metrics, "m", NULL) < 0) return -1;
    gw_turn_init(&turn, metrics);
    return 0;
}

static int end(void **s)
{
    (void)s;
    gw_metrics_free(metrics);
    return 0;
}

/* The turns of the histogram, as /metrics says them. */
static int counted(void)
{
    static const char name[] = "\nbaton_gateway_turn_seconds_count ";
    const bt_link_counters link = {0};
    gw_config config = gw_config_defaults();
    gw_brain *brain = NULL;
    bt_buf page = {.limit_bytes = 1 << 20};
    int turns = -1;
    config.self.bytes[0] = 1;
    assert_int_equal(gw_brain_new(&brain, &config, NULL), BT_OK);
    assert_int_equal(gw_metrics_render(metrics, &page, brain, &link, 0), BT_OK);
    assert_int_equal(bt_buf_add(&page, "", 1), BT_OK);
    const char *at = strstr((const char *)page.data, name);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%d", &turns), 1);
    bt_buf_done(&page);
    gw_brain_free(brain);
    return turns;
}

static void work_for(int64_t us)
{
    for (const int64_t until = bt_clock_us() + us; bt_clock_us() < until;) {}
}

/* The text that `turns` turns, each with one piece of `us` in `part`, write to stderr. */
static void run_turns(char *text, size_t size, int turns, gw_turn_part part, int64_t us)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int saved = dup(2);
    assert_int_equal(dup2(ends[1], 2), 2);
    for (int i = 0; i < turns; i++) {
        gw_turn_begin(&turn);
        const gw_turn_part before = gw_turn_go(&turn, part);
        work_for(us);
        gw_turn_go(&turn, before);
        gw_turn_end(&turn);
    }
    (void)dup2(saved, 2);
    (void)close(saved);
    (void)close(ends[1]);
    const ssize_t n = read(ends[0], text, size - 1);
    text[n > 0 ? n : 0] = 0;
    (void)close(ends[0]);
}

static void a_long_turn_is_counted_and_named_once_in_a_while(void **s)
{
    (void)s;
    char text[4096];
    run_turns(text, sizeof text, 3, GW_TURN_PAGES, GW_TURN_LONG_US + 1000);
    const char *at = strstr(text, "warn: a turn of the loop took ");
    assert_non_null(at);
    assert_null(strstr(at + 10, "a turn of the loop")); /* the next two came too soon after it */
    assert_non_null(strstr(at, "ms of work by a processor: pages "));
    assert_non_null(strstr(at, " ms (1 time"));
    assert_int_equal(counted(), 3);
}

static void a_short_turn_is_counted_and_not_logged(void **s)
{
    (void)s;
    char text[4096] = "a turn of the loop";
    gw_turn_begin(&turn);
    assert_true(gw_turn_has_time(&turn));
    work_for(GW_TURN_SPARE_US);
    assert_false(gw_turn_has_time(&turn));
    gw_turn_end(&turn);
    int more = 0; /* a busy machine may stop a program for 20 ms, but not each time */
    for (; more < 20 && strstr(text, "a turn of the loop"); more++)
        run_turns(text, sizeof text, 1, GW_TURN_PAGES, 0);
    assert_null(strstr(text, "a turn of the loop"));
    assert_int_equal(counted(), 1 + more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_turn_is_counted_and_named_once_in_a_while, begin, end),
        cmocka_unit_test_setup_teardown(a_short_turn_is_counted_and_not_logged, begin, end),
    };
    return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
