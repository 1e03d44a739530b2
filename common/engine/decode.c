/* Chooses an engine by name; holds what all share: limits, counts, the check of a call. */
#include "engine/decode.h"
#include "engine/decode_backend.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"

#include <stdlib.h>
#include <string.h>

struct bt_decode {
    const bt_decode_backend *backend;
    void *state;
    const bt_model *model;
    size_t ctx_tokens, rows_max;
    uint32_t kv_elem_bytes;
    bt_decode_stats stats;
};

static const bt_decode_backend *const backends[] = {&bt_decode_host, &bt_decode_reference};     /* the first is the default */

/* What the configuration leaves open, and what it asks that this back end cannot. */
static bt_err resolve(bt_decode *d, bt_decode_config *c, bt_fault *fault)
{
    const bt_hparams *hp = &d->model->hp;
    const uint32_t *takes = d->backend->kv_elem_bytes;
    if (!c->kv_elem_bytes) c->kv_elem_bytes = takes[0];
    if (c->kv_elem_bytes != takes[0] && c->kv_elem_bytes != takes[1])
        return bt_fail(fault, BT_EARG, "engine '%s' has no KV of %s", d->backend->name, bt_kv_dtype_name(bt_kv_dtype_of(c->kv_elem_bytes)));
    if (!c->rows_max) c->rows_max = 1;
    if (c->rows_max > BT_DECODE_MAX_ROWS)
        return bt_fail(fault, BT_EARG, "%zu rows in a step; at most %d", c->rows_max, BT_DECODE_MAX_ROWS);
    const bt_err e = bt_kv_pages_longest(&c->ctx_tokens, c->ctx_tokens, hp->ctx, c->kv_memory_bytes,
                                         2ull * hp->layers * hp->kv_heads * bt_kv_head_bytes(c->kv_elem_bytes, hp->head_dim), fault);
    d->ctx_tokens = c->ctx_tokens;
    d->rows_max = c->rows_max;
    d->kv_elem_bytes = c->kv_elem_bytes;
    return e;
}

bt_err bt_decode_new(bt_decode **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault)
{
    const char *name = config->engine ? config->engine : backends[0]->name;
    bt_decode_config c = *config;
    bt_err e;
    bt_decode *d = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "making an engine");
    d->model = m;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!strcmp(name, backends[i]->name)) d->backend = backends[i];
    if (!d->backend) {
        e = bt_fail(fault, BT_EARG, "engine '%s': host or reference", name);
        goto out;
    }
    if ((e = resolve(d, &c, fault)) < 0) goto out;
    if ((e = d->backend->load(&d->state, m, &c, fault)) < 0) goto out;
    d->stats.weight_bytes = d->backend->weight_bytes(d->state);
    *ret = d;
    d = NULL;
out:
    bt_decode_free(d);
    return e;
}

void bt_decode_free(bt_decode *d)
{
    if (!d) return;
    if (d->backend) d->backend->free(d->state);
    free(d);
}

const char *bt_decode_name(const bt_decode *d) { return d->backend->name; }
const char *bt_decode_isa(const bt_decode *d) { return d->backend->isa(d->state); }
const char *bt_decode_weights(const bt_decode *d) { return d->backend->weights(d->state); }
uint32_t bt_decode_kv_elem_bytes(const bt_decode *d) { return d->kv_elem_bytes; }
const bt_weights *bt_decode_shared_weights(const bt_decode *d) { return d->backend->shared_weights(d->state); }
size_t bt_decode_ctx_tokens(const bt_decode *d) { return d->ctx_tokens; }
size_t bt_decode_vocab(const bt_decode *d) { return d->model->hp.vocab; }
size_t bt_decode_rows_max(const bt_decode *d) { return d->rows_max; }
bt_decode_stats bt_decode_stats_of(const bt_decode *d) { return d->stats; }

static bt_err check(const bt_decode *d, const bt_decode_seq *s, bt_fault *fault)
{
    const bt_hparams *hp = &d->model->hp;
    const bt_kv_view *kv = s->kv;
    const size_t room = kv->tokens_capacity < d->ctx_tokens ? kv->tokens_capacity : d->ctx_tokens;
    if (s->count < 1 || s->out > s->count) return bt_fail(fault, BT_EARG, "%u rows, %u of them with logits", s->count, s->out);
    if (s->pos > room || s->count > room - s->pos)
        return bt_fail(fault, BT_ELIMIT, "%u positions from %zu, with room for %zu in all", s->count, s->pos, room);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= hp->vocab)
            return bt_fail(fault, BT_EARG, "token id %d: the vocabulary has %u", s->tokens[i], hp->vocab);
    if (kv->layers != hp->layers || kv->kv_heads != hp->kv_heads || kv->head_dim != hp->head_dim ||
        kv->elem_bytes != d->kv_elem_bytes)
        return bt_fail(fault, BT_EARG, "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, %u", kv->layers,
                       kv->kv_heads, kv->head_dim, kv->elem_bytes, hp->layers, hp->kv_heads, hp->head_dim, d->kv_elem_bytes);
    return BT_OK;
}

bt_err bt_decode_step(bt_decode *d, const bt_decode_seq *seq, size_t n, const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        const bt_err e = check(d, &seq[i], fault);
        if (e < 0) return e;
        rows += seq[i].count;
    }
    if (rows > d->rows_max)
        return bt_fail(fault, BT_EARG, "%llu rows in a step, at most %zu", (unsigned long long)rows, d->rows_max);
    const bt_err e = d->backend->step(d->state, seq, n, cancel, logits, fault);
    d->stats.kv_bytes_written = d->backend->kv_bytes_written(d->state);
    if (e < 0) return e;
    d->stats.steps++;
    d->stats.rows += rows;
    return BT_OK;
}
