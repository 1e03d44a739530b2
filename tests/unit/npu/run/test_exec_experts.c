/* Experts on the NPU: one result for every chunking, thread count and instruction set, padding to an expert's
 * programs counted, and scales of experts that the calibration chose rarely. The sums themselves are in
 * test_exec.c. */
#include "npu/compile/compile.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/model/tiny_gguf.h"
#include "tests/helpers/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 256, N = 150, PAGE = 16 };

static bt_pkg *package(const bt_model *m, uint32_t npu_ops, const char *policy, size_t calib)
{
    char path[] = "/tmp/baton-experts-XXXXXX";
    int32_t ids[CTX];
    const int fd = mkstemp(path);
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    bt_compile_options o = {.shape_policy = policy, .npu_ops = npu_ops, .ctx_tokens = CTX, .calib_ids = ids,
                            .calib_len = calib};
    assert_true(fd >= 0);
    close(fd);
    engine_kit_ids(ids, CTX, m, 12);
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8:asym,clip=max", NULL), BT_OK);
    if (bt_compile(path, m, &o, NULL, &f) != BT_OK || bt_pkg_open(&pkg, path, &f) != BT_OK)
        fail_msg("%s", f.text);
    unlink(path);
    return pkg;
}

static void chunks_threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:16", "chunk:64", "chunk:64+tail:1", "pow2", "range:7-100"};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        engine_kit kit = engine_kit_model(ops ? "qwen3moe" : "mixtral");
        const size_t vocab = kit.model->hp.vocab;
        float *first = engine_kit_floats(vocab), *logits = engine_kit_floats(vocab);
        int32_t ids[N];
        uint64_t hash = 0;
        engine_kit_ids(ids, N, kit.model, 11);
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            bt_pkg *pkg = package(kit.model, ops, policies[i], CTX);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                if (!rows_usable(&bt_kernels_table[k])) continue;
                bt_prefill *p =
                    npu_kit_engine(kit.model, pkg, CTX, bt_kernels_table[k].isa, pool[(i + k) % 2], 2);
                bt_kv_view kv = engine_kit_pages(kit.model, N, PAGE, 2);
                assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                                 BT_OK);
                if (!hash) {
                    hash = engine_kit_hash(&kv, N);
                    memcpy(first, logits, vocab * sizeof *first);
                }
                assert_true(engine_kit_hash(&kv, N) == hash);
                assert_memory_equal(first, logits, vocab * sizeof *first);
                engine_kit_pages_free(&kv);
                bt_prefill_free(p);
            }
            bt_pkg_close(pkg);
        }
        free(first);
        free(logits);
        engine_kit_done(&kit);
    }
    bt_pool_free(pool[1]);
}

static void all_experts(tiny_gguf *w, void *ud) { tiny_gguf_u32(w, ud, TINY_GGUF_EXPERTS); }

/* Where rows choose all experts, each has the rows of the chunk: 64, 64, and 22 in the program of 32. */
static void padding_to_the_programs_of_experts_is_counted(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    char used[] = "qwen3moe.expert_used_count";
    s.arch = "qwen3moe";
    s.omit = used;
    s.extra = all_experts;
    s.ud = used;
    engine_kit kit = engine_kit_of(&s);
    const uint64_t experts = (uint64_t)kit.model->hp.layers * TINY_GGUF_EXPERTS;
    bt_pkg *pkg = package(kit.model, BT_PKG_OPS_LINEAR, "chunk:64", CTX);
    bt_prefill *p = npu_kit_engine(kit.model, pkg, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(kit.model, N, PAGE, 2);
    float *logits = engine_kit_floats(kit.model->hp.vocab);
    int32_t ids[N];
    engine_kit_ids(ids, N, kit.model, 11);
    assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
    assert_int_equal(bt_prefill_work(p).expert_rows, experts * N);
    assert_int_equal(bt_prefill_work(p).expert_padding_rows, experts * (32 - N % 64));
    free(logits);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void an_experts_program_is_the_smallest_that_holds_its_rows(void **state)
{
    (void)state;
    static const uint32_t want[][3] = {{64, 0, 0},   {64, 1, 1},     {64, 2, 2},    {64, 3, 4}, {64, 33, 64},
                                       {64, 64, 64}, {100, 65, 100}, {100, 64, 64}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(bt_pkg_expert_rows(want[i][0], want[i][1]), want[i][2]);
}

/* Every expert has the rows that chose it. One that few chose has its site's numbers, the others their own.
 */
static void experts_that_the_calibration_chose_rarely_have_the_scale_of_all(void **state)
{
    (void)state;
    enum { SHORT = 20 };
    engine_kit kit = engine_kit_model("qwen3moe");
    const bt_hparams *hp = &kit.model->hp;
    for (int is_short = 0; is_short < 2; is_short++) {
        const size_t calib = is_short ? SHORT : CTX;
        bt_pkg *pkg = package(kit.model, BT_PKG_OPS_LINEAR, "chunk:16", calib);
        size_t own = 0, rare = 0;
        for (uint32_t l = 0; l < hp->layers; l++)
            for (uint32_t kind = BT_SITE_UP; kind <= BT_SITE_DOWN; kind++) {
                const bt_pkg_site *site = &bt_pkg_sites(pkg)[bt_pkg_site_index(hp->layers, l, kind)];
                uint64_t rows = 0;
                for (uint32_t e = 0; e < hp->experts; e++) {
                    const bt_pkg_expert *of = bt_pkg_expert_of(pkg, l, kind, e);
                    rows += of->rows;
                    assert_int_equal(of->is_rare, of->rows < BT_PKG_EXPERT_ROWS);
                    if (of->is_rare) assert_true(of->scale == site->scale && of->zero == site->zero);
                    rare += of->is_rare;
                    own += of->scale != site->scale;
                }
                assert_int_equal(rows, calib * hp->experts_used);
            }
        assert_true(is_short ? rare == 2 * (size_t)hp->layers * hp->experts && !own : own > 0);
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(padding_to_the_programs_of_experts_is_counted),
        cmocka_unit_test(an_experts_program_is_the_smallest_that_holds_its_rows),
        cmocka_unit_test(experts_that_the_calibration_chose_rarely_have_the_scale_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
