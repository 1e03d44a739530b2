#ifndef BT_TOOLS_SSE_H
#define BT_TOOLS_SSE_H
#include <stdbool.h>
#include "base/buf.h"

/* Server-sent events, the reading side (WHATWG HTML, section 9.2.6), as far as an OpenAI-style stream uses them:
 * `data:` lines, comments, events ended by a blank line; LF or CRLF. Bytes may come in any pieces. */
enum { TOOL_SSE_MAX_EVENT_BYTES = 4 << 20 };

/* data: one event's text, NUL-terminated, valid during the call. Return false to stop. */
typedef bool tool_sse_fn(void *ud, const char *data, size_t len);

typedef struct tool_sse {
    bt_buf line, event;
    bool has_data;
} tool_sse;
void tool_sse_init(tool_sse *s);
void tool_sse_done(tool_sse *s);
/* BT_ELIMIT for an event over the limit, BT_ECANCEL when fn said stop. */
bt_err tool_sse_feed(tool_sse *s, const char *bytes, size_t len, tool_sse_fn *fn, void *ud);
#endif
