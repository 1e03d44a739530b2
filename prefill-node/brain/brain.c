/* Decides what the prefill node does: see brain.h. This file has the life of an attempt and what the gateways
 * say; brain_pages.c the KV pages, links.c the bulk links and the transfers. */
#include "prefill-node/brain/brain_inner.h"
#include "kv/kv_header.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pf_config pf_config_defaults(void)
{
    return (pf_config){
        .gateways = 1, .slots = 1, .workers = 1, .page_tokens = 64, .links_max = 32, .min_overlap_tokens = 64,
        .block_tokens = 256, .unsent_max = 8, .heartbeat_us = 500000, .silence_us = 2000000, .resend_us = 500000,
        .rejected_us = 5000000, .say_us = 1000000, .dial_us = 3000000, .link_us = 10000000, .stall_us = 2000000, .idle_us = 60000000,
    };
}

/* ---- making actions ----------------------------------------------------------------------------- */

pf_action *pf_act(pf_brain *b, pf_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    pf_action *a = &b->acts[b->acts_len++];
    memset(a, 0, sizeof *a);
    a->type = type;
    return a;
}

static bt_msg *to_gate(pf_brain *b, uint32_t gate, bt_msg_type type)
{
    pf_action *a = pf_act(b, PF_DO_SEND_CONTROL);
    a->u.control.gateway = gate;
    bt_msg *m = &a->u.control.msg;
    m->type = type;
    m->from = b->cfg.self;
    m->to = b->gates[gate].peer;
    return m;
}

/* A message about a request, to its owner; NULL when no link leads there now (it would be lost, as on a cut wire). */
static bt_msg *to_owner(pf_brain *b, const bt_request_ref *ref, bt_msg_type type)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        if (!bt_greeting_is_owner(&b->gates[g], &ref->owner)) continue;
        bt_msg *m = to_gate(b, g, type);
        m->ref = *ref;
        return m;
    }
    return NULL;
}

void pf_fill_hello(const pf_brain *b, bt_msg_hello *ret)
{
    *ret = b->cfg.hello;
    ret->protocol = BT_PROTOCOL_VERSION;
    ret->role = BT_ROLE_PREFILL;
    ret->draining = b->draining;
    ret->load = pf_brain_load(b);
}

static void hello(pf_brain *b, uint32_t gate, bt_greeting_says says)
{
    if (says == BT_GREETING_NOTHING) return;
    bt_msg *m = to_gate(b, gate, says == BT_GREETING_HELLO ? BT_MSG_HELLO : BT_MSG_HEARTBEAT);
    if (says == BT_GREETING_HELLO) {
        memset(&m->to, 0, sizeof m->to);
        pf_fill_hello(b, &m->u.hello);
    } else {
        m->u.heartbeat.draining = b->draining;
        m->u.heartbeat.load = pf_brain_load(b);
    }
}

static void say_reports(pf_brain *b, pf_record *r)
{
    bt_msg *m;
    r->resend_us = b->now_us + b->cfg.resend_us;
    if (r->has_first && !r->first_acked && (m = to_owner(b, &r->ref, BT_MSG_FIRST_TOKEN))) m->u.first_token = r->first;
    if (r->state != PF_REPORTING) return;
    if (r->is_failed) {
        if ((m = to_owner(b, &r->ref, BT_MSG_FAILED))) m->u.failed = r->failed;
    } else if (!r->done_acked && (m = to_owner(b, &r->ref, BT_MSG_PREFILL_DONE))) {
        m->u.prefill_done = r->done;
    }
}

static bool wants_resend(const pf_record *r)
{
    if (r->state == PF_REPORTING) return true;
    return (r->state == PF_SENDING || r->state == PF_COMMITTED) && !r->first_acked;
}

/* ---- life of a record --------------------------------------------------------------------------- */

pf_record *pf_find(pf_brain *b, const bt_request_ref *ref)
{
    pf_record *best = NULL;             /* the highest attempt: a lower one may still be STOPPING */
    for (uint32_t i = 0; i < b->records_len; i++) {
        pf_record *r = &b->records[i];
        if (r->state == PF_NONE || r->state == PF_DEAD || !bt_request_same(&r->ref, ref)) continue;
        if (!best || r->ref.attempt > best->ref.attempt) best = r;
    }
    return best;
}

pf_record *pf_by_slot(pf_brain *b, uint32_t slot)
{
    if (slot >= b->cfg.slots) return NULL;
    for (uint32_t i = 0; i < b->records_len; i++)
        if (b->records[i].state != PF_NONE && b->records[i].slot == slot) return &b->records[i];
    return NULL;
}

static void free_slot(pf_brain *b, pf_record *r)
{
    if (r->slot == PF_NO_SLOT) return;
    if (r->started_us != 0) pf_pages_keep(b, r);
    bt_kv_book_release(b->book, r->slot);
    pf_act(b, PF_DO_RELEASE)->u.slot = r->slot;
    b->slot_used[r->slot] = false;
    r->slot = PF_NO_SLOT;
}

static void bury(pf_brain *b, pf_record *r)
{
    free_slot(b, r);
    bt_attempt_log_note(&b->log, &r->ref);
    r->state = PF_DEAD;                 /* its ids go in the next step: COMPUTE of this one may point at them */
}

static void reap(pf_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        if (b->records[i].state != PF_DEAD) continue;
        free(b->records[i].ids);
        b->records[i] = (pf_record){.slot = PF_NO_SLOT};
    }
}

static void report(pf_brain *b, pf_record *r)
{
    free_slot(b, r);
    r->state = PF_REPORTING;
    say_reports(b, r);
}

static bool is_idle(const pf_record *r) { return !r->in_worker && r->lent == 0; }

void pf_settle(pf_brain *b, pf_record *r)
{
    if (!is_idle(r)) return;
    if (r->state == PF_COMMITTED || (r->state == PF_STOPPING && r->is_failed && !r->ack_abort)) {
        report(b, r);
    } else if (r->state == PF_STOPPING) {
        if (r->ack_abort) (void)to_owner(b, &r->ref, BT_MSG_ABORT_ACK);
        bury(b, r);
    }
}

static void stop(pf_brain *b, pf_record *r, bool ack_abort)
{
    r->ack_abort = ack_abort || r->ack_abort;
    if (r->state == PF_STOPPING) return;
    if (r->in_worker) pf_act(b, PF_DO_CANCEL)->u.slot = r->slot;
    r->state = PF_STOPPING;
    pf_settle(b, r);
}

/* The codes of FAILED: see brain.h. */
static bt_err outward(bt_err code)
{
    if (code == BT_EFORMAT || code == BT_EARG || code == BT_ELIMIT || code == BT_EAGAIN || code == BT_ECANCEL) return code;
    return code == BT_ENOMEM ? BT_EAGAIN : BT_EIO;
}

void pf_fail(pf_brain *b, pf_record *r, bt_err code, const char *text)
{
    if (r->state != PF_WAITING && r->state != PF_COMPUTING && r->state != PF_SENDING && r->state != PF_COMMITTED) return;
    r->is_failed = true;
    r->failed.code = outward(code);
    snprintf(r->failed.text, sizeof r->failed.text, "%s", text);
    b->n.failed++;
    stop(b, r, false);
}

void pf_committed(pf_brain *b, pf_record *r)
{
    b->n.completed++;
    r->done.exposed_us = (uint64_t)(b->now_us - r->rows_us);
    r->done.transfer_us = r->first_block_us ? (uint64_t)(b->now_us - r->first_block_us) : 0;
    r->state = PF_COMMITTED;
    pf_settle(b, r);
}

/* ---- control ------------------------------------------------------------------------------------ */

static void set_lease(pf_brain *b, pf_record *r, uint32_t lease_ms)
{
    r->lease_end_us = b->now_us + (int64_t)lease_ms * 1000;
}

static void refuse(pf_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms, const char *text)
{
    b->n.refused++;
    bt_attempt_log_note(&b->log, ref);
    bt_msg *m = to_owner(b, ref, BT_MSG_REFUSED);
    if (!m) return;
    m->u.refused.of = BT_MSG_PREFILL;
    m->u.refused.code = code;
    m->u.refused.retry_after_ms = retry_after_ms;
    snprintf(m->u.refused.text, sizeof m->u.refused.text, "%s", text);
}

/* A free record and slot; NULL: *ret_why says why. */
static pf_record *room(pf_brain *b, uint32_t *ret_slot, const char **ret_why)
{
    *ret_why = "this node is draining";
    if (b->draining) return NULL;
    *ret_why = "every slot is taken";
    uint32_t slot = 0;
    while (slot < b->cfg.slots && b->slot_used[slot]) slot++;
    if (slot == b->cfg.slots) return NULL;
    *ret_why = "too many reports wait for their acknowledgement";
    for (uint32_t i = 0; i < b->records_len; i++) {
        if (b->records[i].state != PF_NONE) continue;
        *ret_slot = slot;
        return &b->records[i];
    }
    return NULL;
}

/* The prompt and then the bias list in one block; NULL: out of memory. */
static int32_t *copy_ids(const bt_msg_prefill *w)
{
    const size_t ids_bytes = w->ids_len * sizeof(int32_t), bias_bytes = w->sampling.bias_len * sizeof(bt_sample_bias);
    int32_t *ids = malloc(ids_bytes + bias_bytes);
    if (!ids) return NULL;
    memcpy(ids, w->ids, ids_bytes);
    if (bias_bytes) memcpy(ids + w->ids_len, w->sampling.bias, bias_bytes);
    return ids;
}

static bool is_possible(pf_brain *b, const bt_msg *m)
{
    const bt_msg_prefill *w = &m->u.prefill;
    const uint64_t pages = ((uint64_t)w->ids_len + b->cfg.page_tokens - 1) / b->cfg.page_tokens;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
    if (w->ids_len == 0 || w->ids_len > b->cfg.hello.ctx_tokens || pages > b->cfg.pages_total) {
        snprintf(text, sizeof text, "a prompt of %u tokens, but this node holds %u at most", w->ids_len, b->cfg.hello.ctx_tokens);
        refuse(b, &m->ref, BT_ELIMIT, 0, text);
        return false;
    }
    if (w->covered_tokens > w->ids_len || (w->covered_tokens % BT_KV_UNIT_TOKENS != 0 && w->covered_tokens != w->ids_len)) {
        snprintf(text, sizeof text, "%u tokens covered of a prompt of %u", w->covered_tokens, w->ids_len);
        refuse(b, &m->ref, BT_EARG, 0, text);
        return false;
    }
    return true;
}

static void on_prefill(pf_brain *b, const bt_msg *m)
{
    const bt_msg_prefill *w = &m->u.prefill;
    pf_record *old = pf_find(b, &m->ref);
    if (old && old->ref.attempt == m->ref.attempt) {
        b->n.repeats++;
        if (old->state != PF_STOPPING) (void)to_owner(b, &m->ref, BT_MSG_PREFILL_ACCEPTED);
        return;
    }
    if ((old && old->ref.attempt > m->ref.attempt) || bt_attempt_log_highest(&b->log, &m->ref) >= m->ref.attempt) {
        b->n.stale_attempt++;
        if (!old) refuse(b, &m->ref, BT_EAGAIN, 100, "this attempt is over here");
        return;
    }
    if (old) {
        old->is_failed = false;             /* its owner has moved on: nobody waits for a report */
        stop(b, old, false);
    }
    if (!is_possible(b, m)) return;
    const char *why;
    uint32_t slot;
    pf_record *r = room(b, &slot, &why);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    int32_t *ids = copy_ids(w);
    if (!ids) {
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    *r = (pf_record){.state = PF_WAITING,
                     .ref = m->ref,
                     .slot = slot,
                     .ids = ids,
                     .ids_len = w->ids_len,
                     .covered_tokens = w->covered_tokens,
                     .decode = w->decode,
                     .ticket = w->ticket,
                     .sampling = w->sampling,
                     .accepted_us = b->now_us,
                     .said_us = b->now_us,
                     .turn = ++b->turns};
    r->sampling.bias = (const bt_sample_bias *)(ids + w->ids_len);
    if (!pf_pages_take(b, r, &why) || !pf_link_want(b, &w->decode, &w->decode_key, w->kv_endpoint, &why)) {
        bt_kv_book_release(b->book, slot);
        r->slot = PF_NO_SLOT;
        r->state = PF_DEAD;
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    set_lease(b, r, w->lease_ms);
    b->slot_used[slot] = true;
    b->n.accepted++;
    b->n.prompt_tokens += w->ids_len;
    (void)to_owner(b, &m->ref, BT_MSG_PREFILL_ACCEPTED);
}

static void on_abort(pf_brain *b, const bt_msg *m)
{
    pf_record *r = pf_find(b, &m->ref);
    bt_attempt_log_note(&b->log, &m->ref);
    if (!r || r->ref.attempt > m->ref.attempt) {
        (void)to_owner(b, &m->ref, BT_MSG_ABORT_ACK);
        return;
    }
    if (r->state != PF_STOPPING) b->n.aborted++;
    r->ref.attempt = m->ref.attempt;
    stop(b, r, true);
}

static void on_ack(pf_brain *b, pf_record *r, bt_msg_type of)
{
    if (of == BT_MSG_FIRST_TOKEN) r->first_acked = true;
    else if (of == BT_MSG_PREFILL_DONE && r->state == PF_REPORTING) r->done_acked = true;
    else if (of != BT_MSG_FAILED || r->state != PF_REPORTING || !r->is_failed) { b->n.unexpected++; return; }
    if (r->state == PF_REPORTING && (r->is_failed ? of == BT_MSG_FAILED : r->first_acked && r->done_acked)) bury(b, r);
}

static void drain(pf_brain *b)
{
    if (b->draining) return;
    b->draining = true;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN) hello(b, g, BT_GREETING_HEARTBEAT);
}

static void on_role(pf_brain *b, uint32_t gate, bt_role wanted)
{
    const bool begins = bt_role_answer(&to_gate(b, gate, BT_MSG_ROLE_ANSWER)->u.role_answer, &b->next_role, wanted, BT_ROLE_PREFILL,
                                       b->role_may, b->draining);
    if (!begins) return;
    (void)pf_act(b, PF_DO_DRAIN);
    drain(b);
}

static void on_control(pf_brain *b, uint32_t gate, const bt_msg *m)
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
    if (refused) pf_log(b, BT_LOG_ERROR, "the gateway refuses this node: ", m->u.reject.text);
    if (!pass) return;
    if (m->type == BT_MSG_ROLE) {
        on_role(b, gate, m->u.role.role);
        return;
    }
    if (!bt_incarnation_equal(&m->ref.owner, &m->from) || m->ref.attempt == 0) {
        b->n.unexpected++;
        return;
    }
    if (m->type == BT_MSG_PREFILL) { on_prefill(b, m); return; }
    if (m->type == BT_MSG_ABORT) { on_abort(b, m); return; }
    pf_record *r = pf_find(b, &m->ref);
    if (r && r->ref.attempt != m->ref.attempt) {
        b->n.stale_attempt++;
    } else if (m->type == BT_MSG_RENEW && r) {
        if (r->state != PF_STOPPING) set_lease(b, r, m->u.renew.lease_ms);
    } else if (m->type == BT_MSG_RENEW) {
        bt_msg *f = to_owner(b, &m->ref, BT_MSG_FAILED);
        if (!f) return;
        f->u.failed.code = BT_ECANCEL;
        snprintf(f->u.failed.text, sizeof f->u.failed.text, "this prefill node does not hold the attempt (any more)");
    } else if (m->type == BT_MSG_ACK && r) {
        on_ack(b, r, m->u.ack.of);
    } else {
        b->n.unexpected++;
    }
}

void pf_log(pf_brain *b, bt_log_level level, const char *text, const char *more)
{
    pf_action *a = pf_act(b, PF_DO_LOG);
    a->u.log.level = level;
    snprintf(a->u.log.text, sizeof a->u.log.text, "%s%s", text, more);
}

/* ---- worker ------------------------------------------------------------------------------------- */

static void start(pf_brain *b, pf_record *r)
{
    pf_pages_look_again(b, r);
    bt_xfer_send_start(&b->sends[r->slot], &(bt_xfer_send_plan){.layers = b->cfg.hello.kv.layers,
                                                                .prompt_tokens = r->ids_len,
                                                                .block_tokens = b->cfg.block_tokens,
                                                                .skip_tokens = r->covered_tokens,
                                                                .ready_tokens = r->from_row,
                                                                .held = r->ids_len - r->covered_tokens < b->cfg.min_overlap_tokens});
    b->n.prefix_hits += r->from_row > 0;
    b->n.prefix_tokens += r->from_row;
    r->state = PF_COMPUTING;
    r->in_worker = true;
    r->started_us = b->now_us;
    pf_action *a = pf_act(b, PF_DO_COMPUTE);
    a->u.compute.slot = r->slot;
    a->u.compute.ids = r->ids;
    a->u.compute.ids_len = r->ids_len;
    a->u.compute.pages = bt_kv_book_table(b->book, r->slot, &a->u.compute.pages_len);
    a->u.compute.from_row = r->from_row;
    a->u.compute.sampling = r->sampling;
}

static void start_waiting(pf_brain *b)
{
    for (;;) {
        uint32_t busy = 0;
        pf_record *first = NULL;
        for (uint32_t i = 0; i < b->records_len; i++) {
            pf_record *r = &b->records[i];
            busy += r->in_worker;
            if (r->state == PF_WAITING && (!first || r->turn < first->turn)) first = r;
        }
        if (!first || busy >= b->cfg.workers) return;
        start(b, first);
    }
}

static void on_computed(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.computed.slot);
    if (r && r->state == PF_STOPPING && r->in_worker) return;       /* its end follows */
    if (!r || r->state != PF_COMPUTING) {
        b->n.unexpected++;
        return;
    }
    pf_pages_keep(b, r);
    r->state = PF_SENDING;
    r->progress_us = b->now_us;
    r->has_first = true;
    r->first.token = ev->u.computed.token;
    r->first.top_len = ev->u.computed.top_len <= BT_MSG_TOP_LOGITS ? ev->u.computed.top_len : BT_MSG_TOP_LOGITS;
    memcpy(r->first.top_ids, ev->u.computed.top_ids, sizeof r->first.top_ids);
    memcpy(r->first.top_logits, ev->u.computed.top_logits, sizeof r->first.top_logits);
    r->first.queue_us = (uint64_t)(r->started_us - r->accepted_us);
    r->first.prefill_us = ev->u.computed.prefill_us;
    r->first.cached_tokens = r->from_row;
    r->first.work = ev->u.computed.work;
    r->first.has_logprob = ev->u.computed.has_logprob;
    r->first.logprob = ev->u.computed.logprob;
    say_reports(b, r);
}

static void on_digest(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.digest.slot);
    if (!r || !r->in_worker || r->state == PF_COMPUTING) {
        b->n.unexpected++;
        return;
    }
    r->in_worker = false;
    r->done.kv_digest = ev->u.digest.kv_digest;
    pf_settle(b, r);
}

static void on_compute_over(pf_brain *b, uint32_t slot, bt_err code, const char *text)
{
    pf_record *r = pf_by_slot(b, slot);
    if (!r || !r->in_worker) {
        b->n.unexpected++;
        return;
    }
    r->in_worker = false;
    if (r->state == PF_STOPPING) pf_settle(b, r);
    else pf_fail(b, r, code, text);
}

/* ---- time --------------------------------------------------------------------------------------- */

static void expire(pf_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        pf_record *r = &b->records[i];
        if (r->state == PF_NONE || r->state == PF_DEAD || r->state == PF_STOPPING) continue;
        if (b->now_us >= r->lease_end_us) {
            b->n.leases_ended++;
            r->is_failed = false;       /* nobody waits for a report */
            stop(b, r, false);
        } else if (r->state == PF_SENDING && b->now_us - r->progress_us >= b->cfg.link_us) {
            pf_fail(b, r, BT_EIO, "the KV cannot be handed to the decode node: no block and no answer for too long");
        } else if (wants_resend(r) && b->now_us >= r->resend_us) {
            b->n.resent++;
            say_reports(b, r);
        }
    }
    for (uint32_t g = 0; g < b->cfg.gateways; g++) hello(b, g, bt_greeting_tick(&b->gates[g], &b->times, b->now_us));
    pf_links_expire(b);
}

int64_t pf_brain_due_us(const pf_brain *b)
{
    if (!b->started) return 0;
    if (b->exited) return BT_STEP_NEVER;
    int64_t due = pf_links_due_us(b);
    for (uint32_t g = 0; g < b->cfg.gateways; g++) {
        int64_t t = bt_greeting_due_us(&b->gates[g], &b->times);
        if (t < due) due = t;
    }
    for (uint32_t i = 0; i < b->records_len; i++) {
        const pf_record *r = &b->records[i];
        if (r->state == PF_NONE || r->state == PF_DEAD || r->state == PF_STOPPING) continue;
        if (r->lease_end_us < due) due = r->lease_end_us;
        if (wants_resend(r) && r->resend_us < due) due = r->resend_us;
        if (r->state == PF_SENDING && r->progress_us + b->cfg.link_us < due) due = r->progress_us + b->cfg.link_us;
    }
    return due;
}

static void leave(pf_brain *b, bool at_once)
{
    if (!b->draining || b->exited) return;
    for (uint32_t i = 0; i < b->records_len && !at_once; i++)
        if (b->records[i].state != PF_NONE && b->records[i].state != PF_DEAD) return;
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN)
            snprintf(to_gate(b, g, BT_MSG_BYE)->u.bye.text, BT_MSG_MAX_TEXT_BYTES, "%s", b->next_role ? "it changes its role" : "drained");
    pf_act(b, PF_DO_EXIT)->u.next_role = b->next_role;
    b->exited = true;
}

/* What is told now is told once: the process ends, and with it every slot. */
static void drain_over(pf_brain *b)
{
    b->draining = true;
    for (uint32_t i = 0; i < b->records_len; i++) {
        pf_record *r = &b->records[i];
        if (r->state == PF_NONE || r->state == PF_DEAD) continue;
        if (r->state == PF_REPORTING) {
            say_reports(b, r);
            continue;
        }
        bt_msg *m = to_owner(b, &r->ref, r->ack_abort ? BT_MSG_ABORT_ACK : BT_MSG_FAILED);
        if (!m || r->ack_abort) continue;
        m->u.failed.code = BT_EAGAIN;
        snprintf(m->u.failed.text, sizeof m->u.failed.text, "this node is leaving");
    }
    leave(b, true);
}

/* Rows exist. A long prompt's gateway hears of it now and then, so that it can tell slow from stuck. */
static void on_kv_ready(pf_brain *b, const pf_event *ev)
{
    pf_record *r = pf_by_slot(b, ev->u.kv_ready.slot);
    if (!r || !r->in_worker ||
        !bt_xfer_send_ready(&b->sends[r->slot], ev->u.kv_ready.layer, ev->u.kv_ready.token_begin,
                            ev->u.kv_ready.token_count)) {
        b->n.unexpected++;
        return;
    }
    if (r->state == PF_STOPPING) return;        /* the rows are as good, but nobody waits for them */
    r->rows_us = b->now_us;
    if (b->now_us - r->said_us < b->cfg.say_us) return;
    r->said_us = b->now_us;
    (void)to_owner(b, &r->ref, BT_MSG_PREFILL_ACCEPTED);
}

pf_actions pf_brain_step(pf_brain *b, const pf_event *ev, int64_t now_us, const bt_random *random)
{
    (void)random;                       /* nothing here is drawn; kept so that all brains look alike */
    b->acts_len = 0;
    b->now_us = now_us;
    reap(b);
    if (b->exited) return (pf_actions){b->acts, 0};
    if (!b->started) {
        for (uint32_t g = 0; g < b->cfg.gateways; g++) bt_greeting_init(&b->gates[g], now_us);
        b->started = true;
    }
    expire(b);
    switch (ev->type) {
    case PF_EV_TICK: break;
    case PF_EV_CONTROL: on_control(b, ev->u.control.gateway, ev->u.control.msg); break;
    case PF_EV_BULK: pf_links_msg(b, &ev->u.bulk.decode, ev->u.bulk.msg); break;
    case PF_EV_KV_READY: on_kv_ready(b, ev); break;
    case PF_EV_COMPUTED: on_computed(b, ev); break;
    case PF_EV_DIGEST: on_digest(b, ev); break;
    case PF_EV_COMPUTE_FAILED: on_compute_over(b, ev->u.failed.slot, ev->u.failed.code, ev->u.failed.text); break;
    case PF_EV_COMPUTE_STOPPED: on_compute_over(b, ev->u.slot, BT_ECANCEL, "the worker stopped by itself"); break;
    case PF_EV_BLOCK_SENT: pf_links_block(b, &ev->u.block, true); break;
    case PF_EV_BLOCK_BLOCKED: pf_links_block(b, &ev->u.block, false); break;
    case PF_EV_LINK_UP: pf_links_up(b, &ev->u.decode); break;
    case PF_EV_LINK_DOWN: pf_links_down(b, &ev->u.decode); break;
    case PF_EV_LINK_FAILED: pf_links_failed(b, &ev->u.link_failed.decode, ev->u.link_failed.text); break;
    case PF_EV_DRAIN: b->next_role = 0; drain(b); break;
    case PF_EV_DRAIN_OVER: drain_over(b); break;
    default: break;
    }
    if (!b->exited) {
        start_waiting(b);
        pf_links_pump(b);
        leave(b, false);
    }
    return (pf_actions){b->acts, b->acts_len};
}

/* ---- made and looked at ------------------------------------------------------------------------- */

bt_err pf_brain_new(pf_brain **ret, const pf_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->gateways < 1 || c->gateways > PF_MAX_GATEWAYS || c->slots < 1 ||
        c->slots > 1024 || c->workers < 1 || c->workers > c->slots || c->pages_total < 1 || c->page_tokens < 1 ||
        c->page_tokens % BT_KV_UNIT_TOKENS != 0 ||
        c->links_max < 1 || c->block_tokens < 16 || c->block_tokens % 16 != 0 || c->unsent_max < 1 ||
        c->min_overlap_tokens > c->block_tokens || c->hello.ctx_tokens < 1 || c->hello.kv.layers < 1 ||
        bt_xfer_block_bytes(&c->hello.kv, c->block_tokens) == 0)
        return bt_fail(fault, BT_EARG, "prefill node: a limit of its configuration is zero or out of range");
    pf_brain *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "prefill node: out of memory");
    b->cfg = *c;
    b->times = (bt_greeting_times){c->heartbeat_us, c->silence_us, c->resend_us, c->rejected_us};
    b->records_len = c->slots * 4 + 16;
    /* A step: per record reports sent again (2), an end with reports (4), Commit or COMPUTE (1); per link
     * greeting, end, blocks. */
    b->acts_cap = b->records_len * 8 + (size_t)c->links_max * (3 + c->unsent_max) + c->gateways * 4 + 16;
    b->records = calloc(b->records_len, sizeof *b->records);
    b->slot_used = calloc(c->slots, sizeof *b->slot_used);
    b->sends = calloc(c->slots, sizeof *b->sends);
    b->links = calloc(c->links_max, sizeof *b->links);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    bool ok = b->records && b->slot_used && b->sends && b->links && b->acts;
    for (uint32_t i = 0; ok && i < c->slots; i++)
        ok = bt_xfer_send_init(&b->sends[i], c->hello.kv.layers, c->unsent_max) == BT_OK;
    const bt_err e = ok ? pf_pages_new(b, fault) : bt_fail(fault, BT_ENOMEM, "prefill node: out of memory");
    if (e < 0) {
        pf_brain_free(b);
        return e;
    }
    for (uint32_t i = 0; i < b->records_len; i++) b->records[i].slot = PF_NO_SLOT;
    *ret = b;
    return BT_OK;
}

void pf_brain_free(pf_brain *b)
{
    if (!b) return;
    for (uint32_t i = 0; b->records && i < b->records_len; i++) free(b->records[i].ids);
    for (uint32_t i = 0; b->sends && i < b->cfg.slots; i++) bt_xfer_send_done(&b->sends[i]);
    pf_pages_free(b);
    free(b->records);
    free(b->slot_used);
    free(b->sends);
    free(b->links);
    free(b->acts);
    free(b);
}

bt_load pf_brain_load(const pf_brain *b)
{
    bt_load load = {.slots_total = b->cfg.slots,
                    .pages_total = b->cfg.pages_total,
                    .pages_used = bt_kv_book_used(b->book),
                    .pages_cached = bt_kv_book_cached(b->book),
                    .rss_bytes = b->rss_bytes};
    for (uint32_t i = 0; i < b->records_len; i++) {
        const pf_record *r = &b->records[i];
        if (r->state == PF_NONE || r->state == PF_DEAD) continue;
        load.leases++;
        load.slots_used += r->slot != PF_NO_SLOT;
        load.queued += r->state == PF_WAITING;
    }
    return load;
}

void pf_brain_set_rss(pf_brain *b, uint64_t rss_bytes) { b->rss_bytes = rss_bytes; }

void pf_brain_set_role_may(pf_brain *b, bt_role_may may) { b->role_may = may; }
bool pf_brain_is_welcome(const pf_brain *b)
{
    for (uint32_t g = 0; g < b->cfg.gateways; g++)
        if (b->gates[g].state == BT_GREETING_KNOWN) return true;
    return false;
}

const pf_counters *pf_brain_counters(const pf_brain *b) { return &b->n; }
