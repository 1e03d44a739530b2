/* A step reads weights in the form that the decode engine has them in; groups of 32 have a scale, FP4 an
 * offset too. */
#include "engine/costs.h"
#include "engine/overlap.h"
#include "model/gguf.h"
#include "model/quant.h"

#include <stdio.h>
#include <stdlib.h>

bt_dims bt_costs_dims(const bt_model *m)
{
    const bt_hparams *h = &m->hp;
    const uint32_t all = bt_kv_all_layers(h->global_every, h->layers);
    bt_dims d = {.layers = h->layers,
                 .hidden = h->dim,
                 .ffn = h->ffn * (h->experts ? h->experts_used : 1),
                 .heads = h->heads,
                 .kv_heads = h->kv_heads,
                 .head_dim = h->head_dim,
                 .vocab = h->vocab,
                 .ffn_matrices = bt_arch_is_gated(h->arch) ? 3 : 2,
                 .has_qkv_bias = h->qkv_bias,
                 .has_qk_norm = h->qk_norm,
                 .rope_milli = (uint32_t)(h->rope.magnitude * 1000 + 0.5f),
                 .has_own_embedding = !h->tied_output,
                 .window = h->window,
                 .windowed = h->window ? h->layers - all : 0,
                 .experts = h->experts,
                 .experts_used = h->experts_used,
                 .expert_ffn = h->experts ? h->ffn : 0,
                 .expert_layers = h->experts ? h->layers : 0};
    snprintf(d.name, sizeof d.name, "%.63s", m->name);
    return d;
}

static uint64_t kv_bytes(const bt_hparams *h, uint32_t elem_bytes)
{
    return bt_kv_token_bytes(elem_bytes, h->layers, h->kv_heads, h->head_dim);
}

/* Where weights are FP4, MXFP4 of the file stays: 4.25 bits a weight, not 5 (kernels/forms.h). */
static void keep_mx(bt_price_model *p, const bt_model *m)
{
    uint32_t layer = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(m, &layer, w));) {
        const bt_gguf_tensor *t = bt_weight_tensor(m, layer, w);
        if (!bt_weight_is_matrix(w) || t->type != BT_QUANT_MXFP4) continue;
        const uint64_t saved = t->dim[0] * t->dim[1] * 3 / 32, used = t->dim[2] > 1 ? m->hp.experts_used : 1;
        p->weight_bytes -= used * saved;
        p->idle_bytes -= (t->dim[2] - used) * saved;
        if (t->dim[2] > 1) p->expert_bytes -= used * saved;
        if (w == BT_WEIGHT_OUTPUT) p->head_bytes -= saved;
    }
}

bt_price_model bt_costs_decode(const bt_model *m, bt_form form, uint32_t kv_elem_bytes)
{
    const bt_dims d = bt_costs_dims(m);
    bt_price_model model = bt_price_model_of(&d, &bt_price_form_find(bt_weights_forms[form])->recipe);
    model.kv_bytes = kv_bytes(&m->hp, kv_elem_bytes);
    if (form == BT_FORM_FP4) keep_mx(&model, m);
    return model;
}

bt_err bt_costs_prefill_new(bt_costs_prefill **ret, const bt_prefill *engine, const bt_model *m,
                            const bt_profile *profile, const bt_link *link, bt_fault *fault)
{
    const bt_pkg *pkg = bt_prefill_pkg(engine);
    const uint32_t elem_bytes = bt_prefill_kv_elem_bytes(engine);
    const bt_dims dims = bt_costs_dims(m);
    if (!pkg)
        return bt_fail(fault, BT_EARG, "a device is priced by the programs of a package: take --engine npu");
    bt_costs_prefill *c = calloc(1, sizeof *c);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for the prices of a package");
    const bt_price_pkg_config config = {.pkg = pkg, .npu = profile, .kv_elem_bits = 8 * elem_bytes};
    const bt_err e = bt_price_pkg_new(&c->price, &config, fault);
    if (e < 0) {
        free(c);
        return e;
    }
    c->work =
        (bt_work_prefill){.programs = bt_price_pkg_programs(c->price), .link = link ? *link : (bt_link){0},
                          .kv = bt_link_kv_of(&dims, kv_bytes(&m->hp, elem_bytes))};
    *ret = c;
    return BT_OK;
}

void bt_costs_prefill_free(bt_costs_prefill *c)
{
    if (!c) return;
    bt_schedule_play_free(c->play);
    bt_price_pkg_free(c->price);
    free(c);
}

bt_err bt_costs_prefill_by(bt_costs_prefill *c, bt_schedule_policy policy, bt_fault *fault)
{
    const bt_schedule_play_config config = {.price = c->price, .policy = policy, .window = BT_OVERLAP_WINDOW};
    const bt_err e = bt_schedule_play_new(&c->play, &config, fault);
    if (e < 0) return e;
    c->work.play = bt_schedule_play_prompt;
    c->work.play_ud = c->play;
    return BT_OK;
}
