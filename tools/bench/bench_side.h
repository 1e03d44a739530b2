#ifndef BT_TOOLS_BENCH_SIDE_H
#define BT_TOOLS_BENCH_SIDE_H
#include "decode-node/engine/engine.h"
#include "kv/kv_pages.h"
#include "prefill-node/engine.h"
#include "tools/bench/bench_limits.h"

/* What is timed: an engine of a prefill node, or of a decode node, with pages for sequences of one length. */
typedef struct tool_bench_setup {
    const bt_model *model;
    const char *engine;                     /* of prompts: one of pf_engine_names; decoding is always "host" */
    bt_obtain_want want;                   /* npu */
    uint32_t kv_elem_bytes;                 /* 0 f16, 1 int8 */
    size_t ctx_tokens;                      /* longest sequence of the run */
    size_t batch_max;                       /* sequences of a step */
    bool quiet;                             /* no progress on stderr */
} tool_bench_setup;

typedef struct tool_bench_side {
    pf_engine *pf;                          /* one of the two */
    dc_engine *dc;
    size_t vocab;
    bt_kv_pages *pages;
    size_t sequences;
    bt_kv_seq *seq;                         /* [sequences], and so the next three */
    bt_kv_view *view;
    dc_engine_seq *row;
    int32_t *token;
    int32_t *ids;                           /* [tokens]: a prompt, any length of it */
    float *logits;                          /* [sequences, V] */
} tool_bench_side;

/* isa as bt_kernels_select. Decoding takes the caller's pool, prefill makes its own of so many threads. tool_bench_close also after a failure; zeros are fine. */
bt_err tool_bench_open_prefill(tool_bench_side *ret, const tool_bench_setup *s, const char *isa, size_t threads, bt_fault *fault);
bt_err tool_bench_open_decode(tool_bench_side *ret, const tool_bench_setup *s, const char *weights, const char *isa, bt_pool *pool, bt_fault *fault);
void   tool_bench_close(tool_bench_side *s);

/* Pages for `sequences` of `tokens` each, in place of those before. */
bt_err tool_bench_pages(tool_bench_side *s, const tool_bench_setup *setup, size_t sequences, size_t tokens, bt_fault *fault);
uint32_t tool_bench_elem_bytes(const tool_bench_side *s);

/* n tokens of the one sequence from pos on; logits of the last. */
bt_err tool_bench_prefill(tool_bench_side *s, size_t pos, size_t n, bt_fault *fault);
/* One token of each sequence at pos. */
bt_err tool_bench_step(tool_bench_side *s, size_t pos, bt_fault *fault);
/* Rows [0, tokens) of every sequence, in steps of as many rows as the engine takes. */
bt_err tool_bench_fill(tool_bench_side *s, size_t tokens, bt_fault *fault);

/* The last logits and all K and V rows of [0, tokens) of two sides: BT_EFORMAT says what differs, of which `what`. */
bt_err tool_bench_compare(const tool_bench_side *a, const tool_bench_side *ref, size_t tokens, const char *what, bt_fault *fault);
/* Runs a few tokens with the kernels of `isa` and with ref, and compares: a prompt; for each step of decoding, one row and several. weights NULL: prefill. */
bt_err tool_bench_check(const tool_bench_setup *s, const char *weights, const char *isa, bt_pool *pool, bt_fault *fault);
#endif
