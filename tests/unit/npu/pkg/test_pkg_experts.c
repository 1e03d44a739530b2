/* A package with experts, with one thing changed: routes, rows by expert, the numbers of one expert. Each is
 * refused by name, and no field of an instruction between the router and the sum may change. */
#include "npu/compile/compile.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/pkg_view.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 128, CALIB = 64 };

/* 3 layers, dim 96, 8 experts with ffn 172, of which a row chooses 3; symmetric. free() it. */
static uint8_t *package(size_t *ret_len, const char *arch, uint32_t npu_ops)
{
    char path[] = "/tmp/baton-pkg-experts-XXXXXX";
    int32_t ids[CALIB];
    bt_fault f = {""};
    engine_kit kit = engine_kit_model(arch);
    bt_compile_options o = {.shape_policy = "chunk:16", .npu_ops = npu_ops, .ctx_tokens = CTX,
                            .calib_ids = ids, .calib_len = CALIB};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    engine_kit_ids(ids, CALIB, kit.model, 12);
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8:no-rotate,clip=max", NULL), BT_OK);
    if (bt_compile(path, kit.model, &o, NULL, &f) < 0) fail_msg("%s", f.text);
    close(fd);
    FILE *file = fopen(path, "rb");
    assert_true(file && fseek(file, 0, SEEK_END) == 0);
    const size_t len = (size_t)ftell(file);
    uint8_t *bytes = tiny_pkg_alloc(len);
    rewind(file);
    assert_int_equal(fread(bytes, 1, len, file), len);
    fclose(file);
    unlink(path);
    engine_kit_done(&kit);
    *ret_len = len;
    return bytes;
}

static bt_pkg_expert *expert(const pkg_view *v, size_t i)
{
    return (bt_pkg_expert *)pkg_view_const(v, v->h->expert_sites) + i;
}
#define INDEX(layer, w) bt_pkg_tensor_index(v->h->layers, layer, BT_WEIGHT_##w)
/* The last number of a constant, which is the last expert's. */
#define LAST(type, index) (((type *)pkg_view_const(v, index))[v->c[index].bytes / sizeof(type) - 1])

/* The first number of expert 7 of 8. */
#define SEVENTH(type, index) (((type *)pkg_view_const(v, index))[v->c[index].bytes / sizeof(type) / 8 * 7])

#define DAMAGES(X) \
    /* the header and its constants */ \
    X("header: experts_used 0 of 8 experts", v->h->experts_used = 0) \
    X("header: experts_used 9 of 8 experts", v->h->experts_used = 9) \
    X("header: experts_used 3 of 513 experts", v->h->experts = 513) \
    X("header: experts 0 says there are none", v->h->experts = 0) \
    X("routers names no constant", v->h->experts = 7) \
    X("routers names no constant", NAMED(v->h->routers, v->h->rope_cos)) \
    X("routers names no constant of finite numbers", LAST(float, v->h->routers) = NAN) \
    X("expert_sites names no constant of 48 experts", NAMED(v->h->expert_sites, v->h->rope_cos)) \
    X("expert_sites: expert 0 of site up of layer 0", expert(v, 0)->scale = 0) \
    X("expert_sites: expert 7 of site up of layer 0", expert(v, 7)->scale = NAN) \
    X("expert_sites: expert 0 of site down of layer 0", expert(v, 8)->inv_scale = -1) \
    X("expert_sites: expert 7 of site down of layer 2", expert(v, 47)->inv_scale = INFINITY) \
    X("expert_sites: expert 2 of site up of layer 1", expert(v, 18)->zero = 1) \
    X("expert_sites: expert 2 of site up of layer 1", expert(v, 18)->is_rare ^= 1) \
    X("expert_sites: expert 3 of site up of layer 1", expert(v, 19)->rows ^= 1u << 20) \
    /* tensors: the numbers of the last expert */ \
    X("(gate of layer 0): panels", NAMED(TENSOR(0, GATE)->panels, TENSOR(0, Q)->panels)) \
    X("(up of layer 0): wscale", LAST(float, TENSOR(0, UP)->wscale) = -1) \
    X("(down of layer 2): oscale", LAST(float, TENSOR(2, DOWN)->oscale) = NAN) \
    X("(down of layer 2): a weight is out of range, or colsum", LAST(int32_t, TENSOR(2, DOWN)->colsum)++) \
    /* routes */ \
    X("(route): stands outside a layer", INST(ROUTE, 0)->layer = UINT32_MAX) \
    X("(route): layer 3 is not there", INST(ROUTE, 2)->layer = 3) \
    X("(route): unit 1 cannot run", INST(ROUTE, 0)->unit = BT_PKG_NPU) \
    X("(route): out_rows 1 is not allowed", INST(ROUTE, 0)->out_rows = 1) \
    X("(route): out_rows 4 is not allowed", INST(ROUTE, 0)->out_rows = 4) \
    X("(route): in_width 96, out_width 16", INST(ROUTE, 0)->out_width = 16) \
    X("(route): in_width 95, out_width 17", INST(ROUTE, 0)->in_width = 95) \
    X("(route): arg 1", INST(ROUTE, 0)->arg = 1) \
    X("(route): names tensor 7, and takes none", INST(ROUTE, 0)->tensor = 7) \
    X("(route): in0: no value of its kind", INST(ROUTE, 0)->in0 += 64) \
    X("(route): out_width 17 in rows of out_stride 64", INST(ROUTE, 0)->out_stride = 64) \
    X("(route): out overlaps an input", INST(ROUTE, 0)->out = INST(ROUTE, 0)->in0) \
    X("(gather_rows): in1: no value of its kind", INST(GATHER_ROWS, 0)->in1 += 64) \
    X("(gather_rows): in1: no value of its kind", INST(GATHER_ROWS, 0)->in1 = INST(GATHER_ROWS, 0)->in0) \
    X("(gather_rows): in0: no value of its kind", INST(GATHER_ROWS, 0)->in0 = INST(GATHER_ROWS, 0)->in1) \
    X("(gather_rows): out_rows 0 is not allowed", INST(GATHER_ROWS, 0)->out_rows = 0) \
    X("(gather_rows): out_rows 3 is not allowed", INST(GATHER_ROWS, 0)->out_rows = 3) \
    X("(gather_rows): out_rows 5 is not allowed", INST(GATHER_ROWS, 0)->out_rows = 5) \
    X("(gather_rows): in_width 96, out_width 95", INST(GATHER_ROWS, 0)->out_width = 95) \
    /* rows by expert */ \
    X("(quantise): out_rows 3 is not allowed", INST(QUANTISE, 2)->out_rows = 3) \
    X("(quantise): in0 has 96 elements", INST(QUANTISE, 2)->out_rows = 0) \
    X("(quantise): rows by expert in units of site 0, which is of no expert", INST(QUANTISE, 2)->site = 0) \
    X("(experts): out_rows 0 is not allowed", INST(EXPERTS, 0)->out_rows = 0) \
    X("(experts): tensor 1 (q) is of experts, or is not", INST(EXPERTS, 0)->tensor = INDEX(0, Q)) \
    X("(experts): tensor 10 (down, 96 x 172", INST(EXPERTS, 0)->tensor = INDEX(0, DOWN)) \
    X("(experts): tensor 21 is of layer 1", INST(EXPERTS, 0)->tensor = INDEX(1, GATE)) \
    X("(linear): tensor 8 (gate) is of experts, or is not", INST(LINEAR, 0)->tensor = INDEX(0, GATE)) \
    X("(experts): group 2, and the instruction 1 further", INST(EXPERTS, 1)->in0 += 64) \
    X("(experts): group 2, and outputs 0 and 1 overlap", INST(EXPERTS, 1)->out = INST(EXPERTS, 0)->out) \
    X("or macs_per_row does not fit", INST(EXPERTS, 2)->macs_per_row++) \
    X("(experts): in0: no value of its kind", INST(EXPERTS, 2)->in0 += 64) \
    X("(int_experts): needs npu_ops all", INST(EXPERTS, 2)->op = BT_PKG_INT_EXPERTS) \
    X("(linear): out_rows 4 is not allowed", INST(EXPERTS, 2)->op = BT_PKG_LINEAR) \
    X("(silu_mul): in0 has 172 elements", INST(SILU_MUL, 0)->out_rows = 0) \
    X("(mix_rows): out_rows 4 is not allowed", INST(MIX_ROWS, 0)->out_rows = 4) \
    X("(mix_rows): in0: no value of its kind", INST(MIX_ROWS, 0)->in0 += 64) \
    X("(mix_rows): in1: no value of its kind", INST(MIX_ROWS, 0)->in1 += 64) \
    X("(mix_rows): in_width 96, out_width 95", INST(MIX_ROWS, 0)->out_width = 95)

#define DAMAGES_ALL(X) \
    X("(gate of layer 0): mult has a number below 2^30", SEVENTH(int32_t, TENSOR(0, GATE)->mult) = 1) \
    X("shift has a number outside 1 to 62", SEVENTH(uint8_t, TENSOR(0, UP)->shift) = 63) \
    X("(int_silu_mul): params: m[1] -5", LAST(bt_pkg_int_params, INST(INT_SILU_MUL, 0)->params).m[1] = -5) \
    X("(int_silu_mul): params: s[0] 63", LAST(bt_pkg_int_params, INST(INT_SILU_MUL, 0)->params).s[0] = 63) \
    X("(int_silu_mul): params", INST(INT_SILU_MUL, 0)->out_rows = 0) \
    X("names no constant of integer parameters", INST(INT_SILU_MUL, 0)->params = INST(INT_ADD, 0)->params) \
    X("(int_experts): out_rows 0 is not allowed", INST(INT_EXPERTS, 0)->out_rows = 0) \
    X("(int_experts): tensor 1 (q) is of experts, or is not", INST(INT_EXPERTS, 0)->tensor = INDEX(0, Q)) \
    X("(int_linear): tensor 8 (gate) is of experts", INST(INT_LINEAR, 0)->tensor = INDEX(0, GATE)) \
    X("(int_split): out_rows 3 is not allowed", INST(INT_SPLIT, 2)->out_rows = 3) \
    X("(int_split): in0: no value of its kind", INST(INT_SPLIT, 2)->in0 += 64)

/* gpt-oss: sinks and biases of routers */
#define DAMAGES_SINKS(X) \
    X("header: sinks are missing", v->c[v->h->sinks].refs--, v->h->sinks = 0) \
    X("sinks names no constant of finite numbers", LAST(float, v->h->sinks) = NAN) \
    X("header: router_bias is missing", v->c[v->h->router_bias].refs--, v->h->router_bias = 0) \
    X("router_bias names no constant of finite numbers", LAST(float, v->h->router_bias) = INFINITY) \
    X("router_bias names no constant", NAMED(v->h->router_bias, v->h->rope_cos)) \
    X("(attention): runs on the companion alone", v->h->float_form = 1, \
      INST(ATTENTION, 0)->unit = BT_PKG_NPU_FLOAT)

static const char *const words[] = {DAMAGES(WORDS)}, *const words_all[] = {DAMAGES_ALL(WORDS)},
                         *const words_sinks[] = {DAMAGES_SINKS(WORDS)};

static void damage(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES(CHANGE)
}

static void damage_all(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_ALL(CHANGE)
}

static void damage_sinks(pkg_view *v, int which)
{
    int i = 0;
    DAMAGES_SINKS(CHANGE)
}

static void each_kind_of_damage_of_experts_is_refused_by_name(void **state)
{
    (void)state;
    size_t len;
    uint8_t *valid = package(&len, "qwen3moe", BT_PKG_OPS_LINEAR);
    pkg_view_each(valid, len, words, sizeof words / sizeof *words, damage);
    free(valid);
    valid = package(&len, "qwen3moe", BT_PKG_OPS_ALL);
    pkg_view_each(valid, len, words_all, sizeof words_all / sizeof *words_all, damage_all);
    free(valid);
    valid = package(&len, "gpt-oss", BT_PKG_OPS_LINEAR);
    pkg_view_each(valid, len, words_sinks, sizeof words_sinks / sizeof *words_sinks, damage_sinks);
    free(valid);
}

/* Fields that say what an instruction does, and with what. */
static void change(bt_pkg_inst *i, int field)
{
    uint64_t *const offset[] = {&i->in0, &i->in1, &i->out};
    uint32_t *const number[] = {&i->layer,     &i->tensor,    &i->site,      &i->in_width,
                                &i->out_width, &i->in_stride, &i->out_stride};
    if (field < 3) *offset[field] += 64;
    else if (field < 10) *number[field - 3] ^= 1;
    else if (field == 10) i->out_rows ^= 1;
    else i->group ^= 2;
}

static void no_field_between_the_router_and_the_sum_may_change(void **state)
{
    (void)state;
    enum { FIELDS = 12 };
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        size_t len, seen = 0;
        uint8_t *valid = package(&len, "qwen3moe", ops), *b = tiny_pkg_alloc(len);
        const pkg_view whole = pkg_view_of(valid, len);
        const uint32_t first = (uint32_t)(pkg_view_inst(&whole, BT_PKG_ROUTE, 1) - whole.code),
                       last = (uint32_t)(pkg_view_inst(&whole, BT_PKG_MIX_ROWS, 1) - whole.code);
        for (uint32_t n = first; n <= last; n++)
            for (int field = 0; field < FIELDS; field++, seen++) {
                memcpy(b, valid, len);
                change(&pkg_view_of(b, len).code[n], field);
                pkg_view_expect("program ", b, len);
            }
        assert_int_equal(seen, 9 * FIELDS);
        free(b);
        free(valid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_damage_of_experts_is_refused_by_name),
        cmocka_unit_test(no_field_between_the_router_and_the_sum_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
