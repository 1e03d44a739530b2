#ifndef BT_NPU_INT_LINEAR_H
#define BT_NPU_INT_LINEAR_H
#include "base/pool.h"
#include "kernels/kernels.h"

#include <stdbool.h>

/* Linear layers in integers: inputs are prepared once, then threads take panels; all rows (up to 256 at a time) times a batch of
 * panels are accumulated in the thread's own scratch and handed to the epilogue from there, tile by tile. The NPU's: no float
 * arithmetic here; the epilogue is a call into another file. */
enum { BT_INT_LINEAR_ROWS = 48, BT_INT_LINEAR_PANELS = 8, BT_INT_LINEAR_COLS = 16 * BT_INT_LINEAR_PANELS };

/* What becomes of a tile: rows [row, row + rows), outputs [n, n + cols) of the matrix that ud names; acc has
 * BT_INT_LINEAR_COLS a row.
 *   tile8   sums of 8-bit inputs
 *   tile16  sums of the hi and lo planes: the value is 256 hi + lo
 *   row64   one row whose shadow the product left and which was added in 64 bits; the tile is handed on without it
 * Each sum is handed on once. */
typedef struct bt_int_linear_epilogue {
    void (*tile8)(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *acc);
    void (*tile16)(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi, const int32_t *lo);
    void (*row64)(const void *ud, size_t row, size_t n, size_t cols, const int64_t *acc);
} bt_int_linear_epilogue;

typedef struct bt_int_linear_matrix {
    const uint8_t *panels;                  /* bt_int_panel_bytes(k, bits) each */
    const int32_t *colsum;
    size_t n;
    unsigned bits;                          /* 8 or 4 */
    const void *ud;                         /* for the epilogue */
} bt_int_linear_matrix;

typedef struct bt_int_linear_input {
    const int8_t *hi, *lo;                  /* [rows, ld]; lo NULL: 8 bits */
    size_t ld, rows, k;
    const uint32_t *shadow_count;           /* [rows]; NULL: no shadow */
    const bt_int_shadow *shadow;            /* [rows, k], k ascending */
} bt_int_linear_input;

/* A group of matrices over one input. begin; then a run of a pool in which every part calls prepare, then one in which every part
 * calls part. Each takes pieces of work until none is left.
 * paired: two matrices of the same n, of whose outputs the second's epilogue may use the first's: every tile of the
 * second comes on the same thread directly after the first's of the same rows, n and cols (and after its row64), while what the
 * first's epilogue wrote is in that core's caches. */
typedef struct bt_int_linear {
    const bt_kernels *kernels;
    const bt_int_linear_matrix *m;          /* [group] */
    size_t group;
    bool paired;
    const bt_int_linear_input *in;
    const bt_int_linear_epilogue *epilogue;
    void *prepared;                         /* bt_int_linear_prepared_bytes, 64-byte aligned */
    bt_int_inputs inputs;                   /* begin's, as what follows */
    bool *is_left;                          /* [rows]: the product goes without the shadow */
    size_t wide_pieces;                     /* the first ones, of several units each; the others have one */
    bt_pool_range rows, pieces;
} bt_int_linear;

/* Inputs of rows x k, prepared. */
size_t bt_int_linear_prepared_bytes(size_t rows, size_t k, bool is_wide);
/* Scratch of one thread, 64-byte aligned. max_k: of the matrices with 4 bits, 0 where there are none. */
size_t bt_int_linear_scratch_bytes(size_t max_k4bit);
void   bt_int_linear_begin(bt_int_linear *l, size_t threads);
void   bt_int_linear_prepare(bt_int_linear *l);
void   bt_int_linear_part(bt_int_linear *l, void *scratch);
#endif
