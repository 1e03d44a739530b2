/* Finds faults before any node is started; each node would log them again and again. */
#include "tools/cluster/devices.h"
#include "device/link.h"
#include "device/pace.h"
#include "engine/names.h"
#include "tools/cluster/serve.h"

#include <string.h>

static bt_err check_profile(const char *name, bool is_decode, bt_fault *fault)
{
    bt_profile p;
    const bt_err e = bt_profile_load(&p, name, fault);
    if (e < 0 || p.time.is_given) return e;
    return bt_fail(fault, BT_EARG, "profile '%s' has no time; %s takes one that has, such as %s", p.name,
                   is_decode ? "--decode-profile" : "--profile", is_decode ? "adreno-750" : "hexagon-v75");
}

bt_err tool_devices_check(const tool_serve *s, bt_fault *fault)
{
    bt_link link;
    bt_pace pace;
    bt_err e = bt_pace_parse(&pace, s->pace, fault);
    if (e < 0) return e;
    if (!s->decode_profile) {
        if (pace.milli || s->link)
            return bt_fail(fault, BT_EARG, "--%s needs --decode-profile, and a --profile with a time",
                           s->link ? "link" : "pace");
        return BT_OK;
    }
    const char *engine = bt_engine_prefill_names[s->engine];
    if (!s->colocated && !bt_engine_prefill(engine)->has_package)
        return bt_fail(fault, BT_EARG, "--decode-profile prices a package, and --engine %s runs none",
                       engine);
    if (!s->colocated) e = check_profile(s->want.profile, false, fault);
    if (e == BT_OK) e = check_profile(s->decode_profile, true, fault);
    return e == BT_OK && s->link ? bt_link_parse(&link, s->link, fault) : e;
}

void tool_devices_add(tool_command *ret, const tool_serve *s)
{
    if (!s->decode_profile) return;
    tool_command_add(ret, "--decode-profile", s->decode_profile);
    tool_command_add(ret, "--link", s->link ? s->link : "10");
    tool_command_add(ret, "--pace", s->pace);
}
