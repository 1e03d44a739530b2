#ifndef BT_LAB_SIMULATE_PRICES_H
#define BT_LAB_SIMULATE_PRICES_H
#include "lab/simulate/play.h"
#include "npu/price/schedule_play.h"

/* The times of a group's nodes, by what prices real nodes: where the device has programs those of setup.package, if
 * the device is the package's, else those that the compiler would make of the model's sizes with setup.recipe
 * (lab/plan/sketch.h), under setup.schedule with setup.window chunks under way. A device without programs (a GPU)
 * computes chunk:8192+tail unless setup.shape_policy says otherwise. */
typedef struct tool_simulate_priced {
    sim_cost cost;
    bt_pkg *sketch;         /* owned; NULL: of the package, or no programs */
    bt_price_pkg *price;    /* owned; NULL: no programs */
    bt_schedule_play *play; /* owned; likewise */
} tool_simulate_priced;
/* is_prefill: the node computes prompts alone; a device with programs then holds experts in these alone.
 * BT_EARG: a policy or recipe that is none, or that the device cannot run; a package shorter than setup.ctx_tokens;
 * BT_ELIMIT: weights that the device does not hold; BT_ENOMEM. *ret is done after success and failure. */
bt_err tool_simulate_price_node(tool_simulate_priced *ret, const tool_simulate_setup *s, const tool_simulate_group *g,
                                bool is_prefill, bt_fault *fault);
void tool_simulate_price_done(tool_simulate_priced *p);
/* Rows of a prompt of so many tokens that pass together at most on a prefill node; 0: the policy cannot be read. */
uint64_t tool_simulate_rows_at_once(const tool_simulate_setup *s, const tool_simulate_group *g, uint64_t tokens);
bool tool_simulate_is_of_package(const tool_simulate_setup *s, const tool_simulate_group *g);
/* BT_EARG: a schedule that no prefill node of the setup has programs for. */
bt_err tool_simulate_check_schedule(const tool_simulate_setup *s, bt_fault *fault);
/* BT_EARG: a package that no prefill node of the setup runs, or of another model; an attention that is none, that no
 * prefill node has, or that is not the package's. */
bt_err tool_simulate_check_package(const tool_simulate_setup *s, bt_fault *fault);
#endif
