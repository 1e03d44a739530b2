/* The life of one request in the gateway's brain. See request.h and brain.h. */
#include "gateway/request.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_LEAST_MS = 10, OVERLOADED_RETRY_MS = 1000, PAUSE_LEAST_US = 100000, PAUSE_MOST_US = 400000 };

gw_request *gw_request_find(gw_brain *b, uint64_t number)
{
    for (uint32_t i = 0; i < b->requests_len; i++) {
        gw_request *r = &b->requests[i];
        if (r->state != GW_NONE && r->state != GW_DEAD && r->number == number) return r;
    }
    return NULL;
}

bool gw_request_has_client(const gw_request *r)
{
    return r->state != GW_NONE && r->state != GW_ABORTING && r->state != GW_DEAD;
}

static bool is_active(gw_state s) { return s != GW_NONE && s != GW_QUEUED && s != GW_DEAD; }

static void set_state(gw_brain *b, gw_request *r, gw_state s)
{
    b->queued -= r->state == GW_QUEUED;
    b->active -= is_active(r->state);
    r->state = s;
    b->queued += s == GW_QUEUED;
    b->active += is_active(s);
}

static bt_msg *tell(gw_brain *b, const gw_request *r, const gw_side *side, bt_msg_type type)
{
    bt_msg *m = gw_send(b, &side->node, type);
    m->ref = (bt_request_ref){b->cfg.self, r->number, r->attempt};
    return m;
}

/* ---- the two sides ------------------------------------------------------------------------------ */

static void open_side(gw_side *s, gw_node *n)
{
    *s = (gw_side){.node = n->incarnation, .is_open = true};
    n->attempts++;
}

static void close_side(gw_brain *b, gw_side *s)
{
    if (!s->is_open) return;
    gw_node *n = gw_registry_find(&b->registry, &s->node);
    if (n && n->attempts > 0) n->attempts--;
    s->is_open = s->is_aborting = false;
}

static void abort_side(gw_brain *b, gw_request *r, gw_side *s)
{
    if (!s->is_open || s->is_aborting) return;
    if (!s->is_told) {
        close_side(b, s);
        return;
    }
    s->is_aborting = true;
    (void)tell(b, r, s, BT_MSG_ABORT);
}

/* Nothing waits for ABORT_ACK any more. */
static void settle(gw_brain *b, gw_request *r)
{
    if ((r->state != GW_RETURNING && r->state != GW_ABORTING) || r->prefill.is_open || r->decode.is_open) return;
    set_state(b, r, r->state == GW_RETURNING ? GW_QUEUED : GW_DEAD);
}

/* Leave both nodes; then wait in `s` for them. */
static void leave(gw_brain *b, gw_request *r, gw_state s)
{
    abort_side(b, r, &r->prefill);
    abort_side(b, r, &r->decode);
    set_state(b, r, s);
    r->deadline_us = b->now_us + (int64_t)b->cfg.lease_ms * 1000;      /* the nodes' leases are over then */
    r->resend_us = b->now_us + b->cfg.resend_us;
    settle(b, r);
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* What the caller of this step is told of the end; the node may be forgotten already. */
static const gw_stats *last_stats(const gw_brain *b, gw_request *r)
{
    const gw_side *side = r->local ? &r->decode : &r->prefill;
    const gw_node *p = r->stats.has_first ? gw_registry_find(&b->registry, &side->node) : NULL;
    r->stats.total_us = b->now_us - r->submitted_us;
    r->stats.local = r->local;
    r->stats.attempts = r->attempt;
    r->stats.engine = p ? p->hello.engine : NULL;
    return &r->stats;
}

static void done(gw_brain *b, gw_request *r)
{
    gw_action *a = gw_act(b, GW_DO_DONE);
    a->request = r->number;
    a->u.done.reason = r->ended;
    a->u.done.stats = *last_stats(b, r);
    if (r->ended == BT_FINISH_LENGTH) b->n.done_length++;
    else b->n.done_stop++;
    b->n.completion_tokens += r->stats.completion_tokens;
    leave(b, r, GW_ABORTING);
}

static void say_fail(gw_brain *b, uint64_t request, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms,
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
    say_fail(b, r->number, kind, code, retry_after_ms, last_stats(b, r), text);
    b->n.completion_tokens += r->stats.completion_tokens;
    leave(b, r, GW_ABORTING);
}

void gw_request_finish_early(gw_brain *b, gw_request *r)
{
    if (r->next_index == 0) {
        b->n.unexpected++;
        return;
    }
    r->ended = BT_FINISH_STOP;
    done(b, r);
}

/* The end was seen: wait a little for the figures of the sides that are still open. */
static void closing(gw_brain *b, gw_request *r)
{
    if (r->state == GW_DECODING) {
        set_state(b, r, GW_CLOSING);
        r->deadline_us = b->now_us + b->cfg.grace_us;
    }
    if (!r->prefill.is_open && !r->decode.is_open) done(b, r);
}

/* ---- the beginning ------------------------------------------------------------------------------ */

static bool is_bad(const gw_brain *b, const gw_submit *s)
{
    return s->request <= b->last_request || !s->ids || s->ids_len < 1 || s->ids_len > BT_MSG_MAX_PROMPT_TOKENS ||
           s->max_tokens < 1 || s->max_tokens > BT_MSG_MAX_PROMPT_TOKENS || s->stop_ids_len > BT_MSG_MAX_STOP_IDS;
}

void gw_request_submit(gw_brain *b, const gw_submit *s, const bt_random *random)
{
    gw_stats none = {.prompt_tokens = s->ids_len, .gateway_queue_us = -1, .ttft_us = -1};
    b->n.submitted++;
    bt_fault fault = {"the prompt, max_tokens or number of stop ids is out of range"};
    if (is_bad(b, s) || bt_sample_params_check(&s->sampling, &fault) < 0) {
        say_fail(b, s->request, GW_FAIL_BAD, BT_EARG, 0, &none, fault.text);
        return;
    }
    b->last_request = s->request;
    gw_request *r = NULL;
    for (uint32_t i = 0; !r && i < b->requests_len; i++)
        if (b->requests[i].state == GW_NONE) r = &b->requests[i];
    if (b->draining || b->queued >= b->cfg.queue_max || !r) {
        say_fail(b, s->request, GW_FAIL_OVERLOADED, BT_EAGAIN, OVERLOADED_RETRY_MS, &none,
                 b->draining ? "this gateway is shutting down" : "too many requests are waiting");
        return;
    }
    const size_t bias_bytes = s->sampling.bias_len * sizeof *s->sampling.bias;
    int32_t *ids = malloc(((size_t)s->ids_len + s->max_tokens) * sizeof *ids + bias_bytes); /* about 8 MiB at most */
    if (!ids) {
        say_fail(b, s->request, GW_FAIL_OVERLOADED, BT_ENOMEM, OVERLOADED_RETRY_MS, &none, "out of memory");
        return;
    }
    memcpy(ids, s->ids, s->ids_len * sizeof *ids);
    *r = (gw_request){.number = s->request, .ids = ids, .ids_len = s->ids_len, .tokens = ids + s->ids_len,
                      .max_tokens = s->max_tokens, .sampling = s->sampling, .stop_ids_len = s->stop_ids_len,
                      .submitted_us = b->now_us, .waiting_us = b->now_us, .stats = none};
    int32_t *bias = ids + s->ids_len + s->max_tokens;
    if (bias_bytes) memcpy(bias, s->sampling.bias, bias_bytes);
    r->sampling.bias = (const bt_sample_bias *)bias;
    memcpy(r->stop_ids, s->stop_ids, s->stop_ids_len * sizeof *r->stop_ids);
    if (s->draw_seed) r->sampling.seed = random->word[0];
    r->stats.seed = r->sampling.seed;
    b->n.prompt_tokens += s->ids_len;
    set_state(b, r, GW_QUEUED);
}

static void say_reserve(gw_brain *b, const gw_request *r)
{
    bt_msg_reserve *w = &tell(b, r, &r->decode, BT_MSG_RESERVE)->u.reserve;
    w->prompt_tokens = r->ids_len;
    w->max_tokens = r->max_tokens;
    w->ids = r->ids;
    w->ids_len = r->ids_len;
    w->generated = r->tokens;
    w->generated_len = r->base;
    w->is_local = r->local != GW_LOCAL_NOT;
    w->prefill = r->prefill.node;           /* zero where local */
    w->sampling = r->sampling;
    w->stop_ids_len = r->stop_ids_len;
    memcpy(w->stop_ids, r->stop_ids, sizeof w->stop_ids);
    w->lease_ms = b->cfg.lease_ms;
}

static void say_prefill(gw_brain *b, const gw_request *r)
{
    bt_msg_prefill *w = &tell(b, r, &r->prefill, BT_MSG_PREFILL)->u.prefill;
    w->ids = r->ids;
    w->ids_len = r->ids_len;
    w->decode = r->decode.node;
    memcpy(w->kv_endpoint, r->reserved.kv_endpoint, sizeof w->kv_endpoint);
    w->ticket = r->reserved.ticket;
    w->sampling = r->sampling;
    w->lease_ms = b->cfg.lease_ms;
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
    r->decode.is_told = true;
    r->is_accepted = false;
    r->has_kv = false;
    r->early_len = 0;
    r->has_early_finished = false;
    if (r->local) b->n.local_prefills[r->local]++;
    if (r->base) b->n.replays++;
    b->n.replayed_tokens += r->base;
    if (r->stats.gateway_queue_us < 0) r->stats.gateway_queue_us = b->now_us - r->submitted_us;
    set_state(b, r, GW_RESERVING);
    r->deadline_us = b->now_us + b->cfg.answer_us;
    r->resend_us = b->now_us + b->cfg.resend_us;
    r->renew_us = b->now_us + (int64_t)b->cfg.lease_ms * 250;
    say_reserve(b, r);
}

/* ---- messages ----------------------------------------------------------------------------------- */

static bool is_stop(const gw_request *r, int32_t id)
{
    for (uint32_t i = 0; i < r->stop_ids_len; i++)
        if (r->stop_ids[i] == id) return true;
    return false;
}

/* Take ids from index next_index on, up to the request's end, and pass them to the client; logprobs may be NULL. */
static void take_tokens(gw_brain *b, gw_request *r, const int32_t *ids, uint32_t len, const bt_msg_logprob *logprobs)
{
    uint32_t first = r->next_index, passed = 0;
    for (uint32_t i = 0; i < len && !r->ended; i++) {
        r->tokens[r->next_index++] = ids[i];
        if (is_stop(r, ids[i])) r->ended = BT_FINISH_STOP;
        else passed++;
        if (!r->ended && r->next_index == r->max_tokens) r->ended = BT_FINISH_LENGTH;
    }
    if (r->next_index > first) {
        r->deadline_us = b->now_us + b->cfg.progress_us;
        r->pause_us = 0;
    }
    r->stats.completion_tokens += passed;
    if (passed == 0) return;
    gw_action *a = gw_act(b, GW_DO_TOKENS);
    a->request = r->number;
    a->u.tokens.first_index = first;
    a->u.tokens.ids = r->tokens + first;
    a->u.tokens.ids_len = passed;
    a->u.tokens.logprobs = logprobs;
}

static void on_reserved(gw_brain *b, gw_request *r, const bt_msg *m)
{
    if (r->state != GW_RESERVING) {
        b->n.repeats++;
        return;
    }
    r->reserved = m->u.reserved;
    if (r->local) {
        /* The node has begun. It makes token 0 only where there is none yet. */
        set_state(b, r, r->base ? GW_DECODING : GW_PREFILLING);
        r->is_accepted = true;
        r->deadline_us = b->now_us + b->cfg.prefill_us + ((int64_t)r->ids_len + r->base) * b->cfg.prefill_token_us;
        return;
    }
    r->prefill.is_told = true;
    set_state(b, r, GW_PREFILLING);
    r->deadline_us = b->now_us + b->cfg.answer_us;
    r->resend_us = b->now_us + b->cfg.resend_us;
    say_prefill(b, r);
}

/* Who computes a prompt says it again while rows appear: a slow node is no lost one. So does a decode node that computes the rows of known
 * tokens, in a local attempt or after a preemption. */
static void on_accepted(gw_brain *b, gw_request *r, bool from_prefill, bool from_decode)
{
    if (!(r->state == GW_PREFILLING && from_prefill) && !(r->state == GW_DECODING && from_decode)) {
        b->n.repeats++;
        return;
    }
    r->is_accepted = true;
    r->deadline_us = b->now_us + b->cfg.prefill_us + (int64_t)r->ids_len * b->cfg.prefill_token_us;
}

static void on_refused(gw_brain *b, gw_request *r, gw_side *side, const bt_msg_refused *w)
{
    bool is_decode = side == &r->decode;
    if (r->state != (is_decode ? GW_RESERVING : GW_PREFILLING) || (!is_decode && r->is_accepted) ||
        w->of != (is_decode ? BT_MSG_RESERVE : BT_MSG_PREFILL)) {
        b->n.unexpected++;
        return;
    }
    close_side(b, side);
    if (w->retry_after_ms == 0) {
        gw_request_fail(b, r, w->code == BT_ELIMIT ? GW_FAIL_TOO_LONG : GW_FAIL_REFUSED, (bt_err)w->code, 0,
                        "%s", w->text);
        return;
    }
    uint32_t wait_ms = w->retry_after_ms > RETRY_LEAST_MS ? w->retry_after_ms : RETRY_LEAST_MS;
    r->not_before_us = b->now_us + (int64_t)wait_ms * 1000;
    b->n.requeued++;
    leave(b, r, GW_RETURNING);
}

/* The index of the first token that the decode node makes in this attempt. */
static uint32_t first_made(const gw_request *r) { return r->base ? r->base : 1; }

/* Before token 0: kept, in order, so that a race of two links costs no resend. */
static void keep_early(gw_request *r, const bt_msg_tokens *w)
{
    if (w->logprobs || w->first_index != first_made(r) + r->early_len || w->ids_len > r->max_tokens - w->first_index)
        return; /* comes again */
    memcpy(r->tokens + w->first_index, w->ids, w->ids_len * sizeof *w->ids);
    r->early_len += w->ids_len;
}

static void on_tokens(gw_brain *b, gw_request *r, const bt_msg_tokens *w)
{
    if (r->state == GW_PREFILLING) keep_early(r, w);
    if (r->state != GW_DECODING && r->state != GW_CLOSING) return;
    uint32_t skip = r->next_index - w->first_index;
    if (w->first_index > r->next_index) b->n.unexpected++;      /* a gap: what is missing comes again */
    else if (skip >= w->ids_len || r->ended) b->n.repeats++;
    else take_tokens(b, r, w->ids + skip, w->ids_len - skip, w->logprobs ? w->logprobs + skip : NULL);
    tell(b, r, &r->decode, BT_MSG_TOKENS_ACK)->u.tokens_ack.next_index = r->next_index;
    if (r->ended) closing(b, r);
}

static void on_finished(gw_brain *b, gw_request *r, const bt_msg_finished *w)
{
    if (r->state == GW_PREFILLING) {
        r->early_finished = *w;
        r->has_early_finished = true;
    }
    if ((r->state != GW_DECODING && r->state != GW_CLOSING) || w->completion_tokens > r->next_index)
        return; /* comes again */
    (void)tell(b, r, &r->decode, BT_MSG_FINISHED_ACK);
    r->stats.has_decode = true;
    r->stats.decode_wait_us = w->wait_us;
    r->stats.decode_us = w->decode_us;
    r->stats.decode_steps = w->decode_steps;
    close_side(b, &r->decode);
    if (!r->ended) r->ended = w->reason == BT_FINISH_LENGTH ? BT_FINISH_LENGTH : BT_FINISH_STOP;
    closing(b, r);
}

/* The figures of token 0, and the token itself for the client. */
static void begin_answer(gw_brain *b, gw_request *r, const gw_side *side, const bt_msg_first_token *w)
{
    const gw_node *n = gw_registry_find(&b->registry, &side->node);
    r->stats.has_first = true;
    r->stats.queue_us = w->queue_us;
    r->stats.prefill_us = w->prefill_us;
    r->stats.work = w->work;
    r->stats.ttft_us = b->now_us - r->submitted_us;
    if (n) memcpy(r->stats.prefilled_by, n->hello.node_id, sizeof r->stats.prefilled_by);
    gw_action *a = gw_act(b, GW_DO_FIRST);
    a->request = r->number;
    a->u.first.msg = *w;
    a->u.first.ttft_us = r->stats.ttft_us;
    take_tokens(b, r, &w->token, 1, w->has_logprob ? &a->u.first.msg.logprob : NULL);
}

static void on_first(gw_brain *b, gw_request *r, const gw_side *side, const bt_msg_first_token *w)
{
    if (r->base > 0 && w->token != r->tokens[0]) {
        gw_request_fail(b, r, GW_FAIL_REFUSED, BT_EFORMAT, 0,
                        "the prompt was computed again and gave token %d where it had given %d: the nodes do not compute alike",
                        w->token, r->tokens[0]);
        return;
    }
    if (r->state != GW_PREFILLING) {
        b->n.repeats++;
        return;
    }
    r->is_accepted = true;
    set_state(b, r, GW_DECODING);
    if (r->base == 0) begin_answer(b, r, side, w);
    else r->deadline_us = b->now_us + b->cfg.progress_us + (int64_t)r->base * b->cfg.prefill_token_us;  /* replay */
    if (r->has_kv) close_side(b, &r->prefill);      /* PREFILL_DONE overtook a FIRST_TOKEN that was lost */
    if (r->ended) {
        done(b, r);                     /* nothing is left to do on either node */
        return;
    }
    if (r->early_len) {
        const bt_msg_tokens early = {.first_index = first_made(r), .ids = r->tokens + first_made(r), .ids_len = r->early_len};
        on_tokens(b, r, &early);
    }
    if (r->has_early_finished) on_finished(b, r, &r->early_finished);
}

/* A side is gone for good: by its own word (FAILED) or by silence. The decode node needs the prefill node no
 * more once it made a token itself. */
static bool is_needed(const gw_request *r, const gw_side *side)
{
    if (r->state != GW_RESERVING && r->state != GW_PREFILLING && r->state != GW_DECODING) return false;
    return side == &r->decode || r->next_index <= first_made(r);
}

static void side_over(gw_brain *b, gw_request *r, gw_side *side)
{
    close_side(b, side);
    if (r->state == GW_CLOSING) closing(b, r);
    else settle(b, r);
}

static void on_failed(gw_brain *b, gw_request *r, gw_side *side, const bt_msg_failed *w)
{
    bool fatal = side->is_open && is_needed(r, side);
    close_side(b, side);
    if (fatal && side == &r->decode && w->code == BT_EAGAIN) {
        if (r->pause_us == 0) r->waiting_us = b->now_us;
        r->pause_us = r->pause_us == 0 ? PAUSE_LEAST_US : r->pause_us < PAUSE_MOST_US ? 2 * r->pause_us : PAUSE_MOST_US;
        r->not_before_us = b->now_us + r->pause_us;
        b->n.requeued++;
        leave(b, r, GW_RETURNING);
    } else if (fatal) gw_request_fail(b, r, GW_FAIL_REFUSED, (bt_err)w->code, 0, "%s", w->text);
    else side_over(b, r, side);
}

static void on_prefill_done(gw_brain *b, gw_request *r, gw_side *side, const bt_msg_prefill_done *w)
{
    r->has_kv = r->stats.has_kv = true;
    r->stats.kv_bytes = w->kv_bytes;
    r->stats.kv_blocks = w->kv_blocks;
    r->stats.kv_exposed_us = w->exposed_us;
    r->stats.kv_transfer_us = w->transfer_us;
    r->stats.kv_digest = w->kv_digest;
    /* A local one ends no side. Before token 0 the side stays open: FIRST_TOKEN is still to come. */
    if (!r->local && (r->state == GW_DECODING || r->state == GW_CLOSING)) side_over(b, r, side);
}

/* Reports are acknowledged whatever the request's state, so that the node stops repeating them. */
static void acknowledge(gw_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_FIRST_TOKEN || m->type == BT_MSG_PREFILL_DONE || m->type == BT_MSG_FAILED) {
        bt_msg *a = gw_send(b, &m->from, BT_MSG_ACK);
        a->ref = m->ref;
        a->u.ack.of = m->type;
    }
}

/* A message about an attempt that is over here: make the node let go of it. */
static void disown(gw_brain *b, const bt_msg *m)
{
    b->n.stale_attempt++;
    acknowledge(b, m);
    if (m->type == BT_MSG_FINISHED) gw_send(b, &m->from, BT_MSG_FINISHED_ACK)->ref = m->ref;
    if (m->type == BT_MSG_TOKENS || m->type == BT_MSG_RESERVED || m->type == BT_MSG_PREFILL_ACCEPTED)
        gw_send(b, &m->from, BT_MSG_ABORT)->ref = m->ref;
}

void gw_request_msg(gw_brain *b, const bt_msg *m)
{
    if (!bt_incarnation_equal(&m->ref.owner, &b->cfg.self)) {
        b->n.unexpected++;
        return;
    }
    gw_request *r = gw_request_find(b, m->ref.number);
    bool from_decode = r && bt_incarnation_equal(&m->from, &r->decode.node);
    bool from_prefill = r && bt_incarnation_equal(&m->from, r->local ? &r->decode.node : &r->prefill.node);
    if (!r || m->ref.attempt != r->attempt || r->state == GW_QUEUED || (!from_decode && !from_prefill)) {
        disown(b, m);
        return;
    }
    acknowledge(b, m);
    gw_side *side = from_decode ? &r->decode : &r->prefill;
    if (m->type == BT_MSG_ABORT_ACK) {
        if (side->is_aborting) side_over(b, r, side);
    } else if (r->state == GW_RETURNING || r->state == GW_ABORTING) {
        if (m->type == BT_MSG_FAILED) side_over(b, r, side);
        if (m->type == BT_MSG_FINISHED) {
            (void)tell(b, r, side, BT_MSG_FINISHED_ACK);
            side_over(b, r, side);
        }
    } else if (m->type == BT_MSG_RESERVED && from_decode) on_reserved(b, r, m);
    else if (m->type == BT_MSG_REFUSED) on_refused(b, r, side, &m->u.refused);
    else if (m->type == BT_MSG_PREFILL_ACCEPTED) on_accepted(b, r, from_prefill, from_decode);
    else if (m->type == BT_MSG_FIRST_TOKEN && from_prefill) on_first(b, r, side, &m->u.first_token);
    else if (m->type == BT_MSG_TOKENS && from_decode) on_tokens(b, r, &m->u.tokens);
    else if (m->type == BT_MSG_FINISHED && from_decode) on_finished(b, r, &m->u.finished);
    else if (m->type == BT_MSG_FAILED) on_failed(b, r, side, &m->u.failed);
    else if (m->type == BT_MSG_PREFILL_DONE && from_prefill && side->is_open)
        on_prefill_done(b, r, side, &m->u.prefill_done);
    else if (m->type != BT_MSG_PREFILL_DONE) b->n.unexpected++;
}

/* Nothing was made for the request yet: another attempt loses nothing. */
static bool is_fresh(const gw_request *r)
{
    return r->state == GW_RESERVING || (r->state == GW_PREFILLING && !r->is_accepted);
}

void gw_request_node_lost(gw_brain *b, const bt_incarnation *node, const char *node_id, bool is_back)
{
    for (uint32_t i = 0; i < b->requests_len; i++) {
        gw_request *r = &b->requests[i];
        if (r->state == GW_NONE || r->state == GW_DEAD || r->state == GW_QUEUED) continue;
        for (int k = 0; k < 2; k++) {
            gw_side *side = k ? &r->decode : &r->prefill;
            if (!side->is_open || !bt_incarnation_equal(&side->node, node)) continue;
            bool fatal = is_needed(r, side);
            close_side(b, side);
            if (fatal && is_back && is_fresh(r)) {
                b->n.requeued++;
                leave(b, r, GW_RETURNING);
            } else if (fatal)
                gw_request_fail(b, r, GW_FAIL_NODE_LOST, BT_EIO, 0,
                                "the %s node %s was lost while it worked on the request",
                                k ? "decode" : "prefill", node_id);
            else
                side_over(b, r, side);
        }
    }
}

/* ---- time --------------------------------------------------------------------------------------- */

static int64_t no_node_due_us(const gw_brain *b, const gw_request *r)
{
    if (b->pair_ready) return BT_STEP_NEVER;
    return (r->waiting_us > b->no_pair_us ? r->waiting_us : b->no_pair_us) + b->cfg.no_node_us;
}

static bool wants_renew(const gw_request *r)
{
    return r->state == GW_PREFILLING || r->state == GW_DECODING || r->state == GW_CLOSING;
}

static bool wants_resend(const gw_request *r)
{
    return r->state == GW_RESERVING || (r->state == GW_PREFILLING && !r->is_accepted) ||
           r->prefill.is_aborting || r->decode.is_aborting;
}

static void expire_queued(gw_brain *b, gw_request *r)
{
    if (b->now_us >= no_node_due_us(b, r))
        gw_request_fail(b, r, GW_FAIL_NO_NODE, BT_EAGAIN, OVERLOADED_RETRY_MS,
                        "neither a pair of a prefill and a decode node nor a decode node that computes prompts is ready");
    else if (b->now_us - r->waiting_us >= b->cfg.queue_us)
        gw_request_fail(b, r, GW_FAIL_OVERLOADED, BT_EAGAIN, OVERLOADED_RETRY_MS, "every node was busy for %lld s",
                        (long long)(b->cfg.queue_us / 1000000));
}

void gw_request_expire(gw_brain *b, gw_request *r)
{
    if (r->state == GW_NONE || r->state == GW_DEAD) return;
    if (r->state == GW_QUEUED) {
        expire_queued(b, r);
        return;
    }
    if (b->now_us >= r->deadline_us) {
        if (r->state == GW_CLOSING) {
            done(b, r);
        } else if (r->state == GW_RETURNING || r->state == GW_ABORTING) {
            close_side(b, &r->prefill);
            close_side(b, &r->decode);
            settle(b, r);
        } else {
            gw_request_fail(b, r, GW_FAIL_TIMEOUT, BT_EAGAIN, 0, "no progress while %s",
                            r->state == GW_RESERVING    ? "reserving on the decode node"
                            : r->state == GW_PREFILLING ? "the prompt was to be computed"
                                                        : "tokens were to be generated");
        }
        return;
    }
    if (wants_renew(r) && b->now_us >= r->renew_us) {
        r->renew_us = b->now_us + (int64_t)b->cfg.lease_ms * 250;
        if (r->decode.is_open) tell(b, r, &r->decode, BT_MSG_RENEW)->u.renew.lease_ms = b->cfg.lease_ms;
        if (r->prefill.is_open && r->is_accepted)
            tell(b, r, &r->prefill, BT_MSG_RENEW)->u.renew.lease_ms = b->cfg.lease_ms;
    }
    if (wants_resend(r) && b->now_us >= r->resend_us) {
        r->resend_us = b->now_us + b->cfg.resend_us;
        b->n.resent++;
        if (r->state == GW_RESERVING) say_reserve(b, r);
        if (r->state == GW_PREFILLING && !r->is_accepted) say_prefill(b, r);
        if (r->prefill.is_aborting) (void)tell(b, r, &r->prefill, BT_MSG_ABORT);
        if (r->decode.is_aborting) (void)tell(b, r, &r->decode, BT_MSG_ABORT);
    }
}

int64_t gw_request_due_us(const gw_brain *b, const gw_request *r)
{
    if (r->state == GW_NONE || r->state == GW_DEAD) return BT_STEP_NEVER;
    int64_t due = r->deadline_us, t;
    if (r->state == GW_QUEUED) {
        due = r->waiting_us + b->cfg.queue_us;
        if ((t = no_node_due_us(b, r)) < due) due = t;
        if (r->not_before_us > b->now_us && r->not_before_us < due) due = r->not_before_us;
        return due;
    }
    if (wants_renew(r) && r->renew_us < due) due = r->renew_us;
    if (wants_resend(r) && r->resend_us < due) due = r->resend_us;
    return due;
}
