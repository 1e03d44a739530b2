/* The sizes of the sketch, and the most memory that the compiler's steps hold at once. */
#include "npu/compile/needs.h"
#include "graph/companion.h"
#include "kernels/int_kernels.h"
#include "model/gguf.h"
#include "npu/quant/awq.h"
#include "npu/quant/gptq.h"
#include "npu/compile/compile_private.h"
#include "npu/compile/compile.h"

#include <stdlib.h>
#include <string.h>

enum {
    PANEL = 16,
    COLUMNS = 16,            /* as in npu/quant/fold.c */
    PROGRAM_BYTES = 16 << 20 /* memory of the program without the model */
};

/* ---- the compiler ---- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Bytes of the calibration: figures of sites, rows of the text, K and V of a window in all layers. */
static uint64_t calibration_bytes(const bt_compile_job *j)
{
    const bt_hparams *hp = &j->m->hp;
    uint64_t bytes = (uint64_t)BT_CALIB_WINDOW * hp->dim * 4 +
                     (uint64_t)BT_CALIB_WINDOW * hp->layers * hp->kv_heads * hp->head_dim * 4;
    /* figures of the experts of one layer */
    bytes +=
        (uint64_t)hp->experts * (4 * BT_CALIB_BINS * sizeof(uint32_t) + (hp->dim + hp->ffn) * (uint64_t)12);
    for (size_t i = 0; i < j->sites; i++) {
        const uint32_t kind = i + 1 == j->sites ? (uint32_t)BT_SITE_HEAD : i % BT_PKG_LAYER_SITES;
        const uint64_t k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        bytes += 2 * BT_CALIB_BINS * sizeof(uint32_t) + k * (4 + 2 * 4 + 8 + 4 * BT_CALIB_SAMPLES);
    }
    return bytes;
}

/* Bytes of all windows of the text between two layers. */
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

/* Bytes of a matrix whose output is rotated, which is made whole in floats. */
static uint64_t whole_bytes(const bt_compile_job *j, bt_weight w, uint64_t n, uint64_t k, size_t threads)
{
    const bool is_whole = bt_fold_r1(j->fold)->base > 0 && (w == BT_WEIGHT_O || w == BT_WEIGHT_DOWN);
    return is_whole ? n * k * 4 * bt_compile_matrices_of(j, w) + threads * COLUMNS * n * 4 : 0;
}

/* Bytes of rounding and packing, one matrix at a time: its panels, and the rows that each thread rounds
 * together. */
static uint64_t packing_bytes(uint64_t *ret_whole, const bt_compile_job *j, const bt_pkg_tensor *tensor,
                              size_t threads)
{
    const uint64_t rows = bt_recipe_gptq_sites(&j->o->recipe) ? BT_GPTQ_MANY : PANEL;
    uint64_t most = 0;
    uint32_t layer = 0;
    *ret_whole = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(j->m, &layer, w));) {
        if (!bt_weight_is_matrix(w)) continue;
        const bt_pkg_tensor *t = &tensor[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
        const uint64_t n = t->n, k = t->k, whole = whole_bytes(j, w, n, k, threads);
        const uint64_t matrices = bt_compile_matrices_of(j, w),
                       panels =
                           matrices * (t->bits == 16 ? (uint64_t)bt_matmul_packed_elems(n, k) * 2
                                                     : bt_int_panels(n) * bt_int_panel_bytes(k, t->bits));
        *ret_whole = larger(*ret_whole, whole);
        const uint64_t palettes = t->palette_run ? (bt_int_panels(n) * (k / t->palette_run)) << t->bits : 0,
                       indices = t->palette_run ? threads * k * PANEL : 0,
                       each = t->group ? k / t->group : 0, /* groups of an output */
            groups = each * (matrices * bt_int_panels(n) * sizeof(bt_int_group) + threads * rows * 2 * 4);
        most = larger(most, whole + panels + palettes + indices + groups + threads * k * rows * (2 * 4 + 1) +
                                n * 64 * matrices);
    }
    return most;
}

/* Bytes of GPTQ: the sums of a layer's inputs, and the factors of the widest in doubles. */
static uint64_t gptq_bytes(const bt_compile_job *j)
{
    const bt_hparams *hp = &j->m->hp;
    uint64_t sums = 0, widest = 0;
    for (uint32_t kind = 0; kind < BT_SITE_KINDS; kind++) {
        if (!(bt_recipe_gptq_sites(&j->o->recipe) >> kind & 1)) continue;
        const uint64_t k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        sums += k * k * sizeof(float);
        widest = larger(widest, k * k * sizeof(double));
    }
    return sums + 2 * widest;
}

/* Bytes of AWQ: rows of a layer's inputs, the clips of all weights, and what the search over a row holds. */
static uint64_t awq_bytes(const bt_compile_job *j, const bt_pkg_tensor *tensor, size_t threads)
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
        const bt_pkg_tensor *t = &tensor[bt_pkg_tensor_index(j->m->hp.layers, layer, w)];
        if (!bt_weight_is_matrix(w)) continue;
        const uint32_t group = bt_recipe_of(&j->o->recipe, layer, (bt_site_kind)bt_pkg_site_of(w))->group;
        bytes += (uint64_t)t->n * (group ? t->k / group : 1);
        n_most = larger(n_most, t->n);
    }
    return bytes + (threads + 1) * (BT_AWQ_RATIOS + 2) * k_most * sizeof(float) +
           n_most * BT_AWQ_RATIOS * sizeof(double);
}

static bt_err count_memory(bt_compile_needs *ret, const bt_compile_job *j, const bt_pkg_tensor *tensor,
                           size_t threads, bt_fault *fault)
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
    const uint64_t packing = packing_bytes(&whole, j, tensor, threads), gptq = gptq_bytes(j);
    const uint64_t measuring = windows + whole + awq_bytes(j, tensor, threads),
                   writing = packing + (gptq ? windows + gptq : 0);
    ret->memory_bytes = PROGRAM_BYTES + layer + calibration_bytes(j) + bt_companion_bytes(&sizes, threads) +
                        larger(measuring, writing);
    return BT_OK;
}

bt_err bt_compile_needs_of(bt_compile_needs *ret, const bt_model *m, const bt_compile_options *options,
                           size_t threads, bt_fault *fault)
{
    bt_compile_needs n = {.attention = options->attention};
    bt_compile_job *j = NULL;
    bt_pkg *p = NULL;
    bt_err e = bt_compile_sketch(&p, m, options, fault);
    if (e == BT_OK) e = bt_compile_begin(&j, m, options, NULL, fault);
    if (e == BT_OK) {
        const bt_pkg_header *h = bt_pkg_header_of(p);
        n.package_bytes = h->file_bytes;
        n.arena_bytes = h->arena_bytes;
        n.max_seq = h->max_seq;
        e = count_memory(&n, j, bt_pkg_tensors(p), threads, fault);
    }
    if (e == BT_OK) *ret = n;
    bt_compile_job_free(j);
    bt_pkg_close(p);
    return e;
}

bt_err bt_compile_fallbacks_of(bt_pkg_fallback **ret, size_t *ret_count, const bt_model *m,
                               const bt_compile_options *options, bt_fault *fault)
{
    bt_compile_job *j = NULL;
    bt_err e = bt_compile_begin(&j, m, options, NULL, fault);
    if (e == BT_OK) {
        const size_t n = j->offload->fallbacks;
        bt_pkg_fallback *list = n ? malloc(n * sizeof *list) : NULL;
        if (n && !list) e = bt_fail(fault, BT_ENOMEM, "out of memory placing operators");
        else {
            if (n) memcpy(list, j->offload->fallback, n * sizeof *list);
            *ret = list;
            *ret_count = n;
        }
    }
    bt_compile_job_free(j);
    return e;
}
