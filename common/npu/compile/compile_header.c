/* The package's header and the constants that it names: the embedding, rotations, cosines and sines. */
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "npu/compile/compile_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t table(bt_compile_job *j, const void *values, size_t count, size_t bytes)
{
    return bt_compile_const(j, BT_PKG_CONST_TABLE, values, count, bytes);
}

static bool rotates_in_floats(const bt_compile_job *j)
{
    for (size_t i = 0; i < j->graph->ops; i++)
        if (bt_op_infos[j->graph->op[i].kind].beside == BT_BESIDE_POSITIONS &&
            j->offload->on_npu[i] == BT_PKG_NPU_FLOAT)
            return true;
    return false;
}

/* Converts a table to s16 in units of 2^-15. */
static void to_q15(int16_t *q, const float *from, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all are given */
        const float v = rintf(from[k] * 32768);
        q[k] = (int16_t)(v > 32767 ? 32767 : v < -32767 ? -32767 : v);
    }
}

static bt_err write_rope(bt_compile_job *j, bt_fault *fault)
{
    const bt_kernels *ref = bt_kernels_select("ref");
    bt_pkg_header *h = &j->header;
    const size_t of_table = j->ctx_tokens * (j->m->hp.rope_dims / 2),
                 tables = bt_hparams_rope_tables(&j->m->hp), n = tables * of_table;
    float *cos = j->is_sketch ? NULL : malloc(n * sizeof *cos),
          *sin = j->is_sketch ? NULL : malloc(n * sizeof *sin);
    int16_t *q = j->is_sketch ? NULL : malloc(n * sizeof *q);
    const bool made = j->is_sketch || (cos && sin && q);
    h->rope_cos_q15 = h->rope_sin_q15 = BT_PKG_NONE;
    if (made) {
        for (size_t t = 0; !j->is_sketch && t < tables; t++)
            bt_model_rope_table(cos + t * of_table, sin + t * of_table, j->m, t, j->ctx_tokens);
        h->rope_cos = table(j, cos, n, sizeof *cos);
        h->rope_sin = table(j, sin, n, sizeof *sin);
        for (int i = 0; j->npu_ops == BT_PKG_OPS_ALL && i < 2; i++) {
            if (!j->is_sketch) to_q15(q, i ? sin : cos, n);
            *(i ? &h->rope_sin_q15 : &h->rope_cos_q15) = table(j, q, n, sizeof *q);
        }
        for (int i = 0; rotates_in_floats(j) && i < 2; i++) {
            if (!j->is_sketch) bt_round16_rows(ref, h->float_form, i ? sin : cos, n, i ? sin : cos, n, 1, n);
            *(i ? &h->rope_sin16 : &h->rope_cos16) = table(j, i ? sin : cos, n, sizeof *cos);
        }
    }
    free(cos);
    free(sin);
    free(q);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for rotary tables");
}

/* Writes a vector that each layer has one of, `each` long; tensors are of files: NULL in a sketch. */
static bt_err write_vectors(bt_compile_job *j, uint32_t *ret, size_t each,
                            const bt_gguf_tensor *(*of)(const bt_model *, uint32_t, bt_weight), bt_weight w,
                            bt_fault *fault)
{
    const uint32_t layers = j->m->hp.layers;
    float *v = j->is_sketch ? NULL : malloc(layers * each * sizeof *v);
    if (!j->is_sketch && !v) return bt_fail(fault, BT_ENOMEM, "out of memory for %u vectors", layers);
    for (uint32_t l = 0; v && l < layers; l++) bt_model_row_f32(v + l * each, of(j->m, l, w), 0);
    *ret = bt_compile_const(j, BT_PKG_CONST_VECTOR, v, layers * each, sizeof *v);
    free(v);
    return BT_OK;
}

/* Writes the routers as they read the rotated and smoothed stream, and the numbers of experts. */
static bt_err write_experts(bt_compile_job *j, bt_fault *fault)
{
    const bt_hparams *hp = &j->m->hp;
    bt_pkg_header *h = &j->header;
    const size_t of_layer = (size_t)hp->experts * hp->dim, count = of_layer * hp->layers;
    if (!hp->experts) return BT_OK;
    float *routers = j->is_sketch ? NULL : malloc(count * sizeof *routers);
    bt_err e = j->is_sketch || routers ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for routers");
    for (uint32_t l = 0; routers && e == BT_OK && l < hp->layers; l++) {
        e = bt_fold_begin(j->fold, l, BT_WEIGHT_ROUTER, fault);
        for (size_t n = 0; e == BT_OK && n < hp->experts; n++)
            bt_fold_row(j->fold, routers + l * of_layer + n * hp->dim, n);
    }
    if (e == BT_OK) {
        h->experts = hp->experts;
        h->experts_used = hp->experts_used;
        h->routers = bt_compile_const(j, BT_PKG_CONST_VECTOR, routers, count, sizeof *routers);
        h->expert_sites = table(j, j->expert, 2 * (size_t)hp->layers * hp->experts, sizeof *j->expert);
    }
    free(routers);
    return e == BT_OK && bt_arch_of(hp->arch)->biases == BT_ARCH_ALL
               ? write_vectors(j, &h->router_bias, hp->experts, bt_weight_bias, BT_WEIGHT_ROUTER, fault)
               : e;
}

/* Sets the fields that the model and the options decide. */
static void set_numbers(bt_compile_job *j)
{
    const bt_hparams *hp = &j->m->hp;
    bt_pkg_header *h = &j->header;
    memcpy(h->model_id, j->m->id, sizeof h->model_id);
    h->kernels_version = BT_KERNELS_NUMERIC_VERSION;
    h->rounding = BT_PKG_ROUND_HALF_UP;
    h->npu_ops = j->npu_ops;
    h->float_form = j->offload->float_form;
    h->flags = (hp->rope_neox ? BT_PKG_FLAG_NEOX : 0u) | (hp->qkv_bias ? BT_PKG_FLAG_QKV_BIAS : 0u) |
               (hp->qk_norm ? BT_PKG_FLAG_QK_NORM : 0u) | (hp->tied_output ? BT_PKG_FLAG_TIED : 0u);
    h->arch = (uint32_t)hp->arch;
    h->layers = hp->layers;
    h->dim = hp->dim;
    h->ffn = hp->ffn;
    h->heads = hp->heads;
    h->kv_heads = hp->kv_heads;
    h->head_dim = hp->head_dim;
    h->vocab = hp->vocab;
    h->ctx_tokens = (uint32_t)j->ctx_tokens;
    h->rope_dims = hp->rope_dims;
    h->rms_eps = hp->rms_eps;
    h->attn_scale = bt_hparams_scores(hp);
    h->embed_scale = bt_hparams_embed(hp);
    h->add_scale = bt_hparams_add(hp);
    h->rope_base = hp->rope_base;
    h->rope_scale = hp->rope_scale;
    h->rules = hp->rules;
    h->embed_type = j->m->embed->type;
}

bt_err bt_compile_header(bt_compile_job *j, bt_fault *fault)
{
    const bt_hparams *hp = &j->m->hp;
    bt_pkg_header *h = &j->header;
    char text[BT_RECIPE_MAX_TEXT];
    bt_recipe_text(text, &j->o->recipe);
    set_numbers(j);
    h->embed = bt_compile_const(j, BT_PKG_CONST_WEIGHT, j->m->embed->data, j->m->embed->bytes, 1);
    if (!j->is_sketch) bt_gguf_let_go(j->m->file, j->m->embed->data, j->m->embed->bytes);
    h->calib_tokens = j->calib_tokens;
    bt_compile_rotation(j, &h->r1, bt_fold_r1(j->fold), hp->dim);
    bt_compile_rotation(j, &h->r2, bt_fold_r2(j->fold), (size_t)hp->heads * hp->head_dim);
    if (bt_fold_r4(j->fold)->base) bt_compile_rotation(j, &h->r4, bt_fold_r4(j->fold), hp->ffn);
    snprintf(h->model_name, sizeof h->model_name, "%s", j->m->name);
    snprintf(h->shape_policy, sizeof h->shape_policy, "%s", j->shapes.text);
    snprintf(h->profile, sizeof h->profile, "%s", j->profile.name);
    bt_pkg_writer_recipe(j->w, h, text);
    bt_err e = write_rope(j, fault);
    if (e == BT_OK && bt_arch_of(hp->arch)->scores == BT_ARCH_SINKS)
        e = write_vectors(j, &h->sinks, hp->heads, bt_weight_tensor, BT_WEIGHT_SINKS, fault);
    return e == BT_OK ? write_experts(j, fault) : e;
}
