/* A package by the shortest way. */
#include "model/gguf.h"
#include "tests/helpers/model/npu_kit.h"
#include "graph/walk.h"
#include "npu/compile/compile.h"
#include "npu/lower/lower.h"
#include "npu/pkg/shapes.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALIB = 48 };

typedef struct kit {
    const bt_model *m;
    const npu_kit_options *options;
    bt_recipe recipe;
    bt_weights *packed;
    bt_graph *graph;
    bt_pkg_writer *w;
    uint32_t layers;
    float *max; /* [sites]: greatest magnitude of each input */
} kit;

static void must(bt_err e, const bt_fault *f)
{
    if (e == BT_OK) return;
    fprintf(stderr, "npu_kit: %s\n", f->text);
    abort();
}

static void *room(size_t bytes)
{
    void *p = engine_kit_alloc(bytes);
    memset(p, 0, bytes);
    return p;
}

static void watch(void *ud, const bt_step *step, const float *in, const float *out, size_t rows)
{
    (void)out;
    kit *k = ud;
    if (step->kind != BT_OP_LINEAR) return;
    float *max = &k->max[bt_pkg_site_index(k->layers, step->layer, bt_pkg_site_of(step->weight))];
    for (size_t i = 0; i < rows * step->in_width[0]; i++) *max = fmaxf(*max, fabsf(in[i]));
}

static void calibrate(kit *k)
{
    bt_fault f;
    bt_walk *host;
    bt_program *p;
    int32_t ids[CALIB];
    bt_kv_view kv = engine_kit_pages(k->m, CALIB, 16, 2);
    const bt_walk_config wc = {.weights = k->packed, .kernels = bt_kernels_select(NULL), .sequences_max = 1};
    must(bt_walk_new(&host, &wc, &f), &f);
    must(bt_bind_program(&p, k->graph, 1, CALIB, CALIB, 0, &f), &f);
    engine_kit_ids(ids, CALIB, k->m, 4711);
    const bt_companion_seq seq = {&kv, 0, CALIB};
    void *arena = room(p->arena.fixed);
    float *logits = room(CALIB * k->m->hp.vocab * sizeof *logits);
    const bt_walk_io io = {.ids = ids,       .seq = &seq,      .sequences = 1, .bucket = 1,
                           .logits = logits, .on_step = watch, .on_step_ud = k};
    must(bt_walk_run(host, p, arena, &io, &f), &f);
    free(arena);
    free(logits);
    bt_bind_free(p);
    bt_walk_free(host);
    engine_kit_pages_free(&kv);
}

static uint32_t put(kit *k, bt_pkg_const_kind kind, const void *bytes, size_t len)
{
    return bt_pkg_writer_const(k->w, kind, bytes, len);
}

static bt_pkg_tensor absent(uint32_t layer, uint32_t weight)
{
    return (bt_pkg_tensor){.layer = layer,           .weight = weight,      .site = BT_PKG_NONE,
                           .panels = BT_PKG_NONE,    .wscale = BT_PKG_NONE, .oscale = BT_PKG_NONE,
                           .bias = BT_PKG_NONE,      .colsum = BT_PKG_NONE, .mult = BT_PKG_NONE,
                           .shift = BT_PKG_NONE,     .bias_q = BT_PKG_NONE, .norm_q = BT_PKG_NONE,
                           .f16_panels = BT_PKG_NONE};
}

static void put_vector(kit *k, uint32_t layer, bt_weight weight, const bt_gguf_tensor *from)
{
    bt_pkg_tensor t = absent(layer, weight);
    if (from) {
        t.n = (uint32_t)from->dim[0];
        t.k = 1;
        t.bits = 32;
        t.panels = put(k, BT_PKG_CONST_VECTOR,
                       bt_weights_vector_of(k->packed, layer == UINT32_MAX ? 0 : layer, weight),
                       t.n * sizeof(float));
    }
    bt_pkg_writer_tensor(k->w, &t);
}

static void put_matrix(kit *k, uint32_t layer, bt_weight weight, const bt_gguf_tensor *from,
                       const bt_pkg_site *sites)
{
    bt_pkg_tensor t = absent(layer, weight);
    if (!from) {
        bt_pkg_writer_tensor(k->w, &t);
        return;
    }
    const uint32_t site = bt_pkg_site_index(k->layers, layer, bt_pkg_site_of(weight));
    const bt_weights_matrix *packed =
        bt_weights_matrix_of(k->packed, layer == UINT32_MAX ? 0 : layer, weight);
    const size_t kk = (size_t)from->dim[0], n = (size_t)from->dim[1], wide = 16 * bt_int_panels(n);
    t.n = (uint32_t)n;
    t.k = (uint32_t)kk;
    if (packed->bias) t.bias = put(k, BT_PKG_CONST_VECTOR, packed->bias, n * sizeof(float));
    if (k->options->fall_back && weight == BT_WEIGHT_UP) {
        t.bits = 16;
        t.panels = put(k, BT_PKG_CONST_WEIGHT, packed->panels, bt_matmul_packed_elems(n, kk) * 2);
        bt_pkg_writer_tensor(k->w, &t);
        return;
    }
    t.bits = k->recipe.usual.weight_bits;
    t.site = site;
    const int limit = t.bits == 8 ? 127 : 7;
    const size_t bytes = bt_int_panels(n) * bt_int_panel_bytes(kk, t.bits);
    uint8_t *panels = room(bytes);
    float *row = room(kk * sizeof *row), *scale = room(n * sizeof *scale),
          *oscale = room(wide * sizeof *oscale);
    int32_t *colsum = room(wide * sizeof *colsum);
    int8_t *q = room(kk);
    for (size_t i = 0; i < n; i++) {
        float max = 0;
        bt_model_row_f32(row, from, i);
        for (size_t j = 0; j < kk; j++) max = fmaxf(max, fabsf(row[j]));
        scale[i] = max > 0 ? max / (float)limit : 1;
        oscale[i] = scale[i] * sites[site].scale;
        for (size_t j = 0; j < kk; j++)
            colsum[i] += q[j] = (int8_t)fmaxf(fminf(rintf(row[j] / scale[i]), (float)limit), (float)-limit);
        bt_int_pack(panels, q, i, 1, kk, t.bits);
    }
    t.panels = put(k, BT_PKG_CONST_WEIGHT, panels, bytes);
    t.wscale = put(k, BT_PKG_CONST_SCALE, scale, n * sizeof *scale);
    t.oscale = put(k, BT_PKG_CONST_SCALE, oscale, wide * sizeof *oscale);
    t.colsum = put(k, BT_PKG_CONST_VECTOR, colsum, wide * sizeof *colsum);
    bt_pkg_writer_tensor(k->w, &t);
    free(panels);
    free(row);
    free(scale);
    free(oscale);
    free(colsum);
    free(q);
}

static void put_sites(kit *k, bt_pkg_site *sites)
{
    const bt_hparams *hp = &k->m->hp;
    for (uint32_t i = 0; i <= k->layers * BT_PKG_LAYER_SITES; i++) {
        const bool is_head = i == k->layers * BT_PKG_LAYER_SITES;
        const uint32_t kind = is_head ? BT_SITE_HEAD : i % BT_PKG_LAYER_SITES;
        bt_pkg_site *s = &sites[i];
        *s = (bt_pkg_site){.layer = is_head ? UINT32_MAX : i / BT_PKG_LAYER_SITES, .kind = kind,
                           .hot = BT_PKG_NONE};
        s->k = kind == BT_SITE_O ? hp->heads * hp->head_dim : kind == BT_SITE_DOWN ? hp->ffn : hp->dim;
        s->bits = k->recipe.usual.input_bits[kind];
        s->shadow = k->recipe.shadow;
        s->max = k->max[i];
        s->clip = s->max * (k->options->clip > 0 ? k->options->clip : 0.5f);
        s->scale = s->clip / (s->bits == 16 ? 32639.0f : 127.0f);
        s->inv_scale = 1 / s->scale;
        if (s->shadow == BT_SHADOW_CHANNEL) { /* every third column */
            uint8_t *hot = room(s->k);
            for (uint32_t c = 0; c < s->k; c += 3) hot[c] = 1;
            s->hot = put(k, BT_PKG_CONST_VECTOR, hot, s->k);
            free(hot);
        }
        bt_pkg_writer_site(k->w, s);
    }
}

static void put_tensors(kit *k, const bt_pkg_site *sites)
{
    for (uint32_t l = 0; l < k->layers; l++) {
        const bt_layer_tensors *t = &k->m->layer[l];
        put_vector(k, l, BT_WEIGHT_ATTN_NORM, t->attn_norm);
        put_matrix(k, l, BT_WEIGHT_Q, t->wq, sites);
        put_matrix(k, l, BT_WEIGHT_K, t->wk, sites);
        put_matrix(k, l, BT_WEIGHT_V, t->wv, sites);
        put_vector(k, l, BT_WEIGHT_Q_NORM, t->q_norm);
        put_vector(k, l, BT_WEIGHT_K_NORM, t->k_norm);
        put_matrix(k, l, BT_WEIGHT_O, t->wo, sites);
        put_vector(k, l, BT_WEIGHT_FFN_NORM, t->ffn_norm);
        put_matrix(k, l, BT_WEIGHT_GATE, t->w_gate, sites);
        put_matrix(k, l, BT_WEIGHT_UP, t->w_up, sites);
        put_matrix(k, l, BT_WEIGHT_DOWN, t->w_down, sites);
        put_vector(k, l, BT_WEIGHT_ATTN_POST_NORM, t->attn_post_norm);
        put_vector(k, l, BT_WEIGHT_FFN_POST_NORM, t->ffn_post_norm);
    }
    put_vector(k, UINT32_MAX, BT_WEIGHT_OUT_NORM, k->m->out_norm);
    put_matrix(k, UINT32_MAX, BT_WEIGHT_OUTPUT, k->m->output, sites);
}

static uint32_t put_program(kit *k, size_t seq, size_t out, uint64_t *arena)
{
    bt_fault f;
    uint8_t *on_npu = room(k->graph->ops);
    for (size_t i = 0; i < k->graph->ops; i++)
        on_npu[i] = k->graph->op[i].kind == BT_OP_LINEAR
                        ? !(k->options->fall_back && k->graph->op[i].weight == BT_WEIGHT_UP)
                        : k->options->layout && k->graph->op[i].kind == BT_OP_ATTENTION;
    const bt_lower_in in = {.graph = k->graph, .on_npu = on_npu, .recipe = &k->recipe,
                            .seq = seq,        .out = out,       .layout = k->options->layout};
    bt_lowered l;
    must(bt_lower(&l, &in, &f), &f);
    l.program.code = put(k, BT_PKG_CONST_CODE, l.inst, l.insts * sizeof *l.inst);
    l.program.plan = put(k, BT_PKG_CONST_PLAN, l.place, l.places * sizeof *l.place);
    const uint32_t index = bt_pkg_writer_program(k->w, &l.program);
    if (l.program.arena_bytes > *arena) *arena = l.program.arena_bytes;
    bt_lower_done(&l);
    free(on_npu);
    return index;
}

static int by_batch(const void *a, const void *b)
{
    const bt_shape *x = a, *y = b;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    return x->seq != y->seq ? (x->seq < y->seq ? -1 : 1) : x->ctx < y->ctx ? -1 : x->ctx > y->ctx;
}

static void put_rows(kit *k, bt_pkg_header *h)
{
    bt_fault f;
    bt_shapes shapes;
    must(bt_shapes_parse(&shapes, k->options->policy, k->options->ctx_tokens, &f), &f);
    qsort(shapes.shape, shapes.all, sizeof *shapes.shape, by_batch);
    for (size_t i = 0; i < shapes.all; i++) {
        const bt_shape *s = &shapes.shape[i];
        const size_t rows = (size_t)s->batch * s->seq;
        const uint32_t program[3] = {put_program(k, rows, 0, &h->arena_bytes),
                                     put_program(k, rows, s->batch, &h->arena_bytes),
                                     put_program(k, rows, rows, &h->arena_bytes)};
        size_t ctx;
        for (size_t b = 0; (ctx = bt_shapes_bucket(s, k->options->ctx_tokens, b)) != 0; b++) {
            const bt_pkg_row row = {.batch = s->batch, .seq_min = s->seq_min, .seq = s->seq,
                                    .ctx = (uint32_t)ctx, .program = {program[0], program[1], program[2]}};
            bt_pkg_writer_row(k->w, &row);
        }
        if (rows > h->max_seq) h->max_seq = (uint32_t)rows;
    }
    snprintf(h->shape_policy, sizeof h->shape_policy, "%s", shapes.text);
}

static void put_rope(kit *k, bt_pkg_header *h)
{
    const size_t ctx = k->options->ctx_tokens, angles = ctx * (k->m->hp.rope_dims / 2),
                 tables = bt_hparams_rope_tables(&k->m->hp);
    float *cos = room(2 * tables * angles * sizeof *cos), *sin = cos + tables * angles;
    for (size_t t = 0; t < tables; t++) bt_model_rope_table(cos + t * angles, sin + t * angles, k->m, t, ctx);
    h->rope_cos = put(k, BT_PKG_CONST_TABLE, cos, tables * angles * sizeof *cos);
    h->rope_sin = put(k, BT_PKG_CONST_TABLE, sin, tables * angles * sizeof *cos);
    free(cos);
}

static void put_header(kit *k, bt_pkg_header *h)
{
    const bt_hparams *hp = &k->m->hp;
    char text[BT_RECIPE_MAX_TEXT];
    memcpy(h->model_id, k->m->id, sizeof h->model_id);
    h->kernels_version = BT_KERNELS_NUMERIC_VERSION;
    h->rounding = BT_PKG_ROUND_HALF_UP;
    h->npu_ops = BT_PKG_OPS_LINEAR;
    h->flags = (hp->rope_neox ? BT_PKG_FLAG_NEOX : 0) | (hp->qkv_bias ? BT_PKG_FLAG_QKV_BIAS : 0) |
               (hp->qk_norm ? BT_PKG_FLAG_QK_NORM : 0) | (hp->tied_output ? BT_PKG_FLAG_TIED : 0);
    h->arch = hp->arch, h->layers = hp->layers, h->dim = hp->dim, h->ffn = hp->ffn, h->heads = hp->heads,
    h->kv_heads = hp->kv_heads;
    h->head_dim = hp->head_dim, h->vocab = hp->vocab, h->ctx_tokens = (uint32_t)k->options->ctx_tokens,
    h->rope_dims = hp->rope_dims;
    h->rms_eps = hp->rms_eps;
    h->attn_scale = bt_hparams_scores(hp);
    h->embed_scale = bt_hparams_embed(hp);
    h->add_scale = bt_hparams_add(hp);
    h->rope_base = hp->rope_base;
    h->rope_scale = hp->rope_scale;
    h->embed_type = k->m->embed->type;
    h->embed = put(k, BT_PKG_CONST_WEIGHT, k->m->embed->data, k->m->embed->row_bytes * hp->vocab);
    h->rules = hp->rules;
    put_rope(k, h);
    h->rope_cos_q15 = h->rope_sin_q15 = BT_PKG_NONE;
    h->r1 = h->r2 = (bt_pkg_rotation){.h_base = BT_PKG_NONE, .sign = BT_PKG_NONE};
    if (k->options->layout) h->layout = *k->options->layout;
    snprintf(h->model_name, sizeof h->model_name, "%s", k->m->name);
    bt_recipe_text(text, &k->recipe);
    bt_pkg_writer_recipe(k->w, h, text);
    snprintf(h->profile, sizeof h->profile, "host");
}

bt_pkg *npu_kit_package(const bt_model *m, const npu_kit_options *options)
{
    kit k = {.m = m, .options = options, .layers = m->hp.layers};
    bt_fault f;
    char path[64] = "/tmp/npu_kit.XXXXXX";
    bt_pkg *pkg;
    bt_pkg_header h = {.rounding = 0};
    const bt_weights_options packing = {.ctx_tokens = options->ctx_tokens};
    const int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    must(bt_recipe_parse(&k.recipe, options->recipe ? options->recipe : "w8a8:no-rotate", &f), &f);
    k.recipe.r1 = k.recipe.r2 = false;
    k.max = room((k.layers * BT_PKG_LAYER_SITES + 1) * sizeof *k.max);
    bt_pkg_site *sites = room((k.layers * BT_PKG_LAYER_SITES + 1) * sizeof *sites);
    must(bt_weights_open(&k.packed, m, &packing, NULL, &f), &f);
    must(bt_graph_build(&k.graph, &m->hp, NULL, &f), &f);
    must(bt_pkg_writer_new(&k.w, path, &f), &f);
    calibrate(&k);
    put_header(&k, &h);
    put_sites(&k, sites);
    put_tensors(&k, sites);
    put_rows(&k, &h);
    must(bt_pkg_writer_finish(k.w, &h, &f), &f);
    must(bt_pkg_open(&pkg, path, &f), &f);
    unlink(path);
    bt_pkg_writer_free(k.w);
    bt_graph_free(k.graph);
    bt_weights_free(k.packed);
    free(k.max);
    free(sites);
    return pkg;
}

/* A file of these bytes at mkstemp's path. */
static void put_file(char *path, const char *text)
{
    const int fd = mkstemp(path);
    const size_t len = strlen(text);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) != 0) abort();
}

/* Compiles into a file at mkstemp's path. */
static void compile(char *path, const bt_model *m, const bt_compile_options *options)
{
    bt_fault f;
    int32_t ids[4 * CALIB];
    bt_compile_options o = *options;
    const int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    engine_kit_ids(ids, 4 * CALIB, m, 4711);
    o.calib_ids = ids;
    o.calib_len = 4 * CALIB;
    must(bt_compile(path, m, &o, NULL, &f), &f);
}

static bt_pkg *compiled(const bt_model *m, const char *recipe, const char *attention, uint32_t npu_ops,
                        const char *policy, size_t ctx_tokens)
{
    bt_fault f;
    char path[] = "/tmp/npu_kit.XXXXXX", rows[] = "rows:/tmp/npu_rows.XXXXXX";
    const bool has_rows = policy && *policy == '[';
    bt_pkg *pkg;
    bt_compile_options o = {.npu_ops = npu_ops, .shape_policy = has_rows ? rows : policy,
                            .ctx_tokens = ctx_tokens};
    if (has_rows) put_file(rows + strlen("rows:"), policy);
    must(bt_recipe_parse(&o.recipe, recipe, &f), &f);
    must(bt_attention_parse(&o.attention, attention, &f), &f);
    compile(path, m, &o);
    must(bt_pkg_open(&pkg, path, &f), &f);
    unlink(path);
    if (has_rows) unlink(rows + strlen("rows:"));
    return pkg;
}

uint8_t *npu_kit_bytes(size_t *ret_len, const bt_model *m, const bt_compile_options *options)
{
    char path[] = "/tmp/npu_kit.XXXXXX";
    compile(path, m, options);
    uint8_t *bytes = tiny_pkg_read(ret_len, path);
    unlink(path);
    return bytes;
}

bt_pkg *npu_kit_compiled(const bt_model *m, const char *recipe, uint32_t npu_ops, const char *policy,
                         size_t ctx_tokens)
{
    return compiled(m, recipe, NULL, npu_ops, policy, ctx_tokens);
}

bt_pkg *npu_kit_sparse(const bt_model *m, const char *attention, const char *policy, size_t ctx_tokens)
{
    return compiled(m, "w8a8", attention, BT_PKG_OPS_LINEAR, policy, ctx_tokens);
}

/* Fuzz targets link the kit too, without cmocka: what fails ends the program. */
#define expect(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            abort(); \
        } \
    } while (0)

bt_prefill *npu_kit_engine(const bt_model *m, const bt_pkg *pkg, size_t ctx_tokens, const char *isa,
                           bt_pool *pool, uint32_t elem_bytes)
{
    const bt_prefill_config c = {.engine = pkg ? "npu" : "host",
                                 .pkg = pkg,
                                 .isa = isa,
                                 .pool = pool,
                                 .threads = 1,
                                 .ctx_tokens = ctx_tokens,
                                 .kv_elem_bytes = elem_bytes,
                                 .for_perplexity = true};
    bt_prefill *p = NULL;
    expect(bt_prefill_new(&p, m, &c, NULL) == BT_OK);
    return p;
}

void npu_kit_check_cuts(bt_prefill *p, const bt_model *m, const int32_t *ids, size_t n)
{
    const uint32_t elem_bytes = bt_prefill_kv_elem_bytes(p);
    const size_t cuts[] = {1, 16, 100, 256, 300, n - 1}, vocab = m->hp.vocab;
    float *all = engine_kit_floats(n * vocab), *last = engine_kit_floats(vocab);
    bt_kv_view kv = engine_kit_pages(m, n, 16, elem_bytes);
    expect(bt_prefill_run(p, &kv, ids, n, 0, NULL, all, BT_PREFILL_ALL, NULL) == BT_OK);
    const uint64_t hash = engine_kit_hash(&kv, n);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const size_t cut = cuts[i];
        bt_kv_view part = engine_kit_pages(m, n, 64, elem_bytes);
        expect(bt_prefill_run(p, &part, ids, cut, 0, NULL, last, BT_PREFILL_LAST, NULL) == BT_OK);
        expect(memcmp(last, all + (cut - 1) * vocab, vocab * sizeof *last) == 0);
        const bt_err e = bt_prefill_run(p, &part, ids + cut, n - cut, cut, NULL, last, BT_PREFILL_LAST, NULL);
        expect(e == (cut % bt_prefill_grid_rows(p) ? BT_EARG : BT_OK));
        expect(e < 0 || memcmp(last, all + (n - 1) * vocab, vocab * sizeof *last) == 0);
        expect(e < 0 || engine_kit_hash(&part, n) == hash);
        engine_kit_pages_free(&part);
    }
    free(all);
    free(last);
    engine_kit_pages_free(&kv);
}
