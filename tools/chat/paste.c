/* See paste.h. */
#include "tools/chat/paste.h"
#include "tools/chat/wide.h"

#include <stdlib.h>

void tool_paste_init(tool_paste *p, size_t limit_bytes) { *p = (tool_paste){.limit_bytes = limit_bytes}; }

void tool_paste_done(tool_paste *p)
{
    free(p->text);
    tool_paste_init(p, p->limit_bytes);
}

void tool_paste_clear(tool_paste *p)
{
    p->len = p->bytes = 0;
    p->is_too_long = false;
    p->last = 0;
    p->matched = 0;
    if (p->text) p->text[0] = 0;
}

static bt_err keep(tool_paste *p, wchar_t c)
{
    const size_t bytes = tool_wide_bytes(&c, 1);
    if (p->is_too_long || bytes > p->limit_bytes - p->bytes) {
        p->is_too_long = true;
        return BT_OK;
    }
    if (p->len + 1 >= p->cap) {
        const size_t cap = p->cap ? p->cap * 2 : 1024; /* stays below twice the limit */
        wchar_t *more = realloc(p->text, cap * sizeof *more);
        if (!more) return BT_ENOMEM;
        p->text = more;
        p->cap = cap;
    }
    p->bytes += bytes;
    p->text[p->len++] = c;
    p->text[p->len] = 0;
    return BT_OK;
}

static bt_err add(tool_paste *p, wchar_t c)
{
    const bool is_end = c == L'\r' || c == L'\n';
    const bool is_second = is_end && p->last && p->last != c;
    p->last = is_end && !is_second ? c : 0;
    if (c == 0 || is_second) return BT_OK;
    return keep(p, is_end ? L'\n' : c);
}

bt_err tool_paste_feed(tool_paste *p, wchar_t c, bool *ret_ended)
{
    static const wchar_t end[] = TOOL_PASTE_END;
    bt_err e = BT_OK;
    *ret_ended = false;
    if (c == end[p->matched]) {
        *ret_ended = ++p->matched == TOOL_PASTE_END_CHARS;
        return BT_OK;
    }
    /* The characters that looked like the end were text. Only the first character of the end is an ESC:
     * nothing of it but c can begin the end anew. */
    for (size_t i = 0; e == BT_OK && i < p->matched; i++) e = add(p, end[i]);
    p->matched = c == end[0];
    if (e == BT_OK && !p->matched) e = add(p, c);
    return e;
}
