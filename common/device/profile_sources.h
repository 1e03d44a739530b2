#ifndef BT_DEVICE_PROFILE_SOURCES_H
#define BT_DEVICE_PROFILE_SOURCES_H
#include "base/err.h"

/* Both are a json_t: the object "sources" of `object`, a text for each field that is given and no other. BT_EFORMAT
 * names the field. */
bt_err bt_profile_sources(const void *sources, const void *object, bt_fault *fault);
/* A name from a file, for an error: itself where it is short and printable, else "?". */
const char *bt_profile_shown(const char *name);
#endif
