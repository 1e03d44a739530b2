/* Bytes of a step's weights in each form against the panels that the kernels read. */
#include "engine/costs.h"
#include "model/gguf.h"
#include "model/quant.h"
#include "tests/helpers/model/engine_kit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Whole panels of 16 outputs, whole groups of 32 inputs, and whole 64 bytes in every form. */
static engine_kit model_of(const char *arch, uint32_t type)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = arch;
    s.type = type;
    s.dim = s.ffn = 256;
    s.heads = 8;
    s.kv_heads = 4;
    s.head_dim = 32;
    return engine_kit_of(&s);
}

typedef struct read {
    uint64_t all, experts, head; /* bytes: of all experts; of these, the matrices of experts */
} read;

static read panels_of(const bt_model *m, bt_form form)
{
    uint32_t layer = 0;
    read r = {0};
    for (bt_weight w = BT_WEIGHT_NONE; (w = bt_weight_next(m, &layer, w));) {
        if (!bt_weight_is_matrix(w)) continue;
        const bt_gguf_tensor *t = bt_weight_tensor(m, layer, w);
        const uint64_t bytes =
            bt_form_panel_bytes(form, BT_FORM_GROUP, t->dim[0]) * (t->dim[1] / 16) * t->dim[2];
        r.all += bytes;
        if (t->dim[2] > 1) r.experts += bytes;
        if (w == BT_WEIGHT_OUTPUT) r.head = bytes;
    }
    return r;
}

static void weights_of_4_bits_are_read_as_the_file_has_them(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint32_t type;
        bt_form kept;
    } at[] = {{"gpt-oss", BT_QUANT_MXFP4, BT_FORM_MX},
              {"qwen3moe", BT_QUANT_MXFP4, BT_FORM_MX},
              {"llama", BT_QUANT_MXFP4, BT_FORM_MX},
              {"gpt-oss", BT_QUANT_Q4_0, BT_FORM_FP4},
              {"llama", BT_QUANT_Q4_1, BT_FORM_FP4}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        engine_kit k = model_of(at[i].arch, at[i].type);
        const bt_hparams *h = &k.model->hp;
        const bt_price_model p = bt_costs_decode(k.model, BT_FORM_FP4, 2),
                             f16 = bt_costs_decode(k.model, BT_FORM_F16, 2);
        const read r = panels_of(k.model, at[i].kept), wide = panels_of(k.model, BT_FORM_F16);
        const uint64_t used = h->experts ? r.experts / h->experts * h->experts_used : 0;
        if (p.weight_bytes + p.idle_bytes != r.all)
            fail_msg("%s: %" PRIu64 " bytes, not %" PRIu64, at[i].arch, p.weight_bytes + p.idle_bytes, r.all);
        assert_int_equal(p.expert_bytes, used);
        assert_int_equal(p.idle_bytes, r.experts - used);
        assert_int_equal(p.head_bytes, r.head);
        assert_int_equal(f16.weight_bytes + f16.idle_bytes, wide.all);
        engine_kit_done(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_4_bits_are_read_as_the_file_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
