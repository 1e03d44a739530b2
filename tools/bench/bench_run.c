/* See bench_run.h. */
#include "tools/bench/bench_run.h"

#include <stdlib.h>

bt_err tool_bench_open_prefill(bt_prefill **ret, const tool_bench_setup *s, const char *isa, bt_pool *pool,
                               bt_fault *fault)
{
    const bt_prefill_config c = {.engine = s->engine,
                                 .isa = isa,
                                 .want = s->want,
                                 .pkg = s->pkg,
                                 .schedule = s->schedule,
                                 .pool = pool,
                                 .ctx_tokens = s->ctx_tokens,
                                 .kv_elem_bytes =
                                     bt_engine_kv(bt_engine_prefill(s->engine), s->kv_elem_bytes)};
    return bt_prefill_new(ret, s->model, &c, fault);
}

bt_err tool_bench_open_decode(bt_decode **ret, const tool_bench_setup *s, const char *weights,
                              const char *isa, bt_pool *pool, bt_fault *fault)
{
    const size_t least = TOOL_BENCH_CHECKED_SEQUENCES;
    const bt_decode_config c = {.engine = s->decode,
                                .isa = isa,
                                .weights = weights,
                                .pkg = s->pkg,
                                .kv_elem_bytes = bt_engine_kv(bt_engine_decode(s->decode), s->kv_elem_bytes),
                                .pool = pool,
                                .ctx_tokens = s->ctx_tokens,
                                .rows_max = s->batch_max < least ? least : s->batch_max};
    return bt_decode_new(ret, s->model, &c, fault);
}

/* ---- runs ---- */

static int32_t step_token(size_t sequence, size_t pos, size_t vocab)
{
    return (int32_t)((sequence * 7919 + pos * 104729 + 11) % vocab);
}

bt_err tool_bench_prompt(bt_prefill *p, tool_sequences *s, size_t pos, size_t n, bt_fault *fault)
{
    bt_err e = BT_OK;
    if (s->count == 1)
        return bt_prefill_run(p, &s->view[0], s->ids + pos, n, pos, NULL, s->logits, BT_PREFILL_LAST, fault);
    bt_prefill_seq *seq = calloc(s->count, sizeof *seq);
    if (!seq) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu prompts", s->count);
    for (size_t i = 0; i < s->count; i++)
        seq[i] = (bt_prefill_seq){.kv = &s->view[i], .ids = s->ids + pos, .n = n, .pos0 = pos,
                                  .logits = s->logits + i * s->vocab};
    bt_prefill_run_batch(p, seq, s->count);
    for (size_t i = 0; e == BT_OK && i < s->count; i++)
        if ((e = seq[i].result) < 0) (void)bt_fail(fault, e, "%s", seq[i].fault.text);
    free(seq);
    return e;
}

bt_err tool_bench_step(bt_decode *d, tool_sequences *s, size_t pos, bt_fault *fault)
{
    int32_t token[BT_DECODE_MAX_ROWS];
    bt_decode_seq row[BT_DECODE_MAX_ROWS];
    if (s->count > BT_DECODE_MAX_ROWS)
        return bt_fail(fault, BT_EARG, "%zu sequences in a step; at most %d are possible (--batch)", s->count,
                       BT_DECODE_MAX_ROWS);
    for (size_t i = 0; i < s->count; i++) {
        token[i] = step_token(i, pos, s->vocab);
        row[i] = (bt_decode_seq){.kv = &s->view[i], .pos = pos, .tokens = &token[i], .count = 1, .out = 1};
    }
    return bt_decode_step(d, row, s->count, NULL, s->logits, fault);
}

bt_err tool_bench_fill(bt_decode *d, tool_sequences *s, size_t tokens, bt_fault *fault)
{
    const size_t most = bt_decode_rows_max(d);
    bt_err e = BT_OK;
    for (size_t i = 0; i < s->count; i++)
        for (size_t pos = 0; e == BT_OK && pos < tokens; pos += most) {
            const bt_decode_seq row = {.kv = &s->view[i], .pos = pos, .tokens = s->ids + pos,
                                       .count = (uint32_t)(tokens - pos < most ? tokens - pos : most)};
            e = bt_decode_step(d, &row, 1, NULL, NULL, fault);
        }
    return e;
}
