/* Decides what the decode node does: see brain.h. This file has the links to the gateways, time, and the step itself; brain_attempt.c the life of
 * an attempt, brain_memory.c the pages, blocks.c the bulk links and the transfers. Records are looked at in table order, so that a run depends
 * on its events alone. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include "base/hash.h"
#include "kv/kv_header.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dc_config dc_config_defaults(void)
{
    return (dc_config){
        .gateways = 1, .slots = 1, .page_tokens = 64, .growth_tokens = 256, .preempted_us = 20000000, .links_max = 64,
        .window_bytes = 64u << 20, .lease_max_ms = 60000, .heartbeat_us = 500000, .silence_us = 2000000, .resend_us = 500000, .rejected_us = 5000000,
    };
}

/* ---- making actions ----------------------------------------------------------------------------- */

dc_action *dc_act(dc_brain *b, dc_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    dc_action *a = &b->acts[b->acts_len++];
    memset(a, 0, sizeof *a);
    a->type = type;
    return a;
}

static bt_msg *to_gate(dc_brain *b, uint32_t gate, bt_msg_type type)
{
    dc_action *a = dc_act(b, DC_DO_SEND_CONTROL);
    a->u.control.gateway = gate;
    bt_msg *m = &a->u.control.msg;
    m->type = type;
    m->from = b->cfg.self;
    m->to = b->gates[gate].peer;
    return m;
}

/* A message about a request, to its owner; NULL when no link leads there now (it would be lost, as on a cut wire). */
bt_msg *dc_to_owner(dc_brain *b, const bt_request_ref *ref, bt_msg_type type)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        if (!bt_greeting_is_owner(&b->gates[g], &ref->owner)) continue;
        bt_msg *m = to_gate(b, g, type);
        m->ref = *ref;
        return m;
    }
    return NULL;
}

static void hello(dc_brain *b, uint32_t gate, bt_greeting_says says)
{
    if (says == BT_GREETING_NOTHING) return;
    bt_msg *m = to_gate(b, gate, says == BT_GREETING_HELLO ? BT_MSG_HELLO : BT_MSG_HEARTBEAT);
    bt_load load = dc_brain_load(b);
    if (says == BT_GREETING_HELLO) {
        memset(&m->to, 0, sizeof m->to);
        m->u.hello = b->cfg.hello;
        m->u.hello.protocol = BT_PROTOCOL_VERSION;
        m->u.hello.role = BT_ROLE_DECODE;
        m->u.hello.draining = b->draining;
        m->u.hello.load = load;
    } else {
        m->u.heartbeat.draining = b->draining;
        m->u.heartbeat.load = load;
    }
}

/* ---- control ------------------------------------------------------------------------------------ */

static void on_abort(dc_brain *b, const bt_msg *m)
{
    dc_record *r = dc_find(b, &m->ref);
    bt_attempt_log_note(&b->log, &m->ref);
    if (!r || r->ref.attempt > m->ref.attempt || BT_BREAK(abort_forgotten)) {
        (void)dc_to_owner(b, &m->ref, BT_MSG_ABORT_ACK);
        return;
    }
    if (r->state != DC_STOPPING) b->n.aborted++;
    r->ref.attempt = m->ref.attempt;
    dc_stop(b, r, true);
}

static void drain(dc_brain *b)
{
    if (b->draining) return;
    b->draining = true;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN) hello(b, g, BT_GREETING_HEARTBEAT);
}

static void on_role(dc_brain *b, uint32_t gate, bt_role wanted)
{
    const bool begins = bt_role_answer(&to_gate(b, gate, BT_MSG_ROLE_ANSWER)->u.role_answer, &b->next_role, wanted, BT_ROLE_DECODE,
                                       b->role_may, b->draining);
    if (!begins) return;
    (void)dc_act(b, DC_DO_DRAIN);
    drain(b);
}

static void on_control(dc_brain *b, uint32_t gate, const bt_msg *m)
{
    if (gate >= b->cfg.gateways) return;
    bt_greeting *l = &b->gates[gate];
    if (!bt_incarnation_equal(&m->to, &b->cfg.self)) {
        b->n.wrong_incarnation++;
        hello(b, gate, bt_greeting_again(l, &b->times, b->now_us));
        return;
    }
    bool pass = false, refused = false;
    hello(b, gate, bt_greeting_msg(l, &b->times, m, b->now_us, &pass, &refused));
    if (refused) {
        dc_action *a = dc_act(b, DC_DO_LOG);
        a->u.log.level = BT_LOG_ERROR;
        snprintf(a->u.log.text, sizeof a->u.log.text, "the gateway refuses this node: %s", m->u.reject.text);
    }
    if (!pass) return;
    if (m->type == BT_MSG_ROLE) {
        on_role(b, gate, m->u.role.role);
        return;
    }
    if (!bt_incarnation_equal(&m->ref.owner, &m->from) || m->ref.attempt == 0) {
        b->n.unexpected++;
        return;
    }
    if (m->type == BT_MSG_RESERVE) { dc_on_reserve(b, m); return; }
    if (m->type == BT_MSG_ABORT) { on_abort(b, m); return; }
    dc_record *r = dc_find(b, &m->ref);
    if (r && r->ref.attempt != m->ref.attempt) {
        b->n.stale_attempt++;
        return;
    }
    if (m->type == BT_MSG_RENEW) {
        if (!r) dc_say_failed(b, &m->ref, BT_ECANCEL, "this decode node does not hold the attempt (any more)");
        else if (r->state != DC_STOPPING) dc_set_lease(b, r, m->u.renew.lease_ms);
    } else if (m->type == BT_MSG_TOKENS_ACK && r && r->state != DC_RESERVED && r->state != DC_STOPPING) {
        uint32_t next = m->u.tokens_ack.next_index;
        if (next > r->acked && next <= r->ids_len) {
            r->acked = next;
            r->resend_us = b->now_us + b->cfg.resend_us;
        }
    } else if (m->type == BT_MSG_ACK && r && m->u.ack.of == BT_MSG_FIRST_TOKEN) {
        r->owes_first = false;
    } else if (m->type == BT_MSG_ACK && r && m->u.ack.of == BT_MSG_PREFILL_DONE) {
        r->owes_done = false;
    } else if (m->type == BT_MSG_FINISHED_ACK && r && r->state == DC_REPORTING && r->is_finished) {
        dc_bury(b, r);
    } else if (m->type == BT_MSG_ACK && r && r->state == DC_REPORTING && r->is_failed && m->u.ack.of == BT_MSG_FAILED) {
        dc_bury(b, r);
    } else {
        b->n.unexpected++;
    }
}

/* ---- time --------------------------------------------------------------------------------------- */

static void expire(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD || r->state == DC_STOPPING) continue;
        if (b->now_us >= r->lease_end_us && !BT_BREAK(lease_ignored)) {
            b->n.leases_ended++;
            dc_stop(b, r, false);
            continue;
        }
        if (dc_wants_resend(r) && b->now_us >= r->resend_us) dc_resend(b, r);
        if (dc_memory_waits(r) && b->now_us - r->want_us >= b->cfg.preempted_us)
            dc_memory_give_up(b, r, BT_EAGAIN, "preempted: waited too long for KV memory of this node");
    }
    for (uint32_t g = 0; g < b->cfg.gateways; g++) hello(b, g, bt_greeting_tick(&b->gates[g], &b->times, b->now_us));
}

int64_t dc_brain_due_us(const dc_brain *b)
{
    if (!b->started) return 0;
    if (b->exited) return BT_STEP_NEVER;
    int64_t due = BT_STEP_NEVER;
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        int64_t t = bt_greeting_due_us(&b->gates[g], &b->times);
        if (t < due) due = t;
    }
    for (uint32_t i = 0; i < b->records_len; i++) {
        const dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD || r->state == DC_STOPPING) continue;
        if (r->lease_end_us < due && !BT_BREAK(lease_ignored)) due = r->lease_end_us;
        if (dc_wants_resend(r) && r->resend_us < due) due = r->resend_us;
        if (dc_memory_waits(r) && r->want_us + b->cfg.preempted_us < due) due = r->want_us + b->cfg.preempted_us;
    }
    return due;
}

static void leave(dc_brain *b, const char *text)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN)
            snprintf(to_gate(b, g, BT_MSG_BYE)->u.bye.text, BT_MSG_MAX_TEXT_BYTES, "%s", text);
    dc_act(b, DC_DO_EXIT)->u.next_role = b->next_role;
    b->exited = true;
}

static void leave_when_drained(dc_brain *b)
{
    if (!b->draining || b->exited) return;
    for (uint32_t i = 0; i < b->records_len && !BT_BREAK(drain_loses); i++)
        if (b->records[i].state != DC_NONE && b->records[i].state != DC_DEAD) return;
    leave(b, b->next_role ? "it changes its role" : "drained");
}

/* The process ends with this step, so nothing is waited for and no page is freed. What has ended is reported once more. */
static void leave_at_once(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD) continue;
        if (r->state == DC_REPORTING) dc_resend(b, r);
        else if (r->ack_abort) (void)dc_to_owner(b, &r->ref, BT_MSG_ABORT_ACK);
        else dc_say_failed(b, &r->ref, BT_EAGAIN, "this node is leaving");
    }
    leave(b, "left before it was drained");
}

dc_actions dc_brain_step(dc_brain *b, const dc_event *ev, int64_t now_us, const bt_random *random)
{
    b->acts_len = 0;
    if (b->exited) return (dc_actions){b->acts, 0};
    b->now_us = now_us;
    b->random = random;
    dc_reap(b);
    if (!b->started) {
        for (uint32_t g = 0; g < b->cfg.gateways; g++) bt_greeting_init(&b->gates[g], now_us);
        b->started = true;
    }
    expire(b);
    switch (ev->type) {
    case DC_EV_TICK: break;
    case DC_EV_CONTROL: on_control(b, ev->u.control.gateway, ev->u.control.msg); break;
    case DC_EV_BULK: dc_on_bulk(b, ev->u.bulk); break;
    case DC_EV_BLOCK: dc_on_block(b, &ev->u.block); break;
    case DC_EV_PLACED: dc_on_placed(b, &ev->u.block, true); break;
    case DC_EV_CORRUPT: dc_on_placed(b, &ev->u.block, false); break;
    case DC_EV_FIRST: dc_on_first(b, ev); break;
    case DC_EV_TOKEN: dc_on_token(b, ev); break;
    case DC_EV_NEED: dc_memory_need(b, ev->u.need.slot, ev->u.need.tokens); break;
    case DC_EV_ENDED: dc_on_ended(b, ev); break;
    case DC_EV_STOPPED: dc_on_stopped(b, ev->u.stopped.slot, ev->u.stopped.rows); break;
    case DC_EV_DRAIN: b->next_role = 0; drain(b); break;
    case DC_EV_DRAIN_OVER: leave_at_once(b); return (dc_actions){b->acts, b->acts_len};
    default: break;
    }
    dc_memory_settle(b);
    leave_when_drained(b);
    return (dc_actions){b->acts, b->acts_len};
}

/* ---- made and looked at ------------------------------------------------------------------------- */

bt_err dc_brain_new(dc_brain **ret, const dc_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->gateways < 1 || c->gateways > DC_MAX_GATEWAYS || c->slots < 1 ||
        c->slots > 1024 || c->pages_total < 1 || c->page_tokens < 1 || c->page_tokens > 256 || c->page_tokens % BT_KV_UNIT_TOKENS || c->links_max < 1 || c->hello.ctx_tokens < 1 ||
        c->hello.kv.layers < 1 || bt_xfer_block_bytes(&c->hello.kv, 1) == 0)
        return bt_fail(fault, BT_EARG, "decode node: a limit of its configuration is zero or out of range");
    dc_brain *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    b->cfg = *c;
    b->times = (bt_greeting_times){c->heartbeat_us, c->silence_us, c->resend_us, c->rejected_us};
    b->records_len = c->slots * 4 + 16;
    b->own_class = bt_hash64(c->hello.prefill_exactness, strlen(c->hello.prefill_exactness));
    b->acts_cap = b->records_len * 8 + (size_t)c->gateways * 4 + 16;
    b->records = calloc(b->records_len, sizeof *b->records);
    b->slot_used = calloc(c->slots, sizeof *b->slot_used);
    b->links = calloc(c->links_max, sizeof *b->links);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    const uint32_t longest = (uint32_t)(((uint64_t)c->hello.ctx_tokens + c->page_tokens - 1) / c->page_tokens);
    bt_err e = bt_kv_book_new(&b->book, c->pages_total, c->page_tokens, c->slots, longest < c->pages_total ? longest : c->pages_total, fault);
    if (e == BT_OK && (!b->records || !b->slot_used || !b->links || !b->acts)) e = bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    if (e < 0) {
        dc_brain_free(b);
        return e;
    }
    for (uint32_t i = 0; i < b->records_len; i++) b->records[i].slot = DC_NO_SLOT;
    *ret = b;
    return BT_OK;
}

void dc_brain_free(dc_brain *b)
{
    if (!b) return;
    for (uint32_t i = 0; b->records && i < b->records_len; i++) {
        bt_xfer_recv_done(&b->records[i].recv);
        free(b->records[i].block);
    }
    free(b->records);
    free(b->slot_used);
    bt_kv_book_free(b->book);
    free(b->links);
    free(b->acts);
    free(b);
}

bt_load dc_brain_load(const dc_brain *b)
{
    bt_load load = {.slots_total = b->cfg.slots,
                    .pages_total = b->cfg.pages_total,
                    .pages_used = bt_kv_book_used(b->book),
                    .pages_cached = bt_kv_book_cached(b->book),
                    .rss_bytes = b->rss_bytes};
    for (uint32_t i = 0; i < b->records_len; i++) {
        const dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD) continue;
        load.leases++;
        load.slots_used += r->slot != DC_NO_SLOT;
        load.reservations += r->state == DC_RESERVED;
        load.queued += dc_memory_waits(r);
    }
    return load;
}

void dc_brain_set_rss(dc_brain *b, uint64_t rss_bytes) { b->rss_bytes = rss_bytes; }

void dc_brain_set_role_may(dc_brain *b, bt_role_may may) { b->role_may = may; }
bool dc_brain_is_welcome(const dc_brain *b)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN) return true;
    return false;
}

const dc_counters *dc_brain_counters(const dc_brain *b) { return &b->n; }
bool dc_brain_is_sound(const dc_brain *b) { return bt_kv_book_is_sound(b->book); }
