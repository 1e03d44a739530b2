#ifndef BT_GRAPH_WALK_H
#define BT_GRAPH_WALK_H
#include <stdatomic.h>
#include "base/pool.h"
#include "graph/bind.h"
#include "graph/companion.h"
#include "kernels/kernels.h"
#include "model/weights.h"

/* The float executor: it walks the steps of a bound program, each a call into graph/companion.h. Prompts, decode steps
 * and the compiler's calibration all go through it. It allocates nothing and decides no shape while it runs, and it
 * asks for one layer's weights at a time.
 *
 * Padding. A program has seq rows for each sequence; the first `valid` are real, the rest stand on the right. Row-wise
 * operators compute padding like any row, but padding is not rotated, stored or attended to, and no operator mixes
 * rows: none of its values reaches a real row, KV or the logits. Padding enters as rows filled with `pad`.
 *
 * Numbers. Rule of order: bits depend on no seq, batch, padding, chunk edge, thread or instruction set. */
typedef struct bt_walk bt_walk;
/* Everything is borrowed and outlives the walk, except rotations, whose struct is copied. */
typedef struct bt_walk_config {
    const bt_weights *weights;
    const bt_companion_rotations *rotations; /* of ROTATE; NULL: for graphs without it */
    const bt_kernels *kernels;
    bt_pool *pool;        /* NULL: one thread */
    size_t sequences_max; /* the usual number in one run, for attention's memory. With FP4 weights no run has more rows
                           */
    size_t ctx_tokens;    /* the longest sequence; 0: as far as the weights' rotary tables go */
} bt_walk_config;
bt_err bt_walk_new(bt_walk **ret, const bt_walk_config *config, bt_fault *fault);
void bt_walk_free(bt_walk *w); /* NULL is fine */

typedef struct bt_walk_io {
    const int32_t *ids;           /* [sequences, seq]; of each sequence only the valid ids are read */
    const bt_companion_seq *seq;  /* [sequences]; sequences share no row that is written */
    bt_overflow *const *overflow; /* [sequences], as in bt_companion_rows */
    size_t sequences;             /* 1..; the program's batch where that is bound, and then bucket too */
    size_t bucket;                /* the batch whose memory plan is taken, at least sequences */
    /* Steps [step_begin, step_end) of the program, cut where the layer changes; the arena holds what earlier steps have
     * left in it. 0, 0: all steps. */
    size_t step_begin, step_end;
    /* The sequences that give logits, ascending, in a program with seq 1. Without any, the program ends before its last
     * norm. NULL: all sequences. */
    const uint32_t *wanted;
    size_t wanted_len;
    float *logits; /* [sequences with logits, out, V] f32; where out = seq, rows of padding are not touched; NULL
                      without logits */
    float pad;     /* any value, even NaN: it reaches no result; 0 in normal use */
    /* Rows of `layer` are stored in every sequence; on the caller's thread, layers ascending. May be NULL. */
    void (*on_kv)(void *ud, uint32_t layer);
    void *on_kv_ud;
    const atomic_bool *cancel; /* looked at before each layer; NULL: never */
    /* After each step, on the caller's thread: its rows (of all sequences, padding too; of its output) in the arena, in
     * [rows, step->in_width[0]] and out [rows, step->out_width]; NULL for tensors outside the arena. The in of ROUTE's
     * followers may have another number of rows. An in-place step has in
     * == out. For calibration; may be NULL. */
    void (*on_step)(void *ud, const bt_step *step, const float *in, const float *out, size_t rows);
    void *on_step_ud;
} bt_walk_io;

/* arena: bt_bind_arena_bytes of the bucket, 64-byte aligned. BT_EARG: sequences that are not the program's, an id
 * outside the vocabulary, a position beyond the program's ctx, the view or the rotary tables, a ROTATE that `rotations`
 * does not fit; nothing is computed then. BT_ECANCEL: KV rows of the first layers may have been written. One run at
 * a time. */
bt_err bt_walk_run(bt_walk *w, const bt_program *prog, void *arena, const bt_walk_io *io, bt_fault *fault);
uint64_t bt_walk_kv_bytes(const bt_walk *w); /* of all rows stored so far */
/* Bytes of experts' matrices that all runs so far have read beyond those of one row for each run (model/weights.h). */
uint64_t bt_walk_more_bytes(const bt_walk *w);
#endif
