#ifndef BT_SIMULATE_SCALE_H
#define BT_SIMULATE_SCALE_H
#include "simulate/cluster.h"

/* A rule by which a simulated cluster scales: when a figure of the nodes of one role stays beyond a bound
 * for the bound's time, the rule adds a node, or lets the node with the least work leave. The caller asks each rule in
 * steps; a node added or let go starts the time anew. */
typedef enum sim_scale_signal {
    SIM_SCALE_KV = 0, /* pages of KV in use, in thousandths of the nodes' pages */
    SIM_SCALE_SLOTS,  /* slots in use, likewise */
    SIM_SCALE_QUEUE,  /* requests that wait at the gateway and in these nodes, in thousandths for each node */
} sim_scale_signal;

typedef struct sim_scale_bound {
    sim_scale_signal signal;
    uint64_t milli;
    int64_t for_ns;
} sim_scale_bound;

typedef struct sim_scale_rule {
    bt_role role;
    uint32_t model;           /* only its nodes, and what waits at its gateways */
    uint32_t least, most;     /* nodes of that role, those that load among them */
    sim_scale_bound up, down; /* above; below */
    bool has_down;            /* else nodes that came stay */
} sim_scale_rule;

typedef struct sim_scale {
    sim_scale_rule rule;
    int64_t up_ns, down_ns; /* since when the figure is beyond the bound; -1: it is not */
} sim_scale;
void sim_scale_begin(sim_scale *s, const sim_scale_rule *rule);

/* The rule's input: figures of a model's nodes that serve in its role. */
typedef struct sim_scale_reading {
    uint32_t nodes;   /* that serve or load */
    uint32_t serving; /* 0: no figure is known but the queue */
    uint64_t milli[3];
} sim_scale_reading;
sim_scale_reading sim_scale_read(const sim_cluster *c, bt_role role, uint32_t model);
/* Pure: 1: a node more, -1: one less, 0. */
int sim_scale_decide(sim_scale *s, const sim_scale_reading *r, int64_t now_ns);
/* Reads, decides, and asks the cluster for it. */
void sim_scale_look(sim_scale *s, sim_cluster *c);
#endif
