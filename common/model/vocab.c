/* From the tokenizer.* keys of a GGUF file to the plain data that common/text checks. */
#include "model/vocab.h"
#include "model/gguf.h"

typedef struct vocab_arrays {
    const bt_gguf_array *tokens, *scores, *types, *merges;
} vocab_arrays;

static bt_text_span span(bt_gguf_str s) { return (bt_text_span){s.ptr, s.len}; }

static bt_text_span token_at(void *ud, size_t i)
{
    return span(bt_gguf_array_str(((vocab_arrays *)ud)->tokens, i));
}
static bt_text_span merge_at(void *ud, size_t i)
{
    return span(bt_gguf_array_str(((vocab_arrays *)ud)->merges, i));
}
static float score_at(void *ud, size_t i) { return bt_gguf_array_f32(((vocab_arrays *)ud)->scores, i); }
static int32_t type_at(void *ud, size_t i) { return bt_gguf_array_i32(((vocab_arrays *)ud)->types, i); }

/* An array with one entry for each token, or none at all. */
static bt_err per_token(const bt_gguf_array **ret, const bt_gguf *g, const char *key, bt_gguf_type type,
                        size_t tokens, bt_fault *fault)
{
    const bt_err e = bt_gguf_find_array(ret, g, key, type, true, fault);
    if (e < 0) return e;
    const size_t n = bt_gguf_array_count(*ret);
    if (n == 0) *ret = NULL;
    if (n != 0 && n != tokens)
        return bt_fail(fault, BT_EFORMAT, "%s has %zu entries, but there are %zu tokens", key, n, tokens);
    return BT_OK;
}

static bt_err id_or_none(int64_t *ret, const bt_gguf *g, const char *key, bt_fault *fault)
{
    uint64_t id = 0;
    *ret = -1;
    if (bt_gguf_find_key(g, key) < 0) return BT_OK;
    const bt_err e = bt_gguf_require_u64(&id, g, key, fault);
    if (e < 0) return e;
    if (id >= BT_TOKENIZER_MAX_TOKENS)
        return bt_fail(fault, BT_EFORMAT, "%s is %llu; at most %d is allowed", key, (unsigned long long)id,
                       BT_TOKENIZER_MAX_TOKENS);
    *ret = (int64_t)id;
    return BT_OK;
}

static bt_err flag_or_unsaid(int *ret, const bt_gguf *g, const char *key, bt_fault *fault)
{
    bool set = false;
    *ret = -1;
    if (bt_gguf_find_key(g, key) < 0) return BT_OK;
    const bt_err e = bt_gguf_bool_or(&set, g, key, false, fault);
    if (e == BT_OK) *ret = set;
    return e;
}

bt_err bt_vocab_load(bt_tokenizer **ret, const bt_gguf *g, bt_fault *fault)
{
    bt_err e;
    vocab_arrays a = {0};
    bt_gguf_str model, pre = {NULL, 0};
    if ((e = bt_gguf_require_str(&model, g, "tokenizer.ggml.model", fault)) < 0) return e;
    if ((e = bt_gguf_find_array(&a.tokens, g, "tokenizer.ggml.tokens", BT_GGUF_STRING, false, fault)) < 0)
        return e;
    const size_t n = bt_gguf_array_count(a.tokens);
    /* gpt2; else the keys may be there, unused */
    const bool has_merges = model.len == 4 && model.ptr[0] == 'g';
    if (has_merges) {
        if ((e = bt_gguf_require_str(&pre, g, "tokenizer.ggml.pre", fault)) < 0) return e;
        if ((e = bt_gguf_find_array(&a.merges, g, "tokenizer.ggml.merges", BT_GGUF_STRING, false, fault)) < 0)
            return e;
    }
    if ((e = per_token(&a.scores, g, "tokenizer.ggml.scores", BT_GGUF_F32, n, fault)) < 0) return e;
    if ((e = per_token(&a.types, g, "tokenizer.ggml.token_type", BT_GGUF_I32, n, fault)) < 0) return e;
    bt_vocab_source src = {
        .model = span(model),
        .pre = span(pre),
        .token_count = n,
        .merge_count = bt_gguf_array_count(a.merges),
        .token = token_at,
        .merge = merge_at,
        .score = a.scores ? score_at : NULL,
        .type = a.types ? type_at : NULL,
        .ud = &a,
    };
    if ((e = id_or_none(&src.bos, g, "tokenizer.ggml.bos_token_id", fault)) < 0) return e;
    if ((e = id_or_none(&src.eos, g, "tokenizer.ggml.eos_token_id", fault)) < 0) return e;
    if ((e = id_or_none(&src.unk, g, "tokenizer.ggml.unknown_token_id", fault)) < 0) return e;
    if ((e = id_or_none(&src.eot, g, "tokenizer.ggml.eot_token_id", fault)) < 0) return e;
    if ((e = id_or_none(&src.eom, g, "tokenizer.ggml.eom_token_id", fault)) < 0) return e;
    if ((e = flag_or_unsaid(&src.add_bos, g, "tokenizer.ggml.add_bos_token", fault)) < 0) return e;
    if ((e = flag_or_unsaid(&src.add_space_prefix, g, "tokenizer.ggml.add_space_prefix", fault)) < 0)
        return e;
    return bt_tokenizer_new(ret, &src, fault);
}
