/* Each operator has its own place. Over every subset of what an NPU may have, from the compiler to the
 * executor: what is missing is listed and nothing else moves, and the numbers depend on no chunk, padding or
 * instruction set. */
#include "npu/compile/compile.h"
#include "npu/lower/offload.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"
#include "tests/helpers/slow.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 64, N = 61, PAGE = 16, CALIB = 128 };

static const bt_op_kind kinds[] = {BT_OP_LINEAR,    BT_OP_RMSNORM, BT_OP_QK_NORM,  BT_OP_ROPE,
                                   BT_OP_ATTENTION, BT_OP_ADD,     BT_OP_SILU_MUL, BT_OP_ROTATE};
enum { KINDS = sizeof kinds / sizeof *kinds, ALL = (1 << KINDS) - 1 };

typedef struct world {
    engine_kit kit;
    int32_t ids[CTX], calib[CALIB];
    float *want; /* [N, vocab]: the float engine's logits */
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.ids, CTX, w.kit.model, 21);
    engine_kit_ids(w.calib, CALIB, w.kit.model, 22);
    w.vocab = w.kit.model->hp.vocab;
    w.want = engine_kit_floats(N * w.vocab);
    bt_prefill *p = npu_kit_engine(w.kit.model, NULL, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, 2);
    assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, w.want, BT_PREFILL_ALL, NULL), BT_OK);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    return w;
}

static void end(world *w)
{
    free(w->want);
    engine_kit_done(&w->kit);
}

static bt_profile profile_of(unsigned subset, uint32_t output_bits)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, NULL, NULL), BT_OK);
    snprintf(p.name, sizeof p.name, "part");
    for (size_t k = 0; k < KINDS; k++)
        if (!(subset >> k & 1)) p.op[kinds[k]] = 0;
    p.output_bits = output_bits;
    return p;
}

static bt_pkg *package_of(const world *w, const char *recipe, const char *policy, const bt_profile *profile)
{
    char path[] = "/tmp/baton-placement-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    bt_compile_options o = {.shape_policy = policy, .npu_ops = BT_PKG_OPS_ALL, .ctx_tokens = CTX,
                            .calib_ids = w->calib,  .calib_len = CALIB,        .profile = profile};
    bt_pkg *pkg = NULL;
    bt_fault f = {0};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    if (bt_compile(path, w->kit.model, &o, NULL, &f) != BT_OK || bt_pkg_open(&pkg, path, &f) != BT_OK)
        fail_msg("%s: %s", recipe, f.text);
    unlink(path);
    return pkg;
}

static bt_pkg *package(const world *w, const char *recipe, const bt_profile *profile)
{
    return package_of(w, recipe, "range:1-64", profile);
}

/* The prompt in chunks of `chunk` rows, the last one padded; hash of its KV, logits of all rows. */
static uint64_t run(const world *w, const bt_pkg *pkg, size_t chunk, const char *isa, float *logits)
{
    bt_exec *x = NULL;
    bt_fault f = {0};
    const bt_pkg_row *row = NULL;
    const bt_kernels *kernels = bt_kernels_select(isa);
    assert_non_null(kernels);
    if (bt_exec_new(&x, pkg, kernels, NULL, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(bt_pkg_find_row(&row, pkg, 1, chunk, CTX, NULL), BT_OK);
    void *arena = engine_kit_alloc(bt_pkg_header_of(pkg)->arena_bytes);
    bt_kv_view kv = engine_kit_pages(w->kit.model, CTX, PAGE, 2);
    float *part = engine_kit_floats(chunk * w->vocab);
    for (size_t at = 0; at < N; at += chunk) {
        const size_t valid = N - at < chunk ? N - at : chunk;
        const bt_exec_seq seq = {.ids = w->ids + at, .kv = &kv, .pos0 = at, .valid = valid};
        const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = chunk, .logits = part, .pad = NAN};
        if (bt_exec_run(x, row, BT_PKG_OUT_ALL, arena, &io, &f) < 0) fail_msg("%s", f.text);
        memcpy(logits + at * w->vocab, part, valid * w->vocab * sizeof *part);
    }
    const uint64_t hash = engine_kit_hash(&kv, N);
    assert_true(engine_kit_untouched(&kv, N, CTX));
    free(part);
    engine_kit_pages_free(&kv);
    free(arena);
    bt_exec_free(x);
    return hash;
}

static size_t count(const bt_graph *g, bt_op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < g->ops; i++)
        n += g->op[i].kind == kind && (kind != BT_OP_ROTATE || g->op[i].layer != BT_GRAPH_NO_LAYER);
    return n;
}

/* Exactly what the subset lacks, with its count, its layers and its reason. */
static void check_fallbacks(const bt_pkg *pkg, const bt_graph *g, unsigned subset)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const bt_pkg_fallback *f = bt_pkg_fallbacks(pkg);
    size_t missing = 0;
    for (size_t k = 0; k < KINDS; k++) {
        size_t named = 0;
        for (uint32_t i = 0; i < h->fallbacks.count; i++) {
            if (strcmp(f[i].op, bt_op_name(kinds[k])) != 0) continue;
            named++;
            assert_int_equal(f[i].count, count(g, kinds[k]));
            assert_int_equal(f[i].layers, h->layers);
            assert_string_equal(f[i].why, "not in profile part");
        }
        const bool lacks = !(subset >> k & 1) && count(g, kinds[k]) > 0;
        assert_int_equal(named, lacks);
        missing += lacks;
    }
    assert_int_equal(h->fallbacks.count, missing);
}

/* The instructions that the program of most logits has of an operator, in integers and in floats. */
static void check_units(const bt_pkg *pkg, unsigned subset)
{
    static const struct {
        bt_op_kind kind;
        bt_pkg_op integer, floats;
    } of[] = {
        {BT_OP_RMSNORM, BT_PKG_INT_RMSNORM, BT_PKG_RMSNORM},
        {BT_OP_QK_NORM, BT_PKG_INT_QK_NORM, BT_PKG_QK_NORM},
        {BT_OP_ROPE, BT_PKG_INT_ROPE, BT_PKG_ROPE},
        {BT_OP_ATTENTION, BT_PKG_INT_ATTENTION, BT_PKG_ATTENTION},
        {BT_OP_ADD, BT_PKG_INT_ADD, BT_PKG_ADD},
        {BT_OP_SILU_MUL, BT_PKG_INT_SILU_MUL, BT_PKG_SILU_MUL},
    };
    const uint32_t index = bt_pkg_rows(pkg)[0].program[BT_PKG_OUT_ALL];
    const bt_pkg_program *g = &bt_pkg_programs(pkg)[index];
    const bt_pkg_inst *inst = bt_pkg_code(pkg, index);
    for (size_t o = 0; o < sizeof of / sizeof *of; o++) {
        size_t k = 0;
        while (kinds[k] != of[o].kind) k++;
        for (uint32_t i = 0; i < g->insts; i++)
            assert_int_not_equal(inst[i].op, subset >> k & 1 ? of[o].floats : of[o].integer);
    }
    for (uint32_t i = 0; i < g->insts; i++) {
        if (inst[i].op == BT_PKG_LINEAR_F16) assert_false(subset & 1);
        if (inst[i].op == BT_PKG_LINEAR || inst[i].op == BT_PKG_INT_LINEAR) assert_true(subset & 1);
    }
}

static double distance(const world *w, const float *logits)
{
    double apart = 0, square = 0;
    for (size_t i = 0; i < N * w->vocab; i++) {
        apart += ((double)logits[i] - w->want[i]) * ((double)logits[i] - w->want[i]);
        square += (double)w->want[i] * w->want[i];
    }
    return sqrt(apart / square);
}

/* Three ways of cutting; every seventh subset also with the plain kernels. */
static double check_subset(const world *w, const bt_graph *g, unsigned subset, const char *recipe,
                           uint32_t output_bits)
{
    static const size_t chunks[] = {16, 64, 7};
    const bt_profile profile = profile_of(subset, output_bits);
    bt_pkg *pkg = package(w, recipe, &profile);
    float *logits[2] = {engine_kit_floats(N * w->vocab), engine_kit_floats(N * w->vocab)};
    check_fallbacks(pkg, g, subset);
    check_units(pkg, subset);
    const uint64_t hash = run(w, pkg, N, NULL, logits[0]);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks + (subset % 7 == 0); c++) {
        const bool plain = c == sizeof chunks / sizeof *chunks;
        assert_true(run(w, pkg, plain ? 32 : chunks[c], plain ? "ref" : NULL, logits[1]) == hash);
        assert_memory_equal(logits[0], logits[1], N * w->vocab * sizeof(float));
    }
    const double apart = distance(w, logits[0]);
    free(logits[0]);
    free(logits[1]);
    bt_pkg_close(pkg);
    return apart;
}

static void every_subset_of_operators(const char *arch, const char *recipe, uint32_t output_bits,
                                      unsigned always, double bound)
{
    world w = begin(arch);
    bt_recipe r;
    bt_graph *g = NULL;
    double worst = 0;
    unsigned subsets = 0, at = 0;
    assert_int_equal(bt_recipe_parse(&r, recipe, NULL), BT_OK);
    const bt_graph_options options = {.rotate_embed = r.r1, .rotate_attention = r.r2};
    assert_int_equal(bt_graph_build(&g, &w.kit.model->hp, &options, NULL), BT_OK);
    for (unsigned subset = 0, nth = 0; subset <= ALL; subset++) {
        if ((subset & always) != always || (slow_run() && nth++ % 5)) continue;
        const double apart = check_subset(&w, g, subset, recipe, output_bits);
        if (apart > worst) worst = apart, at = subset;
        subsets++;
    }
    printf("%s, %s: %u subsets, the farthest from the float engine %.4f (0x%x)\n", arch, recipe, subsets,
           worst, at);
    assert_true(worst < bound);
    bt_graph_free(g);
    end(&w);
}

static void any_operators_may_be_missing(void **state)
{
    (void)state;
    every_subset_of_operators("qwen3", "w8a16:no-gptq", 16, 0, 0.05);
}

/* Without a rotation of attention's output, its linear changes the unit itself. */
static void any_operators_may_be_missing_without_rotations(void **state)
{
    (void)state;
    every_subset_of_operators("llama", "w8a8:no-rotate", 16, 1 << 2 | 1 << 7, 0.2);
}

static void any_operators_may_be_missing_with_outputs_of_8_bits(void **state)
{
    (void)state;
    every_subset_of_operators("qwen2", "w8a8:no-r2", 8, 1 << 2 | 1 << 7, 0.2);
}

/* Linears of some sites alone are missing: what is beside them writes in units of a site that no linear
 * reads, and adds what the companion made. */
static void linears_of_single_sites_may_be_missing(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        size_t count, reasons;
    } of[] = {{"w8a8:a16=down+o", 6, 2},
              {"w8a8:a16=qkv+head,no-rotate", 10, 2},
              {"w8a8:a16=up,shadow=channel,prune=0.5", 6, 1}};
    world w = begin("llama");
    float *logits[2] = {engine_kit_floats(N * w.vocab), engine_kit_floats(N * w.vocab)};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bt_profile p = profile_of(ALL, 16);
        p.op[BT_OP_LINEAR] = BT_PROFILE_INT8;
        bt_pkg *pkg = package(&w, of[i].recipe, &p);
        const bt_pkg_header *h = bt_pkg_header_of(pkg);
        size_t count = 0;
        for (uint32_t f = 0; f < h->fallbacks.count; f++) {
            count += bt_pkg_fallbacks(pkg)[f].count;
            assert_string_equal(bt_pkg_fallbacks(pkg)[f].op, "linear");
        }
        assert_int_equal(h->fallbacks.count, of[i].reasons);
        assert_int_equal(count, of[i].count);
        const uint64_t hash = run(&w, pkg, N, NULL, logits[0]);
        assert_true(run(&w, pkg, 9, "ref", logits[1]) == hash);
        assert_memory_equal(logits[0], logits[1], N * w.vocab * sizeof(float));
        /* as far as the recipe is with every linear, or nearer: what is missing has f16 weights */
        const double apart = distance(&w, logits[0]);
        bt_profile whole = profile_of(ALL, 16);
        bt_pkg *none = package(&w, of[i].recipe, &whole);
        (void)run(&w, none, N, NULL, logits[1]);
        printf("%s: %.4f, and %.4f with every linear\n", of[i].recipe, apart, distance(&w, logits[1]));
        assert_true(apart < distance(&w, logits[1]) + 0.02);
        bt_pkg_close(none);
        bt_pkg_close(pkg);
    }
    free(logits[0]);
    free(logits[1]);
    end(&w);
}

/* ---- what costs decide ---- */

/* The programs of all shapes have the same operators on the same units in the same clusters. */
static void check_one_placement(const bt_pkg *pkg)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    for (uint32_t r = 1; r < h->rows.count; r++)
        for (int o = 0; o < BT_PKG_OUTS; o++) {
            const uint32_t first = bt_pkg_rows(pkg)[0].program[o], other = bt_pkg_rows(pkg)[r].program[o];
            const bt_pkg_program *a = &bt_pkg_programs(pkg)[first], *b = &bt_pkg_programs(pkg)[other];
            const bt_pkg_inst *x = bt_pkg_code(pkg, first), *y = bt_pkg_code(pkg, other);
            assert_int_equal(a->insts, b->insts);
            assert_int_equal(a->clusters, b->clusters);
            for (uint32_t i = 0; i < a->insts; i++)
                assert_true(x[i].op == y[i].op && x[i].unit == y[i].unit && x[i].cluster == y[i].cluster &&
                            x[i].layer == y[i].layer && x[i].tensor == y[i].tensor);
        }
}

static uint32_t clusters_of(const bt_pkg *pkg)
{
    return bt_pkg_programs(pkg)[bt_pkg_rows(pkg)[0].program[BT_PKG_OUT_ALL]].clusters;
}

/* With the linears alone, q, k and v read one value, and gate and up. */
static void costs_cut_a_package_anew_and_change_no_number(void **state)
{
    (void)state;
    enum { LAYERS = 3 };
    world w = begin("llama");
    float *logits[2] = {engine_kit_floats(N * w.vocab), engine_kit_floats(N * w.vocab)};
    uint64_t want = 0;
    for (int i = 0; i < 6; i++) {
        bt_profile p = profile_of(1, 16);
        if (i == 1) p.time.op_launch_ns = 1;
        if (i == 2) p.boundary_bytes_per_us = 1000;
        if (i == 3) p.convert_elements_per_us = 1000;
        if (i == 4)
            p.time.op_launch_ns = 355000, p.boundary_bytes_per_us = 40000, p.convert_elements_per_us = 1;
        if (i == 5) p.time.dispatch_ns = 1;
        bt_pkg *pkg = package(&w, "w8a8", &p);
        assert_int_equal(clusters_of(pkg), i ? 4 * LAYERS + 1 : 7 * LAYERS + 1);
        const uint64_t hash = run(&w, pkg, 16, NULL, logits[i != 0]);
        if (!i) want = hash;
        assert_true(hash == want);
        if (i) assert_memory_equal(logits[0], logits[1], N * w.vocab * sizeof(float));
        bt_pkg_close(pkg);
    }
    free(logits[0]);
    free(logits[1]);
    end(&w);
}

/* By a subset of operators: as cut without costs, and with a dear launch; clusters of the partitioner are
 * those of the program, none of them in pieces. */
static void clusters_of_a_program_are_those_that_were_found(void **state)
{
    (void)state;
    world w = begin("qwen3");
    bt_recipe r;
    bt_graph *g = NULL;
    float *logits = engine_kit_floats(N * w.vocab);
    assert_int_equal(bt_recipe_parse(&r, "w8a8:no-gptq", NULL), BT_OK);
    const bt_graph_options options = {.rotate_embed = r.r1, .rotate_attention = r.r2};
    assert_int_equal(bt_graph_build(&g, &w.kit.model->hp, &options, NULL), BT_OK);
    for (unsigned subset = 0; subset <= ALL; subset += 5) {
        uint64_t hash[2];
        for (int dear = 0; dear < 2; dear++) {
            bt_profile p = profile_of(subset, 16);
            bt_offload *found = NULL;
            p.time.op_launch_ns = dear ? 355000 : 0;
            assert_int_equal(bt_offload_new(&found, g, &p, &r, BT_PKG_OPS_ALL, CTX, NULL, NULL), BT_OK);
            bt_pkg *pkg = package(&w, "w8a8:no-gptq", &p);
            assert_int_equal(clusters_of(pkg), found->clusters);
            hash[dear] = run(&w, pkg, 32, NULL, logits);
            bt_pkg_close(pkg);
            bt_offload_free(found);
        }
        assert_true(hash[0] == hash[1]);
    }
    free(logits);
    bt_graph_free(g);
    end(&w);
}

static void a_placement_holds_for_every_shape_also_where_little_work_goes_away(void **state)
{
    (void)state;
    world w = begin("llama");
    float *logits[2] = {engine_kit_floats(N * w.vocab), engine_kit_floats(N * w.vocab)};
    bt_profile p = profile_of(ALL & ~(1u << 3), 16);
    p.min_cluster_macs = 3000000; /* norm, q, k and v of layer 0, before rope, and the head */
    p.time.op_launch_ns = 1;
    bt_pkg *whole = package(&w, "w8a8", &p), *pkg = NULL;
    const uint64_t want = run(&w, whole, N, NULL, logits[0]);
    const bt_pkg_header *h = bt_pkg_header_of(whole);
    size_t small = 0;
    for (uint32_t i = 0; i < h->fallbacks.count; i++)
        small += strstr(bt_pkg_fallbacks(whole)[i].why, "less work than a launch is worth") != NULL;
    assert_true(small > 0);
    assert_true(run(&w, whole, 7, NULL, logits[1]) == want);
    assert_memory_equal(logits[0], logits[1], N * w.vocab * sizeof(float));
    static const char *const policies[] = {"pow2", "chunk:16+tail", "max-pad"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        p.static_ctx = i == 1; /* its programs are packed */
        pkg = package_of(&w, "w8a8", policies[i], &p);
        assert_int_equal(bt_pkg_header_of(pkg)->body_code != 0, i == 1);
        check_one_placement(pkg);
        bt_prefill *e = npu_kit_engine(w.kit.model, pkg, CTX, NULL, NULL, 2);
        bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
        assert_int_equal(bt_prefill_run(e, &kv, w.ids, N, 0, NULL, logits[1], BT_PREFILL_ALL, NULL), BT_OK);
        assert_true(engine_kit_hash(&kv, N) == want);
        assert_memory_equal(logits[0], logits[1], N * w.vocab * sizeof(float));
        engine_kit_pages_free(&kv);
        bt_prefill_free(e);
        bt_pkg_close(pkg);
    }
    bt_pkg_close(whole);
    free(logits[0]);
    free(logits[1]);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_operators_may_be_missing),
        cmocka_unit_test(any_operators_may_be_missing_without_rotations),
        cmocka_unit_test(any_operators_may_be_missing_with_outputs_of_8_bits),
        cmocka_unit_test(linears_of_single_sites_may_be_missing),
        cmocka_unit_test(costs_cut_a_package_anew_and_change_no_number),
        cmocka_unit_test(clusters_of_a_program_are_those_that_were_found),
        cmocka_unit_test(a_placement_holds_for_every_shape_also_where_little_work_goes_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
