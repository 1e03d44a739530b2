/* Knows which attempts a node holds, and who of them holds which slot. See attempts.h. */
#include "xfer/attempts.h"
#include "xfer/step.h"

#include <assert.h>
#include <stdlib.h>

enum { A_SLOT = 4, MORE = 16 }; /* beside those at work, reports that wait for their acknowledgement */

bt_err bt_attempts_new(bt_attempts *t, uint32_t slots)
{
    *t = (bt_attempts){.len = slots * A_SLOT + MORE, .slots = slots};
    t->all = calloc(t->len, sizeof *t->all);
    t->by_slot = calloc(slots, sizeof *t->by_slot);
    if (!t->all || !t->by_slot) {
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
    for (bt_attempt *a = NULL; (a = bt_attempts_next(t, a));) {
        if (!bt_request_same(&a->ref, ref)) continue;
        if (!best || a->ref.attempt > best->ref.attempt) best = a;
    }
    return best;
}

bt_attempt *bt_attempts_by_slot(const bt_attempts *t, uint32_t slot)
{
    return slot < t->slots ? t->by_slot[slot] : NULL;
}

bt_attempt *bt_attempts_unused(const bt_attempts *t)
{
    for (uint32_t i = 0; i < t->len; i++)
        if (t->all[i].state == BT_ATTEMPT_FREE) return &t->all[i];
    return NULL;
}

uint32_t bt_attempts_unused_slot(const bt_attempts *t)
{
    for (uint32_t slot = 0; slot < t->slots; slot++)
        if (!t->by_slot[slot]) return slot;
    return BT_NO_SLOT;
}

void bt_attempts_take(bt_attempts *t, bt_attempt *a, const bt_request_ref *ref, uint32_t slot, unsigned state)
{
    assert(a->state == BT_ATTEMPT_FREE && state >= BT_ATTEMPT_OWN && slot < t->slots && !t->by_slot[slot]);
    *a = (bt_attempt){.state = state, .slot = slot, .ref = *ref};
    t->by_slot[slot] = a;
    if (a >= t->all + t->end) t->end = (uint32_t)(a - t->all) + 1;
}

void bt_attempts_leave_slot(bt_attempts *t, bt_attempt *a)
{
    assert(t->by_slot[a->slot] == a);
    t->by_slot[a->slot] = NULL;
    a->slot = BT_NO_SLOT;
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
    assert(a->slot == BT_NO_SLOT);
    bt_attempt_log_note(&t->log, &a->ref);
    a->state = BT_ATTEMPT_OVER;
}

void bt_attempts_clear(bt_attempts *t, bt_attempt *a)
{
    *a = (bt_attempt){.slot = BT_NO_SLOT};
    while (t->end > 0 && t->all[t->end - 1].state == BT_ATTEMPT_FREE) t->end--;
}

void bt_attempt_renew(bt_attempt *a, int64_t now_us, uint32_t lease_ms)
{
    a->lease_end_us = now_us + (int64_t)lease_ms * 1000;
}

bool bt_attempt_is_expired(const bt_attempt *a, int64_t now_us)
{
    return bt_attempt_is_wanted(a) && now_us >= a->lease_end_us;
}

int64_t bt_attempts_due_us(const bt_attempts *t)
{
    int64_t due = BT_STEP_NEVER;
    for (const bt_attempt *a = NULL; (a = bt_attempts_next(t, a));)
        if (bt_attempt_is_wanted(a) && a->lease_end_us < due) due = a->lease_end_us;
    return due;
}

bt_load bt_attempts_load(const bt_attempts *t)
{
    bt_load load = {.slots_total = t->slots};
    for (const bt_attempt *a = NULL; (a = bt_attempts_next(t, a));) {
        load.leases++;
        load.slots_used += a->slot != BT_NO_SLOT;
    }
    return load;
}

void bt_attempts_load_device(bt_load *load, const bt_msg_device_work *sum)
{
    load->device_ns = sum->ns;
    load->device_ideal_ns = sum->ideal_ns;
    load->device_nj = sum->nj;
    load->paced_us = sum->paced_us;
    load->late_us = sum->late_us;
}
