#ifndef BT_NPU_INT_LINEAR_H
#define BT_NPU_INT_LINEAR_H
#include "kernels/kernels.h"

/* Linear layers in integers, tile by tile: a block of rows times a block of panels is accumulated on the
 * thread's own scratch and handed to the epilogue while it is still in the first cache. The NPU's: no float
 * arithmetic here; the epilogue is a call into another file. */
enum { BT_INT_LINEAR_ROWS = 48, BT_INT_LINEAR_PANELS = 8, BT_INT_LINEAR_COLS = 16 * BT_INT_LINEAR_PANELS };

/* What becomes of a tile: rows [row, row + rows), outputs [n, n + cols) of the matrix that ud names; acc has
 * BT_INT_LINEAR_COLS a row.
 *   tile8   sums of 8-bit inputs
 *   tile16  sums of the hi and lo planes: the value is 256 hi + lo
 *   row64   one row whose shadow was added; after its tile, which gave the same row without it */
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
    const bt_int_shadow *shadow;            /* [rows, k] */
} bt_int_linear_input;

/* Scratch of one thread, 64-byte aligned. max_k: of the matrices with 4 bits, 0 where there are none. */
size_t bt_int_linear_scratch_bytes(size_t max_k4bit);
/* The share of `part` of `parts` in a group of matrices over one input: their panels are one range. */
void bt_int_linear_part(const bt_kernels *kernels, const bt_int_linear_matrix *m, size_t group, const bt_int_linear_input *in,
                        const bt_int_linear_epilogue *epilogue, void *scratch, size_t part, size_t parts);
#endif
