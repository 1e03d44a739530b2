/* Decides which reservation is taken and which is refused, and begins its attempt. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_reserved(dc_brain *b, const dc_record *r)
{
    bt_msg *m = bt_gates_to_owner(&b->gates, &r->a->ref, BT_MSG_RESERVED);
    if (!m) return;
    m->u.reserved.ticket = r->ticket;
    /* a local one says it with token 0 */
    m->u.reserved.covered_tokens = r->wish.is_local ? 0 : r->covered_tokens;
    memcpy(m->u.reserved.kv_endpoint, b->cfg.hello.kv_endpoint, sizeof m->u.reserved.kv_endpoint);
}

/* A free record and slot, and pages enough; or words why not. */
static dc_record *room(dc_brain *b, const bt_msg_reserve *w, uint32_t *ret_slot, const char **ret_why)
{
    *ret_why = "every slot is taken";
    *ret_slot = bt_attempts_unused_slot(&b->attempts);
    if (*ret_slot == BT_NO_SLOT) return NULL;
    *ret_why = "too few KV pages are free";
    dc_orders_settle(b);
    if (!dc_memory_has_room(b, w)) return NULL;
    *ret_why = "too many reports wait for their acknowledgement";
    return dc_unused(b);
}

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
        w->ids_len != w->prompt_tokens || w->generated_len >= w->max_tokens) {
        refuse(
            b, &m->ref, BT_EARG, 0,
            "the count of the prompt's ids, the tokens so far, the stop ids or the biases is out of range");
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
    uint8_t *at = calloc(1, prompt_bytes + ids + logprobs + bias);
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
    if (w->generated_len) memcpy(r->ids, w->generated, w->generated_len * sizeof *w->generated);
    r->wish.generated = r->ids;
    r->ids_len = r->acked = w->generated_len;
    return true;
}

static void begin(dc_brain *b, dc_record *r)
{
    r->age = ++b->ages;
    r->class = r->wish.is_local ? b->own_class : r->wish.prefill_class;
    static_assert(sizeof r->ticket == sizeof *b->random, "a ticket is 128 random bits");
    memcpy(&r->ticket, b->random, sizeof r->ticket);
    dc_attempt_renew(b, r, r->wish.lease_ms);
    b->n.reserved++;
    const uint32_t rows = dc_memory_place_prompt(b, r);
    if (!r->wish.is_local) bt_xfer_recv_has(&r->recv, rows);
    say_reserved(b, r);
    if (!r->wish.is_local) return;
    b->n.started++;
    dc_attempt_launch(b, r, rows);
}

/* The gateway still waits for RESERVED, so any report on token 0 that it got meanwhile, even if it
 * acknowledged it, came too early. */
static void reserve_again(dc_brain *b, dc_record *r)
{
    say_reserved(b, r);
    if (!r->first_told) return;
    r->owes_first = r->owes_done = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
    dc_attempt_say_first(b, r);
}

void dc_reserve(dc_brain *b, const bt_msg *m)
{
    const bt_msg_reserve *w = &m->u.reserve;
    dc_record *old = dc_find(b, &m->ref);
    const bool obeys = old && old->a->ref.attempt > m->ref.attempt && BT_BREAK(stale_attempt_obeyed);
    if (old && old->a->ref.attempt >= m->ref.attempt && !obeys) {
        if (old->a->ref.attempt > m->ref.attempt) b->n.stale_attempt++;
        else b->n.repeats++;
        const bool waits =
            old->a->state == DC_RESERVED || (old->wish.is_local && old->a->state != BT_ATTEMPT_STOPPING);
        if (old->a->ref.attempt == m->ref.attempt && waits) reserve_again(b, old);
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
    uint32_t slot = BT_NO_SLOT;
    const char *why = "this node is draining";
    dc_record *r = b->gates.draining ? NULL : room(b, w, &slot, &why);
    if (!r) {
        refuse(b, &m->ref, BT_EAGAIN, 100, why);
        return;
    }
    if (!keep(r, w) ||
        (!w->is_local && bt_xfer_recv_init(&r->recv, &b->cfg.hello.kv, w->prompt_tokens, NULL) < 0)) {
        free(r->block);
        *r = (dc_record){.a = r->a};
        refuse(b, &m->ref, BT_ENOMEM, 1000, "out of memory");
        return;
    }
    bt_attempts_take(&b->attempts, r->a, &m->ref, slot, DC_RESERVED);
    begin(b, r);
}
