/* Long bodies are read beside the gateway's loop: others are served meanwhile, a client that leaves takes its
 * body with it, a drain waits for those that have come, and the memory for bodies keeps a rest. */
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

enum { READY_MS = 60000, ANSWER_MS = 120000, BODY_BYTES = 4 << 20, LONG_BODIES = 6, MANY_BODIES = 16 };

static spawn *gateway;
static char url[CLUSTER_ADDRESS_BYTES];

static void start(void)
{
    char control[CLUSTER_ADDRESS_BYTES];
    gateway =
        SPAWN("baton-gateway", "-m", spawn_long_model(), "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(url, control, gateway, spawn_patience(READY_MS)));
    (void)SPAWN("baton-decode", "-m", spawn_long_model(), "--gateway", control, "--threads", "1");
    (void)SPAWN("baton-prefill", "-m", spawn_long_model(), "--gateway", control, "--threads", "1");
    assert_true(cluster_wait_health(url, 200, spawn_patience(READY_MS)));
}

/* A request that takes long to read: its field `metadata`, which nobody looks at, is a list of numbers. */
static char *slow_body(const char *rest)
{
    char *text = malloc(BODY_BYTES);
    assert_non_null(text);
    size_t n = (size_t)snprintf(text, BODY_BYTES, "{\"metadata\":[");
    while (n < BODY_BYTES - 200) {
        text[n++] = '1';
        text[n++] = ',';
    }
    (void)snprintf(text + n, BODY_BYTES - n, "1],%s}", rest);
    return text;
}

static client *begin(const char *body) { return client_begin(url, "/v1/completions", body, strlen(body)); }

static double by_thread(void) { return cluster_metric(url, "baton_request_bodies_total{by=\"thread\"}"); }
static double waiting(void) { return cluster_metric(url, "\nbaton_request_bodies_waiting "); }

static bool wait_until_read(double n)
{
    for (const int64_t end = spawn_now_ms() + spawn_patience(ANSWER_MS); by_thread() < n;)
        if (!spawn_before(end)) return false;
    return true;
}

static bool wait_until_waiting(double n)
{
    for (const int64_t end = spawn_now_ms() + spawn_patience(ANSWER_MS); waiting() < n;)
        if (!spawn_before(end)) return false;
    return true;
}

static size_t count_over(client *const *c, size_t n)
{
    size_t over = 0;
    for (size_t i = 0; i < n; i++) over += client_is_over(c[i]);
    return over;
}

static void tokens_of_others_pass_while_long_bodies_are_read(void **state)
{
    (void)state;
    client *long_ones[LONG_BODIES];
    start();
    char *body = slow_body("\"prompt\":7");
    client *other = cluster_begin_stream(url, 8000);
    assert_non_null(other);
    for (size_t i = 0; i < LONG_BODIES; i++) long_ones[i] = begin(body);
    assert_true(wait_until_waiting(1));
    /* Each round is one body that a thread reads: the stream goes on before the next one is answered. */
    size_t passed = 0, seen = strlen(client_body(other));
    for (const int64_t end = spawn_now_ms() + spawn_patience(ANSWER_MS);
         count_over(long_ones, LONG_BODIES) < LONG_BODIES && spawn_before(end);) {
        client_step();
        passed += waiting() > 0 && strlen(client_body(other)) > seen;
        seen = strlen(client_body(other));
    }
    assert_true(passed >= LONG_BODIES);
    for (size_t i = 0; i < LONG_BODIES; i++) {
        assert_int_equal(client_status(long_ones[i]), 400);
        assert_non_null(strstr(client_body(long_ones[i]), "'prompt'"));
    }
    assert_true(wait_until_read(LONG_BODIES));
    assert_true(cluster_serves(url));
    assert_true(cluster_metric(url, "baton_request_bodies_total{by=\"loop\"}") >= 1); /* short ones are read
                                                                                         there */
    free(body);
}

static void a_client_that_leaves_takes_its_body_out_of_the_line(void **state)
{
    (void)state;
    client *c[LONG_BODIES];
    start();
    char *body = slow_body("\"prompt\":7");
    for (size_t i = 0; i < LONG_BODIES; i++) c[i] = begin(body);
    assert_true(wait_until_waiting(LONG_BODIES - 1));
    const double read = by_thread();
    for (size_t i = 0; i < LONG_BODIES; i++) client_end(c[i]);
    for (const int64_t end = spawn_now_ms() + spawn_patience(ANSWER_MS); waiting() > 0;)
        assert_true(spawn_before(end));
    assert_true(by_thread() <= read + 2); /* the one that was being read, and one whose turn came */
    client *after = begin(body);          /* the memory is free again */
    assert_true(client_wait(after, spawn_patience(ANSWER_MS)));
    assert_int_equal(client_status(after), 400);
    assert_true(cluster_serves(url));
    free(body);
}

static void a_drain_serves_those_whose_bodies_had_come(void **state)
{
    (void)state;
    enum { SENT = 3 };
    client *c[SENT];
    start();
    char *body = slow_body("\"prompt\":\"the\",\"max_tokens\":4,\"temperature\":0");
    for (size_t i = 0; i < SENT; i++) c[i] = begin(body);
    assert_true(wait_until_waiting(SENT - 1));
    spawn_signal(gateway, SIGTERM);
    for (size_t i = 0; i < SENT; i++) {
        assert_true(client_wait(c[i], spawn_patience(ANSWER_MS)));
        assert_int_equal(client_status(c[i]), 200);
    }
    assert_int_equal(spawn_wait(gateway, spawn_patience(READY_MS)), 0);
    free(body);
}

static void bodies_that_wait_leave_memory_for_others(void **state)
{
    (void)state;
    client *c[MANY_BODIES];
    size_t refused = 0, read = 0;
    start();
    char *body = slow_body("\"prompt\":7");
    for (size_t i = 0; i < MANY_BODIES; i++) c[i] = begin(body);
    assert_true(wait_until_waiting(1));
    assert_true(cluster_serves(url)); /* its body comes in beside them */
    for (size_t i = 0; i < MANY_BODIES; i++) {
        assert_true(client_wait(c[i], spawn_patience(ANSWER_MS)));
        read += client_status(c[i]) == 400;
        if (client_status(c[i]) != 503) continue;
        refused++;
        assert_int_equal(client_retry_after(c[i]), 1);
        assert_non_null(strstr(client_body(c[i]), "Too many large requests at once"));
    }
    assert_int_equal(read + refused, MANY_BODIES);
    assert_true(refused > 0 && read >= MANY_BODIES / 2);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tokens_of_others_pass_while_long_bodies_are_read, cluster_teardown),
        cmocka_unit_test_teardown(a_client_that_leaves_takes_its_body_out_of_the_line, cluster_teardown),
        cmocka_unit_test_teardown(a_drain_serves_those_whose_bodies_had_come, cluster_teardown),
        cmocka_unit_test_teardown(bodies_that_wait_leave_memory_for_others, cluster_teardown),
    };
    return cmocka_run_group_tests_name("bodies", tests, cluster_group_begin, cluster_group_end);
}
