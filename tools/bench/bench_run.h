#ifndef BT_TOOLS_BENCH_RUN_H
#define BT_TOOLS_BENCH_RUN_H
#include "engine/decode.h"
#include "engine/prefill.h"
#include "tools/sequences.h"

/* The setup that is timed and checked: the engines behind the two doors, over sequences of made-up tokens. */
typedef struct tool_bench_setup {
    const bt_model *model;
    const char *engine;  /* of prompts: one of bt_engine_prefill_names */
    const char *decode;  /* of decoding: one of bt_engine_decode_names; NULL: the default */
    bt_obtain_want want; /* without a package: shape_policy */
    const bt_pkg *pkg;   /* of engines that run one: opened once for all runs */
    bt_schedule_policy schedule;
    uint32_t kv_elem_bytes; /* 0 f16, 1 int8 */
    size_t ctx_tokens;      /* longest sequence of the run */
    size_t batch_max;       /* sequences of a step */
} tool_bench_setup;

/* Sequences of a step that bench_check.h runs; every decode engine has room for them. */
enum { TOOL_BENCH_CHECKED_SEQUENCES = 3 };

/* isa as bt_kernels_select; the pool is borrowed. */
bt_err tool_bench_open_prefill(bt_prefill **ret, const tool_bench_setup *s, const char *isa, bt_pool *pool,
                               bt_fault *fault);
/* weights: of decoding with the store's; NULL: the first form */
bt_err tool_bench_open_decode(bt_decode **ret, const tool_bench_setup *s, const char *weights, const char *isa,
                              bt_pool *pool, bt_fault *fault);

/* Computes n tokens of every sequence from pos on, as a batch where the engine can; logits of each sequence's last. */
bt_err tool_bench_prompt(bt_prefill *p, tool_sequences *s, size_t pos, size_t n, bt_fault *fault);
/* Computes one token of each sequence at pos; logits of all. */
bt_err tool_bench_step(bt_decode *d, tool_sequences *s, size_t pos, bt_fault *fault);
/* Fills rows [0, tokens) of every sequence, in steps of as many rows as the engine takes. */
bt_err tool_bench_fill(bt_decode *d, tool_sequences *s, size_t tokens, bt_fault *fault);
#endif
