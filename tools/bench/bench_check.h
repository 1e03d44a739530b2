#ifndef BT_TOOLS_BENCH_CHECK_H
#define BT_TOOLS_BENCH_CHECK_H
#include "tools/bench/bench_run.h"

/* Before anything is timed: the bits of an instruction set are those of the ref kernels. */

/* Compares the last logits and all K and V rows of [0, tokens) of two runs. BT_EFORMAT: they differ; the words name the
 * place and `what`. */
bt_err tool_bench_compare(const tool_sequences *a, const tool_sequences *ref, size_t tokens, const char *what,
                          bt_fault *fault);
/* Runs a prompt of a few tokens with the kernels of `isa` and with ref, and compares. */
bt_err tool_bench_check_prefill(const tool_bench_setup *s, const char *isa, bt_pool *pool, bt_fault *fault);
/* The same with steps of decoding: of one sequence, then of several. */
bt_err tool_bench_check_decode(const tool_bench_setup *s, const char *weights, const char *isa, bt_pool *pool,
                               bt_fault *fault);
#endif
