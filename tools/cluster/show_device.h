#ifndef BT_TOOLS_SHOW_DEVICE_H
#define BT_TOOLS_SHOW_DEVICE_H
#include <jansson.h>

/* The object `device` of an answer (docs/device-time.md) for people, on stderr. */
void tool_show_device(const json_t *device);
#endif
