#ifndef BT_NPU_SCHEDULE_PRICE_H
#define BT_NPU_SCHEDULE_PRICE_H
#include "npu/price/price_pkg.h"

/* What prompts of a package take under a schedule, from a table that fills as it is asked: to the nanosecond what the
 * full schedule takes, whatever the prompt's length.
 *
 * A prompt is cut into k chunks that are filled, and a last one. All of them begin as the longest prompt does, until
 * its last chunk may begin: no chunk begins before the one `window` before it has ended. So that beginning is played
 * once, and of each pair of k and a last program the rest, once it is asked for. In a program whose length is a range,
 * 65 lengths are played and a straight line lies between them, within 1 %. */
typedef struct bt_schedule_price bt_schedule_price;
typedef struct bt_schedule_price_config {
    bt_price_pkg *price; /* borrowed */
    int policy;          /* a bt_schedule_policy, or BT_STAGE_SPLIT */
    size_t window;
    size_t tokens;     /* of the longest prompt; at most the package's context */
    bt_link link;      /* bits_per_us 0: nothing is sent */
    uint64_t kv_bytes; /* of a position in all layers */
} bt_schedule_price_config;
/* BT_ELIMIT: tokens beyond the package; errors of bt_schedule_init; BT_ENOMEM. */
bt_err bt_schedule_price_new(bt_schedule_price **ret, const bt_schedule_price_config *config, bt_fault *fault);
void bt_schedule_price_free(bt_schedule_price *t); /* NULL is fine */
typedef struct bt_schedule_priced {
    bt_schedule_result result;
    uint64_t exposed_ns; /* of its KV on the link, after its end: a layer leaves when its chunk has stored it */
    uint64_t ops, bytes, rows, chunks;
} bt_schedule_priced;
/* tokens: 1 .. those of the table. BT_ENOMEM. */
bt_err bt_schedule_price_of(bt_schedule_priced *ret, bt_schedule_price *t, size_t tokens, bt_fault *fault);
#endif
