#ifndef BT_TRACE_INPUT_H
#define BT_TRACE_INPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"

/* The bytes of a trace through one buffer that grows to the longest piece, at most BT_TRACE_MAX_PIECE_BYTES: it keeps a
 * reader's memory bounded, however long its file is. */
enum {
    BT_TRACE_MAX_PIECE_BYTES = 16 << 20,
    BT_TRACE_MAX_ROW_BYTES = 64 << 10, /* of a row of CSV with line ends in quotes */
};

typedef struct bt_trace_input {
    FILE *f; /* the caller's */
    uint8_t *buf;
    size_t at, len, cap;
    uint64_t offset; /* of buf[at] in the file */
    uint64_t line;   /* lines given so far; bt_trace_input_skip adds the newlines that it skips. A row has the number of
                        its first line */
    uint64_t more_lines; /* of the row given last: the newlines within it */
    bool is_over;        /* all bytes of the file have been read */
} bt_trace_input;

void bt_trace_input_begin(bt_trace_input *in, FILE *f); /* *in is zeroed, or was used before, and then keeps its buffer
                                                         */
void bt_trace_input_done(bt_trace_input *in);           /* frees; the file stays open */

/* Makes at least `want` bytes available at buf + at, fewer only at the end of the file: *ret is their number. want is
 * at most BT_TRACE_MAX_PIECE_BYTES. BT_EIO, BT_ENOMEM. */
bt_err bt_trace_input_peek(size_t *ret, bt_trace_input *in, size_t want, bt_fault *fault);
/* Skips n available bytes. */
void bt_trace_input_skip(bt_trace_input *in, size_t n);

/* The next line without its end, '\n' or "\r\n", and without blanks around it; empty lines are skipped. in->line is the
 * line's number. The caller may change the bytes, which live until the next call. *ret NULL: the end. BT_EFORMAT:
 * longer than the limit; the line is skipped. */
bt_err bt_trace_input_line(char **ret, size_t *ret_len, bt_trace_input *in, bt_fault *fault);
/* The same with the lines that belong together as a row of CSV: a line end in quotes is part of a cell. A row of
 * several lines has at most BT_TRACE_MAX_ROW_BYTES; where a quote does not end within them, or text follows its end,
 * the first line alone is given, so that one stray quote costs one line. */
bt_err bt_trace_input_row(char **ret, size_t *ret_len, bt_trace_input *in, bt_fault *fault);
#endif
