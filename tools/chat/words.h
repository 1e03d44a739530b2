#ifndef BT_TOOLS_WORDS_H
#define BT_TOOLS_WORDS_H
#include <stdio.h>
#include "base/err.h"
#include "tools/chat/talk.h"

/* Lines that begin with a slash: commands to the chat itself. One table has all commands; /help prints it. */
typedef enum tool_words_next {
    TOOL_WORDS_SEND,  /* it is a message */
    TOOL_WORDS_DONE,  /* it was a command */
    TOOL_WORDS_AGAIN, /* the command was /regenerate */
    TOOL_WORDS_LEAVE  /* the command was /exit */
} tool_words_next;

/* Looks at a typed line, and carries a command out; its output goes to `out`. *ret_text: where in `text` the message
 * begins, for "//x" at "/x". has_editor: /help names the editor's keys too. BT_EARG: an unknown command, or one without
 * its argument; nothing was done. Other errors are the command's own. */
bt_err tool_words_do(tool_words_next *ret, const char **ret_text, tool_talk *t, const char *text, bool has_editor,
                     FILE *out, bt_fault *fault);
#endif
