/* The table of requests: their states, the queue, and their messages to nodes. It decides nothing. See
 * request.h. */
#include "gateway/brain/request.h"
#include "base/breakage.h"
#include "base/breakage.h"
#include "gateway/brain/act.h"

#include <assert.h>
#include <string.h>

enum { RETRY_LEAST_MS = 1000, RETRY_MOST_MS = 30000 };

static uint32_t place_of(const gw_brain *b, const gw_request *r) { return (uint32_t)(r - b->requests); }

/* Numbers ascend, so chains are short. */
static uint32_t *chain_of(const gw_brain *b, uint64_t number)
{
    return &b->by_number[number & (b->numbers - 1)];
}

gw_request *gw_request_find(gw_brain *b, uint64_t number)
{
    uint32_t at = *chain_of(b, number);
    while (at && b->requests[at - 1].number != number) at = b->requests[at - 1].same;
    return at ? &b->requests[at - 1] : NULL;
}

void gw_request_name(gw_brain *b, gw_request *r)
{
    uint32_t *chain = chain_of(b, r->number);
    r->same = *chain;
    *chain = place_of(b, r) + 1;
}

static void forget_name(gw_brain *b, const gw_request *r)
{
    uint32_t *at = chain_of(b, r->number);
    while (*at != place_of(b, r) + 1) at = &b->requests[*at - 1].same;
    *at = r->same;
}

static bool is_active(gw_request_state s) { return s != GW_NONE && s != GW_QUEUED && s != GW_DEAD; }

/* ---- the line ----------------------------------------------------------------------------------- */

/* The tokens that a request takes of its share. A request that has had its turn has paid. */
static uint64_t cost_of(const gw_request *r)
{
    return r->has_had_turn ? 0 : (uint64_t)r->prompt.tokens + r->max_tokens;
}

/* Priorities in their order, as unsigned numbers. */
static uint32_t rank(int32_t priority) { return (uint32_t)priority ^ UINT32_C(1) << 31; }

static bt_order_key ready_key(const gw_request *r)
{
    const uint32_t urgency = BT_BREAK(priority_ignored) ? 0 : rank(r->priority);
    if (BT_BREAK(smallest_first)) return (bt_order_key){(uint64_t)r->share << 33, cost_of(r)};
    return (bt_order_key){(uint64_t)r->share << 33 | (uint64_t)!r->has_had_turn << 32 | urgency, r->number};
}

static bool is_short(const gw_brain *b, const gw_request *r) { return r->prompt.tokens <= b->line_short; }

/* The first one of the share in that part of the line; NULL: it has none. */
static gw_request *first_in(const gw_brain *b, gw_line part, uint32_t share)
{
    const int64_t at = bt_order_from(&b->line, part, (bt_order_key){(uint64_t)share << 33, 0});
    return at >= 0 && b->requests[at].share == share ? &b->requests[at] : NULL;
}

/* The same of both parts. */
static gw_request *first_of(const gw_brain *b, uint32_t share)
{
    gw_request *r = first_in(b, GW_LINE_READY, share), *k = first_in(b, GW_LINE_SHORT, share);
    if (!r || !k) return r ? r : k;
    const bt_order_key a = ready_key(r), c = ready_key(k);
    return a.hi < c.hi || (a.hi == c.hi && a.lo < c.lo) ? r : k;
}

static void tell_share(gw_brain *b, uint32_t share)
{
    const gw_request *r = first_of(b, share), *k = first_in(b, GW_LINE_SHORT, share);
    gw_shares_head(&b->shares, share, r != NULL, r ? cost_of(r) : 0);
    gw_shares_head(&b->short_shares, share, k != NULL, k ? cost_of(k) : 0);
}

gw_request *gw_request_next(gw_brain *b)
{
    const int64_t share = gw_shares_next(b->in_short_round ? &b->short_shares : &b->shares);
    if (share < 0) return NULL;
    return b->in_short_round ? first_in(b, GW_LINE_SHORT, (uint32_t)share) : first_of(b, (uint32_t)share);
}

void gw_request_take_turn(gw_brain *b, gw_request *r)
{
    gw_shares_pay(b->in_short_round ? &b->short_shares : &b->shares, r->share, cost_of(r));
    r->has_had_turn = true;
}

/* Whether its turn comes: in READY or SHORT. */
static bool is_in_turn(const gw_brain *b, uint32_t at)
{
    return bt_order_has(&b->line, GW_LINE_READY, at) || bt_order_has(&b->line, GW_LINE_SHORT, at);
}

/* A share waits and holds in both rounds alike. */
static void wait_in_rounds(gw_brain *b, uint32_t share, bool is_more, bool is_fresh)
{
    gw_shares_wait(&b->shares, share, is_more, is_fresh);
    gw_shares_wait(&b->short_shares, share, is_more, is_fresh);
}

void gw_request_stand(gw_brain *b, gw_request *r, gw_line part, bt_order_key key)
{
    const bool was_ready = is_in_turn(b, place_of(b, r));
    bt_order_put(&b->line, part, place_of(b, r), key);
    if (was_ready || is_in_turn(b, place_of(b, r))) tell_share(b, r->share);
}

/* One that comes back stands before all of its share that came after it. */
void gw_request_line_up(gw_brain *b, gw_request *r)
{
    const bool is_stuck = r->stuck_us >= 0 && r->stuck_epoch == b->epoch;
    const bool rests = !is_stuck && r->not_before_us > b->now_us;
    if (is_stuck) gw_request_stand(b, r, GW_LINE_STUCK, bt_order_number(r->number));
    else if (rests) gw_request_stand(b, r, GW_LINE_RESTING, bt_order_time(r->not_before_us));
    else gw_request_stand(b, r, is_short(b, r) ? GW_LINE_SHORT : GW_LINE_READY, ready_key(r));
}

/* Notes that it waits for the nodes that it asks for, or (false) no longer. */
static void want(gw_brain *b, gw_request *r, bool waits)
{
    const uint64_t names[2] = {r->only_prefill, r->only_decode};
    for (int i = 0; i < 2; i++) {
        const int64_t at = waits && names[i] ? gw_registry_had_place(&b->registry, names[i]) : -1;
        if (r->wants_at[i]) b->wanted[r->wants_at[i] - 1]--;
        r->wants_at[i] = (uint32_t)(at + 1);
        if (at >= 0) b->wanted[at]++;
    }
}

static void enter_queue(gw_brain *b, gw_request *r)
{
    b->queued++;
    wait_in_rounds(b, r->share, true, r->attempt == 0);
    want(b, r, true);
    if (r->attempt == 0)
        bt_order_put(&b->newest, 0, place_of(b, r),
                     (bt_order_key){(uint64_t)r->share << 32 | (uint32_t)~rank(r->priority), ~r->number});
    gw_request_line_up(b, r);
}

static void leave_queue(gw_brain *b, gw_request *r)
{
    const uint32_t at = place_of(b, r);
    const bool was_ready = is_in_turn(b, at);
    b->queued--;
    wait_in_rounds(b, r->share, false, bt_order_has(&b->newest, 0, at));
    want(b, r, false);
    bt_order_take(&b->newest, at);
    bt_order_take(&b->line, at);
    if (was_ready) tell_share(b, r->share);
}

/* ---- its times and nodes ------------------------------------------------------------------------ */

void gw_request_rearm(gw_brain *b, gw_request *r)
{
    const uint32_t at = place_of(b, r);
    if (bt_order_has(&b->due, GW_RIPE, at)) return; /* its turn comes in this step */
    if (r->state == GW_NONE || r->state == GW_DEAD) bt_order_take(&b->due, at);
    else bt_order_put(&b->due, GW_DUE, at, bt_order_time(gw_request_due_us(b, r)));
}

/* The prompt's rows are there, or nobody wants them any more. */
static void end_waiting(gw_brain *b, gw_side *side)
{
    gw_node *n = side->waiting_tokens ? gw_registry_find(&b->registry, &side->node) : NULL;
    assert(!n || n->waiting_tokens >= side->waiting_tokens);
    if (n) n->waiting_tokens -= side->waiting_tokens;
    side->waiting_tokens = 0;
}

/* Counts the KV that an attempt takes of its decode node. An attempt that leaves the node's line frees
 * nothing. */
static void hold_tokens(gw_brain *b, const gw_request *r, gw_side *side, bool is_held)
{
    gw_node *n = side->is_open == is_held ? NULL : gw_registry_find(&b->registry, &side->node);
    if (!n) return;
    if (is_held) {
        side->held_tokens = gw_held_tokens(r->prompt.tokens, r->max_tokens);
        n->held_tokens += side->held_tokens;
        return;
    }
    n->held_tokens -= side->held_tokens < n->held_tokens ? side->held_tokens : n->held_tokens;
    if (!r->is_in_line) n->is_full = false;
}

void gw_request_hold(gw_brain *b, gw_request *r, gw_side *side, bool is_held)
{
    const uint32_t at = 2 * place_of(b, r) + (side == &r->decode);
    if (side == &r->decode) hold_tokens(b, r, side, is_held);
    side->is_open = is_held;
    if (!is_held) end_waiting(b, side);
    if (is_held) bt_order_put(&b->sides, 0, at, gw_registry_key(&side->node));
    else bt_order_take(&b->sides, at);
}

/* Into the part of `parked`, or out of all. */
static void park(gw_brain *b, const gw_request *r, gw_parked part, bool is_parked)
{
    if (is_parked) bt_order_put(&b->parked, part, place_of(b, r), bt_order_number(r->number));
    else bt_order_take(&b->parked, place_of(b, r));
}

void gw_request_set_line(gw_brain *b, gw_request *r, bool is_in_line)
{
    if (r->is_in_line == is_in_line) return;
    gw_node *n = gw_registry_find(&b->registry, &r->decode.node);
    r->is_in_line = is_in_line;
    b->in_line += is_in_line ? 1 : UINT32_MAX;
    park(b, r, GW_PARKED_LINE, is_in_line && !r->only_decode);
    if (!n || (n->lined == 0 && !is_in_line)) return; /* forgotten, or known anew */
    n->lined += is_in_line ? 1 : UINT32_MAX;
    assert(n->lined <= n->attempts);
    if (is_in_line) n->is_full = true;
    gw_registry_changed(&b->registry, n);
}

void gw_request_set_placed(gw_brain *b, gw_request *r, bool is_placed)
{
    if (r->is_placed == is_placed) return;
    r->is_placed = is_placed;
    park(b, r, GW_PARKED_PLACED, is_placed);
}

void gw_request_set_state(gw_brain *b, gw_request *r, gw_request_state s)
{
    const uint32_t at = place_of(b, r);
    const bool was_active = is_active(r->state);
    gw_request_set_line(b, r, false);
    gw_request_set_placed(b, r, false);
    if (r->state == GW_QUEUED) leave_queue(b, r);
    r->state = s;
    if (was_active != is_active(s)) {
        b->active += is_active(s) ? 1 : -1U;
        assert(b->active <= b->cfg.active_max);
        gw_shares_hold(&b->shares, r->share, is_active(s));
        gw_shares_hold(&b->short_shares, r->share, is_active(s));
    }
    if (s == GW_QUEUED) enter_queue(b, r);
    if (s == GW_DECODING) {
        end_waiting(b, &r->prefill);
        end_waiting(b, &r->decode);
    }
    if (s == GW_DEAD) {
        b->shares.items[r->share].tokens +=
            (r->stats.has_first ? r->stats.prompt_tokens : 0) + r->stats.completion_tokens;
        forget_name(b, r);
        bt_order_put(&b->idle, GW_PLACE_DEAD, at, bt_order_number(0));
    }
    gw_request_rearm(b, r);
}

uint32_t gw_request_retry_ms(const gw_brain *b, uint32_t share)
{
    const uint64_t line = gw_shares_line(&b->shares, share, b->shares.items[share].waiting / 2 + 1);
    const int64_t each_ms = b->between_us / 1000 < RETRY_MOST_MS ? b->between_us / 1000 : RETRY_MOST_MS;
    const int64_t ms = each_ms * (int64_t)line;
    return ms < RETRY_LEAST_MS ? RETRY_LEAST_MS : ms > RETRY_MOST_MS ? RETRY_MOST_MS : (uint32_t)ms;
}

/* ---- to its nodes ------------------------------------------------------------------------------- */

bt_msg *gw_request_tell(gw_brain *b, const gw_request *r, const gw_side *side, bt_msg_type type)
{
    bt_msg *m = gw_act_send(b, &side->node, type);
    m->ref = (bt_request_ref){b->cfg.self, r->number, r->attempt};
    return m;
}

/* The same in every attempt. */
static bt_prompt_salt salt_of(const gw_request *r)
{
    return BT_BREAK(salt_lost) && r->attempt > 1 ? (bt_prompt_salt){{0}} : r->prompt.salt;
}

void gw_request_say_reserve(gw_brain *b, gw_request *r)
{
    bt_msg_reserve *w = &gw_request_tell(b, r, &r->decode, BT_MSG_RESERVE)->u.reserve;
    w->prompt_tokens = r->prompt.tokens;
    w->max_tokens = r->max_tokens;
    w->ids = r->prompt.ids;
    w->ids_len = r->prompt.tokens;
    w->hashes = r->prompt.hashes;
    w->salt = salt_of(r);
    w->generated = r->tokens;
    w->generated_len = r->base;
    w->is_local = r->local != GW_LOCAL_NOT;
    w->prefill = r->prefill.node; /* zero where local */
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
    w->ids = r->prompt.ids;
    w->ids_len = r->prompt.tokens;
    w->hashes = r->prompt.hashes;
    w->salt = salt_of(r);
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

/* ---- its deadline ------------------------------------------------------------------------------- */

void gw_request_await_answer(gw_brain *b, gw_request *r) { r->deadline_us = b->now_us + b->cfg.answer_us; }

void gw_request_await_prompt(gw_brain *b, gw_request *r)
{
    const int64_t known = r->local || r->state == GW_DECODING ? r->base : 0; /* D computes those rows too */
    r->deadline_us =
        b->now_us + b->cfg.prefill_us + ((int64_t)r->prompt.tokens + known) * b->cfg.prefill_token_us;
}

void gw_request_await_token(gw_brain *b, gw_request *r)
{
    /* before D's first token of this attempt: rows travel, known tokens are replayed */
    int64_t rows = 0;
    if (r->next_index <= gw_request_first_made(r))
        rows = r->base + (r->local || r->has_kv ? 0 : (int64_t)r->prompt.tokens);
    r->deadline_us = b->now_us + b->cfg.progress_us + rows * b->cfg.prefill_token_us;
}
