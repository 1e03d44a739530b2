/* First fit by falling size over items with lives, their sizes and offsets formulas of one symbol. */
#include "graph/place.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

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

static int by_first(const void *a, const void *b)
{
    const bt_place_item *x = *(bt_place_item *const *)a, *y = *(bt_place_item *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x < y ? -1 : x > y;
}

/* All items by their first step, under a tree of last steps: the leaf past[leaves + i] is the step behind the
 * last one of item[i], or 0 until that item is placed; each node above holds the larger of its two. So the
 * placed items that live together with a new one are found without a look at the others. */
typedef struct lives {
    bt_place_item **item; /* [n] */
    uint64_t *past;       /* [2 * leaves]; past[1] is the root */
    size_t n, leaves;
} lives;

static bt_err lives_new(lives *ret, bt_place_item *const *order, size_t n, bt_fault *fault)
{
    *ret = (lives){.n = n, .leaves = 1};
    while (ret->leaves < n) ret->leaves *= 2;
    ret->item = malloc((n + 1) * sizeof(bt_place_item *));
    ret->past = calloc(2 * ret->leaves, sizeof *ret->past);
    if (!ret->item || !ret->past) return bt_fail(fault, BT_ENOMEM, "out of memory planning memory");
    memcpy(ret->item, order, n * sizeof(bt_place_item *));
    qsort(ret->item, n, sizeof *ret->item, by_first);
    return BT_OK;
}

/* How many items stand before `new`, which may be among them; with those that begin as it ends, too. */
static size_t rank(const lives *l, bt_place_item *new, bool as_it_ends)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const bool before = as_it_ends ? l->item[mid]->first <= new->last : by_first(&l->item[mid], &new) < 0;
        if (before) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static void lives_add(lives *l, bt_place_item *new)
{
    size_t at = l->leaves + rank(l, new, false);
    for (; at && l->past[at] <= new->last; at /= 2) l->past[at] = (uint64_t) new->last + 1;
}

/* Node `at` has the leaves [from, from + width). Adds to busy[n] the items of those leaves that live at step
 * `first` or later and stand before leaf `end`. Returns how many items busy holds then. */
static size_t gather(const lives *l, bt_place_item **busy, size_t n, size_t at, size_t from, size_t width,
                     uint32_t first, size_t end)
{
    if (from >= end || l->past[at] <= first) return n;
    if (width == 1) {
        busy[n] = l->item[from];
        return n + 1;
    }
    n = gather(l, busy, n, 2 * at, from, width / 2, first, end);
    return gather(l, busy, n, 2 * at + 1, from + width / 2, width / 2, first, end);
}

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

/* *in_the_way: an item of busy that is looked at first, because what was in the way of the last offset mostly
 * is in the way of the next one; set where the answer is false. */
static bool is_free(bt_extent at, bt_extent bytes, bt_place_item *const *busy, size_t n, size_t *in_the_way)
{
    if (!adds_up(at, bytes)) return false;
    const bt_extent end = end_of(at, bytes);
    for (size_t k = 0; k <= n && n; k++) {
        const size_t i = k ? k - 1 : *in_the_way;
        if (bt_extent_le(end, busy[i]->offset)) continue;
        if (bt_extent_le(end_of(busy[i]->offset, busy[i]->bytes), at)) continue;
        *in_the_way = i;
        return false;
    }
    return true;
}

/* The lowest of 0 and the ends of what is alive too, or above all of them. busy is put in the order of
 * these ends. */
static bt_extent lowest(bt_extent bytes, bt_place_item **busy, size_t n)
{
    bt_extent at = {0, 0}, top = {0, 0};
    size_t in_the_way = 0;
    if (is_free(at, bytes, busy, n, &in_the_way)) return at;
    qsort(busy, n, sizeof *busy, by_end);
    for (size_t i = 0; i < n; i++) {
        at = end_of(busy[i]->offset, busy[i]->bytes);
        if (is_free(at, bytes, busy, n, &in_the_way)) return at;
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
    lives placed = {0};
    if (!order || !busy) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory planning memory");
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
    if ((e = lives_new(&placed, order, n, fault)) < 0) goto out;
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++) {
        bt_place_item *new = order[i];
        const size_t end = rank(&placed, new, true);
        const size_t others = gather(&placed, busy, 0, 1, 0, placed.leaves, new->first, end);
        new->offset = lowest(new->bytes, busy, others);
        if (!adds_up(new->offset, new->bytes)) {
            e = bt_fail(fault, BT_ELIMIT, "the arena of a program does not fit memory");
            goto out;
        }
        lives_add(&placed, new);
        peak = above(peak, end_of(new->offset, new->bytes));
    }
    *ret = peak;
out:
    free(order);
    free(busy);
    free(placed.item);
    free(placed.past);
    return e;
}
