#ifndef BT_TEXT_MERGE_H
#define BT_TEXT_MERGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The engine under both kinds of vocabulary: a row of symbols, of which the best adjacent pair is joined
 * again and again until none can be. Best is the lowest rank, leftmost first. n symbols take O(n log n)
 * time: pairs wait in a heap, and those that a join has made void are dropped when they come up. */
typedef struct bt_merge_symbol {
    uint32_t begin, len; /* bytes of the text; len 0: joined into the one before */
    uint32_t prev, next; /* indices; BT_MERGE_NONE at the ends */
    int32_t id;          /* the token it is, or -1 */
} bt_merge_symbol;

#define BT_MERGE_NONE UINT32_MAX

/* True if left and right join: to *ret_id, with *ret_rank. */
typedef bool bt_merge_pair_fn(const void *ud, const char *text, const bt_merge_symbol *left,
                              const bt_merge_symbol *right, uint32_t *ret_rank, int32_t *ret_id);

typedef struct bt_merge_pair {
    uint64_t order;
    uint32_t len;
    int32_t id;
} bt_merge_pair;

/* Scratch, kept from one row to the next. Zeroed is empty. */
typedef struct bt_merge {
    bt_merge_symbol *symbol;
    size_t symbols, symbol_cap;
    bt_merge_pair *heap;
    size_t pairs, pair_cap;
} bt_merge;

void bt_merge_done(bt_merge *m);
void bt_merge_clear(bt_merge *m);
/* Adds a symbol at the end of the row: the len >= 1 bytes that follow the one before. BT_ENOMEM. */
bt_err bt_merge_add(bt_merge *m, uint32_t len, int32_t id);
/* Joins all that can be. Afterwards symbol 0, and `next` from there, are what is left. BT_ENOMEM. */
bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud);
#endif
