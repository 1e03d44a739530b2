/* AC-j2: rotations and smoothing are mathematical no-ops: a folded model has the output of the one it was
 * made from. */
#include "model/gguf.h"
#include "npu/quant/fold.h"
#include "base/rng.h"
#include "graph/walk.h"
#include "npu/quant/awq.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"
#include "ref/ref.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TOKENS = 40 };

typedef struct output {
    float *logits;
    uint16_t *v; /* V rows of the last layer, one head */
} output;

static bt_companion_rotation companion_of(const bt_hadamard *h)
{
    return (bt_companion_rotation){h->base, h->log2, h->base > 1 ? h->h : NULL, h->sign, h->scale};
}

static output run(const bt_model *m, bt_fold *f, bt_pool *pool)
{
    const bt_weights_source source = f ? bt_fold_source(f) : (bt_weights_source){0};
    const bt_weights_options o = {.ctx_tokens = TOKENS, .source = f ? &source : NULL};
    bt_companion_rotations r = {0};
    bt_graph_options go = {0};
    if (f) {
        r = (bt_companion_rotations){companion_of(bt_fold_r1(f)), companion_of(bt_fold_r2(f)),
                                     companion_of(bt_fold_r4(f))};
        go = bt_fold_graph(f);
    }
    bt_weights *packed;
    bt_graph *graph;
    bt_walk *host;
    bt_program *p;
    output out = {malloc((size_t)TOKENS * m->hp.vocab * sizeof(float)),
                  malloc(TOKENS * 32 * sizeof(uint16_t))};
    assert_true(out.logits && out.v);
    assert_int_equal(bt_weights_open(&packed, m, &o, pool, NULL), BT_OK);
    assert_int_equal(bt_graph_build(&graph, &m->hp, &go, NULL), BT_OK);
    const bt_walk_config wc = {.weights = packed, .rotations = &r, .kernels = bt_kernels_select(NULL),
                               .pool = pool, .sequences_max = 1};
    assert_int_equal(bt_walk_new(&host, &wc, NULL), BT_OK);
    assert_int_equal(bt_bind_program(&p, graph, 1, TOKENS, TOKENS, 0, NULL), BT_OK);
    void *arena = engine_kit_alloc(p->arena.fixed);
    bt_kv_view kv = engine_kit_pages(m, TOKENS, 8, 2);
    int32_t ids[TOKENS];
    engine_kit_ids(ids, TOKENS, m, 9);
    const bt_companion_seq seq = {&kv, 0, TOKENS};
    const bt_walk_io io = {.ids = ids, .seq = &seq, .sequences = 1, .bucket = 1, .logits = out.logits};
    assert_int_equal(bt_walk_run(host, p, arena, &io, NULL), BT_OK);
    for (size_t t = 0; t < TOKENS; t++)
        memcpy(out.v + t * 16, bt_kv_view_row(&kv, m->hp.layers - 1, 1, t, 1), 32);
    engine_kit_pages_free(&kv);
    free(arena);
    bt_bind_free(p);
    bt_walk_free(host);
    bt_graph_free(graph);
    bt_weights_free(packed);
    return out;
}

static void output_free(output *o)
{
    free(o->logits);
    free(o->v);
}

/* Relative root mean square difference. The plain model's weights are exact in f16; those of a folded one are
 * rounded to it, which in three layers of random weights makes 1.4e-3 whatever was folded. */
static double distance(const output *a, const output *b, size_t vocab)
{
    double apart = 0, square = 0;
    for (size_t i = 0; i < TOKENS * vocab; i++) {
        apart += ((double)a->logits[i] - b->logits[i]) * ((double)a->logits[i] - b->logits[i]);
        square += (double)a->logits[i] * a->logits[i];
    }
    return sqrt(apart / square);
}

static void smooth_all(bt_fold *f, const bt_model *m, float **s)
{
    const uint32_t widest = m->hp.ffn > m->hp.dim ? m->hp.ffn : m->hp.dim;
    *s = malloc(widest * sizeof **s);
    assert_non_null(*s);
    for (uint32_t i = 0; i < widest; i++) (*s)[i] = (float)(0.25 + 4 * bt_rng_uniform(3, i));
    for (uint32_t l = 0; l < m->hp.layers; l++)
        for (uint32_t k = 0; k < BT_SITE_KINDS; k++)
            if (k != BT_SITE_O) bt_fold_smooth(f, bt_pkg_site_index(m->hp.layers, l, k), *s);
}

static void a_folded_model_has_the_output_of_the_plain_one(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (size_t a = 0; a < 3; a++) {
        engine_kit kit = engine_kit_model(archs[a]);
        const bt_model *m = kit.model;
        bt_pool *pool;
        assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
        output plain = run(m, NULL, pool);
        for (int way = 0; way < 8; way++) {
            bt_fold *f;
            float *s = NULL;
            assert_int_equal(bt_fold_new(&f, m, way & 3, bt_kernels_select(NULL), pool, NULL), BT_OK);
            if (way & 4) smooth_all(f, m, &s);
            assert_int_equal(bt_fold_has_norm(f, 0, BT_WEIGHT_FFN_NORM), (way & 5) != 1);
            assert_true(bt_fold_r1(f)->base == (way & 1 ? 12u : 0u));
            output folded = run(m, f, pool);
            const double d = distance(&plain, &folded, m->hp.vocab);
            if (d > (way ? 2e-3 : 0)) fail_msg("%s, way %d: %g", archs[a], way, d);
            for (size_t i = 0; i < TOKENS * 16; i++) /* V is not rotated */
                assert_true(fabsf(bt_f16_to_f32_1(plain.v[i]) - bt_f16_to_f32_1(folded.v[i])) < 0.02f);
            output_free(&folded);
            bt_fold_free(f);
            free(s);
        }
        output_free(&plain);
        bt_pool_free(pool);
        engine_kit_done(&kit);
    }
}

/* ---- in f32 ---- */

/* With an output matrix of its own, which folding changes and the embedding does not. */
static engine_kit own(const char *arch)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = arch;
    s.dim = 96;
    s.heads = 6;
    return engine_kit_of(&s);
}

static float *data_of(const bt_gguf_tensor *t)
{
    assert_int_equal(t->type, 0); /* F32 */
    return (float *)(uintptr_t)t->data;
}

/* R2 once for each head of v's outputs: attention mixes rows of v and no elements, so it then gives
 * rotated heads. */
static void rotate_v(const bt_model *m, const bt_hadamard *r2, uint32_t layer)
{
    const bt_gguf_tensor *matrix = m->layer[layer].wv, *bias = m->layer[layer].bv;
    const size_t k = matrix->dim[0], n = matrix->dim[1];
    float *column = malloc(n * sizeof *column), *w = data_of(matrix), scratch[BT_MODEL_MAX_HEAD_DIM];
    const bt_kernels *kernels = bt_kernels_select(NULL);
    assert_non_null(column);
    for (size_t c = 0; c < k; c++) {
        for (size_t i = 0; i < n; i++) column[i] = w[i * k + c];
        bt_hadamard_apply(r2, kernels, column, m->hp.kv_heads, scratch);
        for (size_t i = 0; i < n; i++) w[i * k + c] = column[i];
    }
    if (bias) bt_hadamard_apply(r2, kernels, data_of(bias), m->hp.kv_heads, scratch);
    free(column);
}

/* Writes the folded weights into a copy of the model, and what is rotated at run time into the embedding
 * and v. */
static void fold_into(const bt_model *copy, bt_fold *f)
{
    static const bt_weight weights[] = {BT_WEIGHT_ATTN_NORM, BT_WEIGHT_Q,  BT_WEIGHT_K,
                                        BT_WEIGHT_V,         BT_WEIGHT_O,  BT_WEIGHT_FFN_NORM,
                                        BT_WEIGHT_GATE,      BT_WEIGHT_UP, BT_WEIGHT_DOWN};
    const bt_hparams *hp = &copy->hp;
    for (uint32_t l = 0; l <= hp->layers; l++)
        for (size_t i = 0; i < (l < hp->layers ? sizeof weights / sizeof *weights : 2); i++) {
            const bt_weight w = l < hp->layers ? weights[i] : i ? BT_WEIGHT_OUTPUT : BT_WEIGHT_OUT_NORM;
            const bt_gguf_tensor *t = bt_weight_tensor(copy, l, w);
            assert_int_equal(bt_fold_begin(f, l, w, NULL), BT_OK);
            for (size_t n = 0; n < t->rows; n++) bt_fold_row(f, data_of(t) + n * t->dim[0], n);
        }
    float *scratch = malloc(hp->dim * sizeof *scratch);
    assert_non_null(scratch);
    for (size_t n = 0; bt_fold_r1(f)->base && n < hp->vocab; n++)
        bt_hadamard_apply(bt_fold_r1(f), bt_kernels_select(NULL), data_of(copy->embed) + n * hp->dim, 1,
                          scratch);
    free(scratch);
    for (uint32_t l = 0; bt_fold_r2(f)->base && l < hp->layers; l++) rotate_v(copy, bt_fold_r2(f), l);
}

static float *reference(const bt_model *m)
{
    bt_ref *r;
    bt_ref_kv *kv;
    int32_t ids[TOKENS];
    float *logits = malloc((size_t)TOKENS * m->hp.vocab * sizeof *logits);
    assert_non_null(logits);
    engine_kit_ids(ids, TOKENS, m, 9);
    assert_int_equal(bt_ref_new(&r, m, NULL, NULL), BT_OK);
    assert_int_equal(bt_ref_kv_new(&kv, r, TOKENS, NULL), BT_OK);
    assert_int_equal(bt_ref_forward(r, kv, ids, TOKENS, 0, logits, true, NULL, NULL), BT_OK);
    bt_ref_kv_free(kv);
    bt_ref_free(r);
    return logits;
}

static void in_f32_the_reference_engine_sees_no_difference(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    double worst = 0;
    for (size_t a = 0; a < 3; a++) {
        engine_kit from = own(archs[a]);
        output plain = {.logits = reference(from.model)};
        for (int way = 1; way < 8; way++) {
            engine_kit to = own(archs[a]);
            bt_fold *f;
            float *s = NULL;
            assert_int_equal(bt_fold_new(&f, from.model, way & 3, bt_kernels_select(NULL), NULL, NULL),
                             BT_OK);
            assert_true(!(way & 1) == !bt_fold_r1(f)->base && !(way & 2) == !bt_fold_r2(f)->base);
            if (way & 4) smooth_all(f, from.model, &s);
            fold_into(to.model, f);
            output folded = {.logits = reference(to.model)};
            const double d = distance(&plain, &folded, from.model->hp.vocab);
            if (!(d < 1e-5)) fail_msg("%s, way %d: %g", archs[a], way, d);
            worst = fmax(worst, d);
            output_free(&folded);
            bt_fold_free(f);
            free(s);
            engine_kit_done(&to);
        }
        output_free(&plain);
        engine_kit_done(&from);
    }
    print_message("relative RMS %.1e at most\n", worst);
}

/* AC-j2. The steepest ratio, on magnitudes of six decades and an input that is always zero. */
static void scales_of_awq_change_no_output(void **state)
{
    (void)state;
    engine_kit from = own("qwen2");
    const uint32_t widest = from.model->hp.ffn > from.model->hp.dim ? from.model->hp.ffn : from.model->hp.dim;
    output plain = {.logits = reference(from.model)};
    bt_awq_input in;
    float *s = malloc(widest * sizeof *s);
    assert_non_null(s);
    assert_int_equal(bt_awq_input_new(&in, widest, NULL), BT_OK);
    in.rows = 1;
    for (uint32_t i = 1; i < widest; i++) in.magnitude[i] = pow(10, 6 * bt_rng_uniform(3, i) - 3);
    bt_awq_scales(s, &in, BT_AWQ_RATIOS - 1);
    for (int way = 0; way < 4; way++) {
        engine_kit to = own("qwen2");
        bt_fold *f;
        assert_int_equal(bt_fold_new(&f, from.model, (unsigned)way, bt_kernels_select(NULL), NULL, NULL),
                         BT_OK);
        for (uint32_t l = 0; l < from.model->hp.layers; l++)
            for (uint32_t k = 0; k < BT_SITE_KINDS; k++)
                if (k != BT_SITE_O) bt_fold_smooth(f, bt_pkg_site_index(from.model->hp.layers, l, k), s);
        fold_into(to.model, f);
        output folded = {.logits = reference(to.model)};
        const double d = distance(&plain, &folded, from.model->hp.vocab);
        if (!(d < 1e-3)) fail_msg("way %d: %g", way, d);
        output_free(&folded);
        bt_fold_free(f);
        engine_kit_done(&to);
    }
    free(s);
    bt_awq_input_done(&in);
    output_free(&plain);
    engine_kit_done(&from);
}

static void a_rotated_input_of_down_changes_no_output(void **state)
{
    (void)state;
    engine_kit o = own("qwen2");
    output plain = run(o.model, NULL, NULL);
    for (unsigned others = 0; others < 4; others++) {
        bt_fold *f;
        assert_int_equal(
            bt_fold_new(&f, o.model, BT_ROTATION_R4 | others, bt_kernels_select(NULL), NULL, NULL), BT_OK);
        assert_int_equal(bt_hadamard_size(bt_fold_r4(f)), o.model->hp.ffn);
        output folded = run(o.model, f, NULL);
        const double d = distance(&plain, &folded, o.model->hp.vocab);
        if (!(d > 0 && d < 2e-3)) fail_msg("with %u: %g", others, d);
        output_free(&folded);
        bt_fold_free(f);
    }
    output_free(&plain);
    engine_kit_done(&o);
}

static void r4_needs_a_matrix_of_its_size(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_fold *f = NULL;
    bt_fault fault = {""};
    assert_int_equal(bt_fold_new(&f, kit.model, BT_ROTATION_R4, bt_kernels_select(NULL), NULL, &fault),
                     BT_EARG);
    assert_non_null(strstr(fault.text, "172"));
    engine_kit_done(&kit);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_pool *pool;
    bt_fold *one, *three;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    assert_int_equal(bt_fold_new(&one, kit.model, BT_ROTATION_R1 | BT_ROTATION_R2, bt_kernels_select(NULL),
                                 NULL, NULL),
                     BT_OK);
    assert_int_equal(bt_fold_new(&three, kit.model, BT_ROTATION_R1 | BT_ROTATION_R2, bt_kernels_select(NULL),
                                 pool, NULL),
                     BT_OK);
    assert_int_equal(bt_fold_begin(one, 1, BT_WEIGHT_DOWN, NULL), BT_OK);
    assert_int_equal(bt_fold_begin(three, 1, BT_WEIGHT_DOWN, NULL), BT_OK);
    assert_int_equal(bt_fold_rows(one), 96);
    assert_int_equal(bt_fold_width(one), 172);
    float a[172], b[172];
    for (size_t n = 0; n < 96; n++) {
        bt_fold_row(one, a, n);
        bt_fold_row(three, b, n);
        assert_memory_equal(a, b, sizeof a);
    }
    bt_fold_free(one);
    bt_fold_free(three);
    bt_pool_free(pool);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folded_model_has_the_output_of_the_plain_one),
        cmocka_unit_test(in_f32_the_reference_engine_sees_no_difference),
        cmocka_unit_test(scales_of_awq_change_no_output),
        cmocka_unit_test(a_rotated_input_of_down_changes_no_output),
        cmocka_unit_test(r4_needs_a_matrix_of_its_size),
        cmocka_unit_test(threads_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
