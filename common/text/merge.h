#ifndef BT_TEXT_MERGE_H
#define BT_TEXT_MERGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The engine under both kinds of vocabulary: a row of symbols whose best adjacent pair is joined again and again until
 * no pair is left. The best pair has the lowest rank; among equals it is the leftmost. n symbols take O(n log n) time:
 * pairs wait in a queue, and a pair that an earlier join has made void is dropped when it comes up. The queue's latest
 * pairs are a heap that fits into a processor's first cache; a full heap becomes a sorted run, and the first pairs of
 * all runs are a heap again. */
typedef struct bt_merge_symbol {
    uint32_t begin, len; /* bytes of the text */
    int32_t id;          /* the symbol's token, or -1 */
} bt_merge_symbol;

/* True if left and right, which stands behind it, join into token *ret_id, with rank *ret_rank. */
typedef bool bt_merge_pair_fn(const void *ud, const char *text, const bt_merge_symbol *left,
                              const bt_merge_symbol *right, uint32_t *ret_rank, int32_t *ret_id);

typedef struct bt_merge_pair {
    uint64_t order; /* rank << 32 | where left begins */
    uint32_t len;   /* of both */
    int32_t id;
} bt_merge_pair;

/* The row has one of these for each byte. At a symbol's first byte: its length and token. At its last one, if that is
 * another: its length again, and BT_MERGE_INNER. */
enum { BT_MERGE_INNER = -2 };
typedef struct bt_merge_slot {
    uint32_t len;
    int32_t id;
} bt_merge_slot;

enum { BT_MERGE_RUN = 1024 }; /* pairs of a full heap, and so of a run */

/* The rest of a run: its pairs from `at` on, the first of which has this order. */
typedef struct bt_merge_head {
    uint64_t order;
    uint32_t run, at;
} bt_merge_head;

/* Scratch, kept from one row to the next. Zeroed is empty. */
typedef struct bt_merge {
    bt_merge_slot *slot;
    size_t len, slot_cap;
    bt_merge_pair *heap;
    size_t pairs, pair_cap;
    bt_merge_pair *run; /* BT_MERGE_RUN of each */
    size_t runs, run_cap;
    bt_merge_head *head; /* a heap */
    size_t heads, head_cap;
    uint32_t *empty; /* runs that may be filled again */
    size_t empties, empty_cap;
} bt_merge;

void bt_merge_done(bt_merge *m);
void bt_merge_clear(bt_merge *m);
/* Adds a symbol at the end of the row: the len >= 1 bytes behind the last symbol. BT_ENOMEM. */
bt_err bt_merge_add(bt_merge *m, uint32_t len, int32_t id);
/* Joins all pairs that can join. BT_ENOMEM. */
bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud);
/* The symbol that begins at byte `at` of the row; the next one begins at begin + len, until m->len. */
static inline bt_merge_symbol bt_merge_at(const bt_merge *m, uint32_t at)
{
    return (bt_merge_symbol){at, m->slot[at].len, m->slot[at].id};
}
#endif
