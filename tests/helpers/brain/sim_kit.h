#ifndef TESTS_SIM_KIT_H
#define TESTS_SIM_KIT_H
#include "simulate/cluster.h"
#include "lab/simulate/play.h"

/* Simulated clusters of llama-3.2-1b for tests. Failures of the kit itself abort the test program. */

/* The costs of nodes: a GPU with chunks of 8,192 rows, a slow one, and a hexagon-v75 with the programs of chunks
 * of 256. Made once; prompts of at most SIM_KIT_CTX tokens. */
enum { SIM_KIT_CTX = 8192 };
typedef struct sim_kit {
    const bt_dims *model;
    bt_profile gpu, slow, npu;
    sim_cost gpu_cost, slow_cost, npu_cost;
} sim_kit;
const sim_kit *sim_kit_costs(void);

/* A load drawn from spec (lab/replay/synthetic.h), played to its end. */
typedef struct sim_played {
    tool_simulate_setup setup;
    tool_replay_plan plan;
    tool_replay_result result;
    tool_replay_figures figures;
    tool_simulate_facts facts;
} sim_played;
/* Nodes of both sides as --prefill and --decode have them, h100 where no device is named. */
void sim_kit_setup(tool_simulate_setup *ret, const char *prefill, const char *decode);
/* n requests on the cluster of d->setup; d is zero else. */
void sim_kit_play(sim_played *d, const char *spec, size_t n);
void sim_played_done(sim_played *d); /* frees d, which malloc made */
#endif
