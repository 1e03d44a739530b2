/* Rotary tables of scaled models: against what other implementations make, against sums written out, and
 * through a file; what is refused. */
#include "model/gguf.h"
#include "model/model.h"
#include "tests/helpers/model/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PAIRS = 8, CTX = 512, ORIGINAL = 128 };

/* The keys of a file beyond a plain one; NULL and 0: no such key. */
typedef struct scaling {
    const char *type;
    float factor, attn, fast, slow, ext, log_mul, yarn_attn;
    uint32_t original, shorts, longs; /* tensors of that many elements */
    float first;                      /* of shorts, in place of 1 */
    bool freqs;
} scaling;

static float short_at(size_t i) { return 1.0f + 0.0625f * (float)i; }
static float long_at(size_t i) { return 2.0f + 3.0f * (float)i; }

static void factors(tiny_gguf *w, const char *name, uint32_t n, float (*at)(size_t), float first)
{
    float v[2 * PAIRS];
    for (size_t i = 0; i < n; i++) v[i] = at(i);
    if (first != 0.0f) v[0] = first;
    if (n) tiny_gguf_tensor(w, name, 0, (uint64_t[]){n}, 1, v, n * sizeof *v);
}

static void add(tiny_gguf *w, void *ud)
{
    const scaling *s = ud;
    const struct {
        const char *key;
        float v;
    } numbers[] = {{"factor", s->factor},
                   {"attn_factor", s->attn},
                   {"yarn_beta_fast", s->fast},
                   {"yarn_beta_slow", s->slow},
                   {"yarn_ext_factor", s->ext},
                   {"yarn_log_multiplier", s->log_mul},
                   {"yarn_attn_factor", s->yarn_attn}};
    char key[64];
    if (s->type) tiny_gguf_str(w, "llama.rope.scaling.type", s->type);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "llama.rope.scaling.%s", numbers[i].key);
        if (numbers[i].v != 0.0f) tiny_gguf_f32(w, key, numbers[i].v);
    }
    if (s->original) tiny_gguf_u32(w, "llama.rope.scaling.original_context_length", s->original);
    factors(w, "rope_factors_short.weight", s->shorts, short_at, s->first);
    factors(w, "rope_factors_long.weight", s->longs, long_at, 0);
}

static tiny_model open_scaled(const scaling *s)
{
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.ctx = CTX;
    spec.rope_freqs = s->freqs;
    spec.extra = add;
    spec.ud = (void *)(uintptr_t)s;
    return tiny_model_open(&spec);
}

/* Figures of transformers' modeling_rope_utils._compute_yarn_parameters, computed in float64 by numpy 2.4:
 * Qwen2.5 with the factor of its model card (base 1e6, 128 dims, 32,768 positions times 4), and others. */
static void yarn_frequencies_are_those_of_another_implementation(void **state)
{
    (void)state;
    static const struct {
        size_t dims;
        double base, factor, magnitude;
        bt_rope r;
        struct {
            size_t i;
            double f;
        } at[8];
    } rows[] = {
        {128,
         1e6,
         4,
         1.1386294361119891,
         {BT_ROPE_YARN, 1, 32768, 32, 1, false},
         {{0, 1},
          {1, 0.80584218776148187},
          {16, 0.031622776601683791},
          {26, 0.0031684225747110918},
          {31, 0.00080295972754523023},
          {32, 0.00060294117647058821},
          {47, 9.8104743962113409e-06},
          {63, 3.1023444018792988e-07}}},
        {64,
         1e4,
         16,
         1.2772588722239782,
         {BT_ROPE_YARN, 1, 4096, 32, 1, false},
         {{0, 1},
          {1, 0.74989420933245587},
          {8, 0.10000000000000001},
          {10, 0.056234132519034905},
          {15, 0.0085268437729674098},
          {16, 0.005673076923076923},
          {23, 8.3345089510207754e-05},
          {31, 8.3345089510207747e-06}}},
        {128,
         1e6,
         4,
         1.1386294361119891,
         {BT_ROPE_YARN, 1, 32768, 64, 2, false},
         {{0, 1},
          {1, 0.80584218776148187},
          {16, 0.031622776601683791},
          {26, 0.0026851038768738065},
          {31, 0.00063871796509279682},
          {32, 0.00047058823529411761},
          {47, 9.8104743962113409e-06},
          {63, 3.1023444018792988e-07}}},
        {64, /* gpt-oss: truncate false, pairs 8.09 to 17.40 */
         150000,
         32,
         1.3465735902799727,
         {.kind = BT_ROPE_YARN, .original_ctx = 4096, .beta_fast = 32, .beta_slow = 1, .is_exact = true},
         {{0, 1},
          {1, 0.6890443058881633},
          {8, 0.050813274815461475},
          {9, 0.03170569618466377},
          {13, 0.0038603593171920685},
          {17, 0.00012931870124506317},
          {18, 3.8308812373753384e-05},
          {31, 3.0235114281192144e-07}}},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        double f[64];
        bt_rope_frequencies(f, &rows[k].r, rows[k].dims, rows[k].base, 1 / rows[k].factor, NULL);
        for (size_t i = 0; i < 8; i++) assert_true(fabs(f[rows[k].at[i].i] / rows[k].at[i].f - 1) < 1e-13);
        assert_true(fabs(bt_rope_yarn_magnitude(rows[k].factor) - rows[k].magnitude) < 1e-15);
    }
    assert_true(bt_rope_yarn_magnitude(0.5) == 1.0 && bt_rope_yarn_magnitude(1.0) == 1.0);
}

/* base 10000, 16 dims, 128 positions: the pair that turns once within them is 16 ln(128 / 2 pi) / (2 ln
 * 10000) = 2.62, and 32 turns are before pair 0: low 0, high 3. So pairs 3 and up are scaled whole, and pair
 * 1 by a third. */
static double expected(const scaling *s, const tiny_model *o, size_t i)
{
    static const double keep[PAIRS] = {1, 2.0 / 3, 1.0 / 3};
    double f = pow(10000.0, -(double)i / PAIRS);
    float freqs[PAIRS];
    if (s->freqs) bt_model_row_f32(freqs, bt_gguf_find_tensor(o->m->file, "rope_freqs.weight"), 0);
    if (s->freqs) f /= (double)freqs[i];
    if (s->longs) return f / (double)(s->original < CTX ? long_at(i) : short_at(i));
    if (!strcmp(s->type, "yarn")) return f * keep[i] + f / (double)s->factor * (1 - keep[i]);
    return f / (s->factor > 0 ? (double)s->factor : 1.0);
}

static void tables_of_every_kind_are_the_sums_written_out(void **state)
{
    (void)state;
    static const struct {
        scaling s;
        double magnitude;
    } rows[] = {
        {{.type = "none", .attn = 1.25f}, 1.25},
        {{.type = "linear", .factor = 4, .attn = 0.5f}, 0.5},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL}, 1.1386294361119891},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .attn = 0.5f, .freqs = true},
         0.56931471805599453},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .ext = 1, .fast = 32, .slow = 1},
         1.1386294361119891},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS, .attn = 1.1902381f},
         1.1902381},
        {{.type = "longrope", .original = CTX, .shorts = PAIRS, .longs = PAIRS, .factor = 1}, 1},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        static float c[CTX * PAIRS], n[CTX * PAIRS], c2[CTX * PAIRS], n2[CTX * PAIRS];
        tiny_model o = open_scaled(&rows[k].s);
        if (o.e < 0) fail_msg("%zu: %s", k, o.fault.text);
        bt_model_rope_table(c, n, o.m, 0, CTX);
        for (size_t p = 0; p < CTX; p++)
            for (size_t i = 0; i < PAIRS; i++) {
                const double angle = (double)p * expected(&rows[k].s, &o, i);
                assert_true(fabs((double)c[p * PAIRS + i] - rows[k].magnitude * cos(angle)) < 2e-7);
                assert_true(fabs((double)n[p * PAIRS + i] - rows[k].magnitude * sin(angle)) < 2e-7);
            }
        /* whatever the context of the table, a position has its row */
        bt_model_rope_table(c2, n2, o.m, 0, ORIGINAL / 2);
        assert_memory_equal(c, c2, ORIGINAL / 2 * PAIRS * sizeof *c);
        assert_memory_equal(n, n2, ORIGINAL / 2 * PAIRS * sizeof *n);
        tiny_model_close(&o);
    }
}

static void the_scaling_is_told_in_words(void **state)
{
    (void)state;
    static const struct {
        scaling s;
        const char *words;
    } rows[] = {
        {{.type = "none"}, ""},
        {{.type = "none", .attn = 1.5f}, "magnitude 1.5"},
        {{.type = "none", .freqs = true}, "a factor for each pair"},
        {{.type = "linear", .factor = 4}, "linear, factor 4"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL},
         "yarn, factor 4, original context 128, beta 32 to 1, magnitude 1.13863"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS},
         "longrope, a factor for each pair, original context 128"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[BT_ROPE_MAX_TEXT];
        tiny_model o = open_scaled(&rows[k].s);
        if (o.e < 0) fail_msg("%zu: %s", k, o.fault.text);
        bt_rope_text(text, &o.m->hp.rope, (double)o.m->hp.rope_scale, o.m->rope_freqs != NULL);
        assert_string_equal(text, rows[k].words);
        tiny_model_close(&o);
    }
}

static void what_turns_the_head_otherwise_is_another_model(void **state)
{
    (void)state;
    static const scaling rows[] = {
        {.type = "none"},
        {.type = "linear", .factor = 4},
        {.type = "none", .attn = 1.5f},
        {.type = "yarn", .factor = 4, .original = ORIGINAL},
        {.type = "yarn", .factor = 4, .original = ORIGINAL / 2},
        {.type = "yarn", .factor = 4, .original = ORIGINAL, .fast = 16},
        {.type = "yarn", .factor = 4, .original = ORIGINAL, .slow = 2},
        {.type = "yarn", .factor = 4, .original = ORIGINAL, .attn = 1.5f},
        {.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS},
        {.type = "longrope", .original = CTX, .shorts = PAIRS, .longs = PAIRS},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    tiny_model o[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        o[i] = open_scaled(&rows[i]);
        assert_int_equal(o[i].e, BT_OK);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(o[k].m->id, o[i].m->id, sizeof o[i].m->id);
    }
    for (size_t i = 0; i < ROWS; i++) tiny_model_close(&o[i]);
    /* among the positions of one choice the original context decides nothing more */
    const scaling a = rows[8];
    scaling b = a;
    b.original /= 2;
    tiny_model x = open_scaled(&a), y = open_scaled(&b);
    assert_memory_equal(x.m->id, y.m->id, sizeof x.m->id);
    tiny_model_close(&x);
    tiny_model_close(&y);
}

static void hostile_scalings_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        scaling s;
        bt_err e;
        const char *words;
    } rows[] = {
        {{.type = "ntk"},
         BT_EVERSION,
         "rope.scaling.type is 'ntk'; this build implements none, linear, yarn"},
        {{.type = "llama3", .factor = 8}, BT_EVERSION, "llama3 as the tensor rope_freqs.weight"},
        {{.type = "yarn", .original = ORIGINAL}, BT_EFORMAT, "llama.rope.scaling.factor"},
        {{.type = "yarn", .factor = -1, .original = ORIGINAL}, BT_EFORMAT, "llama.rope.scaling.factor is -1"},
        {{.type = "yarn", .factor = INFINITY, .original = ORIGINAL}, BT_EFORMAT, "scaling.factor is inf"},
        {{.type = "yarn", .factor = NAN, .original = ORIGINAL}, BT_EFORMAT, "scaling.factor is "},
        {{.type = "yarn", .factor = 4}, BT_EFORMAT, "llama.rope.scaling.original_context_length"},
        {{.type = "yarn", .factor = 4, .original = 1u << 21},
         BT_ELIMIT,
         "original_context_length is 2097152"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .fast = INFINITY},
         BT_EFORMAT,
         "yarn_beta_fast is inf"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .slow = -1}, BT_EFORMAT, "yarn_beta_slow is -1"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .slow = 32}, BT_EFORMAT, "yarn_beta_fast is 32"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .ext = 0.5f},
         BT_EVERSION,
         "yarn_ext_factor is 0.5"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .log_mul = 0.1f},
         BT_EVERSION,
         "yarn_log_multiplier is 0.1"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .yarn_attn = 1},
         BT_EVERSION,
         "yarn_attn_factor"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .attn = -2}, BT_EFORMAT, "attn_factor is -2"},
        {{.type = "yarn", .factor = 4, .original = ORIGINAL, .shorts = PAIRS},
         BT_EVERSION,
         "'rope_factors_short.weight' has no place"},
        {{.type = "longrope", .shorts = PAIRS, .longs = PAIRS}, BT_EFORMAT, "original_context_length"},
        {{.type = "longrope", .original = ORIGINAL, .longs = PAIRS},
         BT_EFORMAT,
         "no tensor 'rope_factors_short.weight'"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS},
         BT_EFORMAT,
         "no tensor 'rope_factors_long.weight'"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS + 1},
         BT_EFORMAT,
         "'rope_factors_long.weight' has the shape 9 x 1; 8 x 1 is needed"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS, .first = -1},
         BT_EFORMAT,
         "rope_factors_short.weight[0] is -1"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS, .first = INFINITY},
         BT_EFORMAT,
         "rope_factors_short.weight[0] is inf"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS, .factor = 4},
         BT_EVERSION,
         "rope.scaling.factor is 4 beside longrope"},
        {{.type = "longrope", .original = ORIGINAL, .shorts = PAIRS, .longs = PAIRS, .freqs = true},
         BT_EVERSION,
         "'rope_freqs.weight' has no place"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny_model o = open_scaled(&rows[i].s);
        if (o.e != rows[i].e || !strstr(o.fault.text, rows[i].words))
            fail_msg("%zu: got %d '%s', wanted %d with '%s'", i, o.e, o.fault.text, rows[i].e, rows[i].words);
        assert_null(o.m);
        tiny_model_close(&o);
    }
}

/* A factor of 0 is a key that add() leaves out. */
static void zero(tiny_gguf *w, void *ud)
{
    static const float nothing = 0;
    tiny_gguf_raw(w, ud, 6, &nothing, sizeof nothing);
    if (strcmp(ud, "llama.rope.scaling.factor") != 0) tiny_gguf_f32(w, "llama.rope.scaling.factor", 4);
    tiny_gguf_str(w, "llama.rope.scaling.type", "yarn");
    tiny_gguf_u32(w, "llama.rope.scaling.original_context_length", ORIGINAL);
}

static void a_factor_of_zero_is_refused(void **state)
{
    (void)state;
    static const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scaling.attn_factor",
                                       "llama.rope.scaling.yarn_beta_slow"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        size_t len;
        bt_gguf *g = NULL;
        bt_model *m = NULL;
        bt_fault fault = {""};
        s.extra = zero;
        s.ud = (void *)(uintptr_t)keys[i];
        uint8_t *bytes = tiny_gguf_build(&s, &len);
        assert_int_equal(bt_gguf_open_bytes(&g, bytes, len, NULL), BT_OK);
        assert_int_equal(bt_model_from_gguf(&m, g, &fault), BT_EFORMAT);
        assert_non_null(strstr(fault.text, keys[i]));
        free(bytes);
    }
}

static void add_unscaled(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_str(w, "hunyuan-dense.rope.scaling.type", "none");
    tiny_gguf_f32(w, "hunyuan-dense.rope.scaling.factor", 1.0f);
    tiny_gguf_u32(w, "hunyuan-dense.rope.scaling.original_context_length", 262144);
}

/* As the converter of HunYuan's models writes them. */
static void a_scaling_of_none_with_a_factor_and_a_context_is_none(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "hunyuan-dense";
    s.extra = add_unscaled;
    tiny_model o = tiny_model_open(&s);
    assert_int_equal(o.e, BT_OK);
    assert_int_equal(o.m->hp.rope.kind, BT_ROPE_NONE);
    assert_true(o.m->hp.rope_scale == 1.0f);
    tiny_model_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scaling_of_none_with_a_factor_and_a_context_is_none),
        cmocka_unit_test(yarn_frequencies_are_those_of_another_implementation),
        cmocka_unit_test(tables_of_every_kind_are_the_sums_written_out),
        cmocka_unit_test(the_scaling_is_told_in_words),
        cmocka_unit_test(what_turns_the_head_otherwise_is_another_model),
        cmocka_unit_test(hostile_scalings_are_refused_by_name),
        cmocka_unit_test(a_factor_of_zero_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
