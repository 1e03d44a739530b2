/* Decides how many pages a node's memory gives, and fills its HELLO. */
#include "node/node_setup.h"
#include "base/cache_files.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "crypto/keys.h"
#include "kernels/kernels.h"
#include "model/vocab.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { READY_BYTES = 8 << 20 }; /* of KV: the pages of the first few hundred tokens */

static void say_gone(void *ud, const char *text)
{
    (void)ud;
    bt_log(BT_LOG_INFO, "%s", text);
}

void bt_node_setup_cache(uint64_t limit_bytes) { bt_cache_files_setup(limit_bytes, say_gone, NULL); }

static uint64_t token_bytes(const bt_hparams *h, uint32_t kv_elem_bytes)
{
    return bt_kv_token_bytes(kv_elem_bytes, h->layers, h->kv_heads, h->head_dim);
}

/* How many tokens the memory holds, in whole pages. */
static uint64_t tokens_in(uint64_t bytes, const bt_hparams *h, uint32_t kv_elem_bytes)
{
    return bytes / token_bytes(h, kv_elem_bytes) / BT_NODE_PAGE_TOKENS * BT_NODE_PAGE_TOKENS;
}

static uint64_t tokens_of(const bt_node_setup *s, uint32_t kv_elem_bytes)
{
    return tokens_in(s->kv_memory_bytes, &s->model->hp, kv_elem_bytes);
}

/* "; --kv-dtype int8 would hold N" where that is more than now. */
static void advise(char *ret, size_t len, const bt_node_setup *s)
{
    ret[0] = 0;
    if (s->kv_elem_bytes == 2) snprintf(ret, len, "; --kv-dtype int8 would hold %" PRIu64, tokens_of(s, 1));
}

/* Pages for so many tokens in all layers. */
static bt_err divide(bt_node_pages *ret, const bt_node_setup *s, uint64_t tokens, size_t least_tokens,
                     size_t growth_tokens, bt_fault *fault)
{
    const bt_hparams *h = &s->model->hp;
    const bt_kv_split_want split_want = {
        .both = tokens / BT_NODE_PAGE_TOKENS,
        .ctx_tokens = s->ctx_tokens,
        .least_tokens = least_tokens,
        .growth_tokens = growth_tokens,
        .sequences = s->sequences,
        .layers = h->layers,
        .windowed = h->window ? h->layers - bt_kv_all_layers(h->global_every, h->layers) : 0,
        .window = h->window,
        .page_tokens = BT_NODE_PAGE_TOKENS};
    const bt_kv_split split = bt_kv_pages_split(&split_want);
    const bt_kv_memory_want want = {.layers = h->layers,
                                    .kv_heads = h->kv_heads,
                                    .head_dim = h->head_dim,
                                    .elem_bytes = s->kv_elem_bytes,
                                    .global_every = h->global_every,
                                    .page_tokens = BT_NODE_PAGE_TOKENS,
                                    .all_tokens = split.all * BT_NODE_PAGE_TOKENS,
                                    .window_tokens = split.windows * BT_NODE_PAGE_TOKENS};
    const bt_err e = bt_kv_memory_new(&ret->memory, &want, fault);
    if (e < 0) return e;
    ret->total = (uint32_t)split.all;
    ret->windows = (uint32_t)split.windows;
    return BT_OK;
}

bt_err bt_node_setup_pages(bt_node_pages *ret, const bt_node_setup *s, bt_fault *fault)
{
    const bt_hparams *h = &s->model->hp;
    const uint64_t tokens = tokens_of(s, s->kv_elem_bytes);
    char advice[64];
    advise(advice, sizeof advice, s);
    if (tokens < s->ctx_tokens)
        return bt_fail(fault, BT_EARG,
                       "--kv-memory holds %" PRIu64
                       " tokens, but the longest sequence has %zu%s: give %" PRIu64
                       " bytes or more, or choose a smaller --ctx-size%s",
                       tokens, s->ctx_tokens, h->window ? ", which count in all layers" : "",
                       token_bytes(h, s->kv_elem_bytes) * s->ctx_tokens, advice);
    const bt_err e = divide(ret, s, tokens, s->ctx_tokens, s->growth_tokens, fault);
    if (e < 0) return e;
    if (ret->memory.all) bt_kv_pages_ready(ret->memory.all, READY_BYTES);
    if (ret->memory.windows) bt_kv_pages_ready(ret->memory.windows, READY_BYTES);
    return BT_OK;
}

bt_err bt_node_setup_swap(bt_node_pages *ret, const bt_node_setup *s, uint64_t bytes, bt_fault *fault)
{
    const uint64_t tokens = tokens_in(bytes, &s->model->hp, s->kv_elem_bytes);
    return tokens ? divide(ret, s, tokens, 0, 0, fault) : BT_OK;
}

void bt_node_setup_say_short(const bt_node_setup *s, uint64_t wants_ctx)
{
    char advice[64];
    if (wants_ctx || s->ctx_tokens >= s->model->hp.ctx) return;
    advise(advice, sizeof advice, s);
    bt_log(BT_LOG_INFO, "--kv-memory holds sequences of %zu tokens, the model's context is %u%s",
           s->ctx_tokens, s->model->hp.ctx, advice);
}

/* The protocol's rule for names: 1 to max bytes of 0x21..0x7e. */
static bool is_name(const char *text, size_t max)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return n > 0 && n <= max;
}

bt_err bt_node_setup_words(bt_constraint_vocab **ret, const bt_model *m, bt_fault *fault)
{
    const int64_t begin_us = bt_clock_us();
    bt_tokenizer *tok = NULL;
    *ret = NULL;
    bt_err e = bt_vocab_load(&tok, m->file, fault);
    if (e == BT_OK) e = bt_constraint_vocab_new(ret, tok, m->hp.vocab, fault);
    if (e == BT_OK) {
        bt_log(BT_LOG_INFO, "the tree of %zu tokens takes %zu KiB; made in %" PRId64 " ms",
               bt_tokenizer_count(tok), bt_constraint_vocab_bytes(*ret) / 1024,
               (bt_clock_us() - begin_us) / 1000);
        return BT_OK;
    }
    bt_tokenizer_free(tok);
    if (e == BT_ENOMEM) return e;
    bt_log(BT_LOG_WARN, "answers cannot be held to a schema or grammar here: %s", fault->text);
    return BT_OK;
}

/* A folder of keys without one key to take the name from is an error that the links will report. */
void bt_node_setup_id(char ret[BT_MSG_MAX_ID_BYTES + 1], bt_role role, const char *keys_dir, const char *key)
{
    char only[BT_KEYS_NAME_BYTES];
    if (!key && keys_dir && bt_keys_find(only, keys_dir, NULL) == BT_OK) key = only;
    if (!key || !keys_dir) key = role == BT_ROLE_DECODE ? "decode-0" : "prefill-0";
    snprintf(ret, BT_MSG_MAX_ID_BYTES + 1, "%s", key);
}

bt_err bt_node_setup_check_id(const char *id, bt_fault *fault)
{
    return is_name(id, BT_MSG_MAX_ID_BYTES)
               ? BT_OK
               : bt_fail(fault, BT_EARG,
                         "--id '%.100s': must be 1 to %d printable ASCII characters without spaces", id,
                         BT_MSG_MAX_ID_BYTES);
}

void bt_node_setup_class(char ret[BT_MSG_MAX_TEXT_BYTES + 1], bt_role role, const char *engine,
                         const char *weights, bt_kv_dtype dtype)
{
    snprintf(ret, BT_MSG_MAX_TEXT_BYTES + 1, "%s %s %s kv=%s kernels=%u",
             role == BT_ROLE_DECODE ? "decode" : "prefill", engine, weights, bt_kv_dtype_name(dtype),
             BT_KERNELS_NUMERIC_VERSION);
}

bt_err bt_node_setup_hello(bt_msg_hello *ret, const bt_node_setup *s, uint32_t pages, bt_fault *fault)
{
    const bt_hparams *h = &s->model->hp;
    const bt_kv_dtype dtype = bt_kv_dtype_of(s->kv_elem_bytes);
    const bt_err e = bt_node_setup_check_id(s->node_id, fault);
    if (e < 0) return e;
    if (s->kv_endpoint && !is_name(s->kv_endpoint, BT_MSG_MAX_ENDPOINT_BYTES))
        return bt_fail(fault, BT_EARG,
                       "prefill nodes cannot be told the address '%.100s': it must be 1 to %d printable "
                       "ASCII characters without spaces",
                       s->kv_endpoint, BT_MSG_MAX_ENDPOINT_BYTES);
    *ret = (bt_msg_hello){
        .protocol = BT_PROTOCOL_VERSION,
        .role = s->role,
        .kv = {h->layers, h->kv_heads, h->head_dim, dtype, h->window, h->window ? h->global_every : 0},
        .ctx_tokens = (uint32_t)s->ctx_tokens,
        .pid = (uint64_t)getpid(),
        .kv_capacity_tokens = (uint64_t)pages * BT_NODE_PAGE_TOKENS};
    snprintf(ret->node_id, sizeof ret->node_id, "%s", s->node_id);
    memcpy(ret->model_id, s->model->id, sizeof ret->model_id);
    /* for people: a long one may be cut */
    snprintf(ret->model_name, sizeof ret->model_name, "%s", s->model->name);
    bt_node_setup_class(ret->exactness, s->role, s->engine, s->weights, dtype);
    snprintf(ret->kv_endpoint, sizeof ret->kv_endpoint, "%s", s->kv_endpoint ? s->kv_endpoint : "");
    return BT_OK;
}

bt_msg_engine bt_node_setup_engine(const bt_report_engine *about)
{
    bt_msg_engine g = {.fallbacks_len = 0};
    snprintf(g.name, sizeof g.name, "%s", about->name);
    if ((size_t)snprintf(g.quant, sizeof g.quant, "%s", about->quant) >= sizeof g.quant)
        memcpy(g.quant + sizeof g.quant - 4, "...", 4);
    snprintf(g.shape_policy, sizeof g.shape_policy, "%s", about->shape_policy);
    snprintf(g.profile, sizeof g.profile, "%s", about->profile);
    for (size_t i = 0; i < about->fallbacks; i++) {
        const bool is_last = g.fallbacks_len == BT_MSG_MAX_FALLBACKS;
        bt_msg_fallback *at = &g.fallbacks[is_last ? BT_MSG_MAX_FALLBACKS - 1 : g.fallbacks_len++];
        snprintf(at->op, sizeof at->op, "%s", is_last ? "others" : about->fallback[i].op);
        snprintf(at->why, sizeof at->why, "%s", is_last ? "see baton inspect" : about->fallback[i].why);
        at->count += about->fallback[i].count;
    }
    return g;
}

bt_msg_work bt_node_setup_work(const bt_report_work *work)
{
    return (bt_msg_work){.rows = work->rows,
                         .npu_macs = work->npu_macs,
                         .companion_macs = work->companion_macs,
                         .shadow_entries = work->shadow_entries,
                         .compilations = work->compilations,
                         .masked_macs = work->masked_macs,
                         .session_switches = work->session_switches,
                         .session_switch_ns = work->session_switch_ns,
                         .tile_padding_macs = work->tile_padding_macs,
                         .expert_rows = work->expert_rows,
                         .expert_padding_rows = work->expert_padding_rows,
                         .npu_int16_macs = work->npu_int16_macs,
                         .npu_float_macs = work->npu_float_macs};
}
