#ifndef BT_TRACE_WRITE_H
#define BT_TRACE_WRITE_H
#include <stdio.h>
#include "base/buf.h"
#include "trace/map.h"
#include "trace/row.h"

/* Writes rows: as Mooncake's JSON lines, with Dynamo's session_id and delay where a row has them, or as a capture
 * (trace/capture_format.h). Streams; the file is the caller's. */
typedef struct bt_trace_writer {
    FILE *f;
    bool is_capture;
    bt_buf line;
    bt_trace_map ids; /* mooncake: from hashes to small numbers, in the order of arrival */
    uint64_t *hash;
    size_t hash_cap;
    uint64_t rows;
} bt_trace_writer;

/* model, wall_s: name and time in a capture's start record. */
bt_err bt_trace_writer_begin(bt_trace_writer *w, FILE *f, bool is_capture, const char *model, int64_t wall_s,
                             bt_fault *fault);
/* block_tokens: of the row's hashes; needed for a capture where blocks are not 64 tokens long. BT_EARG: the row lacks
 * what the format needs (an answer's length; for a capture also a time of arrival, or the size of its blocks); BT_EIO;
 * BT_ELIMIT: too many ids. */
bt_err bt_trace_writer_add(bt_trace_writer *w, const bt_trace_row *row, uint32_t block_tokens, bt_fault *fault);
bt_err bt_trace_writer_end(bt_trace_writer *w, bt_fault *fault); /* flushes */
void bt_trace_writer_done(bt_trace_writer *w);
#endif
