#ifndef BT_KERNELS_SPARSE_H
#define BT_KERNELS_SPARSE_H
#include <stddef.h>
#include <stdint.h>
#include "kernels/kv_view.h"

/* Sparse attention: rows in 8 bits for an integer estimate of the scores, the choice of the greatest, and attention
 * over those alone. The estimate's product is int_matmul with K rows in the place of weights. Letters, purity, memory
 * and exactness as in kernels.h. */

/* ---- rows to 8 bits, each with the scale that fits it ----
 * x[T, ldx] f32, K <= 256 wide, to y[T, ldy] s8. A row has one of three units s_e = scale * 2^(e - 1), e = 0, 1, 2:
 *   q_e[i] = clamp(rint(x[i] * (1 / s_e)), -127, 127) as quantise8 of edge.h
 *   err_e  = dot(r, r) in the order of kernels.h, r[i] = fma(-q_e[i], s_e, x[i])
 * e is the one with the least error, of equal ones the smallest, 0 where errors are no numbers. shift[t] = e: q << e
 * is in units of s_0 for every row. Bytes from K to ldy are zero. ldy is a multiple of 16, >= K; scale in [2^-100,
 * 2^100]. */
typedef void bt_edge_estimate8_fn(int8_t *restrict y, size_t ldy, uint8_t *restrict shift, const float *restrict x,
                                  size_t ldx, float scale, size_t t, size_t k);

/* ---- the k greatest of n numbers ----
 * v[i] = score[i] << shift[i]: the indices of the k greatest to at, ascending; of equal ones the smaller index goes
 * first. 1 <= k <= n < 2^31, |v| <= 2^30, shift <= 2. at has room for k + BT_TOPK_ROOM indices, of which those past k
 * are left as anything. score [n] and scratch [n] are lost. */
enum { BT_TOPK_ROOM = 16 };
typedef void bt_int_topk_fn(uint32_t *restrict at, size_t k, int32_t *restrict score, const uint8_t *restrict shift,
                            size_t n, int32_t *restrict scratch);

/* ---- attention over some positions ----
 * Rows and heads that share a list: `rows` consecutive rows q[rows, ldq] and `width` heads of D of kv head g in each,
 * to out[rows, ldo]; the order of attn (kernels.h) over the positions at[count], ascending. The last row takes them
 * all, the one before all but the last, and so on: rows <= count. All others are left out: their weight is +0, and they
 * take no part in the chains. Spans, blocks of 64 and the lanes of l go by the position as ever; a block or a span of
 * which no position is there is passed over, and the first span that is there is taken as it is. With all positions
 * from 0 on the bits are those of attn. What a pair computes does not depend on which others share its list.
 * With `take` row r takes at[i] where bit r of take[i] is set, and all else is left out.
 * rows * width <= BT_ATTN_SHARED_PAIRS. scratch: bt_attn_scratch_bytes(D), 64-byte aligned. */
enum { BT_ATTN_SHARED_PAIRS = 48 };
typedef struct bt_attn_list {
    const uint32_t *at;
    size_t count, rows, width;
    const uint16_t *take; /* [count], rows <= 16, every row takes one at least; or NULL */
} bt_attn_list;
typedef void bt_attn_some_fn(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                             size_t g, const bt_attn_list *list, float scale, void *scratch);
#endif
