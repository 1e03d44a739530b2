/* The instructions of a program that run as one: hand-made instructions, random ones against a plain search
 * forwards, and a whole package. */
#include "npu/pkg/fuse.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "npu/pkg/pkg_private.h"
#include "npu/pkg/recipe.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Places of 64 rows each in a toy's arena; X is the residual stream. */
enum { SEQ = 64, DIM = 128, FFN = 256, MAX_INSTS = 16 };
enum {
    X = 0,
    N = 1 << 20,
    PLANES = 2 << 20,
    GATE = 3 << 20,
    UP = 4 << 20,
    D = 5 << 20,
    PLANES2 = 6 << 20,
    SHADOW2 = 7 << 20,
    OTHER = 8 << 20
};
enum { NARROW, WIDE_BITS, SHADOWED }; /* sites; tensors by their number: 8 bits, the last of them 4 */

static const bt_pkg_tensor tensors[] = {{.bits = 8}, {.bits = 8}, {.bits = 4}};
static const bt_pkg_site sites[] = {
    [NARROW] = {.bits = 8, .shadow = BT_SHADOW_OFF},
    [WIDE_BITS] = {.bits = 16, .shadow = BT_SHADOW_OFF},
    [SHADOWED] = {.bits = 8, .shadow = BT_SHADOW_VALUE},
};

typedef struct toy {
    bt_pkg_inst inst[MAX_INSTS];
    size_t insts;
} toy;

static bt_pkg_inst *put(toy *t, bt_pkg_op op, uint64_t in0, uint64_t in1, uint64_t out, uint32_t width)
{
    assert_true(t->insts < MAX_INSTS);
    bt_pkg_inst *i = &t->inst[t->insts++];
    *i = (bt_pkg_inst){.op = (uint8_t)op,
                       .group = 1,
                       .in0 = in0,
                       .in1 = in1,
                       .out = out,
                       .aux = BT_PKG_NOWHERE,
                       .tensor = 0,
                       .site = NARROW,
                       .in_width = width,
                       .out_width = width,
                       .in_stride = width * 4,
                       .out_stride = width * 4};
    return i;
}

static bt_pkg_inst *put_linear(toy *t, uint64_t out, uint32_t k, uint32_t width, uint8_t group)
{
    bt_pkg_inst *i = put(t, BT_PKG_LINEAR, PLANES, BT_PKG_NOWHERE, out, width);
    i->in_width = i->in_stride = k;
    i->group = group;
    return i;
}

static bt_pkg_inst *put_quantise(toy *t, uint64_t in, uint64_t out, uint32_t width)
{
    bt_pkg_inst *i = put(t, BT_PKG_QUANTISE, in, BT_PKG_NOWHERE, out, width);
    i->out_stride = width;
    return i;
}

/* o or down: a LINEAR into D, added to X. */
static void put_down(toy *t)
{
    put_linear(t, D, FFN, DIM, 1);
    put(t, BT_PKG_ADD, X, D, X, DIM);
}

/* gate and up from PLANES, their product, quantised to PLANES2: instructions 0 to 3. */
static void put_ffn(toy *t)
{
    put_linear(t, GATE, DIM, FFN, 2);
    put_linear(t, UP, DIM, FFN, 1);
    put(t, BT_PKG_SILU_MUL, GATE, UP, GATE, FFN);
    put_quantise(t, GATE, PLANES2, FFN);
}

static bt_fuse answer[MAX_INSTS];
/* The answers, from a copy of exactly the instructions that there are. */
static const bt_fuse *find(const toy *t)
{
    const bt_pkg_program program = {.insts = (uint32_t)t->insts, .seq = SEQ, .out = 1};
    bt_pkg_inst *inst = malloc(t->insts * sizeof *inst);
    bt_fuse *fuse = malloc(t->insts * sizeof *fuse);
    assert_true(inst && fuse);
    memcpy(inst, t->inst, t->insts * sizeof *inst);
    bt_fuse_find(fuse, inst, &program, tensors, sites, FFN);
    memcpy(answer, fuse, t->insts * sizeof *fuse);
    free(fuse);
    free(inst);
    return answer;
}

/* ---- ADD ---- */

static void a_linear_adds_to_the_residual_stream_at_once(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_down(&t);
    put(&t, BT_PKG_RMSNORM, X, BT_PKG_NOWHERE, N, DIM);
    const bt_fuse *f = find(&t);
    assert_int_equal(f[0].then, BT_FUSE_ADD);
    assert_int_equal(f[0].quantise_rows, 0);
    assert_int_equal(f[1].then, BT_FUSE_NOTHING);
}

/* The NPU's results in floats are rounded on the way; an epilogue rounds nothing. */
static void nothing_is_fused_across_a_rounding(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_down(&t);
    put(&t, BT_PKG_RMSNORM, X, BT_PKG_NOWHERE, N, DIM);
    t.inst[1].unit = BT_PKG_NPU_FLOAT;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t.inst[1].unit = BT_PKG_COMPANION;
    assert_int_equal(find(&t)[0].then, BT_FUSE_ADD);
}

static void a_later_reader_keeps_what_a_linear_made(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_down(&t);
    put(&t, BT_PKG_RMSNORM, X, BT_PKG_NOWHERE, N, DIM);
    put(&t, BT_PKG_RMSNORM, D, BT_PKG_NOWHERE, N, DIM);
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t.inst[2].out = D; /* unless something else is written there first */
    assert_int_equal(find(&t)[0].then, BT_FUSE_ADD);
    t.insts = 2;
    put(&t, BT_PKG_ADD, N, D, N, DIM); /* a second operand is read too */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t.insts = 2;
    assert_int_equal(find(&t)[0].then, BT_FUSE_ADD);
}

static void only_an_add_of_just_that_output_is_fused(void **state)
{
    (void)state;
    toy good = {.insts = 0}, t;
    put_down(&good);
    assert_int_equal(find(&good)[0].then, BT_FUSE_ADD);
    t = good, t.inst[1].in1 = OTHER; /* adds something else */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[1].in0 = t.inst[1].out = D; /* adds to itself */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[1].out_width = DIM / 2;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[1].out_rows = 1;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[0].op = BT_PKG_INT_LINEAR;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[0].out = t.inst[1].in1 = BT_PKG_NOWHERE; /* logits */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = (toy){.insts = 0}; /* something between them */
    put_linear(&t, D, FFN, DIM, 1);
    put(&t, BT_PKG_ROTATE, D, BT_PKG_NOWHERE, D, DIM);
    put(&t, BT_PKG_ADD, X, D, X, DIM);
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
}

static void the_second_of_a_group_begins_none(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_linear(&t, OTHER, FFN, DIM, 2);
    put_down(&t);
    const bt_fuse *f = find(&t);
    assert_int_equal(f[0].then, BT_FUSE_NOTHING);
    assert_int_equal(f[1].then, BT_FUSE_NOTHING);
}

/* ---- SILU_MUL, QUANTISE ---- */

static void gate_and_up_are_multiplied_and_quantised_at_once(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_ffn(&t);
    put_down(&t);
    const bt_fuse *f = find(&t);
    assert_int_equal(f[0].then, BT_FUSE_SILU_MUL);
    assert_true(f[0].quantise_rows >= SEQ);
    assert_int_equal(f[1].then, BT_FUSE_NOTHING);
    assert_int_equal(f[4].then, BT_FUSE_ADD);
}

static void a_later_reader_keeps_up_or_the_product(void **state)
{
    (void)state;
    toy good = {.insts = 0}, t;
    put_ffn(&good);
    put(&good, BT_PKG_RMSNORM, OTHER, BT_PKG_NOWHERE, N, FFN);
    assert_int_equal(find(&good)[0].then, BT_FUSE_SILU_MUL);
    t = good, t.inst[4].in0 = UP;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[4].in0 = GATE; /* the product is made at once, and then quantised from memory */
    assert_int_equal(find(&t)[0].then, BT_FUSE_SILU_MUL);
    assert_int_equal(find(&t)[0].quantise_rows, 0);
    assert_false(find(&t)[3].last_in0);
}

static void only_a_pair_of_one_kind_is_multiplied_at_once(void **state)
{
    (void)state;
    toy good = {.insts = 0}, t;
    put_ffn(&good);
    t = good, t.inst[1].tensor = 2; /* 8 bits and 4 */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[0].out = UP, t.inst[1].out = GATE; /* up before gate */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[0].out_width = FFN / 2;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.inst[1].out_width = FFN / 2;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.insts = 2; /* the program ends */
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    t = good, t.insts = 3;
    assert_int_equal(find(&t)[0].then, BT_FUSE_SILU_MUL);
    assert_int_equal(find(&t)[0].quantise_rows, 0);
    t = (toy){.insts = 0}; /* three of a group */
    put_linear(&t, OTHER, DIM, FFN, 3);
    put_ffn(&t);
    t.inst[1].group = 1;
    assert_int_equal(find(&t)[0].then, BT_FUSE_NOTHING);
    assert_int_equal(find(&t)[1].then, BT_FUSE_NOTHING);
}

static void wider_rows_than_ffn_are_not_quantised_at_once(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_ffn(&t);
    for (size_t n = 0; n < 4; n++) t.inst[n].out_width = 2 * FFN;
    t.inst[3].in_width = 2 * FFN;
    assert_int_equal(find(&t)[0].then, BT_FUSE_SILU_MUL);
    assert_int_equal(find(&t)[0].quantise_rows, 0);
}

/* The LINEARs read rows of DIM bytes at PLANES; the QUANTISE writes rows of FFN bytes. */
static void planes_are_not_written_over_those_that_are_read(void **state)
{
    (void)state;
    toy good = {.insts = 0}, t;
    put_ffn(&good);
    t = good, t.inst[3].out = PLANES;
    assert_int_equal(find(&t)[0].quantise_rows, 0);
    t = good, t.inst[3].out = PLANES + 10 * DIM; /* behind them: ten rows are read before it */
    assert_int_equal(find(&t)[0].quantise_rows, 10);
    t = good, t.inst[3].out = PLANES - 10 * FFN; /* before them: ten rows are written before */
    assert_int_equal(find(&t)[0].quantise_rows, 10);
    t = good, t.inst[3].out = PLANES - 10 * FFN + 64;
    assert_int_equal(find(&t)[0].quantise_rows, 9);
    t = good, t.inst[3].site = WIDE_BITS, t.inst[3].in1 = PLANES; /* the lo plane */
    assert_int_equal(find(&t)[0].quantise_rows, 0);
    t = good, t.inst[0].in1 = t.inst[1].in1 = PLANES2 + 7 * FFN, t.inst[0].site = t.inst[1].site = WIDE_BITS;
    assert_int_equal(find(&t)[0].quantise_rows, 7);
}

static void shadows_are_not_written_over_what_is_read(void **state)
{
    (void)state;
    const uint64_t counts = bt_pkg_shadow_counts_bytes(SEQ);
    toy good = {.insts = 0}, t;
    put_ffn(&good);
    good.inst[3].site = SHADOWED, good.inst[3].aux = SHADOW2;
    assert_true(find(&good)[0].quantise_rows >= SEQ);
    t = good, t.inst[3].aux = PLANES; /* counts on planes */
    assert_int_equal(find(&t)[0].quantise_rows, 0);
    /* entries on the twentieth row on, counts on a few before */
    t = good, t.inst[3].aux = PLANES + 20 * DIM - counts;
    const uint64_t rows = 20 - counts / DIM;
    assert_int_equal(find(&t)[0].quantise_rows, rows);
    t.inst[3].site = NARROW; /* which it does not write without a shadow */
    assert_true(find(&t)[0].quantise_rows >= SEQ);
    /* on the shadow that is read */
    t = good, t.inst[0].site = t.inst[1].site = SHADOWED, t.inst[0].aux = t.inst[1].aux = SHADOW2;
    assert_int_equal(find(&t)[0].quantise_rows, 0);
}

/* ---- last reads ---- */

static void the_last_read_of_a_value_is_known(void **state)
{
    (void)state;
    toy t = {.insts = 0};
    put_quantise(&t, N, PLANES, DIM);
    put_linear(&t, D, DIM, DIM, 1);
    put_quantise(&t, N, PLANES, DIM);
    assert_false(find(&t)[0].last_in0);
    assert_true(find(&t)[2].last_in0);
    t.inst[1].out = N; /* the second reads another value */
    assert_true(find(&t)[0].last_in0);
    t.inst[1].op = BT_PKG_ROTATE, t.inst[1].in0 = N; /* in place: read before it is written */
    assert_false(find(&t)[0].last_in0);
}

/* The plain meaning: does no instruction behind `n` read what is at `offset` before another one writes there?
 */
static bool is_last(const toy *t, size_t n, uint64_t offset)
{
    for (const bt_pkg_inst *i = &t->inst[n + 1]; i < &t->inst[t->insts]; i++) {
        const bool planes = i->op == BT_PKG_QUANTISE || i->op == BT_PKG_INT_SPLIT;
        if (i->in0 == offset || (!planes && (i->in1 == offset || i->aux == offset))) return false;
        if (i->out == offset || (planes && (i->in1 == offset || i->aux == offset))) return true;
    }
    return true;
}

static void random_programs_have_the_last_reads_that_a_search_finds(void **state)
{
    (void)state;
    static const bt_pkg_op ops[] = {BT_PKG_RMSNORM, BT_PKG_QUANTISE,  BT_PKG_LINEAR_F16,
                                    BT_PKG_ADD,     BT_PKG_INT_SPLIT, BT_PKG_KV_STORE};
    uint64_t at = 0;
    for (size_t round = 0; round < 2000; round++) {
        toy t = {.insts = 0};
        for (size_t n = 0; n < MAX_INSTS; n++) {
            uint64_t o[4];
            for (size_t k = 0; k < 4; k++) {
                const uint32_t r = (uint32_t)(bt_rng_uniform(3, at++) * 7);
                o[k] = r == 6 ? BT_PKG_NOWHERE : 64 * r;
            }
            put(&t, ops[(size_t)(bt_rng_uniform(4, at++) * 6)], o[0], o[1], o[2], DIM)->aux = o[3];
        }
        const bt_fuse *f = find(&t);
        for (size_t n = 0; n < t.insts; n++) {
            const bt_pkg_inst *i = &t.inst[n];
            if (i->in0 != BT_PKG_NOWHERE) assert_int_equal(f[n].last_in0, is_last(&t, n, i->in0));
            if (i->in1 != BT_PKG_NOWHERE) assert_int_equal(f[n].last_in1, is_last(&t, n, i->in1));
        }
    }
}

/* No package that was checked has so many values at once. */
static void with_more_values_than_it_can_follow_nothing_is_a_last_read(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    const bt_pkg_program program = {.insts = MANY, .seq = SEQ};
    bt_pkg_inst *inst = malloc(MANY * sizeof *inst);
    bt_fuse *fuse = malloc(MANY * sizeof *fuse);
    assert_true(inst && fuse);
    for (size_t n = 0; n < MANY; n++)
        inst[n] =
            (bt_pkg_inst){.op = BT_PKG_QUANTISE, .group = 1,           .in0 = 64 * n, .in1 = BT_PKG_NOWHERE,
                          .out = BT_PKG_NOWHERE, .aux = BT_PKG_NOWHERE};
    bt_fuse_find(fuse, inst, &program, tensors, sites, FFN);
    assert_true(fuse[MANY - 1].last_in0);
    assert_false(fuse[0].last_in0);
    free(fuse);
    free(inst);
}

/* ---- a package ---- */

typedef struct fused {
    size_t adds, products, all_adds, all_products;
} fused;

/* The groups that the package keeps for its program p are found again. Returns how much of it is fused. */
static fused check_program(const bt_pkg *pkg, uint32_t p)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_program *program = &bt_pkg_programs(pkg)[p];
    const bt_pkg_inst *inst = bt_pkg_code(pkg, p);
    const bt_fuse *f = bt_pkg_fuse(pkg, p);
    bt_fuse *again = malloc(program->insts * sizeof *again);
    fused of = {0};
    assert_non_null(again);
    assert_non_null(f);
    bt_fuse_find(again, inst, program, bt_pkg_tensors(pkg), bt_pkg_sites(pkg), h->ffn);
    for (uint32_t n = 0; n < program->insts; n++) {
        of.adds += f[n].then == BT_FUSE_ADD, of.products += f[n].then == BT_FUSE_SILU_MUL;
        of.all_adds += inst[n].op == BT_PKG_ADD, of.all_products += inst[n].op == BT_PKG_SILU_MUL;
        assert_true(f[n].then == again[n].then && f[n].last_in0 == again[n].last_in0 &&
                    f[n].last_in1 == again[n].last_in1 && f[n].quantise_rows == again[n].quantise_rows);
        if (f[n].then == BT_FUSE_SILU_MUL) assert_true(f[n].quantise_rows >= program->seq);
    }
    free(again);
    return of;
}

static void every_program_of_a_package_has_answers_of_its_own(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const npu_kit_options o = {.recipe = "w8a8:shadow=off", .policy = "chunk:64+tail", .ctx_tokens = 256};
    bt_pkg *pkg = npu_kit_package(kit.model, &o);
    assert_true(bt_pkg_header_of(pkg)->programs.count >= 3);
    for (uint32_t p = 0; p < bt_pkg_header_of(pkg)->programs.count; p++) {
        const fused of = check_program(pkg, p);
        assert_true(of.adds && of.products);
        assert_int_equal(of.adds, of.all_adds);
        assert_int_equal(of.products, of.all_products);
    }
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void packed_programs_are_fused_as_they_are_unpacked(void **state)
{
    (void)state;
    size_t len = 0, adds = 0;
    const tiny_pkg o = {.packed = true, .seqs = {2, 4}};
    uint8_t *bytes = tiny_pkg_bytes(&len, &o);
    bt_pkg *pkg = NULL;
    assert_int_equal(bt_pkg_from_bytes(&pkg, bytes, len, NULL, true, NULL, NULL), BT_OK);
    assert_true(bt_pkg_header_of(pkg)->body_code != 0);
    for (uint32_t p = 0; p < bt_pkg_header_of(pkg)->programs.count; p++) adds += check_program(pkg, p).adds;
    assert_true(adds > 0);
    bt_pkg_close(pkg);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_linear_adds_to_the_residual_stream_at_once),
        cmocka_unit_test(nothing_is_fused_across_a_rounding),
        cmocka_unit_test(a_later_reader_keeps_what_a_linear_made),
        cmocka_unit_test(only_an_add_of_just_that_output_is_fused),
        cmocka_unit_test(the_second_of_a_group_begins_none),
        cmocka_unit_test(gate_and_up_are_multiplied_and_quantised_at_once),
        cmocka_unit_test(a_later_reader_keeps_up_or_the_product),
        cmocka_unit_test(only_a_pair_of_one_kind_is_multiplied_at_once),
        cmocka_unit_test(wider_rows_than_ffn_are_not_quantised_at_once),
        cmocka_unit_test(planes_are_not_written_over_those_that_are_read),
        cmocka_unit_test(shadows_are_not_written_over_what_is_read),
        cmocka_unit_test(the_last_read_of_a_value_is_known),
        cmocka_unit_test(random_programs_have_the_last_reads_that_a_search_finds),
        cmocka_unit_test(with_more_values_than_it_can_follow_nothing_is_a_last_read),
        cmocka_unit_test(every_program_of_a_package_has_answers_of_its_own),
        cmocka_unit_test(packed_programs_are_fused_as_they_are_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
