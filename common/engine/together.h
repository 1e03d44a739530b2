#ifndef BT_ENGINE_TOGETHER_H
#define BT_ENGINE_TOGETHER_H
#include "engine/chunks.h"

/* Several prompts through a table of shapes with batches: which of them take part in the next run, in which batch and
 * in how many rows. As chunks.h for one prompt; the engine runs one such run at a time.
 *
 * A run takes the prompts in their order. They go together where that computes no more rows than their next chunks
 * would alone, padding and the batch's empty places included; else the first of them goes alone. A prompt that has
 * ended, or is cancelled, leaves at the next run. Bits are the same either way. */
typedef struct bt_together {
    size_t most;           /* prompts at once: the largest batch of prefill shapes */
    size_t *at;            /* [most]: tokens that are done, of each prompt */
    bt_chunk *chunk;       /* [most] */
    bt_shapes_left *left;  /* [most] */
    bt_overflow *overflow; /* [most]: of each prompt */
} bt_together;
bt_err bt_together_init(bt_together *ret, const bt_shapes *shapes, bt_fault *fault); /* BT_ENOMEM */
void bt_together_done(bt_together *t);                                               /* zeros are fine */

/* One run: `chunks` sequences in a shape of (batch, rows). Each chunk's out is LAST where its prompt ends, else NONE.
 * BT_ELIMIT: there is no such program, and nothing was computed. */
typedef bt_err bt_together_fn(void *ud, size_t batch, size_t rows, const bt_chunk *chunk, size_t chunks,
                              bt_fault *fault);
/* n prompts, 1 .. t->most; those whose result is BT_OK run, and result and fault say what became of each. */
void bt_together_run(const bt_together *t, const bt_shapes *shapes, bt_prefill_seq *seq, size_t n, bt_together_fn *fn,
                     void *ud);
#endif
