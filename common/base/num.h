#ifndef BT_BASE_NUM_H
#define BT_BASE_NUM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Packages, weights and KV rows lie in files and messages as they lie in memory. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Baton runs on little-endian machines; this one is big-endian"
#endif

/* Checked size arithmetic, little-endian access, and strict reading of numbers from text. */

/* *ret = product or sum; false (and *ret untouched) when it does not fit size_t. */
static inline bool bt_mul_size(size_t *ret, size_t a, size_t b)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *ret = r;
    return true;
}
static inline bool bt_add_size(size_t *ret, size_t a, size_t b)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *ret = r;
    return true;
}

/* Little-endian integers at any alignment. */
static inline uint16_t bt_get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t bt_get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t bt_get64(const uint8_t *p) { return (uint64_t)bt_get32(p) | (uint64_t)bt_get32(p + 4) << 32; }
static inline void bt_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void bt_put32(uint8_t *p, uint32_t v)
{
    bt_put16(p, (uint16_t)v);
    bt_put16(p + 2, (uint16_t)(v >> 16));
}
static inline void bt_put64(uint8_t *p, uint64_t v)
{
    bt_put32(p, (uint32_t)v);
    bt_put32(p + 4, (uint32_t)(v >> 32));
}

/* Whole-string parsers: no leading space, no trailing garbage, no overflow. BT_EARG with words in the
 * fault otherwise; *ret is then untouched. None of them looks at the locale.
 *   int       decimal, optional minus, lo <= value <= hi
 *   double    decimal or exponent form, finite
 *   size      bytes: a whole number and an optional K, M, G or T (powers of 1024), e.g. "512M"
 *   duration  a whole or decimal number and ms, s, m or h, e.g. "30s", "1.5m"; a bare number is seconds */
bt_err bt_num_int(int64_t *ret, const char *text, int64_t lo, int64_t hi, bt_fault *fault);
bt_err bt_num_double(double *ret, const char *text, double lo, double hi, bt_fault *fault);
bt_err bt_num_size(uint64_t *ret_bytes, const char *text, bt_fault *fault);
bt_err bt_num_duration(int64_t *ret_ms, const char *text, bt_fault *fault);

/* For people: 98362432 as "93.8 MiB". */
void bt_num_size_text(char *ret, size_t cap, uint64_t bytes);
#endif
