/* Messages of nodes about a request, and their effects. See request.h. */
#include "gateway/brain/request.h"
#include "gateway/brain/act.h"
#include "base/breakage.h"

#include <assert.h>
#include <string.h>

enum { REFUSED_LEAST_MS = 10, REFUSED_MOST_MS = 10000 };

static bool is_stop(const gw_request *r, int32_t id)
{
    for (uint32_t i = 0; i < r->stop_ids_len; i++)
        if (r->stop_ids[i] == id) return true;
    return false;
}

/* Take ids from index next_index on, up to the request's end, and pass them to the client; logprobs may be
 * NULL. */
static void take_tokens(gw_brain *b, gw_request *r, const int32_t *ids, uint32_t len,
                        const bt_msg_logprob *logprobs)
{
    uint32_t first = r->next_index, passed = 0;
    assert(r->state != GW_DEAD && r->next_index <= r->max_tokens);
    for (uint32_t i = 0; i < len && !r->ended; i++) {
        r->tokens[r->next_index++] = ids[i];
        if (is_stop(r, ids[i])) r->ended = BT_FINISH_STOP;
        else passed++;
        if (!r->ended && r->next_index == r->max_tokens) r->ended = BT_FINISH_LENGTH;
    }
    if (r->next_index > first) {
        r->fruitless = 0;
        r->shun_prefill = r->shun_decode = 0;
        gw_request_await_token(b, r);
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

/* The nodes of this attempt have accepted it, which ends the time since an earlier loss. */
static void accept(gw_request *r)
{
    r->is_accepted = true;
    r->lost_us = -1;
}

static void note_reserved(const gw_brain *b, gw_request *r)
{
    if (r->asked_us < 0) return;
    if (r->stats.reserve_us < 0) r->stats.reserve_us = 0;
    r->stats.reserve_us += b->now_us - r->asked_us;
    r->asked_us = -1;
}

/* It stands in the line of D, which says RESERVED when its turn comes. It holds no prefill node meanwhile: P
 * was told nothing of this attempt. */
static void on_waits(gw_brain *b, gw_request *r)
{
    if (r->state != GW_RESERVING || gw_request_is_parked(r)) {
        b->n.repeats++;
        return;
    }
    r->lost_us = -1;
    gw_request_close_side(b, r, &r->prefill);
    gw_request_set_line(b, r, true);
    r->deadline_us = r->waiting_us + b->cfg.queue_us;
}

static void on_reserved(gw_brain *b, gw_request *r, const bt_msg_reserved *w)
{
    if (r->state != GW_RESERVING || w->covered_tokens > r->prompt.tokens) {
        b->n.repeats += r->state != GW_RESERVING;
        b->n.unexpected += r->state == GW_RESERVING;
        return;
    }
    if (r->is_placed) return; /* said again */
    r->reserved = *w;
    note_reserved(b, r);
    if (r->local) {
        /* The node has begun. It makes token 0 only where there is none yet. */
        gw_request_set_state(b, r, r->base ? GW_DECODING : GW_PREFILLING);
        accept(r);
        gw_request_await_prompt(b, r);
        return;
    }
    gw_request_set_line(b, r, false);
    if (!r->prefill.is_open) {
        gw_request_place(b, r);
        return;
    }
    if (r->is_moved && !bt_incarnation_equal(&w->prefill, &r->prefill.node))
        return; /* answers the RESERVE before */
    gw_request_begin_prefill(b, r);
}

/* A node that computes a prompt sends PREFILL_ACCEPTED again while rows appear, so that a slow node does not
 * count as lost. So does a decode node that computes the rows of known tokens, in a local attempt or after a
 * preemption. */
static void on_accepted(gw_brain *b, gw_request *r, bool from_prefill, bool from_decode)
{
    if (!(r->state == GW_PREFILLING && from_prefill) && !(r->state == GW_DECODING && from_decode)) {
        b->n.repeats++;
        return;
    }
    accept(r);
    gw_request_await_prompt(b, r);
}

/* For now: a node without room gets nothing for the time that it names. P's refusal concerns this pair only:
 * P may already hold too much for that D. */
static void on_refused(gw_brain *b, gw_request *r, gw_side *side, const bt_msg_refused *w)
{
    const bool is_decode = side == &r->decode;
    if (r->state != (is_decode ? GW_RESERVING : GW_PREFILLING) || (!is_decode && r->is_accepted) ||
        w->of != (is_decode ? BT_MSG_RESERVE : BT_MSG_PREFILL)) {
        b->n.unexpected++;
        return;
    }
    gw_request_close_side(b, r, side);
    if (w->retry_after_ms == 0) {
        gw_request_fail(b, r, w->code == BT_ELIMIT ? GW_FAIL_TOO_LONG : GW_FAIL_REFUSED, (bt_err)w->code, 0,
                        "%s", w->text);
        return;
    }
    const uint32_t wait_ms = w->retry_after_ms < REFUSED_LEAST_MS  ? REFUSED_LEAST_MS
                             : w->retry_after_ms > REFUSED_MOST_MS ? REFUSED_MOST_MS
                                                                   : w->retry_after_ms;
    const int64_t until_us = b->now_us + (int64_t)wait_ms * 1000;
    gw_node *n = gw_registry_find(&b->registry, &side->node);
    if (!is_decode) gw_avoid_refused(&b->router.avoid, r->prefill.name, r->decode.name, until_us, b->now_us);
    else if (n) gw_registry_refuses(&b->registry, n, until_us);
    gw_request_requeue(b, r, 0);
}

/* D sends the sum over all steps of the attempt, so the latest is the largest. */
static void note_steps(gw_request *r, const bt_msg_device_work *w)
{
    if (w->ns > r->decode_work.ns) r->decode_work = *w;
}

/* Adds the prompt's price once for each attempt, even where it was computed again for known tokens. */
static void note_prompt(gw_request *r, const bt_msg_first_token *w)
{
    gw_stats *s = &r->stats;
    if (r->has_price || !w->device.ns) return;
    r->has_price = true;
    bt_msg_device_work_add(&s->device_prefill, &w->device);
    s->device_transfer_ns += w->device_prompt.transfer_ns;
    s->device_exposed_ns += w->device_prompt.exposed_ns;
    if (r->base) return;
    s->device_first_ns = w->device.ns;
    s->device_prompt = w->device_prompt;
}

/* Before token 0: kept, in order, so that a race of two links costs no resend. */
static void keep_early(gw_request *r, const bt_msg_tokens *w)
{
    if (w->logprobs || w->first_index != gw_request_first_made(r) + r->early_len ||
        w->ids_len > r->max_tokens - w->first_index)
        return; /* comes again */
    memcpy(r->tokens + w->first_index, w->ids, w->ids_len * sizeof *w->ids);
    r->early_len += w->ids_len;
}

static void on_tokens(gw_brain *b, gw_request *r, const bt_msg_tokens *w)
{
    note_steps(r, &w->device);
    if (r->state == GW_PREFILLING) keep_early(r, w);
    if (r->state != GW_DECODING && r->state != GW_CLOSING) return;
    const bool is_gap = w->first_index > r->next_index;
    const uint32_t skip = is_gap || BT_BREAK(token_repeated) ? 0 : r->next_index - w->first_index;
    if (is_gap && !BT_BREAK(token_skipped)) b->n.unexpected++; /* what is missing comes again */
    else if (skip >= w->ids_len || r->ended) b->n.repeats++;
    else {
        gw_avoid_succeeded(&b->router.avoid, 0, r->decode.name);
        gw_avoid_succeeded(&b->router.avoid, r->prefill.name, r->decode.name);
        take_tokens(b, r, w->ids + skip, w->ids_len - skip, w->logprobs ? w->logprobs + skip : NULL);
    }
    gw_request_tell(b, r, &r->decode, BT_MSG_TOKENS_ACK)->u.tokens_ack.next_index = r->next_index;
    if (r->ended) gw_request_closing(b, r);
}

static void on_finished(gw_brain *b, gw_request *r, const bt_msg_finished *w)
{
    if (r->state == GW_PREFILLING) {
        r->early_finished = *w;
        r->has_early_finished = true;
    }
    if ((r->state != GW_DECODING && r->state != GW_CLOSING) || w->completion_tokens > r->next_index)
        return; /* comes again */
    (void)gw_request_tell(b, r, &r->decode, BT_MSG_FINISHED_ACK);
    r->stats.has_decode = true;
    r->stats.decode_wait_us = w->wait_us;
    r->stats.decode_us = w->decode_us;
    r->stats.decode_steps = w->decode_steps;
    gw_request_close_side(b, r, &r->decode);
    if (!r->ended) r->ended = w->reason == BT_FINISH_LENGTH ? BT_FINISH_LENGTH : BT_FINISH_STOP;
    gw_request_closing(b, r);
}

/* The figures of token 0, and the token itself for the client. */
static void begin_answer(gw_brain *b, gw_request *r, const gw_side *side, const bt_msg_first_token *w)
{
    const gw_node *n = gw_registry_find(&b->registry, &side->node);
    r->stats.has_first = true;
    r->stats.queue_us = w->queue_us;
    r->stats.prefill_us = w->prefill_us;
    r->stats.work = w->work;
    r->stats.cached_tokens = w->cached_tokens < r->prompt.tokens ? w->cached_tokens : r->prompt.tokens;
    r->stats.covered_tokens = r->reserved.covered_tokens;
    b->n.cached_tokens += r->stats.cached_tokens;
    b->n.covered_tokens += r->stats.covered_tokens;
    r->stats.ttft_us = b->now_us - r->submitted_us;
    if (n) memcpy(r->stats.prefilled_by, n->hello.node_id, sizeof r->stats.prefilled_by);
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    const uint32_t chunks = gw_affinity_chain(chain, &r->prompt);
    if (!r->local) gw_affinity_note(b->router.affinity, chain, chunks, &r->prefill.node);
    gw_affinity_note(b->router.affinity, chain, chunks, &r->decode.node);
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
                        "the prompt was computed again and gave token %d where it had given %d: the nodes do "
                        "not compute alike",
                        w->token, r->tokens[0]);
        return;
    }
    if (r->state != GW_PREFILLING) {
        b->n.repeats++;
        return;
    }
    accept(r);
    note_prompt(r, w);
    gw_avoid_succeeded(&b->router.avoid, r->prefill.name, 0);
    gw_request_set_state(b, r, GW_DECODING);
    if (r->base == 0) begin_answer(b, r, side, w);
    else gw_request_await_token(b, r);
    if (r->has_kv)
        gw_request_close_side(b, r, &r->prefill); /* PREFILL_DONE overtook a FIRST_TOKEN that was lost */
    if (r->ended) {
        gw_request_done(b, r); /* nothing is left to do on either node */
        return;
    }
    if (r->early_len) {
        const bt_msg_tokens early = {.first_index = gw_request_first_made(r),
                                     .ids = r->tokens + gw_request_first_made(r), .ids_len = r->early_len};
        on_tokens(b, r, &early);
    }
    if (r->has_early_finished) on_finished(b, r, &r->early_finished);
}

/* The node has freed the attempt and is not needed. */
static void side_over(gw_brain *b, gw_request *r, gw_side *side)
{
    gw_request_close_side(b, r, side);
    if (r->state == GW_CLOSING) gw_request_closing(b, r);
}

/* Codes that say: not on any node, not at any time. */
static bool is_for_good(int32_t code)
{
    return code == BT_EFORMAT || code == BT_EARG || code == BT_ELIMIT || code == BT_EVERSION ||
           code == BT_ERANGE;
}

/* A failure that P reports may be D's fault, or that of the network between them. */
static void on_failed(gw_brain *b, gw_request *r, gw_side *side, const bt_msg_failed *w)
{
    const bool is_decode = side == &r->decode;
    if (!side->is_open || !gw_request_needs(r, side)) {
        side_over(b, r, side);
        return;
    }
    const gw_node *n = gw_registry_find(&b->registry, &side->node);
    gw_request_close_side(b, r, side);
    if (is_for_good(w->code))
        gw_request_fail(b, r, w->code == BT_ERANGE ? GW_FAIL_NOT_FINITE : GW_FAIL_REFUSED, (bt_err)w->code, 0,
                        "%s", w->text);
    else
        gw_request_recover(b, r, is_decode && w->code == BT_EAGAIN ? GW_CAUSE_GAVE_UP : GW_CAUSE_FAILED,
                           is_decode ? GW_BLAME_DECODE : GW_BLAME_PAIR, "the %s node %s failed: %s",
                           is_decode ? "decode" : "prefill", n ? n->hello.node_id : "(forgotten)", w->text);
}

static void on_prefill_done(gw_brain *b, gw_request *r, gw_side *side, const bt_msg_prefill_done *w)
{
    const bool is_first = !r->has_kv;
    r->has_kv = r->stats.has_kv = true;
    r->stats.kv_bytes = w->kv_bytes;
    r->stats.kv_blocks = w->kv_blocks;
    r->stats.kv_exposed_us = w->exposed_us;
    r->stats.kv_transfer_us = w->transfer_us;
    r->stats.kv_digest = w->kv_digest;
    /* A local one ends no side. Before token 0 the side stays open: FIRST_TOKEN is still to come. */
    if (is_first && r->state == GW_DECODING && r->next_index <= gw_request_first_made(r))
        gw_request_await_token(b, r);
    if (!r->local && (r->state == GW_DECODING || r->state == GW_CLOSING)) side_over(b, r, side);
}

/* Reports are acknowledged whatever the request's state, so that the node stops repeating them. */
static void acknowledge(gw_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_FIRST_TOKEN || m->type == BT_MSG_PREFILL_DONE || m->type == BT_MSG_FAILED) {
        bt_msg *a = gw_act_send(b, &m->from, BT_MSG_ACK);
        a->ref = m->ref;
        a->u.ack.of = m->type;
    }
}

/* A message about an attempt that was left: settles the debt where the node has freed the attempt, else sends
 * ABORT. */
static void disown(gw_brain *b, const bt_msg *m)
{
    const bool has_let_go = m->type == BT_MSG_ABORT_ACK || m->type == BT_MSG_FAILED ||
                            m->type == BT_MSG_FINISHED || m->type == BT_MSG_REFUSED;
    acknowledge(b, m);
    if (m->type == BT_MSG_FINISHED) gw_act_send(b, &m->from, BT_MSG_FINISHED_ACK)->ref = m->ref;
    if (has_let_go && gw_request_settle(b, &m->from, &m->ref)) return;
    b->n.stale_attempt++;
    if (m->type == BT_MSG_TOKENS || m->type == BT_MSG_RESERVED || m->type == BT_MSG_WAITS ||
        m->type == BT_MSG_PREFILL_ACCEPTED)
        gw_act_send(b, &m->from, BT_MSG_ABORT)->ref = m->ref;
}

/* About the attempt that it has now. */
static void take_msg(gw_brain *b, gw_request *r, const bt_msg *m, bool from_decode, bool from_prefill)
{
    /* Token 0 of a local attempt that overtook RESERVED comes again when it can be taken. */
    const bool is_early =
        r->state == GW_RESERVING && (m->type == BT_MSG_FIRST_TOKEN || m->type == BT_MSG_PREFILL_DONE);
    if (!is_early) acknowledge(b, m);
    gw_side *side = from_decode ? &r->decode : &r->prefill;
    if (m->type == BT_MSG_RESERVED && from_decode) on_reserved(b, r, &m->u.reserved);
    else if (m->type == BT_MSG_WAITS && from_decode) on_waits(b, r);
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

void gw_request_msg(gw_brain *b, const bt_msg *m)
{
    if (!bt_incarnation_equal(&m->ref.owner, &b->cfg.self)) {
        b->n.unexpected++;
        return;
    }
    gw_request *r = gw_request_find(b, m->ref.number);
    const bool from_decode = r && bt_incarnation_equal(&m->from, &r->decode.node);
    const bool from_prefill =
        r && bt_incarnation_equal(&m->from, r->local ? &r->decode.node : &r->prefill.node);
    if (!r || m->ref.attempt != r->attempt || r->state == GW_QUEUED || (!from_decode && !from_prefill)) {
        disown(b, m);
        return;
    }
    take_msg(b, r, m, from_decode, from_prefill);
    gw_request_rearm(b, r);
}
