#ifndef BT_XFER_ATTEMPTS_H
#define BT_XFER_ATTEMPTS_H
#include "base/order.h"
#include "wire/msg.h"

/* The attempts that a node holds: the fields that they have in every node, and the slots that they occupy. Pure; a part
 * of both node brains. Only bt_attempts_new allocates.
 *
 * A brain keeps its further fields in a record of its own with the same index. A slot is a place for one attempt in the
 * worker, with its KV pages. There are more attempts than slots: an attempt gives its slot back before its owner has
 * acknowledged how it ended.
 *
 *   FREE --_take--> a state of the node's own --> STOPPING or REPORTING --_bury--> OVER --next step, _clear--> FREE
 *
 * Loops over attempts go in the order of the index, so that a run depends on its events alone.
 *
 * No step of a brain looks at all attempts: orders and a hash find a free one, one that is over, the one of a request
 * and the one due next. A brain notes each attempt that it may have changed in a step (_touch), so that it can update
 * its own orders before it reads them. */
enum { BT_NO_SLOT = UINT32_MAX };

enum {
    BT_ATTEMPT_FREE = 0,  /* unused: its fields are zero, its slot is BT_NO_SLOT */
    BT_ATTEMPT_OVER,      /* forgotten; freed in the next step, since actions of this step may point into it */
    BT_ATTEMPT_STOPPING,  /* over for its owner, but the worker still uses its slot */
    BT_ATTEMPT_REPORTING, /* without a slot; its owner is told of the end until it acknowledges */
    BT_ATTEMPT_OWN,       /* the first of the node's own states: at work, with a slot */
};

/* An incarnation as a key of an order. */
static inline bt_order_key bt_incarnation_key(const bt_incarnation *who)
{
    bt_order_key k;
    __builtin_memcpy(&k.hi, who->bytes, sizeof k.hi);
    __builtin_memcpy(&k.lo, who->bytes + sizeof k.hi, sizeof k.lo);
    return k;
}

/* A node's memory of attempts that are over: the highest attempt of each of the last BT_ATTEMPT_LOG_LEN requests. So a
 * node recognises late and repeated messages of these attempts: no attempt runs twice, and an aborted one never starts.
 * Requests are found by a hash; a zeroed log is empty. */
enum { BT_ATTEMPT_LOG_LEN = 512 };
typedef struct bt_attempt_log {
    bt_request_ref refs[BT_ATTEMPT_LOG_LEN];
    uint16_t same[BT_ATTEMPT_LOG_LEN], buckets[BT_ATTEMPT_LOG_LEN]; /* chains of places + 1 */
    uint32_t len, next;
} bt_attempt_log;

/* Notes that the attempt of ref and all lower ones are over. */
void bt_attempt_log_note(bt_attempt_log *log, const bt_request_ref *ref);
/* The highest attempt of the request known to be over; 0 when none is. */
uint32_t bt_attempt_log_highest(const bt_attempt_log *log, const bt_request_ref *ref);

typedef struct bt_attempt {
    unsigned state;
    uint32_t slot; /* BT_NO_SLOT: none */
    bt_request_ref ref;
    int64_t lease_end_us;
    uint32_t same; /* the next of its chain in by_ref, + 1 */
    bool is_touched;
} bt_attempt;

typedef struct bt_attempts {
    bt_attempt *all;
    uint32_t len;
    uint32_t end; /* attempts from here on are FREE */
    bt_attempt **by_slot;
    uint32_t slots;                /* who holds each slot; NULL: nobody */
    uint32_t slots_end;            /* slots from here on were never held */
    bt_attempt_log log;            /* attempts that are over */
    uint32_t here, held;           /* how many attempts are not FREE; how many of these hold a slot */
    uint32_t *by_ref, by_ref_mask; /* attempts that are not FREE by owner and number: chains of places + 1 */
    bt_order idle;                 /* BT_ATTEMPTS_FREE (below end), BT_ATTEMPTS_OVER */
    bt_order idle_slots;           /* below slots_end */
    bt_order due;                  /* private, see below */
    uint32_t *touched, touched_len;
} bt_attempts;
enum { BT_ATTEMPTS_FREE, BT_ATTEMPTS_OVER };

/* slots: 1..1024. waiting: attempts without a slot, beside those that report, 0..1024. All attempts and slots are free.
 * BT_ENOMEM. */
bt_err bt_attempts_new(bt_attempts *t, uint32_t slots, uint32_t waiting);
void bt_attempts_free(bt_attempts *t); /* zeroed is fine */

/* The next attempt behind `a` that is not FREE; a NULL: the first. NULL: there is no more. The caller may end the
 * result. */
bt_attempt *bt_attempts_next(const bt_attempts *t, const bt_attempt *a);
/* The request's highest attempt here, or NULL. A lower one may be here too: it is STOPPING. */
bt_attempt *bt_attempts_find(const bt_attempts *t, const bt_request_ref *ref);
bt_attempt *bt_attempts_by_slot(const bt_attempts *t, uint32_t slot); /* NULL: a free slot, or BT_NO_SLOT */

bt_attempt *bt_attempts_unused(const bt_attempts *t);   /* a FREE one; NULL: there is none */
uint32_t bt_attempts_unused_slot(const bt_attempts *t); /* BT_NO_SLOT: there is none */

/* Makes the results of the two functions above the attempt `ref`, in a state of the node's own. With BT_NO_SLOT it
 * holds none until _take_slot. */
void bt_attempts_take(bt_attempts *t, bt_attempt *a, const bt_request_ref *ref, uint32_t slot, unsigned state);
void bt_attempts_take_slot(bt_attempts *t, bt_attempt *a, uint32_t slot); /* a holds none, the slot is free */
void bt_attempts_leave_slot(bt_attempts *t, bt_attempt *a);               /* a holds a slot */

/* ABORT came for ref: this attempt and lower ones are over. Returns the attempt to stop, which has ref's attempt number
 * from now on; NULL: there is none, and ABORT_ACK can go at once. */
bt_attempt *bt_attempts_abort(bt_attempts *t, const bt_request_ref *ref);
void bt_attempts_bury(bt_attempts *t, bt_attempt *a);  /* a holds no slot; it and lower attempts are over */
void bt_attempts_clear(bt_attempts *t, bt_attempt *a); /* in the next step: an OVER attempt becomes FREE */

/* bt_attempt_is_here: neither FREE nor OVER. The other: its owner may still want something of it; only then its lease
 * counts. */
static inline bool bt_attempt_is_here(const bt_attempt *a) { return a->state > BT_ATTEMPT_OVER; }
static inline bool bt_attempt_is_wanted(const bt_attempt *a) { return a->state > BT_ATTEMPT_STOPPING; }

bt_attempt *bt_attempts_over(const bt_attempts *t); /* an attempt that is OVER; NULL: none */

/* Notes that a may change; _touched gives each noted attempt once and forgets it; NULL: no more. */
void bt_attempts_touch(bt_attempts *t, bt_attempt *a);
bt_attempt *bt_attempts_touched(bt_attempts *t);

/* Sets when something is due for a; BT_STEP_NEVER: nothing is. _ripen makes attempts due by now_us ripe; then
 * _next_ripe gives each once, in their order; NULL: no more. Meanwhile no due time is set. */
void bt_attempts_set_due(bt_attempts *t, const bt_attempt *a, int64_t due_us);
void bt_attempts_ripen(bt_attempts *t, int64_t now_us);
bt_attempt *bt_attempts_next_ripe(bt_attempts *t);
int64_t bt_attempts_due_us(const bt_attempts *t); /* when the next one is due; BT_STEP_NEVER */

void bt_attempt_renew(bt_attempt *a, int64_t now_us, uint32_t lease_ms);
bool bt_attempt_is_expired(const bt_attempt *a, int64_t now_us);
bt_load bt_attempts_load(const bt_attempts *t); /* slots and leases; other fields are zero */
void bt_attempts_load_device(bt_load *load, const bt_msg_device_work *sum); /* adds the device time of all work so far
                                                                             */
#endif
