#ifndef BT_GRAPH_HOST_H
#define BT_GRAPH_HOST_H
#include <stdatomic.h>
#include "base/pool.h"
#include "graph/bind.h"
#include "graph/companion.h"
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "model/packed.h"

/* The float executor: a flat loop over the steps of a bound program, each a call into graph/companion.h. It
 * allocates nothing and decides no shape while it runs.
 *
 * Padding. A program has seq rows for each sequence; the first `valid` are real, the rest stand on the
 * right. Padding is computed like any row by the row-wise operators, but is not rotated, stored or attended
 * with, and no operator mixes rows, so nothing in it can reach a real row, KV or the logits. It enters as
 * rows filled with `pad`.
 *
 * Numbers. Rule of order: bits depend on no seq, batch, padding, chunk edge, thread or instruction set. */
typedef struct bt_host bt_host;
/* What the graph's ROTATE operators do: r1 those outside layers, r2 those inside. */
typedef struct bt_host_rotations { bt_companion_rotation r1, r2; } bt_host_rotations;
/* All borrowed, and outlive the executor, but rotations, which is copied (not what it points to); NULL for
 * graphs without ROTATE. pool may be NULL (one thread). One run at a time. */
bt_err bt_host_new(bt_host **ret, const bt_packed *packed, const bt_host_rotations *rotations, const bt_kernels *kernels,
                   bt_pool *pool, bt_fault *fault);
void   bt_host_free(bt_host *h);            /* NULL is fine */

typedef bt_companion_seq bt_host_seq;

typedef struct bt_host_io {
    const int32_t *ids;                     /* [batch, seq]; of each only the first valid ones are read */
    const bt_host_seq *seq;                 /* [batch]; they share no row that is written */
    float *logits;                          /* [batch, out, V] f32; where out = seq, rows of padding are
                                               not touched; NULL where out = 0 */
    float pad;                              /* any value, NaN too: it reaches nothing; 0 in normal use */
    /* Rows of `layer` are stored in every sequence; on the caller's thread, layers ascending. May be NULL. */
    void (*on_kv)(void *ud, uint32_t layer);
    void *on_kv_ud;
    const atomic_bool *cancel;              /* looked at before each layer; NULL: never */
    /* After each step, on the caller's thread: its rows (of all sequences, padding too) as they are in the arena, in
     * [rows, step->in_width[0]] and out [rows, step->out_width]; NULL for what is not in it. An in-place step has in == out.
     * For calibration; may be NULL. */
    void (*on_step)(void *ud, const bt_step *step, const float *in, const float *out, size_t rows);
    void *on_step_ud;
} bt_host_io;

/* arena: prog->arena.fixed bytes, 64-byte aligned. BT_EARG: a program whose batch is open, an id outside the vocabulary, a position beyond
 * the program's ctx, the view or the rotary tables, a ROTATE that `rotations` does not fit, nothing computed
 * then; BT_ECANCEL: KV rows of the first layers may have been written. */
bt_err bt_host_run(bt_host *h, const bt_program *prog, void *arena, const bt_host_io *io, bt_fault *fault);
#endif
