/* Each kind of recipe through the compiler and the prefill engine: one result for every way to cut the
 * prompt, for one thread and two, on every row of the dispatch table. */
#include "engine/prefill.h"
#include "npu/pkg/pkg.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 75, CTX = 128, PAGE = 16 };
static const char *const recipes[] = {
    "w8a8",
    "w8a8:asym",
    "w8a8:shadow=off,asym",
    "w8a8:shadow=channel,prune=0.5",
    "w8a8:smooth=0.5",
    "w8a8:r4",
    "w8a8:per-tensor",
    "w8a8:group=32,asym",
    "w8a8:lut4",
    "w8a8:group=32,lut6,asym",
    "w8a16",
    "w8a16:group=32,lut4",
    "w8a8/1=w8a8:lut6/head=w8a16:lut4",
    "w4a8:asym",
    "w4a8:no-gptq,a16=down",
    "w4a16",
    "w4a16:awq",
    "w4a8:group=32,awq,gptq",
    "w4a16:group=32",
    "w4a16:group=32,act-order",
};

/* The results of a run: logits[vocab] of the last token. Returns the hash of the KV. */
static uint64_t run(const engine_kit *kit, const bt_pkg *pkg, const char *isa, bt_pool *pool, float *logits)
{
    int32_t ids[N];
    engine_kit_ids(ids, N, kit->model, 11);
    bt_prefill *p = npu_kit_engine(kit->model, pkg, CTX, isa, pool, 2);
    bt_kv_view kv = engine_kit_pages(kit->model, N, PAGE, 2);
    assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
    const uint64_t hash = engine_kit_hash(&kv, N);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    return hash;
}

static void check(uint32_t npu_ops)
{
    static const char *const policies[] = {"chunk:16+tail", "chunk:64"};
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    engine_kit kit = engine_kit_model_ffn("llama", 192); /* groups of 32 divide it, and r4 has a matrix */
    const size_t vocab = kit.model->hp.vocab;
    float *first = engine_kit_floats(vocab), *logits = engine_kit_floats(vocab);
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        uint64_t hash = 0;
        for (size_t i = 0; i < 2; i++) {
            bt_pkg *pkg = npu_kit_compiled(kit.model, recipes[r], npu_ops, policies[i], CTX);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                if (!rows_usable(&bt_kernels_table[k])) continue;
                const uint64_t got =
                    run(&kit, pkg, bt_kernels_table[k].isa, (i + k) % 2 ? pool : NULL, logits);
                if (!hash) hash = got, memcpy(first, logits, vocab * sizeof *first);
                if (got != hash || memcmp(first, logits, vocab * sizeof *first))
                    fail_msg("%s, %s, %s", recipes[r], policies[i], bt_kernels_table[k].isa);
            }
            bt_pkg_close(pkg);
        }
    }
    free(first);
    free(logits);
    engine_kit_done(&kit);
    bt_pool_free(pool);
}

static void linears_of_any_recipe_have_one_result(void **state)
{
    (void)state;
    check(BT_PKG_OPS_LINEAR);
}

static void layers_in_integers_of_any_recipe_have_one_result(void **state)
{
    (void)state;
    check(BT_PKG_OPS_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linears_of_any_recipe_have_one_result),
        cmocka_unit_test(layers_in_integers_of_any_recipe_have_one_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
