#ifndef BT_GRAPH_BIND_H
#define BT_GRAPH_BIND_H
#include "graph/graph.h"

/* Binding a graph: seq, batch and out become numbers, ctx may stay a symbol. The result is a static
 * program: a flat list of steps with all sizes resolved, and a memory plan. Nothing in it changes
 * afterwards; one program may be run by several threads at once over different arenas.
 *
 * Plan: a tensor lives from the first operator that names it to the last; tensors alive together never
 * overlap. Offsets are multiples of 64 bytes. Tensors are placed by falling size, then by index, each at
 * the lowest offset that is free while it lives: the same graph and binding give the same plan on every
 * machine. */
enum { BT_BIND_MAX_GROUP = 4 };

typedef struct bt_step {
    bt_op_kind kind;
    uint32_t layer;                         /* BT_GRAPH_NO_LAYER outside layers */
    bt_weight weight;
    uint32_t in[2], out;                    /* tensors of the graph, BT_GRAPH_NO_TENSOR where unused */
    uint32_t heads;
    uint32_t group;                         /* LINEAR: this and the next group - 1 steps read one input and may run
                                               as one, in any order; else 1 */
    size_t   in_at[2], out_at;              /* byte offsets in the arena; SIZE_MAX for what is not in it */
    size_t   in_width[2], out_width;
    size_t   rows;                          /* rows of one sequence in the output (SEQ or OUT) */
} bt_step;

typedef struct bt_placement { uint32_t tensor, first_op, last_op; size_t offset, bytes; } bt_placement;

typedef struct bt_program {
    const bt_graph *graph;                  /* borrowed; outlives the program */
    size_t batch, seq, out;
    uint64_t ctx;                           /* positions it may see; 0: symbolic, no limit of its own */
    bt_step *step; size_t steps;
    bt_placement *place; size_t places;
    size_t arena_bytes;                     /* peak of the plan, a multiple of 64 */
} bt_program;

/* seq >= 1, batch >= 1, out 0, 1 or seq. out = 0 leaves the tail (last norm, output matrix) out. BT_EARG;
 * BT_ELIMIT where a size does not fit; BT_ENOMEM. */
bt_err bt_bind_program(bt_program **ret, const bt_graph *g, size_t batch, size_t seq, size_t out, uint64_t ctx,
                       bt_fault *fault);
void   bt_bind_free(bt_program *p);         /* NULL is fine */
#endif
