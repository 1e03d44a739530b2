/* Known shapes against the numbers of weights that their models are published with, and what prices leave
 * out. */
#include "device/dims.h"
#include "device/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void near(const char *name, const char *what, double is, double be)
{
    if (is < be * 0.98 || is > be * 1.02) fail_msg("%s: %s %.3f, not %.3f", name, what, is, be);
}

/* Billions, as model cards and papers have them; of a row: those that compute one, the embedding table apart.
 * 0: not published. Models that see images: their text part. */
static void every_family_has_the_weights_that_it_is_published_with(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double all, of_row;
    } want[] = {{"llama-2-13b", 13.0, 0},
                {"llama-3-8b", 8.03, 0},
                {"llama-3-70b", 70.6, 0},
                {"llama-3.1-405b", 405.9, 0},
                {"llama-3.2-1b", 1.24, 0},
                {"llama-3.2-3b", 3.21, 0},
                {"llama-3.2-11b", 9.78, 0},
                {"llama-3.2-90b", 87.7, 0},
                {"llama-3.3-70b", 70.6, 0},
                {"qwen2.5-0.5b", 0.49, 0},
                {"qwen2.5-1.5b", 1.54, 1.54},
                {"qwen2.5-3b", 3.09, 0},
                {"qwen2.5-7b", 7.61, 7.07},
                {"qwen2.5-14b", 14.7, 0},
                {"qwen2.5-32b", 32.5, 0},
                {"qwen2.5-72b", 72.7, 0},
                {"qwen3-0.6b", 0.6, 0},
                {"qwen3-1.7b", 1.72, 0},
                {"qwen3-4b", 4.0, 0},
                {"qwen3-8b", 8.2, 0},
                {"qwen3-14b", 14.8, 0},
                {"qwen3-32b", 32.8, 0},
                {"qwen3-30b-a3b", 30.5, 3.03},
                {"qwen3-235b-a22b", 235, 21.5},
                {"mixtral-8x7b", 46.7, 12.8},
                {"mixtral-8x22b", 141, 39},
                {"deepseek-v3", 671, 36.6},
                {"gpt-oss-20b", 20.9, 3.61},
                {"gpt-oss-120b", 116.8, 5.13},
                {"gemma-2-2b", 2.61, 0},
                {"gemma-2-9b", 9.24, 0},
                {"gemma-2-27b", 27.2, 0},
                {"gemma-3-270m", 0.268, 0},
                {"gemma-3-1b", 1.0, 0},
                {"gemma-3-4b", 3.88, 0},
                {"gemma-3-12b", 11.77, 0},
                {"gemma-3-27b", 27.0, 0},
                {"phi-3.5-mini", 3.82, 0},
                {"phi-3.5-moe", 41.9, 6.6},
                {"phi-4", 14.7, 0},
                {"phi-4-mini", 3.84, 0},
                {"mistral-7b", 7.24, 0},
                {"mistral-7b-v0.3", 7.25, 0},
                {"mistral-nemo-12b", 12.2, 0},
                {"mistral-small-22b", 22.2, 0},
                {"mistral-small-24b", 23.6, 0},
                {"mistral-large-123b", 122.6, 0},
                {"ministral-8b", 8.02, 0},
                {"opt-125m", 0.125, 0},
                {"opt-1.3b", 1.32, 0},
                {"opt-2.7b", 2.65, 0},
                {"opt-6.7b", 6.66, 0},
                {"opt-13b", 12.85, 0},
                {"opt-30b", 29.97, 0},
                {"opt-66b", 65.7, 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const bt_dims *s = bt_dims_find(want[i].name);
        if (!s) fail_msg("no shape %s", want[i].name);
        near(s->name, "all", (double)bt_dims_weights(s) / 1e9, want[i].all);
        if (want[i].of_row > 0)
            near(s->name, "a row's", (double)(bt_dims_body(s) + bt_dims_head(s)) / 1e9, want[i].of_row);
    }
}

static void every_known_shape_says_where_it_is_from_and_no_name_is_there_twice(void **state)
{
    (void)state;
    for (size_t i = 0; bt_dims_at(i); i++) {
        const bt_dims *s = bt_dims_at(i);
        const char *source = bt_dims_source(s->name);
        const bool is_config = !strncmp(source, "config.json of ", strlen("config.json of "));
        assert_ptr_equal(bt_dims_find(s->name), s);
        if (is_config != (strcmp(s->name, "gpt-3-175b") != 0)) fail_msg("%s: %s", s->name, source);
        if (is_config && !strchr(source, '/')) fail_msg("%s: %s", s->name, source);
        if (!s->latent_rank && s->heads % s->kv_heads) fail_msg("%s: KV heads", s->name);
        if (s->windowed > s->layers || s->expert_layers > s->layers) fail_msg("%s: layers", s->name);
    }
    assert_null(bt_dims_source("no-such-model"));
}

static void ignores(const char *name, const char *field, const char *bound)
{
    bt_dims_ignored all[BT_DIMS_IGNORED];
    const size_t n = bt_dims_ignored_of(all, bt_dims_find(name));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].field, field)) {
            assert_string_equal(all[i].bound, bound);
            return;
        }
    fail_msg("%s does not name %s", name, field);
}

static void what_a_price_leaves_out_is_named_by_its_field(void **state)
{
    (void)state;
    bt_dims_ignored all[BT_DIMS_IGNORED];
    ignores("mixtral-8x7b", "num_local_experts", "upper");
    ignores("qwen3-235b-a22b", "num_experts", "upper");
    ignores("gpt-oss-120b", "num_local_experts", "upper");
    ignores("deepseek-v3", "n_routed_experts", "upper");
    ignores("deepseek-v3", "kv_lora_rank", "none");
    ignores("llama-3.2-90b", "cross_attention_layers", "upper");
    ignores("opt-350m", "word_embed_proj_dim", "upper");
    assert_int_equal(bt_dims_ignored_of(all, bt_dims_find("gpt-oss-20b")), 1);
    assert_string_equal(all[0].effect,
                        "each row of a step reads 4 other experts a layer, until all 32 are read");
    static const char *const plain[] = {"llama-3.1-8b", "qwen2.5-72b",     "qwen3-32b",    "phi-4",
                                        "opt-66b",      "mistral-7b-v0.3", "phi-3.5-mini", "mistral-7b",
                                        "gemma-2-9b",   "gemma-3-27b"}; /* windows are priced */
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_int_equal(bt_dims_ignored_of(all, bt_dims_find(plain[i])), 0);
}

static void window_layers_hold_their_window(void **state)
{
    (void)state;
    const bt_dims *gemma = bt_dims_find("gemma-3-270m"), *llama = bt_dims_find("llama-3.2-1b");
    /* 3 of 18 layers see all, 15 see 512; a head of 256, twice, of 2 bytes */
    assert_int_equal(bt_dims_kv_held(gemma, bt_dims_kv_bytes(gemma, 16), 500, 0),
                     bt_dims_kv_bytes(gemma, 16) * 500);
    assert_int_equal(bt_dims_kv_held(gemma, 18 * 1024, 4096, 0), (3 * 4096 + 15 * 512) * 1024);
    /* pages of 64, two of which lie across the ends */
    assert_int_equal(bt_dims_kv_held(gemma, 18 * 1024, 4096, 64), (3 * 4096 + 15 * 640) * 1024);
    assert_int_equal(bt_dims_kv_held(gemma, 18 * 1024, 600, 64), 18 * 600 * 1024);
    assert_int_equal(bt_dims_kv_held(llama, bt_dims_kv_bytes(llama, 8), 4096, 64),
                     bt_dims_kv_bytes(llama, 8) * 4096);
}

static void a_latent_has_the_kv_of_its_elements_and_not_of_its_heads(void **state)
{
    (void)state;
    const bt_dims *s = bt_dims_find("deepseek-v3");
    bt_dims_matrix m[BT_DIMS_MATRICES];
    /* 512 and 64 elements of 2 bytes a layer: 70,272 bytes a position, where 128 heads would have 3,997,696
     */
    assert_int_equal(bt_dims_kv_bytes(s, 16), 61 * 576 * 2);
    assert_int_equal(bt_dims_matrices(m, s), 8);
    assert_int_equal(m[1].outputs, 128 * (128 + 64));
    assert_true(m[4].is_row_split && m[4].inputs == 128 * 128);
}

static void memory_holds_every_expert_and_a_step_reads_those_of_a_row(void **state)
{
    (void)state;
    const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
    const bt_dims *s = bt_dims_find("qwen3-235b-a22b");
    const bt_price_model m = bt_price_model_of(s, &f16);
    bt_profile p = {.name = "board", .memory_bytes = m.weight_bytes + m.idle_bytes};
    near("a step", "reads", (double)m.weight_bytes / 1e9, 43);
    near("memory", "holds", (double)p.memory_bytes / 1e9, 469);
    assert_int_equal(bt_price_check_memory(&p, &m, s->name, NULL), BT_OK);
    p.memory_bytes--;
    assert_int_equal(bt_price_check_memory(&p, &m, s->name, NULL), BT_ELIMIT);
    assert_int_equal(bt_price_model_of(bt_dims_find("llama-3.1-8b"), &f16).idle_bytes, 0);
}

static void windows_stand_in_the_pattern_that_nodes_have_or_in_none(void **state)
{
    (void)state;
    bt_dims d = *bt_dims_find("llama-3.2-3b");
    uint32_t every = 7;
    assert_false(bt_dims_global_every(&every, &d));
    d.window = 4096;
    d.windowed = 8; /* 20 of 28 see all */
    assert_false(bt_dims_global_every(&every, &d));
    assert_int_equal(every, 7);
    d.windowed = 28;
    assert_true(bt_dims_global_every(&every, &d));
    assert_int_equal(every, 0);
    d.windowed = 24;
    assert_true(bt_dims_global_every(&every, &d));
    assert_int_equal(every, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_has_the_weights_that_it_is_published_with),
        cmocka_unit_test(every_known_shape_says_where_it_is_from_and_no_name_is_there_twice),
        cmocka_unit_test(what_a_price_leaves_out_is_named_by_its_field),
        cmocka_unit_test(window_layers_hold_their_window),
        cmocka_unit_test(a_latent_has_the_kv_of_its_elements_and_not_of_its_heads),
        cmocka_unit_test(memory_holds_every_expert_and_a_step_reads_those_of_a_row),
        cmocka_unit_test(windows_stand_in_the_pattern_that_nodes_have_or_in_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
