#ifndef BT_TOOLS_DEVICES_H
#define BT_TOOLS_DEVICES_H
#include "base/err.h"
#include "tools/cluster/command.h"

/* The devices that a system's work is priced with: --profile is the prefill nodes', --decode-profile, --link and --pace
 * are the rest. */
struct tool_serve;

/* BT_EARG: a profile without a time, a link or a pace that is none, a pace or a link without devices. */
bt_err tool_devices_check(const struct tool_serve *s, bt_fault *fault);
/* Adds the options by which a node, or `baton up`, learns of these devices. */
void tool_devices_add(tool_command *ret, const struct tool_serve *s);
#endif
