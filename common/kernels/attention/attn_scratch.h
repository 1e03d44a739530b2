#ifndef BT_KERNELS_ATTN_SCRATCH_H
#define BT_KERNELS_ATTN_SCRATCH_H
#include <stddef.h>

/* The constants of attention's order, and the layout of its scratch (bt_attn_scratch_bytes). */
#define BT_ATTN_BLOCK   64
#define BT_ATTN_MAX_DIM 256

/* head_dim rounded up to whole vectors of 16. */
static inline size_t attn_padded_dim(size_t d) { return (d + 15) / 16 * 16; }

/* In floats: one block of K or V; acc and total of each pair; p and the lanes of l of each pair. */
static inline size_t attn_scratch_floats(size_t d)
{
    return (BT_ATTN_BLOCK + 2 * BT_ATTN_PAIRS) * attn_padded_dim(d) + BT_ATTN_PAIRS * (BT_ATTN_BLOCK + 16);
}

/* The divisor of a row's total: l, or NaN where the greatest score m is not finite. */
static inline float attn_divisor(float m, float l) { return m - m == 0 ? l : __builtin_nanf(""); }

/* A part of bt_attn_span_fn, one span of one pair: m, l, 14 unused floats, then acc. */
#define BT_ATTN_PART_HEAD 16
static inline size_t attn_part_floats(size_t d) { return BT_ATTN_PART_HEAD + attn_padded_dim(d); }
#endif
