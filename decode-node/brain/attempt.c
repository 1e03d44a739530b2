/* Decides the life of an attempt in the decode node: the messages to its owner until they are acknowledged,
 * its start, its end, and when its slot is free. Memory freed in a step is only put aside: messages made in
 * the step may still point into it. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages to its owner ------------------------------------------------------------------------- */

void dc_attempt_say_tokens(dc_brain *b, const dc_record *r, uint32_t from)
{
    if (from >= r->ids_len) return;
    bt_msg *m = bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_TOKENS);
    if (!m) return;
    const uint32_t n = r->ids_len - from,
                   most = r->logprobs ? BT_MSG_MAX_TOKENS_LOGPROBS : BT_MSG_MAX_TOKENS_IDS;
    m->u.tokens.first_index = from;
    m->u.tokens.ids = r->ids + from;
    m->u.tokens.ids_len = n < most ? n : most;
    m->u.tokens.logprobs = r->logprobs ? r->logprobs + from : NULL;
    m->u.tokens.device = r->device;
}

void dc_attempt_say_reserved(dc_brain *b, const dc_record *r)
{
    bt_msg *m = bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_RESERVED);
    if (!m) return;
    m->u.reserved.ticket = r->ticket;
    m->u.reserved.prefill = r->wish.prefill;
    /* a local one says it with token 0 */
    m->u.reserved.covered_tokens = r->wish.is_local ? 0 : r->covered_tokens;
    memcpy(m->u.reserved.kv_endpoint, b->cfg.hello.kv_endpoint, sizeof m->u.reserved.kv_endpoint);
}

/* Reports of a local prefill, as a prefill node sends them. */
void dc_attempt_say_first(dc_brain *b, const dc_record *r)
{
    bt_msg *m = r->owes_first ? bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_FIRST_TOKEN) : NULL;
    if (m) m->u.first_token = r->first;
    m = r->owes_done ? bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_PREFILL_DONE) : NULL;
    if (m) m->u.prefill_done.kv_digest = r->kv_digest;
}

static void say_report(dc_brain *b, const dc_record *r)
{
    bt_msg *m = bt_gates_to_owner(&b->gates, &r->a->ref, r->is_failed ? BT_MSG_FAILED : BT_MSG_FINISHED);
    if (!m) return;
    if (r->is_failed) m->u.failed = r->failed;
    else m->u.finished = r->finished;
}

static bool owes(const dc_record *r)
{
    const bool runs =
        r->a->state == DC_RUNNING || r->a->state == DC_PREEMPTING || r->a->state == DC_PREEMPTED;
    return r->a->state == BT_ATTEMPT_REPORTING ||
           ((runs || r->a->state == DC_RESERVED) && r->owes_reserved) ||
           (runs && (r->acked < r->ids_len || r->owes_first || r->owes_done));
}

static bool is_behind(const dc_record *r) { return r->a->state == DC_RUNNING && r->is_behind; }

bool dc_attempt_wants_resend(const dc_record *r) { return owes(r) || is_behind(r); }

void dc_attempt_resend(dc_brain *b, dc_record *r)
{
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.resent += owes(r);
    if (is_behind(r) && b->worked_us > r->alive_us) {
        (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_PREFILL_ACCEPTED);
        r->alive_us = b->now_us;
    }
    /* A local answer may be complete before the gateway has heard that it began. */
    if (r->owes_reserved && !r->is_failed) dc_attempt_say_reserved(b, r);
    dc_attempt_say_first(b, r);
    if (r->a->state != DC_RESERVED) dc_attempt_say_tokens(b, r, r->acked);
    if (r->a->state == BT_ATTEMPT_REPORTING) say_report(b, r);
}

/* ---- its end ------------------------------------------------------------------------------------- */

static void free_slot(dc_brain *b, dc_record *r)
{
    if (r->a->slot == BT_NO_SLOT) return;
    /* the transfer ends early: the next begins here */
    if (r->recv.cover) dc_memory_keep(b, r, bt_kv_cover_prefix(r->recv.cover));
    dc_memory_drop(b, r);
    bt_attempts_leave_slot(&b->attempts, r->a);
}

void dc_attempt_bury(dc_brain *b, dc_record *r)
{
    free_slot(b, r);
    bt_attempts_bury(&b->attempts, r->a);
}

void dc_attempt_reap(dc_brain *b)
{
    for (bt_attempt *a; (a = bt_attempts_over(&b->attempts));) {
        dc_record *r = &b->records[a - b->attempts.all];
        bt_xfer_recv_done(&r->recv);
        free(r->block);
        bt_attempts_clear(&b->attempts, r->a);
        *r = (dc_record){.a = r->a};
    }
}

void dc_attempt_stopped(dc_brain *b, dc_record *r)
{
    if (r->ack_abort) (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_ABORT_ACK);
    dc_attempt_bury(b, r);
}

void dc_attempt_stop(dc_brain *b, dc_record *r, bool ack_abort)
{
    r->ack_abort = ack_abort || r->ack_abort;
    const bool runs = r->a->state == DC_RUNNING, is_placing = r->a->state == DC_RESERVED && r->recv.placing;
    if (r->a->state == BT_ATTEMPT_STOPPING) return;
    if (runs) dc_act(b, DC_DO_STOP)->u.slot = r->a->slot;
    if (runs && BT_BREAK(page_freed_early)) dc_memory_drop(b, r);
    if (runs || is_placing || r->a->state == DC_PREEMPTING) r->a->state = BT_ATTEMPT_STOPPING;
    else dc_attempt_stopped(b, r);
}

void dc_attempt_finish(dc_brain *b, dc_record *r, const bt_msg_finished *f)
{
    if (BT_BREAK(replay_without_prefix)) dc_memory_keep(b, r, r->wish.prompt_tokens + r->ids_len);
    free_slot(b, r);
    r->a->state = BT_ATTEMPT_REPORTING;
    r->is_finished = true;
    r->finished = *f;
    r->finished.completion_tokens = r->ids_len;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.finished++;
    say_report(b, r);
}

void dc_attempt_fail(dc_brain *b, dc_record *r, bt_err code, const char *text)
{
    free_slot(b, r);
    r->a->state = BT_ATTEMPT_REPORTING;
    r->is_failed = true;
    r->failed.code = code;
    if (text != r->failed.text) snprintf(r->failed.text, sizeof r->failed.text, "%s", text);
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.failed++;
    say_report(b, r);
}

/* ---- its lease and its start --------------------------------------------------------------------- */

void dc_attempt_renew(dc_brain *b, dc_record *r, uint32_t lease_ms)
{
    const uint32_t most = b->cfg.lease_max_ms;
    bt_attempt_renew(r->a, b->now_us, lease_ms < most ? lease_ms : most);
}

/* The reason why the last known token ends the answer, or 0. */
static bt_finish ends_here(const dc_record *r)
{
    if (r->ids_len == 0) return 0;
    for (uint32_t i = 0; i < r->wish.stop_ids_len; i++)
        if (r->wish.stop_ids[i] == r->ids[r->ids_len - 1]) return BT_FINISH_STOP;
    return r->ids_len >= r->wish.max_tokens ? BT_FINISH_LENGTH : 0;
}

void dc_attempt_launch(dc_brain *b, dc_record *r, uint32_t rows)
{
    const bt_finish reason = ends_here(r);
    if (reason) {
        dc_attempt_finish(b, r, &(bt_msg_finished){.reason = reason});
        return;
    }
    const uint32_t prompt = r->wish.prompt_tokens, last = prompt + (r->ids_len > 0 ? r->ids_len - 1 : 0);
    r->a->state = DC_RUNNING;
    if (bt_order_first(&b->running, 0) < 0) b->quiet_us = b->now_us;
    r->need_tokens = 0;
    r->is_behind = rows < last;
    r->alive_us = -1;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.local_prefills += rows < prompt;
    b->n.replayed_tokens += last - (rows > prompt ? rows : prompt);
    dc_action *a = dc_act(b, DC_DO_START);
    a->u.start.slot = r->a->slot;
    a->u.start.prompt = r->wish.ids;
    a->u.start.prompt_tokens = prompt;
    a->u.start.ids = r->ids;
    a->u.start.ids_len = r->ids_len;
    a->u.start.rows = rows;
    a->u.start.max_tokens = r->wish.max_tokens;
    a->u.start.sampling = r->wish.sampling;
    a->u.start.stop_ids_len = r->wish.stop_ids_len;
    memcpy(a->u.start.stop_ids, r->wish.stop_ids, sizeof r->wish.stop_ids);
}

void dc_attempt_complete_prompt(dc_brain *b, dc_record *r)
{
    if (!r->has_prompt) dc_memory_keep(b, r, r->wish.prompt_tokens);
    r->has_prompt = true;
}

bool dc_attempt_start(dc_brain *b, dc_record *r)
{
    bt_xfer_recv_done(&r->recv);
    if (r->ids_len > 0 && r->ids[0] != r->commit_token) {
        dc_attempt_fail(b, r, BT_EFORMAT,
                        "the prefill node made another first token than that of the attempt before");
        return false;
    }
    if (r->ids_len == 0) {
        r->ids[r->ids_len++] = r->commit_token;
        r->acked = 1; /* token 0 reached the gateway from the prefill node, or will */
    }
    dc_attempt_complete_prompt(b, r);
    b->n.started++;
    dc_attempt_launch(b, r, r->wish.prompt_tokens);
    return true;
}
