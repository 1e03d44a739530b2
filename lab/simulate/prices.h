#ifndef BT_LAB_SIMULATE_PRICES_H
#define BT_LAB_SIMULATE_PRICES_H
#include "npu/pkg/pkg.h"
#include "lab/plan/programs.h"
#include "lab/simulate/play.h"

/* What the nodes of a group take, by the programs that price real nodes: those of setup.package where the device is the
 * package's, to the nanosecond; else those that the compiler would make of the model's sizes with setup.recipe
 * (lab/plan/programs.h, within 1 %), for its companion and its waits are in both. A device without programs (a GPU)
 * computes chunk:8192+tail unless setup.shape_policy says otherwise.
 *
 * BT_EARG: a policy or recipe that is none, or that the device cannot run; a package shorter than setup.ctx_tokens;
 * BT_ELIMIT: weights that the device does not hold; BT_ENOMEM. */
bt_err tool_simulate_price_node(sim_cost *ret, const tool_simulate_setup *s, const tool_simulate_group *g,
                                bt_fault *fault);
/* The programs of a group on a device that has them, from the model's sizes. */
typedef struct tool_simulate_programs {
    tool_plan_programs programs;
    bt_shapes shapes;
    uint64_t bytes; /* of memory: weights and arenas */
} tool_simulate_programs;
bt_err tool_simulate_programs_of(tool_simulate_programs *ret, const tool_simulate_setup *s,
                                 const tool_simulate_group *g, bt_fault *fault);
bool tool_simulate_is_of_package(const tool_simulate_setup *s, const tool_simulate_group *g);
bool tool_simulate_has_engines(const tool_simulate_group *g); /* an NPU and a companion */
/* BT_EARG: a schedule that no prefill node of the setup has two engines for. */
bt_err tool_simulate_check_schedule(const tool_simulate_setup *s, bt_fault *fault);
/* BT_EARG: a package that no prefill node of the setup runs, or of another model; an attention that is none, that no
 * prefill node has, or that is not the package's. */
bt_err tool_simulate_check_package(const tool_simulate_setup *s, bt_fault *fault);
#endif
