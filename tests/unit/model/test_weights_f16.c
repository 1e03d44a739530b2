/* Weights as f16: each value is the file's, rounded once; threads change nothing; what f16 cannot hold is
 * refused. */
#include "model/gguf.h"
#include "model/weights.h"
#include "kernels/kernels.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void check_matrix(const bt_weights *p, uint32_t layer, bt_weight w, const bt_gguf_tensor *t)
{
    const bt_weights_matrix *m = bt_weights_matrix_of(p, layer, w);
    assert_int_equal(m->k, t->dim[0]);
    assert_int_equal(m->n, t->dim[1]);
    assert_int_equal((uintptr_t)m->panels % 64, 0);
    const uint16_t *panels = (const void *)m->panels;
    float *row = malloc(m->k * sizeof *row);
    assert_non_null(row);
    for (size_t n = 0; n < bt_matmul_panels(m->n) * 16; n++) {
        if (n < m->n) bt_model_row_f32(row, t, n);
        else memset(row, 0, m->k * sizeof *row);
        for (size_t k = 0; k < m->k; k++)
            assert_int_equal(panels[(n / 16 * m->k + k) * 16 + n % 16], bt_f32_to_f16_1(row[k]));
    }
    free(row);
}

/* Its bytes. */
static size_t check_vector(const float *v, const bt_gguf_tensor *t)
{
    float *row = malloc(t->dim[0] * sizeof *row);
    assert_true(row && v);
    bt_model_row_f32(row, t, 0);
    assert_memory_equal(v, row, t->dim[0] * sizeof *row);
    free(row);
    return t->dim[0] * sizeof *row;
}

static void every_weight_is_the_files_value_rounded_once(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (size_t a = 0; a < 3; a++) {
        engine_kit kit = engine_kit_model(archs[a]);
        const bt_model *m = kit.model;
        const bt_weights_options o = {.ctx_tokens = 100};
        bt_weights *p;
        assert_int_equal(bt_weights_open(&p, m, &o, NULL, NULL), BT_OK);
        uint32_t layer = 0;
        uint64_t bytes = 0;
        for (bt_weight which = BT_WEIGHT_NONE; (which = bt_weight_next(m, &layer, which));) {
            const bt_gguf_tensor *tensor = bt_weight_tensor(m, layer, which),
                                 *bias = bt_weight_bias(m, layer, which);
            if (!bt_weight_is_matrix(which)) {
                bytes += check_vector(bt_weights_vector_of(p, layer, which), tensor);
                continue;
            }
            check_matrix(p, layer, which, tensor);
            bytes += 2 * bt_matmul_packed_elems(tensor->dim[1], tensor->dim[0]);
            const float *is = bt_weights_matrix_of(p, layer, which)->bias;
            assert_int_equal(is != NULL, bias != NULL);
            if (bias) bytes += check_vector(is, bias);
        }
        assert_int_equal(bt_weights_step_bytes(p), bytes);
        assert_string_equal(bt_weights_form(p), "f16");
        assert_ptr_equal(bt_weights_model(p), m);
        for (uint32_t l = 0; l < m->hp.layers; l++) {
            assert_int_equal(bt_weights_matrix_of(p, l, BT_WEIGHT_V)->bias != NULL, m->hp.qkv_bias);
            assert_int_equal(bt_weights_vector_of(p, l, BT_WEIGHT_K_NORM) != NULL, m->hp.qk_norm);
        }
        check_matrix(p, UINT32_MAX, BT_WEIGHT_OUTPUT, m->output);
        bt_weights_free(p);
        engine_kit_done(&kit);
    }
}

static void rotary_rows_are_the_models_table(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const size_t half = kit.model->hp.rope_dims / 2;
    const bt_weights_options o = {.ctx_tokens = 77};
    bt_weights *p;
    float *cos = malloc(77 * half * sizeof *cos), *sin = malloc(77 * half * sizeof *sin);
    assert_true(cos && sin);
    bt_model_rope_table(cos, sin, kit.model, 0, 77);
    assert_int_equal(bt_weights_open(&p, kit.model, &o, NULL, NULL), BT_OK);
    assert_memory_equal(bt_weights_rope_cos(p, 0), cos, 77 * half * sizeof *cos);
    assert_memory_equal(bt_weights_rope_sin(p, 0) + 76 * half, sin + 76 * half, half * sizeof *sin);
    free(cos);
    free(sin);
    bt_weights_free(p);
    engine_kit_done(&kit);
}

typedef struct seen {
    uint64_t last, total;
    size_t calls;
} seen;

static void watch(void *ud, const char *what, uint64_t done, uint64_t total)
{
    seen *s = ud;
    assert_string_equal(what, "converting weights");
    assert_true(done > s->last && done <= total);
    s->last = done;
    s->total = total;
    s->calls++;
}

static void threads_change_no_byte_and_progress_reaches_its_total(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("qwen2");
    seen s = {0};
    const bt_weights_options o = {.ctx_tokens = 16, .progress = watch, .progress_ud = &s};
    bt_weights *one, *three;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    assert_int_equal(bt_weights_open(&one, kit.model, &o, NULL, NULL), BT_OK);
    assert_int_equal(s.last, s.total);
    assert_int_equal(s.calls, 3 * (7 + 2) + 2);
    s = (seen){0};
    assert_int_equal(bt_weights_open(&three, kit.model, &o, pool, NULL), BT_OK);
    assert_int_equal(bt_weights_step_bytes(one), bt_weights_step_bytes(three));
    uint32_t layer = 0;
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(kit.model, &layer, w));) {
        if (!bt_weight_is_matrix(w)) continue;
        const bt_weights_matrix *x = bt_weights_matrix_of(one, layer, w),
                                *y = bt_weights_matrix_of(three, layer, w);
        assert_memory_equal(x->panels, y->panels, 2 * bt_matmul_packed_elems(x->n, x->k));
    }
    bt_weights_free(one);
    bt_weights_free(three);
    bt_pool_free(pool);
    engine_kit_done(&kit);
}

typedef struct made_up {
    const bt_model *m;
    uint32_t layer;
    bt_weight w;
    size_t begun;
} made_up;

static float made_up_value(const made_up *s, size_t n, size_t k)
{
    return (float)(s->layer * 500 + s->w * 30 + n % 7) + (float)(k % 8) / 8;
}

static bt_err made_up_begin(void *ud, uint32_t layer, bt_weight w, bt_fault *fault)
{
    made_up *s = ud;
    s->layer = layer;
    s->w = w;
    s->begun++;
    (void)fault;
    return BT_OK;
}

static void made_up_row(void *ud, float *y, size_t n)
{
    const made_up *s = ud;
    const size_t k = s->w == BT_WEIGHT_DOWN ? s->m->hp.ffn : s->m->hp.dim;
    for (size_t i = 0; i < k; i++) y[i] = made_up_value(s, n, i);
}

static void takes_values_from_another_source(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("qwen2");
    made_up s = {.m = kit.model};
    const bt_weights_source source = {made_up_begin, made_up_row, &s};
    const bt_weights_options o = {.ctx_tokens = 16, .source = &source};
    bt_weights *p;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    assert_int_equal(bt_weights_open(&p, kit.model, &o, pool, NULL), BT_OK);
    assert_int_equal(s.begun, 3 * (7 + 2) + 2);
    s.layer = 1;
    s.w = BT_WEIGHT_DOWN;
    const bt_weights_matrix *m = bt_weights_matrix_of(p, 1, BT_WEIGHT_DOWN);
    const uint16_t *panels = (const void *)m->panels;
    for (size_t n = 0; n < m->n; n++)
        for (size_t k = 0; k < m->k; k++)
            assert_int_equal(panels[(n / 16 * m->k + k) * 16 + n % 16],
                             bt_f32_to_f16_1(made_up_value(&s, n, k)));
    s.w = BT_WEIGHT_FFN_NORM;
    for (size_t k = 0; k < m->n; k++)
        assert_true(bt_weights_vector_of(p, 1, BT_WEIGHT_FFN_NORM)[k] == made_up_value(&s, 0, k));
    float row[96];
    bt_model_row_f32(row, kit.model->layer[1].bq, 0); /* biases stay the file's */
    assert_memory_equal(bt_weights_matrix_of(p, 1, BT_WEIGHT_Q)->bias, row, sizeof row);
    bt_weights_free(p);
    bt_pool_free(pool);
    const bt_weights_options other = {.form = "int8", .ctx_tokens = 16, .source = &source};
    p = NULL;
    assert_int_equal(bt_weights_open(&p, kit.model, &other, NULL, NULL), BT_EARG);
    assert_null(p);
    engine_kit_done(&kit);
}

/* Layers in no order, one at a time: what is held is as the whole has it, in one layer's room. */
static void by_layer_one_is_there_at_a_time(void **state)
{
    (void)state;
    static const uint32_t order[] = {0, 2, 1, 2};
    engine_kit kit = engine_kit_model("qwen2");
    const bt_model *m = kit.model;
    made_up s = {.m = m};
    const bt_weights_source source = {made_up_begin, made_up_row, &s};
    bt_weights_options o = {.ctx_tokens = 16, .source = &source};
    bt_weights *whole, *p;
    assert_int_equal(bt_weights_open(&whole, m, &o, NULL, NULL), BT_OK);
    o.by_layer = true;
    s.begun = 0;
    assert_int_equal(bt_weights_open(&p, m, &o, NULL, NULL), BT_OK);
    assert_int_equal(s.begun, 1); /* the last norm */
    assert_memory_equal(bt_weights_vector_of(p, 0, BT_WEIGHT_OUT_NORM),
                        bt_weights_vector_of(whole, 0, BT_WEIGHT_OUT_NORM), m->hp.dim * sizeof(float));
    assert_null(bt_weights_matrix_of(p, 0, BT_WEIGHT_OUTPUT)->panels);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        assert_int_equal(bt_weights_hold(p, order[i], NULL, NULL), BT_OK);
        for (bt_weight w = BT_WEIGHT_ATTN_NORM; w < BT_WEIGHT_OUTPUT; w++) {
            if (!bt_weight_is_layers(w) || !bt_weight_tensor(m, 0, w)) continue;
            const bt_weights_matrix *x = bt_weights_matrix_of(p, order[i], w),
                                    *y = bt_weights_matrix_of(whole, order[i], w);
            if (bt_weight_is_matrix(w)) {
                assert_memory_equal(x->panels, y->panels, bt_matmul_packed_elems(x->n, x->k) * 2);
                if (x->bias) assert_memory_equal(x->bias, y->bias, x->n * sizeof *x->bias);
                assert_ptr_equal(x->panels, bt_weights_matrix_of(p, 0, w)->panels);
            } else {
                assert_memory_equal(bt_weights_vector_of(p, order[i], w),
                                    bt_weights_vector_of(whole, order[i], w), m->hp.dim * sizeof(float));
            }
        }
    }
    bt_weights_free(whole);
    bt_weights_free(p);
    o.source = NULL;
    assert_int_equal(bt_weights_open(&p, m, &o, NULL, NULL), BT_EARG);
    engine_kit_done(&kit);
}

static void add_large(tiny_gguf *w, void *ud)
{
    const float *value = ud;
    float *rows = calloc(64 * 64, sizeof *rows);
    if (!rows) abort();
    rows[64 * 37 + 5] = *value;
    tiny_gguf_tensor(w, "blk.1.attn_output.weight", 0, (const uint64_t[]){64, 64}, 2, rows,
                     64 * 64 * sizeof *rows);
    free(rows);
}

static bt_err pack_with(float value, bt_fault *fault)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.omit = "blk.1.attn_output.weight";
    s.extra = add_large;
    s.ud = &value;
    size_t len;
    uint8_t *bytes = tiny_gguf_build(&s, &len);
    bt_gguf *g;
    bt_model *m;
    bt_weights *p = NULL;
    assert_int_equal(bt_gguf_open_bytes(&g, bytes, len, fault), BT_OK);
    assert_int_equal(bt_model_from_gguf(&m, g, fault), BT_OK);
    const bt_weights_options o = {.ctx_tokens = 16};
    const bt_err e = bt_weights_open(&p, m, &o, NULL, fault);
    assert_int_equal(e == BT_OK, p != NULL);
    bt_weights_free(p);
    bt_model_close(m);
    free(bytes);
    return e;
}

static void refuses_a_weight_beyond_f16_and_names_its_tensor(void **state)
{
    (void)state;
    bt_fault f;
    assert_int_equal(pack_with(65504, &f), BT_OK);
    assert_int_equal(pack_with(65520, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "blk.1.attn_output.weight"));
    assert_int_equal(pack_with(-1e30f, &f), BT_EFORMAT);
}

static void refuses_a_context_of_nothing(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_weights_options none = {.ctx_tokens = 0}, huge = {.ctx_tokens = (size_t)BT_MODEL_MAX_CTX + 1};
    bt_weights *p = NULL;
    assert_int_equal(bt_weights_open(&p, kit.model, &none, NULL, NULL), BT_EARG);
    assert_int_equal(bt_weights_open(&p, kit.model, &huge, NULL, NULL), BT_EARG);
    assert_null(p);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_is_the_files_value_rounded_once),
        cmocka_unit_test(rotary_rows_are_the_models_table),
        cmocka_unit_test(threads_change_no_byte_and_progress_reaches_its_total),
        cmocka_unit_test(takes_values_from_another_source),
        cmocka_unit_test(by_layer_one_is_there_at_a_time),
        cmocka_unit_test(refuses_a_weight_beyond_f16_and_names_its_tensor),
        cmocka_unit_test(refuses_a_context_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
