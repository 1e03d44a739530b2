/* A short prompt behind a long one on one prefill node: its answer comes first, and nothing that is told of
 * either is another than that of the prompt alone, with every engine and with chunks under way at once. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LONG_BYTES = 8000, SHORTS = 3, ANSWER_MS = 120000, TRIES = 3 };

static client *post(const cluster *c, const char *prompt)
{
    json_t *body = cluster_request(prompt, 4);
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    return x;
}

static client *post_long(const cluster *c, int number)
{
    static char prompt[LONG_BYTES];
    size_t len = 0;
    for (int k = 0; len + 64 < sizeof prompt; k++)
        len +=
            (size_t)snprintf(prompt + len, sizeof prompt - len, "%d: the day and the way of %d; ", number, k);
    return post(c, prompt);
}

static client *post_short(const cluster *c, int number)
{
    char prompt[64];
    snprintf(prompt, sizeof prompt, "%d small things", number);
    return post(c, prompt);
}

static json_t *answer(client *x)
{
    assert_true(client_wait(x, spawn_patience(ANSWER_MS)));
    return client_told(x);
}

static void expect_same(json_t *told, json_t *alone)
{
    static const char *const keys[] = {"text", "token_ids", "first_logits", "kv_digest", "prompt_ids"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        assert_non_null(json_object_get(alone, keys[k]));
        if (!json_equal(json_object_get(told, keys[k]), json_object_get(alone, keys[k])))
            fail_msg("another %s", keys[k]);
    }
    json_decref(told);
}

/* How many prompts ran between chunks, as the prefill node says at its end. */
static int passed_of(const cluster *c)
{
    int passed = -1;
    const char *said = strstr(spawn_err(c->up), "between chunks of long ones ");
    if (!said || sscanf(said, "between chunks of long ones %d", &passed) != 1)
        fail_msg("%s", spawn_err(c->up));
    return passed;
}

typedef struct way {
    const char *engine, *schedule, *share;
} way;

static bool start(cluster *c, const way *w, const char *short_tokens)
{
    return CLUSTER(c, spawn_long_model(), "--prefill", "1", "--decode", "1", "--engine", w->engine,
                   "--schedule", w->schedule, "--share-tokens", w->share, "--short-tokens", short_tokens,
                   "--log-level", "debug");
}

/* Behind a long prompt that runs. True: all short ones ended before it. */
static bool ask(const cluster *c, int number, json_t *const alone[1 + SHORTS])
{
    client *x[SHORTS], *before = post_long(c, number);
    while (!client_is_over(before) && cluster_metric(c->url, "\nbaton_requests_running ") < 1) client_step();
    for (int i = 0; i < SHORTS; i++) x[i] = post_short(c, i);
    for (int i = 0; i < SHORTS; i++) expect_same(answer(x[i]), alone[1 + i]);
    const bool is_first = !client_is_over(before);
    expect_same(answer(before), alone[0]);
    return is_first;
}

static void a_short_prompt_is_answered_before_the_long_one_in_front_of_it(void **state)
{
    static const way ways[] = {{"npu", "serial", "256"},
                               {"npu", "ooo", "0"},
                               {"host", "serial", "256"},
                               {"reference", "serial", "256"}};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        json_t *alone[TRIES][1 + SHORTS];
        cluster c;
        int tries = 0;
        assert_true(start(&c, &ways[i], "0"));
        for (int t = 0; t < TRIES; t++) {
            alone[t][0] = answer(post_long(&c, t));
            for (int k = 0; k < SHORTS; k++) alone[t][1 + k] = answer(post_short(&c, k));
        }
        /* In order of arrival, kept pages or not; the long one's answer may still be the last to end. */
        (void)ask(&c, 0, alone[0]);
        assert_true(cluster_stop(&c));
        assert_int_equal(passed_of(&c), 0);

        assert_true(start(&c, &ways[i], "64"));
        while (tries < TRIES && !ask(&c, tries, alone[tries])) tries++; /* the long one may end sooner */
        print_message("%s, %s: after %d tries\n", ways[i].engine, ways[i].schedule, tries);
        assert_true(tries < TRIES);
        assert_true(cluster_wait_idle(c.url, spawn_patience(ANSWER_MS)));
        assert_true(cluster_stop(&c));
        assert_true(passed_of(&c) >= SHORTS);
        for (int t = 0; t < TRIES; t++)
            for (int k = 0; k <= SHORTS; k++) json_decref(alone[t][k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_short_prompt_is_answered_before_the_long_one_in_front_of_it,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
