#ifndef BT_LAB_SIMULATE_SWEEP_H
#define BT_LAB_SIMULATE_SWEEP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Which clusters of a range carry a load, and which of them are worth a look. Pure: trying a cluster is the caller's.
 */
typedef struct tool_simulate_point {
    uint32_t prefill, decode; /* nodes of the groups that vary */
    bool is_carried;          /* enough requests keep the limits */
    uint64_t requests, good, failed, events;
    double goodput_rps, ttft_p99_ms, tpot_p99_ms, virtual_s;
    double joules; /* below 0: not known */
} tool_simulate_point;

/* Tries a cluster with so many decode nodes; what was tried before is remembered by who is asked. */
typedef bt_err tool_simulate_try(void *ud, tool_simulate_point *ret, uint32_t decode, bt_fault *fault);

/* The fewest decode nodes of least..most that carry the load. By bisection: with more nodes a cluster carries no less.
 * Where a look beside the result, or at the middle of a range that fails at its upper end, shows otherwise, all are
 * tried from the least on. *ret_found false: none does. */
bt_err tool_simulate_row(tool_simulate_point *ret, bool *ret_found, uint32_t least, uint32_t most,
                         tool_simulate_try *try_one, void *ud, bt_fault *fault);

/* Keeps those of n points that no other has fewer or as many nodes of both kinds than, in order of prefill nodes; how
 * many they are. */
size_t tool_simulate_frontier(tool_simulate_point *point, size_t n);

/* What a cluster costs: nodes, joules, or money. */
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
/* The cheapest; of equals the one with fewer nodes, then with fewer prefill nodes. n: none has a cost. */
size_t tool_simulate_cheapest(const tool_simulate_rates *r, const tool_simulate_point *point, size_t n);

/* "1/8": the i-th of n equal parts of rows, from 1. BT_EARG. */
typedef struct tool_simulate_shard {
    uint32_t part, of;
} tool_simulate_shard;
bt_err tool_simulate_shard_read(tool_simulate_shard *ret, const char *text, bt_fault *fault);
/* What a device costs in "h100:2.5,a100:1.2". BT_EARG: the list is none, or does not name it. */
bt_err tool_simulate_price(double *ret, const char *list, const char *device, bt_fault *fault);
#endif
