/* Where each attempt and each link stands in the prefill brain's orders and counts. Every place follows from
 * their own fields, so one function for each kind updates all of them after any change; brain_inner.c notes
 * records that may have changed, links.c calls in after each change of a link.
 *
 * A link that a transfer needs is in use at every step. So its time of use is not stored while it is needed:
 * it is the time of the last step. */
#include "prefill-node/brain/brain_inner.h"

bt_err pf_orders_new(pf_brain *b)
{
    const uint32_t records = b->attempts.len, links = b->cfg.links_max;
    if (bt_order_init(&b->peers, links, 1) < 0 || bt_order_init(&b->unlinked, links, 1) < 0 ||
        bt_order_init(&b->waiting, records, 1) < 0 || bt_order_init(&b->shorts, records, 1) < 0 ||
        bt_order_init(&b->sending, records, links) < 0 || bt_order_init(&b->commits, records, links) < 0 ||
        bt_order_init(&b->commit_now, records, 1) < 0 || bt_order_init(&b->link_due, links, 2) < 0 ||
        bt_order_init(&b->link_pump, links, 1) < 0)
        return BT_ENOMEM;
    for (uint32_t i = 0; i < links; i++) bt_order_put(&b->unlinked, 0, i, (bt_order_key){0, 0});
    return BT_OK;
}

void pf_orders_free(pf_brain *b)
{
    bt_order_done(&b->peers);
    bt_order_done(&b->unlinked);
    bt_order_done(&b->waiting);
    bt_order_done(&b->shorts);
    bt_order_done(&b->sending);
    bt_order_done(&b->commits);
    bt_order_done(&b->commit_now);
    bt_order_done(&b->link_due);
    bt_order_done(&b->link_pump);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- links --------------------------------------------------------------------------------------- */

static bool is_shut_for_nothing(const pf_link *l) { return l->needed == 0 && l->shut_us != BT_STEP_NEVER; }

/* Without the time that follows from being needed. */
static int64_t link_due_us(const pf_brain *b, const pf_link *l)
{
    int64_t t = l->needed ? BT_STEP_NEVER : l->used_us + b->cfg.idle_us;
    if (l->shut_us != BT_STEP_NEVER) t = earlier(t, l->shut_us + b->cfg.dial_us);
    if (l->state == PF_LINK_GREETING) t = earlier(t, l->hello_us);
    if (l->state == PF_LINK_OPEN && l->paused_us > b->now_us) t = earlier(t, l->paused_us);
    if (l->state == PF_LINK_OPEN && l->asked_us != BT_STEP_NEVER)
        t = earlier(t, l->asked_us + b->cfg.stall_us);
    return t;
}

/* Where nobody needs it any more, the next step forgets that it is shut, whatever the time is. */
void pf_orders_link(pf_brain *b, pf_link *l)
{
    const uint32_t at = (uint32_t)(l - b->links);
    if (l->state == PF_LINK_NONE) return;
    const int64_t due = link_due_us(b, l);
    const bool is_in = bt_order_has(&b->link_due, PF_LINK_DUE, at);
    if (is_shut_for_nothing(l)) bt_order_put(&b->link_due, PF_LINK_LOOK, at, (bt_order_key){0, 0});
    else if (due == BT_STEP_NEVER) bt_order_take(&b->link_due, at);
    else if (!is_in || bt_order_us(bt_order_key_of(&b->link_due, at)) != due)
        bt_order_put(&b->link_due, PF_LINK_DUE, at, bt_order_time(due));
    if (!bt_order_has(&b->link_pump, 0, at)) bt_order_put(&b->link_pump, 0, at, (bt_order_key){0, 0});
}

void pf_orders_link_made(pf_brain *b, pf_link *l)
{
    const uint32_t at = (uint32_t)(l - b->links);
    bt_order_take(&b->unlinked, at);
    bt_order_put(&b->peers, 0, at, bt_incarnation_key(&l->decode));
    pf_orders_link(b, l);
}

void pf_orders_link_gone(pf_brain *b, pf_link *l)
{
    const uint32_t at = (uint32_t)(l - b->links);
    bt_order_take(&b->peers, at);
    bt_order_take(&b->link_due, at);
    bt_order_take(&b->link_pump, at);
    bt_order_put(&b->unlinked, 0, at, (bt_order_key){0, 0});
}

static void need(pf_brain *b, uint32_t link, bool is_more)
{
    pf_link *l = &b->links[link - 1];
    l->needed += is_more ? 1 : UINT32_MAX;
    if (l->needed == 0) l->used_us = b->linked_us;
    if (l->needed == is_more) b->links_needed += is_more ? 1 : UINT32_MAX;
}

/* ---- attempts ------------------------------------------------------------------------------------ */

/* When its lease ends, when a transfer has made no progress for too long, or when a message goes again. */
static int64_t due_of(const pf_brain *b, const pf_record *r)
{
    int64_t due = BT_STEP_NEVER;
    if (!bt_attempt_is_wanted(r->a)) return due;
    due = r->a->lease_end_us;
    due = earlier(due, pf_stuck_us(b, r));
    if (pf_attempt_owes(r)) due = earlier(due, r->resend_us);
    if (r->link == 0 || !pf_is_commit_due(b, r) || !b->sends[r->a->slot].told) return due;
    /* else WELCOME sets it going */
    return b->links[r->link - 1].state == PF_LINK_OPEN ? earlier(due, r->commit_us) : due;
}

static bool has_block(const pf_brain *b, const pf_record *r)
{
    bt_kv_range range;
    return (r->a->state == PF_COMPUTING || r->a->state == PF_SENDING) &&
           bt_xfer_send_next(&b->sends[r->a->slot], &range);
}

/* WELCOME sets it going where the link is not open. */
static bool says_commit(const pf_brain *b, const pf_record *r)
{
    return r->link && pf_is_commit_due(b, r) && b->links[r->link - 1].state == PF_LINK_OPEN &&
           (!b->sends[r->a->slot].told || b->now_us >= r->commit_us);
}

static void put_if(bt_order *o, bool belongs, uint32_t set, uint32_t place, uint64_t number)
{
    if (!belongs) bt_order_take(o, place);
    else if (!bt_order_has(o, set, place) || bt_order_key_of(o, place).hi != number)
        bt_order_put(o, set, place, bt_order_number(number));
}

static bool waits_short(const pf_brain *b, const pf_record *r)
{
    return r->a->state == PF_WAITING && pf_left_of(r) <= b->cfg.short_tokens;
}

static void put(pf_brain *b, pf_record *r)
{
    const uint32_t at = (uint32_t)(r - b->records), was = r->link;
    const bool needs = pf_has_transfer(r);
    if (needs && !was) {
        const pf_link *l = pf_link_of(b, &r->decode);
        r->link = l ? (uint32_t)(l - b->links) + 1 : 0;
    }
    if (!needs) r->link = 0;
    if (r->link != was) need(b, was ? was : r->link, !was);
    const uint32_t set = r->link ? r->link - 1 : 0;
    b->waiting_len += (uint32_t)(r->a->state == PF_WAITING) - (uint32_t)bt_order_has(&b->waiting, 0, at);
    put_if(&b->waiting, r->a->state == PF_WAITING, 0, at, r->turn);
    put_if(&b->shorts, waits_short(b, r), 0, at, r->turn);
    put_if(&b->sending, r->link && has_block(b, r), set, at, r->served);
    put_if(&b->commits, r->link && pf_is_commit_due(b, r), set, at, 0);
    put_if(&b->commit_now, says_commit(b, r), 0, at, 0);
    bt_attempts_set_due(&b->attempts, r->a, due_of(b, r));
    b->busy += (uint32_t)r->in_worker - (uint32_t)r->is_counted;
    r->is_counted = r->in_worker;
    if (was || r->link) pf_orders_link(b, &b->links[(r->link ? r->link : was) - 1]);
}

void pf_orders_settle(pf_brain *b)
{
    for (bt_attempt *a; (a = bt_attempts_touched(&b->attempts));) put(b, &b->records[a - b->attempts.all]);
}

static pf_record *first(pf_brain *b, const bt_order *o, uint32_t set)
{
    const int64_t at = bt_order_first(o, set);
    return at < 0 ? NULL : pf_touch(b, &b->attempts.all[at]);
}

pf_record *pf_orders_waiting(pf_brain *b) { return first(b, &b->waiting, 0); }
pf_record *pf_orders_short(pf_brain *b) { return first(b, &b->shorts, 0); }

static pf_record *behind(pf_brain *b, const bt_order *o, const pf_record *r)
{
    const int64_t at = bt_order_next(o, r - b->records);
    return at < 0 ? NULL : pf_touch(b, &b->attempts.all[at]);
}

pf_record *pf_orders_behind(pf_brain *b, const pf_record *r) { return behind(b, &b->waiting, r); }
pf_record *pf_orders_short_behind(pf_brain *b, const pf_record *r) { return behind(b, &b->shorts, r); }

pf_record *pf_orders_sending(pf_brain *b, const pf_link *l)
{
    return first(b, &b->sending, (uint32_t)(l - b->links));
}

int64_t pf_orders_due_us(const pf_brain *b)
{
    int64_t due = bt_attempts_due_us(&b->attempts);
    const int64_t at = bt_order_first(&b->link_due, PF_LINK_DUE);
    if (at >= 0) due = earlier(due, bt_order_us(bt_order_key_of(&b->link_due, at)));
    if (b->links_needed > 0) due = earlier(due, b->now_us + b->cfg.idle_us);
    for (int64_t i = bt_order_first(&b->link_due, PF_LINK_LOOK); i >= 0; i = bt_order_next(&b->link_due, i))
        due = earlier(due, link_due_us(b, &b->links[i]));
    return due;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static bool links_agree(const pf_brain *b, int64_t *due)
{
    uint32_t needed = 0;
    for (uint32_t i = 0; i < b->cfg.links_max; i++) {
        const pf_link *l = &b->links[i];
        uint32_t transfers = 0;
        if (l->state == PF_LINK_NONE) {
            if (!bt_order_has(&b->unlinked, 0, i) || bt_order_has(&b->peers, 0, i)) return false;
            continue;
        }
        for (const pf_record *r = NULL; (r = pf_next(b, r));)
            transfers += pf_has_transfer(r) && bt_incarnation_equal(&r->decode, &l->decode);
        if (transfers != l->needed || pf_link_of(b, &l->decode) != l || bt_order_has(&b->unlinked, 0, i))
            return false;
        needed += transfers > 0;
        *due = earlier(*due, transfers ? b->now_us + b->cfg.idle_us : BT_STEP_NEVER);
        *due = earlier(*due, link_due_us(b, l));
    }
    return needed == b->links_needed;
}

bool pf_orders_agree(const pf_brain *b)
{
    int64_t due = BT_STEP_NEVER, waiting = -1;
    uint32_t here = 0, held = 0, busy = 0, waiting_len = 0, long_held = 0;
    for (const pf_record *r = NULL; (r = pf_next(b, r));) {
        const uint32_t at = (uint32_t)(r - b->records);
        const pf_link *l = pf_has_transfer(r) ? pf_link_of(b, &r->decode) : NULL;
        const uint32_t set = l ? (uint32_t)(l - b->links) : 0;
        here++;
        held += r->a->slot != BT_NO_SLOT;
        busy += r->in_worker;
        waiting_len += r->a->state == PF_WAITING;
        due = earlier(due, due_of(b, r));
        if (r->a->state == PF_WAITING && (waiting < 0 || r->turn < b->records[waiting].turn)) waiting = at;
        long_held += r->a->slot != BT_NO_SLOT && r->is_long;
        if (bt_order_has(&b->shorts, 0, at) != waits_short(b, r)) return false;
        if (l && (r->link != set + 1 || bt_order_has(&b->sending, set, at) != has_block(b, r) ||
                  bt_order_has(&b->commits, set, at) != pf_is_commit_due(b, r)))
            return false;
        if (bt_order_has(&b->sending, set, at) && bt_order_key_of(&b->sending, at).hi != r->served)
            return false;
    }
    return links_agree(b, &due) && due == pf_orders_due_us(b) && waiting == bt_order_first(&b->waiting, 0) &&
           here == b->attempts.here && held == b->attempts.held && busy == b->busy &&
           waiting_len == b->waiting_len && long_held == b->long_held;
}
