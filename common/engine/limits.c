/* The checks that prefill and decode share. */
#include "engine/limits.h"
#include "graph/companion.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"

bt_err bt_limits_resolve(uint32_t *elem_bytes, size_t *ctx_tokens, const bt_engine_facts *engine,
                         const bt_hparams *hp, uint64_t kv_memory_bytes, bt_fault *fault)
{
    const uint32_t has = bt_engine_kv(engine, *elem_bytes);
    if (*elem_bytes && has != *elem_bytes)
        return bt_fail(fault, BT_EARG,
                       "engine '%s' has no KV of %s: choose another --kv-dtype, or another engine",
                       engine->name, bt_kv_dtype_name(bt_kv_dtype_of(*elem_bytes)));
    *elem_bytes = has;
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
    if (kv->window_page && (!hp->window || kv->global_every != hp->global_every))
        return bt_fail(fault, BT_EARG, "KV view with window pages of other layers than the model's");
    if (kv->layers == hp->layers && kv->kv_heads == hp->kv_heads && kv->head_dim == hp->head_dim &&
        kv->elem_bytes == elem_bytes)
        return BT_OK;
    return bt_fail(fault, BT_EARG, "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, %u",
                   kv->layers, kv->kv_heads, kv->head_dim, kv->elem_bytes, hp->layers, hp->kv_heads,
                   hp->head_dim, elem_bytes);
}

uint64_t bt_limits_companion_bytes(const bt_hparams *hp, size_t runs, size_t ctx_tokens, size_t scratch_bytes,
                                   size_t threads)
{
    const bt_companion_sizes sizes = {
        .heads = hp->heads,       .kv_heads = hp->kv_heads, .head_dim = hp->head_dim,      .runs = runs,
        .ctx_tokens = ctx_tokens, .rotate_elems = hp->dim,  .scratch_bytes = scratch_bytes};
    return bt_companion_bytes(&sizes, threads);
}

uint64_t bt_limits_rope_bytes(const bt_hparams *hp, size_t ctx_tokens)
{
    return (uint64_t)ctx_tokens * (hp->rope_dims / 2) * 2 * sizeof(float);
}
