/* A model of sizes alone: the tensors that its file would have, without their bytes. */
#include "model/gguf.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

enum { F32 = 0, F16 = 1, OWN = 3, LAYER = 24 }; /* ggml types; tensors of no layer, of a layer */

/* dim[i] 0: there is none. */
static const bt_gguf_tensor *make_dims(bt_model *m, size_t *at, uint32_t type, const uint64_t dim[3])
{
    bt_gguf_tensor *t = &m->made[(*at)++];
    const uint64_t k = dim[0];
    *t = (bt_gguf_tensor){.name = "", .type = type, .n_dims = dim[2] ? 3 : dim[1] ? 2 : 1};
    for (int i = 0; i < BT_GGUF_MAX_DIMS; i++) t->dim[i] = i < 3 && dim[i] ? dim[i] : 1;
    t->rows = (size_t)(t->dim[1] * t->dim[2]);
    t->row_bytes = (size_t)k * (type == F16 ? 2 : 4);
    t->bytes = t->row_bytes * t->rows;
    m->param_count += k * t->rows;
    m->weights_bytes += t->bytes;
    return t;
}

/* n 0: a vector; experts 0: one matrix, else one of each. */
static const bt_gguf_tensor *make_all(bt_model *m, size_t *at, uint64_t k, uint64_t n, uint32_t experts)
{
    return make_dims(m, at, n ? F16 : F32, (const uint64_t[]){k, n, experts});
}

/* A bias of n outputs; experts 0: one, else one of each. */
static const bt_gguf_tensor *make_bias(bt_model *m, size_t *at, uint64_t n, uint32_t experts)
{
    return make_dims(m, at, F32, (const uint64_t[]){n, experts, 0});
}

static const bt_gguf_tensor *make(bt_model *m, size_t *at, uint64_t k, uint64_t n)
{
    return make_all(m, at, k, n, 0);
}

static void make_layer(bt_model *m, size_t *at, bt_layer_tensors *x)
{
    const bt_hparams *hp = &m->hp;
    const uint64_t d = hp->dim, f = hp->ffn, q = (uint64_t)hp->heads * hp->head_dim,
                   kv = (uint64_t)hp->kv_heads * hp->head_dim;
    x->attn_norm = make(m, at, bt_arch_norm_elems(hp->arch, hp->dim), 0);
    x->ffn_norm = make(m, at, bt_arch_norm_elems(hp->arch, hp->dim), 0);
    if (bt_arch_of(hp->arch)->norms == BT_ARCH_BOTH) {
        x->attn_post_norm = make(m, at, d, 0);
        x->ffn_post_norm = make(m, at, d, 0);
    }
    x->wq = make(m, at, d, q);
    x->wk = make(m, at, d, kv);
    x->wv = make(m, at, d, kv);
    x->wo = make(m, at, q, d);
    if (hp->experts) x->router = make(m, at, d, hp->experts);
    if (bt_arch_is_gated(hp->arch)) x->w_gate = make_all(m, at, d, f, hp->experts);
    x->w_up = make_all(m, at, d, f, hp->experts);
    x->w_down = make_all(m, at, f, d, hp->experts);
    if (hp->qkv_bias) {
        x->bq = make(m, at, q, 0);
        x->bk = make(m, at, kv, 0);
        x->bv = make(m, at, kv, 0);
    }
    if (bt_arch_of(hp->arch)->biases == BT_ARCH_ALL) {
        x->bo = make(m, at, d, 0);
        x->b_up = make_bias(m, at, f, hp->experts);
        x->b_down = make_bias(m, at, d, hp->experts);
        if (bt_arch_is_gated(hp->arch)) x->b_gate = make_bias(m, at, f, hp->experts);
        if (hp->experts) x->b_router = make_bias(m, at, hp->experts, 0);
    }
    if (bt_arch_of(hp->arch)->scores == BT_ARCH_SINKS) x->sinks = make(m, at, hp->heads, 0);
    if (hp->qk_norm) {
        const bool by_row = bt_arch_of(hp->arch)->qk_norm == BT_ARCH_ROWS;
        x->q_norm = make(m, at, by_row ? q : hp->head_dim, 0);
        x->k_norm = make(m, at, by_row ? kv : hp->head_dim, 0);
    }
}

static bool is_within(const bt_hparams *hp)
{
    const struct {
        uint32_t v, most;
    } all[] = {{hp->layers, BT_MODEL_MAX_LAYERS}, {hp->dim, BT_MODEL_MAX_DIM},
               {hp->ffn, BT_MODEL_MAX_FFN},       {hp->heads, BT_MODEL_MAX_HEADS},
               {hp->kv_heads, hp->heads},         {hp->head_dim, BT_MODEL_MAX_HEAD_DIM},
               {hp->vocab, BT_MODEL_MAX_VOCAB},   {hp->ctx, BT_MODEL_MAX_CTX}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i].v || all[i].v > all[i].most) return false;
    return hp->heads % hp->kv_heads == 0 && hp->rope_dims <= hp->head_dim &&
           hp->experts <= BT_MODEL_MAX_EXPERTS && hp->experts_used <= BT_MODEL_MAX_EXPERTS_USED &&
           hp->experts_used <= hp->experts && !hp->experts == !hp->experts_used;
}

bt_err bt_model_of_sizes(bt_model **ret, const bt_hparams *hp, const char *name, bt_fault *fault)
{
    size_t at = 0;
    if (!is_within(hp))
        return bt_fail(fault, BT_EARG, "'%.60s': a size is beyond what a model may have", name);
    bt_model *m = calloc(1, sizeof *m);
    if (m) m->layer = calloc(hp->layers, sizeof *m->layer);
    if (m) m->made = calloc(OWN + (size_t)hp->layers * LAYER, sizeof *m->made);
    if (!m || !m->layer || !m->made) {
        bt_model_close(m);
        return bt_fail(fault, BT_ENOMEM, "out of memory for the sizes of a model");
    }
    m->hp = *hp;
    snprintf(m->name, sizeof m->name, "%s", name);
    m->embed = make(m, &at, hp->dim, hp->vocab);
    m->out_norm = make(m, &at, bt_arch_norm_elems(hp->arch, hp->dim), 0);
    m->output = hp->tied_output ? m->embed : make(m, &at, hp->dim, hp->vocab);
    for (uint32_t i = 0; i < hp->layers; i++) make_layer(m, &at, &m->layer[i]);
    *ret = m;
    return BT_OK;
}
