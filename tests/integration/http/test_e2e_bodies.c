/* Long bodies are read beside the gateway's loop: others are served meanwhile, a client that leaves takes
 * its body with it, a drain waits for those that have come, and the memory for bodies keeps a rest. Long
 * answers are written there too. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/raw_http.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Bytes of the text as client_text gives it. */
static size_t shown_bytes(const json_t *text)
{
    size_t nuls = 0;
    for (size_t i = 0; i < json_string_length(text); i++) nuls += json_string_value(text)[i] == 0;
    return json_string_length(text) + nuls;
}

/* Log probabilities of thousands of tokens take a second to write. */
static void a_long_answer_is_written_beside_the_loop(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"the\",\"max_tokens\":2000,\"logprobs\":20,\"temperature\":0,"
                               "\"baton\":true,\"logit_bias\":{\"2\":-100,\"260\":-100}}";
    static const char line[] = "baton_answer_ends_total{by=\"thread\"}";
    start();
    assert_true(cluster_serves(url));
    const double before = cluster_metric(url, line);
    client *c = client_begin(url, "/v1/completions", body, sizeof body - 1);
    assert_true(client_wait(c, spawn_patience(ANSWER_MS)));
    assert_int_equal(client_status(c), 200);
    const json_t *choice = json_array_get(json_object_get(client_json(c), "choices"), 0);
    const json_t *logprobs = json_object_get(choice, "logprobs");
    const json_t *report = json_object_get(client_json(c), "baton");
    assert_int_equal(json_array_size(json_object_get(logprobs, "tokens")), 2000);
    assert_int_equal(json_array_size(json_object_get(logprobs, "top_logprobs")), 2000);
    assert_int_equal(json_array_size(json_object_get(report, "token_ids")), 2000);
    assert_true(json_equal(json_object_get(choice, "text"), json_object_get(report, "text")));
    assert_int_equal((int)cluster_metric(url, line), (int)before + 1);
    client_end(c);
    /* A stream whose report has long lists ends beside the loop too, behind all of its text. */
    static const char stream[] = "{\"prompt\":\"the\",\"max_tokens\":6000,\"stream\":true,\"temperature\":0,"
                                 "\"baton\":true,\"logit_bias\":{\"2\":-100,\"260\":-100}}";
    c = client_begin(url, "/v1/completions", stream, sizeof stream - 1);
    assert_true(client_wait(c, spawn_patience(ANSWER_MS)));
    assert_true(client_is_done(c));
    char *text = client_text(c);
    assert_int_equal(strlen(text), shown_bytes(json_object_get(client_baton(c), "text")));
    assert_int_equal(json_array_size(json_object_get(client_baton(c), "token_ids")), 6000);
    assert_int_equal((int)cluster_metric(url, line), (int)before + 2);
    free(text);
}

/* The gateway is stopped until all have come, so that one turn finds them. */
static void more_requests_than_a_turn_has_time_for_wait_for_the_next(void **state)
{
    (void)state;
    enum { BURST = 60, IDS = 1900 };
    static const char line[] = "\nbaton_http_requests_put_off_total ";
    char body[2 * IDS + 64], message[sizeof body + 128], answer[1024];
    int fd[BURST];
    start();
    assert_true(cluster_serves(url));
    size_t n = (size_t)snprintf(body, sizeof body, "{\"prompt\":[");
    for (int i = 0; i < IDS; i++) n += (size_t)snprintf(body + n, sizeof body - n, "1,");
    n += (size_t)snprintf(body + n, sizeof body - n, "-1]}");
    (void)snprintf(
        message, sizeof message,
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", n,
        body);
    const double before = cluster_metric(url, line);
    spawn_signal(gateway, SIGSTOP);
    for (int i = 0; i < BURST; i++) {
        fd[i] = raw_dial(url);
        assert_true(fd[i] >= 0 && raw_say(fd[i], message, strlen(message)));
    }
    spawn_signal(gateway, SIGCONT);
    for (int i = 0; i < BURST; i++) {
        assert_true(raw_hear_end(fd[i], answer, sizeof answer, spawn_patience(ANSWER_MS)));
        assert_non_null(strstr(answer, "HTTP/1.1 400"));
        (void)close(fd[i]);
    }
    assert_true(cluster_metric(url, line) > before);
    assert_true(cluster_serves(url));
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

/* A stream of some megabytes of which nothing is read: its sequence goes on to its end all the same, and
 * gives its pages back, while the connection is there still. */
static void a_reader_that_stops_keeps_nobody_elses_pages(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"max_tokens\":6000,\"stream\":true,\"ignore_eos\":true,"
                               "\"logprobs\":5}";
    char request[512];
    const int len = snprintf(request, sizeof request,
                             "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             sizeof body - 1, body);
    start();
    const int fd = raw_dial(url);
    assert_true(fd >= 0 && raw_say(fd, request, (size_t)len));
    while (cluster_metric(url, "\nbaton_requests_running ") < 1) client_step();
    assert_true(cluster_serves(url));
    assert_true(cluster_wait_idle(url, spawn_patience(ANSWER_MS)));
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tokens_of_others_pass_while_long_bodies_are_read, cluster_teardown),
        cmocka_unit_test_teardown(a_long_answer_is_written_beside_the_loop, cluster_teardown),
        cmocka_unit_test_teardown(more_requests_than_a_turn_has_time_for_wait_for_the_next, cluster_teardown),
        cmocka_unit_test_teardown(a_client_that_leaves_takes_its_body_out_of_the_line, cluster_teardown),
        cmocka_unit_test_teardown(a_drain_serves_those_whose_bodies_had_come, cluster_teardown),
        cmocka_unit_test_teardown(a_reader_that_stops_keeps_nobody_elses_pages, cluster_teardown),
        cmocka_unit_test_teardown(bodies_that_wait_leave_memory_for_others, cluster_teardown),
    };
    return cmocka_run_group_tests_name("bodies", tests, cluster_group_begin, cluster_group_end);
}
