/* See bench_side.h. */
#include "tools/bench/bench_side.h"
#include "base/num.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Few, because ref takes half a second for each token of half a billion weights. */
enum { CHECKED_TOKENS = 5, CHECKED_SEQUENCES = 3 };

bt_err tool_bench_open_prefill(tool_bench_side *ret, const tool_bench_setup *s, const char *isa, size_t threads, bt_fault *fault)
{
    tool_compiling show = { .quiet = s->quiet };
    const pf_engine_config c = { .engine = s->engine, .isa = isa, .want = s->want, .threads = threads, .ctx_tokens = s->ctx_tokens,
                                 .kv_elem_bytes = strcmp(s->engine, "reference") == 0 ? 0 : s->kv_elem_bytes,
                                 .progress = tool_progress_compiling, .progress_ud = &show };
    *ret = (tool_bench_side){ .vocab = s->model->hp.vocab };
    const bt_err e = pf_engine_new(&ret->pf, s->model, &c, fault);
    tool_progress_end(s->quiet);
    return e;
}

bt_err tool_bench_open_decode(tool_bench_side *ret, const tool_bench_setup *s, const char *weights, const char *isa, bt_pool *pool, bt_fault *fault)
{
    const dc_engine_config c = { .isa = isa, .weights = weights, .kv_elem_bytes = s->kv_elem_bytes, .pool = pool, .ctx_tokens = s->ctx_tokens,
                                 .rows_max = s->batch_max < CHECKED_SEQUENCES ? CHECKED_SEQUENCES : s->batch_max };
    *ret = (tool_bench_side){ .vocab = s->model->hp.vocab };
    return dc_engine_new(&ret->dc, s->model, &c, fault);
}

uint32_t tool_bench_elem_bytes(const tool_bench_side *s) { return s->dc ? dc_engine_kv_elem_bytes(s->dc) : pf_engine_kv_elem_bytes(s->pf); }

static void drop_pages(tool_bench_side *s)
{
    for (size_t i = 0; i < s->sequences && s->seq; i++) bt_kv_pages_release(s->pages, &s->seq[i]);
    bt_kv_pages_free(s->pages);
    free(s->seq);
    free(s->view);
    free(s->row);
    free(s->token);
    free(s->ids);
    free(s->logits);
    *s = (tool_bench_side){ .pf = s->pf, .dc = s->dc, .vocab = s->vocab };
}

void tool_bench_close(tool_bench_side *s)
{
    drop_pages(s);
    pf_engine_free(s->pf);
    dc_engine_free(s->dc);
}

bt_err tool_bench_pages(tool_bench_side *s, const tool_bench_setup *setup, size_t sequences, size_t tokens, bt_fault *fault)
{
    const bt_hparams *hp = &setup->model->hp;
    const size_t page = BT_KV_PAGES_USUAL_TOKENS;
    size_t all;
    drop_pages(s);
    if (!bt_mul_size(&all, sequences, (tokens + page - 1) / page * page)) return bt_fail(fault, BT_ELIMIT, "%zu sequences of %zu tokens", sequences, tokens);
    bt_err e = bt_kv_pages_new(&s->pages, hp->layers, hp->kv_heads, hp->head_dim, tool_bench_elem_bytes(s), page, all, fault);
    if (e < 0) return e;
    s->sequences = sequences;
    s->seq = calloc(sequences, sizeof *s->seq);
    s->view = calloc(sequences, sizeof *s->view);
    s->row = calloc(sequences, sizeof *s->row);
    s->token = calloc(sequences, sizeof *s->token);
    s->ids = calloc(tokens, sizeof *s->ids);
    s->logits = calloc(sequences, s->vocab * sizeof *s->logits);
    if (!s->seq || !s->view || !s->row || !s->token || !s->ids || !s->logits) return bt_fail(fault, BT_ENOMEM, "%zu sequences", sequences);
    for (size_t i = 0; i < sequences; i++) {
        if ((e = bt_kv_pages_reserve(s->pages, &s->seq[i], tokens, fault)) < 0) return e;
        bt_kv_pages_view(&s->view[i], s->pages, &s->seq[i]);
    }
    for (size_t i = 0; i < tokens; i++) s->ids[i] = (int32_t)((i * 7919 + 13) % s->vocab);
    return BT_OK;
}

bt_err tool_bench_prefill(tool_bench_side *s, size_t pos, size_t n, bt_fault *fault)
{
    return pf_engine_prefill(s->pf, &s->view[0], s->ids + pos, n, pos, NULL, s->logits, BT_PREFILL_LAST, fault);
}

bt_err tool_bench_step(tool_bench_side *s, size_t pos, bt_fault *fault)
{
    for (size_t i = 0; i < s->sequences; i++) {
        s->token[i] = (int32_t)((i * 7919 + pos * 104729 + 11) % s->vocab);
        s->row[i] = (dc_engine_seq){ .kv = &s->view[i], .pos = pos, .tokens = &s->token[i], .count = 1, .out = 1 };
    }
    return dc_engine_step(s->dc, s->row, s->sequences, NULL, s->logits, fault);
}

bt_err tool_bench_fill(tool_bench_side *s, size_t tokens, bt_fault *fault)
{
    const size_t most = dc_engine_rows_max(s->dc);
    bt_err e = BT_OK;
    for (size_t i = 0; i < s->sequences; i++)
        for (size_t pos = 0; e == BT_OK && pos < tokens; pos += most) {
            const dc_engine_seq row = { .kv = &s->view[i], .pos = pos, .tokens = s->ids + pos, .count = (uint32_t)(tokens - pos < most ? tokens - pos : most) };
            e = dc_engine_step(s->dc, &row, 1, NULL, NULL, fault);
        }
    return e;
}

/* ---- against ref ---- */
static bool same_rows(const bt_kv_view *a, const bt_kv_view *b, size_t tokens)
{
    for (size_t layer = 0; layer < a->layers; layer++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < tokens; t++)
                if (memcmp(bt_kv_view_row(a, layer, is_v, t, 0), bt_kv_view_row(b, layer, is_v, t, 0), a->token_bytes)) return false;
    return true;
}

bt_err tool_bench_compare(const tool_bench_side *a, const tool_bench_side *ref, size_t tokens, const char *what, bt_fault *fault)
{
    for (size_t i = 0; i < a->sequences; i++)
        if (!same_rows(&a->view[i], &ref->view[i], tokens))
            return bt_fail(fault, BT_EFORMAT, "%s: the KV rows of %zu tokens are not those of the ref kernels; nothing was timed", what, tokens);
    if (memcmp(a->logits, ref->logits, a->sequences * a->vocab * sizeof *a->logits))
        return bt_fail(fault, BT_EFORMAT, "%s: the logits after %zu tokens are not those of the ref kernels; nothing was timed", what, tokens);
    return BT_OK;
}

/* A second token alone, then the first of several sequences. */
static bt_err check_decode(tool_bench_side *side, const tool_bench_setup *s, const char *what, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (size_t tokens = 2; e == BT_OK && tokens; tokens--) {
        for (int i = 0; e == BT_OK && i < 2; i++) {
            e = tool_bench_pages(&side[i], s, tokens == 2 ? 1 : CHECKED_SEQUENCES, tokens, fault);
            for (size_t pos = 0; e == BT_OK && pos < tokens; pos++) e = tool_bench_step(&side[i], pos, fault);
        }
        if (e == BT_OK) e = tool_bench_compare(&side[0], &side[1], tokens, what, fault);
    }
    return e;
}

static bt_err check_prefill(tool_bench_side *side, const tool_bench_setup *s, const char *what, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (int i = 0; e == BT_OK && i < 2; i++) {
        e = tool_bench_pages(&side[i], s, 1, CHECKED_TOKENS, fault);
        if (e == BT_OK) e = tool_bench_prefill(&side[i], 0, CHECKED_TOKENS, fault);
    }
    return e == BT_OK ? tool_bench_compare(&side[0], &side[1], CHECKED_TOKENS, what, fault) : e;
}

bt_err tool_bench_check(const tool_bench_setup *s, const char *weights, const char *isa, bt_pool *pool, bt_fault *fault)
{
    tool_bench_side side[2] = { { 0 }, { 0 } };
    char what[128];
    bt_err e = BT_OK;
    for (int i = 0; e == BT_OK && i < 2; i++)
        e = weights ? tool_bench_open_decode(&side[i], s, weights, i ? "ref" : isa, pool, fault)
                    : tool_bench_open_prefill(&side[i], s, i ? "ref" : isa, bt_pool_threads(pool), fault);
    snprintf(what, sizeof what, "%s, %s", weights ? "decoding" : "prefill", weights ? weights : s->engine);
    if (e == BT_OK) e = weights ? check_decode(side, s, what, fault) : check_prefill(side, s, what, fault);
    tool_bench_close(&side[0]);
    tool_bench_close(&side[1]);
    return e;
}
