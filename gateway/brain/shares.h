#ifndef GW_SHARES_H
#define GW_SHARES_H
#include "base/order.h"

/* The turns of shares: which share's request is next, and which gives way in the waiting room. A share is an API key or
 * a client's address, with a weight; without either all requests are of one share. Pure; holds no request.
 *
 * Nodes. Shares with requests that may get nodes stand in a round. Each visit of the round brings a share as many
 * tokens as its weight; at a visit it begins requests as far as its tokens reach, at prompt + max tokens each, and
 * keeps what is left (deficit round robin). A share comes to the end of the round, without tokens; one that has no
 * request leaves it and loses its tokens. So shares that wait get tokens by weight, and a lone share has all.
 *
 * Turns follow tokens, and slots follow how long requests take. So that slow requests of one share do not gather in all
 * slots, a quarter of the part that the others of the round have is kept for them, parts by weight and counting the
 * request to come. A share that has all the rest is over: its turn passes, with its tokens, until it is below. Some
 * share of the round is always below.
 *
 * Waiting room. The part of a share is by weight among those that wait, and at least one request.
 *
 * Rounds are never walked: of each share it is known in which round its tokens reach, and an order by that says who is
 * first. So nothing here looks at all shares. */
enum { GW_SHARES_MAX = 4096, GW_WEIGHT_MAX = 1000 };

typedef struct gw_share {
    uint64_t id; /* 0: the common one, always at place 0 */
    uint32_t weight;
    uint32_t waiting; /* requests without nodes */
    uint32_t fresh;   /* of these, requests that never had nodes; no others give way */
    uint32_t active;  /* requests that hold nodes */
    uint64_t tokens;  /* of prompts and answers that were served */
    bool is_ready;    /* some of the waiting may get nodes; the next of these costs `cost` tokens */
    uint64_t cost;
    uint64_t turn, round; /* its place in the round, 0: in none; the last round that brought it tokens */
    int64_t deficit;      /* tokens left up to that round */
} gw_share;

typedef struct gw_shares {
    gw_share *items;
    uint32_t cap, used;                  /* places; those that were ever taken */
    uint64_t round, at, turns, idled;    /* of the round: its number, the turn that it visits, the last turn given */
    uint64_t waiting_weight;             /* of all shares with waiting requests */
    uint64_t ready_weight, ready_active; /* of all that are ready: their weights, their requests with nodes */
    bt_order ids;                        /* by id */
    bt_order ring;                       /* GW_RING_ROUND: by round and turn; GW_RING_OVER: by active over weight */
    bt_order room; /* those with two waiting requests or more, one of them fresh, by waiting over weight, most first */
    bt_order idle; /* those without requests, in the order in which they became so */
} gw_shares;
enum { GW_RING_ROUND, GW_RING_OVER };

/* cap: shares that have requests at a time, 1..; at most GW_SHARES_MAX are kept apart. BT_ENOMEM. */
bt_err gw_shares_init(gw_shares *ret, uint32_t cap);
void gw_shares_done(gw_shares *s);

/* The place of a share, which has this weight (1..GW_WEIGHT_MAX) from now on. The one that has been idle for longest is
 * forgotten for a new one; where none is idle, the request is of the common share, whose weight is 1. */
uint32_t gw_shares_enter(gw_shares *s, uint64_t id, uint32_t weight);
/* The share of this id, or NULL. */
const gw_share *gw_shares_find(const gw_shares *s, uint64_t id);

/* One request more waits or holds nodes, or (false) one fewer. is_fresh: the one that waits never had nodes. */
void gw_shares_wait(gw_shares *s, uint32_t share, bool is_more, bool is_fresh);
void gw_shares_hold(gw_shares *s, uint32_t share, bool is_more);
/* Says what the next request of the share costs in tokens, or that none is next. */
void gw_shares_head(gw_shares *s, uint32_t share, bool is_ready, uint64_t cost);

/* The share whose next request gets nodes before all others; BT_ORDER_NONE: none is ready. */
int64_t gw_shares_next(gw_shares *s);
/* The request has had its turn, whether it got nodes or waits for what nobody else may have. */
void gw_shares_pay(gw_shares *s, uint32_t share, uint64_t cost);

/* The share that has to give way to one more request of `share` in a waiting room of `room` places that is full; NONE:
 * the request itself has to. */
int64_t gw_shares_gives_way(const gw_shares *s, uint32_t share, uint32_t room);
/* n of the line's requests are how many of all, where the share gets only its part of what the line gets. */
uint64_t gw_shares_line(const gw_shares *s, uint32_t share, uint64_t n);
#endif
