/* Decides what the decode node does: see brain.h. This file has the messages of gateways, time, and the step
 * itself; brain_inner.h lists the files below it. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"
#include "base/hash.h"
#include "kv/kv_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dc_config dc_config_defaults(void)
{
    return (dc_config){
        .gateways = 1,          .slots = 1,
        .page_tokens = 64,      .growth_tokens = 256,
        .waiting_max = 256,     .overtake_max = 32,
        .overtake_us = 2000000, .preempted_us = 20000000,
        .links_max = 64,        .window_bytes = 64u << 20,
        .lease_max_ms = 60000,  .heartbeat_us = 500000,
        .silence_us = 2000000,  .resend_us = 500000,
        .rejected_us = 5000000, .alive_us = 10000000,
    };
}

/* ---- messages of gateways ------------------------------------------------------------------------ */

static void on_abort(dc_brain *b, const bt_msg *m)
{
    dc_record *r = dc_abort(b, &m->ref);
    if (!r || BT_BREAK(abort_forgotten)) {
        (void)bt_gates_to_owner(&b->gates, &m->ref, BT_MSG_ABORT_ACK);
        return;
    }
    if (r->a->state != BT_ATTEMPT_STOPPING) b->n.aborted++;
    dc_attempt_stop(b, r, true);
}

/* From the owner of m->ref. */
static void on_request(dc_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_RESERVE) {
        dc_reserve(b, m);
        return;
    }
    if (m->type == BT_MSG_ABORT) {
        on_abort(b, m);
        return;
    }
    dc_record *r = dc_find(b, &m->ref);
    if (r && r->a->ref.attempt != m->ref.attempt) {
        b->n.stale_attempt++;
        return;
    }
    if (m->type == BT_MSG_RENEW) {
        if (!r)
            bt_gates_failed(&b->gates, &m->ref, BT_ECANCEL,
                            "this decode node does not hold the attempt (any more)");
        else if (r->a->state != BT_ATTEMPT_STOPPING) dc_attempt_renew(b, r, m->u.renew.lease_ms);
    } else if (m->type == BT_MSG_TOKENS_ACK && r && r->a->state != DC_RESERVED && r->a->state != DC_WAITING &&
               r->a->state != BT_ATTEMPT_STOPPING) {
        uint32_t next = m->u.tokens_ack.next_index;
        r->owes_reserved = false;
        if (next > r->acked && next <= r->ids_len) {
            r->acked = next;
            r->resend_us = b->now_us + b->cfg.resend_us;
        }
    } else if (m->type == BT_MSG_ACK && r && m->u.ack.of == BT_MSG_FIRST_TOKEN) {
        r->owes_first = r->owes_reserved = false;
    } else if (m->type == BT_MSG_ACK && r && m->u.ack.of == BT_MSG_PREFILL_DONE) {
        r->owes_done = r->owes_reserved = false;
    } else if (m->type == BT_MSG_FINISHED_ACK && r && r->a->state == BT_ATTEMPT_REPORTING && r->is_finished) {
        dc_attempt_bury(b, r);
    } else if (m->type == BT_MSG_ACK && r && r->a->state == BT_ATTEMPT_REPORTING && r->is_failed &&
               m->u.ack.of == BT_MSG_FAILED) {
        dc_attempt_bury(b, r);
    } else {
        b->n.unexpected++;
    }
}

static void on_control(dc_brain *b, uint32_t gate, const bt_msg *m)
{
    switch (bt_gates_msg(&b->gates, gate, m, b->now_us)) {
    case BT_GATES_NOTHING: break;
    case BT_GATES_REQUEST: on_request(b, m); break;
    case BT_GATES_DRAINS:
        (void)dc_act(b, DC_DO_DRAIN);
        bt_gates_drain(&b->gates, m->u.role.role);
        break;
    case BT_GATES_REFUSED: {
        dc_action *a = dc_act(b, DC_DO_LOG);
        a->u.log.level = BT_LOG_ERROR;
        snprintf(a->u.log.text, sizeof a->u.log.text, "the gateway refuses this node: %s", m->u.reject.text);
        break;
    }
    case BT_GATES_MISSENT: b->n.wrong_incarnation++; break;
    case BT_GATES_UNEXPECTED: b->n.unexpected++; break;
    }
}

/* ---- time --------------------------------------------------------------------------------------- */

static void expire(dc_brain *b)
{
    bt_attempts_ripen(&b->attempts, b->now_us);
    for (dc_record *r; (r = dc_touch(b, bt_attempts_next_ripe(&b->attempts)));) {
        if (!bt_attempt_is_wanted(r->a)) continue;
        if (bt_attempt_is_expired(r->a, b->now_us) && !BT_BREAK(lease_ignored)) {
            b->n.leases_ended++;
            dc_attempt_stop(b, r, false);
            continue;
        }
        if (dc_attempt_wants_resend(r) && b->now_us >= r->resend_us) dc_attempt_resend(b, r);
        if (dc_memory_waits(r) && b->now_us - r->want_us >= b->cfg.preempted_us)
            dc_preempt_give_up(b, r, BT_EAGAIN, "preempted: waited too long for KV memory of this node");
    }
    dc_orders_settle(b); /* heartbeats carry the load */
    bt_gates_tick(&b->gates, b->now_us);
}

int64_t dc_brain_due_us(const dc_brain *b)
{
    const int64_t due = bt_gates_due_us(&b->gates), own = bt_attempts_due_us(&b->attempts);
    return b->gates.left || due < own ? due : own;
}

static void leave(dc_brain *b, const char *text)
{
    bt_gates_bye(&b->gates, text);
    dc_act(b, DC_DO_EXIT)->u.next_role = b->gates.next_role;
}

/* The process ends with this step, so the brain waits for nothing and frees no page. Ended attempts are
 * reported once more. */
static void leave_at_once(dc_brain *b)
{
    for (dc_record *r = NULL; (r = dc_next(b, r));) {
        if (r->a->state == BT_ATTEMPT_REPORTING) dc_attempt_resend(b, r);
        else if (r->ack_abort) (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_ABORT_ACK);
        else bt_gates_failed(&b->gates, &r->a->ref, BT_EAGAIN, "this node is leaving");
    }
    leave(b, "the node leaves before all requests have ended");
}

dc_actions dc_brain_step(dc_brain *b, const dc_event *ev, int64_t now_us, const bt_random *random)
{
    b->acts_len = 0;
    b->now_us = now_us;
    b->random = random;
    if (b->gates.left) return (dc_actions){b->acts, 0};
    dc_attempt_reap(b);
    expire(b);
    switch (ev->type) {
    case DC_EV_TICK: break;
    case DC_EV_GATE_UP: bt_gates_up(&b->gates, ev->u.gate, now_us); break;
    case DC_EV_CONTROL: on_control(b, ev->u.control.gateway, ev->u.control.msg); break;
    case DC_EV_BULK: dc_blocks_msg(b, ev->u.bulk); break;
    case DC_EV_BLOCK: dc_blocks_block(b, &ev->u.block); break;
    case DC_EV_PLACED: dc_blocks_placed(b, &ev->u.block, true); break;
    case DC_EV_CORRUPT: dc_blocks_placed(b, &ev->u.block, false); break;
    case DC_EV_FIRST: dc_work_first(b, ev); break;
    case DC_EV_TOKEN: dc_work_token(b, ev); break;
    case DC_EV_TOKENS: dc_work_tokens(b, ev); break;
    case DC_EV_ALIVE: dc_work_alive(b); break;
    case DC_EV_NEED: dc_work_need(b, ev->u.need.slot, ev->u.need.tokens); break;
    case DC_EV_ENDED: dc_work_ended(b, ev); break;
    case DC_EV_STOPPED: dc_work_stopped(b, ev->u.stopped.slot, ev->u.stopped.rows); break;
    case DC_EV_DRAIN: bt_gates_drain(&b->gates, 0); break;
    case DC_EV_DRAIN_OVER: leave_at_once(b); return (dc_actions){b->acts, b->acts_len};
    default: break;
    }
    dc_preempt_settle(b);
    dc_reserve_settle(b);
    if (b->gates.draining && (!dc_next(b, NULL) || BT_BREAK(drain_loses))) leave(b, NULL);
    return (dc_actions){b->acts, b->acts_len};
}

/* ---- made and looked at ------------------------------------------------------------------------- */

static bt_msg *send_control(void *brain, uint32_t gate)
{
    dc_action *a = dc_act(brain, DC_DO_SEND_CONTROL);
    a->u.control.gateway = gate;
    return &a->u.control.msg;
}

static bt_load load_of(const void *brain) { return dc_brain_load(brain); }

bt_err dc_brain_new(dc_brain **ret, const dc_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->gateways < 1 || c->gateways > BT_GATES_MAX ||
        c->slots < 1 || c->slots > 1024 || c->waiting_max > 1024 || c->pages_total < 1 ||
        c->page_tokens < 1 || c->page_tokens > 256 || c->page_tokens % BT_KV_UNIT_TOKENS ||
        c->links_max < 1 || c->hello.ctx_tokens < 1 || c->hello.kv.layers < 1 ||
        bt_xfer_block_bytes(&c->hello.kv, 1) == 0 ||
        (c->hello.kv.window && c->page_tokens > BT_KV_WINDOW_TOKENS))
        return bt_fail(fault, BT_EARG, "decode node: a limit of its configuration is zero or out of range");
    dc_brain *b = calloc(1, sizeof *b);
    if (!b || bt_attempts_new(&b->attempts, c->slots, c->waiting_max) < 0) {
        free(b);
        return bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    }
    b->cfg = *c;
    b->gates = (bt_gates){
        .self = c->self,        .role = BT_ROLE_DECODE,
        .len = c->gateways,     .times = {c->heartbeat_us, c->silence_us, c->resend_us, c->rejected_us},
        .hello = &b->cfg.hello, .brain = b,
        .send = send_control,   .load = load_of};
    b->own_class = bt_hash64(c->hello.prefill_exactness, strlen(c->hello.prefill_exactness));
    b->acts_cap = b->attempts.len * 8 + (size_t)c->gateways * 4 + 16;
    b->records = calloc(b->attempts.len, sizeof *b->records);
    b->links = calloc(c->links_max, sizeof *b->links);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    const uint32_t longest =
        (uint32_t)(((uint64_t)c->hello.ctx_tokens + c->page_tokens - 1) / c->page_tokens);
    const uint32_t seq_pages = longest < c->pages_total ? longest : c->pages_total;
    bt_err e = c->hello.kv.window && c->window_pages_total < seq_pages
                   ? bt_fail(fault, BT_EARG, "decode node: %u pages of window layers, a sequence has %u",
                             c->window_pages_total, seq_pages)
                   : BT_OK;
    if (e == BT_OK)
        e = bt_kv_book_new(&b->book, c->pages_total, c->page_tokens, c->slots, seq_pages, c->prompts, fault);
    if (e == BT_OK && c->hello.kv.window)
        e = bt_kv_book_add_windows(b->book, c->window_pages_total, c->hello.kv.window, fault);
    if (e == BT_OK && (!b->records || !b->links || !b->acts || dc_orders_new(b) < 0))
        e = bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    if (e < 0) {
        dc_brain_free(b);
        return e;
    }
    for (uint32_t i = 0; i < b->attempts.len; i++) b->records[i].a = &b->attempts.all[i];
    *ret = b;
    return BT_OK;
}

void dc_brain_free(dc_brain *b)
{
    if (!b) return;
    for (uint32_t i = 0; b->records && i < b->attempts.len; i++) {
        bt_xfer_recv_done(&b->records[i].recv);
        free(b->records[i].block);
    }
    bt_attempts_free(&b->attempts);
    dc_orders_free(b);
    free(b->records);
    bt_kv_book_free(b->book);
    free(b->links);
    free(b->acts);
    free(b);
}

bt_load dc_brain_load(const dc_brain *b)
{
    bt_load load = bt_attempts_load(&b->attempts);
    load.pages_total = b->cfg.pages_total;
    load.pages_used = bt_kv_book_used(b->book);
    load.pages_cached = bt_kv_book_cached(b->book);
    load.window_pages_total = b->cfg.window_pages_total;
    load.window_pages_used = bt_kv_book_windows_used(b->book);
    load.window_pages_cached = bt_kv_book_windows_cached(b->book);
    load.rss_bytes = b->rss_bytes;
    bt_attempts_load_device(&load, &b->device);
    load.reservations = b->reserved;
    load.queued = b->waiting_len + b->line_len;
    load.overtakes = b->n.overtakes;
    return load;
}

void dc_brain_set_device(dc_brain *b, const bt_msg_device_work *sum) { b->device = *sum; }
void dc_brain_set_rss(dc_brain *b, uint64_t rss_bytes) { b->rss_bytes = rss_bytes; }

void dc_brain_set_role_may(dc_brain *b, bt_role_may may) { b->gates.role_may = may; }
bt_request_ref dc_brain_ref(const dc_brain *b, uint32_t slot)
{
    static const bt_request_ref none;
    const bt_attempt *a = bt_attempts_by_slot(&b->attempts, slot);
    return a ? a->ref : none;
}
bool dc_brain_wants_alive(const dc_brain *b, int64_t now_us) { return dc_is_quiet(b, now_us); }
void dc_brain_rest(dc_brain *b) { bt_gates_rest(&b->gates); }
int64_t dc_brain_wake(dc_brain *b, int64_t now_us, int64_t heard_us)
{
    return bt_gates_wake(&b->gates, now_us, heard_us);
}
bool dc_brain_is_welcome(const dc_brain *b) { return bt_gates_is_welcome(&b->gates); }
const dc_counters *dc_brain_counters(const dc_brain *b) { return &b->n; }
bool dc_brain_is_sound(const dc_brain *b) { return bt_kv_book_is_sound(b->book) && dc_orders_agree(b); }
