#ifndef BT_KERNELS_INT_KERNELS_H
#define BT_KERNELS_INT_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The integer matrix kernels of the NPU. Object code of files named int_* has no float arithmetic, compare or convert
 * instruction (moves and logic are allowed); tests/unit/npu/run/test_no_float.c checks it.
 *
 * Letters   T rows, K inputs, N outputs, k4 = ceil(K / 4) groups of four inputs.
 * Purity    no allocation, no globals but the core's choices (cores.h); any alignment unless said; nothing outside the
 *           stated arrays is read or written.
 * Exactness integers: every variant returns the same bits as its _ref twin, for all inputs in range.
 *
 * Weights, stored once for all instruction sets: panels of 16 outputs,
 *   s8   wp[((p * k4 + k / 4) * 16 + n % 16) * 4 + k % 4] = w[n][k], p = n / 16; 64 bytes for each (p, k / 4)
 *   s4   the same order, two weights to a byte, the even k in the low nibble, in two's complement; 32 bytes for each
 *        (p, k / 4)
 * Outputs past N and inputs past K are zero. s8 in [-127, 127], s4 in [-7, 7]. Panels are 64-byte aligned.
 *
 * Weights in groups of G inputs along k (G = 32, 64 or 128, divides K): each group of an output has a step and an
 * offset, whole numbers in units of the output's scale. A packed weight w, s4 in [-8, 7] here, stands for
 *   v[n][k] = step * w[n][k] + offset, |v| <= BT_INT_GROUP_MAX
 * v is multiplied as two planes of s8, v = 128 * high + low, low in [-64, 63]. Sums over all groups are exact integers,
 * so their parts may be joined in any order.
 *
 * Weights in palettes: a packed weight is an index of B = 4 or 6 bits into a palette of 2^B numbers in [-127, 127], s8.
 * A panel's 16 outputs share a palette over a run of R inputs; R divides K, and both are multiples of four. The palette
 * of (p, k) is palettes[p * K / R + k / R][2^B]. Outputs past N have index 0.
 *   4 bits   the order of s4, unsigned
 *   6 bits   48 bytes for each (p, k / 4): 32 bytes with the low four bits of each index, as for 4 bits; then 16 bytes,
 *            one for each output, with the upper two bits of its four indices, the first index lowest */
typedef struct bt_int_group { /* of a panel's 16 outputs, zeros past N: groups[p * K / G + k / G], p = n / 16 */
    int16_t step[16], offset[16];
} bt_int_group;
enum { BT_INT_GROUP_MAX = 127 * 128 + 63 };
static inline size_t bt_int_k4(size_t k) { return (k + 3) / 4; }
static inline size_t bt_int_panels(size_t n) { return (n + 15) / 16; }
/* bits: 4, 6 or 8. */
static inline size_t bt_int_panel_bytes(size_t k, unsigned bits) { return bt_int_k4(k) * 8 * bits; }

/* Packs rows w[rows, K] of integers as outputs n0 .. n0 + rows - 1, bits 4 or 8; wp starts as zeroed memory. */
void bt_int_pack(uint8_t *wp, const int8_t *w, size_t n0, size_t rows, size_t k, unsigned bits);
/* The packed weight (n, k) of a matrix with k_count inputs. */
int bt_int_packed_at(const uint8_t *wp, size_t n, size_t k, size_t k_count, unsigned bits);
/* The same two for palette indices, index[rows, K], K a multiple of four, bits 4 or 6. */
void bt_int_pack_indices(uint8_t *wp, const uint8_t *index, size_t n0, size_t rows, size_t k, unsigned bits);
unsigned bt_int_index_at(const uint8_t *wp, size_t n, size_t k, size_t k_count, unsigned bits);

/* Packs one panel of s8 from rows q[rows, ld], rows <= 16, each of 4 * k4 bytes with zeros past K, and sums the weights
 * of its 16 outputs. Outputs past `rows` are zero. */
void bt_int_pack_panel(int8_t *wp, int32_t colsum[16], const int8_t *q, size_t ld, size_t rows, size_t k4);

/* How 8 bits hold an input q, a whole number of steps: y = clamp(q + zero, least, 127). Symmetric: zero 0, least -127.
 * Asymmetric (a device's u8 minus 128): zero in [-128, 127], least -128. A product with such y is too large by zero
 * times the sum of the weights, and the caller subtracts that. */
typedef struct bt_int_range {
    int16_t zero, least;
} bt_int_range;
#define BT_INT_SYMMETRIC ((bt_int_range){0, -127})
static inline bt_int_range bt_int_asymmetric(int zero) { return (bt_int_range){(int16_t)zero, -128}; }
enum { BT_INT_MAX_ASYMMETRIC_K = INT32_MAX / (255 * 127) }; /* so many terms (y - zero) * w fit a sum of 32 bits */

/* An entry of a shadow, which is what a clip took from a row: input k was the row's value plus r. */
typedef struct bt_int_shadow {
    uint32_t k;
    int32_t r;
} bt_int_shadow;

/* Inputs prepared for the product, once for all matrices that multiply them: [rows, 4 * k4] of 8 bits with short
 * shadows, or of 16 bits. Only bt_int_prepare and bt_int_matmul of one row of the dispatch table agree on the layout of
 * memory. */
typedef struct bt_int_inputs {
    uint8_t *memory; /* [bt_int_inputs_bytes], 64-byte aligned */
    size_t rows, k4;
    bool is_wide; /* inputs of 16 bits */
} bt_int_inputs;
size_t bt_int_inputs_bytes(size_t rows, size_t k, bool is_wide);

/* 16-bit inputs come as two planes of s8: value = 256 * hi + lo, lo in [-128, 127]. |value| <= 32639, so that hi <=
 * 127. */
enum { BT_INT_MAX16 = 32639 };

/* Rows before preparation: s8 in [-128, 127]. Each row has 4 * k4 readable bytes; those past K may hold anything,
 * because their weights are zero. */
typedef struct bt_int_rows {
    const int8_t *hi, *lo; /* [rows, ld]; lo is read only for wide inputs */
    size_t ld, k;
    const bt_int_shadow *shadow;  /* [rows, k], k ascending */
    const uint32_t *shadow_count; /* [rows]: entries of each row; NULL: no row has a shadow */
} bt_int_rows;

/* Prepares rows [r0, r1) of x; rows are independent. A row's shadow becomes part of its product, unless is_left[row]
 * says that the row has a shadow which the caller must add (int_shadow). A shadow is left if inputs are wide, if sums
 * might not fit 32 bits (sum of |r| > bt_int_shadow_room), if an |r| > 32767, or if the variant has no room for its
 * entries. */
typedef void bt_int_prepare_fn(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left);

/* The greatest sum of |r| whose products with weights fit s32 beside K products of (y - zero) and a weight, each 255 *
 * 127 at most. 0 or less: none fits. */
static inline int64_t bt_int_shadow_room(size_t k) { return (INT32_MAX - (int64_t)k * 255 * 127) / 127; }
/* Whether a row's shadow of `count` entries fits a product of 32 bits, and each r fits s16. */
static inline bool bt_int_shadow_is_short(const bt_int_shadow *s, size_t count, size_t k)
{
    int64_t room = bt_int_shadow_room(k);
    for (size_t i = 0; i < count; i++) {
        const int64_t size = s[i].r < 0 ? -(int64_t)s[i].r : s[i].r;
        if (size > INT16_MAX) return false;
        room -= size;
    }
    return room >= 0;
}

/* acc[i * ldacc + n - 16 * p0] = sum over k of x[row + i][k] * w[n][k], plus r * w[n][k] of the row's prepared shadow,
 * for i in [0, t) and all 16 outputs of each panel in [p0, p1). acc is hi; for wide x it is 256 * hi + lo, and each
 * variant divides a sum between hi and lo in its own way. lo is NULL where x is not wide.
 *
 * wp begins at the matrix's panel 0. colsum[n] = sum over k of w[n][k], for all outputs, with zeros up to whole panels.
 * 1 <= K <= BT_INT_MAX_K: no overflow. Fastest with 256 rows and 8 panels a call, because x and acc then stay in the
 * second cache. hi and lo overlap nothing. scratch: BT_INT_MATMUL_SCRATCH_BYTES, 64-byte aligned. */
typedef void bt_int_matmul_fn(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                              size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                              size_t p1, void *restrict scratch);
enum { BT_INT_MATMUL_SCRATCH_BYTES = 2 * 160 * 64, BT_INT_MAX_K = 131071 };

/* Unpacks s4 panels [p0, p1) to s8 panels at `to`, panel p0 first. */
typedef void bt_int_unpack4_fn(int8_t *restrict to, const uint8_t *restrict wp4, size_t k4, size_t p0, size_t p1);

/* Looks up panels [p0, p1) of weights in palettes: s8 panels at `to`, panel p0 first. bits: 4 or 6. run4: how many
 * groups of four inputs share a palette; divides k4. wp and palettes begin at the matrix's panel 0. */
typedef void bt_int_palette_fn(int8_t *restrict to, const uint8_t *restrict wp, unsigned bits,
                               const int8_t *restrict palettes, size_t k4, size_t run4, size_t p0, size_t p1);

/* Splits v of panels [p0, p1) of weights in groups into planes: s8 panels at low and at high, panel p0 first. A group
 * has 4 * group4 inputs; group4 divides k4. bits: 4 or 8. wp and groups begin at the matrix's panel 0. */
typedef void bt_int_planes_fn(int8_t *restrict low, int8_t *restrict high, const uint8_t *restrict wp, unsigned bits,
                              const bt_int_group *restrict groups, size_t k4, size_t group4, size_t p0, size_t p1);
/* The high plane of v, floor((v + 64) / 128), |v| <= BT_INT_GROUP_MAX. */
static inline int bt_int_plane_high(int v) { return (v + 64 + 128 * 128) / 128 - 128; }

/* Joins the sums of two planes: v[i] += 128 * high[i] + low[i], n a multiple of 16. A plane's sum is hi, and lo is
 * NULL; with wide inputs it is 256 * hi + lo. */
typedef struct bt_int_plane_sums {
    const int32_t *hi, *lo;
} bt_int_plane_sums;
typedef void bt_int_join_fn(int64_t *restrict v, bt_int_plane_sums high, bt_int_plane_sums low, size_t n);

/* Requantises sums acc[T, ldacc] to y[T, ldy], N outputs wide, with one rounding, half up:
 *   y = floor((acc + bias[n]) * m[n] / 2^s[n] + 1/2), clamped to [-limit, limit]
 * m in [2^30, 2^31), s in [1, 62], limit >= 0; bias NULL: nothing added. requant32 takes s32 sums (acc + bias must fit
 * s64), requant64 s64 sums with |acc + bias| < 2^62. */
typedef void bt_int_requant32_fn(int16_t *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                                 const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                                 size_t n);
typedef void bt_int_requant64_fn(int16_t *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                                 const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                                 size_t n);
/* floor(v * m / 2^s + 1/2), by 128-bit arithmetic, clamped to s64; m >= 0, s in [0, 126]. */
int64_t bt_int_scale1(int64_t v, int32_t m, unsigned s);

/* Adds one row's shadow of `count` entries to its sums: acc[n - 16 * p0] += sum over i of r[i] * w[n][k[i]], for the
 * outputs of panels [p0, p1). |r| < 2^24, count <= K. Exact in int64. */
typedef void bt_int_shadow_fn(int64_t *restrict acc, const bt_int_shadow *shadow, size_t count,
                              const int8_t *restrict wp, size_t k4, size_t p0, size_t p1);
#endif
