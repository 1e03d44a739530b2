#ifndef BT_TEXT_MERGE_H
#define BT_TEXT_MERGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The engine under both kinds of vocabulary: a row of symbols whose best adjacent pair is joined again and again until
 * no pair is left. The best pair has the lowest rank; among equals it is the leftmost. n symbols take O(n log n) time:
 * pairs wait in a heap, and a pair that an earlier join has made void is dropped when it comes up. */
typedef struct bt_merge_symbol {
    uint32_t begin, len; /* bytes of the text; len 0: joined into an earlier symbol */
    uint32_t prev, next; /* indices; BT_MERGE_NONE at the ends */
    int32_t id;          /* the symbol's token, or -1 */
} bt_merge_symbol;

#define BT_MERGE_NONE UINT32_MAX

/* True if left and right join into token *ret_id, with rank *ret_rank. */
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
/* Adds a symbol at the end of the row: the len >= 1 bytes behind the last symbol. BT_ENOMEM. */
bt_err bt_merge_add(bt_merge *m, uint32_t len, int32_t id);
/* Joins all pairs that can join. What is left is symbol 0 and the symbols that `next` leads to from there. BT_ENOMEM.
 */
bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud);
#endif
