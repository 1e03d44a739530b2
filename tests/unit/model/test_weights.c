/* Weights as int8 and FP4: each value is the file's by the rule of its form, and what a form cannot hold
 * falls back or is refused by name. As f16: test_weights_f16.c; the cache of them: test_weights_cache.c. */
#include "model/gguf.h"
#include "model/weights.h"
#include "kernels/kernels.h"
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

static bt_weights *open_weights(const bt_model *m, const char *form, bt_pool *pool)
{
    bt_fault f = {""};
    bt_weights *w = NULL;
    const bt_weights_options o = {.form = form, .ctx_tokens = 77, .cache_dir = ""};
    if (bt_weights_open(&w, m, &o, pool, &f) < 0) fail_msg("%s", f.text);
    return w;
}

/* ---- int8 and fp4 ---- */

static const uint32_t types[] = {BT_QUANT_F32,  BT_QUANT_F16,  BT_QUANT_BF16, BT_QUANT_Q4_0,
                                 BT_QUANT_Q4_1, BT_QUANT_Q8_0, BT_QUANT_MXFP4};

/* ffn 172: rows of `down` end within a group, and are F32 in files of blocks. */
static engine_kit model_of(uint32_t type, bool tied, uint64_t seed)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.type = type;
    s.tied = tied;
    s.ffn = 172;
    s.seed = seed;
    s.no_tokenizer = true;
    engine_kit k = {0};
    size_t len;
    bt_gguf *g;
    k.bytes = tiny_gguf_build(&s, &len);
    if (bt_gguf_open_bytes(&g, k.bytes, len, NULL) < 0 || bt_model_from_gguf(&k.model, g, NULL) < 0) abort();
    return k;
}

static float half(float x) { return bt_f16_to_f32_1(bt_f32_to_f16_1(x)); }

/* The rules of the header for one channel or block, in plain words. */
static void check_rounded(const bt_weights_matrix *x, size_t n, const float *w, size_t from, size_t count)
{
    float low = w[0], high = w[0];
    for (size_t i = 0; i < count; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
    }
    const float most = -low > high ? -low : high;
    float d = half(x->form == BT_FORM_INT8 ? most / 127 : (high - low) / 15);
    if (x->form == BT_FORM_INT8 && d * 127 < most) d = bt_f16_to_f32_1((uint16_t)(bt_f32_to_f16_1(d) + 1));
    const float m = x->form == BT_FORM_INT8 ? 0 : half(low);
    for (size_t i = 0; i < count; i++) {
        const float v = bt_form_value(x->panels, x->form, x->group, x->k, n, from + i);
        const double steps = d > 0 ? ((double)v - m) / d : 0; /* the code, but for the rounding of v */
        assert_true(fabs(steps - rint(steps)) < 1e-3);
        double want = d > 0 ? rint(((double)w[i] - m) / d) : 0;
        if (x->form == BT_FORM_FP4) want = want < 0 ? 0 : want > 15 ? 15 : want;
        /* a tie in double may not be one in float */
        if (rint(steps) != want) assert_true(fabs(fabs(((double)w[i] - m) / d - want) - 0.5) < 1e-4);
    }
}

static size_t check_matrix(const bt_weights_matrix *x, const bt_gguf_tensor *t, bool is_exact)
{
    size_t seen = 0;
    assert_int_equal(x->k, t->dim[0]);
    assert_int_equal(x->n, t->dim[1]);
    assert_int_equal((uintptr_t)x->panels % 64, 0);
    float *row = engine_kit_floats(x->k);
    for (size_t n = 0; n < x->n; n++) {
        bt_model_row_f32(row, t, n);
        for (size_t at = 0; at < x->k; at += x->group) {
            const size_t count = x->k - at < x->group ? x->k - at : x->group;
            if (!is_exact) check_rounded(x, n, row + at, at, count);
            for (size_t i = 0; is_exact && i < count; i++, seen++)
                assert_true(bt_form_value(x->panels, x->form, x->group, x->k, n, at + i) == row[at + i]);
        }
    }
    for (size_t n = x->n; n % 16; n++)
        for (size_t at = 0; at < x->k; at++)
            assert_true(bt_form_value(x->panels, x->form, x->group, x->k, n, at) == 0);
    free(row);
    return seen;
}

static void every_type_takes_its_form_and_its_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4 * sizeof types / sizeof *types; i++) {
        const bool is_fp4 = i % 2, tied = i / 2 % 2;
        engine_kit kit = model_of(types[i / 4], tied, 7 + i);
        bt_weights *w = open_weights(kit.model, is_fp4 ? "fp4" : "int8", NULL);
        uint32_t layer = 0;
        size_t exact = 0;
        for (bt_weight which = BT_WEIGHT_NONE; (which = bt_weight_next(kit.model, &layer, which));) {
            if (!bt_weight_is_matrix(which)) continue;
            const bt_gguf_tensor *t = bt_weight_tensor(kit.model, layer, which);
            const bt_weights_matrix *x = bt_weights_matrix_of(w, layer, which);
            const bool is_q8 = t->type == BT_QUANT_Q8_0, is_mx = t->type == BT_QUANT_MXFP4,
                       is_q4 = t->type == BT_QUANT_Q4_0 || t->type == BT_QUANT_Q4_1 || is_mx;
            const bool in_int8 = !is_fp4 || is_q8 || (which == BT_WEIGHT_OUTPUT && !is_q4);
            assert_int_equal(x->form, in_int8 ? BT_FORM_INT8 : is_mx ? BT_FORM_MX : BT_FORM_FP4);
            assert_int_equal(x->group, is_fp4 || is_q8 ? 32 : t->dim[0]);
            exact += check_matrix(x, t, is_q8 || (is_fp4 && is_q4));
        }
        if (types[i / 4] == BT_QUANT_Q8_0 ||
            (is_fp4 && (types[i / 4] == BT_QUANT_Q4_0 || types[i / 4] == BT_QUANT_Q4_1 ||
                        types[i / 4] == BT_QUANT_MXFP4)))
            assert_true(exact >= 384 * 64);
        assert_string_equal(bt_weights_form(w), is_fp4 ? "fp4" : "int8");
        bt_weights_free(w);
        engine_kit_done(&kit);
    }
}

static void a_step_reads_the_panels_and_vectors_and_no_more(void **state)
{
    (void)state;
    engine_kit kit = model_of(BT_QUANT_Q4_1, true, 1);
    bt_weights *w = open_weights(kit.model, "fp4", NULL);
    const uint64_t q = 64 / 16 * 2 * 320, kv = 32 / 16 * 2 * 320, ffn = 11 * 2 * 320,
                   down = 64 / 16 * 6 * 320, out = 384 / 16 * 2 * 320;
    assert_int_equal(bt_weights_step_bytes(w),
                     2 * (2 * q + 2 * kv + 2 * ffn + down + 2 * 64 * 4) + out + 64 * 4);
    bt_weights_free(w);
    engine_kit_done(&kit);
}

/* ---- what a form cannot hold ---- */

/* Bytes of a tensor of layer 0, to damage them. */
static uint8_t *bytes_of(const bt_gguf_tensor *t, size_t at) { return (uint8_t *)(uintptr_t)t->data + at; }

static void a_q4_0_matrix_with_a_scale_too_great_for_fp4_is_int8_and_still_exact(void **state)
{
    (void)state;
    engine_kit kit = model_of(BT_QUANT_Q4_0, false, 3);
    const bt_gguf_tensor *t = kit.model->layer[0].wk;
    const uint16_t d = bt_f32_to_f16_1(-8192.0f);
    memcpy(bytes_of(t, 5 * t->row_bytes + 18), &d, sizeof d);
    bt_weights *w = open_weights(kit.model, "fp4", NULL);
    const bt_weights_matrix *x = bt_weights_matrix_of(w, 0, BT_WEIGHT_K);
    assert_int_equal(x->form, BT_FORM_INT8);
    assert_int_equal(x->group, 32);
    check_matrix(x, t, true);
    assert_int_equal(bt_weights_matrix_of(w, 0, BT_WEIGHT_V)->form, BT_FORM_FP4);
    check_matrix(bt_weights_matrix_of(w, 1, BT_WEIGHT_DOWN), kit.model->layer[1].w_down, false);
    bt_weights_free(w);
    engine_kit_done(&kit);
}

static void values_too_great_for_fp4_are_int8_in_blocks(void **state)
{
    (void)state;
    engine_kit kit = model_of(BT_QUANT_F32, false, 3);
    const bt_gguf_tensor *t = kit.model->layer[1].w_up;
    const float great = 70000.0f;
    memcpy(bytes_of(t, 4 * 100), &great, sizeof great);
    bt_weights *w = open_weights(kit.model, "fp4", NULL);
    assert_int_equal(bt_weights_matrix_of(w, 1, BT_WEIGHT_UP)->form, BT_FORM_FP4); /* 4667 times 15 */
    bt_weights_free(w);
    const float lesser = -70000.0f; /* a minimum */
    memcpy(bytes_of(t, 4 * 100), &lesser, sizeof lesser);
    w = open_weights(kit.model, "fp4", NULL);
    assert_int_equal(bt_weights_matrix_of(w, 1, BT_WEIGHT_UP)->form, BT_FORM_INT8);
    assert_int_equal(bt_weights_matrix_of(w, 1, BT_WEIGHT_UP)->group, 32);
    check_matrix(bt_weights_matrix_of(w, 1, BT_WEIGHT_UP), t, false);
    bt_weights_free(w);
    engine_kit_done(&kit);
}

static void check_refused(const bt_model *m, const char *form, const bt_gguf_tensor *t, const char *words)
{
    bt_fault f = {""};
    bt_weights *w = NULL;
    const bt_weights_options o = {.form = form, .ctx_tokens = 1, .cache_dir = ""};
    assert_int_equal(bt_weights_open(&w, m, &o, NULL, &f), BT_EFORMAT);
    assert_null(w);
    assert_non_null(strstr(f.text, t->name));
    assert_non_null(strstr(f.text, words));
}

static void a_value_that_is_not_finite_is_refused_by_its_tensor(void **state)
{
    (void)state;
    const uint16_t infinite = 0x7c00, nan16 = 0x7e01;
    const float nan32 = NAN, huge = 1e9f;
    const uint8_t beyond[2] = {0xff, 0x77}; /* 6 * 2^128 */
    const struct {
        uint32_t type;
        size_t at;
        const void *bytes;
        size_t len;
        const char *words;
    } cases[] = {
        {BT_QUANT_Q8_0, 34, &infinite, 2, "not finite"}, {BT_QUANT_Q4_0, 18, &nan16, 2, "not finite"},
        {BT_QUANT_Q4_1, 20, &infinite, 2, "not finite"}, {BT_QUANT_Q4_1, 22, &nan16, 2, "not finite"},
        {BT_QUANT_F32, 8, &nan32, 4, "not finite"},      {BT_QUANT_F16, 62, &infinite, 2, "not finite"},
        {BT_QUANT_F32, 8, &huge, 4, "127 times"},        {BT_QUANT_MXFP4, 17, beyond, 2, "not finite"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine_kit kit = model_of(cases[i].type, false, 3);
        const bt_gguf_tensor *t = kit.model->layer[1].w_gate;
        memcpy(bytes_of(t, 3 * t->row_bytes + cases[i].at), cases[i].bytes, cases[i].len);
        check_refused(kit.model, "int8", t, cases[i].words);
        check_refused(kit.model, "fp4", t, cases[i].words);
        check_refused(kit.model, "f16", t, "beyond the range");
        engine_kit_done(&kit);
    }
}

static void refuses_an_unknown_form_and_a_context_of_nothing(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_weights *w = NULL;
    const bt_weights_options unknown = {.form = "f15", .ctx_tokens = 1, .cache_dir = ""};
    const bt_weights_options none = {.cache_dir = ""},
                             huge = {.ctx_tokens = (size_t)BT_MODEL_MAX_CTX + 1, .cache_dir = ""};
    assert_int_equal(bt_weights_open(&w, kit.model, &unknown, NULL, NULL), BT_EARG);
    assert_int_equal(bt_weights_open(&w, kit.model, &none, NULL, NULL), BT_EARG);
    assert_int_equal(bt_weights_open(&w, kit.model, &huge, NULL, NULL), BT_EARG);
    assert_null(w);
    bt_weights_free(NULL);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_takes_its_form_and_its_values),
        cmocka_unit_test(a_step_reads_the_panels_and_vectors_and_no_more),
        cmocka_unit_test(a_q4_0_matrix_with_a_scale_too_great_for_fp4_is_int8_and_still_exact),
        cmocka_unit_test(values_too_great_for_fp4_are_int8_in_blocks),
        cmocka_unit_test(a_value_that_is_not_finite_is_refused_by_its_tensor),
        cmocka_unit_test(refuses_an_unknown_form_and_a_context_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
