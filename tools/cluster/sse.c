/* See sse.h: splits a byte stream into lines, and lines into events. */
#include "tools/cluster/sse.h"

#include <string.h>

void tool_sse_init(tool_sse *s)
{
    bt_buf_init(&s->line, TOOL_SSE_MAX_EVENT_BYTES);
    bt_buf_init(&s->event, TOOL_SSE_MAX_EVENT_BYTES);
    s->has_data = false;
}

void tool_sse_done(tool_sse *s)
{
    bt_buf_done(&s->line);
    bt_buf_done(&s->event);
}

static bt_err end_line(tool_sse *s, tool_sse_fn *fn, void *ud)
{
    const char *text = bt_buf_text(&s->line);
    size_t len = s->line.len;
    bt_err e = BT_OK;
    if (len > 0 && text[len - 1] == '\r') len--;
    if (len == 0) {
        if (s->has_data && !fn(ud, bt_buf_text(&s->event), s->event.len)) e = BT_ECANCEL;
        bt_buf_clear(&s->event);
        s->has_data = false;
    } else if (len >= 5 && memcmp(text, "data:", 5) == 0) {
        const size_t skip = len > 5 && text[5] == ' ' ? 6 : 5;
        if (s->has_data) (void)bt_buf_byte(&s->event, '\n'); /* the error stays in the buffer */
        e = bt_buf_add(&s->event, text + skip, len - skip);
        s->has_data = true;
    }
    bt_buf_clear(&s->line);
    return e;
}

bt_err tool_sse_feed(tool_sse *s, const char *bytes, size_t len, tool_sse_fn *fn, void *ud)
{
    while (len > 0) {
        const char *nl = memchr(bytes, '\n', len);
        const size_t n = nl ? (size_t)(nl - bytes) : len;
        bt_err e = bt_buf_add(&s->line, bytes, n);
        if (e == BT_OK && nl) e = end_line(s, fn, ud);
        if (e < 0) return e;
        bytes += nl ? n + 1 : n;
        len -= nl ? n + 1 : n;
    }
    return BT_OK;
}
