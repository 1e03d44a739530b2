/* Chooses a back end by name; holds what all back ends share: threads, limits, the check of a call. */
#include "decode-node/engine/engine.h"
#include "base/pool.h"
#include "decode-node/engine/engine_backend.h"
#include "kv/kv_pages.h"

#include <stdlib.h>
#include <string.h>

struct dc_engine {
    const dc_engine_backend *backend;
    void *state;
    const bt_model *model;
    bt_pool *pool;
    size_t ctx_tokens;
};

static const dc_engine_backend *const backends[] = {&dc_engine_host, &dc_engine_reference};

bt_err dc_engine_new(dc_engine **ret, const bt_model *m, const dc_engine_config *config, bt_fault *fault)
{
    const char *name = config->engine ? config->engine : backends[0]->name;
    dc_engine_config c = *config;
    bt_err e;
    dc_engine *d = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "making an engine");
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!strcmp(name, backends[i]->name)) d->backend = backends[i];
    if (!d->backend) {
        e = bt_fail(fault, BT_EARG, "engine '%s': host or reference", name);
        goto out;
    }
    if ((e = bt_kv_pages_longest(&c.ctx_tokens, c.ctx_tokens, m->hp.ctx, c.kv_memory_bytes,
                                 2ull * m->hp.layers * m->hp.kv_heads * m->hp.head_dim * d->backend->kv_elem_bytes, fault)) < 0) goto out;
    d->model = m;
    d->ctx_tokens = c.ctx_tokens;
    if ((e = bt_pool_new(&d->pool, c.threads, fault)) < 0) goto out;
    if ((e = d->backend->load(&d->state, m, &c, d->pool, fault)) < 0) goto out;
    *ret = d;
    d = NULL;
out:
    dc_engine_free(d);
    return e;
}

void dc_engine_free(dc_engine *d)
{
    if (!d) return;
    if (d->backend) d->backend->free(d->state);
    bt_pool_free(d->pool);
    free(d);
}

const char *dc_engine_name(const dc_engine *d) { return d->backend->name; }
const char *dc_engine_isa(const dc_engine *d) { return d->backend->isa(d->state); }
uint32_t dc_engine_kv_elem_bytes(const dc_engine *d) { return d->backend->kv_elem_bytes; }
size_t dc_engine_ctx_tokens(const dc_engine *d) { return d->ctx_tokens; }
size_t dc_engine_vocab(const dc_engine *d) { return d->model->hp.vocab; }

bt_err dc_engine_step(dc_engine *d, const bt_kv_view *kv, int32_t token, size_t pos,
                      const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    const bt_hparams *hp = &d->model->hp;
    const size_t room = kv->tokens_capacity < d->ctx_tokens ? kv->tokens_capacity : d->ctx_tokens;
    if (pos >= room) return bt_fail(fault, BT_ELIMIT, "position %zu, with room for %zu", pos, room);
    if (token < 0 || (uint32_t)token >= hp->vocab)
        return bt_fail(fault, BT_EARG, "token id %d: the vocabulary has %u", token, hp->vocab);
    if (kv->layers != hp->layers || kv->kv_heads != hp->kv_heads || kv->head_dim != hp->head_dim ||
        kv->elem_bytes != d->backend->kv_elem_bytes)
        return bt_fail(fault, BT_EARG,
                       "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, %u", kv->layers,
                       kv->kv_heads, kv->head_dim, kv->elem_bytes, hp->layers, hp->kv_heads, hp->head_dim,
                       d->backend->kv_elem_bytes);
    return d->backend->step(d->state, kv, token, pos, cancel, logits, fault);
}
