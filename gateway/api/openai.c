/* OpenAI's chats and completions, with what llama.cpp's and vLLM's servers add to them. A stream is events,
 * "data: JSON" and an empty line each: the first delta of a chat carries the role, then one chunk for each
 * piece of text, one with the finish_reason, one with the usage where asked for, and "data: [DONE]".
 * Errors are {"error": {"message", "type", "param", "code"}}. */
#include "gateway/api/openai.h"
#include "gateway/api/messages.h"

#include <jansson.h>

static const char event[] = "data: ", event_end[] = "\n\n";

/* ---- requests ------------------------------------------------------------------------------------- */

static bt_err made(gw_reader *p, json_t *root)
{
    if (p->r.sampling.top_logprobs && !p->r.sampling.logprobs)
        return gw_error_say(p->err, 400, "invalid_value", "top_logprobs",
                            "'top_logprobs' is %u, which is only allowed when 'logprobs' is true.",
                            p->r.sampling.top_logprobs);
    if (p->r.has_usage_chunk && !p->r.is_stream)
        return gw_error_say(p->err, 400, "invalid_value", "stream_options",
                            "'stream_options' is only allowed when 'stream' is true.");
    return gw_messages_pass(p, root);
}

/* ---- answers -------------------------------------------------------------------------------------- */

static json_t *usage(const gw_answer_report *r)
{
    return json_pack("{s:I,s:I,s:I,s:{s:I}}", "prompt_tokens", (json_int_t)r->prompt_tokens,
                     "completion_tokens", (json_int_t)r->completion_tokens, "total_tokens",
                     (json_int_t)(r->prompt_tokens + r->completion_tokens), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->cached_tokens);
}

static json_t *with_report(json_t *object, const gw_answer *a, const gw_answer_report *r)
{
    object = gw_answer_with(object, "timings", gw_answer_timings(r));
    return a->is_baton ? gw_answer_with(object, "baton", gw_answer_baton(r)) : object;
}

static json_t *envelope(const gw_answer *a, const char *object, json_t *choices)
{
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", a->id, "object", object, "created",
                     (json_int_t)(a->created_us / 1000000), "model", a->model, "choices", choices);
}

/* Both names that clients know. */
static json_t *with_thoughts(json_t *message, bt_text_span s)
{
    message = gw_answer_with(message, "reasoning_content", json_stringn(s.ptr, s.len));
    return gw_answer_with(message, "reasoning", json_stringn(s.ptr, s.len));
}

static bt_err add_whole(bt_buf *out, const gw_answer *a, const char *object, json_t *choice,
                        const gw_answer_report *r)
{
    json_t *j = envelope(a, object, json_pack("[o]", choice));
    return gw_answer_add(out, with_report(gw_answer_with(j, "usage", usage(r)), a, r), "", "");
}

static json_t *calls_of(const gw_answer *a, const json_t *calls)
{
    json_t *ret = json_array();
    size_t i;
    const json_t *c;
    char id[GW_ANSWER_CALL_ID_CHARS + 1];
    json_array_foreach(calls, i, c) {
        gw_answer_call_id(id, a, (uint32_t)i);
        if (json_array_append_new(ret, json_pack("{s:s,s:s,s:O}", "id", id, "type", "function", "function",
                                                 c)) == 0)
            continue;
        json_decref(ret);
        return NULL;
    }
    return ret;
}

static bt_err chat_whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    json_t *message = r->calls && r->said.len == 0
                          ? json_pack("{s:s,s:n}", "role", "assistant", "content")
                          : json_pack("{s:s,s:s%}", "role", "assistant", "content", r->said.ptr, r->said.len);
    if (r->thoughts.len > 0) message = with_thoughts(message, r->thoughts);
    if (r->calls) message = gw_answer_with(message, "tool_calls", calls_of(a, r->calls));
    return add_whole(out, a, "chat.completion",
                     json_pack("{s:i,s:o,s:o,s:s}", "index", 0, "message", message, "logprobs", logprobs,
                               "finish_reason", gw_answer_reason(r->ending)),
                     r);
}

static bt_err text_whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    return add_whole(out, a, "text_completion",
                     json_pack("{s:i,s:s%,s:o,s:s}", "index", 0, "text", r->said.ptr, r->said.len, "logprobs",
                               logprobs, "finish_reason", gw_answer_reason(r->ending)),
                     r);
}

/* ---- streams -------------------------------------------------------------------------------------- */

static const char chat_chunk[] = "chat.completion.chunk", text_chunk[] = "text_completion";

/* One chunk; choices is a new reference. With a usage chunk to come, every other chunk says "usage": null. */
static json_t *chunk(const gw_answer *a, const char *object, json_t *choices)
{
    json_t *j = envelope(a, object, choices);
    return a->has_usage_chunk ? gw_answer_with(j, "usage", json_null()) : j;
}

static bt_err chat_begin(bt_buf *out, gw_answer *a)
{
    json_t *choices = json_pack("[{s:i,s:{s:s,s:s},s:n,s:n}]", "index", 0, "delta", "role", "assistant",
                                "content", "", "logprobs", "finish_reason");
    return gw_answer_add(out, chunk(a, chat_chunk, choices), event, event_end);
}

static bt_err text_begin(bt_buf *out, gw_answer *a)
{
    (void)out;
    (void)a;
    return BT_OK;
}

static bt_err chat_part(bt_buf *out, gw_answer *a, const bt_thoughts_part *part, json_t *logprobs)
{
    const bt_text_span s = part->text;
    json_t *delta =
        part->is_thought ? with_thoughts(json_object(), s) : json_pack("{s:s%}", "content", s.ptr, s.len);
    json_t *choices =
        json_pack("[{s:i,s:o,s:o,s:n}]", "index", 0, "delta", delta, "logprobs", logprobs, "finish_reason");
    return gw_answer_add(out, chunk(a, chat_chunk, choices), event, event_end);
}

static bt_err add_call(bt_buf *out, const gw_answer *a, json_t *call)
{
    json_t *choices = json_pack("[{s:i,s:{s:[o]},s:n,s:n}]", "index", 0, "delta", "tool_calls", call,
                                "logprobs", "finish_reason");
    return gw_answer_add(out, chunk(a, chat_chunk, choices), event, event_end);
}

/* Two deltas: whose call it is, and its arguments. */
static bt_err chat_call(bt_buf *out, gw_answer *a, const bt_call *call)
{
    const size_t before = out->len;
    const int index = (int)call->index;
    char id[GW_ANSWER_CALL_ID_CHARS + 1];
    gw_answer_call_id(id, a, call->index);
    bt_err e = add_call(out, a,
                        json_pack("{s:i,s:s,s:s,s:{s:s,s:s}}", "index", index, "id", id, "type", "function",
                                  "function", "name", call->name, "arguments", ""));
    if (e == BT_OK)
        e = add_call(out, a,
                     json_pack("{s:i,s:{s:s}}", "index", index, "function", "arguments", call->arguments));
    if (e < 0) out->len = before;
    return e;
}

static bt_err text_part(bt_buf *out, gw_answer *a, const bt_thoughts_part *part, json_t *logprobs)
{
    json_t *choices = json_pack("[{s:i,s:s%,s:o,s:n}]", "index", 0, "text", part->text.ptr, part->text.len,
                                "logprobs", logprobs, "finish_reason");
    return gw_answer_add(out, chunk(a, text_chunk, choices), event, event_end);
}

/* The last chunk, which is the usage chunk where asked for, carries `timings` and `baton`. */
static bt_err add_end(bt_buf *out, const gw_answer *a, const char *object, json_t *choices,
                      const gw_answer_report *r)
{
    const size_t before = out->len;
    json_t *j = chunk(a, object, choices);
    bt_err e = gw_answer_add(out, a->has_usage_chunk ? j : with_report(j, a, r), event, event_end);
    if (e == BT_OK && a->has_usage_chunk) {
        j = gw_answer_with(chunk(a, object, json_array()), "usage", usage(r));
        e = gw_answer_add(out, with_report(j, a, r), event, event_end);
    }
    if (e == BT_OK) e = bt_buf_str(out, "data: [DONE]\n\n");
    if (e < 0) out->len = before;
    return e;
}

static bt_err chat_end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    return add_end(out, a, chat_chunk,
                   json_pack("[{s:i,s:{},s:n,s:s}]", "index", 0, "delta", "logprobs", "finish_reason",
                             gw_answer_reason(r->ending)),
                   r);
}

static bt_err text_end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    return add_end(out, a, text_chunk,
                   json_pack("[{s:i,s:s,s:n,s:s}]", "index", 0, "text", "", "logprobs", "finish_reason",
                             gw_answer_reason(r->ending)),
                   r);
}

bt_err gw_openai_comment(bt_buf *out, gw_answer *a)
{
    (void)a;
    return bt_buf_str(out, ": keep-alive\n\n");
}

/* ---- errors --------------------------------------------------------------------------------------- */

const gw_error_kind gw_openai_kinds[] = {
    {429, 429, "rate_limit_error"},
    {400, 499, "invalid_request_error"},
    {505, 505, "invalid_request_error"},
    {500, 599, "server_error"},
};

json_t *gw_openai_error(const gw_error *err, const char *type)
{
    return json_pack("{s:{s:s,s:s,s:s?,s:s?}}", "error", "message", err->message, "type", type, "param",
                     *err->param ? err->param : NULL, "code", err->code);
}

/* ---- the dialects --------------------------------------------------------------------------------- */

static const gw_fields none;

const gw_dialect gw_dialect_chat = {
    .name = "chat",
    .request = "ChatRequest",
    .prompt = "messages",
    .where = GW_FIELD_CHAT,
    .own = &none,
    .is_chat = true,
    .made = made,
    .id = "chatcmpl-",
    .logprobs = GW_LOGPROBS_CHAT,
    .stream_type = gw_dialect_events,
    .begin = chat_begin,
    .part = chat_part,
    .call = chat_call,
    .end = chat_end,
    .alive = gw_openai_comment,
    .whole = chat_whole,
    .error_schema = "Error",
    .kinds = gw_openai_kinds,
    .error = gw_openai_error,
    .error_event = event,
    .error_end = event_end,
};

const gw_dialect gw_dialect_text = {
    .name = "completion",
    .request = "TextRequest",
    .prompt = "prompt",
    .where = GW_FIELD_TEXT,
    .own = &none,
    .default_tokens = GW_ASK_DEFAULT_COMPLETION_TOKENS,
    .made = made,
    .id = "cmpl-",
    .logprobs = GW_LOGPROBS_TEXT,
    .stream_type = gw_dialect_events,
    .begin = text_begin,
    .part = text_part,
    .end = text_end,
    .alive = gw_openai_comment,
    .whole = text_whole,
    .error_schema = "Error",
    .kinds = gw_openai_kinds,
    .error = gw_openai_error,
    .error_event = event,
    .error_end = event_end,
};
