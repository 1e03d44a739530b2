/* From calibration to constants: chooses scales of inputs, then rounds, packs and writes every matrix, layer
 * by layer. */
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "npu/compile/compile_private.h"
#include "npu/quant/gptq.h"
#include "npu/quant/sites.h"
#include "npu/quant/rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void take_expert(void *ud, uint32_t layer, uint32_t kind, uint32_t expert, const bt_calib_site *stats)
{
    const bt_compile_job *j = ud;
    bt_sites_expert(&bt_compile_experts_of(j, layer, kind)[expert], layer, kind, stats, &j->o->recipe);
}

static bt_err measure(bt_compile_job *j, bt_fault *fault)
{
    bt_calib_free(j->calib);
    j->calib = NULL;
    bt_err e = bt_calib_new(&j->calib, j->m, j->fold, j->kernels, j->pool, bt_compile_job_progress, j, fault);
    bt_compile_job_step(j, BT_COMPILE_SHARE_CALIBRATE);
    if (e == BT_OK && j->expert) e = bt_calib_watch_experts(j->calib, take_expert, j, fault);
    if (e == BT_OK && j->offload->float_form == BT_ROUND16_F16) e = bt_calib_watch_ops(j->calib, fault);
    return e < 0 ? e
                 : bt_calib_measure(&j->stats, j->calib, j->o->calib_ids, bt_compile_calib_tokens(j), fault);
}

/* ---- smoothing ---- */

static bt_err raise_columns(bt_compile_job *j, float *max, uint32_t layer, bt_weight w, bt_fault *fault)
{
    const bt_err e = bt_fold_begin(j->fold, layer, w, fault);
    if (e < 0) return e;
    const size_t k = bt_fold_width(j->fold);
    float *row = malloc(k * sizeof *row);
    if (!row) return bt_fail(fault, BT_ENOMEM, "out of memory smoothing weights");
    for (size_t n = 0; n < bt_fold_rows(j->fold); n++) {
        bt_fold_row(j->fold, row, n);
        for (size_t i = 0; i < k; i++) max[i] = fabsf(row[i]) > max[i] ? fabsf(row[i]) : max[i];
    }
    free(row);
    return BT_OK;
}

/* Computes SmoothQuant's factors from one calibration, for every site that may be smoothed. */
static bt_err smooth(bt_compile_job *j, bt_fault *fault)
{
    const uint32_t layers = j->m->hp.layers;
    bt_err e = BT_OK;
    for (uint32_t l = 0; e == BT_OK && l <= layers; l++)
        for (uint32_t kind = 0; e == BT_OK && kind < BT_SITE_KINDS; kind++) {
            if (!bt_fold_smooths(j->fold, kind) || (kind == BT_SITE_HEAD) != (l == layers)) continue;
            const uint32_t index = bt_pkg_site_index(layers, l, kind);
            const size_t k = j->stats->site[index].k;
            float *w_max = calloc(k, sizeof *w_max);
            j->smooth[index] = malloc(k * sizeof **j->smooth);
            if (!w_max || !j->smooth[index]) e = bt_fail(fault, BT_ENOMEM, "out of memory smoothing weights");
            for (size_t i = 0; e == BT_OK && i < BT_COMPILE_MATRICES; i++)
                if (bt_compile_reads(j, l, bt_compile_matrices[i], kind))
                    e = raise_columns(j, w_max, l, bt_compile_matrices[i], fault);
            if (e == BT_OK)
                bt_sites_smooth(j->smooth[index], &j->stats->site[index], w_max, j->o->recipe.smooth);
            free(w_max);
        }
    for (size_t i = 0; e == BT_OK && i < j->sites; i++)
        if (j->smooth[i]) bt_fold_smooth(j->fold, (uint32_t)i, j->smooth[i]);
    return e;
}

bt_err bt_compile_sites(bt_compile_job *j, bt_fault *fault)
{
    if (j->is_sketch) {
        bt_sites_plan(j->site, j->sites, &j->m->hp, &j->o->recipe);
        return BT_OK;
    }
    bt_err e = measure(j, fault);
    if (e == BT_OK && j->o->recipe.smooth >= 0) e = smooth(j, fault);
    if (e == BT_OK && j->o->recipe.awq) e = bt_compile_awq(j, fault);
    if (e == BT_OK && bt_recipe_scales(&j->o->recipe)) e = measure(j, fault);
    if (e < 0) return e;
    j->calib_tokens = j->stats->tokens;
    bt_sites_choose(j->site, j->stats, &j->o->recipe);
    for (size_t i = 0; i < j->sites; i++) {
        bt_pkg_expert *expert = bt_compile_experts_of(j, j->site[i].layer, j->site[i].kind);
        j->pruned[i] = j->site[i].pruned;
        if (expert) bt_sites_rare(expert, j->m->hp.experts, &j->site[i]);
    }
    return BT_OK;
}

/* ---- tensors ---- */

static bt_pkg_tensor *tensor_of(bt_compile_job *j, uint32_t layer, bt_weight w)
{
    bt_pkg_tensor *t = &j->tensor[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
    *t = bt_pkg_no_tensor;
    t->layer = w == BT_WEIGHT_OUT_NORM || w == BT_WEIGHT_OUTPUT ? UINT32_MAX : layer;
    t->weight = w;
    return t;
}

/* Rounds values to the NPU's floats. */
static void round_to(float *v, bt_round16 form, size_t n)
{
    bt_round16_rows(bt_kernels_select("ref"), form, v, n, v, n, 1, n);
}

/* Whether a norm has weights other than ones. In a sketch nothing is smoothed, so the recipe says whether the
 * package's norms are. */
static bool has_weights(const bt_compile_job *j, uint32_t layer, bt_weight w)
{
    return bt_weight_tensor(j->m, layer, w) &&
           (bt_fold_has_norm(j->fold, layer, w) || (j->is_sketch && bt_recipe_scales(&j->o->recipe)));
}

static bt_err write_vector(bt_compile_job *j, uint32_t layer, bt_weight w, bt_fault *fault)
{
    bt_pkg_tensor *t = tensor_of(j, layer, w);
    if (!has_weights(j, layer, w)) return BT_OK;
    const bt_err e = j->is_sketch ? BT_OK : bt_fold_begin(j->fold, layer, w, fault);
    if (e < 0) return e;
    t->n = (uint32_t)bt_weight_tensor(j->m, layer, w)->dim[0];
    t->k = 1;
    t->bits = 32;
    float *v = malloc(t->n * sizeof *v);
    if (!v) return bt_fail(fault, BT_ENOMEM, "out of memory for a norm of %u weights", t->n);
    if (!j->is_sketch) bt_fold_row(j->fold, v, 0);
    if (!j->is_sketch && bt_compile_job_unit(j, layer, w) == BT_PKG_NPU_FLOAT)
        round_to(v, j->offload->float_form, t->n);
    t->panels = bt_compile_const(j, BT_PKG_CONST_VECTOR, v, t->n, sizeof *v);
    const bt_err made = bt_compile_int_vector(j, t, layer, v, fault);
    free(v);
    return made;
}

/* Writes the file's bias plus the correction (NULL: unknown, or none) to the package and to *ret; NULL: there
 * is neither. The caller frees *ret. */
static bt_err make_bias(bt_compile_job *j, float **ret, bt_pkg_tensor *t, bool is_corrected,
                        const float *correction, bt_fault *fault)
{
    const bt_gguf_tensor *bias = bt_weight_bias(j->m, t->layer, (bt_weight)t->weight);
    const size_t matrices = bt_compile_matrices_of(j, (bt_weight)t->weight), wide = matrices * t->n;
    *ret = NULL;
    if (!bias && !is_corrected) return BT_OK;
    if (j->is_sketch) {
        t->bias = bt_compile_const(j, BT_PKG_CONST_VECTOR, NULL, wide, sizeof **ret);
        return BT_OK;
    }
    float *v = calloc(wide, sizeof *v);
    if (!v) return bt_fail(fault, BT_ENOMEM, "out of memory for a bias of %zu", wide);
    for (size_t m = 0; bias && m < matrices; m++) bt_model_row_f32(v + m * t->n, bias, m);
    for (uint32_t n = 0; correction && n < t->n; n++) v[n] += correction[n];
    t->bias = bt_compile_const(j, BT_PKG_CONST_VECTOR, v, wide, sizeof *v);
    *ret = v;
    return BT_OK;
}

/* A row of the folded matrix, rounded for a linear of the NPU in bf16. */
static void bf16_row(void *ud, float *y, size_t n)
{
    const bt_fold *fold = ud;
    bt_fold_row(fold, y, n);
    round_to(y, BT_ROUND16_BF16, bt_fold_width(fold));
}

/* Writes the folded matrix as f16 panels, for linears in floats and for LLM.int8. f16 holds bf16 values from
 * 2^-17 to 65,504 exactly; smaller ones are rounded again, to multiples of 2^-24. */
static bt_err write_f16(bt_compile_job *j, uint32_t *ret, uint32_t layer, bt_weight w, bt_fault *fault)
{
    bt_weights_source folded = bt_fold_source(j->fold);
    if (bt_compile_job_unit(j, layer, w) == BT_PKG_NPU_FLOAT && j->offload->float_form == BT_ROUND16_BF16)
        folded = (bt_weights_source){.ud = j->fold, .row = bf16_row};
    const bt_gguf_tensor *t = bt_weight_tensor(j->m, layer, w);
    const size_t elems = bt_matmul_packed_elems(t->dim[1], t->dim[0]) * t->dim[2];
    if (j->is_sketch) {
        *ret = bt_compile_const(j, BT_PKG_CONST_WEIGHT, NULL, elems, sizeof(uint16_t));
        return BT_OK;
    }
    uint16_t *panels = calloc(elems, sizeof *panels);
    if (!panels)
        return bt_fail(fault, BT_ENOMEM, "out of memory packing %zu x %zu weights", (size_t)t->dim[1],
                       (size_t)t->dim[0]);
    bt_err e = bt_fold_begin(j->fold, layer, w, fault);
    if (e == BT_OK) e = bt_weights_f16(panels, t, &folded, j->pool, fault);
    if (e == BT_OK) *ret = bt_pkg_writer_const(j->w, BT_PKG_CONST_WEIGHT, panels, elems * sizeof *panels);
    free(panels);
    return e;
}

/* Writes oscale: scale of the input times scale of each output, padded to whole panels; each expert's. */
static bt_err write_oscale(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const bt_rounding *w,
                           const float *bias, bt_fault *fault)
{
    const bt_pkg_site *site = &j->site[t->site];
    const bt_pkg_expert *expert = bt_compile_experts_of(j, layer, site->kind);
    const size_t each = 16 * bt_int_panels(w->n), matrices = bt_compile_matrices_of(j, (bt_weight)t->weight),
                 wide = each * matrices;
    if (j->is_sketch) {
        t->oscale = bt_compile_const(j, BT_PKG_CONST_SCALE, NULL, wide, sizeof(float));
        return bt_compile_int_matrix(j, t, layer, NULL, NULL, NULL, fault);
    }
    float *v = calloc(wide, sizeof *v);
    if (!v) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu scales", wide);
    for (size_t n = 0; n < matrices * w->n; n++) {
        const size_t m = n / w->n;
        v[m * each + n % w->n] =
            (expert ? expert[m].scale : site->scale) * w->scale[w->scales == matrices ? m : n];
    }
    t->oscale = bt_compile_const(j, BT_PKG_CONST_SCALE, v, wide, sizeof *v);
    const bt_err e = bt_compile_int_matrix(j, t, layer, v, bias, w->colsum, fault);
    free(v);
    return e;
}

/* Writes what was rounded; in a sketch its sizes. */
static void write_rounded(bt_compile_job *j, bt_pkg_tensor *t, const bt_rounding *made)
{
    t->panels = bt_compile_const(j, BT_PKG_CONST_WEIGHT, made->panels, made->panels_bytes, 1);
    t->wscale = bt_compile_const(j, BT_PKG_CONST_SCALE, made->scale, made->scales, sizeof *made->scale);
    t->colsum =
        bt_compile_const(j, BT_PKG_CONST_TABLE, made->colsum, made->colsums * 16 * bt_int_panels(made->n),
                         sizeof *made->colsum); /* all
                                                   experts'
                                                 */
    if (made->palettes_bytes)
        t->groups = bt_compile_const(j, BT_PKG_CONST_TABLE, made->palettes, made->palettes_bytes, 1);
    if (made->groups_bytes)
        t->groups = bt_compile_const(j, BT_PKG_CONST_SCALE, made->groups, made->groups_bytes, 1);
    t->weight_error = made->weight_error;
    t->output_error = made->output_error;
}

/* The inputs of a site, for rounding its matrices; all NULL in a sketch. */
typedef struct inputs {
    const float *xq;
    bool is_corrected;
    const double *mean; /* means of the inputs; NULL: no bias correction */
} inputs;

/* Puts one expert's numbers behind those of the experts before it. */
static void append(bt_rounding *all, const bt_rounding *one, size_t e)
{
    const size_t sums = one->colsums * 16 * bt_int_panels(one->n);
    memcpy(all->panels + e * one->panels_bytes, one->panels, one->panels_bytes);
    memcpy(all->scale + e * one->scales, one->scale, one->scales * sizeof *one->scale);
    memcpy(all->colsum + e * sums, one->colsum, sums * sizeof *one->colsum);
    if (one->groups) memcpy((uint8_t *)all->groups + e * one->groups_bytes, one->groups, one->groups_bytes);
    if (one->palettes)
        memcpy((uint8_t *)all->palettes + e * one->palettes_bytes, one->palettes, one->palettes_bytes);
    all->weight_error += one->weight_error * one->weight_error;
}

/* Rounds the matrices of all experts: one bt_rounding with each of its lists that many times as long, its
 * errors the root of the mean square. In a sketch its sizes. */
static bt_err round_experts(bt_rounding *ret, const bt_compile_job *j, bt_rounding_in *in,
                            const bt_pkg_tensor *t, bt_fault *fault)
{
    bt_rounding all, one;
    const size_t experts = in->experts = j->m->hp.experts;
    bt_err e = bt_rounding_sizes(&all, in, t->n, t->k, fault);
    if (e < 0) return e;
    all.panels_bytes *= experts; /* of a file's tensor, which fits memory */
    all.scales *= experts;
    all.colsums *= experts;
    all.groups_bytes *= experts;
    all.palettes_bytes *= experts;
    *ret = all;
    if (j->is_sketch) return BT_OK;
    all.panels = malloc(all.panels_bytes);
    all.scale = malloc(all.scales * sizeof *all.scale);
    all.colsum = malloc(all.colsums * 16 * bt_int_panels(all.n) * sizeof *all.colsum);
    all.groups = all.groups_bytes ? malloc(all.groups_bytes) : NULL;
    all.palettes = all.palettes_bytes ? malloc(all.palettes_bytes) : NULL;
    if (!all.panels || !all.scale || !all.colsum || (all.groups_bytes && !all.groups) ||
        (all.palettes_bytes && !all.palettes))
        e = bt_fail(fault, BT_ENOMEM, "out of memory packing %zu x %u x %u weights", experts, t->n, t->k);
    for (in->expert = 0; e == BT_OK && in->expert < experts; in->expert++)
        if ((e = bt_rounding_make(&one, in, fault)) == BT_OK) {
            append(&all, &one, in->expert);
            bt_rounding_done(&one);
        }
    all.weight_error = sqrtf(all.weight_error / (float)experts);
    all.output_error = NAN; /* not measured */
    if (e == BT_OK) *ret = all;
    else bt_rounding_done(&all);
    return e;
}

static bt_err write_matrix(bt_compile_job *j, uint32_t layer, bt_weight w, const inputs *x, bt_fault *fault)
{
    const bt_recipe_layer *r = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)bt_pkg_site_of(w));
    const uint32_t site = bt_pkg_site_index(j->m->hp.layers, layer, bt_pkg_site_of(w));
    const bt_calib_site none = {0}, *c = j->is_sketch ? &none : &j->stats->site[site];
    const bt_gguf_tensor *from = bt_weight_tensor(j->m, layer, w);
    const uint8_t *clip = j->clip[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
    bt_pkg_tensor *t = tensor_of(j, layer, w);
    t->n = (uint32_t)from->dim[1];
    t->k = (uint32_t)from->dim[0];
    float *bias = NULL;
    bt_err e;
    if (bt_compile_job_unit(j, layer, w) != BT_PKG_NPU) {
        t->bits = 16;
        bt_compile_int_f16(j, t);
        e = make_bias(j, &bias, t, false, NULL, fault);
        free(bias);
        return e < 0 ? e : write_f16(j, &t->panels, layer, w, fault);
    }
    const bool is_of_experts = bt_compile_experts_of(j, layer, j->site[site].kind) != NULL;
    bt_rounding_in in = {.fold = j->fold,
                         .layer = layer,
                         .weight = w,
                         .bits = r->weight_bits,
                         .per_tensor = r->per_tensor,
                         .group = bt_recipe_group(r),
                         .palette_bits = r->palette_bits,
                         .palette_run = bt_recipe_palette_run(r, t->k),
                         .clip = r->per_tensor ? NULL : clip,
                         .x = c->sample,
                         .xq = x->xq,
                         .samples = is_of_experts ? 0 : c->samples,
                         .mean = x->mean,
                         .gptq = j->gptq[site],
                         .order = j->order[site],
                         .pool = j->pool};
    bt_rounding made;
    e = is_of_experts  ? round_experts(&made, j, &in, t, fault)
        : j->is_sketch ? bt_rounding_sizes(&made, &in, t->n, t->k, fault)
                       : bt_rounding_make(&made, &in, fault);
    if (e < 0) return e;
    t->site = site;
    t->bits = bt_recipe_stored_bits(r);
    t->group = bt_recipe_group(r);
    t->palette_run = bt_recipe_palette_run(r, t->k);
    write_rounded(j, t, &made);
    e = make_bias(j, &bias, t, x->is_corrected, x->is_corrected ? made.correction : NULL, fault);
    if (e == BT_OK) e = write_oscale(j, t, layer, &made, bias, fault);
    free(bias);
    bt_rounding_done(&made);
    return e == BT_OK && j->o->recipe.llm_int8 ? write_f16(j, &t->f16_panels, layer, w, fault) : e;
}

static float relative(const float *a, const float *b, size_t count)
{
    double apart = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        square += (double)b[i] * b[i];
    }
    return square > 0 ? (float)sqrt(apart / square) : 0;
}

/* Writes the matrices that read a site; one that the layer lacks as an empty row of the table. */
static bt_err write_matrices(bt_compile_job *j, uint32_t layer, uint32_t kind, const inputs *x,
                             bt_fault *fault)
{
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < BT_COMPILE_MATRICES; i++)
        if (!bt_compile_reads(j, layer, bt_compile_matrices[i], kind)) {
            if (bt_pkg_site_of(bt_compile_matrices[i]) == kind)
                (void)tensor_of(j, layer, bt_compile_matrices[i]);
        } else {
            const bt_gguf_tensor *t = bt_weight_tensor(j->m, layer, bt_compile_matrices[i]);
            e = write_matrix(j, layer, bt_compile_matrices[i], x, fault);
            if (!j->is_sketch) bt_gguf_let_go(j->m->file, t->data, t->bytes);
        }
    return e;
}

/* Writes a site and the matrices that read it. xq, hot and mean: room for its samples and its columns; NULL
 * in a sketch, which has none. */
static bt_err write_measured(bt_compile_job *j, uint32_t layer, uint32_t kind, float *xq, uint8_t *hot,
                             double *mean, bt_fault *fault)
{
    bt_pkg_site *s = &j->site[bt_pkg_site_index(j->m->hp.layers, layer, kind)];
    const bt_calib_site none = {.k = s->k, .sum_rows = 1};
    const bt_calib_site *c = j->is_sketch ? &none : &j->stats->site[s - j->site];
    if (!bt_compile_job_uses_site(j, layer, (bt_site_kind)kind)) {
        *s = (bt_pkg_site){.layer = s->layer, .kind = kind, .hot = BT_PKG_NONE};
    } else {
        if (s->shadow == BT_SHADOW_CHANNEL) {
            if (!j->is_sketch) bt_sites_hot(hot, s, c);
            s->hot = bt_compile_const(j, BT_PKG_CONST_TABLE, hot, c->k, 1);
        }
        if (!j->is_sketch) bt_sites_quantise(xq, c->sample, c->samples, s, hot);
        s->input_error = relative(xq, c->sample, c->samples * c->k);
        bt_compile_int_site(j, s);
    }
    /* Figures of a site are those of all its experts together, which correct none of them. */
    const bool corrected = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)kind)->bias && c->sum_rows > 0 &&
                           !bt_compile_experts_of(j, layer, kind);
    for (size_t i = 0; corrected && c->column_sum && i < c->k; i++)
        mean[i] = c->column_sum[i] / (double)c->sum_rows;
    const inputs x = {.xq = xq, .is_corrected = corrected, .mean = corrected ? mean : NULL};
    return write_matrices(j, layer, kind, &x, fault);
}

static bt_err write_site(bt_compile_job *j, uint32_t layer, uint32_t kind, bt_fault *fault)
{
    const uint32_t index = bt_pkg_site_index(j->m->hp.layers, layer, kind);
    const size_t k = j->site[index].k;
    float *xq = j->is_sketch ? NULL : malloc(BT_CALIB_SAMPLES * k * sizeof *xq);
    uint8_t *hot = j->is_sketch ? NULL : malloc(k);
    double *mean = j->is_sketch ? NULL : malloc(k * sizeof *mean);
    const bool made = j->is_sketch || (xq && hot && mean);
    const bt_err e = made ? write_measured(j, layer, kind, xq, hot, mean, fault)
                          : bt_fail(fault, BT_ENOMEM, "out of memory for an input of %zu", k);
    free(mean);
    free(xq);
    free(hot);
    free(j->gptq[index]);
    free(j->order[index]);
    j->gptq[index] = NULL;
    j->order[index] = NULL;
    return e;
}

/* Copies a site and the matrices that read it from a donor. */
static void give_site(bt_compile_job *j, uint32_t layer, uint32_t kind)
{
    const uint32_t index = bt_pkg_site_index(j->m->hp.layers, layer, kind);
    bt_compile_donors_site(j, index);
    for (size_t i = 0; i < BT_COMPILE_MATRICES; i++)
        if (bt_pkg_site_of(bt_compile_matrices[i]) == kind) {
            bt_pkg_tensor *t = tensor_of(j, layer, bt_compile_matrices[i]);
            if (bt_weight_tensor(j->m, layer, bt_compile_matrices[i])) bt_compile_donors_matrix(j, t, index);
        }
}

/* Sites that are written with a layer; the head's with the last layer. */
static size_t layer_sites(const bt_compile_job *j, uint32_t layer)
{
    return BT_PKG_LAYER_SITES + (layer + 1 == j->m->hp.layers);
}

/* Whether GPTQ rounds any layer: none does where all are copied or sketched. */
static bool has_gptq(const bt_compile_job *j)
{
    return !j->is_given && !j->is_sketch && bt_recipe_gptq_sites(&j->o->recipe);
}

/* Writes a layer's tensors and sites. With GPTQ, progress counts the sums instead. */
static bt_err write_layer(bt_compile_job *j, uint32_t layer, bt_fault *fault)
{
    static const bt_weight vectors[] = {BT_WEIGHT_ATTN_NORM,      BT_WEIGHT_Q_NORM,
                                        BT_WEIGHT_K_NORM,         BT_WEIGHT_FFN_NORM,
                                        BT_WEIGHT_ATTN_POST_NORM, BT_WEIGHT_FFN_POST_NORM};
    const size_t first = (size_t)layer * BT_PKG_LAYER_SITES;
    bt_err e = BT_OK;
    for (size_t v = 0; e == BT_OK && v < sizeof vectors / sizeof *vectors; v++)
        e = write_vector(j, layer, vectors[v], fault);
    for (uint32_t i = 0; e == BT_OK && i < layer_sites(j, layer); i++) {
        const bool is_head = i == BT_PKG_LAYER_SITES;
        if (j->is_given) give_site(j, layer + is_head, is_head ? BT_SITE_HEAD : i);
        else e = write_site(j, layer + is_head, is_head ? BT_SITE_HEAD : i, fault);
        if (!has_gptq(j)) bt_compile_job_progress(j, first + i + 1, j->sites);
    }
    return e;
}

/* ---- GPTQ: sums of a layer's inputs, then its tensors ---- */

/* The recipe of a layer's i-th site; the head's site stands behind the last layer's. */
static const bt_recipe_layer *recipe_at(const bt_compile_job *j, uint32_t layer, size_t i)
{
    return bt_recipe_of(&j->o->recipe, layer, i == BT_PKG_LAYER_SITES ? BT_SITE_HEAD : (bt_site_kind)i);
}

static bt_err gptq_begin(void *ud, uint32_t layer, bt_fault *fault)
{
    bt_compile_job *j = ud;
    for (size_t i = 0, at = (size_t)layer * BT_PKG_LAYER_SITES; i < layer_sites(j, layer); i++) {
        const size_t k = j->stats->site[at + i].k;
        const bt_recipe_layer *r = recipe_at(j, layer, i);
        /* experts round to nearest */
        if (!(r->gptq >> i & 1) || bt_compile_experts_of(j, layer, (uint32_t)i)) continue;
        if (!(j->gptq[at + i] = calloc(k * k, sizeof(float))))
            return bt_fail(fault, BT_ENOMEM, "out of memory for GPTQ over %zu inputs", k);
        if (r->act_order && !(j->order[at + i] = calloc(k, sizeof **j->order)))
            return bt_fail(fault, BT_ENOMEM, "out of memory for the order of %zu inputs", k);
    }
    return BT_OK;
}

static void gptq_rows(void *ud, uint32_t site, const float *x, size_t t, size_t k)
{
    const bt_compile_job *j = ud;
    if (j->gptq[site]) bt_gptq_add(j->gptq[site], x, t, k, j->pool);
}

static bt_err gptq_solve(void *ud, uint32_t layer, bt_fault *fault)
{
    bt_compile_job *j = ud;
    bt_err e = BT_OK;
    for (size_t i = 0, at = (size_t)layer * BT_PKG_LAYER_SITES; e == BT_OK && i < layer_sites(j, layer); i++)
        if (j->gptq[at + i])
            e = bt_gptq_prepare(j->gptq[at + i], j->order[at + i], j->stats->site[at + i].k, j->pool, fault);
    return e < 0 ? e : write_layer(j, layer, fault);
}

static bt_err write_layers(bt_compile_job *j, bt_fault *fault)
{
    const uint32_t layers = j->m->hp.layers;
    const bt_calib_reader gptq = {.before = gptq_begin, .rows = gptq_rows, .after = gptq_solve, .ud = j};
    bt_err e = BT_OK;
    bt_compile_job_step(j, has_gptq(j) ? BT_COMPILE_SHARE_GPTQ : BT_COMPILE_SHARE_PACK);
    if (has_gptq(j))
        return bt_calib_read(j->calib, j->o->calib_ids, bt_compile_calib_tokens(j), &gptq, fault);
    for (uint32_t l = 0; e == BT_OK && l < layers; l++) e = write_layer(j, l, fault);
    return e;
}

bt_err bt_compile_tensors(bt_compile_job *j, bt_fault *fault)
{
    bt_err e = write_vector(j, 0, BT_WEIGHT_OUT_NORM, fault);
    if (e == BT_OK) e = write_layers(j, fault);
    for (size_t i = 0; e == BT_OK && i < j->tensors; i++)
        (void)bt_pkg_writer_tensor(j->w, &j->tensor[i]); /* the writer keeps a failure for finish */
    for (size_t i = 0; e == BT_OK && i < j->sites; i++) (void)bt_pkg_writer_site(j->w, &j->site[i]);
    return e;
}
