/* A device with every limit at once: an operator is missing, rows are aligned, attention is sliced, the
 * output matrix is in parts, the window is small, contexts are static, launches cost. Its packages are cut as
 * each of these says, and the numbers are those of a device that only lacks the operator. */
#include "npu/compile/compile.h"
#include "npu/pkg/pkg_layout.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 64, N = 61, PAGE = 16, CALIB = 128, SWITCH_NS = 1000 };

typedef struct world {
    engine_kit kit;
    int32_t ids[CTX], calib[CALIB];
    size_t vocab;
    char policy[96]; /* pairs of seq and ctx, in a file */
} world;

static world begin(const char *arch)
{
    static const char pairs[] = "[[7,32],[7,64],[16,32],[16,64],[24,64]]";
    world w = {.kit = engine_kit_model(arch), .policy = "enumerated:/tmp/baton-limits-XXXXXX"};
    const int fd = mkstemp(strchr(w.policy, ':') + 1);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, pairs, sizeof pairs - 1), sizeof pairs - 1);
    close(fd);
    engine_kit_ids(w.ids, CTX, w.kit.model, 21);
    engine_kit_ids(w.calib, CALIB, w.kit.model, 22);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

static void end(world *w)
{
    unlink(strchr(w->policy, ':') + 1);
    engine_kit_done(&w->kit);
}

static bt_profile lacks_rope(void)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, NULL, NULL), BT_OK);
    snprintf(p.name, sizeof p.name, "limits");
    p.op[BT_OP_ROPE] = 0;
    return p;
}

/* window 0: no sessions. */
static bt_profile everything(uint64_t window)
{
    bt_profile p = lacks_rope();
    p.last_axis_align_bytes = 64;
    p.query_slice_rows = 5;
    p.attention_heads_max = 1;
    p.output_parts = 3;
    p.on_chip_bytes = 9000;
    p.tile_rows = p.tile_cols = 32;
    p.tile_input_rows = 8;
    p.state_pow2 = true;
    p.state_multiple = 32;
    p.static_ctx = true;
    p.time.op_launch_ns = 355000;
    p.boundary_bytes_per_us = 40000;
    p.convert_elements_per_us = 1000;
    p.map_window_bytes = window;
    p.session_switch_ns = window ? SWITCH_NS : 0;
    return p;
}

static bt_err try_compile(bt_pkg **ret, const world *w, const char *recipe, const char *policy,
                          const bt_profile *profile, bt_fault *f)
{
    char path[] = "/tmp/baton-limits-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    bt_compile_options o = {.shape_policy = policy, .npu_ops = BT_PKG_OPS_ALL, .ctx_tokens = CTX,
                            .calib_ids = w->calib,  .calib_len = CALIB,        .profile = profile};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    bt_err e = bt_compile(path, w->kit.model, &o, NULL, f);
    if (e == BT_OK) e = bt_pkg_open(ret, path, f); /* every instruction is checked */
    unlink(path);
    return e;
}

static bt_pkg *package(const world *w, const char *recipe, const char *policy, const bt_profile *profile)
{
    bt_pkg *pkg = NULL;
    bt_fault f = {0};
    if (try_compile(&pkg, w, recipe, policy, profile, &f) < 0) fail_msg("%s, %s: %s", recipe, policy, f.text);
    return pkg;
}

/* The smallest window that a layer fits into: the compiler names it. */
static uint64_t smallest_window(const world *w, const char *recipe, const char *policy)
{
    static const char words[] = "the smallest window that would do is ";
    const bt_profile p = everything(4096);
    bt_pkg *pkg = NULL;
    bt_fault f = {0};
    assert_int_equal(try_compile(&pkg, w, recipe, policy, &p, &f), BT_ELIMIT);
    const char *at = strstr(f.text, words);
    assert_non_null(at);
    return strtoull(at + sizeof words - 1, NULL, 10);
}

/* Hash of the prompt's KV, logits of all rows. */
static uint64_t run(const world *w, const bt_pkg *pkg, float *logits, bt_report_work *ret_work)
{
    bt_prefill *e = npu_kit_engine(w->kit.model, pkg, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(w->kit.model, CTX, PAGE, 2);
    assert_int_equal(bt_prefill_run(e, &kv, w->ids, N, 0, NULL, logits, BT_PREFILL_ALL, NULL), BT_OK);
    const uint64_t hash = engine_kit_hash(&kv, N);
    *ret_work = bt_prefill_work(e);
    engine_kit_pages_free(&kv);
    bt_prefill_free(e);
    return hash;
}

/* Every limit has left its mark on the last row's program of all logits. */
static void check_marks(const bt_pkg *pkg)
{
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const uint32_t index = bt_pkg_rows(pkg)[h->rows.count - 1].program[BT_PKG_OUT_ALL];
    const bt_pkg_program *g = &bt_pkg_programs(pkg)[index];
    const bt_pkg_inst *inst = bt_pkg_code(pkg, index);
    size_t ropes = 0, slices = 0, parts = 0, switches = 0, ordered = 0, linears = 0;
    for (uint32_t i = 0; i < g->insts; i++) {
        const bt_pkg_inst *n = &inst[i];
        if (n->out != BT_PKG_NOWHERE) assert_int_equal(n->out_stride % 64, 0);
        assert_int_not_equal(n->op, BT_PKG_INT_ROPE);
        ropes += n->op == BT_PKG_ROPE;
        slices += n->op == BT_PKG_INT_ATTENTION;
        switches += n->op == BT_PKG_SESSION;
        if (!bt_pkg_is_npu_linear(n)) continue;
        linears++;
        parts += bt_pkg_part_of(n) > 0;
        ordered += bt_pkg_order_of(n) != BT_PKG_ORDER_NONE;
    }
    assert_int_equal(ropes, 2 * h->layers);
    assert_int_equal(slices, h->layers * bt_pkg_layout_slices(&h->layout, g->seq, h->heads));
    assert_true(slices > h->layers);
    assert_int_equal(parts, 3);
    assert_int_equal(ordered, linears);
    assert_true(h->sessions.count > 1);
    assert_int_equal(switches, h->sessions.count);
    assert_int_equal(g->ctx, bt_pkg_rows(pkg)[h->rows.count - 1].ctx);
    assert_true(g->clusters > 0);
}

static void all_limits(const char *arch, const char *recipe)
{
    world w = begin(arch);
    const char *const policies[] = {w.policy, "chunk:16+tail", "chunk:7", "pow2", "max-pad"};
    float *want = engine_kit_floats(N * w.vocab), *got = engine_kit_floats(N * w.vocab);
    const bt_profile plain = lacks_rope();
    bt_report_work work;
    bt_pkg *pkg = package(&w, recipe, "max-pad", &plain);
    const uint64_t hash = run(&w, pkg, want, &work);
    assert_int_equal(work.session_switches, 0);
    assert_int_equal(work.masked_macs, 0);
    bt_pkg_close(pkg);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const bt_profile p = everything(smallest_window(&w, recipe, policies[i]));
        pkg = package(&w, recipe, policies[i], &p);
        check_marks(pkg);
        assert_true(run(&w, pkg, got, &work) == hash);
        assert_memory_equal(got, want, N * w.vocab * sizeof *want);
        assert_true(work.session_switches > 0 && work.masked_macs > 0 && work.tile_padding_macs > 0);
        assert_true(work.session_switch_ns == work.session_switches * SWITCH_NS);
        bt_pkg_close(pkg);
    }
    free(want);
    free(got);
    end(&w);
}

static void all_limits_at_once_change_no_bit_in_any_chunking(void **state)
{
    (void)state;
    all_limits("llama", "w8a8:no-gptq");
    all_limits("qwen3", "w8a16:no-r2,no-gptq");
    all_limits("qwen2", "w4a8:no-gptq");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_limits_at_once_change_no_bit_in_any_chunking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
