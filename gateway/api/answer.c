/* The parts of answers that several dialects write. Key order is fixed by the order of the calls. */
#include "gateway/api/answer.h"
#include "base/hash.h"
#include "device/report.h"
#include "gateway/api/json.h"
#include "text/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reals carry nine significant digits: an f32 logit survives the trip, and a rate stays readable. */
enum { DUMP_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

bt_err gw_answer_add(bt_buf *out, json_t *j, const char *before, const char *behind)
{
    const size_t len = out->len;
    (void)bt_buf_str(out, before);
    bt_err e = gw_json_add(out, j, DUMP_FLAGS);
    if (e == BT_OK) e = bt_buf_str(out, behind);
    if (e < 0 && out->err < 0) e = out->err;
    if (e < 0) out->len = len;
    return e;
}

/* json_object_set_new frees the value when it fails; a NULL value counts as failure. */
json_t *gw_answer_with(json_t *object, const char *key, json_t *value)
{
    if (!object || json_object_set_new(object, key, value) == 0) {
        if (!object) json_decref(value);
        return object;
    }
    json_decref(object);
    return NULL;
}

const char *gw_answer_reason(gw_ending ending)
{
    return ending == GW_ENDING_LENGTH ? "length" : ending == GW_ENDING_CALLS ? "tool_calls" : "stop";
}

void gw_answer_call_id(char ret[GW_ANSWER_CALL_ID_CHARS + 1], const gw_answer *a, uint32_t index)
{
    static const char chars[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t h = bt_hash64(a->id, strlen(a->id)) + index;
    h = bt_hash64(&h, sizeof h);
    for (int i = 0; i < GW_ANSWER_CALL_ID_CHARS; i++, h /= sizeof chars - 1)
        ret[i] = chars[h % (sizeof chars - 1)];
    ret[GW_ANSWER_CALL_ID_CHARS] = 0;
}

bt_err gw_answer_keep(gw_answer *a, const bt_thoughts_part *s, size_t tokens)
{
    bt_buf *b = &a->kept[s->is_thought];
    const size_t n = gw_answer_runs(a), begin = b->len;
    gw_answer_run *last = n ? (gw_answer_run *)(void *)a->runs.data + (n - 1) : NULL;
    bt_err e = bt_buf_add(b, s->text.ptr, s->text.len);
    if (e < 0) return e;
    if (last && last->is_thought == s->is_thought) {
        last->end_bytes = b->len;
        last->end_tokens = tokens;
        return BT_OK;
    }
    const gw_answer_run next = {s->is_thought, begin, b->len, last ? last->end_tokens : 0, tokens};
    return bt_buf_add(&a->runs, &next, sizeof next);
}

size_t gw_answer_runs(const gw_answer *a) { return a->runs.len / sizeof(gw_answer_run); }

const gw_answer_run *gw_answer_run_at(const gw_answer *a, size_t i)
{
    return (const gw_answer_run *)(const void *)a->runs.data + i;
}

json_t *gw_answer_number(float x)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.6g", (double)x);
    return gw_json_number(strtod(text, NULL));
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

size_t gw_answer_computed(const gw_answer_report *r) { return r->prompt_tokens - r->cached_tokens; }

json_t *gw_answer_timings(const gw_answer_report *r)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "cache_n", count(r->cached_tokens), "prompt_n",
                     count(gw_answer_computed(r)), "prompt_ms",
                     r->has_prefill ? ms(r->prefill_us) : json_null(), "prompt_per_second",
                     r->has_prefill ? rate(gw_answer_computed(r), r->prefill_us) : json_null(), "predicted_n",
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
        r->has_prefill && w->rows ? json_real(1 - (double)gw_answer_computed(r) / (double)w->rows)
                                  : json_null(),
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
        return gw_answer_with(object, "device", gw_device_tell(&r->device));
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

json_t *gw_answer_baton(const gw_answer_report *r)
{
    char hex[BT_HASH_HEX_CHARS];
    json_t *j = json_pack(
        "{s:s%,s:o,s:o,s:o,s:o,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
        "text", r->text ? r->text : "", r->text_len, "token_ids", id_list(r->token_ids, r->completion_tokens),
        "prompt_ids", id_list(r->prompt_ids, r->prompt_tokens), "prompt_tokens", count(r->prompt_tokens),
        "completion_tokens", count(r->completion_tokens), "finish_reason", gw_answer_reason(r->ending),
        "max_tokens", count(r->bound.tokens), "max_tokens_from", r->bound.from, "ttft_ms",
        ms((uint64_t)r->ttft_us), "gateway_queue_ms", known_ms(r->gateway_queue_us), "reserve_ms",
        known_ms(r->reserve_us), "queue_ms", r->has_prefill ? ms(r->queue_us) : json_null(),
        "prefill_tokens_per_second",
        r->has_prefill ? rate(gw_answer_computed(r), r->prefill_us) : json_null(), "decode_tokens_per_second",
        r->has_decode ? rate(r->decode_steps, r->decode_us) : json_null(), "kv_bytes",
        r->has_kv ? count(r->kv_bytes) : json_null(), "kv_exposed_ms",
        r->has_kv ? ms(r->kv_exposed_us) : json_null(), "kv_transfer_ms",
        r->has_kv ? ms(r->kv_transfer_us) : json_null(), "kv_digest",
        has_digest(r) ? json_string(bt_hash_hex(hex, r->kv_digest.bytes)) : json_null(), "prefilled_by",
        words(r->prefilled_by), "attempts", count(r->attempts), "recoveries", count(r->recoveries),
        "cached_tokens", count(r->cached_tokens), "covered_tokens", count(r->covered_tokens), "first_logits",
        logit_list(r));
    return gw_answer_with(add_work(j, r), "warnings", warnings(r));
}
