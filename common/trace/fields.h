#ifndef BT_TRACE_FIELDS_H
#define BT_TRACE_FIELDS_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Values of traces: text to numbers and times, every range checked. A bad value is BT_EFORMAT with words that name
 * line, column and value:  line 12, column 'GeneratedTokens': '-3' is no whole number from 0 to 1073741824 */
typedef struct bt_trace_place {
    uint64_t line;
    const char *column;
} bt_trace_place;

/* `value` need not end in NUL; at most 40 bytes of it are shown. Returns BT_EFORMAT. */
bt_err bt_trace_bad(bt_fault *fault, bt_trace_place at, const char *value, size_t len, const char *what);
bt_err bt_trace_bad_json(bt_fault *fault, bt_trace_place at, const json_t *value, const char *what);

/* The first field of *from up to `sign`, without blanks around it; *from goes behind the sign. False: there is none. */
bool bt_trace_field(const char **ret, size_t *ret_len, const char **from, const char *end, char sign);

/* Whole texts. Tokens: 0 .. BT_TRACE_MAX_TOKENS. Seconds and milliseconds: decimals, within 3e9 seconds, given as
 * microseconds. Wall: "2023-11-16 18:17:03.9799600", optionally with T, Z or +00:00, as microseconds since 1970. */
bt_err bt_trace_tokens(uint32_t *ret, bt_trace_place at, const char *text, size_t len, bt_fault *fault);
bt_err bt_trace_seconds(int64_t *ret_us, bt_trace_place at, const char *text, size_t len, bt_fault *fault);
bt_err bt_trace_wall(int64_t *ret_us, bt_trace_place at, const char *text, size_t len, bt_fault *fault);
bt_err bt_trace_real(double *ret, bt_trace_place at, const char *text, size_t len, bt_fault *fault);

bt_err bt_trace_json_tokens(uint32_t *ret, bt_trace_place at, const json_t *value, bt_fault *fault);
/* A number of units of `unit_us`. */
bt_err bt_trace_json_time(int64_t *ret_us, bt_trace_place at, const json_t *value, double unit_us, bt_fault *fault);
#endif
