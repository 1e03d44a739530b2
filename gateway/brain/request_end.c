/* How a request leaves its nodes: for good, with one DONE or FAIL, or for another attempt. Nothing here waits
 * for a node: debts.h has what a node still owes. See request.h. */
#include "gateway/brain/request.h"
#include "gateway/brain/act.h"

#include <stdarg.h>
#include <stdio.h>

enum { FRUITLESS_MAX = 32, PAUSE_LEAST_US = 100000, PAUSE_DOUBLINGS = 4, RETRY_MS = 1000 };

/* ---- the two sides ------------------------------------------------------------------------------ */

static void count_down(gw_brain *b, const bt_incarnation *node, bool is_long)
{
    gw_node *n = gw_registry_find(&b->registry, node);
    if (!n || n->attempts == 0) return;
    n->attempts--;
    n->long_attempts -= is_long;
    gw_registry_changed(&b->registry, n);
}

void gw_request_close_side(gw_brain *b, gw_request *r, gw_side *s)
{
    if (s->is_open) count_down(b, &s->node, s->is_long);
    gw_request_hold(b, r, s, false);
}

/* The attempt counts on the node until it answers or its lease is over. */
static void leave_side(gw_brain *b, gw_request *r, gw_side *s)
{
    if (!s->is_open || !s->is_told) {
        gw_request_close_side(b, r, s);
        return;
    }
    gw_request_hold(b, r, s, false);
    (void)gw_request_tell(b, r, s, BT_MSG_ABORT);
    gw_debt forgotten;
    const gw_debt debt = {.node = s->node,
                          .number = r->number,
                          .attempt = r->attempt,
                          .is_long = s->is_long,
                          .due_us = b->now_us + b->cfg.resend_us,
                          .until_us = b->now_us + (int64_t)b->cfg.lease_ms * 1000};
    if (!gw_debts_add(&b->debts, &forgotten, &debt)) return;
    b->n.debts_forgotten++;
    count_down(b, &forgotten.node, forgotten.is_long);
}

static void leave(gw_brain *b, gw_request *r)
{
    leave_side(b, r, &r->prefill);
    leave_side(b, r, &r->decode);
}

bool gw_request_settle(gw_brain *b, const bt_incarnation *node, const bt_request_ref *ref)
{
    const gw_debt *d = gw_debts_find(&b->debts, node, ref->number, ref->attempt);
    if (!d) return false;
    const bool is_long = d->is_long;
    gw_debts_remove(&b->debts, d);
    count_down(b, node, is_long);
    return true;
}

void gw_request_expire_debts(gw_brain *b)
{
    const gw_debt *d;
    gw_debts_ripen(&b->debts, b->now_us);
    while ((d = gw_debts_next_ripe(&b->debts))) {
        if (b->now_us >= d->until_us) {
            count_down(b, &d->node, d->is_long);
            gw_debts_remove(&b->debts, d);
            continue;
        }
        b->n.resent++;
        gw_act_send(b, &d->node, BT_MSG_ABORT)->ref = (bt_request_ref){b->cfg.self, d->number, d->attempt};
        gw_debts_wait(&b->debts, d, b->now_us + b->cfg.resend_us);
    }
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* The figures in DONE or FAIL; the node may already be forgotten. */
static const gw_stats *last_stats(const gw_brain *b, gw_request *r)
{
    const gw_side *side = r->local ? &r->decode : &r->prefill;
    const gw_node *p = r->stats.has_first ? gw_registry_find(&b->registry, &side->node) : NULL;
    r->stats.total_us = b->now_us - r->submitted_us;
    r->stats.local = r->local;
    r->stats.attempts = r->attempt;
    r->stats.engine = p ? p->hello.engine : NULL;
    const gw_node *d = gw_registry_find(&b->registry, &r->decode.node);
    r->stats.prefill_device = p ? p->hello.device : NULL;
    r->stats.decode_device = d ? d->hello.device : NULL;
    bt_msg_device_work_add(&r->stats.device_decode, &r->decode_work);
    r->decode_work = (bt_msg_device_work){0};
    return &r->stats;
}

void gw_request_done(gw_brain *b, gw_request *r)
{
    const int64_t since_us = b->now_us - b->ended_us;
    b->between_us = b->between_us == 0 ? since_us : b->between_us + (since_us - b->between_us) / 8;
    b->ended_us = b->now_us;
    gw_action *a = gw_act(b, GW_DO_DONE);
    a->request = r->number;
    a->u.done.reason = r->ended;
    a->u.done.stats = *last_stats(b, r);
    b->n.completion_tokens += r->stats.completion_tokens;
    leave(b, r);
    gw_request_set_state(b, r, GW_DEAD);
}

void gw_request_refuse(gw_brain *b, uint64_t request, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms,
                       const gw_stats *stats, const char *text)
{
    gw_action *a = gw_act(b, GW_DO_FAIL);
    a->request = request;
    a->u.fail.kind = kind;
    a->u.fail.code = code;
    a->u.fail.retry_after_ms = retry_after_ms;
    a->u.fail.stats = *stats;
    snprintf(a->u.fail.text, sizeof a->u.fail.text, "%s", text);
    b->n.failed[kind]++;
}

void gw_request_fail(gw_brain *b, gw_request *r, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms,
                     const char *fmt, ...)
{
    char text[BT_STEP_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    gw_request_refuse(b, r->number, kind, code, retry_after_ms, last_stats(b, r), text);
    b->n.completion_tokens += r->stats.completion_tokens;
    leave(b, r);
    gw_request_set_state(b, r, GW_DEAD);
}

void gw_request_finish_early(gw_brain *b, gw_request *r)
{
    if (r->next_index == 0) {
        b->n.unexpected++;
        return;
    }
    r->ended = BT_FINISH_STOP;
    gw_request_done(b, r);
}

void gw_request_closing(gw_brain *b, gw_request *r)
{
    if (r->state == GW_DECODING) {
        gw_request_set_state(b, r, GW_CLOSING);
        r->deadline_us = b->now_us + b->cfg.grace_us;
        gw_request_rearm(b, r);
    }
    if (!r->prefill.is_open && !r->decode.is_open) gw_request_done(b, r);
}

/* ---- another attempt ---------------------------------------------------------------------------- */

void gw_request_requeue(gw_brain *b, gw_request *r, int64_t wait_us)
{
    leave(b, r);
    r->not_before_us = b->now_us + wait_us;
    r->stuck_us = -1;
    gw_request_set_state(b, r, GW_QUEUED);
}

/* Another attempt at once after a loss; 100 ms, 200 ms .. 1.6 s later where a node has no room, or tokens
 * do not come. */
static int64_t pause_us(const gw_request *r, gw_cause cause)
{
    const uint32_t times = r->fruitless - (cause != GW_CAUSE_GAVE_UP);
    return times == 0 ? 0
                      : (int64_t)PAUSE_LEAST_US << (times <= PAUSE_DOUBLINGS ? times - 1 : PAUSE_DOUBLINGS);
}

/* Want of room is no failure of the node, and a node that sent BYE gets no attempts anyway. */
static void avoid(gw_brain *b, gw_request *r, gw_cause cause, gw_blame blame)
{
    r->shun_prefill = blame & GW_BLAME_PREFILL ? r->prefill.name : 0;
    r->shun_decode = blame & GW_BLAME_DECODE ? r->decode.name : 0;
    if (cause != GW_CAUSE_GAVE_UP && cause != GW_CAUSE_LEFT)
        gw_avoid_failed(&b->router.avoid, r->shun_prefill, r->shun_decode, b->now_us);
}

void gw_request_recover(gw_brain *b, gw_request *r, gw_cause cause, gw_blame blame, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    b->n.recoveries[cause]++;
    r->stats.recoveries++;
    avoid(b, r, cause, blame);
    r->only_prefill = r->only_decode = 0;
    if (r->fruitless == 0) r->waiting_us = b->now_us;
    if (cause != GW_CAUSE_GAVE_UP && r->lost_us < 0) r->lost_us = b->now_us;
    if (++r->fruitless == FRUITLESS_MAX) {
        const bool is_full = cause == GW_CAUSE_GAVE_UP;
        gw_request_fail(b, r, is_full ? GW_FAIL_OVERLOADED : GW_FAIL_NODE_LOST, is_full ? BT_EAGAIN : BT_EIO,
                        RETRY_MS, "%u attempts brought no token: %s", FRUITLESS_MAX, r->why);
        return;
    }
    gw_act_log(b, BT_LOG_WARN, "request %llu goes on after attempt %u and %u tokens: %s",
               (unsigned long long)r->number, r->attempt, r->next_index, r->why);
    gw_request_requeue(b, r, pause_us(r, cause));
}

/* D does not need P any more once it has made a token itself. */
bool gw_request_needs(const gw_request *r, const gw_side *side)
{
    if (r->state != GW_RESERVING && r->state != GW_PREFILLING && r->state != GW_DECODING) return false;
    return side == &r->decode || r->next_index <= gw_request_first_made(r);
}

/* One side of a request, on a node that is lost. */
static void lose_side(gw_brain *b, gw_request *r, bool is_decode, const char *node_id, gw_cause cause,
                      bool is_cut)
{
    gw_side *side = is_decode ? &r->decode : &r->prefill;
    const bool is_needed = gw_request_needs(r, side);
    if (cause == GW_CAUSE_GONE) leave_side(b, r, side); /* it may only be cut off, and still hold it */
    else gw_request_close_side(b, r, side);
    if (is_needed)
        gw_request_recover(b, r, cause, is_decode ? GW_BLAME_DECODE : GW_BLAME_PREFILL, "the %s node %s %s",
                           is_decode ? "decode" : "prefill", node_id,
                           cause == GW_CAUSE_GONE && is_cut ? "has lost its connection"
                           : cause == GW_CAUSE_GONE         ? "is silent"
                           : cause == GW_CAUSE_LEFT         ? "has left"
                                                            : "was restarted");
    else if (r->state == GW_CLOSING) gw_request_closing(b, r);
    gw_request_rearm(b, r);
}

void gw_request_node_lost(gw_brain *b, const bt_incarnation *node, const char *node_id, gw_cause cause)
{
    const gw_node *n = gw_registry_find(&b->registry, node);
    const bool is_cut = n && n->is_cut;
    const bt_order_key key = gw_registry_key(node);
    /* in order of the requests' places; each side is closed, and so leaves the order */
    for (int64_t at; (at = bt_order_from(&b->sides, 0, key)) >= 0;) {
        const bt_order_key k = bt_order_key_of(&b->sides, at);
        if (k.hi != key.hi || k.lo != key.lo) break;
        lose_side(b, &b->requests[at / 2], at % 2, node_id, cause, is_cut);
    }
    if (cause == GW_CAUSE_GONE) return;
    uint32_t owed_long;
    for (uint32_t owed = gw_debts_forget(&b->debts, &owed_long, node), i = 0; i < owed; i++)
        count_down(b, node, i < owed_long);
}
