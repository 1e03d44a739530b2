#ifndef BT_KERNELS_FORMS_H
#define BT_KERNELS_FORMS_H
#include <stddef.h>
#include <stdint.h>

/* The forms in which decoding keeps the weights of a linear, and the products over them. As for the f16 product in
 * kernels.h: outputs in panels of 16, x[T, ldx] and y[T, ldy] f32, ldx >= K, ldy >= N, only panels [p0, p1) are
 * computed, any T >= 1, T = 1 is the GEMV; y overlaps nothing; bias is added last (NULL: nothing added). Weights are
 * decoded as they stream by, once for all T rows.
 *
 *   F16   bt_matmul_fn over f16 panels (kernels.h).
 *   INT8  groups of G inputs, G = 32 (the blocks of a file's Q8_0) or G = K (one scale a channel);
 *         w[n][k] = d[n][g] * q[n][k], q in [-128, 127], d an f16, finite.
 *   FP4   E0M4 (Transformer-Lite): groups of 32 inputs, w[n][k] = d[n][g] * q[n][k] + m[n][g], q in [0, 15], d and m
 *         f16, finite. A code is decoded to h = the float with bits 0x3F800000 | (q << 19), which is 1 + q / 16, so
 *         that w = 16 d h + (m - 16 d).
 *
 * Panel p of a matrix begins at wp + p * bt_form_panel_bytes(form, G, K), and holds its groups one after the other
 * (the last one may have fewer inputs, K - G * (groups - 1), but takes the full bytes, with zero codes):
 *   INT8  d of the 16 outputs as f16, then q[G inputs][16 outputs] int8               (32 + 16 G bytes)
 *   FP4   d and then m of the 16 outputs as f16, then 4 x 64 bytes of codes           (320 bytes, 5.0 bits a weight)
 *         64 bytes hold 8 inputs: input i (0..7) of output j is in byte 16 (j / 4) + 8 (i / 2 % 2) + 2 (j % 4) + i % 2,
 *         i < 4 in its low four bits.
 * Outputs past N have d = m = 0 and zero codes. Panel bytes of INT8 and FP4 are rounded up to a multiple of 64, and wp
 * is 64-byte aligned, so that each panel is.
 *
 * Orders (of each output and row; the same at every T, thread and instruction set):
 *   INT8  for each group ascending: s = fma chain in ascending k of (float)q * x, from +0; acc = fma(d, s, acc), acc
 *         from +0
 *   FP4   for each group ascending: s = fma chain in ascending k of h * x, from +0; xs = chain of adds of x in
 *         ascending k, from +0; acc = fma(16 d, s, acc), then acc = fma(m - 16 d, xs, acc), acc from +0
 *         (16 d and m - 16 d in f32, one rounding each) */
typedef enum bt_form { BT_FORM_F16 = 0, BT_FORM_INT8, BT_FORM_FP4 } bt_form;
enum { BT_FORM_GROUP = 32 }; /* of FP4, and of INT8 in a file's blocks */

/* Bytes of one panel of 16 outputs. F16 and FP4: group is not looked at. */
size_t bt_form_panel_bytes(bt_form form, size_t group, size_t k);

typedef void bt_matmul8_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t group,
                           size_t p0, size_t p1);
/* xs: the sums of x over its groups, as bt_fp4_sums_fn makes them. */
typedef void bt_matmul4_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                           size_t p1, const float *restrict xs);
/* xs[T][groups of K]: the xs of the orders above, for all matrices over one x. bt_form_fp4_sums_bytes is their room,
 * whole sixteens. */
typedef void bt_fp4_sums_fn(float *restrict xs, const float *restrict x, size_t ldx, size_t t, size_t k);
size_t bt_form_fp4_sums_bytes(size_t t, size_t k);

/* Writing panels, from zeroed memory: group g (inputs [g * G, g * G + count), 1 <= count <= G) of output n. */
void bt_form_int8_put(uint8_t *wp, size_t group, size_t k, size_t n, size_t g, uint16_t d, const int8_t *q,
                      size_t count);
void bt_form_fp4_put(uint8_t *wp, size_t k, size_t n, size_t g, uint16_t d, uint16_t m, const uint8_t *q, size_t count);
/* The weight of input `at` of output n, read back from its panel: the f32 nearest to it. */
float bt_form_value(const uint8_t *wp, bt_form form, size_t group, size_t k, size_t n, size_t at);
#endif
