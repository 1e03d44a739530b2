#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "tools/cluster/supervise.h"

static size_t drain_actions(tool_supervise *s, int64_t now, tool_act want)
{
    tool_action a;
    size_t n = 0;
    while (tool_supervise_next(&a, s, now)) {
        assert_int_equal(a.act, want);
        n++;
    }
    return n;
}

static void restarts_after_100_ms_doubling_to_2_s(void **state)
{
    (void)state;
    static const int64_t want_ms[] = {100, 200, 400, 800, 1600, 2000, 2000, 2000};
    tool_supervise s;
    int64_t now = 1000;
    tool_supervise_init(&s, 1, 1000, 1000, now);
    assert_int_equal(drain_actions(&s, now, TOOL_ACT_START), 1);
    tool_supervise_ready(&s);
    for (size_t i = 0; i < sizeof want_ms / sizeof want_ms[0]; i++) {
        tool_supervise_ended(&s, 0, 1, now);
        assert_int_equal(tool_supervise_due_ms(&s), now + want_ms[i]);
        assert_int_equal(drain_actions(&s, now + want_ms[i] - 1, TOOL_ACT_START), 0);
        now += want_ms[i];
        assert_int_equal(drain_actions(&s, now, TOOL_ACT_START), 1);
    }
    now += 10000; /* up for 10 s: forgiven */
    tool_supervise_ended(&s, 0, -9, now);
    assert_int_equal(tool_supervise_due_ms(&s), now + 100);
}

static void a_child_that_fails_before_ready_stops_everything(void **state)
{
    (void)state;
    tool_supervise s;
    tool_supervise_init(&s, 3, 1000, 500, 0);
    assert_int_equal(drain_actions(&s, 0, TOOL_ACT_START), 3);
    tool_supervise_ended(&s, 0, 1, 5);
    assert_true(s.failed);
    assert_int_equal(drain_actions(&s, 5, TOOL_ACT_TERM), 2); /* the door is already gone */
    tool_supervise_ended(&s, 1, 0, 6);
    assert_false(tool_supervise_over(&s));
    tool_supervise_ended(&s, 2, 0, 7);
    assert_true(tool_supervise_over(&s));
}

static void death_by_a_signal_before_ready_is_retried(void **state)
{
    (void)state;
    tool_supervise s;
    tool_supervise_init(&s, 2, 1000, 500, 0);
    assert_int_equal(drain_actions(&s, 0, TOOL_ACT_START), 2);
    tool_supervise_ended(&s, 1, -9, 5);
    assert_false(s.failed);
    assert_int_equal(drain_actions(&s, 105, TOOL_ACT_START), 1);
}

static void stops_the_door_first_then_the_nodes_then_kills(void **state)
{
    (void)state;
    tool_supervise s;
    tool_action a;
    tool_supervise_init(&s, 3, 1000, 500, 0);
    assert_int_equal(drain_actions(&s, 0, TOOL_ACT_START), 3);
    tool_supervise_ready(&s);
    tool_supervise_stop(&s, 100);
    assert_true(tool_supervise_next(&a, &s, 100));
    assert_int_equal(a.act, TOOL_ACT_TERM);
    assert_int_equal(a.child, 0);
    assert_false(tool_supervise_next(&a, &s, 100)); /* the nodes serve on while it drains */
    assert_int_equal(tool_supervise_due_ms(&s), 1100);
    assert_int_equal(drain_actions(&s, 1100, TOOL_ACT_TERM), 2); /* the drain deadline passed */
    assert_int_equal(tool_supervise_due_ms(&s), 1600);
    assert_int_equal(drain_actions(&s, 1600, TOOL_ACT_KILL), 3);
    for (size_t i = 0; i < 3; i++) tool_supervise_ended(&s, i, -9, 1601);
    assert_true(tool_supervise_over(&s));
}

static void a_second_stop_kills_at_once(void **state)
{
    (void)state;
    tool_supervise s;
    tool_supervise_init(&s, 2, 60000, 5000, 0);
    assert_int_equal(drain_actions(&s, 0, TOOL_ACT_START), 2);
    tool_supervise_stop(&s, 10);
    assert_int_equal(drain_actions(&s, 10, TOOL_ACT_TERM), 1);
    tool_supervise_stop(&s, 20);
    static const tool_action want[] = {{TOOL_ACT_KILL, 0}, {TOOL_ACT_TERM, 1}, {TOOL_ACT_KILL, 1}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        tool_action a;
        assert_true(tool_supervise_next(&a, &s, 20));
        assert_int_equal(a.act, want[i].act);
        assert_int_equal(a.child, want[i].child);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restarts_after_100_ms_doubling_to_2_s),
        cmocka_unit_test(a_child_that_fails_before_ready_stops_everything),
        cmocka_unit_test(death_by_a_signal_before_ready_is_retried),
        cmocka_unit_test(stops_the_door_first_then_the_nodes_then_kills),
        cmocka_unit_test(a_second_stop_kills_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
