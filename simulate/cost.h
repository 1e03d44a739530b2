#ifndef BT_SIMULATE_COST_H
#define BT_SIMULATE_COST_H
#include <stdbool.h>
#include <stdint.h>
#include "device/forecast.h"
#include "device/pace.h"
#include "device/work.h"
#include "npu/pkg/shapes.h"

/* The time of one kind of node's work: a device, a model on it, and how prompts are cut. This file chooses the programs
 * and steps that a node runs.
 *
 * A device with programs (an NPU) runs a prompt as the chunks of its programs, padded rows included, at their price
 * (npu/price, of a package or of its sketch). One without (profile.companion, a GPU) runs each chunk as a step of its
 * valid rows (device/price.h). Decode is a step on both. */
typedef struct sim_cost_options {
    const bt_dims *model;
    const bt_profile *profile;
    uint32_t weight_bits, weight_permille; /* of steps: bits of a weight, and its stored bytes by 1000, scales included
                                            */
    bool is_float;                         /* as bt_price_recipe: inputs have the weights' bits */
    uint32_t kv_elem_bytes;                /* 2, or 1 with a scale of 2 bytes a head */
    bool is_kv_fp8;                        /* 1 byte without a scale */
    const bt_shapes *shapes;               /* how prompts are cut; copied */
    const bt_work_programs *programs;      /* of a device that has them; copied, what it borrows is not */
    uint64_t program_bytes;                /* memory of their weights, all experts' among them */
    bool is_prefill;                       /* it computes prompts alone */
    bool runs_alone;                       /* no prompts share a chunk: attention is sparse, or on the NPU */
    bt_pace pace;                          /* off, or all times K times as long, as on nodes with --pace */
} sim_cost_options;

/* ns: with a pace, stretched. */
typedef struct sim_cost_work {
    uint64_t ns, ops, bytes;
} sim_cost_work;
static inline bool sim_cost_has_programs(const bt_profile *p) { return !p->companion; }

typedef struct sim_cost {
    bt_profile profile;
    bt_work_programs programs; /* where it has_programs */
    uint64_t first_ns;         /* first uses of a prompt whose chunks are not told that they are its first */
    bt_price_steps steps;
    bt_shapes shapes;
    bt_pace pace;
    bool has_programs, runs_alone;
    uint32_t layers;
    uint64_t kv_bytes;     /* of a position, all layers */
    uint64_t weight_bytes; /* as this device holds them */
    uint64_t memory_bytes; /* of all its devices; 0: unknown */
    bool is_drawn;         /* times are those of `draw`, not as they are priced */
    bt_forecast_draw draw;
    bt_work_play *play; /* prompts of a prefill node under a schedule (inner.h); NULL: chunk by chunk */
    void *play_ud;
} sim_cost;

/* BT_EARG: a profile without time; BT_ELIMIT: the weights do not fit the device's memory. */
bt_err sim_cost_begin(sim_cost *ret, const sim_cost_options *o, bt_fault *fault);

typedef struct sim_cost_chunk {
    uint32_t valid, rows;     /* tokens of the prompt; computed with padding */
    sim_cost_work work;       /* first use and the last chunk's output matrix are in it */
    uint64_t lead_ns, end_ns; /* within ns: before the first layer begins; when the last layer has ended */
} sim_cost_chunk;
/* The chunk of a prompt that begins at `begin`; is_first: the first that this pass computes, which pays first use. */
sim_cost_chunk sim_cost_next(const sim_cost *c, uint32_t prompt, uint32_t begin, bool is_first);
/* The chunk of a batch: rows [begin[i], end[i]) of each prompt, which all end in it. */
sim_cost_chunk sim_cost_batch(const sim_cost *c, const uint32_t *begin, const uint32_t *end, uint32_t n);
/* The most tokens of a batch: at most `wanted`, and at most the longest chunk. 0 with a pace, and where prompts run
 * alone (runs_alone). */
uint32_t sim_cost_share_tokens(const sim_cost *c, uint32_t wanted);
/* A piece of a prompt behind `begin` that a decode node computes between its steps, cut to programs where there are
 * any. */
sim_cost_work sim_cost_piece(const sim_cost *c, uint32_t begin, uint32_t count, bool is_last);
sim_cost_work sim_cost_step(const sim_cost *c, const bt_price_step *s);
/* The extra time of a prompt's first piece. */
uint64_t sim_cost_first_ns(const sim_cost *c);
/* How many thousandths of its played time a prompt under a schedule takes: 1000 without a draw. */
uint64_t sim_cost_played_permille(const sim_cost *c, uint32_t first, uint32_t end);
/* ns stretched by the pace. */
uint64_t sim_cost_paced_ns(const sim_cost *c, uint64_t ns);
/* The device's own time for work of ns, without the pace. */
uint64_t sim_cost_device_ns(const sim_cost *c, uint64_t ns);
/* Whole pages of KV that `bytes` hold; bytes 0: nine tenths of the device's memory without the weights. Returns 0 where
 * that memory is unknown. At most UINT32_MAX. */
uint32_t sim_cost_pages(const sim_cost *c, uint64_t bytes, uint32_t page_tokens);
#endif
