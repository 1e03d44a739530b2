/* Multipliers and units of --npu-ops all. */
#include "npu/quant/units.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static double value_of(bt_int_mul m) { return ldexp(m.m, -(int)m.s); }

static void multipliers_are_the_nearest_and_stay_in_range(void **state)
{
    (void)state;
    for (int e = -40; e < 40; e++)
        for (int i = 0; i < 100; i++) {
            const double x = ldexp(1 + i / 100.0, e);
            const bt_int_mul m = bt_units_mul(x);
            assert_true(m.s <= 62 && (m.m == 0 || m.m >= 1 << 30));
            if (e < -33) assert_int_equal(m.m, 0);
            else if (e >= 31) assert_int_equal(m.m, INT32_MAX);
            else if (e >= -32) assert_true(fabs(value_of(m) - x) <= ldexp(x, -31));
        }
    assert_int_equal(bt_units_mul(0).m, 0);
    const bt_int_mul up = bt_units_mul(1 - 0x1p-40); /* rounds to the next power of two */
    assert_true(value_of(up) == 1 && up.m == 1 << 30);
}

enum { TENSORS = BT_PKG_LAYER_TENSORS + 2 }; /* of one layer, out_norm and output */
typedef struct world {
    bt_hparams hp;
    float out_max[TENSORS], attention_max[1];
    bt_pkg_site site[5];
    bt_pkg_tensor tensor[TENSORS];
    bt_calib_stats stats;
    bt_units_in in;
} world;

static void begin(world *w)
{
    *w = (world){.hp = {.layers = 1, .dim = 64, .ffn = 96, .heads = 4, .kv_heads = 2, .head_dim = 16,
                        .rms_eps = 1e-5f}};
    for (size_t i = 0; i < TENSORS; i++) w->out_max[i] = (float)(i + 1), w->tensor[i].norm_q = BT_PKG_NONE;
    for (size_t i = 0; i < 5; i++) w->site[i].scale = 0.01f * (float)(i + 1);
    w->attention_max[0] = 2.5f;
    w->stats =
        (bt_calib_stats){.out_max = w->out_max, .attention_max = w->attention_max, .residual_max = 300};
    w->in = (bt_units_in){.hp = &w->hp,        .stats = &w->stats, .site = w->site,
                          .tensor = w->tensor, .r2_scale = 0.25f,  .output_bits = 16};
}

static void an_output_keeps_its_value_through_requantisation(void **state)
{
    (void)state;
    world w;
    begin(&w);
    const float oscale[3] = {1e-4f, 3e-7f, 0.5f}, bias[3] = {0.25f, -7, 0};
    int32_t m[16];
    uint8_t s[16];
    int64_t b[16];
    for (w.in.output_bits = 8; w.in.output_bits <= 16; w.in.output_bits += 8) {
        const double steps = w.in.output_bits == 8 ? 64 : 1,
                     unit = (double)bt_units_out_scale(&w.in, 0, BT_WEIGHT_O);
        bt_units_linear(m, s, b, &w.in, 0, BT_WEIGHT_O, oscale, bias, 3);
        for (int i = 0; i < 3; i++) {
            assert_true(fabs(ldexp(m[i], -s[i]) * unit * steps / (double)oscale[i] - 1) < 1e-9);
            assert_true(fabs((double)b[i] * (double)oscale[i] - (double)bias[i]) <=
                        (double)oscale[i] / 2 + 1e-12);
        }
        for (int i = 0; i < 16; i++) assert_true(m[i] >= 1 << 30 && s[i] >= 1 && s[i] <= 62);
    }
    /* what the calibration saw is 127 of 8 bits, and half of s16 */
    w.in.output_bits = 8;
    assert_true(fabs(bt_units_out_scale(&w.in, 0, BT_WEIGHT_O) * 127.0f * 64 /
                         w.out_max[bt_pkg_tensor_index(1, 0, BT_WEIGHT_O)] -
                     1) < 1e-6f);
    w.in.output_bits = 16;
    assert_true(fabs(bt_units_out_scale(&w.in, 0, BT_WEIGHT_O) * BT_INT_MAX16 / 2 /
                         w.out_max[bt_pkg_tensor_index(1, 0, BT_WEIGHT_O)] -
                     1) < 1e-6f);
}

static void every_operator_has_the_parameters_of_its_units(void **state)
{
    (void)state;
    world w;
    begin(&w);
    for (int r2 = 0; r2 < 2; r2++) {
        bt_graph *g;
        const bt_graph_options o = {.rotate_embed = true, .rotate_attention = r2 != 0};
        w.hp.vocab = 30;
        assert_int_equal(bt_graph_build(&g, &w.hp, &o, NULL), BT_OK);
        size_t with = 0;
        for (size_t i = 0; i < g->ops; i++) {
            bt_pkg_int_params p;
            if (!bt_units_op(&p, &w.in, g, i)) continue;
            with++;
            const bt_op *op = &g->op[i];
            if (op->kind == BT_OP_RMSNORM) assert_true(p.eps > 0 && p.m[0] > 1 << 28 && p.s[0] <= 32);
            if (op->kind == BT_OP_ADD) {
                const bool first = i + 4 < g->ops && g->op[i + 1].weight == BT_WEIGHT_FFN_NORM;
                const double unit =
                    (double)bt_units_out_scale(&w.in, 0, first ? BT_WEIGHT_O : BT_WEIGHT_DOWN);
                assert_true(fabs(ldexp(p.m[0], -p.s[0]) * (double)bt_units_residual_scale(&w.in) / unit - 1) <
                            1e-8);
            }
            if (op->kind == BT_OP_ATTENTION) {
                const double k = (double)w.out_max[bt_pkg_tensor_index(1, 0, BT_WEIGHT_K)];
                assert_true(ldexp(2 * k, p.k_shift) <= BT_INT_MAX16 &&
                            ldexp(2 * k, p.k_shift + 1) > BT_INT_MAX16);
            }
        }
        assert_int_equal(with, 3 + 1 + 1 + 2 + 1); /* norms, attention, the change of units before o, adds,
                                                      silu */
        bt_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multipliers_are_the_nearest_and_stay_in_range),
        cmocka_unit_test(an_output_keeps_its_value_through_requantisation),
        cmocka_unit_test(every_operator_has_the_parameters_of_its_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
