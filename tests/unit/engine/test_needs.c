/* The memory that processes need: sums by hand, files that are shared, what a machine with little memory is
 * told, and what is told beside what was taken. */
#include "engine/needs.h"
#include "base/memory.h"
#include "engine/decode.h"
#include "engine/mixed.h"
#include "tests/helpers/model/engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static bt_obtain_want package; /* the defaults */

static bt_needs_want want(const char *prefill, const char *decode)
{
    return (bt_needs_want){.prefill = prefill, .decode = decode, .want = &package, .rows = 4, .threads = 2};
}

static bt_needs needs(const bt_model *m, const bt_needs_want *w)
{
    bt_fault f = {""};
    bt_needs n;
    if (bt_needs_of(&n, m, w, &f) < 0) fail_msg("%s", f.text);
    return n;
}

static void kv_is_that_of_the_longest_sequence_in_each_form(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_hparams *h = &kit.model->hp;
    bt_needs_want w = want(NULL, "host");
    w.ctx_tokens = 100;
    const uint64_t elems = 2ull * h->layers * h->kv_heads;
    assert_int_equal(needs(kit.model, &w).part[BT_NEEDS_KV], 100 * elems * 2 * h->head_dim);
    w.kv_elem_bytes = 1;
    assert_int_equal(needs(kit.model, &w).part[BT_NEEDS_KV], 100 * elems * (h->head_dim + 2));
    w = want("reference", "reference");
    w.ctx_tokens = 100;
    assert_int_equal(needs(kit.model, &w).part[BT_NEEDS_KV], 100 * elems * 4 * h->head_dim);
    w = want(NULL, "host");
    w.kv_memory_bytes = 64 * elems * 2 * h->head_dim; /* whole pages, as nodes cut it */
    assert_int_equal(needs(kit.model, &w).ctx_tokens, 64);
    engine_kit_done(&kit);
}

static void weights_are_the_bytes_that_the_engine_has(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("qwen2");
    for (int form = 0; form < 3; form++) {
        bt_needs_want w = want(NULL, "host");
        bt_decode *engine = NULL;
        uint64_t step = 0;
        w.weights = (bt_form)form;
        const bt_needs n = needs(kit.model, &w);
        const bt_decode_config c = {.weights = bt_weights_forms[form], .rows_max = 4};
        assert_int_equal(bt_decode_new(&engine, kit.model, &c, NULL), BT_OK);
        assert_int_equal(bt_weights_bytes_of_step(&step, kit.model, (bt_form)form, NULL), BT_OK);
        assert_int_equal(step, bt_decode_stats_of(engine).weight_bytes);
        assert_true(n.part[BT_NEEDS_WEIGHTS] >= step && n.part[BT_NEEDS_WEIGHTS] < step + step / 2);
        bt_decode_free(engine);
    }
    engine_kit_done(&kit);
}

static void processes_share_what_is_mapped_and_nothing_else(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_needs_want w[] = {want(NULL, NULL), want("npu", NULL), want(NULL, "host"), want("npu", "host")};
    bt_needs n[4];
    for (int i = 0; i < 4; i++) n[i] = needs(kit.model, &w[i]);
    assert_int_equal(n[0].part[BT_NEEDS_KV] + n[0].part[BT_NEEDS_WEIGHTS] + n[0].part[BT_NEEDS_PACKAGE], 0);
    assert_true(n[1].part[BT_NEEDS_PACKAGE] > 0 && n[1].part[BT_NEEDS_WEIGHTS] == 0);
    assert_true(n[2].part[BT_NEEDS_PACKAGE] == 0 && n[2].part[BT_NEEDS_WEIGHTS] > 0);
    const uint64_t apart =
        bt_needs_sum(&n[0]) + bt_needs_sum(&n[1]) + bt_needs_sum(&n[2]) + bt_needs_sum(&n[3]);
    assert_int_equal(bt_needs_all(n, 4), apart - n[1].part[BT_NEEDS_PACKAGE] - n[2].part[BT_NEEDS_WEIGHTS]);
    engine_kit_done(&kit);
}

static void more_sequences_take_their_kv_and_kept_logits_their_rows(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_needs_want one = want(NULL, "host");
    bt_needs_want more = one;
    more.sequences = 5;
    more.logits_rows = 7;
    const bt_needs a = needs(kit.model, &one), b = needs(kit.model, &more);
    assert_int_equal(b.part[BT_NEEDS_KV], 5 * a.part[BT_NEEDS_KV]);
    assert_int_equal(b.part[BT_NEEDS_WORK] - a.part[BT_NEEDS_WORK], 7 * 4 * kit.model->hp.vocab);
    engine_kit_done(&kit);
}

static void only_one_engine_for_prompts_and_answers_holds_logits_of_pieces(void **state)
{
    (void)state;
    assert_int_equal(bt_mixed_logits("npu", "npu", BT_FORM_INT8), BT_MIXED_PIECES);
    assert_int_equal(bt_mixed_logits("host", "host", BT_FORM_F16), BT_MIXED_PIECES);
    assert_int_equal(bt_mixed_logits("host", "host", BT_FORM_INT8), 0);
    assert_int_equal(bt_mixed_logits("npu", "host", BT_FORM_F16), 0);
    assert_int_equal(bt_mixed_logits(NULL, "npu", BT_FORM_F16), 0);
    assert_int_equal(bt_mixed_logits(NULL, NULL, BT_FORM_F16), 0);
}

static void a_long_context_is_told_that_kv_of_int8_would_fit(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_fault f = {""};
    bt_needs_want w = want("npu", NULL), small = w;
    small.kv_elem_bytes = 1;
    bt_needs n = needs(kit.model, &small);
    assert_int_equal(bt_needs_check(kit.model, &w, 1, bt_needs_sum(&n), &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, " free; --kv-dtype int8 needs "));
    w.kv_elem_bytes = 1; /* which it is already */
    assert_int_equal(bt_needs_check(kit.model, &w, 1, bt_needs_sum(&n) - 1, &f), BT_ELIMIT);
    assert_null(strstr(f.text, "int8"));
    engine_kit_done(&kit);
}

static void sparse_attention_needs_its_keys_and_each_thread_its_scores(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    uint64_t grows[2];
    s.ctx = 65536;
    engine_kit kit = engine_kit_of(&s);
    for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
        bt_obtain_want how = {.attention = is_sparse ? "sparse:0.2" : NULL};
        bt_needs_want w = want("npu", NULL);
        w.want = &how;
        w.ctx_tokens = 65536;
        grows[is_sparse] = needs(kit.model, &w).part[BT_NEEDS_WORK];
        w.ctx_tokens = 32768;
        grows[is_sparse] -= needs(kit.model, &w).part[BT_NEEDS_WORK];
    }
    /* of 32768 positions more: 2 kv heads of 16; 48 choices */
    const uint64_t keys = 2 * 32768 * 16, scores = 48 * 32768 * sizeof(int32_t);
    assert_in_range(grows[1] - grows[0], keys + 2 * scores, keys + 2 * scores * 5 / 4);
    engine_kit_done(&kit);
}

static void a_machine_with_too_little_is_told_what_would_fit(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_fault f = {""};
    char text[BT_NEEDS_TEXT_BYTES];
    const bt_needs_want w[] = {want("npu", NULL), want(NULL, "host")};
    bt_needs_want other = w[1];
    bt_needs n[2] = {needs(kit.model, &w[0]), needs(kit.model, &w[1])};
    const uint64_t all = bt_needs_all(n, 2);
    assert_int_equal(bt_needs_check(kit.model, w, 2, all, &f), BT_OK);
    assert_int_equal(bt_needs_check(kit.model, w, 2, 0, &f), BT_OK); /* nobody knows */
    assert_int_equal(bt_needs_check(kit.model, w, 2, all - 1, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "; --weights int8 needs "));
    other.weights = BT_FORM_INT8;
    n[1] = needs(kit.model, &other);
    assert_int_equal(bt_needs_check(kit.model, w, 2, bt_needs_all(n, 2) - 1, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "; --weights fp4 needs "));
    other.weights = BT_FORM_FP4;
    n[1] = needs(kit.model, &other);
    assert_int_equal(bt_needs_check(kit.model, w, 2, bt_needs_all(n, 2) - 1, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "--kv-dtype int8 needs "));
    bt_needs_want small[] = {w[0], other};
    small[0].kv_elem_bytes = small[1].kv_elem_bytes = 1;
    for (int i = 0; i < 2; i++) n[i] = needs(kit.model, &small[i]);
    assert_int_equal(bt_needs_check(kit.model, w, 2, bt_needs_all(n, 2) - 1, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "--ctx-size "));
    assert_int_equal(bt_needs_check(kit.model, w, 2, 1 << 20, &f), BT_ELIMIT);
    assert_non_null(
        strstr(f.text, "1.0 MiB free; no other --weights, --kv-dtype or --ctx-size fits, the least needs "));
    bt_memory_set_free(1 << 20);
    const bt_err e = bt_needs_begin(text, kit.model, &w[1], 1, &f);
    bt_memory_set_free(0);
    assert_int_equal(e, BT_ELIMIT);
    assert_int_equal(bt_needs_begin(text, kit.model, &w[1], 1, &f), BT_OK);
    assert_non_null(strstr(text, "needs "));
    assert_non_null(strstr(text, " free"));
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_is_that_of_the_longest_sequence_in_each_form),
        cmocka_unit_test(weights_are_the_bytes_that_the_engine_has),
        cmocka_unit_test(processes_share_what_is_mapped_and_nothing_else),
        cmocka_unit_test(more_sequences_take_their_kv_and_kept_logits_their_rows),
        cmocka_unit_test(only_one_engine_for_prompts_and_answers_holds_logits_of_pieces),
        cmocka_unit_test(a_long_context_is_told_that_kv_of_int8_would_fit),
        cmocka_unit_test(sparse_attention_needs_its_keys_and_each_thread_its_scores),
        cmocka_unit_test(a_machine_with_too_little_is_told_what_would_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
