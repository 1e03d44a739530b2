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

/* A cell of CSV (RFC 4180), without blanks around it. In quotes stand commas, ends of lines and, doubled, quotes. */
typedef struct bt_trace_cell {
    const char *text; /* between the quotes, where each quote is still two */
    size_t len;
    bool is_quoted;
    bool is_broken; /* its quote does not end, or other text follows; the cell then is all that is left */
} bt_trace_cell;
/* The first cell of *from; *from goes behind its comma. False: there is none. */
bool bt_trace_cell_next(bt_trace_cell *ret, const char **from, const char *end);

/* Whole texts. Tokens: 0 .. BT_TRACE_MAX_TOKENS; 16.0 and 1.6e1 are 16 too. Seconds and milliseconds: decimals, within
 * 3e9 seconds, given as microseconds. Wall: "2023-11-16 18:17:03.9799600", optionally with T and, behind a blank or
 * none, a zone: Z, UTC, +00:00, +0000 or +00; as microseconds since 1970. */
bt_err bt_trace_tokens(uint32_t *ret, bt_trace_place at, const char *text, size_t len, bt_fault *fault);
bt_err bt_trace_seconds(int64_t *ret_us, bt_trace_place at, const char *text, size_t len, bt_fault *fault);
bt_err bt_trace_wall(int64_t *ret_us, bt_trace_place at, const char *text, size_t len, bt_fault *fault);
bt_err bt_trace_real(double *ret, bt_trace_place at, const char *text, size_t len, bt_fault *fault);

bt_err bt_trace_json_tokens(uint32_t *ret, bt_trace_place at, const json_t *value, bt_fault *fault);
/* A number of units of `unit_us`. */
bt_err bt_trace_json_time(int64_t *ret_us, bt_trace_place at, const json_t *value, double unit_us, bt_fault *fault);
#endif
