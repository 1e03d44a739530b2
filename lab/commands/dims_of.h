#ifndef BT_LAB_COMMANDS_DIMS_OF_H
#define BT_LAB_COMMANDS_DIMS_OF_H
#include "base/err.h"
#include "device/dims.h"

/* The sizes of a model without its weights: a known shape (device/dims.h), or the header of a GGUF file. ret_ctx: the
 * model's context; 0: unknown; may be NULL. BT_EARG: neither; errors of bt_model_open_head. */
bt_err tool_dims_of(bt_dims *ret, uint32_t *ret_ctx, const char *name, bt_fault *fault);
#endif
