#ifndef BT_LAB_SIMULATE_SHOW_H
#define BT_LAB_SIMULATE_SHOW_H
#include "lab/replay/report.h"
#include "lab/simulate/draws.h"

/* A simulated run for people and for programs: the report of `baton replay`, and the figures that only a simulation
 * has. */
typedef struct tool_simulate_told {
    const tool_replay_outcome *replay;
    const tool_simulate_facts *facts;
    const tool_simulate_setup *setup;
    const tool_simulate_draws *draws;
    const char *prefill, *decode, *link; /* as they were given */
    double wall_s;
} tool_simulate_told;

void tool_simulate_print(FILE *f, const tool_simulate_told *r);
/* The fields of its models that a forecast ignores (lab/plan/report.h): a line each, and rows; NULL: memory is out. */
void tool_simulate_ignored_print(FILE *f, const tool_simulate_setup *s);
json_t *tool_simulate_ignored(const tool_simulate_setup *s);
/* A page like tool_replay_report's, with the cluster's figures except wall seconds. */
bt_err tool_simulate_report(const char *path, const tool_simulate_told *r, bt_fault *fault);
/* The keys of tool_replay_json and more; NULL: memory is out. */
json_t *tool_simulate_json(const tool_simulate_told *r);
/* The figures of one model's requests, without gaps between tokens, which are counted for all together. BT_ENOMEM. */
bt_err tool_simulate_model_figures(tool_replay_figures *ret, const tool_replay_outcome *o, uint32_t model,
                                   bt_fault *fault);
#endif
