#ifndef BT_TOOLS_HISTORY_H
#define BT_TOOLS_HISTORY_H
#include <stddef.h>
#include "base/err.h"

/* The file that keeps what was typed: $XDG_STATE_HOME/baton/chat_history, else ~/.local/state/baton/chat_history, mode
 * 600, its folders 700. One line for each entry, the oldest first; in it a backslash is \\ and a line end \n. Several
 * chats may add to it at once. libedit's own file is not used: it is written in place and read without a limit. */
enum {
    TOOL_HISTORY_MAX_BYTES = 1 << 20,        /* of the file: when it is full, the older half goes */
    TOOL_HISTORY_MAX_ENTRY_BYTES = 64 << 10, /* of an entry; a longer one is not kept */
};

/* BT_EIO: neither variable is set, or the path is longer than cap. */
bt_err tool_history_path(char *ret, size_t cap, bt_fault *fault);
/* Hands every entry to fn, the oldest first; text is NUL-terminated, valid UTF-8, and fn's during the call. A file that
 * is not there has none; lines that are not text are left out. BT_EIO, BT_ELIMIT, BT_ENOMEM. */
bt_err tool_history_load(const char *path, void (*fn)(void *ud, const char *text, size_t len), void *ud,
                         bt_fault *fault);
/* Appends an entry; makes the file and its folders. BT_EIO, BT_ENOMEM. */
bt_err tool_history_add(const char *path, const char *text, size_t len, bt_fault *fault);
#endif
