/* What nodes owe after an attempt was left. See debts.h. */
#include "gateway/brain/debts.h"

#include <stdlib.h>
#include <string.h>

bt_err gw_debts_init(gw_debts *ret, uint32_t cap)
{
    gw_debt *items = calloc(cap, sizeof *items);
    if (!items) return BT_ENOMEM;
    *ret = (gw_debts){.items = items, .cap = cap};
    return BT_OK;
}

void gw_debts_done(gw_debts *d)
{
    free(d->items);
    memset(d, 0, sizeof *d);
}

bool gw_debts_add(gw_debts *d, gw_debt *ret_forgotten, const gw_debt *debt)
{
    const bool is_full = d->len == d->cap;
    if (is_full) {
        gw_debt *first = d->items;
        for (uint32_t i = 1; i < d->len; i++)
            if (d->items[i].until_us < first->until_us) first = &d->items[i];
        *ret_forgotten = *first;
        gw_debts_remove(d, first);
    }
    d->items[d->len++] = *debt;
    return is_full;
}

const gw_debt *gw_debts_find(const gw_debts *d, const bt_incarnation *node, uint64_t number, uint32_t attempt)
{
    for (uint32_t i = 0; i < d->len; i++) {
        const gw_debt *k = &d->items[i];
        if (k->number == number && k->attempt == attempt && bt_incarnation_equal(&k->node, node)) return k;
    }
    return NULL;
}

void gw_debts_remove(gw_debts *d, const gw_debt *debt)
{
    const size_t at = (size_t)(debt - d->items);
    memmove(d->items + at, d->items + at + 1, (--d->len - at) * sizeof *d->items);
}

uint32_t gw_debts_forget(gw_debts *d, const bt_incarnation *node)
{
    const uint32_t before = d->len;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->len; i++)
        if (!bt_incarnation_equal(&d->items[i].node, node)) d->items[kept++] = d->items[i];
    d->len = kept;
    return before - kept;
}

int64_t gw_debts_due_us(const gw_debts *d)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < d->len; i++) {
        if (d->items[i].due_us < due) due = d->items[i].due_us;
        if (d->items[i].until_us < due) due = d->items[i].until_us;
    }
    return due;
}
