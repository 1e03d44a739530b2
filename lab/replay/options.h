#ifndef BT_LAB_REPLAY_OPTIONS_H
#define BT_LAB_REPLAY_OPTIONS_H
#include "base/opt.h"
#include "lab/replay/keys.h"
#include "lab/replay/plan.h"
#include "lab/replay/result.h"
#include "lab/replay/synthetic.h"

/* The options of commands that play a load. Others use single rows, whose values lie elsewhere. */
typedef struct tool_load_options {
    int format; /* index in bt_trace_format_names */
    const char *synthetic, *key_shares, *jitter, *slo, *csv, *report;
    int64_t limit, concurrency, streams, seed, block_tokens, usual_output;
    double speed, rate, ramp_share;
    bool skip_bad, scale_lengths, fit, ramp;
} tool_load_options;
extern const bt_opt_group tool_load_opts;   /* what is sent: of a tool_load_options */
extern const bt_opt_group tool_result_opts; /* what is made of it: slo, ramp, ramp-share, csv, report, of the same */

/* A load as its options describe it; its context is the caller's. */
typedef struct tool_load {
    tool_replay_synthetic synthetic;
    tool_replay_slo slo;
    tool_replay_keys keys; /* of --key-shares; none without it */
    tool_replay_plan_options how;
} tool_load;
/* trace NULL: a drawn load. BT_EARG: options that contradict each other, or cannot be read. */
bt_err tool_load_check(tool_load *ret, const tool_load_options *o, const char *trace, bt_fault *fault);
#endif
