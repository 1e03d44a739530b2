/* See calls.h. What was looked at is not looked at again but for white space and parts of marks. */
#include "text/calls/calls.h"
#include "base/buf.h"
#include "text/calls/python.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* In the order in which they are looked for: forms whose templates write marks come before the others. Small
 * models of the first, Qwen2.5-Coder among them, leave their mark out, or write a block of code. */
static const bt_call_form forms[] = {
    {"hermes", {"<tool_call>"}, BT_CALL_OBJECT, "</tool_call>", 0, true, false},
    {"mistral", {"[TOOL_CALLS]"}, BT_CALL_LIST, "", 0, false, false},
    {"granite", {"<|tool_call|>", "<tool_call>"}, BT_CALL_LIST, "</tool_call>", 0, false, false},
    {"llama-json", {"<|python_tag|>"}, BT_CALL_OBJECT, "", ';', true, true},
    {"pythonic", {"<|python_start|>", "<|python_tag|>"}, BT_CALL_PYTHON, "<|python_end|>", 0, true, true},
};
enum { FORMS = sizeof forms / sizeof *forms };

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static size_t skip_space(const char *text, size_t at, size_t len)
{
    while (at < len && is_space(text[at])) at++;
    return at;
}

/* Where the white space at the end of text[at .. end) begins. */
static size_t trim(const char *text, size_t at, size_t end)
{
    while (end > at && is_space(text[end - 1])) end--;
    return end;
}

/* ---- a body's calls ---- */

/* The next member of a list or an object of JSON that is known to be right, from *at behind its bracket on,
 * without white space around it. False: there is none. */
static bool next_member(bt_text_span *ret, bt_text_span all, size_t *at)
{
    size_t i = skip_space(all.ptr, *at, all.len), depth = 0;
    const size_t first = i;
    bool is_text = false;
    for (; i < all.len; i++) {
        const char c = all.ptr[i];
        if (is_text) {
            if (c == '\\') i++;
            else is_text = c != '"';
            continue;
        }
        if (depth == 0 && (c == ',' || c == ']' || c == '}')) break;
        is_text = c == '"';
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
    }
    *ret = (bt_text_span){all.ptr + first, trim(all.ptr, first, i) - first};
    *at = i + 1;
    return ret->len > 0;
}

/* The text of an object's member, as the model wrote it; the last of its name. len 0: there is none. */
static bt_text_span find_member(bt_text_span object, const char *key)
{
    const size_t n = strlen(key);
    bt_text_span member, ret = {"", 0};
    size_t at = 1;
    while (next_member(&member, object, &at)) {
        size_t i = n + 2;
        if (member.len <= i || memcmp(member.ptr + 1, key, n) != 0 || member.ptr[n + 1] != '"') continue;
        i = skip_space(member.ptr, skip_space(member.ptr, i, member.len) + 1, member.len);
        ret = (bt_text_span){member.ptr + i, member.len - i};
    }
    return ret;
}

/* As JSON has it: integers of any length, and \u0000 in strings. */
enum { JSON_FLAGS = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };

static bool is_object(bt_text_span s)
{
    json_t *j = json_loadb(s.ptr, s.len, JSON_FLAGS, NULL);
    const bool ret = json_is_object(j);
    json_decref(j);
    return ret;
}

/* Whether one name stands twice among arguments, which Python refuses. */
static bool repeats(bt_text_span text, const json_t *arguments)
{
    bt_text_span member;
    size_t at = 1, n = 0;
    while (next_member(&member, text, &at)) n++;
    return n != json_object_size(arguments);
}

/* The call of an object's text as {"name", "arguments": text}, a new reference; NULL: it is none. */
static json_t *read_call(bt_calls *c, bt_text_span object)
{
    json_t *j = json_loadb(object.ptr, object.len, JSON_FLAGS, NULL), *ret = NULL;
    const char *key = json_object_get(j, "arguments") ? "arguments" : "parameters";
    const json_t *name = json_object_get(j, "name"), *arguments = json_object_get(j, key);
    bt_text_span text = find_member(j ? object : (bt_text_span){"", 0}, key);
    if (json_is_string(arguments)) /* twice JSON */
        text = (bt_text_span){json_string_value(arguments), json_string_length(arguments)};
    if (c->form->body == BT_CALL_PYTHON && repeats(text, arguments)) text.len = 0;
    if (json_is_string(name) && arguments && text.len > 0 && is_object(text)) {
        c->is_unknown = !json_object_getn(c->names, json_string_value(name), json_string_length(name));
        if (c->is_unknown)
            (void)snprintf(c->unknown_name, sizeof c->unknown_name, "%s", json_string_value(name));
        else ret = json_pack("{s:O,s:s%}", "name", name, "arguments", text.ptr, text.len);
    }
    json_decref(j);
    return ret;
}

/* All calls of a body, or NULL. */
static json_t *read_list(bt_calls *c, bt_text_span list)
{
    json_t *whole = json_loadb(list.ptr, list.len, JSON_FLAGS, NULL),
           *ret = json_is_array(whole) ? json_array() : NULL;
    bt_text_span member;
    size_t at = 1;
    json_decref(whole);
    while (ret && next_member(&member, list, &at)) {
        if (json_array_append_new(ret, read_call(c, member)) == 0) continue;
        json_decref(ret);
        return NULL;
    }
    if (json_array_size(ret) > 0) return ret;
    json_decref(ret);
    return NULL;
}

static json_t *read_python(bt_calls *c, bt_text_span body)
{
    bt_buf json;
    json_t *ret = NULL;
    bt_buf_init(&json, 8 * (size_t)BT_CALLS_MAX_BODY_BYTES);
    if (bt_python_calls(&json, body.ptr, body.len, BT_CALLS_MAX_DEPTH))
        ret = read_list(c, (bt_text_span){bt_buf_text(&json), json.len});
    bt_buf_done(&json);
    return ret;
}

static json_t *read_body(bt_calls *c, bt_text_span body)
{
    c->is_unknown = false;
    if (c->form->body == BT_CALL_LIST) return read_list(c, body);
    if (c->form->body == BT_CALL_PYTHON) return read_python(c, body);
    json_t *call = read_call(c, body);
    return call ? json_pack("[o]", call) : NULL;
}

/* ---- the text ---- */

void bt_calls_begin(bt_calls *ret, const bt_call_form *form, json_t *names, bool is_single)
{
    *ret = (bt_calls){.form = form, .names = names, .is_single = is_single,
                      .state = form && form->is_bare ? BT_CALLS_BEGINS : BT_CALLS_SAYS};
}

void bt_calls_done(bt_calls *c)
{
    json_decref(c->names);
    json_decref(c->ready);
    *c = (bt_calls){.form = NULL};
}

static bool give_text(bt_calls_part *ret, bt_calls *c, const char *text, size_t end)
{
    *ret = (bt_calls_part){.text = {text + c->at, end - c->at}};
    c->at = end;
    return ret->text.len > 0;
}

static bool give_call(bt_calls_part *ret, bt_calls *c)
{
    while (c->next < json_array_size(c->ready)) {
        const json_t *call = json_array_get(c->ready, c->next++);
        if (c->given >= (c->is_single ? 1 : BT_CALLS_MAX_CALLS)) continue;
        *ret = (bt_calls_part){.is_call = true,
                               .call = {json_string_value(json_object_get(call, "name")),
                                        json_string_value(json_object_get(call, "arguments")), c->given++}};
        return true;
    }
    return false;
}

/* text[at .. len) begins with the mark, or is a beginning of it: 1, 0; anything else: -1. */
static int begins(const char *text, size_t at, size_t len, const char *mark)
{
    const size_t n = strlen(mark), there = len - at;
    if (memcmp(text + at, mark, there < n ? there : n) != 0) return -1;
    return there >= n;
}

static void open_body(bt_calls *c, size_t body, bool is_marked)
{
    c->state = BT_CALLS_BODY;
    c->body = c->scan = body;
    c->is_marked = is_marked;
    c->close = c->form->close;
    c->depth = 0;
    c->quote = 0;
    c->is_escaped = false;
}

/* The first place from c->at on where a mark is, or may come to be: its mark, NULL where it is not whole. */
static size_t find_mark(const bt_calls *c, const char *text, size_t len, const char **ret)
{
    size_t first = len;
    *ret = NULL;
    for (size_t i = 0; i < BT_CALLS_MAX_MARKS && c->form->open[i]; i++) {
        const char *mark = c->form->open[i];
        const size_t n = strlen(mark), end = len - first < n ? len : first + n - 1;
        const char *found = memmem(text + c->at, end - c->at, mark, n);
        size_t at = found ? (size_t)(found - text) : end - c->at < n ? c->at : end - n + 1;
        while (!found && at < first && begins(text, at, len, mark) < 0) at++;
        if (at >= first) continue;
        first = at;
        *ret = found ? mark : NULL;
    }
    return first;
}

/* Text up to the next mark, and without the white space before it, unless that is long. */
static bool say(bt_calls_part *ret, bt_calls *c, const char *text, size_t len, bool is_over)
{
    const char *mark;
    const size_t at = find_mark(c, text, len, &mark);
    if (!mark && is_over) return give_text(ret, c, text, len);
    const size_t most = at > BT_CALLS_MAX_HELD_BYTES ? at - BT_CALLS_MAX_HELD_BYTES - 1 : 0,
                 run = trim(text, most, at); /* may begin before c->at, where it is text already */
    const bool is_long = at - run > BT_CALLS_MAX_HELD_BYTES;
    const bool has_text = give_text(ret, c, text, is_long ? at : run > c->at ? run : c->at);
    if (mark) open_body(c, at + strlen(mark), true);
    return has_text;
}

/* Where a body needs no mark: true where that is decided. */
static bool begin(bt_calls *c, const char *text, size_t len, bool is_over)
{
    static const char block[] = "```json";
    const size_t at = skip_space(text, c->at, len);
    const bool is_long = at - c->at > BT_CALLS_MAX_HELD_BYTES;
    const int is_block = at < len && c->form->body == BT_CALL_OBJECT ? begins(text, at, len, block) : -1;
    if ((at == len || is_block == 0) && !is_long && !is_over) return false;
    c->state = BT_CALLS_SAYS;
    if (is_long) return true;
    if (is_block == 1) {
        open_body(c, at + sizeof block - 1, false);
        c->close = "```";
    }
    if (at < len && text[at] == (c->form->body == BT_CALL_OBJECT ? '{' : '[')) open_body(c, at, false);
    return true;
}

/* One byte more of a body. False: it is none. */
static bool look(bt_calls *c, char x)
{
    const bool is_python = c->form->body == BT_CALL_PYTHON;
    if (c->quote) {
        if (c->is_escaped) c->is_escaped = false;
        else if (x == '\\') c->is_escaped = true;
        else if (x == c->quote) c->quote = 0;
        return true;
    }
    if (x == '"' || (is_python && x == '\'')) c->quote = x;
    if (x == '{' || x == '[') c->depth++;
    if (x == '}' || x == ']') c->depth--;
    return c->depth <= BT_CALLS_MAX_DEPTH;
}

/* The text looked at so far is no call, and is said. */
static bool give_up(bt_calls_part *ret, bt_calls *c, const char *text)
{
    if (c->is_unknown) c->unknown++;
    else if (c->is_marked) c->unread++;
    c->is_unknown = false;
    c->state = BT_CALLS_SAYS;
    return give_text(ret, c, text, c->scan);
}

/* As `begins`, of the marks that no body has outside its strings: a bracket is missing before them. */
static int begins_any(const bt_calls *c, const char *text, size_t len)
{
    int ret = c->close[0] ? begins(text, c->scan, len, c->close) : -1;
    for (size_t i = 0; i < BT_CALLS_MAX_MARKS && c->form->open[i] && ret < 1; i++) {
        const int one = begins(text, c->scan, len, c->form->open[i]);
        if (one > ret) ret = one;
    }
    return ret;
}

static bool take_body(bt_calls_part *ret, bt_calls *c, const char *text, size_t len, bool is_over)
{
    if (c->depth == 0) {
        const size_t at = skip_space(text, c->body, len);
        const bool is_long = at - c->body > BT_CALLS_MAX_HELD_BYTES;
        if (at == len && !is_long && !is_over) return false;
        if (at == len || is_long || text[at] != (c->form->body == BT_CALL_OBJECT ? '{' : '['))
            return give_up(ret, c, text);
        c->body = at;
        c->scan = at + 1;
        c->depth = 1;
    }
    while (c->scan < len && c->depth > 0) {
        const int mark = c->quote ? -1 : begins_any(c, text, len);
        if (mark == 0 && !is_over) return false;
        if (mark == 1) return give_up(ret, c, text);
        if (!look(c, text[c->scan++]) || c->scan - c->body > BT_CALLS_MAX_BODY_BYTES)
            return give_up(ret, c, text);
    }
    if (c->depth > 0) return is_over ? give_up(ret, c, text) : false;
    json_decref(c->ready);
    c->next = 0;
    c->ready = read_body(c, (bt_text_span){text + c->body, c->scan - c->body});
    if (!c->ready) return give_up(ret, c, text);
    c->at = c->scan;
    c->state = BT_CALLS_BEHIND;
    c->is_closed = c->close[0] == 0;
    return give_call(ret, c);
}

/* Behind a body: the mark that closes it, perhaps cut by the answer's end, what stands between bodies, and
 * white space. True where it is decided. */
static bool go_behind(bt_calls *c, const char *text, size_t len, bool is_over)
{
    const size_t at = c->at = skip_space(text, c->at, len);
    if (at == len) return false;
    if (!c->is_closed) {
        const int mark = begins(text, at, len, c->close);
        if (mark == 0 && !is_over) return false;
        c->is_closed = true;
        if (mark >= 0) {
            c->at = mark == 1 ? at + strlen(c->close) : len;
            return true;
        }
    }
    const bool has_more = c->form->between && text[at] == c->form->between;
    c->at = at + has_more;
    c->state = has_more && c->form->is_bare ? BT_CALLS_BEGINS : BT_CALLS_SAYS;
    return true;
}

bool bt_calls_next(bt_calls_part *ret, bt_calls *c, const char *text, size_t len, bool is_over)
{
    if (!c->form) return give_text(ret, c, text, len);
    if (give_call(ret, c)) return true;
    while (c->at < len) {
        const size_t at = c->at;
        const bt_calls_state state = c->state;
        if (state == BT_CALLS_BEGINS && !begin(c, text, len, is_over)) return false;
        if (state == BT_CALLS_BEHIND && !go_behind(c, text, len, is_over)) return false;
        if (state == BT_CALLS_SAYS && say(ret, c, text, len, is_over)) return true;
        if (state == BT_CALLS_BODY && take_body(ret, c, text, len, is_over)) return true;
        if (c->at == at && c->state == state) return false;
    }
    return false;
}

bt_err bt_calls_names(json_t **ret, size_t *ret_bad, const json_t *tools)
{
    json_t *names = json_object();
    size_t i;
    const json_t *tool;
    if (!names) return BT_ENOMEM;
    json_array_foreach(tools, i, tool) {
        const json_t *function = json_object_get(tool, "function"),
                     *name = json_object_get(function ? function : tool, "name");
        const size_t len = json_string_length(name);
        const bool is_good = len > 0 && len <= BT_CALLS_MAX_NAME_BYTES;
        if (is_good && json_object_setn_new(names, json_string_value(name), len, json_true()) == 0) continue;
        *ret_bad = i;
        json_decref(names);
        return is_good ? BT_ENOMEM : BT_EARG;
    }
    *ret = names;
    return BT_OK;
}

/* ---- answers that are calls ---- */

static bool is_among(const char *key, const char *const *list)
{
    while (*list && strcmp(key, *list) != 0) list++;
    return *list != NULL;
}

/* References to the root lead to where it is now. is_map: the keys of j are names of schemas, and no
 * keywords. Depth is that of a request's JSON, which its parser bounds. False: no memory. */
static bool move_references(json_t *j, const char *to, bool is_map)
{
    static const char *const values[] = {"const", "enum", "default", "examples", NULL},
                             *const maps[] = {"properties", "patternProperties", "dependentSchemas",
                                              "$defs",      "definitions",       NULL};
    const char *key;
    size_t i;
    json_t *v;
    bool is_good = true;
    json_array_foreach(j, i, v) is_good &= move_references(v, to, false);
    json_object_foreach(j, key, v) {
        const char *path = json_string_value(v);
        if (!is_map && is_among(key, values)) continue;
        if (!is_map && strcmp(key, "$ref") == 0 && path && path[0] == '#')
            is_good &= json_object_set_new(j, key, json_sprintf("#%s%s", to, path + 1)) == 0;
        else is_good &= move_references(v, to, !is_map && is_among(key, maps));
    }
    return is_good;
}

/* The schema of a call of one tool; at: of the call in the whole. */
static json_t *call_schema(const json_t *tool, const char *key, const char *at)
{
    const json_t *function = json_object_get(tool, "function");
    if (!function) function = tool;
    json_t *given = json_object_get(function, "parameters"),
           *arguments = json_is_object(given) ? json_deep_copy(given) : json_pack("{s:s}", "type", "object");
    const char *type = json_string_value(json_object_get(arguments, "type"));
    const bool is_object_already = type && strcmp(type, "object") == 0;
    char to[128];
    (void)snprintf(to, sizeof to, "%s/properties/%s%s", at, key, is_object_already ? "" : "/allOf/1");
    const bool is_good = arguments && move_references(arguments, to, false);
    if (is_good && !is_object_already)
        arguments = json_pack("{s:[{s:s},o]}", "allOf", "type", "object", arguments);
    if (is_good && arguments)
        return json_pack("{s:s,s:{s:{s:O},s:o},s:[s,s]}", "type", "object", "properties", "name", "const",
                         json_object_get(function, "name"), key, arguments, "required", "name", key);
    json_decref(arguments);
    return NULL;
}

json_t *bt_calls_schema(const bt_call_form *form, const json_t *tools, const char *only, bool is_single)
{
    const bool is_list = form->body == BT_CALL_LIST,
               is_lined = form->body == BT_CALL_OBJECT && !form->is_unmarked;
    const char *key = form->is_unmarked ? "parameters" : "arguments",
               *mark = form->is_unmarked ? "" : form->open[0];
    json_t *any = bt_calls_has_schema(form) ? json_array() : NULL;
    size_t i;
    const json_t *tool;
    json_array_foreach(tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function ? function : tool, "name"));
        char at[64];
        if (only && (!name || strcmp(name, only) != 0)) continue;
        (void)snprintf(at, sizeof at, "%s/anyOf/%zu", is_list ? "/items" : "", json_array_size(any));
        if (json_array_append_new(any, call_schema(tool, key, at)) == 0) continue;
        json_decref(any);
        return NULL;
    }
    json_t *schema = any ? json_pack("{s:o}", "anyOf", any) : NULL;
    if (schema && is_list)
        schema = json_pack("{s:s,s:o,s:i}", "type", "array", "items", schema, "minItems", 1);
    if (schema && is_list && is_single && json_object_set_new(schema, "maxItems", json_integer(1)) < 0) {
        json_decref(schema);
        return NULL;
    }
    return schema
               ? json_pack("{s:o,s:s+,s:s,s:s+,s:b}", "schema", schema, "before", mark, is_lined ? "\n" : "",
                           "between", form->between ? "; " : "\n", "behind", is_lined ? "\n" : "",
                           is_lined ? form->close : "", "is_many", !is_list && !is_single)
               : NULL;
}

/* ---- the form of a template ---- */

enum { PROBE_STEPS = 200000, PROBE_BYTES = 1 << 20 };

#define PROBE_TOOL      "tool_7f3a" /* that no template has */
#define PROBE_ARGUMENTS "{\"key_7f3a\": \"word\"}"

static json_t *ask(void) { return json_pack("[{s:s,s:s}]", "role", "user", "content", "?"); }

/* Renders the messages, whose reference is taken; NULL: out of memory. False: the template fails. */
static bool render(bt_chat_prompt *ret, const bt_chat *chat, json_t *messages, bool has_tools,
                   bool opens_answer)
{
    json_t *tools =
        json_pack("[{s:s,s:{s:s,s:s,s:{s:s,s:{s:{s:s,s:s}},s:[s]}}}]", "type", "function", "function", "name",
                  PROBE_TOOL, "description", "?", "parameters", "type", "object", "properties", "key_7f3a",
                  "type", "string", "description", "?", "required", "key_7f3a");
    const bt_chat_talk talk = {.messages = messages, .tools = has_tools ? tools : NULL,
                               .add_generation_prompt = opens_answer, .steps_max = PROBE_STEPS,
                               .bytes_max = PROBE_BYTES};
    const bool is_good = messages && tools && bt_chat_adapt(chat, messages) == BT_OK &&
                         bt_chat_render(ret, chat, &talk, NULL) == BT_OK;
    json_decref(messages);
    json_decref(tools);
    return is_good;
}

static json_t *ask_and_call(const char *content)
{
    json_t *talk = ask(),
           *call = json_pack("{s:s,s:s?,s:[{s:s,s:s,s:{s:s,s:s}}]}", "role", "assistant", "content", content,
                             "tool_calls", "id", "call00000", "type", "function", "function", "name",
                             PROBE_TOOL, "arguments", PROBE_ARGUMENTS);
    if (json_array_append_new(talk, call) == 0) return talk;
    json_decref(talk);
    return NULL;
}

/* Whether the text, an answer, has the probe's call in this form. */
static bool has_call(const bt_call_form *known, const char *text, size_t len)
{
    bt_call_form form = *known;
    bt_calls c;
    bt_calls_part part;
    bool is_there = false;
    json_t *names = json_pack("{s:b}", PROBE_TOOL, 1);
    if (!names) return false;
    form.is_bare = form.is_unmarked;
    bt_calls_begin(&c, &form, names, false);
    while (!is_there && bt_calls_next(&part, &c, text, len, true))
        is_there = part.is_call && strstr(part.call.arguments, "key_7f3a");
    bt_calls_done(&c);
    return is_there;
}

static size_t longest_mark(const bt_call_form *form)
{
    size_t ret = 0;
    for (size_t i = 0; i < BT_CALLS_MAX_MARKS && form->open[i]; i++)
        if (strlen(form->open[i]) > ret) ret = strlen(form->open[i]);
    return ret;
}

/* By what the template writes for a call behind what opens an answer. Where a prompt opens thoughts, it may
 * have the beginning of a mark in common with an answer. *ret_writes: the template writes calls, in whatever
 * form. */
static const bt_call_form *find_written(bool *ret_writes, const bt_chat *chat, const char *content)
{
    bt_chat_prompt before = {0}, with = {0};
    const bt_call_form *ret = NULL;
    size_t same = 0;
    if (render(&before, chat, ask(), true, true) && render(&with, chat, ask_and_call(content), true, false)) {
        while (same < before.len && same < with.len && before.text[same] == with.text[same]) same++;
        const char *answer = with.text + same;
        const size_t len = with.len - same;
        *ret_writes |= memmem(answer, len, PROBE_TOOL, sizeof PROBE_TOOL - 1) != NULL;
        for (size_t i = 0; i < FORMS && !ret; i++)
            if (has_call(&forms[i], answer, len)) ret = &forms[i];
        for (size_t i = 0; i < FORMS && !ret; i++) {
            const size_t n = longest_mark(&forms[i]) - 1, back = n < same ? n : same;
            if (has_call(&forms[i], answer - back, len + back)) ret = &forms[i];
        }
    }
    bt_chat_prompt_done(&before);
    bt_chat_prompt_done(&with);
    return ret;
}

/* By the mark that the template's words about tools have. */
static const bt_call_form *find_told(const bt_chat *chat)
{
    bt_chat_prompt without = {0}, with = {0};
    const bt_call_form *ret = NULL;
    if (render(&without, chat, ask(), false, true) && render(&with, chat, ask(), true, true)) {
        for (size_t i = 0; i < FORMS && !ret; i++) {
            const char *mark = forms[i].open[0];
            if (memmem(with.text, with.len, mark, strlen(mark)) &&
                !memmem(without.text, without.len, mark, strlen(mark)) &&
                memmem(with.text, with.len, PROBE_TOOL, sizeof PROBE_TOOL - 1))
                ret = &forms[i];
        }
    }
    bt_chat_prompt_done(&without);
    bt_chat_prompt_done(&with);
    return ret;
}

const bt_call_form *bt_calls_find(const bt_chat *chat)
{
    bool writes = false;
    const bt_call_form *ret = find_written(&writes, chat, "");
    if (!ret) ret = find_written(&writes, chat, NULL);
    return ret || writes ? ret : find_told(chat);
}
