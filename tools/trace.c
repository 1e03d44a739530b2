/* Reads prompt lengths from the three forms of traces; every number is checked, and what is wrong is named
 * by its line. */
#include "tools/trace.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct lengths {
    uint32_t *at;
    size_t n, cap;
} lengths;

static bt_err add(lengths *l, uint64_t tokens, size_t line, bt_fault *fault)
{
    if (tokens > TOOL_TRACE_MAX_TOKENS)
        return bt_fail(fault, BT_EFORMAT, "line %zu: more than %d tokens", line, TOOL_TRACE_MAX_TOKENS);
    if (l->n == l->cap) {
        const size_t cap = l->cap ? l->cap * 2 : 1024;
        uint32_t *more = reallocarray(l->at, cap, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "reading a trace");
        l->at = more;
        l->cap = cap;
    }
    l->at[l->n++] = (uint32_t)tokens;
    return BT_OK;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The whole of [from, to) as a number; blanks around it do not count. */
static bool number(uint64_t *ret, const char *from, const char *to)
{
    uint64_t n = 0;
    while (from < to && is_space(*from)) from++;
    while (to > from && is_space(to[-1])) to--;
    if (from == to) return false;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9' || n > UINT32_MAX) return false;
        n = n * 10 + (uint64_t)(*from - '0');
    }
    *ret = n;
    return true;
}

/* The field with this index; false where the line has fewer. */
static bool csv_field(const char **from, const char **to, const char *line, const char *end, size_t index)
{
    for (;; index--) {
        const char *comma = memchr(line, ',', (size_t)(end - line));
        *from = line;
        *to = comma ? comma : end;
        if (index == 0) return true;
        if (!comma) return false;
        line = comma + 1;
    }
}

static bool csv_column(size_t *ret, const char *line, const char *end)
{
    static const char name[] = "ContextTokens";
    const char *from, *to;
    for (size_t i = 0; csv_field(&from, &to, line, end, i); i++) {
        while (from < to && is_space(*from)) from++;
        while (to > from && is_space(to[-1])) to--;
        if ((size_t)(to - from) == sizeof name - 1 && !memcmp(from, name, sizeof name - 1)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bt_err read_csv(lengths *l, const char *line, const char *end, size_t column, size_t no,
                       bt_fault *fault)
{
    const char *from, *to;
    uint64_t n;
    if (!csv_field(&from, &to, line, end, column) || !number(&n, from, to))
        return bt_fail(fault, BT_EFORMAT, "line %zu: no number in column ContextTokens", no);
    return add(l, n, no, fault);
}

static bt_err read_json(lengths *l, const char *line, const char *end, size_t no, bt_fault *fault)
{
    json_t *o = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL);
    const json_t *v = json_object_get(o, "input_length");
    const int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    json_decref(o);
    if (n < 0)
        return bt_fail(fault, BT_EFORMAT, "line %zu: not a JSON object with a whole \"input_length\"", no);
    return add(l, (uint64_t)n, no, fault);
}

static bt_err read_list(lengths *l, const char *line, const char *end, size_t no, bt_fault *fault)
{
    while (line < end) {
        if (is_space(*line) || *line == ',') {
            line++;
            continue;
        }
        const char *to = line;
        uint64_t n;
        while (to < end && !is_space(*to) && *to != ',') to++;
        if (!number(&n, line, to))
            return bt_fail(fault, BT_EFORMAT, "line %zu: not a list of whole numbers", no);
        const bt_err e = add(l, n, no, fault);
        if (e < 0) return e;
        line = to;
    }
    return BT_OK;
}

bt_err tool_trace_lengths(uint32_t **ret, size_t *ret_n, const char *text, size_t len, bt_fault *fault)
{
    enum { UNKNOWN, CSV, JSON, LIST } format = UNKNOWN;
    lengths l = {NULL, 0, 0};
    size_t column = 0, no = 0;
    bt_err e = BT_OK;
    for (const char *line = text, *all = text + len; line < all && e == BT_OK;) {
        const char *nl = memchr(line, '\n', (size_t)(all - line)), *end = nl ? nl : all, *first = line;
        const bool is_first = format == UNKNOWN;
        no++;
        while (first < end && is_space(*first)) first++;
        if (is_first && first < end) {
            if (*first == '{') format = JSON;
            else if (*first >= '0' && *first <= '9') format = LIST;
            else if (csv_column(&column, first, end)) format = CSV;
            else
                e = bt_fail(
                    fault, BT_EFORMAT,
                    "line %zu: neither a CSV header with ContextTokens, nor a JSON object, nor numbers", no);
        }
        if (end - line > TOOL_TRACE_MAX_LINE)
            e = bt_fail(fault, BT_EFORMAT, "line %zu: more than %d bytes", no, TOOL_TRACE_MAX_LINE);
        if (e == BT_OK && first < end) {
            if (format == JSON) e = read_json(&l, first, end, no, fault);
            else if (format == LIST) e = read_list(&l, first, end, no, fault);
            else if (!is_first) e = read_csv(&l, line, end, column, no, fault);
        }
        line = nl ? nl + 1 : all;
    }
    if (e == BT_OK && l.n == 0) e = bt_fail(fault, BT_EFORMAT, "no request");
    if (e < 0) {
        free(l.at);
        return e;
    }
    *ret = l.at;
    *ret_n = l.n;
    return BT_OK;
}
