#ifndef BT_ENGINE_PROGRAMS_H
#define BT_ENGINE_PROGRAMS_H
#include <stdint.h>
#include "base/err.h"
#include "graph/bind.h"
#include "npu/pkg/shapes.h"

/* The specialization table of the float engine: static programs for (seq, ctx) rows, compiled before the first prompt. Shapes and
 * their ctx buckets are npu/pkg/shapes.h's. Each row has three endings: no logits, those of the last row, those of all rows. All
 * programs share one arena, as large as the largest peak. Run time refuses a shape that is not in the table and names the
 * nearest legal row; it never compiles one.
 *
 * A range, whose programs would take any number of rows, is compiled here for every multiple of 16 in it and for its ends, at the
 * largest bucket only: this executor's programs have a fixed number of rows. So a row serves from seq_min to seq rows, padded to seq. */
typedef enum bt_programs_out {
    BT_PROGRAMS_OUT_NONE, BT_PROGRAMS_OUT_LAST, BT_PROGRAMS_OUT_ALL, BT_PROGRAMS_OUTS,
} bt_programs_out;

typedef struct bt_programs_row { size_t seq_min, seq, ctx; bt_program *program[BT_PROGRAMS_OUTS]; } bt_programs_row;

typedef struct bt_programs {
    bt_programs_row *row; size_t rows;      /* by seq, then ctx, ascending */
    size_t arena_bytes, ctx_tokens;
    uint64_t compilations;                  /* programs bound so far; constant after bt_programs_new */
} bt_programs;

/* graph is borrowed and outlives the table. */
bt_err bt_programs_new(bt_programs **ret, const bt_graph *graph, const bt_shapes *plan, size_t ctx_tokens, bt_fault *fault);
void   bt_programs_free(bt_programs *p);    /* NULL is fine */
/* The row that takes `seq` rows with the smallest ctx >= end_tokens. BT_ELIMIT otherwise, the fault naming the nearest legal row. */
bt_err bt_programs_find(const bt_programs_row **ret, const bt_programs *p, size_t seq, size_t end_tokens,
                        bt_fault *fault);
#endif
