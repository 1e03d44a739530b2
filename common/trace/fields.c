/* One place for numbers and times of traces, and for the words about bad ones. */
#include "trace/fields.h"
#include "base/num.h"
#include "trace/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 40 };
#define TOKENS_WORDS  "is no whole number from 0 to 1073741824"
#define SECONDS_WORDS "is no time within 3000000000 seconds"
static const double MAX_SECONDS = 3e9;

bt_err bt_trace_bad(bt_fault *fault, bt_trace_place at, const char *value, size_t len, const char *what)
{
    char shown[SHOWN + 1];
    const size_t n = len < SHOWN ? len : SHOWN;
    for (size_t i = 0; i < n; i++) shown[i] = (unsigned char)value[i] < ' ' ? '?' : value[i];
    shown[n] = 0;
    return bt_fail(fault, BT_EFORMAT, "line %llu, column '%.40s': '%s%s' %s", (unsigned long long)at.line,
                   at.column, shown, len > SHOWN ? "..." : "", what);
}

bt_err bt_trace_bad_json(bt_fault *fault, bt_trace_place at, const json_t *value, const char *what)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const char *shown = text ? text : "";
    const bt_err e = value ? bt_trace_bad(fault, at, shown, strlen(shown), what)
                           : bt_fail(fault, BT_EFORMAT, "line %llu, column '%.40s': is missing",
                                     (unsigned long long)at.line, at.column);
    free(text);
    return e;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void trim(bt_trace_cell *c)
{
    while (c->len && is_blank(c->text[0])) c->text++, c->len--;
    while (c->len && is_blank(c->text[c->len - 1])) c->len--;
}

/* input.c finds the end of a row by the same rule. */
bool bt_trace_cell_next(bt_trace_cell *ret, const char **from, const char *end)
{
    if (!*from) return false;
    const char *first = *from, *to;
    while (first < end && is_blank(*first)) first++;
    *ret = (bt_trace_cell){.is_quoted = first < end && *first == '"'};
    if (ret->is_quoted) {
        const char *close = first + 1;
        while ((close = memchr(close, '"', (size_t)(end - close))) && close + 1 < end && close[1] == '"')
            close += 2;
        to = close ? close + 1 : end;
        while (to < end && is_blank(*to)) to++;
        ret->is_broken = !close || (to < end && *to != ',');
        ret->text = ret->is_broken ? first : first + 1;
        ret->len = (size_t)((ret->is_broken ? end : close) - ret->text);
        if (ret->is_broken) to = end;
    } else {
        to = memchr(first, ',', (size_t)(end - first));
        if (!to) to = end;
        ret->text = first;
        ret->len = (size_t)(to - first);
    }
    *from = to < end ? to + 1 : NULL;
    trim(ret);
    return true;
}

/* As a C string; false: too long for any number. */
static bool copy(char ret[64], const char *text, size_t len)
{
    if (len >= 64 || memchr(text, 0, len)) return false;
    memcpy(ret, text, len);
    ret[len] = 0;
    return true;
}

/* Programs that keep numbers with gaps among them write counts as 16.0 or 1.6e1. No digit but 0 may stand
 * behind the point, after the exponent has moved it: 16.00000000000000000001 would be 16 as a double. */
static bool is_whole(const char *s)
{
    const char *e = strpbrk(s, "eE");
    const size_t len = e ? (size_t)(e - s) : strlen(s);
    const char *point = memchr(s, '.', len);
    long place = (long)(point ? (size_t)(point - s) : len), lowest = 0; /* lowest: the last digit's power of
                                                                           10 */
    bool is_zero = true;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '.') continue;
        place--; /* a sign takes a place too, as it does in len */
        if (s[i] >= '1' && s[i] <= '9') lowest = place, is_zero = false;
    }
    const long exponent = e ? strtol(e + 1, NULL, 10) : 0;
    return is_zero || exponent >= -lowest;
}

bt_err bt_trace_tokens(uint32_t *ret, bt_trace_place at, const char *text, size_t len, bt_fault *fault)
{
    char s[64];
    int64_t n;
    double v;
    if (!copy(s, text, len)) return bt_trace_bad(fault, at, text, len, TOKENS_WORDS);
    if (bt_num_int(&n, s, 0, BT_TRACE_MAX_TOKENS, NULL) < 0) {
        if (bt_num_double(&v, s, 0, BT_TRACE_MAX_TOKENS, NULL) < 0 || !is_whole(s))
            return bt_trace_bad(fault, at, text, len, TOKENS_WORDS);
        n = (int64_t)v;
    }
    *ret = (uint32_t)n;
    return BT_OK;
}

bt_err bt_trace_real(double *ret, bt_trace_place at, const char *text, size_t len, bt_fault *fault)
{
    char s[64];
    if (!copy(s, text, len) || bt_num_double(ret, s, 0, 1e15, NULL) < 0)
        return bt_trace_bad(fault, at, text, len, "is no number from 0 to 1e15");
    return BT_OK;
}

bt_err bt_trace_seconds(int64_t *ret_us, bt_trace_place at, const char *text, size_t len, bt_fault *fault)
{
    char s[64];
    double v;
    if (!copy(s, text, len) || bt_num_double(&v, s, -MAX_SECONDS, MAX_SECONDS, NULL) < 0)
        return bt_trace_bad(fault, at, text, len, SECONDS_WORDS);
    *ret_us = llround(v * 1e6);
    return BT_OK;
}

/* Exactly n digits. */
static bool digits(int *ret, const char **s, int n)
{
    int v = 0;
    for (int i = 0; i < n; i++, (*s)++) {
        if (**s < '0' || **s > '9') return false;
        v = v * 10 + (**s - '0');
    }
    *ret = v;
    return true;
}

static bool sign(const char **s, char c)
{
    if (**s != c) return false;
    (*s)++;
    return true;
}

/* Days since 1970 in the Gregorian calendar, after Howard Hinnant's days_from_civil. */
static int64_t days_of(int year, int month, int day)
{
    const int y = year - (month <= 2), era = y / 400, in_era = y - era * 400;
    const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return (int64_t)era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + of_year - 719468;
}

static bool is_date(int year, int month, int day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leaps = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return year >= 1970 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && leaps);
}

/* Behind the seconds: a fraction of which microseconds count, and the zone. */
static bool rest_of_wall(int64_t *us, const char *s)
{
    int hours, minutes = 0, scale = 100000;
    if (sign(&s, '.')) {
        if (*s < '0' || *s > '9') return false;
        for (; *s >= '0' && *s <= '9'; s++, scale /= 10) *us += (int64_t)(*s - '0') * scale;
    }
    (void)sign(&s, ' ');
    if (strcmp(s, "Z") == 0 || strcmp(s, "UTC") == 0 || *s == 0) return true;
    if (*s != '+' && *s != '-') return false;
    const int64_t side = *s++ == '+' ? 1 : -1;
    if (!digits(&hours, &s, 2)) return false;
    if (*s && ((void)sign(&s, ':'), !digits(&minutes, &s, 2))) return false; /* +00:00, +0000 or +00 */
    if (hours > 23 || minutes > 59) return false;
    *us -= side * (hours * 60 + minutes) * 60000000;
    return *s == 0;
}

bt_err bt_trace_wall(int64_t *ret_us, bt_trace_place at, const char *text, size_t len, bt_fault *fault)
{
    char buf[64];
    const char *s = buf;
    int year, month, day, hour, minute, second;
    if (!copy(buf, text, len) || !digits(&year, &s, 4) || !sign(&s, '-') || !digits(&month, &s, 2) ||
        !sign(&s, '-') || !digits(&day, &s, 2) || (!sign(&s, ' ') && !sign(&s, 'T')) ||
        !digits(&hour, &s, 2) || !sign(&s, ':') || !digits(&minute, &s, 2) || !sign(&s, ':') ||
        !digits(&second, &s, 2) || !is_date(year, month, day) || hour > 23 || minute > 59 || second > 60)
        return bt_trace_bad(fault, at, text, len, "is no time as 2023-11-16 18:17:03.9799600");
    int64_t us = ((days_of(year, month, day) * 24 + hour) * 3600 + minute * 60 + second) * 1000000;
    if (!rest_of_wall(&us, s))
        return bt_trace_bad(fault, at, text, len, "is no time as 2023-11-16 18:17:03.9799600");
    *ret_us = us;
    return BT_OK;
}

bt_err bt_trace_json_tokens(uint32_t *ret, bt_trace_place at, const json_t *value, bt_fault *fault)
{
    const double n = json_is_number(value) ? json_number_value(value) : -1; /* 16.0 is 16 */
    if (!(n >= 0 && n <= BT_TRACE_MAX_TOKENS) || n != floor(n))
        return bt_trace_bad_json(fault, at, value, TOKENS_WORDS);
    *ret = (uint32_t)n;
    return BT_OK;
}

bt_err bt_trace_json_time(int64_t *ret_us, bt_trace_place at, const json_t *value, double unit_us,
                          bt_fault *fault)
{
    const double us = json_number_value(value) * unit_us;
    if (!json_is_number(value) || !(us >= -MAX_SECONDS * 1e6 && us <= MAX_SECONDS * 1e6))
        return bt_trace_bad_json(fault, at, value, SECONDS_WORDS);
    *ret_us = llround(us);
    return BT_OK;
}
