#ifndef BT_LAB_SIMULATE_MODELS_H
#define BT_LAB_SIMULATE_MODELS_H
#include "simulate/cluster.h"
#include "lab/replay/plan.h"
#include "lab/simulate/scale.h"
#include "lab/simulate/side.h"

/* Several models in one cluster. A gateway and a node of Baton serve one model, so each model has gateways and nodes of
 * its own: "--prefill 8:h100,4:a100@llama-3.2-1b" gives the second group to that model, a group without a name serves
 * the first. The trace gives a request's model, or drawn shares do. */
enum { TOOL_SIMULATE_MODELS = SIM_CLUSTER_MODELS, TOOL_SIMULATE_NAMED = 16 };
typedef struct tool_simulate_models {
    const char *given[TOOL_SIMULATE_MODELS]; /* the given names; borrowed */
    bt_dims dims[TOOL_SIMULATE_MODELS];
    uint32_t len;
    double share[TOOL_SIMULATE_MODELS]; /* of requests that name no model; all 0: no shares were given */
    struct {
        uint64_t name; /* bt_hash64 of what a trace says */
        uint32_t model;
    } named[TOOL_SIMULATE_NAMED];
    size_t named_len;
} tool_simulate_models;

/* The model of a name: as given, its own name, or the beginning of one name alone. BT_EARG: none, or several. */
bt_err tool_simulate_model_of(uint32_t *ret, const tool_simulate_models *m, const char *name, bt_fault *fault);
/* Gives each group of both sides its number. BT_EARG: an unknown name, or a model without decode nodes. */
bt_err tool_simulate_models_place(const tool_simulate_models *m, tool_simulate_side *prefill,
                                  tool_simulate_side *decode, bool is_colocated, bt_fault *fault);
/* Gives each rule of --scale the number of its model. BT_EARG: an unknown name. */
bt_err tool_simulate_models_rules(const tool_simulate_models *m, tool_simulate_scale *s, bt_fault *fault);
/* "NAME=MODEL" and "MODEL:SHARE" with commas between: other names of a model, and a model's share of requests that name
 * none. BT_EARG. */
bt_err tool_simulate_models_requests(tool_simulate_models *m, const char *text, bt_fault *fault);
/* Sets `model` of all items: the one that their row names; else drawn by the shares and the seed, the same for all
 * turns of a session. BT_EARG: a request for an unknown model. */
bt_err tool_simulate_models_assign(tool_replay_plan *p, const tool_simulate_models *m, uint64_t seed, bt_fault *fault);
#endif
