/* The search for the highest load, against servers that carry a known one. */
#include "lab/replay/ramp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double find(double capacity, double from, int *steps)
{
    tool_replay_ramp r;
    tool_replay_ramp_begin(&r, from);
    while (tool_replay_ramp_next(&r, r.load <= capacity)) continue;
    *steps = r.steps;
    return r.best;
}

static void the_answer_is_within_a_twentieth_of_the_truth(void **state)
{
    (void)state;
    static const double capacities[] = {0.01, 0.3, 1, 1.01, 7.7, 100, 900};
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        int steps;
        const double best = find(capacities[i], 1, &steps);
        assert_true(best <= capacities[i] && best * 1.05 >= capacities[i]);
        assert_true(steps <= TOOL_REPLAY_RAMP_STEPS);
    }
}

static void a_server_that_carries_nothing_or_anything_ends_it_too(void **state)
{
    (void)state;
    int steps;
    assert_true(find(0, 1, &steps) == 0);
    assert_int_equal(steps, TOOL_REPLAY_RAMP_STEPS);
    assert_true(find(1e30, 1, &steps) == 32768);
    assert_int_equal(steps, TOOL_REPLAY_RAMP_STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_is_within_a_twentieth_of_the_truth),
        cmocka_unit_test(a_server_that_carries_nothing_or_anything_ends_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
