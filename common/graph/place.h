#ifndef BT_GRAPH_PLACE_H
#define BT_GRAPH_PLACE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Memory plans, static or for every value of one open symbol N >= 1 at once. An item lives from step `first` to step
 * `last`; items alive together never overlap, at any N. They are placed by falling size, then by index, each at the
 * lowest offset that is free while it lives: the same items give the same plan on every machine. */
enum { BT_PLACE_ALIGN = 64 };

/* fixed + each * N bytes: a formula; static where each is 0. */
typedef struct bt_extent {
    size_t fixed, each;
} bt_extent;
static inline size_t bt_extent_at(bt_extent e, size_t n) { return e.fixed + e.each * n; }
/* a <= b at every N >= 1: where neither a <= b nor b <= a holds, the two cannot be compared. */
static inline bool bt_extent_le(bt_extent a, bt_extent b)
{
    return a.each <= b.each && a.fixed + a.each <= b.fixed + b.each;
}

typedef struct bt_place_item {
    bt_extent bytes;
    uint32_t first, last;
    bt_extent offset;
} bt_place_item;

/* Rounds both parts of every size up to BT_PLACE_ALIGN and sets every offset, aligned at every N; *ret is the peak. Two
 * items share memory only where one's end <= the other's offset by bt_extent_le; where no offset can be proved free, an
 * item goes above all. "Lowest" is least in `each`, then in `fixed`; sizes fall in that order too.
 * BT_ELIMIT when it does not fit size_t at N = 1; the caller checks the peak at its own N. BT_ENOMEM. */
bt_err bt_place_items(bt_extent *ret, bt_place_item *item, size_t n, bt_fault *fault);
#endif
