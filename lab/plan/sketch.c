/* Sizes as a model without a file, and what the compiler's sketch of it says. */
#include "lab/plan/sketch.h"
#include "model/model.h"
#include "npu/compile/compile.h"
#include "npu/lower/offload.h"
#include "npu/lower/plan.h"

/* Parameters beyond the sizes change no program. */
static bt_hparams hparams_of(const bt_dims *s)
{
    return (bt_hparams){.arch = s->has_qk_norm    ? BT_ARCH_QWEN3
                                : s->has_qkv_bias ? BT_ARCH_QWEN2
                                                  : BT_ARCH_LLAMA,
                        .layers = s->layers,
                        .dim = s->hidden,
                        .ffn = s->ffn,
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
                        .qk_norm = s->has_qk_norm};
}

bt_err tool_plan_sketch_check(const bt_profile *p, const bt_dims *s, const bt_recipe *r, bt_fault *fault)
{
    char why[96];
    bt_err e = bt_recipe_check_layers(r, s->layers, fault);
    for (uint32_t i = 0; e == BT_OK && i < s->layers * BT_SITE_KINDS; i++) {
        const bt_site_kind site = (bt_site_kind)(i % BT_SITE_KINDS);
        const bt_recipe_layer *own = bt_recipe_of(r, i / BT_SITE_KINDS, site);
        const uint32_t inputs = bt_pkg_site_width(site, s->hidden, s->heads * s->head_dim, s->ffn);
        e = bt_recipe_check_group(own, site, inputs, fault);
        if (e == BT_OK && !bt_offload_linear(why, p, own, site, inputs))
            e = bt_fail(fault, BT_EARG, "the linears '%s' would not run on the NPU: %s",
                        bt_site_kind_name(site), why);
    }
    return e;
}

bt_err tool_plan_sketch(bt_pkg **ret, const tool_plan_sketch_want *w, bt_fault *fault)
{
    const bt_hparams hp = hparams_of(w->dims);
    const bt_compile_options o = {.recipe = *w->recipe,  .attention = *w->attention,
                                  .shapes = w->shapes,   .profile = w->profile,
                                  .npu_ops = w->npu_ops, .ctx_tokens = w->ctx_tokens};
    bt_model *m = NULL;
    if (w->dims->experts || w->dims->latent_rank)
        return bt_fail(fault, BT_EARG, "'%.60s' has %s, and programs are compiled of models without",
                       w->dims->name, w->dims->experts ? "experts" : "a latent for K and V (kv_lora_rank)");
    if (w->dims->ffn_matrices != 3)
        return bt_fail(
            fault, BT_EARG,
            "'%.60s' has a feed-forward block of %u matrices, and programs are compiled of gated ones, "
            "which have 3",
            w->dims->name, w->dims->ffn_matrices);
    bt_err e = bt_model_of_sizes(&m, &hp, w->dims->name, fault);
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
