#ifndef BT_TOOLS_COMMAND_H
#define BT_TOOLS_COMMAND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* How a program of ours is called, and where it lies. */
enum { TOOL_COMMAND_MAX_ARGS = 96, TOOL_COMMAND_ARG_BYTES = 512 };

/* One program and its arguments, each NUL-terminated in arg[i]. */
typedef struct tool_command {
    char program[32]; /* a sibling of this program: "baton-gateway" */
    char arg[TOOL_COMMAND_MAX_ARGS][TOOL_COMMAND_ARG_BYTES];
    size_t args;
    bool overflow; /* an argument did not fit: who runs it refuses */
} tool_command;
void tool_command_add(tool_command *c, const char *option, const char *value /* NULL: a flag */);
void tool_command_add_int(tool_command *c, const char *option, int64_t value);

/* The directory of the running program, where its siblings are, without a slash at the end. */
bt_err tool_program_dir(char *ret, size_t cap, bt_fault *fault);
#endif
