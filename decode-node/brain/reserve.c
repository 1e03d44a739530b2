/* Decides which reservation is taken, which waits and which is refused, and begins its attempt. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reservations whose answers have begun are older than all others. */
#define NEW_ANSWER (UINT64_C(1) << 62)

static void refuse(dc_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms,
                   const char *text)
{
    b->n.refused++;
    bt_attempt_log_note(&b->attempts.log, ref);
    bt_gates_refused(&b->gates, ref, BT_MSG_RESERVE, code, retry_after_ms, text);
}

/* Whether the reservation could ever be served here; false: `refuse` has sent REFUSED. */
static bool is_possible(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    const uint64_t tokens = (uint64_t)w->prompt_tokens + w->max_tokens,
                   pool = (uint64_t)b->cfg.pages_total * b->cfg.page_tokens,
                   most = pool < b->cfg.hello.ctx_tokens ? pool : b->cfg.hello.ctx_tokens;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
    if (w->prompt_tokens == 0 || w->max_tokens == 0 || tokens > most) {
        snprintf(text, sizeof text, "%llu tokens (prompt %u, answer %u), but this node holds %llu at most",
                 (unsigned long long)tokens, w->prompt_tokens, w->max_tokens, (unsigned long long)most);
        refuse(b, &m->ref, BT_ELIMIT, 0, text);
        return false;
    }
    if (w->stop_ids_len > BT_MSG_MAX_STOP_IDS || w->sampling.bias_len > BT_SAMPLE_MAX_BIAS ||
        w->sampling.program_len > BT_SAMPLE_MAX_PROGRAM || w->ids_len != w->prompt_tokens ||
        w->generated_len >= w->max_tokens) {
        refuse(b, &m->ref, BT_EARG, 0,
               "the count of the prompt's ids, the tokens so far, the stop ids, the biases or the program's "
               "bytes "
               "is out of range");
        return false;
    }
    if (b->cfg.prompts == BT_PROMPT_BY_IDS ? !w->ids : !w->hashes.of) {
        refuse(b, &m->ref, BT_EARG, 0,
               "the prompt is given by token ids where this node wants hashes, or the other way round");
        return false;
    }
    if (w->is_local && !b->cfg.can_prefill) {
        refuse(b, &m->ref, BT_EARG, 0, "this node computes no prompts");
        return false;
    }
    return true;
}

/* Copies the arrays of w into one block that r owns. The ids of the answer lie behind those of the prompt. */
static bool keep(dc_record *r, const bt_msg_reserve *w)
{
    const bt_prompt_view prompt = {w->prompt_tokens, w->ids, w->hashes, w->salt};
    const size_t prompt_bytes = bt_prompt_bytes(&prompt), ids = w->max_tokens * sizeof *r->ids,
                 logprobs = w->sampling.logprobs ? w->max_tokens * sizeof *r->logprobs : 0,
                 bias = w->sampling.bias_len * sizeof *w->sampling.bias;
    static_assert(_Alignof(bt_msg_logprob) <= 4 && _Alignof(bt_sample_bias) <= 4,
                  "the parts of the block follow each other as they are");
    /* most of it stays untouched */
    uint8_t *at = calloc(1, prompt_bytes + ids + logprobs + bias + w->sampling.program_len);
    if (!at) return false;
    r->block = at;
    r->wish = *w;
    const bt_prompt_view own = bt_prompt_copy(at, &prompt);
    r->wish.ids = own.ids;
    r->wish.hashes = own.hashes;
    at += prompt_bytes;
    r->ids = (int32_t *)(void *)at;
    at += ids;
    r->logprobs = logprobs ? (bt_msg_logprob *)(void *)at : NULL;
    at += logprobs;
    if (bias) memcpy(at, w->sampling.bias, bias);
    r->wish.sampling.bias = bias ? (const bt_sample_bias *)(void *)at : NULL;
    if (w->sampling.program_len) memcpy(at + bias, w->sampling.program, w->sampling.program_len);
    r->wish.sampling.program = at + bias;
    if (w->generated_len) memcpy(r->ids, w->generated, w->generated_len * sizeof *w->generated);
    r->wish.generated = r->ids;
    r->ids_len = r->acked = w->generated_len;
    return true;
}

/* It has its slot and pages. */
static void begin(dc_brain *b, dc_record *r)
{
    r->class = r->wish.is_local ? b->own_class : r->wish.prefill_class;
    b->n.reserved++;
    const uint32_t rows = dc_memory_place_prompt(b, r);
    if (!r->wish.is_local) bt_xfer_recv_has(&r->recv, rows);
    dc_attempt_say_reserved(b, r);
    if (!r->wish.is_local) return;
    b->n.started++;
    dc_attempt_launch(b, r, rows);
}

/* ---- the line ------------------------------------------------------------------------------------ */

/* It is over before it began. */
static void turn_away(dc_brain *b, dc_record *r, bt_err code, uint32_t retry_after_ms, const char *text)
{
    dc_attempt_bury(b, dc_touch(b, r->a));
    refuse(b, &r->a->ref, code, retry_after_ms, text);
}

/* From the line to a slot and pages. */
static void admit(dc_brain *b, dc_record *r)
{
    r->is_cautious = dc_memory_is_cautious(b);
    r->a->state = DC_RESERVED;
    if (!r->wish.is_local && bt_xfer_recv_init(&r->recv, &b->cfg.hello.kv, r->wish.prompt_tokens, NULL) < 0) {
        turn_away(b, r, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    bt_attempts_take_slot(&b->attempts, r->a, bt_attempts_unused_slot(&b->attempts));
    if (r->has_waited) {
        r->owes_reserved = true;
        r->resend_us = b->now_us + b->cfg.resend_us;
    }
    begin(b, r);
}

/* Whether no reservation behind r may begin before it. */
static bool is_passed_enough(const dc_brain *b, const dc_record *r)
{
    if (BT_BREAK(overtaken_without_end)) return false;
    return r->wish.generated_len > 0 || r->passed >= b->cfg.overtake_max ||
           b->now_us - r->want_us >= b->cfg.overtake_us;
}

static dc_record *in_line(dc_brain *b, int64_t at) { return dc_touch(b, &b->attempts.all[at]); }

/* Begins the first of the line that fits and may. False: none does. */
static bool serve_line(dc_brain *b)
{
    dc_orders_settle(b);
    int64_t at = bt_order_first(&b->line, 0);
    uint32_t ahead = 0;
    if (bt_attempts_unused_slot(&b->attempts) == BT_NO_SLOT) return false;
    for (; at >= 0 && ahead <= DC_LINE_LOOK; at = bt_order_next(&b->line, at), ahead++) {
        dc_record *r = &b->records[at];
        if (dc_memory_has_room(b, &r->wish)) break;
        if (is_passed_enough(b, r)) return false;
    }
    if (at < 0 || ahead > DC_LINE_LOOK) return false;
    for (int64_t before = bt_order_first(&b->line, 0); before != at;
         before = bt_order_next(&b->line, before)) {
        dc_record *p = &b->records[before];
        p->passed++;
        assert(p->passed <= b->cfg.overtake_max || BT_BREAK(overtaken_without_end));
    }
    b->n.overtakes += ahead > 0;
    admit(b, in_line(b, at));
    return true;
}

void dc_reserve_settle(dc_brain *b)
{
    dc_orders_settle(b);
    for (int64_t at; b->gates.draining && (at = bt_order_first(&b->line, 0)) >= 0; dc_orders_settle(b))
        turn_away(b, in_line(b, at), BT_EAGAIN, 100, "this node is draining");
    /* Nothing has become free: nobody behind the last look fits either. */
    if (b->line_len == 0 || BT_BREAK(line_forgotten) ||
        (!b->line_changed && dc_memory_free(b) <= b->line_room &&
         dc_memory_free_windows(b) <= b->line_windows && b->attempts.held >= b->line_held &&
         (b->waiting_len > 0 || b->preempting > 0) >= b->line_held_up))
        return;
    while (b->line_len > 0 && serve_line(b)) dc_orders_settle(b);
    b->line_changed = false;
    b->line_room = dc_memory_free(b);
    b->line_windows = dc_memory_free_windows(b);
    b->line_held = b->attempts.held;
    b->line_held_up = b->waiting_len > 0 || b->preempting > 0;
}

/* Puts the reservation into the line; it is served at once where it fits. */
static void stand(dc_brain *b, dc_record *r)
{
    r->age = (r->wish.generated_len ? 0 : NEW_ANSWER) + ++b->ages;
    r->want_us = b->now_us;
    dc_attempt_renew(b, r, r->wish.lease_ms);
    dc_reserve_settle(b);
    if (r->a->state != DC_WAITING) return;
    if (b->line_len > b->cfg.waiting_max) {
        char text[BT_MSG_MAX_TEXT_BYTES + 1];
        snprintf(text, sizeof text, "no room, and %u reservations wait already (--waiting)", b->line_len - 1);
        turn_away(b, r, BT_EAGAIN, 100, text);
        return;
    }
    r->has_waited = true;
    b->n.waited++;
    (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_WAITS);
}

/* ---- a reservation comes ------------------------------------------------------------------------- */

/* The sender of the KV may change until a block has come: the gateway chose it before the reservation waited.
 */
static void change_sender(dc_record *r, const bt_msg_reserve *w)
{
    if (r->a->state != DC_RESERVED || r->wish.is_local || w->is_local || !r->owes_reserved ||
        w->prefill_class != r->wish.prefill_class)
        return;
    r->wish.prefill = w->prefill;
    r->wish.prefill_key = w->prefill_key;
}

/* The gateway still waits for RESERVED, so any report on token 0 that it got meanwhile, even if it
 * acknowledged it, came too early. */
static void reserve_again(dc_brain *b, dc_record *r)
{
    dc_attempt_say_reserved(b, r);
    if (!r->first_told) return;
    r->owes_first = r->owes_done = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
    dc_attempt_say_first(b, r);
}

/* RESERVE of an attempt that is here, or of one below it. */
static void on_repeat(dc_brain *b, dc_record *old, const bt_msg *m)
{
    if (old->a->ref.attempt > m->ref.attempt) {
        b->n.stale_attempt++;
        return;
    }
    b->n.repeats++;
    change_sender(old, &m->u.reserve);
    if (old->a->state == DC_WAITING) (void)bt_gates_to_owner(&b->gates, &m->ref, BT_MSG_WAITS);
    else if (old->a->state == DC_RESERVED || (old->wish.is_local && old->a->state != BT_ATTEMPT_STOPPING))
        reserve_again(b, old);
}

void dc_reserve(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    dc_record *old = dc_find(b, &m->ref);
    const bool obeys = old && old->a->ref.attempt > m->ref.attempt && BT_BREAK(stale_attempt_obeyed);
    if (old && old->a->ref.attempt >= m->ref.attempt && !obeys) {
        on_repeat(b, old, m);
        return;
    }
    if (bt_attempt_log_highest(&b->attempts.log, &m->ref) >= m->ref.attempt &&
        !BT_BREAK(stale_attempt_obeyed)) {
        b->n.stale_attempt++;
        bt_gates_refused(&b->gates, &m->ref, BT_MSG_RESERVE, BT_EAGAIN, 100, "this attempt is over here");
        return;
    }
    if (old) dc_attempt_stop(b, old, false);
    if (!is_possible(b, m)) return;
    dc_record *r = b->gates.draining ? NULL : dc_unused(b);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100,
               b->gates.draining ? "this node is draining"
                                 : "too many reports wait for their acknowledgement");
        return;
    }
    if (!keep(r, w)) {
        *r = (dc_record){.a = r->a};
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    static_assert(sizeof r->ticket == sizeof *b->random, "a ticket is 128 random bits");
    memcpy(&r->ticket, b->random, sizeof r->ticket);
    bt_attempts_take(&b->attempts, r->a, &m->ref, BT_NO_SLOT, DC_WAITING);
    stand(b, r);
}
