#ifndef BT_TOOLS_DEVICES_H
#define BT_TOOLS_DEVICES_H
#include "base/err.h"
#include "base/opt.h"
#include "tools/cluster/command.h"

/* The devices that a system's work is priced with: --profile is the prefill nodes', these are the rest. */
struct tool_serve;

// clang-format off
#define TOOL_DEVICES_OPTS(config, serve) \
    {.group = "Devices", .name = "decode-profile", .value = "PROFILE", BT_OPT_AT(config, serve.decode_profile), \
     .type = BT_OPT_STRING, .example = "adreno-750", \
     .help = "with --profile: tell in every answer what this pair of devices would have taken"}, \
    {.group = "Devices", .name = "link", .value = "LINK", BT_OPT_AT(config, serve.link), .type = BT_OPT_STRING, \
     .example = "25", \
     .help = "between the two: Gbit/s, and a message's latency behind a comma: 10,50us; with --decode-profile 10 " \
             "where it is not given"}, \
    {.group = "Devices", .name = "pace", .value = "PACE", BT_OPT_AT(config, serve.pace), .type = BT_OPT_STRING, \
     .def = "off", .example = "device:20", \
     .help = "device:K lets results go no earlier than K times what devices and link would have taken"}
// clang-format on

/* BT_EARG: a profile without a time, a link or a pace that is none, a pace or a link without devices. */
bt_err tool_devices_check(const struct tool_serve *s, bt_fault *fault);
/* Adds the options by which a node, or `baton up`, learns of these devices. */
void tool_devices_add(tool_command *ret, const struct tool_serve *s);
#endif
