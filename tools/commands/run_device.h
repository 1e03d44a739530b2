#ifndef BT_TOOLS_COMMANDS_RUN_DEVICE_H
#define BT_TOOLS_COMMANDS_RUN_DEVICE_H
#include <jansson.h>

/* The object `device` of an answer (docs/device-time.md) for people, on stderr. */
void tool_device_print(const json_t *device);
#endif
