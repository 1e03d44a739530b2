#ifndef BT_LAB_SIMULATE_SIDE_H
#define BT_LAB_SIMULATE_SIDE_H
#include "base/err.h"
#include "device/profile.h"

/* The nodes of one side of a cluster, in the form of --prefill and --decode: "8:h100,8:m2-ultra", "16", "1..64:a100",
 * "8:h100x4@vllm", "8:h100,4:a100@llama-3.2-1b", "4:h100@vllm@llama-3.2-1b". A word behind the first @ is a stack if
 * the profile has one of that name, else a model; behind a second @ is a model. */
enum { TOOL_SIMULATE_GROUPS = 8, TOOL_SIMULATE_NODES = 4096 };
typedef struct tool_simulate_group {
    uint32_t least, most; /* nodes; equal but in a sweep */
    bt_profile profile;
    char model_name[64]; /* behind the last @; "": none */
    char stack[32];      /* behind the first one; "": the profile's own */
    uint32_t model;      /* lab/simulate/models.h */
} tool_simulate_group;
typedef struct tool_simulate_side {
    tool_simulate_group group[TOOL_SIMULATE_GROUPS];
    size_t len;
} tool_simulate_side;

/* option: its name, for words. usual: the device where a part names none. A device is a profile's name or file, or the
 * beginning of one name alone. "0" is a side without nodes. BT_EARG names the wrong part and the valid forms. */
bt_err tool_simulate_side_read(tool_simulate_side *ret, const char *option, const char *text, const char *usual,
                               bt_fault *fault);
/* The device of a name, as above; behind its @ is a stack. */
bt_err tool_simulate_device(bt_profile *ret, const char *name, bt_fault *fault);
#endif
