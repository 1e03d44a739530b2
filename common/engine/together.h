#ifndef BT_ENGINE_TOGETHER_H
#define BT_ENGINE_TOGETHER_H
#include "engine/chunks.h"

/* Several prompts through a table of shapes: which of them take part in the next run, and in how many rows. As chunks.h
 * for one prompt; the engine runs one such run at a time. A run takes the prompts in their order; one that has ended,
 * or is cancelled, leaves at the next run. Bits are the same however they run.
 *
 *   batches   where the table has them. Prompts go together where that computes no more rows than their next chunks
 *             would alone, padding and the batch's empty places included; else the first of them goes alone
 *   packed    else, where the engine can: one behind the other, in as many rows as each has tokens left, until the
 *             longest shape is full; the last may be cut there. The shape is the smallest that holds them all
 */
typedef struct bt_together {
    bool is_packed;
    size_t most;           /* prompts at once: the largest batch of prefill shapes; packed at most BT_TOGETHER_PACKED */
    size_t *at;            /* [most]: tokens that are done, of each prompt */
    bt_chunk *chunk;       /* [most] */
    bt_shapes_left *left;  /* [most] */
    bt_overflow *overflow; /* [most]: of each prompt */
} bt_together;
enum { BT_TOGETHER_PACKED = 64 };
/* can_pack: the engine can. BT_ENOMEM. */
bt_err bt_together_init(bt_together *ret, const bt_shapes *shapes, bool can_pack, bt_fault *fault);
void bt_together_done(bt_together *t); /* zeros are fine */
/* Tokens of several prompts that one packed run holds; 0: they are not packed. */
size_t bt_together_packed_rows(const bt_together *t, const bt_shapes *shapes);

/* One run: `chunks` sequences in a shape of (batch, rows); packed, with batch 1, chunk i has chunk[i].valid of the
 * rows. Each chunk's out is LAST where its prompt ends, else NONE. BT_ELIMIT: there is no such program, and nothing was
 * computed. */
typedef bt_err bt_together_fn(void *ud, size_t batch, size_t rows, const bt_chunk *chunk, size_t chunks,
                              bt_fault *fault);
/* n prompts, 1 .. t->most; those whose result is BT_OK run, and result and fault say what became of each. */
void bt_together_run(const bt_together *t, const bt_shapes *shapes, bt_prefill_seq *seq, size_t n, bt_together_fn *fn,
                     void *ud);

/* on_kv of an executor's run of several chunks: tells the hooks of each. ud: such a list. */
typedef struct bt_together_list {
    const bt_chunk *chunk;
    size_t chunks;
} bt_together_list;
void bt_together_on_kv(void *ud, uint32_t layer);
#endif
