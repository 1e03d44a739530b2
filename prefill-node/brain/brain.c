/* Decides what the prefill node does: see brain.h. This file has the messages of gateways, time, and the step
 * itself; brain_inner.h lists the files below it. */
#include "prefill-node/brain/brain_inner.h"
#include "base/breakage.h"
#include "kv/kv_header.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pf_config pf_config_defaults(void)
{
    return (pf_config){
        .gateways = 1,
        .slots = 1,
        .workers = 1,
        .page_tokens = 64,
        .links_max = 32,
        .min_overlap_tokens = 64,
        .block_tokens = PF_BLOCK_TOKENS,
        .unsent_max = 8,
        .heartbeat_us = 500000,
        .silence_us = 2000000,
        .resend_us = 500000,
        .rejected_us = 5000000,
        .say_us = 1000000,
        .alive_us = 10000000,
        .dial_us = 3000000,
        .link_us = 10000000,
        .stall_us = 2000000,
        .idle_us = 60000000,
        .short_wait_us = 5000,
    };
}

/* ---- messages of gateways ------------------------------------------------------------------------ */

static void refuse(pf_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms,
                   const char *text)
{
    b->n.refused++;
    bt_attempt_log_note(&b->attempts.log, ref);
    bt_gates_refused(&b->gates, ref, BT_MSG_PREFILL, code, retry_after_ms, text);
}

/* A free record and slot; NULL: *ret_why says why. */
static pf_record *room(pf_brain *b, uint32_t *ret_slot, bool is_long, const char **ret_why)
{
    *ret_why = "this node is draining";
    if (b->gates.draining) return NULL;
    *ret_why = "every slot is taken";
    *ret_slot = bt_attempts_unused_slot(&b->attempts);
    if (*ret_slot == BT_NO_SLOT) return NULL;
    *ret_why = "every slot for long prompts is taken";
    if (is_long && b->long_held + b->short_slots >= b->cfg.slots && !BT_BREAK(short_slots_taken)) return NULL;
    *ret_why = "too many reports wait for their acknowledgement";
    return pf_unused(b);
}

static bt_prompt_view prompt_of(const bt_msg_prefill *w)
{
    const bt_prompt_salt salt = BT_BREAK(prefill_salt_ignored) ? (bt_prompt_salt){{0}} : w->salt;
    return (bt_prompt_view){w->ids_len, w->ids, w->hashes, salt};
}

/* The prompt, the bias list and the program in one block, and the record of it all; false: out of memory. */
static bool keep(pf_brain *b, pf_record *r, const bt_msg_prefill *w)
{
    const bt_prompt_view prompt = prompt_of(w);
    const size_t prompt_bytes = bt_prompt_bytes(&prompt),
                 bias_bytes = w->sampling.bias_len * sizeof(bt_sample_bias);
    static_assert(_Alignof(bt_sample_bias) <= 4, "the bias follows the prompt as it is");
    uint8_t *block = malloc(prompt_bytes + bias_bytes + w->sampling.program_len);
    if (!block) return false;
    *r = (pf_record){.a = r->a,
                     .block = block,
                     .prompt = bt_prompt_copy(block, &prompt),
                     .covered_tokens = w->covered_tokens,
                     .decode = w->decode,
                     .ticket = w->ticket,
                     .sampling = w->sampling,
                     .accepted_us = b->now_us,
                     .said_us = b->now_us,
                     .turn = ++b->turns};
    if (bias_bytes) memcpy(block + prompt_bytes, w->sampling.bias, bias_bytes);
    r->sampling.bias = (const bt_sample_bias *)(const void *)(block + prompt_bytes);
    r->sampling.program = block + prompt_bytes + bias_bytes;
    if (w->sampling.program_len)
        memcpy(block + prompt_bytes + bias_bytes, w->sampling.program, w->sampling.program_len);
    return true;
}

static bool is_possible(pf_brain *b, const bt_msg *m)
{
    const bt_msg_prefill *w = &m->u.prefill;
    const uint64_t pool = (uint64_t)b->cfg.pages_total * b->cfg.page_tokens,
                   most = pool < b->cfg.hello.ctx_tokens ? pool : b->cfg.hello.ctx_tokens;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
    if (w->ids_len == 0 || w->ids_len > most) {
        snprintf(text, sizeof text, "a prompt of %u tokens, but this node holds %llu at most", w->ids_len,
                 (unsigned long long)most);
        refuse(b, &m->ref, BT_ELIMIT, 0, text);
        return false;
    }
    if (b->cfg.prompts == BT_PROMPT_BY_IDS ? !w->ids : !w->hashes.of) {
        refuse(b, &m->ref, BT_EARG, 0,
               "the prompt is given by token ids where this node wants hashes, or the other way round");
        return false;
    }
    if (w->covered_tokens > w->ids_len ||
        (w->covered_tokens % BT_KV_UNIT_TOKENS != 0 && w->covered_tokens != w->ids_len)) {
        snprintf(text, sizeof text,
                 "%u tokens are covered of a prompt of %u: no multiple of a KV unit, nor the whole",
                 w->covered_tokens, w->ids_len);
        refuse(b, &m->ref, BT_EARG, 0, text);
        return false;
    }
    return true;
}

static void on_prefill(pf_brain *b, const bt_msg *m)
{
    const bt_msg_prefill *w = &m->u.prefill;
    pf_record *old = pf_find(b, &m->ref);
    if (old && old->a->ref.attempt == m->ref.attempt) {
        b->n.repeats++;
        if (old->a->state != BT_ATTEMPT_STOPPING)
            (void)bt_gates_to_owner(&b->gates, &m->ref, BT_MSG_PREFILL_ACCEPTED);
        return;
    }
    if ((old && old->a->ref.attempt > m->ref.attempt) ||
        bt_attempt_log_highest(&b->attempts.log, &m->ref) >= m->ref.attempt) {
        b->n.stale_attempt++;
        if (!old) refuse(b, &m->ref, BT_EAGAIN, 100, "this attempt is over here");
        return;
    }
    if (old) {
        old->is_failed = false; /* its owner has moved on: nobody waits for a report */
        pf_attempt_stop(b, old, false);
    }
    if (!is_possible(b, m)) return;
    const bt_prompt_view prompt = prompt_of(w);
    const bool is_long = b->cfg.short_tokens && pf_pages_lacks(b, &prompt) > b->cfg.short_tokens;
    const char *why;
    uint32_t slot;
    pf_record *r = room(b, &slot, is_long, &why);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    if (!keep(b, r, w)) {
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    bt_attempts_take(&b->attempts, r->a, &m->ref, slot, PF_WAITING);
    const bool is_taken =
        pf_pages_take(b, r, &why) && pf_links_want(b, &w->decode, &w->decode_key, w->kv_endpoint, &why);
    (void)pf_touch(b, r->a); /* its link may be new */
    if (!is_taken) {
        bt_kv_book_release(b->book, slot);
        bt_attempts_leave_slot(&b->attempts, r->a);
        bt_attempts_bury(&b->attempts, r->a);
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    bt_attempt_renew(r->a, b->now_us, w->lease_ms);
    r->is_long = is_long;
    b->long_held += is_long;
    b->n.accepted++;
    b->n.prompt_tokens += w->ids_len;
    (void)bt_gates_to_owner(&b->gates, &m->ref, BT_MSG_PREFILL_ACCEPTED);
}

static void on_abort(pf_brain *b, const bt_msg *m)
{
    pf_record *r = pf_abort(b, &m->ref);
    if (!r) {
        (void)bt_gates_to_owner(&b->gates, &m->ref, BT_MSG_ABORT_ACK);
        return;
    }
    if (r->a->state != BT_ATTEMPT_STOPPING) b->n.aborted++;
    pf_attempt_stop(b, r, true);
}

static void on_ack(pf_brain *b, pf_record *r, bt_msg_type of)
{
    const bool is_reporting = r->a->state == BT_ATTEMPT_REPORTING;
    if (of == BT_MSG_FIRST_TOKEN) r->first_acked = true;
    else if (of == BT_MSG_PREFILL_DONE && is_reporting) r->done_acked = true;
    else if (of != BT_MSG_FAILED || !is_reporting || !r->is_failed) {
        b->n.unexpected++;
        return;
    }
    if (is_reporting && (r->is_failed ? of == BT_MSG_FAILED : r->first_acked && r->done_acked))
        pf_attempt_bury(b, r);
}

/* From the owner of m->ref. */
static void on_request(pf_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_PREFILL) {
        on_prefill(b, m);
        return;
    }
    if (m->type == BT_MSG_ABORT) {
        on_abort(b, m);
        return;
    }
    pf_record *r = pf_find(b, &m->ref);
    if (r && r->a->ref.attempt != m->ref.attempt) {
        b->n.stale_attempt++;
    } else if (m->type == BT_MSG_RENEW && r) {
        if (r->a->state != BT_ATTEMPT_STOPPING) bt_attempt_renew(r->a, b->now_us, m->u.renew.lease_ms);
    } else if (m->type == BT_MSG_RENEW) {
        bt_gates_failed(&b->gates, &m->ref, BT_ECANCEL,
                        "this prefill node does not hold the attempt (any more)");
    } else if (m->type == BT_MSG_ACK && r) {
        on_ack(b, r, m->u.ack.of);
    } else {
        b->n.unexpected++;
    }
}

static void on_control(pf_brain *b, uint32_t gate, const bt_msg *m)
{
    switch (bt_gates_msg(&b->gates, gate, m, b->now_us)) {
    case BT_GATES_NOTHING: break;
    case BT_GATES_REQUEST: on_request(b, m); break;
    case BT_GATES_DRAINS:
        (void)pf_act(b, PF_DO_DRAIN);
        bt_gates_drain(&b->gates, m->u.role.role);
        break;
    case BT_GATES_REFUSED:
        pf_log(b, BT_LOG_ERROR, "the gateway refuses this node: ", m->u.reject.text);
        break;
    case BT_GATES_MISSENT: b->n.wrong_incarnation++; break;
    case BT_GATES_UNEXPECTED: b->n.unexpected++; break;
    }
}

/* ---- time --------------------------------------------------------------------------------------- */

static void expire(pf_brain *b)
{
    bt_attempts_ripen(&b->attempts, b->now_us);
    for (pf_record *r; (r = pf_touch(b, bt_attempts_next_ripe(&b->attempts)));) {
        if (!bt_attempt_is_wanted(r->a)) continue;
        if (bt_attempt_is_expired(r->a, b->now_us)) {
            b->n.leases_ended++;
            r->is_failed = false; /* nobody waits for a report */
            pf_attempt_stop(b, r, false);
        } else if (b->now_us >= pf_stuck_us(b, r)) {
            pf_attempt_fail(
                b, r, BT_EIO,
                "the KV cannot be handed to the decode node: no block and no answer for too long");
        } else if (pf_attempt_owes(r) && b->now_us >= r->resend_us) {
            b->n.resent++;
            pf_attempt_say(b, r);
        }
    }
    pf_orders_settle(b); /* heartbeats carry the load */
    bt_gates_tick(&b->gates, b->now_us);
    pf_links_expire(b);
}

int64_t pf_brain_due_us(const pf_brain *b)
{
    const int64_t due = bt_gates_due_us(&b->gates), own = pf_orders_due_us(b), work = pf_work_due_us(b);
    if (b->gates.left) return due;
    return due < own && due < work ? due : own < work ? own : work;
}

static void leave(pf_brain *b)
{
    bt_gates_bye(&b->gates, NULL);
    pf_act(b, PF_DO_EXIT)->u.next_role = b->gates.next_role;
}

/* These messages go once: the process ends, and with it every slot. */
static void leave_at_once(pf_brain *b)
{
    for (pf_record *r = NULL; (r = pf_next(b, r));) {
        if (r->a->state == BT_ATTEMPT_REPORTING) pf_attempt_say(b, r);
        else if (r->ack_abort) (void)bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_ABORT_ACK);
        else bt_gates_failed(&b->gates, &r->a->ref, BT_EAGAIN, "this node is leaving");
    }
    leave(b);
}

pf_actions pf_brain_step(pf_brain *b, const pf_event *ev, int64_t now_us, const bt_random *random)
{
    (void)random; /* nothing here is drawn; kept so that all brains look alike */
    b->acts_len = 0;
    b->now_us = now_us;
    if (b->gates.left) return (pf_actions){b->acts, 0};
    pf_attempt_reap(b);
    expire(b);
    switch (ev->type) {
    case PF_EV_TICK: break;
    case PF_EV_GATE_UP: bt_gates_up(&b->gates, ev->u.gate, now_us); break;
    case PF_EV_CONTROL: on_control(b, ev->u.control.gateway, ev->u.control.msg); break;
    case PF_EV_BULK: pf_links_msg(b, &ev->u.bulk.decode, ev->u.bulk.msg); break;
    case PF_EV_KV_READY: pf_work_kv_ready(b, ev); break;
    case PF_EV_ALIVE: pf_work_alive(b); break;
    case PF_EV_COMPUTED: pf_work_computed(b, ev); break;
    case PF_EV_DIGEST: pf_work_digest(b, ev); break;
    case PF_EV_COMPUTE_FAILED:
        pf_work_over(b, ev->u.failed.slot, ev->u.failed.code, ev->u.failed.text);
        break;
    case PF_EV_COMPUTE_STOPPED:
        pf_work_over(b, ev->u.slot, BT_ECANCEL, "the worker stopped by itself");
        break;
    case PF_EV_COMPUTE_PAUSED: pf_work_paused(b, ev); break;
    case PF_EV_BLOCK_SENT: pf_links_block(b, &ev->u.block, true); break;
    case PF_EV_BLOCK_BLOCKED: pf_links_block(b, &ev->u.block, false); break;
    case PF_EV_LINK_UP: pf_links_up(b, &ev->u.decode); break;
    case PF_EV_LINK_FAILED: pf_links_failed(b, &ev->u.link_failed.decode, ev->u.link_failed.text); break;
    case PF_EV_DRAIN: bt_gates_drain(&b->gates, 0); break;
    case PF_EV_DRAIN_OVER: leave_at_once(b); return (pf_actions){b->acts, b->acts_len};
    default: break;
    }
    pf_work_start(b);
    pf_links_pump(b);
    if (b->gates.draining && !pf_next(b, NULL)) leave(b);
    return (pf_actions){b->acts, b->acts_len};
}

/* ---- made and looked at ------------------------------------------------------------------------- */

static bt_msg *send_control(void *brain, uint32_t gate)
{
    pf_action *a = pf_act(brain, PF_DO_SEND_CONTROL);
    a->u.control.gateway = gate;
    return &a->u.control.msg;
}

static bt_load load_of(const void *brain) { return pf_brain_load(brain); }

bt_err pf_brain_new(pf_brain **ret, const pf_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->gateways < 1 || c->gateways > BT_GATES_MAX ||
        c->slots < 1 || c->slots > 1024 || c->workers < 1 || c->workers > c->slots || c->pages_total < 1 ||
        ((c->share_tokens > 0 || c->short_tokens > 0) && c->workers > 1) || c->page_tokens < 1 ||
        c->page_tokens % BT_KV_UNIT_TOKENS != 0 || c->links_max < 1 || c->block_tokens < 16 ||
        c->block_tokens % 16 != 0 || c->unsent_max < 1 || c->min_overlap_tokens > c->block_tokens ||
        c->hello.ctx_tokens < 1 || c->hello.kv.layers < 1 ||
        bt_xfer_block_bytes(&c->hello.kv, c->block_tokens) == 0)
        return bt_fail(fault, BT_EARG, "prefill node: a limit of its configuration is zero or out of range");
    pf_brain *b = calloc(1, sizeof *b);
    if (!b || bt_attempts_new(&b->attempts, c->slots, 0) < 0) {
        free(b);
        return bt_fail(fault, BT_ENOMEM, "prefill node: out of memory");
    }
    b->cfg = *c;
    if (c->short_tokens && c->slots > 1) b->short_slots = c->slots < 8 ? 1 : c->slots / 4;
    b->cfg.hello.short_tokens = c->short_tokens;
    b->cfg.hello.short_slots = b->short_slots;
    b->gates = (bt_gates){
        .self = c->self,        .role = BT_ROLE_PREFILL,
        .len = c->gateways,     .times = {c->heartbeat_us, c->silence_us, c->resend_us, c->rejected_us},
        .hello = &b->cfg.hello, .brain = b,
        .send = send_control,   .load = load_of};
    /* A step: per record reports sent again (2), an end with reports (4), Commit or COMPUTE (1); per link
     * greeting, end, blocks. */
    b->acts_cap = b->attempts.len * 8 + (size_t)c->links_max * (3 + c->unsent_max) + c->gateways * 4 + 16;
    b->sends = calloc(c->slots, sizeof *b->sends);
    b->records = calloc(b->attempts.len, sizeof *b->records);
    b->links = calloc(c->links_max, sizeof *b->links);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    bool ok = b->records && b->sends && b->links && b->acts && pf_orders_new(b) == BT_OK;
    for (uint32_t i = 0; ok && i < c->slots; i++)
        ok = bt_xfer_send_init(&b->sends[i], c->hello.kv.layers, c->unsent_max) == BT_OK;
    const bt_err e = ok ? pf_pages_new(b, fault) : bt_fail(fault, BT_ENOMEM, "prefill node: out of memory");
    if (e < 0) {
        pf_brain_free(b);
        return e;
    }
    for (uint32_t i = 0; i < b->attempts.len; i++) b->records[i].a = &b->attempts.all[i];
    *ret = b;
    return BT_OK;
}

void pf_brain_free(pf_brain *b)
{
    if (!b) return;
    for (uint32_t i = 0; b->records && i < b->attempts.len; i++) free(b->records[i].block);
    for (uint32_t i = 0; b->sends && i < b->cfg.slots; i++) bt_xfer_send_done(&b->sends[i]);
    pf_pages_free(b);
    bt_attempts_free(&b->attempts);
    pf_orders_free(b);
    free(b->records);
    free(b->sends);
    free(b->links);
    free(b->acts);
    free(b);
}

bt_load pf_brain_load(const pf_brain *b)
{
    bt_load load = bt_attempts_load(&b->attempts);
    load.pages_total = b->cfg.pages_total;
    load.pages_used = bt_kv_book_used(b->book);
    load.pages_cached = bt_kv_book_cached(b->book);
    load.window_pages_total = b->cfg.hello.kv.window ? b->cfg.pages_total : 0;
    load.window_pages_used = bt_kv_book_windows_used(b->book);
    load.window_pages_cached = bt_kv_book_windows_cached(b->book);
    load.rss_bytes = b->rss_bytes;
    bt_attempts_load_device(&load, &b->device);
    load.queued = b->waiting_len;
    return load;
}

void pf_brain_set_device(pf_brain *b, const bt_msg_device_work *sum) { b->device = *sum; }
void pf_brain_set_rss(pf_brain *b, uint64_t rss_bytes) { b->rss_bytes = rss_bytes; }

void pf_brain_set_role_may(pf_brain *b, bt_role_may may) { b->gates.role_may = may; }
void pf_brain_rest(pf_brain *b) { bt_gates_rest(&b->gates); }
int64_t pf_brain_wake(pf_brain *b, int64_t now_us, int64_t heard_us)
{
    return bt_gates_wake(&b->gates, now_us, heard_us);
}
bool pf_brain_is_welcome(const pf_brain *b) { return bt_gates_is_welcome(&b->gates); }
const pf_counters *pf_brain_counters(const pf_brain *b) { return &b->n; }
bool pf_brain_is_sound(const pf_brain *b) { return bt_kv_book_is_sound(b->book) && pf_orders_agree(b); }
