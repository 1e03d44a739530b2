/* Sizes as a model without a file, and what the compiler's sketch of it says. */
#include "lab/plan/sketch.h"
#include "model/model.h"
#include "npu/compile/compile.h"
#include "npu/lower/offload.h"
#include "npu/lower/plan.h"

static uint32_t ffn_of(const bt_dims *s) { return s->experts ? s->expert_ffn : s->ffn; }

static bt_arch arch_of(const bt_dims *s)
{
    if (s->experts) return s->has_qk_norm ? BT_ARCH_QWEN3MOE : BT_ARCH_LLAMA;
    return s->has_qk_norm ? BT_ARCH_QWEN3 : s->has_qkv_bias ? BT_ARCH_QWEN2 : BT_ARCH_LLAMA;
}

/* Parameters beyond the sizes change no program. */
static bt_hparams hparams_of(const bt_dims *s)
{
    uint32_t every = 0;
    const bool has_windows = bt_dims_global_every(&every, s);
    return (bt_hparams){.arch = arch_of(s),
                        .layers = s->layers,
                        .dim = s->hidden,
                        .ffn = ffn_of(s),
                        .heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .head_dim = s->head_dim,
                        .vocab = s->vocab,
                        .ctx = BT_MODEL_MAX_CTX,
                        .rope_dims = s->head_dim,
                        .rope_base = 10000,
                        .rope_scale = 1,
                        .rope = {.magnitude = s->rope_milli ? (float)s->rope_milli / 1000 : 1},
                        .rms_eps = 1e-5f,
                        .qkv_bias = s->has_qkv_bias,
                        .qk_norm = s->has_qk_norm,
                        .experts = s->experts,
                        .experts_used = s->experts_used,
                        .window = has_windows ? s->window : 0,
                        .global_every = every};
}

bt_err tool_plan_sketch_check(const bt_profile *p, const bt_dims *s, const bt_recipe *r, bt_fault *fault)
{
    char why[96];
    bt_err e = bt_recipe_check_layers(r, s->layers, fault);
    for (uint32_t i = 0; e == BT_OK && i < s->layers * BT_SITE_KINDS; i++) {
        const bt_site_kind site = (bt_site_kind)(i % BT_SITE_KINDS);
        const bt_recipe_layer *own = bt_recipe_of(r, i / BT_SITE_KINDS, site);
        const uint32_t inputs = bt_pkg_site_width(site, s->hidden, s->heads * s->head_dim, ffn_of(s));
        e = bt_recipe_check_group(own, site, inputs, fault);
        if (e == BT_OK && !bt_offload_linear(why, p, own, site, inputs))
            e = bt_fail(fault, BT_EARG, "the linears '%s' would not run on the NPU: %s",
                        bt_site_kind_name(site), why);
    }
    return e;
}

/* BT_EARG: no architecture of the compiler's has such layers. */
static bt_err check_layers(const bt_dims *s, bt_fault *fault)
{
    uint32_t every;
    if (s->latent_rank)
        return bt_fail(fault, BT_EARG,
                       "'%.60s' has a latent for K and V (kv_lora_rank), and programs are compiled of models "
                       "without",
                       s->name);
    if (s->ffn_matrices != 3)
        return bt_fail(
            fault, BT_EARG,
            "'%.60s' has a feed-forward block of %u matrices, and programs are compiled of gated ones, "
            "which have 3",
            s->name, s->ffn_matrices);
    if (s->experts && (s->expert_layers != s->layers || s->ffn != s->experts_used * s->expert_ffn))
        return bt_fail(fault, BT_EARG,
                       "'%.60s' has experts in %u of %u layers, %u of %u outputs of a row in those that it "
                       "chooses; programs are compiled of models whose layers have them alone",
                       s->name, s->expert_layers, s->layers, s->experts_used * s->expert_ffn, s->ffn);
    if (s->windowed && !bt_dims_global_every(&every, s))
        return bt_fail(
            fault, BT_EARG,
            "'%.60s' has windows in %u of %u layers; programs are compiled of models where the last "
            "of every so many layers has none",
            s->name, s->windowed, s->layers);
    return BT_OK;
}

bt_err tool_plan_sketch(bt_pkg **ret, const tool_plan_sketch_want *w, bt_fault *fault)
{
    bt_err e = check_layers(w->dims, fault);
    if (e < 0) return e;
    const bt_hparams hp = hparams_of(w->dims);
    const bt_compile_options o = {.recipe = *w->recipe,  .attention = *w->attention,
                                  .shapes = w->shapes,   .profile = w->profile,
                                  .npu_ops = w->npu_ops, .ctx_tokens = w->ctx_tokens};
    bt_model *m = NULL;
    e = bt_model_of_sizes(&m, &hp, w->dims->name, fault);
    if (e == BT_OK) e = bt_compile_sketch(ret, m, &o, fault);
    bt_model_close(m);
    return e;
}

uint64_t tool_plan_mapped_bytes(const bt_pkg *p, uint64_t arenas)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_session *session = bt_pkg_sessions(p);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < h->sessions.count; i++)
        bytes = bt_time_plus(bytes, bt_time_plus(session[i].mapped_bytes,
                                                 bt_time_times(arenas - 1, h->arena_bytes)));
    return bytes;
}

uint64_t tool_plan_spilled_bytes(const bt_pkg *p)
{
    const bt_pkg_row *row = bt_pkg_rows(p), *longest = row;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count; i++)
        if (row[i].batch == 1 && row[i].seq > longest->seq) longest = &row[i];
    const uint32_t program = longest->program[BT_PKG_OUT_NONE];
    const bt_pkg_inst *code = bt_pkg_code(p, program);
    for (uint32_t n = 0; n < bt_pkg_programs(p)[program].insts; n++)
        bytes = bt_time_plus(bytes, bt_plan_spilled(p, program, &code[n], longest->ctx));
    return bytes;
}
