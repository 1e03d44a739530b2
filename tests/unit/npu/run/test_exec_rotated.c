/* The executor over packages of the compiler: rotations leave KV rows where they were, chunks still change no
 * bit, LLM.int8 stays near floats. */
#include "model/gguf.h"
#include "npu/run/exec_private.h"
#include "base/rng.h"
#include "npu/compile/compile.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 512, N = 150, PAGE = 16, CALIB = 200 };
static const char *const archs[] = {"llama", "qwen2", "qwen3"};

typedef struct world {
    engine_kit kit;
    int32_t ids[CALIB];
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model_ffn(arch, 176)};
    engine_kit_ids(w.ids, CALIB, w.kit.model, 21);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

static bt_pkg *package(const world *w, const char *recipe, const char *policy)
{
    bt_fault f = {""};
    char path[] = "/tmp/test_exec_rotated.XXXXXX";
    bt_pkg *p = NULL;
    bt_compile_options o = {.shape_policy = policy, .ctx_tokens = CTX, .calib_ids = w->ids,
                            .calib_len = CALIB};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    if (bt_compile(path, w->kit.model, &o, NULL, &f) < 0 || bt_pkg_open(&p, path, &f) < 0)
        fail_msg("%s", f.text);
    unlink(path);
    return p;
}

/* KV rows and all logits of the first N ids. */
typedef struct result {
    bt_kv_view kv;
    float *logits;
} result;

static result run(const world *w, bt_prefill *p)
{
    bt_fault f = {""};
    result r = {engine_kit_pages(w->kit.model, N, PAGE, 2), malloc(N * w->vocab * sizeof(float))};
    assert_non_null(r.logits);
    if (bt_prefill_run(p, &r.kv, w->ids, N, 0, NULL, r.logits, BT_PREFILL_ALL, &f) < 0)
        fail_msg("%s", f.text);
    bt_prefill_free(p);
    return r;
}

static result run_package(const world *w, const char *recipe, const char *policy, const char *isa)
{
    bt_pkg *pkg = package(w, recipe, policy);
    const result r = run(w, npu_kit_engine(w->kit.model, pkg, CTX, isa, NULL, 2));
    bt_pkg_close(pkg);
    return r;
}

static result run_float(const world *w)
{
    return run(w, npu_kit_engine(w->kit.model, NULL, CTX, NULL, NULL, 2));
}

static void result_done(result *r)
{
    engine_kit_pages_free(&r->kv);
    free(r->logits);
}

/* How far apart two results are, of the size of the first: V rows, K rows, logits. */
static double apart(const world *w, const result *a, const result *b, int what)
{
    double diff = 0, size = 0;
    if (what == 2)
        for (size_t i = 0; i < N * w->vocab; i++) {
            diff += pow((double)(a->logits[i] - b->logits[i]), 2);
            size += pow((double)a->logits[i], 2);
        }
    for (size_t l = 0; what < 2 && l < a->kv.layers; l++)
        for (size_t t = 0; t < N; t++)
            for (size_t g = 0; g < a->kv.kv_heads; g++) {
                const uint16_t *x = (const void *)bt_kv_view_row(&a->kv, l, what == 0, t, g);
                const uint16_t *y = (const void *)bt_kv_view_row(&b->kv, l, what == 0, t, g);
                for (size_t i = 0; i < a->kv.head_dim; i++) {
                    diff += pow((double)(bt_f16_to_f32_1(x[i]) - bt_f16_to_f32_1(y[i])), 2);
                    size += pow((double)bt_f16_to_f32_1(x[i]), 2);
                }
            }
    return sqrt(diff / size);
}

static void rotated_packages_leave_keys_and_values_in_the_basis_of_the_model(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        result f = run_float(&w), plain = run_package(&w, "w8a8:no-rotate", NULL, NULL),
               rotated = run_package(&w, a == 1 ? "w8a8:r4" : "w8a8", NULL, NULL);
        const char *const names[] = {"V", "K", "logits"};
        for (int what = 0; what < 3; what++) {
            const double p = apart(&w, &f, &plain, what), r = apart(&w, &f, &rotated, what),
                         each = apart(&w, &plain, &rotated, what);
            print_message("%s %s: %.4f plain, %.4f rotated, %.4f between them\n", archs[a], names[what], p, r,
                          each);
            /* another basis would be off by more than 1 */
            assert_true(fmax(fmax(p, r), each) < (what == 2 ? 0.2 : 0.1));
        }
        result_done(&f);
        result_done(&plain);
        result_done(&rotated);
        engine_kit_done(&w.kit);
    }
}

static void rotated_packages_give_the_same_bits_for_every_cut_and_kernel(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *isa;
    } cases[] = {{"max-pad", NULL}, {"chunk:16", NULL}, {"chunk:64+tail", "avx2"}, {"chunk:50", "ref"}};
    static const char *const recipes[] = {"w8a8:r4", "w4a8:r4,a16=o+down,no-gptq", "w8a16"};
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        result first = run_package(&w, recipes[a], cases[0].policy, cases[0].isa);
        for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) {
            if (!rows_select(cases[i].isa)) continue;
            result r = run_package(&w, recipes[a], cases[i].policy, cases[i].isa);
            assert_true(engine_kit_hash(&first.kv, N) == engine_kit_hash(&r.kv, N));
            assert_memory_equal(first.logits, r.logits, N * w.vocab * sizeof *r.logits);
            result_done(&r);
        }
        result_done(&first);
        engine_kit_done(&w.kit);
    }
}

static void llm_int8_is_nearer_to_floats_than_one_scale_for_a_tensor(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        result f = run_float(&w), one = run_package(&w, "w8a8:no-rotate,shadow=off", NULL, NULL);
        result dynamic = run_package(&w, "w8a8:no-rotate,llm-int8", NULL, NULL);
        const double by_one = apart(&w, &f, &one, 2), by_row = apart(&w, &f, &dynamic, 2);
        print_message("%s logits: %.4f with llm-int8, %.4f with a static scale\n", archs[a], by_row, by_one);
        assert_true(by_row < by_one && by_row < 0.06);
        result_done(&f);
        result_done(&one);
        result_done(&dynamic);
        engine_kit_done(&w.kit);
    }
}

/* ---- AC-j1: one linear over rows with outlier columns ---- */

enum { ROWS = 32, HOT = 6, FACTOR = 60 };
#define PLAIN "w8a8:no-rotate,clip=max,shadow=off,no-bias"
static const size_t hot[HOT] = {5, 17, 40, 41, 63, 95};

static bool is_hot(size_t column)
{
    for (size_t i = 0; i < HOT; i++)
        if (hot[i] == column) return true;
    return false;
}

/* The first linear of the second layer of a package over the rows x[ROWS, k]: y[ROWS, n], and the
 * quantised plane[ROWS, k]. */
static bt_exec_stats run_linear(const world *w, const char *recipe, const float *x, float *y, int8_t *plane)
{
    bt_fault f = {""};
    bt_exec *e = NULL;
    bt_pkg *pkg = package(w, recipe, "chunk:32");
    if (bt_exec_new(&e, pkg, bt_kernels_select(NULL), NULL, &f) < 0) fail_msg("%s", f.text);
    uint8_t *arena = engine_kit_alloc(bt_pkg_header_of(pkg)->arena_bytes);
    const bt_exec_seq seq = {.valid = ROWS};
    const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = ROWS};
    bt_exec_job j =
        bt_exec_job_of(e, &bt_pkg_rows(pkg)[0], BT_PKG_OUT_NONE, arena, &io, e->seq, e->overflow, e->ids);
    const bt_pkg_inst *i = j.inst;
    assert_int_equal(j.program->seq, ROWS);
    while (i->op != BT_PKG_QUANTISE || i->layer != 1) i++;
    memcpy(arena + i->in0, x, (size_t)ROWS * i->in_width * sizeof *x);
    (e->dynamic ? bt_exec_dynamic_quantise : bt_exec_border_quantise)(&j, i);
    for (size_t r = 0; r < ROWS; r++)
        memcpy(plane + r * i->in_width, arena + i->out + r * i->out_stride, i->in_width);
    while (i->op != BT_PKG_LINEAR) i++;
    assert_int_equal(bt_pkg_tensors(pkg)[i->tensor].weight, BT_WEIGHT_Q);
    if (e->dynamic) bt_exec_dynamic_linear(&j, i);
    else assert_int_equal(bt_exec_linear(&j, i), i->group);
    memcpy(y, arena + i->out, (size_t)ROWS * i->out_width * sizeof *y);
    const bt_exec_stats s = bt_exec_stats_of(e);
    bt_exec_free(e);
    bt_pkg_close(pkg);
    free(arena);
    return s;
}

static double error_of(const bt_gguf_tensor *weights, const float *x, const float *y)
{
    const size_t k = weights->dim[0], n = weights->dim[1];
    double error = 0;
    float *row = malloc(k * sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < n; i++) {
        bt_model_row_f32(row, weights, i);
        for (size_t r = 0; r < ROWS; r++) {
            double should = 0;
            for (size_t c = 0; c < k; c++) should += (double)x[r * k + c] * row[c];
            error += pow((double)y[r * n + i] - should, 2);
        }
    }
    free(row);
    return sqrt(error);
}

static void llm_int8_multiplies_exactly_the_outlier_columns_in_f16(void **state)
{
    (void)state;
    world w = begin("llama");
    const bt_gguf_tensor *wq = w.kit.model->layer[1].wq;
    const size_t k = wq->dim[0], n = wq->dim[1];
    float *norm = (float *)(uintptr_t)w.kit.model->layer[1].attn_norm->data,
          *x = malloc(ROWS * k * sizeof *x), *y = malloc(ROWS * n * sizeof *y);
    int8_t *plane = malloc(ROWS * k);
    assert_true(x && y && plane);
    for (size_t i = 0; i < HOT; i++) norm[hot[i]] *= FACTOR; /* so that the calibration sees them too */
    bt_pkg *pkg = package(&w, PLAIN, "chunk:32");
    const float max = bt_pkg_sites(pkg)[bt_pkg_site_index(w.kit.model->hp.layers, 1, BT_SITE_QKV)].max;
    bt_pkg_close(pkg);
    assert_true(max / FACTOR < 6 && max > 60); /* LLM.int8's threshold lies between them */
    for (size_t i = 0; i < ROWS * k; i++)
        x[i] = max * (float)(2 * bt_rng_uniform(8, i) - 1) / (is_hot(i % k) ? 1 : FACTOR);
    run_linear(&w, PLAIN, x, y, plane);
    const double plain = error_of(wq, x, y);
    const bt_exec_stats s = run_linear(&w, "w8a8:no-rotate,llm-int8,no-bias", x, y, plane);
    const double dynamic = error_of(wq, x, y);
    print_message("error %.4g with llm-int8, %.4g plain\n", dynamic, plain);
    assert_true(dynamic < plain / 10);
    for (size_t c = 0; c < k; c++) { /* what is multiplied in float is zero among the integers */
        bool any = false;
        for (size_t r = 0; r < ROWS; r++) any |= plane[r * k + c] != 0;
        assert_int_equal(any, !is_hot(c));
    }
    assert_true(s.shadow_entries == ROWS * HOT &&
                s.companion_macs == (uint64_t)ROWS * HOT * (n + 2 * w.kit.model->layer[1].wk->dim[1]));
    free(x);
    free(y);
    free(plane);
    engine_kit_done(&w.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotated_packages_leave_keys_and_values_in_the_basis_of_the_model),
        cmocka_unit_test(rotated_packages_give_the_same_bits_for_every_cut_and_kernel),
        cmocka_unit_test(llm_int8_is_nearer_to_floats_than_one_scale_for_a_tensor),
        cmocka_unit_test(llm_int8_multiplies_exactly_the_outlier_columns_in_f16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
