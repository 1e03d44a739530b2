#ifndef BT_NPU_INT_LINEAR_H
#define BT_NPU_INT_LINEAR_H
#include "base/pool.h"
#include "kernels/kernels.h"

#include <stdbool.h>

/* Linears in integers. The inputs are prepared once; then threads take panels of outputs. A thread sums up to 256
 * rows times a batch of panels in its own scratch, and hands the sums to an epilogue tile by tile. This is the NPU's
 * part and has no float arithmetic; the epilogue is a call into another file. A tile has at most ROWS rows and COLS
 * outputs. */
enum { BT_INT_LINEAR_ROWS = 48, BT_INT_LINEAR_PANELS = 8, BT_INT_LINEAR_COLS = 16 * BT_INT_LINEAR_PANELS };

/* The epilogue's input: rows [row, row + rows), outputs [n, n + cols) of the matrix that ud names. Row r of the sums
 * begins at r * BT_INT_LINEAR_COLS. The epilogue may overwrite the sums.
 *
 *   tile8   sums of 8-bit inputs
 *   tile16  sums of the hi and lo planes: the value is 256 hi + lo
 *   row64   one row in 64 bits, which the tile then leaves out: a row whose shadow was left out of the product and
 *           added in 64 bits, and every row where weights have groups
 *
 * Each sum is handed on once. */
typedef struct bt_int_linear_epilogue {
    void (*tile8)(const void *ud, size_t row, size_t rows, size_t n, size_t cols, int32_t *acc);
    void (*tile16)(const void *ud, size_t row, size_t rows, size_t n, size_t cols, const int32_t *hi,
                   const int32_t *lo);
    void (*row64)(const void *ud, size_t row, size_t n, size_t cols, int64_t *acc);
} bt_int_linear_epilogue;

typedef struct bt_int_linear_matrix {
    const uint8_t *panels; /* bt_int_panel_bytes(k, bits) each */
    const int32_t *colsum; /* with groups: sums of low planes */
    size_t n;
    unsigned bits;          /* 8 or 4; with palettes 4 or 6 */
    const int8_t *palettes; /* one for palette_run inputs (int_kernels.h); NULL: no palettes */
    size_t palette_run;
    size_t group;               /* inputs that share a step and an offset (int_kernels.h); 0: no groups */
    const bt_int_group *groups; /* with groups: steps and offsets */
    const int32_t *colsum_high; /* with groups: sums of high planes */
    const void *ud;             /* for the epilogue */
} bt_int_linear_matrix;

typedef struct bt_int_linear_input {
    const int8_t *hi, *lo; /* [rows, ld]; lo NULL: 8 bits */
    size_t ld, rows, k;
    const uint32_t *shadow_count; /* [rows]; NULL: no shadow */
    const bt_int_shadow *shadow;  /* [rows, k], k ascending */
} bt_int_linear_input;

/* A group of matrices over one input. Call begin; then prepare on every thread; when all have returned, part on every
 * thread. prepare and part take pieces of the work until none is left. paired: two matrices of the same n, where the
 * second's epilogue uses what the first's made. A tile of the second then comes directly after the first's tile of the
 * same rows and outputs (and its row64), on the same thread, while the first epilogue's output is in that core's
 * caches. */
typedef struct bt_int_linear {
    const bt_kernels *kernels;
    const bt_int_linear_matrix *m; /* [group] */
    size_t group;
    bool paired;
    const bt_int_linear_input *in;
    const bt_int_linear_epilogue *epilogue;
    void *prepared; /* bt_int_linear_prepared_bytes, 64-byte aligned */
    /* begin sets the rest. */
    bt_int_inputs inputs;
    bool *is_left;      /* [rows]: the product leaves the row's shadow out; it is added in 64 bits */
    size_t wide_pieces; /* so many first pieces have several units of work each, the others one */
    bt_pool_range rows, pieces;
} bt_int_linear;

/* Bytes of prepared inputs of rows x k; is_wide: inputs of 16 bits. */
size_t bt_int_linear_prepared_bytes(size_t rows, size_t k, bool is_wide);
/* Scratch bytes of one thread, 64-byte aligned. max_k: the longest k of a matrix whose panels are unpacked, which is
 * every matrix but those of 8 bits alone; 0: there is none. */
size_t bt_int_linear_scratch_bytes(size_t max_k);
void bt_int_linear_begin(bt_int_linear *l, size_t threads);
void bt_int_linear_prepare(bt_int_linear *l);
void bt_int_linear_part(bt_int_linear *l, void *scratch);
#endif
