#ifndef BT_NPU_PKG_LAYOUT_H
#define BT_NPU_PKG_LAYOUT_H
#include <stdbool.h>
#include <stdint.h>
#include "npu/pkg/pkg_ops.h"

/* The effects of a package's layout (bt_pkg_layout, from the device's profile) on rows, attention, the output matrix
 * and tiles. The compiler lowers by it, the check compares programs with it, and the executor finds slices and parts by
 * it. Pure. Limits: elements of a row < 2^21, rows < 2^21. With a layout of zeros nothing is rounded or split. */

/* Bytes from one row to the next, rounded up to last_axis_align_bytes: of `elems` elements of elem_bytes each, and of a
 * plane of s8, which is a multiple of 64 too. */
uint32_t bt_pkg_layout_stride(const bt_pkg_layout *l, uint64_t elems, uint32_t elem_bytes);
uint32_t bt_pkg_layout_plane_stride(const bt_pkg_layout *l, uint64_t elems);

/* ---- attention in slices ----
 * A slice is a block of query_slice_rows rows by a block of attention_heads_max query heads; the last block of each
 * kind may be shorter. Slices are numbered from 1, over all heads of the first rows first; 0 is the whole. */
typedef struct bt_pkg_slice {
    uint32_t row, rows, head, heads; /* rows [row, row + rows), query heads [head, head + heads) */
} bt_pkg_slice;
uint64_t bt_pkg_layout_slices(const bt_pkg_layout *l, uint32_t rows, uint32_t heads); /* 1 or more */
/* slice: 0 .. bt_pkg_layout_slices(l, rows, heads). */
bt_pkg_slice bt_pkg_layout_slice(const bt_pkg_layout *l, uint32_t rows, uint32_t heads, uint32_t slice);

/* ---- the output matrix in parts ----
 * One stored matrix of n outputs is computed in output_parts ranges of outputs, or in fewer where it has fewer panels
 * of 16 outputs. All ranges have equally many panels but the last, which may have fewer. Parts are numbered from 1; 0
 * is the whole. */
typedef struct bt_pkg_part {
    uint32_t first, n; /* outputs [first, first + n); first is a multiple of 16 */
} bt_pkg_part;
uint32_t bt_pkg_layout_parts(const bt_pkg_layout *l, uint32_t n); /* 1 or more */
bt_pkg_part bt_pkg_layout_part(const bt_pkg_layout *l, uint32_t n, uint32_t part);

/* ---- arg of instructions ----
 * Attention: the slice. Linears of the NPU: the loop order (bt_pkg_order) in the low 8 bits, the part of the output
 * matrix above. */
static inline uint32_t bt_pkg_order_of(const bt_pkg_inst *i) { return i->arg & 255; }
static inline uint32_t bt_pkg_part_of(const bt_pkg_inst *i) { return i->arg >> 8; }

/* ---- tiles ----
 * Multiply-accumulates that the matrix unit does beyond rows * n * k because it computes whole tiles: rows are rounded
 * up to a multiple of tile_input_rows, n of tile_rows, k of tile_cols. `rows` includes a shape's padding, so the cost
 * of padding is not in the result. 0 for a layout without tiles. n < 2^21, k < 2^21, rows < 2^20. */
uint64_t bt_pkg_layout_tile_macs(const bt_pkg_layout *l, uint64_t rows, uint64_t n, uint64_t k);
#endif
