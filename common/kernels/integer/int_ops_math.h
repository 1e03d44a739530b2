#ifndef BT_KERNELS_INT_OPS_MATH_H
#define BT_KERNELS_INT_OPS_MATH_H
#include "base/wide.h"
#include "kernels/int_ops.h"

/* The scalar arithmetic that all variants of the integer operators share: the formulas of int_ops.h, word for word.
 * Right shifts of negative numbers are arithmetic, as gcc and clang promise; products replace left shifts. */

/* floor(p / 2^s + 1/2), |p| < 2^62, s in [0, 62] */
static inline int64_t int_round_shift(int64_t p, unsigned s) { return s ? (p + ((int64_t)1 << (s - 1))) >> s : p; }
/* scale of int_ops.h, |v| <= 2^31 */
static inline int64_t int_scale(int64_t v, bt_int_mul m) { return int_round_shift(v * m.m, m.s); }
static inline int64_t int_clamp(int64_t v, int64_t limit) { return v < -limit ? -limit : v > limit ? limit : v; }
static inline int32_t int_mulh(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31); }
static inline int32_t int_rdp(int32_t a, unsigned e)
{
    const int32_t mask = (int32_t)((1u << e) - 1), rest = a & mask;
    return (a >> e) + (rest > (mask >> 1) + (a < 0));
}

/* exp(-1/4), exp(-1/2), exp(-1), ... exp(-16) in units of 2^-31: the factor for each bit of `rest`, counted in
 * quarters. */
#define INT_EXP_STEPS \
    { \
        1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242 \
    }
enum {
    INT_EXP_EIGHTH = 1895147668, /* exp(-1/8) in units of 2^-31 */
    INT_THIRD = 715827883,       /* 1/3 in units of 2^-31 */
    INT_48_17 = 1515870810,      /* 48/17 in units of 2^-29; 1 / half is first taken for (48 - 32 half) / 17 */
    INT_32_17 = 1010580540,
    INT_GELU_1 = 428361012, /* the factors of c and q in bt_int_gelu16_fn */
    INT_GELU_3 = 1225866409,
};

static inline int32_t int_exp(int32_t a)
{
    static const int32_t step[7] = INT_EXP_STEPS;
    const int32_t m = (a & ((1 << 24) - 1)) - (1 << 24), rest = m - a; /* a = m - rest, m in [-1/4, 0) */
    const int32_t x = m * 32 + (1 << 28), x2 = int_mulh(x, x);         /* m + 1/8 in units of 2^-31 */
    const int32_t high = int_rdp(int_mulh(x2, x2), 2) + int_mulh(x2, x);
    const int32_t poly = x + int_rdp(int_mulh(high, INT_THIRD) + x2, 1);
    int32_t e = INT_EXP_EIGHTH + int_mulh(INT_EXP_EIGHTH, poly);
    for (int i = 0; i < 7; i++)
        if (rest & 1 << (24 + i)) e = int_mulh(e, step[i]);
    return a == 0 ? INT32_MAX : e;
}

static inline int32_t int_one_over_one_plus(int32_t a)
{
    const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = INT_48_17 - int_mulh(half, INT_32_17);
    for (int i = 0; i < 3; i++) x += 4 * int_mulh(x, (1 << 29) - int_mulh(half, x));
    return x >= 1 << 30 ? INT32_MAX : 2 * x;
}

/* The sigmoid of c / 2^26, or of -c / 2^26 if negative is 1, in units of 2^-31; c >= 0. */
static inline int32_t int_sigmoid(int32_t c, int negative)
{
    const int32_t e = int_exp(-c), p = int_one_over_one_plus(e);
    return negative ? int_mulh(p, e) : p;
}

static inline int32_t int_silu_mul(int32_t g, int32_t u, bt_int_mul gate, bt_int_mul out)
{
    const int64_t c = int_scale(g < 0 ? -g : g, gate);
    const int32_t p = int_sigmoid(c > INT32_MAX ? INT32_MAX : (int32_t)c, g < 0);
    const int64_t h = int_round_shift((int64_t)g * p, 16), w = int_round_shift(h * u, 15);
    return (int32_t)int_clamp(int_scale(w, out), BT_INT_MAX32);
}

/* 1 / sqrt(v * 2^2g) as a factor and a shift: x / sqrt(v * 2^2g) in units of 2^-30 is floor(x * i / 2^shift + 1/2). v =
 * 0: i = 0. */
typedef struct int_rsqrt {
    int32_t i;
    unsigned shift;
} int_rsqrt;
static inline int_rsqrt int_rsqrt_of(uint64_t v, unsigned g)
{
    if (!v) return (int_rsqrt){0, 1};
    const unsigned h = (unsigned)__builtin_clzll(v) & ~1u;
    const uint64_t i = (UINT64_C(1) << 62) / bt_int_isqrt(v << h);
    return (int_rsqrt){i > INT32_MAX ? INT32_MAX : (int32_t)i, 32 - h / 2 + g};
}
/* How many bits the greatest magnitude of a row has beyond 23; all: the row's magnitudes, or-ed together. */
static inline unsigned int_norm_bits(uint32_t all) { return all >> 23 ? 9 - (unsigned)__builtin_clz(all) : 0; }
static inline int64_t int_norm_at(int32_t x, int_rsqrt r, int32_t wq, unsigned f)
{
    return int_round_shift(int_round_shift((int64_t)x * r.i, r.shift) * wq, 30 + f);
}

static inline int16_t int_rope_at(int32_t a, int32_t c, int32_t b, int32_t s)
{
    return (int16_t)int_clamp((a * c + b * s + (1 << 14)) >> 15, BT_INT_MAX16);
}

static inline int16_t int_from_f16(uint16_t h, int shift)
{
    const int e = h >> 10 & 31, up = (e ? e : 1) - 25 + shift;
    int32_t v = (h & 0x3ff) | (e ? 0x400 : 0);
    if (e == 31) v = BT_INT_MAX16; /* infinity and NaN */
    else if (up >= 0) v *= 1 << (up < 16 ? up : 16);
    v = h & 0x8000 ? -v : v;
    if (e < 31 && up < 0) v = (int32_t)int_round_shift(v, up > -30 ? (unsigned)-up : 30);
    return (int16_t)int_clamp(v, BT_INT_MAX16);
}

/* q * s * 2^shift is p * 2^up / 2^down, p = q * mant, |p| < 2^18. up stops at 12: a greater up comes with |mant| >=
 * 1024, so p * 2^12 is 0 or beyond the clamp, and it fits s32. */
typedef struct int_q8 {
    int32_t mant;
    unsigned up, down;
} int_q8;
static inline int_q8 int_q8_of(uint16_t s, int shift)
{
    const int e = s >> 10 & 31, up = (e ? e : 1) - 25 + shift, mant = (s & 0x3ff) | (e ? 0x400 : 0);
    return (int_q8){s & 0x8000 ? -mant : mant,
                    up < 0    ? 0
                    : up < 12 ? (unsigned)up
                              : 12,
                    up >= 0    ? 0
                    : up > -30 ? (unsigned)-up
                               : 30};
}
static inline int16_t int_from_q8(int8_t q, int_q8 s)
{
    return (int16_t)int_clamp(int_round_shift((int64_t)q * s.mant * (1 << s.up), s.down), BT_INT_MAX16);
}

/* floor(acc * inv * m / 2^(63 + s) + 1/2), clamped; |acc| * inv < 2^79. */
static inline int16_t int_attn_out(int64_t acc, uint64_t inv, bt_int_mul m)
{
    const bt_wide p = bt_wide_times_signed(bt_wide_mul_signed(acc, (int64_t)inv), m.m);
    const bt_wide v = bt_wide_right_signed(bt_wide_add(p, bt_wide_left(bt_wide_of(1), 62 + m.s)), 63 + m.s);
    return (int16_t)int_clamp(bt_wide_clamp_signed(v), BT_INT_MAX16);
}
#endif
