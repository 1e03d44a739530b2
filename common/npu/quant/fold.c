/* Folds rotations, norms and smoothing into weights, row by row. A matrix whose output is rotated is made
 * whole first, because that rotation works on columns. */
#include "npu/quant/fold.h"
#include "base/num.h"
#include "model/gguf.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

#include <stdlib.h>

enum { COLUMNS = 16 };

struct bt_fold {
    const bt_model *m;
    const bt_kernels *kernels;
    bt_pool *pool;
    bt_arch_norms norms;
    bool by_mean, is_product; /* norms have biases; down reads a product with up */
    bt_hadamard r1, r2, r4;
    const float **smooth; /* by site */
    float *gamma;         /* [dim]: norm weights to fold into the chosen matrix */
    /* what bt_fold_begin chose */
    const bt_gguf_tensor *tensor;
    bt_weight w;
    const float *input_smooth, *output_smooth; /* multiplied into columns, divided out of rows */
    bool has_gamma;
    float *whole;   /* [n, k] where the output is rotated, else NULL */
    float *columns; /* [threads][COLUMNS][dim] while `whole` is made */
};

bool bt_fold_can_r1(const bt_hparams *hp)
{
    const bt_arch_info *a = bt_arch_of(hp->arch);
    uint32_t base, log2;
    return a->norms == BT_ARCH_BEFORE && a->norm != BT_ARCH_MEAN && a->biases != BT_ARCH_ALL &&
           bt_hadamard_find(&base, &log2, hp->dim);
}

bt_err bt_fold_new(bt_fold **ret, const bt_model *m, unsigned rotations, const bt_kernels *kernels,
                   bt_pool *pool, bt_fault *fault)
{
    uint32_t base, log2;
    if ((rotations & BT_ROTATION_R4) && !bt_hadamard_find(&base, &log2, m->hp.ffn))
        return bt_fail(fault, BT_EARG,
                       "r4 (--quant) turns rows of %u inputs of down, and there is no Hadamard matrix of "
                       "that size: at most %d times a power of two",
                       m->hp.ffn, BT_HADAMARD_MAX_BASE);
    bt_fold *f = calloc(1, sizeof *f);
    if (!f) return bt_fail(fault, BT_ENOMEM, "out of memory folding weights");
    f->m = m;
    f->kernels = kernels;
    f->pool = pool;
    f->norms = bt_arch_of(m->hp.arch)->norms;
    f->by_mean = bt_arch_of(m->hp.arch)->norm == BT_ARCH_MEAN;
    f->is_product = bt_arch_is_product(m->hp.arch);
    if ((rotations & BT_ROTATION_R1) && bt_fold_can_r1(&m->hp)) bt_hadamard_init(&f->r1, m->hp.dim, true);
    if (rotations & BT_ROTATION_R2) bt_hadamard_init(&f->r2, m->hp.head_dim, false);
    if (rotations & BT_ROTATION_R4) bt_hadamard_init(&f->r4, m->hp.ffn, false);
    f->smooth = calloc((size_t)m->hp.layers * BT_PKG_LAYER_SITES + 1, sizeof *f->smooth);
    f->gamma = calloc(m->hp.dim, sizeof *f->gamma);
    if (!f->smooth || !f->gamma) {
        bt_fold_free(f);
        return bt_fail(fault, BT_ENOMEM, "out of memory folding weights");
    }
    *ret = f;
    return BT_OK;
}

void bt_fold_free(bt_fold *f)
{
    if (!f) return;
    bt_hadamard_done(&f->r1);
    bt_hadamard_done(&f->r2);
    bt_hadamard_done(&f->r4);
    free(f->smooth);
    free(f->gamma);
    free(f->whole);
    free(f);
}

const bt_hadamard *bt_fold_r1(const bt_fold *f) { return &f->r1; }
const bt_hadamard *bt_fold_r2(const bt_fold *f) { return &f->r2; }
const bt_hadamard *bt_fold_r4(const bt_fold *f) { return &f->r4; }

bt_graph_options bt_fold_graph(const bt_fold *f)
{
    return (bt_graph_options){.rotate_embed = f->r1.base > 0, .rotate_attention = f->r2.base > 0,
                              .rotate_ffn = f->r4.base > 0};
}

bool bt_fold_smooths(const bt_fold *f, uint32_t kind)
{
    return !(kind == BT_SITE_O || (kind == BT_SITE_DOWN && (f->r4.base || !f->is_product)) ||
             ((kind == BT_SITE_QKV || kind == BT_SITE_UP) && f->norms == BT_ARCH_AFTER) ||
             (kind != BT_SITE_DOWN && f->by_mean));
}

void bt_fold_smooth(bt_fold *f, uint32_t site, const float *s) { f->smooth[site] = s; }
size_t bt_fold_rows(const bt_fold *f) { return f->tensor->rows; }
size_t bt_fold_width(const bt_fold *f) { return f->tensor->dim[0]; }

static const float *smooth_of(const bt_fold *f, uint32_t layer, uint32_t kind)
{
    const uint32_t site = bt_pkg_site_index(f->m->hp.layers, layer, kind);
    return site == BT_PKG_NONE ? NULL : f->smooth[site];
}

static bt_weight norm_before(uint32_t site)
{
    return site == BT_SITE_QKV    ? BT_WEIGHT_ATTN_NORM
           : site == BT_SITE_UP   ? BT_WEIGHT_FFN_NORM
           : site == BT_SITE_HEAD ? BT_WEIGHT_OUT_NORM
                                  : BT_WEIGHT_NONE;
}

bool bt_fold_has_norm(const bt_fold *f, uint32_t layer, bt_weight w)
{
    const uint32_t site = bt_pkg_site_after(w);
    return site == BT_PKG_NONE || f->r1.base == 0 || smooth_of(f, layer, site) != NULL;
}

/* Row n, complete but for the rotation of outputs by R1. */
static void input_side(const bt_fold *f, float *y, size_t n)
{
    const size_t k = f->tensor->dim[0];
    float scratch[BT_MODEL_MAX_DIM > BT_MODEL_MAX_FFN ? BT_MODEL_MAX_DIM : BT_MODEL_MAX_FFN];
    bt_model_row_f32(y, f->tensor, n);
    if (f->has_gamma) {
        for (size_t i = 0; i < k; i++) y[i] *= f->gamma[i];
        bt_hadamard_apply(&f->r1, f->kernels, y, 1, scratch);
    }
    if (f->w == BT_WEIGHT_O && f->r2.base > 0)
        bt_hadamard_apply(&f->r2, f->kernels, y, f->m->hp.heads, scratch);
    if (f->w == BT_WEIGHT_DOWN && f->r4.base > 0) bt_hadamard_apply(&f->r4, f->kernels, y, 1, scratch);
    for (size_t i = 0; f->input_smooth && i < k; i++) y[i] *= f->input_smooth[i];
    for (size_t i = 0; f->output_smooth && i < k; i++) y[i] /= f->output_smooth[n % f->tensor->dim[1]];
}

static void read_part(void *ud, size_t part, size_t parts)
{
    const bt_fold *f = ud;
    const size_t k = f->tensor->dim[0];
    size_t n0, n1;
    bt_pool_slice(&n0, &n1, bt_fold_rows(f), 1, part, parts);
    for (size_t n = n0; n < n1; n++) input_side(f, f->whole + n * k, n);
}

/* Columns of each matrix: of one, or of each expert. */
static void rotate_part(void *ud, size_t part, size_t parts)
{
    const bt_fold *f = ud;
    const size_t k = f->tensor->dim[0], n = f->tensor->dim[1];
    float *columns = f->columns + part * COLUMNS * n, scratch[BT_MODEL_MAX_DIM];
    size_t begin, k1;
    bt_pool_slice(&begin, &k1, k, COLUMNS, part, parts);
    for (float *w = f->whole; w < f->whole + bt_fold_rows(f) * k; w += n * k)
        for (size_t k0 = begin; k0 < k1; k0 += COLUMNS) {
            const size_t count = k1 - k0 < COLUMNS ? k1 - k0 : COLUMNS;
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < count; j++) columns[j * n + i] = w[i * k + k0 + j];
            bt_hadamard_apply(&f->r1, f->kernels, columns, count, scratch);
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < count; j++) w[i * k + k0 + j] = columns[j * n + i];
        }
}

static bt_err make_whole(bt_fold *f, bt_fault *fault)
{
    const size_t k = f->tensor->dim[0], n = f->tensor->dim[1], threads = bt_pool_threads(f->pool);
    size_t bytes, columns;
    if (bt_mul_size(&bytes, bt_fold_rows(f), k) && bt_mul_size(&bytes, bytes, sizeof *f->whole))
        f->whole = malloc(bytes);
    if (bt_mul_size(&columns, n, threads * COLUMNS * sizeof *f->columns)) f->columns = malloc(columns);
    if (f->whole && f->columns) {
        bt_pool_run(f->pool, read_part, f);
        bt_pool_run(f->pool, rotate_part, f);
    }
    const bool made = f->whole && f->columns;
    free(f->columns);
    f->columns = NULL;
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory folding %zu x %zu weights", n, k);
}

bt_err bt_fold_begin(bt_fold *f, uint32_t layer, bt_weight w, bt_fault *fault)
{
    free(f->whole);
    f->whole = NULL;
    f->tensor = bt_weight_tensor(f->m, layer, w);
    if (!f->tensor) return bt_fail(fault, BT_EARG, "this architecture has no weights %s", bt_weight_name(w));
    f->w = w;
    f->has_gamma = false;
    f->input_smooth = f->output_smooth = NULL;
    /* a router reads what gate and up read */
    const uint32_t site = w == BT_WEIGHT_ROUTER ? (uint32_t)BT_SITE_UP : bt_pkg_site_of(w);
    if (site == BT_PKG_NONE) {
        if (bt_pkg_site_after(w) != BT_PKG_NONE) f->output_smooth = smooth_of(f, layer, bt_pkg_site_after(w));
        return BT_OK;
    }
    f->input_smooth = smooth_of(f, layer, site);
    if (w == BT_WEIGHT_UP) f->output_smooth = smooth_of(f, layer, BT_SITE_DOWN);
    const bt_weight norm = norm_before(site);
    f->has_gamma = f->r1.base > 0 && norm != BT_WEIGHT_NONE;
    if (f->has_gamma) bt_model_row_f32(f->gamma, bt_weight_tensor(f->m, layer, norm), 0);
    return f->r1.base > 0 && (w == BT_WEIGHT_O || w == BT_WEIGHT_DOWN) ? make_whole(f, fault) : BT_OK;
}

void bt_fold_row(const bt_fold *f, float *y, size_t n)
{
    const size_t k = f->tensor->dim[0];
    if (f->whole) {
        for (size_t i = 0; i < k; i++) y[i] = f->whole[n * k + i];
    } else if (bt_pkg_site_after(f->w) != BT_PKG_NONE) {
        bt_model_row_f32(y, f->tensor, 0);
        for (size_t i = 0; i < k; i++) {
            if (f->r1.base > 0) y[i] = 1;
            if (f->output_smooth) y[i] /= f->output_smooth[i];
        }
    } else {
        input_side(f, y, n);
    }
}

static bt_err source_begin(void *ud, uint32_t layer, bt_weight w, bt_fault *fault)
{
    return bt_fold_begin(ud, layer, w, fault);
}
static void source_row(void *ud, float *y, size_t n) { bt_fold_row(ud, y, n); }

bt_weights_source bt_fold_source(bt_fold *f) { return (bt_weights_source){source_begin, source_row, f}; }
