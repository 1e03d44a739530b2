/* The sizes that a package's layout rounds up, and the pieces that it cuts. */
#include "npu/pkg/pkg_layout.h"

static uint64_t pieces_of(uint64_t n, uint64_t of) { return of && n ? (n + of - 1) / of : 1; }
static uint64_t round_up(uint64_t n, uint64_t to) { return to ? (n + to - 1) / to * to : n; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* ---- rows ---- */

uint32_t bt_pkg_layout_stride(const bt_pkg_layout *l, uint64_t elems, uint32_t elem_bytes)
{
    return (uint32_t)round_up(elems * elem_bytes, l->last_axis_align_bytes);
}

uint32_t bt_pkg_layout_plane_stride(const bt_pkg_layout *l, uint64_t elems)
{
    return (uint32_t)round_up(round_up(elems, BT_PKG_ALIGN), l->last_axis_align_bytes);
}

/* ---- attention ---- */

uint64_t bt_pkg_layout_slices(const bt_pkg_layout *l, uint32_t rows, uint32_t heads)
{
    return pieces_of(rows, l->query_slice_rows) * pieces_of(heads, l->attention_heads_max);
}

bt_pkg_slice bt_pkg_layout_slice(const bt_pkg_layout *l, uint32_t rows, uint32_t heads, uint32_t slice)
{
    if (!slice) return (bt_pkg_slice){0, rows, 0, heads};
    const uint32_t head_blocks = (uint32_t)pieces_of(heads, l->attention_heads_max);
    const uint32_t row_step = l->query_slice_rows ? l->query_slice_rows : rows,
                   head_step = l->attention_heads_max ? l->attention_heads_max : heads;
    const uint32_t row = (slice - 1) / head_blocks * row_step, head = (slice - 1) % head_blocks * head_step;
    return (bt_pkg_slice){row, least(row_step, rows - row), head, least(head_step, heads - head)};
}

/* ---- the output matrix ---- */

enum { PANEL = 16 };

static uint32_t part_columns(const bt_pkg_layout *l, uint32_t n)
{
    const uint64_t panels = pieces_of(n, PANEL);
    return (uint32_t)pieces_of(panels, l->output_parts ? l->output_parts : 1) * PANEL;
}

uint32_t bt_pkg_layout_parts(const bt_pkg_layout *l, uint32_t n)
{
    return (uint32_t)pieces_of(n, part_columns(l, n));
}

bt_pkg_part bt_pkg_layout_part(const bt_pkg_layout *l, uint32_t n, uint32_t part)
{
    if (!part) return (bt_pkg_part){0, n};
    const uint32_t columns = part_columns(l, n), first = (part - 1) * columns;
    return (bt_pkg_part){first, least(columns, n - first)};
}

/* ---- tiles ---- */

uint64_t bt_pkg_layout_tile_macs(const bt_pkg_layout *l, uint64_t rows, uint64_t n, uint64_t k)
{
    return round_up(rows, l->tile_input_rows) * round_up(n, l->tile_rows) * round_up(k, l->tile_cols) -
           rows * n * k;
}
