#ifndef BT_LAB_SIMULATE_SWEEP_H
#define BT_LAB_SIMULATE_SWEEP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The clusters of a range that carry a load, those of them that are worth showing, and what draws of the devices say of
 * them. Pure: the caller tries clusters. */
typedef struct tool_simulate_point {
    uint32_t draw;            /* number of the draw that its devices took, from 1; 0: as they are priced */
    uint32_t prefill, decode; /* nodes of the groups that vary */
    bool is_carried;          /* enough requests keep the limits */
    uint64_t requests, good, failed, events;
    double goodput_rps, ttft_p99_ms, tpot_p99_ms, virtual_s;
    double joules; /* below 0: not known */
} tool_simulate_point;

/* Tries a cluster with `decode` decode nodes; the callee remembers earlier tries. */
typedef bt_err tool_simulate_try(void *ud, tool_simulate_point *ret, uint32_t decode, bt_fault *fault);

/* The fewest decode nodes of least..most that carry the load. By bisection: with more nodes a cluster carries no less.
 * Where a try beside the result, or at the middle of a range that fails at its upper end, shows otherwise, all numbers
 * are tried from the least on. *ret_found false: none carries it. */
bt_err tool_simulate_row(tool_simulate_point *ret, bool *ret_found, uint32_t least, uint32_t most,
                         tool_simulate_try *try_one, void *ud, bt_fault *fault);

/* Drops each of n points for which another point needs no more nodes of either kind, and orders the rest by prefill
 * nodes. Returns their number. */
size_t tool_simulate_frontier(tool_simulate_point *point, size_t n);

/* The cost of a cluster: nodes, joules, or money. */
typedef enum tool_simulate_cost_kind {
    TOOL_SIMULATE_NODE_COUNT = 0,
    TOOL_SIMULATE_JOULES,
    TOOL_SIMULATE_PRICE
} tool_simulate_cost_kind;
extern const char *const tool_simulate_costs[]; /* names, NULL at the end */
typedef struct tool_simulate_rates {
    tool_simulate_cost_kind kind;
    double fixed, prefill, decode; /* PRICE: of groups that do not vary, and of one more node */
} tool_simulate_rates;
/* Below 0: not known. */
double tool_simulate_cost(const tool_simulate_rates *r, const tool_simulate_point *p);
/* The cheapest; among equals the one with fewer nodes, then with fewer prefill nodes. n: none has a cost. */
size_t tool_simulate_cheapest(const tool_simulate_rates *r, const tool_simulate_point *point, size_t n);

/* A sweep in draws (device/forecast.h): in each one all devices take what it says, and the sweep is made anew. */
typedef struct tool_simulate_vote {
    uint32_t prefill, decode; /* the cheapest cluster of a draw */
    uint32_t wins;            /* draws of which it is */
    bool is_tie;              /* see tool_simulate_votes_count */
} tool_simulate_vote;
enum { TOOL_SIMULATE_UNMET = UINT32_MAX };
typedef struct tool_simulate_votes {
    uint32_t draws; /* 0: none */
    size_t rows;
    uint32_t *row;            /* [rows]: prefill nodes, ascending; owned, as all below */
    uint32_t *least;          /* [rows][draws]: the fewest decode nodes, by draw until they are counted, then ascending;
                                 TOOL_SIMULATE_UNMET: none carries the load */
    uint32_t *low, *high;     /* [rows]: nine in ten draws' fewest decode nodes, with so many prefill nodes or fewer */
    tool_simulate_vote *vote; /* [draws], of which the first `votes` are set */
    size_t votes;
} tool_simulate_votes;
/* Its arrays, for the caller to set row, least, and a vote with one win for each draw in which a cluster carries the
 * load. BT_ENOMEM. */
bt_err tool_simulate_votes_begin(tool_simulate_votes *ret, size_t rows, uint32_t draws, bt_fault *fault);
void tool_simulate_votes_done(tool_simulate_votes *v);
/* Sets low and high, and makes one vote of those for one cluster, the most wins first. With best (the cheapest as
 * priced; NULL: none), those that tie are the fewest that have nine tenths of all draws; a best that has them itself
 * has no tie. BT_ENOMEM. */
bt_err tool_simulate_votes_count(tool_simulate_votes *v, const tool_simulate_point *best, bt_fault *fault);
/* The draws in which the cluster is the cheapest, and those in which it carries the load. */
uint32_t tool_simulate_wins(const tool_simulate_votes *v, const tool_simulate_point *p);
uint32_t tool_simulate_kept(const tool_simulate_votes *v, const tool_simulate_point *p);
/* The cheapest cluster that carries the load in nine of ten draws, without its figures. False: there is none, or its
 * cost is not its nodes' (TOOL_SIMULATE_JOULES). */
bool tool_simulate_sure(const tool_simulate_votes *v, const tool_simulate_rates *r, tool_simulate_point *ret);

/* "1/8": the i-th of n equal parts of rows, from 1. BT_EARG. */
typedef struct tool_simulate_shard {
    uint32_t part, of;
} tool_simulate_shard;
bt_err tool_simulate_shard_read(tool_simulate_shard *ret, const char *text, bt_fault *fault);
/* The price of a device in "h100:2.5,a100:1.2". BT_EARG: no such list, or one that does not name the device. */
bt_err tool_simulate_price(double *ret, const char *list, const char *device, bt_fault *fault);
#endif
