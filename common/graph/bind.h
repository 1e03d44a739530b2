#ifndef BT_GRAPH_BIND_H
#define BT_GRAPH_BIND_H
#include "graph/graph.h"
#include "graph/place.h"

/* Binding a graph: seq and out become numbers, batch too or it stays a symbol, ctx may stay one. The result is a
 * program: a flat list of steps with all widths resolved, and a memory plan. Nothing in it changes afterwards; one
 * program may be run by several threads at once over different arenas.
 *
 * Plan: a tensor lives from the first operator that names it to the last; tensors alive together never overlap.
 * Sizes and offsets are formulas (graph/place.h) of batch where it is open, numbers where it is bound (each = 0), and
 * multiples of 64 bytes at every batch: so one plan serves every batch and every context. No size depends on ctx. */
enum { BT_BIND_MAX_GROUP = 4 };

typedef struct bt_step {
    bt_op_kind kind;
    uint32_t layer; /* BT_GRAPH_NO_LAYER outside layers */
    bt_weight weight;
    uint32_t in[2], out; /* tensors of the graph, BT_GRAPH_NO_TENSOR where unused */
    uint32_t heads;
    uint32_t rotation; /* ROTATE: a bt_rotation */
    /* LINEAR, EXPERTS: this and the next group - 1 steps read one input and may run as one, in any order; else 1 */
    uint32_t group;
    bt_extent in_at[2], out_at; /* byte offsets in the arena; BT_BIND_NOWHERE for tensors outside it */
    size_t in_width[2], out_width;
    size_t rows; /* rows of one sequence in the output (SEQ or OUT, times the experts of a row) */
} bt_step;

static const bt_extent BT_BIND_NOWHERE = {SIZE_MAX, 0};
static inline bool bt_bind_is_nowhere(bt_extent at) { return at.fixed == SIZE_MAX; }

typedef struct bt_placement {
    uint32_t tensor, first_op, last_op;
    bt_extent offset, bytes;
} bt_placement;

typedef struct bt_program {
    const bt_graph *graph;  /* borrowed; outlives the program */
    size_t batch, seq, out; /* batch 0: symbolic */
    bool rotates;           /* has ROTATE steps */
    uint64_t ctx;           /* positions that attention may see; 0: symbolic, without a limit of its own */
    bt_step *step;
    size_t steps;
    bt_placement *place;
    size_t places;
    bt_extent arena; /* peak of the plan, multiples of 64 */
} bt_program;

/* seq >= 1; batch 0 leaves it a symbol; out 0, 1 or seq. out = 0 leaves the tail (last norm, output matrix) out.
 * BT_EARG; BT_ELIMIT where a size does not fit; BT_ENOMEM. */
bt_err bt_bind_program(bt_program **ret, const bt_graph *g, size_t batch, size_t seq, size_t out, uint64_t ctx,
                       bt_fault *fault);
void bt_bind_free(bt_program *p); /* NULL is fine */
/* The arena of a run with `batch` sequences; batch is the program's where the program's is bound. BT_ELIMIT. */
bt_err bt_bind_arena_bytes(size_t *ret, const bt_program *p, size_t batch, bt_fault *fault);
#endif
