#ifndef BT_TOOLS_INSPECT_MEMORY_H
#define BT_TOOLS_INSPECT_MEMORY_H
#include <jansson.h>
#include "base/err.h"
#include "model/model.h"

/* The memory that serving and compiling a model would take on this machine, by process, from the sizes in its header;
 * and the bytes that each token reads, which bound how fast tokens can come. */
typedef struct tool_inspect_memory {
    const bt_model *model;
    const char *shape_policy;
    size_t ctx_tokens;     /* 0: the model's */
    size_t threads;        /* 0: all cores */
    double bandwidth_gb_s; /* of the machine's memory */
} tool_inspect_memory;
/* Errors of bt_needs_of. */
bt_err tool_inspect_memory_json(json_t **ret, const tool_inspect_memory *c, bt_fault *fault);
void tool_inspect_memory_print(const json_t *memory);
#endif
