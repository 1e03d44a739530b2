/* A package of a few kilobytes, lowered by hand. Memory: x first, then what a layer needs side by side,
 * the same places in every layer. */
#include "tests/helpers/model/tiny_pkg.h"
#include "base/hash.h"
#include "base/rng.h"
#include "kernels/int_kernels.h"
#include "kernels/kernels.h"
#include "model/weights.h"
#include "model/quant.h"
#include "npu/lower/bodies.h"
#include "npu/lower/switches.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/pkg/pkg_private.h"
#include "npu/pkg/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEED = 4, MAX_INSTS = 512, MAX_PLACES = 512 };

typedef struct maker {
    tiny_pkg o;
    bt_pkg_header h;
    bt_pkg_writer *w;
    uint64_t draws;
    /* the program being made */
    bt_pkg_inst inst[MAX_INSTS];
    uint32_t insts;
    bt_pkg_place place[MAX_PLACES];
    uint32_t places;
    uint64_t top, peak;
    uint32_t layer, seq, out;
    uint32_t params[BT_PKG_INT_SPLIT + 1]; /* by operator; NONE where it takes none */
    bool tail;
    uint32_t ctx;
    bt_bodies *bodies; /* packed, else NULL */
} maker;

static int8_t draw(maker *m, int limit)
{
    return (int8_t)((int)(bt_rng_u64(SEED, m->draws++) % (2 * (unsigned)limit + 1)) - limit);
}

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "tiny_pkg: %s\n", what);
    abort();
}

uint8_t *tiny_pkg_alloc(size_t len)
{
    void *p = NULL;
    must(posix_memalign(&p, BT_PKG_ALIGN, len) == 0, "no memory");
    return p;
}

/* ---- constants ---- */

static uint32_t constant(maker *m, bt_pkg_const_kind kind, const void *bytes, size_t n)
{
    return bt_pkg_writer_const(m->w, kind, bytes, n);
}

static uint32_t floats(maker *m, bt_pkg_const_kind kind, size_t n, float lo, float step)
{
    float *v = calloc(n, sizeof *v);
    must(v != NULL, "no memory");
    for (size_t i = 0; i < n; i++) v[i] = lo + step * (float)(bt_rng_u64(SEED, m->draws++) % 64);
    const uint32_t c = constant(m, kind, v, n * sizeof *v);
    free(v);
    return c;
}

static bt_pkg_tensor nothing(uint32_t layer, uint32_t weight)
{
    return (bt_pkg_tensor){.layer = layer,           .weight = weight,      .site = BT_PKG_NONE,
                           .panels = BT_PKG_NONE,    .wscale = BT_PKG_NONE, .oscale = BT_PKG_NONE,
                           .bias = BT_PKG_NONE,      .colsum = BT_PKG_NONE, .mult = BT_PKG_NONE,
                           .shift = BT_PKG_NONE,     .bias_q = BT_PKG_NONE, .norm_q = BT_PKG_NONE,
                           .f16_panels = BT_PKG_NONE};
}

static void palette_constants(maker *m, bt_pkg_tensor *t)
{
    const size_t panels = bt_int_panels(t->n), bytes = panels * bt_int_panel_bytes(t->k, t->bits),
                 runs = t->k / m->o.palette_run, many = (size_t)1 << t->bits;
    uint8_t *wp = calloc(1, bytes), *index = malloc((size_t)t->n * t->k);
    int8_t *palettes = malloc(panels * runs * many);
    int32_t *colsum = calloc(16 * panels, sizeof *colsum);
    must(wp && index && palettes && colsum, "no memory");
    for (size_t i = 0; i < panels * runs * many; i++) palettes[i] = draw(m, 127);
    for (size_t i = 0; i < (size_t)t->n * t->k; i++) index[i] = (uint8_t)draw(m, 127) & (uint8_t)(many - 1);
    for (size_t n = 0; n < 16 * panels; n++)
        for (size_t k = 0; k < t->k; k++)
            colsum[n] += palettes[(n / 16 * runs + k / m->o.palette_run) * many +
                                  (n < t->n ? index[n * t->k + k] : 0)];
    bt_int_pack_indices(wp, index, 0, t->n, t->k, t->bits);
    t->panels = constant(m, BT_PKG_CONST_WEIGHT, wp, bytes);
    t->colsum = constant(m, BT_PKG_CONST_VECTOR, colsum, 16 * panels * sizeof *colsum);
    t->palette_run = m->o.palette_run;
    t->groups = constant(m, BT_PKG_CONST_TABLE, palettes, panels * runs * many);
    free(wp);
    free(index);
    free(palettes);
    free(colsum);
}

static void integer_constants(maker *m, bt_pkg_tensor *t)
{
    const size_t panels = bt_int_panels(t->n), bytes = panels * bt_int_panel_bytes(t->k, t->bits);
    uint8_t *wp = calloc(1, bytes);
    int8_t *w = malloc((size_t)t->n * t->k);
    const size_t group = m->o.group ? m->o.group : t->k, groups = t->k / group,
                 all = (m->o.group ? 2 : 1) * 16 * panels;
    int32_t *colsum = calloc(all, sizeof *colsum);
    bt_int_group *of = calloc(panels * groups, sizeof *of);
    must(wp && w && colsum && of, "no memory");
    for (size_t i = 0; i < (size_t)t->n * t->k; i++) {
        w[i] = draw(m, t->bits == 4 ? 7 : 127);
        if (i == 5 && t->weight == BT_WEIGHT_DOWN && t->layer && t->layer == m->o.flip_layer) w[i] ^= 1;
        const size_t n = i / t->k;
        bt_int_group *g = &of[n / 16 * groups + i % t->k / group];
        if (m->o.group && i % group == 0) {
            g->step[n % 16] = (int16_t)(64 + draw(m, 40));
            g->offset[n % 16] = draw(m, 127);
        }
        const int v = m->o.group ? w[i] * g->step[n % 16] + g->offset[n % 16] : w[i];
        const int high = m->o.group ? bt_int_plane_high(v) : 0;
        colsum[n] += v - 128 * high;
        colsum[all - 16 * panels + n] += high;
    }
    bt_int_pack(wp, w, 0, t->n, t->k, t->bits);
    t->panels = constant(m, BT_PKG_CONST_WEIGHT, wp, bytes);
    t->colsum = constant(m, BT_PKG_CONST_VECTOR, colsum, all * sizeof *colsum);
    t->group = m->o.group;
    if (t->group) t->groups = constant(m, BT_PKG_CONST_SCALE, of, panels * groups * sizeof *of);
    free(of);
    free(colsum);
    free(w);
    free(wp);
}

static void matrix_constants(maker *m, bt_pkg_tensor *t)
{
    const size_t panels = bt_int_panels(t->n);
    if (m->o.palette_run) palette_constants(m, t);
    else integer_constants(m, t);
    t->wscale = floats(m, BT_PKG_CONST_SCALE, t->n, 0.001f, 0.0001f);
    t->oscale = floats(m, BT_PKG_CONST_SCALE, 16 * panels, 0.001f, 0.0001f);
    if (m->o.llm_int8) {
        const size_t elems = bt_matmul_packed_elems(t->n, t->k);
        uint16_t *f16 = malloc(elems * sizeof *f16);
        must(f16 != NULL, "no memory");
        for (size_t i = 0; i < elems; i++)
            f16[i] = (uint16_t)(0x3000 + bt_rng_u64(SEED, m->draws++) % 0x800); /* 0.125 to 0.5 */
        t->f16_panels = constant(m, BT_PKG_CONST_WEIGHT, f16, elems * sizeof *f16);
        free(f16);
    }
}

static void requant_constants(maker *m, bt_pkg_tensor *t)
{
    int32_t mult[512];
    uint8_t shift[512];
    int64_t bias[512];
    const size_t wide = 16 * bt_int_panels(t->n);
    must(wide <= 512, "too wide");
    for (size_t i = 0; i < wide; i++)
        mult[i] = (1 << 30) + (int32_t)i, shift[i] = 40, bias[i] = (int64_t)i - 3;
    t->mult = constant(m, BT_PKG_CONST_SCALE, mult, wide * sizeof *mult);
    t->shift = constant(m, BT_PKG_CONST_SCALE, shift, wide);
    t->bias_q = constant(m, BT_PKG_CONST_VECTOR, bias, wide * sizeof *bias);
    t->out_scale = 0.01f;
    t->out_bits = 16;
}

static void add_tensor(maker *m, uint32_t layer, uint32_t weight, bool present)
{
    bt_pkg_tensor t = nothing(layer, weight);
    if (present) {
        bt_pkg_weight_shape(&m->h, weight, &t.n, &t.k);
        if (bt_pkg_is_vector(weight)) {
            t.bits = 32;
            t.panels = floats(m, BT_PKG_CONST_VECTOR, t.n, 0.5f, 0.125f);
            if (m->o.ops_all) {
                int32_t q[64];
                must(t.n <= 64, "too wide");
                for (uint32_t i = 0; i < t.n; i++) q[i] = draw(m, 127) * 400;
                t.norm_q = constant(m, BT_PKG_CONST_VECTOR, q, t.n * sizeof *q);
                t.norm_shift = 8;
            }
        } else {
            t.bits = m->o.bits;
            t.site = bt_pkg_site_index(m->h.layers, layer, bt_pkg_site_of(weight));
            matrix_constants(m, &t);
            if (weight == BT_WEIGHT_Q) t.bias = floats(m, BT_PKG_CONST_VECTOR, t.n, -1, 0.03125f);
            if (m->o.ops_all && weight != BT_WEIGHT_OUTPUT) requant_constants(m, &t);
            t.weight_error = 0.01f;
            t.output_error = NAN;
        }
    }
    must(bt_pkg_writer_tensor(m->w, &t) == bt_pkg_tensor_index(m->h.layers, layer, weight),
         "order of tensors");
}

static void add_tensors(maker *m)
{
    static const uint32_t order[BT_PKG_LAYER_TENSORS] = {
        BT_WEIGHT_ATTN_NORM,    BT_WEIGHT_Q,      BT_WEIGHT_K,    BT_WEIGHT_V,
        BT_WEIGHT_Q_NORM,       BT_WEIGHT_K_NORM, BT_WEIGHT_O,    BT_WEIGHT_FFN_NORM,
        BT_WEIGHT_GATE,         BT_WEIGHT_UP,     BT_WEIGHT_DOWN, BT_WEIGHT_ATTN_POST_NORM,
        BT_WEIGHT_FFN_POST_NORM};
    for (uint32_t l = 0; l < m->h.layers; l++) {
        for (int i = 0; i < BT_PKG_LAYER_TENSORS; i++) {
            const bool is_post = order[i] == BT_WEIGHT_ATTN_POST_NORM || order[i] == BT_WEIGHT_FFN_POST_NORM,
                       folded = order[i] == BT_WEIGHT_FFN_NORM && l == 0; /* one norm is folded away */
            m->draws = ((m->o.same_layers ? 0 : l) * BT_PKG_LAYER_TENSORS + (uint64_t)i + 1)
                       << 32; /* each tensor has its own numbers */
            add_tensor(m, l, order[i], !folded && !is_post);
        }
    }
    add_tensor(m, UINT32_MAX, BT_WEIGHT_OUT_NORM, true);
    add_tensor(m, UINT32_MAX, BT_WEIGHT_OUTPUT, true);
}

/* qkv: 8 bits, integer shadow; o: 16 bits; up: channels; down: 8 bits, no shadow; head: as qkv. */
static void add_sites(maker *m)
{
    for (uint32_t i = 0; i <= m->h.layers * BT_PKG_LAYER_SITES; i++) {
        const bool head = i == m->h.layers * BT_PKG_LAYER_SITES;
        bt_pkg_site s = {.layer = head ? UINT32_MAX : i / BT_PKG_LAYER_SITES,
                         .kind = head ? BT_SITE_HEAD : i % BT_PKG_LAYER_SITES,
                         .bits = 8,
                         .shadow = BT_SHADOW_VALUE,
                         .k = m->h.dim,
                         .scale = 0.05f,
                         .inv_scale = 20,
                         .clip = 6.35f,
                         .max = 9,
                         .rms = 1,
                         .input_error = 0.01f,
                         .outlier_columns = 0.125f,
                         .hot = BT_PKG_NONE};
        if (m->o.llm_int8) s.shadow = BT_SHADOW_OFF;
        if (s.kind == BT_SITE_O && !m->o.llm_int8) s.bits = 16, s.shadow = BT_SHADOW_OFF;
        if (s.kind == BT_SITE_O) s.k = m->h.heads * m->h.head_dim;
        if (s.kind == BT_SITE_DOWN) s.shadow = BT_SHADOW_OFF, s.k = m->h.ffn;
        if (s.kind == BT_SITE_UP && !m->o.llm_int8) {
            uint8_t hot[512] = {1, 0, 1};
            must(s.k <= sizeof hot, "too wide");
            s.shadow = BT_SHADOW_CHANNEL;
            s.hot = constant(m, BT_PKG_CONST_VECTOR, hot, s.k);
            s.pruned = s.layer == 1;
        }
        bt_pkg_writer_site(m->w, &s);
    }
}

static bt_pkg_rotation rotation(maker *m, uint32_t width, uint32_t blocks)
{
    bt_pkg_rotation r = {.base = 1, .h_base = BT_PKG_NONE, .sign = BT_PKG_NONE, .scale = 0.25f,
                         .blocks = blocks};
    int8_t sign[64], h_base[4] = {1, 1, 1, -1};
    while (r.base << r.log2 < width / blocks) r.log2++;
    must(r.base << r.log2 == width / blocks && width <= 64, "a width that is no power of two");
    for (uint32_t i = 0; i < width / blocks; i++) sign[i] = draw(m, 1) < 0 ? -1 : 1;
    if (blocks == 1) r.sign = constant(m, BT_PKG_CONST_VECTOR, sign, width);
    else r.base = 2, r.log2--, r.h_base = constant(m, BT_PKG_CONST_VECTOR, h_base, sizeof h_base);
    return r;
}

static void put_recipe(maker *m)
{
    char text[201] = "w8a8:a16=";
    const size_t len = strlen(text);
    for (size_t i = len; i < 200; i++) text[i] = "down+"[(i - len) % 5];
    if (!m->o.long_recipe) strcpy(text, m->o.llm_int8 ? "w8a8:llm-int8" : "w8a8");
    else memcpy(text + 196, "head", 5);
    bt_pkg_writer_recipe(m->w, &m->h, text);
}

static void add_header(maker *m)
{
    bt_pkg_header *h = &m->h;
    const size_t angles = (size_t)h->ctx_tokens * (h->rope_dims / 2);
    int16_t q15[4097];
    must(angles <= 4096, "too many angles");
    for (size_t i = 0; i <= angles; i++) q15[i] = (int16_t)(32767 - 997 * (int)(i % 60));
    memcpy(h->model_id, "a model's hash..", 16);
    if (m->o.laid_out)
        h->layout = (bt_pkg_layout){.last_axis_align_bytes = 128,
                                    .query_slice_rows = 2,
                                    .attention_heads_max = 1,
                                    .output_parts = 2,
                                    .tile_rows = 32,
                                    .tile_cols = 32};
    h->kernels_version = BT_KERNELS_NUMERIC_VERSION;
    h->rounding = BT_PKG_ROUND_HALF_UP;
    h->npu_ops = m->o.ops_all ? BT_PKG_OPS_ALL : BT_PKG_OPS_LINEAR;
    h->flags = BT_PKG_FLAG_QKV_BIAS | BT_PKG_FLAG_QK_NORM;
    h->rms_eps = 1e-5f;
    h->attn_scale = 0.25f;
    h->embed_scale = h->add_scale = 1;
    h->rope_base = 10000;
    h->rope_scale = 1;
    h->embed_type = BT_QUANT_F32;
    h->embed = floats(m, BT_PKG_CONST_WEIGHT, (size_t)h->vocab * h->dim, -1, 0.03125f);
    h->rope_cos = floats(m, BT_PKG_CONST_TABLE, angles, -1, 0.03125f);
    h->rope_sin = floats(m, BT_PKG_CONST_TABLE, angles, -1, 0.03125f);
    h->rope_cos_q15 = m->o.ops_all ? constant(m, BT_PKG_CONST_TABLE, q15, angles * 2) : BT_PKG_NONE;
    h->rope_sin_q15 = m->o.ops_all ? constant(m, BT_PKG_CONST_TABLE, q15 + 1, angles * 2) : BT_PKG_NONE;
    h->residual_scale = m->o.ops_all ? 0.001f : 0;
    h->r1 = h->r2 = (bt_pkg_rotation){.h_base = BT_PKG_NONE, .sign = BT_PKG_NONE};
    if (m->o.rotate) {
        h->r1 = rotation(m, h->dim, 1);
        h->r2 = rotation(m, h->heads * h->head_dim, h->heads);
    }
    if (m->o.sparse) {
        bt_pkg_head head[64];
        must(h->layers * h->heads <= 64, "too many heads");
        for (uint32_t i = 0; i < h->layers * h->heads; i++)
            head[i] = (bt_pkg_head){300000 + 1000 * i, 0.03125f, 0.0625f, i ? 0.75f : NAN};
        h->sparse_ppm = 300000;
        h->sparse_dense_rows = 2;
        h->sparse_heads = constant(m, BT_PKG_CONST_TABLE, head, h->layers * h->heads * sizeof *head);
        h->sparse_rotation = rotation(m, h->head_dim, 1);
    }
    h->calib_tokens = 64;
    snprintf(h->model_name, sizeof h->model_name, "tiny");
    put_recipe(m);
    snprintf(h->shape_policy, sizeof h->shape_policy, "chunk:4");
    snprintf(h->profile, sizeof h->profile, "host");
}

/* ---- programs ---- */

static uint32_t rows(const maker *m) { return m->tail ? m->out : m->seq; }

/* A place that begins with the next instruction and lasts to the end of the layer (or, for x, of the
 * program; last_inst is set later). */
static uint64_t new_place(maker *m, bt_pkg_value name, uint64_t bytes)
{
    must(m->places < MAX_PLACES, "too many places");
    m->place[m->places++] =
        (bt_pkg_place){.name = name, .first_inst = m->insts, .offset = m->top, .bytes = bytes};
    const uint64_t at = m->top;
    m->top += bt_pkg_align(bytes);
    if (m->top > m->peak) m->peak = m->top;
    return at;
}

static uint64_t rows_place(maker *m, bt_pkg_value name, uint32_t width, uint32_t elem)
{
    return new_place(m, name, (uint64_t)rows(m) * bt_pkg_layout_stride(&m->h.layout, width, elem));
}

static bt_pkg_inst *emit(maker *m, bt_pkg_op op, uint32_t width, uint64_t in0, uint64_t out)
{
    must(m->insts < MAX_INSTS, "too many instructions");
    bt_pkg_inst *i = &m->inst[m->insts++];
    *i = (bt_pkg_inst){.op = (uint8_t)op,
                       .unit = op >= BT_PKG_LINEAR,
                       .group = 1,
                       .out_rows = m->tail,
                       .layer = m->layer,
                       .tensor = BT_PKG_NONE,
                       .site = BT_PKG_NONE,
                       .in_width = width,
                       .out_width = width,
                       .in0 = in0,
                       .in1 = BT_PKG_NOWHERE,
                       .out = out,
                       .aux = BT_PKG_NOWHERE,
                       .params = op > BT_PKG_LINEAR ? m->params[op] : 0,
                       .in_stride = width * 4,
                       .out_stride = width * 4};
    return i;
}

typedef struct planes {
    uint64_t hi, lo, aux;
    uint32_t stride, site, width;
} planes;

/* from: f32 rows of `width`, or with npu_ops all s32 rows in the site's units. */
static planes quantise(maker *m, bt_site_kind kind, uint32_t width, uint64_t from)
{
    planes p = {.lo = BT_PKG_NOWHERE, .aux = BT_PKG_NOWHERE,
                .stride = bt_pkg_layout_plane_stride(&m->h.layout, width), .width = width};
    p.site = bt_pkg_site_index(m->h.layers, m->layer, kind);
    p.hi = new_place(m, BT_PKG_VALUE_PLANES, (uint64_t)rows(m) * p.stride);
    if (kind == BT_SITE_O && !m->o.llm_int8)
        p.lo = new_place(m, BT_PKG_VALUE_LO, (uint64_t)rows(m) * p.stride);
    if (!m->o.llm_int8 &&
        (kind == BT_SITE_QKV || kind == BT_SITE_HEAD || (kind == BT_SITE_UP && m->layer != 1)))
        p.aux = new_place(m, BT_PKG_VALUE_SHADOW, bt_pkg_shadow_bytes(rows(m), width));
    bt_pkg_inst *i = emit(m, m->o.ops_all ? BT_PKG_INT_SPLIT : BT_PKG_QUANTISE, width, from, p.hi);
    i->site = p.site;
    i->in1 = p.lo;
    i->aux = p.aux;
    i->out_stride = p.stride;
    return p;
}

static uint64_t linear(maker *m, const planes *p, bt_weight weight, bt_pkg_value name, uint32_t group)
{
    uint32_t n, k;
    bt_pkg_weight_shape(&m->h, weight, &n, &k);
    const bool logits = weight == BT_WEIGHT_OUTPUT, wide = !m->o.ops_all || logits;
    const uint64_t out = logits ? BT_PKG_NOWHERE : rows_place(m, name, n, wide ? 4 : 2);
    bt_pkg_inst *i = emit(m, wide ? BT_PKG_LINEAR : BT_PKG_INT_LINEAR, p->width, p->hi, out);
    i->tensor = bt_pkg_tensor_index(m->h.layers, m->layer, weight);
    i->site = p->site;
    i->in1 = p->lo;
    i->aux = p->aux;
    i->in_stride = p->stride;
    i->out_width = n;
    i->out_stride = n * (wide ? 4 : 2);
    i->group = (uint8_t)group;
    i->macs_per_row = (uint64_t)n * k;
    const uint32_t parts = logits ? bt_pkg_layout_parts(&m->h.layout, n) : 1;
    for (uint32_t part = 1; part <= parts && parts > 1; part++) {
        bt_pkg_inst *to = part == 1 ? i : &m->inst[m->insts++];
        *to = *i;
        to->arg = part << 8;
        to->out_width = bt_pkg_layout_part(&m->h.layout, n, part).n;
        to->macs_per_row = (uint64_t)to->out_width * k;
    }
    return out;
}

/* The last instruction as slices. */
static void slice(maker *m)
{
    const bt_pkg_inst whole = m->inst[m->insts - 1];
    const uint32_t slices = (uint32_t)bt_pkg_layout_slices(&m->h.layout, m->seq, m->h.heads);
    if (slices == 1) return;
    m->insts--;
    for (uint32_t n = 1; n <= slices; n++) {
        must(m->insts < MAX_INSTS, "too many instructions");
        m->inst[m->insts] = whole;
        m->inst[m->insts++].arg = n;
    }
}

/* Emitted instructions have the strides of plain rows. */
static void lay_out(maker *m)
{
    for (uint32_t i = 0; i < m->insts; i++) {
        bt_pkg_inst *n = &m->inst[i];
        n->in_stride = bt_pkg_layout_stride(&m->h.layout, n->in_stride, 1);
        if (n->out != BT_PKG_NOWHERE) n->out_stride = bt_pkg_layout_stride(&m->h.layout, n->out_stride, 1);
    }
}

static void heads(maker *m, bool rope, uint64_t at, uint32_t count, bt_weight weight)
{
    const bool all = m->o.ops_all;
    bt_pkg_inst *i = emit(m,
                          rope  ? all ? BT_PKG_INT_ROPE : BT_PKG_ROPE
                          : all ? BT_PKG_INT_QK_NORM
                                : BT_PKG_QK_NORM,
                          count * m->h.head_dim, at, at);
    i->arg = count;
    if (all) i->in_stride = i->out_stride = i->in_width * 2;
    if (!rope) i->tensor = bt_pkg_tensor_index(m->h.layers, m->layer, weight);
}

/* s16 rows to f32. */
static uint64_t dequantise(maker *m, uint64_t from, uint32_t width, bt_weight weight, bt_pkg_value name)
{
    const uint64_t to = rows_place(m, name, width, 4);
    bt_pkg_inst *i = emit(m, BT_PKG_DEQUANTISE16, width, from, to);
    i->params = 0;
    i->in_stride = width * 2;
    i->tensor = bt_pkg_tensor_index(m->h.layers, m->layer, weight);
    return to;
}

static uint64_t norm(maker *m, uint64_t x, bt_weight weight, bt_site_kind kind)
{
    const uint64_t n = rows_place(m, m->o.ops_all ? BT_PKG_VALUE_WIDE : BT_PKG_VALUE_N, m->h.dim, 4);
    bt_pkg_inst *i = emit(m, m->o.ops_all ? BT_PKG_INT_RMSNORM : BT_PKG_RMSNORM, m->h.dim, x, n);
    if (!(weight == BT_WEIGHT_FFN_NORM && m->layer == 0))
        i->tensor = bt_pkg_tensor_index(m->h.layers, m->layer, weight);
    if (m->o.ops_all) i->site = bt_pkg_site_index(m->h.layers, m->layer, kind);
    return n;
}

/* x += what a linear gave */
static void add(maker *m, uint64_t x, uint64_t y, bt_weight weight)
{
    bt_pkg_inst *i = emit(m, m->o.ops_all ? BT_PKG_INT_ADD : BT_PKG_ADD, m->h.dim, x, x);
    i->in1 = y;
    if (m->o.ops_all)
        i->in_stride = m->h.dim * 2, i->tensor = bt_pkg_tensor_index(m->h.layers, m->layer, weight);
}

static uint64_t attend(maker *m, uint64_t q, uint64_t k, uint64_t v)
{
    const bool all = m->o.ops_all;
    const uint32_t qw = m->h.heads * m->h.head_dim, kvw = m->h.kv_heads * m->h.head_dim;
    heads(m, false, q, m->h.heads, BT_WEIGHT_Q_NORM);
    heads(m, false, k, m->h.kv_heads, BT_WEIGHT_K_NORM);
    heads(m, true, q, m->h.heads, BT_WEIGHT_NONE);
    heads(m, true, k, m->h.kv_heads, BT_WEIGHT_NONE);
    if (all) k = dequantise(m, k, kvw, BT_WEIGHT_K, BT_PKG_VALUE_KF);
    if (all) v = dequantise(m, v, kvw, BT_WEIGHT_V, BT_PKG_VALUE_VF);
    emit(m, BT_PKG_KV_STORE, kvw, k, BT_PKG_NOWHERE)->in1 = v;
    uint64_t a = rows_place(m, BT_PKG_VALUE_A, qw, all ? 2 : 4);
    bt_pkg_inst *i = emit(m, all ? BT_PKG_INT_ATTENTION : BT_PKG_ATTENTION, qw, q, a);
    if (all) i->in_stride = i->out_stride = qw * 2;
    slice(m);
    if (all) {
        const uint64_t wide = rows_place(m, BT_PKG_VALUE_WIDE, qw, 4);
        i = emit(m, BT_PKG_INT_ROTATE, qw, a, wide);
        i->in_stride = qw * 2;
        i->arg = m->o.rotate ? 2 : 0;
        i->site = bt_pkg_site_index(m->h.layers, m->layer, BT_SITE_O);
        a = wide;
    } else if (m->o.rotate) {
        emit(m, BT_PKG_ROTATE, qw, a, a)->arg = 2;
    }
    return a;
}

static void lower_layer(maker *m, uint64_t x)
{
    const bt_pkg_header *h = &m->h;
    const uint32_t from = m->places;
    const uint64_t top = m->top;
    planes p = quantise(m, BT_SITE_QKV, h->dim, norm(m, x, BT_WEIGHT_ATTN_NORM, BT_SITE_QKV));
    const uint64_t q = linear(m, &p, BT_WEIGHT_Q, BT_PKG_VALUE_Q, 3);
    const uint64_t k = linear(m, &p, BT_WEIGHT_K, BT_PKG_VALUE_K, 1);
    const uint64_t v = linear(m, &p, BT_WEIGHT_V, BT_PKG_VALUE_V, 1);
    p = quantise(m, BT_SITE_O, h->heads * h->head_dim, attend(m, q, k, v));
    add(m, x, linear(m, &p, BT_WEIGHT_O, BT_PKG_VALUE_O, 1), BT_WEIGHT_O);
    p = quantise(m, BT_SITE_UP, h->dim, norm(m, x, BT_WEIGHT_FFN_NORM, BT_SITE_UP));
    uint64_t gate = linear(m, &p, BT_WEIGHT_GATE, BT_PKG_VALUE_GATE, 2);
    const uint64_t up = linear(m, &p, BT_WEIGHT_UP, BT_PKG_VALUE_UP, 1);
    if (m->o.ops_all) {
        const uint64_t wide = rows_place(m, BT_PKG_VALUE_WIDE, h->ffn, 4);
        bt_pkg_inst *i = emit(m, BT_PKG_INT_SILU_MUL, h->ffn, gate, wide);
        i->in1 = up;
        i->in_stride = h->ffn * 2;
        i->site = bt_pkg_site_index(h->layers, m->layer, BT_SITE_DOWN);
        gate = wide;
    } else {
        emit(m, BT_PKG_SILU_MUL, h->ffn, gate, gate)->in1 = up;
    }
    p = quantise(m, BT_SITE_DOWN, h->ffn, gate);
    add(m, x, linear(m, &p, BT_WEIGHT_DOWN, BT_PKG_VALUE_D, 1), BT_WEIGHT_DOWN);
    for (uint32_t i = from; i < m->places; i++) m->place[i].last_inst = m->insts - 1;
    m->top = top;
}

static void list_sessions(const maker *m, bt_pkg_session ret[2])
{
    const uint32_t cut = m->o.two_sessions ? 0 : m->h.layers;
    ret[0] = (bt_pkg_session){.first_layer = 0, .last_layer = cut, .mapped_bytes = 1000};
    ret[1] = (bt_pkg_session){.first_layer = cut + 1, .last_layer = m->h.layers, .mapped_bytes = 900};
}

/* The program that was made, as the compiler stores it. */
static uint32_t store(maker *m, bt_pkg_program *p)
{
    bt_pkg_session session[2];
    bt_lowered l = {.inst = malloc(m->insts * sizeof *l.inst), .insts = m->insts, .place = m->place,
                    .places = m->places, .program = *p};
    must(l.inst != NULL, "no memory");
    memcpy(l.inst, m->inst, m->insts * sizeof *l.inst);
    list_sessions(m, session);
    must(bt_switches_insert(&l, session, m->o.two_sessions ? 2 : 1, m->h.layers, 1000, NULL) == BT_OK,
         "switches");
    if (m->bodies) {
        must(bt_bodies_pack(m->bodies, &l, m->w, NULL) == BT_OK, "packing");
    } else {
        l.program.code = constant(m, BT_PKG_CONST_CODE, l.inst, l.insts * sizeof *l.inst);
        l.program.plan = constant(m, BT_PKG_CONST_PLAN, l.place, l.places * sizeof *l.place);
    }
    free(l.inst);
    *p = l.program;
    return bt_pkg_writer_program(m->w, p);
}

static uint32_t lower(maker *m, uint32_t seq, uint32_t out)
{
    m->insts = m->places = 0;
    m->top = m->peak = 0;
    m->seq = seq;
    m->out = out;
    m->tail = false;
    m->layer = UINT32_MAX;
    const uint64_t x0 = rows_place(m, BT_PKG_VALUE_X, m->h.dim, 4);
    uint64_t x = x0;
    emit(m, BT_PKG_EMBED, m->h.dim, BT_PKG_NOWHERE, x);
    if (m->o.rotate) emit(m, BT_PKG_ROTATE, m->h.dim, x, x)->arg = 1;
    if (m->o.ops_all) {
        x = rows_place(m, BT_PKG_VALUE_X, m->h.dim, 4);
        emit(m, BT_PKG_QUANTISE32, m->h.dim, x0, x);
    }
    const uint32_t held = m->places;
    for (m->layer = 0; m->layer < m->h.layers; m->layer++) lower_layer(m, x);
    m->layer = UINT32_MAX;
    const uint32_t from = m->places;
    if (out) {
        m->tail = true;
        const uint64_t s = rows_place(m, BT_PKG_VALUE_S, m->h.dim, 4);
        emit(m, BT_PKG_SELECT_ROWS, m->h.dim, x, s);
        const planes p = quantise(m, BT_SITE_HEAD, m->h.dim, norm(m, s, BT_WEIGHT_OUT_NORM, BT_SITE_HEAD));
        linear(m, &p, BT_WEIGHT_OUTPUT, BT_PKG_VALUE_OTHER, 1);
    }
    lay_out(m);
    for (uint32_t i = 0; i < m->places; i++)
        if (i < held || i >= from) m->place[i].last_inst = m->insts - 1;
    bt_pkg_program p = {.insts = m->insts, .places = m->places, .seq = seq,
                        .out = out,        .ctx = m->ctx,       .arena_bytes = m->peak};
    if (m->peak > m->h.arena_bytes) m->h.arena_bytes = m->peak;
    return store(m, &p);
}

static void add_params(maker *m)
{
    const int32_t one = 1 << 30; /* one / 2^30: the unit stays */
    static const bt_pkg_op norms[] = {BT_PKG_INT_RMSNORM, BT_PKG_INT_QK_NORM},
                           units[] = {BT_PKG_INT_ROTATE, BT_PKG_INT_ADD};
    const bt_pkg_int_params norm = {.m = {30000}, .s = {8}, .eps = 77}, unit = {.m = {one}, .s = {30}};
    const bt_pkg_int_params attention = {.m = {one, one}, .s = {20, 28}, .k_shift = 6, .v_shift = 6},
                            silu = {.m = {one, one}, .s = {14, 34}};
    for (size_t i = 0; i < sizeof m->params / sizeof *m->params; i++) m->params[i] = BT_PKG_NONE;
    for (int i = 0; i < 2; i++) m->params[norms[i]] = constant(m, BT_PKG_CONST_VECTOR, &norm, sizeof norm);
    for (int i = 0; i < 2; i++) m->params[units[i]] = constant(m, BT_PKG_CONST_VECTOR, &unit, sizeof unit);
    m->params[BT_PKG_INT_ATTENTION] = constant(m, BT_PKG_CONST_VECTOR, &attention, sizeof attention);
    m->params[BT_PKG_INT_SILU_MUL] = constant(m, BT_PKG_CONST_VECTOR, &silu, sizeof silu);
}

static void add_rows(maker *m)
{
    for (int i = 0; i < 4 && m->o.seqs[i]; i++) {
        const uint32_t seq = m->o.seqs[i];
        bt_pkg_row row = {.batch = 1, .seq_min = seq, .seq = seq};
        m->ctx = m->bodies ? m->h.ctx_tokens / 2 : 0;
        for (int o = 0; o < BT_PKG_OUTS; o++) row.program[o] = lower(m, seq, o == 0 ? 0 : o == 1 ? 1 : seq);
        row.ctx = m->h.ctx_tokens / 2;
        bt_pkg_writer_row(m->w, &row);
        row.ctx = m->h.ctx_tokens;
        m->ctx = m->bodies ? row.ctx : 0;
        for (int o = 0; m->bodies && o < BT_PKG_OUTS; o++)
            row.program[o] = lower(m, seq, o == 0 ? 0 : o == 1 ? 1 : seq);
        bt_pkg_writer_row(m->w, &row);
        m->h.max_seq = seq;
    }
}

void tiny_pkg_write(const char *path, const tiny_pkg *o)
{
    maker *m = calloc(1, sizeof *m);
    bt_fault f = {""};
    must(m != NULL, "no memory");
    m->o = *o;
    if (!m->o.bits) m->o.bits = 8;
    if (!m->o.seqs[0]) m->o.seqs[0] = 4;
    m->h.layers = o->layers ? o->layers : 2;
    m->h.dim = o->dim ? o->dim : 16;
    m->h.ffn = o->ffn ? o->ffn : 24;
    m->h.heads = o->heads ? o->heads : 2;
    m->h.kv_heads = o->kv_heads ? o->kv_heads : 1;
    m->h.head_dim = m->h.rope_dims = o->head_dim ? o->head_dim : 8;
    m->h.vocab = o->vocab ? o->vocab : 20;
    m->h.ctx_tokens = o->ctx ? o->ctx : 32;
    must(bt_pkg_writer_new(&m->w, path, &f) == BT_OK, f.text);
    if (m->o.ops_all) add_params(m); /* first: constant 0 is a good index for parameters too */
    if (m->o.packed) must(bt_bodies_new(&m->bodies, &f) == BT_OK, f.text);
    add_header(m);
    add_tensors(m);
    add_sites(m);
    add_rows(m);
    const bt_pkg_fallback fallback = {.op = "rmsnorm", .why = "npu_ops linear", .count = 5};
    bt_pkg_session session[2];
    list_sessions(m, session);
    bt_pkg_writer_fallback(m->w, &fallback);
    for (int i = 0; i < (m->o.two_sessions ? 2 : 1); i++) bt_pkg_writer_session(m->w, &session[i]);
    if (m->bodies) bt_bodies_write(m->bodies, m->w, &m->h);
    bt_bodies_free(m->bodies);
    must(bt_pkg_writer_finish(m->w, &m->h, &f) == BT_OK, f.text);
    bt_pkg_writer_free(m->w);
    free(m);
}

bt_pkg *tiny_pkg_open(const tiny_pkg *o)
{
    char path[] = "/tmp/baton_tiny_pkg_XXXXXX";
    bt_fault fault = {""};
    bt_pkg *p = NULL;
    const int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    if (fd >= 0) tiny_pkg_write(path, o);
    if (fd < 0 || bt_pkg_open(&p, path, &fault) < 0) {
        fprintf(stderr, "tiny_pkg: '%s': %s\n", path, fault.text);
        abort();
    }
    unlink(path);
    return p;
}

uint8_t *tiny_pkg_read(size_t *ret_len, const char *path)
{
    FILE *f = fopen(path, "rb");
    must(f && fseek(f, 0, SEEK_END) == 0, "reading it back");
    const long len = ftell(f);
    uint8_t *bytes = tiny_pkg_alloc((size_t)len);
    rewind(f);
    must(fread(bytes, 1, (size_t)len, f) == (size_t)len, "reading it back");
    fclose(f);
    *ret_len = (size_t)len;
    return bytes;
}

uint8_t *tiny_pkg_bytes(size_t *ret_len, const tiny_pkg *o)
{
    char path[4096];
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/tiny_pkg.%ld", dir ? dir : "/tmp", (long)getpid());
    tiny_pkg_write(path, o);
    uint8_t *bytes = tiny_pkg_read(ret_len, path);
    unlink(path);
    return bytes;
}

void tiny_pkg_repair(uint8_t *bytes, size_t len)
{
    const bt_pkg p = {.bytes = bytes, .len = len};
    if (bt_pkg_check_layout(&p, NULL) < 0) return;
    bt_pkg_header *h = (void *)bytes;
    bt_pkg_const *c = (void *)(bytes + h->consts.offset);
    for (uint32_t i = 0; i < h->consts.count; i++)
        bt_hash128(c[i].hash, bytes + c[i].offset, (size_t)c[i].bytes);
    const void *const table[BT_PKG_TABLES] = {bt_pkg_consts(&p),  bt_pkg_tensors(&p),  bt_pkg_sites(&p),
                                              bt_pkg_rows(&p),    bt_pkg_programs(&p), bt_pkg_fallbacks(&p),
                                              bt_pkg_sessions(&p)};
    bt_pkg_digest(h->digest, h, table);
}

uint8_t *tiny_pkg_patched(const uint8_t *base, size_t n, const uint8_t *data, size_t len)
{
    const size_t place = n > 65536 ? 3 : 2;
    uint8_t *b = tiny_pkg_alloc(n);
    memcpy(b, base, n);
    for (size_t i = 1; i + place + 1 < len;) {
        const size_t width = (size_t)1 << (data[i] & 3);
        size_t at = 0;
        for (size_t k = place; k > 0; k--) at = at << 8 | data[i + k];
        at %= n;
        i += 1 + place;
        for (size_t k = 0; k < width && i < len && at + k < n; k++) b[at + k] = data[i++];
    }
    return b;
}
