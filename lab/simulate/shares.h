#ifndef BT_LAB_SIMULATE_SHARES_H
#define BT_LAB_SIMULATE_SHARES_H
#include "lab/simulate/show.h"

/* The figures of each model and each gateway of a simulated cluster: keys "models" and "gateways" of the report, and a
 * table of either where there are several. */
void tool_simulate_print_shares(FILE *f, const tool_simulate_told *r);
/* Adds both to an object; false: memory is out. */
bool tool_simulate_shares_json(json_t *o, const tool_simulate_told *r);
/* The figures of one model's requests, without gaps between tokens, which are counted for all together. BT_ENOMEM. */
bt_err tool_simulate_model_figures(tool_replay_figures *ret, const tool_replay_outcome *o, uint32_t model,
                                   bt_fault *fault);
#endif
