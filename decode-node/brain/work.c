/* Decides what the worker's events do to a sequence. */
#include "decode-node/brain/brain_inner.h"

#include <string.h>

/* In the worker, or on its way out of it. */
static dc_record *in_work(dc_brain *b, uint32_t slot)
{
    dc_record *r = dc_by_slot(b, slot);
    b->worked_us = b->quiet_us = b->now_us;
    if (r && (r->a->state == DC_RUNNING || r->a->state == DC_PREEMPTING)) return r;
    b->n.unexpected += !r || r->a->state != BT_ATTEMPT_STOPPING;
    return NULL;
}

/* Other sequences wait for a long step as well: a piece of a prompt stands before their tokens. */
void dc_work_alive(dc_brain *b)
{
    if (!dc_is_quiet(b, b->now_us)) return;
    b->worked_us = b->quiet_us = b->now_us;
    for (dc_record *r = NULL; (r = dc_next(b, r));) {
        if (r->a->state != DC_RUNNING) continue;
        (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_PREFILL_ACCEPTED);
        r->alive_us = b->now_us;
    }
}

void dc_work_first(dc_brain *b, const dc_event *ev)
{
    const bt_msg_first_token *f = ev->u.first.msg;
    dc_record *r = in_work(b, ev->u.first.slot);
    if (!r) return;
    r->is_behind = false;
    if (r->ids_len > 0 && r->ids[0] != f->token) {
        dc_preempt_give_up(b, r, BT_EIO, "the prompt, prefilled again, has another first token");
        return;
    }
    dc_attempt_complete_prompt(b, r);
    if (r->ids_len == 0) {
        r->ids[r->ids_len++] = f->token;
        r->acked = 1; /* FIRST_TOKEN brings it, not TOKENS */
        b->n.tokens++;
    }
    dc_memory_forward(b, r); /* the digest is made */
    if (!r->wish.is_local || r->first_told || r->wish.generated_len > 0) {
        bt_msg_device_work_add(&r->device, &f->device); /* computed again: no FIRST_TOKEN will carry it */
        return;
    }
    r->first = *f;
    r->first.cached_tokens = r->covered_tokens;
    r->kv_digest = ev->u.first.kv_digest;
    r->first_told = r->owes_first = r->owes_done = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
    dc_attempt_say_first(b, r);
}

/* The record, where these are its next tokens: the first one arrives now. */
static dc_record *next_tokens(dc_brain *b, uint32_t slot, uint32_t index, uint32_t len)
{
    dc_record *r = in_work(b, slot);
    if (!r) return NULL;
    if (index != r->ids_len || len > r->wish.max_tokens - r->ids_len) {
        b->n.unexpected++;
        return NULL;
    }
    r->is_behind = false;
    dc_attempt_complete_prompt(b, r); /* no FIRST came where token 0 was known before */
    return r;
}

static void add_tokens(dc_brain *b, dc_record *r, const int32_t *ids, uint32_t len)
{
    const uint32_t index = r->ids_len;
    memcpy(r->ids + index, ids, len * sizeof *ids); /* NOLINT(clang-analyzer-unix.Malloc): dc_attempt_reap
                                                       empties the record whose ids it frees */
    r->ids_len += len;
    b->n.tokens += len;
    if (r->acked == index) r->resend_us = b->now_us + b->cfg.resend_us;
    dc_attempt_say_tokens(b, r, index);
}

void dc_work_token(dc_brain *b, const dc_event *ev)
{
    dc_record *r = next_tokens(b, ev->u.token.slot, ev->u.token.index, 1);
    if (!r) return;
    if (r->logprobs && ev->u.token.logprob) r->logprobs[r->ids_len] = *ev->u.token.logprob;
    if (ev->u.token.device) bt_msg_device_work_add(&r->device, ev->u.token.device);
    add_tokens(b, r, &ev->u.token.id, 1);
}

void dc_work_tokens(dc_brain *b, const dc_event *ev)
{
    dc_record *r = next_tokens(b, ev->u.tokens.slot, ev->u.tokens.index, ev->u.tokens.len);
    if (r) add_tokens(b, r, ev->u.tokens.ids, ev->u.tokens.len);
}

void dc_work_need(dc_brain *b, uint32_t slot, uint32_t tokens)
{
    dc_record *r = dc_by_slot(b, slot);
    const uint64_t most = r ? (uint64_t)r->wish.prompt_tokens + r->wish.max_tokens : 0;
    if (!r || r->a->state != DC_RUNNING || tokens == 0 || tokens > most) {
        b->n.unexpected += !r || (r->a->state != BT_ATTEMPT_STOPPING && r->a->state != DC_PREEMPTING);
        return;
    }
    if (r->need_tokens == 0) r->want_us = b->now_us;
    r->need_tokens = tokens;
}

void dc_work_ended(dc_brain *b, const dc_event *ev)
{
    dc_record *r = dc_by_slot(b, ev->u.ended.slot);
    if (r && r->a->state == BT_ATTEMPT_STOPPING && !r->recv.placing) {
        dc_attempt_stopped(b, r);
        return;
    }
    if (!(r = in_work(b, ev->u.ended.slot))) return;
    if (r->gives_up) {
        dc_attempt_fail(b, r, (bt_err)r->failed.code, r->failed.text);
    } else if (ev->u.ended.reason == BT_FINISH_ERROR) {
        char text[sizeof ev->u.ended.text];
        memcpy(text, ev->u.ended.text, sizeof text);
        text[sizeof text - 1] = 0;
        dc_attempt_fail(b, r, ev->u.ended.code == BT_ERANGE ? BT_ERANGE : BT_EIO, text);
    } else {
        dc_attempt_finish(b, r,
                          &(bt_msg_finished){.reason = ev->u.ended.reason, .wait_us = ev->u.ended.wait_us,
                                             .decode_us = ev->u.ended.decode_us,
                                             .decode_steps = ev->u.ended.steps});
    }
}

void dc_work_stopped(dc_brain *b, uint32_t slot, uint32_t rows)
{
    dc_record *r = dc_by_slot(b, slot);
    if (r && r->a->state == BT_ATTEMPT_STOPPING && !r->recv.placing) {
        if (!r->gives_up) dc_memory_keep(b, r, rows); /* its rows may be why */
        dc_attempt_stopped(b, r);
    } else if (r && r->a->state == DC_PREEMPTING) {
        dc_preempt_stopped(b, r, rows);
    } else {
        b->n.unexpected++;
    }
}
