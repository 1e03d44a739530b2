/* baton calibrate in front of a server whose times are known: they come back from the profile. In front of
 * one that answers badly: it ends with what is wrong. */
#include "tests/helpers/cluster/law_server.h"
#include "tests/helpers/cluster/spawn.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RUN_MS = 120000 };

#define CALIBRATE_INTO(box, url, ...) \
    SPAWN("baton", "calibrate", url, "-m", spawn_tiny_model(1), "-o", spawn_path(box), __VA_ARGS__)
#define CALIBRATE(url, ...) CALIBRATE_INTO("box.json", url, __VA_ARGS__)

static double number(const json_t *o, const char *key)
{
    assert_true(json_is_number(json_object_get(o, key)));
    return json_number_value(json_object_get(o, key));
}

/* The worst error of a figure of all points, against what the law says. */
static double worst_of(const json_t *run, const law *l, const char *figure)
{
    double worst = 0;
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(run, "prompts"), i, p)
        worst = fmax(worst, fabs(number(p, figure) / law_prompt_ms(l, number(p, "tokens")) - 1));
    json_array_foreach(json_object_get(run, "steps"), i, p)
        worst = fmax(worst,
                     fabs(number(p, figure) / law_step_ms(l, number(p, "batch"), number(p, "context")) - 1));
    return worst;
}

/* A prompt of 16 in a server that pads takes at least what a step of 4 does: prices never fall with more
 * rows. */
static const struct {
    const char *name, *box;
    law law;
    const char *programs;
} laws[] = {
    {"slow", "slow.json", {.fixed_ms = 30, .token_ms = 0.4, .step_ms = 15, .row_ms = 4}, "[]"},
    {"far away", "far.json", {.fixed_ms = 60, .token_ms = 0.05, .step_ms = 12, .row_ms = 0.3}, "[]"},
    {"one that feels every position",
     "positions.json",
     {.fixed_ms = 16, .token_ms = 0.3, .square_us = 2, .step_ms = 10, .row_ms = 2, .position_us = 15},
     "[]"},
    {"one that pads prompts",
     "pads.json",
     {.fixed_ms = 20, .token_ms = 0.4, .least_rows = 16, .most_rows = 64, .step_ms = 10, .row_ms = 2},
     "[16,32,64]"},
};
enum { LAWS = sizeof laws / sizeof *laws };

typedef struct question {
    law_server *server;
    spawn *s;
} question;

static question ask(size_t i)
{
    law_server *server = law_server_start(&laws[i].law, LAW_NONE, 0);
    return (question){server, CALIBRATE_INTO(laws[i].box, law_server_url(server), "--json", "--longest",
                                             "192", "-n", "6", "--batch", "4")};
}

/* Whether the machine was quiet enough that the server's times can be told; then they are as its law says. */
static bool told(size_t i, question a)
{
    const int rc = spawn_wait(a.s, spawn_patience(RUN_MS));
    const uint32_t requests = law_server_stop(a.server);
    if (rc != 0) fail_msg("%s: exit %d: %s", laws[i].name, rc, spawn_err(a.s));
    json_t *run = json_loads(spawn_out(a.s), 0, NULL);
    assert_non_null(run);
    assert_true(json_array_size(json_object_get(run, "prompts")) >= 9);   /* more where they were uneven */
    assert_int_equal(json_array_size(json_object_get(run, "steps")), 12); /* 9 alone; of 2, 3 and 4 */
    assert_true(number(run, "failed") == 0);
    assert_true(requests >= number(run, "requests")); /* the server was asked what it takes, too */
    const double measured = worst_of(run, &laws[i].law, "measured_ms"),
                 predicted = worst_of(run, &laws[i].law, "predicted_ms");
    char *programs = json_dumps(json_object_get(run, "program_rows"), JSON_COMPACT);
    assert_non_null(programs);
    json_decref(run);
    print_message("%s: measured %.3f off, predicted %.3f, programs %s\n", laws[i].name, measured, predicted,
                  programs);
    const bool is_told = measured <= 0.03;
    if (is_told && (strcmp(programs, laws[i].programs) || predicted > 0.08))
        fail_msg("%s: not programs %s and 0.08", laws[i].name, laws[i].programs);
    free(programs);
    return is_told;
}

/* Servers and their clients wait more than they compute, so all are asked at once; one that a busy moment
 * blurred is asked again alone. */
static void servers_of_four_laws_are_recovered(void **state)
{
    (void)state;
    question first[LAWS];
    bool all = true;
    for (size_t i = 0; i < LAWS; i++) first[i] = ask(i);
    bool is_told[LAWS];
    for (size_t i = 0; i < LAWS; i++) is_told[i] = told(i, first[i]);
    for (size_t i = 0; i < LAWS; i++) all &= is_told[i] || told(i, ask(i));
    if (!all) skip(); /* this machine is too busy to tell */
}

/* The prompts of a batch are computed one after the other, so its first answers begin long before it is
 * whole. */
static void a_step_of_a_batch_is_one_of_all_of_it(void **state)
{
    (void)state;
    const law l = {.fixed_ms = 60, .step_ms = 5, .row_ms = 5};
    law_server *server = law_server_start(&l, LAW_NONE, 0);
    spawn *s = CALIBRATE(law_server_url(server), "--json", "--longest", "64", "-n", "4", "--batch", "4");
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 0);
    (void)law_server_stop(server);
    json_t *run = json_loads(spawn_out(s), 0, NULL), *p;
    size_t i, batches = 0;
    double off = 0;
    json_array_foreach(json_object_get(run, "steps"), i, p) {
        if (number(p, "batch") < 2) continue;
        batches++;
        off = fmax(off, fabs(number(p, "measured_ms") / law_step_ms(&l, number(p, "batch"), 0) - 1));
    }
    assert_int_equal(batches, 3);
    json_decref(run);
    if (off > 0.3 && off < 1)
        skip(); /* a prompt takes twelve steps: a mean over all of the answers is far more */
    assert_true(off < 0.3);
}

/* After the question of the probe, two requests and two lengths, or from the beginning. */
static void a_server_that_answers_badly_is_an_error_that_says_how(void **state)
{
    (void)state;
    static const struct {
        law_flaw flaw;
        uint32_t after;
        const char *says;
    } bad[] = {
        {LAW_ERRORS, 0, "refuses a request: the engine is gone"},
        {LAW_ERRORS, 5, "different lengths of prompts: 1; contexts of steps of one sequence: 1"},
        {LAW_ERRORS, 5, "failed: engine"},
        {LAW_NO_HTTP, 0, "no answer from http://127.0.0.1"},
        {LAW_NO_HTTP, 5, "failed: "},
        {LAW_STALLS, 5, "failed: client_timeout"},
        {LAW_CLOSES, 5, "failed: cut_off"},
        {LAW_NO_JSON, 5, "failed: not_json"},
        {LAW_LONG_PROMPTS, 5, "left out: prompt_tokens is not what was sent"},
        {LAW_LONG_ANSWERS, 5, "left out: completion_tokens is more than was asked for"},
        {LAW_SHORT_COUNTS, 5, "left out: completion_tokens is less than came"},
        {LAW_ONE_PIECE, 5, "left out: the answer came in one piece"},
        {LAW_KEPT, 5, "left out: the prompt was kept from before"},
    };
    const law quick = {.fixed_ms = 1, .token_ms = 0.01, .step_ms = 0.5};
    (void)unlink(spawn_path("box.json"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        law_server *server = law_server_start(&quick, bad[i].flaw, bad[i].after);
        spawn *s = CALIBRATE(law_server_url(server), "--longest", "64", "-n", "4", "--batch", "1",
                             "--timeout", bad[i].flaw == LAW_STALLS ? "100ms" : "60s");
        const int rc = spawn_wait(s, spawn_patience(RUN_MS));
        (void)law_server_stop(server);
        if (rc != 1 || !strstr(spawn_err(s), bad[i].says))
            fail_msg("flaw %d after %u: exit %d: %s", bad[i].flaw, bad[i].after, rc, spawn_err(s));
        assert_int_equal(access(spawn_path("box.json"), F_OK), -1); /* no profile of what was not measured */
    }
}

static void what_is_there_at_the_deadline_is_fitted(void **state)
{
    (void)state;
    const law slow = {.fixed_ms = 100, .token_ms = 0.1, .step_ms = 5};
    law_server *server = law_server_start(&slow, LAW_NONE, 0);
    spawn *s = CALIBRATE(law_server_url(server), "--json", "--longest", "64", "-n", "4", "--batch", "2",
                         "--deadline", "3s");
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 0);
    const uint32_t asked = law_server_stop(server);
    json_t *run = json_loads(spawn_out(s), 0, NULL);
    assert_true(json_is_true(json_object_get(run, "deadline_came")));
    assert_true(asked < 35); /* of 2 + 27 and three batches of 2 */
    json_decref(run);
    server = law_server_start(&slow, LAW_NONE, 0);
    s = CALIBRATE(law_server_url(server), "--longest", "64", "-n", "4", "--deadline", "200ms");
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 1);
    (void)law_server_stop(server);
    assert_non_null(strstr(spawn_err(s), "--deadline came"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(servers_of_four_laws_are_recovered, spawn_teardown),
        cmocka_unit_test_teardown(a_step_of_a_batch_is_one_of_all_of_it, spawn_teardown),
        cmocka_unit_test_teardown(a_server_that_answers_badly_is_an_error_that_says_how, spawn_teardown),
        cmocka_unit_test_teardown(what_is_there_at_the_deadline_is_fitted, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, spawn_group_begin, spawn_group_end);
}
