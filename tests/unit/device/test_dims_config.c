/* config.json files: those of known models give the known shapes, and what is wrong in one is named. The
 * files are the fuzzer's corpus. */
#include "device/dims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define CORPUS "tests/fuzz/corpus/dims_config/"

static bt_dims sizes(const char *file, uint32_t *ret_ctx)
{
    char path[256];
    bt_dims d;
    bt_fault f = {""};
    (void)snprintf(path, sizeof path, CORPUS "%s", file);
    if (bt_dims_config_load(&d, ret_ctx, path, &f) < 0) fail_msg("%s", f.text);
    return d;
}

static void same(const bt_dims *a, const bt_dims *b)
{
#define SAME(field) \
    if (a->field != b->field) \
    fail_msg("%s: " #field " %u, not %u", b->name, (unsigned)a->field, (unsigned)b->field)
    SAME(layers);
    SAME(hidden);
    SAME(ffn);
    SAME(heads);
    SAME(kv_heads);
    SAME(head_dim);
    SAME(vocab);
    SAME(ffn_matrices);
    SAME(has_qkv_bias);
    SAME(has_qk_norm);
    SAME(has_own_embedding);
    SAME(window);
    SAME(windowed);
    SAME(experts);
    SAME(experts_used);
    SAME(expert_ffn);
    SAME(expert_layers);
    SAME(experts_key);
    SAME(query_rank);
    SAME(latent_rank);
    SAME(latent_rope);
    SAME(plain_dim);
    SAME(value_dim);
    SAME(others);
#undef SAME
}

static void files_of_known_models_give_the_known_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ctx;
    } want[] = {
        {"llama-3.1-8b", 131072}, {"llama-3.2-1b", 131072}, {"llama-3.2-11b", 131072}, {"mistral-7b", 32768},
        {"mixtral-8x7b", 32768},  {"phi-3.5-mini", 131072}, {"phi-4", 16384},          {"qwen2.5-7b", 32768},
        {"qwen3-30b-a3b", 40960}, {"gemma-2-9b", 8192},     {"gemma-3-4b", 0},         {"gemma-3-27b", 0},
        {"gpt-oss-20b", 131072},  {"deepseek-v3", 163840},  {"opt-6.7b", 2048},        {"opt-350m", 2048}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char file[80];
        uint32_t ctx = 1;
        (void)snprintf(file, sizeof file, "%s.json", want[i].name);
        const bt_dims d = sizes(file, &ctx);
        same(&d, bt_dims_find(want[i].name));
        assert_int_equal(ctx, want[i].ctx);
    }
}

static void a_path_that_is_too_long_for_a_name_gives_its_end(void **state)
{
    (void)state;
    uint32_t ctx;
    const bt_dims d = sizes("../../../fuzz/../fuzz/corpus/dims_config/llama-3.1-8b.json", &ctx);
    assert_int_equal(strlen(d.name), sizeof d.name - 1);
    assert_string_equal(d.name + strlen(d.name) - strlen("/llama-3.1-8b.json"), "/llama-3.1-8b.json");
}

/* Every second layer of 4 has experts, but for the last: 1 and 3 less 3 leave 1. */
static void where_some_layers_have_experts_the_ffn_is_the_mean_of_all(void **state)
{
    (void)state;
    uint32_t ctx;
    const bt_dims d = sizes("experts-in-some-layers", &ctx);
    assert_int_equal(d.expert_layers, 1);
    assert_int_equal(d.ffn, (3 * 256 + 2 * 64 + 64) / 4);
    assert_int_equal(bt_dims_idle(&d), 3 * 64 * 64 * 6);
}

static void the_class_says_the_architecture_where_the_type_does_not(void **state)
{
    (void)state;
    uint32_t ctx;
    const bt_dims d = sizes("class-alone", &ctx);
    assert_true(d.has_qk_norm && !d.others);
    const bt_dims hunyuan = sizes("hunyuan-type", &ctx);
    assert_true(hunyuan.has_qk_norm && !hunyuan.others);
}

static void an_unknown_architecture_is_read_and_marked(void **state)
{
    (void)state;
    uint32_t ctx;
    bt_dims_ignored all[BT_DIMS_IGNORED];
    const bt_dims d = sizes("unknown-type", &ctx), e = sizes("layer-types-of-other-kinds", &ctx);
    assert_int_equal(bt_dims_ignored_of(all, &d), 2);
    assert_string_equal(all[0].field, "model_type");
    assert_string_equal(all[1].field, "is_encoder_decoder");
    assert_int_equal(bt_dims_ignored_of(all, &e), 1);
    assert_string_equal(all[0].field, "layer_types");
}

static void what_is_wrong_in_a_file_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *file, *says;
    } want[] = {
        {"hidden-size-missing", "field 'hidden_size': is missing"},
        {"no-type", "field 'model_type': is missing"},
        {"text-config-without-heads", "field 'num_attention_heads' of 'text_config': is missing"},
        {"experts-a-row-missing", "field 'num_experts_per_tok': is missing"},
        {"latent-without-rope", "field 'qk_rope_head_dim': is missing"},
        {"heads-that-do-not-divide", "field 'num_key_value_heads': 3 does not divide num_attention_heads, 4"},
        {"head-dim-of-a-fraction", "field 'head_dim': is missing, and hidden_size 65 by num_attention_heads "
                                   "4 is no number from 1 to 1024"},
        {"layers-beyond", "field 'num_hidden_layers': is 257, and must be a whole number from 1 to 256"},
        {"vocab-as-text", "field 'vocab_size': is the text '32000'"},
        {"hidden-size-of-a-fraction", "field 'hidden_size': is 64.5"},
        {"more-experts-a-row-than-there-are",
         "field 'num_experts_per_tok': is 5, and must be a whole number from 1 "
         "to 4"},
        {"experts-too-wide", "field 'num_experts_per_tok': experts of a row have"},
        {"layer-types-too-few", "field 'layer_types': must be a list of 2 kinds, one a layer"},
        {"tie-as-text", "field 'tie_word_embeddings': is the text 'no', and must be true or false"},
        {"not-an-object", "must be a JSON object"},
        {"not-json", "line 2: "},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[256];
        bt_dims d;
        uint32_t ctx;
        bt_fault f = {""};
        (void)snprintf(path, sizeof path, CORPUS "%s", want[i].file);
        assert_int_equal(bt_dims_config_load(&d, &ctx, path, &f), BT_EFORMAT);
        if (!strstr(f.text, want[i].says)) fail_msg("%s", f.text);
        if (strncmp(f.text, path, strlen(path)) != 0) fail_msg("%s", f.text);
    }
}

static void a_file_beyond_its_limit_is_refused(void **state)
{
    (void)state;
    static char large[BT_DIMS_CONFIG_MAX_BYTES + 1];
    bt_dims d;
    uint32_t ctx;
    memset(large, ' ', sizeof large);
    assert_int_equal(bt_dims_config_parse(&d, &ctx, large, sizeof large, NULL), BT_ELIMIT);
    assert_int_equal(bt_dims_config_load(&d, &ctx, CORPUS "no-such-file.json", NULL), BT_EIO);
    assert_true(bt_dims_config_is("config.json") && !bt_dims_config_is(".json") &&
                !bt_dims_config_is("a.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_known_models_give_the_known_shapes),
        cmocka_unit_test(a_path_that_is_too_long_for_a_name_gives_its_end),
        cmocka_unit_test(where_some_layers_have_experts_the_ffn_is_the_mean_of_all),
        cmocka_unit_test(the_class_says_the_architecture_where_the_type_does_not),
        cmocka_unit_test(an_unknown_architecture_is_read_and_marked),
        cmocka_unit_test(what_is_wrong_in_a_file_is_named),
        cmocka_unit_test(a_file_beyond_its_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
