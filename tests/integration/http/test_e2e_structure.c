/* Answers that are held to a schema, a regular expression, a list or a grammar, through the real programs:
 * each is what was asked for, drawn at random by a model that knows nothing, streamed and not. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ANSWER_MS = 60000, SEEDS = 6 };

static const char city[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},"
    "\"sizes\":{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-5,\"maximum\":250},"
    "\"minItems\":1,\"maxItems\":3},\"kind\":{\"enum\":[\"a\",\"b\",null]}},"
    "\"required\":[\"name\",\"sizes\",\"kind\"],\"additionalProperties\":false}";

static client *ask(const cluster *c, const char *field, json_t *value, int seed, bool is_stream)
{
    json_t *r = cluster_request("the day", 400);
    json_object_set_new(r, "temperature", json_real(1));
    json_object_set_new(r, "seed", json_integer(seed));
    if (is_stream) json_object_set_new(r, "stream", json_true());
    json_object_set(r, field, value);
    client *x = client_post(c->url, "/v1/completions", r);
    json_decref(r);
    return x;
}

/* The text of an answer that its program ended; the same in a stream. */
static char *answer(const cluster *c, const char *field, json_t *value, int seed)
{
    client *whole = ask(c, field, value, seed, false), *stream = ask(c, field, value, seed, true);
    assert_true(client_wait(whole, spawn_patience(ANSWER_MS)));
    assert_true(client_wait(stream, spawn_patience(ANSWER_MS)));
    if (client_status(whole) != 200 || !client_is_done(stream)) fail_msg("%s", client_body(whole));
    char *text = client_text(whole), *streamed = client_text(stream);
    assert_string_equal(text, streamed);
    const json_t *choice = json_array_get(json_object_get(client_json(whole), "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
    free(streamed);
    client_end(whole);
    client_end(stream);
    return text;
}

static void expect_city(const char *text)
{
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!o || json_object_size(o) != 3) fail_msg("no city: %s", text);
    const json_t *sizes = json_object_get(o, "sizes"), *kind = json_object_get(o, "kind");
    assert_true(json_is_string(json_object_get(o, "name")));
    assert_in_range(json_array_size(sizes), 1, 3);
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_int_t n = json_integer_value(json_array_get(sizes, i));
        assert_true(json_is_integer(json_array_get(sizes, i)) && n >= -5 && n <= 250);
    }
    assert_true(json_is_null(kind) || !strcmp(json_string_value(kind), "a") ||
                !strcmp(json_string_value(kind), "b"));
    json_decref(o);
}

static void each_answer_is_what_was_asked_for(void **state)
{
    (void)state;
    cluster c;
    json_t *schema = json_loads(city, 0, NULL), *regex = json_string("[0-9]{2,4}(-[a-f]{3}){1,2}"),
           *choice = json_pack("[s, s, s]", "yes", "no", "per haps"),
           *grammar = json_string("root ::= \"(\" root? \")\" | [xy]{3}"),
           *format = json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name", "city",
                               "schema", schema);
    assert_true(CLUSTER(&c, spawn_tiny_model(4), "--prefill", "1", "--decode", "1"));
    for (int seed = 0; seed < SEEDS; seed++) {
        char *text =
            answer(&c, seed % 2 ? "json_schema" : "response_format", seed % 2 ? schema : format, seed);
        expect_city(text);
        free(text);
        text = answer(&c, "guided_regex", regex, seed);
        const size_t digits = strspn(text, "0123456789"), len = strlen(text);
        assert_true(digits >= 2 && digits <= 4 && (len == digits + 4 || len == digits + 8));
        assert_true(text[digits] == '-' && strspn(text + digits + 1, "abcdef") == 3);
        free(text);
        text = answer(&c, "guided_choice", choice, seed);
        assert_true(!strcmp(text, "yes") || !strcmp(text, "no") || !strcmp(text, "per haps"));
        free(text);
        text = answer(&c, "grammar", grammar, seed);
        const size_t open = strspn(text, "("), letters = strspn(text + open, "xy");
        assert_true((letters == 3 || (letters == 0 && open > 0)) &&
                    strspn(text + open + letters, ")") == open && strlen(text) == 2 * open + letters);
        free(text);
    }
    json_decref(schema);
    json_decref(regex);
    json_decref(choice);
    json_decref(grammar);
    json_decref(format);
    assert_true(cluster_stop(&c));
}

static size_t logprobs_of(const json_t *choice)
{
    return json_array_size(json_object_get(json_object_get(choice, "logprobs"), "content"));
}

/* Appends the calls of the deltas in a stream's body, as "name arguments;". Returns how many tokens have log
 * probabilities. */
static size_t join_deltas(char *ret, size_t cap, const char *body)
{
    size_t tokens = 0;
    for (const char *at = body; (at = strstr(at, "data: {")); at++) {
        json_t *j = json_loads(at + 6, JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *choice = json_array_get(json_object_get(j, "choices"), 0),
                     *call =
                         json_array_get(json_object_get(json_object_get(choice, "delta"), "tool_calls"), 0),
                     *function = json_object_get(call, "function");
        const char *name = json_string_value(json_object_get(function, "name")),
                   *reason = json_string_value(json_object_get(choice, "finish_reason"));
        const size_t n = strlen(ret);
        if (name) assert_int_equal(strlen(json_string_value(json_object_get(call, "id"))), 9);
        if (call)
            (void)snprintf(ret + n, cap - n, "%s%s%s", name ? name : "", name ? " " : "",
                           json_string_value(json_object_get(function, "arguments")));
        if (reason) (void)snprintf(ret + n, cap - n, ";%s", reason);
        tokens += logprobs_of(choice);
        json_decref(j);
    }
    return tokens;
}

/* With two of three seeds the end of the call is held back by a stop string, which never comes, or does. */
static client *ask_for_call(const cluster *c, json_t *choice, int seed, bool is_stream)
{
    static const char *const stop[] = {NULL, "}\n</tool_call>#", "\n</tool_call>"};
    json_t *r =
        json_pack("{s:[{s:s,s:s}],s:i,s:f,s:i,s:O,s:b,s:b,s:b,s:s*}", "messages", "role", "user", "content",
                  "the day", "max_tokens", 400, "temperature", 1.0, "seed", seed, "tool_choice", choice,
                  "parallel_tool_calls", 0, "logprobs", 1, "stream", is_stream, "stop", stop[seed % 3]);
    json_t *tools =
        json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":"
                   "\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":99}},"
                   "\"required\":[\"a\"]}}},{\"type\":\"function\",\"function\":{\"name\":\"stop\","
                   "\"parameters\":{\"type\":\"object\",\"properties\":{\"now\":{\"type\":\"boolean\"}},"
                   "\"required\":[\"now\"]}}}]",
                   0, NULL);
    assert_true(r && tools && json_object_set_new(r, "tools", tools) == 0);
    client *x = client_post(c->url, "/v1/chat/completions", r);
    json_decref(r);
    return x;
}

/* The whole answer's call of one of both tools, and the same in a stream. */
static void expect_call(const cluster *c, json_t *choice, const char *only, int seed)
{
    client *whole = ask_for_call(c, choice, seed, false), *stream = ask_for_call(c, choice, seed, true);
    assert_true(client_wait(whole, spawn_patience(ANSWER_MS)));
    assert_true(client_wait(stream, spawn_patience(ANSWER_MS)));
    if (client_status(whole) != 200) fail_msg("%s", client_body(whole));
    const json_t *first = json_array_get(json_object_get(client_json(whole), "choices"), 0),
                 *message = json_object_get(first, "message"),
                 *calls = json_object_get(message, "tool_calls"),
                 *function = json_object_get(json_array_get(calls, 0), "function");
    const char *name = json_string_value(json_object_get(function, "name")),
               *arguments = json_string_value(json_object_get(function, "arguments"));
    if (json_array_size(calls) != 1 || !json_is_null(json_object_get(message, "content")))
        fail_msg("%s", client_body(whole));
    json_t *j = json_loads(arguments, 0, NULL);
    const json_t *a = json_object_get(j, "a");
    assert_true(!only || strcmp(name, only) == 0);
    if (strcmp(name, "add") == 0) assert_true(json_is_integer(a) && (unsigned)json_integer_value(a) < 100);
    else assert_true(strcmp(name, "stop") == 0 && json_is_boolean(json_object_get(j, "now")));
    assert_string_equal(json_string_value(json_object_get(first, "finish_reason")), "tool_calls");
    char want[512], got[512] = "";
    (void)snprintf(want, sizeof want, "%s %s;tool_calls", name, arguments);
    assert_int_equal(join_deltas(got, sizeof got, client_body(stream)), logprobs_of(first));
    assert_true(logprobs_of(first) > 0);
    assert_string_equal(got, want);
    json_decref(j);
    client_end(whole);
    client_end(stream);
}

static void answers_that_must_call_a_tool_are_calls(void **state)
{
    (void)state;
    static const char template[] =
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | "
        "tojson }}"
        "</tool_call>{% endfor %}{% endfor %}{% if tools %} {{ tools | tojson }}{% endif %}";
    cluster c;
    json_t *any = json_string("required"),
           *named = json_pack("{s:s,s:{s:s}}", "type", "function", "function", "name", "stop");
    assert_true(CLUSTER(&c, spawn_tiny_model(4), "--prefill", "1", "--decode", "1", "--chat-template",
                        spawn_write(spawn_path("calls"), template)));
    for (int seed = 0; seed < SEEDS; seed++) {
        expect_call(&c, any, NULL, seed);
        expect_call(&c, named, "stop", seed);
    }
    json_decref(any);
    json_decref(named);
    assert_true(cluster_stop(&c));
}

static void run_reads_a_schema_from_a_file(void **state)
{
    (void)state;
    FILE *f = fopen(spawn_path("city.json"), "w");
    assert_true(f && fputs(city, f) >= 0 && fclose(f) == 0);
    spawn *s = SPAWN("baton", "run", "-m", spawn_tiny_model(4), "-p", "the", "-n", "300", "--temp", "1",
                     "--seed", "9", "-q", "--schema", spawn_path("city.json"));
    assert_int_equal(spawn_wait(s, spawn_patience(ANSWER_MS)), 0);
    expect_city(spawn_out(s));
    f = fopen(spawn_path("city.json"), "w");
    assert_true(f && fputs("{\n  \"type\": object}", f) >= 0 && fclose(f) == 0);
    s = SPAWN("baton", "run", "-m", spawn_tiny_model(4), "-p", "the", "--schema", spawn_path("city.json"));
    assert_int_equal(spawn_wait(s, spawn_patience(ANSWER_MS)), 1);
    if (!strstr(spawn_err(s), "city.json, line 2")) fail_msg("%s", spawn_err(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_answer_is_what_was_asked_for, cluster_teardown),
        cmocka_unit_test_teardown(answers_that_must_call_a_tool_are_calls, cluster_teardown),
        cmocka_unit_test_teardown(run_reads_a_schema_from_a_file, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
