#ifndef BT_TOOLS_BACKGROUND_H
#define BT_TOOLS_BACKGROUND_H
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/err.h"
#include "tools/cluster/command.h"

/* A private `baton up` for commands that need a system for a while (run, chat). It has its own process group, so that
 * Ctrl-C reaches the command alone, and dies with the command whatever happens. */
typedef struct tool_background {
    pid_t pid;
    char url[256];
} tool_background;

/* up: the options of `baton up`; its program is not looked at. Waits until the system is ready; where it does not get
 * ready, its own words on stderr say why. BT_EIO, BT_ECANCEL when *stop was set meanwhile. */
bt_err tool_background_start(tool_background *ret, const tool_command *up, const volatile sig_atomic_t *stop,
                             bt_fault *fault);
/* Stops it and waits. A background that never started (pid 0) is fine. */
void tool_background_stop(tool_background *b);
#endif
