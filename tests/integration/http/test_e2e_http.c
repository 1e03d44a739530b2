/* The door of a running system, seen by a client: what it answers, how streams and whole answers agree, what
 * it refuses and in which words, and that nobody's haste or leaving costs another client anything. */
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
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char CHAT[] = "/v1/chat/completions", TEXT[] = "/v1/completions",
                  PROMPT[] = "the end of the day";
enum { QUEUE = 4, ANSWER_MS = 20000, MAX_ANSWER = 40 };

static cluster sys; /* one for all tests; a queue of four */

static int start_system(void **state)
{
    (void)state;
    spawn_setup();
    client_setup();
    return CLUSTER(&sys, spawn_tiny_model(1), "--max-queue", "4", "--threads", "1", "--alias", "tiny",
                   "--min-p", "0.125", "--max-answer", "40")
               ? 0
               : -1;
}

static int stop_system(void **state)
{
    (void)state;
    const bool ok = cluster_stop(&sys);
    client_cleanup();
    spawn_cleanup();
    return ok ? 0 : -1;
}

static client *wait_for(client *c)
{
    if (!client_wait(c, spawn_patience(ANSWER_MS)))
        fail_msg("no whole answer after %lld ms: %s", (long long)client_ms(c), client_body(c));
    return c;
}

/* Posts and drops the request; waits for the answer. */
static client *ask(const char *path, json_t *request)
{
    client *c = client_post(sys.url, path, request);
    json_decref(request);
    return wait_for(c);
}

static json_t *with(json_t *request, const char *key, json_t *value)
{
    json_object_set_new(request, key, value);
    return request;
}

static json_t *chat_request(int max_tokens)
{
    return json_pack("{s:[{s:s, s:s}], s:i, s:i, s:b}", "messages", "role", "user", "content", PROMPT,
                     "max_tokens", max_tokens, "temperature", 0, "baton", 1);
}

static const char *str(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static const char *finish_reason(client *c) { return str(client_baton(c), "finish_reason"); }

/* ---- what there is ---- */

static void tells_models_health_metrics_and_status(void **state)
{
    (void)state;
    client *c = wait_for(client_get(sys.url, "/v1/models"));
    assert_int_equal(client_status(c), 200);
    const json_t *model = json_array_get(json_object_get(client_json(c), "data"), 0);
    assert_string_equal(str(model, "id"), "tiny");
    assert_string_equal(str(model, "object"), "model");
    client_end(c);

    c = wait_for(client_get(sys.url, "/health"));
    assert_int_equal(client_status(c), 200);
    client_end(c);

    assert_true(cluster_serves(sys.url));
    c = wait_for(client_get(sys.url, "/metrics"));
    assert_int_equal(client_status(c), 200);
    assert_non_null(strstr(client_body(c), "# TYPE baton_"));
    assert_non_null(strstr(client_body(c), "process_resident_memory_bytes "));
    client_end(c);

    json_t *status = cluster_status(sys.url);
    const json_t *nodes = json_object_get(status, "nodes");
    assert_int_equal(json_array_size(nodes), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *n = json_array_get(nodes, i);
        assert_string_equal(str(n, "state"), "ready");
        assert_true(json_integer_value(json_object_get(n, "pid")) > 0);
        assert_true(json_integer_value(json_object_get(n, "rss_bytes")) > 0);
        assert_int_equal(strlen(str(n, "incarnation")), 32);
        assert_string_equal(str(n, "id"), strcmp(str(n, "role"), "decode") == 0 ? "decode-0" : "prefill-0");
    }
    json_decref(status);

    c = wait_for(client_get(sys.url, "/nothing/here"));
    assert_int_equal(client_status(c), 404);
    assert_non_null(client_error(c));
    client_end(c);
    c = wait_for(client_get(sys.url, TEXT));
    assert_int_equal(client_status(c), 405);
    client_end(c);
}

/* ---- streams ---- */

static void options_of_baton_up_are_the_defaults_of_its_gateway(void **state)
{
    (void)state;
    client *c = wait_for(client_get(sys.url, "/props"));
    const json_t *defaults = json_object_get(client_json(c), "defaults"),
                 *min_p = json_object_get(defaults, "min_p");
    assert_true(json_number_value(json_object_get(min_p, "value")) == 0.125);
    assert_string_equal(str(min_p, "from"), "option");
    assert_string_equal(str(json_object_get(defaults, "top_p"), "from"), "default");
    assert_int_equal(json_integer_value(json_object_get(client_json(c), "max_answer")), MAX_ANSWER);
    assert_int_equal(json_integer_value(json_object_get(client_json(c), "total_slots")), 32);
    assert_int_equal(json_integer_value(json_object_get(client_json(c), "n_ctx")), 1024);
}

static void a_stream_says_what_a_whole_answer_says(void **state)
{
    static const char *const paths[] = {CHAT, TEXT};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        json_t *request = i == 0 ? chat_request(40) : cluster_request(PROMPT, 40);
        client *whole = ask(paths[i], json_deep_copy(request));
        json_object_set_new(request, "stream", json_true());
        json_object_set_new(request, "stream_options", json_pack("{s:b}", "include_usage", 1));
        client *stream = ask(paths[i], request);
        assert_int_equal(client_status(whole), 200);
        assert_int_equal(client_status(stream), 200);
        assert_true(client_is_done(stream));
        char *a = client_text(whole), *b = client_text(stream);
        assert_true(strlen(a) > 0);
        assert_string_equal(a, b);
        assert_true(json_equal(json_object_get(client_baton(whole), "token_ids"),
                               json_object_get(client_baton(stream), "token_ids")));
        assert_string_equal(str(client_baton(whole), "kv_digest"), str(client_baton(stream), "kv_digest"));
        free(a);
        free(b);

        json_t *events = client_json(stream);
        const size_t n = json_array_size(events);
        assert_true(n > 3);
        if (i == 0) {
            const json_t *delta =
                json_object_get(json_array_get(json_object_get(json_array_get(events, 0), "choices"), 0),
                                "delta");
            assert_string_equal(str(delta, "role"), "assistant");
        }
        const json_t *last = json_array_get(events, n - 1), *before = json_array_get(events, n - 2);
        assert_int_equal(json_array_size(json_object_get(last, "choices")), 0);
        assert_true(json_equal(json_object_get(last, "usage"), json_object_get(client_json(whole), "usage")));
        assert_string_equal(str(json_array_get(json_object_get(before, "choices"), 0), "finish_reason"),
                            finish_reason(whole));
        assert_true(json_is_null(json_object_get(before, "usage")));
        client_end(whole);
        client_end(stream);
    }
}

/* Bytes of the text at which a character begins, so that a stop string is valid UTF-8. */
static bool is_start(const char *p) { return ((unsigned char)*p & 0xC0) != 0x80; }

static void stop_strings_end_the_text_wherever_chunks_are_cut(void **state)
{
    (void)state;
    client *plain = ask(TEXT, cluster_request(PROMPT, 48));
    char *text = client_text(plain);
    const size_t len = strlen(text);
    size_t tried = 0;
    assert_true(len > 20);
    /* Every third window of about five bytes: most lie across the edge of two tokens. */
    for (size_t at = 1; at + 8 < len && tried < (spawn_is_sanitized() ? 4 : 12); at += 3) {
        size_t n = 5;
        while (at + n < len && !is_start(text + at + n)) n++;
        if (!is_start(text + at)) continue;
        char *stop = strndup(text + at, n);
        const size_t expected = (size_t)(strstr(text, stop) - text);
        for (int is_stream = 0; is_stream < 2; is_stream++) {
            json_t *r = cluster_request(PROMPT, 48);
            json_object_set_new(r, "stop", json_pack("[s, s]", "never to be seen", stop));
            json_object_set_new(r, "stream", json_boolean(is_stream));
            client *c = ask(TEXT, r);
            char *got = client_text(c);
            assert_int_equal(client_status(c), 200);
            assert_int_equal(strlen(got), expected);
            assert_memory_equal(got, text, expected);
            assert_string_equal(finish_reason(c), "stop");
            free(got);
            client_end(c);
        }
        free(stop);
        tried++;
    }
    assert_true(tried >= 3);
    free(text);
    client_end(plain);
    assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
}

static void one_token_is_one_token(void **state)
{
    (void)state;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        client *c = ask(TEXT, with(cluster_request(PROMPT, 1), "stream", json_boolean(is_stream)));
        assert_int_equal(client_status(c), 200);
        assert_int_equal(json_array_size(json_object_get(client_baton(c), "token_ids")), 1);
        assert_string_equal(finish_reason(c), "length");
        client_end(c);
    }
    assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
}

static json_t *drawn(int seed)
{
    return with(with(cluster_request(PROMPT, 32), "temperature", json_real(1.3)), "seed", json_integer(seed));
}

static void a_seed_repeats_and_another_does_not(void **state)
{
    (void)state;
    client *a = ask(TEXT, drawn(7)), *b = ask(TEXT, with(drawn(7), "stream", json_true())),
           *c = ask(TEXT, drawn(8));
    const json_t *ids = json_object_get(client_baton(a), "token_ids");
    assert_true(json_array_size(ids) > 4);
    assert_true(json_equal(ids, json_object_get(client_baton(b), "token_ids")));
    assert_false(json_equal(ids, json_object_get(client_baton(c), "token_ids")));
    client_end(a);
    client_end(b);
    client_end(c);
}

/* ---- many clients ---- */

static void several_clients_queue_and_all_are_served(void **state)
{
    client *c[QUEUE];
    (void)state;
    for (int i = 0; i < QUEUE; i++) {
        json_t *r = with(cluster_request(PROMPT, 24), "stream", json_boolean(i % 2));
        c[i] = client_post(sys.url, TEXT, r);
        json_decref(r);
    }
    for (int i = 0; i < QUEUE; i++) {
        wait_for(c[i]);
        assert_int_equal(client_status(c[i]), 200);
        assert_true(json_equal(json_object_get(client_baton(c[0]), "token_ids"),
                               json_object_get(client_baton(c[i]), "token_ids")));
    }
    for (int i = 0; i < QUEUE; i++) client_end(c[i]);
}

/* A streamed request that keeps the nodes busy: nothing else starts until it ends or goes. The tiny model may
 * end by itself, so sampling is hot. */
static client *begin_long_stream(void)
{
    for (int seed = 1; seed < 50; seed++) {
        json_t *r =
            with(with(with(cluster_request(PROMPT, 900), "stream", json_true()), "temperature", json_real(2)),
                 "seed", json_integer(seed));
        client *c = client_post(sys.url, TEXT, r);
        json_decref(r);
        if (client_wait_text(c, "\"text\":\"", spawn_patience(ANSWER_MS)) && !client_is_over(c)) return c;
        client_end(c);
    }
    fail_msg("every stream ended at once");
    return NULL;
}

static void a_full_queue_answers_429_and_when_to_come_again(void **state)
{
    enum { CALLS = 24 };
    client *c[CALLS];
    size_t ok = 0, full = 0;
    (void)state;
    client *busy = begin_long_stream();
    for (size_t i = 0; i < CALLS; i++) {
        json_t *r = cluster_request(PROMPT, 4);
        c[i] = client_post(sys.url, TEXT, r);
        json_decref(r);
    }
    for (size_t i = 0; i < CALLS; i++) {
        wait_for(c[i]);
        ok += client_status(c[i]) == 200;
        if (client_status(c[i]) != 429) continue;
        full++;
        assert_true(client_retry_after(c[i]) >= 1);
        assert_string_equal(str(client_error(c[i]), "type"), "rate_limit_error");
        assert_true(strlen(str(client_error(c[i]), "message")) > 0);
    }
    assert_int_equal(ok + full, CALLS);
    assert_true(ok >= QUEUE);
    assert_true(full >= 1);
    for (size_t i = 0; i < CALLS; i++) client_end(c[i]);
    client_end(busy);
    assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
}

static void a_client_that_leaves_frees_its_pages(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        client *c = begin_long_stream();
        client_end(c);
        assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
        assert_true(cluster_serves(sys.url));
    }
}

/* As nc -N and clients of HTTP/1.0 do. The end comes with the request, or while the answer is made. */
static void a_client_that_closes_its_sending_side_gets_its_whole_answer(void **state)
{
    static const char *const heads[] = {"HTTP/1.1\r\nHost: x\r\n",
                                        "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", "HTTP/1.0\r\n",
                                        "HTTP/1.0\r\nConnection: keep-alive\r\n"};
    (void)state;
    for (int i = 0; i < 16; i++) {
        const bool is_stream = i & 1, is_later = i & 2;
        char body[160], request[512], text[1 << 16];
        snprintf(body, sizeof body,
                 "{\"prompt\":\"%s\",\"max_tokens\":40,\"temperature\":0,\"ignore_eos\":true,\"stream\":%s}",
                 PROMPT, is_stream ? "true" : "false");
        snprintf(request, sizeof request, "POST /v1/completions %sContent-Length: %zu\r\n\r\n%s",
                 heads[i / 4], strlen(body), body);
        const int fd = raw_dial(sys.url);
        assert_true(fd >= 0);
        assert_true(raw_say(fd, request, strlen(request)));
        if (is_later && is_stream)
            assert_true(raw_hear(fd, text, sizeof text, "data: ", spawn_patience(ANSWER_MS)));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        if (!raw_hear_end(fd, text, sizeof text, spawn_patience(ANSWER_MS))) fail_msg("no end: %s", text);
        (void)close(fd);
        if (!(is_later && is_stream)) assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
        assert_non_null(strstr(text, is_stream ? "data: [DONE]" : "\"completion_tokens\":40"));
    }
    assert_true(cluster_wait_idle(sys.url, spawn_patience(ANSWER_MS)));
}

static void a_waiting_client_that_leaves_is_forgotten(void **state)
{
    (void)state;
    client *busy = begin_long_stream();
    json_t *r = cluster_request(PROMPT, 4);
    client *waiting = client_post(sys.url, TEXT, r);
    json_decref(r);
    for (int i = 0; i < 5; i++) client_step();
    client_end(waiting);
    client_end(busy);
    assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
    assert_true(cluster_serves(sys.url));
}

/* ---- bad requests ---- */

static void check_error(client *c, long status, const char *words)
{
    const json_t *e = client_error(c);
    if (client_status(c) != status || !e || !strstr(str(e, "message"), words))
        fail_msg("wanted %ld '%s', got %ld: %s", status, words, client_status(c), client_body(c));
    assert_true(strlen(str(e, "type")) > 0);
    assert_true(json_object_get(e, "param") && json_object_get(e, "code"));
    client_end(c);
}

static void a_prompt_that_does_not_fit_is_told_both_numbers(void **state)
{
    enum { LETTERS = 3000 };
    char *text = malloc(LETTERS + 1);
    (void)state;
    for (size_t i = 0; i < LETTERS; i++) text[i] = "0123456789"[i % 10];
    text[LETTERS] = '\0';
    client *c = ask(TEXT, cluster_request(text, 1));
    const char *says = strstr(str(client_error(c), "message"), "prompt has ");
    assert_non_null(says);
    assert_true(atoi(says + 11) >= LETTERS);
    assert_non_null(strstr(str(client_error(c), "message"), "1024"));
    assert_string_equal(str(client_error(c), "code"), "context_length_exceeded");
    check_error(c, 400, "1024");
    free(text);
}

/* Asks a model that cannot end by itself: its two ids that would are out of reach. */
static client *ask_without_end(const char *path, json_t *request)
{
    json_object_set_new(request, "logit_bias", json_pack("{s:i, s:i}", "2", -100, "260", -100));
    client *c = ask(path, request);
    assert_int_equal(client_status(c), 200);
    const json_t *choice = json_array_get(json_object_get(client_json(c), "choices"), 0);
    assert_string_equal(str(choice, "finish_reason"), "length");
    return c;
}

static void an_answer_that_the_context_cuts_says_so(void **state)
{
    (void)state;
    client *c = ask_without_end(TEXT, cluster_request(PROMPT, 100000));
    const json_t *usage = json_object_get(client_json(c), "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 1024);
    const json_int_t room = 1024 - json_integer_value(json_object_get(usage, "prompt_tokens"));
    assert_int_equal(json_integer_value(json_object_get(client_baton(c), "max_tokens")), room);
    assert_string_equal(str(client_baton(c), "max_tokens_from"), "context");
}

static void without_max_tokens_a_chat_ends_at_max_answer_and_a_completion_at_16(void **state)
{
    (void)state;
    json_t *chat = chat_request(1), *text = cluster_request(PROMPT, 1);
    json_object_del(chat, "max_tokens");
    json_object_del(text, "max_tokens");
    client *c = ask_without_end(CHAT, chat);
    assert_int_equal(json_integer_value(json_object_get(client_baton(c), "completion_tokens")), MAX_ANSWER);
    assert_string_equal(str(client_baton(c), "max_tokens_from"), "max-answer");
    c = ask_without_end(TEXT, text);
    assert_int_equal(json_integer_value(json_object_get(client_baton(c), "completion_tokens")), 16);
    assert_string_equal(str(client_baton(c), "max_tokens_from"), "default");
}

/* Asks a model that wants to end at once: its own end is its likeliest token. */
static client *ask_at_the_end(const char *path, json_t *request, bool ignores)
{
    json_object_set_new(request, "logit_bias", json_pack("{s:i}", "2", 100));
    client *c = ask(path, with(request, "ignore_eos", json_boolean(ignores)));
    assert_int_equal(client_status(c), 200);
    return c;
}

static void an_end_that_is_to_be_ignored_is_one_more_token(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = i ? CHAT : TEXT;
        client *c = ask_at_the_end(path, i ? chat_request(12) : cluster_request(PROMPT, 12), false);
        assert_string_equal(str(client_baton(c), "finish_reason"), "stop");
        assert_int_equal(json_integer_value(json_object_get(client_baton(c), "completion_tokens")), 0);
        c = ask_at_the_end(path, i ? chat_request(12) : cluster_request(PROMPT, 12), true);
        assert_string_equal(str(client_baton(c), "finish_reason"), "length");
        assert_int_equal(json_integer_value(json_object_get(client_baton(c), "completion_tokens")), 12);
    }
    /* an id that the request itself names still ends it */
    json_t *r = with(cluster_request(PROMPT, 12), "stop_token_ids", json_pack("[i]", 2));
    client *c = ask_at_the_end(TEXT, r, true);
    assert_string_equal(str(client_baton(c), "finish_reason"), "stop");
}

static void a_stop_string_that_names_a_control_token_ends_answers_of_every_kind(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        json_t *r = i & 1 ? chat_request(12) : cluster_request(PROMPT, 12);
        json_object_set_new(r, "stop", json_pack("[s,s]", "never to be seen", "<|im_start|>"));
        json_object_set_new(r, "logit_bias", json_pack("{s:i}", "259", 100));
        json_object_set_new(r, "baton", json_true());
        client *c = ask(i & 1 ? CHAT : TEXT, with(r, "stream", json_boolean(i & 2)));
        char *text = client_text(c);
        assert_string_equal(text, "");
        assert_string_equal(finish_reason(c), "stop");
        assert_int_equal(json_integer_value(json_object_get(client_baton(c), "completion_tokens")), 0);
        free(text);
    }
    assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
}

static void a_prompt_has_the_ids_that_tokenize_shows(void **state)
{
    (void)state;
    static const char words[] = "<|im_start|>the<|im_end|>";
    for (int special = 0; special < 2; special++) {
        json_t *r = cluster_request(words, 1);
        json_object_set_new(r, "baton", json_true());
        client *answer = ask(TEXT, with(r, "parse_special", json_boolean(special)));
        client *shown = ask("/tokenize", json_pack("{s:s,s:b,s:b}", "content", words, "add_special", 1,
                                                   "parse_special", special));
        const json_t *ids = json_object_get(client_baton(answer), "prompt_ids"),
                     *tokens = json_object_get(client_json(shown), "tokens");
        assert_true(json_equal(ids, tokens));
        bool has_control = false;
        for (size_t i = 0; i < json_array_size(ids); i++)
            has_control |= json_integer_value(json_array_get(ids, i)) == 259;
        assert_int_equal(has_control, special);
        client *back = ask("/detokenize", json_pack("{s:O}", "tokens", tokens));
        assert_non_null(strstr(str(client_json(back), "content"), "<|im_start|>"));
    }
}

static void bad_requests_are_refused_in_clear_words(void **state)
{
    static const struct {
        const char *path, *body;
        size_t len;
        long status;
        const char *words;
    } bad[] = {
#define BODY(text) text, sizeof text - 1
        {TEXT, BODY("{\"prompt\": \"a\","), 400, "not valid JSON"},
        {TEXT, BODY(""), 400, "not valid JSON"},
        {TEXT, BODY("[1]"), 400, "JSON object"},
        {TEXT, BODY("{\"prompt\": \"a\xff\"}"), 400, "UTF-8 at byte 13"},
        {TEXT, BODY("{\"prompt\": \"a\", \"promt\": 1}"), 400, "promt"},
        {TEXT, BODY("{\"prompt\": \"a\", \"max_tokens\": -5}"), 400, "max_tokens"},
        {TEXT, BODY("{\"prompt\": \"a\", \"max_tokens\": 0}"), 400, "max_tokens"},
        {TEXT, BODY("{\"prompt\": \"a\", \"max_tokens\": -1e30}"), 400, "max_tokens"},
        {TEXT, BODY("{\"prompt\": \"a\", \"seed\": 99999999999999999999}"), 400, "seed"},
        {TEXT, BODY("{\"prompt\": \"a\", \"temperature\": -1}"), 400, "temperature"},
        {TEXT, BODY("{\"prompt\": \"a\", \"top_p\": 7}"), 400, "top_p"},
        {TEXT, BODY("{\"prompt\": \"a\", \"top_k\": -2}"), 400, "top_k"},
        {TEXT, BODY("{\"prompt\": [-1]}"), 400, "prompt"},
        {TEXT, BODY("{\"prompt\": [999999]}"), 400, "prompt"},
        {TEXT, BODY("{\"prompt\": [{}]}"), 400, "prompt"},
        {TEXT, BODY("{\"max_tokens\": 4}"), 400, "prompt"},
        {TEXT, BODY("{\"prompt\": \"a\", \"stop\": [1]}"), 400, "stop"},
        {TEXT, BODY("{\"prompt\": \"a\", \"stop\": \"\"}"), 400, "stop"},
        {TEXT, BODY("{\"prompt\": \"a\", \"prompt\": \"b\"}"), 400, ""},
        {TEXT, BODY("{\"prompt\": \"a\", \"model\": \"gpt-5\"}"), 404, "gpt-5"},
        {TEXT, BODY("{\"prompt\": \"a\", \"n\": 2}"), 400, "n"},
        {CHAT, BODY("{\"messages\": []}"), 400, "messages"},
        {CHAT, BODY("{\"messages\": [{\"role\": \"wizard\", \"content\": \"a\"}]}"), 400, "role"},
        {CHAT, BODY("{\"messages\": [{\"role\": \"user\"}]}"), 400, "content"},
        {CHAT, BODY("{\"messages\": \"hello\"}"), 400, "messages"},
        {CHAT, BODY("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"stream\": 1}"), 400,
         "stream"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_error(wait_for(client_begin(sys.url, bad[i].path, bad[i].body, bad[i].len)), bad[i].status,
                    bad[i].words);
}

static void deep_and_large_bodies_are_refused(void **state)
{
    enum { DEEP = 100000, LARGE = 5 << 20 };
    char *body = malloc(LARGE + 64);
    (void)state;
    memset(body, '[', DEEP);
    check_error(wait_for(client_begin(sys.url, TEXT, body, DEEP)), 400, "");
    const int head = snprintf(body, 64, "{\"max_tokens\": 1, \"prompt\": \"");
    memset(body + head, 'a', LARGE);
    memcpy(body + head + LARGE, "\"}", 3);
    client *c = client_begin(sys.url, TEXT, body, (size_t)head + LARGE + 2);
    wait_for(c);
    assert_int_equal(client_status(c), 413);
    check_error(c, 413, "larger");
    free(body);
    assert_true(cluster_serves(sys.url));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tells_models_health_metrics_and_status, client_teardown),
        cmocka_unit_test_teardown(options_of_baton_up_are_the_defaults_of_its_gateway, client_teardown),
        cmocka_unit_test_teardown(a_stream_says_what_a_whole_answer_says, client_teardown),
        cmocka_unit_test_teardown(stop_strings_end_the_text_wherever_chunks_are_cut, client_teardown),
        cmocka_unit_test_teardown(one_token_is_one_token, client_teardown),
        cmocka_unit_test_teardown(a_seed_repeats_and_another_does_not, client_teardown),
        cmocka_unit_test_teardown(several_clients_queue_and_all_are_served, client_teardown),
        cmocka_unit_test_teardown(a_full_queue_answers_429_and_when_to_come_again, client_teardown),
        cmocka_unit_test_teardown(a_client_that_leaves_frees_its_pages, client_teardown),
        cmocka_unit_test_teardown(a_client_that_closes_its_sending_side_gets_its_whole_answer,
                                  client_teardown),
        cmocka_unit_test_teardown(a_waiting_client_that_leaves_is_forgotten, client_teardown),
        cmocka_unit_test_teardown(a_prompt_that_does_not_fit_is_told_both_numbers, client_teardown),
        cmocka_unit_test_teardown(an_answer_that_the_context_cuts_says_so, client_teardown),
        cmocka_unit_test_teardown(without_max_tokens_a_chat_ends_at_max_answer_and_a_completion_at_16,
                                  client_teardown),
        cmocka_unit_test_teardown(an_end_that_is_to_be_ignored_is_one_more_token, client_teardown),
        cmocka_unit_test_teardown(a_stop_string_that_names_a_control_token_ends_answers_of_every_kind,
                                  client_teardown),
        cmocka_unit_test_teardown(a_prompt_has_the_ids_that_tokenize_shows, client_teardown),
        cmocka_unit_test_teardown(bad_requests_are_refused_in_clear_words, client_teardown),
        cmocka_unit_test_teardown(deep_and_large_bodies_are_refused, client_teardown),
    };
    return cmocka_run_group_tests(tests, start_system, stop_system);
}
