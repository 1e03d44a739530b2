/* From files to models: what is read, what is refused and by which name, and what makes two files the same
 * model. */
#include "model/gguf.h"
#include "model/model.h"
#include "base/rng.h"
#include "model/quant.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_model.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void refuse(const tiny_gguf_spec *s, bt_err want, const char *words)
{
    tiny_model o = tiny_model_open(s);
    if (o.e != want || !strstr(o.fault.text, words))
        fail_msg("got %d '%s', wanted %d with '%s'", o.e, o.fault.text, want, words);
    assert_null(o.m);
    tiny_model_close(&o);
}

static tiny_model accept(const tiny_gguf_spec *s)
{
    tiny_model o = tiny_model_open(s);
    if (o.e < 0) fail_msg("%s", o.fault.text);
    return o;
}

static void the_three_architectures_open_with_the_right_rotation_biases_and_norms(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bt_arch arch;
        bool neox, bias, norm;
    } rows[] = {
        {"llama", BT_ARCH_LLAMA, false, false, false},
        {"qwen2", BT_ARCH_QWEN2, true, true, false},
        {"qwen3", BT_ARCH_QWEN3, true, false, true},
    };
    for (size_t i = 0; i < 3; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        s.arch = rows[i].name;
        s.tied = i == 1;
        tiny_model o = accept(&s);
        const bt_hparams *hp = &o.m->hp;
        assert_int_equal(hp->arch, rows[i].arch);
        assert_int_equal(hp->rope_neox, rows[i].neox);
        assert_int_equal(hp->qkv_bias, rows[i].bias);
        assert_int_equal(hp->qk_norm, rows[i].norm);
        assert_int_equal(hp->tied_output, s.tied);
        assert_int_equal(hp->layers, 2);
        assert_int_equal(hp->dim, 64);
        assert_int_equal(hp->ffn, 96);
        assert_int_equal(hp->heads, 4);
        assert_int_equal(hp->kv_heads, 2);
        assert_int_equal(hp->head_dim, 16);
        assert_int_equal(hp->rope_dims, 16);
        assert_int_equal(hp->vocab, 384);
        assert_int_equal(hp->ctx, 512);
        assert_true(hp->rope_base == 10000.0f && hp->rope_scale == 1.0f && hp->rms_eps == 1e-5f);
        assert_ptr_equal(o.m->output == o.m->embed ? o.m : NULL, s.tied ? o.m : NULL);
        assert_int_equal(o.m->layer[1].bq != NULL, rows[i].bias);
        assert_int_equal(o.m->layer[1].k_norm != NULL, rows[i].norm);
        assert_string_equal(o.m->name, "tiny");
        const uint64_t layer = 64 + 64 * 64 + 2 * 64 * 32 + 64 * 64 + 64 + 3 * 64 * 96 +
                               (rows[i].bias ? 128 : 0) + (rows[i].norm ? 32 : 0);
        assert_int_equal(o.m->param_count, 2 * layer + 64 + 384 * 64 * (s.tied ? 1 : 2));
        assert_int_equal(o.m->weights_bytes, o.m->param_count * 4);
        tiny_model_close(&o);
    }
}

static void every_missing_key_and_tensor_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {
        "general.architecture",
        "qwen3.block_count",
        "qwen3.embedding_length",
        "qwen3.feed_forward_length",
        "qwen3.attention.head_count",
        "qwen3.context_length",
        "qwen3.attention.layer_norm_rms_epsilon",
        "token_embd.weight",
        "output_norm.weight",
        "blk.0.attn_norm.weight",
        "blk.1.attn_q.weight",
        "blk.1.attn_k.weight",
        "blk.1.attn_v.weight",
        "blk.0.attn_q_norm.weight",
        "blk.0.attn_k_norm.weight",
        "blk.0.attn_output.weight",
        "blk.1.ffn_norm.weight",
        "blk.1.ffn_gate.weight",
        "blk.1.ffn_up.weight",
        "blk.1.ffn_down.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        s.arch = "qwen3";
        s.omit = names[i];
        refuse(&s, BT_EFORMAT, names[i]);
    }
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "qwen2";
    s.omit = "blk.1.attn_k.bias";
    refuse(&s, BT_EFORMAT, "blk.1.attn_k.bias");
}

static void keys_with_a_default_may_be_missing(void **state)
{
    (void)state;
    static const char *const names[] = {"llama.attention.head_count_kv", "llama.attention.key_length",
                                        "llama.attention.value_length", "llama.rope.dimension_count",
                                        "llama.rope.freq_base"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        s.kv_heads = 4;
        s.omit = names[i];
        tiny_model o = accept(&s);
        assert_int_equal(o.m->hp.kv_heads, 4);
        assert_int_equal(o.m->hp.rope_dims, 16);
        assert_true(o.m->hp.rope_base == 10000.0f);
        tiny_model_close(&o);
    }
}

/* One key or tensor more, of the kind that would change the arithmetic. */
typedef struct more {
    const char *key;
    uint32_t u;
    float f;
    const char *s;
    uint64_t dim[2];
} more;

static void add_more(tiny_gguf *w, void *ud)
{
    const more *m = ud;
    static const float zeros[64 * 96];
    if (m->dim[0])
        tiny_gguf_tensor(w, m->key, 0, m->dim, m->dim[1] ? 2 : 1, zeros,
                         m->dim[0] * (m->dim[1] ? m->dim[1] : 1) * sizeof *zeros);
    else if (m->s) tiny_gguf_str(w, m->key, m->s);
    else if (m->f > 0) tiny_gguf_f32(w, m->key, m->f);
    else tiny_gguf_u32(w, m->key, m->u);
}

static void not_normed(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_bool(w, "llama.expert_weights_norm", false);
}

static void what_would_change_the_arithmetic_unknown_to_us_is_refused_by_name(void **state)
{
    (void)state;
    static const more cases[] = {
        {"qwen2.expert_count", 8, 0, NULL, {0}},
        {"llama.attention.sliding_window_pattern", 2, 0, NULL, {0}},
        {"llama.rope.scaling.type", 0, 0, "ntk", {0}},
        {"llama.attn_logit_softcapping", 0, 50.0f, NULL, {0}},
        {"llama.attention.scale", 0, 0.1f, NULL, {0}},
        {"llama.logit_scale", 0, 0.1f, NULL, {0}},
        {"llama.embedding_scale", 0, 0.1f, NULL, {0}},
        {"llama.residual_scale", 0, 0.1f, NULL, {0}},
        {"blk.0.attn_output.bias", 0, 0, NULL, {64, 0}},
        {"blk.1.ffn_gate_inp.weight", 0, 0, NULL, {64, 8}},
        {"blk.2.attn_norm.weight", 0, 0, NULL, {64, 0}},
        {"blk.0.attn_q_norm.weight", 0, 0, NULL, {16, 0}},
        {"output.bias", 0, 0, NULL, {64, 0}},
        {"stray", 0, 0, NULL, {3, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        more m = cases[i];
        if (i == 0) s.arch = "qwen2";
        s.extra = add_more;
        s.ud = &m;
        refuse(&s, BT_EVERSION, cases[i].s ? cases[i].s : cases[i].key);
    }
    more one = {"blk.0.attn_q.bias", 0, 0, NULL, {64, 0}};
    tiny_gguf_spec s = tiny_gguf_default();
    s.extra = add_more;
    s.ud = &one;
    refuse(&s, BT_EFORMAT, "layer 0 has 1 of the q, k and v biases");
}

/* Tensors and keys that one architecture has and another lacks. */
static const struct {
    const char *arch, *omit;
    more m;
    bt_err e;
    const char *words;
} of_another[] = {
    {"olmo2", NULL, {"blk.0.attn_norm.weight", 0, 0, NULL, {64, 0}}, BT_EVERSION, "'blk.0.attn_norm.weight'"},
    {"olmo2", NULL, {"blk.0.attn_q.bias", 0, 0, NULL, {64, 0}}, BT_EVERSION, "'blk.0.attn_q.bias'"},
    {"olmo2", "blk.1.post_ffw_norm.weight", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "post_ffw_norm.weight"},
    {"olmo2",
     "blk.0.attn_k_norm.weight",
     {"blk.0.attn_k_norm.weight", 0, 0, NULL, {16, 0}},
     BT_EFORMAT,
     "'blk.0.attn_k_norm.weight' has the shape 16"},
    {"olmo2", NULL, {"olmo2.attention.sliding_window", 64, 0, NULL, {0}}, BT_EVERSION, "windows of olmo2"},
    {"gemma3", "gemma3.attention.sliding_window", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "sliding_window is 0"},
    {"gemma3",
     NULL,
     {"gemma3.attention.sliding_window_pattern", 4, 0, NULL, {0}},
     BT_EVERSION,
     "gemma3 with 6"},
    {"gemma3", NULL, {"gemma3.rope.freq_base_swa", 0, 1e13f, NULL, {0}}, BT_EFORMAT, "freq_base_swa"},
    {"gemma3", NULL, {"gemma3.final_logit_softcapping", 0, 30, NULL, {0}}, BT_EVERSION, "final_logit_soft"},
    {"gemma3", "blk.1.post_ffw_norm.weight", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "post_ffw_norm.weight"},
    {"gemma", NULL, {"gemma.attn_logit_softcapping", 0, 50, NULL, {0}}, BT_EVERSION, "attn_logit_softcap"},
    {"gemma", NULL, {"gemma.attention.sliding_window", 64, 0, NULL, {0}}, BT_EVERSION, "windows of gemma"},
    {"gemma", NULL, {"blk.0.post_ffw_norm.weight", 0, 0, NULL, {64, 0}}, BT_EVERSION, "post_ffw_norm"},
    {"gemma2", "blk.1.post_ffw_norm.weight", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "post_ffw_norm.weight"},
    {"gemma2", NULL, {"blk.0.attn_q_norm.weight", 0, 0, NULL, {16, 0}}, BT_EVERSION, "attn_q_norm.weight"},
    {"gemma2", NULL, {"gemma2.embedding_scale", 0, 2, NULL, {0}}, BT_EVERSION, "gemma2.embedding_scale"},
    {"gemma2", NULL, {"gemma2.rope.freq_base_swa", 0, 500, NULL, {0}}, BT_EVERSION, "freq_base_swa"},
    {"gemma2", NULL, {"gemma2.attention.sliding_window_pattern", 6, 0, NULL, {0}}, BT_EVERSION, "with 2"},
    {"gemma2", "gemma2.attention.sliding_window", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "sliding_window is 0"},
    {"gemma2",
     "gemma2.attn_logit_softcapping",
     {"x", 1, 0, NULL, {0}},
     BT_EFORMAT,
     "gemma2.attn_logit_softcapping"},
    {"gemma2",
     "gemma2.final_logit_softcapping",
     {"gemma2.final_logit_softcapping", 0, 1e7f, NULL, {0}},
     BT_EFORMAT,
     "gemma2.final_logit_softcapping is 1e+07"},
    {"qwen3", NULL, {"blk.0.post_ffw_norm.weight", 0, 0, NULL, {64, 0}}, BT_EVERSION, "post_ffw_norm"},
    {"phi3", "blk.1.attn_qkv.weight", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "'blk.1.attn_qkv.weight'"},
    {"phi3",
     "blk.1.ffn_up.weight",
     {"blk.1.ffn_up.weight", 0, 0, NULL, {64, 96}},
     BT_EFORMAT,
     "'blk.1.ffn_up.weight' has the shape 64 x 96; 64 x 192 is needed"},
    {"phi3", NULL, {"blk.0.attn_q.weight", 0, 0, NULL, {64, 64}}, BT_EVERSION, "'blk.0.attn_q.weight'"},
    {"qwen3", NULL, {"qwen3.attention.sliding_window", 64, 0, NULL, {0}}, BT_EVERSION, "windows of qwen3"},
    {"phi3", NULL, {"rope_factors_long.weight", 0, 0, NULL, {8, 0}}, BT_EFORMAT, "original_context_length"},
    {"smollm3", NULL, {"smollm3.residual_scale", 0, 2, NULL, {0}}, BT_EVERSION, "smollm3.residual_scale"},
    {"granite", NULL, {"granite.expert_count", 8, 0, NULL, {0}}, BT_EVERSION, "granite.expert_count"},
    {"starcoder2", "blk.1.attn_output.bias", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "'blk.1.attn_output.bias'"},
    {"starcoder2", "blk.0.ffn_norm.bias", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "'blk.0.ffn_norm.bias'"},
    {"starcoder2", "output_norm.bias", {"x", 1, 0, NULL, {0}}, BT_EFORMAT, "'output_norm.bias'"},
    {"starcoder2",
     NULL,
     {"blk.0.ffn_gate.weight", 0, 0, NULL, {64, 96}},
     BT_EVERSION,
     "'blk.0.ffn_gate.weight' has no place in the starcoder2 graph"},
    {"starcoder2",
     "starcoder2.attention.layer_norm_epsilon",
     {"starcoder2.attention.layer_norm_rms_epsilon", 0, 1e-5f, NULL, {0}},
     BT_EFORMAT,
     "starcoder2.attention.layer_norm_epsilon"},
    {"starcoder2",
     NULL,
     {"starcoder2.attention.sliding_window", 64, 0, NULL, {0}},
     BT_EVERSION,
     "windows of starcoder2"},
    {"starcoder2", NULL, {"starcoder2.logit_scale", 0, 2, NULL, {0}}, BT_EVERSION, "starcoder2.logit_scale"},
    {"olmo2", NULL, {"blk.0.ffn_norm.bias", 0, 0, NULL, {64, 0}}, BT_EVERSION, "'blk.0.ffn_norm.bias'"},
    {"llama", NULL, {"llama.rope.scaling.finetuned", 0, 0, "x", {0}}, BT_EFORMAT, "finetuned"},
    {"llama", NULL, {"blk.0.attn_sinks.weight", 0, 0, NULL, {4, 0}}, BT_EVERSION, "attn_sinks"},
    {"gpt-oss", NULL, {"gpt-oss.rope.freq_base_swa", 0, 500, NULL, {0}}, BT_EVERSION, "freq_base_swa"},
};

static void tensors_of_another_architecture_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof of_another / sizeof *of_another; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        more m = of_another[i].m;
        s.arch = of_another[i].arch;
        s.omit = of_another[i].omit;
        s.extra = add_more;
        s.ud = &m;
        refuse(&s, of_another[i].e, of_another[i].words);
    }
}

/* Router rules and kinds of experts that no row of the list has, and values of the same keys that change
 * nothing. */
static void other_rules_of_routers_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        more m;
        bool is_fine;
    } cases[] = {
        {{"llama.expert_gating_func", 2, 0, NULL, {0}}, false},
        {{"llama.expert_gating_func", 1, 0, NULL, {0}}, true},
        {{"llama.expert_weights_scale", 0, 2.5f, NULL, {0}}, false},
        {{"llama.expert_weights_scale", 0, 1.0f, NULL, {0}}, true},
        {{"llama.expert_shared_count", 1, 0, NULL, {0}}, false},
        {{"llama.expert_shared_feed_forward_length", 64, 0, NULL, {0}}, false},
        {{"llama.expert_group_count", 8, 0, NULL, {0}}, false},
        {{"llama.expert_group_used_count", 4, 0, NULL, {0}}, false},
        {{"llama.expert_group_count", 1, 0, NULL, {0}}, true},
        {{"llama.leading_dense_block_count", 1, 0, NULL, {0}}, false},
        {{"llama.leading_dense_block_count", 0, 0, NULL, {0}}, true},
        {{"llama.interleave_moe_layer_step", 2, 0, NULL, {0}}, false},
        {{"llama.moe_every_n_layers", 2, 0, NULL, {0}}, false},
        {{"blk.0.exp_probs_b.bias", 0, 0, NULL, {8, 0}}, false},
        {{"blk.0.ffn_up_shexp.weight", 0, 0, NULL, {64, 96}}, false},
    };
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "mixtral";
    s.extra = add_more;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        more m = cases[i].m;
        s.ud = &m;
        if (cases[i].is_fine) {
            tiny_model o = accept(&s);
            tiny_model_close(&o);
        } else refuse(&s, BT_EVERSION, m.key);
    }
    s.extra = not_normed;
    refuse(&s, BT_EVERSION, "llama.expert_weights_norm is false");
}

/* Experts have a width of their own where the file says so, and every matrix has one of each. */
static void experts_are_read_with_their_numbers(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    more width = {"qwen3moe.expert_feed_forward_length", 48, 0, NULL, {0}},
         wrong = {"qwen3moe.expert_used_count", 9, 0, NULL, {0}};
    s.arch = "qwen3moe";
    tiny_model o = accept(&s);
    assert_int_equal(o.m->hp.experts, TINY_GGUF_EXPERTS);
    assert_int_equal(o.m->hp.experts_used, TINY_GGUF_EXPERTS_USED);
    assert_int_equal(o.m->hp.ffn, s.ffn);
    assert_int_equal(o.m->layer[1].w_down->dim[2], TINY_GGUF_EXPERTS);
    tiny_model_close(&o);
    s.extra = add_more;
    s.ud = &width;
    refuse(&s, BT_EFORMAT, "'blk.0.ffn_gate_exps.weight' has the shape 64 x 96 x 8; 64 x 48 x 8 is needed");
    s.ud = &wrong;
    s.omit = wrong.key;
    refuse(&s, BT_EFORMAT, "expert_used_count is 9 of 8 experts");
    s.extra = NULL;
    refuse(&s, BT_EFORMAT, "qwen3moe.expert_used_count");
    static const char *const names[] = {"qwen3moe.expert_count", "blk.1.ffn_gate_inp.weight",
                                        "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        s.omit = names[i];
        refuse(&s, BT_EFORMAT, names[i]);
    }
}

/* Layers of gemma3 but every sixth have a window and a rotary base of their own, which are part of the id. */
static void windows_and_their_rotary_base_are_those_of_the_pattern(void **state)
{
    (void)state;
    more base = {"gemma3.rope.freq_base_swa", 0, 500, NULL, {0}};
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "gemma3";
    s.layers = 7;
    s.window = 9;
    tiny_model one = accept(&s);
    const bt_hparams *hp = &one.m->hp;
    assert_true(hp->times.embed == 8 && hp->window_rope_base == 10000 && bt_hparams_rope_tables(hp) == 2);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(bt_hparams_window(hp, i), i == 5 ? 0 : 9);
        assert_int_equal(bt_hparams_rope_table(hp, i), i != 5);
    }
    s.extra = add_more;
    s.ud = &base;
    tiny_model other = accept(&s);
    assert_true(other.m->hp.window_rope_base == 500);
    assert_memory_not_equal(one.m->id, other.m->id, sizeof one.m->id);
    tiny_model_close(&one);
    tiny_model_close(&other);
}

/* Layers of gemma2 with even numbers have a window, and no rotary base of their own. */
static void every_second_layer_of_gemma2_has_a_window(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "gemma2";
    s.layers = 4;
    s.window = 9;
    tiny_model one = accept(&s);
    const bt_hparams *hp = &one.m->hp;
    assert_true(hp->score_cap == 2 && hp->logit_cap == 12 && bt_hparams_rope_tables(hp) == 1);
    assert_true(bt_hparams_scores(hp) == 0.25f); /* heads of 16 */
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(bt_hparams_window(hp, i), i % 2 ? 0 : 9);
    tiny_model_close(&one);
    s.layers = 46; /* the 27B: dim / heads = 32 */
    s.heads = 2;
    tiny_model large = accept(&s);
    assert_true(fabsf(bt_hparams_scores(&large.m->hp) - 0.17677669f) < 1e-6f);
    tiny_model_close(&large);
}

/* A bias for every matrix, a sink for every head, windows by turns; yarn's ends are not rounded. */
static void gpt_oss_has_biases_sinks_and_windows(void **state)
{
    (void)state;
    static const char *const names[] = {
        "attn_q.bias",       "attn_output.bias",   "attn_sinks.weight", "post_attention_norm.weight",
        "ffn_gate_inp.bias", "ffn_gate_exps.bias", "ffn_up_exps.bias",  "ffn_down_exps.bias"};
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "gpt-oss";
    tiny_model one = accept(&s);
    const bt_hparams *hp = &one.m->hp;
    assert_true(hp->rope.is_exact && !bt_hparams_window(hp, 1));
    assert_int_equal(bt_hparams_window(hp, 0), TINY_GGUF_WINDOW);
    tiny_model_close(&one);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.1.%s", names[i]);
        s.omit = name;
        refuse(&s, BT_EFORMAT, name);
    }
}

/* An architecture with multipliers has them as numbers; each of them, and no other, may be missing. */
static void multipliers_are_numbers_above_zero(void **state)
{
    (void)state;
    static const char *const keys[] = {"granite.attention.scale", "granite.embedding_scale",
                                       "granite.residual_scale", "granite.logit_scale"};
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "granite";
    tiny_model o = accept(&s), less;
    const bt_multipliers *t = &o.m->hp.times;
    assert_true(t->scores == 0.2f && t->embed == 0.75f && t->add == 0.375f && t->logits == 1.0f / 3);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        more bad = {keys[i], 0, INFINITY, NULL, {0}};
        s.omit = keys[i];
        less = accept(&s);
        assert_memory_not_equal(o.m->id, less.m->id, sizeof o.m->id);
        tiny_model_close(&less);
        s.extra = add_more;
        s.ud = &bad;
        refuse(&s, BT_EFORMAT, keys[i]);
        bad = (more){keys[i], 0, 0, "x", {0}};
        refuse(&s, BT_EFORMAT, keys[i]);
        s.extra = NULL;
    }
    tiny_model_close(&o);
}

/* The norm before the output matrix has the multiplier of the logits; the file's tensor stays as it is. */
static void the_last_norm_has_the_multiplier_of_the_logits(void **state)
{
    (void)state;
    float with[64], without[64];
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = "granite";
    tiny_model o = accept(&s);
    bt_model_row_f32(with, o.m->out_norm, 0);
    bt_model_row_f32(without, bt_gguf_find_tensor(o.m->file, "output_norm.weight"), 0);
    for (int i = 0; i < 64; i++) assert_true(with[i] == without[i] * (1.0f / 3) && with[i] != without[i]);
    tiny_model_close(&o);
}

static void harmless_values_of_the_same_keys_are_accepted(void **state)
{
    (void)state;
    static const more cases[] = {
        {"llama.expert_count", 0, 0, NULL, {0}},
        {"llama.attention.sliding_window", 512, 0, NULL, {0}},
        {"llama.rope.scaling.type", 0, 0, "none", {0}},
        {"llama.vocab_size", 999, 0, NULL, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        more m = cases[i];
        s.extra = add_more;
        s.ud = &m;
        tiny_model o = accept(&s);
        assert_true(o.m->hp.rope_scale == 1.0f);
        tiny_model_close(&o);
    }
}

static void llama_files_may_carry_biases_on_q_k_and_v(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    s.qkv_bias = true;
    tiny_model o = accept(&s);
    assert_true(o.m->hp.qkv_bias);
    tiny_model_close(&o);
}

static void numbers_out_of_range_and_wrong_shapes_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *omit;
        more m;
        bt_err e;
        const char *words;
    } cases[] = {
        {"llama.block_count",
         {"llama.block_count", 257, 0, NULL, {0}},
         BT_ELIMIT,
         "llama.block_count is 257"},
        {"llama.block_count", {"llama.block_count", 0, 0, NULL, {0}}, BT_EFORMAT, "llama.block_count is 0"},
        {"llama.context_length",
         {"llama.context_length", 1u << 21, 0, NULL, {0}},
         BT_ELIMIT,
         "llama.context_length"},
        {"llama.attention.head_count_kv",
         {"llama.attention.head_count_kv", 3, 0, NULL, {0}},
         BT_EFORMAT,
         "evenly"},
        {"llama.attention.value_length",
         {"llama.attention.value_length", 32, 0, NULL, {0}},
         BT_EVERSION,
         "values of 32"},
        {"llama.rope.dimension_count",
         {"llama.rope.dimension_count", 15, 0, NULL, {0}},
         BT_EFORMAT,
         "dimension_count is 15"},
        {"llama.rope.dimension_count",
         {"llama.rope.dimension_count", 32, 0, NULL, {0}},
         BT_EFORMAT,
         "dimension_count is 32"},
        {"llama.rope.freq_base", {"llama.rope.freq_base", 0, INFINITY, NULL, {0}}, BT_EFORMAT, "freq_base"},
        {"llama.attention.layer_norm_rms_epsilon",
         {"llama.attention.layer_norm_rms_epsilon", 0, 2.0f, NULL, {0}},
         BT_EFORMAT,
         "epsilon"},
        {"blk.1.ffn_down.weight",
         {"blk.1.ffn_down.weight", 0, 0, NULL, {64, 96}},
         BT_EFORMAT,
         "'blk.1.ffn_down.weight' has the shape 64 x 96"},
        {"blk.0.attn_norm.weight",
         {"blk.0.attn_norm.weight", 0, 0, NULL, {63, 0}},
         BT_EFORMAT,
         "'blk.0.attn_norm.weight' has the shape"},
        {"x", {"rope_freqs.weight", 0, 0, NULL, {8, 0}}, BT_EFORMAT, "rope_freqs.weight[0]"},
        {"general.architecture", {"general.architecture", 0, 0, "mamba", {0}}, BT_EVERSION, "'mamba'"},
        {"general.architecture", {"general.architecture", 0, 0, "llama\033", {0}}, BT_EVERSION, "'llama?'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_gguf_spec s = tiny_gguf_default();
        more m = cases[i].m;
        s.omit = cases[i].omit;
        s.extra = add_more;
        s.ud = &m;
        refuse(&s, cases[i].e, cases[i].words);
    }
}

static void fewer_tokens_than_embedding_rows(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_strs(w, "tokenizer.ggml.tokens", (const char *[]){"a", "b"}, 2);
}

static void a_token_list_of_another_length_than_the_embedding_is_refused(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    s.no_tokenizer = true;
    s.extra = fewer_tokens_than_embedding_rows;
    refuse(&s, BT_EFORMAT, "2 tokens");
}

static void scaled(tiny_gguf *w, void *ud) { tiny_gguf_f32(w, ud, 4.0f); }

static void rope_tables_follow_base_factors_and_linear_scaling(void **state)
{
    (void)state;
    static const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear"};
    for (size_t k = 0; k < 2; k++) {
        tiny_gguf_spec s = tiny_gguf_default();
        s.rope_freqs = true;
        s.extra = scaled;
        s.ud = (void *)(uintptr_t)keys[k];
        tiny_model o = accept(&s);
        assert_true(o.m->hp.rope_scale == 0.25f);
        enum { CTX = 100, HALF = 8 };
        float *c = malloc(CTX * HALF * sizeof *c), *n = malloc(CTX * HALF * sizeof *n), factor[HALF];
        assert_non_null(c);
        assert_non_null(n);
        bt_model_rope_table(c, n, o.m, 0, CTX);
        bt_model_row_f32(factor, o.m->rope_freqs, 0);
        for (int p = 0; p < CTX; p++)
            for (int i = 0; i < HALF; i++) {
                const double angle = p / (pow(10000.0, 2.0 * i / 16) * (double)factor[i] * 4.0);
                assert_true(fabs((double)c[p * HALF + i] - cos(angle)) < 1e-7);
                assert_true(fabs((double)n[p * HALF + i] - sin(angle)) < 1e-7);
            }
        free(n);
        free(c);
        tiny_model_close(&o);
    }
}

static void rows_come_out_as_the_type_defines_them(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default(), t = s;
    t.type = BT_QUANT_Q8_0; /* of one seed, F32 and Q8_0 hold the same values */
    tiny_model a = accept(&s), b = accept(&t);
    float x[64], y[64];
    for (size_t r = 0; r < 384; r += 13) {
        bt_model_row_f32(x, a.m->embed, r);
        bt_model_row_f32(y, b.m->embed, r);
        assert_memory_equal(x, y, sizeof x);
    }
    tiny_model_close(&b);
    tiny_model_close(&a);
}

static void the_identity_is_that_of_the_weights_and_the_rotation_alone(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default(), bare = s, seed = s, type = s, base = s, biased = s;
    bare.no_tokenizer = true;
    seed.seed = 2;
    type.type = BT_QUANT_Q8_0;
    base.extra = scaled;
    base.ud = (void *)(uintptr_t) "llama.rope.scaling.factor";
    biased.rope_freqs = true;
    tiny_model o = accept(&s), same = accept(&s), no_text = accept(&bare);
    assert_memory_equal(o.m->id, same.m->id, 16);
    assert_memory_equal(o.m->id, no_text.m->id, 16);
    const tiny_gguf_spec *others[] = {&seed, &type, &base, &biased};
    for (size_t i = 0; i < 4; i++) {
        tiny_model x = accept(others[i]);
        assert_memory_not_equal(o.m->id, x.m->id, 16);
        tiny_model_close(&x);
    }
    tiny_model_close(&no_text);
    tiny_model_close(&same);
    tiny_model_close(&o);
}

static void flipped_files_are_models_or_errors_and_nothing_else(void **state)
{
    (void)state;
    const uint64_t seed = 5;
    print_message("seed %llu\n", (unsigned long long)seed);
    tiny_gguf_spec s = tiny_gguf_default();
    s.no_tokenizer = s.rope_freqs = true;
    s.layers = 1;
    s.vocab = 32;
    size_t len, models = 0;
    uint8_t *b = tiny_gguf_build(&s, &len), *x = malloc(len);
    assert_non_null(x);
    for (uint64_t round = 0; round < 1500; round++) {
        memcpy(x, b, len);
        x[bt_rng_u64(seed, 2 * round) % 1500] ^= (uint8_t)(1u << bt_rng_u64(seed, 2 * round + 1) % 8);
        bt_gguf *g = NULL;
        bt_model *m = NULL;
        bt_fault f = {""};
        if (bt_gguf_open_bytes(&g, x, len, &f) < 0) continue;
        if (bt_model_from_gguf(&m, g, &f) == BT_OK) {
            models++;
            bt_model_close(m);
        } else {
            assert_true(strlen(f.text) > 0);
        }
    }
    print_message("%zu of 1500 are models\n", models);
    free(x);
    free(b);
}

static void the_default_model_is_looked_for_where_the_environment_says(void **state)
{
    (void)state;
    char dir[TEMP_FOLDER_BYTES], file[256], found[4096] = "untouched";
    bt_fault f;
    assert_true(temp_folder_new(dir));
    assert_int_equal(setenv("BATON_MODEL_DIR", dir, 1), 0);
    assert_int_equal(bt_model_find(found, sizeof found, "smollm2", &f), BT_EIO);
    assert_non_null(strstr(f.text, "'baton pull smollm2'"));
    assert_string_equal(found, "untouched");
    snprintf(file, sizeof file, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", dir);
    const tiny_gguf_spec s = tiny_gguf_default();
    tiny_gguf_write(&s, file);
    assert_int_equal(bt_model_find(found, sizeof found, "smollm2", &f), BT_OK);
    assert_string_equal(found, file);
    assert_int_equal(bt_model_find(found, sizeof found, file, &f), BT_OK);
    assert_int_equal(bt_model_find(found, strlen(file), file, &f), BT_ELIMIT);
    assert_int_equal(bt_model_find(found, sizeof found, "no/such.gguf", &f), BT_EIO);
    assert_non_null(strstr(f.text, "no/such.gguf"));
    bt_model *m = NULL;
    assert_int_equal(bt_model_open(&m, file, &f), BT_OK);
    bt_model_close(m);
    assert_int_equal(temp_folder_remove(dir), 0);
    unsetenv("BATON_MODEL_DIR");
    bt_model_close(NULL);
}

static size_t files_in(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, ".id1") != NULL;
    if (d) closedir(d);
    return n;
}

/* Only of a file that has been as it is for a while, which none that a test writes has: the default
 * model's. */
static void an_id_is_kept_and_a_damaged_one_made_again(void **state)
{
    (void)state;
    char path[4096], dir[TEMP_FOLDER_BYTES], ids[128], command[256];
    const char *given = getenv("BATON_TEST_MODEL");
    if (bt_model_find(path, sizeof path, given ? given : "smollm2", NULL) < 0) skip();
    bt_model *m[3] = {NULL};
    assert_true(temp_folder_new(dir));
    assert_int_equal(setenv("BATON_CACHE_DIR", dir, 1), 0);
    snprintf(ids, sizeof ids, "%s/ids", dir);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(bt_model_open(&m[i], path, NULL), BT_OK);
        assert_memory_equal(m[i]->id, m[0]->id, sizeof m[0]->id);
        assert_int_equal(files_in(ids), 1);
        snprintf(command, sizeof command, "for f in %s/*.id1; do printf wrong > $f; done", ids);
        if (i == 1) assert_int_equal(system(command), 0);
    }
    for (size_t i = 0; i < 3; i++) bt_model_close(m[i]);
    assert_int_equal(temp_folder_remove(dir), 0);
    unsetenv("BATON_CACHE_DIR");
}

static void a_header_alone_has_the_sizes_of_the_model(void **state)
{
    (void)state;
    tiny_gguf_spec spec = tiny_gguf_default();
    size_t len, head_len;
    uint8_t *bytes = tiny_gguf_build(&spec, &len);
    bt_gguf *g = NULL;
    bt_model *whole = NULL, *head = NULL;
    assert_int_equal(bt_gguf_open_bytes(&g, bytes, len, NULL), BT_OK);
    (void)bt_gguf_head(&head_len, g);
    assert_int_equal(bt_model_from_gguf(&whole, g, NULL), BT_OK);
    /* behind the header nothing is needed, and not one byte less */
    uint8_t *cut = malloc(head_len);
    memcpy(cut, bytes, head_len);
    assert_true(head_len < len / 2);
    assert_int_equal(bt_gguf_open_bytes(&g, cut, head_len, NULL), BT_EFORMAT);
    assert_int_equal(bt_gguf_open_head_bytes(&g, cut, head_len, NULL), BT_OK);
    assert_null(bt_gguf_tensor_at(g, 0)->data);
    assert_int_equal(bt_model_head_from_gguf(&head, g, NULL), BT_OK);
    assert_memory_equal(&head->hp, &whole->hp, sizeof head->hp);
    assert_string_equal(head->name, whole->name);
    assert_int_equal(head->weights_bytes, whole->weights_bytes);
    assert_int_equal(head->param_count, whole->param_count);
    bt_model_close(head);
    for (size_t n = 0; n + 64 < head_len; n += 97)
        assert_int_equal(bt_gguf_open_head_bytes(&g, cut, n, NULL), BT_EFORMAT);
    bt_model_close(whole);
    free(cut);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_architectures_open_with_the_right_rotation_biases_and_norms),
        cmocka_unit_test(every_missing_key_and_tensor_is_named),
        cmocka_unit_test(keys_with_a_default_may_be_missing),
        cmocka_unit_test(what_would_change_the_arithmetic_unknown_to_us_is_refused_by_name),
        cmocka_unit_test(tensors_of_another_architecture_are_refused_by_name),
        cmocka_unit_test(windows_and_their_rotary_base_are_those_of_the_pattern),
        cmocka_unit_test(every_second_layer_of_gemma2_has_a_window),
        cmocka_unit_test(gpt_oss_has_biases_sinks_and_windows),
        cmocka_unit_test(multipliers_are_numbers_above_zero),
        cmocka_unit_test(the_last_norm_has_the_multiplier_of_the_logits),
        cmocka_unit_test(harmless_values_of_the_same_keys_are_accepted),
        cmocka_unit_test(llama_files_may_carry_biases_on_q_k_and_v),
        cmocka_unit_test(other_rules_of_routers_are_refused_by_name),
        cmocka_unit_test(experts_are_read_with_their_numbers),
        cmocka_unit_test(numbers_out_of_range_and_wrong_shapes_are_refused),
        cmocka_unit_test(a_token_list_of_another_length_than_the_embedding_is_refused),
        cmocka_unit_test(rope_tables_follow_base_factors_and_linear_scaling),
        cmocka_unit_test(rows_come_out_as_the_type_defines_them),
        cmocka_unit_test(an_id_is_kept_and_a_damaged_one_made_again),
        cmocka_unit_test(the_identity_is_that_of_the_weights_and_the_rotation_alone),
        cmocka_unit_test(flipped_files_are_models_or_errors_and_nothing_else),
        cmocka_unit_test(a_header_alone_has_the_sizes_of_the_model),
        cmocka_unit_test(the_default_model_is_looked_for_where_the_environment_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
