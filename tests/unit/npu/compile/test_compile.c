/* The compiler end to end: same bytes everywhere, keys, refusals, fallbacks; and what rotation and shadow
 * do to planted outliers. */
#include "model/gguf.h"
#include "npu/compile/compile.h"
#include "base/file.h"
#include "npu/quant/calib.h"
#include "npu/pkg/pkg.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 512, CALIB = 300 };

typedef struct world {
    engine_kit kit;
    int32_t ids[CALIB], other[CALIB];
    char path[64];
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model_ffn(arch, 176), .path = "/tmp/test_compile.XXXXXX"};
    const int fd = mkstemp(w.path);
    assert_true(fd >= 0);
    close(fd);
    engine_kit_ids(w.ids, CALIB, w.kit.model, 21);
    engine_kit_ids(w.other, CALIB, w.kit.model, 22);
    return w;
}

static void end(world *w)
{
    unlink(w->path);
    engine_kit_done(&w->kit);
}

static bt_compile_options options(const world *w, const char *recipe)
{
    bt_compile_options o = {.shape_policy = "chunk:32+tail", .ctx_tokens = CTX, .calib_ids = w->ids,
                            .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    return o;
}

static void compile(const world *w, const bt_compile_options *o, bt_pool *pool)
{
    bt_fault f = {""};
    if (bt_compile(w->path, w->kit.model, o, pool, &f) < 0) fail_msg("%s", f.text);
}

static bt_pkg *open_pkg(const world *w)
{
    bt_fault f = {""};
    bt_pkg *p = NULL;
    if (bt_pkg_open(&p, w->path, &f) < 0) fail_msg("%s", f.text);
    if (bt_pkg_check_model(p, w->kit.model, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static bt_buf bytes_of(const world *w)
{
    bt_buf b;
    bt_buf_init(&b, (size_t)1 << 30);
    assert_int_equal(bt_file_read(&b, w->path, NULL), BT_OK);
    return b;
}

static void threads_and_instruction_sets_change_no_byte(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8",
                                          "w4a16",
                                          "w8a8:shadow=channel,prune=0.5,smooth=0.5,gptq",
                                          "w8a8/1=w4a16/head=w8a8:gptq",
                                          "w4a16:awq",
                                          "w4a8:awq,gptq,r1",
                                          "w4a8:awq/1=w8a8:per-tensor"};
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    world w = begin("qwen3");
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        bt_compile_options o = options(&w, recipes[r]);
        compile(&w, &o, pool);
        bt_buf first = bytes_of(&w);
        o.isa = "ref";
        compile(&w, &o, NULL);
        bt_buf second = bytes_of(&w);
        assert_int_equal(first.len, second.len);
        assert_memory_equal(first.data, second.data, first.len);
        bt_buf_done(&first);
        bt_buf_done(&second);
    }
    end(&w);
    bt_pool_free(pool);
}

static void every_recipe_of_every_architecture_makes_a_package_that_is_accepted(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8",
                                          "w8a16",
                                          "w4a8",
                                          "w4a16:no-gptq",
                                          "w8a8:per-tensor",
                                          "w8a8:no-rotate,clip=max,shadow=off",
                                          "w8a8:no-r1",
                                          "w8a8:no-r2",
                                          "w8a8:r4",
                                          "w8a8:no-rotate,r4,smooth=0.5",
                                          "w8a8:smooth=0.5",
                                          "w8a8:no-rotate,smooth=0.5",
                                          "w4a8:awq",
                                          "w8a16:awq,gptq,r1,r4",
                                          "w8a8:a16=down+head",
                                          "w8a8:llm-int8,no-rotate"};
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        for (size_t r = a; r < sizeof recipes / sizeof *recipes; r += 2) {
            const bt_compile_options o = options(&w, recipes[r]);
            compile(&w, &o, NULL);
            bt_pkg *p = open_pkg(&w);
            const bt_pkg_header *h = bt_pkg_header_of(p);
            char text[BT_RECIPE_MAX_TEXT];
            bt_recipe_text(text, &o.recipe);
            assert_string_equal(h->recipe, text);
            assert_int_equal(h->calib_tokens, CALIB);
            assert_int_equal(h->rows.count, 2);
            assert_int_equal(h->r1.base, o.recipe.r1 ? 12 : 0);
            assert_int_equal(h->r4.base, o.recipe.r4 ? 44 : 0);
            const bt_pkg_tensor *norm =
                &bt_pkg_tensors(p)[bt_pkg_tensor_index(h->layers, 0, BT_WEIGHT_FFN_NORM)];
            assert_int_equal(norm->n, o.recipe.r1 && !bt_recipe_scales(&o.recipe) ? 0 : h->dim);
            const bt_pkg_tensor *down = &bt_pkg_tensors(p)[bt_pkg_tensor_index(h->layers, 1, BT_WEIGHT_DOWN)];
            assert_true(down->weight_error > 0 &&
                        down->weight_error < (o.recipe.usual.weight_bits == 4 ? 0.3f : 0.02f));
            assert_true(down->output_error > 0 && down->output_error < 0.5f);
            bt_pkg_close(p);
        }
        end(&w);
    }
}

static bool same_const(const bt_pkg *a, uint32_t i, const bt_pkg *b, uint32_t k)
{
    if (i == BT_PKG_NONE || k == BT_PKG_NONE) return i == k;
    return memcmp(bt_pkg_consts(a)[i].hash, bt_pkg_consts(b)[k].hash, 16) == 0;
}

/* All that a matrix and its site have does not depend on the other layers' recipe. */
static void layers_of_their_own_recipe_are_as_where_all_have_it(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8:no-rotate/1=w4a16/head=w8a16", "w8a8:no-rotate",
                                          "w4a16:no-rotate", "w8a16:no-rotate"};
    world w = begin("llama");
    bt_pkg *p[4];
    for (size_t r = 0; r < 4; r++) {
        const bt_compile_options o = options(&w, recipes[r]);
        compile(&w, &o, NULL);
        p[r] = open_pkg(&w);
        assert_string_equal(bt_pkg_recipe(p[r]), recipes[r]);
        unlink(w.path);
    }
    const bt_pkg_header *h = bt_pkg_header_of(p[0]);
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(p[0])[i];
        const size_t of = t->weight == BT_WEIGHT_OUTPUT ? 3 : t->layer == 1 ? 2 : 1;
        const bt_pkg_tensor *want = &bt_pkg_tensors(p[of])[i];
        assert_int_equal(t->bits, want->bits);
        assert_true(same_const(p[0], t->panels, p[of], want->panels));
        assert_true(same_const(p[0], t->oscale, p[of], want->oscale));
        assert_true(same_const(p[0], t->bias, p[of], want->bias));
    }
    for (uint32_t i = 0; i < h->sites.count; i++) {
        const bt_pkg_site *s = &bt_pkg_sites(p[0])[i];
        const size_t of = s->kind == BT_SITE_HEAD ? 3 : s->layer == 1 ? 2 : 1;
        assert_memory_equal(s, &bt_pkg_sites(p[of])[i], sizeof *s);
    }
    /* So they may be copied: the file is the same, and nothing is measured. */
    bt_compile_options o = options(&w, recipes[0]);
    compile(&w, &o, NULL);
    bt_buf want = bytes_of(&w);
    o.donor = (const bt_pkg *const *)p + 1;
    o.donors = 3;
    o.calib_ids = w.other;
    compile(&w, &o, NULL);
    bt_buf copied = bytes_of(&w);
    assert_int_equal(copied.len, want.len);
    assert_memory_equal(copied.data, want.data, want.len);
    bt_buf_done(&copied);
    o.donors = 2; /* none has the head's */
    compile(&w, &o, NULL);
    copied = bytes_of(&w);
    assert_false(copied.len == want.len && memcmp(copied.data, want.data, want.len) == 0);
    bt_buf_done(&copied);
    bt_buf_done(&want);
    for (size_t r = 0; r < 4; r++) bt_pkg_close(p[r]);
    end(&w);
}

static void a_key_names_what_changes_bytes(void **state)
{
    (void)state;
    world w = begin("llama");
    char key[14][33];
    bt_compile_options o[14];
    bt_profile profile;
    for (size_t i = 0; i < 14; i++) o[i] = options(&w, "w8a8");
    o[1].isa = "ref"; /* the only one that changes nothing */
    o[2] = options(&w, "w8a8:clip=max");
    o[3].shape_policy = "chunk:32";
    o[4].ctx_tokens = 511;
    o[5].calib_len = CALIB - 1;
    o[6].npu_ops = BT_PKG_OPS_ALL;
    assert_int_equal(bt_profile_load(&profile, "hexagon-v75", NULL), BT_OK);
    o[7].profile = &profile;
    int32_t other[CALIB];
    memcpy(other, w.ids, sizeof other);
    other[7] ^= 1;
    o[8].calib_ids = other;
    o[9] = options(&w, "w8a8:gptq");
    o[10] = options(&w, "w8a8:a16=down");
    o[11].shape_policy = "pow2";
    o[12].calib_text = o[13].calib_text = "two words"; /* in place of the ids, which need not be there */
    o[12].calib_ids = NULL;
    o[12].calib_len = 0;
    o[12].calib_text_len = 9;
    o[13].calib_text_len = 3;
    for (size_t i = 0; i < 14; i++) assert_int_equal(bt_compile_key(key[i], w.kit.model, &o[i], NULL), BT_OK);
    assert_int_equal(strlen(key[0]), 32);
    assert_string_equal(key[0], key[1]);
    for (size_t i = 2; i < 14; i++)
        for (size_t j = 0; j < i; j++)
            if (j != 1) assert_string_not_equal(key[i], key[j]);
    end(&w);
}

static void a_key_does_not_change_with_what_a_profile_stands_on(void **state)
{
    (void)state;
    world w = begin("llama");
    char key[3][33];
    bt_compile_options o = options(&w, "w8a8");
    bt_profile profile;
    assert_int_equal(bt_profile_load(&profile, "hexagon-v75", NULL), BT_OK);
    o.profile = &profile;
    assert_int_equal(bt_compile_key(key[0], w.kit.model, &o, NULL), BT_OK);
    profile.time.calibration.rows++;
    profile.time.calibration.residual[BT_TERMS - 1][BT_CALIBRATION_MAX_RESIDUALS - 1]++;
    assert_int_equal(bt_compile_key(key[1], w.kit.model, &o, NULL), BT_OK);
    assert_string_equal(key[0], key[1]);
    profile.stacks++; /* behind it */
    assert_int_equal(bt_compile_key(key[2], w.kit.model, &o, NULL), BT_OK);
    assert_string_not_equal(key[0], key[2]);
    end(&w);
}

/* 96 inputs at most sites, 192 of down, which groups of 32 divide. */
static void a_text_too_short_for_its_statistics_is_refused_with_both_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *recipe, *words;
        size_t tokens, enough;
    } c[] = {
        {"w8a8", "a calibration text of 104 tokens: clip=p99.99 of the 96 inputs of site qkv needs 105", 104,
         105},
        {"w8a16", "of 20 tokens: clip=p99.99 of the 96 inputs of site qkv needs 105", 20, 105},
        {"w8a8:clip=p99.9", "", 0, 16},
        {"w8a8:clip=p99.999", "of 200 tokens: clip=p99.999 of the 96 inputs of site qkv needs 1042", 200, 0},
        {"w8a8:clip=max", "at least 16", 15, 16},
        {"w4a16:clip=max,group=32", "of 31 tokens: GPTQ with group=32 needs as many", 31, 32},
        {"w4a16:clip=max,group=32,no-gptq", "at least 16", 15, 16},
        {"w4a16:awq", "of 128 tokens: awq needs 129", 128, 129},
    };
    world w = begin("llama");
    engine_kit_done(&w.kit);
    w.kit = engine_kit_model_ffn("llama", 192);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        bt_fault f = {""};
        bt_compile_options o = options(&w, c[i].recipe);
        o.calib_len = c[i].tokens;
        if (o.calib_len) {
            assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
            if (!strstr(f.text, c[i].words)) fail_msg("says '%s', not '%s'", f.text, c[i].words);
        }
        o.calib_len = c[i].enough;
        if (o.calib_len && bt_compile(w.path, w.kit.model, &o, NULL, &f) < 0) fail_msg("%s", f.text);
    }
    end(&w);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_fault f = {""};
    bt_compile_options o = options(&w, "w8a8");
    bt_profile small;
    unlink(w.path);
    o.calib_len = 15;
    assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "16"));
    o = options(&w, "w8a8");
    w.ids[3] = 384;
    assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
    w.ids[3] = 1;
    o.shape_policy = "fast";
    assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
    o = options(&w, "w8a8");
    o.isa = "mmx";
    assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
    o.isa = NULL;
    assert_int_equal(bt_profile_load(&small, "host", NULL), BT_OK);
    small.max_shapes = 1;
    o.profile = &small;
    assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
    assert_non_null(strstr(f.text, "allows 1"));
    small.max_shapes = 0;
    o.ctx_tokens = 1025;
    assert_int_equal(bt_compile(w.path, w.kit.model, &o, NULL, &f), BT_EARG);
    assert_true(strstr(f.text, "1025") && strstr(f.text, "1024"));
    o.ctx_tokens = CTX;
    small.map_window_bytes = 1000;
    assert_true(bt_compile(w.path, w.kit.model, &o, NULL, &f) < 0);
    assert_int_not_equal(access(w.path, F_OK), 0); /* a compilation that failed leaves nothing */
    end(&w);
}

static void heads_that_do_not_fit_the_tiles_of_the_estimate_attend_densely_or_are_refused(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    world w = begin("llama"), other = w;
    bt_fault f = {""};
    s.arch = "qwen3", s.head_dim = 18;
    other.kit = engine_kit_of(&s);
    unlink(w.path);
    bt_compile_options o = options(&other, "w8a8");
    o.attention = (bt_attention){200000, 512, 1, 0};
    assert_int_equal(bt_compile(other.path, other.kit.model, &o, NULL, &f), BT_EARG);
    assert_true(strstr(f.text, "--attention") && strstr(f.text, "heads of 18"));
    assert_int_not_equal(access(w.path, F_OK), 0);
    o.attention = (bt_attention){0};
    compile(&other, &o, NULL);
    engine_kit_done(&other.kit);
    end(&w);
}

/* Integer attention sums over no more positions; float attention does, also where it takes the place of the
 * other. */
static void a_context_beyond_integer_attention_is_refused_before_anything_is_compiled(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    world w = begin("llama"), other = w;
    bt_fault f = {""};
    s.layers = 1, s.ctx = 131072 + 256;
    other.kit = engine_kit_of(&s);
    unlink(w.path);
    bt_compile_options o = options(&other, "w8a8");
    o.shape_policy = "chunk:16";
    o.npu_ops = BT_PKG_OPS_ALL;
    o.ctx_tokens = 131073;
    assert_int_equal(bt_compile(other.path, other.kit.model, &o, NULL, &f), BT_EARG);
    assert_true(strstr(f.text, "131073") && strstr(f.text, "131072") && strstr(f.text, "--npu-ops all"));
    assert_int_not_equal(access(w.path, F_OK), 0);
    bt_profile lacks;
    assert_int_equal(bt_profile_load(&lacks, "host", NULL), BT_OK);
    lacks.op[BT_OP_ATTENTION] = 0;
    for (int i = 0; i < 3; i++) {
        o.ctx_tokens = i == 0 ? 131072 : 131073;
        o.npu_ops = i == 1 ? BT_PKG_OPS_LINEAR : BT_PKG_OPS_ALL;
        o.profile = i == 2 ? &lacks : NULL;
        compile(&other, &o, NULL);
        bt_pkg *p = open_pkg(&other);
        assert_int_equal(bt_pkg_header_of(p)->ctx_tokens, o.ctx_tokens);
        assert_int_equal(bt_pkg_header_of(p)->npu_ops, i == 1 ? BT_PKG_OPS_LINEAR : BT_PKG_OPS_ALL);
        bt_pkg_close(p);
    }
    engine_kit_done(&other.kit);
    end(&w);
}

static void what_the_profile_lacks_falls_back_with_its_reason(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_compile_options o = options(&w, "w8a8:a16=down");
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, "host", NULL), BT_OK);
    p.op[BT_OP_LINEAR] = BT_PROFILE_INT8;
    o.profile = &p;
    compile(&w, &o, NULL);
    bt_pkg *pkg = open_pkg(&w);
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    assert_int_equal(h->fallbacks.count, 1);
    const bt_pkg_fallback *f = bt_pkg_fallbacks(pkg);
    assert_string_equal(f->op, "linear");
    assert_non_null(strstr(f->why, "16-bit"));
    assert_int_equal(f->count, 3);
    assert_true(f->macs_per_row == 3ull * 176 * 96);
    assert_int_equal(bt_pkg_tensors(pkg)[bt_pkg_tensor_index(3, 1, BT_WEIGHT_DOWN)].bits, 16);
    assert_int_equal(bt_pkg_tensors(pkg)[bt_pkg_tensor_index(3, 1, BT_WEIGHT_UP)].bits, 8);
    assert_int_equal(bt_pkg_sites(pkg)[bt_pkg_site_index(3, 1, BT_SITE_DOWN)].k, 0);
    bt_pkg_close(pkg);
    end(&w);
}

/* ---- outliers ---- */

/* One channel of each norm times 64, and the columns that read it by 64: the same function. */
static void plant(const bt_model *m)
{
    enum { CHANNEL = 11 };
    for (uint32_t l = 0; l < m->hp.layers; l++) {
        const bt_layer_tensors *t = &m->layer[l];
        const bt_gguf_tensor *norm[] = {t->attn_norm, t->ffn_norm},
                             *reads[] = {t->wq, t->wk, t->wv, t->w_gate, t->w_up};
        for (size_t i = 0; i < 2; i++) ((float *)(uintptr_t)norm[i]->data)[CHANNEL] *= 64;
        for (size_t i = 0; i < 5; i++)
            for (size_t n = 0; n < reads[i]->rows; n++)
                ((float *)(uintptr_t)reads[i]->data)[n * m->hp.dim + CHANNEL] /= 64;
    }
}

static float *logits_of(const world *w, const bt_pkg *pkg)
{
    const bt_prefill_config c = {.engine = pkg ? "npu" : "host", .pkg = pkg, .ctx_tokens = CTX, .threads = 1,
                                 .want.shape_policy = "chunk:32+tail"};
    bt_prefill *p = NULL;
    int32_t ids[CALIB];
    engine_kit_ids(ids, CALIB, w->kit.model, 99);
    float *logits = malloc((size_t)CALIB * w->kit.model->hp.vocab * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(bt_prefill_new(&p, w->kit.model, &c, NULL), BT_OK);
    bt_kv_view kv = engine_kit_pages(w->kit.model, CALIB, 16, 2);
    assert_int_equal(bt_prefill_run(p, &kv, ids, CALIB, 0, NULL, logits, BT_PREFILL_ALL, NULL), BT_OK);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    return logits;
}

/* Relative root mean square difference from the float engine's logits. */
static double error_of(const world *w, const char *recipe, const float *should)
{
    const bt_compile_options o = options(w, recipe);
    compile(w, &o, NULL);
    bt_pkg *pkg = open_pkg(w);
    float *is = logits_of(w, pkg);
    double apart = 0, square = 0;
    for (size_t i = 0; i < (size_t)CALIB * w->kit.model->hp.vocab; i++) {
        apart += ((double)is[i] - should[i]) * ((double)is[i] - should[i]);
        square += (double)should[i] * should[i];
    }
    free(is);
    bt_pkg_close(pkg);
    return sqrt(apart / square);
}

static void planted_outliers_ruin_the_plain_recipe_and_no_other(void **state)
{
    (void)state;
    world w = begin("llama");
    float *should = logits_of(&w, NULL);
    const double clean = error_of(&w, "w8a8:no-rotate,clip=max,shadow=off", should);
    plant(w.kit.model);
    const double plain = error_of(&w, "w8a8:no-rotate,clip=max,shadow=off", should);
    const double rotated = error_of(&w, "w8a8", should),
                 shadow = error_of(&w, "w8a8:no-rotate,clip=p98", should);
    const double channel = error_of(&w, "w8a8:no-rotate,clip=p98,shadow=channel", should),
                 wide = error_of(&w, "w8a16:no-rotate", should);
    assert_true(plain > 10 * clean);
    assert_true(rotated < 1.2 * clean);
    /* Without rotation the planted column's weights keep their 1/64, two steps of the row's scale at most:
     * inputs are no longer to blame. */
    assert_true(wide < 2 * clean && shadow < 1.2 * wide && channel < 1.2 * wide);
    free(should);
    end(&w);
}

/* Scales stand in norms, before the rotation's basis is left or without one. */
static void awq_keeps_the_models_output_with_and_without_rotation(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a16:awq", "w8a16:awq,r1,r2", "w8a16:awq,gptq,r1,r4"};
    world w = begin("llama");
    plant(w.kit.model);
    float *should = logits_of(&w, NULL);
    const double plain = error_of(&w, "w8a16", should);
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        const double error = error_of(&w, recipes[r], should);
        if (!(error < 3 * plain)) fail_msg("%s: %g, w8a16 %g", recipes[r], error, plain);
    }
    free(should);
    end(&w);
}

/* AC-c2 */
static void a_shadow_pruned_everywhere_is_the_plain_clip_bit_for_bit(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8:no-rotate,clip=p98,shadow=off",
                                          "w8a8:no-rotate,clip=p98,shadow=channel,prune=1",
                                          "w8a8:no-rotate,clip=p98,shadow=channel"};
    world w = begin("llama");
    float *logits[3];
    plant(w.kit.model);
    for (size_t r = 0; r < 3; r++) {
        const bt_compile_options o = options(&w, recipes[r]);
        compile(&w, &o, NULL);
        bt_pkg *pkg = open_pkg(&w);
        logits[r] = logits_of(&w, pkg);
        bt_pkg_close(pkg);
    }
    const size_t bytes = (size_t)CALIB * w.kit.model->hp.vocab * sizeof(float);
    assert_memory_equal(logits[0], logits[1], bytes);
    assert_memory_not_equal(logits[0], logits[2], bytes); /* there was something to leave out */
    for (size_t r = 0; r < 3; r++) free(logits[r]);
    end(&w);
}

/* AC-j3 */
static void rotation_spreads_a_planted_outlier_over_all_channels(void **state)
{
    (void)state;
    world w = begin("llama");
    double peak[2][BT_SITE_HEAD]; /* max / rms of the inputs of a kind, the worst of the layers */
    plant(w.kit.model);
    for (int rotated = 0; rotated < 2; rotated++) {
        const bt_compile_options o = options(&w, rotated ? "w8a8" : "w8a8:no-rotate");
        compile(&w, &o, NULL);
        bt_pkg *pkg = open_pkg(&w);
        for (uint32_t kind = 0; kind < BT_SITE_HEAD; kind++) {
            peak[rotated][kind] = 0;
            for (uint32_t l = 0; l < w.kit.model->hp.layers; l++) {
                const bt_pkg_site *s = &bt_pkg_sites(pkg)[bt_pkg_site_index(w.kit.model->hp.layers, l, kind)];
                peak[rotated][kind] = fmax(peak[rotated][kind], (double)(s->max / s->rms));
            }
        }
        bt_pkg_close(pkg);
    }
    for (uint32_t kind = 0; kind < BT_SITE_HEAD; kind++)
        print_message("%s: max / rms %.1f, rotated %.1f\n", bt_site_kind_name((bt_site_kind)kind),
                      peak[0][kind], peak[1][kind]);
    assert_true(peak[1][BT_SITE_QKV] < peak[0][BT_SITE_QKV] / 3 &&
                peak[1][BT_SITE_UP] < peak[0][BT_SITE_UP] / 3);
    end(&w);
}

/* Squares of what the outputs lose: of down, which no rotation helps, and of the other linears. */
static void sum_errors(double ret[2], const world *w, const char *recipe, const char *made)
{
    const bt_compile_options o = options(w, recipe);
    compile(w, &o, NULL);
    bt_pkg *p = open_pkg(w);
    assert_string_equal(bt_pkg_recipe(p), made);
    ret[0] = ret[1] = 0;
    for (size_t i = 0; i < bt_pkg_header_of(p)->tensors.count; i++) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i];
        const uint32_t kind = t->n ? bt_pkg_site_of((bt_weight)t->weight) : BT_PKG_NONE;
        if (kind == BT_PKG_NONE) continue;
        ret[kind != BT_SITE_DOWN] += (double)t->output_error * (double)t->output_error;
    }
    bt_pkg_close(p);
}

static void where_r1_cannot_be_gptq_keeps_what_8_bit_weights_lose(void **state)
{
    (void)state;
    static const char *const archs[] = {"gemma3", "starcoder2"};
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        world w = begin(archs[a]);
        double nearest[2], gptq[2], down[2];
        sum_errors(nearest, &w, "w8a16:no-gptq", "w8a16:no-gptq");
        sum_errors(gptq, &w, "w8a16", "w8a16:gptq");
        sum_errors(down, &w, "w8a16:gptq=down", "w8a16:gptq=down");
        print_message("%s: down %.3g by rounding to nearest, %.3g by GPTQ; others %.3g, %.3g\n", archs[a],
                      nearest[0], gptq[0], nearest[1], gptq[1]);
        assert_true(gptq[0] > 0 && gptq[0] < 0.7 * nearest[0]);
        assert_true(gptq[1] > 0 && gptq[1] < 0.9 * nearest[1]);
        assert_true(down[0] == gptq[0] && down[1] == nearest[1]);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_and_instruction_sets_change_no_byte),
        cmocka_unit_test(every_recipe_of_every_architecture_makes_a_package_that_is_accepted),
        cmocka_unit_test(layers_of_their_own_recipe_are_as_where_all_have_it),
        cmocka_unit_test(a_key_names_what_changes_bytes),
        cmocka_unit_test(a_key_does_not_change_with_what_a_profile_stands_on),
        cmocka_unit_test(a_text_too_short_for_its_statistics_is_refused_with_both_numbers),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(heads_that_do_not_fit_the_tiles_of_the_estimate_attend_densely_or_are_refused),
        cmocka_unit_test(a_context_beyond_integer_attention_is_refused_before_anything_is_compiled),
        cmocka_unit_test(what_the_profile_lacks_falls_back_with_its_reason),
        cmocka_unit_test(planted_outliers_ruin_the_plain_recipe_and_no_other),
        cmocka_unit_test(awq_keeps_the_models_output_with_and_without_rotation),
        cmocka_unit_test(a_shadow_pruned_everywhere_is_the_plain_clip_bit_for_bit),
        cmocka_unit_test(rotation_spreads_a_planted_outlier_over_all_channels),
        cmocka_unit_test(where_r1_cannot_be_gptq_keeps_what_8_bit_weights_lose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
