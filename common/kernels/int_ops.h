#ifndef BT_KERNELS_INT_OPS_H
#define BT_KERNELS_INT_OPS_H
#include <stddef.h>
#include <stdint.h>
#include "kernels/int_kernels.h"
#include "kernels/kv_view.h"

/* The NPU's integer operators other than linear layers, which --npu-ops all runs between linear layers.
 *
 * Units     Every array holds whole numbers of a unit. The unit is a static scale that the compiler chose. Kernels
 *           see only the multipliers from one unit to another, m / 2^s with m in [2^30, 2^31) or 0:
 *               scale(v, m, s) = floor(v * m / 2^s + 1/2)       half goes up: 2.5 -> 3, -2.5 -> -2
 * Ranges    s16 arrays hold values in [-32639, 32639] (BT_INT_MAX16: they split into two s8 planes); s32 arrays hold
 *           [-8388607, 8388607] (BT_INT_MAX32), the residual stream +-1073741823 (BT_INT_MAX_RESIDUAL). Inputs must be
 *           in these ranges; `clamp` in a formula brings the output into them.
 * Rounding  half up, once, unless a formula below shows more. Some formulas use two functions of gemmlowp:
 *               mulh(a, b) = floor(a * b / 2^31 + 1/2)
 *                   gemmlowp's SaturatingRoundingDoublingHighMul, for a, b not both -2^31
 *               rdp(a, e)  = a / 2^e, half away from zero       gemmlowp's RoundingDivideByPOT
 * Purity    no allocation, no globals, any alignment; nothing outside the stated arrays is touched. T = 0 does nothing.
 * Exactness integers: every variant returns the same bits as its _ref twin, for all inputs in range. Sums are exact, so
 *           no result depends on chunks, pages or threads. */
enum { BT_INT_MAX32 = 8388607, BT_INT_MAX_RESIDUAL = 1073741823 };
/* A multiplier m / 2^s, s in [0, 62]. */
typedef struct bt_int_mul {
    int32_t m;
    uint32_t s;
} bt_int_mul;

/* ---- gemmlowp's fixed-point functions (CMSIS-NN has the same) ---- */
/* exp(a / 2^26) in units of 2^-31, a <= 0 (Q5.26 -> Q0.31); exp(0) is 2^31 - 1. Error < 2^-22. */
int32_t bt_int_exp(int32_t a);
/* 1 / (1 + a / 2^31) in units of 2^-31, a >= 0 (Q0.31 -> Q0.31), by three Newton steps. Error < 2^-28. */
int32_t bt_int_one_over_one_plus(int32_t a);
/* floor(sqrt(v)). */
uint32_t bt_int_isqrt(uint64_t v);

/* ---- norms ----
 * RMSNorm of rows x[T, ldx] s32, K wide, K <= 32,768, in the residual stream's range. The weights hold the factor
 * sqrt(K), so the sum of squares is not divided by K.
 *   wq[k] = round(norm weight * sqrt(K) / unit of y * 2^f), |wq| < 2^31, f in [0, 32]; wq NULL: w1 for every k
 *   keps  = round(K * eps / unit of x ^ 2), below 2^62
 *   g = how many bits max |x[k]| has beyond 23;  v = floor(keps / 2^2g) + sum of floor(x[k] / 2^g)^2;  v = 0: y = 0
 *   h = leading zeros of v as u64, rounded down to even
 *   r = isqrt(v << h), in [2^31, 2^32);  i = min(floor(2^62 / r), 2^31 - 1)
 *   u = floor(x[k] * i / 2^(32 - h/2 + g) + 1/2)              x / sqrt(v) in units of 2^-30
 *   y[k] = clamp(floor(u * wq[k] / 2^(30 + f) + 1/2))
 * Relative error below 1e-6 where y is more than a thousand units. y may be x. */
typedef void bt_int_rmsnorm32_fn(int32_t *y, size_t ldy, const int32_t *x, size_t ldx, const int32_t *wq, int32_t w1,
                                 unsigned f, uint64_t keps, size_t t, size_t k);
/* qk_norm: the same in place for each of the heads of x[T, ldx] s16, D elements each: K = D, wq[D], y clamped to the
 * range of s16. */
typedef void bt_int_headnorm16_fn(int16_t *x, size_t ldx, size_t heads, const int32_t *wq, unsigned f, uint64_t keps,
                                  size_t t, size_t d);

/* ---- rotary embedding of one row x[heads, D] s16, in place ----
 * cos, sin [R/2] s16 in units of 2^-15 (1 is 32767); R <= D, even. Pairs (a, b) as in bt_rope_fn: neox 0: (2i, 2i+1);
 * neox 1: (i, i + R/2).
 *   a' = clamp(floor((a * cos[i] - b * sin[i]) / 2^15 + 1/2))
 *   b' = clamp(floor((a * sin[i] + b * cos[i]) / 2^15 + 1/2)) */
typedef void bt_int_rope16_fn(int16_t *x, size_t heads, size_t d, size_t r, const int16_t *cos, const int16_t *sin,
                              int neox);

/* ---- softmax with 16-bit output ----
 * e[j] stands for exp((z[j] - max z) * unit of z) in units of 2^-15:
 *   a = scale(z[j] - max z, mul.m, mul.s), at least -2^31 + 1;  e[j] = min(32767, (bt_int_exp(a) + 2^15) >> 16)
 * z[n] s32 with |z| <= 2^30; mul = unit of z * 2^26. Returns S, the sum of e, 0 for n = 0. The probabilities are p[j] =
 * e[j] / S. Attention divides at its end, once for each output, so probabilities sum to exactly 1 at any n, and small
 * ones keep their bits; rounded to 16 bits, those below 2^-17 would be lost. */
typedef uint64_t bt_int_softmax16_fn(int16_t *restrict e, const int32_t *restrict z, size_t n, bt_int_mul mul);

/* ---- activations ---- */
/* y[i] = silu(g[i]) * u[i], g, u s16, y s32. gate = unit of g * 2^26; out = unit of g * unit of u / unit of y.
 *   c = min(scale(|g|, gate), 2^31 - 1);  e = bt_int_exp(-c)
 *   p = bt_int_one_over_one_plus(e);  g < 0: p = mulh(p, e)                       sigmoid(g) in units of 2^-31
 *   h = floor(g * p / 2^16 + 1/2);  w = floor(h * u / 2^15 + 1/2);  y = clamp(scale(w, out)) */
typedef void bt_int_silu_mul16_fn(int32_t *restrict y, const int16_t *restrict g, const int16_t *restrict u,
                                  size_t count, bt_int_mul gate, bt_int_mul out);
/* y[i] = gelu(x[i]) in the tanh form, x * sigmoid(1.5957691 x + 0.0713548 x^3), which is within 5e-4 of the erf form
 * (I-BERT's polynomial: 2e-2). in = unit of x * 2^28; out = unit of x / unit of y, out.s <= 47.
 *   c = min(scale(|x|, in), 2^31 - 1)                               |x| in units of 2^-28, at most 8
 *   q = mulh(mulh(c, c), c)                                         x^3 in units of 2^-22
 *   a = min(floor((c * 428361012 + q * 1225866409 + 2^29) / 2^30), 2^31 - 1)      in units of 2^-26
 *   e = bt_int_exp(-a);  p = bt_int_one_over_one_plus(e);  x < 0: p = mulh(p, e)
 *   h = floor(x * p / 2^16 + 1/2);  y = clamp(floor(h * out.m / 2^(out.s + 15) + 1/2)) */
typedef void bt_int_gelu16_fn(int32_t *restrict y, const int16_t *restrict x, size_t count, bt_int_mul in,
                              bt_int_mul out);
/* y[i] = gelu(g[i]) * u[i]: h of int_gelu16 with in = gate, then w and y as int_silu_mul16. */
typedef void bt_int_gelu_mul16_fn(int32_t *restrict y, const int16_t *restrict g, const int16_t *restrict u,
                                  size_t count, bt_int_mul gate, bt_int_mul out);

/* ---- residual stream: x[i] = clamp(x[i] + scale(y[i], mul)), x s32, y s16; mul = unit of y / unit of x ---- */
typedef void bt_int_add32_fn(int32_t *restrict x, const int16_t *restrict y, size_t count, bt_int_mul mul);

/* ---- inputs of linears: the integer twins of bt_edge_quantise8 and bt_edge_quantise16, with the same outputs ----
 * x[T, ldx] s32, K wide, is in units of the site's scale.
 *   split8   y = clamp(x + zero, least, 127), zero and least of the range; bytes from K to ldy are zero. shadow lists
 *            what the clamp took away: count[t] entries of row t at shadow[t * K ..], by ascending k; shadow NULL: no
 *            list
 *   split16  hi, lo planes of x clamped to +-32639: 256 * hi + lo, lo in [-128, 127]; bytes from K to ldy are zero;
 *            shadow and count likewise
 * ldy is a multiple of 64, >= K. */
typedef void bt_int_split8_fn(int8_t *restrict y, size_t ldy, const int32_t *restrict x, size_t ldx, bt_int_range range,
                              size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count);
typedef void bt_int_split16_fn(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const int32_t *restrict x,
                               size_t ldx, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count);

/* ---- change of unit, with or without the rotation of bt_edge_rotate_fn ----
 * y[T, ldy] s32 = clamp(scale(H x, mul)) for each of `blocks` blocks of E = base * 2^log2 elements of x[T, ldx] s16. H
 * is the rotation of edge.h without its scale: signs, butterflies, base. H x is exact in s32 because E <= 32,768. base
 * 0: H is the identity, over blocks of 2^log2 elements. sign and h_base as in edge.h. mul = rotation's scale * unit of
 * x / unit of y. scratch: E values. */
typedef void bt_int_rotate16_fn(int32_t *restrict y, size_t ldy, const int16_t *restrict x, size_t ldx, size_t t,
                                size_t blocks, const int8_t *h_base, uint32_t base, uint32_t log2, const int8_t *sign,
                                bt_int_mul mul, int32_t *restrict scratch);

/* ---- f16 bits to s16 in units of 2^-shift, shift in [-16, 30], by integer arithmetic ----
 * y = clamp(floor(value * 2^shift + 1/2)); an infinity or NaN becomes 32639 with its sign. */
typedef void bt_int_from_f16_fn(int16_t *restrict y, const uint16_t *restrict x, size_t count, int shift);
/* The same for int8 q with one scale s, the bits of a finite f16: y = clamp(floor(q * s * 2^shift + 1/2)), with an
 * exact product. */
typedef void bt_int_from_q8_fn(int16_t *restrict y, const int8_t *restrict q, uint16_t s, size_t count, int shift);

/* ---- attention of T consecutive query rows over one sequence's KV, in integers ----
 * Rows, positions, heads and the window are as for bt_attn_fn (kernels.h): row t stands at pos0 + t. q[T, ldq] s16,
 * out[T, ldo] s16. K and V rows of the pages are converted to s16 by from_f16, or from_q8 where elem_bytes is 1, with
 * k_shift and v_shift. Only the query heads of kv head g, [g * H / G, (g + 1) * H / G), are computed: the caller splits
 * kv heads and rows over threads.
 *   z[j]   = floor(sum over d of q[d] * K[j][d] / 2^L + 1/2), L = ceil(log2 D), with an exact sum; |z| <= 2^30
 *   e, S   = softmax16(z, logit);            logit = unit of q * 2^-k_shift * 2^L * attention scale * 2^26
 *   i      = floor(2^63 / S)
 *   out[d] = clamp(floor(sum over j of e[j] * V[j][d] * i * out.m / 2^(63 + out.s) + 1/2)), exact to the last floor;
 *                                             out = 2^-v_shift / unit of out
 * D <= 256, pos0 + T <= BT_INT_ATTENTION_MAX_TOKENS. scratch: bt_int_attention_scratch_bytes(D, tokens) bytes, tokens
 * >= pos0 + T, 64-byte aligned. */
enum { BT_INT_ATTENTION_MAX_TOKENS = 131072 };
typedef struct bt_int_attention_params {
    bt_int_mul logit, out;
    int k_shift, v_shift;
    size_t window; /* positions that a row sees at most; 0: all */
} bt_int_attention_params;
typedef void bt_int_attention16_fn(int16_t *out, size_t ldo, const int16_t *q, size_t ldq, const bt_kv_view *kv,
                                   size_t layer, size_t t, size_t pos0, size_t heads, size_t g,
                                   const bt_int_attention_params *p, void *scratch);
size_t bt_int_attention_scratch_bytes(size_t head_dim, size_t tokens);
#endif
