#ifndef BT_TOOLS_CHAT_H
#define BT_TOOLS_CHAT_H
#include "tools/chat/talk.h"

/* The loop of `baton chat`: banner, prompt, commands, answers, until the user leaves or a pipe ends. Uses stdin, stdout
 * for answers, stderr for everything else. Returns an exit code: 0; 1 when something that came from a pipe failed;
 * TOOL_INTERRUPTED. */
typedef struct tool_chat {
    tool_talk_with with;
    bool wants_banner;  /* at a terminal */
    bool wants_history; /* where lines are edited */
} tool_chat;
int tool_chat_converse(const tool_chat *c);
#endif
