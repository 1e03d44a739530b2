/* First fit by falling size over items with lives, their sizes and offsets formulas of one symbol. Programs
 * have layers that repeat: there an item gets the offset of its likeness one layer before, where the same was
 * in its way.
 */
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

static bool is_equal(bt_extent a, bt_extent b) { return a.fixed == b.fixed && a.each == b.each; }

static int by_size(const void *a, const void *b)
{
    const bt_place_item *x = *(bt_place_item *const *)a, *y = *(bt_place_item *const *)b;
    const int order = compare(y->bytes, x->bytes);
    return order ? order : x < y ? -1 : x > y;
}

/* Fills order with all items by falling size, then by index. A program has few sizes, so items are counted by
 * size; more sizes than there is room for are sorted. */
static void order_by_size(bt_place_item **order, bt_place_item *item, size_t n)
{
    enum { MAX_SIZES = 64 };
    bt_place_item *first[MAX_SIZES];
    size_t count[MAX_SIZES], sizes = 0, done = 0;
    for (size_t i = 0; i < n && sizes < MAX_SIZES; i++) {
        size_t k = 0;
        while (k < sizes && !is_equal(first[k]->bytes, item[i].bytes)) k++;
        if (k < sizes) {
            count[k]++;
            continue;
        }
        for (k = sizes++; k && compare(first[k - 1]->bytes, item[i].bytes) < 0; k--) {
            first[k] = first[k - 1];
            count[k] = count[k - 1];
        }
        first[k] = &item[i];
        count[k] = 1;
    }
    if (sizes == MAX_SIZES) {
        for (size_t i = 0; i < n; i++) order[i] = &item[i];
        qsort(order, n, sizeof *order, by_size);
        return;
    }
    for (size_t k = 0; k < sizes; k++) {
        bt_place_item *at = first[k];
        for (size_t left = count[k]; left; at++)
            if (is_equal(at->bytes, first[k]->bytes)) {
                order[done++] = at;
                left--;
            }
    }
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
    uint32_t *leaf;       /* [n]: of each item, in the caller's order */
    uint64_t *past;       /* [2 * leaves]; past[1] is the root */
    size_t n, leaves;
} lives;

static bt_err lives_new(lives *ret, bt_place_item *item, size_t n, bt_fault *fault)
{
    bool in_order = true;
    *ret = (lives){.n = n, .leaves = 1};
    while (ret->leaves < n) ret->leaves *= 2;
    ret->item = malloc((n + 1) * sizeof(bt_place_item *));
    ret->leaf = malloc((n + 1) * sizeof *ret->leaf);
    ret->past = calloc(2 * ret->leaves, sizeof *ret->past);
    if (!ret->item || !ret->leaf || !ret->past)
        return bt_fail(fault, BT_ENOMEM, "out of memory planning memory");
    for (size_t i = 0; i < n; i++) {
        ret->item[i] = &item[i];
        in_order = in_order && (!i || item[i - 1].first <= item[i].first);
    }
    if (!in_order) qsort(ret->item, n, sizeof *ret->item, by_first);
    for (size_t i = 0; i < n; i++) ret->leaf[ret->item[i] - item] = (uint32_t)i;
    return BT_OK;
}

/* How many items have begun when `new` ends. */
static size_t begun(const lives *l, const bt_place_item *new)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (l->item[mid]->first <= new->last) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* i: the item's index in the caller's order. */
static void lives_add(lives *l, size_t i, const bt_place_item *new)
{
    size_t at = l->leaves + l->leaf[i];
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

/* ---- layers ---- */

/* Items that repeat: of items [begin, end) each lives `steps` steps after the one `period` items before it,
 * and is as large. Between the steps `from` and `to` what an item meets when it is placed repeats too: no
 * item outside the run begins or ends there. So only offsets can differ from those one period before. */
typedef struct run {
    size_t begin, end, period;
    uint32_t steps;
    size_t room;      /* items that live together are fewer than `room` items apart */
    int64_t from, to; /* both excluded */
    int32_t *near;    /* of each item of a period those placed before it that live together with it: their
                         distances */
    size_t *nears;    /* [period + 1]: where each item's distances begin */
} run;

enum { LEAST_PERIODS = 10, MAX_PERIOD = 512 };

static bool is_like(const bt_place_item *item, size_t i, size_t period, uint32_t steps)
{
    const bt_place_item *a = &item[i - period], *b = &item[i];
    return is_equal(a->bytes, b->bytes) && (uint64_t)a->first + steps == b->first &&
           (uint64_t)a->last + steps == b->last;
}

/* The longest run over the middle of all items; period 0: there is none that is worth it. */
static run find_run(const bt_place_item *item, size_t n)
{
    run best = {.period = 0};
    const size_t middle = n / 2;
    for (size_t p = 1; p <= MAX_PERIOD && p * LEAST_PERIODS <= n && best.end - best.begin <= n / 2; p++) {
        const uint32_t steps = item[middle].first - item[middle - p].first;
        if (!steps || !is_like(item, middle, p, steps)) continue;
        size_t begin = middle, end = middle + 1;
        while (begin > p && is_like(item, begin - 1, p, steps)) begin--;
        while (end < n && is_like(item, end, p, steps)) end++;
        begin -= p;
        if (end - begin >= LEAST_PERIODS * p && end - begin > best.end - best.begin)
            best = (run){.begin = begin, .end = end, .period = p, .steps = steps};
    }
    return best;
}

/* Finds out how far apart items live together, and between which steps those outside stay the same: one that
 * begins before the run and ends in its second half bounds it from above, where it lives all the time until
 * then. */
static void bound_run(run *r, const bt_place_item *item, size_t n)
{
    uint32_t life = 0, first = UINT32_MAX, last_first = 0;
    for (size_t i = r->begin; i < r->begin + r->period; i++) {
        if (item[i].last - item[i].first > life) life = item[i].last - item[i].first;
        if (item[i].first < first) first = item[i].first;
        if (item[i].first > last_first) last_first = item[i].first;
    }
    const uint32_t middle = item[r->begin + (r->end - r->begin) / 2].first;
    r->room = (((size_t)life + last_first - first) / r->steps + 2) * r->period;
    r->from = -1;
    r->to = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const bt_place_item *o = &item[i];
        const bool is_before = i < r->begin, stays = is_before && o->first <= first && o->last > middle;
        const int64_t end = stays ? o->last + INT64_C(1) : o->first;
        if (i >= r->begin && i < r->end) continue;
        if ((stays || !is_before) && end < r->to) r->to = end;
        if (is_before && !stays && o->last > r->from) r->from = o->last;
    }
}

static bool lives_with(const bt_place_item *a, const bt_place_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lists what each item of a period has around it, by the period in the middle of the run. false: memory is
 * out. */
static bool list_near(run *r, const bt_place_item *item)
{
    const size_t middle = r->begin + (r->end - r->begin) / r->period / 2 * r->period;
    size_t n = 0;
    r->near = malloc(r->period * 2 * r->room * sizeof *r->near);
    r->nears = malloc((r->period + 1) * sizeof *r->nears);
    if (!r->near || !r->nears) return false;
    for (size_t k = 0; k < r->period; k++) {
        const bt_place_item *of = &item[middle + k];
        r->nears[k] = n;
        for (const bt_place_item *i = of - r->room; i < of + r->room; i++) {
            const int order = compare(i->bytes, of->bytes);
            if (lives_with(i, of) && (order > 0 || (!order && i < of))) r->near[n++] = (int32_t)(i - of);
        }
    }
    r->nears[r->period] = n;
    return true;
}

static void run_done(run *r)
{
    free(r->near);
    free(r->nears);
}

static bt_err run_new(run *ret, const bt_place_item *item, size_t n, bt_fault *fault)
{
    *ret = find_run(item, n);
    if (!ret->period) return BT_OK;
    bound_run(ret, item, n);
    if (ret->room > (ret->end - ret->begin) / 4) ret->period = 0;
    if (!ret->period || list_near(ret, item)) return BT_OK;
    return bt_fail(fault, BT_ENOMEM, "out of memory planning memory");
}

/* Whether the item, the next to be placed, meets what the one a period before it met. */
static bool is_repeated(const run *r, const bt_place_item *item, size_t i)
{
    if (!r->period || i < r->begin + r->room + r->period || i + r->room > r->end) return false;
    if (item[i - r->period].first <= r->from || item[i].last >= r->to) return false;
    const size_t k = (i - r->begin) % r->period;
    for (size_t n = r->nears[k]; n < r->nears[k + 1]; n++) {
        const bt_place_item *near = &item[i] + r->near[n];
        if (!is_equal(near->offset, near[-(ptrdiff_t)r->period].offset)) return false;
    }
    return true;
}

/* ---- all ---- */

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
    run layers = {.period = 0};
    if (!order || !busy) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory planning memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        if (!round_up(&item[i].bytes.fixed) || !round_up(&item[i].bytes.each)) {
            e = bt_fail(fault, BT_ELIMIT, "a value of %zu + %zu N bytes does not fit memory",
                        item[i].bytes.fixed, item[i].bytes.each);
            goto out;
        }
    if ((e = lives_new(&placed, item, n, fault)) < 0 || (e = run_new(&layers, item, n, fault)) < 0) goto out;
    order_by_size(order, item, n);
    for (size_t i = 0; i < n; i++) {
        bt_place_item *new = order[i];
        const size_t at = (size_t)(new - item);
        if (is_repeated(&layers, item, at)) {
            new->offset = new[-(ptrdiff_t)layers.period].offset;
        } else {
            const size_t others =
                gather(&placed, busy, 0, 1, 0, placed.leaves, new->first, begun(&placed, new));
            new->offset = lowest(new->bytes, busy, others);
        }
        if (!adds_up(new->offset, new->bytes)) {
            e = bt_fail(fault, BT_ELIMIT, "the arena of a program does not fit memory");
            goto out;
        }
        lives_add(&placed, at, new);
        peak = above(peak, end_of(new->offset, new->bytes));
    }
    *ret = peak;
out:
    free(order);
    free(busy);
    free(placed.item);
    free(placed.leaf);
    free(placed.past);
    run_done(&layers);
    return e;
}
