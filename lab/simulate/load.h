#ifndef BT_LAB_SIMULATE_LOAD_H
#define BT_LAB_SIMULATE_LOAD_H
#include "lab/replay/plan.h"
#include "lab/replay/synthetic.h"

/* The requests of a simulation: a trace that needs no tokenizer, or drawn ones. */
typedef struct tool_simulate_load {
    const char *trace; /* NULL: synthetic */
    const tool_replay_synthetic *synthetic;
    int format; /* index in bt_trace_format_names */
    bool skips_bad;
    size_t limit; /* 0: all of a trace, 200 of a synthetic load */
    tool_replay_plan_options how;
} tool_simulate_load;
/* *ret_bad: rows skipped. tool_replay_plan_done after success and failure. */
bt_err tool_simulate_load_read(tool_replay_plan *ret, uint64_t *ret_bad, const tool_simulate_load *l, bt_fault *fault);
#endif
