/* Chooses a back end by name; holds what all back ends share: threads, limits, the check of a call. */
#include "prefill-node/engine.h"
#include "prefill-node/engine_backend.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pf_engine {
    const pf_engine_backend *backend;
    void *state;
    const bt_model *model;
    bt_pool *pool;
    uint32_t kv_elem_bytes;
    size_t ctx_tokens;
};

const char *const pf_engine_names[] = {"npu", "host", "reference", NULL};
static const pf_engine_backend *const backends[] = {&pf_engine_npu, &pf_engine_host, &pf_engine_reference};   /* in that order */

bt_err pf_engine_new(pf_engine **ret, const bt_model *m, const pf_engine_config *config, bt_fault *fault)
{
    const char *name = config->engine ? config->engine : pf_engine_names[0];
    pf_engine_config c = *config;
    bt_err e;
    pf_engine *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "making an engine");
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!strcmp(name, pf_engine_names[i])) p->backend = backends[i];
    if (!p->backend) {
        e = bt_fail(fault, BT_EARG, "engine '%s': npu, host or reference", name);
        goto out;
    }
    const uint32_t *takes = p->backend->kv_elem_bytes;
    if (!c.kv_elem_bytes) c.kv_elem_bytes = takes[0];
    if (c.kv_elem_bytes != takes[0] && c.kv_elem_bytes != takes[1]) {
        e = bt_fail(fault, BT_EARG, "engine '%s' has no KV of %s", name, bt_kv_dtype_name(bt_kv_dtype_of(c.kv_elem_bytes)));
        goto out;
    }
    if ((e = bt_kv_pages_longest(&c.ctx_tokens, c.ctx_tokens, m->hp.ctx, c.kv_memory_bytes,
                                 2ull * m->hp.layers * m->hp.kv_heads * bt_kv_head_bytes(c.kv_elem_bytes, m->hp.head_dim), fault)) < 0) goto out;
    p->kv_elem_bytes = c.kv_elem_bytes;
    p->model = m;
    p->ctx_tokens = c.ctx_tokens;
    if ((e = bt_pool_new(&p->pool, c.threads, fault)) < 0) goto out;
    if ((e = p->backend->load(&p->state, m, &c, p->pool, fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    pf_engine_free(p);
    return e;
}

void pf_engine_free(pf_engine *p)
{
    if (!p) return;
    if (p->backend) p->backend->free(p->state);
    bt_pool_free(p->pool);
    free(p);
}

const char *pf_engine_name(const pf_engine *p) { return p->backend->name; }
const char *pf_engine_isa(const pf_engine *p) { return p->backend->isa(p->state); }
uint32_t pf_engine_kv_elem_bytes(const pf_engine *p) { return p->kv_elem_bytes; }
size_t pf_engine_ctx_tokens(const pf_engine *p) { return p->ctx_tokens; }
bt_msg_work pf_engine_work(const pf_engine *p) { return p->backend->work(p->state); }

bt_node_about pf_engine_describe(const pf_engine *p)
{
    bt_node_about about = {0};
    snprintf(about.engine.name, sizeof about.engine.name, "%s", p->backend->name);
    p->backend->describe(p->state, &about);
    return about;
}

bt_err pf_engine_prefill(pf_engine *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                         const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    const bt_hparams *hp = &p->model->hp;
    if (pos0 > kv->tokens_capacity || n > kv->tokens_capacity - pos0)
        return bt_fail(fault, BT_EARG, "%zu tokens from position %zu, with pages for %zu", n, pos0,
                       kv->tokens_capacity);
    if (kv->layers != hp->layers || kv->kv_heads != hp->kv_heads || kv->head_dim != hp->head_dim ||
        kv->elem_bytes != p->kv_elem_bytes)
        return bt_fail(fault, BT_EARG,
                       "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, %u", kv->layers,
                       kv->kv_heads, kv->head_dim, kv->elem_bytes, hp->layers, hp->kv_heads, hp->head_dim,
                       p->kv_elem_bytes);
    return p->backend->prefill(p->state, kv, ids, n, pos0, hooks, logits, out, fault);
}
