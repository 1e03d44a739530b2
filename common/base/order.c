/* Ordered sets of places. See order.h. Links are places + 1, so that zeroed memory is an empty table. */
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

bt_err bt_order_init(bt_order *ret, uint32_t cap, uint32_t sets)
{
    bt_order o = {.items = calloc(cap, sizeof *o.items), .of = calloc(sets, sizeof *o.of), .cap = cap,
                  .sets = sets};
    if (!o.items || !o.of) {
        bt_order_done(&o);
        return BT_ENOMEM;
    }
    *ret = o;
    return BT_OK;
}

void bt_order_done(bt_order *o)
{
    free(o->items);
    free(o->of);
    memset(o, 0, sizeof *o);
}

static bt_order_item *at(const bt_order *o, uint32_t link) { return &o->items[link - 1]; }

/* The same in all processes, and well mixed: neighbours differ in the high bits, too. */
static uint32_t weight(uint32_t link)
{
    uint32_t x = link * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

static bool before(bt_order_key a, uint32_t a_link, bt_order_key b, uint32_t b_link)
{
    if (a.hi != b.hi) return a.hi < b.hi;
    return a.lo != b.lo ? a.lo < b.lo : a_link < b_link;
}

/* Whatever points at `from` points at `to`. */
static void repoint(bt_order *o, uint32_t from, uint32_t to)
{
    const bt_order_item *it = at(o, from);
    if (!it->up) o->of[it->set - 1].root = to;
    else if (at(o, it->up)->left == from) at(o, it->up)->left = to;
    else at(o, it->up)->right = to;
    if (to) at(o, to)->up = it->up;
}

/* The link takes the place of what is above it. */
static void lift(bt_order *o, uint32_t link)
{
    bt_order_item *it = at(o, link);
    const uint32_t parent = it->up;
    bt_order_item *p = at(o, parent);
    repoint(o, parent, link);
    p->up = link;
    if (p->left == link) {
        p->left = it->right;
        if (it->right) at(o, it->right)->up = parent;
        it->right = parent;
    } else {
        p->right = it->left;
        if (it->left) at(o, it->left)->up = parent;
        it->left = parent;
    }
}

void bt_order_take(bt_order *o, uint32_t place)
{
    const uint32_t link = place + 1;
    bt_order_item *it = at(o, link);
    if (!it->set) return;
    if (o->of[it->set - 1].first == link) o->of[it->set - 1].first = (uint32_t)(bt_order_next(o, place) + 1);
    while (it->left && it->right) lift(o, weight(it->left) < weight(it->right) ? it->left : it->right);
    repoint(o, link, it->left ? it->left : it->right);
    *it = (bt_order_item){.set = 0};
}

void bt_order_put(bt_order *o, uint32_t set, uint32_t place, bt_order_key key)
{
    const uint32_t link = place + 1;
    bt_order_item *it = at(o, link);
    if (it->set == set + 1 && it->key.hi == key.hi && it->key.lo == key.lo) return;
    bt_order_take(o, place);
    uint32_t up = 0, *hook = &o->of[set].root;
    bool is_first = true;
    while (*hook) {
        up = *hook;
        const bool goes_left = before(key, link, at(o, up)->key, up);
        hook = goes_left ? &at(o, up)->left : &at(o, up)->right;
        is_first = is_first && goes_left;
    }
    if (is_first) o->of[set].first = link;
    *hook = link;
    *it = (bt_order_item){.key = key, .up = up, .set = set + 1};
    while (it->up && weight(link) < weight(it->up)) lift(o, link);
}

static int64_t leftmost(const bt_order *o, uint32_t link)
{
    while (link && at(o, link)->left) link = at(o, link)->left;
    return (int64_t)link - 1;
}

int64_t bt_order_next(const bt_order *o, int64_t place)
{
    uint32_t link = (uint32_t)(place + 1);
    if (at(o, link)->right) return leftmost(o, at(o, link)->right);
    while (at(o, link)->up && at(o, at(o, link)->up)->right == link) link = at(o, link)->up;
    return (int64_t)at(o, link)->up - 1;
}

int64_t bt_order_from(const bt_order *o, uint32_t set, bt_order_key key)
{
    uint32_t found = 0;
    for (uint32_t link = o->of[set].root; link;) {
        if (before(at(o, link)->key, link, key, 0)) {
            link = at(o, link)->right;
        } else {
            found = link;
            link = at(o, link)->left;
        }
    }
    return (int64_t)found - 1;
}
