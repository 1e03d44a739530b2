#ifndef BT_NPU_SCHEDULE_PRICE_H
#define BT_NPU_SCHEDULE_PRICE_H
#include "npu/price/stage_cost.h"

/* What prompts of a package take under a schedule, from a table that is made once: a price is two searches in short
 * lists and a straight line, whatever the prompt's length, where the schedule itself has thousands of tasks.
 *
 * A prompt is cut into k chunks that are filled, and a last one of so many rows. The table has the full schedule of
 * every such pair for k up to 32; beyond that for every k / 32nd k, and on both sides of each place where the programs
 * change (a context that ends, another length). Between two entries time is a straight line of k. In a program whose
 * length is a range, 65 lengths are in the table. A price is the full schedule's within 1 %, of most prompts exactly.
 *
 * Making it costs the schedules of about 32 + 32 log2(chunks / 32) prompts for each length of a last chunk. */
typedef struct bt_schedule_price bt_schedule_price;
typedef struct bt_schedule_price_config {
    const bt_pkg *pkg; /* borrowed while it is made */
    bt_stage_engines engines;
    int policy; /* a bt_schedule_policy, or BT_STAGE_SPLIT */
    size_t window;
    size_t tokens; /* of the longest prompt; at most the package's context */
} bt_schedule_price_config;
/* BT_EARG: a package without programs for one sequence, or whose programs differ in their stages; BT_ELIMIT: tokens
 * beyond the package; errors of bt_schedule_init; BT_ENOMEM. */
bt_err bt_schedule_price_new(bt_schedule_price **ret, const bt_schedule_price_config *config, bt_fault *fault);
void bt_schedule_price_free(bt_schedule_price *t); /* NULL is fine */
/* tokens: 1 .. those of the table. */
bt_schedule_result bt_schedule_price_of(const bt_schedule_price *t, size_t tokens);
#endif
