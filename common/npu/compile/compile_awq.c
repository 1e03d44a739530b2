/* AWQ over a model, layer by layer, in one run of the calibration text. A layer's scales go into the fold;
 * its clips are kept for the rounding. */
#include "npu/quant/awq.h"
#include "model/gguf.h"
#include "npu/compile/compile_private.h"

#include <stdlib.h>

typedef struct awq {
    bt_compile_job *j;
    size_t total;                      /* tokens of the text */
    bt_awq_input input[BT_SITE_KINDS]; /* of the current layer */
    size_t seen[BT_SITE_KINDS];        /* tokens that each input has taken */
} awq;

static bool has_site(const awq *a, uint32_t layer, uint32_t kind)
{
    return kind != BT_SITE_HEAD || layer + 1 == a->j->m->hp.layers;
}

static bt_err begin_layer(void *ud, uint32_t layer, bt_fault *fault)
{
    awq *a = ud;
    bt_err e = BT_OK;
    for (uint32_t kind = 0; e == BT_OK && kind < BT_SITE_KINDS; kind++) {
        if (!has_site(a, layer, kind)) continue;
        const uint32_t site = bt_pkg_site_index(a->j->m->hp.layers, layer, kind);
        a->seen[kind] = 0;
        e = bt_awq_input_new(&a->input[kind], a->j->stats->site[site].k, fault);
    }
    return e;
}

static void take_rows(void *ud, uint32_t site, const float *x, size_t t, size_t k)
{
    awq *a = ud;
    const uint32_t kind = site + 1 == a->j->sites ? (uint32_t)BT_SITE_HEAD : site % BT_PKG_LAYER_SITES;
    (void)k;
    bt_awq_input_add(&a->input[kind], x, t, a->seen[kind], a->total);
    a->seen[kind] += t;
}

static bt_err search_scales(awq *a, uint32_t layer, uint32_t kind, bt_fault *fault)
{
    bt_compile_job *j = a->j;
    bt_awq_input *in = &a->input[kind];
    const uint32_t site = bt_pkg_site_index(j->m->hp.layers, layer, kind);
    const bt_recipe_layer *r = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)kind);
    double error[BT_AWQ_RATIOS] = {0};
    bt_err e = BT_OK;
    if (!bt_fold_smooths(j->fold, kind)) return BT_OK;
    for (size_t i = 0; e == BT_OK && i < BT_COMPILE_MATRICES; i++)
        if (bt_compile_reads(j, layer, bt_compile_matrices[i], kind)) {
            const bt_awq_matrix m = {j->fold,        layer,    bt_compile_matrices[i],
                                     r->weight_bits, r->group, j->pool};
            e = bt_awq_errors(error, &m, in, fault);
        }
    if (e < 0) return e;
    if (!(j->smooth[site] = malloc(in->k * sizeof **j->smooth)))
        return bt_fail(fault, BT_ENOMEM, "out of memory for AWQ over %zu inputs", in->k);
    bt_awq_scales(j->smooth[site], in, bt_awq_best(error));
    bt_fold_smooth(j->fold, site, j->smooth[site]);
    bt_awq_input_scale(in, j->smooth[site]);
    return BT_OK;
}

/* Searches the clips of all matrices of a site but q and k. */
static bt_err search_clips(awq *a, uint32_t layer, uint32_t kind, bt_fault *fault)
{
    bt_compile_job *j = a->j;
    const bt_recipe_layer *r = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)kind);
    const size_t k = a->input[kind].k, group = r->group;
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < BT_COMPILE_MATRICES; i++) {
        const bt_weight w = bt_compile_matrices[i];
        if (!bt_compile_reads(j, layer, w, kind)) continue;
        const bt_gguf_tensor *t = bt_weight_tensor(j->m, layer, w);
        uint8_t **clip = &j->clip[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
        if (!(*clip = calloc(t->dim[1], group ? k / group : 1)))
            return bt_fail(fault, BT_ENOMEM, "out of memory for clips of %zu x %zu weights",
                           (size_t)t->dim[1], k);
        const bt_awq_matrix m = {j->fold, layer, w, r->weight_bits, group, j->pool};
        if (w != BT_WEIGHT_Q && w != BT_WEIGHT_K) e = bt_awq_clips(*clip, &m, &a->input[kind], fault);
        bt_gguf_let_go(j->m->file, t->data, t->bytes);
    }
    return e;
}

static bt_err end_layer(void *ud, uint32_t layer, bt_fault *fault)
{
    awq *a = ud;
    bt_err e = BT_OK;
    for (uint32_t kind = 0; kind < BT_SITE_KINDS; kind++) {
        if (e == BT_OK && has_site(a, layer, kind)) e = search_scales(a, layer, kind, fault);
        if (e == BT_OK && has_site(a, layer, kind)) e = search_clips(a, layer, kind, fault);
        bt_awq_input_done(&a->input[kind]);
    }
    return e;
}

bt_err bt_compile_awq(bt_compile_job *j, bt_fault *fault)
{
    awq a = {.j = j, .total = j->stats->tokens};
    const bt_calib_reader reader = {.before = begin_layer, .rows = take_rows, .after = end_layer, .ud = &a};
    bt_compile_job_step(j, BT_COMPILE_SHARE_AWQ);
    const bt_err e = bt_calib_read(j->calib, j->o->calib_ids, bt_compile_calib_tokens(j), &reader, fault);
    for (uint32_t kind = 0; kind < BT_SITE_KINDS; kind++) bt_awq_input_done(&a.input[kind]);
    return e;
}
