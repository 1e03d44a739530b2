#ifndef BT_LAB_PLAN_PROMPTS_H
#define BT_LAB_PLAN_PROMPTS_H
#include "device/link.h"
#include "npu/price/price_pkg.h"

/* What prompts take, by their length: as chunks of a package's programs under a schedule (npu/price/schedule_price.h,
 * which is what `baton timeline` plays), or as one or more steps on a device without programs; KV leaves layer by layer
 * while the rest is computed. Lengths that share their full chunks share the work of pricing them. Pure. */
typedef struct tool_plan_how {
    bt_price_pkg *price;       /* of programs; borrowed; NULL: steps of `profile` */
    int schedule;              /* of programs: a bt_schedule_policy, or BT_STAGE_SPLIT */
    size_t arenas;             /* of programs: chunks under way */
    const bt_profile *profile; /* of steps, with the model and the piece */
    bt_price_model model;
    uint64_t piece; /* rows of a step at most; 0: all */
    bt_link link;
    uint32_t layers;
    uint64_t kv_bytes; /* of a position */
} tool_plan_how;

typedef struct tool_plan_prompt {
    uint64_t ns, ops, bytes, rows, chunks; /* rows: computed, padding included */
    uint64_t exposed_ns;                   /* of its KV, after its end */
} tool_plan_prompt;

/* ret[n] for length[n], ascending, each >= 1. BT_ELIMIT: a length beyond the package; BT_ENOMEM. */
bt_err tool_plan_prompts(tool_plan_prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                         bt_fault *fault);
#endif
