/* See answers.h. */
#include "gateway/door/answers.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/door/live.h"
#include "gateway/door/reply.h"
#include "text/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* An answer for a thread to write, with copies of what the brain keeps for one step alone. */
struct gw_written {
    bt_aside_item item; /* first */
    gw_door *door;
    gw_live *live;
    gw_stats stats;
    bt_msg_engine engine;
    bt_msg_device prefill_device, decode_device;
    gw_answer_report report;
    bt_buf out;
};

static void fill_report(gw_answer_report *r, const gw_live *l, bt_finish reason, const gw_stats *s)
{
    *r = (gw_answer_report){
        .ending = l->text.is_stopped           ? GW_ENDING_STRING
                  : reason == BT_FINISH_LENGTH ? GW_ENDING_LENGTH
                                               : GW_ENDING_STOP,
        .stop = gw_text_stopped_by(&l->text),
        .bound = s->max_tokens < l->bound.tokens ? (gw_bound){s->max_tokens, "context", true} : l->bound,
        .prompt_ids = l->prompt_ids,
        .prompt_tokens = l->prompt_len,
        .token_ids = (const int32_t *)(const void *)l->ids.data,
        .completion_tokens = l->ids.len / sizeof(int32_t),
        .thought_tokens = l->text.thought_tokens,
        .total_us = s->total_us < 0 ? 0 : (uint64_t)s->total_us,
        .brings_bos = l->text.brings_bos,
        .text = bt_buf_text(&l->text.text),
        .text_len = l->text.text.len,
        .ttft_us = s->ttft_us < 0 ? 0 : s->ttft_us,
        .has_prefill = s->has_first,
        .gateway_queue_us = s->gateway_queue_us,
        .reserve_us = s->reserve_us,
        .queue_us = s->queue_us,
        .prefill_us = s->prefill_us,
        .chunks = &l->first.chunks,
        .has_decode = s->has_decode,
        .decode_us = s->decode_us,
        .decode_steps = s->decode_steps,
        .has_kv = s->has_kv,
        .kv_bytes = s->kv_bytes,
        .kv_exposed_us = s->kv_exposed_us,
        .kv_transfer_us = s->kv_transfer_us,
        .kv_digest = s->kv_digest,
        .work = s->work,
        .device = {.prefill_on = s->prefill_device, .decode_on = s->decode_device,
                   .prefill = s->device_prefill, .decode = s->device_decode, .prompt = s->device_prompt,
                   .first_ns = s->device_first_ns, .transfer_ns = s->device_transfer_ns,
                   .exposed_ns = s->device_exposed_ns, .prompt_tokens = l->prompt_len,
                   .answer_tokens = l->ids.len / sizeof(int32_t), .is_local = s->local != GW_LOCAL_NOT,
                   .has_host_prefill = s->has_first, .has_host_kv = s->has_kv,
                   .has_host_decode = s->has_decode, .host_prefill_us = s->prefill_us,
                   .host_exposed_us = s->kv_exposed_us, .host_decode_us = s->decode_us},
        .engine = s->engine,
        .seed = s->seed,
        .prefilled_by = s->prefilled_by,
        .attempts = s->attempts,
        .recoveries = s->recoveries,
        .cached_tokens = s->cached_tokens < l->prompt_len ? s->cached_tokens : 0,
        .covered_tokens = s->covered_tokens,
        .top_len = l->first.top_len,
    };
    memcpy(r->top_ids, l->first.top_ids, sizeof r->top_ids);
    memcpy(r->top_logits, l->first.top_logits, sizeof r->top_logits);
}

size_t gw_answers_weight(const gw_live *l)
{
    const size_t ids = l->ids.len / sizeof(int32_t);
    size_t weight = l->text.text.len / 16;
    if (!l->is_stream && l->logprobs.tok) weight += ids * (1 + l->top_logprobs) * 32;
    if (l->is_stream && l->logprobs.tok && l->head.runs.len) weight += ids * (1 + l->top_logprobs) * 96;
    if (l->is_baton || l->head.dialect->tells_prompt) weight += ids + l->prompt_len;
    return weight;
}

static int add_call(json_t **list, const bt_call *call)
{
    if (!*list) *list = json_array();
    return json_array_append_new(*list,
                                 json_pack("{s:s,s:s}", "name", call->name, "arguments", call->arguments));
}

/* Whole, or the last events of a stream. */
static bt_err write_last(bt_buf *out, gw_live *l, gw_answer_report *r)
{
    const gw_dialect *t = l->head.dialect;
    gw_answer *a = &l->head;
    bt_thoughts_part p;
    bt_call call;
    bt_err e = l->text.said.err;
    const bool calls = l->is_stream && l->text.calls.given > 0;
    a->now_us = bt_clock_wall_us();
    if (calls && r->ending != GW_ENDING_LENGTH) r->ending = GW_ENDING_CALLS;
    if (l->is_stream) return e < 0 ? e : t->end(out, a, r);
    json_t *logprobs = gw_logprobs_tell(&l->logprobs, &l->text, true);
    while (e == BT_OK && gw_text_next(&p, &call, &l->text, true)) {
        if (!call.name) e = gw_answer_keep(a, &p, gw_logprobs_within(&l->logprobs, l->text.thoughts.at));
        else if (add_call(&r->calls, &call) < 0) e = BT_ENOMEM;
    }
    if (l->text.said.err < 0) e = l->text.said.err;
    if (r->calls && r->ending != GW_ENDING_LENGTH) r->ending = GW_ENDING_CALLS;
    r->said = (bt_text_span){bt_buf_text(&a->kept[0]), a->kept[0].len};
    r->thoughts = (bt_text_span){bt_buf_text(&a->kept[1]), a->kept[1].len};
    if (e == BT_OK) e = t->whole(out, a, r, logprobs);
    else json_decref(logprobs);
    json_decref(r->calls);
    r->calls = NULL;
    return e;
}

/* A prompt whose text is too long is not told. */
static bt_err write_end(bt_buf *out, gw_live *l, gw_answer_report *r)
{
    bt_buf prompt;
    if (!l->head.dialect->tells_prompt) return write_last(out, l, r);
    if (gw_text_of_ids(&prompt, l->door->env.text, l->prompt_ids, l->prompt_len, NULL) == BT_OK)
        r->prompt = (bt_text_span){bt_buf_text(&prompt), prompt.len};
    const bt_err e = write_last(out, l, r);
    bt_buf_done(&prompt);
    return e;
}

/* ---- by a thread ---- */

static void run(bt_aside_item *item)
{
    gw_written *w = (gw_written *)item;
    bt_buf_init(&w->out, GW_DOOR_ANSWER_MAX_BYTES);
    if (write_end(&w->out, w->live, &w->report) < 0) w->out.err = BT_ENOMEM;
}

static void free_written(gw_written *w)
{
    gw_live_free(w->live);
    bt_buf_done(&w->out);
    free(w);
}

static void send_end(gw_door *d, gw_http_exchange *x, bool is_stream, bt_buf *out)
{
    gw_http_set_user(x, NULL);
    if (!is_stream) gw_reply_json(d, x, out);
    else if (out->err < 0 || bt_buf_add(gw_http_stream_buf(x), out->data, out->len) < 0) gw_http_abandon(x);
    else gw_http_end(x);
}

static void count_calls(gw_door *d, const gw_live *l)
{
    const bt_calls *c = &l->text.calls;
    gw_metrics_calls(d->env.metrics, c->given, c->unread, c->unknown);
    if (c->unknown == 0) return;
    char name[2 * sizeof c->unknown_name];
    bt_log(BT_LOG_WARN,
           "request %llu: the model calls a tool that the request does not have, '%s': given as text",
           (unsigned long long)l->number,
           bt_utf8_show(name, sizeof name, c->unknown_name, strlen(c->unknown_name)));
}

static void done(bt_aside_item *item)
{
    gw_written *w = (gw_written *)item;
    gw_turn *t = w->door->env.turn;
    const gw_turn_part before = gw_turn_go(t, GW_TURN_ANSWERS);
    gw_metrics_end_of_answer(w->door->env.metrics, true);
    count_calls(w->door, w->live);
    if (w->live->x) send_end(w->door, w->live->x, w->live->is_stream, &w->out);
    free_written(w);
    gw_turn_go(t, before);
}

void gw_answers_forget(gw_written *w)
{
    w->live->x = NULL;
    if (bt_aside_withdraw(w->door->env.aside, &w->item)) free_written(w);
}

static const bt_msg_device *copy_device(bt_msg_device *to, const bt_msg_device *from)
{
    if (from) *to = *from;
    return from ? to : NULL;
}

void gw_answers_begin(gw_written *w)
{
    gw_live *l = w->live;
    l->unsent = w;
    gw_live_take(w->door, l);
    bt_aside_add(w->door->env.aside, GW_LANE_ANSWERS, &w->item);
}

static gw_written *new_written(gw_door *d, gw_live *l, bt_finish reason, const gw_stats *stats)
{
    gw_written *w = malloc(sizeof *w);
    if (!w) return NULL;
    *w = (gw_written){.item = {.run = run, .done = done}, .door = d, .live = l, .stats = *stats};
    gw_stats *s = &w->stats;
    if (s->engine) w->engine = *s->engine;
    s->engine = s->engine ? &w->engine : NULL;
    s->prefill_device = copy_device(&w->prefill_device, s->prefill_device);
    s->decode_device = copy_device(&w->decode_device, s->decode_device);
    fill_report(&w->report, l, reason, s);
    return w;
}

gw_written *gw_answers_end(gw_door *d, gw_live *l, bt_finish reason, const gw_stats *stats)
{
    gw_answer_report r;
    bt_buf out;
    fill_report(&r, l, reason, stats);
    bt_log_request(BT_LOG_INFO, gw_http_id(l->x), "request %llu: done (%s), %zu tokens, first after %lld ms",
                   (unsigned long long)l->number, gw_answer_reason(r.ending), r.completion_tokens,
                   (long long)(r.ttft_us / 1000));
    if (l->is_stream && !gw_live_begin_stream(d, l)) return NULL;
    if (gw_answers_weight(l) > GW_ANSWERS_SHORT_WEIGHT || !gw_turn_has_time(d->env.turn)) {
        gw_written *w = new_written(d, l, reason, stats);
        if (w) return w;
    }
    bt_buf_init(&out, GW_DOOR_ANSWER_MAX_BYTES);
    if (write_end(&out, l, &r) < 0) out.err = BT_ENOMEM;
    gw_metrics_end_of_answer(d->env.metrics, false);
    count_calls(d, l);
    send_end(d, l->x, l->is_stream, &out);
    bt_buf_done(&out);
    return NULL;
}
