/* The sources of a profile's values and of its times. */
#include "device/profile_sources.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

const char *bt_profile_shown(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c < 0x20 || *c > 0x7e) return "?";
    return strlen(name) > 40 ? "?" : name;
}

bt_err bt_profile_sources(const void *sources, const void *object, bt_fault *fault)
{
    const char *name;
    json_t *text;
    if (!json_is_object((const json_t *)sources))
        return bt_fail(fault, BT_EFORMAT, "field 'sources': must be an object with a text for each field");
    json_object_foreach((json_t *)(uintptr_t)sources, name, text) {
        if (!json_object_get(object, name))
            return bt_fail(fault, BT_EFORMAT,
                           "field 'sources': '%s' is no field of this file: a text for each field that is "
                           "given, no other",
                           bt_profile_shown(name));
        if (!json_is_string(text))
            return bt_fail(fault, BT_EFORMAT, "field 'sources', '%s': must be a text",
                           bt_profile_shown(name));
    }
    return BT_OK;
}
