#ifndef BT_LAB_COMMANDS_DIMS_OF_H
#define BT_LAB_COMMANDS_DIMS_OF_H
#include "base/err.h"
#include "device/dims.h"

/* The sizes of a model that is only planned for: a known shape (device/dims.h), or a GGUF file of which the header is
 * enough. ret_ctx: the context that it was made for; 0: not known; may be NULL. BT_EARG: neither; and as
 * bt_model_open_head. */
bt_err tool_dims_of(bt_dims *ret, uint32_t *ret_ctx, const char *name, bt_fault *fault);
#endif
