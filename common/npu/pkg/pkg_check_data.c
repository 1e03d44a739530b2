/* The check of a package's data: the header's fields, and tensors and sites with their constants. A constant
 * has exactly the size that its shape needs, floats are finite, and integers are in the ranges in which the
 * kernels are exact. */
#include "npu/pkg/pkg_private.h"
#include "kernels/int_kernels.h"
#include "kernels/kernels.h"
#include "kernels/round16.h"
#include "model/model.h"
#include "model/weight.h"
#include "model/quant.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/recipe.h"

#include <stdatomic.h>
#include <string.h>

static bool finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}
static bool positive(float x) { return finite(x) && x > 0; }
static bool not_negative(float x) { return finite(x) && x >= 0; }
/* A measured figure; NaN: nobody measured it. */
static bool measured(float x) { return x != x || not_negative(x); }

/* Compares bytes, because -0.0 == 0 and the writer puts plain zeros where nothing is. */
static bool same_bytes(const void *a, const void *b, size_t n) { return memcmp(a, b, n) == 0; }

/* ---- on all threads ---- */

typedef struct each {
    const bt_pkg *p;
    bt_pkg_check_fn *check;
    bt_pool_range range;
    _Atomic uint32_t refused;
} each;

static void check_some(void *ud, size_t part, size_t parts)
{
    each *j = ud;
    size_t i, end;
    (void)part, (void)parts;
    while (bt_pool_range_take(&j->range, &i, &end)) {
        if (j->check(j->p, (uint32_t)i, NULL) == BT_OK) continue;
        uint32_t first = atomic_load(&j->refused);
        while (i < first && !atomic_compare_exchange_weak(&j->refused, &first, (uint32_t)i)) continue;
    }
}

bt_err bt_pkg_check_each(const bt_pkg *p, uint32_t count, bt_pkg_check_fn *check, bt_pool *pool,
                         bt_fault *fault)
{
    each j = {.p = p, .check = check, .refused = UINT32_MAX};
    bt_pool_range_init(&j.range, count, 1);
    bt_pool_run(pool, check_some, &j);
    return j.refused == UINT32_MAX ? BT_OK : check(p, j.refused, fault);
}

/* ---- one constant ---- */

/* The constant with exactly so many bytes; NULL: no such index, or another size. */
static const void *const_of(const bt_pkg *p, uint32_t index, uint64_t bytes)
{
    if (index >= bt_pkg_header_of(p)->consts.count || bt_pkg_consts(p)[index].bytes != bytes) return NULL;
    return bt_pkg_const_at(p, index);
}

static bool has_bytes(const bt_pkg *p, uint32_t index, uint64_t bytes)
{
    return const_of(p, index, bytes) != NULL;
}

static bool has_floats(const bt_pkg *p, uint32_t index, uint64_t n, bool may_be_negative)
{
    const float *v = const_of(p, index, n * sizeof *v);
    for (uint64_t i = 0; v && i < n; i++)
        if (!finite(v[i]) || (!may_be_negative && v[i] < 0)) return false;
    return v != NULL;
}

static bool has_signs(const bt_pkg *p, uint32_t index, uint64_t n)
{
    const int8_t *v = const_of(p, index, n);
    for (uint64_t i = 0; v && i < n; i++)
        if (v[i] != 1 && v[i] != -1) return false;
    return v != NULL;
}

/* ---- header ---- */

static bt_err check_rules(const bt_pkg_header *h, bt_fault *fault)
{
#define CHECK(type, name) \
    if (h->name != 0 && !positive((float)h->name)) \
        return bt_fail(fault, BT_EFORMAT, "header: %s is %g; 0 or a number above it is needed", #name, \
                       (double)h->name);
    BT_RULE_LIST(CHECK)
#undef CHECK
    if (h->window_rope_base != 0 && !h->window)
        return bt_fail(fault, BT_EFORMAT, "header: window_rope_base %g is without a window",
                       (double)h->window_rope_base);
    if (h->window > BT_MODEL_MAX_CTX || (h->global_every && (!h->window || h->global_every < 2)))
        return bt_fail(fault, BT_EFORMAT, "header: window %u or global_every %u is out of range", h->window,
                       h->global_every);
    return BT_OK;
}

/* Sinks, routers, and the numbers of each expert's inputs. */
static bt_err check_experts(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    if (h->sinks && !has_floats(p, h->sinks, (uint64_t)h->layers * h->heads, true))
        return bt_fail(fault, BT_EFORMAT, "header: sinks names no constant of finite numbers that fits");
    if (!h->sinks != (bt_arch_of((bt_arch)h->arch)->scores != BT_ARCH_SINKS))
        return bt_fail(fault, BT_EFORMAT, "header: sinks are missing, or the architecture has none");
    if (!h->experts)
        return !h->experts_used && !h->routers && !h->expert_sites && !h->router_bias
                   ? BT_OK
                   : bt_fail(fault, BT_EFORMAT,
                             "header: experts 0 says there are none, other fields say there are");
    if (h->experts > BT_MODEL_MAX_EXPERTS || !h->experts_used || h->experts_used > h->experts ||
        h->experts_used > BT_MODEL_MAX_EXPERTS_USED)
        return bt_fail(fault, BT_EFORMAT, "header: experts_used %u of %u experts is out of range",
                       h->experts_used, h->experts);
    if (!has_floats(p, h->routers, (uint64_t)h->layers * h->experts * h->dim, true))
        return bt_fail(fault, BT_EFORMAT, "header: routers names no constant of finite numbers that fits");
    if (h->router_bias && !has_floats(p, h->router_bias, (uint64_t)h->layers * h->experts, true))
        return bt_fail(fault, BT_EFORMAT,
                       "header: router_bias names no constant of finite numbers that fits");
    if (!h->router_bias != (bt_arch_of((bt_arch)h->arch)->biases != BT_ARCH_ALL))
        return bt_fail(fault, BT_EFORMAT, "header: router_bias is missing, or the architecture has none");
    const uint64_t count = (uint64_t)h->layers * 2 * h->experts;
    const bt_pkg_expert *all = const_of(p, h->expert_sites, count * sizeof *all);
    if (!all)
        return bt_fail(fault, BT_EFORMAT, "header: expert_sites names no constant of %llu experts",
                       (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t layer = (uint32_t)(i / h->experts / 2),
                       kind = i / h->experts % 2 ? BT_SITE_DOWN : BT_SITE_UP;
        const bt_pkg_site *site = &bt_pkg_sites(p)[bt_pkg_site_index(h->layers, layer, kind)];
        if (!positive(all[i].scale) || !positive(all[i].inv_scale) ||
            all[i].zero < (site->asymmetric ? -128 : 0) || all[i].zero > (site->asymmetric ? 127 : 0) ||
            all[i].is_rare != (all[i].rows < BT_PKG_EXPERT_ROWS))
            return bt_fail(fault, BT_EFORMAT,
                           "expert_sites: expert %llu of site %s of layer %u is out of range",
                           (unsigned long long)(i % h->experts), bt_site_kind_name((bt_site_kind)kind),
                           layer);
    }
    return BT_OK;
}

static bt_err check_rotation(const bt_pkg *p, const bt_pkg_rotation *r, const char *name, uint32_t width,
                             uint32_t max_elems, bt_fault *fault)
{
    if (!r->base) {
        if (r->log2 || r->h_base != BT_PKG_NONE || r->sign != BT_PKG_NONE || r->scale != 0 || r->blocks)
            return bt_fail(fault, BT_EFORMAT, "%s: base 0 says there is none, other fields say there is",
                           name);
        return BT_OK;
    }
    if (r->base > 256 || r->log2 > 17 || (uint64_t)r->base << r->log2 > max_elems)
        return bt_fail(fault, BT_EFORMAT, "%s: base %u, log2 %u make more elements than a rotation can have",
                       name, r->base, r->log2);
    const uint64_t elems = (uint64_t)r->base << r->log2;
    if (elems * r->blocks != width)
        return bt_fail(fault, BT_EFORMAT, "%s: %u blocks of %llu, the row has %u elements", name, r->blocks,
                       (unsigned long long)elems, width);
    if (r->base == 1 ? r->h_base != BT_PKG_NONE : !has_signs(p, r->h_base, (uint64_t)r->base * r->base))
        return bt_fail(fault, BT_EFORMAT, "%s: h_base names no matrix of signs of the base", name);
    if (r->sign != BT_PKG_NONE && !has_signs(p, r->sign, elems))
        return bt_fail(fault, BT_EFORMAT, "%s: sign names no signs, one for each element", name);
    if (!positive(r->scale))
        return bt_fail(fault, BT_EFORMAT, "%s: scale %g is no number above 0", name, (double)r->scale);
    return BT_OK;
}

bt_err bt_pkg_check_dimensions(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_layout *l = &h->layout;
    const struct {
        const char *name;
        uint32_t value, lo, hi;
    } field[] = {
        {"rounding", h->rounding, BT_PKG_ROUND_HALF_UP, BT_PKG_ROUND_HALF_UP},
        {"npu_ops", h->npu_ops, BT_PKG_OPS_LINEAR, BT_PKG_OPS_ALL},
        {"flags", h->flags, 0, 15},
        {"arch", h->arch, 0, BT_ARCHS - 1},
        {"layers", h->layers, 1, BT_MODEL_MAX_LAYERS},
        {"dim", h->dim, 1, BT_MODEL_MAX_DIM},
        {"ffn", h->ffn, 1, BT_MODEL_MAX_FFN},
        {"heads", h->heads, 1, BT_MODEL_MAX_HEADS},
        {"kv_heads", h->kv_heads, 1, h->heads},
        {"head_dim", h->head_dim, 1, BT_MODEL_MAX_HEAD_DIM},
        {"vocab", h->vocab, 1, BT_MODEL_MAX_VOCAB},
        {"ctx_tokens", h->ctx_tokens, 1, BT_MODEL_MAX_CTX},
        {"rope_dims", h->rope_dims, 1, h->head_dim},
        {"max_seq", h->max_seq, 1, BT_MODEL_MAX_CTX},
        {"layout, last_axis_align_bytes", l->last_axis_align_bytes, 0, 4096},
        {"layout, query_slice_rows", l->query_slice_rows, 0, 1 << 20},
        {"layout, attention_heads_max", l->attention_heads_max, 0, 256},
        {"layout, output_parts", l->output_parts, 0, 64},
        {"layout, tile_rows", l->tile_rows, 0, 4096},
        {"layout, tile_cols", l->tile_cols, 0, 4096},
        {"layout, tile_input_rows", l->tile_input_rows, 0, 4096},
        {"layout, state_pow2", l->state_pow2, 0, 1},
        {"layout, state_multiple", l->state_multiple, 0, 4096},
        {"layout, reserved", l->reserved, 0, 0},
        {"float_form", h->float_form, BT_ROUND16_NONE, BT_ROUND16_FORMS - 1},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (field[i].value < field[i].lo || field[i].value > field[i].hi)
            return bt_fail(fault, BT_EFORMAT, "header: %s %u, not %u to %u", field[i].name, field[i].value,
                           field[i].lo, field[i].hi);
    if (l->last_axis_align_bytes & (l->last_axis_align_bytes - 1))
        return bt_fail(fault, BT_EFORMAT, "header: layout, last_axis_align_bytes %u is no power of two",
                       l->last_axis_align_bytes);
    if (!l->tile_rows != !l->tile_cols)
        return bt_fail(fault, BT_EFORMAT, "header: layout, tile_rows %u and tile_cols %u: both or none",
                       l->tile_rows, l->tile_cols);
    if (l->state_pow2 && (l->state_multiple & (l->state_multiple - 1)))
        return bt_fail(fault, BT_EFORMAT,
                       "header: layout, state_multiple %u is no power of two, and state_pow2 is 1",
                       l->state_multiple);
    if (l->on_chip_bytes > UINT64_C(1) << 50)
        return bt_fail(fault, BT_EFORMAT, "header: layout, on_chip_bytes %llu is more than 2^50",
                       (unsigned long long)l->on_chip_bytes);
    if (h->heads % h->kv_heads)
        return bt_fail(fault, BT_EFORMAT, "header: heads %u are no multiple of kv_heads %u", h->heads,
                       h->kv_heads);
    if (h->rope_dims % 2) return bt_fail(fault, BT_EFORMAT, "header: rope_dims %u is odd", h->rope_dims);
    if (!not_negative(h->rms_eps))
        return bt_fail(fault, BT_EFORMAT, "header: rms_eps %g is negative, or no number", (double)h->rms_eps);
    if (!positive(h->attn_scale))
        return bt_fail(fault, BT_EFORMAT, "header: attn_scale %g is no number above 0",
                       (double)h->attn_scale);
    if (!positive(h->embed_scale) || !positive(h->add_scale))
        return bt_fail(fault, BT_EFORMAT, "header: embed_scale %g or add_scale %g is no number above 0",
                       (double)h->embed_scale, (double)h->add_scale);
    if (!positive(h->rope_base))
        return bt_fail(fault, BT_EFORMAT, "header: rope_base %g is no number above 0", (double)h->rope_base);
    if (!positive(h->rope_scale))
        return bt_fail(fault, BT_EFORMAT, "header: rope_scale %g is no number above 0",
                       (double)h->rope_scale);
    if (h->npu_ops == BT_PKG_OPS_ALL ? !positive(h->residual_scale) : h->residual_scale != 0)
        return bt_fail(
            fault, BT_EFORMAT,
            "header: residual_scale %g is no number above 0 with npu_ops all, or not 0 with linear",
            (double)h->residual_scale);
    return check_rules(h, fault);
}

static bool is_head_scale(float x) { return x >= 0x1p-100f && x <= 0x1p100f; }

/* Whether h[0] and h[1] have the numbers with which two heads can share a choice. */
static bool choose_as_one(const bt_pkg_head *h)
{
    return h[0].ppm == h[1].ppm && h[0].q_scale == h[1].q_scale;
}

static bt_err check_heads(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t group = h->heads / h->kv_heads;
    const uint64_t count = (uint64_t)h->layers * h->heads;
    const bt_pkg_head *head = const_of(p, h->sparse_heads, count * sizeof *head);
    if (!head)
        return bt_fail(fault, BT_EFORMAT, "header: sparse_heads names no constant of %llu heads",
                       (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (!head[i].ppm || head[i].ppm > BT_ATTENTION_ALL_PPM || !is_head_scale(head[i].q_scale) ||
            !is_head_scale(head[i].k_scale) || !(measured(head[i].recall)) || head[i].recall > 1 ||
            (i % group &&
             (head[i].k_scale != head[i - 1].k_scale || (h->sparse_group && !choose_as_one(&head[i - 1])))))
            return bt_fail(fault, BT_EFORMAT,
                           "sparse_heads: head %llu of layer %llu has a ratio, unit or recall out of range, "
                           "or other than its group's",
                           (unsigned long long)(i % h->heads), (unsigned long long)(i / h->heads));
    return BT_OK;
}

static bt_err check_sparse(const bt_pkg *p, bt_fault *fault)
{
    static const bt_pkg_rotation none;
    const bt_pkg_header *h = bt_pkg_header_of(p);
    if (!h->sparse_ppm)
        return !h->sparse_dense_rows && !h->sparse_heads && !h->sparse_rows_log2 && !h->sparse_group &&
                       same_bytes(&h->sparse_rotation, &none, sizeof none)
                   ? BT_OK
                   : bt_fail(fault, BT_EFORMAT,
                             "header: sparse_ppm 0 says there is none, other fields say there is");
    if (h->window)
        return bt_fail(fault, BT_EFORMAT, "header: sparse_ppm %u, and layers have a window of %u",
                       h->sparse_ppm, h->window);
    if (h->sinks || h->score_cap > 0)
        return bt_fail(fault, BT_EFORMAT, "header: sparse_ppm %u, and scores have sinks or soft caps",
                       h->sparse_ppm);
    if (h->sparse_ppm > BT_ATTENTION_ALL_PPM || h->sparse_dense_rows > BT_MODEL_MAX_CTX)
        return bt_fail(fault, BT_EFORMAT, "header: sparse_ppm %u or sparse_dense_rows %u is out of range",
                       h->sparse_ppm, h->sparse_dense_rows);
    if (h->sparse_rows_log2 > BT_ATTENTION_MAX_ROWS_LOG2 || h->sparse_group > 1)
        return bt_fail(fault, BT_EFORMAT, "header: sparse_rows_log2 %u or sparse_group %u is out of range",
                       h->sparse_rows_log2, h->sparse_group);
    if (h->layout.query_slice_rows % (1u << h->sparse_rows_log2))
        return bt_fail(fault, BT_EFORMAT, "header: slices of %u rows cut blocks of %u that share a choice",
                       h->layout.query_slice_rows, 1u << h->sparse_rows_log2);
    const bt_err e =
        check_rotation(p, &h->sparse_rotation, "sparse_rotation", h->head_dim, BT_MODEL_MAX_HEAD_DIM, fault);
    if (e < 0) return e;
    if (!h->sparse_rotation.base)
        return bt_fail(fault, BT_EFORMAT,
                       "header: sparse_rotation: base 0, and sparse attention needs a rotation");
    return check_heads(p, fault);
}

static bt_err check_header(const bt_pkg *p, bt_fault *fault)
{
    bt_err e;
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_quant_info *q = bt_quant_find(h->embed_type);
    if (!q || h->dim % q->block_elems)
        return bt_fail(fault, BT_EFORMAT,
                       "header: embed_type %u (%s) is unknown, or its blocks do not divide dim",
                       h->embed_type, bt_quant_type_name(h->embed_type));
    if (!has_bytes(p, h->embed, (uint64_t)h->vocab * (h->dim / q->block_elems) * q->block_bytes))
        return bt_fail(fault, BT_EFORMAT, "header: embed is not %u rows of %u in %s", h->vocab, h->dim,
                       q->name);
    const uint64_t angles = (uint64_t)bt_pkg_rope_tables(h) * h->ctx_tokens * (h->rope_dims / 2);
    if (!has_floats(p, h->rope_cos, angles, true))
        return bt_fail(fault, BT_EFORMAT, "header: rope_cos names no constant of %llu finite numbers",
                       (unsigned long long)angles);
    if (!has_floats(p, h->rope_sin, angles, true))
        return bt_fail(fault, BT_EFORMAT, "header: rope_sin names no constant of %llu finite numbers",
                       (unsigned long long)angles);
    const bool all = h->npu_ops == BT_PKG_OPS_ALL;
    if (all ? !has_bytes(p, h->rope_cos_q15, angles * 2) : h->rope_cos_q15 != BT_PKG_NONE)
        return bt_fail(fault, BT_EFORMAT,
                       "header: rope_cos_q15 names no constant of %llu numbers, or one without npu_ops all",
                       (unsigned long long)angles);
    if (all ? !has_bytes(p, h->rope_sin_q15, angles * 2) : h->rope_sin_q15 != BT_PKG_NONE)
        return bt_fail(fault, BT_EFORMAT,
                       "header: rope_sin_q15 names no constant of %llu numbers, or one without npu_ops all",
                       (unsigned long long)angles);
    const bool has16 = h->rope_cos16 || h->rope_sin16;
    if (has16 && (!h->float_form || !has_floats(p, h->rope_cos16, angles, true)))
        return bt_fail(fault, BT_EFORMAT, "header: rope_cos16 names no constant of %llu finite numbers",
                       (unsigned long long)angles);
    if (has16 && !has_floats(p, h->rope_sin16, angles, true))
        return bt_fail(fault, BT_EFORMAT, "header: rope_sin16 names no constant of %llu finite numbers",
                       (unsigned long long)angles);
    if ((e = check_rotation(p, &h->r1, "r1", h->dim, BT_MODEL_MAX_DIM, fault)) < 0) return e;
    if ((e = check_rotation(p, &h->r2, "r2", h->heads * h->head_dim, 32768, fault)) < 0) return e;
    const bool has_r4 = !same_bytes(&h->r4, &(bt_pkg_rotation){0}, sizeof h->r4);
    if (has_r4 && (e = check_rotation(p, &h->r4, "r4", h->ffn, BT_MODEL_MAX_FFN, fault)) < 0) return e;
    return check_sparse(p, fault);
}

/* ---- tensors ---- */

bool bt_pkg_is_vector(uint32_t weight)
{
    return weight >= BT_WEIGHT_ATTN_NORM && weight <= BT_WEIGHT_FFN_POST_NORM;
}

void bt_pkg_weight_shape(const bt_pkg_header *h, uint32_t weight, uint32_t *n, uint32_t *k)
{
    const uint32_t q = h->heads * h->head_dim, kv = h->kv_heads * h->head_dim;
    const bool by_row = bt_arch_of((bt_arch)h->arch)->qk_norm == BT_ARCH_ROWS;
    uint32_t shape[2] = {0, 0};
    switch (weight) {
    case BT_WEIGHT_ATTN_NORM:
    case BT_WEIGHT_FFN_NORM:
    case BT_WEIGHT_ATTN_POST_NORM:
    case BT_WEIGHT_FFN_POST_NORM:
    case BT_WEIGHT_OUT_NORM: shape[0] = bt_arch_norm_elems((bt_arch)h->arch, h->dim), shape[1] = 1; break;
    case BT_WEIGHT_Q_NORM: shape[0] = by_row ? q : h->head_dim, shape[1] = 1; break;
    case BT_WEIGHT_K_NORM: shape[0] = by_row ? kv : h->head_dim, shape[1] = 1; break;
    case BT_WEIGHT_Q: shape[0] = q, shape[1] = h->dim; break;
    case BT_WEIGHT_K:
    case BT_WEIGHT_V: shape[0] = kv, shape[1] = h->dim; break;
    case BT_WEIGHT_O: shape[0] = h->dim, shape[1] = q; break;
    case BT_WEIGHT_GATE:
        if (!bt_arch_is_gated((bt_arch)h->arch)) break;
        /* fallthrough */
    case BT_WEIGHT_UP: shape[0] = h->ffn, shape[1] = h->dim; break;
    case BT_WEIGHT_DOWN: shape[0] = h->dim, shape[1] = h->ffn; break;
    case BT_WEIGHT_OUTPUT: shape[0] = h->vocab, shape[1] = h->dim; break;
    default: break;
    }
    *n = shape[0];
    *k = shape[1];
}

/* The facts that the kernels rely on: s8 in [-127, 127], s4 in [-7, 7], and colsum the sum of all weights
 * that they multiply, padding included. The loop sums over 64 lanes (16 outputs of 4 inputs) so that
 * compilers make vectors of them. */
static bool weights_fit(const uint8_t *w, const int32_t *colsum, uint64_t panels, uint64_t k4, uint32_t bits)
{
    if (bits == 8 && memchr(w, 0x80, (size_t)(panels * k4 * 64))) return false;
    for (uint64_t p = 0; p < panels; p++) {
        int32_t sum[64] = {0};
        for (uint64_t g0 = 0; g0 < k4;) {
            int16_t part[64] = {0};
            unsigned bad = 0;
            for (const uint64_t g1 = g0 + 255 < k4 ? g0 + 255 : k4; g0 < g1; g0++) { /* 255 * 127 fits s16 */
                if (bits == 8) {
                    for (int i = 0; i < 64; i++) part[i] = (int16_t)(part[i] + (int8_t)w[i]);
                    w += 64;
                } else {
                    for (int i = 0; i < 32; i++) {
                        const int lo = ((w[i] & 15) ^ 8) - 8, hi = ((w[i] >> 4) ^ 8) - 8;
                        bad |= (lo == -8) | (hi == -8);
                        part[2 * i] = (int16_t)(part[2 * i] + lo);
                        part[2 * i + 1] = (int16_t)(part[2 * i + 1] + hi);
                    }
                    w += 32;
                }
            }
            if (bad) return false;
            for (int i = 0; i < 64; i++) sum[i] += part[i];
        }
        for (int j = 0; j < 16; j++)
            if (colsum[16 * p + (uint64_t)j] != sum[4 * j] + sum[4 * j + 1] + sum[4 * j + 2] + sum[4 * j + 3])
                return false;
    }
    return true;
}

/* The same for weights in groups. colsum: sums of the low planes, then of the high planes. */
static bool planes_fit(const uint8_t *w, const int32_t *colsum, uint64_t panels, uint64_t k4, uint32_t bits,
                       const bt_int_group *g, uint64_t group4)
{
    if (bits == 8 && memchr(w, 0x80, (size_t)(panels * k4 * 64))) return false;
    for (uint64_t p = 0; p < panels; p++) {
        int32_t sum[2][64] = {{0}};
        for (uint64_t k = 0; k < k4; k++, w += bits == 8 ? 64 : 32) {
            int8_t low[64], high[64];
            bt_kernels_select("ref")->int_planes(low, high, w, bits, &g[p * (k4 / group4) + k / group4], 1, 1,
                                                 0, 1);
            for (int i = 0; i < 64; i++) sum[0][i] += low[i], sum[1][i] += high[i];
        }
        for (uint64_t i = 0; i < 32; i++) {
            const int32_t *four = &sum[i / 16][i % 16 * 4];
            if (colsum[(i / 16 * panels + p) * 16 + i % 16] != four[0] + four[1] + four[2] + four[3])
                return false;
        }
    }
    return true;
}

/* The same for palettes. colsum: sums of the numbers that indices name, those beyond the outputs too. */
static bool palettes_fit(const uint8_t *w, const int32_t *colsum, uint64_t panels, const bt_pkg_tensor *t,
                         const int8_t *palettes)
{
    enum { AT_ONCE = 32 }; /* groups of four inputs that are looked up together: 128 inputs of a channel */
    const uint64_t k4 = t->k / 4, run4 = t->palette_run / 4;
    int8_t v[AT_ONCE * 64];
    if (memchr(palettes, 0x80, (size_t)((panels * (k4 / run4)) << t->bits))) return false;
    for (uint64_t p = 0; p < panels; p++) {
        int32_t sum[16] = {0};
        for (uint64_t k = 0, n; k < k4; k += n, w += n * 8 * t->bits) {
            const int8_t *of = palettes + ((p * (k4 / run4) + k / run4) << t->bits);
            n = run4 - k % run4 < AT_ONCE ? run4 - k % run4 : AT_ONCE;
            bt_kernels_select(NULL)->int_palette(v, w, t->bits, of, (size_t)n, (size_t)n, 0, 1);
            for (uint64_t i = 0; i < n * 64; i++) sum[i / 4 % 16] += v[i];
        }
        if (memcmp(sum, colsum + 16 * p, sizeof sum) != 0) return false;
    }
    return true;
}

#define BAD(what) \
    bt_fail(fault, BT_EFORMAT, "tensor %u (%s of layer %d): " what, i, bt_weight_name((bt_weight)t->weight), \
            (int)t->layer)

static uint64_t matrices_of(const bt_pkg *p, const bt_pkg_tensor *t)
{
    return bt_pkg_matrices(bt_pkg_header_of(p), t->weight);
}

static bt_err check_requant(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    const uint64_t lanes = 16 * bt_int_panels(t->n), wide = lanes * matrices_of(p, t);
    if (t->mult == BT_PKG_NONE) {
        if (t->shift != BT_PKG_NONE || t->bias_q != BT_PKG_NONE || t->out_bits)
            return BAD("shift, bias_q or out_bits are given without mult");
        if (t->bits == 16 && bt_pkg_header_of(p)->npu_ops == BT_PKG_OPS_ALL ? !not_negative(t->out_scale)
                                                                            : t->out_scale != 0)
            return BAD("out_scale is out of range");
        return BT_OK;
    }
    const int32_t *m = const_of(p, t->mult, wide * sizeof *m);
    const uint8_t *s = const_of(p, t->shift, wide);
    const int64_t *b = const_of(p, t->bias_q, wide * sizeof *b);
    if (!m) return BAD("mult names no constant that fits");
    if (!s) return BAD("shift names no constant that fits");
    if (!b && (t->bias_q != BT_PKG_NONE || bt_pkg_sites(p)[t->site].zero))
        return BAD("bias_q names no constant that fits");
    for (uint64_t n = 0; n < wide; n++) {
        if (n % lanes >= t->n) continue; /* beyond the outputs */
        if (m[n] < 1 << 30) return BAD("mult has a number below 2^30");
        if (s[n] < 1 || s[n] > 62) return BAD("shift has a number outside 1 to 62");
        if (b && (b[n] <= -(INT64_C(1) << 61) || b[n] >= INT64_C(1) << 61))
            return BAD("bias_q has a number of 2^61 or more");
    }
    if (!positive(t->out_scale)) return BAD("out_scale is out of range");
    if (t->out_bits != 16 && t->out_bits != 8) return BAD("out_bits is out of range");
    return BT_OK;
}

/* Whether steps are 1 or more and no weight of the group exceeds what two planes hold; beyond the outputs,
 * zeros. */
static bool group_fits(const bt_int_group *g, uint32_t outputs, uint32_t bits)
{
    const int least = bits == 4 ? -8 : -127, most = bits == 4 ? 7 : 127;
    for (uint32_t i = 0; i < 16; i++) {
        const int step = g->step[i], offset = g->offset[i];
        if (i >= outputs ? step || offset
                         : step < 1 || step * most + offset > BT_INT_GROUP_MAX ||
                               step * least + offset < -BT_INT_GROUP_MAX)
            return false;
    }
    return true;
}

static bt_err check_groups(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    if (!t->group) return BT_OK;
    if ((t->group != 32 && t->group != 64 && t->group != 128) || t->k % t->group)
        return BAD("group is out of range");
    const uint64_t of_panel = t->k / t->group, panels = bt_int_panels(t->n),
                   count = panels * of_panel * matrices_of(p, t);
    const bt_int_group *g = const_of(p, t->groups, count * sizeof *g);
    if (!g) return BAD("groups names no constant that fits");
    for (uint64_t n = 0; n < count; n++)
        if (!group_fits(&g[n], t->n - (uint32_t)(n / of_panel % panels * 16), t->bits))
            return BAD("groups names no constant that fits");
    return BT_OK;
}

static bt_err check_palettes(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    const uint32_t run = t->palette_run;
    if (!run) return t->bits == 6 ? BAD("bits is out of range") : BT_OK;
    if (t->group || (t->bits != 4 && t->bits != 6))
        return BAD("palette_run does not fit a group or the bits");
    if (t->k % 4 || (run != t->k && run != 32 && run != 64 && run != 128) || t->k % run)
        return BAD("palette_run is out of range");
    const uint64_t bytes = (bt_int_panels(t->n) * (t->k / run)) << t->bits;
    return const_of(p, t->groups, bytes * matrices_of(p, t)) ? BT_OK
                                                             : BAD("palettes names no constant that fits");
}

/* Checks the panels and colsum of a matrix, of experts each of theirs. */
static bt_err check_panels(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    const uint64_t panels = bt_int_panels(t->n), k4 = bt_int_k4(t->k), matrices = matrices_of(p, t),
                   bytes = panels * bt_int_panel_bytes(t->k, t->bits),
                   sums = (t->group ? 2 : 1) * 16 * panels;
    const uint8_t *w = const_of(p, t->panels, matrices * bytes);
    const int32_t *colsum = const_of(p, t->colsum, matrices * sums * sizeof *colsum);
    if (!w) return BAD("panels names no constant that fits");
    if (!colsum) return BAD("colsum names no constant that fits");
    const void *const of = t->groups ? bt_pkg_const_at(p, t->groups) : NULL;
    bool fit = true;
    for (uint64_t m = 0; m < matrices && fit && !p->is_known; m++, w += bytes, colsum += sums)
        fit = t->palette_run
                  ? palettes_fit(w, colsum, panels, t,
                                 (const int8_t *)of + m * ((panels * (t->k / t->palette_run)) << t->bits))
              : t->group ? planes_fit(w, colsum, panels, k4, t->bits,
                                      (const bt_int_group *)of + m * panels * (t->k / t->group), t->group / 4)
                         : weights_fit(w, colsum, panels, k4, t->bits);
    return fit ? BT_OK : BAD("a weight is out of range, or colsum is not the sum of the weights");
}

static bt_err check_matrix(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint64_t matrices = matrices_of(p, t), panels = bt_int_panels(t->n) * matrices,
                   f16_bytes = bt_matmul_packed_elems(t->n, t->k) * 2 * matrices;
    if (t->norm_q != BT_PKG_NONE || t->norm_shift) return BAD("norm_q or norm_shift are given for a matrix");
    if (t->bias != BT_PKG_NONE && !has_floats(p, t->bias, t->n * matrices, true))
        return BAD("bias names no constant that fits");
    if (t->bits == 16) {
        if (!has_bytes(p, t->panels, f16_bytes)) return BAD("panels names no constant that fits");
        if (t->site != BT_PKG_NONE || t->wscale != BT_PKG_NONE || t->oscale != BT_PKG_NONE ||
            t->colsum != BT_PKG_NONE || t->mult != BT_PKG_NONE || t->f16_panels != BT_PKG_NONE)
            return BAD("site, wscale, oscale, colsum, mult or f16_panels are given with 16 bits");
        return check_requant(p, i, t, fault);
    }
    if (t->bits != 8 && t->bits != 4 && t->bits != 6) return BAD("bits is out of range");
    const uint32_t site = bt_pkg_site_index(h->layers, t->layer, bt_pkg_site_of(t->weight));
    if (t->site != site || !bt_pkg_sites(p)[site].k) return BAD("site is out of range");
    if (t->k > (bt_pkg_sites(p)[site].asymmetric ? (uint32_t)BT_INT_MAX_ASYMMETRIC_K : BT_INT_MAX_K))
        return BAD("k has more inputs than the kernels sum without overflow");
    bt_err e = check_groups(p, i, t, fault);
    if (e == BT_OK) e = check_palettes(p, i, t, fault);
    if (e == BT_OK) e = check_panels(p, i, t, fault);
    if (e < 0) return e;
    if (!has_floats(p, t->wscale, t->n * matrices, false) &&
        (t->group || t->palette_run || !has_floats(p, t->wscale, matrices, false)))
        return BAD("wscale names no constant that fits");
    if (!has_floats(p, t->oscale, 16 * panels, false)) return BAD("oscale names no constant that fits");
    if (t->f16_panels != BT_PKG_NONE &&
        (t->group || t->palette_run || !has_bytes(p, t->f16_panels, f16_bytes)))
        return BAD("f16_panels names no constant that fits");
    if (t->mult != BT_PKG_NONE && h->npu_ops != BT_PKG_OPS_ALL)
        return BAD("mult is given with npu_ops linear");
    return check_requant(p, i, t, fault);
}

static bt_err check_vector(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    if (t->bits != 32) return BAD("bits is out of range");
    if (!has_floats(p, t->panels, t->n, true)) return BAD("panels names no constant that fits");
    if (t->site != BT_PKG_NONE || t->wscale != BT_PKG_NONE || t->oscale != BT_PKG_NONE ||
        t->bias != BT_PKG_NONE || t->colsum != BT_PKG_NONE || t->mult != BT_PKG_NONE ||
        t->f16_panels != BT_PKG_NONE)
        return BAD("a field is set that only a matrix has");
    if (t->norm_q == BT_PKG_NONE) {
        if (t->norm_shift) return BAD("norm_shift is given without norm_q");
    } else {
        const int32_t *q = const_of(p, t->norm_q, t->n * sizeof *q);
        if (!q || bt_pkg_header_of(p)->npu_ops != BT_PKG_OPS_ALL)
            return BAD("norm_q names no constant that fits");
        for (uint32_t n = 0; n < t->n; n++)
            if (q[n] == INT32_MIN) return BAD("norm_q has the number -2^31");
        if (t->norm_shift < 0 || t->norm_shift > 32) return BAD("norm_shift has a number outside 0 to 32");
    }
    return check_requant(p, i, t, fault);
}

static bt_err check_tensor(const bt_pkg *p, uint32_t i, const bt_pkg_tensor *t, bt_fault *fault)
{
    uint32_t n, k;
    bt_pkg_weight_shape(bt_pkg_header_of(p), t->weight, &n, &k);
    if (t->group && t->bits != 8 && t->bits != 4) return BAD("group is out of range");
    if (t->palette_run && t->bits != 4 && t->bits != 6) return BAD("palette_run is out of range");
    if (!t->group && !t->palette_run && t->groups)
        return BAD("groups are given without group or palette_run");
    if (!measured(t->weight_error) || !measured(t->output_error))
        return BAD("weight_error or output_error is negative or no number");
    if (!t->n) {
        bt_pkg_tensor copy = *t;
        copy.layer = copy.weight = 0;
        if (!same_bytes(&copy, &bt_pkg_no_tensor, sizeof copy))
            return BAD("n 0 says that it is not there, other fields say that it is");
        return bt_pkg_is_vector(t->weight) || !n ? BT_OK : BAD("a matrix that the model has is missing");
    }
    if (t->n != n || t->k != k)
        return bt_fail(fault, BT_EFORMAT, "tensor %u (%s of layer %d): has the shape %u x %u, not %u x %u", i,
                       bt_weight_name((bt_weight)t->weight), (int)t->layer, t->n, t->k, n, k);
    return bt_pkg_is_vector(t->weight) ? check_vector(p, i, t, fault) : check_matrix(p, i, t, fault);
}

static bt_err check_tensor_at(const bt_pkg *p, uint32_t i, bt_fault *fault)
{
    const uint32_t layers = bt_pkg_header_of(p)->layers;
    const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i];
    const uint32_t layer = i >= layers * BT_PKG_LAYER_TENSORS ? UINT32_MAX : i / BT_PKG_LAYER_TENSORS;
    if (t->layer != layer || bt_pkg_tensor_index(layers, layer, t->weight) != i)
        return bt_fail(fault, BT_EFORMAT, "tensor %u: layer %d and weight %u belong elsewhere in the table",
                       i, (int)t->layer, t->weight);
    return check_tensor(p, i, t, fault);
}

static bt_err check_tensors(const bt_pkg *p, bt_pool *pool, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t want = h->layers * BT_PKG_LAYER_TENSORS + 2;
    if (h->tensors.count != want)
        return bt_fail(fault, BT_EFORMAT, "the package has %u tensors, not %u", h->tensors.count, want);
    return bt_pkg_check_each(p, want, check_tensor_at, pool, fault);
}

#undef BAD

/* ---- sites ---- */

#define BAD(what) \
    bt_fail(fault, BT_EFORMAT, "site %u (%s of layer %d): " what, i, \
            bt_site_kind_name((bt_site_kind)s->kind), (int)s->layer)

static bt_err check_site(const bt_pkg *p, uint32_t i, const bt_pkg_site *s, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    static const bt_pkg_site none = {.hot = BT_PKG_NONE};
    const uint32_t k = bt_pkg_site_width(s->kind, h->dim, h->heads * h->head_dim, h->ffn);
    if (!s->k) {
        bt_pkg_site copy = *s;
        copy.layer = copy.kind = 0;
        return same_bytes(&copy, &none, sizeof copy)
                   ? BT_OK
                   : BAD("k 0 says that it is not there, other fields say that it is");
    }
    if (s->k != k) return BAD("k is out of range");
    if (s->bits != 8 && s->bits != 16) return BAD("bits is out of range");
    if (s->shadow > BT_SHADOW_CHANNEL) return BAD("shadow is out of range");
    if (!positive(s->scale)) return BAD("scale is out of range");
    if (!positive(s->inv_scale)) return BAD("inv_scale is out of range");
    if (!not_negative(s->clip) || !not_negative(s->max) || !not_negative(s->rms))
        return BAD("clip, max or rms is negative or no number");
    if (!measured(s->input_error)) return BAD("input_error is out of range");
    if (!measured(s->outlier_columns) || s->outlier_columns > 1)
        return BAD("outlier_columns is out of range");
    if (s->shadow == BT_SHADOW_CHANNEL) {
        const uint8_t *hot = const_of(p, s->hot, s->k);
        for (uint32_t c = 0; hot && c < s->k; c++)
            if (hot[c] > 1) hot = NULL;
        if (!hot) return BAD("hot names no constant that fits");
    } else if (s->hot != BT_PKG_NONE) {
        return BAD("hot is given without shadow=channel");
    }
    if (s->pruned > (s->shadow == BT_SHADOW_CHANNEL)) return BAD("pruned is out of range");
    if (s->kind == BT_SITE_O && h->npu_ops == BT_PKG_OPS_ALL ? !not_negative(s->a16_scale)
                                                             : s->a16_scale != 0)
        return BAD("a16_scale is out of range");
    if (s->asymmetric > (s->bits == 8)) return BAD("asymmetric is out of range");
    if (s->zero < (s->asymmetric ? -128 : 0) || s->zero > (s->asymmetric ? 127 : 0))
        return BAD("zero is out of range");
    return BT_OK;
}

static bt_err check_sites(const bt_pkg *p, bt_fault *fault)
{
    bt_err e;
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_site *s = bt_pkg_sites(p);
    const uint32_t want = h->layers * BT_PKG_LAYER_SITES + 1;
    if (h->sites.count != want)
        return bt_fail(fault, BT_EFORMAT, "the package has %u sites, not %u", h->sites.count, want);
    for (uint32_t i = 0; i < want; i++) {
        const bool tail = i >= h->layers * BT_PKG_LAYER_SITES;
        const uint32_t layer = tail ? UINT32_MAX : i / BT_PKG_LAYER_SITES;
        if (s[i].layer != layer || s[i].kind != (tail ? BT_SITE_HEAD : i % BT_PKG_LAYER_SITES))
            return bt_fail(fault, BT_EFORMAT, "site %u: layer %d and kind %u belong elsewhere in the table",
                           i, (int)s[i].layer, s[i].kind);
        if ((e = check_site(p, i, &s[i], fault)) < 0) return e;
    }
    return BT_OK;
}
#undef BAD

bt_err bt_pkg_check_data(const bt_pkg *p, bt_pool *pool, bt_fault *fault)
{
    bt_err e;
    if ((e = check_header(p, fault)) < 0) return e;
    if ((e = check_sites(p, fault)) < 0) return e;
    if ((e = check_experts(p, fault)) < 0) return e;
    return check_tensors(p, pool, fault);
}
