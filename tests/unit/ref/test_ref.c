/* The reference engine against logits in double precision from a second implementation
 * (tests/golden/make_tiny_logits.py) and from transformers (make_arch_logits.py), against known ids of the
 * default model, and against itself: any cutting and any threads, the same bits.
 *
 *   test_ref write DIR     writes the small models that the script reads */
#include "model/gguf.h"
#include "ref/ref.h"
#include "model/quant.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "arch_logits.h"
#include "tiny_logits.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEFAULT_MODEL_STEPS = 3 }; /* the sanitizers slow the 135 M parameters down */
#else
enum { DEFAULT_MODEL_STEPS = 24 };
#endif

static void linear_scaling(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_str(w, "llama.rope.scaling.type", "linear");
    tiny_gguf_f32(w, "llama.rope.scaling.factor", 4.0f);
}

static void eight_rotary_dims(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_u32(w, "qwen3.rope.dimension_count", 8);
}

/* phi3's files have both lists of factors and no rope.scaling.type. */
static void add_factors(tiny_gguf *w, uint32_t original)
{
    enum { PAIRS = 8 };
    static const float shorts[PAIRS] = {1, 1, 1, 1.25f, 1.25f, 1.5f, 1.5f, 2},
                       longs[PAIRS] = {1, 1.5f, 2, 3, 5, 8, 12, 16};
    tiny_gguf_u32(w, "phi3.rope.scaling.original_context_length", original);
    tiny_gguf_f32(w, "phi3.rope.scaling.attn_factor", 1.25f);
    tiny_gguf_tensor(w, "rope_factors_short.weight", 0, (uint64_t[]){PAIRS}, 1, shorts, sizeof shorts);
    tiny_gguf_tensor(w, "rope_factors_long.weight", 0, (uint64_t[]){PAIRS}, 1, longs, sizeof longs);
}

static void long_factors(tiny_gguf *w, void *ud)
{
    (void)ud;
    add_factors(w, 4); /* shorter than every prompt */
}

static void short_factors(tiny_gguf *w, void *ud)
{
    (void)ud;
    add_factors(w, 512);
}

/* The global layers' base is the file's 10,000, with linear scaling. */
static void two_bases(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_f32(w, "gemma3.rope.freq_base_swa", 500.0f);
    tiny_gguf_str(w, "gemma3.rope.scaling.type", "linear");
    tiny_gguf_f32(w, "gemma3.rope.scaling.factor", 4.0f);
}

/* Another scale of q . k than the root of head_dim. */
static void own_scale(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_f32(w, "gemma2.attention.scale", 0.25f);
}

static tiny_gguf_spec spec_of(const char *name)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.no_tokenizer = true;
    if (strstr(name, "-window")) s.window = 5; /* shorter than every prompt */
    if (strcmp(name, "llama-scaled") == 0) {
        s.tied = s.rope_freqs = true;
        s.kv_heads = 1;
        s.extra = linear_scaling;
    } else if (strcmp(name, "llama-q4") == 0) {
        s.type = BT_QUANT_Q4_1;
        s.kv_heads = 4;
        s.ffn = 100; /* no multiple of 32 or 8 */
    } else if (strcmp(name, "qwen2") == 0) {
        s.arch = "qwen2";
    } else if (strcmp(name, "granite") == 0) {
        s.arch = "granite";
        s.tied = true;
    } else if (strcmp(name, "smollm3") == 0) {
        s.arch = "smollm3";
        s.layers = 5; /* the fourth is not rotated */
    } else if (strcmp(name, "olmo2") == 0 || strcmp(name, "qwen3moe") == 0 || strcmp(name, "mixtral") == 0) {
        s.arch = name;
    } else if (strcmp(name, "starcoder2") == 0) {
        s.arch = "starcoder2";
        s.tied = true;
    } else if (strncmp(name, "phi3", 4) == 0) {
        s.arch = "phi3";
        s.tied = true;
        s.extra = strcmp(name, "phi3-long") == 0    ? long_factors
                  : strcmp(name, "phi3-short") == 0 ? short_factors
                                                    : NULL;
    } else if (strcmp(name, "gpt-oss") == 0) {
        s.arch = "gpt-oss";
        s.layers = 3; /* the second sees all */
        s.window = 5;
        s.head_dim = 32;
        s.type = BT_QUANT_MXFP4;
    } else if (strcmp(name, "hunyuan-dense") == 0) {
        s.arch = "hunyuan-dense";
        s.head_dim = 32;
    } else if (strcmp(name, "gemma2") == 0) {
        s.arch = "gemma2";
        s.layers = 4; /* two see all */
        s.window = 5;
        s.head_dim = 32;
        s.extra = own_scale;
    } else if (strcmp(name, "gemma") == 0) {
        s.arch = "gemma";
        s.head_dim = 32;
        s.kv_heads = 1;
    } else if (strcmp(name, "gemma3") == 0) {
        s.arch = "gemma3";
        s.layers = 7; /* the sixth sees all */
        s.window = 5;
        s.head_dim = 32;
        s.kv_heads = 1;
        s.tied = true;
        s.extra = two_bases;
    } else if (strncmp(name, "qwen3", 5) == 0) {
        s.arch = "qwen3";
        s.head_dim = 32; /* heads * head_dim is not dim */
        s.vocab = 379;
        if (strcmp(name, "qwen3-partial") == 0) {
            s.omit = "qwen3.rope.dimension_count";
            s.extra = eight_rotary_dims;
        }
    }
    return s;
}

typedef struct fixture {
    engine_kit kit;
    bt_pool *pool;
    bt_ref *r;
    bt_ref_kv *kv;
} fixture;

static void finish(fixture *x)
{
    bt_ref_kv_free(x->kv);
    bt_ref_free(x->r);
    bt_pool_free(x->pool);
    engine_kit_done(&x->kit);
}

static void ok(bt_err e, const bt_fault *f)
{
    if (e < 0) fail_msg("%s: %s", bt_err_name(e), f->text);
}

static fixture start(const tiny_gguf_spec *s, size_t threads, size_t room)
{
    fixture x = {0};
    bt_fault f = {""};
    x.kit = engine_kit_of(s);
    if (threads > 1) ok(bt_pool_new(&x.pool, threads, &f), &f);
    ok(bt_ref_new(&x.r, x.kit.model, x.pool, &f), &f);
    ok(bt_ref_kv_new(&x.kv, x.r, room, &f), &f);
    return x;
}

static int32_t best(const float *z, size_t n)
{
    size_t b = 0;
    for (size_t i = 1; i < n; i++)
        if (z[i] > z[b]) b = i;
    return (int32_t)b;
}

enum { STEPS = sizeof tiny_logits[0].ids / sizeof(int32_t) };

static void compare(const char *name, const double first[8], const int32_t ids[STEPS])
{
    const size_t prompt = sizeof tiny_prompt / sizeof *tiny_prompt;
    const tiny_gguf_spec s = spec_of(name);
    fixture x = start(&s, 1, prompt + STEPS);
    bt_fault f;
    double worst = 0;
    float *z = malloc(s.vocab * sizeof *z);
    assert_non_null(z);
    ok(bt_ref_forward(x.r, x.kv, tiny_prompt, prompt, 0, z, false, NULL, &f), &f);
    for (int k = 0; k < 8; k++) worst = fmax(worst, fabs((double)z[k] - first[k]));
    print_message("%s: largest difference %.2g\n", name, worst);
    assert_true(worst < 2e-5);
    for (size_t k = 0; k < STEPS; k++) {
        const int32_t id = best(z, s.vocab);
        assert_int_equal(id, ids[k]);
        ok(bt_ref_forward(x.r, x.kv, &id, 1, prompt + k, z, false, NULL, &f), &f);
    }
    free(z);
    finish(&x);
}

static void small_models_agree_with_double_precision_from_a_second_implementation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tiny_logits / sizeof *tiny_logits; i++)
        compare(tiny_logits[i].name, tiny_logits[i].first, tiny_logits[i].ids);
}

static void architectures_agree_with_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof arch_logits / sizeof *arch_logits; i++)
        compare(arch_logits[i].name, arch_logits[i].first, arch_logits[i].ids);
}

static void cuts_and_threads_never_change_a_bit(void **state)
{
    (void)state;
    enum { N = 150 }; /* more than one block of rows */
    const tiny_gguf_spec s = spec_of("qwen3");
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 5) % (int)s.vocab;
    fixture x = start(&s, 1, N), y = start(&s, 3, N);
    bt_fault f;
    float *all = malloc((size_t)N * s.vocab * sizeof *all),
          *part = malloc((size_t)N * s.vocab * sizeof *part);
    assert_non_null(all);
    assert_non_null(part);
    ok(bt_ref_forward(x.r, x.kv, ids, N, 0, all, true, NULL, &f), &f);
    static const size_t cuts[] = {1, 2, 3, 7, 64, 73};
    size_t at = 0;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        ok(bt_ref_forward(y.r, y.kv, ids + at, cuts[i], at, part + at * s.vocab, true, NULL, &f), &f);
        at += cuts[i];
    }
    assert_int_equal(at, N);
    assert_memory_equal(all, part, (size_t)N * s.vocab * sizeof *all);
    for (size_t l = 0; l < s.layers; l++)
        for (int v = 0; v < 2; v++)
            assert_memory_equal(bt_ref_kv_row(x.kv, l, v, 0), bt_ref_kv_row(y.kv, l, v, 0),
                                (size_t)N * s.kv_heads * s.head_dim * sizeof(float));
    ok(bt_ref_forward(y.r, y.kv, ids + N - 1, 1, N - 1, part, false, NULL, &f), &f);
    assert_memory_equal(all + (size_t)(N - 1) * s.vocab, part, s.vocab * sizeof *all);
    free(part);
    free(all);
    finish(&y);
    finish(&x);
}

static void rows_carried_to_another_sequence_continue_it(void **state)
{
    (void)state;
    const tiny_gguf_spec s = spec_of("llama");
    fixture x = start(&s, 1, 20);
    bt_ref_kv *other = NULL;
    bt_fault f;
    float a[384], b[384];
    ok(bt_ref_kv_new(&other, x.r, 12, &f), &f);
    ok(bt_ref_forward(x.r, x.kv, tiny_prompt, 8, 0, NULL, false, NULL, &f), &f);
    for (size_t l = 0; l < s.layers; l++)
        for (int v = 0; v < 2; v++)
            for (size_t t = 0; t < 8; t++)
                memcpy(bt_ref_kv_row(other, l, v, t), bt_ref_kv_row(x.kv, l, v, t),
                       (size_t)s.kv_heads * s.head_dim * sizeof(float));
    const int32_t id = 77;
    ok(bt_ref_forward(x.r, x.kv, &id, 1, 8, a, false, NULL, &f), &f);
    ok(bt_ref_forward(x.r, other, &id, 1, 8, b, false, NULL, &f), &f);
    assert_memory_equal(a, b, sizeof a);
    bt_ref_kv_free(other);
    finish(&x);
}

static void wrong_calls_are_errors_with_numbers(void **state)
{
    (void)state;
    const tiny_gguf_spec s = spec_of("llama");
    fixture x = start(&s, 1, 10);
    bt_fault f;
    bt_ref_kv *kv = NULL;
    const int32_t ids[11] = {1}, bad[2] = {3, 384}, negative = -1;
    assert_int_equal(bt_ref_kv_new(&kv, x.r, 513, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "513"));
    assert_non_null(strstr(f.text, "512"));
    assert_int_equal(bt_ref_kv_new(&kv, x.r, 0, &f), BT_ELIMIT);
    assert_int_equal(bt_ref_forward(x.r, x.kv, ids, 11, 0, NULL, false, NULL, &f), BT_ELIMIT);
    assert_int_equal(bt_ref_forward(x.r, x.kv, ids, 1, 10, NULL, false, NULL, &f), BT_ELIMIT);
    assert_int_equal(bt_ref_forward(x.r, x.kv, ids, 2, SIZE_MAX, NULL, false, NULL, &f), BT_ELIMIT);
    assert_int_equal(bt_ref_forward(x.r, x.kv, ids, 0, 0, NULL, false, NULL, &f), BT_EARG);
    assert_int_equal(bt_ref_forward(x.r, x.kv, bad, 2, 0, NULL, false, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "384"));
    assert_int_equal(bt_ref_forward(x.r, x.kv, &negative, 1, 0, NULL, false, NULL, &f), BT_EARG);
    atomic_bool stop = true;
    assert_int_equal(bt_ref_forward(x.r, x.kv, ids, 1, 0, NULL, false, &stop, &f), BT_ECANCEL);
    bt_ref_free(NULL);
    bt_ref_kv_free(NULL);
    finish(&x);
}

static void a_weight_that_is_not_finite_is_refused_by_name(void **state)
{
    (void)state;
    tiny_gguf_spec s = spec_of("llama");
    s.type = BT_QUANT_F16;
    size_t len;
    uint8_t *b = tiny_gguf_build(&s, &len);
    bt_gguf *g = NULL;
    bt_model *m = NULL;
    bt_ref *r = NULL;
    bt_fault f;
    ok(bt_gguf_open_bytes(&g, b, len, &f), &f);
    const size_t at = (size_t)(bt_gguf_find_tensor(g, "blk.1.ffn_up.weight")->data - b);
    b[at + 10] = 0x00;
    b[at + 11] = 0x7c; /* infinity */
    ok(bt_model_from_gguf(&m, g, &f), &f);
    assert_int_equal(bt_ref_new(&r, m, NULL, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "blk.1.ffn_up.weight"));
    bt_model_close(m);
    free(b);
}

/* Greedy ids and first logits of the default model in FP32, the same from two independent engines. */
static const struct {
    int32_t prompt[20];
    size_t prompt_len;
    int32_t ids[24];
    struct {
        int32_t id;
        double z;
    } first[5];
} smollm2[] = {
    {{504, 1029, 282, 260},
     4,
     {19447, 314,  253, 1977,  282, 639, 29,   20003, 28, 837, 260,  19447,
      1251,  6776, 260, 11203, 282, 480, 1038, 3905,  30, 669, 8149, 416},
     {{19447, 10.3143}, {1843, 10.0468}, {3870, 8.7081}, {905, 8.6759}, {3133, 8.524}}},
    {{6403, 1980, 253, 655, 28, 281, 253, 1165, 6560, 411, 260, 3426, 28},
     13,
     {665,  436, 253, 9357,  1573,  267, 19341, 3365, 17644, 793,  30,  909,
      4161, 281, 253, 11637, 10000, 411, 253,   3953, 4480,  4412, 351, 511},
     {{665, 13.0972}, {253, 11.9562}, {260, 10.8395}, {198, 10.245}, {4161, 10.1231}}},
    {{1604, 3987, 46477, 24, 94, 727, 472, 1620, 14362, 260, 304, 29, 373, 24681, 46477, 1230, 7996, 198},
     18,
     {3725,  198,   198,  1348, 6230, 2925, 253,  35881, 2424,  288,   7529, 260,
      24681, 46477, 5972, 30,   378,  8379, 1517, 2179,  38572, 46477, 24,   94},
     {{3725, 34.2562}, {1604, 33.5438}, {198, 33.3474}, {3327, 30.7679}, {19, 30.4258}}},
};

static void the_default_model_gives_the_known_ids_and_logits(void **state)
{
    (void)state;
    char path[4096];
    bt_fault f;
    const char *given = getenv("BATON_TEST_MODEL");
    bt_model *m = NULL;
    bt_pool *pool = NULL;
    bt_ref *r = NULL;
    bt_ref_kv *kv = NULL;
    if (bt_model_find(path, sizeof path, given ? given : "smollm2", &f) < 0) {
        print_message("skipped: %s\n", f.text);
        skip();
    }
    ok(bt_model_open(&m, path, &f), &f);
    ok(bt_pool_new(&pool, 2, &f), &f);
    ok(bt_ref_new(&r, m, pool, &f), &f);
    ok(bt_ref_kv_new(&kv, r, 64, &f), &f);
    float *z = malloc(m->hp.vocab * sizeof *z);
    assert_non_null(z);
    for (size_t i = 0; i < sizeof smollm2 / sizeof *smollm2; i++) {
        ok(bt_ref_forward(r, kv, smollm2[i].prompt, smollm2[i].prompt_len, 0, z, false, NULL, &f), &f);
        for (int k = 0; k < 5; k++)
            assert_true(fabs((double)z[smollm2[i].first[k].id] - smollm2[i].first[k].z) < 0.001);
        for (size_t k = 0; k < DEFAULT_MODEL_STEPS; k++) {
            const int32_t id = best(z, m->hp.vocab);
            assert_int_equal(id, smollm2[i].ids[k]);
            if (k + 1 < DEFAULT_MODEL_STEPS)
                ok(bt_ref_forward(r, kv, &id, 1, smollm2[i].prompt_len + k, z, false, NULL, &f), &f);
        }
    }
    free(z);
    bt_ref_kv_free(kv);
    bt_ref_free(r);
    bt_pool_free(pool);
    bt_model_close(m);
}

static int write_models(const char *dir)
{
    static const char *const names[] = {
        "llama",    "llama-scaled", "llama-q4",   "qwen2",        "qwen3",        "qwen3-partial",
        "olmo2",    "phi3",         "phi3-short", "phi3-long",    "granite",      "smollm3",
        "qwen3moe", "mixtral",      "starcoder2", "gemma3",       "llama-window", "phi3-window",
        "gemma2",   "gemma",        "gpt-oss",    "hunyuan-dense"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        const tiny_gguf_spec s = spec_of(names[i]);
        snprintf(path, sizeof path, "%s/%s.gguf", dir, names[i]);
        tiny_gguf_write(&s, path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "write") == 0) return write_models(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_models_agree_with_double_precision_from_a_second_implementation),
        cmocka_unit_test(architectures_agree_with_transformers),
        cmocka_unit_test(cuts_and_threads_never_change_a_bit),
        cmocka_unit_test(rows_carried_to_another_sequence_continue_it),
        cmocka_unit_test(wrong_calls_are_errors_with_numbers),
        cmocka_unit_test(a_weight_that_is_not_finite_is_refused_by_name),
        cmocka_unit_test(the_default_model_gives_the_known_ids_and_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
