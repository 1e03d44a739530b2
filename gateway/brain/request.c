/* The life of one request in the gateway's brain: how it begins, which messages put it on nodes, and its deadlines. See
 * request.h and brain.h. */
#include "gateway/brain/request.h"
#include "base/breakage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_NODE_MS = 2000 };                          /* a supervisor starts a node again within that */

gw_request *gw_request_find(gw_brain *b, uint64_t number)
{
    for (uint32_t i = 0; i < b->requests_len; i++) {
        gw_request *r = &b->requests[i];
        if (r->state != GW_NONE && r->state != GW_DEAD && r->number == number) return r;
    }
    return NULL;
}

static bool is_active(gw_state s) { return s != GW_NONE && s != GW_QUEUED && s != GW_DEAD; }

/* In order of number: one that comes back stands before all that came after it. */
static void enqueue(gw_brain *b, const gw_request *r)
{
    uint32_t at = b->queued++;
    for (; at > 0 && b->requests[b->queue[at - 1]].number > r->number; at--) b->queue[at] = b->queue[at - 1];
    b->queue[at] = (uint32_t)(r - b->requests);
}

static void dequeue(gw_brain *b, const gw_request *r)
{
    uint32_t at = 0;
    while (&b->requests[b->queue[at]] != r) at++;
    memmove(b->queue + at, b->queue + at + 1, (--b->queued - at) * sizeof *b->queue);
}

void gw_request_set_state(gw_brain *b, gw_request *r, gw_state s)
{
    if (r->state == GW_QUEUED) dequeue(b, r);
    b->active -= is_active(r->state);
    r->state = s;
    if (s == GW_QUEUED) enqueue(b, r);
    b->active += is_active(s);
}

bt_msg *gw_request_tell(gw_brain *b, const gw_request *r, const gw_side *side, bt_msg_type type)
{
    bt_msg *m = gw_send(b, &side->node, type);
    m->ref = (bt_request_ref){b->cfg.self, r->number, r->attempt};
    return m;
}

/* ---- the beginning ------------------------------------------------------------------------------ */

static bool is_bad(const gw_brain *b, const gw_submit *s)
{
    return s->request <= b->last_request || !s->ids || s->ids_len < 1 || s->ids_len > BT_MSG_MAX_PROMPT_TOKENS ||
           s->max_tokens < 1 || s->max_tokens > BT_MSG_MAX_PROMPT_TOKENS || s->stop_ids_len > BT_MSG_MAX_STOP_IDS;
}

/* The prompt, room for the tokens, and the bias in one block; false when there is no memory for them. */
static bool take(gw_request *r, const gw_submit *s)
{
    const size_t bias_bytes = s->sampling.bias_len * sizeof *s->sampling.bias;
    int32_t *ids = malloc(((size_t)s->ids_len + s->max_tokens) * sizeof *ids + bias_bytes); /* about 8 MiB at most */
    if (!ids) return false;
    memcpy(ids, s->ids, s->ids_len * sizeof *ids);
    *r = (gw_request){.number = s->request, .ids = ids, .ids_len = s->ids_len, .tokens = ids + s->ids_len,
                      .max_tokens = s->max_tokens, .sampling = s->sampling, .stop_ids_len = s->stop_ids_len,
                      .policy = s->policy, .lost_us = -1, .stuck_us = -1};
    int32_t *bias = ids + s->ids_len + s->max_tokens;
    if (bias_bytes) memcpy(bias, s->sampling.bias, bias_bytes);
    r->sampling.bias = (const bt_sample_bias *)bias;
    memcpy(r->stop_ids, s->stop_ids, s->stop_ids_len * sizeof *r->stop_ids);
    snprintf(r->prefer_prefill, sizeof r->prefer_prefill, "%s", s->prefer_prefill);
    snprintf(r->prefer_decode, sizeof r->prefer_decode, "%s", s->prefer_decode);
    r->only_prefill = gw_registry_name(r->prefer_prefill);
    r->only_decode = gw_registry_name(r->prefer_decode);
    return true;
}

void gw_request_submit(gw_brain *b, const gw_submit *s, const bt_random *random)
{
    gw_stats none = {.prompt_tokens = s->ids_len, .gateway_queue_us = -1, .ttft_us = -1};
    b->n.submitted++;
    bt_fault fault = {"the prompt, max_tokens or number of stop ids is out of range"};
    if (is_bad(b, s) || bt_sample_params_check(&s->sampling, &fault) < 0) {
        gw_request_refuse(b, s->request, GW_FAIL_BAD, BT_EARG, 0, &none, fault.text);
        return;
    }
    b->last_request = s->request;
    gw_request *r = NULL;
    for (uint32_t i = 0; !r && i < b->requests_len; i++)
        if (b->requests[i].state == GW_NONE) r = &b->requests[i];
    if (b->draining || b->queued >= b->cfg.queue_max || !r) {
        snprintf(fault.text, sizeof fault.text, b->draining ? "this gateway is shutting down" : "%u requests are waiting already", b->queued);
        gw_request_refuse(b, s->request, GW_FAIL_OVERLOADED, BT_EAGAIN, gw_retry_ms(b), &none, fault.text);
        return;
    }
    if (!take(r, s)) {
        gw_request_refuse(b, s->request, GW_FAIL_OVERLOADED, BT_ENOMEM, gw_retry_ms(b), &none, "out of memory");
        return;
    }
    r->submitted_us = r->waiting_us = b->now_us;
    r->stats = none;
    if (!b->pair_ready) r->stuck_us = b->no_pair_us;
    if (s->draw_seed) r->sampling.seed = random->word[0];
    r->stats.seed = r->sampling.seed;
    b->n.prompt_tokens += s->ids_len;
    gw_request_set_state(b, r, GW_QUEUED);
    gw_request_expire(b, r);            /* at once, where no nodes have been there for long */
}

/* ---- asking nodes ------------------------------------------------------------------------------- */

static void say_reserve(gw_brain *b, gw_request *r)
{
    bt_msg_reserve *w = &gw_request_tell(b, r, &r->decode, BT_MSG_RESERVE)->u.reserve;
    w->prompt_tokens = r->ids_len;
    w->max_tokens = r->max_tokens;
    w->ids = r->ids;
    w->ids_len = r->ids_len;
    w->generated = r->tokens;
    w->generated_len = r->base;
    w->is_local = r->local != GW_LOCAL_NOT;
    w->prefill = r->prefill.node;           /* zero where local */
    const gw_node *p = w->is_local ? NULL : gw_registry_find(&b->registry, &r->prefill.node);
    if (p) w->prefill_key = p->key;
    w->prefill_class = r->prefill_class;
    w->sampling = r->sampling;
    w->stop_ids_len = r->stop_ids_len;
    memcpy(w->stop_ids, r->stop_ids, sizeof w->stop_ids);
    w->lease_ms = b->cfg.lease_ms;
    r->decode.is_told = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
}

void gw_request_say_prefill(gw_brain *b, gw_request *r)
{
    bt_msg_prefill *w = &gw_request_tell(b, r, &r->prefill, BT_MSG_PREFILL)->u.prefill;
    const gw_node *d = gw_registry_find(&b->registry, &r->decode.node);
    w->ids = r->ids;
    w->ids_len = r->ids_len;
    w->decode = r->decode.node;
    if (d) w->decode_key = d->key;
    memcpy(w->kv_endpoint, r->reserved.kv_endpoint, sizeof w->kv_endpoint);
    w->ticket = r->reserved.ticket;
    w->covered_tokens = r->reserved.covered_tokens;
    w->sampling = r->sampling;
    w->lease_ms = b->cfg.lease_ms;
    r->prefill.is_told = true;
    r->resend_us = b->now_us + b->cfg.resend_us;
}

static void open_side(gw_side *s, gw_node *n)
{
    *s = (gw_side){.node = n->incarnation, .name = n->name, .is_open = true};
    n->attempts++;
}

void gw_request_assign(gw_brain *b, gw_request *r, const gw_route_choice *c)
{
    r->attempt++;
    r->local = c->local;
    r->base = r->next_index;
    r->prefill = (gw_side){.is_open = false};
    if (c->prefill) open_side(&r->prefill, c->prefill);
    open_side(&r->decode, c->decode);
    if (r->base == 0) {
        r->prefill_class = gw_route_class(c->prefill ? c->prefill->hello.exactness : c->decode->hello.prefill_exactness);
        r->decode_class = gw_route_class(c->decode->hello.exactness);
    }
    r->is_accepted = false;
    r->has_kv = false;
    r->early_len = 0;
    r->has_early_finished = false;
    if (r->local) b->n.local_prefills[r->local]++;
    if (r->base) b->n.replays++;
    b->n.replayed_tokens += r->base;
    if (r->stats.gateway_queue_us < 0) r->stats.gateway_queue_us = b->now_us - r->submitted_us;
    gw_request_set_state(b, r, GW_RESERVING);
    gw_request_await_answer(b, r);
    r->renew_us = b->now_us + (int64_t)b->cfg.lease_ms * 250;
    say_reserve(b, r);
}

/* ---- time --------------------------------------------------------------------------------------- */

void gw_request_await_answer(gw_brain *b, gw_request *r) { r->deadline_us = b->now_us + b->cfg.answer_us; }

void gw_request_await_prompt(gw_brain *b, gw_request *r)
{
    const int64_t known = r->local || r->state == GW_DECODING ? r->base : 0;    /* D computes those rows too */
    r->deadline_us = b->now_us + b->cfg.prefill_us + ((int64_t)r->ids_len + known) * b->cfg.prefill_token_us;
}

void gw_request_await_token(gw_brain *b, gw_request *r)
{
    int64_t rows = 0;                   /* before D's first token of this attempt: its rows travel, known tokens are run again */
    if (r->next_index <= gw_request_first_made(r)) rows = r->base + (r->local || r->has_kv ? 0 : (int64_t)r->ids_len);
    r->deadline_us = b->now_us + b->cfg.progress_us + rows * b->cfg.prefill_token_us;
}

/* The last moment for another attempt to be accepted, or for nodes to be ready at all. */
static int64_t patience_us(const gw_brain *b, const gw_request *r)
{
    if (BT_BREAK(deadline_dropped)) return BT_STEP_NEVER;
    if (r->lost_us >= 0) return r->lost_us + b->cfg.recovery_us;
    if (r->state == GW_QUEUED && r->stuck_us >= 0) return r->stuck_us + b->cfg.recovery_us;
    return BT_STEP_NEVER;
}

static void out_of_patience(gw_brain *b, gw_request *r)
{
    const long long seconds = (long long)(b->cfg.recovery_us / 1000000);
    if (r->lost_us >= 0)
        gw_request_fail(b, r, GW_FAIL_NODE_LOST, BT_EIO, RETRY_NODE_MS, "%s, and no other attempt began within %lld s", r->why, seconds);
    else if (r->only_prefill || r->only_decode)
        gw_request_fail(b, r, GW_FAIL_NO_NODE, BT_EAGAIN, RETRY_NODE_MS,
                        "for %lld s the request could not go where it asks to: prefill node '%s', decode node '%s' ('' is any)",
                        seconds, r->prefer_prefill, r->prefer_decode);
    else
        gw_request_fail(b, r, r->attempt ? GW_FAIL_NODE_LOST : GW_FAIL_NO_NODE, BT_EAGAIN, RETRY_NODE_MS,
                        "for %lld s neither a pair of a prefill and a decode node nor a decode node that computes prompts was ready for this request",
                        seconds);
}

static void out_of_time(gw_brain *b, gw_request *r)
{
    const bool is_prefill = r->state == GW_PREFILLING && !r->local;
    const bool may_travel = r->state == GW_DECODING && !r->local && !r->has_kv && r->next_index <= gw_request_first_made(r);
    const gw_node *n = gw_registry_find(&b->registry, is_prefill ? &r->prefill.node : &r->decode.node);
    gw_request_recover(b, r, r->is_accepted ? GW_CAUSE_NO_PROGRESS : GW_CAUSE_NO_ANSWER,
                       is_prefill ? GW_BLAME_PREFILL : may_travel ? GW_BLAME_PAIR : GW_BLAME_DECODE, "the %s node %s %s",
                       is_prefill ? "prefill" : "decode", n ? n->hello.node_id : "(forgotten)",
                       !r->is_accepted ? "did not answer" : r->state == GW_PREFILLING ? "did not get on with the prompt" : "made no token");
}

static bool wants_renew(const gw_request *r)
{
    return r->state == GW_PREFILLING || r->state == GW_DECODING || r->state == GW_CLOSING;
}

static bool wants_resend(const gw_request *r)
{
    return r->state == GW_RESERVING || (r->state == GW_PREFILLING && !r->is_accepted);
}

void gw_request_expire(gw_brain *b, gw_request *r)
{
    if (r->state == GW_NONE || r->state == GW_DEAD) return;
    if (b->now_us >= patience_us(b, r)) {
        out_of_patience(b, r);
    } else if (r->state == GW_QUEUED) {
        if (b->now_us - r->waiting_us >= b->cfg.queue_us)
            gw_request_fail(b, r, GW_FAIL_OVERLOADED, BT_EAGAIN, gw_retry_ms(b), "every node was busy for %lld s",
                            (long long)(b->cfg.queue_us / 1000000));
    } else if (b->now_us >= r->deadline_us) {
        if (r->state == GW_CLOSING) gw_request_done(b, r);
        else out_of_time(b, r);
    } else {
        if (wants_renew(r) && b->now_us >= r->renew_us) {
            r->renew_us = b->now_us + (int64_t)b->cfg.lease_ms * 250;
            if (r->decode.is_open) gw_request_tell(b, r, &r->decode, BT_MSG_RENEW)->u.renew.lease_ms = b->cfg.lease_ms;
            if (r->prefill.is_open && r->is_accepted)
                gw_request_tell(b, r, &r->prefill, BT_MSG_RENEW)->u.renew.lease_ms = b->cfg.lease_ms;
        }
        if (!wants_resend(r) || b->now_us < r->resend_us) return;
        b->n.resent++;
        if (r->state == GW_RESERVING) say_reserve(b, r);
        else gw_request_say_prefill(b, r);
    }
}

int64_t gw_request_due_us(const gw_brain *b, const gw_request *r)
{
    if (r->state == GW_NONE || r->state == GW_DEAD) return BT_STEP_NEVER;
    int64_t due = patience_us(b, r), t;
    if (r->state == GW_QUEUED) {
        if ((t = r->waiting_us + b->cfg.queue_us) < due) due = t;
        if (r->not_before_us > b->now_us && r->not_before_us < due) due = r->not_before_us;
        return due;
    }
    if (r->deadline_us < due) due = r->deadline_us;
    if (wants_renew(r) && r->renew_us < due) due = r->renew_us;
    if (wants_resend(r) && r->resend_us < due) due = r->resend_us;
    return due;
}
