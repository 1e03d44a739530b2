/* Strict numbers from text. Everything is scanned by hand first, so strtod sees nothing that surprises. */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits at *text into *ret; false if there is none or they overflow. *text moves past them. */
static bool scan_u64(uint64_t *ret, const char **text)
{
    const char *p = *text;
    uint64_t v = 0;
    if (!is_digit(*p)) return false;
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v)) return false;
    }
    *text = p;
    *ret = v;
    return true;
}

static bool all_digits(const char *p)
{
    if (!is_digit(*p)) return false;
    while (is_digit(*p)) p++;
    return *p == 0;
}

bt_err bt_num_int(int64_t *ret, const char *text, int64_t lo, int64_t hi, bt_fault *fault)
{
    const char *p = text;
    const bool negative = *p == '-';
    if (negative) p++;
    if (!all_digits(p)) return bt_fail(fault, BT_EARG, "'%.64s' is not a whole number", text);
    uint64_t u;
    int64_t v = 0;
    bool fits = scan_u64(&u, &p) && u <= (uint64_t)INT64_MAX + negative;
    if (fits) v = negative ? (u ? -(int64_t)(u - 1) - 1 : 0) : (int64_t)u;
    if (!fits || v < lo || v > hi)
        return bt_fail(fault, BT_EARG, "%.64s is not within %lld..%lld", text, (long long)lo, (long long)hi);
    *ret = v;
    return BT_OK;
}

/* -?digits[.digits][(e|E)[+-]digits], with at least one digit before or after the point. */
static bool looks_like_a_double(const char *p)
{
    size_t digits = 0;
    if (*p == '-') p++;
    for (; is_digit(*p); p++) digits++;
    if (*p == '.')
        for (p++; is_digit(*p); p++) digits++;
    if (!digits) return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-') p++;
        return all_digits(p);
    }
    return *p == 0;
}

bt_err bt_num_double(double *ret, const char *text, double lo, double hi, bt_fault *fault)
{
    if (!looks_like_a_double(text)) return bt_fail(fault, BT_EARG, "'%.64s' is not a number", text);
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory reading a number");
    const double v = strtod_l(text, NULL, c);
    freelocale(c);
    if (!isfinite(v) || v < lo || v > hi)
        return bt_fail(fault, BT_EARG, "%.64s is not within %g..%g", text, lo, hi);
    *ret = v;
    return BT_OK;
}

bt_err bt_num_size(uint64_t *ret_bytes, const char *text, bt_fault *fault)
{
    static const char units[] = "KMGT";
    const char *p = text;
    while (is_digit(*p)) p++;
    const char *unit = *p ? strchr(units, *p) : NULL;
    if (p == text || (*p && (!unit || p[1])))
        return bt_fail(fault, BT_EARG, "'%.64s' is not a size such as 512M or 8G", text);
    uint64_t v;
    const char *q = text;
    const unsigned shift = unit ? 10u * (unsigned)(unit - units + 1) : 0;
    if (!scan_u64(&v, &q) || v > UINT64_MAX >> shift)
        return bt_fail(fault, BT_EARG, "%.64s is more bytes than a machine can count", text);
    *ret_bytes = v << shift;
    return BT_OK;
}

bt_err bt_num_duration(int64_t *ret_ms, const char *text, bt_fault *fault)
{
    static const struct {
        char name[3];
        uint64_t ms;
    } units[] = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
    };
    const char *p = text;
    uint64_t whole, frac = 0, scale = 1, ms = 0, v;
    if (!scan_u64(&whole, &p)) goto bad;
    if (*p == '.') {
        if (!is_digit(*++p)) goto bad;
        for (; is_digit(*p); p++) {
            if (scale == 1000000000000) goto bad; /* twelve decimals: frac * 3600000 still fits */
            frac = frac * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(p, units[i].name)) ms = units[i].ms;
    if (!ms) goto bad;
    if (frac * ms % scale) return bt_fail(fault, BT_EARG, "'%.64s' is finer than a millisecond", text);
    if (__builtin_mul_overflow(whole, ms, &v) || __builtin_add_overflow(v, frac * ms / scale, &v) ||
        v > (uint64_t)INT64_MAX)
        return bt_fail(fault, BT_EARG, "'%.64s' is too long a time", text);
    *ret_ms = (int64_t)v;
    return BT_OK;
bad:
    return bt_fail(fault, BT_EARG, "'%.64s' is not a duration such as 500ms, 30s or 1.5m", text);
}

void bt_num_size_text(char *ret, size_t cap, uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024 && u < 4) {
        v /= 1024;
        u++;
    }
    if (u == 0) snprintf(ret, cap, "%" PRIu64 " B", bytes);
    else snprintf(ret, cap, "%.1f %s", v, unit[u]);
}
