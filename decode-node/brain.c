/* Decides what the decode node does: see brain.h. This file has the life of an attempt and what the gateways
 * say; blocks.c has the bulk links and the transfers. Records are looked at in table order, so that a run
 * depends on its events alone. What is freed in a step is only put aside: messages made in the step may still
 * point into it. */
#include "decode-node/brain_inner.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dc_config dc_config_defaults(void)
{
    return (dc_config){
        .gateways = 1, .slots = 1, .page_tokens = 64, .links_max = 64, .window_bytes = 64u << 20, .lease_max_ms = 60000,
        .heartbeat_us = 500000, .silence_us = 2000000, .resend_us = 500000, .rejected_us = 5000000,
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

static void act_slot(dc_brain *b, dc_action_type type, uint32_t slot) { dc_act(b, type)->u.slot = slot; }

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
static bt_msg *to_owner(dc_brain *b, const bt_request_ref *ref, bt_msg_type type)
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

static void say_failed(dc_brain *b, const bt_request_ref *ref, bt_err code, const char *text)
{
    bt_msg *m = to_owner(b, ref, BT_MSG_FAILED);
    if (!m) return;
    m->u.failed.code = code;
    snprintf(m->u.failed.text, sizeof m->u.failed.text, "%s", text);
}

static void say_refused(dc_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms, const char *text)
{
    bt_msg *m = to_owner(b, ref, BT_MSG_REFUSED);
    if (!m) return;
    m->u.refused.of = BT_MSG_RESERVE;
    m->u.refused.code = code;
    m->u.refused.retry_after_ms = retry_after_ms;
    snprintf(m->u.refused.text, sizeof m->u.refused.text, "%s", text);
}

/* What the gateway has not acknowledged of `r`, from index `from`. */
static void say_tokens(dc_brain *b, const dc_record *r, uint32_t from)
{
    if (from >= r->ids_len) return;
    bt_msg *m = to_owner(b, &r->ref, BT_MSG_TOKENS);
    if (!m) return;
    uint32_t n = r->ids_len - from;
    m->u.tokens.first_index = from;
    m->u.tokens.ids = r->ids + from;
    m->u.tokens.ids_len = n < BT_MSG_MAX_TOKENS_IDS ? n : BT_MSG_MAX_TOKENS_IDS;
}

static void say_report(dc_brain *b, const dc_record *r)
{
    bt_msg *m = to_owner(b, &r->ref, r->is_failed ? BT_MSG_FAILED : BT_MSG_FINISHED);
    if (!m) return;
    if (r->is_failed) m->u.failed = r->failed;
    else m->u.finished = r->finished;
}

/* ---- life of a record --------------------------------------------------------------------------- */

/* The request's highest attempt here: a lower one may still be DC_STOPPING. */
dc_record *dc_find(dc_brain *b, const bt_request_ref *ref)
{
    dc_record *best = NULL;
    for (uint32_t i = 0; i < b->records_len; i++) {
        dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD || !bt_request_same(&r->ref, ref)) continue;
        if (!best || r->ref.attempt > best->ref.attempt) best = r;
    }
    return best;
}

dc_record *dc_by_slot(dc_brain *b, uint32_t slot)
{
    if (slot >= b->cfg.slots) return NULL;
    for (uint32_t i = 0; i < b->records_len; i++)
        if (b->records[i].state != DC_NONE && b->records[i].slot == slot) return &b->records[i];
    return NULL;
}

static void free_slot(dc_brain *b, dc_record *r)
{
    if (r->slot == DC_NO_SLOT) return;
    act_slot(b, DC_DO_FREE_PAGES, r->slot);
    b->slot_used[r->slot] = false;
    b->pages_used -= r->pages;
    r->slot = DC_NO_SLOT;
    r->pages = 0;
}

static void bury(dc_brain *b, dc_record *r)
{
    free_slot(b, r);
    bt_attempt_log_note(&b->log, &r->ref);
    r->state = DC_DEAD;
}

static void reap(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        dc_record *r = &b->records[i];
        if (r->state != DC_DEAD) continue;
        bt_xfer_recv_done(&r->recv);
        free(r->ids);
        *r = (dc_record){.slot = DC_NO_SLOT};
    }
}

/* Nothing of the node works on the record any more. */
void dc_stopped(dc_brain *b, dc_record *r)
{
    if (r->ack_abort) (void)to_owner(b, &r->ref, BT_MSG_ABORT_ACK);
    bury(b, r);
}

/* End the attempt: at once, or when the copy or the step in progress lets go of it. */
static void stop(dc_brain *b, dc_record *r, bool ack_abort)
{
    r->ack_abort = ack_abort || r->ack_abort;
    if (r->state == DC_STOPPING) return;
    if (r->state == DC_RUNNING) {
        act_slot(b, DC_DO_STOP, r->slot);
        r->state = DC_STOPPING;
    } else if (r->state == DC_RESERVED && r->recv.placing) {
        r->state = DC_STOPPING;
    } else {
        dc_stopped(b, r);
    }
}

static void finish(dc_brain *b, dc_record *r, const bt_msg_finished *f)
{
    free_slot(b, r);
    r->state = DC_REPORTING;
    r->is_finished = true;
    r->finished = *f;
    r->finished.completion_tokens = r->ids_len;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.finished++;
    say_report(b, r);
}

static bool ends_at_token_0(const dc_record *r)
{
    if (r->wish.max_tokens == 1) return true;
    for (uint32_t i = 0; i < r->wish.stop_ids_len; i++)
        if (r->wish.stop_ids[i] == r->ids[0]) return true;
    return false;
}

void dc_start(dc_brain *b, dc_record *r)
{
    bt_xfer_recv_done(&r->recv);
    r->ids_len = 1;
    r->acked = 1;                       /* token 0 reached the gateway from the prefill node, or will */
    b->n.started++;
    if (ends_at_token_0(r)) {
        finish(b, r, &(bt_msg_finished){.reason = r->wish.max_tokens == 1 ? BT_FINISH_LENGTH : BT_FINISH_STOP});
        return;
    }
    r->state = DC_RUNNING;
    r->resend_us = b->now_us + b->cfg.resend_us;
    dc_action *a = dc_act(b, DC_DO_START);
    a->u.start.slot = r->slot;
    a->u.start.prompt_tokens = r->wish.prompt_tokens;
    a->u.start.first_token = r->ids[0];
    a->u.start.max_tokens = r->wish.max_tokens;
    a->u.start.sampling = r->wish.sampling;
    a->u.start.stop_ids_len = r->wish.stop_ids_len;
    memcpy(a->u.start.stop_ids, r->wish.stop_ids, sizeof r->wish.stop_ids);
}

/* ---- control ------------------------------------------------------------------------------------ */

static void set_lease(dc_brain *b, dc_record *r, uint32_t lease_ms)
{
    if (lease_ms > b->cfg.lease_max_ms) lease_ms = b->cfg.lease_max_ms;
    r->lease_us = (int64_t)lease_ms * 1000;
    r->lease_end_us = b->now_us + r->lease_us;
}

static void say_reserved(dc_brain *b, const dc_record *r)
{
    bt_msg *m = to_owner(b, &r->ref, BT_MSG_RESERVED);
    if (!m) return;
    m->u.reserved.ticket = r->ticket;
    memcpy(m->u.reserved.kv_endpoint, b->cfg.hello.kv_endpoint, sizeof m->u.reserved.kv_endpoint);
}

/* A free record and slot for so many pages, or words why not. */
static dc_record *room(dc_brain *b, uint64_t pages, uint32_t *ret_slot, const char **ret_why)
{
    *ret_why = "every slot is taken";
    uint32_t slot = 0;
    while (slot < b->cfg.slots && b->slot_used[slot]) slot++;
    if (slot == b->cfg.slots) return NULL;
    *ret_why = "too few KV pages are free";
    if (pages > b->cfg.pages_total - b->pages_used) return NULL;
    *ret_why = "too many reports wait for their acknowledgement";
    for (uint32_t i = 0; i < b->records_len; i++) {
        if (b->records[i].state != DC_NONE) continue;
        *ret_slot = slot;
        return &b->records[i];
    }
    return NULL;
}

static void refuse(dc_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms, const char *text)
{
    b->n.refused++;
    bt_attempt_log_note(&b->log, ref);
    say_refused(b, ref, code, retry_after_ms, text);
}

static void on_reserve(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    dc_record *old = dc_find(b, &m->ref);
    if (old && old->ref.attempt >= m->ref.attempt) {
        if (old->ref.attempt > m->ref.attempt) b->n.stale_attempt++;
        else if (old->state == DC_RESERVED) { b->n.repeats++; say_reserved(b, old); }
        else b->n.repeats++;
        return;
    }
    if (bt_attempt_log_highest(&b->log, &m->ref) >= m->ref.attempt) {
        b->n.stale_attempt++;
        say_refused(b, &m->ref, BT_EAGAIN, 100, "this attempt is over here");
        return;
    }
    if (old) stop(b, old, false);
    uint64_t tokens = (uint64_t)w->prompt_tokens + w->max_tokens;
    uint64_t pages = (tokens + b->cfg.page_tokens - 1) / b->cfg.page_tokens;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
    if (w->prompt_tokens == 0 || w->max_tokens == 0 || tokens > b->cfg.hello.ctx_tokens || pages > b->cfg.pages_total ||
        w->stop_ids_len > BT_MSG_MAX_STOP_IDS) {
        snprintf(text, sizeof text, "%llu tokens (prompt %u, answer %u), but this node holds %u at most",
                 (unsigned long long)tokens, w->prompt_tokens, w->max_tokens, b->cfg.hello.ctx_tokens);
        refuse(b, &m->ref, BT_ELIMIT, 0, text);
        return;
    }
    uint32_t slot = DC_NO_SLOT;
    const char *why = "this node is draining";
    dc_record *r = b->draining ? NULL : room(b, pages, &slot, &why);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    int32_t *ids = calloc(w->max_tokens, sizeof *ids);
    bt_xfer_recv recv = {0};
    if (!ids || bt_xfer_recv_init(&recv, &b->cfg.hello.kv, w->prompt_tokens, NULL) < 0) {
        free(ids);
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    *r = (dc_record){.state = DC_RESERVED,
                     .ref = m->ref,
                     .slot = slot,
                     .pages = (uint32_t)pages,
                     .wish = *w,
                     .recv = recv,
                     .ids = ids};
    static_assert(sizeof r->ticket == sizeof *b->random, "a ticket is 128 random bits");
    memcpy(&r->ticket, b->random, sizeof r->ticket);
    set_lease(b, r, w->lease_ms);
    b->slot_used[slot] = true;
    b->pages_used += pages;
    b->n.reserved++;
    dc_action *a = dc_act(b, DC_DO_RESERVE_PAGES);
    a->u.reserve.slot = slot;
    a->u.reserve.tokens = (uint32_t)tokens;
    say_reserved(b, r);
}

static void on_abort(dc_brain *b, const bt_msg *m)
{
    dc_record *r = dc_find(b, &m->ref);
    bt_attempt_log_note(&b->log, &m->ref);
    if (!r || r->ref.attempt > m->ref.attempt) {
        (void)to_owner(b, &m->ref, BT_MSG_ABORT_ACK);
        return;
    }
    if (r->state != DC_STOPPING) b->n.aborted++;
    r->ref.attempt = m->ref.attempt;
    stop(b, r, true);
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
    if (!bt_incarnation_equal(&m->ref.owner, &m->from) || m->ref.attempt == 0) {
        b->n.unexpected++;
        return;
    }
    if (m->type == BT_MSG_RESERVE) { on_reserve(b, m); return; }
    if (m->type == BT_MSG_ABORT) { on_abort(b, m); return; }
    dc_record *r = dc_find(b, &m->ref);
    if (r && r->ref.attempt != m->ref.attempt) {
        b->n.stale_attempt++;
        return;
    }
    if (m->type == BT_MSG_RENEW) {
        if (!r) say_failed(b, &m->ref, BT_ECANCEL, "this decode node does not hold the attempt (any more)");
        else if (r->state != DC_STOPPING) set_lease(b, r, m->u.renew.lease_ms);
    } else if (m->type == BT_MSG_TOKENS_ACK && r && (r->state == DC_RUNNING || r->state == DC_REPORTING)) {
        uint32_t next = m->u.tokens_ack.next_index;
        if (next > r->acked && next <= r->ids_len) {
            r->acked = next;
            r->resend_us = b->now_us + b->cfg.resend_us;
        }
    } else if (m->type == BT_MSG_FINISHED_ACK && r && r->state == DC_REPORTING && r->is_finished) {
        bury(b, r);
    } else if (m->type == BT_MSG_ACK && r && r->state == DC_REPORTING && r->is_failed && m->u.ack.of == BT_MSG_FAILED) {
        bury(b, r);
    } else {
        b->n.unexpected++;
    }
}

/* ---- worker ------------------------------------------------------------------------------------- */

static void on_token(dc_brain *b, uint32_t slot, uint32_t index, int32_t id)
{
    dc_record *r = dc_by_slot(b, slot);
    if (!r || r->state != DC_RUNNING || index != r->ids_len || index >= r->wish.max_tokens) {
        b->n.unexpected += !r || r->state != DC_STOPPING;
        return;
    }
    r->ids[r->ids_len++] = id; /* NOLINT(clang-analyzer-unix.Malloc): reap() empties the record whose ids it frees */
    b->n.tokens++;
    if (r->acked + 1 == r->ids_len) r->resend_us = b->now_us + b->cfg.resend_us;
    say_tokens(b, r, index);
}

static void on_ended(dc_brain *b, const dc_event *ev)
{
    dc_record *r = dc_by_slot(b, ev->u.ended.slot);
    if (!r || (r->state != DC_RUNNING && r->state != DC_STOPPING)) {
        b->n.unexpected++;
        return;
    }
    if (r->state == DC_STOPPING) {
        dc_stopped(b, r);
        return;
    }
    if (ev->u.ended.reason != BT_FINISH_ERROR) {
        finish(b, r, &(bt_msg_finished){.reason = ev->u.ended.reason, .wait_us = ev->u.ended.wait_us,
                                        .decode_us = ev->u.ended.decode_us, .decode_steps = ev->u.ended.steps});
        return;
    }
    free_slot(b, r);
    r->state = DC_REPORTING;
    r->is_failed = true;
    r->failed.code = BT_EIO;
    memcpy(r->failed.text, ev->u.ended.text, sizeof r->failed.text);
    r->failed.text[sizeof r->failed.text - 1] = 0;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.failed++;
    say_report(b, r);
}

/* ---- time --------------------------------------------------------------------------------------- */

static bool wants_resend(const dc_record *r)
{
    return r->state == DC_REPORTING || (r->state == DC_RUNNING && r->acked < r->ids_len);
}

static void expire(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD || r->state == DC_STOPPING) continue;
        if (b->now_us >= r->lease_end_us) {
            b->n.leases_ended++;
            stop(b, r, false);
        } else if (wants_resend(r) && b->now_us >= r->resend_us) {
            r->resend_us = b->now_us + b->cfg.resend_us;
            b->n.resent++;
            say_tokens(b, r, r->acked);
            if (r->state == DC_REPORTING) say_report(b, r);
        }
    }
    for (uint32_t g = 0; g < b->cfg.gateways; g++) hello(b, g, bt_greeting_tick(&b->gates[g], &b->times, b->now_us));
}

int64_t dc_brain_due_us(const dc_brain *b)
{
    if (!b->started) return 0;
    int64_t due = BT_STEP_NEVER;
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        int64_t t = bt_greeting_due_us(&b->gates[g], &b->times);
        if (t < due) due = t;
    }
    for (uint32_t i = 0; i < b->records_len; i++) {
        const dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD || r->state == DC_STOPPING) continue;
        if (r->lease_end_us < due) due = r->lease_end_us;
        if (wants_resend(r) && r->resend_us < due) due = r->resend_us;
    }
    return due;
}

static void leave(dc_brain *b)
{
    if (!b->draining || b->exited) return;
    for (uint32_t i = 0; i < b->records_len; i++)
        if (b->records[i].state != DC_NONE && b->records[i].state != DC_DEAD) return;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN)
            snprintf(to_gate(b, g, BT_MSG_BYE)->u.bye.text, BT_MSG_MAX_TEXT_BYTES, "drained");
    (void)dc_act(b, DC_DO_EXIT);
    b->exited = true;
}

static void drain(dc_brain *b)
{
    if (b->draining) return;
    b->draining = true;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN) hello(b, g, BT_GREETING_HEARTBEAT);
}

dc_actions dc_brain_step(dc_brain *b, const dc_event *ev, int64_t now_us, const bt_random *random)
{
    b->acts_len = 0;
    b->now_us = now_us;
    b->random = random;
    reap(b);
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
    case DC_EV_TOKEN: on_token(b, ev->u.token.slot, ev->u.token.index, ev->u.token.id); break;
    case DC_EV_ENDED: on_ended(b, ev); break;
    case DC_EV_STOPPED: {
        dc_record *r = dc_by_slot(b, ev->u.slot);
        if (r && r->state == DC_STOPPING && !r->recv.placing) dc_stopped(b, r);
        else b->n.unexpected++;
        break;
    }
    case DC_EV_DRAIN: drain(b); break;
    default: break;
    }
    leave(b);
    return (dc_actions){b->acts, b->acts_len};
}

/* ---- made and looked at ------------------------------------------------------------------------- */

bt_err dc_brain_new(dc_brain **ret, const dc_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->gateways < 1 || c->gateways > DC_MAX_GATEWAYS || c->slots < 1 ||
        c->slots > 1024 || c->pages_total < 1 || c->page_tokens < 1 || c->links_max < 1 || c->hello.ctx_tokens < 1 ||
        c->hello.kv.layers < 1 || bt_xfer_block_bytes(&c->hello.kv, 1) == 0)
        return bt_fail(fault, BT_EARG, "decode node: a limit of its configuration is zero or out of range");
    dc_brain *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
    b->cfg = *c;
    b->times = (bt_greeting_times){c->heartbeat_us, c->silence_us, c->resend_us, c->rejected_us};
    b->records_len = c->slots * 4 + 16;
    b->acts_cap = b->records_len * 4 + (size_t)c->gateways * 4 + 16;
    b->records = calloc(b->records_len, sizeof *b->records);
    b->slot_used = calloc(c->slots, sizeof *b->slot_used);
    b->links = calloc(c->links_max, sizeof *b->links);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    if (!b->records || !b->slot_used || !b->links || !b->acts) {
        dc_brain_free(b);
        return bt_fail(fault, BT_ENOMEM, "decode node: out of memory");
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
        free(b->records[i].ids);
    }
    free(b->records);
    free(b->slot_used);
    free(b->links);
    free(b->acts);
    free(b);
}

bt_load dc_brain_load(const dc_brain *b)
{
    bt_load load = {.slots_total = b->cfg.slots,
                    .pages_total = b->cfg.pages_total,
                    .pages_used = b->pages_used,
                    .rss_bytes = b->rss_bytes};
    for (uint32_t i = 0; i < b->records_len; i++) {
        const dc_record *r = &b->records[i];
        if (r->state == DC_NONE || r->state == DC_DEAD) continue;
        load.leases++;
        load.slots_used += r->slot != DC_NO_SLOT;
        load.reservations += r->state == DC_RESERVED;
    }
    return load;
}

void dc_brain_set_rss(dc_brain *b, uint64_t rss_bytes) { b->rss_bytes = rss_bytes; }

bool dc_brain_is_welcome(const dc_brain *b)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN) return true;
    return false;
}

const dc_counters *dc_brain_counters(const dc_brain *b) { return &b->n; }
