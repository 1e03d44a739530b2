/* Decides the life of an attempt in the prefill node: the messages to its owner until they are acknowledged,
 * its end, and when its slot is free. Memory freed in a step is only put aside: actions of the step may still
 * point into it. */
#include "prefill-node/brain/brain_inner.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- messages to its owner ------------------------------------------------------------------------- */

void pf_attempt_say(pf_brain *b, pf_record *r)
{
    bt_msg *m;
    r->resend_us = b->now_us + b->cfg.resend_us;
    if (r->has_first && !r->first_acked && (m = bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_FIRST_TOKEN)))
        m->u.first_token = r->first;
    if (r->a->state != BT_ATTEMPT_REPORTING) return;
    if (r->is_failed) {
        if ((m = bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_FAILED))) m->u.failed = r->failed;
    } else if (!r->done_acked && (m = bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_PREFILL_DONE))) {
        m->u.prefill_done = r->done;
    }
}

bool pf_attempt_owes(const pf_record *r)
{
    if (r->a->state == BT_ATTEMPT_REPORTING) return true;
    return (r->a->state == PF_SENDING || r->a->state == PF_COMMITTED) && !r->first_acked;
}

/* ---- its end ------------------------------------------------------------------------------------- */

static void free_slot(pf_brain *b, pf_record *r)
{
    if (r->a->slot == BT_NO_SLOT) return;
    if (r->started_us != 0) pf_pages_keep(b, r);
    bt_kv_book_release(b->book, r->a->slot);
    pf_act(b, PF_DO_RELEASE)->u.slot = r->a->slot;
    b->long_held -= r->is_long;
    bt_attempts_leave_slot(&b->attempts, r->a);
}

void pf_attempt_bury(pf_brain *b, pf_record *r)
{
    free_slot(b, r);
    bt_attempts_bury(&b->attempts, r->a);
}

void pf_attempt_reap(pf_brain *b)
{
    for (bt_attempt *a; (a = bt_attempts_over(&b->attempts));) {
        pf_record *r = &b->records[a - b->attempts.all];
        free(r->block);
        bt_attempts_clear(&b->attempts, r->a);
        *r = (pf_record){.a = r->a};
    }
}

static void report(pf_brain *b, pf_record *r)
{
    free_slot(b, r);
    r->a->state = BT_ATTEMPT_REPORTING;
    pf_attempt_say(b, r);
}

static bool is_idle(const pf_record *r) { return !r->in_worker && r->lent == 0; }

void pf_attempt_settle(pf_brain *b, pf_record *r)
{
    const bool is_stopping = r->a->state == BT_ATTEMPT_STOPPING;
    if (!is_idle(r)) return;
    if (r->a->state == PF_COMMITTED || (is_stopping && r->is_failed && !r->ack_abort)) {
        report(b, r);
    } else if (is_stopping) {
        if (r->ack_abort) (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_ABORT_ACK);
        pf_attempt_bury(b, r);
    }
}

void pf_attempt_stop(pf_brain *b, pf_record *r, bool ack_abort)
{
    r->ack_abort = ack_abort || r->ack_abort;
    if (r->a->state == BT_ATTEMPT_STOPPING) return;
    if (r->in_worker) pf_act(b, PF_DO_CANCEL)->u.slot = r->a->slot;
    r->a->state = BT_ATTEMPT_STOPPING;
    pf_attempt_settle(b, r);
}

/* The codes of FAILED: see brain.h. */
static bt_err outward(bt_err code)
{
    if (code == BT_EFORMAT || code == BT_EARG || code == BT_ELIMIT || code == BT_EAGAIN ||
        code == BT_ECANCEL || code == BT_ERANGE)
        return code;
    return code == BT_ENOMEM ? BT_EAGAIN : BT_EIO;
}

void pf_attempt_fail(pf_brain *b, pf_record *r, bt_err code, const char *text)
{
    if (r->a->state < BT_ATTEMPT_OWN) return;
    r->is_failed = true;
    r->failed.code = outward(code);
    snprintf(r->failed.text, sizeof r->failed.text, "%s", text);
    b->n.failed++;
    pf_attempt_stop(b, r, false);
}

void pf_attempt_committed(pf_brain *b, pf_record *r)
{
    b->n.completed++;
    r->done.exposed_us = (uint64_t)(b->now_us - r->rows_us);
    r->done.transfer_us = r->first_block_us ? (uint64_t)(b->now_us - r->first_block_us) : 0;
    r->a->state = PF_COMMITTED;
    pf_attempt_settle(b, r);
}
