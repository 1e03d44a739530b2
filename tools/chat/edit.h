#ifndef BT_TOOLS_EDIT_H
#define BT_TOOLS_EDIT_H
#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

/* Lines typed at a terminal, edited by libedit: emacs keys, history with up, down and Ctrl-R, pastes taken whole
 * (bracketed paste), several lines in one text. Reads stdin and draws on stderr. Between two reads, while an answer is
 * shown, the terminal neither echoes nor cuts what is typed; it waits for the next read. One editor at a time, in a
 * process whose only thread this is: it sets LC_CTYPE, handles SIGTSTP, SIGTTOU and, while it reads, SIGWINCH, and has
 * SIGQUIT and SIGHUP set tool_stop. SIGINT and SIGTERM must be caught without SA_RESTART and set tool_stop. */
typedef struct tool_edit tool_edit;

/* limit_bytes: of one text. BT_EVERSION: stdin or stderr is no terminal, or one that cannot move its cursor (TERM
 * unset, "dumb" or unknown); read plain lines then. BT_ENOMEM. */
bt_err tool_edit_open(tool_edit **ret, size_t limit_bytes, bt_fault *fault);
/* Gives the terminal back as it was. NULL is fine. */
void tool_edit_close(tool_edit *e);

/* Appends a text to the history of this process. */
void tool_edit_remember(tool_edit *e, const char *text, size_t len);
/* Whether a text that begins with three quotation marks has not ended with three more: its next line belongs to it. */
bool tool_edit_is_open(const char *text, size_t len);

/* Appends one text, without the last line end, to *ret; *ret_ended: the input has ended instead (Ctrl-D). BT_ECANCEL:
 * tool_stop is set; *ret has grown if something stood in the line. BT_EFORMAT: not UTF-8. BT_ELIMIT, BT_ENOMEM. */
bt_err tool_edit_read(tool_edit *e, bt_buf *ret, bool *ret_ended, bt_fault *fault);
#endif
