#ifndef BT_DEVICE_SPLIT_H
#define BT_DEVICE_SPLIT_H
#include "device/time.h"

/* One matrix product over two engines of a chip at once, after HeteroLLM (arXiv 2501.14794): the part of each engine,
 * and the time. Pure integer nanoseconds, at most INT64_MAX.
 *
 *   npu, companion       one engine computes all
 *   weight-centric       the outputs are divided: each engine reads its part of the weights
 *   activation-centric   the rows are divided: the NPU takes whole programs of them, the companion the rest
 *   hybrid               both: the NPU computes some outputs of its rows, the companion all the rest
 *
 *   t = max(t_npu, t_companion, bytes of both / shared_bytes_per_us) + sync + copy
 *
 * t_npu and t_companion are bt_time_of_matrix of each one's part, two launches for the companion where its part is two
 * rectangles. Both read the same memory: together at most shared_bytes_per_us of the NPU's profile. sync is
 * bt_time_sync, once; copy is the companion's output, by the NPU's boundary_bytes_per_us. The NPU alone pays neither.
 *
 * The solver tries every cut at whole tiles: outputs in steps of tile_cols, and as rows of the NPU the largest multiple
 * of tile_input_rows and its powers of two, which are the lengths that programs are compiled for. Among equal times the
 * first in the order above wins. Time: outputs / tile_cols x log2(rows). */
typedef enum bt_split_way {
    BT_SPLIT_NPU,
    BT_SPLIT_COMPANION,
    BT_SPLIT_OUTPUTS,
    BT_SPLIT_ROWS,
    BT_SPLIT_BOTH,
    BT_SPLIT_WAYS
} bt_split_way;
#define BT_SPLIT_NAMES "npu", "companion", "weight-centric", "activation-centric", "hybrid" /* by bt_split_way */

typedef struct bt_split {
    bt_split_way way;
    uint64_t rows, outputs;        /* the NPU's: rows [0, rows) of outputs [0, outputs); the companion's: all others */
    uint64_t npu_ns, companion_ns; /* each engine's work; 0: none */
    uint64_t memory_ns;            /* the bytes of both at their common rate */
    uint64_t join_ns;              /* sync and copy */
    uint64_t ns;                   /* the whole operator */
} bt_split;
/* Both profiles have times. m: at least a row, an input and an output. */
bt_split bt_split_solve(const bt_profile *npu, const bt_profile *companion, const bt_time_matrix *m);
/* The times of one cut. rows <= m->rows, outputs <= m->outputs, both 0 or neither. */
bt_split bt_split_at(const bt_profile *npu, const bt_profile *companion, const bt_time_matrix *m, uint64_t rows,
                     uint64_t outputs);
#endif
