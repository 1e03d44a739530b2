/* Chooses an engine by name; holds what all share: threads, limits, the check of a call. */
#include "engine/prefill.h"
#include "engine/prefill_backend.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"

#include <stdlib.h>
#include <string.h>

struct bt_prefill {
    const bt_prefill_backend *backend;
    void *state;
    const bt_model *model;
    bt_pool *own_pool;                      /* NULL: the caller's is used */
    uint32_t kv_elem_bytes;
    size_t ctx_tokens;
};

static const bt_prefill_backend *const backends[] = {
    [BT_ENGINE_NPU] = &bt_prefill_npu, [BT_ENGINE_HOST] = &bt_prefill_host, [BT_ENGINE_REFERENCE] = &bt_prefill_reference};

static bt_err find(const bt_prefill_backend **ret, const char *name, bt_fault *fault)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!name || !strcmp(name, backends[i]->name)) {
            *ret = backends[i];
            return BT_OK;
        }
    return bt_fail(fault, BT_EARG, "engine '%s': npu, host or reference", name);
}

/* What the configuration leaves open, and what it asks that this engine cannot. */
static bt_err resolve(bt_prefill *p, bt_prefill_config *c, bt_fault *fault)
{
    const bt_hparams *hp = &p->model->hp;
    const uint32_t *takes = p->backend->kv_elem_bytes;
    if (!c->kv_elem_bytes) c->kv_elem_bytes = takes[0];
    if (c->kv_elem_bytes != takes[0] && c->kv_elem_bytes != takes[1])
        return bt_fail(fault, BT_EARG, "engine '%s' has no KV of %s", p->backend->name, bt_kv_dtype_name(bt_kv_dtype_of(c->kv_elem_bytes)));
    const uint64_t token_bytes = 2ull * hp->layers * hp->kv_heads * bt_kv_head_bytes(c->kv_elem_bytes, hp->head_dim);
    bt_err e = bt_kv_pages_longest(&c->ctx_tokens, c->ctx_tokens, hp->ctx, c->kv_memory_bytes, token_bytes, fault);
    if (e == BT_OK && !c->pool) {
        e = bt_pool_new(&p->own_pool, c->threads, fault);
        c->pool = p->own_pool;
    }
    p->kv_elem_bytes = c->kv_elem_bytes;
    p->ctx_tokens = c->ctx_tokens;
    return e;
}

bt_err bt_prefill_new(bt_prefill **ret, const bt_model *m, const bt_prefill_config *config, bt_fault *fault)
{
    bt_prefill_config c = *config;
    bt_prefill *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "making an engine");
    p->model = m;
    bt_err e = find(&p->backend, c.engine, fault);
    if (e == BT_OK) e = resolve(p, &c, fault);
    if (e == BT_OK) e = p->backend->load(&p->state, m, &c, fault);
    if (e < 0) bt_prefill_free(p);
    else *ret = p;
    return e;
}

void bt_prefill_free(bt_prefill *p)
{
    if (!p) return;
    if (p->backend) p->backend->free(p->state);
    bt_pool_free(p->own_pool);
    free(p);
}

const char *bt_prefill_isa(const bt_prefill *p) { return p->backend->isa(p->state); }
uint32_t bt_prefill_kv_elem_bytes(const bt_prefill *p) { return p->kv_elem_bytes; }
size_t bt_prefill_ctx_tokens(const bt_prefill *p) { return p->ctx_tokens; }
bt_report_work bt_prefill_work(const bt_prefill *p) { return p->backend->work(p->state); }

bt_report_engine bt_prefill_about(const bt_prefill *p)
{
    bt_report_engine about = p->backend->about(p->state);
    about.name = p->backend->name;
    return about;
}

bt_err bt_prefill_run(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    const bt_hparams *hp = &p->model->hp;
    if (pos0 > kv->tokens_capacity || n > kv->tokens_capacity - pos0)
        return bt_fail(fault, BT_EARG, "%zu tokens from position %zu, with pages for %zu", n, pos0, kv->tokens_capacity);
    if (kv->layers != hp->layers || kv->kv_heads != hp->kv_heads || kv->head_dim != hp->head_dim || kv->elem_bytes != p->kv_elem_bytes)
        return bt_fail(fault, BT_EARG, "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, %u", kv->layers,
                       kv->kv_heads, kv->head_dim, kv->elem_bytes, hp->layers, hp->kv_heads, hp->head_dim, p->kv_elem_bytes);
    return p->backend->run(p->state, kv, ids, n, pos0, hooks, logits, out, fault);
}
