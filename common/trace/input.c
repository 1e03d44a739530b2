/* One buffer between a file and the readers of lines, values and records. */
#include "trace/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 1 << 16 };

void bt_trace_input_begin(bt_trace_input *in, FILE *f)
{
    in->f = f;
    in->at = in->len = 0;
    in->offset = in->line = in->more_lines = 0;
    in->is_over = false;
}

void bt_trace_input_done(bt_trace_input *in)
{
    free(in->buf);
    *in = (bt_trace_input){.f = NULL};
}

static bt_err make_room(bt_trace_input *in, size_t want, bt_fault *fault)
{
    if (in->at > 0 && in->cap - in->at < want) {
        in->len -= in->at;
        memmove(in->buf, in->buf + in->at, in->len);
        in->at = 0;
    }
    if (in->cap >= want) return BT_OK;
    size_t cap = in->cap ? in->cap : STEP;
    while (cap < want) cap *= 2;
    uint8_t *more = realloc(in->buf, cap);
    if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for a piece of %zu bytes", want);
    in->buf = more;
    in->cap = cap;
    return BT_OK;
}

bt_err bt_trace_input_peek(size_t *ret, bt_trace_input *in, size_t want, bt_fault *fault)
{
    while (in->len - in->at < want && !in->is_over) {
        const bt_err e = make_room(in, want, fault);
        if (e < 0) return e;
        const size_t n = fread(in->buf + in->len, 1, in->cap - in->len, in->f);
        in->len += n;
        if (n == 0 && ferror(in->f)) return bt_fail(fault, BT_EIO, "cannot be read: %s", strerror(errno));
        in->is_over = n == 0;
    }
    *ret = in->len - in->at;
    return BT_OK;
}

void bt_trace_input_skip(bt_trace_input *in, size_t n)
{
    const uint8_t *p = in->buf + in->at, *end = p + n;
    while (n && (p = memchr(p, '\n', (size_t)(end - p)))) {
        in->line++;
        if (++p == end) break;
    }
    in->at += n;
    in->offset += n;
}

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Bytes up to and with the next newline, or to the end. *is_whole: the newline is among them, or the file
 * ends there; else the line is longer than the limit. */
static bt_err find_end(size_t *ret, bool *is_whole, bt_trace_input *in, bt_fault *fault)
{
    size_t have = 0, looked = 0, want = 1;
    for (;;) {
        const bt_err e = bt_trace_input_peek(&have, in, want, fault);
        if (e < 0) return e;
        const uint8_t *nl = have > looked ? memchr(in->buf + in->at + looked, '\n', have - looked) : NULL;
        *is_whole = nl || have < want;
        *ret = nl ? (size_t)(nl - (in->buf + in->at)) + 1 : have;
        if (nl || have < want || have >= BT_TRACE_MAX_PIECE_BYTES) return BT_OK;
        looked = have;
        want = have + STEP < BT_TRACE_MAX_PIECE_BYTES ? have + STEP : BT_TRACE_MAX_PIECE_BYTES;
    }
}

/* The rest of a line whose beginning was passed over. */
static bt_err pass_rest(bt_trace_input *in, bt_fault *fault)
{
    for (;;) {
        size_t have;
        const bt_err e = bt_trace_input_peek(&have, in, 1, fault);
        if (e < 0 || have == 0) return e;
        const uint8_t *from = in->buf + in->at, *nl = memchr(from, '\n', have);
        in->at += nl ? (size_t)(nl - from) + 1 : have;
        in->offset += nl ? (size_t)(nl - from) + 1 : have;
        if (nl) return BT_OK;
    }
}

/* Where in a row of CSV a byte stands; bt_trace_cell_next takes rows apart by the same rule. */
typedef enum place { CELL_BEGINS, IN_CELL, IN_QUOTES, BEHIND_QUOTE, BEHIND_CELL, STRAY } place;

static place next_place(place at, uint8_t c)
{
    if (at == IN_QUOTES) return c == '"' ? BEHIND_QUOTE : IN_QUOTES;
    if (c == ',') return CELL_BEGINS;
    if (at == CELL_BEGINS) return c == '"' ? IN_QUOTES : is_blank(c) ? CELL_BEGINS : IN_CELL;
    if (at == IN_CELL) return IN_CELL;
    if (at == BEHIND_QUOTE && c == '"') return IN_QUOTES; /* two of them are one within the text */
    return is_blank(c) ? BEHIND_CELL : STRAY;
}

/* From the length of a row's first line to that of the row. */
static bt_err find_row(size_t *n, bt_trace_input *in, bt_fault *fault)
{
    place at = CELL_BEGINS;
    size_t have = *n, looked = 0;
    if (!memchr(in->buf + in->at, '"', have)) return BT_OK;
    for (;;) {
        const uint8_t *p = in->buf + in->at;
        for (; looked < have; looked++) {
            if (p[looked] == '\n' && at != IN_QUOTES) {
                *n = looked + 1;
                return BT_OK;
            }
            at = next_place(at, p[looked]);
            if (at == STRAY) return BT_OK; /* the first line alone is the bad row */
        }
        if (have >= BT_TRACE_MAX_ROW_BYTES) return BT_OK;
        const bt_err e = bt_trace_input_peek(&have, in, looked + 1, fault);
        if (e < 0) return e;
        if (have > BT_TRACE_MAX_ROW_BYTES) have = BT_TRACE_MAX_ROW_BYTES;
        if (have > looked) continue;
        if (at != IN_QUOTES) *n = have; /* the file ends without a newline */
        return BT_OK;
    }
}

static bt_err next(char **ret, size_t *ret_len, bt_trace_input *in, bool is_row, bt_fault *fault)
{
    for (;;) {
        size_t n;
        bool is_whole;
        bt_err e = find_end(&n, &is_whole, in, fault);
        if (e == BT_OK && is_row && is_whole && n > 0) e = find_row(&n, in, fault);
        if (e < 0) return e;
        in->line += in->more_lines;
        in->more_lines = 0;
        if (n == 0) {
            *ret = NULL;
            return BT_OK;
        }
        char *from = (char *)in->buf + in->at, *to = from + n;
        in->at += n;
        in->offset += n;
        in->line++;
        if (!is_whole) {
            if ((e = pass_rest(in, fault)) < 0) return e;
            return bt_fail(fault, BT_EFORMAT, "line %llu: has more than %d bytes",
                           (unsigned long long)in->line, BT_TRACE_MAX_PIECE_BYTES);
        }
        if (to[-1] == '\n') to--;
        for (const char *p = from; is_row && (p = memchr(p, '\n', (size_t)(to - p))); p++) in->more_lines++;
        while (from < to && is_blank((uint8_t)*from)) from++;
        while (to > from && is_blank((uint8_t)to[-1])) to--;
        if (from == to) continue;
        *ret = from;
        *ret_len = (size_t)(to - from);
        return BT_OK;
    }
}

bt_err bt_trace_input_line(char **ret, size_t *ret_len, bt_trace_input *in, bt_fault *fault)
{
    return next(ret, ret_len, in, false, fault);
}

bt_err bt_trace_input_row(char **ret, size_t *ret_len, bt_trace_input *in, bt_fault *fault)
{
    return next(ret, ret_len, in, true, fault);
}
