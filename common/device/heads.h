#ifndef BT_DEVICE_HEADS_H
#define BT_DEVICE_HEADS_H
#include <stdint.h>
#include "base/err.h"
#include "device/schedule.h"

/* The order in which the heads of a layer pass through sparse attention, and how many share a launch, so that the
 * engines wait little for each other: shadowAttn's head-wise pipeline (arXiv 2508.16703). Pure and deterministic.
 *
 *   estimate   on the NPU, launch by launch: a launch has some heads, and takes launch_ns and the sum of their times.
 *              Its heads go on when the whole launch has ended
 *   choose     on the companion, head by head in the plan's order
 *   attend     on the companion, at once behind the head's choice; or on the NPU, between launches, where the NPU has a
 *              float unit
 *
 * The plan is greedy. Order: Johnson's rule for two engines, e the estimate and c the rest: first the heads with e < c,
 * ascending in e, then the others, descending in c; among equals the longer rest first, then the lower index. Launches:
 * one of f heads, then launches of w heads, for the f and w in 1 .. most that end first; among equals the fewest
 * launches. Without launch_ns and with the companion attending no order in launches of one head ends sooner. An NPU
 * that attends takes a head that has been chosen before the next launch. Takes most^2 times the heads steps. */
enum { BT_HEADS_MAX = 256, BT_HEADS_MOST = 8 };

typedef struct bt_heads_times {
    uint64_t estimate_ns, choose_ns, attend_ns; /* of one head; sums end at INT64_MAX */
} bt_heads_times;
typedef struct bt_heads_work {
    const bt_heads_times *head; /* [heads], borrowed */
    uint32_t heads;             /* 1 .. BT_HEADS_MAX */
    uint64_t launch_ns;
    uint32_t most; /* heads in a launch, 1 .. BT_HEADS_MOST */
    bt_schedule_engine attends;
} bt_heads_work;

typedef struct bt_heads_plan {
    uint16_t order[BT_HEADS_MAX]; /* [heads]: indices of the heads, each once */
    uint8_t launch[BT_HEADS_MAX]; /* [launches]: heads of each, in that order */
    uint32_t heads, launches;
    uint64_t ns; /* from the first launch to the last head's end */
    uint64_t busy_ns[BT_SCHEDULE_ENGINES];
    uint64_t serial_ns; /* the same launches with one engine at a time */
} bt_heads_plan;

/* BT_EARG: heads or most out of its range. */
bt_err bt_heads_make(bt_heads_plan *ret, const bt_heads_work *work, bt_fault *fault);
/* Sets the times of ret->order and its launches, which need not come from bt_heads_make; the launches contain all
 * heads. */
void bt_heads_play(bt_heads_plan *ret, const bt_heads_work *work);
#endif
