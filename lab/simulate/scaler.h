#ifndef BT_LAB_SIMULATE_SCALER_H
#define BT_LAB_SIMULATE_SCALER_H
#include "lab/simulate/scale.h"

/* Carries out --scale on a running cluster, and counts its nodes over time. */
enum { TOOL_SIMULATE_COUNTS = 256, TOOL_SIMULATE_LOOK_US = 1000000 };
typedef struct tool_simulate_count_at {
    int64_t at_us;
    uint32_t prefill, decode, powered; /* nodes that serve in each role; powered: nodes that are on */
} tool_simulate_count_at;

typedef struct tool_simulate_scaler {
    const tool_simulate_scale *scale;
    sim_scale rule[TOOL_SIMULATE_RULES];
    uint64_t changes; /* of the cluster, when it was last counted */
    tool_simulate_count_at count[TOOL_SIMULATE_COUNTS];
    size_t counts; /* each differs from the one before; when the table is full, every second one is dropped */
    uint32_t most[2], least[2];
} tool_simulate_scaler;

void tool_simulate_scaler_begin(tool_simulate_scaler *s, const tool_simulate_scale *scale, const sim_cluster *c);
/* Each TOOL_SIMULATE_LOOK_US: rules, and a count. */
void tool_simulate_scaler_look(tool_simulate_scaler *s, sim_cluster *c, int64_t at_us);
/* Carries out a change that is due, or its end. False: not possible yet, ask again. */
bool tool_simulate_scaler_change(sim_cluster *c, const tool_simulate_change *k, bool is_end);
#endif
