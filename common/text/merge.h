#ifndef BT_TEXT_MERGE_H
#define BT_TEXT_MERGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The engine under both kinds of vocabulary: a row of symbols whose best adjacent pair is joined again and again until
 * no pair is left. The best pair has the lowest rank; among equals it is the leftmost. n symbols take O(n log n) time.
 *
 * Only pairs that are better than both of their neighbours wait in the queue: no other can be the best one. In a row of
 * one character that is one pair, whatever its length; in no row it is more than half of all. */
typedef struct bt_merge_symbol {
    uint32_t begin, len; /* bytes of the text */
    int32_t id;          /* the symbol's token, or -1 */
} bt_merge_symbol;

/* True if left and right, which stands behind it, join into token *ret_id >= 0, with rank *ret_rank. */
typedef bool bt_merge_pair_fn(const void *ud, const char *text, const bt_merge_symbol *left,
                              const bt_merge_symbol *right, uint32_t *ret_rank, int32_t *ret_id);

/* The row has one of these for each byte. At a symbol's first byte: its length and token, and what it makes with the
 * symbol behind it. At its last one, if that is another: its length again, and BT_MERGE_INNER. */
enum { BT_MERGE_INNER = -2, BT_MERGE_MAX_BYTES = 2047, BT_MERGE_MAX_IDS = 1 << 20 };
typedef struct bt_merge_slot {
    uint32_t len : 11;
    int32_t id : 21;
    int32_t join; /* token of the pair, -1: it does not join */
    uint32_t rank;
} bt_merge_slot;

/* Scratch, kept from one row to the next. Zeroed is empty. */
typedef struct bt_merge {
    bt_merge_slot *slot;
    size_t len, slot_cap;
    uint64_t *heap; /* rank << 32 | where left begins; void where that pair has another rank */
    size_t pairs, pair_cap;
} bt_merge;

void bt_merge_done(bt_merge *m);
void bt_merge_clear(bt_merge *m);
/* Adds a symbol at the end of the row: the 1 <= len <= BT_MERGE_MAX_BYTES bytes behind the last symbol; id <
 * BT_MERGE_MAX_IDS, and so are those that pairs join into. BT_ENOMEM. */
bt_err bt_merge_add(bt_merge *m, uint32_t len, int32_t id);
/* Joins all pairs that can join. BT_ENOMEM. */
bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud);
/* The symbol that begins at byte `at` of the row; the next one begins at begin + len, until m->len. */
static inline bt_merge_symbol bt_merge_at(const bt_merge *m, uint32_t at)
{
    return (bt_merge_symbol){at, m->slot[at].len, m->slot[at].id};
}
#endif
