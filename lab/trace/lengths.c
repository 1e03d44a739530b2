/* All that `baton padding` wants of a trace. */
#include "lab/trace/lengths.h"
#include "lab/trace/source.h"

#include <stdlib.h>

typedef struct lengths {
    uint32_t *at;
    size_t n, cap;
} lengths;

static bt_err add(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    lengths *l = ud;
    if (l->n == l->cap) {
        const size_t cap = l->cap ? l->cap * 2 : 1024;
        uint32_t *more = reallocarray(l->at, cap, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory reading a trace");
        l->at = more;
        l->cap = cap;
    }
    l->at[l->n++] = row->input_tokens;
    return BT_OK;
}

bt_err tool_trace_lengths(uint32_t **ret, size_t *ret_n, const char *path, bt_fault *fault)
{
    const tool_trace_options o = {.format = BT_TRACE_AUTO};
    tool_trace_source s;
    lengths l = {NULL, 0, 0};
    bt_err e = tool_trace_open(&s, path, &o, fault);
    if (e < 0) return e;
    e = tool_trace_each(&s, path, add, &l, fault);
    tool_trace_close(&s);
    if (e == BT_OK && l.n == 0) e = bt_fail(fault, BT_EFORMAT, "'%.150s' has no request", path);
    if (e < 0) {
        free(l.at);
        return e;
    }
    *ret = l.at;
    *ret_n = l.n;
    return BT_OK;
}
