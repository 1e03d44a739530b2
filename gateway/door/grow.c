/* An answer from its first token to its last byte. */
#include "gateway/door/grow.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/door/live.h"
#include "gateway/door/reply.h"

#include <string.h>

static const char BAD[] = "invalid_request_error", SERVER[] = "server_error";

/* is_over: the text has ended, and no log probability is held back any longer. */
static void show_fresh_text(gw_door *d, gw_live *l, bool is_over)
{
    const size_t fresh = l->text.text.len - l->shown_bytes;
    if (!l->x || !l->is_stream || !gw_live_begin_stream(d, l)) return;
    if (fresh == 0 && !(is_over && gw_logprobs_waits(&l->logprobs, &l->text, true))) return;
    if (gw_answer_text(gw_http_stream_buf(l->x), &l->head, bt_buf_text(&l->text.text) + l->shown_bytes, fresh,
                       gw_logprobs_tell(&l->logprobs, &l->text, is_over)) < 0) {
        gw_live_give_up(l);
        return;
    }
    l->shown_bytes += fresh;
    l->wrote_us = bt_clock_us();
    gw_http_flush(l->x);
}

/* A node sent an id that its model does not have: the client is told, and the request is over for both
 * nodes. */
static void refuse_node(gw_door *d, gw_live *l, const bt_fault *fault)
{
    gw_openai_error err;
    l->is_broken = true;
    gw_live_want(l, true);
    if (!l->x) return;
    bt_log_request(BT_LOG_ERROR, gw_http_id(l->x), "request %llu: a node sent %s",
                   (unsigned long long)l->number, fault->text);
    (void)gw_openai_fail(&err, 502, SERVER, "node_failed", NULL, "A node sent what its model cannot say: %s",
                         fault->text);
    gw_http_set_user(l->x, NULL);
    if (!l->has_begun) gw_reply_error(d, l->x, &err, NULL);
    else if (gw_answer_error_event(gw_http_stream_buf(l->x), &err) < 0) gw_http_abandon(l->x);
    else gw_http_end(l->x);
    l->x = NULL;
}

void gw_grow_tokens(gw_door *d, gw_live *l, const gw_action *a)
{
    const int64_t now = bt_clock_us();
    bt_fault fault;
    if (l->is_broken) return;
    if (a->u.tokens.first_index > 0)
        gw_metrics_between_tokens(d->env.metrics, now - l->token_us, a->u.tokens.ids_len);
    l->token_us = now;
    for (uint32_t i = 0; i < a->u.tokens.ids_len; i++) {
        const int32_t id = a->u.tokens.ids[i];
        if (l->text.is_stopped) break;
        const size_t begin_bytes = gw_text_made(&l->text);
        bt_err e = bt_buf_add(&l->ids, &id, sizeof id);
        if (e == BT_OK) e = gw_text_push(&l->text, id, &fault);
        if (e == BT_OK && l->logprobs.tok && a->u.tokens.logprobs)
            e = gw_logprobs_push(&l->logprobs, &l->text, begin_bytes, id, &a->u.tokens.logprobs[i]);
        if (e < 0) {
            if (e == BT_EARG) refuse_node(d, l, &fault);
            else gw_live_give_up(l);
            return;
        }
    }
    if (l->text.is_stopped) gw_live_want(l, false);
    show_fresh_text(d, l, false);
}

static void fill_report(gw_answer_report *r, const gw_live *l, bt_finish reason, const gw_stats *s)
{
    *r = (gw_answer_report){
        .finish_reason = reason == BT_FINISH_LENGTH && !l->text.is_stopped ? "length" : "stop",
        .bound = s->max_tokens < l->bound.tokens ? (gw_openai_bound){s->max_tokens, "context"} : l->bound,
        .prompt_ids = l->prompt_ids,
        .prompt_tokens = l->prompt_len,
        .token_ids = (const int32_t *)(const void *)l->ids.data,
        .completion_tokens = l->ids.len / sizeof(int32_t),
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
                   .exposed_ns = s->device_exposed_ns, .is_local = s->local != GW_LOCAL_NOT,
                   .has_host_prefill = s->has_first, .has_host_kv = s->has_kv,
                   .has_host_decode = s->has_decode, .host_prefill_us = s->prefill_us,
                   .host_exposed_us = s->kv_exposed_us, .host_decode_us = s->decode_us},
        .engine = s->engine,
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

static void send_whole(gw_door *d, gw_live *l, const gw_answer_report *r)
{
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_answer_whole(&b, &l->head, r, gw_logprobs_tell(&l->logprobs, &l->text, true), l->is_baton) < 0)
        b.err = BT_ENOMEM;
    gw_reply_json(d, l->x, &b);
}

void gw_grow_done(gw_door *d, gw_live *l, bt_finish reason, const gw_stats *s)
{
    gw_answer_report r;
    bt_fault fault;
    gw_metrics_done(d->env.metrics, reason, s);
    if (!l->x) return;
    if (gw_text_finish(&l->text, &fault) < 0) {
        gw_live_give_up(l);
        return;
    }
    show_fresh_text(d, l, true);
    if (!l->x) return;
    fill_report(&r, l, reason, s);
    bt_log_request(BT_LOG_INFO, gw_http_id(l->x), "request %llu: done (%s), %zu tokens, first after %lld ms",
                   (unsigned long long)l->number, r.finish_reason, r.completion_tokens,
                   (long long)(r.ttft_us / 1000));
    gw_http_set_user(l->x, NULL);
    if (!l->is_stream) {
        send_whole(d, l, &r);
    } else if (!gw_live_begin_stream(d, l) ||
               gw_answer_end(gw_http_stream_buf(l->x), &l->head, &r, l->is_baton) < 0) {
        gw_live_give_up(l);
    } else {
        gw_http_end(l->x);
    }
}

static void fail_error(gw_openai_error *err, const gw_live *l, const gw_action *a)
{
    static const struct {
        int status;
        const char *type, *code;
    } kinds[] = {
        [GW_FAIL_NO_NODE] = {503, SERVER, "no_node"},
        [GW_FAIL_OVERLOADED] = {429, "rate_limit_error", "queue_full"},
        [GW_FAIL_NODE_LOST] = {502, SERVER, "node_lost"},
        [GW_FAIL_TIMEOUT] = {504, SERVER, "timeout"},
        [GW_FAIL_TOO_LONG] = {400, BAD, "context_length_exceeded"},
        [GW_FAIL_REFUSED] = {502, SERVER, "node_failed"},
        [GW_FAIL_CANCELLED] = {504, SERVER, "timeout"}, /* somebody listens, so it was our own deadline */
        [GW_FAIL_BAD] = {400, BAD, "invalid_value"},
        [GW_FAIL_NOT_FINITE] = {500, SERVER, "not_finite"},
    };
    const gw_fail_kind k = a->u.fail.kind;
    const char *param = k == GW_FAIL_TOO_LONG ? (l->head.is_chat ? "messages" : "prompt") : NULL;
    (void)gw_openai_fail(err, kinds[k].status, kinds[k].type, kinds[k].code, param, "%s",
                         l->is_late ? "The request took longer than --timeout allows." : a->u.fail.text);
    if (a->u.fail.retry_after_ms || k == GW_FAIL_OVERLOADED || k == GW_FAIL_NO_NODE)
        err->retry_after_s = a->u.fail.retry_after_ms / 1000 + 1;
}

void gw_grow_failed(gw_door *d, gw_live *l, const gw_action *a)
{
    gw_openai_error err;
    gw_metrics_failed(d->env.metrics, l->is_late ? GW_FAIL_TIMEOUT : a->u.fail.kind, &a->u.fail.stats);
    if (!l->x) return;
    fail_error(&err, l, a);
    gw_http_set_user(l->x, NULL);
    if (!l->has_begun) {
        gw_reply_error(d, l->x, &err, NULL);
        return;
    }
    bt_log_request(BT_LOG_WARN, gw_http_id(l->x), "request %llu failed in the middle of its stream: %s",
                   (unsigned long long)l->number, err.message);
    if (gw_answer_error_event(gw_http_stream_buf(l->x), &err) < 0) gw_http_abandon(l->x);
    else gw_http_end(l->x);
}
