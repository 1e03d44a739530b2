#ifndef BT_LAB_COMMANDS_DIMS_OF_H
#define BT_LAB_COMMANDS_DIMS_OF_H
#include "base/err.h"
#include "device/dims.h"

/* The sizes of a model without its weights: a known shape (device/dims.h), a config.json where the name ends in .json
 * (device/dims.h), or the header of a GGUF file. ret_ctx: the longest sequence of a file; 0: unknown, as of
 * known shapes; may be NULL. BT_EARG: none of them, with all known shapes on stderr; errors of bt_dims_config_load and
 * bt_model_open_head. */
bt_err tool_dims_of(bt_dims *ret, uint32_t *ret_ctx, const char *name, bt_fault *fault);
/* Whether a name that tool_dims_of takes is a GGUF file's, which has a tokenizer too. */
bool tool_dims_is_gguf(const char *name);
#endif
