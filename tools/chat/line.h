#ifndef BT_TOOLS_LINE_H
#define BT_TOOLS_LINE_H
#include <stdbool.h>
#include "base/buf.h"
#include "base/err.h"

/* Where a chat's messages come from: a terminal with an editor (tools/chat/edit.h), a terminal without, or a pipe or
 * file. Everywhere a backslash at the end of a line makes the next line part of the same message. Set up as edit.h
 * asks. */
enum {
    TOOL_LINE_MAX_BYTES = 1 << 20,   /* of one message */
    TOOL_LINE_TERMINAL_BYTES = 4095, /* a terminal without an editor passes on no more of a line */
};

typedef struct tool_line tool_line;

/* keeps_history: reads and writes the file of tools/chat/history.h, where there is an editor. A file that cannot be
 * read gives a line on stderr and is left alone. BT_ENOMEM. */
bt_err tool_line_open(tool_line **ret, bool keeps_history, bt_fault *fault);
void tool_line_close(tool_line *l); /* NULL is fine */
bool tool_line_is_terminal(const tool_line *l);
bool tool_line_has_editor(const tool_line *l);

/* One message into *ret, which is cleared first, without its last line end; it may be empty. *ret_ended: there was
 * none, the input has ended. BT_ECANCEL: tool_stop is set; *ret is not empty if an editor's line was not. BT_EFORMAT:
 * what was typed or piped is not UTF-8 or has a NUL; BT_ELIMIT: it is too long; the next call reads on behind it.
 * BT_EIO, BT_ENOMEM. */
bt_err tool_line_read(tool_line *l, bt_buf *ret, bool *ret_ended, bt_fault *fault);
/* Keeps a message for the history, unless it is longer than an entry may be. The first failure gives a line on stderr.
 */
void tool_line_remember(tool_line *l, const char *text, size_t len);
#endif
