/* Fusing with a group of LINEARs changes no bit: the product of gate and up that is quantised tile by tile,
 * with its shadow, against the same instructions one after the other. */
#include "npu/run/exec_private.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 128, ROWS = 64, VALID = 51, PAGE = 16 };

/* A program's instructions with planes and shadow of each down_proj's input moved to a second half of the
 * arena, where nothing else lies: then they may be written while gate and up still read theirs. */
static bt_pkg_inst *spread(const bt_pkg *pkg, const bt_exec_job *j)
{
    const uint64_t by = bt_pkg_header_of(pkg)->arena_bytes;
    const size_t insts = j->program->insts;
    bt_pkg_inst *inst = malloc(insts * sizeof *inst);
    assert_non_null(inst);
    memcpy(inst, j->inst, insts * sizeof *inst);
    for (size_t n = 1; n < insts; n++) {
        bt_pkg_inst *i = &inst[n];
        const bool reads = i->op == BT_PKG_LINEAR && bt_pkg_sites(pkg)[i->site].kind == BT_SITE_DOWN;
        if (!reads && !(i->op == BT_PKG_QUANTISE && i[-1].op == BT_PKG_SILU_MUL)) continue;
        *(reads ? &i->in0 : &i->out) += by;
        if (i->in1 != BT_PKG_NOWHERE) i->in1 += by;
        if (i->aux != BT_PKG_NOWHERE) i->aux += by;
    }
    return inst;
}

/* How many products are quantised at once in a run of ROWS rows; none: no QUANTISE is fused. */
static size_t fuse(const bt_pkg *pkg, const bt_exec_job *j, bt_fuse *ret, bool none)
{
    size_t products = 0;
    bt_fuse_find(ret, j->inst, j->program, bt_pkg_tensors(pkg), bt_pkg_sites(pkg),
                 bt_pkg_header_of(pkg)->ffn);
    for (size_t n = 0; n < j->program->insts; n++) {
        if (none) ret[n].quantise_rows = 0;
        products += ret[n].quantise_rows >= ROWS;
    }
    return products;
}

static void a_product_that_is_quantised_at_once_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8", "w8a16", "w8a8:shadow=channel", "w8a8:shadow=off", "w4a8"};
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    engine_kit kit = engine_kit_model("llama");
    const size_t vocab = kit.model->hp.vocab;
    int32_t ids[VALID];
    engine_kit_ids(ids, VALID, kit.model, 5);
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        const npu_kit_options o = {.recipe = recipes[r], .policy = "chunk:64", .ctx_tokens = CTX};
        bt_pkg *pkg = npu_kit_package(kit.model, &o);
        const bt_pkg_row *row = NULL;
        assert_int_equal(bt_pkg_find_row(&row, pkg, 1, ROWS, VALID, NULL), BT_OK);
        float *logits[2] = {engine_kit_floats(VALID * vocab), engine_kit_floats(VALID * vocab)};
        uint64_t hash[2], shadow[2];
        for (size_t is_fused = 0; is_fused < 2; is_fused++) {
            const size_t bytes = 2 * (size_t)bt_pkg_header_of(pkg)->arena_bytes;
            bt_exec *x = NULL;
            assert_int_equal(bt_exec_new(&x, pkg, bt_kernels_select(NULL), r % 2 ? pool : NULL, NULL), BT_OK);
            bt_kv_view kv = engine_kit_pages(kit.model, CTX, PAGE, 2);
            const bt_exec_seq seq = {.ids = ids, .kv = &kv, .valid = VALID};
            const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = ROWS, .logits = logits[is_fused]};
            uint8_t *arena = engine_kit_alloc(bytes);
            memset(arena, 0xff, bytes);
            bt_exec_job j = bt_exec_job_of(x, row, BT_PKG_OUT_ALL, arena, &io, x->seq, x->overflow, x->ids);
            bt_pkg_inst *inst = spread(pkg, &j);
            bt_fuse *answers = malloc(j.program->insts * sizeof *answers);
            assert_non_null(answers);
            j.inst = inst;
            j.fuse = answers;
            assert_int_equal(fuse(pkg, &j, answers, !is_fused), is_fused ? kit.model->hp.layers : 0);
            assert_int_equal(bt_exec_walk(&j, NULL), BT_OK);
            hash[is_fused] = engine_kit_hash(&kv, VALID);
            shadow[is_fused] = bt_exec_stats_of(x).shadow_entries;
            free(answers);
            free(inst);
            free(arena);
            engine_kit_pages_free(&kv);
            bt_exec_free(x);
        }
        assert_true(hash[0] == hash[1]);
        assert_memory_equal(logits[0], logits[1], VALID * vocab * sizeof *logits[0]);
        assert_int_equal(shadow[0], shadow[1]);
        assert_true((shadow[0] > 0) == !strstr(recipes[r], "shadow=off"));
        free(logits[0]);
        free(logits[1]);
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
    bt_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_that_is_quantised_at_once_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
