/* Prompts to ids and ids to text. Limits of lengths in tokens are the caller's business
 * (gw_ask_bound). */
#include "gateway/api/text.h"
#include "base/num.h"
#include "model/gguf.h"
#include "model/vocab.h"
#include "text/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_TEXT_BYTES = 1024 }; /* the longest text one id can bring, see BT_TOKENIZER_MAX_TOKEN_BYTES */

_Static_assert((int)BT_CHAT_MAX_ENDS <= (int)BT_MSG_MAX_STOP_IDS,
               "the ends of answers are stop ids of each request");

/* The control token of exactly that text, which no answer shows; -1: none. */
static int32_t find_control(const bt_tokenizer *tok, const char *text, size_t len)
{
    int32_t *ids, ret = -1;
    size_t n;
    const bt_text_span unk = bt_tokenizer_piece(tok, bt_tokenizer_unk(tok)); /* shown as little */
    if (unk.len == len && bt_tokenizer_type(tok, bt_tokenizer_unk(tok)) == BT_TOKEN_UNKNOWN &&
        memcmp(unk.ptr, text, len) == 0)
        return bt_tokenizer_unk(tok);
    if (bt_tokenizer_encode(&ids, &n, tok, text, len, BT_ENCODE_SPECIAL, NULL) < 0) return -1;
    if (n == 1 && bt_tokenizer_type(tok, ids[0]) == BT_TOKEN_CONTROL) ret = ids[0];
    free(ids);
    return ret;
}

static void find_marks(gw_text *t, bt_text_span chat_template)
{
    t->marks = bt_thoughts_find(t->tok, chat_template);
    if (t->templates.chat) t->calls = bt_calls_find(t->templates.chat);
    for (size_t i = 0; i < GW_TEXT_MARKS; i++) {
        const size_t k = i - BT_THOUGHTS_MAX_TOKENS; /* of calls */
        const char *name = i < BT_THOUGHTS_MAX_TOKENS ? t->marks ? t->marks->token[i] : NULL
                           : !t->calls                ? NULL
                           : k < BT_CALLS_MAX_MARKS   ? t->calls->open[k]
                                                      : t->calls->close;
        t->mark_ids[i] = name && *name ? find_control(t->tok, name, strlen(name)) : -1;
    }
}

bt_err gw_text_open(gw_text *ret, const bt_gguf *g, const char *chat_template, bt_fault *fault)
{
    gw_text t = {0};
    bt_err e = bt_vocab_load(&t.tok, g, fault);
    if (e == BT_OK) e = bt_templates_open(&t.templates, g, t.tok, chat_template, fault);
    if (e < 0) {
        bt_tokenizer_free(t.tok);
        return e;
    }
    t.stop_ids_len = (uint32_t)bt_chat_ends(t.stop_ids, t.templates.chat, t.tok);
    find_marks(&t, (bt_text_span){t.templates.text, t.templates.text ? strlen(t.templates.text) : 0});
    *ret = t;
    return BT_OK;
}

void gw_text_name_ends(bt_buf *out, const gw_text *t)
{
    char shown[64];
    for (uint32_t i = 0; i < t->stop_ids_len; i++) {
        const bt_text_span name = bt_tokenizer_piece(t->tok, t->stop_ids[i]);
        (void)bt_buf_fmt(out, "%s%s (%d)", i ? ", " : "",
                         bt_utf8_show(shown, sizeof shown, name.ptr, name.len), (int)t->stop_ids[i]);
    }
}

void gw_text_close(gw_text *t)
{
    bt_templates_close(&t->templates);
    bt_tokenizer_free(t->tok);
    *t = (gw_text){0};
}

/* A complaint of the tokeniser or template about the client's words is the client's error; any other is the
 * server's. */
static bt_err blame(gw_error *err, bt_err e, const char *param, const bt_fault *fault)
{
    if (e == BT_ENOMEM) {
        (void)gw_error_say(err, 500, "out_of_memory", NULL, "Out of memory while reading the prompt.");
        return e;
    }
    return gw_error_say(err, 400, "invalid_value", param, "%s", fault->text);
}

bool gw_text_brings_bos(const gw_text *t, const char *text, size_t len)
{
    const bt_text_span bos = bt_tokenizer_piece(t->tok, bt_tokenizer_bos(t->tok));
    return bt_tokenizer_adds_bos(t->tok) && bos.len > 0 && len >= bos.len &&
           memcmp(text, bos.ptr, bos.len) == 0;
}

static bool brings_bos(const gw_text *t, const gw_ask *r)
{
    return !r->is_chat && r->prompt && !r->is_plain && gw_text_brings_bos(t, r->prompt, r->prompt_len);
}

/* The tokeniser's encoding, with words of its own for a text too long to count. */
static bt_err encode(int32_t **ret, size_t *ret_len, const gw_text *t, const bt_text_piece *piece,
                     size_t pieces, unsigned flags, uint32_t ctx_tokens, const char *param, gw_error *err)
{
    bt_fault fault = {""};
    const size_t most = (size_t)ctx_tokens + GW_TEXT_COUNTED_TOKENS;
    const bt_err e = bt_tokenizer_encode_at_most(ret, ret_len, t->tok, piece, pieces, flags, most, &fault);
    if (e == BT_ELIMIT && !fault.text[0])
        return gw_error_say(err, 400, "context_length_exceeded", param,
                            "The context is %u tokens long, but the prompt has more than %zu.", ctx_tokens,
                            most);
    return e < 0 ? blame(err, e, param, &fault) : BT_OK;
}

bt_err gw_text_render(bt_chat_prompt *ret, const gw_text *t, const gw_ask *r, gw_error *err)
{
    bt_fault fault = {""};
    const bt_chat *chat = t->templates.chat;
    if (!chat)
        return gw_error_say(err, 400, "no_chat_template", r->prompt_field, "%s", t->templates.why.text);
    bt_err e = bt_chat_adapt(chat, r->talk.messages);
    if (e == BT_OK) e = bt_chat_render(ret, chat, &r->talk, &fault);
    if (e == BT_ELIMIT && r->talk.steps_max) return BT_EAGAIN;
    if (e == BT_EARG)
        return gw_error_say(err, 400, "invalid_value", r->prompt_field,
                            "The chat template refuses the conversation: %s", fault.text);
    if (e == BT_EFORMAT || e == BT_ELIMIT)
        return gw_error_say(err, 400, "invalid_value", r->prompt_field,
                            "The chat template cannot write the conversation: %s", fault.text);
    return e < 0 ? blame(err, e, r->prompt_field, &fault) : BT_OK;
}

/* A schema that an object may follow, as arguments are. */
static bool may_be_object(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *v;
    size_t i;
    bool is_there = !type || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0);
    json_array_foreach(type, i, v)
        is_there |= json_is_string(v) && strcmp(json_string_value(v), "object") == 0;
    return json_is_object(schema) && is_there;
}

static bt_err check_tool(const gw_ask *r, const json_t *tool, size_t i, gw_error *err)
{
    const json_t *function = json_object_get(tool, "function"), *own = function ? function : tool,
                 *parameters = json_object_get(own, "parameters");
    char where[64];
    (void)snprintf(where, sizeof where, "tools[%zu].%sparameters", i, function ? "function." : "");
    if (parameters && !json_is_null(parameters) && !may_be_object(parameters))
        return gw_error_say(
            err, 400, "invalid_value", where,
            "Invalid '%s': a call's arguments are an object, which this schema does not allow.", where);
    if (r->must_call) return BT_OK; /* each call keeps to its schema then */
    (void)snprintf(where, sizeof where, "tools[%zu].%sstrict", i, function ? "function." : "");
    if (json_is_true(json_object_get(own, "strict")))
        return gw_error_say(err, 400, "unsupported_parameter", where,
                            "'%s' is only supported where 'tool_choice' is 'required' or names a tool.",
                            where);
    return BT_OK;
}

/* What calls cannot be read of. */
static bt_err check_tools(const gw_text *t, const gw_ask *r, gw_error *err)
{
    json_t *names;
    size_t i;
    const json_t *tool;
    bt_err e;
    if (!r->tells_calls)
        return gw_error_say(err, 400, "unsupported_parameter", "tools",
                            "'tools' is not supported here unless 'tool_choice' is 'none'.");
    if (t->templates.chat && !t->calls)
        return gw_error_say(
            err, 400, "unsupported_parameter", "tools",
            "'tools' is only allowed when 'tool_choice' is 'none': this model's chat template writes "
            "calls in no form that this server reads.");
    if (r->structure.form != GW_STRUCTURE_NONE && r->structure.form != GW_STRUCTURE_CALLS)
        return gw_error_say(
            err, 400, "invalid_value", r->structure.field,
            "'%s' leaves no room for a call of a tool: with 'tools', 'tool_choice' must be 'none'.",
            r->structure.field);
    e = bt_calls_names(&names, &i, r->talk.tools);
    if (e == BT_ENOMEM) return blame(err, e, "tools", NULL);
    if (e < 0)
        return gw_error_say(err, 400, "invalid_value", "tools",
                            "Invalid 'tools[%zu]': a tool has a function with a name of 1 to %d bytes.", i,
                            BT_CALLS_MAX_NAME_BYTES);
    const bool has_named = !r->call || json_object_get(names, r->call);
    json_array_foreach(r->talk.tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function ? function : tool, "name"));
        if (json_object_del(names, name) < 0) break;
    }
    json_decref(names);
    if (i < json_array_size(r->talk.tools))
        return gw_error_say(err, 400, "invalid_value", "tools",
                            "Invalid 'tools[%zu]': another tool has the same name.", i);
    if (!has_named)
        return gw_error_say(err, 400, "invalid_value", "tool_choice",
                            "Invalid 'tool_choice': there is no tool '%.64s' in 'tools'.", r->call);
    json_array_foreach(r->talk.tools, i, tool)
        if ((e = check_tool(r, tool, i, err)) < 0) return e;
    return BT_OK;
}

bt_err gw_text_shape(const gw_text *t, gw_ask *r, gw_error *err)
{
    const bt_err e = gw_ask_wants_calls(r) && t->templates.chat ? check_tools(t, r, err) : BT_OK;
    if (e < 0 || !r->must_call || !r->is_chat) return e;
    if (!r->talk.tools)
        return gw_error_say(err, 400, "invalid_value", "tool_choice",
                            "Invalid 'tool_choice': a call needs 'tools', of which there are none.");
    if (!t->calls) return BT_OK; /* refused with the prompt */
    if (!bt_calls_has_schema(t->calls))
        return gw_error_say(
            err, 400, "unsupported_parameter", "tool_choice",
            "'tool_choice' must be 'auto' or 'none': this model writes calls in Python's form.");
    json_t *schema = bt_calls_schema(t->calls, r->talk.tools, r->call, r->is_single_call || r->call);
    if (!schema) return gw_error_no_memory(err);
    json_decref(r->structure.value);
    r->structure = (gw_structure){.form = GW_STRUCTURE_CALLS, .field = "tools", .value = schema};
    return BT_OK;
}

static bt_err chat_prompt(int32_t **ret, size_t *ret_len, const gw_text *t, const gw_ask *r,
                          uint32_t ctx_tokens, gw_error *err)
{
    bt_chat_prompt p;
    bt_err e = gw_text_render(&p, t, r, err);
    if (e < 0) return e;
    e = encode(ret, ret_len, t, p.piece, p.pieces, 0, ctx_tokens, r->prompt_field, err);
    bt_chat_prompt_done(&p);
    return e;
}

bt_err gw_text_prompt(int32_t **ret, size_t *ret_len, const gw_text *t, const gw_ask *r, uint32_t ctx_tokens,
                      gw_error *err)
{
    bt_fault fault = {""};
    int32_t *ids = NULL;
    size_t n = 0;
    bt_err e;
    if (r->is_chat) {
        if ((e = chat_prompt(&ids, &n, t, r, ctx_tokens, err)) < 0) return e;
    } else if (r->prompt_ids) {
        n = r->prompt_ids_len;
        if (!(ids = malloc(n * sizeof *ids)))
            return blame(err, BT_ENOMEM, "out of memory for a prompt", &fault);
        memcpy(ids, r->prompt_ids, n * sizeof *ids);
    } else {
        const bt_text_piece whole = {r->prompt, r->prompt_len, !r->is_plain};
        const unsigned flags = brings_bos(t, r) ? 0 : BT_ENCODE_BOS;
        if ((e = encode(&ids, &n, t, &whole, 1, flags, ctx_tokens, r->prompt_field, err)) < 0) return e;
    }
    if (n == 0) {
        free(ids);
        return gw_error_say(
            err, 400, "invalid_value", r->prompt_field,
            "The prompt is empty, and this model's file asks for no BOS token to begin from.");
    }
    *ret = ids;
    *ret_len = n;
    return BT_OK;
}

bt_err gw_text_of_ids(bt_buf *ret, const gw_text *t, const int32_t *ids, size_t ids_len, bt_fault *fault)
{
    bt_buf_init(ret, BT_TOKENIZER_MAX_TEXT_BYTES);
    return bt_detok_all(ret, t->tok, ids, ids_len, BT_DETOK_START | BT_DETOK_SPECIAL, fault);
}

/* Characters of the prompt's text; of a list of ids as gw_text_of_ids has it. */
static bt_err count_chars(size_t *ret, const gw_text *t, const gw_ask *r, bt_fault *fault)
{
    bt_buf piece;
    bt_detok d;
    bt_err e = BT_OK;
    *ret = r->prompt ? bt_utf8_count(r->prompt, r->prompt_len) : 0;
    bt_buf_init(&piece, 4 * TOKEN_TEXT_BYTES);
    bt_detok_init(&d, t->tok, BT_DETOK_START | BT_DETOK_SPECIAL);
    for (size_t i = 0; i <= r->prompt_ids_len && e == BT_OK; i++) {
        bt_buf_clear(&piece);
        e = i < r->prompt_ids_len ? bt_detok_push(&piece, &d, r->prompt_ids[i], fault)
                                  : bt_detok_finish(&piece, &d, fault);
        *ret += bt_utf8_count(bt_buf_text(&piece), piece.len);
    }
    bt_buf_done(&piece);
    return e;
}

/* The answer begins inside thoughts where the prompt's end opened them, whatever wrote it. */
static bt_err begin_thoughts(gw_text_answer *a, const gw_text *t, const gw_ask *r, const int32_t *ids,
                             size_t ids_len, bt_fault *fault)
{
    enum { END_TOKENS = 16 }; /* hold a mark and white space */
    const size_t n = ids_len < END_TOKENS ? ids_len : END_TOKENS;
    bt_buf end;
    if (!t->marks || r->keeps_thoughts) return BT_OK;
    const bt_err e = gw_text_of_ids(&end, t, ids + (ids_len - n), n, fault);
    if (e == BT_OK)
        bt_thoughts_begin(&a->thoughts, t->marks, bt_thoughts_opened(t->marks, bt_buf_text(&end), end.len));
    bt_buf_done(&end);
    return e;
}

static bt_err begin_calls(gw_text_answer *a, const gw_text *t, const gw_ask *r, bt_fault *fault)
{
    json_t *names;
    size_t bad;
    const bt_err e = bt_calls_names(&names, &bad, r->talk.tools);
    if (e < 0) return bt_fail(fault, e, "no names of the request's tools");
    bt_calls_begin(&a->calls, t->calls, names, r->is_single_call);
    return BT_OK;
}

bt_err gw_text_begin(gw_text_answer *ret, const gw_text *t, const gw_ask *r, const int32_t *ids,
                     size_t ids_len, size_t ids_max, bt_fault *fault)
{
    gw_text_answer a = {.brings_bos = brings_bos(t, r)};
    size_t limit;
    bt_err e = BT_OK;
    if (!bt_mul_size(&limit, ids_max + 1, TOKEN_TEXT_BYTES)) limit = SIZE_MAX;
    /* One that begins a text drops the space that a llama-kind tokeniser puts in front. */
    const bool begins_text = r->is_chat || (ids_len == 1 && ids[0] == bt_tokenizer_bos(t->tok));
    bt_detok_init(&a.detok, t->tok, begins_text ? BT_DETOK_START : 0);
    bt_buf_init(&a.text, limit);
    bt_stop_init(&a.stop);
    const size_t marks = gw_ask_wants_calls(r) ? GW_TEXT_MARKS : r->is_chat ? BT_THOUGHTS_MAX_TOKENS : 0;
    for (size_t i = 0; i < GW_TEXT_MARKS; i++) a.mark_ids[i] = i < marks ? t->mark_ids[i] : -1;
    bt_buf_init(&a.said, limit);
    if (r->is_chat && r->structure.form != GW_STRUCTURE_CALLS)
        e = begin_thoughts(&a, t, r, ids, ids_len, fault);
    if (e == BT_OK && gw_ask_wants_calls(r)) e = begin_calls(&a, t, r, fault);
    for (size_t i = 0; i < r->stops && e == BT_OK; i++) {
        const int32_t id = find_control(t->tok, r->stop[i], r->stop_len[i]);
        if (id >= 0) {
            a.stop_at[a.stop_ids] = i;
            a.stop_id[a.stop_ids++] = id;
        }
        e = bt_stop_add_string(&a.stop, r->stop[i], r->stop_len[i], fault);
    }
    if (e == BT_OK && r->sampling.logprobs && !r->is_chat) e = count_chars(&a.prompt_chars, t, r, fault);
    a.counted = a.thoughts;
    if (e == BT_OK) *ret = a;
    else bt_calls_done(&a.calls);
    return e;
}

bool gw_text_next(bt_thoughts_part *ret, bt_call *ret_call, gw_text_answer *a, bool is_over)
{
    *ret_call = (bt_call){.name = NULL};
    const bool has_calls = a->calls.form != NULL;
    bt_calls_part part;
    for (bool has_more = true;;) {
        const bool is_end = has_calls && is_over && !has_more;
        if (has_calls && bt_calls_next(&part, &a->calls, bt_buf_text(&a->said), a->said.len, is_end)) {
            *ret = (bt_thoughts_part){.text = part.text};
            if (part.is_call) *ret_call = part.call;
            return true;
        }
        if (!has_more) return false;
        has_more = bt_thoughts_next(ret, &a->thoughts, bt_buf_text(&a->text), a->text.len, is_over);
        if (has_more && (!has_calls || ret->is_thought)) return true;
        if (!has_calls) return false;
        if (has_more) (void)bt_buf_add(&a->said, ret->text.ptr, ret->text.len);
    }
}

bool gw_text_is_stop(const gw_text_answer *a, int32_t id)
{
    for (size_t i = 0; i < a->stop_ids; i++)
        if (a->stop_id[i] == id) return true;
    return false;
}

/* Through the stop strings into a->text. */
static bt_err show(gw_text_answer *a, const bt_buf *fresh)
{
    const bt_err e = bt_buf_reserve(&a->text, bt_stop_room(&a->stop, fresh->len) + 1);
    if (e < 0) return e;
    a->text.len += bt_stop_push(&a->stop, (char *)a->text.data + a->text.len, bt_buf_text(fresh), fresh->len,
                                &a->is_stopped);
    a->text.data[a->text.len] = 0;
    return BT_OK;
}

/* A token counts where thoughts go on behind it. */
static void count_thoughts(gw_text_answer *a)
{
    bt_thoughts_part p;
    if (!a->counted.marks) return;
    while (bt_thoughts_next(&p, &a->counted, bt_buf_text(&a->text), a->text.len, false)) continue;
    a->thought_tokens += a->counted.state == BT_THOUGHTS_THINKS;
}

bt_err gw_text_push(gw_text_answer *a, int32_t id, bt_fault *fault)
{
    bt_buf fresh;
    if (a->is_stopped) return BT_OK;
    bt_buf_init(&fresh, 4 * TOKEN_TEXT_BYTES);
    a->detok.is_special_shown = false;
    for (size_t i = 0; i < GW_TEXT_MARKS; i++) a->detok.is_special_shown |= id >= 0 && id == a->mark_ids[i];
    bt_err e = bt_detok_push(&fresh, &a->detok, id, fault);
    if (e == BT_OK) e = show(a, &fresh);
    bt_buf_done(&fresh);
    count_thoughts(a);
    return e;
}

bt_err gw_text_finish(gw_text_answer *a, bt_fault *fault)
{
    bt_buf fresh;
    if (a->is_stopped) return BT_OK;
    bt_buf_init(&fresh, 64);
    bt_err e = bt_detok_finish(&fresh, &a->detok, fault);
    if (e == BT_OK) e = show(a, &fresh);
    if (e == BT_OK && !a->is_stopped) e = bt_buf_reserve(&a->text, BT_STOP_MAX_BYTES + 1);
    if (e == BT_OK && !a->is_stopped) {
        a->text.len += bt_stop_flush(&a->stop, (char *)a->text.data + a->text.len);
        a->text.data[a->text.len] = 0;
    }
    bt_buf_done(&fresh);
    return e;
}

bt_text_span gw_text_stopped_by(const gw_text_answer *a)
{
    return (bt_text_span){a->stop.text[a->stop.found], a->stop.len[a->stop.found]};
}

bt_err gw_text_stop(gw_text_answer *a, int32_t id, bt_fault *fault)
{
    for (size_t i = 0; i < a->stop_ids; i++)
        if (a->stop_id[i] == id) a->stop.found = a->stop_at[i];
    const bt_err e = gw_text_finish(a, fault);
    a->is_stopped = true;
    return e;
}

void gw_text_end(gw_text_answer *a)
{
    bt_buf_done(&a->text);
    bt_buf_done(&a->said);
    bt_calls_done(&a->calls);
    *a = (gw_text_answer){0};
}
