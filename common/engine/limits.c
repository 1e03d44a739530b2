/* The checks that prefill and decode share. */
#include "engine/limits.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"

bt_err bt_limits_resolve(uint32_t *elem_bytes, size_t *ctx_tokens, const char *engine,
                         const uint32_t takes[2], const bt_hparams *hp, uint64_t kv_memory_bytes,
                         bt_fault *fault)
{
    if (!*elem_bytes) *elem_bytes = takes[0];
    if (*elem_bytes != takes[0] && *elem_bytes != takes[1])
        return bt_fail(fault, BT_EARG, "engine '%s' has no KV of %s", engine,
                       bt_kv_dtype_name(bt_kv_dtype_of(*elem_bytes)));
    const uint64_t token_bytes = bt_kv_token_bytes(*elem_bytes, hp->layers, hp->kv_heads, hp->head_dim);
    return bt_kv_pages_longest(ctx_tokens, *ctx_tokens, hp->ctx, kv_memory_bytes, token_bytes, fault);
}

bt_err bt_limits_kernels(const bt_kernels **ret, const char *isa, bt_fault *fault)
{
    const bt_kernels *k = bt_kernels_select(isa);
    if (!k)
        return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: " BT_KERNELS_NAMES, isa);
    *ret = k;
    return BT_OK;
}

bt_err bt_limits_view(const bt_kv_view *kv, const bt_hparams *hp, uint32_t elem_bytes, bt_fault *fault)
{
    if (kv->layers == hp->layers && kv->kv_heads == hp->kv_heads && kv->head_dim == hp->head_dim &&
        kv->elem_bytes == elem_bytes)
        return BT_OK;
    return bt_fail(fault, BT_EARG, "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, %u",
                   kv->layers, kv->kv_heads, kv->head_dim, kv->elem_bytes, hp->layers, hp->kv_heads,
                   hp->head_dim, elem_bytes);
}
