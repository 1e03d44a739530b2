/* Short prompts that come at once share runs of the prefill node, and nothing but the work shows it: answers,
 * log probabilities and KV are those of prompts alone, in every order, behind kept prefixes, and when the
 * node dies in between. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPTS = 12, LONG_BYTES = 12000, ANSWER_MS = 60000, RESTART_MS = 60000 };

/* Prompts of different lengths; the last three begin with the same pages. */
static client *post(const cluster *c, int i)
{
    char prompt[1200];
    size_t len = (size_t)snprintf(prompt, sizeof prompt, "%d small things", i);
    if (i >= PROMPTS - 3)
        for (int k = len = 0; k < 4; k++)
            len += (size_t)snprintf(prompt + len, sizeof prompt - len,
                                    "the end of a small thing is not %d but zebras; the day; ", k);
    for (int k = 0; k < 1 + i % 4; k++)
        len += (size_t)snprintf(prompt + len, sizeof prompt - len, ", and number %d", i);
    json_t *body = cluster_request(prompt, 6);
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    return x;
}

/* The report on its answer; the caller drops it. */
static json_t *answer(client *x)
{
    assert_true(client_wait(x, spawn_patience(ANSWER_MS)));
    return client_told(x);
}

static void expect_same(const json_t *told, const json_t *alone, int i)
{
    static const char *const keys[] = {"text", "token_ids", "first_logits", "kv_digest", "prompt_ids"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        /* null: the figure came after the answer had waited for it as long as it may */
        if (!strcmp(keys[k], "kv_digest") &&
            (json_is_null(json_object_get(told, keys[k])) || json_is_null(json_object_get(alone, keys[k]))))
            continue;
        if (!json_equal(json_object_get(told, keys[k]), json_object_get(alone, keys[k])))
            fail_msg("prompt %d: another %s", i, keys[k]);
    }
}

/* When its only chunk was over, since its run began; 0: it has more. */
static double took_ms(const json_t *told)
{
    const json_t *chunks = json_object_get(told, "chunks");
    return json_array_size(chunks) == 1
               ? json_real_value(json_object_get(json_array_get(chunks, 0), "end_ms"))
               : 0;
}

/* How many of them ran with others: several took as long, to the microsecond. */
static int shared_of(json_t *const told[PROMPTS])
{
    int n = 0;
    for (int i = 0; i < PROMPTS; i++) {
        int same = 0;
        for (int k = 0; k < PROMPTS; k++)
            same += took_ms(told[i]) > 0 && took_ms(told[i]) == took_ms(told[k]);
        n += same > 1;
    }
    return n;
}

/* One that takes long, whose answer nobody looks at. */
static client *post_long(const cluster *c, int number)
{
    static char prompt[LONG_BYTES];
    size_t len = 0;
    for (int k = 0; len + 64 < sizeof prompt; k++)
        len +=
            (size_t)snprintf(prompt + len, sizeof prompt - len, "%d: the day and the way of %d; ", k, number);
    json_t *body = cluster_request(prompt, 1);
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    while (!client_is_over(x) && cluster_metric(c->url, "\nbaton_requests_running ") < 1) client_step();
    return x;
}

/* All at once, from prompt `first` on, behind a long one; or the prefill node is killed then. */
static void ask_all(json_t *ret[PROMPTS], const cluster *c, int first, int step, bool dies)
{
    client *x[PROMPTS], *before = post_long(c, first);
    const pid_t pid = cluster_pid(c->url, "prefill-0");
    for (int i = 0; i < PROMPTS; i++) x[(first + i * step) % PROMPTS] = post(c, (first + i * step) % PROMPTS);
    while (dies && !client_is_over(before) && cluster_metric(c->url, "\nbaton_requests_running ") < 3)
        client_step();
    if (dies) assert_int_equal(kill(pid, SIGKILL), 0);
    for (int i = 0; i < PROMPTS; i++) ret[i] = answer(x[i]);
    json_decref(answer(before));
}

static void answers_of_prompts_that_share_runs_are_those_of_prompts_alone(void **state)
{
    (void)state;
    static const char *const engines[] = {"npu", "host"};
    for (int e = 0; e < 2; e++) {
        cluster c;
        json_t *alone[PROMPTS], *told[PROMPTS];
        int shared = 0;
        assert_true(CLUSTER(&c, spawn_long_model(), "--prefill", "1", "--decode", "1", "--engine",
                            engines[e]));
        for (int i = 0; i < PROMPTS; i++) alone[i] = answer(post(&c, i));
        for (int round = 0; round < 4; round++) {
            const int steps[] = {1, 5, 7, 11};
            const bool dies = round == 3;
            if (round == 1) { /* from cold pages */
                const pid_t pid = cluster_pid(c.url, "prefill-0");
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_true(cluster_wait_node(c.url, "prefill-0", "ready", pid, spawn_patience(RESTART_MS)));
            }
            ask_all(told, &c, round, steps[round], dies);
            for (int i = 0; i < PROMPTS; i++) expect_same(told[i], alone[i], i);
            shared += shared_of(told);
            for (int i = 0; i < PROMPTS; i++) json_decref(told[i]);
        }
        print_message("%s: %d of %d prompts shared a run\n", engines[e], shared, 4 * PROMPTS);
        assert_true(shared > 0);
        assert_true(cluster_wait_idle(c.url, spawn_patience(RESTART_MS)));
        for (int i = 0; i < PROMPTS; i++) json_decref(alone[i]);
        assert_true(cluster_stop(&c));
    }
}

/* How many of them the prefill node ran with others, as it says at its end, with one more option of `baton
 * up`. */
static int shared_with(const char *option, const char *value)
{
    cluster c;
    json_t *told[PROMPTS];
    assert_true(CLUSTER(&c, spawn_long_model(), "--prefill", "1", "--decode", "1", "--engine", "host",
                        "--log-level", "debug", option, value));
    ask_all(told, &c, 0, 1, false);
    for (int i = 0; i < PROMPTS; i++) json_decref(told[i]);
    assert_true(cluster_wait_idle(c.url, spawn_patience(RESTART_MS)));
    assert_true(cluster_stop(&c));
    int shared = -1;
    const char *said = strstr(spawn_err(c.up), "in batches ");
    if (!said || sscanf(said, "in batches %d", &shared) != 1) fail_msg("%s", spawn_err(c.up));
    return shared;
}

static void up_says_whether_prompts_share_and_how_many_wait_in_a_node(void **state)
{
    (void)state;
    assert_int_equal(shared_with("--share-tokens", "0"), 0);
    assert_int_equal(shared_with("--prefill-slots", "1"), 0); /* nothing waits in the node */
    int shared = 0;
    for (int tries = 0; tries < 10 && !shared; tries++) /* the long one may be over before the others come */
        shared = shared_with("--prefill-slots", "16");
    assert_true(shared > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(answers_of_prompts_that_share_runs_are_those_of_prompts_alone,
                                  cluster_teardown),
        cmocka_unit_test_teardown(up_says_whether_prompts_share_and_how_many_wait_in_a_node,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
