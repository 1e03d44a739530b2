/* The same conversation in every dialect of a real cluster: the same answer, whole and streamed, and refusals
 * in each one's own form. */
#include "gateway/api/endpoints.h"
#include "tests/helpers/cluster/cluster.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWER_MS = 60000, TEXT_BYTES = 4096 };

#define TALK "\"messages\":[{\"role\":\"user\",\"content\":\"the cat sat\"}]"

/* A request, and where its text is: a member of the whole answer, or of each event of the stream. */
static const struct {
    const char *path, *body;
    const char *whole[5], *part[4]; /* keys, a number is a place in an array; until NULL */
    const char *refusal;            /* what a 429 begins with */
} dialects[] = {
    {"/v1/chat/completions",
     "{" TALK ",\"max_tokens\":8,\"temperature\":0",
     {"choices", "0", "message", "content", NULL},
     {"choices", "0", "delta", "content"},
     "{\"error\":{\"message\":\"The API key 'rate' may make 1"},
    {"/v1/messages",
     "{" TALK ",\"max_tokens\":8,\"temperature\":0",
     {"content", "0", "text", NULL},
     {"delta", "text", NULL},
     "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\""},
    {"/v1/responses",
     "{\"input\":\"the cat sat\",\"max_output_tokens\":8,\"temperature\":0",
     {"output", "0", "content", "0", "text"},
     {"delta", NULL},
     "{\"error\":{\"message\":\"The API key 'rate' may make 1"},
    {"/api/chat",
     "{" TALK ",\"model\":\"tiny\",\"options\":{\"num_predict\":8,\"temperature\":0}",
     {"message", "content", NULL},
     {"message", "content", NULL},
     "{\"error\":\"The API key 'rate' may make 1"},
    {"/api/generate",
     "{\"prompt\":\"the cat sat\",\"model\":\"tiny\",\"options\":{\"num_predict\":8,\"temperature\":0}",
     {"response", NULL},
     {"response", NULL},
     "{\"error\":\"The API key 'rate' may make 1"},
};
enum { DIALECTS = sizeof dialects / sizeof *dialects };

static client *come(client *x)
{
    if (!client_wait(x, spawn_patience(ANSWER_MS))) fail_msg("no answer: %s", client_body(x));
    return x;
}

static client *post(const cluster *c, const char *path, const char *body)
{
    return come(client_begin(c->url, path, body, strlen(body)));
}

static const char *text_at(const json_t *j, const char *const *keys, size_t max)
{
    for (size_t i = 0; i < max && keys[i]; i++)
        j = json_is_array(j) ? json_array_get(j, (size_t)strtoul(keys[i], NULL, 10))
                             : json_object_get(j, keys[i]);
    return json_is_string(j) ? json_string_value(j) : "";
}

/* The texts of a stream's events or lines, one after another. */
static void join(char *ret, const char *body, size_t i)
{
    const char *line = body;
    *ret = 0;
    while (*line) {
        const size_t len = strcspn(line, "\n");
        const char *json = strncmp(line, "data: ", 6) == 0 ? line + 6 : line;
        json_t *j = json_loadb(json, (size_t)(line + len - json), 0, NULL);
        const char *text = text_at(j, dialects[i].part, 4);
        assert_true(strlen(ret) + strlen(text) < TEXT_BYTES);
        (void)strcat(ret, text);
        json_decref(j);
        line += len + (line[len] == '\n');
    }
}

static void one_conversation_has_one_answer_in_every_dialect(void **state)
{
    (void)state;
    static char want[TEXT_BYTES], got[TEXT_BYTES], body[512];
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1", "--alias", "tiny"));
    for (size_t i = 0; i < DIALECTS; i++) {
        (void)snprintf(body, sizeof body, "%s,\"stream\":false}", dialects[i].body);
        client *x = post(&c, dialects[i].path, body);
        if (client_status(x) != 200) fail_msg("%s: %s", dialects[i].path, client_body(x));
        json_t *j = json_loads(client_body(x), 0, NULL);
        (void)snprintf(got, sizeof got, "%s", text_at(j, dialects[i].whole, 5));
        if (i == 0) memcpy(want, got, sizeof want);
        assert_true(*got);
        if (strcmp(got, want) != 0) fail_msg("%s: '%s', not '%s'", dialects[i].path, got, want);
        json_decref(j);
        client_end(x);
        (void)snprintf(body, sizeof body, "%s,\"stream\":true}", dialects[i].body);
        x = post(&c, dialects[i].path, body);
        join(got, client_body(x), i);
        if (strcmp(got, want) != 0) fail_msg("%s, streamed: '%s', not '%s'", dialects[i].path, got, want);
        client_end(x);
    }
    client *x = post(&c, "/v1/messages/count_tokens", "{" TALK "}");
    json_t *count = json_loads(client_body(x), 0, NULL);
    client *y = post(&c, "/v1/chat/completions", "{" TALK ",\"max_tokens\":1}");
    json_t *chat = json_loads(client_body(y), 0, NULL);
    assert_true(json_equal(json_object_get(count, "input_tokens"),
                           json_object_get(json_object_get(chat, "usage"), "prompt_tokens")));
    json_decref(count);
    json_decref(chat);
    client_end(x);
    client_end(y);
    x = post(&c, "/api/generate", "{\"model\":\"tiny\"}");
    assert_non_null(strstr(client_body(x), "\"done_reason\":\"load\""));
    client_end(x);
    x = post(&c, "/completion", "{\"prompt\":[1,2],\"n_predict\":2,\"temperature\":0,\"ignore_eos\":true}");
    assert_non_null(strstr(client_body(x), "\"stop_type\":\"limit\""));
    json_t *ended = client_json(x);
    const json_t *settings = json_object_get(ended, "generation_settings");
    assert_int_equal(json_integer_value(json_object_get(settings, "n_predict")), 2);
    assert_true(json_is_true(json_object_get(settings, "ignore_eos")));
    client *again = post(&c, "/detokenize", "{\"tokens\":[1,2]}");
    assert_true(json_equal(json_object_get(ended, "prompt"), json_object_get(client_json(again), "content")));
    client_end(again);
    client_end(x);
    assert_true(cluster_stop(&c));
}

/* Lines of ollama's stream say when each was written. */
static void every_line_has_its_own_time(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1", "--alias", "tiny"));
    client *x = post(&c, "/api/generate",
                     "{\"prompt\":\"the cat sat\",\"model\":\"tiny\",\"options\":{\"num_predict\":64,"
                     "\"temperature\":1,\"seed\":3}}");
    char before[64] = "";
    int lines = 0, changes = 0, fractions = 0;
    for (const char *at = client_body(x); *at; lines++) {
        json_t *j = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const char *when = text_at(j, (const char *const[]){"created_at", NULL}, 2);
        assert_int_equal(strlen(when), strlen("2023-11-14T22:13:20.250000Z"));
        assert_true(strcmp(before, when) <= 0);
        changes += strcmp(before, when) != 0;
        fractions += strncmp(strchr(when, '.'), ".000000", 7) != 0;
        (void)snprintf(before, sizeof before, "%s", when);
        json_decref(j);
        at = strchr(at, '\n') + 1;
    }
    assert_true(lines > 3 && changes > 1 && fractions > 0);
    client_end(x);
    x = post(&c, "/api/generate", "{\"model\":\"tiny\",\"keep_alive\":0}");
    assert_non_null(strstr(client_body(x), "\"done_reason\":\"unload\""));
    client_end(x);
    assert_true(cluster_stop(&c));
}

static const json_t *list_at(const json_t *response)
{
    const json_t *item = json_array_get(json_object_get(response, "output"), 0);
    return json_object_get(json_array_get(json_object_get(item, "content"), 0), "logprobs");
}

/* The whole answer, the deltas of a stream and its last event have the same log probabilities. */
static void responses_end_with_all_log_probabilities(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1", "--alias", "tiny"));
#define LOGPROBS \
    "{\"input\":\"the cat sat\",\"max_output_tokens\":8,\"temperature\":0,\"top_logprobs\":2," \
    "\"include\":[\"message.output_text.logprobs\"],\"instructions\":\"s\",\"metadata\":{\"a\":\"b\"}"
    client *x = post(&c, "/v1/responses", LOGPROBS "}"),
           *y = post(&c, "/v1/responses", LOGPROBS ",\"stream\":true}");
    json_t *events = client_json(y), *deltas = json_array();
    const json_t *whole = list_at(client_json(x)), *event;
    const json_t *last = json_object_get(json_array_get(events, json_array_size(events) - 1), "response");
    size_t i;
    json_array_foreach(events, i, event)
        if (json_object_get(event, "delta"))
            assert_int_equal(json_array_extend(deltas, json_object_get(event, "logprobs")), 0);
    assert_true(json_array_size(whole) > 0 && json_array_size(whole) <= 8);
    assert_true(json_equal(whole, deltas) && json_equal(whole, list_at(last)));
    assert_string_equal(json_string_value(json_object_get(last, "instructions")), "s");
    assert_string_equal(text_at(last, (const char *const[]){"metadata", "a", NULL}, 3), "b");
    json_decref(deltas);
    client_end(x);
    client_end(y);
    assert_true(cluster_stop(&c));
}

static void is(client *x, long status, const char *words)
{
    if (client_status(x) != status) fail_msg("status %ld: %s", client_status(x), client_body(x));
    if (!strstr(client_body(x), words)) fail_msg("'%s' does not say '%s'", client_body(x), words);
    client_end(x);
}

/* Without a key each path but the open ones refuses, in the form of its dialect. */
static void every_path_is_closed(const cluster *c)
{
    static const struct {
        const char *schema, *words;
    } forms[] = {
        {"Error", "{\"error\":{\"message\":\"This server needs an API key"},
        {"MessagesError", "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\""},
        {"OllamaError",
         "{\"error\":\"This server needs an API key: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'."}};
    for (const gw_endpoint *p = gw_endpoints; p < gw_endpoints + gw_endpoints_len; p++) {
        size_t k = 0;
        if (p->right == GW_RIGHT_OPEN || p->right == GW_RIGHT_METRICS) continue;
        while (strcmp(forms[k].schema, p->dialect->error_schema) != 0) assert_true(++k < 3);
        is(p->method == GW_POST ? post(c, p->path, "{}") : come(client_get(c->url, p->path)), 401,
           forms[k].words);
    }
}

static void keys_and_limits_hold_in_every_dialect_and_refusals_are_in_its_form(void **state)
{
    (void)state;
    static const char keys[] = "rate-secret name=rate requests-per-minute=1\n";
    const char *path = spawn_path("keys.txt");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cluster c;
    assert_true(fd >= 0 && write(fd, keys, sizeof keys - 1) == sizeof keys - 1 && close(fd) == 0);
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1", "--alias", "tiny", "--api-key-file", path));
    every_path_is_closed(&c);
    client_use_bare_key("rate-secret");
    is(post(&c, "/v1/messages", "{" TALK ",\"max_tokens\":2}"), 200, "\"type\":\"message\"");
    is(post(&c, "/v1/messages", "{" TALK ",\"max_tokens\":2}"), 429, "\"type\":\"rate_limit_error\"");
    client_use_key("rate-secret");
    is(post(&c, "/api/chat", "{" TALK ",\"model\":\"tiny\"}"), 429,
       "{\"error\":\"The API key 'rate' may make 1");
    is(come(client_get(c.url, "/api/chat")), 405, "{\"error\":\"GET is not allowed");
    is(come(client_get(c.url, "/v1/messages")), 405, "\"type\":\"invalid_request_error\"");
    is(come(client_get(c.url, "/")), 200, "There is: /v1/chat/completions, ");
    for (size_t i = 0; i < DIALECTS; i++) is(post(&c, dialects[i].path, "{}"), 429, dialects[i].refusal);
    is(come(client_get(c.url, "/api/nothing")), 404,
       "{\"error\":\"There is nothing at /api/nothing. There is: /v1/chat/completions, ");
    is(come(client_get(c.url, "/v1/messages/batches")), 404, "\"type\":\"not_found_error\"");
    client_use_bare_key("wrong");
    is(come(client_get(c.url, "/api/tags")), 401, "not one of this server's");
    client_use_key(NULL);
    assert_true(cluster_stop(&c));
    assert_null(strstr(spawn_err(c.up), "-secret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_conversation_has_one_answer_in_every_dialect, cluster_teardown),
        cmocka_unit_test_teardown(every_line_has_its_own_time, cluster_teardown),
        cmocka_unit_test_teardown(responses_end_with_all_log_probabilities, cluster_teardown),
        cmocka_unit_test_teardown(keys_and_limits_hold_in_every_dialect_and_refusals_are_in_its_form,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
