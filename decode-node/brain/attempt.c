/* Decides the life of an attempt: its reservation, its start, what the worker says of it, its end, and what the gateway is told of it until
 * it acknowledges. Who holds which pages is in brain_memory.c, the transfer of a prompt's rows in blocks.c. What is freed in a step is only put
 * aside: messages made in the step may still point into it. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the gateway is told ------------------------------------------------------------------- */

void dc_say_failed(dc_brain *b, const bt_request_ref *ref, bt_err code, const char *text)
{
    bt_msg *m = dc_to_owner(b, ref, BT_MSG_FAILED);
    if (!m) return;
    m->u.failed.code = code;
    snprintf(m->u.failed.text, sizeof m->u.failed.text, "%s", text);
}

static void say_refused(dc_brain *b, const bt_request_ref *ref, bt_err code, uint32_t retry_after_ms, const char *text)
{
    bt_msg *m = dc_to_owner(b, ref, BT_MSG_REFUSED);
    if (!m) return;
    m->u.refused.of = BT_MSG_RESERVE;
    m->u.refused.code = code;
    m->u.refused.retry_after_ms = retry_after_ms;
    snprintf(m->u.refused.text, sizeof m->u.refused.text, "%s", text);
}

void dc_say_reserved(dc_brain *b, const dc_record *r)
{
    bt_msg *m = dc_to_owner(b, &r->ref, BT_MSG_RESERVED);
    if (!m) return;
    m->u.reserved.ticket = r->ticket;
    m->u.reserved.covered_tokens = r->wish.is_local ? 0 : r->covered_tokens;     /* a local one says it with token 0 */
    memcpy(m->u.reserved.kv_endpoint, b->cfg.hello.kv_endpoint, sizeof m->u.reserved.kv_endpoint);
}

/* What the gateway has not acknowledged of `r`, from index `from`. */
static void say_tokens(dc_brain *b, const dc_record *r, uint32_t from)
{
    if (from >= r->ids_len) return;
    bt_msg *m = dc_to_owner(b, &r->ref, BT_MSG_TOKENS);
    if (!m) return;
    const uint32_t n = r->ids_len - from, most = r->logprobs ? BT_MSG_MAX_TOKENS_LOGPROBS : BT_MSG_MAX_TOKENS_IDS;
    m->u.tokens.first_index = from;
    m->u.tokens.ids = r->ids + from;
    m->u.tokens.ids_len = n < most ? n : most;
    m->u.tokens.logprobs = r->logprobs ? r->logprobs + from : NULL;
}

/* Of a local prefill, as a prefill node would. */
static void say_first(dc_brain *b, const dc_record *r)
{
    bt_msg *m = r->owes_first ? dc_to_owner(b, &r->ref, BT_MSG_FIRST_TOKEN) : NULL;
    if (m) m->u.first_token = r->first;
    m = r->owes_done ? dc_to_owner(b, &r->ref, BT_MSG_PREFILL_DONE) : NULL;
    if (m) m->u.prefill_done.kv_digest = r->kv_digest;
}

static void say_report(dc_brain *b, const dc_record *r)
{
    bt_msg *m = dc_to_owner(b, &r->ref, r->is_failed ? BT_MSG_FAILED : BT_MSG_FINISHED);
    if (!m) return;
    if (r->is_failed) m->u.failed = r->failed;
    else m->u.finished = r->finished;
}

static bool owes(const dc_record *r)
{
    const bool runs = r->state == DC_RUNNING || r->state == DC_PREEMPTING || r->state == DC_PREEMPTED;
    return r->state == DC_REPORTING || (runs && (r->acked < r->ids_len || r->owes_first || r->owes_done));
}

static bool is_behind(const dc_record *r) { return r->state == DC_RUNNING && r->is_behind; }

bool dc_wants_resend(const dc_record *r) { return owes(r) || is_behind(r); }

void dc_resend(dc_brain *b, dc_record *r)
{
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.resent += owes(r);
    if (is_behind(r) && b->worked_us > r->alive_us) {
        (void)dc_to_owner(b, &r->ref, BT_MSG_PREFILL_ACCEPTED);
        r->alive_us = b->now_us;
    }
    say_first(b, r);
    say_tokens(b, r, r->acked);
    if (r->state == DC_REPORTING) say_report(b, r);
}

/* ---- records ------------------------------------------------------------------------------------ */

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
    if (r->recv.cover) dc_memory_keep(b, r, bt_kv_cover_beginning(r->recv.cover));     /* the transfer ends early: the next begins here */
    dc_memory_drop(b, r);
    b->slot_used[r->slot] = false;
    r->slot = DC_NO_SLOT;
}

void dc_bury(dc_brain *b, dc_record *r)
{
    free_slot(b, r);
    bt_attempt_log_note(&b->log, &r->ref);
    r->state = DC_DEAD;
}

void dc_reap(dc_brain *b)
{
    for (uint32_t i = 0; i < b->records_len; i++) {
        dc_record *r = &b->records[i];
        if (r->state != DC_DEAD) continue;
        bt_xfer_recv_done(&r->recv);
        free(r->block);
        *r = (dc_record){.slot = DC_NO_SLOT};
    }
}

/* ---- the end ------------------------------------------------------------------------------------ */

void dc_stopped(dc_brain *b, dc_record *r)
{
    if (r->ack_abort) (void)dc_to_owner(b, &r->ref, BT_MSG_ABORT_ACK);
    dc_bury(b, r);
}

void dc_stop(dc_brain *b, dc_record *r, bool ack_abort)
{
    r->ack_abort = ack_abort || r->ack_abort;
    if (r->state == DC_STOPPING) return;
    if (r->state == DC_RUNNING) dc_act(b, DC_DO_STOP)->u.slot = r->slot;
    if (r->state == DC_RUNNING && BT_BREAK(page_freed_early)) dc_memory_drop(b, r);
    if (r->state == DC_RUNNING || r->state == DC_PREEMPTING || (r->state == DC_RESERVED && r->recv.placing)) r->state = DC_STOPPING;
    else dc_stopped(b, r);
}

static void finish(dc_brain *b, dc_record *r, const bt_msg_finished *f)
{
    if (BT_BREAK(replay_without_prefix)) dc_memory_keep(b, r, r->wish.prompt_tokens + r->ids_len);
    free_slot(b, r);
    r->state = DC_REPORTING;
    r->is_finished = true;
    r->finished = *f;
    r->finished.completion_tokens = r->ids_len;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.finished++;
    say_report(b, r);
}

void dc_fail(dc_brain *b, dc_record *r, bt_err code, const char *text)
{
    free_slot(b, r);
    r->state = DC_REPORTING;
    r->is_failed = true;
    r->failed.code = code;
    if (text != r->failed.text) snprintf(r->failed.text, sizeof r->failed.text, "%s", text);
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.failed++;
    say_report(b, r);
}

/* ---- the start ---------------------------------------------------------------------------------- */

/* The reason why nothing comes after the last known token, or 0. */
static bt_finish ends_here(const dc_record *r)
{
    if (r->ids_len == 0) return 0;
    for (uint32_t i = 0; i < r->wish.stop_ids_len; i++)
        if (r->wish.stop_ids[i] == r->ids[r->ids_len - 1]) return BT_FINISH_STOP;
    return r->ids_len >= r->wish.max_tokens ? BT_FINISH_LENGTH : 0;
}

void dc_launch(dc_brain *b, dc_record *r, uint32_t rows)
{
    const bt_finish reason = ends_here(r);
    if (reason) {
        finish(b, r, &(bt_msg_finished){.reason = reason});
        return;
    }
    const uint32_t prompt = r->wish.prompt_tokens, last = prompt + (r->ids_len > 0 ? r->ids_len - 1 : 0);
    r->state = DC_RUNNING;
    r->need_tokens = 0;
    r->is_behind = rows < last;
    r->alive_us = -1;
    r->resend_us = b->now_us + b->cfg.resend_us;
    b->n.local_prefills += rows < prompt;
    b->n.replayed_tokens += last - (rows > prompt ? rows : prompt);
    dc_action *a = dc_act(b, DC_DO_START);
    a->u.start.slot = r->slot;
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

static void complete_prompt(dc_brain *b, dc_record *r)
{
    if (!r->has_prompt) dc_memory_keep(b, r, r->wish.prompt_tokens);
    r->has_prompt = true;
}

bool dc_start(dc_brain *b, dc_record *r)
{
    bt_xfer_recv_done(&r->recv);
    if (r->ids_len > 0 && r->ids[0] != r->commit_token) {
        dc_fail(b, r, BT_EFORMAT, "the prefill node made another first token than that of the attempt before");
        return false;
    }
    if (r->ids_len == 0) {
        r->ids[r->ids_len++] = r->commit_token;
        r->acked = 1;                   /* token 0 reached the gateway from the prefill node, or will */
    }
    complete_prompt(b, r);
    b->n.started++;
    dc_launch(b, r, r->wish.prompt_tokens);
    return true;
}

/* ---- Reserve ------------------------------------------------------------------------------------ */

void dc_set_lease(dc_brain *b, dc_record *r, uint32_t lease_ms)
{
    if (lease_ms > b->cfg.lease_max_ms) lease_ms = b->cfg.lease_max_ms;
    r->lease_us = (int64_t)lease_ms * 1000;
    r->lease_end_us = b->now_us + r->lease_us;
}

/* A free record and slot, and pages enough; or words why not. */
static dc_record *room(dc_brain *b, const bt_msg_reserve *w, uint32_t *ret_slot, const char **ret_why)
{
    *ret_why = "every slot is taken";
    uint32_t slot = 0;
    while (slot < b->cfg.slots && b->slot_used[slot]) slot++;
    if (slot == b->cfg.slots) return NULL;
    *ret_why = "too few KV pages are free";
    if (!dc_memory_has_room(b, w)) return NULL;
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

/* What can never be served here; false: `refuse` has said so. */
static bool is_possible(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    const uint64_t tokens = (uint64_t)w->prompt_tokens + w->max_tokens;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
    if (w->prompt_tokens == 0 || w->max_tokens == 0 || tokens > b->cfg.hello.ctx_tokens ||
        tokens > (uint64_t)b->cfg.pages_total * b->cfg.page_tokens) {
        snprintf(text, sizeof text, "%llu tokens (prompt %u, answer %u), but this node holds %u at most",
                 (unsigned long long)tokens, w->prompt_tokens, w->max_tokens, b->cfg.hello.ctx_tokens);
        refuse(b, &m->ref, BT_ELIMIT, 0, text);
        return false;
    }
    if (w->stop_ids_len > BT_MSG_MAX_STOP_IDS || w->sampling.bias_len > BT_SAMPLE_MAX_BIAS || w->ids_len != w->prompt_tokens ||
        w->generated_len >= w->max_tokens) {
        refuse(b, &m->ref, BT_EARG, 0, "the prompt's ids, the tokens so far, the stop ids or the biases are too many or too few");
        return false;
    }
    if (w->is_local && !b->cfg.can_prefill) {
        refuse(b, &m->ref, BT_EARG, 0, "this node does not prefill");
        return false;
    }
    return true;
}

/* Copies the arrays of w into one block that r owns. */
static bool keep(dc_record *r, const bt_msg_reserve *w)
{
    const size_t logprobs = w->sampling.logprobs ? w->max_tokens * sizeof *r->logprobs : 0;
    const size_t bias = w->sampling.bias_len * sizeof *w->sampling.bias;
    static_assert(_Alignof(bt_msg_logprob) <= 4 && _Alignof(bt_sample_bias) <= 4, "the parts of the block follow each other as they are");
    uint8_t *at = calloc(1, logprobs + bias + ((size_t)w->ids_len + w->max_tokens) * sizeof *r->ids);     /* most of it stays untouched */
    if (!at) return false;
    r->block = at;
    r->wish = *w;
    r->logprobs = logprobs ? (bt_msg_logprob *)(void *)at : NULL;
    at += logprobs;
    if (bias) memcpy(at, w->sampling.bias, bias);
    r->wish.sampling.bias = bias ? (const bt_sample_bias *)(void *)at : NULL;
    at += bias;
    memcpy(at, w->ids, w->ids_len * sizeof *w->ids);
    r->wish.ids = (const int32_t *)(void *)at;
    r->ids = (int32_t *)(void *)at + w->ids_len;
    if (w->generated_len) memcpy(r->ids, w->generated, w->generated_len * sizeof *w->generated);
    r->wish.generated = r->ids;
    r->ids_len = r->acked = w->generated_len;
    return true;
}

static void reserve(dc_brain *b, dc_record *r, const dc_record *filled, uint32_t slot)
{
    *r = *filled;
    r->slot = slot;
    r->age = ++b->ages;
    r->class = r->wish.is_local ? b->own_class : r->wish.prefill_class;
    static_assert(sizeof r->ticket == sizeof *b->random, "a ticket is 128 random bits");
    memcpy(&r->ticket, b->random, sizeof r->ticket);
    dc_set_lease(b, r, r->wish.lease_ms);
    b->slot_used[slot] = true;
    b->n.reserved++;
    const uint32_t rows = dc_memory_place_prompt(b, r);
    if (!r->wish.is_local) bt_xfer_recv_has(&r->recv, rows);
    dc_say_reserved(b, r);
    if (!r->wish.is_local) return;
    b->n.started++;
    dc_launch(b, r, rows);
}

/* The gateway waits for RESERVED still; what it heard of token 0 meanwhile, even if it acknowledged that, was too early for it. */
static void reserve_again(dc_brain *b, dc_record *r)
{
    dc_say_reserved(b, r);
    if (!r->first_told) return;
    r->owes_first = r->owes_done = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
    say_first(b, r);
}

void dc_on_reserve(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    dc_record *old = dc_find(b, &m->ref);
    const bool obeys = old && old->ref.attempt > m->ref.attempt && BT_BREAK(stale_attempt_obeyed);
    if (old && old->ref.attempt >= m->ref.attempt && !obeys) {
        if (old->ref.attempt > m->ref.attempt) b->n.stale_attempt++;
        else b->n.repeats++;
        if (old->ref.attempt == m->ref.attempt && (old->state == DC_RESERVED || (old->wish.is_local && old->state != DC_STOPPING)))
            reserve_again(b, old);
        return;
    }
    if (bt_attempt_log_highest(&b->log, &m->ref) >= m->ref.attempt && !BT_BREAK(stale_attempt_obeyed)) {
        b->n.stale_attempt++;
        say_refused(b, &m->ref, BT_EAGAIN, 100, "this attempt is over here");
        return;
    }
    if (old) dc_stop(b, old, false);
    if (!is_possible(b, m)) return;
    uint32_t slot = DC_NO_SLOT;
    const char *why = "this node is draining";
    dc_record *r = b->draining ? NULL : room(b, w, &slot, &why);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    dc_record filled = {.state = DC_RESERVED, .ref = m->ref, .slot = DC_NO_SLOT};
    if (!keep(&filled, w) || (!w->is_local && bt_xfer_recv_init(&filled.recv, &b->cfg.hello.kv, w->prompt_tokens, NULL) < 0)) {
        free(filled.block);
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    reserve(b, r, &filled, slot);
}

/* ---- worker ------------------------------------------------------------------------------------- */

/* In the worker, or on its way out of it. */
static dc_record *in_work(dc_brain *b, uint32_t slot)
{
    dc_record *r = dc_by_slot(b, slot);
    b->worked_us = b->now_us;
    if (r && (r->state == DC_RUNNING || r->state == DC_PREEMPTING)) return r;
    b->n.unexpected += !r || r->state != DC_STOPPING;
    return NULL;
}

void dc_on_first(dc_brain *b, const dc_event *ev)
{
    const bt_msg_first_token *f = ev->u.first.msg;
    dc_record *r = in_work(b, ev->u.first.slot);
    if (!r) return;
    r->is_behind = false;
    if (r->ids_len > 0 && r->ids[0] != f->token) {
        dc_memory_give_up(b, r, BT_EIO, "the prompt, prefilled again, has another first token");
        return;
    }
    complete_prompt(b, r);
    if (r->ids_len == 0) {
        r->ids[r->ids_len++] = f->token;
        r->acked = 1;                   /* FIRST_TOKEN brings it, not TOKENS */
        b->n.tokens++;
    }
    if (!r->wish.is_local || r->first_told || r->wish.generated_len > 0) return;
    r->first = *f;
    r->first.cached_tokens = r->covered_tokens;
    r->kv_digest = ev->u.first.kv_digest;
    r->first_told = r->owes_first = r->owes_done = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
    say_first(b, r);
}

void dc_on_token(dc_brain *b, const dc_event *ev)
{
    dc_record *r = in_work(b, ev->u.token.slot);
    if (!r) return;
    if (ev->u.token.index != r->ids_len || ev->u.token.index >= r->wish.max_tokens) {
        b->n.unexpected++;
        return;
    }
    const uint32_t index = r->ids_len;
    r->is_behind = false;
    complete_prompt(b, r);              /* no FIRST came where token 0 was known before */
    if (r->logprobs && ev->u.token.logprob) r->logprobs[index] = *ev->u.token.logprob;
    r->ids[r->ids_len++] = ev->u.token.id; /* NOLINT(clang-analyzer-unix.Malloc): dc_reap empties the record whose ids it frees */
    b->n.tokens++;
    if (r->acked == index) r->resend_us = b->now_us + b->cfg.resend_us;
    say_tokens(b, r, index);
}

void dc_on_ended(dc_brain *b, const dc_event *ev)
{
    dc_record *r = dc_by_slot(b, ev->u.ended.slot);
    if (r && r->state == DC_STOPPING && !r->recv.placing) {
        dc_stopped(b, r);
        return;
    }
    if (!(r = in_work(b, ev->u.ended.slot))) return;
    if (r->gives_up) {
        dc_fail(b, r, (bt_err)r->failed.code, r->failed.text);
    } else if (ev->u.ended.reason == BT_FINISH_ERROR) {
        char text[sizeof ev->u.ended.text];
        memcpy(text, ev->u.ended.text, sizeof text);
        text[sizeof text - 1] = 0;
        dc_fail(b, r, BT_EIO, text);
    } else {
        finish(b, r, &(bt_msg_finished){.reason = ev->u.ended.reason, .wait_us = ev->u.ended.wait_us,
                                        .decode_us = ev->u.ended.decode_us, .decode_steps = ev->u.ended.steps});
    }
}

void dc_on_stopped(dc_brain *b, uint32_t slot, uint32_t rows)
{
    dc_record *r = dc_by_slot(b, slot);
    if (r && r->state == DC_STOPPING && !r->recv.placing) {
        if (!r->gives_up) dc_memory_keep(b, r, rows);       /* its rows may be why */
        dc_stopped(b, r);
    } else if (r && r->state == DC_PREEMPTING) {
        dc_memory_preempted(b, r, rows);
    } else {
        b->n.unexpected++;
    }
}
