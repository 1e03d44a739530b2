#ifndef BT_ENGINE_LIMITS_H
#define BT_ENGINE_LIMITS_H
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "model/model.h"

/* What both doors ask of a configuration and of a call, in the same words. */

/* Resolves what is 0: *elem_bytes to the first that the engine takes, *ctx_tokens to the model's context or what the
 * memory holds.
 * BT_EARG: a form of KV that the engine lacks; BT_ELIMIT: a context beyond the model's; errors of
 * bt_kv_pages_longest. */
bt_err bt_limits_resolve(uint32_t *elem_bytes, size_t *ctx_tokens, const char *engine, const uint32_t takes[2],
                         const bt_hparams *hp, uint64_t kv_memory_bytes, bt_fault *fault);
/* The kernels of an instruction set; NULL: the best. BT_EARG: unknown, or not of this machine. */
bt_err bt_limits_kernels(const bt_kernels **ret, const char *isa, bt_fault *fault);
/* BT_EARG: the view is not one of this model's KV in this form. */
bt_err bt_limits_view(const bt_kv_view *kv, const bt_hparams *hp, uint32_t elem_bytes, bt_fault *fault);
#endif
