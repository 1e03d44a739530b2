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

/* The float kernels of the host engines, the list of all kernels, and the table that dispatches and tests them: these,
 * the integer kernels (int_kernels.h, int_ops.h), those of the border between the two (edge.h) and
 * the products over the other forms of weights (forms.h).
 *
 * Letters   T rows (tokens) of one call, K inputs, N outputs, D head_dim, H query heads, G kv heads.
 * Purity    no allocation, no logging, no libm; scratch comes from the caller. No globals but the core's choices
 *           (cores.h), which change no bit.
 * Memory    no byte outside the stated arrays is read or written; no alignment is needed unless said.
 * Exactness every variant returns the same bits as its _ref twin, for all inputs: all follow the orders below.
 *           Infinities and NaN too: variants agree on which elements are NaN, not on a NaN's bits. Products and sums
 *           named fma are one rounding; all others round each operation.
 *
 * Orders (the one order of each family; it never depends on T, threads, bucket or instruction set):
 *   matmul     one fma chain in ascending k for each output, starting from +0
 *   matmul8, matmul4   see forms.h
 *   dot        16 interleaved lanes: element i goes to lane i % 16 by fma in ascending i; then the fixed tree
 *              l[j] += l[j+8] (j<8), l[j] += l[j+4] (j<4), l[j] += l[j+2] (j<2), l[0] += l[1]
 *   rmsnorm    sum of squares as dot(x, x); scale = 1 / sqrtf(sum / K + eps); y = (x * scale) * w
 *   attention  see attn below
 *   exp        see bt_exp1 */

/* ---- matrix product over packed f16 weights ----
 * wp: panels of 16 output channels; panel p holds outputs 16p..16p+15, k ascending:
 *       wp[(p * K + k) * 16 + j] = f16 of w[16p + j][k], zero where 16p + j >= N.
 *     bt_matmul_packed_elems gives its length. 32-byte aligned. Values are finite.
 *   y[t * ldy + n] = bias[n] + sum over k of w[n][k] * x[t * ldx + k]         (bias added last; NULL: nothing added)
 * Shapes x[T, ldx] f32, y[T, ldy] f32, ldx >= K, ldy >= N. Only panels [p0, p1) are computed: the caller splits
 * these over threads. Rows t in [0, T), any T >= 1; T = 1 is the GEMV of decoding. y overlaps nothing. */
typedef void bt_matmul_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                          const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                          size_t p1);
static inline size_t bt_matmul_panels(size_t n) { return (n + 15) / 16; }
static inline size_t bt_matmul_packed_elems(size_t n, size_t k) { return bt_matmul_panels(n) * 16 * k; }
/* Pack rows w[rows, K] f32 (row-major) as outputs n0 .. n0+rows-1 of a matrix with K inputs; each value is rounded
 * to f16, nearest even, overflow to infinity (the caller checks). Call once for each slice of rows; start from
 * zeroed memory. */
void bt_matmul_pack(uint16_t *wp, const float *w, size_t n0, size_t rows, size_t k);

/* ---- rows ---- */
/* y[t] = rmsnorm(x[t]) * w, x[T, ldx], y[T, ldy], w[K]; y may equal x when ldy == ldx. */
typedef void bt_rmsnorm_fn(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                           size_t k);
/* y[i] = x[i] + y[i] */
typedef void bt_add_fn(float *restrict y, const float *restrict x, size_t count);
/* y[i] = (g[i] / (1 + exp(-g[i]))) * u[i]      (SwiGLU); y may equal g or u */
typedef void bt_silu_mul_fn(float *y, const float *g, const float *u, size_t count);
/* Rotary embedding in place on x[heads, D], pairs given by `neox`:
 *   neox = 0: pairs (2i, 2i+1);  neox = 1: pairs (i, i + R/2)   for i < R/2, R = rotary dims <= D, even
 *   a' = a * cos[i] - b * sin[i]  computed as fma(a, cos, -(b * sin));  b' = fma(a, sin, b * cos)
 * cos, sin [R/2] f32: the table row of the token's position. Elements at or past R are left alone. */
typedef void bt_rope_fn(float *x, size_t heads, size_t d, size_t r, const float *cos, const float *sin, int neox);
/* f32 -> f16 bits, nearest even; overflow gives infinity. And back, exact. */
typedef void bt_f32_to_f16_fn(uint16_t *restrict y, const float *restrict x, size_t count);
typedef void bt_f16_to_f32_fn(float *restrict y, const uint16_t *restrict x, size_t count);

/* ---- attention of T consecutive query rows over one sequence's KV ----
 * Query row t has absolute position pos0 + t and sees KV positions 0 .. pos0 + t, which are all stored (the caller
 * stored this call's own K and V before). q[T, H, D] f32 row stride ldq, out[T, H, D] f32 row stride ldo; query head h
 * reads kv head h / (H / G). Only query heads [h0, h1) are computed: the caller splits these over threads (rows too,
 * by calling with a sub-range of rows and its own pos0).
 *
 * Order, for one (row, head), with P = pos + 1 visible positions and scale s:
 *   for each span of 256 absolute positions, ascending:
 *     m = -inf, l[16] = 0, acc[D] = 0
 *     for each block of 64 positions in it, ascending (only the visible ones):
 *       z[j]  = (fma chain over ascending d of q[d] * K[j][d], starting from +0) * s; a NaN counts as +inf
 *       bm    = max(m, z[..]);  c = exp(m - bm);  m = bm          (c = 0 while m = -inf)
 *       p[j]  = exp(z[j] - m)
 *       l[i]  = l[i] * c, then + p[j] for each j with j % 16 = i, ascending
 *       acc[d]= fma chain over ascending j of p[j] * V[j][d], starting from acc[d] * c
 *     l = the tree of dot over l[16]
 *     merge (m, l, acc) into the running (M, L, A): the first span is taken as it is, then
 *       n = max(M, m); a = exp(M - n); b = exp(m - n); L = L * a + l * b (two muls, one add);
 *       A[d] = A[d] * a + acc[d] * b (two muls, one add); M = n
 *   out[d] = A[d] / L, and NaN for every d where M is not finite: a score overflowed, or is a NaN
 * Up to BT_ATTN_PAIRS (row, head) pairs of a kv head go over K and V together, once; more than that, in turns. Where
 * whole kv heads have BT_ATTN_FEW_PAIRS pairs or less each, as many heads go at once as have BT_ATTN_PAIRS pairs in
 * all: rows are read as they lie. D <= 256. scratch: bt_attn_scratch_bytes(D) bytes for each call in flight, 64-byte
 * aligned. */
enum { BT_ATTN_SPAN = 256, BT_ATTN_PAIRS = 192, BT_ATTN_FEW_PAIRS = 8 };
typedef void bt_attn_fn(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                        size_t t, size_t pos0, size_t heads, size_t h0, size_t h1, float scale, void *scratch);
size_t bt_attn_scratch_bytes(size_t head_dim);

/* The same in two steps, so that threads can share a long sequence: some spans of some kv heads, then the merge of all
 * spans of one. Bits are those of bt_attn_fn.
 *   span   spans [s0, s1) of T rows and all heads of kv heads [g0, g1), H / G of each: (m, l, acc) of row t, head i of
 *          kv head g and span s to part[(((g * T + t) * (H / G) + i) * spans + s) * bt_attn_part_floats(D)]. Spans that
 *          a row does not see are not written.
 *   merge  out[T, ldo] at the first head of a kv head, from all spans that each row sees; part: where that kv head's
 *          begin. */
typedef void bt_attn_span_fn(float *part, size_t spans, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                             size_t t, size_t pos0, size_t heads, size_t g0, size_t g1, size_t s0, size_t s1,
                             float scale, void *scratch);
typedef void bt_attn_merge_fn(float *out, size_t ldo, const float *part, size_t spans, size_t t, size_t pos0,
                              size_t group, size_t d);
size_t bt_attn_part_floats(size_t head_dim);

/* ---- sparse attention ----
 * Rows in 8 bits for an integer estimate of the scores, the choice of the greatest, and attention over those alone. The
 * estimate's product is int_matmul with K rows in the place of weights. */

/* Rows x[T, ldx] f32, K <= 256 wide, to y[T, ldy] s8, each with the scale that fits it. A row has one of three units
 * s_e = scale * 2^(e - 1), e = 0, 1, 2:
 *   q_e[i] = clamp(rint(x[i] * (1 / s_e)), -127, 127) as quantise8 of edge.h
 *   err_e  = dot(r, r), r[i] = fma(-q_e[i], s_e, x[i])
 * e is the one with the least error, of equal ones the smallest, 0 where errors are no numbers. shift[t] = e: q << e
 * is in units of s_0 for every row. Bytes from K to ldy are zero. ldy is a multiple of 16, >= K; scale in [2^-100,
 * 2^100]. */
typedef void bt_edge_estimate8_fn(int8_t *restrict y, size_t ldy, uint8_t *restrict shift, const float *restrict x,
                                  size_t ldx, float scale, size_t t, size_t k);

/* The k greatest of n numbers v[i] = score[i] << shift[i]: their indices to at, ascending; of equal ones the smaller
 * index goes first. 1 <= k <= n < 2^31, |v| <= 2^30, shift <= 2. at has room for k + BT_TOPK_ROOM indices, of which
 * those past k are left as anything. score [n] and scratch [n] are lost. */
enum { BT_TOPK_ROOM = 16 };
typedef void bt_int_topk_fn(uint32_t *restrict at, size_t k, int32_t *restrict score, const uint8_t *restrict shift,
                            size_t n, int32_t *restrict scratch);

/* Attention over some positions, of rows and heads that share a list: `rows` consecutive rows q[rows, ldq] and `width`
 * heads of D of kv head g in each, to out[rows, ldo]; the order of attn over the positions at[count], ascending. The
 * last row takes them all, the one before all but the last, and so on: rows <= count. All others are left out: their
 * weight is +0, and they take no part in the chains. Spans, blocks of 64 and the lanes of l go by the position as ever;
 * a block or a span of which no position is there is passed over, and the first span that is there is taken as it is.
 * With all positions from 0 on the bits are those of attn. What a pair computes does not depend on which others share
 * its list. With `take` row r takes at[i] where bit r of take[i] is set, and all else is left out. rows * width <=
 * BT_ATTN_SHARED_PAIRS. scratch: bt_attn_scratch_bytes(D), 64-byte aligned. */
enum { BT_ATTN_SHARED_PAIRS = 48 };
typedef struct bt_attn_list {
    const uint32_t *at;
    size_t count, rows, width;
    const uint16_t *take; /* [count], rows <= 16, every row takes one at least; or NULL */
} bt_attn_list;
typedef void bt_attn_some_fn(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                             size_t g, const bt_attn_list *list, float scale, void *scratch);

/* Store T rows of K and V at positions pos0 .. pos0 + T - 1 of `layer`, rounded to the view's element type
 * (kv_view.h). k, v [T, G, D] f32 with row stride ld. Nothing else in the pages is touched. */
typedef void bt_kv_store_fn(const bt_kv_view *kv, size_t layer, size_t pos0, size_t t, const float *k, const float *v,
                            size_t ld);

/* exp(x) for x <= 88 (above: exp(88)): the project's own, the same operations in scalar and vector form.
 *   n = rint(x * log2 e) to nearest even; r = fma(-n, ln2_hi, x); r = fma(-n, ln2_lo, r);
 *   a polynomial of degree 6 in r by Horner with fma; times 2^n. Below -87 the result is +0. Relative error < 2^-22. */
float bt_exp1(float x);
float bt_f16_to_f32_1(uint16_t h);
uint16_t bt_f32_to_f16_1(float x);

/* ---- the list ----
 * Every kernel, once: KERNEL(name, function, kind, with). From it are made the members of a row of the dispatch table,
 * the rows (kernels.c), the declarations of all variants (variant.h) and the names that checks go through.
 *   name      the member; docs/performance.md, `baton bench --kernels` and its test know the kernel by it
 *   function  its type is function_fn, its variants are function_ref, function_avx2 and so on
 *   kind      which variants there are, and which of them a row takes; ref, the specification, there always is
 *     WIDTH    by the width of registers: avx512, avx2; neon
 *     BYTES    by the instruction that multiplies bytes: avx512vnni, avxvnni, avx2; i8mm, dotprod, neon
 *     INTEGER  avx2, which machines with AVX-512 run too; neon
 *     LANES    avx512, avx2
 *     PLAIN    ref alone
 * with is what the user of the list hands to each. */
#define BT_KERNELS(KERNEL, with) \
    /* float/ */ \
    KERNEL(matmul, bt_matmul, WIDTH, with) \
    KERNEL(matmul8, bt_matmul8, WIDTH, with) \
    KERNEL(matmul4, bt_matmul4, WIDTH, with) \
    KERNEL(fp4_sums, bt_fp4_sums, WIDTH, with) \
    KERNEL(rmsnorm, bt_rmsnorm, WIDTH, with) \
    KERNEL(add, bt_add, WIDTH, with) \
    KERNEL(silu_mul, bt_silu_mul, WIDTH, with) \
    KERNEL(rope, bt_rope, WIDTH, with) \
    KERNEL(f32_to_f16, bt_f32_to_f16, WIDTH, with) \
    KERNEL(f16_to_f32, bt_f16_to_f32, WIDTH, with) \
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
    KERNEL(int_add32, bt_int_add32, INTEGER, with) \
    KERNEL(int_split8, bt_int_split8, INTEGER, with) \
    KERNEL(int_split16, bt_int_split16, INTEGER, with) \
    KERNEL(int_rotate16, bt_int_rotate16, PLAIN, with) \
    KERNEL(int_from_f16, bt_int_from_f16, INTEGER, with) \
    KERNEL(int_from_q8, bt_int_from_q8, INTEGER, with) \
    KERNEL(int_attention16, bt_int_attention16, INTEGER, with) \
    KERNEL(int_topk, bt_int_topk, LANES, with)

/* One row per variant compiled in, best first, "ref" last: the dispatch table and the list that tests walk. */
typedef struct bt_kernels {
    const char *isa;     /* "avx512vnni", "avx512", "avxvnni", "avx2"; "i8mm", "dotprod", "neon"; "ref" */
    int (*usable)(void); /* may this CPU and this system run it? */
#define BT_MEMBER(name, function, kind, with) function##_fn *name;
    BT_KERNELS(BT_MEMBER, )
#undef BT_MEMBER
} bt_kernels;
extern const bt_kernels bt_kernels_table[];
extern const size_t bt_kernels_table_len;

/* The names of the list, in its order, and where a row has each. */
typedef struct bt_kernels_name {
    const char *name;
    size_t offset;
} bt_kernels_name;
extern const bt_kernels_name bt_kernels_list[];
extern const size_t bt_kernels_list_len;
/* A name of the list as text; one that the list has not does not compile. */
#define BT_KERNEL(name) (&#name[0 * sizeof((bt_kernels *)0)->name])

/* The row named by isa, or the best usable one if isa is NULL or "auto". NULL: no such name, or this machine cannot
 * run it.
 * Rows share the kernels that their instruction sets do not change. */
const bt_kernels *bt_kernels_select(const char *isa);
/* The first call of bt_kernels_select finds out what core this is (cores.h). Instead, as on the one that is named;
 * "auto": this one again. For tests and measurements, while no thread computes. false: no row has this name. */
bool bt_kernels_use_core(const char *name);
/* A line for people where this machine can run no row but ref, which every program that computes says at its start;
 * else NULL. */
const char *bt_kernels_warning(void);
/* Part of the exactness class in HELLO: raised when any order or rounding above changes. */
#define BT_KERNELS_NUMERIC_VERSION 2u

/* The rows of kernels that this build has, best first, in the words of --isa. */
#if defined(__aarch64__)
#define BT_KERNELS_NAMES "i8mm, dotprod, neon or ref"
#elif defined(__x86_64__)
#define BT_KERNELS_NAMES "avx512vnni, avx512, avxvnni, avx2 or ref"
#else
#define BT_KERNELS_NAMES "ref"
#endif
#endif
