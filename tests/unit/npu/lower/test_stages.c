/* Stages of small packages: they cover a program, each on one engine, and attention waits for a store that
 * has ended. */
#include "npu/lower/stages.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROOM = 256 };

static bool is_attention(uint32_t op) { return op == BT_PKG_ATTENTION || op == BT_PKG_INT_ATTENTION; }

static void check_program(const bt_pkg *p, uint32_t program)
{
    bt_stage stage[ROOM];
    bt_schedule_stage as_stage[ROOM];
    const bt_pkg_inst *code = bt_pkg_code(p, program);
    const uint32_t insts = bt_pkg_programs(p)[program].insts, layers = bt_pkg_header_of(p)->layers;
    const size_t n = bt_stages_of(stage, as_stage, ROOM, p, program);
    assert_in_range(n, 2 * layers, ROOM);
    uint32_t next = 0, stored = 0, attended = 0;
    bool in_graph = false;
    for (size_t j = 0; j < n; j++) {
        assert_int_equal(stage[j].first, next);
        assert_true(stage[j].insts > 0);
        next += stage[j].insts;
        bool stores = false, computes = false;
        for (uint32_t i = stage[j].first; i < next; i++) {
            computes = computes || code[i].op != BT_PKG_SESSION;
            if (code[i].op != BT_PKG_SESSION)
                assert_int_equal(as_stage[j].engine == BT_SCHEDULE_NPU, code[i].unit != BT_PKG_COMPANION);
            /* The KV that attention reads was stored by a stage before: earlier chunks have ended it. */
            if (is_attention(code[i].op))
                assert_true(as_stage[j].joins && !stores && stored == code[i].layer + 1);
            stores = stores || code[i].op == BT_PKG_KV_STORE;
        }
        assert_int_equal(as_stage[j].joins, is_attention(code[stage[j].first].op));
        attended += as_stage[j].joins;
        assert_int_equal(stage[j].stores != UINT32_MAX, stores);
        if (stores) assert_int_equal(stage[j].stores, stored++);
        /* A stage behind one of the NPU goes on with its graph; a switch of sessions is none. */
        if (!stage[j].is_npu) in_graph = false;
        assert_int_equal(stage[j].is_dispatch, stage[j].is_npu && computes && !in_graph);
        in_graph = in_graph || stage[j].is_dispatch;
        if (j) assert_true(as_stage[j].engine != as_stage[j - 1].engine || as_stage[j].joins);
    }
    assert_int_equal(next, insts);
    assert_int_equal(stored, layers);
    assert_int_equal(attended, layers);
}

static bt_pkg *opened(const tiny_pkg *o)
{
    char path[64];
    bt_fault fault = {""};
    bt_pkg *p = NULL;
    snprintf(path, sizeof path, "/tmp/baton_stages_%d.bpk", (int)getpid());
    tiny_pkg_write(path, o);
    if (bt_pkg_open(&p, path, &fault) != BT_OK) fail_msg("%s", fault.text);
    unlink(path);
    return p;
}

static void stages_cover_a_program_and_attention_waits_for_what_was_stored(void **state)
{
    (void)state;
    const tiny_pkg kinds[] = {{.layers = 3},
                              {.layers = 3, .ops_all = true, .rotate = true},
                              {.layers = 2, .laid_out = true},
                              {.layers = 2, .ops_all = true, .laid_out = true, .two_sessions = true},
                              {.layers = 2, .packed = true, .seqs = {4, 8}}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bt_pkg *p = opened(&kinds[k]);
        for (uint32_t g = 0; g < bt_pkg_header_of(p)->programs.count; g++) check_program(p, g);
        bt_pkg_close(p);
    }
}

static void writes_no_more_than_there_is_room_for(void **state)
{
    (void)state;
    bt_pkg *p = opened(&(tiny_pkg){.layers = 2});
    bt_stage stage[3];
    memset(stage, 0xee, sizeof stage);
    const size_t n = bt_stages_of(NULL, NULL, 0, p, 0);
    assert_true(n > 2);
    assert_int_equal(bt_stages_of(stage, NULL, 2, p, 0), n);
    assert_int_equal(stage[1].first, stage[0].insts);
    assert_int_equal(stage[2].first, 0xeeeeeeee);
    bt_pkg_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_cover_a_program_and_attention_waits_for_what_was_stored),
        cmocka_unit_test(writes_no_more_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
