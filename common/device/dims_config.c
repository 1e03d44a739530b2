/* A config.json: strict about the numbers that decide costs, silent about all others. jansson decides what is
 * JSON. */
#include "device/dims.h"
#include "base/buf.h"
#include "base/file.h"
#include "device/profile_number.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_HIDDEN = 1 << 17,
    MAX_FFN = 1 << 20,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_VOCAB = 1 << 22,
    MAX_CTX = 1 << 24,
    MAX_EXPERTS = 4096,
    MAX_SHARED = 256,
    MAX_RANK = 1 << 16
};

/* Traits of a model_type that no field says. */
typedef struct type {
    const char *name;
    bool is_plain, has_bias, has_norm, is_tied;
    uint32_t pattern; /* every so many layers one sees all positions, where there is a window; 0: none does */
} type;
static const type types[] = {
    {.name = "llama"},
    {.name = "mistral"},
    {.name = "mixtral"},
    {.name = "mllama_text_model"},
    {.name = "mllama"},
    {.name = "qwen2", .has_bias = true},
    {.name = "qwen2_moe", .has_bias = true},
    {.name = "qwen3", .has_norm = true},
    {.name = "qwen3_moe", .has_norm = true},
    {.name = "hunyuan_v1_dense", .has_norm = true},
    {.name = "gemma", .is_tied = true},
    {.name = "gemma2", .is_tied = true, .pattern = 2},
    {.name = "gemma3", .has_norm = true, .is_tied = true, .pattern = 6},
    {.name = "gemma3_text", .has_norm = true, .is_tied = true, .pattern = 6},
    {.name = "phi", .is_plain = true, .has_bias = true},
    {.name = "phi3"},
    {.name = "phimoe"},
    {.name = "opt", .is_plain = true, .has_bias = true, .is_tied = true},
    {.name = "gpt_oss", .pattern = 2},
    {.name = "deepseek_v2"},
    {.name = "deepseek_v3"},
    {.name = "internlm3"},
};

typedef struct reader {
    const json_t *root, *text; /* equal where nothing is nested */
    const type *type;
    bt_fault *fault;
} reader;

static const json_t *field(const reader *r, const char *name)
{
    const json_t *v = json_object_get(r->text, name);
    if (!v) v = json_object_get(r->root, name);
    return json_is_null(v) ? NULL : v;
}

/* Not there, false, 0 and empty are one to a file. */
static bool is_set(const json_t *v)
{
    if (json_is_integer(v)) return json_integer_value(v) != 0;
    if (json_is_array(v)) return json_array_size(v) > 0;
    return v && !json_is_false(v);
}

static bt_err missing(const reader *r, const char *name)
{
    return bt_fail(r->fault, BT_EFORMAT, "field '%s'%s: is missing", name,
                   r->text == r->root ? "" : " of 'text_config'");
}

static bt_err number(uint32_t *ret, const reader *r, const char *name, uint32_t hi)
{
    const json_t *v = field(r, name);
    uint64_t n = 0;
    if (!v) return missing(r, name);
    const bt_err e = bt_profile_number(&n, v, name, 1, hi, r->fault);
    if (e == BT_OK) *ret = (uint32_t)n;
    return e;
}

/* `or_else` where the field is not there or 0. */
static bt_err number_or(uint32_t *ret, const reader *r, const char *name, uint32_t hi, uint32_t or_else)
{
    *ret = or_else;
    return is_set(field(r, name)) ? number(ret, r, name, hi) : BT_OK;
}

static bt_err truth_or(bool *ret, const reader *r, const char *name, bool or_else)
{
    const json_t *v = field(r, name);
    char is[BT_PROFILE_VALUE_BYTES];
    *ret = or_else;
    if (!v) return BT_OK;
    if (!json_is_boolean(v))
        return bt_fail(r->fault, BT_EFORMAT, "field '%s': is %s, and must be true or false", name,
                       bt_profile_value_text(is, v));
    *ret = json_is_true(v);
    return BT_OK;
}

/* ---- the architecture ---- */

static const type *type_of(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) return &types[i];
    return NULL;
}

/* "Qwen3MoeForCausalLM" is of "qwen3_moe". */
static const type *type_of_class(const char *name)
{
    const char *end = strstr(name, "For");
    const size_t n = end ? (size_t)(end - name) : strlen(name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *c = types[i].name;
        size_t k = 0;
        for (; *c && k < n; c++) {
            if (*c == '_') continue;
            if (tolower((unsigned char)name[k]) != *c) break;
            k++;
        }
        if (!*c && k == n) return &types[i];
    }
    return NULL;
}

static bt_err read_type(reader *r, bt_dims *d)
{
    static const type unknown = {.name = ""};
    const char *name = json_string_value(field(r, "model_type")),
               *class = json_string_value(json_array_get(field(r, "architectures"), 0));
    if (!name && !class) return missing(r, "model_type");
    r->type = name ? type_of(name) : type_of_class(class);
    if (!r->type && class) r->type = type_of_class(class);
    if (!r->type) d->others |= 1u << BT_DIMS_MODEL_TYPE;
    if (!r->type) r->type = &unknown;
    d->ffn_matrices = r->type->is_plain ? 2 : 3;
    d->has_qk_norm = r->type->has_norm;
    return BT_OK;
}

/* ---- layers ---- */

/* Numbers that Gemma 3's files leave out where they are those of its 4B model. */
static uint32_t left_out(const reader *r, const char *name)
{
    static const struct {
        const char *name;
        uint32_t is;
    } all[] = {
        {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"head_dim", 256}, {"vocab_size", 262208}};
    if (strncmp(r->type->name, "gemma3", strlen("gemma3")) != 0) return 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name)) return all[i].is;
    return 0;
}

static bt_err size(uint32_t *ret, const reader *r, const char *name, uint32_t hi)
{
    *ret = field(r, name) ? 0 : left_out(r, name);
    return *ret ? BT_OK : number(ret, r, name, hi);
}

static bt_err read_heads(bt_dims *d, const reader *r)
{
    bt_err e = size(&d->heads, r, "num_attention_heads", MAX_HEADS);
    const uint32_t kv = left_out(r, "num_key_value_heads"), dim = left_out(r, "head_dim");
    if (e == BT_OK) e = number_or(&d->kv_heads, r, "num_key_value_heads", MAX_HEADS, kv ? kv : d->heads);
    if (e == BT_OK) e = number_or(&d->head_dim, r, "head_dim", MAX_HEAD_DIM, dim);
    if (e < 0) return e;
    if (d->heads % d->kv_heads)
        return bt_fail(r->fault, BT_EFORMAT,
                       "field 'num_key_value_heads': %" PRIu32
                       " does not divide num_attention_heads, %" PRIu32,
                       d->kv_heads, d->heads);
    if (d->head_dim) return BT_OK;
    d->head_dim = d->hidden / d->heads;
    if (d->hidden % d->heads || d->head_dim > MAX_HEAD_DIM)
        return bt_fail(r->fault, BT_EFORMAT,
                       "field 'head_dim': is missing, and hidden_size %" PRIu32
                       " by num_attention_heads %" PRIu32 " is no number from 1 to %d",
                       d->hidden, d->heads, MAX_HEAD_DIM);
    return BT_OK;
}

static bt_err read_sizes(bt_dims *d, const reader *r)
{
    const bool is_opt = !field(r, "intermediate_size") && field(r, "ffn_dim");
    uint32_t width = 0;
    bool is_tied = false;
    bt_err e = number(&d->layers, r, "num_hidden_layers", BT_DIMS_MAX_LAYERS);
    if (e == BT_OK) e = number(&d->hidden, r, "hidden_size", MAX_HIDDEN);
    if (e == BT_OK) e = number(&d->ffn, r, is_opt ? "ffn_dim" : "intermediate_size", MAX_FFN);
    if (e == BT_OK) e = size(&d->vocab, r, "vocab_size", MAX_VOCAB);
    if (e == BT_OK) e = read_heads(d, r);
    if (e == BT_OK) e = truth_or(&is_tied, r, "tie_word_embeddings", r->type->is_tied);
    if (e == BT_OK) e = truth_or(&d->has_qkv_bias, r, "attention_bias", r->type->has_bias);
    if (e == BT_OK) e = number_or(&width, r, "word_embed_proj_dim", MAX_HIDDEN, d->hidden);
    d->has_own_embedding = !is_tied;
    if (width != d->hidden) d->others |= 1u << BT_DIMS_EMBED_WIDTH;
    return e;
}

/* K and V of a position are the latent, which all heads share. */
static bt_err read_latent(bt_dims *d, const reader *r)
{
    if (!is_set(field(r, "kv_lora_rank"))) return BT_OK;
    bt_err e = number(&d->latent_rank, r, "kv_lora_rank", MAX_RANK);
    if (e == BT_OK) e = number_or(&d->query_rank, r, "q_lora_rank", MAX_RANK, 0);
    if (e == BT_OK) e = number(&d->latent_rope, r, "qk_rope_head_dim", MAX_HEAD_DIM);
    if (e == BT_OK) e = number(&d->plain_dim, r, "qk_nope_head_dim", MAX_HEAD_DIM);
    if (e == BT_OK) e = number(&d->value_dim, r, "v_head_dim", MAX_HEAD_DIM);
    if (e < 0) return e;
    d->kv_heads = 1;
    d->head_dim = (d->latent_rank + d->latent_rope + 1) / 2;
    return BT_OK;
}

/* ---- windows ---- */

/* Kinds of layers by name: those with a window are counted, those that attend in another way are noted. */
static bt_err count_layers(bt_dims *d, const reader *r, const json_t *list)
{
    if (json_array_size(list) != d->layers)
        return bt_fail(r->fault, BT_EFORMAT,
                       "field 'layer_types': must be a list of %" PRIu32 " kinds, one a layer", d->layers);
    for (size_t i = 0; i < d->layers; i++) {
        const char *kind = json_string_value(json_array_get(list, i));
        if (!kind) return bt_fail(r->fault, BT_EFORMAT, "field 'layer_types': kind %zu is no text", i + 1);
        if (!strcmp(kind, "sliding_attention")) d->windowed++;
        else if (strcmp(kind, "full_attention")) d->others |= 1u << BT_DIMS_LAYER_TYPES;
    }
    return BT_OK;
}

static bt_err read_window(bt_dims *d, const reader *r, uint32_t ctx)
{
    const json_t *kinds = field(r, "layer_types");
    uint32_t pattern = 0, from = 0, window = 0;
    bool is_used = true;
    bt_err e = number_or(&window, r, "sliding_window", MAX_CTX, 0);
    if (e == BT_OK) e = truth_or(&is_used, r, "use_sliding_window", true);
    if (e == BT_OK)
        e = number_or(&pattern, r, "sliding_window_pattern", BT_DIMS_MAX_LAYERS, r->type->pattern);
    if (e == BT_OK) e = number_or(&from, r, "max_window_layers", 1 << 20, 0);
    if (e == BT_OK && kinds) e = count_layers(d, r, kinds);
    if (e < 0) return e;
    if (!kinds && pattern) d->windowed = d->layers - d->layers / pattern;
    else if (!kinds) d->windowed = from < d->layers ? d->layers - from : 0;
    if (!window || !is_used || (ctx && window >= ctx)) d->windowed = 0; /* no sequence is longer */
    d->window = d->windowed ? window : 0;
    return BT_OK;
}

/* ---- experts ---- */

typedef struct sparse {
    uint32_t shared, dense_first, step, freq;
    const json_t *dense;
} sparse;

static bt_err check_dense(const bt_dims *d, const reader *r, const json_t *list)
{
    bool is_list = !list || (json_is_array(list) && json_array_size(list) <= d->layers);
    for (size_t i = 0; is_list && i < json_array_size(list); i++)
        is_list = json_is_integer(json_array_get(list, i));
    return is_list
               ? BT_OK
               : bt_fail(r->fault, BT_EFORMAT,
                         "field 'mlp_only_layers': must be a list of at most %" PRIu32 " numbers of layers",
                         d->layers);
}

static bool has_experts(const sparse *s, uint32_t layer)
{
    for (size_t i = 0; i < json_array_size(s->dense); i++)
        if (json_integer_value(json_array_get(s->dense, i)) == (json_int_t)layer) return false;
    return layer >= s->dense_first && (layer + 1) % s->step == 0 && layer % s->freq == 0;
}

/* Outputs of the experts that all rows share. */
static bt_err read_shared(uint32_t *ret, const bt_dims *d, const reader *r)
{
    uint32_t shared = 0;
    bt_err e = number_or(&shared, r, "n_shared_experts", MAX_SHARED, 0);
    *ret = shared * d->expert_ffn;
    if (e == BT_OK && !shared) e = number_or(ret, r, "shared_expert_intermediate_size", MAX_FFN, 0);
    return e;
}

static bt_err read_experts(bt_dims *d, const reader *r)
{
    const char *key = NULL;
    sparse s = {.dense = field(r, "mlp_only_layers")};
    for (uint32_t i = 0; !key && bt_dims_expert_keys[i]; i++)
        if (is_set(field(r, bt_dims_expert_keys[i]))) key = bt_dims_expert_keys[d->experts_key = i];
    if (!key) return BT_OK;
    bt_err e = number(&d->experts, r, key, MAX_EXPERTS);
    if (e == BT_OK) e = number(&d->experts_used, r, "num_experts_per_tok", d->experts);
    if (e == BT_OK) e = number_or(&d->expert_ffn, r, "moe_intermediate_size", MAX_FFN, d->ffn);
    if (e == BT_OK) e = read_shared(&s.shared, d, r);
    if (e == BT_OK) e = number_or(&s.dense_first, r, "first_k_dense_replace", d->layers, 0);
    if (e == BT_OK) e = number_or(&s.step, r, "decoder_sparse_step", d->layers, 1);
    if (e == BT_OK) e = number_or(&s.freq, r, "moe_layer_freq", d->layers, 1);
    if (e == BT_OK) e = check_dense(d, r, s.dense);
    if (e < 0) return e;
    const uint64_t used = (uint64_t)d->experts_used * d->expert_ffn + s.shared;
    for (uint32_t i = 0; i < d->layers; i++) d->expert_layers += has_experts(&s, i);
    if (!d->expert_layers) d->experts = d->experts_used = 0;
    const uint64_t all = used * d->expert_layers + (uint64_t)d->ffn * (d->layers - d->expert_layers);
    d->ffn = (uint32_t)((all + d->layers - 1) / d->layers);
    if (used > MAX_VOCAB)
        return bt_fail(r->fault, BT_EFORMAT,
                       "field 'num_experts_per_tok': experts of a row have %" PRIu64
                       " outputs together; at most %d are "
                       "allowed",
                       used, MAX_VOCAB);
    return BT_OK;
}

static bt_err read_root(bt_dims *d, uint32_t *ret_ctx, reader *r)
{
    const json_t *text = json_object_get(r->root, "text_config");
    if (!json_is_object(r->root)) return bt_fail(r->fault, BT_EFORMAT, "must be a JSON object");
    r->text = json_is_object(text) ? text : r->root;
    bt_err e = read_type(r, d);
    if (e == BT_OK) e = read_sizes(d, r);
    if (e == BT_OK) e = number_or(ret_ctx, r, "max_position_embeddings", MAX_CTX, 0);
    if (e == BT_OK) e = read_window(d, r, *ret_ctx);
    if (e == BT_OK) e = read_experts(d, r);
    if (e == BT_OK) e = read_latent(d, r);
    for (uint32_t i = BT_DIMS_OTHERS_BY_NAME; bt_dims_others[i].field; i++)
        if (is_set(field(r, bt_dims_others[i].field))) d->others |= 1u << i;
    return e;
}

bt_err bt_dims_config_parse(bt_dims *ret, uint32_t *ret_ctx, const char *json, size_t len, bt_fault *fault)
{
    bt_dims d = {.name = ""};
    uint32_t ctx = 0;
    bt_fault inner = {""};
    json_error_t je;
    reader r = {.fault = &inner};
    if (len > BT_DIMS_CONFIG_MAX_BYTES)
        return bt_fail(fault, BT_ELIMIT, "a config.json of %zu bytes; at most %d are allowed", len,
                       BT_DIMS_CONFIG_MAX_BYTES);
    /* jansson bounds the depth of nesting itself, and refuses NUL characters. */
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    if (!root) {
        for (char *c = je.text; *c; c++)
            if (*c < 0x20 || *c > 0x7e) *c = '?';
        return bt_fail(fault, BT_EFORMAT, "line %d: %.120s", je.line, je.text);
    }
    r.root = root;
    const bt_err e = read_root(&d, &ctx, &r);
    json_decref(root);
    if (e < 0) return bt_fail(fault, e, "%s", inner.text);
    *ret = d;
    *ret_ctx = ctx;
    return BT_OK;
}

bool bt_dims_config_is(const char *name)
{
    const size_t len = strlen(name), ending = strlen(".json");
    return len > ending && !strcmp(name + len - ending, ".json");
}

bt_err bt_dims_config_load(bt_dims *ret, uint32_t *ret_ctx, const char *path, bt_fault *fault)
{
    const size_t len = strlen(path);
    bt_fault inner = {""};
    bt_buf buf;
    bt_buf_init(&buf, BT_DIMS_CONFIG_MAX_BYTES);
    bt_err e = bt_file_read(&buf, path, fault);
    if (e == BT_OK && (e = bt_dims_config_parse(ret, ret_ctx, bt_buf_text(&buf), buf.len, &inner)) < 0)
        (void)bt_fail(fault, e, "%.80s: %.170s", path, inner.text);
    bt_buf_done(&buf);
    if (e == BT_OK)
        (void)snprintf(ret->name, sizeof ret->name, "%s",
                       path + (len < sizeof ret->name ? 0 : len - sizeof ret->name + 1));
    return e;
}
