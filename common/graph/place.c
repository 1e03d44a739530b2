/* First fit by falling size over items with lives, their sizes and offsets formulas of one symbol. */
#include "graph/place.h"
#include "base/num.h"

#include <stdlib.h>

/* A total order that agrees with the sizes at large N. */
static int compare(bt_extent a, bt_extent b)
{
    if (a.each != b.each) return a.each < b.each ? -1 : 1;
    return a.fixed < b.fixed ? -1 : a.fixed > b.fixed;
}

static int by_size(const void *a, const void *b)
{
    const bt_place_item *x = *(bt_place_item *const *)a, *y = *(bt_place_item *const *)b;
    const int order = compare(y->bytes, x->bytes);
    return order ? order : x < y ? -1 : x > y;
}

/* Beside each other, because every item is held against all that are placed. */
typedef struct life {
    uint32_t first, last;
} life;

static bool live_together(life a, life b) { return a.first <= b.last && b.first <= a.last; }

/* Callers pass only offsets and sizes whose sums were checked when they were placed. */
static bt_extent end_of(bt_extent offset, bt_extent bytes)
{
    return (bt_extent){offset.fixed + bytes.fixed, offset.each + bytes.each};
}

static int by_end(const void *a, const void *b)
{
    const bt_place_item *x = *(bt_place_item *const *)a, *y = *(bt_place_item *const *)b;
    return compare(end_of(x->offset, x->bytes), end_of(y->offset, y->bytes));
}

/* The least formula of our kind that is not below either. */
static bt_extent above(bt_extent a, bt_extent b)
{
    const size_t at_one = a.fixed + a.each > b.fixed + b.each ? a.fixed + a.each : b.fixed + b.each;
    const size_t each = a.each > b.each ? a.each : b.each;
    return (bt_extent){at_one - each, each};
}

static bool adds_up(bt_extent offset, bt_extent bytes)
{
    size_t fixed, each, sum;
    return bt_add_size(&fixed, offset.fixed, bytes.fixed) && bt_add_size(&each, offset.each, bytes.each) &&
           bt_add_size(&sum, fixed, each);
}

static bool is_free(bt_extent at, bt_extent bytes, bt_place_item *const *busy, size_t n)
{
    if (!adds_up(at, bytes)) return false;
    const bt_extent end = end_of(at, bytes);
    for (size_t i = 0; i < n; i++)
        if (!bt_extent_le(end, busy[i]->offset) && !bt_extent_le(end_of(busy[i]->offset, busy[i]->bytes), at))
            return false;
    return true;
}

/* The lowest of 0 and the ends of what is alive too, or above all of them. busy is put in the order of
 * these ends. */
static bt_extent lowest(bt_extent bytes, bt_place_item **busy, size_t n)
{
    bt_extent at = {0, 0}, top = {0, 0};
    if (is_free(at, bytes, busy, n)) return at;
    qsort(busy, n, sizeof *busy, by_end);
    for (size_t i = 0; i < n; i++) {
        at = end_of(busy[i]->offset, busy[i]->bytes);
        if (is_free(at, bytes, busy, n)) return at;
        top = above(top, at);
    }
    return top;
}

static bool round_up(size_t *bytes)
{
    size_t up;
    if (!bt_add_size(&up, *bytes, BT_PLACE_ALIGN - 1)) return false;
    *bytes = up & ~(size_t)(BT_PLACE_ALIGN - 1);
    return true;
}

bt_err bt_place_items(bt_extent *ret, bt_place_item *item, size_t n, bt_fault *fault)
{
    bt_extent peak = {0, 0};
    bt_err e = BT_OK;
    bt_place_item **order = malloc((n + 1) * sizeof *order); /* as they are placed */
    bt_place_item **busy = malloc((n + 1) * sizeof *busy); /* those placed that live together with the next */
    life *lives = malloc((n + 1) * sizeof *lives);         /* of order's */
    if (!order || !busy || !lives) {
        e = bt_fail(fault, BT_ENOMEM, "planning memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        if (!round_up(&item[i].bytes.fixed) || !round_up(&item[i].bytes.each)) {
            e = bt_fail(fault, BT_ELIMIT, "a value of %zu + %zu N bytes does not fit memory",
                        item[i].bytes.fixed, item[i].bytes.each);
            goto out;
        }
        order[i] = &item[i];
    }
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++) {
        bt_place_item *new = order[i];
        size_t others = 0;
        lives[i] = (life){new->first, new->last};
        for (size_t j = 0; j < i; j++)
            if (live_together(lives[i], lives[j])) busy[others++] = order[j];
        new->offset = lowest(new->bytes, busy, others);
        if (!adds_up(new->offset, new->bytes)) {
            e = bt_fail(fault, BT_ELIMIT, "the arena of a program does not fit memory");
            goto out;
        }
        peak = above(peak, end_of(new->offset, new->bytes));
    }
    *ret = peak;
out:
    free(order);
    free(busy);
    free(lives);
    return e;
}
