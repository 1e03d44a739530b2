#ifndef BT_NPU_SCHEDULE_PLAY_H
#define BT_NPU_SCHEDULE_PLAY_H
#include "npu/price/price_pkg.h"

/* Plays a prompt of a package under a schedule, for a node that computes it, as `baton timeline` does. Rows of earlier
 * prompts may be there already, and the result says when each layer of each chunk is stored. For the total time alone
 * npu/price/schedule_price.h is faster. */
typedef struct bt_schedule_play bt_schedule_play;
typedef struct bt_schedule_play_config {
    bt_price_pkg *price; /* borrowed */
    bt_schedule_policy policy;
    size_t window;
} bt_schedule_play_config;
/* BT_EARG: a window out of its range; BT_ENOMEM. */
bt_err bt_schedule_play_new(bt_schedule_play **ret, const bt_schedule_play_config *config, bt_fault *fault);
void bt_schedule_play_free(bt_schedule_play *p); /* NULL is fine */
/* A bt_work_play function; play is a bt_schedule_play. false: the package has no program for these positions, or memory
 * is out. */
bool bt_schedule_play_prompt(void *play, bt_work_played *ret, uint64_t first, uint64_t end);
#endif
