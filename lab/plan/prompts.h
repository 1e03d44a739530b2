#ifndef BT_LAB_PLAN_PROMPTS_H
#define BT_LAB_PLAN_PROMPTS_H
#include "device/link.h"
#include "lab/plan/programs.h"

/* What prompts take, by their length: chunks as the shape policy cuts them (the code that packages are run by), or one
 * or more steps on a device without programs; KV leaves layer by layer while the rest is computed. Lengths that share
 * their full chunks share the work of pricing them. Pure. */
typedef struct tool_plan_how {
    const tool_plan_programs *programs; /* NULL: steps of `profile` */
    const bt_shapes *shapes;            /* of programs */
    const bt_profile *profile;
    bt_price_model model;
    uint64_t piece; /* rows of a step at most; 0: all */
    bt_link link;
    uint32_t layers;
    uint64_t kv_bytes;           /* of a position */
    bt_schedule_policy schedule; /* of programs whose companion is an engine of its own */
    size_t window;               /* chunks under way; other schedules than serial */
} tool_plan_how;

typedef struct tool_plan_prompt {
    uint64_t ns, ops, bytes, rows, chunks; /* rows: computed, padding included */
    uint64_t exposed_ns;                   /* of its KV, after its end */
} tool_plan_prompt;

/* ret[n] for length[n], ascending, each >= 1. BT_ENOMEM. */
bt_err tool_plan_prompts(tool_plan_prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                         bt_fault *fault);
#endif
