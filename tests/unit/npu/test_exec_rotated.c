/* The executor over packages of the compiler: rotations leave KV rows where they were, chunks still change no
 * bit, LLM.int8 stays near floats. */
#include "npu/compile.h"
#include "npu/prefill.h"
#include "tests/helpers/engine_kit.h"

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
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.ids, CALIB, w.kit.model, 21);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

static bt_pkg *package(const world *w, const char *recipe, const char *policy)
{
    bt_fault f = {""};
    char path[] = "/tmp/test_exec_rotated.XXXXXX";
    bt_pkg *p = NULL;
    bt_compile_options o = {
        .shape_policy = policy, .ctx_tokens = CTX, .calib_ids = w->ids, .calib_len = CALIB};
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
    const bt_prefill_options o = {.ctx_tokens = CTX};
    bt_prefill *p = NULL;
    assert_int_equal(bt_prefill_new_npu(&p, pkg, bt_kernels_select(isa), NULL, &o, NULL), BT_OK);
    const result r = run(w, p);
    bt_pkg_close(pkg);
    return r;
}

static result run_float(const world *w)
{
    bt_packed *packed;
    bt_prefill *p = NULL;
    const bt_packed_options packing = {.ctx_tokens = CTX};
    const bt_prefill_options o = {.ctx_tokens = CTX};
    assert_int_equal(bt_packed_new(&packed, w->kit.model, &packing, NULL, NULL), BT_OK);
    assert_int_equal(bt_prefill_new(&p, packed, bt_kernels_select(NULL), NULL, &o, NULL), BT_OK);
    const result r = run(w, p);
    bt_packed_free(packed);
    return r;
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
               rotated = run_package(&w, "w8a8", NULL, NULL);
        const char *const names[] = {"V", "K", "logits"};
        for (int what = 0; what < 3; what++) {
            const double p = apart(&w, &f, &plain, what), r = apart(&w, &f, &rotated, what),
                         each = apart(&w, &plain, &rotated, what);
            print_message("%s %s: %.4f plain, %.4f rotated, %.4f between them\n", archs[a], names[what], p, r,
                          each);
            assert_true(fmax(fmax(p, r), each) <
                        (what == 2 ? 0.2 : 0.1)); /* another basis would be off by more than 1 */
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
    static const char *const recipes[] = {"w8a8", "w4a8:a16=o+down,no-gptq", "w8a16"};
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        result first = run_package(&w, recipes[a], cases[0].policy, cases[0].isa);
        for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) {
            if (!bt_kernels_select(cases[i].isa)) continue;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotated_packages_leave_keys_and_values_in_the_basis_of_the_model),
        cmocka_unit_test(rotated_packages_give_the_same_bits_for_every_cut_and_kernel),
        cmocka_unit_test(llm_int8_is_nearer_to_floats_than_one_scale_for_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
