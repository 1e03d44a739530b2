/* A request's record in a capture: everything that the gateway knows about the request at its end. */
#include "gateway/door/capture.h"

static const bt_trace_outcome failures[] = {
    [GW_FAIL_NO_NODE] = BT_TRACE_NO_NODE,       [GW_FAIL_OVERLOADED] = BT_TRACE_OVERLOADED,
    [GW_FAIL_NODE_LOST] = BT_TRACE_NODE_LOST,   [GW_FAIL_TIMEOUT] = BT_TRACE_TIMEOUT,
    [GW_FAIL_TOO_LONG] = BT_TRACE_TOO_LONG,     [GW_FAIL_REFUSED] = BT_TRACE_REFUSED,
    [GW_FAIL_CANCELLED] = BT_TRACE_CANCELLED,   [GW_FAIL_BAD] = BT_TRACE_BAD,
    [GW_FAIL_NOT_FINITE] = BT_TRACE_NOT_FINITE, [GW_FAIL_UNKNOWN_NODE] = BT_TRACE_BAD,
};

void gw_capture_begin(gw_live *l, const bt_sampling *s)
{
    l->sampling = (bt_trace_sampling){.temperature = s->temperature,
                                      .top_p = s->top_p,
                                      .min_p = s->min_p,
                                      .repeat_penalty = s->repetition_penalty,
                                      .presence_penalty = s->presence_penalty,
                                      .frequency_penalty = s->frequency_penalty,
                                      .top_k = s->top_k,
                                      .bias_len = s->bias_len};
}

static bt_trace_outcome outcome_of(const gw_live *l, const gw_action *a)
{
    if (a->type == GW_DO_FAIL) return l->is_late ? BT_TRACE_TIMEOUT : failures[a->u.fail.kind];
    return a->u.done.reason == BT_FINISH_LENGTH && !l->text.is_stopped ? BT_TRACE_LENGTH : BT_TRACE_STOP;
}

void gw_capture_end(gw_door *d, const gw_live *l, const gw_action *a)
{
    const gw_stats *s = a->type == GW_DO_FAIL ? &a->u.fail.stats : &a->u.done.stats;
    const bool moved = s->has_kv && s->local == GW_LOCAL_NOT; /* a local prefill hands nothing over */
    if (!d->env.capture) return;
    bt_trace_captured c = {
        .outcome = outcome_of(l, a),
        .is_chat = l->is_chat,
        .is_stream = l->is_stream,
        .max_tokens = s->max_tokens ? s->max_tokens : l->bound.tokens,
        .attempts = s->attempts,
        .cached_tokens = s->cached_tokens,
        .covered_tokens = s->covered_tokens,
        .time_us = {[BT_TRACE_QUEUE] = s->gateway_queue_us,
                    [BT_TRACE_TTFT] = s->ttft_us,
                    [BT_TRACE_TOTAL] = s->total_us,
                    [BT_TRACE_PREFILL] = s->has_first ? (int64_t)s->prefill_us : -1,
                    [BT_TRACE_DECODE] = s->has_decode ? (int64_t)s->decode_us : -1,
                    [BT_TRACE_TRANSFER] = moved ? (int64_t)s->kv_transfer_us : -1,
                    [BT_TRACE_EXPOSED] = moved ? (int64_t)s->kv_exposed_us : -1,
                    [BT_TRACE_RESERVE] = s->reserve_us},
        .sampling = l->sampling,
        .prompt_ids = l->prompt_ids,
        .prompt_len = l->prompt_len,
        .answer_ids = (const int32_t *)(const void *)l->ids.data,
        .answer_len = l->ids.len / sizeof(int32_t),
        .text = bt_buf_text(&l->text.text),
        .text_bytes = l->text.text.len,
    };
    c.sampling.seed = s->seed;
    bt_capture_add(d->env.capture,
                   &(bt_trace_row){.arrival_us = l->arrived_us, .input_tokens = (uint32_t)l->prompt_len,
                                   .output_tokens = (uint32_t)c.answer_len,
                                   .key = l->key ? l->key->facts.name : NULL, .captured = &c});
}
