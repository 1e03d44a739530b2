#ifndef BT_LAB_PLAN_GROUP_H
#define BT_LAB_PLAN_GROUP_H
#include <stdbool.h>
#include "device/price.h"

/* Groups of devices (NAMExN) that a smaller group of the same device beats: nothing offers them. Pure. */

/* A load, as one node has it. */
typedef struct tool_plan_group_load {
    const bt_price_model *model; /* one for each form of weights that is compared */
    size_t models;
    bool prefills, decodes;
    uint64_t shortest, mean, longest; /* tokens of a prompt */
    uint32_t batch;                   /* sequences that decode together at most */
    uint64_t ctx;                     /* positions that each of them sees */
    uint64_t kv_bytes;                /* held at most, each head once */
} tool_plan_group_load;

/* The least group, or the device alone, that holds the load and takes no step longer than `p` does, in each form that
 * `p` holds: prompts of these lengths, and steps of 1, 2, 4, .. `batch` sequences. false: `p` is no group, holds no
 * form, or none is. */
bool tool_plan_group_beaten(bt_profile *ret, const bt_profile *p, const tool_plan_group_load *load);
/* "h100 is as fast as h100x4 at every prompt and step of this load"; returns ret. */
enum { TOOL_PLAN_GROUP_BYTES = 240 };
const char *tool_plan_group_text(char ret[TOOL_PLAN_GROUP_BYTES], const bt_profile *smaller, const bt_profile *p);
#endif
