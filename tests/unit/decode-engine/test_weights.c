/* The host back end's weights: each value is the file's by the rule of its form; threads change no byte; what a form cannot hold
 * is refused by name. */
#include "decode-node/engine/host/weights.h"
#include "kernels/kernels.h"
#include "tests/helpers/engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const archs[] = {"llama", "qwen2", "qwen3"};

static dc_weights *open_weights(const bt_model *m, const char *form, bt_pool *pool)
{
    bt_fault f = {""};
    dc_weights *w = NULL;
    const dc_weights_options o = {.form = form, .ctx_tokens = 77, .cache_dir = ""};
    if (dc_weights_open(&w, m, &o, pool, &f) < 0) fail_msg("%s", f.text);
    return w;
}

static void f16_is_what_the_float_executor_packs(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        engine_kit kit = engine_kit_model(archs[a]);
        const bt_model *m = kit.model;
        const bt_packed_options o = {.ctx_tokens = 77};
        bt_packed *p;
        assert_int_equal(bt_packed_new(&p, m, &o, NULL, NULL), BT_OK);
        dc_weights *w = open_weights(m, "f16", NULL);
        uint32_t layer = 0;
        uint64_t bytes = 0;
        for (bt_weight which = BT_WEIGHT_NONE; (which = bt_weight_next(m, &layer, which));) {
            if (!bt_weight_is_matrix(which)) {
                const size_t n = bt_weight_tensor(m, layer, which)->dim[0];
                assert_memory_equal(dc_weights_vector(w, layer, which), bt_packed_vector_of(p, layer, which), n * sizeof(float));
                bytes += n * sizeof(float);
                continue;
            }
            const dc_matrix *x = dc_weights_matrix(w, layer, which);
            const bt_packed_matrix *y = bt_packed_matrix_of(p, layer, which);
            assert_int_equal(x->form, BT_FORM_F16);
            assert_int_equal(x->n, y->n);
            assert_int_equal(x->k, y->k);
            assert_int_equal((uintptr_t)x->panels % 64, 0);
            assert_memory_equal(x->panels, y->panels, 2 * bt_matmul_packed_elems(x->n, x->k));
            bytes += 2 * bt_matmul_packed_elems(x->n, x->k);
            assert_int_equal(!x->bias, !y->bias);
            if (!x->bias) continue;
            assert_memory_equal(x->bias, y->bias, x->n * sizeof(float));
            bytes += x->n * sizeof(float);
        }
        const size_t rope_bytes = 77 * m->hp.rope_dims / 2 * sizeof(float);
        assert_memory_equal(dc_weights_rope_cos(w), bt_packed_rope_cos(p, 0), rope_bytes);
        assert_memory_equal(dc_weights_rope_sin(w), bt_packed_rope_sin(p, 0), rope_bytes);
        assert_int_equal(dc_weights_step_bytes(w), bytes);
        assert_string_equal(dc_weights_form(w), "f16");
        assert_ptr_equal(dc_weights_model(w), m);
        dc_weights_free(w);
        bt_packed_free(p);
        engine_kit_done(&kit);
    }
}

static void refuses_an_unknown_form_and_a_context_of_nothing(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    dc_weights *w = NULL;
    const dc_weights_options unknown = {.form = "f15", .ctx_tokens = 1, .cache_dir = ""};
    const dc_weights_options none = {.cache_dir = ""}, huge = {.ctx_tokens = (size_t)BT_MODEL_MAX_CTX + 1, .cache_dir = ""};
    assert_int_equal(dc_weights_open(&w, kit.model, &unknown, NULL, NULL), BT_EARG);
    assert_int_equal(dc_weights_open(&w, kit.model, &none, NULL, NULL), BT_EARG);
    assert_int_equal(dc_weights_open(&w, kit.model, &huge, NULL, NULL), BT_EARG);
    assert_null(w);
    dc_weights_free(NULL);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_is_what_the_float_executor_packs),
        cmocka_unit_test(refuses_an_unknown_form_and_a_context_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
