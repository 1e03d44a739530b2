/* See bench_check.h. */
#include "tools/bench/bench_check.h"

#include <stdio.h>
#include <string.h>

/* Few, because ref takes half a second for each token of half a billion weights. */
enum { CHECKED_TOKENS = 5 };

static bool same_rows(const bt_kv_view *a, const bt_kv_view *b, size_t tokens)
{
    for (size_t layer = 0; layer < a->layers; layer++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < tokens; t++)
                if (memcmp(bt_kv_view_row(a, layer, is_v, t, 0), bt_kv_view_row(b, layer, is_v, t, 0),
                           a->token_bytes))
                    return false;
    return true;
}

bt_err tool_bench_compare(const tool_sequences *a, const tool_sequences *ref, size_t tokens, const char *what,
                          bt_fault *fault)
{
    for (size_t i = 0; i < a->count; i++)
        if (!same_rows(&a->view[i], &ref->view[i], tokens))
            return bt_fail(
                fault, BT_EFORMAT,
                "%s: the KV rows of %zu tokens are not those of the ref kernels; nothing was timed", what,
                tokens);
    if (memcmp(a->logits, ref->logits, a->logits_rows * a->vocab * sizeof *a->logits))
        return bt_fail(fault, BT_EFORMAT,
                       "%s: the logits after %zu tokens are not those of the ref kernels; nothing was timed",
                       what, tokens);
    return BT_OK;
}

bt_err tool_bench_check_prefill(const tool_bench_setup *s, const char *isa, bt_pool *pool, bt_fault *fault)
{
    bt_prefill *engine[2] = {NULL, NULL};
    tool_sequences rows[2] = {{0}, {0}};
    char what[64];
    bt_err e = BT_OK;
    snprintf(what, sizeof what, "prefill, %s", s->engine);
    for (int i = 0; e == BT_OK && i < 2; i++) {
        e = tool_bench_open_prefill(&engine[i], s, i ? "ref" : isa, pool, fault);
        if (e == BT_OK)
            e = tool_sequences_open(&rows[i], s->model, bt_prefill_kv_elem_bytes(engine[i]), 1,
                                    CHECKED_TOKENS, 1, fault);
        if (e == BT_OK) e = tool_bench_prompt(engine[i], &rows[i], 0, CHECKED_TOKENS, fault);
    }
    if (e == BT_OK) e = tool_bench_compare(&rows[0], &rows[1], CHECKED_TOKENS, what, fault);
    for (int i = 0; i < 2; i++) {
        tool_sequences_close(&rows[i]);
        bt_prefill_free(engine[i]);
    }
    return e;
}

static bt_err check_steps(bt_decode *const *engine, const tool_bench_setup *s, size_t sequences,
                          size_t tokens, const char *what, bt_fault *fault)
{
    tool_sequences rows[2] = {{0}, {0}};
    bt_err e = BT_OK;
    for (int i = 0; e == BT_OK && i < 2; i++) {
        e = tool_sequences_open(&rows[i], s->model, bt_decode_kv_elem_bytes(engine[i]), sequences, tokens,
                                sequences, fault);
        for (size_t pos = 0; e == BT_OK && pos < tokens; pos++)
            e = tool_bench_step(engine[i], &rows[i], pos, fault);
    }
    if (e == BT_OK) e = tool_bench_compare(&rows[0], &rows[1], tokens, what, fault);
    tool_sequences_close(&rows[0]);
    tool_sequences_close(&rows[1]);
    return e;
}

bt_err tool_bench_check_decode(const tool_bench_setup *s, const char *weights, const char *isa, bt_pool *pool,
                               bt_fault *fault)
{
    bt_decode *engine[2] = {NULL, NULL};
    char what[64];
    bt_err e = BT_OK;
    snprintf(what, sizeof what, "decoding, %s", weights ? weights : s->decode);
    for (int i = 0; e == BT_OK && i < 2; i++)
        e = tool_bench_open_decode(&engine[i], s, weights, i ? "ref" : isa, pool, fault);
    if (e == BT_OK) e = check_steps(engine, s, 1, 2, what, fault);
    if (e == BT_OK) e = check_steps(engine, s, TOOL_BENCH_CHECKED_SEQUENCES, 1, what, fault);
    bt_decode_free(engine[0]);
    bt_decode_free(engine[1]);
    return e;
}
