/* From a GGUF file to a model that is safe to run: hyper-parameters in range, every tensor there with the
 * right shape, and nothing in the file that would change the arithmetic without our knowing. A model that
 * cannot run as its authors meant is refused by name; nothing is guessed. */
#include "model/model.h"
#include "model/gguf.h"

#include "base/hash.h"
#include "base/num.h"
#include "model/hub.h"
#include "model/model_id.h"
#include "model/quant.h"
#include "model/store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_CHARS = 96, SHOWN_CHARS = 41, LAYER_MADE = 5 }; /* of a layer: q, k, v, gate, up; or two norms */
enum { GEMMA2_27B_LAYERS = 46, GEMMA3_27B_LAYERS = 62 };

typedef struct loading {
    const bt_gguf *g;
    const bt_arch_info *arch;
    bt_model *m;
    bool *known;         /* [tensor_count]: tensors that have found their place */
    size_t made, joined; /* of m->made; norms in m->joined */
    bt_fault *fault;
} loading;

/* ---- hyper-parameters ---- */

static void key_of(char key[KEY_CHARS], const loading *l, const char *suffix)
{
    snprintf(key, KEY_CHARS, "%s.%s", l->arch->name, suffix);
}

/* dflt 0: the key is required. */
static bt_err read_count(uint32_t *ret, const loading *l, const char *suffix, uint64_t dflt, uint32_t max)
{
    char key[KEY_CHARS];
    key_of(key, l, suffix);
    uint64_t v;
    const bt_err e =
        dflt ? bt_gguf_u64_or(&v, l->g, key, dflt, l->fault) : bt_gguf_require_u64(&v, l->g, key, l->fault);
    if (e < 0) return e;
    if (v == 0 || v > max)
        return bt_fail(l->fault, v ? BT_ELIMIT : BT_EFORMAT, "%s is %llu; 1 to %u is allowed", key,
                       (unsigned long long)v, max);
    *ret = (uint32_t)v;
    return BT_OK;
}

/* A finite number in (0, max]. dflt 0: the key is required. */
static bt_err read_positive(float *ret, const loading *l, const char *suffix, float dflt, float max)
{
    char key[KEY_CHARS];
    key_of(key, l, suffix);
    float v;
    const bt_err e = dflt > 0.0f ? bt_gguf_f32_or(&v, l->g, key, dflt, l->fault)
                                 : bt_gguf_require_f32(&v, l->g, key, l->fault);
    if (e < 0) return e;
    if (!(v > 0.0f && v <= max))
        return bt_fail(l->fault, BT_EFORMAT, "%s is %g; a number above 0 and up to %g is needed", key,
                       (double)v, (double)max);
    *ret = v;
    return BT_OK;
}

/* The beginning of a string of the file, safe for messages and terminals. */
static const char *show(char shown[SHOWN_CHARS], bt_gguf_str s)
{
    size_t n = 0;
    for (; n < s.len && n < SHOWN_CHARS - 1; n++)
        shown[n] = s.ptr[n] >= 0x20 && s.ptr[n] < 0x7f ? s.ptr[n] : '?';
    shown[n] = 0;
    return shown;
}

static bt_err find_arch(loading *l)
{
    bt_gguf_str s;
    const bt_err e = bt_gguf_require_str(&s, l->g, "general.architecture", l->fault);
    if (e < 0) return e;
    char shown[SHOWN_CHARS], names[BT_ARCH_MAX_TEXT];
    l->arch = bt_arch_find(&l->m->hp.arch, s.ptr, s.len);
    if (l->arch) return BT_OK;
    bt_arch_names(names);
    return bt_fail(l->fault, BT_EVERSION, "architecture '%s' is not supported; this build runs %s",
                   show(shown, s), names);
}

/* Keys that change the arithmetic in ways the graph does not have. Some are harmless at a neutral value. */
static bt_err refuse_unknown_maths(const loading *l)
{
    /* Readers disagree on what yarn_attn_factor replaces. */
    static const char *const never[] = {"attention.clamp_kqv",         "attention.max_alibi_bias",
                                        "attention.temperature_scale", "attention.temperature_length",
                                        "rope.dimension_sections",     "rope.scaling.yarn_attn_factor"};
    char key[KEY_CHARS];
    bt_err e;
    bool b;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        key_of(key, l, never[i]);
        if (bt_gguf_find_key(l->g, key) >= 0)
            return bt_fail(l->fault, BT_EVERSION, "the file asks for %s, which this build does not implement",
                           key);
    }
    static const struct {
        const char *suffix;
        bool neutral;
    } flags[] = {
        {"attention.causal", true}, {"use_parallel_residual", false}, {"rope.scaling.finetuned", true}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        key_of(key, l, flags[i].suffix);
        if ((e = bt_gguf_bool_or(&b, l->g, key, flags[i].neutral, l->fault)) < 0) return e;
        if (b != flags[i].neutral)
            return bt_fail(l->fault, BT_EVERSION, "%s is %s, which this build does not implement", key,
                           b ? "true" : "false");
    }
    return BT_OK;
}

/* Rules of routers and kinds of experts that the graph does not have; each key is harmless up to `most`. */
static bt_err refuse_unknown_experts(const loading *l)
{
    static const struct {
        const char *suffix;
        double most;
    } keys[] = {{"expert_gating_func", 1}, /* 1: softmax */
                {"expert_weights_scale", 1},
                {"expert_shared_count", 0},
                {"expert_shared_feed_forward_length", 0},
                {"expert_group_count", 1},
                {"expert_group_used_count", 1},
                {"leading_dense_block_count", 0},
                {"interleave_moe_layer_step", 1},
                {"moe_every_n_layers", 1}};
    char key[KEY_CHARS];
    double v = 0;
    bool is_normed;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        key_of(key, l, keys[i].suffix);
        if (bt_gguf_find_key(l->g, key) < 0) continue;
        const bt_err e = bt_gguf_require_number(&v, l->g, key, l->fault);
        if (e < 0) return e;
        if (v != 0 && v != keys[i].most)
            return bt_fail(l->fault, BT_EVERSION, "%s is %g, which this build does not implement", key, v);
    }
    key_of(key, l, "expert_weights_norm");
    const bt_err e = bt_gguf_bool_or(&is_normed, l->g, key, true, l->fault);
    if (e < 0 || is_normed) return e;
    return bt_fail(l->fault, BT_EVERSION, "%s is false, which this build does not implement", key);
}

/* An expert's width is expert_feed_forward_length, or the one that all blocks have. */
static bt_err read_experts(const loading *l)
{
    bt_hparams *hp = &l->m->hp;
    char key[KEY_CHARS];
    uint64_t n;
    key_of(key, l, "expert_count");
    bt_err e = bt_gguf_u64_or(&n, l->g, key, 0, l->fault);
    if (e < 0) return e;
    if (n > 0 && l->arch->experts == BT_ARCH_NEVER)
        return bt_fail(l->fault, BT_EVERSION, "%s is %llu: mixtures of experts of %s are not supported", key,
                       (unsigned long long)n, l->arch->name);
    const bool is_mixed = n > 0 || l->arch->experts == BT_ARCH_ALWAYS;
    if (is_mixed &&
        ((e = read_count(&hp->experts, l, "expert_count", 0, BT_MODEL_MAX_EXPERTS)) < 0 ||
         (e = read_count(&hp->experts_used, l, "expert_used_count", 0, BT_MODEL_MAX_EXPERTS_USED)) < 0 ||
         (e = refuse_unknown_experts(l)) < 0))
        return e;
    if (hp->experts_used > hp->experts)
        return bt_fail(l->fault, BT_EFORMAT, "%s.expert_used_count is %u of %u experts", l->arch->name,
                       hp->experts_used, hp->experts);
    key_of(key, l, "expert_feed_forward_length");
    const bool has_width = is_mixed && bt_gguf_find_key(l->g, key) >= 0;
    return read_count(&hp->ffn, l, has_width ? "expert_feed_forward_length" : "feed_forward_length", 0,
                      BT_MODEL_MAX_FFN);
}

static bool str_is(bt_gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* Keys of yarn that say more than rope.h has, unless they say what it has anyway. */
static bt_err check_yarn_keys(const loading *l)
{
    static const struct {
        const char *suffix;
        float neutral;
    } keys[] = {{"rope.scaling.yarn_ext_factor", 1.0f}, {"rope.scaling.yarn_log_multiplier", 0.0f}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[KEY_CHARS];
        float v;
        key_of(key, l, keys[i].suffix);
        const bt_err e = bt_gguf_f32_or(&v, l->g, key, keys[i].neutral, l->fault);
        if (e < 0) return e;
        if (!(v == keys[i].neutral))
            return bt_fail(l->fault, BT_EVERSION, "%s is %g; this build implements yarn with %g", key,
                           (double)v, (double)keys[i].neutral);
    }
    return BT_OK;
}

static bt_err read_yarn(float *ret_factor, const loading *l)
{
    bt_hparams *hp = &l->m->hp;
    bt_rope *r = &hp->rope;
    bt_err e;
    if ((e = read_positive(ret_factor, l, "rope.scaling.factor", 0, 1e6f)) < 0 ||
        (e = read_count(&r->original_ctx, l, "rope.scaling.original_context_length", 0, BT_MODEL_MAX_CTX)) <
            0 ||
        (e = read_positive(&r->beta_fast, l, "rope.scaling.yarn_beta_fast", 32.0f, 1e6f)) < 0 ||
        (e = read_positive(&r->beta_slow, l, "rope.scaling.yarn_beta_slow", 1.0f, 1e6f)) < 0 ||
        (e = check_yarn_keys(l)) < 0)
        return e;
    r->is_exact = l->arch->yarn == BT_ARCH_EXACT;
    if (r->beta_fast <= r->beta_slow)
        return bt_fail(l->fault, BT_EFORMAT,
                       "%s.rope.scaling.yarn_beta_fast is %g; more than yarn_beta_slow, %g, "
                       "is needed",
                       l->arch->name, (double)r->beta_fast, (double)r->beta_slow);
    if (hp->rope_base <= 1.0f)
        return bt_fail(l->fault, BT_EFORMAT, "%s.rope.freq_base is %g; yarn needs more than 1", l->arch->name,
                       (double)hp->rope_base);
    r->magnitude = (float)((double)r->magnitude * bt_rope_yarn_magnitude((double)*ret_factor));
    return BT_OK;
}

/* The factors are tensors; readers disagree on the meaning of a single factor beside them, so it is refused.
 */
static bt_err read_longrope(float *ret_factor, const loading *l)
{
    bt_err e = read_count(&l->m->hp.rope.original_ctx, l, "rope.scaling.original_context_length", 0,
                          BT_MODEL_MAX_CTX);
    if (e == BT_OK) e = read_positive(ret_factor, l, "rope.scaling.factor", 1.0f, 1e6f);
    if (e == BT_OK && *ret_factor != 1.0f)
        return bt_fail(l->fault, BT_EVERSION,
                       "%s.rope.scaling.factor is %g beside longrope, whose factors are "
                       "tensors; 1 or no such key is needed",
                       l->arch->name, (double)*ret_factor);
    return e;
}

/* A factor without a type is linear, as the format's first implementation reads it; so is the older key
 * rope.scale_linear. Tensors of factors without a type are longrope's, as phi3's files have them. */
static bt_err read_rope_scaling(const loading *l)
{
    bt_hparams *hp = &l->m->hp;
    char key[KEY_CHARS], shown[SHOWN_CHARS];
    bt_gguf_str type;
    float factor = 1.0f;
    int kind = BT_ROPE_KINDS;
    key_of(key, l, "rope.scaling.type");
    const bool has_factors = bt_gguf_find_tensor(l->g, "rope_factors_long.weight") != NULL;
    bt_err e = bt_gguf_str_or(&type, l->g, key, has_factors ? "longrope" : "linear", l->fault);
    if (e < 0) return e;
    while (kind > 0 && !str_is(type, bt_rope_names[kind - 1])) kind--;
    if (kind-- == 0)
        return bt_fail(
            l->fault, BT_EVERSION,
            "%s is '%s'; this build implements none, linear, yarn and longrope, and llama3 as the tensor "
            "rope_freqs.weight",
            key, show(shown, type));
    hp->rope.kind = (bt_rope_kind)kind;
    if ((e = read_positive(&hp->rope.magnitude, l, "rope.scaling.attn_factor", 1.0f, 1e3f)) < 0) return e;
    if (kind == BT_ROPE_YARN) e = read_yarn(&factor, l);
    else if (kind == BT_ROPE_LONG) e = read_longrope(&factor, l);
    else if (kind == BT_ROPE_LINEAR &&
             (e = read_positive(&factor, l, "rope.scale_linear", 1.0f, 1e6f)) == BT_OK)
        e = read_positive(&factor, l, "rope.scaling.factor", factor, 1e6f);
    hp->rope_scale = 1.0f / factor;
    if (hp->rope.kind == BT_ROPE_LINEAR && factor == 1.0f) hp->rope.kind = BT_ROPE_NONE;
    return e;
}

/* Multipliers and soft caps. A file that has one is refused where the architecture has none. */
static bt_err read_multipliers(const loading *l)
{
    bt_hparams *hp = &l->m->hp;
    bt_multipliers *t = &hp->times;
    const bool has_keys = l->arch->multipliers == BT_ARCH_KEYS,
               is_root = l->arch->multipliers == BT_ARCH_ROOT, has_caps = l->arch->scores == BT_ARCH_CAPPED;
    float divisor = 0;
    const struct {
        const char *suffix;
        float *ret;
        bool is_known, is_needed;
    } keys[] = {{"attention.scale", &t->scores, has_keys || is_root, false},
                {"embedding_scale", &t->embed, has_keys, false},
                {"residual_scale", &t->add, has_keys, false},
                {"logit_scale", &divisor, has_keys, false},
                {"attn_logit_softcapping", &hp->score_cap, has_caps, has_caps},
                {"final_logit_softcapping", &hp->logit_cap, has_caps, has_caps}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[KEY_CHARS];
        key_of(key, l, keys[i].suffix);
        if (bt_gguf_find_key(l->g, key) < 0 && !keys[i].is_needed) continue;
        if (!keys[i].is_known)
            return bt_fail(l->fault, BT_EVERSION, "the file asks for %s, which this build does not implement",
                           key);
        const bt_err e = read_positive(keys[i].ret, l, keys[i].suffix, 0, 1e6f);
        if (e < 0) return e;
    }
    if (divisor > 0) t->logits = 1.0f / divisor;
    if (is_root) t->embed = sqrtf((float)hp->dim);
    const bool is_large = (hp->arch == BT_ARCH_GEMMA3 && hp->layers == GEMMA3_27B_LAYERS) ||
                          (hp->arch == BT_ARCH_GEMMA2 && hp->layers == GEMMA2_27B_LAYERS);
    if (is_large && !(t->scores > 0))
        t->scores = 1.0f / sqrtf((float)(hp->dim / hp->heads)); /* no key says so */
    return BT_OK;
}

/* Window layers and their rotary base, where the architecture has windows; a file that asks another one for a
 * window below its context is refused. */
static bt_err read_windows(const loading *l)
{
    bt_hparams *hp = &l->m->hp;
    uint64_t window, every;
    char key[KEY_CHARS];
    key_of(key, l, "attention.sliding_window_pattern");
    bt_err e = bt_gguf_u64_or(&every, l->g, key, l->arch->windows, l->fault);
    if (e == BT_OK && (every != l->arch->windows || (every == 1 && bt_gguf_find_key(l->g, key) >= 0)))
        return bt_fail(l->fault, BT_EVERSION, "%s is %llu; this build implements %s with %u", key,
                       (unsigned long long)every, l->arch->name, l->arch->windows);
    key_of(key, l, "attention.sliding_window");
    if (e == BT_OK) e = bt_gguf_u64_or(&window, l->g, key, 0, l->fault);
    if (e < 0) return e;
    if (every > 1 && (window == 0 || window > BT_MODEL_MAX_CTX))
        return bt_fail(l->fault, BT_EFORMAT, "%s is %llu; 1 to %d is allowed", key,
                       (unsigned long long)window, BT_MODEL_MAX_CTX);
    if (every <= 1 && (window == 0 || window >= hp->ctx)) return BT_OK;
    if (every == 0)
        return bt_fail(l->fault, BT_EVERSION,
                       "%s is %llu, below the context of %u: windows of %s are not supported", key,
                       (unsigned long long)window, hp->ctx, l->arch->name);
    hp->window = (uint32_t)window;
    hp->global_every = every > 1 ? (uint32_t)every : 0;
    key_of(key, l, "rope.freq_base_swa");
    const float base = l->arch->window_base;
    if (base > 0) return read_positive(&hp->window_rope_base, l, "rope.freq_base_swa", base, 1e12f);
    if (bt_gguf_find_key(l->g, key) < 0) return BT_OK;
    return bt_fail(l->fault, BT_EVERSION, "the file asks for %s, which this build does not implement", key);
}

static bt_err read_hparams(loading *l)
{
    bt_hparams *hp = &l->m->hp;
    uint32_t value_dim;
    bt_err e;
    if ((e = read_count(&hp->layers, l, "block_count", 0, BT_MODEL_MAX_LAYERS)) < 0 ||
        (e = read_count(&hp->dim, l, "embedding_length", 0, BT_MODEL_MAX_DIM)) < 0 ||
        (e = read_experts(l)) < 0 ||
        (e = read_count(&hp->heads, l, "attention.head_count", 0, BT_MODEL_MAX_HEADS)) < 0 ||
        (e = read_count(&hp->kv_heads, l, "attention.head_count_kv", hp->heads, BT_MODEL_MAX_HEADS)) < 0 ||
        (e = read_count(&hp->ctx, l, "context_length", 0, BT_MODEL_MAX_CTX)) < 0 ||
        (e = read_positive(&hp->rms_eps, l,
                           l->arch->norm == BT_ARCH_MEAN ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon",
                           0, 1.0f)) < 0 ||
        (e = read_positive(&hp->rope_base, l, "rope.freq_base", 10000.0f, 1e12f)) < 0)
        return e;
    if (hp->heads % hp->kv_heads)
        return bt_fail(l->fault, BT_EFORMAT, "%u heads cannot share %u kv heads evenly", hp->heads,
                       hp->kv_heads);
    const uint32_t split = hp->dim / hp->heads;
    if ((e = read_count(&hp->head_dim, l, "attention.key_length", split, BT_MODEL_MAX_HEAD_DIM)) < 0 ||
        (e = read_count(&value_dim, l, "attention.value_length", split, BT_MODEL_MAX_HEAD_DIM)) < 0 ||
        (e = read_count(&hp->rope_dims, l, "rope.dimension_count", hp->head_dim, BT_MODEL_MAX_HEAD_DIM)) < 0)
        return e;
    if (hp->head_dim != value_dim)
        return bt_fail(l->fault, BT_EVERSION,
                       "keys of %u elements and values of %u: different lengths are not supported",
                       hp->head_dim, value_dim);
    if (hp->rope_dims % 2 || hp->rope_dims > hp->head_dim)
        return bt_fail(l->fault, BT_EFORMAT,
                       "%s.rope.dimension_count is %u; an even number up to the head's %u is needed",
                       l->arch->name, hp->rope_dims, hp->head_dim);
    hp->rope_neox = l->arch->pairs == BT_ARCH_HALVES;
    hp->qk_norm = l->arch->qk_norm != BT_ARCH_NONE;
    if ((e = read_rope_scaling(l)) < 0 || (e = read_multipliers(l)) < 0 || (e = read_windows(l)) < 0)
        return e;
    return refuse_unknown_maths(l);
}

/* ---- tensors ---- */

/* The tensor of this name and shape [rows, cols] (rows 0: one dimension of cols). NULL in *ret where it may
 * be missing. */
static bt_err find(const bt_gguf_tensor **ret, loading *l, const char *name, size_t cols, size_t rows,
                   bool optional)
{
    const bt_gguf_tensor *t = bt_gguf_find_tensor(l->g, name);
    if (!t) {
        *ret = NULL;
        return optional ? BT_OK : bt_fail(l->fault, BT_EFORMAT, "the file has no tensor '%s'", name);
    }
    const bool shape_ok = t->n_dims < 3 && t->dim[0] == cols && t->rows == (rows ? rows : 1) &&
                          (rows ? t->dim[1] == rows : t->n_dims == 1);
    if (!shape_ok)
        return bt_fail(l->fault, BT_EFORMAT, "tensor '%s' has the shape %llu x %zu; %zu x %zu is needed",
                       name, (unsigned long long)t->dim[0], t->rows, cols, rows ? rows : 1);
    l->known[t - bt_gguf_tensor_at(l->g, 0)] = true;
    *ret = t;
    return BT_OK;
}

/* The router and the matrices of a layer's experts. */
static bt_err find_experts(loading *l, uint32_t i)
{
    const bt_hparams *hp = &l->m->hp;
    bt_layer_tensors *x = &l->m->layer[i];
    const struct {
        const char *suffix;
        const bt_gguf_tensor **ret;
        size_t cols, rows;
    } want[] = {{"ffn_gate_exps.weight", &x->w_gate, hp->dim, hp->ffn},
                {"ffn_up_exps.weight", &x->w_up, hp->dim, hp->ffn},
                {"ffn_down_exps.weight", &x->w_down, hp->ffn, hp->dim}},
      biases[] = {{"ffn_gate_inp.bias", &x->b_router, hp->experts, 0},
                  {"ffn_gate_exps.bias", &x->b_gate, hp->ffn, hp->experts},
                  {"ffn_up_exps.bias", &x->b_up, hp->ffn, hp->experts},
                  {"ffn_down_exps.bias", &x->b_down, hp->dim, hp->experts}};
    const bool has_biases = l->arch->biases == BT_ARCH_ALL;
    char name[KEY_CHARS];
    snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", i);
    bt_err e = find(&x->router, l, name, hp->dim, hp->experts, false);
    for (size_t k = 0; e == BT_OK && has_biases && k < sizeof biases / sizeof *biases; k++) {
        snprintf(name, sizeof name, "blk.%u.%s", i, biases[k].suffix);
        e = find(biases[k].ret, l, name, biases[k].cols, biases[k].rows, false);
    }
    for (size_t k = 0; e == BT_OK && k < sizeof want / sizeof *want; k++) {
        snprintf(name, sizeof name, "blk.%u.%s", i, want[k].suffix);
        const bt_gguf_tensor *t = bt_gguf_find_tensor(l->g, name);
        if (!t) return bt_fail(l->fault, BT_EFORMAT, "the file has no tensor '%s'", name);
        if (t->dim[0] != want[k].cols || t->dim[1] != want[k].rows || t->dim[2] != hp->experts ||
            t->dim[3] != 1)
            return bt_fail(l->fault, BT_EFORMAT,
                           "tensor '%s' has the shape %llu x %llu x %llu; %zu x %zu x %u is needed", name,
                           (unsigned long long)t->dim[0], (unsigned long long)t->dim[1],
                           (unsigned long long)t->dim[2], want[k].cols, want[k].rows, hp->experts);
        l->known[t - bt_gguf_tensor_at(l->g, 0)] = true;
        *want[k].ret = t;
    }
    return e;
}

/* Rows [first, first + rows) of a tensor, as one of its own. */
static const bt_gguf_tensor *part_of(loading *l, const bt_gguf_tensor *whole, size_t first, size_t rows)
{
    bt_gguf_tensor *t = &l->m->made[l->made++];
    *t = *whole;
    t->dim[1] = t->rows = rows;
    t->bytes = rows * t->row_bytes;
    if (t->data) t->data += first * t->row_bytes; /* NULL: the file ends behind its header */
    return t;
}

/* The norm with its bias behind its weights, as one tensor in f32. bias NULL: as it is. */
static const bt_gguf_tensor *joined(loading *l, const bt_gguf_tensor *norm, const bt_gguf_tensor *bias)
{
    const size_t n = l->m->hp.dim;
    if (!norm || !bias) return norm;
    bt_gguf_tensor *t = &l->m->made[l->made++];
    float *at = l->m->joined + 2 * n * l->joined++;
    *t = *norm;
    t->type = BT_QUANT_F32;
    t->dim[0] = 2 * n;
    t->bytes = t->row_bytes = 2 * n * sizeof *at;
    if (!norm->data || !bias->data) return t; /* the file ends behind its header */
    bt_model_row_f32(at, norm, 0);
    bt_model_row_f32(at + n, bias, 0);
    t->data = (const uint8_t *)at;
    return t;
}

/* Matrices that the file has as one, from its first row on. */
static bt_err find_fused(loading *l, uint32_t i)
{
    const bt_hparams *hp = &l->m->hp;
    bt_layer_tensors *x = &l->m->layer[i];
    const size_t q = (size_t)hp->heads * hp->head_dim, kv = (size_t)hp->kv_heads * hp->head_dim;
    const bt_gguf_tensor *qkv, *gate_up;
    char name[KEY_CHARS];
    snprintf(name, sizeof name, "blk.%u.attn_qkv.weight", i);
    bt_err e = find(&qkv, l, name, hp->dim, q + 2 * kv, false);
    snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
    if (e == BT_OK) e = find(&gate_up, l, name, hp->dim, 2 * (size_t)hp->ffn, false);
    if (e < 0) return e;
    x->wq = part_of(l, qkv, 0, q);
    x->wk = part_of(l, qkv, q, kv);
    x->wv = part_of(l, qkv, q + kv, kv);
    x->w_gate = part_of(l, gate_up, 0, hp->ffn);
    x->w_up = part_of(l, gate_up, hp->ffn, hp->ffn);
    return BT_OK;
}

static bt_err check_biases(loading *l, uint32_t i)
{
    const bt_layer_tensors *x = &l->m->layer[i];
    const int biases = (x->bq != NULL) + (x->bk != NULL) + (x->bv != NULL);
    const bool same = biases == 0 || biases == 3;
    if (i == 0) l->m->hp.qkv_bias = biases == 3;
    if (!same || l->m->hp.qkv_bias != (biases == 3))
        return bt_fail(l->fault, BT_EFORMAT,
                       "layer %u has %d of the q, k and v biases; every layer needs all or none", i, biases);
    return BT_OK;
}

static bt_err find_layer(loading *l, uint32_t i)
{
    const bt_hparams *hp = &l->m->hp;
    bt_layer_tensors *x = &l->m->layer[i];
    const size_t d = hp->dim, f = hp->ffn, e_dim = hp->head_dim, q = (size_t)hp->heads * e_dim,
                 kv = (size_t)hp->kv_heads * e_dim;
    const bool no_norm = !hp->qk_norm, maybe_bias = l->arch->biases == BT_ARCH_MAYBE,
               is_both = l->arch->norms == BT_ARCH_BOTH, has_sinks = l->arch->scores == BT_ARCH_SINKS,
               by_row = l->arch->qk_norm == BT_ARCH_ROWS, has_biases = l->arch->biases != BT_ARCH_NEVER,
               is_fused = l->arch->matrices == BT_ARCH_FUSED, has_parts = is_fused || hp->experts > 0,
               of_rest = l->arch->biases == BT_ARCH_ALL, no_gate = has_parts || !bt_arch_is_gated(hp->arch),
               by_mean = l->arch->norm == BT_ARCH_MEAN, no_bias = !of_rest || hp->experts > 0;
    const bt_gguf_tensor *attn_bias = NULL, *ffn_bias = NULL;
    char attn_norm[KEY_CHARS], ffn_norm[KEY_CHARS];
    snprintf(attn_norm, sizeof attn_norm, "%s.weight", l->arch->attn_norm);
    snprintf(ffn_norm, sizeof ffn_norm, "%s.weight", l->arch->ffn_norm);
    struct {
        const char *suffix;
        const bt_gguf_tensor **ret;
        size_t cols, rows;
        bool optional, is_absent;
    } want[] = {
        {attn_norm, &x->attn_norm, d, 0, false, false},
        {"attn_norm.bias", &attn_bias, d, 0, false, !by_mean},
        {"attn_q.weight", &x->wq, d, q, false, is_fused},
        {"attn_k.weight", &x->wk, d, kv, false, is_fused},
        {"attn_v.weight", &x->wv, d, kv, false, is_fused},
        {"attn_q.bias", &x->bq, q, 0, maybe_bias, !has_biases},
        {"attn_k.bias", &x->bk, kv, 0, maybe_bias, !has_biases},
        {"attn_v.bias", &x->bv, kv, 0, maybe_bias, !has_biases},
        {"attn_q_norm.weight", &x->q_norm, by_row ? q : e_dim, 0, no_norm, false},
        {"attn_k_norm.weight", &x->k_norm, by_row ? kv : e_dim, 0, no_norm, false},
        {"attn_output.weight", &x->wo, q, d, false, false},
        {"attn_output.bias", &x->bo, d, 0, false, !of_rest},
        {"attn_sinks.weight", &x->sinks, hp->heads, 0, false, !has_sinks},
        {ffn_norm, &x->ffn_norm, d, 0, false, false},
        {"ffn_norm.bias", &ffn_bias, d, 0, false, !by_mean},
        {"ffn_gate.weight", &x->w_gate, d, f, false, no_gate},
        {"ffn_up.weight", &x->w_up, d, f, false, has_parts},
        {"ffn_up.bias", &x->b_up, f, 0, false, no_bias},
        {"ffn_down.weight", &x->w_down, f, d, false, hp->experts > 0},
        {"ffn_down.bias", &x->b_down, d, 0, false, no_bias},
        {"post_attention_norm.weight", &x->attn_post_norm, d, 0, false, !is_both},
        {"post_ffw_norm.weight", &x->ffn_post_norm, d, 0, false, !is_both},
    };
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        char name[KEY_CHARS];
        if (want[k].is_absent) continue;
        snprintf(name, sizeof name, "blk.%u.%s", i, want[k].suffix);
        const bt_err e = find(want[k].ret, l, name, want[k].cols, want[k].rows, want[k].optional);
        if (e < 0) return e;
    }
    if (no_norm && (x->q_norm || x->k_norm))
        return bt_fail(l->fault, BT_EVERSION, "tensor 'blk.%u.attn_%c_norm.weight': %s has no such norm", i,
                       x->q_norm ? 'q' : 'k', l->arch->name);
    x->attn_norm = joined(l, x->attn_norm, attn_bias);
    x->ffn_norm = joined(l, x->ffn_norm, ffn_bias);
    bt_err e = is_fused ? find_fused(l, i) : BT_OK;
    if (e == BT_OK && hp->experts) e = find_experts(l, i);
    return e < 0 ? e : check_biases(l, i);
}

/* The factors of longrope for the file's own context; both tensors must be there. */
static bt_err find_rope_factors(loading *l)
{
    static const char *const names[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    bt_model *m = l->m;
    const bt_hparams *hp = &m->hp;
    const size_t pairs = hp->rope_dims / 2;
    if (hp->rope.kind != BT_ROPE_LONG) return find(&m->rope_freqs, l, "rope_freqs.weight", pairs, 0, true);
    const bt_gguf_tensor *t[2];
    for (int i = 0; i < 2; i++) {
        const bt_err e = find(&t[i], l, names[i], pairs, 0, false);
        if (e < 0) return e;
    }
    m->rope_freqs = t[hp->ctx > hp->rope.original_ctx];
    return BT_OK;
}

static bt_err find_tensors(loading *l)
{
    bt_model *m = l->m;
    bt_hparams *hp = &m->hp;
    const bt_gguf_tensor *t = bt_gguf_find_tensor(l->g, "token_embd.weight");
    if (t && (t->rows == 0 || t->rows > BT_MODEL_MAX_VOCAB))
        return bt_fail(l->fault, BT_ELIMIT, "a vocabulary of %zu; 1 to %d is allowed", t->rows,
                       BT_MODEL_MAX_VOCAB);
    hp->vocab = t ? (uint32_t)t->rows : 1;
    const bt_gguf_tensor *bias = NULL;
    const bool by_mean = l->arch->norm == BT_ARCH_MEAN;
    bt_err e;
    if ((e = find(&m->embed, l, "token_embd.weight", hp->dim, hp->vocab, false)) < 0 ||
        (e = find(&m->out_norm, l, "output_norm.weight", hp->dim, 0, false)) < 0 ||
        (by_mean && (e = find(&bias, l, "output_norm.bias", hp->dim, 0, false)) < 0) ||
        (e = find(&m->output, l, "output.weight", hp->dim, hp->vocab, true)) < 0 ||
        (e = find_rope_factors(l)) < 0)
        return e;
    m->out_norm = joined(l, m->out_norm, bias);
    hp->tied_output = m->output == NULL;
    if (hp->tied_output) m->output = m->embed;
    for (uint32_t i = 0; i < hp->layers; i++)
        if ((e = find_layer(l, i)) < 0) return e;
    for (size_t i = 0; i < bt_gguf_tensor_count(l->g); i++) {
        t = bt_gguf_tensor_at(l->g, i);
        if (!l->known[i])
            return bt_fail(l->fault, BT_EVERSION, "tensor '%s' has no place in the %s graph of %u layers",
                           t->name, l->arch->name, hp->layers);
        m->param_count += (uint64_t)t->rows * t->dim[0];
        m->weights_bytes += t->bytes;
    }
    return BT_OK;
}

/* The tokeniser's list, where there is one, must name every row of the embedding. */
static bt_err check_vocabulary(const loading *l)
{
    const bt_gguf_array *tokens;
    const bt_err e =
        bt_gguf_find_array(&tokens, l->g, "tokenizer.ggml.tokens", BT_GGUF_STRING, true, l->fault);
    if (e < 0) return e;
    if (tokens && bt_gguf_array_count(tokens) != l->m->hp.vocab)
        return bt_fail(l->fault, BT_EFORMAT,
                       "tokenizer.ggml.tokens lists %zu tokens; token_embd.weight has %u rows",
                       bt_gguf_array_count(tokens), l->m->hp.vocab);
    return BT_OK;
}

static bt_err check_rope_factors(const loading *l)
{
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                        "rope_factors_long.weight"};
    float factor[BT_MODEL_MAX_HEAD_DIM / 2];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const bt_gguf_tensor *t = bt_gguf_find_tensor(l->g, names[k]);
        if (!t) continue;
        bt_model_row_f32(factor, t, 0);
        for (size_t i = 0; i < t->dim[0]; i++)
            if (!(factor[i] > 0.0f && factor[i] <= 1e6f))
                return bt_fail(l->fault, BT_EFORMAT, "%s[%zu] is %g; a number above 0 is needed", names[k], i,
                               (double)factor[i]);
    }
    return BT_OK;
}

/* The norm before the output matrix, times the multiplier of the logits: it scales what the matrix reads. */
static bt_err scale_logits(loading *l)
{
    bt_model *m = l->m;
    const size_t n = (size_t)m->out_norm->dim[0];
    bt_gguf_tensor *t = &m->made[l->made++];
    m->scaled_norm = calloc(n, sizeof *m->scaled_norm);
    if (!m->scaled_norm) return bt_fail(l->fault, BT_ENOMEM, "out of memory for a norm");
    bt_model_row_f32(m->scaled_norm, m->out_norm, 0);
    for (size_t i = 0; i < n; i++) m->scaled_norm[i] *= m->hp.times.logits;
    *t = *m->out_norm;
    t->type = BT_QUANT_F32;
    t->data = (const uint8_t *)m->scaled_norm;
    t->bytes = t->row_bytes = n * sizeof *m->scaled_norm;
    m->out_norm = t;
    return BT_OK;
}

/* ---- the name ---- */

static bt_err take_name(const loading *l)
{
    bt_gguf_str s;
    const bt_err e = bt_gguf_str_or(&s, l->g, "general.name", l->arch->name, l->fault);
    if (e < 0) return e;
    size_t n = s.len < sizeof l->m->name ? s.len : sizeof l->m->name - 1;
    while (n < s.len && n > 0 && ((uint8_t)s.ptr[n] & 0xc0) == 0x80) /* never cut inside a UTF-8 character */
        n--;
    for (size_t i = 0; i < n; i++)
        l->m->name[i] = (uint8_t)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f ? '?' : s.ptr[i];
    return BT_OK;
}

/* ---- the door ---- */

static bt_err from_gguf(bt_model **ret, bt_gguf *g, bool is_head, bt_fault *fault)
{
    bt_err e;
    loading l = {.g = g, .fault = fault};
    l.m = calloc(1, sizeof *l.m);
    l.known = calloc(bt_gguf_tensor_count(g) + 1, sizeof *l.known);
    if (l.m) l.m->file = g;
    else bt_gguf_close(g);
    if (!l.m || !l.known) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the model");
        goto out;
    }
    if ((e = find_arch(&l)) < 0 || (e = read_hparams(&l)) < 0) goto out;
    l.m->layer = calloc(l.m->hp.layers, sizeof *l.m->layer);
    l.m->made = calloc((size_t)l.m->hp.layers * LAYER_MADE + 2, sizeof *l.m->made);
    if (l.arch->norm == BT_ARCH_MEAN)
        l.m->joined = calloc(2 * (2 * (size_t)l.m->hp.layers + 1) * l.m->hp.dim, sizeof *l.m->joined);
    if (!l.m->layer || !l.m->made || (l.arch->norm == BT_ARCH_MEAN && !l.m->joined)) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for %u layers", l.m->hp.layers);
        goto out;
    }
    if ((e = find_tensors(&l)) < 0 || (e = check_vocabulary(&l)) < 0 || (e = take_name(&l)) < 0) goto out;
    if (!is_head && ((e = check_rope_factors(&l)) < 0 || (e = bt_model_id_find(l.m, fault)) < 0)) goto out;
    if (!is_head && l.m->hp.times.logits > 0 && (e = scale_logits(&l)) < 0) goto out;
    *ret = l.m;
out:
    free(l.known);
    if (e < 0) bt_model_close(l.m);
    return e;
}

bt_err bt_model_from_gguf(bt_model **ret, bt_gguf *g, bt_fault *fault)
{
    return from_gguf(ret, g, false, fault);
}

bt_err bt_model_head_from_gguf(bt_model **ret, bt_gguf *g, bt_fault *fault)
{
    return from_gguf(ret, g, true, fault);
}

static bt_err open_path(bt_model **ret, const char *path, bool is_head, bt_fault *fault)
{
    bt_gguf *g;
    bt_err e = is_head ? bt_gguf_open_head(&g, path, fault) : bt_gguf_open(&g, path, fault);
    if (e < 0) return e;
    bt_fault why = {""};
    e = is_head ? bt_model_head_from_gguf(ret, g, &why) : bt_model_from_gguf(ret, g, &why);
    if (e < 0) {
        const char *slash = strrchr(path, '/');
        bt_fail(fault, e, "%.60s: %.180s", slash ? slash + 1 : path, why.text);
    }
    return e;
}

bt_err bt_model_open(bt_model **ret, const char *path, bt_fault *fault)
{
    return open_path(ret, path, false, fault);
}

bt_err bt_model_open_head(bt_model **ret, const char *path, bt_fault *fault)
{
    return open_path(ret, path, true, fault);
}

void bt_model_close(bt_model *m)
{
    if (!m) return;
    bt_gguf_close(m->file);
    free(m->made);
    free(m->scaled_norm);
    free(m->joined);
    free(m->layer);
    free(m);
}

bt_err bt_model_find(char *ret, size_t cap, const char *name, bt_fault *fault)
{
    char path[4096];
    bool is_known;
    if (bt_hub_is_ref(name)) return bt_hub_find(ret, cap, name, fault);
    const bt_err e = bt_store_resolve(path, sizeof path, &is_known, name, fault);
    if (e < 0) return e;
    if (access(path, R_OK) < 0)
        return is_known
                   ? bt_fail(fault, BT_EIO,
                             "the model %.60s is not at %.100s (%s): run 'baton pull %.60s' to fetch it",
                             name, path, strerror(errno), name)
                   : bt_fail(fault, BT_EIO, "no model file %.150s: %s ('baton list' has the known names)",
                             name, strerror(errno));
    if (strlen(path) >= cap) return bt_fail(fault, BT_ELIMIT, "the path of model %.60s is too long", name);
    memcpy(ret, path, strlen(path) + 1);
    return BT_OK;
}
