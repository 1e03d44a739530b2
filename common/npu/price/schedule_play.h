#ifndef BT_NPU_SCHEDULE_PLAY_H
#define BT_NPU_SCHEDULE_PLAY_H
#include "npu/price/price_pkg.h"

/* A prompt of a package under a schedule, played for a node that computes it: what `baton timeline` plays, with a part
 * of the rows there from earlier prompts, and when each layer of each chunk is stored. Where only the time is asked
 * for, npu/price/schedule_price.h has it without playing all of it. */
typedef struct bt_schedule_play bt_schedule_play;
typedef struct bt_schedule_play_config {
    bt_price_pkg *price; /* borrowed */
    bt_schedule_policy policy;
    size_t window;
} bt_schedule_play_config;
/* BT_EARG: a window out of its range; BT_ENOMEM. */
bt_err bt_schedule_play_new(bt_schedule_play **ret, const bt_schedule_play_config *config, bt_fault *fault);
void bt_schedule_play_free(bt_schedule_play *p); /* NULL is fine */
/* bt_work_play of it: play is a bt_schedule_play. false: positions that the package has no program for, or no memory.
 */
bool bt_schedule_play_prompt(void *play, bt_work_played *ret, uint64_t first, uint64_t end);
#endif
