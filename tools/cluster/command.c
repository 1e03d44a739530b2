/* Command lines of this project's programs. */
#include "tools/cluster/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tool_command_add(tool_command *c, const char *option, const char *value)
{
    const char *const parts[] = {option, value};
    for (size_t i = 0; i < 2 && parts[i]; i++) {
        if (c->args == TOOL_COMMAND_MAX_ARGS || strlen(parts[i]) >= TOOL_COMMAND_ARG_BYTES) {
            c->overflow = true;
            return;
        }
        strcpy(c->arg[c->args++], parts[i]);
    }
}

void tool_command_add_int(tool_command *c, const char *option, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    tool_command_add(c, option, text);
}

bt_err tool_program_dir(char *ret, size_t cap, bt_fault *fault)
{
    const ssize_t n = readlink("/proc/self/exe", ret, cap - 1);
    if (n <= 0) return bt_fail(fault, BT_EIO, "cannot find out where this program lies: %s", strerror(errno));
    ret[n] = '\0';
    char *slash = strrchr(ret, '/');
    if (slash) *slash = '\0';
    return BT_OK;
}
