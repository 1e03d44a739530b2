#ifndef BT_TRACE_INPUT_H
#define BT_TRACE_INPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"

/* The bytes of a trace through one buffer that grows to the longest piece and no further than
 * BT_TRACE_MAX_PIECE_BYTES: what keeps a reader's memory bounded, however long its file is. */
enum { BT_TRACE_MAX_PIECE_BYTES = 16 << 20 };

typedef struct bt_trace_input {
    FILE *f; /* the caller's */
    uint8_t *buf;
    size_t at, len, cap;
    uint64_t offset; /* of buf[at] in the file */
    uint64_t line;   /* lines given so far; what is given by bt_trace_input_skip counts its newlines */
    bool is_over;    /* the file has no more bytes than those in buf */
} bt_trace_input;

void bt_trace_input_begin(bt_trace_input *in, FILE *f); /* zeroed before, or a former one: its buffer is used again */
void bt_trace_input_done(bt_trace_input *in);           /* frees; the file stays open */

/* At least `want` bytes at buf + at, fewer only at the end of the file: *ret is how many there are. want is at most
 * BT_TRACE_MAX_PIECE_BYTES. BT_EIO, BT_ENOMEM. */
bt_err bt_trace_input_peek(size_t *ret, bt_trace_input *in, size_t want, bt_fault *fault);
/* Goes on by n bytes that are there. */
void bt_trace_input_skip(bt_trace_input *in, size_t n);

/* The next line without its end, '\n' or "\r\n", and without blanks around it; lines without anything else are passed
 * over. in->line is its number. The bytes may be changed and live until the next call. *ret NULL: the end.
 * BT_EFORMAT: longer than the limit; the line is passed over. */
bt_err bt_trace_input_line(char **ret, size_t *ret_len, bt_trace_input *in, bt_fault *fault);
#endif
