#ifndef BT_LAB_PLAN_CHOICE_H
#define BT_LAB_PLAN_CHOICE_H
#include "device/energy.h"
#include "device/forecast.h"
#include "device/link.h"
#include "lab/plan/load.h"
#include "npu/price/price_pkg.h"

/* How prompts are computed: as chunks of a package's programs under a schedule (npu/price/schedule_price.h, which is
 * what `baton timeline` plays), or as one or more steps on a device without programs; KV leaves layer by layer while
 * the rest is computed. */
typedef struct tool_plan_how {
    bt_price_pkg *price;       /* of programs; borrowed; NULL: steps of `profile` */
    int schedule;              /* of programs: a bt_schedule_policy, or BT_STAGE_SPLIT */
    size_t arenas;             /* of programs: chunks under way */
    const bt_profile *profile; /* of steps, with the model and the piece */
    bt_price_model model;
    uint64_t piece; /* rows of a step at most; 0: all */
    bt_link link;
    bt_link_kv kv;     /* as it is sent */
    uint64_t kv_bytes; /* of a position */
} tool_plan_how;

/* The times and energy that one way of serving a load would take on a pair of devices. Means are of the requests; times
 * in nanoseconds as double where they are means. Pure.
 *
 *   first token   the prompt's time alone; with arrivals also behind those that came before and are not done: one
 *                 prompt at a time, in their order, as the trace has them
 *   decode        a step of `batch` sequences that see load.step_ctx positions each, where batch is the least that
 *                 makes the trace's tokens at its rate, at most `slots` and what the memory holds; 1 without arrivals
 *   energy        of the work alone: what a device draws while nothing is asked of it is not counted
 *
 * The decode device alone (is_colocated) runs pieces of prompts and decode rows in mixed steps, each the longer of its
 * products and its bytes (device/price.h): a prompt's steps carry `batch` rows, and a token takes the mean of all
 * steps. */
typedef struct tool_plan_pair {
    const bt_profile *prefill, *decode;
    bt_price_model decode_model; /* without KV */
    bt_link link;
    const bt_dims *dims;
    uint32_t slots; /* sequences that decode together at most */
    uint64_t ctx_tokens;
    bool is_drawn; /* the queue is asked for at all factors */
} tool_plan_pair;

typedef struct tool_plan_limits {
    int64_t ttft_us, tpot_us, e2e_us; /* -1: none */
} tool_plan_limits;

/* A draw (lab/plan/drawn.h) scales these: means of work by its terms, and waits of prompts that are so many times as
 * long. */
enum { TOOL_PLAN_FACTORS = 8 };
typedef struct tool_plan_terms {
    double prompt_ns[BT_TERMS], queued_ns[BT_TERMS]; /* of a prompt: alone; in the queue, with decode rows beside it */
    double token_ns[BT_TERMS], step_ns[BT_TERMS];    /* of a later token; of a step without prompts */
    double prompt_ops, prompt_bytes, step_ops, step_bytes, steps; /* steps: of a request, of its own */
    double wait_ns[TOOL_PLAN_FACTORS]; /* in front of prefill, if prompts take so many times as long */
    /* the share of requests within the limits of first tokens and whole times: answers of one token, and longer ones;
     * by how many times as long prompts take, and steps */
    float kept[TOOL_PLAN_FACTORS][TOOL_PLAN_FACTORS][2];
} tool_plan_terms;

typedef struct tool_plan_figures {
    uint64_t input_rows, rows, chunks; /* of all prompts: their tokens, rows computed, chunks */
    double prefill_ns, exposed_ns;     /* means */
    uint64_t p50_ns, p99_ns;           /* first token of a prompt alone */
    double wait_ns;                    /* mean in front of prefill */
    uint64_t loaded_p50_ns, loaded_p99_ns;
    double tpot_ns, alone_tpot_ns, e2e_ns; /* a token; with a batch of 1; a whole request */
    double joules, prefill_joules;         /* of a request, and its prompt's part */
    bt_energy_kind prefill_energy, decode_energy;
    uint32_t batch;
    double prefill_busy, decode_busy; /* shares of the time that the trace's rate asks for; 0 without arrivals */
    bool is_overloaded;
    double utilisation;                   /* operations of prompts by the int8 (or FP16) peak while they run */
    double kept;                          /* share of requests within all limits */
    uint64_t prefill_bytes, decode_bytes; /* memory: weights, arenas, KV */
    tool_plan_terms terms;
} tool_plan_figures;

/* BT_ELIMIT: the KV of one request of the mean length does not fit beside the weights, with the numbers; BT_ENOMEM. */
bt_err tool_plan_figure(tool_plan_figures *ret, const tool_plan_pair *pair, const tool_plan_how *how,
                        const tool_plan_load *load, const tool_plan_limits *limits, bt_fault *fault);
/* how: steps of the decode device. */
bt_err tool_plan_figure_colocated(tool_plan_figures *ret, const tool_plan_pair *pair, const tool_plan_how *how,
                                  const tool_plan_load *load, const tool_plan_limits *limits, bt_fault *fault);
/* How many times as long prompts and steps take, ascending. */
extern const double tool_plan_factors[TOOL_PLAN_FACTORS];
/* All devices of the profile together; 0: not known. */
uint64_t tool_plan_memory(const bt_profile *p);
#endif
