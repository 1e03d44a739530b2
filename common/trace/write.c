/* Rows to text or records. */
#include "trace/write.h"
#include "trace/capture_format.h"
#include "trace/reblock.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 32 << 20 };

static bt_err flush_line(bt_trace_writer *w, bt_fault *fault)
{
    bt_err e = w->line.err;
    if (e < 0)
        return bt_fail(fault, e, "a row cannot be made: %s (it has %zu bytes; at most %d are allowed)",
                       bt_err_name(e), w->line.len, MAX_LINE);
    if (fwrite(w->line.data, 1, w->line.len, w->f) != w->line.len)
        e = bt_fail(fault, BT_EIO, "cannot write the trace: %s", strerror(errno));
    bt_buf_clear(&w->line);
    return e;
}

bt_err bt_trace_writer_begin(bt_trace_writer *w, FILE *f, bool is_capture, const char *model, int64_t wall_s,
                             bt_fault *fault)
{
    *w = (bt_trace_writer){.f = f, .is_capture = is_capture};
    bt_buf_init(&w->line, MAX_LINE);
    if (!is_capture) return BT_OK;
    bt_capture_start s = {.wall_s = wall_s};
    (void)snprintf(s.model, sizeof s.model, "%s", model);
    const bt_err e = bt_capture_put_start(&w->line, &s, NULL, fault);
    return e < 0 ? e : flush_line(w, fault);
}

void bt_trace_writer_done(bt_trace_writer *w)
{
    bt_buf_done(&w->line);
    bt_trace_map_done(&w->ids);
    free(w->hash);
    w->hash = NULL;
}

bt_err bt_trace_writer_end(bt_trace_writer *w, bt_fault *fault)
{
    return fflush(w->f) == 0 ? BT_OK : bt_fail(fault, BT_EIO, "cannot write the trace: %s", strerror(errno));
}

static bt_err number_of(uint64_t *ret, bt_trace_writer *w, uint64_t id, bt_fault *fault)
{
    const uint64_t *known = bt_trace_map_find(&w->ids, id);
    *ret = known ? *known : w->ids.len + w->ids.has_max;
    return known ? BT_OK : bt_trace_map_put(&w->ids, id, *ret, fault);
}

/* Milliseconds, with three decimals where they are not whole. */
static void put_ms(bt_buf *b, const char *name, int64_t us)
{
    const unsigned long long all = us < 0 ? 0ull - (unsigned long long)us : (unsigned long long)us;
    (void)bt_buf_fmt(b, "\"%s\": %s%llu", name, us < 0 ? "-" : "", all / 1000);
    if (all % 1000) (void)bt_buf_fmt(b, ".%03llu", all % 1000);
    (void)bt_buf_str(b, ", ");
}

/* Nothing where there is none. */
static bt_err put_name(bt_trace_writer *w, const char *key, const char *name, uint64_t line, bt_fault *fault)
{
    json_t *s = name ? json_string(name) : NULL;
    char *text = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    json_decref(s);
    if (name && !text)
        return bt_fail(fault, BT_EARG, "line %llu: %s is not valid UTF-8", (unsigned long long)line, key);
    if (text) (void)bt_buf_fmt(&w->line, "\"%s\": %s, ", key, text);
    free(text);
    return BT_OK;
}

static bt_err put_mooncake(bt_trace_writer *w, const bt_trace_row *row, bt_fault *fault)
{
    bt_buf *b = &w->line;
    (void)bt_buf_str(b, "{");
    bt_err e = put_name(w, "session_id", row->session, row->line, fault);
    if (e == BT_OK) e = put_name(w, "model", row->model, row->line, fault);
    if (e == BT_OK) e = put_name(w, "key", row->key, row->line, fault);
    if (e < 0) return e;
    if (row->has_arrival) put_ms(b, "timestamp", row->arrival_us);
    if (row->has_delay) put_ms(b, "delay", row->delay_us);
    (void)bt_buf_fmt(b, "\"input_length\": %u, \"output_length\": %u", row->input_tokens, row->output_tokens);
    if (row->hash_len) {
        (void)bt_buf_str(b, ", \"hash_ids\": [");
        for (size_t i = 0; i < row->hash_len; i++) {
            uint64_t n;
            if ((e = number_of(&n, w, row->hash_ids[i], fault)) < 0) return e;
            (void)bt_buf_fmt(b, "%s%llu", i ? ", " : "", (unsigned long long)n);
        }
        (void)bt_buf_str(b, "]");
    }
    (void)bt_buf_str(b, "}\n");
    return BT_OK;
}

/* The row's hashes as those of blocks of 64 tokens. */
static bt_err to_capture_blocks(bt_trace_writer *w, bt_trace_row *row, uint32_t block_tokens, bt_fault *fault)
{
    if (!row->hash_len || block_tokens == BT_TRACE_CAPTURE_BLOCK) return BT_OK;
    const uint64_t line = row->line;
    if (!block_tokens || ((uint64_t)row->input_tokens + block_tokens - 1) / block_tokens != row->hash_len)
        return bt_fail(
            fault, BT_EARG,
            "line %llu: %zu hashes for %u tokens do not fit blocks of %u tokens: give --block-tokens",
            (unsigned long long)line, row->hash_len, row->input_tokens, block_tokens);
    const size_t n = bt_capture_blocks(row->input_tokens);
    if (n > w->hash_cap) {
        uint64_t *more = reallocarray(w->hash, n, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu hashes", n);
        w->hash = more;
        w->hash_cap = n;
    }
    bt_trace_reblock(w->hash, n, BT_TRACE_CAPTURE_BLOCK, 1, row->hash_ids, row->hash_len, block_tokens);
    row->hash_ids = w->hash;
    row->hash_len = n;
    return BT_OK;
}

static bt_err put_capture(bt_trace_writer *w, const bt_trace_row *from, uint32_t block_tokens,
                          bt_fault *fault)
{
    /* Other formats give neither times nor sampling. */
    bt_trace_captured none = {.outcome = from->is_failed ? BT_TRACE_REFUSED : BT_TRACE_LENGTH,
                              .max_tokens = from->output_tokens,
                              .sampling = {.top_p = 1, .repeat_penalty = 1}};
    for (size_t i = 0; i < BT_TRACE_TIMES; i++) none.time_us[i] = -1;
    bt_trace_row row = *from;
    if (!row.captured) row.captured = &none;
    if (!row.has_arrival || row.arrival_us < 0)
        return bt_fail(fault, BT_EARG, "line %llu: a capture needs the time of each arrival, from 0",
                       (unsigned long long)row.line);
    const bt_err e = to_capture_blocks(w, &row, block_tokens, fault);
    return e < 0 ? e : bt_capture_put_request(&w->line, &row, NULL, fault);
}

bt_err bt_trace_writer_add(bt_trace_writer *w, const bt_trace_row *row, uint32_t block_tokens,
                           bt_fault *fault)
{
    if (!row->has_output)
        return bt_fail(fault, BT_EARG, "line %llu: the trace does not say how long the answer was",
                       (unsigned long long)row->line);
    const bt_err e = w->is_capture ? put_capture(w, row, block_tokens, fault) : put_mooncake(w, row, fault);
    if (e < 0) {
        bt_buf_clear(&w->line);
        return e;
    }
    w->rows++;
    return flush_line(w, fault);
}
