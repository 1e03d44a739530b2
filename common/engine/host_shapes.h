#ifndef BT_ENGINE_HOST_SHAPES_H
#define BT_ENGINE_HOST_SHAPES_H
#include <stdint.h>
#include "base/err.h"
#include "graph/bind.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/shapes.h"

/* The specialization table of the float engine: static programs for (seq, ctx) rows, compiled before the first prompt.
 * Shapes and their ctx buckets are npu/pkg/shapes.h's. Each row has three endings: no logits, those of the last row,
 * those of all rows. All programs share one arena, as large as the largest peak. At run time a shape outside the table
 * is refused with the nearest legal row; nothing is compiled.
 *
 * A range, whose programs would take any number of rows, is compiled here for every multiple of 16 in it and for its
 * ends, at the largest bucket only: this executor's programs have a fixed number of rows. So a row serves from
 * seq_min to seq rows, padded to seq. */
typedef struct bt_host_shape {
    size_t seq_min, seq, ctx;
    bt_program *program[BT_PKG_OUTS]; /* by bt_pkg_out */
} bt_host_shape;

typedef struct bt_host_shapes {
    bt_host_shape *row;
    size_t rows; /* by seq, then ctx, ascending */
    size_t arena_bytes;
    uint64_t compilations; /* programs bound so far; constant after bt_host_shapes_new */
} bt_host_shapes;

/* graph is borrowed and outlives the table. */
bt_err bt_host_shapes_new(bt_host_shapes **ret, const bt_graph *graph, const bt_shapes *shapes, size_t ctx_tokens,
                          bt_fault *fault);
void bt_host_shapes_free(bt_host_shapes *p); /* NULL is fine */
/* The row that takes `seq` rows with the smallest ctx >= end_tokens. BT_ELIMIT otherwise, the fault naming the
 * nearest legal row. */
bt_err bt_host_shapes_find(const bt_host_shape **ret, const bt_host_shapes *p, size_t seq, size_t end_tokens,
                           bt_fault *fault);
#endif
