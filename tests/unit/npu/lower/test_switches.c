/* Switches of sessions in a program: a cluster that goes on behind one becomes two. By hand, and in packages
 * of the compiler, whose clusters go over the border of two layers. */
#include "npu/lower/switches.h"
#include "npu/compile/compile.h"
#include "npu/pkg/pkg.h"
#include "tests/helpers/model/engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { OUTSIDE = UINT32_MAX, COST_NS = 1234 };

typedef struct step {
    uint32_t layer, cluster;
} step;

static bt_lowered program_of(const step *s, size_t n, uint32_t clusters, const bt_pkg_place *place,
                             size_t places)
{
    bt_lowered l = {.inst = calloc(n, sizeof *l.inst), .insts = n, .place = malloc(places * sizeof *place),
                    .places = places};
    assert_true(l.inst && l.place);
    for (size_t i = 0; i < n; i++)
        l.inst[i] = (bt_pkg_inst){.op = BT_PKG_INT_RMSNORM,
                                  .group = 1,
                                  .layer = s[i].layer,
                                  .cluster = s[i].cluster,
                                  .unit = s[i].cluster ? BT_PKG_NPU : BT_PKG_COMPANION,
                                  .macs_per_row = i};
    memcpy(l.place, place, places * sizeof *place);
    l.program.insts = (uint32_t)n;
    l.program.clusters = clusters;
    return l;
}

/* Three layers, each a session, and the head with the last. Cluster 1 goes over the first border, 2 over
 * none, 3 over the second, and the head's goes on behind layer 2, in the same session. */
static void a_cluster_behind_a_switch_is_another(void **state)
{
    (void)state;
    static const step is[] = {{OUTSIDE, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 2},
                              {1, 3},       {2, 3}, {2, 0}, {2, 4}, {OUTSIDE, 4}};
    enum { INSTS = sizeof is / sizeof *is, SWITCH = 99 };
    /* session or cluster, one after the other */
    static const uint32_t op[] = {SWITCH, 0, 0, 1, SWITCH, 2, 3, 4, SWITCH, 5, 0, 6, 6};
    static const bt_pkg_session session[] = {{0, 0, 0}, {1, 1, 0}, {2, 3, 0}};
    static const bt_pkg_place place[] = {{.first_inst = 0, .last_inst = 2},
                                         {.first_inst = 2, .last_inst = 3},
                                         {.first_inst = 5, .last_inst = 9}};
    bt_lowered l = program_of(is, INSTS, 4, place, 3);
    assert_int_equal(bt_switches_insert(&l, session, 3, 3, COST_NS, NULL), BT_OK);
    assert_int_equal(l.insts, sizeof op / sizeof *op);
    assert_int_equal(l.program.insts, l.insts);
    assert_int_equal(l.program.clusters, 6);
    uint64_t old = 0;
    uint32_t switches = 0;
    for (size_t i = 0; i < l.insts; i++) {
        assert_int_equal(l.inst[i].op == BT_PKG_SESSION, op[i] == SWITCH);
        if (op[i] == SWITCH) {
            assert_int_equal(l.inst[i].arg, switches++);
            assert_int_equal(l.inst[i].params, COST_NS);
            assert_true(l.inst[i].cluster == 0 && l.inst[i].layer == OUTSIDE);
            continue;
        }
        assert_int_equal(l.inst[i].cluster, op[i]);
        assert_int_equal(l.inst[i].macs_per_row, old++); /* in their order, none lost */
    }
    assert_true(l.place[0].first_inst == 1 && l.place[0].last_inst == 3);
    assert_true(l.place[1].first_inst == 3 && l.place[1].last_inst == 5);
    assert_true(l.place[2].first_inst == 7 && l.place[2].last_inst == 12);
    bt_lower_done(&l);
}

static void one_session_has_no_switch_and_cuts_nothing(void **state)
{
    (void)state;
    static const step is[] = {{0, 1}, {1, 1}, {OUTSIDE, 1}};
    static const bt_pkg_session all = {0, 2, 0};
    static const bt_pkg_place place = {.last_inst = 2};
    bt_lowered l = program_of(is, 3, 1, &place, 1);
    assert_int_equal(bt_switches_insert(&l, &all, 1, 2, COST_NS, NULL), BT_OK);
    assert_true(l.insts == 3 && l.program.clusters == 1 && l.inst[2].cluster == 1 &&
                l.place[0].last_inst == 2);
    bt_lower_done(&l);
}

/* ---- in packages ---- */

enum { CTX = 128, CALIB = 128 };

static bt_pkg *made(const engine_kit *kit, const int32_t *calib, uint64_t window, bt_fault *fault)
{
    char path[] = "/tmp/baton-switches-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, NULL, NULL), BT_OK);
    p.time.op_launch_ns = 1000;
    p.map_window_bytes = window;
    bt_compile_options o = {.shape_policy = "chunk:32", .profile = &p,      .npu_ops = BT_PKG_OPS_ALL,
                            .ctx_tokens = CTX,          .calib_ids = calib, .calib_len = CALIB};
    bt_pkg *pkg = NULL;
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", NULL), BT_OK);
    if (bt_compile(path, kit->model, &o, NULL, fault) == BT_OK)
        assert_int_equal(bt_pkg_open(&pkg, path, NULL), BT_OK);
    unlink(path);
    return pkg;
}

/* Instruction by instruction: the same ones but for the switches; another cluster where the plain one is
 * another, or where a switch stands between. Returns how many clusters were cut. */
static uint32_t compare(const bt_pkg *plain, const bt_pkg *split, uint32_t program)
{
    const bt_pkg_program *a = &bt_pkg_programs(plain)[program], *b = &bt_pkg_programs(split)[program];
    const bt_pkg_inst *x = bt_pkg_code(plain, program), *y = bt_pkg_code(split, program);
    uint32_t at = 0, cut = 0, was = 0, is = 0, clusters = 0;
    bool is_switched = false;
    for (uint32_t i = 0; i < b->insts; i++) {
        if (y[i].op == BT_PKG_SESSION) {
            is_switched = true;
            continue;
        }
        assert_true(at < a->insts && x[at].op == y[i].op && x[at].layer == y[i].layer &&
                    x[at].tensor == y[i].tensor);
        assert_int_equal(x[at].cluster != 0, y[i].cluster != 0);
        if (x[at].cluster) {
            const bool goes_on = x[at].cluster == was && !is_switched;
            assert_int_equal(y[i].cluster, goes_on ? is : ++clusters);
            cut += x[at].cluster == was && is_switched;
        }
        was = x[at].cluster;
        is = y[i].cluster;
        is_switched = false;
        at++;
    }
    assert_int_equal(at, a->insts);
    assert_int_equal(b->clusters, clusters);
    assert_int_equal(b->clusters, a->clusters + cut);
    return cut;
}

static void a_package_s_clusters_are_cut_where_its_sessions_are_switched(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (size_t n = 0; n < sizeof archs / sizeof *archs; n++) {
        engine_kit kit = engine_kit_model(archs[n]);
        int32_t calib[CALIB];
        bt_fault f = {""};
        engine_kit_ids(calib, CALIB, kit.model, 5);
        assert_null(made(&kit, calib, 4096, &f));
        const char *at = strstr(f.text, "the smallest window that would do is ");
        assert_non_null(at);
        const uint64_t window = strtoull(at + strlen("the smallest window that would do is "), NULL, 10);
        bt_pkg *plain = made(&kit, calib, 0, &f), *split = made(&kit, calib, window, &f);
        assert_true(plain && split);
        const bt_pkg_header *h = bt_pkg_header_of(split);
        assert_true(h->sessions.count > 1);
        /* at every border of two layers; rows are chosen, by the companion, before the head */
        uint32_t borders = 0;
        for (uint32_t i = 1; i < h->sessions.count; i++)
            borders += bt_pkg_sessions(split)[i].first_layer < h->layers;
        assert_true(borders > 0);
        for (uint32_t i = 0; i < h->programs.count; i++) assert_int_equal(compare(plain, split, i), borders);
        bt_pkg_close(plain);
        bt_pkg_close(split);
        engine_kit_done(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_behind_a_switch_is_another),
        cmocka_unit_test(one_session_has_no_switch_and_cuts_nothing),
        cmocka_unit_test(a_package_s_clusters_are_cut_where_its_sessions_are_switched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
