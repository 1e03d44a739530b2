/* The wishes of a request, and the answers to them: its own policy and nodes, prefixes of prompts that were
 * there already, refusals that say when to come back. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ANSWER_MS = 60000, PROMPT_TOKENS = 200, PAGE_TOKENS = 64 };

/* A prompt of ids; `from` changes all of them. */
static client *ask(const cluster *c, int from, json_t *wishes)
{
    json_t *ids = json_array();
    for (int i = 0; i < PROMPT_TOKENS; i++)
        (void)json_array_append_new(ids, json_integer(10 + (i * 7 + from) % 90));
    json_t *body =
        json_pack("{s:o,s:i,s:i,s:o}", "prompt", ids, "max_tokens", 8, "temperature", 0, "baton", wishes);
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    return x;
}

typedef struct told {
    json_int_t cached, in_usage, covered, recoveries;
    char by[80];
    char *text;
} told;

static told answer(client *x)
{
    if (!client_wait(x, spawn_patience(ANSWER_MS)) || client_status(x) != 200)
        fail_msg("status %ld: %s", client_status(x), client_body(x));
    const json_t *b = client_baton(x), *usage = json_object_get(client_json(x), "usage");
    told t = {
        json_integer_value(json_object_get(b, "cached_tokens")),
        json_integer_value(json_object_get(json_object_get(usage, "prompt_tokens_details"), "cached_tokens")),
        json_integer_value(json_object_get(b, "covered_tokens")),
        json_integer_value(json_object_get(b, "recoveries")),
        "",
        client_text(x)};
    snprintf(t.by, sizeof t.by, "%s", json_string_value(json_object_get(b, "prefilled_by")));
    client_end(x);
    return t;
}

static void a_prompt_that_was_there_before_is_neither_computed_nor_sent_again(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--prefill", "2", "--decode", "2",
                        "--threads", "1", "--policy", "prefix"));
    json_t *s = cluster_status(c.url);
    assert_string_equal(json_string_value(json_object_get(json_object_get(s, "gateway"), "policy")),
                        "prefix");
    json_decref(s);
    const told first = answer(ask(&c, 0, json_true()));
    assert_int_equal(first.cached, 0);
    assert_int_equal(first.covered, 0);
    const told again = answer(ask(&c, 0, json_object()));
    assert_int_equal(again.cached, PROMPT_TOKENS / PAGE_TOKENS * PAGE_TOKENS);
    assert_int_equal(again.in_usage, again.cached);
    assert_int_equal(again.covered, again.cached);
    assert_string_equal(again.by, first.by);
    assert_string_equal(again.text, first.text);

    /* The node that has never seen it computes all of it, and says the same. */
    const char *other = strcmp(first.by, "prefill-0") == 0 ? "prefill-1" : "prefill-0";
    assert_true(cluster_wait_node(c.url, other, "ready", 0, spawn_patience(ANSWER_MS)));
    const told elsewhere = answer(ask(&c, 0, json_pack("{s:s}", "prefill", other)));
    assert_string_equal(elsewhere.by, other);
    assert_int_equal(elsewhere.cached, 0);
    assert_string_equal(elsewhere.text, first.text);
    const told fresh = answer(ask(&c, 1, json_pack("{s:s}", "policy", "round-robin")));
    assert_int_equal(fresh.cached, 0);
    assert_true(cluster_metric(c.url, "\nbaton_prefix_hit_tokens_total{side=\"prefill\"} ") ==
                (double)again.cached);
    assert_true(cluster_metric(c.url, "\nbaton_request_attempts_total ") == 4.0);
    assert_true(cluster_metric(c.url, "\nbaton_recoveries_total{cause=\"gone\"} ") == 0.0);
    free(first.text);
    free(again.text);
    free(elsewhere.text);
    free(fresh.text);
    assert_true(cluster_wait_idle(c.url, spawn_patience(ANSWER_MS)));
    assert_true(cluster_stop(&c));
}

static void a_node_that_there_never_was_is_refused_at_once_and_holds_nobody_up(void **state)
{
    (void)state;
    enum { MANY = 64, NOT_FOUND = 404 };
    cluster c;
    client *x[MANY];
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--threads", "1", "--max-queue", "4"));
    for (int i = 0; i < MANY; i++)
        x[i] = ask(&c, 0, json_pack("{s:s}", i % 2 ? "decode" : "prefill", "nosuch"));
    free(answer(ask(&c, 0, json_true())).text);
    for (int i = 0; i < MANY; i++) {
        assert_true(client_wait(x[i], spawn_patience(ANSWER_MS)));
        const char *code = json_string_value(json_object_get(client_error(x[i]), "code"));
        if (client_status(x[i]) == 503) {
            assert_string_equal(code, "no_node"); /* the gateway has just begun */
            assert_true(client_retry_after(x[i]) > 0);
        } else {
            assert_int_equal(client_status(x[i]), NOT_FOUND);
            assert_string_equal(code, "node_not_found");
        }
        client_end(x[i]);
    }
    assert_true(cluster_stop(&c));
}

static void a_node_that_is_not_there_is_waited_for_and_then_refused(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--threads", "1", "--decode", "2",
                        "--recovery-timeout", "1s"));
    assert_true(cluster_wait_node(c.url, "decode-1", "ready", 0, spawn_patience(ANSWER_MS)));
    const pid_t pid = cluster_pid(c.url, "decode-1");
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_true(cluster_wait_node(c.url, "decode-1", "suspect", 0, spawn_patience(ANSWER_MS)));
    client *x = ask(&c, 0, json_pack("{s:s}", "decode", "decode-1"));
    assert_true(client_wait(x, spawn_patience(ANSWER_MS)));
    assert_int_equal(client_status(x), 503);
    assert_true(client_retry_after(x) > 0);
    assert_string_equal(json_string_value(json_object_get(client_error(x), "code")), "no_node");
    client_end(x);
    assert_int_equal(kill(pid, SIGCONT), 0);
    free(answer(ask(&c, 0, json_pack("{s:s,s:s}", "decode", "decode-0", "prefill", "prefill-0"))).text);
    assert_true(cluster_stop(&c));
}

/* It asks for more than nodes hold that are not there yet. */
static void an_answer_is_cut_to_what_nodes_hold_that_come_after_its_request(void **state)
{
    (void)state;
    const char *model = spawn_long_model();
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
    spawn *g = SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(ANSWER_MS)));
    json_t *body = cluster_request("a", 2000);
    json_object_set_new(body, "logit_bias", json_pack("{s:i, s:i}", "2", -100, "260", -100));
    client *x = client_post(url, "/v1/completions", body);
    json_decref(body);
    spawn *p = SPAWN("baton-prefill", "-m", model, "--threads", "1", "--engine", "host", "--ctx-size", "256",
                     "--gateway", control),
          *d =
              SPAWN("baton-decode", "-m", model, "--threads", "1", "--ctx-size", "256", "--gateway", control);
    if (!client_wait(x, spawn_patience(ANSWER_MS)) || client_status(x) != 200)
        fail_msg("status %ld: %s\n%s\n%s", client_status(x), client_body(x), spawn_err(p), spawn_err(d));
    const json_t *b = client_baton(x), *usage = json_object_get(client_json(x), "usage");
    assert_string_equal(json_string_value(json_object_get(b, "max_tokens_from")), "context");
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 256);
    assert_non_null(strstr(client_body(x), "\"length\""));
    client_end(x);
    assert_true(cluster_end(d, spawn_patience(ANSWER_MS)));
    assert_true(cluster_end(p, spawn_patience(ANSWER_MS)));
    assert_true(cluster_end(g, spawn_patience(ANSWER_MS)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_prompt_that_was_there_before_is_neither_computed_nor_sent_again,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_node_that_there_never_was_is_refused_at_once_and_holds_nobody_up,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_node_that_is_not_there_is_waited_for_and_then_refused, cluster_teardown),
        cmocka_unit_test_teardown(an_answer_is_cut_to_what_nodes_hold_that_come_after_its_request,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
