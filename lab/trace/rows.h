#ifndef BT_LAB_TRACE_ROWS_H
#define BT_LAB_TRACE_ROWS_H
#include "lab/trace/source.h"
#include "trace/synth.h"
#include "trace/write.h"

/* The changes of `baton trace` to the rows of a trace on their way to a new one. */
typedef struct tool_trace_cut {
    int64_t start_us, length_us; /* of arrivals; length 0: to the end */
    int64_t skip, limit;         /* of those; limit 0: all */
} tool_trace_cut;
typedef struct tool_trace_scale {
    double speed, input, output;   /* factors of the arrivals' speed and of lengths */
    int64_t max_input, max_output; /* tokens; 0: none */
    int64_t new_block;             /* tokens of a block of the new hashes; 0: unchanged */
} tool_trace_scale;
typedef struct tool_trace_result {
    uint64_t read, written;
    uint64_t clipped;   /* scale: requests cut to max_input or max_output */
    uint64_t shortened; /* synthesize, as bt_synth_shortened */
    uint64_t out_of_order;
} tool_trace_result;

/* block_tokens: of the trace's hashes where the format does not say; 0: 512, as Mooncake's are. */
bt_err tool_trace_convert(tool_trace_result *ret, tool_trace_source *s, const char *path, bt_trace_writer *w,
                          uint32_t block_tokens, bt_fault *fault);
/* Rows whose arrival is in the window, and the follow-ups of sessions that began in it; arrivals count from its start.
 */
bt_err tool_trace_cut_rows(tool_trace_result *ret, tool_trace_source *s, const char *path, bt_trace_writer *w,
                           const tool_trace_cut *cut, uint32_t block_tokens, bt_fault *fault);
/* Shared prefixes grow and shrink with the prompts (trace/reblock.h). Lengths are rounded, and at least 1 where they
 * were. BT_EARG: hashes that are not of blocks of this size. */
bt_err tool_trace_scale_rows(tool_trace_result *ret, tool_trace_source *s, const char *path, bt_trace_writer *w,
                             const tool_trace_scale *scale, uint32_t block_tokens, bt_fault *fault);
/* rates: the path of ServeGen's, or NULL. requests 0: as many as the trace has, or as the rates give. */
typedef struct tool_trace_synth {
    int64_t requests;
    uint64_t seed;
    double rate, cv;
    const char *rates;
} tool_trace_synth;
bt_err tool_trace_synthesize(tool_trace_result *ret, tool_trace_source *s, const char *path, bt_trace_writer *w,
                             const tool_trace_synth *synth, uint32_t block_tokens, bt_fault *fault);
#endif
