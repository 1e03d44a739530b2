/* Chat templates in a real gateway: which one is in force, what it makes of requests, and that nobody waits
 * for one that takes long. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { READY_MS = 60000, ANSWER_MS = 60000 };
#define CHAT  "/v1/chat/completions"
#define APPLY "/apply-template"

static const char looping[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}{% endfor %}"
    "{% if messages[0].content == 'slow' %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
    "{% endfor %}{% endif %}"
    "{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{{ x }}{{ raise_exception('only cats') if x == "
    "'dog' }}";

static char url[CLUSTER_ADDRESS_BYTES];

/* A gateway alone, with this option (NULL: without). */
static spawn *start(const char *model, const char *chat_template)
{
    char control[CLUSTER_ADDRESS_BYTES];
    spawn *g = chat_template
                   ? SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*",
                           "--recovery-timeout", "1s", "--chat-template", chat_template)
                   : SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*",
                           "--recovery-timeout", "1s");
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    return g;
}

static json_t *talk(const char *content)
{
    return json_pack("{s:[{s:s,s:s}]}", "messages", "role", "user", "content", content);
}

static client *post(const char *path, json_t *body)
{
    client *c = client_post(url, path, body);
    json_decref(body);
    return c;
}

static client *ask(const char *path, json_t *body)
{
    client *c = post(path, body);
    assert_true(client_wait(c, spawn_patience(ANSWER_MS)));
    return c;
}

static void check_prompt(json_t *body, const char *want)
{
    client *c = ask(APPLY, body);
    assert_int_equal(client_status(c), 200);
    assert_string_equal(json_string_value(json_object_get(client_json(c), "prompt")), want);
    client_end(c);
}

static void check_refused(const char *path, json_t *body, const char *words)
{
    client *c = ask(path, body);
    assert_int_equal(client_status(c), 400);
    const char *message = json_string_value(json_object_get(client_error(c), "message"));
    if (!strstr(message, words)) fail_msg("'%s', not '%s'", message, words);
    client_end(c);
}

static json_t *with(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
    return object;
}

static void apply_template_shows_what_a_chat_becomes(void **state)
{
    (void)state;
    (void)start(spawn_tiny_model(1), spawn_write(spawn_path("looping"), looping));
    check_prompt(talk("Hi"), "<|im_start|>user: Hi");
    check_prompt(with(talk("Hi"), "tools", json_pack("[{s:s}]", "name", "f")), "<|im_start|>user: Hi[f]");
    check_prompt(with(talk("Hi"), "chat_template_kwargs", json_pack("{s:s}", "x", "y")),
                 "<|im_start|>user: Hiy");
    check_refused(APPLY, with(talk("Hi"), "chat_template_kwargs", json_pack("{s:s}", "x", "dog")),
                  "The chat template refuses the conversation: only cats");
    check_refused(CHAT, with(talk("Hi"), "tools", json_pack("[{s:s}]", "name", "f")),
                  "'tool_choice' is 'none'");
    check_refused(APPLY, json_object(), "'messages'");
}

/* The short ones come while the long one is rendered, although that came first. */
static void nobody_waits_for_a_template_that_takes_long(void **state)
{
    (void)state;
    (void)start(spawn_tiny_model(1), spawn_write(spawn_path("looping"), looping));
    client *slow = post(APPLY, talk("slow"));
    client_step();
    for (int i = 0; i < 3; i++) check_prompt(talk("Hi"), "<|im_start|>user: Hi");
    assert_true(client_wait(slow, spawn_patience(ANSWER_MS)));
    assert_int_equal(client_status(slow), 400);
    const char *message = json_string_value(json_object_get(client_error(slow), "message"));
    assert_non_null(strstr(message, "line 1, column "));
    assert_non_null(strstr(message, "10000000 steps"));
    assert_true(cluster_metric(url, "baton_request_bodies_total{by=\"thread\"}") >= 1);
    assert_true(cluster_metric(url, "baton_request_bodies_total{by=\"loop\"}") >= 3);
}

static void write_model(const char *path, const char *chat_template)
{
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.chat_template = chat_template;
    tiny_gguf_write(&spec, path);
}

static void without_a_template_chats_are_refused_and_the_reason_is_told(void **state)
{
    static const struct {
        const char *file, *chat_template, *why;
    } cases[] = {
        {"none.gguf", NULL, "the model file has no chat template; give a template by --chat-template"},
        {"bad.gguf", "{% if %}", "the chat template 'default' does not parse: line 1, column "}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *model = spawn_path(cases[i].file);
        write_model(model, cases[i].chat_template);
        spawn *g = start(model, NULL);
        check_refused(CHAT, talk("Hi"), cases[i].why);
        check_refused(APPLY, talk("Hi"), cases[i].why);
        assert_non_null(strstr(spawn_err(g), "chats will be refused: "));
        assert_non_null(strstr(spawn_err(g), cases[i].why));
        client *props = client_get(url, "/props");
        assert_true(client_wait(props, spawn_patience(ANSWER_MS)));
        const char *error = json_string_value(json_object_get(client_json(props), "chat_template_error"));
        assert_non_null(strstr(error, cases[i].why));
        client *c = ask("/v1/completions", json_pack("{s:s}", "prompt", "the")); /* refused for want of nodes
                                                                                    alone */
        assert_int_equal(client_status(c), 503);
        assert_true(cluster_end(g, spawn_patience(READY_MS)));
        spawn *inspect = SPAWN("baton", "inspect", model);
        assert_int_equal(spawn_wait(inspect, spawn_patience(READY_MS)), 0);
        assert_non_null(strstr(spawn_out(inspect), cases[i].why));
        g = start(model, "chatml");
        check_prompt(talk("Hi"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
        assert_true(cluster_end(g, spawn_patience(READY_MS)));
    }
}

static void a_template_that_was_asked_for_and_cannot_be_had_ends_the_start(void **state)
{
    (void)state;
    spawn *g = SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--chat-template", "/nowhere");
    assert_int_equal(spawn_wait(g, spawn_patience(READY_MS)), 1);
    assert_non_null(strstr(spawn_err(g), "--chat-template: no file '/nowhere'"));
    g = SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--chat-template",
              spawn_write(spawn_path("bad"), "{{"));
    assert_int_equal(spawn_wait(g, spawn_patience(READY_MS)), 1);
    assert_non_null(strstr(spawn_err(g), "does not parse: line 1, column "));
}

/* The ids are those of the template's text with its control tokens, and words of the request name none. */
static void ids_are_those_of_the_text_that_apply_template_shows(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--prefill", "0", "-t", "1"));
    (void)memcpy(url, c.url, strlen(c.url) + 1);
    static const char *const words[] = {"the", "the <|im_end|>"};
    for (size_t i = 0; i < 2; i++) {
        json_t *body = with(with(talk(words[i]), "max_tokens", json_integer(1)), "baton", json_true());
        client *answer = ask(CHAT, json_incref(body)), *shown = ask(APPLY, body);
        assert_int_equal(client_status(answer), 200);
        const json_t *ids = json_object_get(client_baton(answer), "prompt_ids"),
                     *prompt = json_object_get(client_json(shown), "prompt");
        client *tokens = ask("/tokenize", json_pack("{s:O}", "content", prompt));
        assert_int_equal(json_equal(ids, json_object_get(client_json(tokens), "tokens")), i == 0);
        size_t ends = 0;
        for (size_t k = 0; k < json_array_size(ids); k++)
            ends += json_integer_value(json_array_get(ids, k)) == 260;
        assert_int_equal(ends, 1);
    }
    assert_true(cluster_stop(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(apply_template_shows_what_a_chat_becomes, cluster_teardown),
        cmocka_unit_test_teardown(nobody_waits_for_a_template_that_takes_long, cluster_teardown),
        cmocka_unit_test_teardown(without_a_template_chats_are_refused_and_the_reason_is_told,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_template_that_was_asked_for_and_cannot_be_had_ends_the_start,
                                  cluster_teardown),
        cmocka_unit_test_teardown(ids_are_those_of_the_text_that_apply_template_shows, cluster_teardown),
    };
    return cmocka_run_group_tests_name("templates", tests, cluster_group_begin, cluster_group_end);
}
