#ifndef BT_KERNELS_KERNELS_H
#define BT_KERNELS_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/edge.h"
#include "kernels/forms.h"
#include "kernels/int_kernels.h"
#include "kernels/int_ops.h"
#include "kernels/kv_view.h"

/* The float kernels of the host engines, and the list and dispatch table of all kernels. Other headers have the
 * contracts of integer kernels (int_kernels.h, int_ops.h), of the border between floats and integers (edge.h) and of
 * products over int8, FP4 and MX weights (forms.h).
 *
 * Letters   T rows (tokens) of one call, K inputs, N outputs, D head_dim, H query heads, G kv heads. ldx, ldy and so on
 *           are the elements from one row to the next.
 * Purity    no allocation, no logging, no libm; scratch comes from the caller. The only globals are the core's choices
 *           (cores.h), which change no bit.
 * Memory    no byte outside the stated arrays is read or written; no alignment is needed unless said.
 * Exactness every variant returns the same bits as its _ref twin, for all inputs: all follow the orders below. With
 *           infinities and NaN, given or made on the way, variants agree on which elements are NaN, not on a NaN's
 *           bits. An fma is one product and one sum with one rounding; every other operation rounds.
 *
 * Orders (each family has one; it never depends on T, threads, bucket or instruction set):
 *   matmul     one fma chain in ascending k for each output, starting from +0
 *   matmul8, matmul4, matmul_mx   see forms.h
 *   dot        16 interleaved lanes: element i goes to lane i % 16 by fma in ascending i; then the fixed tree
 *              l[j] += l[j+8] (j<8), l[j] += l[j+4] (j<4), l[j] += l[j+2] (j<2), l[0] += l[1]
 *   dots       dot
 *   rmsnorm    sum of squares as dot(x, x); scale = 1 / sqrtf(sum / K + eps); y = (x * scale) * w
 *   layernorm  mean = dot(x, ones) / K; d = x - mean; scale = 1 / sqrtf(dot(d, d) / K + eps); y = fma(d * scale, w, b)
 *   attention  see attn below
 *   logits     see logit_sum below
 *   exp, tanh  see bt_exp1, bt_tanh1 */

/* ---- matrix product over packed f16 weights ----
 * wp: panels of 16 output channels; panel p holds outputs 16p..16p+15, k ascending:
 *       wp[(p * K + k) * 16 + j] = f16 of w[16p + j][k], zero where 16p + j >= N.
 *     bt_matmul_packed_elems is its length in elements. It is 32-byte aligned, and its values are finite.
 *   y[t * ldy + n] = bias[n] + sum over k of w[n][k] * x[t * ldx + k]         (bias added last; NULL: nothing added)
 * Shapes x[T, ldx] f32, y[T, ldy] f32, ldx >= K, ldy >= N. Only panels [p0, p1) are computed: the caller splits
 * panels over threads. Rows t in [0, T), any T >= 1; T = 1 is the GEMV of decoding. y overlaps nothing. */
typedef void bt_matmul_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                          const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                          size_t p1);
static inline size_t bt_matmul_panels(size_t n) { return (n + 15) / 16; }
static inline size_t bt_matmul_packed_elems(size_t n, size_t k) { return bt_matmul_panels(n) * 16 * k; }
/* Packs rows w[rows, K] f32 (row-major) as outputs n0 .. n0+rows-1 of a matrix with K inputs. Each value is rounded to
 * f16, nearest even, overflow to infinity (the caller checks). wp starts as zeroed memory; each slice of rows takes one
 * call. */
void bt_matmul_pack(uint16_t *wp, const float *w, size_t n0, size_t rows, size_t k);

/* ---- rows ---- */
/* y[t] = rmsnorm(x[t]) * w, x[T, ldx], y[T, ldy], w[K]; y may equal x when ldy == ldx. */
typedef void bt_rmsnorm_fn(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                           size_t k);
/* y[t] = layernorm(x[t]), by mean and variance; the same shapes, w[2 K]: weights, then biases. */
typedef void bt_layernorm_fn(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                             size_t k);
/* y[j] = dot(x, w[j]) for n rows w[n, K] one behind the other; x[K]. */
typedef void bt_dots_fn(float *restrict y, const float *restrict x, const float *restrict w, size_t n, size_t k);
/* y[i] = x[i] + y[i] */
typedef void bt_add_fn(float *restrict y, const float *restrict x, size_t count);
/* y[i] = fma(scale, x[i], y[i]) */
typedef void bt_add_scaled_fn(float *restrict y, const float *restrict x, float scale, size_t count);
/* y[i] = (g[i] / (1 + exp(-g[i]))) * u[i]      (SwiGLU); y may equal g or u */
typedef void bt_silu_mul_fn(float *y, const float *g, const float *u, size_t count);
/* y[i] = x[i] / (1 + exp(-a)), a = x[i] * fma(x[i] * x[i], BT_GELU_CUBE, BT_GELU_ONCE): GELU in the tanh form,
 * x / 2 * (1 + tanh(a / 2)); y may equal x */
#define BT_GELU_ONCE 0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define BT_GELU_CUBE 0x1.2444f2p-4f /* 0.044715 times that */
typedef void bt_gelu_fn(float *y, const float *x, size_t count);
/* y[i] = gelu(g[i]) * u[i], as gelu above (GeGLU); y may equal g or u */
typedef void bt_gelu_mul_fn(float *y, const float *g, const float *u, size_t count);
/* y[i] = (a / (1 + exp(-(a * BT_CLAMP_GAIN)))) * (b + 1), a = min(g[i], BT_CLAMP_LIMIT), b = u[i] taken into
 * [-BT_CLAMP_LIMIT, BT_CLAMP_LIMIT]      (the clamped SwiGLU of gpt-oss); a NaN stays one; y may equal g or u */
#define BT_CLAMP_GAIN  1.702f
#define BT_CLAMP_LIMIT 7.0f
typedef void bt_clamp_mul_fn(float *y, const float *g, const float *u, size_t count);
/* y[i] = tanh(y[i] / cap) * cap, cap > 0 */
typedef void bt_soft_cap_fn(float *y, float cap, size_t count);
/* Rotary embedding in place on x[heads, D], pairs given by `neox`:
 *   neox = 0: pairs (2i, 2i+1);  neox = 1: pairs (i, i + R/2)   for i < R/2, R = rotary dims <= D, even
 *   a' = a * cos[i] - b * sin[i]  computed as fma(a, cos, -(b * sin));  b' = fma(a, sin, b * cos)
 * cos, sin [R/2] f32: the table row of the token's position. Elements at or past R are left alone. */
typedef void bt_rope_fn(float *x, size_t heads, size_t d, size_t r, const float *cos, const float *sin, int neox);
/* f32 to f16 bits, nearest even; overflow gives infinity. And f16 bits to f32, exact. */
typedef void bt_f32_to_f16_fn(uint16_t *restrict y, const float *restrict x, size_t count);
typedef void bt_f16_to_f32_fn(float *restrict y, const uint16_t *restrict x, size_t count);

/* ---- logits of one row, in pieces of any length n (the sampler's rule, sample/sample.h, has pieces of 256) ----
 * z[n] are finite, or -inf where an id is not to be chosen; z0 is the row's greatest logit. */
/* ret[0] and ret[1] = the least and the greatest of z[n], n >= 1; a zero is +0. Both are NaN where a z[i] is not
 * finite. */
typedef void bt_logit_range_fn(float ret[2], const float *z, size_t n);
/* The sum of exp((z[i] - z0) / temperature) over those with z[i] >= least, in 16 lanes: i goes to lane i % 16 in
 * ascending i, from +0, then the tree of dot. temperature > 0. */
typedef float bt_logit_sum_fn(const float *z, size_t n, float z0, float temperature, float least);
/* bin[i] = rint(bins - x), ties to even, with x = (top - z[i]) * scale taken into [0, bins - 1], or 0 where z[i] <
 * least: from 1 to bins, and never less for a greater logit. scale >= 0, 2 <= bins <= 2^20. An x that is NaN counts as
 * 0. mass[i] = rint(exp(z[i] - z0) * 2^30); mass NULL: not wanted. */
typedef void bt_logit_bins_fn(int32_t *restrict bin, int32_t *restrict mass, const float *restrict z, size_t n,
                              float z0, float top, float least, float scale, float bins);
/* Writes the indices i with low <= z[i] <= high to at[n], ascending. Returns how many. low is finite. */
typedef size_t bt_logit_list_fn(uint32_t *restrict at, const float *restrict z, size_t n, float low, float high);

/* ---- attention of T consecutive query rows over one sequence's KV ----
 * Query row t has absolute position pos0 + t and sees KV positions 0 .. pos0 + t, or with a window only the last
 * `window` of these, its own included. The caller has stored all that it sees before, this call's own K and V included.
 * q[T, H, D] f32 row stride ldq, out[T, H, D] f32 row stride ldo;
 * query head h reads kv head h / (H / G). Only query heads [h0, h1) are computed: the caller splits heads over threads
 * (and rows, by a call for each sub-range of rows with its own pos0).
 *
 * Order, for one (row, head), with its visible positions and scale s. Spans, blocks of 64 and the lanes of l go by the
 * absolute position; a span or block without a visible position is skipped:
 *   for each span of 256 absolute positions, ascending:
 *     m = -inf, l[16] = 0, acc[D] = 0
 *     for each block of 64 positions in it, ascending (only the visible ones):
 *       z[j]  = (fma chain over ascending d of q[d] * K[j][d], starting from +0) * s; with a cap then
 *               tanh(z[j] / cap) * cap; a NaN counts as +inf
 *       bm    = max(m, z[..]);  c = exp(m - bm);  m = bm          (c = 0 while m = -inf)
 *       p[j]  = exp(z[j] - m)
 *       l[i]  = l[i] * c, then + p[j] for each j with j % 16 = i, ascending
 *       acc[d]= fma chain over ascending j of p[j] * V[j][d], starting from acc[d] * c
 *     l = the tree of dot over l[16]
 *     merge (m, l, acc) into the running (M, L, A): without a sink the first span is taken as it is; with one (M, L, A)
 *     begins as (sink, 1, +0), in front of the span of position 0, whatever the row sees. Then
 *       n = max(M, m); a = exp(M - n); b = exp(m - n); L = L * a + l * b (two muls, one add);
 *       A[d] = A[d] * a + acc[d] * b (two muls, one add); M = n
 *   out[d] = A[d] / L, or NaN for every d where M is not finite: a score overflowed, or is a NaN
 * D <= 256. Rows outside the window are not looked at, but their memory is read: each page of the view up to the
 * last visible position is some readable page. scratch: bt_attn_scratch_bytes(D) bytes for each call in flight, 64-byte
 * aligned.
 *
 * Speed: up to BT_ATTN_PAIRS (row, head) pairs of a kv head share one pass over K and V; more pairs take more passes.
 * Where each kv head has at most BT_ATTN_FEW_PAIRS pairs, a pass takes several whole kv heads, BT_ATTN_PAIRS pairs in
 * all, and so reads memory in order. */
enum { BT_ATTN_SPAN = 256, BT_ATTN_PAIRS = 192, BT_ATTN_FEW_PAIRS = 8 };
typedef struct bt_attn_rule {
    float scale;        /* of q . k */
    size_t window;      /* positions that a row sees at most; 0: all */
    float cap;          /* of the scores; 0: none */
    const float *sinks; /* [H], finite: of each query head; for merge of its `group` heads; NULL: none */
} bt_attn_rule;
/* The first position that the row at `pos` sees. */
static inline size_t bt_attn_begin(const bt_attn_rule *rule, size_t pos)
{
    return rule->window && pos >= rule->window ? pos + 1 - rule->window : 0;
}
typedef void bt_attn_fn(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                        size_t t, size_t pos0, size_t heads, size_t h0, size_t h1, const bt_attn_rule *rule,
                        void *scratch);
size_t bt_attn_scratch_bytes(size_t head_dim);

/* Attention in two steps, so that threads can share a long sequence. The result has the bits of bt_attn_fn.
 *   span   computes spans [s0, s1) of T rows for all query heads of kv heads [g0, g1), H / G heads each. (m, l, acc) of
 *          row t, head i of kv head g and span s goes to part[(((g * T + t) * (H / G) + i) * spans + s) *
 *          bt_attn_part_floats(D)]. Spans that a row does not see are not written.
 *   merge  merges, for the `group` = H / G heads of one kv head, all spans that each row sees. part points at this kv
 *          head's first part, out[T, ldo] at its first head. */
typedef void bt_attn_span_fn(float *part, size_t spans, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                             size_t t, size_t pos0, size_t heads, size_t g0, size_t g1, size_t s0, size_t s1,
                             const bt_attn_rule *rule, void *scratch);
typedef void bt_attn_merge_fn(float *out, size_t ldo, const float *part, size_t spans, size_t t, size_t pos0,
                              size_t group, size_t d, const bt_attn_rule *rule);
size_t bt_attn_part_floats(size_t head_dim);

/* ---- sparse attention ----
 * Three steps: rows in 8 bits estimate the scores in integers, the greatest estimates are chosen, and attention runs
 * over their positions alone. The estimate's product is int_matmul with K rows in the place of weights. */

/* Quantises rows x[T, ldx] f32, K <= 256 wide, to y[T, ldy] s8. Each row takes the best of three units
 * s_e = scale * 2^(e - 1), e = 0, 1, 2:
 *   q_e[i] = clamp(rint(x[i] * (1 / s_e)), -127, 127) as quantise8 of edge.h
 *   err_e  = dot(r, r), r[i] = fma(-q_e[i], s_e, x[i])
 * e has the least error, the smallest e among equals, and is 0 where errors are NaN. shift[t] = e, so that q << e is in
 * units of s_0 for every row. Bytes from K to ldy are zero. ldy is a multiple of 16, >= K; scale in [2^-100,
 * 2^100]. */
typedef void bt_edge_estimate8_fn(int8_t *restrict y, size_t ldy, uint8_t *restrict shift, const float *restrict x,
                                  size_t ldx, float scale, size_t t, size_t k);

/* Writes the indices of the k greatest of n numbers v[i] = score[i] << shift[i] to at, ascending; among equal numbers
 * the smaller index is chosen first. 1 <= k <= n < 2^31, |v| <= 2^30, shift <= 2. at has room for k + BT_TOPK_ROOM
 * indices; those past k get any value. score[n] and scratch[n] are overwritten. */
enum { BT_TOPK_ROOM = 16 };
typedef void bt_int_topk_fn(uint32_t *restrict at, size_t k, int32_t *restrict score, const uint8_t *restrict shift,
                            size_t n, int32_t *restrict scratch);

/* Attention over some positions, for (row, head) pairs that share a list of them: `rows` consecutive rows q[rows, ldq]
 * with `width` heads of D each, all of kv head g, to out[rows, ldo]. rows * width <= BT_ATTN_SHARED_PAIRS.
 *
 * The list is at[count], ascending. Without take, the last row takes all its positions, the row before all but the last
 * one, and so on: rows <= count. With take, row r takes at[i] where bit r of take[i] is set.
 *
 * The order is that of attn with all other positions left out of the chains, as if their weight were +0. Spans, blocks
 * of 64 and the lanes of l go by the position. A block or span without a taken position is skipped, and the first span
 * that has one is taken as it is. A row that takes all positions from 0 on gets the bits of attn. The result of a pair
 * does not depend on which pairs share its list. scratch: bt_attn_scratch_bytes(D) bytes, 64-byte aligned. */
enum { BT_ATTN_SHARED_PAIRS = 48 };
typedef struct bt_attn_list {
    const uint32_t *at;
    size_t count, rows, width;
    const uint16_t *take; /* [count], rows <= 16, every row takes at least one; or NULL */
} bt_attn_list;
typedef void bt_attn_some_fn(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                             size_t g, const bt_attn_list *list, float scale, void *scratch);

/* Stores T rows of K and V at positions pos0 .. pos0 + T - 1 of `layer`, rounded to the view's element type
 * (kv_view.h). k, v [T, G, D] f32 with row stride ld. Nothing else in the pages is touched. */
typedef void bt_kv_store_fn(const bt_kv_view *kv, size_t layer, size_t pos0, size_t t, const float *k, const float *v,
                            size_t ld);

/* exp(min(x, 88)), and +0 for x below -87 or NaN, by the same operations in scalar and vector form (exp.h). Relative
 * error < 2^-22. */
float bt_exp1(float x);
/* tanh(x), by the same operations in scalar and vector form (exp.h). Relative error < 2^-22; a NaN gives NaN. */
float bt_tanh1(float x);
/* One value of the conversions above. */
float bt_f16_to_f32_1(uint16_t h);
uint16_t bt_f32_to_f16_1(float x);

/* ---- the list ----
 * Every kernel, once: KERNEL(name, function, kind, with). The list makes the members of a row of the dispatch table,
 * the rows (kernels.c), the declarations of all variants (variant.h) and the names that tests walk.
 *   name      the member, and the kernel's name in docs/performance.md and `baton bench --kernels`
 *   function  the kernel's type is function_fn; its variants are function_ref, function_avx2 and so on
 *   kind      which variants the kernel has, best first; ref, the specification, is always one of them
 *     WIDTH    by the width of registers: avx512, avx2; neon
 *     BYTES    by the instruction that multiplies bytes: avx512vnni, avxvnni, avx2; i8mm, dotprod, neon
 *     INTEGER  avx2, on machines with AVX-512 too; neon
 *     LANES    avx512, avx2
 *     PLAIN    ref alone
 *   with      what the user of the list passes to each KERNEL */
#define BT_KERNELS(KERNEL, with) \
    /* float/ */ \
    KERNEL(matmul, bt_matmul, WIDTH, with) \
    KERNEL(matmul8, bt_matmul8, WIDTH, with) \
    KERNEL(matmul4, bt_matmul4, WIDTH, with) \
    KERNEL(matmul_mx, bt_matmul_mx, WIDTH, with) \
    KERNEL(fp4_sums, bt_fp4_sums, WIDTH, with) \
    KERNEL(rmsnorm, bt_rmsnorm, WIDTH, with) \
    KERNEL(layernorm, bt_layernorm, WIDTH, with) \
    KERNEL(dots, bt_dots, WIDTH, with) \
    KERNEL(add, bt_add, WIDTH, with) \
    KERNEL(add_scaled, bt_add_scaled, WIDTH, with) \
    KERNEL(silu_mul, bt_silu_mul, WIDTH, with) \
    KERNEL(gelu, bt_gelu, WIDTH, with) \
    KERNEL(gelu_mul, bt_gelu_mul, WIDTH, with) \
    KERNEL(clamp_mul, bt_clamp_mul, WIDTH, with) \
    KERNEL(soft_cap, bt_soft_cap, WIDTH, with) \
    KERNEL(rope, bt_rope, WIDTH, with) \
    KERNEL(f32_to_f16, bt_f32_to_f16, WIDTH, with) \
    KERNEL(f16_to_f32, bt_f16_to_f32, WIDTH, with) \
    KERNEL(logit_range, bt_logit_range, WIDTH, with) \
    KERNEL(logit_sum, bt_logit_sum, WIDTH, with) \
    KERNEL(logit_bins, bt_logit_bins, WIDTH, with) \
    KERNEL(logit_list, bt_logit_list, WIDTH, with) \
    KERNEL(quantise8, bt_edge_quantise8, WIDTH, with) \
    KERNEL(quantise16, bt_edge_quantise16, WIDTH, with) \
    KERNEL(estimate8, bt_edge_estimate8, WIDTH, with) \
    KERNEL(scale8, bt_edge_scale8, WIDTH, with) \
    KERNEL(scale16, bt_edge_scale16, WIDTH, with) \
    KERNEL(scale64, bt_edge_scale64, WIDTH, with) \
    KERNEL(rotate, bt_edge_rotate, WIDTH, with) \
    KERNEL(kv_store, bt_kv_store, WIDTH, with) \
    /* attention/ */ \
    KERNEL(attn, bt_attn, WIDTH, with) \
    KERNEL(attn_span, bt_attn_span, WIDTH, with) \
    KERNEL(attn_merge, bt_attn_merge, WIDTH, with) \
    KERNEL(attn_some, bt_attn_some, WIDTH, with) \
    /* integer/ */ \
    KERNEL(int_prepare, bt_int_prepare, BYTES, with) \
    KERNEL(int_matmul, bt_int_matmul, BYTES, with) \
    KERNEL(int_unpack4, bt_int_unpack4, INTEGER, with) \
    KERNEL(int_palette, bt_int_palette, INTEGER, with) \
    KERNEL(int_planes, bt_int_planes, INTEGER, with) \
    KERNEL(int_join, bt_int_join, INTEGER, with) \
    KERNEL(int_requant32, bt_int_requant32, INTEGER, with) \
    KERNEL(int_requant64, bt_int_requant64, INTEGER, with) \
    KERNEL(int_shadow, bt_int_shadow, INTEGER, with) \
    KERNEL(int_rmsnorm32, bt_int_rmsnorm32, INTEGER, with) \
    KERNEL(int_headnorm16, bt_int_headnorm16, PLAIN, with) \
    KERNEL(int_rope16, bt_int_rope16, INTEGER, with) \
    KERNEL(int_softmax16, bt_int_softmax16, INTEGER, with) \
    KERNEL(int_silu_mul16, bt_int_silu_mul16, INTEGER, with) \
    KERNEL(int_gelu16, bt_int_gelu16, PLAIN, with) \
    KERNEL(int_gelu_mul16, bt_int_gelu_mul16, PLAIN, with) \
    KERNEL(int_add32, bt_int_add32, INTEGER, with) \
    KERNEL(int_split8, bt_int_split8, INTEGER, with) \
    KERNEL(int_split16, bt_int_split16, INTEGER, with) \
    KERNEL(int_rotate16, bt_int_rotate16, PLAIN, with) \
    KERNEL(int_from_f16, bt_int_from_f16, INTEGER, with) \
    KERNEL(int_from_q8, bt_int_from_q8, INTEGER, with) \
    KERNEL(int_attention16, bt_int_attention16, INTEGER, with) \
    KERNEL(int_topk, bt_int_topk, LANES, with)

/* The dispatch table: a row for each instruction set that this build has, best first, "ref" last. Tests walk it. */
typedef struct bt_kernels {
    const char *isa;     /* "avx512vnni", "avx512", "avxvnni", "avx2"; "i8mm", "dotprod", "neon"; "ref" */
    int (*usable)(void); /* whether this CPU and this system can run it */
#define BT_MEMBER(name, function, kind, with) function##_fn *name;
    BT_KERNELS(BT_MEMBER, )
#undef BT_MEMBER
} bt_kernels;
extern const bt_kernels bt_kernels_table[];
extern const size_t bt_kernels_table_len;

/* The names of the list, in its order, and the offset of each member in bt_kernels. */
typedef struct bt_kernels_name {
    const char *name;
    size_t offset;
} bt_kernels_name;
extern const bt_kernels_name bt_kernels_list[];
extern const size_t bt_kernels_list_len;
/* A name of the list as text; any other name does not compile. */
#define BT_KERNEL(name) (&#name[0 * sizeof((bt_kernels *)0)->name])

/* The row named by isa, or the best usable row if isa is NULL or "auto". NULL: no row has this name, or this machine
 * cannot run it. Any thread. Rows share the kernels that their instruction sets do not change. */
const bt_kernels *bt_kernels_select(const char *isa);
/* Uses the choices of the named core (cores.h) instead of those of this machine's core, which the first
 * bt_kernels_select of a row but ref makes; "auto": this machine's again. For tests and measurements, while no thread
 * computes. false: no core has this name. */
bool bt_kernels_use_core(const char *name);
/* A warning for people if this machine can run no row but ref, else NULL. Every program that computes prints it at its
 * start. */
const char *bt_kernels_warning(void);
/* Raised when any order or rounding above changes, or the sampler's rule; part of the exactness class in HELLO. */
#define BT_KERNELS_NUMERIC_VERSION 3u

/* The rows of kernels that this build has, best first, in the words of --isa. */
#if defined(__aarch64__)
#define BT_KERNELS_NAMES "i8mm, dotprod, neon or ref"
#elif defined(__x86_64__)
#define BT_KERNELS_NAMES "avx512vnni, avx512, avxvnni, avx2 or ref"
#else
#define BT_KERNELS_NAMES "ref"
#endif
#endif
