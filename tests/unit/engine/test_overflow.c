/* Numbers that leave their range: the prompt, or the sequence of a step, ends with the place in words;
 * nothing of it is told as final, and the others go on with the bits that they have alone. */
#include "engine/decode.h"
#include "engine/overflow.h"
#include "engine/prefill.h"
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

/* HOT is none of the ids that npu_kit_compiled calibrates with: the compiler refuses what overflows there. */
enum { CTX = 256, N = 40, AT = 17, HOT = 113, VOCAB = 384 };

/* K of layer 0 is 160,000 for the hot token, give or take its rotation; or its embedding is NaN. */
static engine_kit model_of(float embed, float k, void (*extra)(tiny_gguf *, void *), const char *omit)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.hot_token = HOT, s.hot_embed = embed, s.hot_k = k;
    s.extra = extra, s.omit = omit;
    return engine_kit_of(&s);
}

static engine_kit large_keys(void) { return model_of(1000, 20000, NULL, NULL); }

static void draw(int32_t *ids, size_t n, const bt_model *m, uint32_t seed)
{
    engine_kit_ids(ids, n, m, seed);
    for (size_t i = 0; i < n; i++) ids[i] += ids[i] == HOT;
}

static bt_prefill *ordered_engine_of(const bt_model *m, const char *name, const bt_pkg *pkg,
                                     const char *policy, uint32_t elem_bytes, bt_schedule_policy schedule)
{
    const bt_prefill_config c = {.engine = name,      .pkg = pkg,        .want.shape_policy = policy,
                                 .threads = 2,        .ctx_tokens = CTX, .kv_elem_bytes = elem_bytes,
                                 .schedule = schedule};
    bt_prefill *p = NULL;
    bt_fault f;
    if (bt_prefill_new(&p, m, &c, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static bt_prefill *engine_of(const bt_model *m, const char *name, const bt_pkg *pkg, const char *policy,
                             uint32_t elem_bytes)
{
    return ordered_engine_of(m, name, pkg, policy, elem_bytes, BT_SCHEDULE_SERIAL);
}

static void on_kv(void *ud, uint32_t layer, size_t begin, size_t count)
{
    size_t *end = ud;
    if (begin + count > end[layer]) end[layer] = begin + count;
}

/* `words`: what the error must say. told: rows of layer 0 that were told as final. */
static void check_prefill(bt_prefill *p, const bt_model *m, const char *words, size_t told)
{
    int32_t ids[N];
    float logits[VOCAB];
    size_t end[2] = {0};
    bt_fault f = {""};
    const bt_prefill_hooks hooks = {.on_kv = on_kv, .ud = end};
    bt_kv_view kv = engine_kit_pages(m, CTX, 16, bt_prefill_kv_elem_bytes(p));
    draw(ids, N, m, 3);
    assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, &hooks, logits, BT_PREFILL_LAST, &f), BT_OK);
    assert_int_equal(end[0], N);
    memset(end, 0, sizeof end);
    ids[AT] = HOT;
    const bt_err e = bt_prefill_run(p, &kv, ids, N, 0, &hooks, logits, BT_PREFILL_LAST, &f);
    assert_int_equal(e, words ? BT_ERANGE : BT_OK);
    if (words && !strstr(f.text, words)) fail_msg("%s", f.text);
    assert_int_equal(end[0], told);
    assert_true(end[1] <= AT || !words);
    engine_kit_pages_free(&kv);
}

static const char beyond[] = "layer 0, token 17: K is beyond what f16 KV holds (65,504)";

static void a_prompt_with_such_a_key_ends_with_its_place_however_it_is_cut(void **state)
{
    static const struct {
        const char *policy;
        size_t told; /* the chunks before */
    } cut[] = {{"chunk:16", 16}, {"chunk:64", 0}, {"pow2", 0}};
    (void)state;
    engine_kit kit = large_keys();
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        bt_prefill *p = engine_of(kit.model, "host", NULL, cut[i].policy, 2);
        check_prefill(p, kit.model, beyond, cut[i].told);
        bt_prefill_free(p);
        bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, cut[i].policy, CTX);
        for (int schedule = BT_SCHEDULE_SERIAL; schedule <= BT_SCHEDULE_OOO; schedule++) {
            p = ordered_engine_of(kit.model, "npu", pkg, NULL, 2, (bt_schedule_policy)schedule);
            check_prefill(p, kit.model, beyond, cut[i].told);
            bt_prefill_free(p);
        }
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
}

/* So it does where rows of the prompt attend to a few positions. The
 * estimate of scores, in 8 bits, hides nothing: rows are looked at before. */
static void with_sparse_attention_it_ends_so_too(void **state)
{
    (void)state;
    engine_kit kit = large_keys(), none = model_of(NAN, 1, NULL, NULL);
    bt_pkg *pkg = npu_kit_sparse(kit.model, "sparse:0.3,dense=0", "chunk:16", CTX);
    bt_prefill *p = engine_of(kit.model, "npu", pkg, NULL, 2);
    check_prefill(p, kit.model, beyond, 16);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    pkg = npu_kit_sparse(none.model, "sparse:0.3,dense=0", "chunk:64", CTX);
    p = engine_of(none.model, "npu", pkg, NULL, 2);
    check_prefill(p, none.model, "token 17: ", 0);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
    engine_kit_done(&none);
}

/* With an order of chunks, two threads note places of one prompt, and a later chunk may come first. */
static void of_several_places_the_first_is_told_whichever_was_found_first(void **state)
{
    (void)state;
    engine_kit kit = large_keys();
    bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, "chunk:16", CTX);
    int32_t ids[160];
    float logits[VOCAB];
    draw(ids, 160, kit.model, 4);
    for (size_t at = AT; at < 160; at += 13) ids[at] = HOT;
    for (int schedule = BT_SCHEDULE_SERIAL; schedule <= BT_SCHEDULE_OOO; schedule++) {
        bt_prefill *p = ordered_engine_of(kit.model, "npu", pkg, NULL, 2, (bt_schedule_policy)schedule);
        for (int i = 0; i < 8; i++) {
            size_t end[2] = {0};
            bt_fault f = {""};
            const bt_prefill_hooks hooks = {.on_kv = on_kv, .ud = end};
            bt_kv_view kv = engine_kit_pages(kit.model, CTX, 16, 2);
            assert_int_equal(bt_prefill_run(p, &kv, ids, 160, 0, &hooks, logits, BT_PREFILL_LAST, &f),
                             BT_ERANGE);
            if (!strstr(f.text, beyond)) fail_msg("%s", f.text);
            assert_int_equal(end[0], 16);
            assert_true(end[1] <= 16);
            engine_kit_pages_free(&kv);
        }
        bt_prefill_free(p);
    }
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void kv_that_holds_such_keys_goes_on(void **state)
{
    (void)state;
    engine_kit kit = large_keys();
    bt_prefill *p = engine_of(kit.model, "host", NULL, "chunk:16", 1);
    check_prefill(p, kit.model, NULL, N);
    bt_prefill_free(p);
    p = engine_of(kit.model, "reference", NULL, NULL, 4);
    check_prefill(p, kit.model, NULL, N);
    bt_prefill_free(p);
    engine_kit_done(&kit);
}

/* Integers would hide it: it is seen where they are made. */
static void what_is_no_number_is_found_by_every_engine(void **state)
{
    static const char *const recipes[] = {"w8a8", "w8a8:shadow=off", "w8a16", "w8a8:shadow=channel"};
    (void)state;
    engine_kit plain = model_of(0, 1, NULL, NULL), kit = model_of(NAN, 1, NULL, NULL);
    bt_prefill *p = engine_of(kit.model, "reference", NULL, NULL, 4);
    check_prefill(p, kit.model, "layer 0, token 17: K is not finite", 0);
    bt_prefill_free(p);
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++) {
        p = engine_of(kit.model, "host", NULL, "chunk:64", elem_bytes);
        check_prefill(p, kit.model, "layer 0, token 17: K is beyond", 0);
        bt_prefill_free(p);
    }
    for (size_t i = 0; i < 2 * sizeof recipes / sizeof *recipes; i++) {
        bt_pkg *pkg = npu_kit_compiled(kit.model, recipes[i / 2], i % 2 ? BT_PKG_OPS_ALL : BT_PKG_OPS_LINEAR,
                                       "chunk:64", CTX);
        p = engine_of(kit.model, "npu", pkg, NULL, 2);
        check_prefill(p, kit.model, "token 17: ", 0);
        bt_prefill_free(p);
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
    engine_kit_done(&plain);
}

static void huge_norm(tiny_gguf *w, void *ud)
{
    float v[64];
    (void)ud;
    for (size_t i = 0; i < 64; i++) v[i] = 3e38f;
    tiny_gguf_tensor(w, "output_norm.weight", 0, (uint64_t[]){64}, 1, v, sizeof v);
}

static void logits_that_are_not_finite_are_an_error_too(void **state)
{
    static const char *const engines[] = {"host", "reference"};
    (void)state;
    engine_kit kit = model_of(1, 1, huge_norm, "output_norm.weight");
    for (size_t i = 0; i < 2; i++) {
        bt_prefill *p = engine_of(kit.model, engines[i], NULL, NULL, 0);
        int32_t ids[N];
        float logits[N * VOCAB];
        bt_fault f = {""};
        bt_kv_view kv = engine_kit_pages(kit.model, CTX, 16, bt_prefill_kv_elem_bytes(p));
        draw(ids, N, kit.model, 3);
        assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_LAST, &f), BT_ERANGE);
        assert_non_null(strstr(f.text, "token 39: logits are not finite"));
        assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_ALL, &f), BT_ERANGE);
        assert_non_null(strstr(f.text, "token 0: logits are not finite"));
        engine_kit_pages_free(&kv);
        bt_prefill_free(p);
    }
    engine_kit_done(&kit);
}

/* ---- steps ---- */

enum { SEQS = 3 };

static void check_step(bt_decode *d, bt_prefill *p, const bt_model *m)
{
    static float logits[SEQS * 2 * VOCAB], alone[2 * VOCAB];
    bt_kv_view kv[SEQS], solo = engine_kit_pages(m, CTX, 16, 2);
    int32_t ids[SEQS][N];
    bt_decode_seq seq[SEQS];
    bt_overflow overflow[SEQS] = {0};
    bt_overflow_place at;
    bt_fault f;
    for (size_t s = 0; s < SEQS; s++) {
        kv[s] = engine_kit_pages(m, CTX, 16, 2);
        draw(ids[s], N, m, 10 + (uint32_t)s);
        assert_int_equal(bt_prefill_run(p, &kv[s], ids[s], 20, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                         BT_OK);
        seq[s] = (bt_decode_seq){.kv = &kv[s], .pos = 20, .tokens = ids[s] + 20,
                                 .count = 2,   .out = 2,  .overflow = &overflow[s]};
    }
    ids[1][21] = HOT; /* its second row: the first is good */
    assert_int_equal(bt_decode_step(d, seq, SEQS, NULL, logits, NULL), BT_OK);
    for (size_t s = 0; s < SEQS; s++) {
        assert_int_equal(bt_overflow_get(&at, &overflow[s]), s == 1);
        const bt_decode_seq one = {.kv = &solo, .pos = 20, .tokens = ids[s] + 20,
                                   .count = 2,  .out = 2,  .overflow = &overflow[s]};
        assert_int_equal(bt_prefill_run(p, &solo, ids[s], 20, 0, NULL, alone, BT_PREFILL_LAST, NULL), BT_OK);
        assert_int_equal(bt_decode_step(d, &one, 1, NULL, alone, NULL), BT_OK);
        assert_memory_equal(logits + s * 2 * VOCAB, alone, (s == 1 ? 1 : 2) * VOCAB * sizeof *alone);
        if (s != 1) assert_true(engine_kit_hash(&kv[s], 22) == engine_kit_hash(&solo, 22));
        else assert_true(engine_kit_hash(&kv[s], 21) == engine_kit_hash(&solo, 21));
    }
    assert_true(bt_overflow_get(&at, &overflow[1]));
    assert_int_equal(at.pos, 21);
    assert_int_equal(at.layer, 0);
    assert_int_equal(at.what, BT_OVERFLOW_K);
    seq[1].overflow = NULL;
    assert_int_equal(bt_decode_step(d, seq, SEQS, NULL, logits, &f), BT_ERANGE);
    assert_non_null(strstr(f.text, "layer 0, token 21: K is beyond what f16 KV holds (65,504)"));
    for (size_t s = 0; s < SEQS; s++) engine_kit_pages_free(&kv[s]);
    engine_kit_pages_free(&solo);
}

static void the_others_of_a_step_have_the_bits_that_they_have_alone(void **state)
{
    (void)state;
    engine_kit kit = large_keys();
    bt_decode *d = NULL;
    bt_prefill *p = engine_of(kit.model, "host", NULL, NULL, 2);
    assert_int_equal(
        bt_decode_new(&d, kit.model, &(bt_decode_config){.rows_max = 8, .ctx_tokens = CTX}, NULL), BT_OK);
    check_step(d, p, kit.model);
    bt_decode_free(d);
    bt_prefill_free(p);
#define ROW(batch, seq) "{\"batch_size\":" #batch ",\"seq_len\":" #seq ",\"ctx_len\":256}"
    bt_pkg *pkg =
        npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR,
                         "[" ROW(1, 16) "," ROW(1, 64) "," ROW(1, 1) "," ROW(4, 1) "," ROW(4, 64) "]", CTX);
    p = engine_of(kit.model, "npu", pkg, NULL, 2);
    assert_int_equal(bt_decode_new(&d, kit.model,
                                   &(bt_decode_config){.engine = "npu", .pkg = pkg, .rows_max = 8,
                                                       .ctx_tokens = CTX},
                                   NULL),
                     BT_OK);
    check_step(d, p, kit.model);
    bt_decode_free(d);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void the_other_prompts_of_a_run_have_the_bytes_that_they_have_alone(void **state)
{
    (void)state;
    engine_kit kit = large_keys();
    bt_pkg *pkg =
        npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, "[" ROW(1, 16) "," ROW(4, 16) "]", CTX);
    bt_prefill *p = engine_of(kit.model, "npu", pkg, NULL, 2);
    bt_kv_view kv[4], solo = engine_kit_pages(kit.model, CTX, 16, 2);
    int32_t ids[4][N];
    static float logits[4][VOCAB], alone[VOCAB];
    size_t end[4][2] = {{0}};
    bt_prefill_hooks hooks[4];
    bt_prefill_seq seq[4];
    for (size_t s = 0; s < 4; s++) {
        kv[s] = engine_kit_pages(kit.model, CTX, 16, 2);
        draw(ids[s], N, kit.model, 20 + (uint32_t)s);
        hooks[s] = (bt_prefill_hooks){.on_kv = on_kv, .ud = end[s]};
        seq[s] =
            (bt_prefill_seq){.kv = &kv[s], .ids = ids[s], .n = N, .hooks = &hooks[s], .logits = logits[s]};
    }
    ids[2][AT] = HOT;
    bt_prefill_run_batch(p, seq, 4);
    for (size_t s = 0; s < 4; s++) {
        assert_int_equal(seq[s].result, s == 2 ? BT_ERANGE : BT_OK);
        assert_int_equal(end[s][0], s == 2 ? 16 : N);
        if (s == 2) continue;
        assert_int_equal(bt_prefill_run(p, &solo, ids[s], N, 0, NULL, alone, BT_PREFILL_LAST, NULL), BT_OK);
        assert_memory_equal(logits[s], alone, sizeof alone);
        assert_true(engine_kit_hash(&kv[s], N) == engine_kit_hash(&solo, N));
    }
    assert_non_null(strstr(seq[2].fault.text, beyond));
    for (size_t s = 0; s < 4; s++) engine_kit_pages_free(&kv[s]);
    engine_kit_pages_free(&solo);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_with_such_a_key_ends_with_its_place_however_it_is_cut),
        cmocka_unit_test(with_sparse_attention_it_ends_so_too),
        cmocka_unit_test(of_several_places_the_first_is_told_whichever_was_found_first),
        cmocka_unit_test(kv_that_holds_such_keys_goes_on),
        cmocka_unit_test(what_is_no_number_is_found_by_every_engine),
        cmocka_unit_test(logits_that_are_not_finite_are_an_error_too),
        cmocka_unit_test(the_others_of_a_step_have_the_bits_that_they_have_alone),
        cmocka_unit_test(the_other_prompts_of_a_run_have_the_bytes_that_they_have_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
