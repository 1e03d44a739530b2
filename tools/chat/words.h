#ifndef BT_TOOLS_WORDS_H
#define BT_TOOLS_WORDS_H
#include <stdio.h>
#include "base/err.h"
#include "tools/chat/talk.h"

/* What begins with a slash: commands to the chat itself. One table has them all; /help prints it. */
typedef enum tool_words_next {
    TOOL_WORDS_SEND, /* it is a message */
    TOOL_WORDS_DONE, /* it was a command */
    TOOL_WORDS_LEAVE /* the command was /exit */
} tool_words_next;

/* Looks at what was typed, and does what a command says; its words go to `out`. *ret_text is where the message begins,
 * which lies in text: of "//x" it is "/x". has_editor: /help tells the editor's keys too. BT_EARG: a word that is no
 * command, or one without what it needs; nothing was done. Else what the command met. */
bt_err tool_words_do(tool_words_next *ret, const char **ret_text, tool_talk *t, const char *text, bool has_editor,
                     FILE *out, bt_fault *fault);
#endif
