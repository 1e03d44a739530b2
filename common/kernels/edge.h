#ifndef BT_KERNELS_EDGE_H
#define BT_KERNELS_EDGE_H
#include <stddef.h>
#include <stdint.h>
#include "kernels/int_kernels.h"

/* The companion's side of the border between FP32 and the NPU's integers: quantise what goes in, scale what comes out,
 * rotate.
 * Float kernels: every variant gives the bits of its _ref twin (rule of order; no operation here sums along a row
 * except the butterflies, whose order is fixed).
 *
 * Quantise rows x[T, ldx] f32, K wide, with inv = 1 / scale:
 *   v = x * inv (one rounding); v = v > -LIMIT ? v : -LIMIT; v = v < LIMIT ? v : LIMIT (a NaN becomes -LIMIT); q =
 *     rint(v), nearest even
 *   LIMIT = 8388607
 * quantise8: y[T, ldy] s8 = clamp(q + zero, least, 127) of the range; bytes from K to ldy are zero. What the clamp took
 *   away, r = q + zero - y, is listed for each row if shadow is not NULL: shadow[t * K + i], ascending k, count[t] of
 *   them; else dropped.
 * quantise16: hi, lo [T, ldy] s8 planes of y = clamp(q, -32639, 32639) (int_kernels.h); bytes from K to ldy are zero;
 * shadow and
 *   count as above.
 * ldy is a multiple of 16, >= K. */
enum { BT_EDGE_LIMIT = 8388607 };
typedef void bt_edge_quantise8_fn(int8_t *restrict y, size_t ldy, const float *restrict x, size_t ldx, float inv,
                                  bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count);
typedef void bt_edge_quantise16_fn(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const float *restrict x,
                                   size_t ldx, float inv, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count);

/* v = (float)a * scale[n] + bias[n], the conversion rounded once (nearest even), then a product and a sum; bias NULL:
 * no sum. What becomes of it is `then`, so that a linear's result makes no trip of its own through memory:
 *   STORE     y[t * ldy + n] = v
 *   ADD       y[..] = v + y[..]: into the residual stream, as bt_add_fn adds v
 *   SILU_MUL  y[..] = silu(y[..]) * v: y holds the gate, v is up; the formula of bt_silu_mul_fn
 *   scale8   a = acc[t * ldacc + n]
 *   scale16  a = 256 * hi[..] + lo[..], exact before the conversion
 *   scale64  a = acc[..], |acc| < 2^53 */
typedef enum bt_edge_then { BT_EDGE_STORE, BT_EDGE_ADD, BT_EDGE_SILU_MUL } bt_edge_then;
typedef void bt_edge_scale8_fn(float *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                               const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then);
typedef void bt_edge_scale16_fn(float *restrict y, size_t ldy, const int32_t *restrict hi, const int32_t *restrict lo,
                                size_t ldacc, const float *scale, const float *bias, size_t t, size_t n,
                                bt_edge_then then);
typedef void bt_edge_scale64_fn(float *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                                const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then);

/* Rotate each of T rows of `blocks` blocks of E = base * 2^log2 elements in place: y = scale * (H_base (x) S_2^log2)
 * (sign . x), H_base [base, base] of +-1 in row-major order and S Sylvester's matrix; element index = b * 2^log2 + j
 * with b the base's index. Order:
 *   x[i] = sign[i] * x[i] (sign NULL: as it is; the same signs for every block);
 *   butterflies of lengths 1, 2, 4 .. 2^(log2 - 1) over j: (a, b) -> (a + b, a - b);
 *   then, where base > 1, for each j: y[c] = sum over b ascending, starting from +-x[0], each term added or subtracted;
 *   then times scale.
 * E <= 131,072; base <= 256. scratch: E floats. */
typedef void bt_edge_rotate_fn(float *x, size_t ldx, size_t t, size_t blocks, const int8_t *h_base, uint32_t base,
                               uint32_t log2, const int8_t *sign, float scale, float *scratch);
#endif
