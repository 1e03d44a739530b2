/* The constants of each tensor as compile_tensors.c writes them, counted; and the greatest of what the steps
 * hold at once. */
#include "npu/compile/needs.h"
#include "graph/companion.h"
#include "kernels/int_kernels.h"
#include "model/gguf.h"
#include "npu/quant/awq.h"
#include "npu/compile/compile_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    PANEL = 16,
    COLUMNS = 16,            /* of fold.c */
    PROGRAM_BYTES = 16 << 20 /* all that is not for the model */
};

static uint32_t room(bt_compile_job *j, bt_pkg_const_kind kind, uint64_t bytes)
{
    return bt_pkg_writer_room(j->w, kind, bytes);
}

/* ---- the package ---- */

static const bt_recipe_layer *recipe_of(const bt_compile_job *j, uint32_t layer, bt_weight w)
{
    return bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)bt_pkg_site_of(w));
}

static bool is_bias_written(const bt_compile_job *j, uint32_t layer, bt_weight w, bool on_npu)
{
    return bt_weight_bias(j->m, layer, w) != NULL || (on_npu && recipe_of(j, layer, w)->bias);
}

static void count_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, bt_weight w)
{
    const bt_recipe_layer *r = recipe_of(j, layer, w);
    const bt_gguf_tensor *from = bt_weight_tensor(j->m, layer, w);
    const bool on_npu = bt_compile_job_unit(j, layer, w) == BT_PKG_NPU;
    const uint64_t n = from->dim[1], k = from->dim[0], panels = bt_int_panels(n),
                   f16 = (uint64_t)bt_matmul_packed_elems(n, k) * 2;
    t->n = (uint32_t)n;
    t->k = (uint32_t)k;
    t->bits = on_npu ? bt_recipe_stored_bits(r) : 16;
    t->palette_run = on_npu ? bt_recipe_palette_run(r, t->k) : 0;
    t->panels = room(j, BT_PKG_CONST_WEIGHT, on_npu ? panels * bt_int_panel_bytes(k, t->bits) : f16);
    if (is_bias_written(j, layer, w, on_npu)) t->bias = room(j, BT_PKG_CONST_VECTOR, n * 4);
    if (!on_npu) return;
    (void)room(j, BT_PKG_CONST_SCALE, r->per_tensor ? 4 : n * 4); /* weights' scales */
    (void)room(j, BT_PKG_CONST_SCALE, panels * PANEL * 4);        /* outputs' */
    (void)room(j, BT_PKG_CONST_TABLE, (bt_recipe_group(r) ? 2 : 1) * panels * PANEL * 4); /* sums of columns
                                                                                           */
    if (t->palette_run) (void)room(j, BT_PKG_CONST_TABLE, (panels * (k / t->palette_run)) << t->bits);
    else if (r->group) (void)room(j, BT_PKG_CONST_SCALE, panels * (k / r->group) * sizeof(bt_int_group));
    if (j->o->recipe.llm_int8) (void)room(j, BT_PKG_CONST_WEIGHT, f16);
    if (j->npu_ops != BT_PKG_OPS_ALL || w == BT_WEIGHT_OUTPUT) return;
    (void)room(j, BT_PKG_CONST_SCALE, panels * PANEL * 5); /* multipliers, shifts */
    const bool has_zero = j->o->recipe.asym == BT_ASYM_ON && r->input_bits[bt_pkg_site_of(w)] == 8;
    if (t->bias != BT_PKG_NONE || has_zero) (void)room(j, BT_PKG_CONST_VECTOR, panels * PANEL * 8);
}

static void count_tensor(bt_compile_job *j, uint32_t layer, bt_weight w)
{
    bt_pkg_tensor *t = &j->tensor[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
    *t = bt_pkg_no_tensor;
    t->layer = bt_weight_is_layers(w) ? layer : UINT32_MAX;
    t->weight = w;
    if (bt_weight_is_matrix(w)) {
        count_matrix(j, t, layer, w);
        return;
    }
    if (!bt_fold_has_norm(j->fold, layer, w) && !bt_recipe_scales(&j->o->recipe)) return;
    t->n = (uint32_t)bt_weight_tensor(j->m, layer, w)->dim[0];
    t->k = 1;
    t->bits = 32;
    t->panels = room(j, BT_PKG_CONST_VECTOR, (uint64_t)t->n * 4);
    if (j->npu_ops == BT_PKG_OPS_ALL) (void)room(j, BT_PKG_CONST_VECTOR, (uint64_t)t->n * 4);
}

/* What lies in the header's constants, and the outlier channels of sites. */
static void count_tables(bt_compile_job *j)
{
    const bt_hparams *hp = &j->m->hp;
    const uint64_t angles = (uint64_t)j->ctx_tokens * (hp->rope_dims / 2);
    (void)room(j, BT_PKG_CONST_WEIGHT, j->m->embed->bytes);
    bt_compile_recipe(j);
    for (int i = 0; i < 2; i++) {
        (void)room(j, BT_PKG_CONST_TABLE, angles * 4);
        if (j->npu_ops == BT_PKG_OPS_ALL) (void)room(j, BT_PKG_CONST_TABLE, angles * 2);
        if (j->offload->float_form) (void)room(j, BT_PKG_CONST_TABLE, angles * 4);
    }
    bt_compile_rotation(j, &j->header.r1, bt_fold_r1(j->fold), hp->dim);
    bt_compile_rotation(j, &j->header.r2, bt_fold_r2(j->fold), (size_t)hp->heads * hp->head_dim);
    if (bt_fold_r4(j->fold)->base) bt_compile_rotation(j, &j->header.r4, bt_fold_r4(j->fold), hp->ffn);
    if (j->o->attention.ratio_ppm)
        (void)room(j, BT_PKG_CONST_TABLE, (uint64_t)hp->layers * hp->heads * sizeof(bt_pkg_head));
    for (size_t i = 0; j->o->recipe.shadow == BT_SHADOW_CHANNEL && i < j->sites; i++)
        (void)room(j, BT_PKG_CONST_TABLE, hp->ffn > hp->dim ? hp->ffn : hp->dim);
}

/* Stands for what only a calibration gives. */
static bt_err count_params(bt_compile_job *j, bt_fault *fault)
{
    if (j->npu_ops != BT_PKG_OPS_ALL) return BT_OK;
    if (!(j->params = malloc(j->graph->ops * sizeof *j->params)))
        return bt_fail(fault, BT_ENOMEM, "compiling");
    for (size_t i = 0; i < j->graph->ops; i++)
        j->params[i] = j->offload->on_npu[i] == BT_PKG_NPU
                           ? room(j, BT_PKG_CONST_TABLE, sizeof(bt_pkg_int_params))
                           : BT_PKG_NONE;
    return BT_OK;
}

static bt_err count_package(bt_compile_needs *ret, bt_compile_job *j, bt_fault *fault)
{
    bt_compile_header_numbers(j);
    count_tables(j);
    uint32_t layer = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(j->m, &layer, w));) count_tensor(j, layer, w);
    for (size_t i = 0; i < j->tensors; i++) (void)bt_pkg_writer_tensor(j->w, &j->tensor[i]);
    for (size_t i = 0; i < j->sites; i++) (void)bt_pkg_writer_site(j->w, &j->site[i]);
    bt_err e = count_params(j, fault);
    if (e == BT_OK) e = bt_compile_programs(j, fault);
    if (e < 0) return e;
    ret->package_bytes = bt_pkg_writer_bytes(j->w);
    ret->arena_bytes = j->header.arena_bytes;
    ret->max_seq = j->header.max_seq;
    ret->attention = j->o->attention;
    return BT_OK;
}

/* ---- the compiler ---- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Figures of sites and rows of the text, K and V of a window in all layers. */
static uint64_t calibration_bytes(const bt_compile_job *j)
{
    const bt_hparams *hp = &j->m->hp;
    uint64_t bytes = (uint64_t)BT_CALIB_WINDOW * hp->dim * 4 +
                     (uint64_t)BT_CALIB_WINDOW * hp->layers * hp->kv_heads * hp->head_dim * 4;
    for (size_t i = 0; i < j->sites; i++) {
        const uint32_t kind = i + 1 == j->sites ? (uint32_t)BT_SITE_HEAD : i % BT_PKG_LAYER_SITES;
        const uint64_t k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        bytes += 2 * BT_CALIB_BINS * sizeof(uint32_t) + k * (4 + 2 * 4 + 8 + 4 * BT_CALIB_SAMPLES);
    }
    return bytes;
}

/* All windows of the text, between two layers. */
static bt_err windows_bytes(uint64_t *ret, const bt_compile_job *j, bt_fault *fault)
{
    const uint64_t tokens =
        j->o->calib_len && j->o->calib_len < BT_COMPILE_MAX_CALIB ? j->o->calib_len : BT_COMPILE_MAX_CALIB;
    bt_program *p = NULL;
    const bt_err e = bt_bind_program(&p, j->graph, 1, BT_CALIB_WINDOW, 0, 0, fault);
    if (e < 0) return e;
    *ret = p->arena.fixed * ((tokens + BT_CALIB_WINDOW - 1) / BT_CALIB_WINDOW);
    bt_bind_free(p);
    return BT_OK;
}

/* A matrix whose output is rotated is made whole in floats. */
static uint64_t whole_bytes(const bt_compile_job *j, bt_weight w, uint64_t n, uint64_t k, size_t threads)
{
    const bool is_whole = bt_fold_r1(j->fold)->base > 0 && (w == BT_WEIGHT_O || w == BT_WEIGHT_DOWN);
    return is_whole ? n * k * 4 + threads * COLUMNS * n * 4 : 0;
}

/* One matrix at a time is rounded and packed: its panels, and 16 of its rows for each thread. */
static uint64_t packing_bytes(uint64_t *ret_whole, const bt_compile_job *j, size_t threads)
{
    uint64_t most = 0;
    uint32_t layer = 0;
    *ret_whole = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(j->m, &layer, w));) {
        if (!bt_weight_is_matrix(w)) continue;
        const bt_pkg_tensor *t = &j->tensor[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
        const uint64_t n = t->n, k = t->k, whole = whole_bytes(j, w, n, k, threads);
        const uint64_t panels = t->bits == 16 ? (uint64_t)bt_matmul_packed_elems(n, k) * 2
                                              : bt_int_panels(n) * bt_int_panel_bytes(k, t->bits);
        *ret_whole = larger(*ret_whole, whole);
        const uint64_t palettes = t->palette_run ? (bt_int_panels(n) * (k / t->palette_run)) << t->bits : 0,
                       indices = t->palette_run ? threads * k * PANEL : 0;
        most = larger(most,
                      whole + panels + palettes + indices + threads * k * (2 * PANEL * 4 + PANEL) + n * 64);
    }
    return most;
}

/* The sums of a layer's inputs, and the factors of the widest in doubles. */
static uint64_t gptq_bytes(const bt_compile_job *j)
{
    const bt_hparams *hp = &j->m->hp;
    uint64_t sums = 0, widest = 0;
    if (!bt_recipe_has_gptq(&j->o->recipe)) return 0;
    for (uint32_t kind = 0; kind < BT_SITE_KINDS; kind++) {
        const uint64_t k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        sums += k * k * sizeof(float);
        widest = larger(widest, k * k * sizeof(double));
    }
    return sums + 2 * widest;
}

/* Rows of a layer's inputs, the clips of all weights, and what a row's searches hold. */
static uint64_t awq_bytes(const bt_compile_job *j, size_t threads)
{
    const bt_hparams *hp = &j->m->hp;
    uint64_t bytes = 0, k_most = 0, n_most = 0;
    uint32_t layer = 0;
    if (!j->o->recipe.awq) return 0;
    for (uint32_t kind = 0; kind < BT_SITE_KINDS; kind++) {
        const uint64_t k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        bytes += k * (BT_AWQ_TOKENS * sizeof(float) + sizeof(double));
        k_most = larger(k_most, k);
    }
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(j->m, &layer, w));) {
        const bt_pkg_tensor *t = &j->tensor[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
        if (!bt_weight_is_matrix(w)) continue;
        const uint32_t group = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)bt_pkg_site_of(w))->group;
        bytes += (uint64_t)t->n * (group ? t->k / group : 1);
        n_most = larger(n_most, t->n);
    }
    return bytes + (threads + 1) * (BT_AWQ_RATIOS + 2) * k_most * sizeof(float) +
           n_most * BT_AWQ_RATIOS * sizeof(double);
}

static bt_err count_memory(bt_compile_needs *ret, const bt_compile_job *j, size_t threads, bt_fault *fault)
{
    uint64_t layer = 0, windows = 0, whole;
    bt_err e = bt_weights_bytes(&layer, j->m, BT_FORM_F16, true, fault);
    if (e == BT_OK) e = windows_bytes(&windows, j, fault);
    if (e < 0) return e;
    const bt_companion_sizes sizes = {
        .heads = j->m->hp.heads,
        .kv_heads = j->m->hp.kv_heads,
        .head_dim = j->m->hp.head_dim,
        .runs = 1,
        .ctx_tokens = BT_CALIB_WINDOW,
        .rotate_elems = bt_fold_r4(j->fold)->base ? j->m->hp.ffn : j->m->hp.dim};
    const uint64_t packing = packing_bytes(&whole, j, threads), gptq = gptq_bytes(j);
    const uint64_t measuring = windows + whole + awq_bytes(j, threads),
                   writing = packing + (gptq ? windows + gptq : 0);
    ret->memory_bytes = PROGRAM_BYTES + layer + calibration_bytes(j) + bt_companion_bytes(&sizes, threads) +
                        larger(measuring, writing);
    return BT_OK;
}

/* A job that knows where each operator runs. The caller frees *ret, on failure too. */
static bt_err placed(bt_compile_job **ret, const bt_model *m, const bt_compile_options *options,
                     bt_fault *fault)
{
    bt_err e = bt_compile_job_new(ret, m, options, NULL, fault);
    if (e < 0) return e;
    bt_compile_job *j = *ret;
    e = bt_fold_new(&j->fold, m, bt_recipe_rotations(&j->o->recipe), j->kernels, NULL, fault);
    return e == BT_OK ? bt_compile_offload(j, fault) : e;
}

bt_err bt_compile_needs_of(bt_compile_needs *ret, const bt_model *m, const bt_compile_options *options,
                           size_t threads, bt_fault *fault)
{
    bt_compile_needs n = {0};
    bt_compile_job *j = NULL;
    bt_err e = placed(&j, m, options, fault);
    if (e == BT_OK) e = bt_pkg_writer_counting(&j->w, fault);
    if (e == BT_OK) e = count_package(&n, j, fault);
    if (e == BT_OK) e = count_memory(&n, j, threads, fault);
    if (e == BT_OK) *ret = n;
    bt_compile_job_free(j);
    return e;
}

bt_err bt_compile_fallbacks_of(bt_pkg_fallback **ret, size_t *ret_count, const bt_model *m,
                               const bt_compile_options *options, bt_fault *fault)
{
    bt_compile_job *j = NULL;
    bt_pkg_fallback *list = NULL;
    bt_err e = placed(&j, m, options, fault);
    const size_t n = e == BT_OK ? j->offload->fallbacks : 0;
    if (n && !(list = malloc(n * sizeof *list))) e = bt_fail(fault, BT_ENOMEM, "placing operators");
    if (list) memcpy(list, j->offload->fallback, n * sizeof *list);
    if (e == BT_OK) *ret = list, *ret_count = n;
    bt_compile_job_free(j);
    return e;
}
