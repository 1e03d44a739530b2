/* A layer as operators of device/price.h, each under its stage. */
#include "lab/plan/programs.h"
#include "device/on_chip.h"
#include "npu/lower/offload.h"
#include "npu/compile/plan_limits.h"
#include "npu/lower/sessions.h"
#include "npu/pkg/pkg_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SESSIONS_PART = TOOL_PLAN_STAGES, MAX_OPS = 64 * (BT_RECIPE_MAX_PARTS + 1) };

#define FLOAT(bits) \
    { \
        .usual = { .weight_bits = (bits), .input_bits = {16, 16, 16, 16, 16} } \
    }
static const tool_plan_form floats[] = {
    {.name = "f16", .recipe = FLOAT(16), .weight_bits = 16, .weight_permille = 2000},
    {.name = "int8", .recipe = FLOAT(8), .weight_bits = 8, .weight_permille = 1062},
    {.name = "fp4", .recipe = FLOAT(4), .weight_bits = 4, .weight_permille = 625},
};
const tool_plan_form *tool_plan_float_form(size_t i)
{
    return i < sizeof floats / sizeof *floats ? &floats[i] : NULL;
}

tool_plan_form tool_plan_form_of(const bt_recipe *r)
{
    tool_plan_form f = {.recipe = *r, .weight_bits = r->usual.weight_bits};
    for (uint8_t i = 0; i < r->parts; i++)
        if (r->part[i].weight_bits < f.weight_bits) f.weight_bits = r->part[i].weight_bits;
    bt_recipe_text(f.name, r);
    return f;
}

uint32_t tool_plan_form_input_bits(const tool_plan_form *f)
{
    const bt_recipe *r = &f->recipe;
    uint32_t least = 16;
    for (uint8_t i = 0; i <= r->parts; i++)
        for (int k = 0; k < BT_SITE_KINDS; k++) {
            const uint32_t bits = (i ? r->part[i - 1] : r->usual).input_bits[k];
            if (bits < least) least = bits;
        }
    return least;
}

/* int8 rows have a scale of 2 bytes a head (kernels/kv_view.h). */
const tool_plan_kv tool_plan_kvs[] = {{"f16", 2, 0}, {"int8", 1, 2}, {NULL, 0, 0}};

uint64_t tool_plan_kv_bytes(const tool_plan_kv *k, const bt_dims *s)
{
    return (uint64_t)2 * s->layers * s->kv_heads * ((uint64_t)s->head_dim * k->elem_bytes + k->head_bytes);
}

bool tool_plan_stage_is_npu(uint32_t stage) { return stage == 1 || stage == 4 || stage == 6 || stage == 8; }

/* ---- operators ---- */
typedef struct maker {
    const bt_profile *p;
    const bt_dims *s;
    const tool_plan_form *f;
    const bt_recipe_layer *layer; /* of the `layers` at hand, or of the head */
    uint32_t layers;
    uint64_t rows, spill_bytes, sync_ns;
    bt_sparse sparse; /* heads 0: dense */
    bt_price_op op[MAX_OPS];
    size_t n;
} maker;

static uint64_t pieces(uint64_t n, uint64_t of) { return of ? (n + of - 1) / of : n; }
static uint64_t or_one(uint64_t n) { return n ? n : 1; }

/* As npu/lower/plan.h counts a linear. */
static uint64_t spill_of(const bt_profile *p, const bt_time_matrix *m, uint32_t stored_bits)
{
    const uint64_t band_rows = or_one(p->tile_rows), unit_rows = or_one(p->tile_input_rows);
    const uint64_t inputs = pieces(m->inputs, or_one(p->tile_cols)) * or_one(p->tile_cols);
    const bt_on_chip_op op = {
        .bands = pieces(m->outputs, band_rows),    .band_bytes = (band_rows * inputs * stored_bits + 7) / 8,
        .units = pieces(m->rows, unit_rows),       .unit_bytes = unit_rows * m->inputs * m->input_bits / 8,
        .output_bytes = unit_rows * band_rows * 2,
    };
    const bt_on_chip_plan plan = bt_on_chip_best(&op, p->on_chip_bytes);
    return bt_on_chip_spilled(&plan);
}

static void add(maker *m, const bt_price_op *op)
{
    if (m->n < MAX_OPS) m->op[m->n++] = *op;
}

static bt_price_op matrix(maker *m, uint64_t rows, uint64_t in, uint64_t out, bt_site_kind site,
                          uint32_t count)
{
    bt_price_op op = {.count = count};
    op.matrix = (bt_time_matrix){.rows = rows,
                                 .inputs = in,
                                 .outputs = out,
                                 .weight_bits = m->layer->weight_bits,
                                 .input_bits = m->layer->input_bits[site],
                                 .group = bt_recipe_group(m->layer)};
    if (m->layer->palette_bits)
        op.matrix.weight_bytes = bt_time_palette_bytes(in, out, m->layer->palette_bits);
    op.matrix.spill_bytes = spill_of(m->p, &op.matrix, bt_recipe_stored_bits(m->layer));
    m->spill_bytes = bt_time_plus(m->spill_bytes, bt_time_times(op.matrix.spill_bytes, count));
    return op;
}

static void add_matrix(maker *m, uint8_t stage, uint64_t in, uint64_t out, bt_site_kind site,
                       bool is_row_split)
{
    bt_price_op op = matrix(m, m->rows, in, out, site, m->layers);
    op.part = stage;
    op.is_row_split = is_row_split;
    add(m, &op);
}

/* Reads and writes so many bytes of a row. */
static void add_rows(maker *m, uint8_t stage, uint64_t row_bytes)
{
    const bt_price_op op = {.bytes = m->rows * row_bytes, .count = m->layers, .part = stage,
                            .is_companion = true};
    add(m, &op);
}

static void add_quantise(maker *m, uint8_t stage, uint64_t width, bt_site_kind site)
{
    add_rows(m, stage, 4 * width + width * m->layer->input_bits[site] / 8);
}

/* Layers of one recipe. */
static void add_layer(maker *m)
{
    const bt_dims *s = m->s;
    const uint64_t d = s->hidden, q = (uint64_t)s->heads * s->head_dim,
                   k = (uint64_t)s->kv_heads * s->head_dim, f = s->ffn;
    for (uint8_t stage = 0; stage < TOOL_PLAN_STAGES && m->sync_ns; stage++)
        if (stage != TOOL_PLAN_ATTENTION)
            add(m, &(bt_price_op){.fixed_ns = m->sync_ns, .count = m->layers, .part = stage});
    for (uint8_t stage = 0; stage < TOOL_PLAN_STAGES; stage++) /* a graph each: others' work lies between */
        if (tool_plan_stage_is_npu(stage))
            add(m, &(bt_price_op){.is_dispatch = true, .count = m->layers, .part = stage});
    for (uint8_t stage = 0; stage <= 5; stage += 5) { /* a residual's sum, a norm */
        add_rows(m, stage, 8 * d);
        add_rows(m, stage, 8 * d);
        add_quantise(m, stage, d, stage ? BT_SITE_UP : BT_SITE_QKV);
    }
    add_matrix(m, 1, d, q, BT_SITE_QKV, false);
    add_matrix(m, 1, d, k, BT_SITE_QKV, false);
    add_matrix(m, 1, d, k, BT_SITE_QKV, false);
    add_rows(m, 2, 8 * q);
    add_rows(m, 2, 8 * k);
    add_rows(m, 2, 8 * k);
    if (m->f->recipe.r2) add_rows(m, TOOL_PLAN_ATTENTION, 8 * q);
    add_quantise(m, TOOL_PLAN_ATTENTION, q, BT_SITE_O);
    add_matrix(m, 4, q, d, BT_SITE_O, true);
    if (s->ffn_matrices == 3) add_matrix(m, 6, d, f, BT_SITE_UP, false);
    add_matrix(m, 6, d, f, BT_SITE_UP, false);
    add_rows(m, 7, 8 * f);
    if (m->f->recipe.r4) add_rows(m, 7, 8 * f);
    add_quantise(m, 7, f, BT_SITE_DOWN);
    add_matrix(m, 8, f, d, BT_SITE_DOWN, true);
}

/* All layers; then the head's recipe is at hand. */
static void add_layers(maker *m)
{
    const bt_recipe *r = &m->f->recipe;
    for (uint8_t p = 0; p <= r->parts; p++) {
        m->layers = 0;
        for (uint32_t l = 0; l < m->s->layers; l++)
            if (r->part_of[l] == p) {
                m->layers++;
                m->layer = bt_recipe_of(r, l, BT_SITE_QKV);
            }
        if (m->layers) add_layer(m);
    }
    m->layer = bt_recipe_of(r, 0, BT_SITE_HEAD);
}

/* ---- limits ---- */

bt_err tool_plan_form_check(const bt_profile *p, const bt_dims *s, const bt_recipe *r, bt_fault *fault)
{
    char why[96];
    bt_err e = bt_recipe_check_layers(r, s->layers, fault);
    for (uint32_t i = 0; e == BT_OK && i < s->layers * BT_SITE_KINDS; i++) {
        const bt_site_kind site = (bt_site_kind)(i % BT_SITE_KINDS);
        const bt_recipe_layer *own = bt_recipe_of(r, i / BT_SITE_KINDS, site);
        const uint32_t inputs = bt_pkg_site_width(site, s->hidden, s->heads * s->head_dim, s->ffn);
        e = bt_recipe_check_group(own, site, inputs, fault);
        if (e == BT_OK && !bt_offload_linear(why, p, own, site, inputs))
            e = bt_fail(fault, BT_EARG, "the linears '%s' would not run on the NPU: %s",
                        bt_site_kind_name(site), why);
    }
    return e;
}

static uint64_t session_bytes(const bt_profile *p, uint64_t n, uint64_t k, const bt_recipe_layer *r)
{
    return bt_sessions_matrix_bytes(p, n, k, bt_recipe_stored_bits(r), bt_recipe_group(r),
                                    bt_recipe_palette_run(r, (uint32_t)k));
}

static bt_err split_sessions(tool_plan_programs *ret, const bt_profile *p, const bt_dims *s,
                             const tool_plan_form *form, bt_fault *fault)
{
    bt_dims_matrix m[BT_DIMS_MATRICES];
    const size_t matrices = bt_dims_matrices(m, s), parts = (size_t)s->layers + 1;
    bt_sessions_weight *weight = malloc((s->layers * matrices + 1) * sizeof *weight);
    bt_pkg_session *session = malloc(parts * sizeof *session);
    size_t n = 0, sessions = 0;
    bt_err e = weight && session ? BT_OK : bt_fail(fault, BT_ENOMEM, "splitting a model");
    for (uint32_t l = 0; e == BT_OK && l < s->layers; l++)
        for (size_t i = 0; i < matrices; i++, n++)
            weight[n] = (bt_sessions_weight){
                l, (uint32_t)n,
                session_bytes(p, m[i].outputs, m[i].inputs, bt_recipe_of(&form->recipe, l, BT_SITE_QKV))};
    if (e == BT_OK) {
        weight[n] = (bt_sessions_weight){
            s->layers, (uint32_t)n,
            session_bytes(p, s->vocab, s->hidden, bt_recipe_of(&form->recipe, 0, BT_SITE_HEAD))};
        n++;
        for (size_t i = 0; i < n; i++) ret->weight_bytes = bt_time_plus(ret->weight_bytes, weight[i].bytes);
        e = bt_sessions_split(session, &sessions, p, weight, n, parts, ret->arena_bytes, fault);
    }
    ret->sessions = (uint32_t)sessions;
    free(weight);
    free(session);
    return e;
}

/* A chunk's arena: the residual, a norm's output, q, k and v, and two halves of the feed-forward block, in
 * FP32.
 */
static uint64_t arena_of(const bt_dims *s, uint64_t rows)
{
    const uint64_t width =
        (uint64_t)2 * s->hidden + (uint64_t)(s->heads + 2 * s->kv_heads) * s->head_dim + (uint64_t)2 * s->ffn;
    return bt_time_times(rows, 4 * width);
}

static bt_err add_program(tool_plan_programs *ret, maker *m, const bt_shape *shape, const tool_plan_kv *kv,
                          uint32_t ctx, bt_fault *fault)
{
    const bt_profile *p = m->p;
    m->rows = shape->seq;
    m->n = 0;
    m->spill_bytes = 0;
    add_layers(m);
    if (ret->sessions > 1 && p->session_switch_ns)
        add(m,
            &(bt_price_op){.fixed_ns = p->session_switch_ns, .count = ret->sessions, .part = SESSIONS_PART});
    const bt_price_attention a = {.layers = m->s->layers,
                                  .heads = m->s->heads,
                                  .kv_heads = m->s->kv_heads,
                                  .head_dim = m->s->head_dim,
                                  .kv_elem_bits = 8 * kv->elem_bytes,
                                  .ctx = ctx,
                                  .part = TOOL_PLAN_ATTENTION,
                                  .is_companion = true,
                                  .sparse = m->sparse.heads ? &m->sparse : NULL};
    ret->spill_bytes = m->spill_bytes;
    return bt_price_add(&ret->price, shape->seq, m->op, m->n, &a, fault);
}

static bt_sparse sparse_of(const bt_attention *a, const bt_dims *s, const tool_plan_kv *kv)
{
    bt_sparse r = {.heads = s->heads,           .kv_heads = s->kv_heads,
                   .head_dim = s->head_dim,     .kv_elem_bits = 8 * kv->elem_bytes,
                   .dense_rows = a->dense_rows, .rows = a->rows,
                   .is_group = a->is_group};
    for (uint32_t i = 0; i < s->heads; i++) r.ppm[i] = a->ratio_ppm;
    return r;
}

static bt_err set_attention(maker *m, const bt_attention *a, const tool_plan_kv *kv, const bt_shapes *shapes,
                            bt_fault *fault)
{
    if (!a || !a->ratio_ppm) return BT_OK;
    if (m->s->heads > BT_HEADS_MAX)
        return bt_fail(fault, BT_EARG, "sparse attention of %u heads: at most %d", (unsigned)m->s->heads,
                       BT_HEADS_MAX);
    m->sparse = sparse_of(a, m->s, kv);
    return bt_plan_limits_attention(a, m->s->head_dim, m->p, shapes, fault);
}

bt_err tool_plan_programs_make(tool_plan_programs *ret, const bt_profile *profile,
                               const bt_profile *companion, const bt_dims *s, const tool_plan_form *form,
                               const tool_plan_kv *kv, const bt_attention *attention, const bt_shapes *shapes,
                               size_t ctx_tokens, bool is_one_bucket, bt_fault *fault)
{
    maker m = {.p = profile, .s = s, .f = form};
    uint32_t last = 0;
    *ret = (tool_plan_programs){.layers = s->layers};
    bt_err e = bt_price_begin(&ret->price, profile, fault);
    if (e == BT_OK && companion) ret->price.companion = *companion;
    if (e == BT_OK) m.sync_ns = bt_time_sync(&profile->time, &ret->price.companion.time);
    ret->arena_bytes = arena_of(s, shapes->shape[shapes->shapes - 1].seq);
    if (e == BT_OK) e = set_attention(&m, attention, kv, shapes, fault);
    if (e == BT_OK) e = split_sessions(ret, profile, s, form, fault);
    for (size_t i = 0; e == BT_OK && i < shapes->shapes; i++) {
        const bt_shape *shape = &shapes->shape[i];
        const uint32_t bucket =
            is_one_bucket ? (uint32_t)ctx_tokens : (uint32_t)bt_shapes_bucket(shape, ctx_tokens, 0);
        if (shape->seq == last) continue; /* in a longer context */
        e = add_program(ret, &m, shape, kv, profile->static_ctx ? bucket : 0, fault);
        last = shape->seq;
    }
    if (e == BT_OK) {
        const bt_price_op head = matrix(&m, 1, s->hidden, s->vocab, BT_SITE_HEAD, 1);
        const bt_price_op graph = {.is_dispatch = true, .count = 1};
        const bt_price_op wait = {.fixed_ns = m.sync_ns, .count = 1};
        bt_price_last(&ret->price, &graph);
        if (m.sync_ns) bt_price_last(&ret->price, &wait);
        bt_price_last(&ret->price, &head);
    }
    return e;
}

uint32_t tool_plan_program_for(const tool_plan_programs *p, uint64_t rows)
{
    uint32_t i = 0;
    while (i + 1 < p->price.programs && p->price.program[i].rows < rows) i++;
    return i;
}

uint64_t tool_plan_stage_ns(const tool_plan_programs *p, uint32_t i, uint64_t first, uint32_t stage)
{
    const bt_price_program *g = &p->price.program[i];
    uint64_t ns = g->part_ns[stage];
    if (stage == TOOL_PLAN_ATTENTION)
        ns = bt_time_plus(ns, bt_price_chunk_ns(&p->price, i, first) - g->compute.fixed);
    if (stage == 1) ns = bt_time_plus(ns, g->part_ns[SESSIONS_PART]);
    return (ns + p->layers - 1) / p->layers;
}

uint64_t tool_plan_owed_ns(const tool_plan_programs *p, uint32_t i, uint64_t first, uint32_t stage)
{
    if (stage != TOOL_PLAN_ATTENTION + 1) return 0;
    return (bt_price_estimate_ns(&p->price, i, first) + p->layers - 1) / p->layers;
}
