/* See tell_needs.h. */
#include "tools/commands/tell_needs.h"

#include <stdio.h>

bt_err tool_tell_needs(const char *command, const bt_model *m, const bt_needs_want *want, size_t count,
                       bool is_quiet, bt_fault *fault)
{
    char text[BT_NEEDS_TEXT_BYTES];
    const bt_err e = bt_needs_begin(text, m, want, count, fault);
    if (e == BT_OK && !is_quiet) fprintf(stderr, "baton %s: %s\n", command, text);
    return e;
}
