/* The attempts that a node holds, and which of them holds which slot. See attempts.h. */
#include "xfer/attempts.h"
#include "base/hash.h"
#include "xfer/step.h"

#include <assert.h>
#include <stdlib.h>

enum { A_SLOT = 4, MORE = 16 }; /* beside those at work, reports that wait for their acknowledgement */

enum { DUE, RIPE };

/* A hash of the request, without the attempt, for tables by request. */
static uint64_t hash_of(const bt_request_ref *ref)
{
    const struct {
        bt_incarnation owner;
        uint64_t number;
    } key = {ref->owner, ref->number};
    return bt_hash64(&key, sizeof key);
}

/* ---- attempts that are over: a ring with an index ---- */

static uint16_t *log_bucket_of(bt_attempt_log *log, const bt_request_ref *ref)
{
    return &log->buckets[hash_of(ref) % BT_ATTEMPT_LOG_LEN];
}

/* The request's place + 1, or 0. */
static uint32_t log_find(const bt_attempt_log *log, const bt_request_ref *ref)
{
    uint32_t link = log->buckets[hash_of(ref) % BT_ATTEMPT_LOG_LEN];
    while (link && !bt_request_same(&log->refs[link - 1], ref)) link = log->same[link - 1];
    return link;
}

void bt_attempt_log_note(bt_attempt_log *log, const bt_request_ref *ref)
{
    const uint32_t link = log_find(log, ref), at = log->next;
    if (link) {
        if (ref->attempt > log->refs[link - 1].attempt) log->refs[link - 1].attempt = ref->attempt;
        return;
    }
    if (log->len == BT_ATTEMPT_LOG_LEN) { /* the oldest makes room */
        uint16_t *old = log_bucket_of(log, &log->refs[at]);
        while (*old != at + 1) old = &log->same[*old - 1];
        *old = log->same[at];
    }
    uint16_t *bucket = log_bucket_of(log, ref);
    log->refs[at] = *ref;
    log->same[at] = *bucket;
    *bucket = (uint16_t)(at + 1);
    log->next = (at + 1) % BT_ATTEMPT_LOG_LEN;
    if (log->len < BT_ATTEMPT_LOG_LEN) log->len++;
}

uint32_t bt_attempt_log_highest(const bt_attempt_log *log, const bt_request_ref *ref)
{
    const uint32_t link = log_find(log, ref);
    return link ? log->refs[link - 1].attempt : 0;
}

/* ---- attempts that are here ---- */

static uint32_t place_of(const bt_attempts *t, const bt_attempt *a) { return (uint32_t)(a - t->all); }

static uint32_t *bucket_of(const bt_attempts *t, const bt_request_ref *ref)
{
    return &t->by_ref[hash_of(ref) & t->by_ref_mask];
}

bt_err bt_attempts_new(bt_attempts *t, uint32_t slots, uint32_t waiting)
{
    uint32_t buckets = 1;
    *t = (bt_attempts){.len = slots * A_SLOT + MORE + waiting, .slots = slots};
    while (buckets < t->len) buckets *= 2;
    t->by_ref_mask = buckets - 1;
    t->all = calloc(t->len, sizeof *t->all);
    t->by_slot = calloc(slots, sizeof *t->by_slot);
    t->by_ref = calloc(buckets, sizeof *t->by_ref);
    t->touched = calloc(t->len, sizeof *t->touched);
    if (!t->all || !t->by_slot || !t->by_ref || !t->touched || bt_order_init(&t->idle, t->len, 2) < 0 ||
        bt_order_init(&t->idle_slots, slots, 1) < 0 || bt_order_init(&t->due, t->len, 2) < 0) {
        bt_attempts_free(t);
        return BT_ENOMEM;
    }
    for (uint32_t i = 0; i < t->len; i++) t->all[i].slot = BT_NO_SLOT;
    return BT_OK;
}

void bt_attempts_free(bt_attempts *t)
{
    free(t->all);
    free(t->by_slot);
    free(t->by_ref);
    free(t->touched);
    bt_order_done(&t->idle);
    bt_order_done(&t->idle_slots);
    bt_order_done(&t->due);
    *t = (bt_attempts){0};
}

bt_attempt *bt_attempts_next(const bt_attempts *t, const bt_attempt *a)
{
    for (uint32_t i = a ? (uint32_t)(a - t->all) + 1 : 0; i < t->end; i++)
        if (bt_attempt_is_here(&t->all[i])) return &t->all[i];
    return NULL;
}

bt_attempt *bt_attempts_find(const bt_attempts *t, const bt_request_ref *ref)
{
    bt_attempt *best = NULL;
    for (uint32_t link = *bucket_of(t, ref); link; link = t->all[link - 1].same) {
        bt_attempt *a = &t->all[link - 1];
        if (bt_request_same(&a->ref, ref) && (!best || a->ref.attempt > best->ref.attempt)) best = a;
    }
    return best;
}

bt_attempt *bt_attempts_by_slot(const bt_attempts *t, uint32_t slot)
{
    return slot < t->slots ? t->by_slot[slot] : NULL;
}

bt_attempt *bt_attempts_unused(const bt_attempts *t)
{
    const int64_t at = bt_order_first(&t->idle, BT_ATTEMPTS_FREE);
    if (at >= 0) return &t->all[at];
    return t->end < t->len ? &t->all[t->end] : NULL;
}

uint32_t bt_attempts_unused_slot(const bt_attempts *t)
{
    const int64_t slot = bt_order_first(&t->idle_slots, 0);
    if (slot >= 0) return (uint32_t)slot;
    return t->slots_end < t->slots ? t->slots_end : BT_NO_SLOT;
}

void bt_attempts_take(bt_attempts *t, bt_attempt *a, const bt_request_ref *ref, uint32_t slot, unsigned state)
{
    const uint32_t at = place_of(t, a);
    uint32_t *bucket = bucket_of(t, ref);
    assert(a->state == BT_ATTEMPT_FREE && state >= BT_ATTEMPT_OWN);
    *a = (bt_attempt){.state = state, .slot = BT_NO_SLOT, .ref = *ref, .same = *bucket,
                      .is_touched = a->is_touched};
    *bucket = at + 1;
    for (; t->end <= at; t->end++) bt_order_put(&t->idle, BT_ATTEMPTS_FREE, t->end, (bt_order_key){0, 0});
    bt_order_take(&t->idle, at);
    t->here++;
    if (slot != BT_NO_SLOT) bt_attempts_take_slot(t, a, slot);
}

void bt_attempts_take_slot(bt_attempts *t, bt_attempt *a, uint32_t slot)
{
    assert(a->slot == BT_NO_SLOT && slot < t->slots && !t->by_slot[slot]);
    a->slot = slot;
    t->by_slot[slot] = a;
    for (; t->slots_end <= slot; t->slots_end++)
        bt_order_put(&t->idle_slots, 0, t->slots_end, (bt_order_key){0, 0});
    bt_order_take(&t->idle_slots, slot);
    t->held++;
}

void bt_attempts_leave_slot(bt_attempts *t, bt_attempt *a)
{
    assert(t->by_slot[a->slot] == a);
    t->by_slot[a->slot] = NULL;
    bt_order_put(&t->idle_slots, 0, a->slot, (bt_order_key){0, 0});
    a->slot = BT_NO_SLOT;
    t->held--;
}

bt_attempt *bt_attempts_abort(bt_attempts *t, const bt_request_ref *ref)
{
    bt_attempt *a = bt_attempts_find(t, ref);
    bt_attempt_log_note(&t->log, ref);
    if (!a || a->ref.attempt > ref->attempt) return NULL;
    a->ref.attempt = ref->attempt;
    return a;
}

void bt_attempts_bury(bt_attempts *t, bt_attempt *a)
{
    uint32_t *link = bucket_of(t, &a->ref);
    assert(a->slot == BT_NO_SLOT && bt_attempt_is_here(a));
    while (*link != place_of(t, a) + 1) link = &t->all[*link - 1].same;
    *link = a->same;
    bt_attempt_log_note(&t->log, &a->ref);
    a->state = BT_ATTEMPT_OVER;
    bt_order_put(&t->idle, BT_ATTEMPTS_OVER, place_of(t, a), (bt_order_key){0, 0});
    t->here--;
}

void bt_attempts_clear(bt_attempts *t, bt_attempt *a)
{
    *a = (bt_attempt){.slot = BT_NO_SLOT, .is_touched = a->is_touched};
    bt_order_take(&t->due, place_of(t, a));
    bt_order_put(&t->idle, BT_ATTEMPTS_FREE, place_of(t, a), (bt_order_key){0, 0});
    for (; t->end > 0 && t->all[t->end - 1].state == BT_ATTEMPT_FREE; t->end--)
        bt_order_take(&t->idle, t->end - 1);
}

bt_attempt *bt_attempts_over(const bt_attempts *t)
{
    const int64_t at = bt_order_first(&t->idle, BT_ATTEMPTS_OVER);
    return at >= 0 ? &t->all[at] : NULL;
}

/* ---- what changes, and what is due --------------------------------------------------------------- */

void bt_attempts_touch(bt_attempts *t, bt_attempt *a)
{
    if (a->is_touched) return;
    a->is_touched = true;
    t->touched[t->touched_len++] = place_of(t, a);
}

bt_attempt *bt_attempts_touched(bt_attempts *t)
{
    if (t->touched_len == 0) return NULL;
    bt_attempt *a = &t->all[t->touched[--t->touched_len]];
    a->is_touched = false;
    return a;
}

void bt_attempts_set_due(bt_attempts *t, const bt_attempt *a, int64_t due_us)
{
    const uint32_t at = place_of(t, a);
    const bool is_in = bt_order_has(&t->due, DUE, at);
    if (due_us == BT_STEP_NEVER) bt_order_take(&t->due, at);
    else if (!is_in || bt_order_us(bt_order_key_of(&t->due, at)) != due_us)
        bt_order_put(&t->due, DUE, at, bt_order_time(due_us));
}

void bt_attempts_ripen(bt_attempts *t, int64_t now_us)
{
    for (int64_t at;
         (at = bt_order_first(&t->due, DUE)) >= 0 && bt_order_us(bt_order_key_of(&t->due, at)) <= now_us;)
        bt_order_put(&t->due, RIPE, (uint32_t)at, (bt_order_key){0, 0});
}

bt_attempt *bt_attempts_next_ripe(bt_attempts *t)
{
    const int64_t at = bt_order_first(&t->due, RIPE);
    if (at < 0) return NULL;
    bt_order_take(&t->due, (uint32_t)at);
    return &t->all[at];
}

int64_t bt_attempts_due_us(const bt_attempts *t)
{
    const int64_t at = bt_order_first(&t->due, DUE);
    return at < 0 ? BT_STEP_NEVER : bt_order_us(bt_order_key_of(&t->due, at));
}

/* ---- one of them --------------------------------------------------------------------------------- */

void bt_attempt_renew(bt_attempt *a, int64_t now_us, uint32_t lease_ms)
{
    a->lease_end_us = now_us + (int64_t)lease_ms * 1000;
}

bool bt_attempt_is_expired(const bt_attempt *a, int64_t now_us)
{
    return bt_attempt_is_wanted(a) && now_us >= a->lease_end_us;
}

bt_load bt_attempts_load(const bt_attempts *t)
{
    return (bt_load){.slots_total = t->slots, .leases = t->here, .slots_used = t->held};
}

void bt_attempts_load_device(bt_load *load, const bt_msg_device_work *sum)
{
    load->device_ns = sum->ns;
    load->device_ideal_ns = sum->ideal_ns;
    load->device_nj = sum->nj;
    load->paced_us = sum->paced_us;
    load->late_us = sum->late_us;
}
