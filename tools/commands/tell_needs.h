#ifndef BT_TOOLS_COMMANDS_TELL_NEEDS_H
#define BT_TOOLS_COMMANDS_TELL_NEEDS_H
#include "engine/needs.h"

/* Says on stderr, unless quiet, how much memory a command is about to take for the engines that it runs. BT_ELIMIT:
 * there is not so much; and as bt_needs_check. */
bt_err tool_tell_needs(const char *command, const bt_model *m, const bt_needs_want *want, size_t count, bool is_quiet,
                       bt_fault *fault);
#endif
