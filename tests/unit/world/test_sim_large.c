/* A simulated world of more than a thousand processes, with all its checks: whoever sends to many nodes has a
 * route to each. */
#include "tests/world/sim_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { SECOND = 1000000, DECODES = 1024, PREFILLS = 4, REQUESTS = 320, PROMPT = 90, ANSWER = 24 };

/* How many processes one has sent blocks to. */
static uint32_t receivers_of(uint32_t process, FILE *trace)
{
    static bool was_sent[1 + PREFILLS + DECODES];
    char line[200];
    uint32_t n = 0;
    rewind(trace);
    while (fgets(line, sizeof line, trace)) {
        unsigned from, to;
        char what[16];
        if (sscanf(line, "%*f %u -> %u %15s", &from, &to, what) != 3 || from != process) continue;
        if (strcmp(what, "BLOCK") != 0 || was_sent[to]) continue;
        was_sent[to] = true;
        n++;
    }
    return n;
}

static void serves_with_more_than_a_thousand_processes_and_many_links_of_each(void **s)
{
    (void)s;
    sim_options o = sim_options_defaults(1);
    sim_world *w = NULL;
    o.prefills = PREFILLS;
    o.decodes = DECODES;
    o.slots = 4;
    o.pages_total = 256;
    o.queue_max = o.active_max = REQUESTS;
    o.trace = tmpfile();
    assert_non_null(o.trace);
    assert_int_equal(sim_world_new(&w, &o), BT_OK);
    sim_world_run(w, SECOND); /* all greet */
    for (int i = 0; i < REQUESTS; i++) assert_true(sim_world_submit(w, PROMPT, ANSWER) > 0);
    const bool is_answered = sim_world_run_answered(w, 30 * SECOND);
    if (sim_world_error(w)) fail_msg("%s", sim_world_error(w));
    assert_true(is_answered);
    for (uint64_t r = 1; r <= REQUESTS; r++) assert_int_equal(sim_world_request(w, r)->outcome, SIM_DONE);
    assert_true(sim_world_run_idle(w, 40 * (int64_t)SECOND));
    assert_true(receivers_of(1, o.trace) > 16);
    sim_world_free(w);
    fclose(o.trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_with_more_than_a_thousand_processes_and_many_links_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
