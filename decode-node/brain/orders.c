/* Where each attempt stands in the decode brain's orders and counts. Every place follows from the record's
 * own fields, so one function updates all of them after any change; brain_inner.c notes each record that may
 * have changed. */
#include "base/breakage.h"
#include "decode-node/brain/brain_inner.h"

bt_err dc_orders_new(dc_brain *b)
{
    const bool ok = bt_order_init(&b->waiting, b->attempts.len, 1) == BT_OK &&
                    bt_order_init(&b->running, b->attempts.len, 1) == BT_OK &&
                    bt_order_init(&b->line, b->attempts.len, 1) == BT_OK &&
                    bt_order_init(&b->peers, b->cfg.links_max, 1) == BT_OK;
    return ok ? BT_OK : BT_ENOMEM;
}

void dc_orders_free(dc_brain *b)
{
    bt_order_done(&b->waiting);
    bt_order_done(&b->running);
    bt_order_done(&b->line);
    bt_order_done(&b->peers);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* When its lease ends, when a message goes again, or when it has waited too long. */
static int64_t due_of(const dc_brain *b, const dc_record *r)
{
    int64_t due = BT_STEP_NEVER;
    if (!bt_attempt_is_wanted(r->a)) return due;
    if (!BT_BREAK(lease_ignored)) due = r->a->lease_end_us;
    if (dc_attempt_wants_resend(r)) due = earlier(due, r->resend_us);
    if (dc_memory_waits(r)) due = earlier(due, r->want_us + b->cfg.preempted_us);
    return due;
}

static bool is_leaving(const dc_brain *b, const dc_record *r)
{
    return (r->a->state == DC_PREEMPTING || r->a->state == BT_ATTEMPT_STOPPING) && dc_memory_pages(b, r) > 0;
}

/* Into the order under this number, or out of it; one that is there already costs a look. Returns 1, 0 or -1
 * for the change of its length. */
static int put_if(bt_order *o, bool belongs, uint32_t place, uint64_t number)
{
    const bool was = bt_order_has(o, 0, place);
    if (!belongs) bt_order_take(o, place);
    else if (!was || bt_order_key_of(o, place).hi != number)
        bt_order_put(o, 0, place, bt_order_number(number));
    return belongs - was;
}

static void count_if(uint32_t *count, bool *was, bool is)
{
    *count += (uint32_t)is - (uint32_t)*was;
    *was = is;
}

static void put(dc_brain *b, dc_record *r)
{
    const uint32_t at = (uint32_t)(r - b->records);
    const uint32_t pages = dc_memory_counted(b, r);
    bt_attempts_set_due(&b->attempts, r->a, due_of(b, r));
    b->waiting_len += (uint32_t)put_if(&b->waiting, dc_memory_waits(r), at, r->age);
    (void)put_if(&b->running, r->a->state == DC_RUNNING, at, ~r->age);
    const int line = put_if(&b->line, r->a->state == DC_WAITING, at, r->age);
    b->line_len += (uint32_t)line;
    b->line_changed |= line != 0;
    count_if(&b->leaving, &r->is_counted_leaving, is_leaving(b, r));
    count_if(&b->preempting, &r->is_counted_preempting, r->a->state == DC_PREEMPTING);
    count_if(&b->reserved, &r->is_counted_reserved, r->a->state == DC_RESERVED);
    b->counted_pages += (uint64_t)pages - r->counted_pages;
    r->counted_pages = pages;
}

void dc_orders_settle(dc_brain *b)
{
    for (bt_attempt *a; (a = bt_attempts_touched(&b->attempts));) put(b, &b->records[a - b->attempts.all]);
}

static dc_record *first(dc_brain *b, const bt_order *o)
{
    const int64_t at = bt_order_first(o, 0);
    return at < 0 ? NULL : dc_touch(b, &b->attempts.all[at]);
}

dc_record *dc_orders_oldest(dc_brain *b) { return first(b, &b->waiting); }
dc_record *dc_orders_youngest(dc_brain *b) { return first(b, &b->running); }

bool dc_orders_agree(const dc_brain *b)
{
    int64_t due = BT_STEP_NEVER, oldest = -1, youngest = -1, head = -1;
    uint32_t here = 0, held = 0, waiting = 0, leaving = 0, preempting = 0, reserved = 0, line = 0;
    uint64_t pages = 0;
    for (uint32_t i = 0; i < b->attempts.len; i++) {
        const dc_record *r = &b->records[i];
        if (!bt_attempt_is_here(r->a)) continue;
        here++;
        held += r->a->slot != BT_NO_SLOT;
        due = earlier(due, due_of(b, r));
        pages += dc_memory_counted(b, r);
        leaving += is_leaving(b, r);
        preempting += r->a->state == DC_PREEMPTING;
        reserved += r->a->state == DC_RESERVED;
        waiting += dc_memory_waits(r);
        line += r->a->state == DC_WAITING;
        if (r->a->state == DC_WAITING && (head < 0 || r->age < b->records[head].age)) head = i;
        if (dc_memory_waits(r) && (oldest < 0 || r->age < b->records[oldest].age)) oldest = i;
        if (r->a->state == DC_RUNNING && (youngest < 0 || r->age > b->records[youngest].age)) youngest = i;
    }
    return due == bt_attempts_due_us(&b->attempts) && oldest == bt_order_first(&b->waiting, 0) &&
           youngest == bt_order_first(&b->running, 0) && head == bt_order_first(&b->line, 0) &&
           line == b->line_len && here == b->attempts.here && held == b->attempts.held &&
           waiting == b->waiting_len && leaving == b->leaving && preempting == b->preempting &&
           reserved == b->reserved && pages == b->counted_pages;
}
