/* One compilation: checks its options against each other, the model and the profile; makes and frees what the
 * steps share. */
#include "npu/compile/compile_private.h"
#include "npu/compile/plan_limits.h"

#include <stdlib.h>
#include <string.h>

static bt_err check_input(const bt_recipe *r, uint32_t layer, bt_site_kind kind, uint32_t k, bt_fault *fault)
{
    const bt_recipe_layer *l = bt_recipe_of(r, layer, kind);
    if (r->asym == BT_ASYM_ON && l->input_bits[kind] == 8 && k > BT_INT_MAX_ASYMMETRIC_K)
        return bt_fail(fault, BT_EARG,
                       "asym takes linears of up to %d inputs, and site %s has %u (--quant with no-asym)",
                       BT_INT_MAX_ASYMMETRIC_K, bt_site_kind_name(kind), k);
    return bt_recipe_check_group(l, kind, k, fault);
}

/* Checks that the model has the layers that the recipe names, that groups divide the inputs of every linear,
 * and that sums with zero points fit 32 bits. */
static bt_err check_inputs(const bt_hparams *hp, const bt_recipe *r, bt_fault *fault)
{
    bt_err e = bt_recipe_check_layers(r, hp->layers, fault);
    for (uint32_t l = 0; l < hp->layers; l++)
        for (uint32_t kind = 0; e == BT_OK && kind < BT_SITE_KINDS; kind++)
            e = check_input(r, l, (bt_site_kind)kind,
                            bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn), fault);
    return e;
}

bt_err bt_compile_resolve(bt_recipe *r, const bt_hparams *hp, const bt_profile *p, bt_fault *fault)
{
    bt_recipe_settle_gptq(r, r->r1 && !bt_fold_can_r1(hp));
    const bool can = bt_recipe_has_8_bit_site(r) && !r->llm_int8;
    if (r->asym == BT_ASYM_ON && p->input_zero_points == BT_PROFILE_ZERO_NONE)
        return bt_fail(fault, BT_EARG,
                       "asym (--quant) gives inputs a zero point, and those of profile %s have none "
                       "(input_zero_points)",
                       p->name);
    const bool wants = p->input_zero_points == BT_PROFILE_ZERO_WANTED && can;
    if (r->asym == BT_ASYM_AUTO && wants) r->asym = BT_ASYM_ON;
    if (r->asym == BT_ASYM_OFF && !wants) r->asym = BT_ASYM_AUTO;
    return BT_OK;
}

/* Checks options against each other, the model and the profile. */
static bt_err prepare(bt_compile_job *j, const bt_model *m, const bt_compile_options *o, bt_fault *fault)
{
    bt_err e;
    j->m = m;
    j->options = *o;
    j->o = &j->options;
    j->kernels = bt_kernels_select(o->isa);
    if (!j->kernels)
        return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: " BT_KERNELS_NAMES,
                       o->isa);
    if (o->profile) memcpy(&j->profile, o->profile, sizeof j->profile); /* its gaps too, for the key */
    else if ((e = bt_profile_load(&j->profile, NULL, fault)) < 0) return e;
    if (m->hp.experts && (o->recipe.llm_int8 || o->recipe.awq))
        return bt_fail(fault, BT_EARG,
                       "%s (--quant) scales what all matrices of a layer read alike, and %s has %u experts",
                       o->recipe.awq ? "awq" : "llm-int8", m->name, m->hp.experts);
    j->ctx_tokens = o->ctx_tokens ? o->ctx_tokens : bt_compile_usual_ctx(m);
    if (j->ctx_tokens > m->hp.ctx)
        return bt_fail(fault, BT_EARG, "a context of %zu tokens (--ctx-size), but the model has %u",
                       j->ctx_tokens, m->hp.ctx);
    if (o->npu_ops > BT_PKG_OPS_ALL)
        return bt_fail(fault, BT_EARG, "npu operators %u are unknown: linear or all", o->npu_ops);
    if ((e = bt_compile_resolve(&j->options.recipe, &m->hp, &j->profile, fault)) < 0) return e;
    if ((e = check_inputs(&m->hp, &j->options.recipe, fault)) < 0) return e;
    if (o->npu_ops == BT_PKG_OPS_ALL && o->recipe.llm_int8)
        return bt_fail(fault, BT_EARG,
                       "llm-int8 scales rows as they come; npu operators 'all' need static units");
    if (o->shapes) j->shapes = *o->shapes;
    else if ((e = bt_shapes_parse(&j->shapes, o->shape_policy, j->ctx_tokens, fault)) < 0) return e;
    if ((e = bt_plan_limits_attention(&o->attention, m->hp.head_dim, m->hp.window, &j->profile, &j->shapes,
                                      fault)) < 0)
        return e;
    for (size_t i = 0; i < j->shapes.all && o->recipe.llm_int8; i++)
        if (j->shapes.shape[i].batch > 1)
            return bt_fail(
                fault, BT_EARG,
                "shape policy %s has batch %u; with llm-int8 a row's numbers depend on the others of "
                "its run, so it takes batch 1 only",
                j->shapes.text, j->shapes.shape[i].batch);
    return bt_plan_limits_check(&j->profile, &j->shapes, j->ctx_tokens, fault);
}

/* The part of the profile that goes into the package. */
static bt_pkg_layout layout_of(const bt_profile *p)
{
    return (bt_pkg_layout){.on_chip_bytes = p->on_chip_bytes,
                           .last_axis_align_bytes = p->last_axis_align_bytes,
                           .query_slice_rows = p->query_slice_rows,
                           .attention_heads_max = p->attention_heads_max,
                           .output_parts = p->output_parts,
                           .tile_rows = p->tile_rows,
                           .tile_cols = p->tile_cols,
                           .tile_input_rows = p->tile_input_rows,
                           .state_pow2 = p->state_pow2,
                           .state_multiple = p->state_multiple};
}

static bt_err make_tables(bt_compile_job *j, bt_fault *fault)
{
    j->tensors = (size_t)j->m->hp.layers * BT_PKG_LAYER_TENSORS + 2;
    j->sites = (size_t)j->m->hp.layers * BT_PKG_LAYER_SITES + 1;
    j->tensor = calloc(j->tensors, sizeof *j->tensor);
    j->site = calloc(j->sites, sizeof *j->site);
    j->smooth = calloc(j->sites, sizeof *j->smooth);
    j->gptq = calloc(j->sites, sizeof *j->gptq);
    j->order = calloc(j->sites, sizeof *j->order);
    j->clip = calloc(j->tensors, sizeof *j->clip);
    j->pruned = calloc(j->sites, sizeof *j->pruned);
    j->unit = calloc(j->tensors, sizeof *j->unit);
    j->uses = calloc(j->sites, sizeof *j->uses);
    j->donor = calloc(j->sites, sizeof *j->donor);
    const size_t experts = 2 * (size_t)j->m->hp.layers * j->m->hp.experts;
    j->expert = experts ? calloc(experts, sizeof *j->expert) : NULL;
    const bool made = (j->expert || !experts) && j->donor && j->tensor && j->site && j->smooth && j->gptq &&
                      j->order && j->clip && j->pruned && j->unit && j->uses;
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
}

static void plan_work(bt_compile_job *j)
{
    const bt_recipe *r = &j->o->recipe;
    const uint64_t measures = bt_recipe_scales(r) ? 2 : 1;
    j->work = measures * BT_COMPILE_SHARE_CALIBRATE +
              (bt_recipe_gptq_sites(r) ? BT_COMPILE_SHARE_GPTQ : BT_COMPILE_SHARE_PACK);
    if (r->awq) j->work += BT_COMPILE_SHARE_AWQ;
    if (j->o->attention.ratio_ppm) j->work += 2 * BT_COMPILE_SHARE_SPARSE;
}

bt_err bt_compile_job_new(bt_compile_job **ret, const bt_model *m, const bt_compile_options *o, bt_pool *pool,
                          bt_fault *fault)
{
    bt_compile_job *j = calloc(1, sizeof *j);
    if (!j) return bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    j->pool = pool;
    bt_err e = prepare(j, m, o, fault);
    j->header.layout = layout_of(&j->profile);
    if (e == BT_OK) plan_work(j);
    if (e == BT_OK) e = make_tables(j, fault);
    if (e < 0) bt_compile_job_free(j);
    else *ret = j;
    return e;
}

void bt_compile_job_free(bt_compile_job *j)
{
    if (!j) return;
    for (size_t i = 0; i < j->sites; i++) {
        if (j->smooth) free(j->smooth[i]);
        if (j->gptq) free(j->gptq[i]);
        if (j->order) free(j->order[i]);
    }
    for (size_t i = 0; j->clip && i < j->tensors; i++) free(j->clip[i]);
    free(j->clip);
    free(j->smooth);
    free(j->gptq);
    free(j->order);
    free(j->tensor);
    free(j->site);
    bt_offload_free(j->offload);
    free(j->unit);
    free(j->uses);
    free(j->has_norm);
    free(j->params);
    free(j->pruned);
    free(j->expert);
    free(j->donor);
    bt_graph_free(j->graph);
    bt_calib_free(j->calib);
    bt_fold_free(j->fold);
    bt_pkg_writer_free(j->w);
    free(j);
}

void bt_compile_job_step(bt_compile_job *j, uint64_t share)
{
    j->work_done += j->step;
    j->step = share;
}

void bt_compile_job_progress(void *job, uint64_t done, uint64_t total)
{
    enum { UNIT = 1000 };
    const bt_compile_job *j = job;
    if (!j->o->progress || !total) return;
    const uint64_t part = (uint64_t)((double)j->step * UNIT * (double)done / (double)total);
    const uint64_t all = j->work * UNIT, at = j->work_done * UNIT + part;
    j->o->progress(j->o->ud, "compiling (once, then kept)", at < all ? at : all, all);
}

size_t bt_compile_calib_tokens(const bt_compile_job *j)
{
    return j->o->calib_len < BT_COMPILE_MAX_CALIB ? j->o->calib_len : BT_COMPILE_MAX_CALIB;
}

const bt_weight bt_compile_matrices[BT_COMPILE_MATRICES] = {BT_WEIGHT_Q,    BT_WEIGHT_K,     BT_WEIGHT_V,
                                                            BT_WEIGHT_O,    BT_WEIGHT_GATE,  BT_WEIGHT_UP,
                                                            BT_WEIGHT_DOWN, BT_WEIGHT_OUTPUT};

bool bt_compile_reads(const bt_compile_job *j, uint32_t layer, bt_weight w, uint32_t kind)
{
    return bt_pkg_site_of(w) == kind && bt_weight_tensor(j->m, layer, w);
}

/* The site in whose units an operator reads or writes integers: of a linear, the site of its input; of
 * others, the site of the linear that reads their output. BT_PKG_NONE: no linear does. */
static uint32_t site_of(const bt_graph *g, size_t at)
{
    const bt_op *o = &g->op[at], *linear = bt_op_is_linear(o) ? o : bt_graph_reader(g, o->out, at);
    return linear ? bt_pkg_site_of(linear->weight) : BT_PKG_NONE;
}

/* Notes that an operator on the NPU reads or writes integers in units of a site. One outside layers does in
 * every layer. */
static void note_site(bt_compile_job *j, uint32_t layer, uint32_t kind)
{
    const uint32_t layers = j->m->hp.layers;
    const bool is_outside = layer == BT_GRAPH_NO_LAYER;
    for (uint32_t l = is_outside ? 0 : layer; l < (is_outside ? layers : layer) + 1 && kind != BT_PKG_NONE;
         l++)
        if ((kind == BT_SITE_HEAD) == (l == layers)) j->uses[bt_pkg_site_index(layers, l, kind)] = true;
}

void bt_compile_job_placed(bt_compile_job *j)
{
    memset(j->unit, BT_PKG_COMPANION, j->tensors * sizeof *j->unit);
    memset(j->uses, 0, j->sites * sizeof *j->uses);
    for (size_t i = j->graph->ops; i-- > 0;) { /* of operators with one weight the first counts */
        const bt_op *o = &j->graph->op[i];
        const uint32_t tensor = bt_pkg_tensor_index(j->m->hp.layers, o->layer, o->weight);
        if (tensor != BT_PKG_NONE) j->unit[tensor] = j->offload->on_npu[i];
        if (j->offload->on_npu[i] == BT_PKG_NPU) note_site(j, o->layer, site_of(j->graph, i));
    }
}

bt_pkg_unit bt_compile_job_unit(const bt_compile_job *j, uint32_t layer, bt_weight weight)
{
    const uint32_t tensor = bt_pkg_tensor_index(j->m->hp.layers, layer, weight);
    return tensor == BT_PKG_NONE ? BT_PKG_COMPANION : (bt_pkg_unit)j->unit[tensor];
}

bt_pkg_expert *bt_compile_experts_of(const bt_compile_job *j, uint32_t layer, uint32_t kind)
{
    if (!j->expert || (kind != BT_SITE_UP && kind != BT_SITE_DOWN)) return NULL;
    return &j->expert[((size_t)layer * 2 + (kind == BT_SITE_DOWN)) * j->m->hp.experts];
}

size_t bt_compile_matrices_of(const bt_compile_job *j, bt_weight w)
{
    return bt_compile_experts_of(j, 0, bt_pkg_site_of(w)) ? j->m->hp.experts : 1;
}

bool bt_compile_job_uses_site(const bt_compile_job *j, uint32_t layer, bt_site_kind site)
{
    return j->uses[bt_pkg_site_index(j->m->hp.layers, layer, site)];
}

uint32_t bt_compile_const(bt_compile_job *j, bt_pkg_const_kind kind, const void *values, size_t count,
                          size_t bytes)
{
    return bt_pkg_writer_const(j->w, kind, j->is_sketch ? NULL : values, count * bytes);
}

void bt_compile_rotation(bt_compile_job *j, bt_pkg_rotation *to, const bt_hadamard *h, size_t width)
{
    *to = (bt_pkg_rotation){.h_base = BT_PKG_NONE, .sign = BT_PKG_NONE};
    if (!h->base) return;
    to->base = h->base;
    to->log2 = h->log2;
    to->scale = h->scale;
    to->blocks = (uint32_t)(width / bt_hadamard_size(h));
    if (h->base > 1)
        to->h_base = bt_pkg_writer_const(j->w, BT_PKG_CONST_TABLE, h->h, (size_t)h->base * h->base);
    if (h->sign) to->sign = bt_pkg_writer_const(j->w, BT_PKG_CONST_TABLE, h->sign, bt_hadamard_size(h));
}
