/* Many to many: nodes join and leave while requests run, and a node that dials two gateways serves both.
 * Every answer is the one that a single pair gives. */
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

enum { READY_MS = 60000, ANSWER_MS = 60000, REQUESTS = 8, TOKENS = 24 };
typedef struct door {
    spawn *program;
    char url[128], control[128];
} door;

static void start_gateway(door *d)
{
    d->program =
        SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(d->url, d->control, d->program, spawn_patience(READY_MS)));
}

/* Dials `a`, and `b` too where there is one. */
static spawn *start_node(const char *role, const char *id, const door *a, const door *b)
{
    const char *argv[20] = {strcmp(role, "decode") == 0 ? "baton-decode" : "baton-prefill",
                            "-m",
                            spawn_tiny_model(1),
                            "--id",
                            id,
                            "--threads",
                            "1",
                            "--gateway",
                            a->control};
    size_t n = 9;
    if (b) {
        argv[n++] = "--gateway";
        argv[n++] = b->control;
    }
    if (strcmp(role, "decode") == 0) {
        argv[n++] = "--listen";
        argv[n++] = "tcp://127.0.0.1:*";
    }
    return spawn_start(argv);
}

static void end(spawn *s) { assert_true(cluster_end(s, spawn_patience(30000))); }

static void wait_ready(const door *d, const char *id)
{
    if (!cluster_wait_node(d->url, id, "ready", 0, spawn_patience(READY_MS)))
        fail_msg("%s does not join", id);
}

static client *ask(const door *d, int i)
{
    char prompt[64];
    snprintf(prompt, sizeof prompt, "the end of a small thing is number %d", i);
    json_t *body = cluster_request(prompt, TOKENS);
    client *c = client_post(d->url, "/v1/completions", body);
    json_decref(body);
    return c;
}

/* The answer's text; the caller frees it. *ret_by: who computed the prompt, kept by c. */
static char *answer(client *c, const char **ret_by)
{
    if (!client_wait(c, spawn_patience(ANSWER_MS)) || client_status(c) != 200)
        fail_msg("status %ld: %s", client_status(c), client_body(c));
    *ret_by = json_string_value(json_object_get(client_baton(c), "prefilled_by"));
    return client_text(c);
}

static void expect_answers(const door *d, char *const *expected)
{
    client *c[REQUESTS];
    const char *by;
    for (int i = 0; i < REQUESTS; i++) c[i] = ask(d, i);
    for (int i = 0; i < REQUESTS; i++) {
        char *text = answer(c[i], &by);
        assert_string_equal(text, expected[i]);
        free(text);
        client_end(c[i]);
    }
}

static void learn(const door *d, char **expected)
{
    const char *by;
    for (int i = 0; i < REQUESTS; i++) {
        client *c = ask(d, i);
        expected[i] = answer(c, &by);
        client_end(c);
    }
}

static void forget(char **expected)
{
    for (int i = 0; i < REQUESTS; i++) free(expected[i]);
}

static void nodes_join_and_leave_while_requests_run_and_no_answer_changes(void **state)
{
    (void)state;
    door d;
    char *expected[REQUESTS];
    client *c[REQUESTS];
    bool new_one_worked = false;
    start_gateway(&d);
    spawn *p0 = start_node("prefill", "p0", &d, NULL), *d0 = start_node("decode", "d0", &d, NULL);
    wait_ready(&d, "p0");
    wait_ready(&d, "d0");
    learn(&d, expected);
    spawn *p1 = start_node("prefill", "p1", &d, NULL), *d1 = start_node("decode", "d1", &d, NULL);
    wait_ready(&d, "p1");
    wait_ready(&d, "d1");
    for (int i = 0; i < REQUESTS; i++) c[i] = ask(&d, i);
    end(p0); /* they drain: what they have begun ends there */
    end(d0);
    for (int i = 0; i < REQUESTS; i++) {
        const char *by;
        char *text = answer(c[i], &by);
        assert_string_equal(text, expected[i]);
        new_one_worked = new_one_worked || (by && strcmp(by, "p1") == 0);
        free(text);
        client_end(c[i]);
    }
    assert_true(new_one_worked);
    expect_answers(&d, expected);
    assert_true(cluster_wait_idle(d.url, spawn_patience(10000)));
    forget(expected);
    end(d.program);
    end(p1);
    end(d1);
}

static void one_pair_of_nodes_serves_two_gateways_at_once(void **state)
{
    (void)state;
    door a, b;
    char *expected[REQUESTS];
    client *c[2 * REQUESTS];
    start_gateway(&a);
    start_gateway(&b);
    spawn *p = start_node("prefill", "p", &a, &b), *d = start_node("decode", "d", &a, &b);
    wait_ready(&a, "p");
    wait_ready(&a, "d");
    wait_ready(&b, "p");
    wait_ready(&b, "d");
    learn(&a, expected);
    for (int i = 0; i < 2 * REQUESTS; i++)
        c[i] = ask(i % 2 ? &a : &b, i / 2); /* requests of both have the same numbers */
    for (int i = 0; i < 2 * REQUESTS; i++) {
        const char *by;
        char *text = answer(c[i], &by);
        assert_string_equal(text, expected[i / 2]);
        free(text);
        client_end(c[i]);
    }
    end(a.program); /* the other one's requests do not care */
    expect_answers(&b, expected);
    assert_true(cluster_wait_idle(b.url, spawn_patience(10000)));
    forget(expected);
    end(b.program);
    end(p);
    end(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_join_and_leave_while_requests_run_and_no_answer_changes,
                                  cluster_teardown),
        cmocka_unit_test_teardown(one_pair_of_nodes_serves_two_gateways_at_once, cluster_teardown),
    };
    return cmocka_run_group_tests_name("many to many", tests, cluster_group_begin, cluster_group_end);
}
