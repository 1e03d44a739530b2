#ifndef BT_KERNELS_INT_KERNELS_H
#define BT_KERNELS_INT_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The integer matrix kernels of the NPU. Files named int_* are the NPU's: no float arithmetic, compare or convert
 * instruction in their object code (moves and logic are allowed); tests/unit/npu/run/test_no_float.c looks.
 *
 * Letters   T rows, K inputs, N outputs, k4 = ceil(K / 4) groups of four inputs.
 * Purity    no allocation, no globals; any alignment unless said; nothing outside the stated arrays is read or written.
 * Exactness integers: every variant returns the same bits as its _ref twin, for all inputs in range.
 *
 * Weights, stored once for all instruction sets: panels of 16 outputs,
 *   s8   wp[((p * k4 + k / 4) * 16 + n % 16) * 4 + k % 4] = w[n][k], p = n / 16; 64 bytes for each (p, k / 4)
 *   s4   the same order, two to a byte, the even k in the low nibble: 32 bytes for each (p, k / 4); two's complement
 * Outputs past N and inputs past K are zero. s8 in [-127, 127], s4 in [-7, 7]. Panels are 64-byte aligned.
 *
 * Weights in groups of G inputs along k (32, 64 or 128, which divides K): a group has a step and an offset, whole
 * numbers in units of its output's scale, and a weight of it stands for
 *   v[n][k] = step * w[n][k] + offset, |v| <= BT_INT_GROUP_MAX; s4 then in [-8, 7]
 * which is multiplied as two planes of s8, v = 128 * high + low, low in [-64, 63]. A sum over all groups is one sum of
 * integers: exact, so that its parts may be joined in any order.
 *
 * Weights in palettes: an index of B = 4 or 6 bits says which of 2^B numbers of s8, in [-127, 127], a weight is. A
 * panel's 16 outputs share a palette over a run of R inputs, which divides K (R = K: over all of them), both multiples
 * of four: palettes[p * K / R + k / R][2^B]. Outputs past N have index 0.
 *   4 bits   the order of s4, no sign
 *   6 bits   48 bytes for each (p, k / 4): the low four bits of each index, as with 4 bits; then 16 bytes, one for an
 *            output, with the upper two bits of its four indices, the first lowest */
typedef struct bt_int_group { /* of a panel's 16 outputs: groups[p * K / G + k / G], p = n / 16; zeros past N */
    int16_t step[16], offset[16];
} bt_int_group;
enum { BT_INT_GROUP_MAX = 127 * 128 + 63 };
static inline size_t bt_int_k4(size_t k) { return (k + 3) / 4; }
static inline size_t bt_int_panels(size_t n) { return (n + 15) / 16; }
static inline size_t bt_int_panel_bytes(size_t k, unsigned bits) { return bt_int_k4(k) * 8 * bits; } /* 4, 6 or 8 */

/* Put rows w[rows, K] of integers as outputs n0 .. n0 + rows - 1; start from zeroed memory. */
void bt_int_pack(uint8_t *wp, const int8_t *w, size_t n0, size_t rows, size_t k, unsigned bits);
/* The weight (n, k) of a packed matrix. */
int bt_int_packed_at(const uint8_t *wp, size_t n, size_t k, size_t k_count, unsigned bits);
/* The same of indices of palettes: index[rows, K], K a multiple of four. */
void bt_int_pack_indices(uint8_t *wp, const uint8_t *index, size_t n0, size_t rows, size_t k, unsigned bits);
unsigned bt_int_index_at(const uint8_t *wp, size_t n, size_t k, size_t k_count, unsigned bits);

/* One panel of s8 from rows q[rows, ld], rows <= 16, 4 * k4 bytes each with zeros past K; and the sums of its 16
 * outputs. Outputs past `rows` are zero. */
void bt_int_pack_panel(int8_t *wp, int32_t colsum[16], const int8_t *q, size_t ld, size_t rows, size_t k4);

/* How 8 bits hold an input q, a whole number of steps: y = clamp(q + zero, least, 127). Symmetric: {0, -127}.
 * Asymmetric, u8 as devices have it less 128: zero in [-128, 127], least -128; a product with y then is too large by
 * zero times the sum of the weights, whole numbers as well. */
typedef struct bt_int_range {
    int16_t zero, least;
} bt_int_range;
#define BT_INT_SYMMETRIC ((bt_int_range){0, -127})
static inline bt_int_range bt_int_asymmetric(int zero) { return (bt_int_range){(int16_t)zero, -128}; }
enum { BT_INT_MAX_ASYMMETRIC_K = INT32_MAX / (255 * 127) }; /* inputs whose sum of (y - zero) * w fits 32 bits */

/* What a clip took from a row: r more of the input k. */
typedef struct bt_int_shadow {
    uint32_t k;
    int32_t r;
} bt_int_shadow;

/* Inputs made ready for the product, once for all that is multiplied with them: [rows, 4 * k4] of 8 bits, or of 16 bits
 * in two planes; and beside those of 8 bits, short shadows. What memory holds is between prepare and matmul of one
 * instruction set. */
typedef struct bt_int_inputs {
    uint8_t *memory; /* bt_int_inputs_bytes, 64-byte aligned */
    size_t rows, k4;
    bool is_wide; /* 16 bits */
} bt_int_inputs;
size_t bt_int_inputs_bytes(size_t rows, size_t k, bool is_wide);

/* 16-bit inputs are two planes of s8: value = 256 * hi + lo, lo in [-128, 127], |value| <= 32639 so that hi <= 127. */
enum { BT_INT_MAX16 = 32639 };

/* s8 in [-128, 127], 4 * k4 readable bytes a row: those past K multiply zero. */
typedef struct bt_int_rows {
    const int8_t *hi, *lo; /* [rows, ld]; lo: where inputs are wide */
    size_t ld, k;
    const bt_int_shadow *shadow;  /* [rows, k], k ascending */
    const uint32_t *shadow_count; /* [rows]; NULL: no row has any */
} bt_int_rows;

/* Rows [r0, r1) of x made ready; rows are independent. A row's shadow becomes part of its product, or the product goes
 * without it: is_left[row] says that there is one, and that the caller has to add it (int_shadow). It is always left
 * where inputs are wide, where the sums might not fit 32 bits (sum of |r| > bt_int_shadow_room), and where a variant
 * has no room: for an |r| > 32767 or many. */
typedef void bt_int_prepare_fn(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left);

/* What 32 bits leave beside a sum of K products of (y - zero) and a weight, 255 * 127 at most; 0 or less: nothing. */
static inline int64_t bt_int_shadow_room(size_t k) { return (INT32_MAX - (int64_t)k * 255 * 127) / 127; }
/* Can a row's shadow of `count` be part of a product of 32 bits, and each entry a number of 16? */
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

/* acc[t * ldacc + n - 16 * p0] = sum over k of x[row + t][k] * w[n][k], and of r * w[n][k] of its shadow, for t rows
 * from `row` on and the outputs of panels [p0, p1), all 16 of each. acc is hi, or 256 * hi + lo where x is wide; how it
 * is divided among the two is the variant's own. lo is NULL where x is not wide.
 * wp is the whole matrix's first panel. colsum[n] = sum over k of w[n][k] of all outputs, padded to whole panels with
 * zero. 1 <= K <= BT_INT_MAX_K cannot overflow. Best for 256 rows and 8 panels a call: x and acc then stay in the
 * second cache. hi and lo overlap nothing. scratch: BT_INT_MATMUL_SCRATCH_BYTES, 64-byte aligned. */
typedef void bt_int_matmul_fn(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                              size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                              size_t p1, void *restrict scratch);
enum { BT_INT_MATMUL_SCRATCH_BYTES = 2 * 160 * 64, BT_INT_MAX_K = 131071 };

/* s4 panels [p0, p1) to s8 panels at to (panel p0 first). */
typedef void bt_int_unpack4_fn(int8_t *restrict to, const uint8_t *restrict wp4, size_t k4, size_t p0, size_t p1);

/* Panels [p0, p1) of weights in palettes to s8 panels at to (panel p0 first). bits: 4 or 6. run4: groups of four inputs
 * that share a palette, which divides k4. wp and palettes are the whole matrix's. */
typedef void bt_int_palette_fn(int8_t *restrict to, const uint8_t *restrict wp, unsigned bits,
                               const int8_t *restrict palettes, size_t k4, size_t run4, size_t p0, size_t p1);

/* Panels [p0, p1) of weights in groups of 4 * group4 inputs, which divides k4, to the planes of what they stand for:
 * s8 panels at low and at high (panel p0 first). wp and groups are the whole matrix's. */
typedef void bt_int_planes_fn(int8_t *restrict low, int8_t *restrict high, const uint8_t *restrict wp, unsigned bits,
                              const bt_int_group *restrict groups, size_t k4, size_t group4, size_t p0, size_t p1);
static inline int bt_int_plane_high(int v) { return (v + 64 + 128 * 128) / 128 - 128; } /* |v| <= BT_INT_GROUP_MAX */

/* The sums of two planes joined: v[i] += 128 * high[i] + low[i], n a multiple of 16. With wide inputs a plane's sum is
 * 256 * hi + lo, and both planes have a lo; else the sum is hi, and neither has one. */
typedef struct bt_int_plane_sums {
    const int32_t *hi, *lo;
} bt_int_plane_sums;
typedef void bt_int_join_fn(int64_t *restrict v, bt_int_plane_sums high, bt_int_plane_sums low, size_t n);

/* Requantise, single rounding, half up: y = clamp(floor(acc * m / 2^s + 1/2)), m in [2^30, 2^31), s in [1, 62]
 * (the multiplier m / 2^s). Per output channel n: m[n], s[n]. y in [-limit, limit], limit >= 0. acc + bias first, bias
 * NULL: nothing added.
 * requant32 takes accumulators of s32 (acc + bias must fit s64), requant64 of |acc + bias| < 2^62. */
typedef void bt_int_requant32_fn(int16_t *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                                 const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                                 size_t n);
typedef void bt_int_requant64_fn(int16_t *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                                 const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                                 size_t n);
/* floor(v * m / 2^s + 1/2), by 128-bit arithmetic, kept within s64; m >= 0, s in [0, 126]. */
int64_t bt_int_scale1(int64_t v, int32_t m, unsigned s);

/* The integer shadow of one row: acc[n - 16 * p0] += sum over i of r[i] * w[n][k[i]], outputs of panels [p0, p1).
 * |r| < 2^24, count <= K. Exact in int64, free of order. */
typedef void bt_int_shadow_fn(int64_t *restrict acc, const bt_int_shadow *shadow, size_t count,
                              const int8_t *restrict wp, size_t k4, size_t p0, size_t p1);
#endif
