/* --npu-ops all from the compiler to the executor: whole layers in integers, one result for every chunking,
 * padding, thread count and instruction set, close to the float engine. */
#include "graph/walk.h"
#include "npu/compile/compile.h"
#include "engine/prefill.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 512, N = 330, PAGE = 16, CALIB = 512 };
static const char *const archs[] = {"llama", "qwen2", "qwen3"};

typedef struct world {
    engine_kit kit;
    int32_t ids[CTX], calib[CALIB];
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.ids, CTX, w.kit.model, 11);
    engine_kit_ids(w.calib, CALIB, w.kit.model, 12);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}
static void end(world *w) { engine_kit_done(&w->kit); }

static bt_pkg *package(const world *w, const char *recipe, const char *policy, uint32_t npu_ops,
                       const bt_profile *profile)
{
    char path[] = "/tmp/baton-int-exec-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    bt_compile_options o = {.shape_policy = policy, .npu_ops = npu_ops, .ctx_tokens = CTX,
                            .calib_ids = w->calib,  .calib_len = CALIB, .profile = profile};
    bt_pkg *pkg = NULL;
    bt_fault f = {0};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    if (bt_compile(path, w->kit.model, &o, NULL, &f) != BT_OK || bt_pkg_open(&pkg, path, &f) != BT_OK)
        fail_msg("%s: %s", recipe, f.text);
    unlink(path);
    return pkg;
}

static void chunks_threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:16", "chunk:64", "chunk:256+tail", "pow2", "range:7-100"};
    static const char *const recipes[] = {"w8a8", "w8a16:no-rotate", "w4a8:no-r2,no-gptq"};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        world w = begin(archs[r]);
        float *first[2] = {engine_kit_floats(w.vocab), engine_kit_floats(w.vocab)},
              *logits = engine_kit_floats(w.vocab);
        uint64_t hash[2] = {0};
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            bt_pkg *pkg = package(&w, recipes[r], policies[i], BT_PKG_OPS_ALL, NULL);
            assert_int_equal(bt_pkg_header_of(pkg)->npu_ops, BT_PKG_OPS_ALL);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                const bool is_ref = k == bt_kernels_table_len - 1;
                if (!rows_usable(&bt_kernels_table[k]) || (is_ref && i != r))
                    continue;                               /* the plain kernels are slow */
                for (uint32_t elem = 0; elem < 2; elem++) { /* int8 and f16 */
                    bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, bt_kernels_table[k].isa,
                                                   pool[(i + r) % 2], elem + 1);
                    bt_kv_view kv = engine_kit_pages(w.kit.model, N + 40, PAGE, elem + 1);
                    assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                                     BT_OK);
                    if (!hash[elem]) {
                        hash[elem] = engine_kit_hash(&kv, N);
                        memcpy(first[elem], logits, w.vocab * sizeof **first);
                    }
                    assert_true(engine_kit_hash(&kv, N) == hash[elem]);
                    assert_true(engine_kit_untouched(&kv, N, N + 40));
                    assert_memory_equal(first[elem], logits, w.vocab * sizeof **first);
                    engine_kit_pages_free(&kv);
                    bt_prefill_free(p);
                }
            }
            bt_pkg_close(pkg);
        }
        free(first[0]);
        free(first[1]);
        free(logits);
        end(&w);
    }
    bt_pool_free(pool[1]);
}

static void a_layer_has_no_float_step_but_the_store_of_its_kv(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        bt_pkg *pkg = package(&w, "w8a8", "chunk:64", BT_PKG_OPS_ALL, NULL);
        const bt_pkg_header *h = bt_pkg_header_of(pkg);
        assert_int_equal(h->fallbacks.count, 0);
        for (uint32_t p = 0; p < h->programs.count; p++) {
            const bt_pkg_program *prog = &bt_pkg_programs(pkg)[p];
            const bt_pkg_inst *inst = bt_pkg_code(pkg, (uint32_t)(prog - bt_pkg_programs(pkg)));
            size_t adds = 0;
            for (uint32_t i = 0; i < prog->insts; i++) {
                adds += inst[i].op == BT_PKG_INT_ADD;
                if (inst[i].layer == UINT32_MAX || inst[i].op > BT_PKG_LINEAR) continue;
                assert_true(inst[i].op == BT_PKG_DEQUANTISE16 || inst[i].op == BT_PKG_KV_STORE);
            }
            assert_int_equal(adds, 2 * h->layers);
        }
        bt_pkg_close(pkg);
        end(&w);
    }
}

/* Logits of all rows by the float engine. */
static float *float_logits(const world *w)
{
    bt_prefill *p = npu_kit_engine(w->kit.model, NULL, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(w->kit.model, N, PAGE, 2);
    float *logits = engine_kit_floats(N * w->vocab);
    assert_int_equal(bt_prefill_run(p, &kv, w->ids, N, 0, NULL, logits, BT_PREFILL_ALL, NULL), BT_OK);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    return logits;
}

static double distance(const world *w, const float *want, const char *recipe, uint32_t npu_ops,
                       const bt_profile *profile, uint32_t kv_elem_bytes)
{
    bt_pkg *pkg = package(w, recipe, "chunk:256+tail", npu_ops, profile);
    assert_int_equal(bt_pkg_header_of(pkg)->npu_ops, npu_ops);
    bt_prefill *p = npu_kit_engine(w->kit.model, pkg, CTX, NULL, NULL, kv_elem_bytes);
    bt_kv_view kv = engine_kit_pages(w->kit.model, N, PAGE, kv_elem_bytes);
    float *logits = engine_kit_floats(N * w->vocab);
    double apart = 0, square = 0;
    assert_int_equal(bt_prefill_run(p, &kv, w->ids, N, 0, NULL, logits, BT_PREFILL_ALL, NULL), BT_OK);
    for (size_t i = 0; i < N * w->vocab; i++) {
        apart += ((double)logits[i] - want[i]) * ((double)logits[i] - want[i]);
        square += (double)want[i] * want[i];
    }
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    free(logits);
    return sqrt(apart / square);
}

static void logits_are_as_close_to_the_float_engine_as_with_float_operators(void **state)
{
    (void)state;
    bt_profile narrow;
    assert_int_equal(bt_profile_load(&narrow, NULL, NULL), BT_OK);
    narrow.output_bits = 8;
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        float *want = float_logits(&w);
        const double linear = distance(&w, want, "w8a16", BT_PKG_OPS_LINEAR, NULL, 2);
        const double all = distance(&w, want, "w8a16", BT_PKG_OPS_ALL, NULL, 2),
                     kv8 = distance(&w, want, "w8a16", BT_PKG_OPS_ALL, NULL, 1);
        const double bits8 = distance(&w, want, "w8a16", BT_PKG_OPS_ALL, &narrow, 2);
        printf("%s, relative distance of logits: float operators %.4f, integer ones %.4f, 8-bit outputs "
               "%.4f, KV of int8 %.4f\n",
               archs[a], linear, all, bits8, kv8);
        assert_true(all < linear + 0.005 && kv8 < all + 0.02);
        assert_true(bits8 < 0.1);
        free(want);
        end(&w);
    }
}

static void padding_reaches_nothing(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_pkg *pkg = package(&w, "w8a8", "chunk:64", BT_PKG_OPS_ALL, NULL);
    bt_exec *x = NULL;
    const bt_pkg_row *row = NULL;
    assert_int_equal(bt_exec_new(&x, pkg, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    assert_int_equal(bt_pkg_find_row(&row, pkg, 1, 64, 64, NULL), BT_OK);
    void *arena = engine_kit_alloc(bt_pkg_header_of(pkg)->arena_bytes);
    float *logits[2] = {engine_kit_floats(w.vocab), engine_kit_floats(w.vocab)};
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
        const bt_exec_seq seq = {.ids = w.ids, .kv = &kv, .valid = 37};
        const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = 64, .logits = logits[i], .pad = i ? NAN : 0};
        assert_int_equal(bt_exec_run(x, row, BT_PKG_OUT_LAST, arena, &io, NULL), BT_OK);
        hash[i] = engine_kit_hash(&kv, 37);
        assert_true(engine_kit_untouched(&kv, 37, CTX));
        engine_kit_pages_free(&kv);
    }
    assert_true(hash[0] == hash[1]);
    assert_memory_equal(logits[0], logits[1], w.vocab * sizeof(float));
    const bt_exec_stats s = bt_exec_stats_of(x);
    assert_int_equal(s.companion_macs, 0);
    assert_true(s.npu_macs > 0);
    free(logits[0]);
    free(logits[1]);
    free(arena);
    bt_exec_free(x);
    bt_pkg_close(pkg);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(a_layer_has_no_float_step_but_the_store_of_its_kv),
        cmocka_unit_test(logits_are_as_close_to_the_float_engine_as_with_float_operators),
        cmocka_unit_test(padding_reaches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
