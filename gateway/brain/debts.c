/* The debts of nodes after an attempt was left. See debts.h. */
#include "gateway/brain/debts.h"

#include <stdlib.h>
#include <string.h>

enum { DUE, RIPE };
enum { HELD, FREE };

bt_err gw_debts_init(gw_debts *ret, uint32_t cap)
{
    gw_debts d = {.items = calloc(cap, sizeof *d.items), .cap = cap};
    if (!d.items || bt_order_init(&d.due, cap, 2) < 0 || bt_order_init(&d.ends, cap, 2) < 0 ||
        bt_order_init(&d.by_attempt, cap, 1) < 0 || bt_order_init(&d.by_node, cap, 1) < 0) {
        gw_debts_done(&d);
        return BT_ENOMEM;
    }
    *ret = d;
    return BT_OK;
}

void gw_debts_done(gw_debts *d)
{
    bt_order_done(&d->due);
    bt_order_done(&d->ends);
    bt_order_done(&d->by_attempt);
    bt_order_done(&d->by_node);
    free(d->items);
    memset(d, 0, sizeof *d);
}

static bt_order_key key_of_node(const bt_incarnation *node)
{
    bt_order_key k;
    memcpy(&k.hi, node->bytes, sizeof k.hi);
    memcpy(&k.lo, node->bytes + sizeof k.hi, sizeof k.lo);
    return k;
}

static bt_order_key key_of_attempt(uint64_t number, uint32_t attempt)
{
    return (bt_order_key){number, attempt};
}

static void put_due(gw_debts *d, uint32_t at)
{
    const gw_debt *k = &d->items[at];
    bt_order_put(&d->due, DUE, at, bt_order_time(k->due_us < k->until_us ? k->due_us : k->until_us));
}

bool gw_debts_add(gw_debts *d, gw_debt *ret_forgotten, const gw_debt *debt)
{
    const bool is_full = d->len == d->cap;
    if (is_full) {
        const gw_debt *first = &d->items[bt_order_first(&d->ends, HELD)];
        *ret_forgotten = *first;
        gw_debts_remove(d, first);
    }
    const int64_t is_free = bt_order_first(&d->ends, FREE);
    const uint32_t at = is_free < 0 ? d->used++ : (uint32_t)is_free;
    d->items[at] = *debt;
    d->items[at].arrival = d->arrivals++;
    d->len++;
    bt_order_put(&d->ends, HELD, at, (bt_order_key){bt_order_time(debt->until_us).hi, d->items[at].arrival});
    bt_order_put(&d->by_attempt, 0, at, key_of_attempt(debt->number, debt->attempt));
    bt_order_put(&d->by_node, 0, at, key_of_node(&debt->node));
    put_due(d, at);
    return is_full;
}

const gw_debt *gw_debts_find(const gw_debts *d, const bt_incarnation *node, uint64_t number, uint32_t attempt)
{
    for (int64_t at = bt_order_from(&d->by_attempt, 0, key_of_attempt(number, attempt)); at >= 0;
         at = bt_order_next(&d->by_attempt, at)) {
        const gw_debt *k = &d->items[at];
        if (k->number != number || k->attempt != attempt) break;
        if (bt_incarnation_equal(&k->node, node)) return k;
    }
    return NULL;
}

void gw_debts_remove(gw_debts *d, const gw_debt *debt)
{
    const uint32_t at = (uint32_t)(debt - d->items);
    bt_order_take(&d->due, at);
    bt_order_take(&d->by_attempt, at);
    bt_order_take(&d->by_node, at);
    bt_order_put(&d->ends, FREE, at, bt_order_number(0));
    d->len--;
}

uint32_t gw_debts_forget(gw_debts *d, uint32_t *ret_long, const bt_incarnation *node)
{
    const uint32_t before = d->len;
    *ret_long = 0;
    for (int64_t at; (at = bt_order_from(&d->by_node, 0, key_of_node(node))) >= 0 &&
                     bt_incarnation_equal(&d->items[at].node, node);) {
        *ret_long += d->items[at].is_long;
        gw_debts_remove(d, &d->items[at]);
    }
    return before - d->len;
}

int64_t gw_debts_due_us(const gw_debts *d)
{
    const int64_t at = bt_order_first(&d->due, DUE);
    return at < 0 ? INT64_MAX : bt_order_us(bt_order_key_of(&d->due, at));
}

void gw_debts_ripen(gw_debts *d, int64_t now_us)
{
    for (int64_t at; (at = bt_order_first(&d->due, DUE)) >= 0 && gw_debts_due_us(d) <= now_us;)
        bt_order_put(&d->due, RIPE, (uint32_t)at, bt_order_number(d->items[at].arrival));
}

const gw_debt *gw_debts_next_ripe(const gw_debts *d)
{
    const int64_t at = bt_order_first(&d->due, RIPE);
    return at < 0 ? NULL : &d->items[at];
}

void gw_debts_wait(gw_debts *d, const gw_debt *debt, int64_t due_us)
{
    const uint32_t at = (uint32_t)(debt - d->items);
    d->items[at].due_us = due_us;
    put_due(d, at);
}
