/* ShareGPT: conversations, one after another out of a list that may be larger than memory. Each is found by
 * its braces first, then parsed by itself. */
#include "trace/private.h"

#include <string.h>

/* Bytes of the JSON object that begins at the input's place: up to the brace that closes it. 0: it does not
 * end within the limit or the file. */
static bt_err find_object(size_t *ret, bt_trace *t, bt_fault *fault)
{
    size_t have, looked = 0, depth = 0;
    bool is_text = false, is_escaped = false;
    for (size_t want = 1; want <= BT_TRACE_MAX_PIECE_BYTES; want = have + 1) {
        const bt_err e = bt_trace_input_peek(&have, &t->in, want, fault);
        if (e < 0) return e;
        const uint8_t *p = t->in.buf + t->in.at;
        for (; looked < have; looked++) {
            const uint8_t c = p[looked];
            if (is_escaped) is_escaped = false;
            else if (is_text && c == '\\') is_escaped = true;
            else if (c == '"') is_text = !is_text;
            else if (is_text) continue;
            else if (c == '{' || c == '[') depth++;
            else if ((c == '}' || c == ']') && --depth == 0) {
                *ret = looked + 1;
                return BT_OK;
            }
        }
        if (have < want) break;
    }
    *ret = 0;
    return BT_OK;
}

/* Past what stands between conversations. *c: the sign there; 0 at the end. */
static bt_err pass_between(uint8_t *c, bt_trace *t, bt_fault *fault)
{
    for (;;) {
        size_t have;
        const bt_err e = bt_trace_input_peek(&have, &t->in, 1, fault);
        if (e < 0) return e;
        *c = have ? t->in.buf[t->in.at] : 0;
        if (!have || !strchr(" \t\r\n,[]", *c)) return BT_OK;
        bt_trace_input_skip(&t->in, 1);
    }
}

/* The next conversation into t->share; none is left where talk stays NULL. */
static bt_err next_talk(bt_trace *t, bt_fault *fault)
{
    const bt_trace_place at = {t->in.line + 1, "conversations"};
    uint8_t c;
    size_t n, have;
    json_error_t why;
    bt_err e = pass_between(&c, t, fault);
    if (e < 0 || c == 0) return e;
    if (c == '{') e = find_object(&n, t, fault);
    else n = 1;
    if (e < 0) return e;
    if (n == 0) { /* the rest is no conversation */
        do {
            if ((e = bt_trace_input_peek(&have, &t->in, 1, fault)) < 0) return e;
            bt_trace_input_skip(&t->in, have);
        } while (have);
        return bt_fail(fault, BT_EFORMAT, "line %llu: a conversation does not end, or has more than %d bytes",
                       (unsigned long long)at.line, BT_TRACE_MAX_PIECE_BYTES);
    }
    json_t *o = bt_trace_json_load((const char *)t->in.buf + t->in.at, n, JSON_ALLOW_NUL, &why);
    json_t *talk = json_incref(json_object_get(o, "conversations"));
    const json_t *id = json_object_get(o, "id");
    if (!bt_trace_json_name(t->session, id)) /* a longer one is cut: a session needs no name to be one */
        (void)snprintf(t->session, sizeof t->session, "%s", json_is_string(id) ? json_string_value(id) : "");
    bt_trace_input_skip(&t->in, n);
    if (!o) e = bt_fail(fault, BT_EFORMAT, "line %llu: %s", (unsigned long long)at.line, why.text);
    else if (!json_is_array(talk)) e = bt_trace_bad_json(fault, at, talk, "is no list of messages");
    else if (json_array_size(talk) > BT_TRACE_MAX_TURNS)
        e = bt_fail(fault, BT_EFORMAT, "line %llu, column 'conversations': has more than %d messages",
                    (unsigned long long)at.line, BT_TRACE_MAX_TURNS);
    json_decref(o);
    if (e < 0) {
        json_decref(talk);
        return e;
    }
    t->share.talk = talk;
    t->share.turn = 0;
    t->share.tokens = 0;
    return BT_OK;
}

/* One message; *is_answer: of the model. */
static bt_err count_message(uint32_t *ret, bool *is_answer, bt_trace *t, bt_fault *fault)
{
    const json_t *m = json_array_get(t->share.talk, t->share.turn++);
    const json_t *from = json_object_get(m, "from"), *value = json_object_get(m, "value");
    const bt_trace_place at = {t->in.line + 1, json_is_string(from) ? "value" : "from"};
    if (!json_is_string(from)) return bt_trace_bad_json(fault, at, from, "is no text");
    if (!json_is_string(value)) return bt_trace_bad_json(fault, at, value, "is no text");
    const char *who = json_string_value(from);
    *is_answer = strcmp(who, "gpt") == 0 || strcmp(who, "assistant") == 0 || strcmp(who, "chatgpt") == 0 ||
                 strcmp(who, "bing") == 0 || strcmp(who, "bard") == 0;
    return t->o.count(t->o.ud, ret, json_string_value(value), json_string_length(value), fault);
}

bt_err bt_trace_share_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (;;) {
        while (t->share.talk && t->share.turn < json_array_size(t->share.talk)) {
            uint32_t tokens = 0;
            bool is_answer = false;
            const uint64_t before = t->share.tokens;
            if ((e = count_message(&tokens, &is_answer, t, fault)) < 0) goto bad;
            t->share.tokens += tokens;
            if (t->share.tokens > BT_TRACE_MAX_TOKENS) {
                e = bt_fail(fault, BT_EFORMAT, "line %llu: a conversation has more than %d tokens",
                            (unsigned long long)t->in.line + 1, BT_TRACE_MAX_TOKENS);
                goto bad;
            }
            if (!is_answer || before == 0) continue; /* an answer to nothing */
            *ret = (bt_trace_row){.line = t->in.line + 1, .input_tokens = (uint32_t)before,
                                  .output_tokens = tokens, .has_output = true,
                                  .session = t->session[0] ? t->session : NULL};
            *is_end = false;
            return BT_OK;
        }
        json_decref(t->share.talk);
        t->share.talk = NULL;
        if ((e = next_talk(t, fault)) < 0) return e;
        if (!t->share.talk) {
            *is_end = true;
            return BT_OK;
        }
    }
bad: /* the rest of the conversation goes with it */
    json_decref(t->share.talk);
    t->share.talk = NULL;
    return e;
}
