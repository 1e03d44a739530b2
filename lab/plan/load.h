#ifndef BT_LAB_PLAN_LOAD_H
#define BT_LAB_PLAN_LOAD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The load that a plan is made for: the requests of a trace, as lengths and arrivals, and the sums that all choices
 * need. Pure. */
typedef struct tool_plan_request {
    int64_t arrival_us;
    uint32_t input, output; /* tokens; input >= 1 */
} tool_plan_request;

typedef struct tool_plan_load {
    tool_plan_request *at; /* [n], owned; by arrival once it has ended */
    size_t n, room;
    bool has_arrivals; /* every row has one, and they span some time */
    /* from here by tool_plan_load_end */
    uint32_t *length; /* [lengths], owned: the prompt lengths there are, ascending */
    uint64_t *count;  /* [lengths], owned: how many prompts each has */
    uint32_t *of;     /* [n], owned: the index of each request's length */
    size_t lengths, too_long;
    uint64_t input_tokens, steps; /* of all: prompts; tokens behind the first */
    uint64_t step_ctx;            /* positions that a step sees, on average, rounded up */
    uint64_t longest;             /* prompt and answer */
    double span_s;                /* from the first arrival to the last */
} tool_plan_load;

/* Adds one; *l is zeroed at first. BT_ENOMEM. */
bt_err tool_plan_load_add(tool_plan_load *l, const tool_plan_request *r, bt_fault *fault);
/* The longest prompt and answer so far; 0 of nothing. */
uint64_t tool_plan_load_longest(const tool_plan_load *l);
/* After the last: leaves out what is longer than ctx_tokens, counted in too_long, and sums up. speed: arrivals come so
 * much faster. BT_EARG: none is left; BT_ENOMEM. */
bt_err tool_plan_load_end(tool_plan_load *l, uint64_t ctx_tokens, double speed, bt_fault *fault);
void tool_plan_load_done(tool_plan_load *l);

/* Value v[i] of length[i]: the least that `share` of all requests are at most; v need not ascend. BT_ENOMEM gives 0. */
uint64_t tool_plan_load_at(const tool_plan_load *l, const uint64_t *v, double share);
#endif
