/* How a request gets into the queue, and out of it to nodes. route.h says which nodes; this file says whose
 * turn it is. See request.h. */
#include "gateway/brain/request.h"
#include "gateway/brain/act.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- into the queue ----------------------------------------------------------------------------- */

static bool is_bad(const gw_brain *b, const gw_submit *s)
{
    return s->request <= b->last_request || (!s->ids && !s->hashes.of) || s->ids_len < 1 ||
           s->ids_len > BT_MSG_MAX_PROMPT_TOKENS || s->max_tokens < 1 ||
           s->max_tokens > BT_MSG_MAX_PROMPT_TOKENS || s->stop_ids_len > BT_MSG_MAX_STOP_IDS ||
           s->sampling.program_len > BT_SAMPLE_MAX_PROGRAM || s->weight > GW_WEIGHT_MAX;
}

/* The prompt, room for the tokens, the bias and the program in one block; false when there is no memory for
 * them. */
static bool take(gw_request *r, const gw_submit *s, uint32_t share)
{
    const size_t bias_bytes = s->sampling.bias_len * sizeof *s->sampling.bias;
    /* about 8 MiB at most */
    const bt_prompt_view prompt = {s->ids_len, s->ids, s->hashes, s->salt};
    const size_t prompt_bytes = bt_prompt_bytes(&prompt), tokens_bytes = s->max_tokens * sizeof *r->tokens;
    uint8_t *block = malloc(prompt_bytes + tokens_bytes + bias_bytes + s->sampling.program_len);
    if (!block) return false;
    *r = (gw_request){.number = s->request,
                      .block = block,
                      .prompt = bt_prompt_copy(block, &prompt),
                      .tokens = (int32_t *)(void *)(block + prompt_bytes),
                      .max_tokens = s->max_tokens,
                      .sampling = s->sampling,
                      .stop_ids_len = s->stop_ids_len,
                      .policy = s->policy,
                      .share = share,
                      .priority = s->priority,
                      .asked_us = -1,
                      .lost_us = -1,
                      .stuck_us = -1};
    uint8_t *bias = block + prompt_bytes + tokens_bytes;
    if (bias_bytes) memcpy(bias, s->sampling.bias, bias_bytes);
    r->sampling.bias = (const bt_sample_bias *)(const void *)bias;
    if (s->sampling.program_len) memcpy(bias + bias_bytes, s->sampling.program, s->sampling.program_len);
    r->sampling.program = bias + bias_bytes;
    memcpy(r->stop_ids, s->stop_ids, s->stop_ids_len * sizeof *r->stop_ids);
    snprintf(r->prefer_prefill, sizeof r->prefer_prefill, "%s", s->prefer_prefill);
    snprintf(r->prefer_decode, sizeof r->prefer_decode, "%s", s->prefer_decode);
    r->only_prefill = gw_registry_name(r->prefer_prefill);
    r->only_decode = gw_registry_name(r->prefer_decode);
    return true;
}

/* The first one; NULL: all are taken. */
static gw_request *free_place(const gw_brain *b)
{
    const int64_t at = bt_order_first(&b->idle, GW_PLACE_FREE);
    if (at >= 0) return &b->requests[at];
    return b->requests_used < b->requests_len ? &b->requests[b->requests_used] : NULL;
}

static void own_place(gw_brain *b, gw_request *r)
{
    const uint32_t at = (uint32_t)(r - b->requests);
    if (at == b->requests_used) b->requests_used++;
    bt_order_take(&b->idle, at);
    gw_request_name(b, r);
}

/* The first node_id of the wish that no node has had; NULL: there is none. */
static const char *unknown_node(const gw_brain *b, const gw_submit *s)
{
    const char *const names[] = {s->prefer_prefill, s->prefer_decode};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*names[i] && !gw_registry_had(&b->registry, gw_registry_name(names[i]))) return names[i];
    return NULL;
}

static void refuse_unknown(gw_brain *b, const gw_submit *s, const char *node_id, const gw_stats *stats)
{
    char text[BT_STEP_TEXT_BYTES];
    const bool greets = b->now_us - b->begun_us < GW_GREET_US;
    snprintf(text, sizeof text,
             greets ? "node '%s' has not greeted this gateway yet, which has just begun"
                    : "no node is called '%s'; GET /v1/status lists the nodes",
             node_id);
    if (greets) gw_request_refuse(b, s->request, GW_FAIL_NO_NODE, BT_EAGAIN, GW_GREET_US / 1000, stats, text);
    else gw_request_refuse(b, s->request, GW_FAIL_UNKNOWN_NODE, BT_EARG, 0, stats, text);
}

/* The node_id of the wish for which as many requests wait as may; NULL: there is none. */
static const char *crowded_node(const gw_brain *b, const gw_submit *s)
{
    const uint32_t most = b->cfg.queue_max / 4 > 0 ? b->cfg.queue_max / 4 : 1;
    const char *const names[] = {s->prefer_prefill, s->prefer_decode};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t at = *names[i] ? gw_registry_had_place(&b->registry, gw_registry_name(names[i])) : -1;
        if (at >= 0 && b->wanted[at] >= most) return names[i];
    }
    return NULL;
}

/* Whether a request of this share finds a place in the waiting room. Where the room is full and the share has
 * less than its part, the newest request of the share that has most above its part gives way, and of its
 * newest the least urgent. */
static bool finds_room(gw_brain *b, uint32_t share)
{
    if (b->queued < b->cfg.queue_max) return true;
    const int64_t most = gw_shares_gives_way(&b->shares, share, b->cfg.queue_max);
    const int64_t at = most < 0 ? -1 : bt_order_from(&b->newest, 0, (bt_order_key){(uint64_t)most << 32, 0});
    gw_request *r = at >= 0 ? &b->requests[at] : NULL;
    if (!r || r->share != most) return false;
    gw_request_fail(b, r, GW_FAIL_OVERLOADED, BT_EAGAIN, gw_request_retry_ms(b, r->share),
                    "%u requests are waiting, and %u of them are of this key or address: more than its part "
                    "while others wait",
                    b->queued, b->shares.items[most].waiting);
    return true;
}

/* Whether the request may wait; else why it may not, in words. */
static bool may_wait(bt_fault *ret, gw_brain *b, const gw_submit *s, uint32_t share)
{
    const char *crowded = crowded_node(b, s);
    if (b->draining) snprintf(ret->text, sizeof ret->text, "this gateway is shutting down");
    else if (crowded)
        snprintf(ret->text, sizeof ret->text,
                 "a quarter of all requests that may wait are waiting for node '%s' already", crowded);
    else if (!free_place(b) || !finds_room(b, share))
        snprintf(ret->text, sizeof ret->text, "%u requests are waiting already", b->queued);
    else return true;
    return false;
}

void gw_request_submit(gw_brain *b, const gw_submit *s, const bt_random *random)
{
    gw_stats none = {.prompt_tokens = s->ids_len, .max_tokens = s->max_tokens, .gateway_queue_us = -1,
                     .ttft_us = -1, .reserve_us = -1};
    b->n.submitted++;
    bt_fault fault = {"the prompt, max_tokens, number of stop ids or weight is out of range"};
    if (is_bad(b, s) || bt_sample_params_check(&s->sampling, &fault) < 0) {
        gw_request_refuse(b, s->request, GW_FAIL_BAD, BT_EARG, 0, &none, fault.text);
        return;
    }
    b->last_request = s->request;
    const char *unknown = unknown_node(b, s);
    if (unknown) {
        refuse_unknown(b, s, unknown, &none);
        return;
    }
    /* Requests that came back in this very step may go on at once, and take no place then. */
    if (b->queued >= b->cfg.queue_max) gw_request_dispatch(b);
    const uint32_t weight = s->weight ? s->weight : 1, share = gw_shares_enter(&b->shares, s->share, weight);
    (void)gw_shares_enter(&b->short_shares, s->share, weight); /* the same place */
    if (!may_wait(&fault, b, s, share)) {
        gw_request_refuse(b, s->request, GW_FAIL_OVERLOADED, BT_EAGAIN, gw_request_retry_ms(b, share), &none,
                          fault.text);
        return;
    }
    gw_request *r = free_place(b);
    if (!take(r, s, share)) {
        gw_request_refuse(b, s->request, GW_FAIL_OVERLOADED, BT_ENOMEM, gw_request_retry_ms(b, share), &none,
                          "out of memory");
        return;
    }
    r->submitted_us = r->waiting_us = b->now_us;
    r->stats = none;
    if (!b->pair_ready) r->stuck_us = b->no_pair_us;
    if (s->draw_seed) r->sampling.seed = random->word[0];
    r->stats.seed = r->sampling.seed;
    b->n.prompt_tokens += s->ids_len;
    own_place(b, r);
    gw_request_set_state(b, r, GW_QUEUED);
    gw_request_expire(b, r); /* at once, where no nodes have been there for long */
}

/* ---- to nodes ----------------------------------------------------------------------------------- */

/* new_tokens: of the prompt, what the node is not known to have had. */
static void open_side(gw_brain *b, gw_request *r, gw_side *s, gw_node *n, uint32_t new_tokens)
{
    *s = (gw_side){.node = n->incarnation, .name = n->name, .waiting_tokens = new_tokens,
                   .is_long = gw_node_is_long(n, new_tokens)};
    gw_registry_give(&b->registry, n, new_tokens);
    gw_request_hold(b, r, s, true);
    n->attempts++;
    n->long_attempts += s->is_long;
    gw_registry_changed(&b->registry, n);
}

static void assign(gw_brain *b, gw_request *r, const gw_route_choice *c)
{
    r->attempt++;
    r->local = c->local;
    r->base = r->next_index;
    r->prefill = (gw_side){.is_open = false};
    if (c->prefill) open_side(b, r, &r->prefill, c->prefill, c->prefill_new_tokens);
    open_side(b, r, &r->decode, c->decode, c->decode_new_tokens);
    if (r->base == 0) {
        r->prefill_class =
            gw_route_class(c->prefill ? c->prefill->hello.exactness : c->decode->hello.prefill_exactness);
        r->decode_class = gw_route_class(c->decode->hello.exactness);
    }
    r->is_accepted = r->is_moved = false;
    r->has_kv = r->has_price = false;
    bt_msg_device_work_add(&r->stats.device_decode, &r->decode_work);
    r->decode_work = (bt_msg_device_work){0};
    r->early_len = 0;
    r->has_early_finished = false;
    if (r->local) b->n.local_prefills[r->local]++;
    if (r->base) b->n.replays++;
    b->n.replayed_tokens += r->base;
    if (r->stats.gateway_queue_us < 0) r->stats.gateway_queue_us = b->now_us - r->submitted_us;
    if (r->asked_us < 0 && r->next_index == 0) r->asked_us = b->now_us;
    gw_request_set_state(b, r, GW_RESERVING);
    gw_request_await_answer(b, r);
    r->renew_us = b->now_us + (int64_t)b->cfg.lease_ms * 250; /* a quarter of the lease */
    gw_request_say_reserve(b, r);
}

void gw_request_begin_prefill(gw_brain *b, gw_request *r)
{
    gw_request_set_state(b, r, GW_PREFILLING);
    gw_request_await_answer(b, r);
    gw_request_say_prefill(b, r);
}

/* A prompt that would have been local goes to a prefill node. Counted each time, logged once. */
static void say_odd(gw_brain *b, const gw_route_choice *c)
{
    if (b->n.local_refused++ > 0) return;
    gw_act_log(b, BT_LOG_WARN,
               "no local prefill on %s: its prompts would be of class '%.48s', those of %s are of '%.48s'",
               c->odd_decode->hello.node_id, c->odd_decode->hello.prefill_exactness,
               c->odd_prefill->hello.node_id, c->odd_prefill->hello.exactness);
}

/* The door cuts an answer to what the known nodes hold, but nodes that came since may hold less. False: a cut
 * does not help. */
static bool cut_answer(gw_request *r, uint64_t limit_tokens)
{
    if (r->attempt > 0 || limit_tokens <= r->prompt.tokens ||
        limit_tokens - r->prompt.tokens >= r->max_tokens)
        return false;
    r->max_tokens = r->stats.max_tokens = (uint32_t)(limit_tokens - r->prompt.tokens);
    return true;
}

/* Changes on which a choice depends, beside the wish and the time. */
static uint64_t changes(const gw_brain *b)
{
    return b->registry.changes + b->router.avoid.changes + gw_affinity_changes(b->router.affinity);
}

/* Its choice would be the same until something changes, or a refusal ends. */
static void rest_busy(gw_brain *b, gw_request *r)
{
    const int64_t until_us = gw_avoid_due_us(&b->router.avoid, b->now_us);
    const bool is_first = bt_order_first(&b->line, GW_LINE_BUSY) < 0;
    if (is_first || until_us < b->busy_until_us) b->busy_until_us = until_us;
    if (is_first) b->busy_changes = changes(b);
    gw_request_take_turn(b, r);
    gw_request_stand(b, r, GW_LINE_BUSY, bt_order_number(r->number));
}

/* All of one part stand in line again. */
static void move_on(gw_brain *b, gw_line part)
{
    for (int64_t at; (at = bt_order_first(&b->line, part)) >= 0;) {
        bt_order_take(&b->line, (uint32_t)at);
        gw_request_line_up(b, &b->requests[at]);
    }
}

/* The length of short prompts has changed: all of the line stand in it again. */
static void sort_out(gw_brain *b)
{
    static const gw_line parts[] = {GW_LINE_SHORT, GW_LINE_READY};
    const uint32_t before = b->line_short;
    b->line_short = gw_registry_short_tokens(&b->registry);
    if (b->line_short == before) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int64_t at = bt_order_first(&b->line, parts[i]), next; at >= 0; at = next) {
            next = bt_order_next(&b->line, at);
            gw_request_line_up(b, &b->requests[at]);
        }
}

/* Moves requests whose rest is over, or whose nodes may serve them now. */
static void stand_up(gw_brain *b)
{
    sort_out(b);
    if (b->line_epoch != b->epoch) move_on(b, GW_LINE_STUCK);
    b->line_epoch = b->epoch;
    if (b->busy_changes != changes(b) || b->now_us >= b->busy_until_us) move_on(b, GW_LINE_BUSY);
    for (int64_t at;
         (at = bt_order_first(&b->line, GW_LINE_RESTING)) >= 0 && b->requests[at].not_before_us <= b->now_us;)
        gw_request_line_up(b, &b->requests[at]);
}

static gw_route_wish wish_of(const gw_brain *b, const gw_request *r)
{
    return (gw_route_wish){.now_us = b->now_us,
                           .policy = r->policy,
                           .prompt = r->prompt,
                           .max_tokens = r->max_tokens,
                           .by_length = r->attempt > 0,
                           .local_below_tokens = b->cfg.local_below_tokens,
                           .has_class = r->next_index > 0,
                           .prefill_class = r->prefill_class,
                           .decode_class = r->decode_class,
                           .only_prefill = r->only_prefill,
                           .only_decode = r->only_decode,
                           .shun_prefill = r->shun_prefill,
                           .shun_decode = r->shun_decode};
}

/* False: no request behind it gets nodes now. */
static bool dispatch_one(gw_brain *b, gw_request *r)
{
    gw_route_choice c;
    const bool is_choosy = r->next_index > 0 || r->only_prefill || r->only_decode;
    gw_route_wish wish = wish_of(b, r);
    gw_route_answer answer = gw_route_choose(&c, &b->router, &b->registry, &wish);
    if (answer == GW_ROUTE_TOO_LONG && cut_answer(r, c.limit_tokens)) {
        wish.max_tokens = r->max_tokens;
        answer = gw_route_choose(&c, &b->router, &b->registry, &wish);
    }
    if (answer == GW_ROUTE_TOO_LONG && r->attempt > 0)
        answer = GW_ROUTE_NO_NODE; /* those that held it may come back */
    if (answer != GW_ROUTE_NO_NODE) r->stuck_us = -1;
    switch (answer) {
    case GW_ROUTE_CHOSEN:
        if (c.odd_decode && c.local == GW_LOCAL_NOT) say_odd(b, &c);
        gw_request_take_turn(b, r);
        assign(b, r, &c);
        return true;
    case GW_ROUTE_TOO_LONG:
        gw_request_fail(b, r, GW_FAIL_TOO_LONG, BT_ELIMIT, 0,
                        "%u prompt tokens and up to %u new ones are %llu, but the nodes hold %llu at most",
                        r->prompt.tokens, r->max_tokens, (unsigned long long)r->prompt.tokens + r->max_tokens,
                        (unsigned long long)c.limit_tokens);
        return true;
    case GW_ROUTE_NO_NODE:
        if (r->stuck_us < 0) r->stuck_us = b->now_us;
        r->stuck_epoch = b->epoch;
        gw_request_take_turn(b, r);
        return true;
    case GW_ROUTE_BUSY:
        if (is_choosy) rest_busy(b, r);
        return is_choosy;
    }
    return true;
}

/* The prefill node is one of the class that RESERVE named, most likely the same. Where it is another, D hears
 * of it, and answers by RESERVED. */
void gw_request_place(gw_brain *b, gw_request *r)
{
    gw_route_choice c;
    gw_route_wish wish = wish_of(b, r);
    gw_node *d = gw_registry_find(&b->registry, &r->decode.node);
    wish.has_class = true;
    const gw_route_answer answer =
        d ? gw_route_prefill(&c, &b->router, &b->registry, &wish, d) : GW_ROUTE_NO_NODE;
    if (answer == GW_ROUTE_NO_NODE) {
        gw_request_requeue(b, r, 0);
    } else if (answer == GW_ROUTE_BUSY) {
        gw_request_set_placed(b, r, true);
        r->deadline_us = r->waiting_us + b->cfg.queue_us;
    } else {
        const bt_incarnation named = r->prefill.node;
        gw_request_set_placed(b, r, false);
        open_side(b, r, &r->prefill, c.prefill, c.prefill_new_tokens);
        r->is_moved = !bt_incarnation_equal(&named, &r->prefill.node);
        if (!r->is_moved) {
            gw_request_begin_prefill(b, r);
        } else {
            gw_request_await_answer(b, r);
            gw_request_say_reserve(b, r);
        }
    }
    gw_request_rearm(b, r);
}

/* Requests for which decode nodes hold a place come first. */
static void dispatch_placed(gw_brain *b)
{
    for (int64_t at; (at = bt_order_first(&b->parked, GW_PARKED_PLACED)) >= 0;) {
        gw_request *r = &b->requests[at];
        gw_request_place(b, r);
        if (r->is_placed) return;
    }
}

/* Requests in the line of a decode node go to another one that has room. */
static void leave_lines(gw_brain *b)
{
    uint32_t looks = 0;
    int64_t at = bt_order_first(&b->parked, GW_PARKED_LINE), next;
    if (at < 0 || b->parked_changes == changes(b)) return;
    for (; at >= 0 && looks < GW_LINED_MAX; at = next, looks++) {
        gw_request *r = &b->requests[at];
        gw_route_wish wish = wish_of(b, r);
        gw_route_choice c;
        next = bt_order_next(&b->parked, at);
        wish.no_line = true;
        if (gw_route_choose(&c, &b->router, &b->registry, &wish) != GW_ROUTE_CHOSEN) continue;
        gw_request_requeue(b, r, 0);
        assign(b, r, &c);
        gw_request_rearm(b, r);
    }
    b->parked_changes = changes(b);
}

/* As far as turns of one round go. The result waits for a free slot, and holds up all behind it; NULL: none.
 */
static gw_request *give_turns(gw_brain *b)
{
    for (gw_request *r; b->active < b->cfg.active_max && (r = gw_request_next(b));) {
        const bool goes_on = dispatch_one(b, r);
        if (r->state == GW_QUEUED && !bt_order_has(&b->line, GW_LINE_BUSY, (uint32_t)(r - b->requests)))
            gw_request_line_up(b, r);
        gw_request_rearm(b, r);
        if (!goes_on) return r;
    }
    return NULL;
}

/* In the order of shares and, within a share, of arrival. Nobody overtakes one that waits for a free slot,
 * unless it is choosy, or long where the other is short: slots are kept for that. */
void gw_request_dispatch(gw_brain *b)
{
    dispatch_placed(b);
    leave_lines(b);
    stand_up(b);
    b->in_short_round = false;
    const gw_request *r = give_turns(b);
    if (r && r->prompt.tokens > b->line_short) {
        b->in_short_round = true;
        (void)give_turns(b);
    }
    b->parked_changes = changes(b); /* what was given makes no room */
}

void gw_request_unstick(gw_brain *b)
{
    for (uint32_t part = 0; part < GW_LINES; part++)
        for (int64_t at = bt_order_first(&b->line, part); at >= 0; at = bt_order_next(&b->line, at)) {
            gw_request *r = &b->requests[at];
            if (r->attempt > 0) continue;
            r->stuck_us = -1;
            gw_request_rearm(b, r);
        }
}
