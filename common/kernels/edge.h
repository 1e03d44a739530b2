#ifndef BT_KERNELS_EDGE_H
#define BT_KERNELS_EDGE_H
#include <stddef.h>
#include <stdint.h>
#include "kernels/int_kernels.h"

/* The border between FP32 and the NPU's integers, on the companion's side: quantise the NPU's inputs, scale its
 * outputs, rotate rows. These are float kernels: every variant gives the bits of its _ref twin (kernels.h), because
 * every sum has a fixed order.
 *
 * Both quantise kernels take rows x[T, ldx] f32, K wide, and inv = 1 / scale:
 *   v = x * inv (one rounding); v = v > -LIMIT ? v : -LIMIT (a NaN becomes -LIMIT); v = v < LIMIT ? v : LIMIT;
 *   q = rint(v), nearest even; LIMIT = BT_EDGE_LIMIT
 * quantise8   y[T, ldy] s8 = clamp(q + zero, least, 127), zero and least of the range; bytes from K to ldy are zero.
 *             shadow lists what the clamp took away, r = q + zero - y: count[t] entries of row t at shadow[t * K ..],
 *             by ascending k. shadow NULL: no list.
 * quantise16  hi, lo [T, ldy]: the s8 planes of y = clamp(q, -32639, 32639) (int_kernels.h), zero from K to ldy;
 *             shadow and count likewise, r = q - y.
 * ldy is a multiple of 16, >= K. */
enum { BT_EDGE_LIMIT = 8388607 };
typedef void bt_edge_quantise8_fn(int8_t *restrict y, size_t ldy, const float *restrict x, size_t ldx, float inv,
                                  bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count);
typedef void bt_edge_quantise16_fn(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const float *restrict x,
                                   size_t ldx, float inv, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count);

/* Scale a linear's integer sums a: v = (float)a * scale[n] + bias[n]. The conversion rounds once (nearest even), the
 * product and the sum each once; bias NULL: no sum. `then` says what becomes of v, to save a trip through memory:
 *   STORE     y[t * ldy + n] = v
 *   ADD       y[..] = v + y[..], as bt_add_fn: y is the residual stream
 *   SILU_MUL  y[..] = silu(y[..]) * v, as bt_silu_mul_fn: y is the gate, v is up
 * The kernels differ in a:
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

/* Rotates rows x[T, ldx] in place, each of `blocks` blocks of E = base * 2^log2 elements: y = scale * (H_base (x)
 * S_2^log2) (sign . x). (x) is the Kronecker product, H_base [base, base] has elements +-1 in row-major order (h_base,
 * not read if base is 1), S is Sylvester's matrix, . multiplies element by element. Element b * 2^log2 + j has the
 * base's index b. Order:
 *   x[i] = sign[i] * x[i], the same sign[E] for every block; sign NULL: no step
 *   butterflies of lengths 1, 2, 4 .. 2^(log2 - 1) over j: (a, b) -> (a + b, a - b)
 *   if base > 1, for each j: y[c] = sum over ascending b of +-x[b], signs of H_base, starting from +-x[0]
 *   y = y * scale
 * E <= 131,072; base <= 256. scratch: E floats. */
typedef void bt_edge_rotate_fn(float *x, size_t ldx, size_t t, size_t blocks, const int8_t *h_base, uint32_t base,
                               uint32_t log2, const int8_t *sign, float scale, float *scratch);
#endif
