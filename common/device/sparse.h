#ifndef BT_DEVICE_SPARSE_H
#define BT_DEVICE_SPARSE_H
#include "device/heads.h"
#include "device/profile.h"

/* The time of sparse attention of a layer on a device (docs/numerics.md#sparse-attention), for the rows that choose
 * their positions. Pure integers, at most INT64_MAX. docs/device-time.md has the terms.
 *
 *   prepare    K of all positions and the choosing q, rotated and in 8 bits: on the companion, which reads 4 bytes an
 *              element and writes one; then the NPU waits for it (sync)
 *   estimate   of each head a product on the NPU, [choosing rows, head_dim] by [head_dim, columns], of 8 bits, with
 *              scores of 32; heads share a launch: op_launch, dispatch, and the companion's wait for it (sync)
 *   choose     the companion looks twice at each score that its row sees
 *   attend     where attention runs: the longer of 4 head_dim operations for each position kept, at the rate of
 *              BT_SPARSE_TILE_ROWS rows, and of reading K and V of the kept positions: a row that chooses alone reads
 *              its own, but BT_SPARSE_TILE_ROWS rows read no more than all positions; then softmax over them
 *
 * The last three overlap by the plan of device/heads.h. Heads that share a choice count as one there. */
enum { BT_SPARSE_TILE_ROWS = 16, BT_SPARSE_FUSED = 4 }; /* the most heads in a launch, as shadowAttn measured */

typedef struct bt_sparse {
    uint32_t heads, kv_heads, head_dim, kv_elem_bits; /* heads 0: attention is dense; 1 .. BT_HEADS_MAX */
    uint32_t dense_rows;                              /* rows below that position attend to all */
    uint32_t rows;                                    /* rows that share a choice */
    uint32_t is_group;                                /* 1: the heads of a kv head share one */
    uint32_t ppm[BT_HEADS_MAX];                       /* [heads]: the share of positions each keeps, in millionths */
} bt_sparse;

typedef struct bt_sparse_engines {
    const bt_profile *npu, *companion; /* both with times; the same where there is no companion */
    bt_schedule_engine attends;
} bt_sparse_engines;

typedef struct bt_sparse_cost {
    uint64_t ns, busy_ns[BT_SCHEDULE_ENGINES]; /* by engine; waiting for each other counts as the NPU's */
    uint64_t ops, bytes;                       /* operations, bytes of memory */
    uint64_t seen, kept;                       /* scores estimated; pairs of a row and a position attended to */
} bt_sparse_cost;
/* How many of rows [first, first + rows) attend densely: the first ones. */
uint64_t bt_sparse_dense(const bt_sparse *s, uint64_t first, uint64_t rows);
/* Rows [first, first + rows) of one layer, all of them sparse, rows >= 1. ctx: columns of a program that is static in
 * it; 0: as many as the rows see. plan: gets the plan of heads; may be NULL. */
bt_sparse_cost bt_sparse_layer(const bt_sparse *s, const bt_sparse_engines *e, uint64_t first, uint64_t rows,
                               uint64_t ctx, bt_heads_plan *plan);
#endif
