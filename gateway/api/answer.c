/* Writes the JSON of answers. Key order is fixed by the order of the calls. */
#include "gateway/api/answer.h"
#include "base/hash.h"
#include "device/report.h"
#include "gateway/api/json.h"
#include "text/utf8.h"

#include <jansson.h>
#include <string.h>

/* Reals carry nine significant digits: an f32 logit survives the trip, and a rate stays readable. */
enum { DUMP_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

/* Takes ownership of j (NULL: a part of it could not be made). All or nothing reaches out. */
static bt_err add_json(bt_buf *out, json_t *j, bool is_event)
{
    const size_t before = out->len;
    if (is_event) (void)bt_buf_str(out, "data: ");
    bt_err e = gw_json_add(out, j, DUMP_FLAGS);
    if (e == BT_OK && is_event) e = bt_buf_str(out, "\n\n");
    if (e < 0 && out->err < 0) e = out->err;
    if (e < 0) out->len = before;
    return e;
}

/* A rate a second, or null where nothing was timed. */
static json_t *rate(uint64_t count, uint64_t us)
{
    return us ? json_real((double)count * 1e6 / (double)us) : json_null();
}
static json_t *ms(uint64_t us) { return json_real((double)us / 1e3); }
static json_t *known_ms(int64_t us) { return us < 0 ? json_null() : ms((uint64_t)us); }
static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *id_list(const int32_t *ids, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++)
        if (json_array_append_new(a, json_integer(ids[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *logit_list(const gw_answer_report *r)
{
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < r->top_len; i++)
        if (json_array_append_new(a, json_pack("[i,f]", (int)r->top_ids[i], (double)r->top_logits[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *usage(const gw_answer_report *r)
{
    return json_pack("{s:I,s:I,s:I,s:{s:I}}", "prompt_tokens", (json_int_t)r->prompt_tokens,
                     "completion_tokens", (json_int_t)r->completion_tokens, "total_tokens",
                     (json_int_t)(r->prompt_tokens + r->completion_tokens), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->cached_tokens);
}

/* Tokens of the prompt that the node that made token 0 computed. */
static size_t computed_tokens(const gw_answer_report *r) { return r->prompt_tokens - r->cached_tokens; }

/* The object that llama.cpp's server gives, for the tools that read it. */
static json_t *timings(const gw_answer_report *r)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "cache_n", count(r->cached_tokens), "prompt_n",
                     count(computed_tokens(r)), "prompt_ms", r->has_prefill ? ms(r->prefill_us) : json_null(),
                     "prompt_per_second",
                     r->has_prefill ? rate(computed_tokens(r), r->prefill_us) : json_null(), "predicted_n",
                     count(r->completion_tokens), "predicted_ms",
                     r->has_decode ? ms(r->decode_us) : json_null(), "predicted_per_second",
                     r->has_decode ? rate(r->decode_steps, r->decode_us) : json_null());
}

/* A node's words may be any bytes; JSON takes only UTF-8. Empty words are unknown. */
static json_t *words(const char *text)
{
    char shown[BT_MSG_MAX_TEXT_BYTES + 1];
    return text && text[0] ? json_string(bt_utf8_show(shown, sizeof shown, text, strlen(text))) : json_null();
}

static json_t *fallbacks(const bt_msg_engine *g)
{
    json_t *a = json_array();
    for (uint32_t i = 0; a && g && i < g->fallbacks_len; i++) {
        const bt_msg_fallback *f = &g->fallbacks[i];
        if (json_array_append_new(a, json_pack("{s:o,s:o,s:o}", "op", words(f->op), "count", count(f->count),
                                               "why", words(f->why))) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

/* A share of the prompt's multiply-accumulates. */
static json_t *share(const gw_answer_report *r, uint64_t macs)
{
    const double all = (double)r->work.npu_macs + (double)r->work.companion_macs;
    return r->has_prefill && all > 0 ? json_real((double)macs / all) : json_null();
}

/* json_object_set_new frees the value when it fails; a NULL value counts as failure. */
static json_t *with(json_t *object, const char *key, json_t *value)
{
    if (!object || json_object_set_new(object, key, value) == 0) {
        if (!object) json_decref(value);
        return object;
    }
    json_decref(object);
    return NULL;
}

/* When the prompt's chunks were computed, from the begin of the first. */
static json_t *chunks(const gw_answer_report *r)
{
    if (!r->has_prefill || !r->chunks || !r->chunks->len) return json_null();
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < r->chunks->len; i++)
        if (json_array_append_new(a, json_pack("{s:o,s:o,s:o,s:o}", "tokens", count(r->chunks->at[i].tokens),
                                               "begin_ms", ms(r->chunks->at[i].begin_us), "end_ms",
                                               ms(r->chunks->at[i].end_us), "chunks",
                                               count(r->chunks->at[i].chunks))) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

/* The prefill node's engine, and the work of this prompt there. */
static json_t *add_work(json_t *object, const gw_answer_report *r)
{
    const bt_msg_engine *g = r->engine;
    const bt_msg_work *w = &r->work;
    const uint64_t macs = w->npu_macs + w->companion_macs;
    const double expert_padding = bt_report_expert_padding(w->expert_rows, w->expert_padding_rows);
    json_t *more = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "engine",
        words(g ? g->name : NULL), "quant", words(g ? g->quant : NULL), "shape_policy",
        words(g ? g->shape_policy : NULL), "profile", words(g ? g->profile : NULL), "npu_mac_ratio",
        share(r, w->npu_macs), "npu_int8_mac_ratio",
        share(r, w->npu_macs - w->npu_int16_macs - w->npu_float_macs), "npu_int16_mac_ratio",
        share(r, w->npu_int16_macs), "npu_float_mac_ratio", share(r, w->npu_float_macs), "padding_ratio",
        r->has_prefill && w->rows ? json_real(1 - (double)computed_tokens(r) / (double)w->rows) : json_null(),
        "fallbacks", fallbacks(g), "compilations", r->has_prefill ? count(w->compilations) : json_null(),
        "masked_mac_ratio",
        r->has_prefill && macs ? json_real((double)w->masked_macs / ((double)macs + (double)w->masked_macs))
                               : json_null(),
        "expert_padding_ratio",
        r->has_prefill && expert_padding >= 0 ? json_real(expert_padding) : json_null(), "session_switches",
        r->has_prefill ? count(w->session_switches) : json_null(), "session_switch_ms",
        r->has_prefill ? json_real((double)w->session_switch_ns / 1e6) : json_null(), "tile_padding_macs",
        r->has_prefill ? count(w->tile_padding_macs) : json_null(), "chunks", chunks(r));
    if (object && more && json_object_update_new(object, more) == 0)
        return with(object, "device", gw_device_tell(&r->device));
    if (!object) json_decref(more);
    json_decref(object);
    return NULL;
}

static json_t *warnings(const gw_answer_report *r)
{
    static const char own_bos[] =
        "the prompt begins with the BOS token that the model's file asks for; no second one was added";
    return r->brings_bos ? json_pack("[s]", own_bos) : json_array();
}

static bool has_digest(const gw_answer_report *r)
{
    static const bt_digest16 none;
    return r->has_kv && memcmp(&r->kv_digest, &none, sizeof none) != 0;
}

static json_t *baton(const gw_answer_report *r)
{
    char hex[BT_HASH_HEX_CHARS];
    json_t *j = json_pack(
        "{s:s%,s:o,s:o,s:o,s:o,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
        "text", r->text ? r->text : "", r->text_len, "token_ids", id_list(r->token_ids, r->completion_tokens),
        "prompt_ids", id_list(r->prompt_ids, r->prompt_tokens), "prompt_tokens", count(r->prompt_tokens),
        "completion_tokens", count(r->completion_tokens), "finish_reason", r->finish_reason, "max_tokens",
        count(r->bound.tokens), "max_tokens_from", r->bound.from, "ttft_ms", ms((uint64_t)r->ttft_us),
        "gateway_queue_ms", known_ms(r->gateway_queue_us), "reserve_ms", known_ms(r->reserve_us), "queue_ms",
        r->has_prefill ? ms(r->queue_us) : json_null(), "prefill_tokens_per_second",
        r->has_prefill ? rate(computed_tokens(r), r->prefill_us) : json_null(), "decode_tokens_per_second",
        r->has_decode ? rate(r->decode_steps, r->decode_us) : json_null(), "kv_bytes",
        r->has_kv ? count(r->kv_bytes) : json_null(), "kv_exposed_ms",
        r->has_kv ? ms(r->kv_exposed_us) : json_null(), "kv_transfer_ms",
        r->has_kv ? ms(r->kv_transfer_us) : json_null(), "kv_digest",
        has_digest(r) ? json_string(bt_hash_hex(hex, r->kv_digest.bytes)) : json_null(), "prefilled_by",
        words(r->prefilled_by), "attempts", count(r->attempts), "recoveries", count(r->recoveries),
        "cached_tokens", count(r->cached_tokens), "covered_tokens", count(r->covered_tokens), "first_logits",
        logit_list(r));
    return with(add_work(j, r), "warnings", warnings(r));
}

static json_t *with_report(json_t *object, const gw_answer_report *r, bool is_baton)
{
    object = with(object, "timings", timings(r));
    return is_baton ? with(object, "baton", baton(r)) : object;
}

static json_t *envelope(const gw_answer_head *h, const char *object, json_t *choices)
{
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", h->id, "object", object, "created",
                     (json_int_t)h->created_s, "model", h->model, "choices", choices);
}

/* Both names that clients know. */
static json_t *with_thoughts(json_t *message, bt_text_span s)
{
    message = with(message, "reasoning_content", json_stringn(s.ptr, s.len));
    return with(message, "reasoning", json_stringn(s.ptr, s.len));
}

bt_err gw_answer_whole(bt_buf *out, const gw_answer_head *h, const gw_answer_report *r, bt_text_span said,
                       bt_text_span thoughts, json_t *logprobs, bool is_baton)
{
    json_t *message = NULL;
    if (h->is_chat) {
        message = json_pack("{s:s,s:s%}", "role", "assistant", "content", said.ptr, said.len);
        if (thoughts.len > 0) message = with_thoughts(message, thoughts);
    }
    json_t *choice = h->is_chat ? json_pack("{s:i,s:o,s:o,s:s}", "index", 0, "message", message, "logprobs",
                                            logprobs, "finish_reason", r->finish_reason)
                                : json_pack("{s:i,s:s%,s:o,s:s}", "index", 0, "text", said.ptr, said.len,
                                            "logprobs", logprobs, "finish_reason", r->finish_reason);
    json_t *j = envelope(h, h->is_chat ? "chat.completion" : "text_completion", json_pack("[o]", choice));
    return add_json(out, with_report(with(j, "usage", usage(r)), r, is_baton), false);
}

/* One chunk; choices is a new reference. With a usage chunk to come, every other chunk says "usage": null. */
static json_t *chunk(const gw_answer_head *h, json_t *choices)
{
    json_t *j = envelope(h, h->is_chat ? "chat.completion.chunk" : "text_completion", choices);
    return h->has_usage_chunk ? with(j, "usage", json_null()) : j;
}

bt_err gw_answer_role(bt_buf *out, const gw_answer_head *h)
{
    if (!h->is_chat) return BT_OK;
    return add_json(out,
                    chunk(h, json_pack("[{s:i,s:{s:s,s:s},s:n,s:n}]", "index", 0, "delta", "role",
                                       "assistant", "content", "", "logprobs", "finish_reason")),
                    true);
}

bt_err gw_answer_text(bt_buf *out, const gw_answer_head *h, const bt_thoughts_part *part, json_t *logprobs)
{
    const bt_text_span s = part->text;
    json_t *delta = !h->is_chat        ? NULL
                    : part->is_thought ? with_thoughts(json_object(), s)
                                       : json_pack("{s:s%}", "content", s.ptr, s.len);
    json_t *choices = h->is_chat ? json_pack("[{s:i,s:o,s:o,s:n}]", "index", 0, "delta", delta, "logprobs",
                                             logprobs, "finish_reason")
                                 : json_pack("[{s:i,s:s%,s:o,s:n}]", "index", 0, "text", s.ptr, s.len,
                                             "logprobs", logprobs, "finish_reason");
    return add_json(out, chunk(h, choices), true);
}

bt_err gw_answer_end(bt_buf *out, const gw_answer_head *h, const gw_answer_report *r, bool is_baton)
{
    const size_t before = out->len;
    json_t *choices = h->is_chat ? json_pack("[{s:i,s:{},s:n,s:s}]", "index", 0, "delta", "logprobs",
                                             "finish_reason", r->finish_reason)
                                 : json_pack("[{s:i,s:s,s:n,s:s}]", "index", 0, "text", "", "logprobs",
                                             "finish_reason", r->finish_reason);
    json_t *j = chunk(h, choices);
    bt_err e = add_json(out, h->has_usage_chunk ? j : with_report(j, r, is_baton), true);
    if (e == BT_OK && h->has_usage_chunk) {
        j = with(chunk(h, json_array()), "usage", usage(r));
        e = add_json(out, with_report(j, r, is_baton), true);
    }
    if (e == BT_OK) e = bt_buf_str(out, "data: [DONE]\n\n");
    if (e < 0) out->len = before;
    return e;
}

static json_t *error_object(const gw_openai_error *err)
{
    return json_pack("{s:{s:s,s:s,s:s?,s:s?}}", "error", "message", err->message, "type", err->type, "param",
                     *err->param ? err->param : NULL, "code", err->code);
}

bt_err gw_answer_error(bt_buf *out, const gw_openai_error *err)
{
    return add_json(out, error_object(err), false);
}
bt_err gw_answer_error_event(bt_buf *out, const gw_openai_error *err)
{
    return add_json(out, error_object(err), true);
}

static json_t *model(const char *name, int64_t created_s)
{
    return json_pack("{s:s,s:s,s:I,s:s}", "id", name, "object", "model", "created", (json_int_t)created_s,
                     "owned_by", "baton");
}

bt_err gw_answer_models(bt_buf *out, const char *const *names, size_t names_len, int64_t created_s)
{
    json_t *data = json_array();
    for (size_t i = 0; data && i < names_len; i++)
        if (json_array_append_new(data, model(names[i], created_s)) < 0) {
            json_decref(data);
            data = NULL;
        }
    return add_json(out, json_pack("{s:s,s:o}", "object", "list", "data", data), false);
}

bt_err gw_answer_model(bt_buf *out, const char *name, int64_t created_s)
{
    return add_json(out, model(name, created_s), false);
}
