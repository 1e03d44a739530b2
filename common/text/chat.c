/* Conversations through a model's template: the variables it sees, and whose words came out. */
#include "text/chat.h"

#include "text/jinja/jinja.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 3, FIXED_VARS = 4 };

_Static_assert((int)BT_CHAT_MAX_TEMPLATE_BYTES == (int)BT_JINJA_MAX_SOURCE_BYTES, "as the interpreter says");

typedef struct named {
    const char *name;
    json_t *value; /* NULL: the model has none, and the template sees it as undefined */
} named;

struct bt_chat {
    bt_jinja *jinja, *for_tools; /* for_tools NULL: there is one template for all */
    named name[NAMES];
    bool takes_argument_text, takes_parts, has_developer;
};

/* ---- rendering ---- */

static const char *const thought_names[] = {"reasoning_content", "thinking", "reasoning"};
enum { THOUGHT_NAMES = sizeof thought_names / sizeof *thought_names };

static json_t *thought_of(const json_t *message)
{
    for (size_t i = 0; i < THOUGHT_NAMES; i++) {
        json_t *v = json_object_get(message, thought_names[i]);
        if (v && !json_is_null(v)) return v;
    }
    return NULL;
}

static bool has_null(const json_t *message)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)message, key, v) {
        if (json_is_null(v)) return true;
    }
    return false;
}

/* The message without nulls, its thought under the names that templates read; members in transformers' order.
 */
static json_t *normal_message(json_t *message)
{
    json_t *thought = thought_of(message);
    if (!thought && !has_null(message)) return json_incref(message);
    json_t *m = json_object();
    const char *key;
    json_t *v;
    int failed = !m;
    if (thought) failed |= json_object_set(m, "thinking", thought);
    json_object_foreach(message, key, v) {
        if (!json_is_null(v)) failed |= json_object_set(m, key, v);
    }
    if (thought) failed |= json_object_set(m, "reasoning_content", thought);
    if (!failed) return m;
    json_decref(m);
    return NULL;
}

static bt_err normal_messages(json_t **ret, const json_t *messages, bt_fault *fault)
{
    const size_t n = json_array_size(messages);
    if (n == 0) return bt_fail(fault, BT_EARG, "a chat needs at least one message");
    if (n > BT_CHAT_MAX_MESSAGES)
        return bt_fail(fault, BT_ELIMIT, "the chat has %zu messages; at most %d are allowed", n,
                       BT_CHAT_MAX_MESSAGES);
    json_t *list = json_array();
    bt_err e = list ? BT_OK : BT_ENOMEM;
    for (size_t i = 0; i < n && e == BT_OK; i++) {
        json_t *m = json_array_get(messages, i);
        if (!json_is_object(m)) e = bt_fail(fault, BT_EARG, "message %zu is no object", i);
        else if (json_array_append_new(list, normal_message(m)) < 0) e = BT_ENOMEM;
    }
    if (e == BT_ENOMEM) bt_fail(fault, e, "out of memory for a chat of %zu messages", n);
    if (e < 0) json_decref(list);
    else *ret = list;
    return e;
}

/* Variables in transformers' order: the tokens' names, what the request adds, then what every chat has; the
 * last of one name counts. Returns how many. */
static size_t list_vars(bt_jinja_var ret[NAMES + BT_CHAT_MAX_KWARGS + FIXED_VARS], const bt_chat *chat,
                        const bt_chat_talk *talk, const json_t *messages)
{
    size_t n = 0;
    const char *key;
    json_t *v;
    for (size_t i = 0; i < NAMES; i++)
        if (chat->name[i].value)
            ret[n++] = (bt_jinja_var){chat->name[i].name, chat->name[i].value, BT_JINJA_TEMPLATE};
    json_object_foreach((json_t *)talk->kwargs, key, v) {
        ret[n++] = (bt_jinja_var){key, v, BT_JINJA_REQUEST};
    }
    ret[n++] = (bt_jinja_var){"messages", messages, BT_JINJA_MESSAGES};
    ret[n++] = (bt_jinja_var){"tools", talk->tools ? talk->tools : json_null(), BT_JINJA_REQUEST};
    ret[n++] = (bt_jinja_var){"documents", talk->documents ? talk->documents : json_null(), BT_JINJA_REQUEST};
    ret[n++] = (bt_jinja_var){"add_generation_prompt",
                              talk->add_generation_prompt ? json_true() : json_false(), BT_JINJA_REQUEST};
    return n;
}

/* Takes text. */
static bt_err take_text(bt_chat_prompt *ret, bt_jinja_text *text, bt_fault *fault)
{
    bt_text_piece *piece = calloc(text->runs + 1, sizeof *piece);
    if (!piece) {
        bt_jinja_text_done(text);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a chat of %zu pieces", text->runs);
    }
    size_t at = 0;
    for (size_t i = 0; i < text->runs; at += text->run[i++].len)
        piece[i] = (bt_text_piece){text->text + at, text->run[i].len, text->run[i].is_template};
    *ret = (bt_chat_prompt){text->text, text->len, piece, text->runs, text->steps};
    text->text = NULL;
    bt_jinja_text_done(text);
    return BT_OK;
}

bt_err bt_chat_render(bt_chat_prompt *ret, const bt_chat *chat, const bt_chat_talk *talk, bt_fault *fault)
{
    bt_jinja_var var[NAMES + BT_CHAT_MAX_KWARGS + FIXED_VARS];
    bt_jinja_text text = {0};
    json_t *messages = NULL;
    if (json_object_size(talk->kwargs) > BT_CHAT_MAX_KWARGS)
        return bt_fail(fault, BT_ELIMIT, "%zu variables for the chat template; at most %d are allowed",
                       json_object_size(talk->kwargs), BT_CHAT_MAX_KWARGS);
    bt_err e = normal_messages(&messages, talk->messages, fault);
    if (e < 0) return e;
    const bt_jinja_input in = {.var = var, .vars = list_vars(var, chat, talk, messages), .now_s = talk->now_s,
                               .limits = {.steps = talk->steps_max, .output_bytes = talk->bytes_max}};
    const bool has_tools = talk->tools && chat->for_tools;
    e = bt_jinja_render(&text, has_tools ? chat->for_tools : chat->jinja, &in, fault);
    json_decref(messages);
    return e < 0 ? e : take_text(ret, &text, fault);
}

void bt_chat_prompt_done(bt_chat_prompt *p)
{
    if (!p) return;
    free(p->text);
    free(p->piece);
    *p = (bt_chat_prompt){0};
}

/* ---- what a template is like ---- */

enum { PROBE_STEPS = 200000, PROBE_BYTES = 1 << 20 };

/* Renders a talk of the library's own; messages is taken, NULL: out of memory. */
static bt_err probe(bt_chat_prompt *ret, const bt_chat *chat, json_t *messages, bool add_generation_prompt)
{
    const bt_chat_talk talk = {.messages = messages, .add_generation_prompt = add_generation_prompt,
                               .steps_max = PROBE_STEPS, .bytes_max = PROBE_BYTES};
    const bt_err e = messages ? bt_chat_render(ret, chat, &talk, NULL) : BT_ENOMEM;
    json_decref(messages);
    return e;
}

/* Whether a call of a tool can be written; the arguments are taken. */
static bool writes_call(const bt_chat *chat, json_t *arguments)
{
    bt_chat_prompt p = {0};
    json_t *talk = json_pack("[{s:s,s:s},{s:s,s:s,s:[{s:s,s:s,s:{s:s,s:o}}]}]", "role", "user", "content",
                             "?", "role", "assistant", "content", "", "tool_calls", "id", "call00000", "type",
                             "function", "function", "name", "f", "arguments", arguments);
    const bt_err e = probe(&p, chat, talk, false);
    bt_chat_prompt_done(&p);
    return e == BT_OK;
}

static const char word[] = "word-7f3a"; /* that no template has */

/* Whether the content of a message, which is taken, is in the prompt. */
static bool writes_content(const bt_chat *chat, json_t *content)
{
    bt_chat_prompt p = {0};
    const bt_err e = probe(&p, chat, json_pack("[{s:s,s:o}]", "role", "user", "content", content), false);
    const bool is_there = e == BT_OK && memmem(p.text, p.len, word, sizeof word - 1);
    bt_chat_prompt_done(&p);
    return is_there;
}

static json_t *part_of(json_t *text) { return json_pack("[{s:s,s:O}]", "type", "text", "text", text); }

static void look_at(bt_chat *chat, bt_text_span tmpl)
{
    chat->has_developer = memmem(tmpl.ptr, tmpl.len, "developer", 9) != NULL;
    chat->takes_parts = !writes_content(chat, json_string(word)) &&
                        writes_content(chat, json_pack("[{s:s,s:s}]", "type", "text", "text", word));
    chat->takes_argument_text = bt_jinja_mentions(chat->jinja, "arguments") &&
                                !writes_call(chat, json_pack("{s:s}", "a", "b")) &&
                                writes_call(chat, json_string("{\"a\": \"b\"}"));
}

bt_err bt_chat_new(bt_chat **ret, const bt_tokenizer *tok, bt_text_span tmpl, bt_text_span for_tools,
                   bt_fault *fault)
{
    bt_chat *chat = calloc(1, sizeof *chat);
    if (!chat) return bt_fail(fault, BT_ENOMEM, "out of memory for a chat template");
    const struct {
        const char *name;
        int32_t id;
    } names[NAMES] = {{"bos_token", tok ? bt_tokenizer_bos(tok) : -1},
                      {"eos_token", tok ? bt_tokenizer_eos(tok) : -1},
                      {"unk_token", tok ? bt_tokenizer_unk(tok) : -1}};
    bt_err e = bt_jinja_parse(&chat->jinja, tmpl.ptr, tmpl.len, fault);
    if (e == BT_OK && for_tools.ptr)
        e = bt_jinja_parse(&chat->for_tools, for_tools.ptr, for_tools.len, fault);
    for (size_t i = 0; i < NAMES && e == BT_OK; i++) {
        const bt_text_span piece = tok ? bt_tokenizer_piece(tok, names[i].id) : (bt_text_span){NULL, 0};
        chat->name[i] = (named){names[i].name, piece.ptr ? json_stringn(piece.ptr, piece.len) : NULL};
    }
    if (e < 0) {
        bt_chat_free(chat);
        return e;
    }
    if (tok) look_at(chat, tmpl);
    *ret = chat;
    return BT_OK;
}

void bt_chat_free(bt_chat *chat)
{
    if (!chat) return;
    bt_jinja_free(chat->jinja);
    bt_jinja_free(chat->for_tools);
    for (size_t i = 0; i < NAMES; i++) json_decref(chat->name[i].value);
    free(chat);
}

/* ---- where an answer ends ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Whether a token of any type has the form of a mark. */
static bool looks_special(bt_text_span s)
{
    const char first = s.len > 2 ? s.ptr[0] : 0, last = s.len > 2 ? s.ptr[s.len - 1] : 0;
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

/* The longest token at the front of text that is a mark; -1: none. */
static int32_t mark_at(const bt_tokenizer *tok, bt_text_span text)
{
    int32_t found = -1;
    size_t len = 0;
    for (size_t i = 0; i < bt_tokenizer_count(tok); i++) {
        const bt_text_span s = bt_tokenizer_piece(tok, (int32_t)i);
        if (s.len <= len || s.len > text.len || memcmp(s.ptr, text.ptr, s.len) != 0) continue;
        if (bt_tokenizer_type(tok, (int32_t)i) != BT_TOKEN_CONTROL && !looks_special(s)) continue;
        found = (int32_t)i;
        len = s.len;
    }
    return found;
}

/* The mark that the template writes behind an answer: the last of a chat, or one in the middle. */
static int32_t closing_mark(const bt_chat *chat, const bt_tokenizer *tok, bool is_last)
{
    bt_chat_prompt p = {0};
    int32_t found = -1;
    json_t *talk = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "?", "role", "assistant",
                             "content", word);
    if (talk && !is_last &&
        json_array_append_new(talk, json_pack("{s:s,s:s}", "role", "user", "content", "!")) < 0) {
        json_decref(talk);
        talk = NULL;
    }
    if (!talk || bt_chat_adapt(chat, talk) < 0 || probe(&p, chat, json_incref(talk), false) < 0) {
        json_decref(talk);
        return -1;
    }
    json_decref(talk);
    for (size_t i = 0; i + 1 < p.pieces; i++) {
        if (p.piece[i].is_special || !memmem(p.piece[i].text, p.piece[i].len, word, sizeof word - 1))
            continue;
        bt_text_span rest = {p.piece[i + 1].text, p.piece[i + 1].len};
        while (rest.len > 0 && is_space(rest.ptr[0])) rest = (bt_text_span){rest.ptr + 1, rest.len - 1};
        found = mark_at(tok, rest);
    }
    bt_chat_prompt_done(&p);
    return found;
}

size_t bt_chat_ends(int32_t ret[BT_CHAT_MAX_ENDS], const bt_chat *chat, const bt_tokenizer *tok)
{
    size_t n = 0;
    int32_t mark = chat ? closing_mark(chat, tok, true) : -1;
    if (chat && mark < 0) mark = closing_mark(chat, tok, false);
    if (mark >= 0) ret[n++] = mark;
    for (size_t i = 0; i < bt_tokenizer_count(tok) && n < BT_CHAT_MAX_ENDS; i++)
        if (bt_tokenizer_is_eog(tok, (int32_t)i) && (int32_t)i != mark) ret[n++] = (int32_t)i;
    return n;
}

/* ---- messages of the API ---- */

static bt_err adapt_call(json_t *call)
{
    json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    if (!json_is_string(arguments)) return BT_OK;
    json_t *object = json_string_length(arguments) > 0
                         ? json_loadb(json_string_value(arguments), json_string_length(arguments), 0, NULL)
                         : json_object();
    if (json_is_object(object))
        return json_object_set_new(function, "arguments", object) < 0 ? BT_ENOMEM : BT_OK;
    json_decref(object);
    return BT_OK;
}

bt_err bt_chat_adapt(const bt_chat *chat, json_t *messages)
{
    size_t i, k;
    json_t *m, *call;
    json_array_foreach(messages, i, m) {
        const char *role = json_string_value(json_object_get(m, "role"));
        if (role && !chat->has_developer && strcmp(role, "developer") == 0 &&
            json_object_set_new(m, "role", json_string("system")) < 0)
            return BT_ENOMEM;
        json_t *content = json_object_get(m, "content");
        if (chat->takes_parts && json_is_string(content) &&
            json_object_set_new(m, "content", part_of(content)) < 0)
            return BT_ENOMEM;
        json_array_foreach(json_object_get(m, "tool_calls"), k, call) {
            if (!chat->takes_argument_text && adapt_call(call) < 0) return BT_ENOMEM;
        }
    }
    return BT_OK;
}
