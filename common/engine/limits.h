#ifndef BT_ENGINE_LIMITS_H
#define BT_ENGINE_LIMITS_H
#include "engine/names.h"
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "model/model.h"

/* The checks of both doors, with the same words for configurations and calls. */

/* Resolves zeros: *elem_bytes to the engine's first form, *ctx_tokens to the model's context or what the memory holds.
 * BT_EARG: a form of KV that the engine lacks; BT_ELIMIT: a context beyond the model's; errors of bt_kv_pages_longest.
 */
bt_err bt_limits_resolve(uint32_t *elem_bytes, size_t *ctx_tokens, const bt_engine_facts *engine, const bt_hparams *hp,
                         uint64_t kv_memory_bytes, bt_fault *fault);
/* The kernels of an instruction set; NULL: the best. BT_EARG: unknown, or not of this machine. */
bt_err bt_limits_kernels(const bt_kernels **ret, const char *isa, bt_fault *fault);
/* BT_EARG: the view is not one of this model's KV in this form. */
bt_err bt_limits_view(const bt_kv_view *kv, const bt_hparams *hp, uint32_t elem_bytes, bt_fault *fault);
/* For tables' needs: bytes of the companion of an engine with so many threads; runs, ctx_tokens and scratch_bytes as
 * bt_companion_sizes has them. And of rotary tables. */
uint64_t bt_limits_companion_bytes(const bt_hparams *hp, size_t runs, size_t ctx_tokens, size_t scratch_bytes,
                                   size_t threads);
uint64_t bt_limits_rope_bytes(const bt_hparams *hp, size_t ctx_tokens);
#endif
