/* The executor of packages: one result for every chunking, padding, thread count and instruction set; against sums written out. */
#include "npu/prefill.h"
#include "tests/helpers/engine_kit.h"
#include "tests/helpers/npu_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 1024, N = 330, PAGE = 16 }; /* two spans of attention, an odd tail */
static const char *const archs[] = {"llama", "qwen2", "qwen3"};

typedef struct world {
    engine_kit kit;
    int32_t ids[CTX];
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.ids, CTX, w.kit.model, 11);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

static void end(world *w) { engine_kit_done(&w->kit); }

static bt_pkg *package(const world *w, const char *recipe, const char *policy)
{
    const npu_kit_options o = {.recipe = recipe, .policy = policy, .ctx_tokens = CTX};
    return npu_kit_package(w->kit.model, &o);
}

static bt_prefill *engine(const bt_pkg *pkg, const char *isa, bt_pool *pool)
{
    const bt_prefill_options o = {.ctx_tokens = CTX};
    bt_prefill *p = NULL;
    assert_int_equal(bt_prefill_new_npu(&p, pkg, bt_kernels_select(isa), pool, &o, NULL), BT_OK);
    return p;
}

static float *floats(size_t n)
{
    float *f = malloc(n * sizeof *f);
    assert_non_null(f);
    return f;
}

static void chunks_threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:16", "chunk:64", "chunk:256", "chunk:256+tail", "pow2", "range:7-100"};
    static const char *const recipes[] = {"w8a8", "w8a16", "w4a8:a16=down", "w4a16", "w8a8:shadow=channel", "w8a8:shadow=off"};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        world w = begin(archs[r % 3]);
        float *first = floats(w.vocab), *logits = floats(w.vocab);
        uint64_t hash = 0;
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            bt_pkg *pkg = package(&w, recipes[r], policies[i]);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                const bool is_ref = k == bt_kernels_table_len - 1;
                if (!bt_kernels_table[k].usable() || (is_ref && i != r % 3)) continue; /* the plain kernels are slow */
                bt_prefill *p = engine(pkg, bt_kernels_table[k].isa, pool[(i + r) % 2]);
                bt_kv_view kv = engine_kit_pages(w.kit.model, N + 40, PAGE, 2);
                assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
                if (!hash) {
                    hash = engine_kit_hash(&kv, N);
                    memcpy(first, logits, w.vocab * sizeof *first);
                }
                assert_true(engine_kit_hash(&kv, N) == hash);
                assert_true(engine_kit_untouched(&kv, N, N + 40));
                assert_memory_equal(first, logits, w.vocab * sizeof *first);
                assert_int_equal(bt_prefill_stats_of(p).compilations, 0);
                engine_kit_pages_free(&kv);
                bt_prefill_free(p);
            }
            bt_pkg_close(pkg);
        }
        free(first);
        free(logits);
        end(&w);
    }
    bt_pool_free(pool[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
