#ifndef BT_LAB_SIMULATE_SCALE_H
#define BT_LAB_SIMULATE_SCALE_H
#include "simulate/scale.h"

/* How a simulated cluster scales, in the form of --scale: "decode 2..16 when kv>0.8 for 10s, down when kv<0.3 for 60s;
 * role prefill 3 decode at 600s; start 30s".
 *
 *   prefill|decode[@MODEL] A..B when FIGURE>X for TIME [, down when FIGURE<Y for TIME]   nodes join and leave by a rule
 *   role prefill|decode N prefill|decode at TIME [for TIME]                      a node changes its role; for: and back
 *   leave prefill|decode N at TIME [for TIME]                                    it drains and is off; for: joins again
 *   start TIME          from the start of a node that joins or changes its role until it greets
 *
 * FIGURE, of the nodes of that model (the first where none is named): kv and slots, shares of what the role's nodes
 * have (0 to 1), or queue, requests that wait by node; three decimals. Nodes are counted from 0 in the role that they
 * begin in. Parts are separated by semicolons. */
enum { TOOL_SIMULATE_CHANGES = 256, TOOL_SIMULATE_RULES = 2 * SIM_CLUSTER_MODELS, TOOL_SIMULATE_NAME = 64 };
typedef struct tool_simulate_change {
    bt_role role, as; /* as: 0: it leaves */
    uint32_t number;
    int64_t at_us, for_us; /* for_us 0: for good */
} tool_simulate_change;
typedef struct tool_simulate_scale {
    sim_scale_rule rule[TOOL_SIMULATE_RULES];                 /* one a role and model */
    char model_name[TOOL_SIMULATE_RULES][TOOL_SIMULATE_NAME]; /* of each, behind @; "": none */
    tool_simulate_change change[TOOL_SIMULATE_CHANGES];
    size_t rules, changes;
    int64_t start_us; /* -1: not said */
} tool_simulate_scale;

/* Any text is safe. BT_EARG: the column of the first word that does not fit, and what would. */
bt_err tool_simulate_scale_read(tool_simulate_scale *ret, const char *text, bt_fault *fault);
/* For a cluster that begins with has[model][prefill 0, decode 1] nodes, once each rule has its model. BT_EARG: a node
 * that the cluster does not have, two rules for the same nodes, or a rule that allows fewer nodes than there are. */
typedef uint32_t tool_simulate_has[SIM_CLUSTER_MODELS][2];
bt_err tool_simulate_scale_check(const tool_simulate_scale *s, tool_simulate_has has, bt_fault *fault);
/* How many nodes of a model rules may add to `now` in a role. */
uint32_t tool_simulate_scale_spare(const tool_simulate_scale *s, bt_role role, uint32_t model, uint32_t now);

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
