/* Prompts and answers with a small vocabulary: ids, stop strings across tokens, whole characters. */
#include "gateway/api/text.h"
#include "model/gguf.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static gw_text open_text(const char *chat_template, bool add_bos)
{
    gw_text t = {0};
    size_t len;
    bt_gguf *g;
    bt_fault f;
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.chat_template = chat_template;
    spec.add_bos = add_bos;
    uint8_t *bytes = tiny_gguf_build(&spec, &len);
    if (bt_gguf_open_bytes(&g, bytes, len, &f) < 0 || gw_text_open(&t, g, NULL, &f) < 0)
        fail_msg("%s", f.text);
    bt_gguf_close(g);
    free(bytes); /* the text must not need the file any more */
    return t;
}

static void begins_a_text_with_bos_only_where_the_file_asks(void **state)
{
    (void)state;
    gw_error err;
    gw_ask r = {.prompt = "the", .prompt_len = 3};
    int32_t *ids;
    size_t n;
    gw_text t = open_text(NULL, true);
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
    assert_int_equal(ids[0], 1);
    free(ids);
    r = (gw_ask){.prompt_field = "prompt", .prompt = "", .prompt_len = 0};
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 1);
    free(ids);
    gw_text_close(&t);

    t = open_text(NULL, false);
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_EARG);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.param, "prompt");
    r = (gw_ask){.prompt = "the", .prompt_len = 3};
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
    assert_int_not_equal(ids[0], 1);
    free(ids);
    gw_text_close(&t);
}

static void takes_a_token_list_as_it_is(void **state)
{
    (void)state;
    gw_error err;
    int32_t list[] = {5, 6}, *ids;
    size_t n;
    gw_text t = open_text(NULL, true);
    const gw_ask r = {.prompt_ids = list, .prompt_ids_len = 2};
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
    assert_int_equal(n, 2);
    assert_memory_equal(ids, list, sizeof list);
    free(ids);
    gw_text_close(&t);
}

static void counts_a_text_that_is_too_long_but_not_to_the_end_of_an_endless_one(void **state)
{
    (void)state;
    enum { CTX = 100, PLENTY = 2 * (CTX + GW_TEXT_COUNTED_TOKENS) };
    gw_error err;
    int32_t *ids;
    size_t n;
    gw_text t = open_text(NULL, true);
    char *words = malloc(2 * PLENTY);
    for (size_t i = 0; i < PLENTY; i++) memcpy(words + 2 * i, "\x01 ", 2); /* bytes that no word has */
    gw_ask r = {.prompt = words, .prompt_len = 2 * CTX};
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, CTX, &err), BT_OK);
    assert_true(n > CTX);
    free(ids);
    r.prompt_len = 2 * PLENTY;
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, CTX, &err), BT_EARG);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.code, "context_length_exceeded");
    assert_non_null(strstr(err.message, "100 tokens"));
    assert_non_null(strstr(err.message, "more than 16484"));
    free(words);
    gw_text_close(&t);
}

static void puts_a_chat_into_the_template_and_never_lets_words_name_control_tokens(void **state)
{
    (void)state;
    gw_error err;
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "<|im_end|>the");
    gw_ask r = {.is_chat = true, .talk = {.messages = messages, .add_generation_prompt = true}};
    int32_t *ids;
    size_t n, ends = 0, starts = 0;
    gw_text t = open_text(tiny_gguf_chatml, false);
    assert_non_null(t.templates.chat);
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
    for (size_t i = 0; i < n; i++) {
        starts += ids[i] == 259;
        ends += ids[i] == 260;
    }
    assert_int_equal(starts, 2);
    assert_int_equal(ends, 1);
    free(ids);
    r.talk.steps_max = 10; /* while others wait */
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_EAGAIN);
    json_decref(messages);
    gw_text_close(&t);
}

static void a_bos_is_there_where_the_template_writes_one_and_once(void **state)
{
    (void)state;
    gw_error err;
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "the");
    const gw_ask r = {.is_chat = true, .talk = {.messages = messages}};
    static const char *const with[] = {"{{ bos_token }}{{ messages[0].content }}",
                                       "{{ messages[0].content }}"};
    for (size_t i = 0; i < 2; i++) {
        int32_t *ids;
        size_t n, found = 0;
        gw_text t = open_text(with[i], true);
        assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
        for (size_t k = 0; k < n; k++) found += ids[k] == 1;
        assert_int_equal(found, 1 - i);
        free(ids);
        gw_text_close(&t);
    }
    json_decref(messages);
}

static void says_what_the_template_says(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{{ raise_exception('only cats') }}", "The chat template refuses the conversation: only cats"},
        {"\n{{ messages[0].x.y }}", "The chat template cannot write the conversation: line 2, column "},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "10000000"},
        {"x", "this model's chat template writes calls in no form that this server reads"},
    };
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "the"),
           *tools = json_pack("[{s:s}]", "name", "f");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_error err;
        int32_t *ids;
        size_t n;
        gw_text t = open_text(cases[i][0], true);
        gw_ask r = {.is_chat = true, .tells_calls = true,
                    .talk = {.messages = messages, .tools = i == 3 ? tools : NULL}};
        bt_err e = gw_text_shape(&t, &r, &err);
        if (e == BT_OK) e = gw_text_prompt(&ids, &n, &t, &r, 1024, &err);
        assert_int_equal(e, BT_EARG);
        assert_int_equal(err.status, 400);
        if (!strstr(err.message, cases[i][1])) fail_msg("'%s', not '%s'", err.message, cases[i][1]);
        r.has_no_calls = true;
        if (i == 3) assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
        if (i == 3) free(ids);
        gw_text_close(&t);
    }
    json_decref(messages);
    json_decref(tools);
}

/* The ids of a completion's text, written one behind the other; `a` begins its answer. */
static void prompt_is(const gw_text *t, const gw_ask *r, const char *want, bool brings_bos)
{
    gw_error err;
    bt_fault f;
    gw_text_answer a;
    char got[256] = "";
    int32_t *ids;
    size_t n, len = 0;
    assert_int_equal(gw_text_prompt(&ids, &n, t, r, 1024, &err), BT_OK);
    for (size_t i = 0; i < n && len < sizeof got - 16; i++)
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%d", i ? " " : "", (int)ids[i]);
    assert_string_equal(got, want);
    assert_int_equal(gw_text_begin(&a, t, r, ids, n, 16, &f), BT_OK);
    assert_int_equal(a.brings_bos, brings_bos);
    gw_text_end(&a);
    free(ids);
}

static void
names_of_control_tokens_in_a_completion_are_the_tokens_unless_the_request_says_letters(void **state)
{
    (void)state;
    gw_text t = open_text(NULL, false);
    static const char words[] = "<|im_start|><|im_end|>";
    gw_ask r = {.prompt = words, .prompt_len = sizeof words - 1};
    prompt_is(&t, &r, "259 260", false);
    r.is_plain = true;
    int32_t *ids;
    size_t n;
    gw_error err;
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_OK);
    assert_true(n > 2);
    for (size_t i = 0; i < n; i++) assert_true(ids[i] != 259 && ids[i] != 260);
    free(ids);
    gw_text_close(&t);
}

static void a_bos_that_the_text_brings_is_not_added_a_second_time(void **state)
{
    (void)state;
    gw_text t = open_text(NULL, true);
    prompt_is(&t, &(gw_ask){.prompt = "<s>", .prompt_len = 3}, "1", true);
    prompt_is(&t, &(gw_ask){.prompt = "<s><|im_end|>", .prompt_len = 13}, "1 260", true);
    prompt_is(&t, &(gw_ask){.prompt = "<s><s>", .prompt_len = 6}, "1 1", true);
    prompt_is(&t, &(gw_ask){.prompt = "<|im_end|><s>", .prompt_len = 13}, "1 260 1", false);
    gw_text_close(&t);
    t = open_text(NULL, false); /* a file that asks for none has none added, and none taken */
    prompt_is(&t, &(gw_ask){.prompt = "<s>", .prompt_len = 3}, "1", false);
    gw_text_close(&t);
}

static void refuses_a_chat_where_the_file_has_no_template_and_says_what_to_do(void **state)
{
    (void)state;
    gw_error err;
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "a");
    const gw_ask r = {.prompt_field = "input", .is_chat = true, .talk = {.messages = messages}};
    int32_t *ids;
    size_t n;
    gw_text t = open_text(NULL, true);
    assert_null(t.templates.chat);
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &r, 1024, &err), BT_EARG);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.param, "input");
    assert_non_null(strstr(err.message, "no chat template; give a template by --chat-template"));
    json_decref(messages);
    gw_text_close(&t);
}

static void knows_the_ids_that_end_an_answer(void **state)
{
    (void)state;
    gw_text t = open_text(tiny_gguf_chatml, true);
    bool has_eos = false, has_im_end = false;
    for (uint32_t i = 0; i < t.stop_ids_len; i++) {
        has_eos |= t.stop_ids[i] == 2;
        has_im_end |= t.stop_ids[i] == 260;
    }
    assert_true(has_eos && has_im_end);
    gw_text_close(&t);
}

/* Byte tokens: id 3 + b is the byte b. */
static void push_bytes(gw_text_answer *a, const char *bytes)
{
    bt_fault f;
    for (; *bytes; bytes++) assert_int_equal(gw_text_push(a, 3 + (uint8_t)*bytes, &f), BT_OK);
}

static void cuts_at_a_stop_string_that_spans_tokens_and_holds_back_what_may_become_one(void **state)
{
    (void)state;
    bt_fault f;
    gw_text_answer a;
    gw_text t = open_text(NULL, true);
    const gw_ask r = {.stop = {"END", "."}, .stop_len = {3, 1}, .stops = 2};
    assert_int_equal(gw_text_begin(&a, &t, &r, NULL, 0, 16, &f), BT_OK);
    push_bytes(&a, "aEN");
    assert_string_equal(bt_buf_text(&a.text), "a");
    push_bytes(&a, "x");
    assert_string_equal(bt_buf_text(&a.text), "aENx");
    push_bytes(&a, "ENDzz");
    assert_true(a.is_stopped);
    assert_int_equal(gw_text_finish(&a, &f), BT_OK);
    assert_string_equal(bt_buf_text(&a.text), "aENx");
    gw_text_end(&a);

    assert_int_equal(gw_text_begin(&a, &t, &r, NULL, 0, 16, &f), BT_OK);
    push_bytes(&a, "aEN");
    assert_int_equal(gw_text_finish(&a, &f), BT_OK);
    assert_string_equal(bt_buf_text(&a.text), "aEN");
    gw_text_end(&a);
    gw_text_close(&t);
}

static void a_stop_string_that_is_one_control_token_ends_the_answer_before_it(void **state)
{
    (void)state;
    bt_fault f;
    gw_text_answer a;
    gw_text t = open_text(NULL, true);
    const gw_ask r = {.stop = {"END", "<|im_start|>", "<|im_end|>x", "<unk>"}, .stop_len = {3, 12, 11, 5},
                      .stops = 4};
    assert_int_equal(gw_text_begin(&a, &t, &r, NULL, 0, 16, &f), BT_OK);
    push_bytes(&a, "aEN");
    assert_true(gw_text_is_stop(&a, 259));
    assert_true(gw_text_is_stop(&a, 0));    /* no text shows the unknown token either */
    assert_false(gw_text_is_stop(&a, 260)); /* a part of a stop string is none */
    assert_false(gw_text_is_stop(&a, 3 + 'E'));
    assert_int_equal(gw_text_stop(&a, 259, &f), BT_OK);
    assert_true(a.is_stopped);
    assert_string_equal(bt_buf_text(&a.text), "aEN"); /* what another one held back is shown */
    assert_memory_equal(gw_text_stopped_by(&a).ptr, "<|im_start|>", 12);
    assert_int_equal(gw_text_stopped_by(&a).len, 12);
    gw_text_end(&a);
    gw_text_close(&t);
}

static void counts_the_characters_of_a_prompt_where_log_probabilities_tell_places(void **state)
{
    (void)state;
    bt_fault f;
    int32_t list[] = {259, 3 + 'a', 3 + 0xc3, 3 + 0xa9};
    gw_text t = open_text(NULL, true);
    const struct {
        gw_ask r;
        size_t want;
    } c[] = {
        {{.prompt = "a\xc3\xa9<|im_end|>", .prompt_len = 13, .sampling.logprobs = true}, 12},
        {{.prompt_ids = list, .prompt_ids_len = 4, .sampling.logprobs = true}, 14}, /* by their names */
        {{.prompt = "a", .prompt_len = 1}, 0},
        {{.is_chat = true, .sampling.logprobs = true}, 0},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        gw_text_answer a;
        assert_int_equal(gw_text_begin(&a, &t, &c[i].r, NULL, 0, 16, &f), BT_OK);
        assert_int_equal(a.prompt_chars, c[i].want);
        gw_text_end(&a);
    }
    gw_text_close(&t);
}

/* "thoughts|said" of an answer of these bytes to a chat whose prompt ends with `end`. */
static void answer_is(const gw_text *t, bool keeps_thoughts, const char *end, const char *bytes,
                      const char *want)
{
    bt_fault f;
    gw_text_answer a;
    bt_thoughts_part p;
    bt_call call;
    char part[2][64] = {"", ""}, got[160];
    const gw_ask r = {.is_chat = true, .keeps_thoughts = keeps_thoughts};
    int32_t ids[64];
    size_t n = 0;
    for (; end[n]; n++) ids[n] = 3 + (uint8_t)end[n];
    assert_int_equal(gw_text_begin(&a, t, &r, ids, n, 64, &f), BT_OK);
    push_bytes(&a, bytes);
    assert_int_equal(gw_text_finish(&a, &f), BT_OK);
    while (gw_text_next(&p, &call, &a, true)) strncat(part[p.is_thought], p.text.ptr, p.text.len);
    (void)snprintf(got, sizeof got, "%s|%s", part[1], part[0]);
    assert_string_equal(got, want);
    gw_text_end(&a);
}

static void thoughts_are_told_apart_where_the_template_names_their_marks(void **state)
{
    (void)state;
    static const char template[] = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}";
    gw_text t = open_text(template, true);
    answer_is(&t, false, "x\n", "<think>\na\n</think>\n\nb", "a|b");
    answer_is(&t, false, "x<think>\n", "a</think>b", "a|b"); /* the prompt's end opened them */
    answer_is(&t, false, "x<think>\n\n</think>\n\n", "b", "|b");
    answer_is(&t, true, "x\n", "<think>a</think>b", "|<think>a</think>b");
    gw_text_close(&t);
    static const char channels[] =
        "{{ '<|start|>assistant<|channel|>analysis<|message|>' + messages[0].content }}";
    t = open_text(channels, true);
    answer_is(&t, false, "x", "<|channel|>final<|message|>b", "|b");
    gw_text_close(&t);
    t = open_text("{{ messages[0].content + '<|end|>' }}", true); /* that alone is no mark of thoughts */
    assert_null(t.marks);
    gw_text_close(&t);
    t = open_text(NULL, true); /* no mark is known */
    answer_is(&t, false, "x\n", "<think>a</think>b", "|<think>a</think>b");
    gw_text_close(&t);
}

static void a_mark_that_is_a_control_token_is_a_mark_too(void **state)
{
    (void)state;
    static const bt_thought_marks marks = {.open = "<|im_start|>", .close = "<|im_end|>"};
    bt_fault f;
    gw_text_answer a;
    bt_call call;
    bt_thoughts_part p;
    gw_text t = open_text(NULL, true);
    t.marks = &marks;
    t.mark_ids[0] = 259;
    t.mark_ids[1] = 260;
    const gw_ask r = {.is_chat = true};
    assert_int_equal(gw_text_begin(&a, &t, &r, NULL, 0, 16, &f), BT_OK);
    assert_int_equal(gw_text_push(&a, 259, &f), BT_OK);
    push_bytes(&a, "a");
    assert_true(gw_text_next(&p, &call, &a, false));
    assert_true(p.is_thought && p.text.len == 1);
    assert_int_equal(gw_text_push(&a, 260, &f), BT_OK);
    push_bytes(&a, "b");
    assert_true(gw_text_next(&p, &call, &a, false));
    assert_true(!p.is_thought && p.text.len == 1 && p.text.ptr[0] == 'b');
    assert_int_equal(a.thought_tokens, 2); /* the mark that opens, and a */
    gw_text_end(&a);
    gw_text_close(&t);
}

#define WRITES_CALLS \
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | " \
    "tojson }}" \
    "</tool_call>{% endfor %}{% endfor %}{% if tools %} {{ tools | tojson }}{% endif %}"

/* What is said of the tools, a JSON text, in a chat that has them. */
static void tools_are_refused(const gw_text *t, const char *tools, gw_ask r, const char *want)
{
    gw_error err;
    r.is_chat = true;
    r.talk.messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "the");
    r.talk.tools = json_loads(tools, 0, NULL);
    assert_true(r.talk.messages && r.talk.tools);
    assert_int_equal(gw_text_shape(t, &r, &err), BT_EARG);
    assert_int_equal(err.status, 400);
    if (!strstr(err.message, want)) fail_msg("'%s', not '%s'", err.message, want);
    json_decref(r.talk.messages);
    json_decref((json_t *)r.talk.tools);
}

static void tools_that_cannot_be_called_are_refused_by_name(void **state)
{
    (void)state;
    gw_text t = open_text(WRITES_CALLS, true);
    assert_string_equal(t.calls->name, "hermes");
    const gw_ask r = {.tells_calls = true};
    tools_are_refused(&t, "[{\"name\":\"f\"}]", (gw_ask){.tells_calls = false},
                      "'tools' is not supported here");
    tools_are_refused(&t, "[{\"name\":\"f\"},{}]", r, "Invalid 'tools[1]'");
    tools_are_refused(&t, "[{\"function\":{\"name\":\"f\",\"strict\":true}}]", r,
                      "'tools[0].function.strict'");
    tools_are_refused(&t, "[{\"name\":\"f\",\"strict\":true}]", r, "'tools[0].strict'");
    tools_are_refused(&t,
                      "[{\"name\":\"f\"},{\"function\":{\"name\":\"g\"}},{\"function\":{\"name\":\"f\"}}]", r,
                      "Invalid 'tools[2]': another tool has the same name");
    tools_are_refused(&t, "[{\"name\":\"f\",\"parameters\":{\"type\":\"string\"}}]", r,
                      "Invalid 'tools[0].parameters'");
    tools_are_refused(&t, "[{\"name\":\"f\",\"parameters\":{\"type\":[\"null\"]}}]", r,
                      "Invalid 'tools[0].parameters'");
    tools_are_refused(&t, "[{\"function\":{\"name\":\"f\",\"parameters\":[1]}}]", r,
                      "Invalid 'tools[0].function.parameters'");
    gw_ask shaped = {.tells_calls = true,
                     .structure = {.form = GW_STRUCTURE_OBJECT, .field = "response_format"}};
    tools_are_refused(&t, "[{\"name\":\"f\"}]", shaped, "'response_format' leaves no room for a call");
    const gw_ask other = {.tells_calls = true, .must_call = true, .call = "g"};
    tools_are_refused(&t, "[{\"name\":\"f\"}]", other, "there is no tool 'g' in 'tools'");
    gw_ask must = {.is_chat = true, .tells_calls = true, .must_call = true};
    gw_error err;
    assert_int_equal(gw_text_shape(&t, &must, &err), BT_EARG);
    assert_non_null(strstr(err.message, "a call needs 'tools'"));
    gw_text_close(&t);
}

static void an_answer_that_must_be_calls_has_their_structure(void **state)
{
    (void)state;
    gw_text t = open_text(WRITES_CALLS, true);
    json_t *tools = json_pack("[{s:{s:s,s:b}}]", "function", "name", "f", "strict", 1);
    gw_ask r = {.is_chat = true, .tells_calls = true, .must_call = true, .call = "f",
                .talk = {.tools = tools}};
    gw_error err;
    for (int i = 0; i < 2; i++) { /* asked again by a thread: the same */
        assert_int_equal(gw_text_shape(&t, &r, &err), BT_OK);
        assert_int_equal(r.structure.form, GW_STRUCTURE_CALLS);
        assert_string_equal(json_string_value(json_object_get(r.structure.value, "before")), "<tool_call>\n");
        assert_false(json_is_true(json_object_get(r.structure.value, "is_many")));
    }
    json_decref(r.structure.value);
    json_decref(tools);
    gw_text_close(&t);
}

static void calls_are_read_where_a_chat_has_tools_and_wants_calls(void **state)
{
    (void)state;
    gw_text t = open_text(WRITES_CALLS, true);
    json_t *tools = json_pack("[{s:{s:s}}]", "function", "name", "f");
    static const char answer[] =
        "<think>m</think>A <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
    for (int i = 0; i < 3; i++) { /* calls, tool_choice none, no tools */
        bt_fault f;
        gw_text_answer a;
        bt_thoughts_part p;
        bt_call call;
        char got[256] = "";
        const gw_ask r = {.is_chat = true, .tells_calls = true, .has_no_calls = i == 1,
                          .talk = {.tools = i == 2 ? NULL : tools}};
        assert_int_equal(gw_text_begin(&a, &t, &r, NULL, 0, 256, &f), BT_OK);
        for (const char *c = answer; *c; c++) {
            push_bytes(&a, (char[]){*c, 0});
            while (gw_text_next(&p, &call, &a, false)) {
                if (call.name)
                    (void)snprintf(got + strlen(got), 64, "@%s%u%s@", call.name, call.index, call.arguments);
                else strncat(got, p.text.ptr, p.text.len);
            }
        }
        assert_int_equal(gw_text_finish(&a, &f), BT_OK);
        assert_false(gw_text_next(&p, &call, &a, true));
        assert_string_equal(got, i == 0 ? "<think>m</think>A@f0{\"a\":1}@" : answer);
        assert_int_equal(a.calls.given, i == 0);
        gw_text_end(&a);
    }
    json_decref(tools);
    gw_text_close(&t);
}

static void gives_only_whole_characters(void **state)
{
    (void)state;
    bt_fault f;
    gw_text_answer a;
    gw_text t = open_text(NULL, true);
    const gw_ask r = {0};
    assert_int_equal(gw_text_begin(&a, &t, &r, NULL, 0, 16, &f), BT_OK);
    push_bytes(&a, "\xf0\x9f\x98");
    assert_int_equal(a.text.len, 0);
    push_bytes(&a, "\x80");
    assert_string_equal(bt_buf_text(&a.text), "\xf0\x9f\x98\x80");
    push_bytes(&a, "\xc3");
    assert_int_equal(gw_text_finish(&a, &f), BT_OK);
    assert_string_equal(bt_buf_text(&a.text), "\xf0\x9f\x98\x80\xef\xbf\xbd");
    assert_true(gw_text_push(&a, 1 << 20, &f) < 0);
    gw_text_end(&a);
    gw_text_close(&t);
}

static void drops_the_leading_space_only_of_an_answer_that_begins_a_text(void **state)
{
    (void)state;
    bt_fault f;
    gw_error err;
    int32_t *ids, bos = 1;
    size_t n;
    gw_text t = open_text(NULL, true);
    const gw_ask word = {.prompt = "the", .prompt_len = 3};
    /* BOS, then " the" in one or more tokens */
    assert_int_equal(gw_text_prompt(&ids, &n, &t, &word, 1024, &err), BT_OK);
    const struct {
        gw_ask r;
        const char *want;
    } c[] = {
        {{.prompt = "", .prompt_len = 0}, "the"},
        {{.prompt = "<s>", .prompt_len = 3}, "the"},
        {{.prompt_ids = &bos, .prompt_ids_len = 1}, "the"},
        {{.prompt = "on", .prompt_len = 2}, " the"},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        gw_text_answer a;
        int32_t *prompt;
        size_t len;
        assert_int_equal(gw_text_prompt(&prompt, &len, &t, &c[i].r, 1024, &err), BT_OK);
        assert_int_equal(gw_text_begin(&a, &t, &c[i].r, prompt, len, n, &f), BT_OK);
        free(prompt);
        for (size_t k = 1; k < n; k++) assert_int_equal(gw_text_push(&a, ids[k], &f), BT_OK);
        assert_int_equal(gw_text_finish(&a, &f), BT_OK);
        assert_string_equal(bt_buf_text(&a.text), c[i].want);
        gw_text_end(&a);
    }
    free(ids);
    gw_text_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_a_text_with_bos_only_where_the_file_asks),
        cmocka_unit_test(takes_a_token_list_as_it_is),
        cmocka_unit_test(counts_a_text_that_is_too_long_but_not_to_the_end_of_an_endless_one),
        cmocka_unit_test(puts_a_chat_into_the_template_and_never_lets_words_name_control_tokens),
        cmocka_unit_test(a_bos_is_there_where_the_template_writes_one_and_once),
        cmocka_unit_test(says_what_the_template_says),
        cmocka_unit_test(
            names_of_control_tokens_in_a_completion_are_the_tokens_unless_the_request_says_letters),
        cmocka_unit_test(a_bos_that_the_text_brings_is_not_added_a_second_time),
        cmocka_unit_test(refuses_a_chat_where_the_file_has_no_template_and_says_what_to_do),
        cmocka_unit_test(knows_the_ids_that_end_an_answer),
        cmocka_unit_test(cuts_at_a_stop_string_that_spans_tokens_and_holds_back_what_may_become_one),
        cmocka_unit_test(a_stop_string_that_is_one_control_token_ends_the_answer_before_it),
        cmocka_unit_test(counts_the_characters_of_a_prompt_where_log_probabilities_tell_places),
        cmocka_unit_test(thoughts_are_told_apart_where_the_template_names_their_marks),
        cmocka_unit_test(a_mark_that_is_a_control_token_is_a_mark_too),
        cmocka_unit_test(an_answer_that_must_be_calls_has_their_structure),
        cmocka_unit_test(tools_that_cannot_be_called_are_refused_by_name),
        cmocka_unit_test(calls_are_read_where_a_chat_has_tools_and_wants_calls),
        cmocka_unit_test(gives_only_whole_characters),
        cmocka_unit_test(drops_the_leading_space_only_of_an_answer_that_begins_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
