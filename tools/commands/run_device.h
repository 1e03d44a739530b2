#ifndef BT_TOOLS_COMMANDS_RUN_DEVICE_H
#define BT_TOOLS_COMMANDS_RUN_DEVICE_H
#include <jansson.h>
#include "device/dims.h"
#include "device/link.h"
#include "device/profile.h"
#include "tools/cluster/serve.h"

/* What a run would have taken on a pair of devices: computed from the package that ran and from how many tokens there
 * were, never from a clock. */
typedef struct tool_device {
    bt_profile prefill, decode;
    bt_link link;
    const char *link_text;
} tool_device;

/* The pair that options name: want.profile, decode_profile and link. BT_EARG: a profile without a time, a link that is
 * none. */
bt_err tool_device_pair(tool_device *ret, const tool_serve *s, const char *decode_profile, const char *link,
                        bt_fault *fault);
/* The sizes of a model's file. */
bt_dims tool_device_dims(const bt_model *m);
/* answer: prompt_tokens, cached_tokens and completion_tokens of a run of *s. *ret: the object `device`. The package is
 * the one that ran, from the cache. */
bt_err tool_device_price(json_t **ret, const tool_device *d, const tool_serve *s, const json_t *answer,
                         bt_fault *fault);
/* The same for people, on stderr. */
void tool_device_print(const json_t *device);
#endif
