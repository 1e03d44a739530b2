#ifndef BT_LAB_CALIBRATE_TABLE_H
#define BT_LAB_CALIBRATE_TABLE_H
#include "base/opt.h"
#include "lab/calibrate/fit.h"

/* Times that others measured, read into points. The fields of a row say which form it has:
 *
 *   llama-bench -o json, jsonl, csv    n_prompt, n_gen, n_depth, avg_ns
 *   vllm bench serve --save-result     total_input_tokens, completed, max_concurrency, median_ttft_ms, median_tpot_ms
 *   aiperf's export                    time_to_first_token, inter_token_latency, each with its unit; lengths
 *   CSV with prompt_or_ctx             ttft_UNIT or prefill_UNIT, tpot_UNIT or decode_UNIT, batch: rows of AI Hub
 *   CSV with phase and context         value_UNIT, phase prefill or decode: rows of FastFlowLM
 *
 * Sources: ggml-org/llama.cpp tools/llama-bench/README.md; vllm-project/vllm vllm/benchmarks, serve; ai-dynamo/aiperf
 * issue 340 and docs/tutorials; quic/ai-hub-models perf.yaml; ROCm/FastFlowLM docs/docs/benchmarks. JSON is an object,
 * a list of objects, or objects one after the other. UNIT: ns, us, ms, s or tok_s.
 *
 * A time without a unit or beyond 1 ns to 11 days, and rows of different devices, models or stacks, in one text or in
 * several, are errors, and so are rows of two forms, as each names models in its own way. Left out,
 * with the reason, is a row that has no time of a prompt alone or of a step: a prompt and an answer in one time, a load
 * whose concurrency is not given, tokens a second of a batch. Rows of the same lengths count as their mean. */
enum { TOOL_CALIBRATE_TABLE_BYTES = 32 << 20, TOOL_CALIBRATE_TABLE_ROWS = 16384, TOOL_CALIBRATE_MOST_TOKENS = 1 << 20 };
enum { TOOL_CALIBRATE_SAME = 11 };

typedef struct tool_calibrate_table {
    tool_calibrate_points points;
    uint32_t prompt_rows[TOOL_CALIBRATE_PROMPTS], step_rows[TOOL_CALIBRATE_STEPS]; /* rows in each point */
    uint32_t rows, left_out;            /* rows that gave a point; those that gave none */
    char why_left_out[80];              /* the first; "": none */
    char on[128];                       /* what the rows are of, in printable ASCII */
    uint32_t seen;                      /* rows of the text that is read, for errors */
    char same[TOOL_CALIBRATE_SAME][64]; /* that all rows share, by their form */
    const char *form;                   /* its name; NULL: no row was read */
} tool_calibrate_table;

/* BT_EARG: a condition that is not COLUMN=VALUE. */
bt_err tool_calibrate_table_where(const bt_opt_list *where, bt_fault *fault);
/* Adds the rows of a text to *t, which begins with zeros. where: COLUMN=VALUE each; other rows do not count. BT_EFORMAT
 * names the row and what is needed; BT_ELIMIT past the bounds; BT_EARG: no row meets the conditions. */
bt_err tool_calibrate_table_parse(tool_calibrate_table *t, const char *text, size_t len, const bt_opt_list *where,
                                  bt_fault *fault);
/* The same for a file; errors name it. BT_EIO. */
bt_err tool_calibrate_table_read(tool_calibrate_table *t, const char *path, const bt_opt_list *where, bt_fault *fault);
/* Adds a point that is typed: "prefill:512=230ms", "decode:1@1024=18ms" (batch @ context), or with tok/s. BT_EARG says
 * what is wrong. */
bt_err tool_calibrate_table_point(tool_calibrate_table *t, const char *text, bt_fault *fault);
/* Takes points out, to judge a fit of the others: of six lengths of prompts or more the second, the fifth and so on but
 * never the longest, and likewise of six steps by batch and context. *held stays empty where there are fewer. */
void tool_calibrate_table_hold(tool_calibrate_points *fit, tool_calibrate_points *held,
                               const tool_calibrate_points *all);
#endif
