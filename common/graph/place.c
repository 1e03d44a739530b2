/* First fit by falling size over items with lives. */
#include "graph/place.h"
#include "base/num.h"

#include <stdbool.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const bt_place_item *x = *(bt_place_item *const *)a, *y = *(bt_place_item *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool live_together(const bt_place_item *a, const bt_place_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

bt_err bt_place_items(size_t *ret, bt_place_item *item, size_t n, bt_fault *fault)
{
    size_t peak = 0;
    bt_err e = BT_OK;
    bt_place_item **order = malloc((n + 1) * sizeof *order);   /* as they are placed */
    bt_place_item **placed = malloc((n + 1) * sizeof *placed); /* those with an offset, by offset */
    if (!order || !placed) {
        e = bt_fail(fault, BT_ENOMEM, "planning memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        size_t up;
        if (!bt_add_size(&up, item[i].bytes, BT_PLACE_ALIGN - 1)) {
            e = bt_fail(fault, BT_ELIMIT, "a value of %zu bytes does not fit memory", item[i].bytes);
            goto out;
        }
        item[i].bytes = up & ~(size_t)(BT_PLACE_ALIGN - 1);
        order[i] = &item[i];
    }
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++) {
        bt_place_item *new = order[i];
        size_t at = 0, end, slot = i;
        for (size_t j = 0; j < i; j++) {
            if (!live_together(new, placed[j])) continue;
            if (placed[j]->offset >= at && placed[j]->offset - at >= new->bytes) break;
            if (placed[j]->offset + placed[j]->bytes > at) at = placed[j]->offset + placed[j]->bytes;
        }
        if (!bt_add_size(&end, at, new->bytes)) {
            e = bt_fail(fault, BT_ELIMIT, "the arena of a program does not fit memory");
            goto out;
        }
        new->offset = at;
        if (end > peak) peak = end;
        for (; slot > 0 && placed[slot - 1]->offset > at; slot--) placed[slot] = placed[slot - 1];
        placed[slot] = new;
    }
    *ret = peak;
out:
    free(order);
    free(placed);
    return e;
}
