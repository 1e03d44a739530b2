/* Deficit round robin among shares, without a walk through the round; and parts of slots and of the waiting
 * room by weight. See shares.h. */
#include "gateway/brain/shares.h"
#include "base/breakage.h"

#include <stdlib.h>
#include <string.h>

bt_err gw_shares_init(gw_shares *ret, uint32_t cap)
{
    if (cap > GW_SHARES_MAX) cap = GW_SHARES_MAX;
    *ret = (gw_shares){.cap = cap + 1, .used = 1, .round = 1};
    ret->items = calloc(ret->cap, sizeof *ret->items);
    if (!ret->items || bt_order_init(&ret->ids, ret->cap, 1) < 0 ||
        bt_order_init(&ret->ring, ret->cap, 2) < 0 || bt_order_init(&ret->room, ret->cap, 1) < 0 ||
        bt_order_init(&ret->idle, ret->cap, 1) < 0) {
        gw_shares_done(ret);
        return BT_ENOMEM;
    }
    ret->items[0].weight = 1;
    return BT_OK;
}

void gw_shares_done(gw_shares *s)
{
    bt_order *const orders[] = {&s->ids, &s->ring, &s->room, &s->idle};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) bt_order_done(orders[i]);
    free(s->items);
    *s = (gw_shares){0};
}

static uint32_t place_of(const gw_shares *s, const gw_share *h) { return (uint32_t)(h - s->items); }

/* Exact for counts below 2^32 and weights up to 1,000: two different ratios differ by 1e-6 at least. */
static bt_order_key ratio(uint32_t count, uint32_t weight)
{
    return bt_order_number(((uint64_t)count << 32) / weight);
}

/* ---- the round ---------------------------------------------------------------------------------- */

/* Whether it holds its part and three quarters of what is not. */
static bool is_over(const gw_shares *s, const gw_share *h)
{
    if (BT_BREAK(slots_unshared)) return false;
    return 4 * h->active * s->ready_weight >= (3 * s->ready_weight + h->weight) * (s->ready_active + 1);
}

/* Adds the tokens that the visits since `round` brought; none, in the round in which the share came. */
static void catch_up(gw_shares *s, gw_share *h)
{
    const uint64_t visited = s->round - (h->turn > s->at);
    if (visited <= h->round) return;
    h->deficit += (int64_t)((visited - h->round) * h->weight);
    h->round = visited;
}

/* It begins its next request at the visit at which its tokens reach. */
static void stand(gw_shares *s, gw_share *h)
{
    catch_up(s, h);
    const bool is_visited = h->turn == s->at;
    const int64_t lacks = (int64_t)h->cost - h->deficit;
    uint64_t visits = lacks > 0 ? ((uint64_t)lacks + h->weight - 1) / h->weight : 0;
    if (visits == 0 && !is_visited) visits = 1;
    bt_order_put(&s->ring, GW_RING_ROUND, place_of(s, h), (bt_order_key){h->round + visits, h->turn});
}

/* Its first visit is in the round after this one: who leaves and comes back gets no second one in a round. */
static void join(gw_shares *s, gw_share *h)
{
    h->turn = ++s->turns;
    h->round = s->round;
    stand(s, h);
}

static void step_aside(gw_shares *s, gw_share *h)
{
    h->turn = 0;
    bt_order_put(&s->ring, GW_RING_OVER, place_of(s, h), ratio(h->active, h->weight));
}

void gw_shares_head(gw_shares *s, uint32_t share, bool is_ready, uint64_t cost)
{
    gw_share *h = &s->items[share];
    h->cost = cost;
    if (is_ready && h->is_ready) {
        if (h->turn) stand(s, h);
        return;
    }
    if (is_ready == h->is_ready) return;
    h->is_ready = is_ready;
    s->ready_weight += is_ready ? h->weight : -(uint64_t)h->weight;
    s->ready_active += is_ready ? h->active : -(uint64_t)h->active;
    if (is_ready) {
        join(s, h);
        return;
    }
    bt_order_take(&s->ring, share);
    h->turn = 0;
    h->deficit = 0;
}

int64_t gw_shares_next(gw_shares *s)
{
    for (int64_t at; (at = bt_order_first(&s->ring, GW_RING_OVER)) >= 0 && !is_over(s, &s->items[at]);)
        join(s, &s->items[at]);
    for (int64_t at; (at = bt_order_first(&s->ring, GW_RING_ROUND)) >= 0;) {
        gw_share *h = &s->items[at];
        const bt_order_key visit = bt_order_key_of(&s->ring, at);
        s->round = visit.hi;
        s->at = visit.lo;
        catch_up(s, h);
        if (!is_over(s, h)) return at;
        step_aside(s, h);
    }
    return BT_ORDER_NONE;
}

void gw_shares_pay(gw_shares *s, uint32_t share, uint64_t cost)
{
    if (!BT_BREAK(tokens_unshared)) s->items[share].deficit -= (int64_t)cost;
}

/* One that waits alone for its share is within its part. */
static void stand_in_room(gw_shares *s, const gw_share *h)
{
    const uint32_t at = place_of(s, h);
    if (h->waiting > 1 && h->fresh > 0)
        bt_order_put(&s->room, 0, at, bt_order_number(~ratio(h->waiting, h->weight).hi));
    else bt_order_take(&s->room, at);
}

/* ---- who there is ------------------------------------------------------------------------------- */

const gw_share *gw_shares_find(const gw_shares *s, uint64_t id)
{
    if (id == 0) return &s->items[0];
    const int64_t at = bt_order_from(&s->ids, 0, bt_order_number(id));
    return at >= 0 && s->items[at].id == id ? &s->items[at] : NULL;
}

static void set_weight(gw_shares *s, gw_share *h, uint32_t weight)
{
    if (h->weight == weight) return;
    if (h->turn) catch_up(s, h);
    s->waiting_weight += h->waiting ? (uint64_t)weight - h->weight : 0;
    s->ready_weight += h->is_ready ? (uint64_t)weight - h->weight : 0;
    h->weight = weight;
    stand_in_room(s, h);
    if (h->turn) stand(s, h);
    else if (h->is_ready) step_aside(s, h);
}

static void note_idle(gw_shares *s, gw_share *h)
{
    const uint32_t at = place_of(s, h);
    if (h->waiting || h->active || at == 0) bt_order_take(&s->idle, at);
    else bt_order_put(&s->idle, 0, at, bt_order_number(++s->idled));
}

/* NULL: no place is left, and nobody is idle. */
static gw_share *take_place(gw_shares *s)
{
    const int64_t idle = bt_order_first(&s->idle, 0);
    if (s->used < s->cap) return &s->items[s->used++];
    return idle >= 0 ? &s->items[idle] : NULL;
}

uint32_t gw_shares_enter(gw_shares *s, uint64_t id, uint32_t weight)
{
    gw_share *h = (gw_share *)gw_shares_find(s, id);
    if (!h && (h = take_place(s))) {
        *h = (gw_share){.id = id, .weight = weight};
        bt_order_put(&s->ids, 0, place_of(s, h), bt_order_number(id));
        note_idle(s, h);
    }
    if (h && id != 0) set_weight(s, h, weight);
    return h ? place_of(s, h) : 0;
}

void gw_shares_wait(gw_shares *s, uint32_t share, bool is_more, bool is_fresh)
{
    gw_share *h = &s->items[share];
    if (is_more && h->waiting == 0) s->waiting_weight += h->weight;
    h->waiting += is_more ? 1 : -1U;
    if (is_fresh) h->fresh += is_more ? 1 : -1U;
    if (!is_more && h->waiting == 0) s->waiting_weight -= h->weight;
    stand_in_room(s, h);
    note_idle(s, h);
}

void gw_shares_hold(gw_shares *s, uint32_t share, bool is_more)
{
    gw_share *h = &s->items[share];
    const uint32_t change = is_more ? 1 : -1U;
    h->active += change;
    if (h->is_ready) s->ready_active += is_more ? 1 : -UINT64_C(1);
    if (h->is_ready && !h->turn) step_aside(s, h);
    note_idle(s, h);
}

/* ---- the waiting room --------------------------------------------------------------------------- */

/* Whether so many waiting requests are within the share's part; all: the weight of those that share it. */
static bool is_within(const gw_share *h, uint64_t waiting, uint64_t all, uint32_t room)
{
    return waiting <= 1 || waiting * all <= (uint64_t)h->weight * room;
}

int64_t gw_shares_gives_way(const gw_shares *s, uint32_t share, uint32_t room)
{
    const gw_share *h = &s->items[share];
    const uint64_t all = s->waiting_weight + (h->waiting ? 0 : h->weight);
    const int64_t most = bt_order_first(&s->room, 0);
    if (BT_BREAK(room_unshared) || most < 0 || !is_within(h, (uint64_t)h->waiting + 1, all, room))
        return BT_ORDER_NONE;
    return is_within(&s->items[most], s->items[most].waiting, all, room) ? BT_ORDER_NONE : most;
}

uint64_t gw_shares_line(const gw_shares *s, uint32_t share, uint64_t n)
{
    const gw_share *h = &s->items[share];
    const uint64_t all = s->waiting_weight + (h->waiting ? 0 : h->weight);
    return n * all / h->weight;
}
