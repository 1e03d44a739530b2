/* Five readers price one prompt where starting a graph is nearly all that it takes: a timeline, an answer,
 * the table of schedules, a package in program order, and sizes alone. The same of waiting at changes of
 * engine, and of sparse attention. */
#include "npu/compile/compile.h"
#include "npu/price/price_pkg.h"
#include "npu/price/schedule_play.h"
#include "npu/price/schedule_price.h"
#include "npu/pkg/pkg_shapes.h"
#include "tests/helpers/engine_kit.h"
#include "lab/plan/prompts.h"
#include "lab/timeline/modelled.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 512, CALIB = 128, LENGTHS = 6, WINDOW = 4 };
enum { TIMELINE, ANSWER, TABLE, PACKAGE, PLAN, READERS };
static const char *const readers[] = {"timeline", "answer", "table", "package", "plan"};
static const uint32_t lengths[LENGTHS] = {1, 17, 64, 65, 200, 500};
static const char policy[] = "chunk:64+tail";
static const char *attention; /* NULL: dense */

static bt_profile ane_m4(uint32_t dispatch_ns)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, "ane-m4", NULL), BT_OK);
    assert_int_equal(p.time.dispatch_ns, 95000);
    p.time.dispatch_ns = dispatch_ns;
    return p;
}

static bt_pkg *compiled(const engine_kit *kit, const bt_profile *p)
{
    char path[] = "/tmp/test_dispatch.XXXXXX";
    int32_t ids[CALIB];
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    bt_compile_options o = {.shape_policy = policy, .profile = p,     .npu_ops = BT_PKG_OPS_LINEAR,
                            .ctx_tokens = CTX,      .calib_ids = ids, .calib_len = CALIB};
    close(mkstemp(path));
    engine_kit_ids(ids, CALIB, kit->model, 21);
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", NULL), BT_OK);
    assert_int_equal(bt_attention_parse(&o.attention, attention, NULL), BT_OK);
    if (bt_compile(path, kit->model, &o, NULL, &f) < 0 || bt_pkg_open(&pkg, path, &f) < 0)
        fail_msg("%s", f.text);
    unlink(path);
    return pkg;
}

static uint64_t of_timeline(const bt_pkg *pkg, const bt_profile *p, uint32_t tokens, int schedule)
{
    const tool_modelled_plan plan = {.pkg = pkg,
                                     .engines = {p, p},
                                     .link = {.bits_per_us = 1000},
                                     .decode = p,
                                     .model = {.operators = 1, .layers = bt_pkg_header_of(pkg)->layers},
                                     .prompt_tokens = tokens,
                                     .answer_tokens = 1,
                                     .window = WINDOW};
    tool_modelled_result r;
    tool_timeline_span *span = NULL;
    size_t spans = 0;
    bt_fault f = {""};
    if (tool_modelled_play(&r, &span, &spans, &plan, schedule, &f) < 0) fail_msg("%s", f.text);
    free(span);
    return r.ttft_ns;
}

static uint64_t of_table(const bt_pkg *pkg, const bt_profile *p, uint32_t tokens, int schedule)
{
    const bt_schedule_price_config c = {pkg, {.npu = p, .companion = p}, schedule, WINDOW, CTX};
    bt_schedule_price *t = NULL;
    assert_int_equal(bt_schedule_price_new(&t, &c, NULL), BT_OK);
    const uint64_t ns = bt_schedule_price_of(t, tokens).makespan_ns;
    bt_schedule_price_free(t);
    return ns;
}

/* As a node answers, and in program order. */
static void of_package(uint64_t ret[READERS], const bt_pkg *pkg, const bt_profile *p, uint32_t tokens)
{
    static bt_price price;
    const bt_schedule_play_config c = {pkg, {.npu = p, .companion = p}, BT_SCHEDULE_SERIAL, WINDOW};
    bt_schedule_play *play = NULL;
    bt_shapes shapes;
    assert_int_equal(bt_price_pkg(&price, pkg, p, 16, NULL), BT_OK);
    assert_int_equal(bt_pkg_shapes(&shapes, pkg, NULL), BT_OK);
    assert_int_equal(bt_schedule_play_new(&play, &c, NULL), BT_OK);
    bt_work_prefill d = {.price = &price, .cut = bt_price_pkg_cut,
                         .ud = &shapes,   .play = bt_schedule_play_prompt,
                         .play_ud = play, .layers = bt_pkg_header_of(pkg)->layers,
                         .kv_bytes = 64};
    ret[ANSWER] = bt_work_of_prompt(&d, &(bt_work_prompt){.end = tokens}).work.ns;
    d.play = NULL;
    ret[PACKAGE] = bt_work_of_prompt(&d, &(bt_work_prompt){.end = tokens}).work.ns;
    bt_schedule_play_free(play);
}

static uint64_t of_plan(const engine_kit *kit, const bt_profile *p, uint32_t tokens)
{
    static tool_plan_programs programs;
    const bt_hparams *h = &kit->model->hp;
    const bt_dims s = {.layers = h->layers, .hidden = h->dim,        .ffn = h->ffn,
                       .heads = h->heads,   .kv_heads = h->kv_heads, .head_dim = h->head_dim,
                       .vocab = h->vocab,   .ffn_matrices = 3};
    bt_recipe recipe;
    bt_attention a;
    bt_shapes shapes;
    tool_plan_prompt ret;
    assert_int_equal(bt_attention_parse(&a, attention, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&recipe, "w8a8", NULL), BT_OK);
    assert_int_equal(bt_shapes_parse(&shapes, policy, CTX, NULL), BT_OK);
    const tool_plan_form form = tool_plan_form_of(&recipe);
    assert_int_equal(tool_plan_programs_make(&programs, p, NULL, &s, &form, &tool_plan_kvs[0], &a, &shapes,
                                             CTX, false, NULL),
                     BT_OK);
    const tool_plan_how how = {.programs = &programs, .shapes = &shapes,
                               .profile = p,          .link = {.bits_per_us = 1000},
                               .layers = s.layers,    .kv_bytes = tool_plan_kv_bytes(&tool_plan_kvs[0], &s)};
    assert_int_equal(tool_plan_prompts(&ret, &tokens, 1, &how, NULL), BT_OK);
    return ret.ns;
}

static void all(uint64_t ret[READERS], const engine_kit *kit, const bt_pkg *pkg, const bt_profile *p,
                uint32_t tokens)
{
    ret[TIMELINE] = of_timeline(pkg, p, tokens, BT_SCHEDULE_SERIAL);
    ret[TABLE] = of_table(pkg, p, tokens, BT_SCHEDULE_SERIAL);
    of_package(ret, pkg, p, tokens);
    ret[PLAN] = of_plan(kit, p, tokens);
}

static size_t chunks_of(uint32_t tokens)
{
    bt_shapes s;
    size_t n = 0;
    assert_int_equal(bt_shapes_parse(&s, policy, CTX, NULL), BT_OK);
    for (uint64_t at = 0; at < tokens; n++) at += bt_shapes_next(&s, tokens, at).valid;
    return n;
}

/* Linears on the NPU, all else beside it: q, k and v; o; gate and up; down. Each is a graph of its own. */
static void all_readers_count_a_dispatch_for_each_graph_of_a_chunk(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_profile ane = ane_m4(95000), free_of_it = ane_m4(0);
    bt_pkg *pkg = compiled(&kit, &ane);
    for (size_t i = 0; i < LENGTHS; i++) {
        uint64_t with[READERS], without[READERS];
        all(with, &kit, pkg, &ane, lengths[i]);
        all(without, &kit, pkg, &free_of_it, lengths[i]);
        const uint64_t graphs = chunks_of(lengths[i]) * 4 * kit.model->hp.layers + 1; /* the output matrix */
        for (int r = 0; r < READERS; r++) {
            if (with[r] - without[r] != graphs * 95000)
                fail_msg("%s, %u tokens: %.3f dispatches, not %u", readers[r], (unsigned)lengths[i],
                         (double)(with[r] - without[r]) / 95000, (unsigned)graphs);
            const double x = (double)with[r], y = (double)with[TIMELINE];
            if (x < .99 * y || x > 1.01 * y)
                fail_msg("%s, %u tokens: %.0f ns, not %.0f", readers[r], (unsigned)lengths[i], x, y);
        }
    }
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

/* The residual's work, q, k and v, what lies between, o, the norm, gate and up, the product, down: eight
 * changes a layer, of which the first layer's first has nothing before it; and the output matrix behind the
 * last norm. */
static void all_readers_count_a_wait_for_each_change_of_engine(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_profile still = ane_m4(0);
    bt_profile waits = still;
    waits.time.sync_ns = 400000;
    bt_pkg *pkg = compiled(&kit, &waits);
    for (size_t i = 0; i < LENGTHS; i++) {
        uint64_t with[READERS], without[READERS];
        all(with, &kit, pkg, &waits, lengths[i]);
        all(without, &kit, pkg, &still, lengths[i]);
        const uint64_t chunks = chunks_of(lengths[i]), changes = chunks * 8 * kit.model->hp.layers + 1;
        for (int r = 0; r < READERS; r++)
            if (with[r] - without[r] != changes * 400000)
                fail_msg("%s, %u tokens: %.3f waits, not %u", readers[r], (unsigned)lengths[i],
                         (double)(with[r] - without[r]) / 400000, (unsigned)changes);
    }
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

/* Each head has its own share in a timeline, and their mean in a package's table; those of the first rows are
 * dense. */
static void all_readers_price_sparse_attention_alike(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sparse:0.3,dense=40", "sparse:0.3,dense=0,rows=16",
                                        "sparse:0.5,group"};
    engine_kit kit = engine_kit_model("llama");
    bt_profile slow = ane_m4(9500);
    slow.time.f16_ops_per_us = 2000; /* so that attention is most of it */
    slow.time.efficiency[0].permille = 1000, slow.time.points = 1;
    slow.time.sync_ns = 1000;
    for (size_t k = 0; k < 3; k++) {
        attention = NULL;
        bt_pkg *dense = compiled(&kit, &slow);
        attention = kinds[k];
        bt_pkg *sparse = compiled(&kit, &slow);
        for (size_t i = 0; i < LENGTHS; i++) {
            uint64_t got[READERS];
            all(got, &kit, sparse, &slow, lengths[i]);
            for (int r = 0; r < READERS; r++) {
                const double x = (double)got[r], y = (double)got[TIMELINE];
                if (x < .99 * y || x > 1.01 * y)
                    fail_msg("%s, %s, %u tokens: %.0f ns, not %.0f", kinds[k], readers[r],
                             (unsigned)lengths[i], x, y);
            }
            const uint64_t all_see = of_timeline(dense, &slow, lengths[i], BT_SCHEDULE_SERIAL);
            const bool is_dense = lengths[i] <= (k == 0 ? 40 : k == 1 ? 0 : 512);
            assert_true(is_dense == (all_see == got[TIMELINE]));
            /* what the NPU estimates cannot be had for another chunk */
            for (int policy_of = BT_SCHEDULE_FIFO; policy_of <= BT_SCHEDULE_OOO; policy_of++)
                assert_int_equal(of_timeline(sparse, &slow, lengths[i], policy_of),
                                 of_table(sparse, &slow, lengths[i], policy_of));
        }
        bt_pkg_close(dense);
        bt_pkg_close(sparse);
    }
    attention = NULL;
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_readers_count_a_dispatch_for_each_graph_of_a_chunk),
        cmocka_unit_test(all_readers_count_a_wait_for_each_change_of_engine),
        cmocka_unit_test(all_readers_price_sparse_attention_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
