/* Sizes and shares against tables that others can recompute; a pair against its parts. */
#include "device/roofline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const double gib = 1 << 30;

static void kv_of_grouped_heads_is_not_that_of_all_heads(void **state)
{
    (void)state;
    /* Llama-3.1-70B has 8 KV heads: 39.06 GiB at 128,000 tokens, 40.0 at 131,072; with 64 it would be 312.5
     */
    const bt_dims *s = bt_dims_find("llama-3.1-70b");
    const bt_dims own = bt_roofline_unshared(s);
    assert_int_equal(bt_dims_kv_bytes(s, 16) * 128000, (uint64_t)(39.0625 * gib));
    assert_int_equal(bt_dims_kv_bytes(s, 16) * 131072, (uint64_t)(40 * gib));
    assert_int_equal(bt_dims_kv_bytes(&own, 16) * 128000, (uint64_t)(312.5 * gib));
    /* Llama-2-70B at 4,096: 1.25 GiB, not 10 */
    assert_int_equal(bt_dims_kv_bytes(bt_dims_find("llama-2-70b"), 16) * 4096, (uint64_t)(1.25 * gib));
    /* at 128,000: 15.63 and 62.5 */
    assert_int_equal(bt_dims_kv_bytes(bt_dims_find("llama-3.1-8b"), 16) * 128000, (uint64_t)(15.625 * gib));
    assert_int_equal(bt_dims_kv_bytes(bt_dims_find("llama-2-7b"), 16) * 128000, (uint64_t)(62.5 * gib));
}

static void a_score_matrix_is_64_times_the_output(void **state)
{
    (void)state;
    /* 96 heads of 128 over 8,192 tokens: 12.0 GiB, 0.1875 GiB, 64 times; 0.75 GiB is Q, K, V and O together
     */
    const bt_roofline_flash f = bt_roofline_attention(bt_dims_find("gpt-3-175b"), 8192);
    assert_int_equal(f.score_bytes, (uint64_t)(12 * gib));
    assert_int_equal(f.output_bytes, (uint64_t)(0.1875 * gib));
    assert_int_equal(f.qkvo_bytes, (uint64_t)(0.75 * gib));
    assert_int_equal(f.score_bytes / f.output_bytes, 64);
}

static void the_feed_forward_block_is_most_of_a_short_prompt(void **state)
{
    (void)state;
    static const struct {
        uint64_t ctx;
        double qkv, output, ffn, attention;
    } want[] = {{2048, 23.9, 8.0, 64.2, 4.0}, {32768, 15.0, 5.0, 40.2, 39.9}};
    for (int i = 0; i < 2; i++) {
        const bt_roofline_share s = bt_roofline_shares(bt_dims_find("llama-2-7b"), want[i].ctx);
        const double sum = (double)(s.qkv + s.output + s.ffn + s.attention) / 100;
        const double is[] = {(double)s.qkv / sum, (double)s.output / sum, (double)s.ffn / sum,
                             (double)s.attention / sum},
                     be[] = {want[i].qkv, want[i].output, want[i].ffn, want[i].attention};
        for (int k = 0; k < 4; k++)
            if (is[k] < be[k] - 0.05 || is[k] > be[k] + 0.05) fail_msg("%d: %.3f, not %.1f", k, is[k], be[k]);
    }
}

static void shapes_have_the_weights_of_their_models(void **state)
{
    (void)state;
    /* parameters without embedding and norms, by other programs: billions */
    static const struct {
        const char *name;
        double body, head;
    } want[] = {
        {"llama-2-7b", 6.476, 0.131},   {"llama-3.1-8b", 6.979, 0.525}, {"qwen1.5-1.8b", 1.214, 0.311},
        {"gemma-2b", 1.982, 0.524},     {"phi-2", 2.517, 0.131},        {"llama-3.2-1b", 0.973, 0.263},
        {"qwen2-0.5b", 0.358, 0.136},   {"internlm3-8b", 7.751, 0.526}, {"chatglm2-6b", 5.711, 0.266},
        {"smollm2-135m", 0.106, 0.028}, {"gpt-j-6b", 5.637, 0.206}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const bt_dims *s = bt_dims_find(want[i].name);
        const double body = (double)bt_dims_body(s) / 1e9, head = (double)bt_dims_head(s) / 1e9;
        if (body < want[i].body - 0.001 || body > want[i].body + 0.001 || head < want[i].head - 0.001 ||
            head > want[i].head + 0.001)
            fail_msg("%s: %.4f %.4f", want[i].name, body, head);
    }
}

static void parts_of_a_prompt_are_all_of_a_layers_matrices(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-2-7b", "phi-2", "deepseek-v3", "gpt-oss-20b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const bt_dims *s = bt_dims_find(names[i]);
        const bt_roofline_share h = bt_roofline_shares(s, 1);
        assert_int_equal(h.qkv + h.output + h.ffn, bt_dims_body(s));
        assert_int_equal(h.ffn, (uint64_t)s->ffn_matrices * s->hidden * s->ffn * s->layers);
    }
}

static bt_profile profile(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name, f.text);
    return p;
}

static bt_roofline_pair pair(const char *prefill, const char *decode, uint64_t bits_per_us)
{
    static const uint32_t rows[] = {32, 64, 128, 256};
    const bt_price_recipe w8 = {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16},
                          f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
    const bt_dims *s = bt_dims_find("llama-2-7b");
    bt_roofline_pair p = {.prefill_profile = profile(prefill), .decode = profile(decode)};
    p.link.bits_per_us = bits_per_us;
    p.kv = bt_link_kv_of(s, bt_dims_kv_bytes(s, 16));
    p.prefill_model = p.decode_model = bt_price_model_of(s, &f16);
    if (!p.prefill_profile.companion)
        assert_int_equal(bt_price_of_dims(&p.prefill, &p.prefill_profile, s, &w8, rows, 4, NULL), BT_OK);
    return p;
}

static void the_first_token_of_a_pair_is_its_parts(void **state)
{
    (void)state;
    bt_roofline_pair p = pair("hexagon-v75", "adreno-750", 10000);
    const bt_roofline_first f = bt_roofline_first_token(&p, 1000);
    assert_int_equal(f.prefill_ns, bt_price_prompt(&p.prefill, 1000).ns);
    const bt_price_step whole = bt_price_prefill_step(0, 1000, 0);
    assert_int_equal(f.alone_ns, bt_price_step_of(&p.decode, &p.decode_model, &whole).ns);
    /* 512 MiB in 4.3 s over 1 Gbit/s are longer than prefill takes: what is left shows */
    p = pair("hexagon-v75", "adreno-750", 1000);
    const bt_roofline_first slow = bt_roofline_first_token(&p, 1024);
    assert_int_equal(slow.prefill_ns, bt_price_prompt(&p.prefill, 1024).ns);
    assert_true(slow.exposed_ns > 1000000000 && slow.exposed_ns < 4294967296 - 1000000000);
}

static void a_pair_pays_from_the_length_that_is_told_and_not_before(void **state)
{
    (void)state;
    const bt_roofline_pair p = pair("hexagon-v75", "adreno-750", 10000);
    const uint64_t from = bt_roofline_pays_from(&p, 16, 16384);
    assert_in_range(from, 32, 4096);
    const bt_roofline_first at = bt_roofline_first_token(&p, from),
                            before = bt_roofline_first_token(&p, from - 16);
    assert_true(at.prefill_ns + at.exposed_ns <= at.alone_ns);
    assert_true(before.prefill_ns + before.exposed_ns > before.alone_ns);
    /* a phone's NPU never pays beside an H100 */
    const bt_roofline_pair never = pair("hexagon-v75", "h100", 10000);
    assert_int_equal(bt_roofline_pays_from(&never, 64, 16384), 0);
    /* an H100 beside a 4090 does, and later over a slower link */
    const bt_roofline_pair fast = pair("h100", "rtx-4090", 100000), slow = pair("h100", "rtx-4090", 25000);
    const uint64_t a = bt_roofline_pays_from(&fast, 16, 16384), b = bt_roofline_pays_from(&slow, 16, 16384);
    assert_true(a && (!b || b > a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_of_grouped_heads_is_not_that_of_all_heads),
        cmocka_unit_test(a_score_matrix_is_64_times_the_output),
        cmocka_unit_test(the_feed_forward_block_is_most_of_a_short_prompt),
        cmocka_unit_test(shapes_have_the_weights_of_their_models),
        cmocka_unit_test(parts_of_a_prompt_are_all_of_a_layers_matrices),
        cmocka_unit_test(the_first_token_of_a_pair_is_its_parts),
        cmocka_unit_test(a_pair_pays_from_the_length_that_is_told_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
