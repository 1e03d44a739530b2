#ifndef BT_LAB_SIMULATE_SHOW_H
#define BT_LAB_SIMULATE_SHOW_H
#include "lab/replay/report.h"
#include "lab/simulate/play.h"

/* A simulated run for people and for programs: what `baton replay` says of a real one, and what only a simulation
 * knows. */
typedef struct tool_simulate_told {
    const tool_replay_outcome *replay;
    const tool_simulate_facts *facts;
    const tool_simulate_setup *setup;
    const char *prefill, *decode, *link; /* as they were given */
    double wall_s;
} tool_simulate_told;

void tool_simulate_print(FILE *f, const tool_simulate_told *r);
/* A page as that of tool_replay_report, with what is told of the cluster but its wall seconds. */
bt_err tool_simulate_report(const char *path, const tool_simulate_told *r, bt_fault *fault);
/* The keys of tool_replay_json and more; NULL: memory is out. */
json_t *tool_simulate_json(const tool_simulate_told *r);
#endif
