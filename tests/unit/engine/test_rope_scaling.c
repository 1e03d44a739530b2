/* Models whose rotary embedding is scaled, run beyond their original context: the engines agree, chunks
 * change no bit, and decoding goes on where a prompt ended. */
#include "engine/decode.h"
#include "engine/prefill.h"
#include "npu/pkg/pkg.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 512, ORIGINAL = 32, N = 150, PAGE = 16, PAIRS = 8 };
typedef enum kind { PLAIN, YARN, SHORT, LONG, KINDS } kind;

typedef struct ask {
    const char *arch;
    kind kind;
} ask;

static void key(char ret[64], const ask *a, const char *suffix)
{
    snprintf(ret, 64, "%s.rope.scaling.%s", a->arch, suffix);
}

static void add(tiny_gguf *w, void *ud)
{
    static const float shorts[PAIRS] = {1, 1, 1, 1.25f, 1.25f, 1.5f, 1.5f, 2},
                       longs[PAIRS] = {1, 1.5f, 2, 3, 5, 8, 12, 16};
    const ask *a = ud;
    char k[64];
    if (a->kind == PLAIN) return;
    key(k, a, "type");
    tiny_gguf_str(w, k, a->kind == YARN ? "yarn" : "longrope");
    key(k, a, "original_context_length");
    tiny_gguf_u32(w, k, a->kind == SHORT ? CTX : ORIGINAL);
    key(k, a, a->kind == YARN ? "factor" : "attn_factor");
    tiny_gguf_f32(w, k, a->kind == YARN ? 16.0f : 1.1902381f);
    if (a->kind == YARN) return;
    tiny_gguf_tensor(w, "rope_factors_short.weight", 0, (uint64_t[]){PAIRS}, 1, shorts, sizeof shorts);
    tiny_gguf_tensor(w, "rope_factors_long.weight", 0, (uint64_t[]){PAIRS}, 1, longs, sizeof longs);
}

typedef struct world {
    engine_kit kit;
    int32_t ids[N];
    size_t vocab;
    float *logits, *oracle; /* of the last token */
} world;

static void run(float *logits, const world *w, const char *engine, const bt_pkg *pkg, const char *policy,
                uint64_t *ret_hash)
{
    const bt_prefill_config c = {.engine = engine, .pkg = pkg, .want.shape_policy = policy, .threads = 1,
                                 .ctx_tokens = CTX};
    bt_fault f = {""};
    bt_prefill *p = NULL;
    if (bt_prefill_new(&p, w->kit.model, &c, &f) < 0) fail_msg("%s", f.text);
    bt_kv_view kv = engine_kit_pages(w->kit.model, N, PAGE, bt_prefill_kv_elem_bytes(p));
    assert_int_equal(bt_prefill_run(p, &kv, w->ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
    if (ret_hash) *ret_hash = engine_kit_hash(&kv, N);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
}

static world begin(const ask *a)
{
    tiny_gguf_spec s = tiny_gguf_default();
    world w = {0};
    s.arch = a->arch;
    s.ctx = CTX;
    s.extra = add;
    s.ud = (void *)(uintptr_t)a;
    w.kit = engine_kit_of(&s);
    engine_kit_ids(w.ids, N, w.kit.model, 17);
    w.vocab = w.kit.model->hp.vocab;
    w.logits = engine_kit_floats(w.vocab);
    w.oracle = engine_kit_floats(w.vocab);
    run(w.oracle, &w, "reference", NULL, NULL, NULL);
    return w;
}

static void end(world *w)
{
    free(w->logits);
    free(w->oracle);
    engine_kit_done(&w->kit);
}

/* The greatest difference against the greatest logit of b. */
static float off(const float *a, const float *b, size_t n)
{
    float top = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmaxf(top, fabsf(b[i]));
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
    }
    return worst / top;
}

static const char *const archs[] = {"llama", "qwen2", "qwen3"};

static void host_agrees_with_the_reference_and_chunks_change_no_bit(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++)
        for (int k = YARN; k < KINDS; k++) {
            world w = begin(&(ask){archs[a], (kind)k});
            uint64_t hash[2];
            run(w.logits, &w, "host", NULL, "chunk:16", &hash[0]);
            assert_true(off(w.logits, w.oracle, w.vocab) <= 0.01f);
            run(w.logits, &w, "host", NULL, "chunk:256", &hash[1]);
            assert_true(hash[0] == hash[1]);
            end(&w);
        }
}

static void scaling_is_seen_in_the_answer(void **state)
{
    (void)state;
    world w[KINDS];
    for (int k = 0; k < KINDS; k++) w[k] = begin(&(ask){"llama", (kind)k});
    for (int k = 0; k < KINDS; k++)
        for (int j = 0; j < k; j++) assert_true(off(w[k].oracle, w[j].oracle, w[k].vocab) > 0.02f);
    for (int k = 0; k < KINDS; k++) end(&w[k]);
}

static void a_decode_step_has_the_bits_of_a_longer_prompt(void **state)
{
    (void)state;
    for (int k = YARN; k < KINDS; k++) {
        world w = begin(&(ask){"llama", (kind)k});
        const bt_prefill_config pc = {.engine = "host", .threads = 1};
        const bt_decode_config dc = {.engine = "host"};
        bt_prefill *p = NULL;
        bt_decode *d = NULL;
        float *expected = engine_kit_floats(w.vocab);
        assert_int_equal(bt_prefill_new(&p, w.kit.model, &pc, NULL), BT_OK);
        assert_int_equal(bt_decode_new(&d, w.kit.model, &dc, NULL), BT_OK);
        bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, bt_prefill_kv_elem_bytes(p));
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, expected, BT_PREFILL_LAST, NULL), BT_OK);
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, N - 1, 0, NULL, w.logits, BT_PREFILL_LAST, NULL),
                         BT_OK);
        const bt_decode_seq seq = {.kv = &kv, .pos = N - 1, .tokens = &w.ids[N - 1], .count = 1, .out = 1};
        assert_int_equal(bt_decode_step(d, &seq, 1, NULL, w.logits, NULL), BT_OK);
        assert_memory_equal(expected, w.logits, w.vocab * sizeof *expected);
        engine_kit_pages_free(&kv);
        bt_decode_free(d);
        bt_prefill_free(p);
        free(expected);
        end(&w);
    }
}

static bool lists_rope(const bt_pkg *pkg)
{
    const bt_pkg_fallback *f = bt_pkg_fallbacks(pkg);
    for (uint32_t i = 0; i < bt_pkg_header_of(pkg)->fallbacks.count; i++)
        if (!strcmp(f[i].op, "rope") && strstr(f[i].why, "cos and sin times 1.")) return true;
    return false;
}

/* Compiled packages have the scaled tables. Beside them the same package's distance on a plain model: scaling
 * costs no exactness. Tables of 16-bit integers end at 1, so a rope that lengthens is the companion's, and is
 * listed. */
static void packages_are_as_near_the_reference_as_without_scaling(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        uint32_t ops;
    } rows[] = {{"w8a16", BT_PKG_OPS_LINEAR}, {"w8a8", BT_PKG_OPS_LINEAR}, {"w8a16", BT_PKG_OPS_ALL}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        float plain = 0;
        for (int k = PLAIN; k < KINDS; k++) {
            world w = begin(&(ask){"llama", (kind)k});
            uint64_t hash[2];
            for (int i = 0; i < 2; i++) {
                bt_pkg *pkg = npu_kit_compiled(w.kit.model, rows[r].recipe, rows[r].ops,
                                               i ? "chunk:64" : "chunk:16", CTX);
                assert_int_equal(lists_rope(pkg), rows[r].ops == BT_PKG_OPS_ALL && k != PLAIN);
                run(w.logits, &w, "npu", pkg, NULL, &hash[i]);
                bt_pkg_close(pkg);
            }
            assert_true(hash[0] == hash[1]);
            const float far = off(w.logits, w.oracle, w.vocab);
            print_message("%s%s, kind %d: off by %.4f of the greatest logit\n", rows[r].recipe,
                          rows[r].ops ? " all" : "", k, (double)far);
            if (k == PLAIN) plain = far;
            assert_true(far <= 2 * plain);
            end(&w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_agrees_with_the_reference_and_chunks_change_no_bit),
        cmocka_unit_test(scaling_is_seen_in_the_answer),
        cmocka_unit_test(a_decode_step_has_the_bits_of_a_longer_prompt),
        cmocka_unit_test(packages_are_as_near_the_reference_as_without_scaling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
