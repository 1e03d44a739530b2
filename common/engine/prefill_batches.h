#ifndef BT_ENGINE_PREFILL_BATCHES_H
#define BT_ENGINE_PREFILL_BATCHES_H
#include "engine/chunks.h"

/* A batch of prompts through a table of shapes: which of them take part in the next run, and in how many rows, as
 * chunks.h says it for one prompt. An engine runs one batch at a time. A run takes the prompts in their order; one that
 * has ended, or is cancelled, leaves at the next run. Bits are the same however prompts run.
 *
 *   in places where the table has shapes for batches. Prompts share a run where that computes no more rows than their
 *   next chunks would alone, padding and empty places included; else the first of them goes alone
 *   packed    else, where the engine can: one behind the other, in as many rows as each has tokens left, until the
 *             longest shape is full; the last may be cut there. The shape is the smallest that holds them all
 */
typedef struct bt_prefill_batches {
    bool is_packed;
    size_t most; /* prompts at once: the largest batch of prefill shapes; packed at most BT_PREFILL_BATCHES_PACKED */
    size_t *at;  /* [most]: tokens that are done, of each prompt */
    bt_chunk *chunk;       /* [most] */
    bt_shapes_left *left;  /* [most] */
    bt_overflow *overflow; /* [most]: of each prompt */
} bt_prefill_batches;
enum { BT_PREFILL_BATCHES_PACKED = 64 };
/* can_pack: the engine can. BT_ENOMEM. */
bt_err bt_prefill_batches_init(bt_prefill_batches *ret, const bt_shapes *shapes, bool can_pack, bt_fault *fault);
void bt_prefill_batches_done(bt_prefill_batches *t); /* zeros are fine */
/* Tokens of several prompts that one packed run holds; 0: they are not packed. */
size_t bt_prefill_batches_packed_rows(const bt_prefill_batches *t, const bt_shapes *shapes);

/* One run: `chunks` sequences in a shape of (batch, rows); packed, with batch 1, chunk i has chunk[i].valid of the
 * rows. Each chunk's out is LAST where its prompt ends, else NONE. BT_ELIMIT: there is no such program, and nothing was
 * computed. */
typedef bt_err bt_prefill_batches_fn(void *ud, size_t batch, size_t rows, const bt_chunk *chunk, size_t chunks,
                                     bt_fault *fault);
/* n prompts, 1 .. t->most; those whose result is BT_OK run, and result and fault say what became of each. */
void bt_prefill_batches_run(const bt_prefill_batches *t, const bt_shapes *shapes, bt_prefill_seq *seq, size_t n,
                            bt_prefill_batches_fn *fn, void *ud);

/* on_kv of an executor's run of several chunks: calls the hooks of each. ud: such a list. */
typedef struct bt_prefill_batches_list {
    const bt_chunk *chunk;
    size_t chunks;
} bt_prefill_batches_list;
void bt_prefill_batches_on_kv(void *ud, uint32_t layer);
#endif
