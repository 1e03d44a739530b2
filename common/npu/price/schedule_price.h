#ifndef BT_NPU_SCHEDULE_PRICE_H
#define BT_NPU_SCHEDULE_PRICE_H
#include "npu/price/price_pkg.h"

/* The times of a package's prompts of any length under a schedule: to the nanosecond the time of the full schedule,
 * from a table that fills as prices are asked for.
 *
 * A prompt is cut into k filled chunks and a last one. All prompts begin alike, as the longest does, until their last
 * chunk may begin: a chunk begins only after the chunk `window` before it has ended. So the beginning is played once.
 * The rest is played once for each pair of k and a program of the last chunk, when it is asked for. For a program whose
 * length is a range, 65 lengths are played; between them the price lies on a straight line, within 1 %. */
typedef struct bt_schedule_price bt_schedule_price;
typedef struct bt_schedule_price_config {
    bt_price_pkg *price; /* borrowed */
    int policy;          /* a bt_schedule_policy, or BT_STAGE_SPLIT */
    size_t window;
    size_t tokens; /* tokens of the longest prompt, at most the package's context */
    bt_link link;  /* bits_per_us 0: nothing is sent */
    bt_link_kv kv;
} bt_schedule_price_config;
/* BT_ELIMIT: tokens beyond the package's context; errors of bt_schedule_run_begin; BT_ENOMEM. */
bt_err bt_schedule_price_new(bt_schedule_price **ret, const bt_schedule_price_config *config, bt_fault *fault);
void bt_schedule_price_free(bt_schedule_price *t); /* NULL is fine */
typedef struct bt_schedule_priced {
    bt_schedule_result result;
    uint64_t exposed_ns; /* time on the link after the prompt's end; a layer is sent when its chunk has stored it */
    uint64_t ops, bytes, rows, chunks;
    uint64_t term_ns[BT_TERMS]; /* of all chunks in program order; under any schedule, shares of the makespan */
} bt_schedule_priced;
/* tokens: 1 .. config.tokens. BT_ENOMEM. */
bt_err bt_schedule_price_of(bt_schedule_priced *ret, bt_schedule_price *t, size_t tokens, bt_fault *fault);
#endif
