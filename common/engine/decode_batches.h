#ifndef BT_ENGINE_DECODE_BATCHES_H
#define BT_ENGINE_DECODE_BATCHES_H
#include "npu/pkg/pkg.h"
#include "npu/pkg/shapes.h"

/* The choice of a compiled batch for the next rows of a decode step: the programs that a package has for rows of one
 * token, as data. Pure. */
typedef struct bt_decode_batch {
    uint32_t batch, ctx; /* ctx: its compiled context */
} bt_decode_batch;
typedef struct bt_decode_batches {
    bt_decode_batch *of; /* [count], by batch, ascending */
    size_t count;
    size_t ctx_tokens; /* the longest of all */
} bt_decode_batches;

/* The batches of a package, of which only the tables may have been read (npu/pkg/pkg.h). BT_EARG: the package has no
 * row of one token; the words say what to compile. BT_ENOMEM. */
bt_err bt_decode_batches_of(bt_decode_batches *ret, const bt_pkg *pkg, bt_fault *fault);
void bt_decode_batches_done(bt_decode_batches *b); /* zeros are fine */

/* Whether a package of this policy would have a row of one token; BT_EARG as above. A profile may still refuse it
 * (npu/lower/probes.h). */
bt_err bt_decode_batches_check(const bt_shapes *shapes, bt_fault *fault);

/* The batch for the first of `left` >= 1 rows, which end at end[left] (position + 1, each at most ctx_tokens): the
 * smallest batch that holds all of them, else the largest; only batches whose ctx holds the ends of their rows. */
const bt_decode_batch *bt_decode_batches_next(const bt_decode_batches *b, const size_t *end, size_t left);
#endif
