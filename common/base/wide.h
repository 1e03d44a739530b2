#ifndef BT_BASE_WIDE_H
#define BT_BASE_WIDE_H
#include <stdint.h>

/* Whole numbers of 128 bits, for products of two of 64: the compiler's own where it has them, else two halves with the
 * same results, as for machines of 32 bits (BT_WIDE_IN_HALVES: halves everywhere, for tests). A bt_wide has no sign;
 * functions with `signed` in their name read it as two's complement. Sums and products that need more bits wrap. */
#if defined(__SIZEOF_INT128__) && !defined(BT_WIDE_IN_HALVES)
__extension__ typedef unsigned __int128 bt_wide;
__extension__ typedef __int128 bt_wide_as_signed;
static inline bt_wide bt_wide_of(uint64_t v) { return v; }
static inline bt_wide bt_wide_mul(uint64_t a, uint64_t b) { return (bt_wide)a * b; }
static inline bt_wide bt_wide_mul_signed(int64_t a, int64_t b) { return (bt_wide)((bt_wide_as_signed)a * b); }
static inline bt_wide bt_wide_times_signed(bt_wide a, int64_t b) { return a * (bt_wide)(bt_wide_as_signed)b; }
static inline bt_wide bt_wide_negative(bt_wide v) { return -v; }
static inline bt_wide bt_wide_add(bt_wide a, bt_wide b) { return a + b; }
/* s: below 128 */
static inline bt_wide bt_wide_left(bt_wide v, unsigned s) { return v << s; }
static inline bt_wide bt_wide_right(bt_wide v, unsigned s) { return v >> s; }
/* Down to whole numbers, those below zero too. */
static inline bt_wide bt_wide_right_signed(bt_wide v, unsigned s) { return (bt_wide)((bt_wide_as_signed)v >> s); }
/* v / d, d above 0, rounded down */
static inline bt_wide bt_wide_div(bt_wide v, uint64_t d) { return v / d; }
static inline uint64_t bt_wide_high(bt_wide v) { return (uint64_t)(v >> 64); }
static inline uint64_t bt_wide_low(bt_wide v) { return (uint64_t)v; }
#else
typedef struct bt_wide {
    uint64_t hi, lo;
} bt_wide;
static inline bt_wide bt_wide_of(uint64_t v) { return (bt_wide){0, v}; }
static inline bt_wide bt_wide_add(bt_wide a, bt_wide b)
{
    const uint64_t lo = a.lo + b.lo;
    return (bt_wide){a.hi + b.hi + (lo < a.lo), lo};
}
static inline bt_wide bt_wide_negative(bt_wide v) { return bt_wide_add((bt_wide){~v.hi, ~v.lo}, bt_wide_of(1)); }
static inline bt_wide bt_wide_left(bt_wide v, unsigned s)
{
    return s == 0 ? v : s < 64 ? (bt_wide){v.hi << s | v.lo >> (64 - s), v.lo << s} : (bt_wide){v.lo << (s - 64), 0};
}
static inline bt_wide bt_wide_right(bt_wide v, unsigned s)
{
    return s == 0 ? v : s < 64 ? (bt_wide){v.hi >> s, v.lo >> s | v.hi << (64 - s)} : (bt_wide){0, v.hi >> (s - 64)};
}
static inline bt_wide bt_wide_right_signed(bt_wide v, unsigned s)
{
    if (!(v.hi >> 63)) return bt_wide_right(v, s);
    v = bt_wide_right((bt_wide){~v.hi, ~v.lo}, s);
    return (bt_wide){~v.hi, ~v.lo};
}
static inline bt_wide bt_wide_mul(uint64_t a, uint64_t b)
{
    const uint64_t half = UINT32_MAX, al = a & half, ah = a >> 32, bl = b & half, bh = b >> 32;
    const bt_wide middle = bt_wide_add(bt_wide_of(al * bh), bt_wide_of(ah * bl));
    return bt_wide_add((bt_wide){ah * bh, al * bl}, bt_wide_left(middle, 32));
}
static inline bt_wide bt_wide_times_signed(bt_wide a, int64_t b)
{
    const uint64_t size = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    const bt_wide v = bt_wide_add(bt_wide_mul(a.lo, size), (bt_wide){a.hi * size, 0});
    return b < 0 ? bt_wide_negative(v) : v;
}
static inline bt_wide bt_wide_mul_signed(int64_t a, int64_t b)
{
    const bt_wide v = bt_wide_mul(a < 0 ? 0 - (uint64_t)a : (uint64_t)a, b < 0 ? 0 - (uint64_t)b : (uint64_t)b);
    return (a < 0) != (b < 0) ? bt_wide_negative(v) : v;
}
/* One bit after the other; what is left of v stays below d. */
static inline bt_wide bt_wide_div(bt_wide v, uint64_t d)
{
    bt_wide q = {0, 0};
    uint64_t left = 0;
    for (unsigned i = 128; i-- > 0;) {
        const uint64_t out = left >> 63;
        left = left << 1 | (bt_wide_right(v, i).lo & 1);
        q = bt_wide_left(q, 1);
        if (out || left >= d) left -= d, q.lo |= 1;
    }
    return q;
}
static inline uint64_t bt_wide_high(bt_wide v) { return v.hi; }
static inline uint64_t bt_wide_low(bt_wide v) { return v.lo; }
#endif

/* v, or `most` where v is greater */
static inline uint64_t bt_wide_clamp(bt_wide v, uint64_t most)
{
    return bt_wide_high(v) || bt_wide_low(v) > most ? most : bt_wide_low(v);
}
/* v, or the nearer of INT64_MIN and INT64_MAX where v lies outside */
static inline int64_t bt_wide_clamp_signed(bt_wide v)
{
    const uint64_t hi = bt_wide_high(v), lo = bt_wide_low(v);
    if (hi >> 63) return hi == UINT64_MAX && lo >> 63 ? (int64_t)lo : INT64_MIN;
    return !hi && !(lo >> 63) ? (int64_t)lo : INT64_MAX;
}
#endif
