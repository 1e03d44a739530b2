#ifndef BT_DEVICE_PACE_H
#define BT_DEVICE_PACE_H
#include "device/work.h"

/* Work at a device's rhythm, stretched by K: a host's results go no earlier than K times the time of device and link
 * after the work began. K makes room for a host that is slower than the device. With the same K on all nodes a cluster
 * behaves as the devices do, K times slower.
 *
 * Pure: `now` is an argument, in microseconds of a clock that never goes back, and nothing waits here. The caller asks
 * when results are due, keeps them back until then, and counts how late they were. One K for:
 *   a prompt    its rows layer by layer and chunk by chunk, token 0 when all of it is over
 *   a block     of KV on a link: one after the other, however many prompts and decode nodes they are for. The link is
 *               the sender's; several senders to one decode node do not slow each other
 *   a step      of a batch, by all of its rows and contexts (bt_work_of_step); the next step begins when this one is
 *               let go
 */
typedef struct bt_pace {
    uint64_t milli; /* K by 1000; 0: off, no result is kept back */
} bt_pace;
/* "off" or "device:K", K from 0.001 to 1,000,000 with at most three decimals. BT_EARG names both forms. */
bt_err bt_pace_parse(bt_pace *ret, const char *text, bt_fault *fault);
/* begin_us + K * ns, rounded up; at most INT64_MAX. */
int64_t bt_pace_due_us(const bt_pace *p, int64_t begin_us, uint64_t ns);

/* How late work was, in sum, and the stretched device time of all work. */
typedef struct bt_pace_count {
    uint64_t paced_us, late_us;
} bt_pace_count;
enum { BT_PACE_LATE_PERMILLE = 10 };
void bt_pace_ended(bt_pace_count *c, int64_t begin_us, int64_t due_us, int64_t now_us);
/* Late by more than BT_PACE_LATE_PERMILLE: the measurement shows the host, not the device. */
bool bt_pace_is_void(const bt_pace_count *c);

/* ---- rows of a prompt ----------------------------------------------------------------------------- */

/* The chunk at which the device would be. The times of one prompt's calls never go back. */
typedef struct bt_pace_prompt {
    bt_pace pace;
    const bt_work_prefill *d; /* borrowed */
    int64_t begin_us;
    uint64_t first, at, next, end; /* the chunk [at, next) of a prompt that is computed from `first` to `end` */
    uint64_t before_ns, after_ns;  /* when it begins and ends, from begin_us */
    bool is_played;                /* d->play says when each layer is stored, and the numbers above are unused */
    bt_work_played played;
    size_t chunk; /* earlier chunks have stored all layers */
} bt_pace_prompt;
void bt_pace_prompt_begin(bt_pace_prompt *ret, bt_pace pace, const bt_work_prefill *d, const bt_work_prompt *p,
                          int64_t begin_us);
/* Rows before this one of the layer may be seen. */
uint64_t bt_pace_prompt_rows(bt_pace_prompt *p, uint32_t layer, int64_t now_us);
/* When more rows of the layer may be seen than at now_us; INT64_MAX: never. */
int64_t bt_pace_prompt_next_us(bt_pace_prompt *p, uint32_t layer, int64_t now_us);

/* ---- blocks on a link ----------------------------------------------------------------------------- */

typedef struct bt_pace_link {
    int64_t free_us; /* when all blocks so far have arrived */
} bt_pace_link;
/* A block of `bytes` bytes is ready: *ret_begin_us is when its first byte leaves, the result when the block has
 * arrived. */
int64_t bt_pace_link_take(bt_pace_link *l, int64_t *ret_begin_us, const bt_pace *p, const bt_link *link, int64_t now_us,
                          uint64_t bytes);
#endif
