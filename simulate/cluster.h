#ifndef BT_SIMULATE_CLUSTER_H
#define BT_SIMULATE_CLUSTER_H
#include "decode-node/brain/brain.h"
#include "device/link.h"
#include "gateway/brain/brain.h"
#include "prefill-node/brain/brain.h"
#include "simulate/cost.h"

/* A cluster of devices in virtual time: gateways, prefill and decode nodes with the brains of the daemons, work with
 * the times of common/device, and links between hosts. No row, token or block has content; decisions, counts and waits
 * are as in the daemons. tests/world/sim_world.h is the other world of these brains, with toy engines and every promise
 * checked.
 *
 * The same options and calls give the same run, to the nanosecond.
 *
 * Leaping. While nobody joins or leaves a node's batch, its steps are priced one by one, but its brain and the gateway
 * get their tokens in one TOKENS, at most LEAP_NS (leap.c) later, in which each token keeps its time. A token that
 * comes a little later changes no decision; where it would, the next step's token goes at the step's end. A run with
 * is_full makes the same choices at the same times, by more events.
 */
typedef struct sim_cluster_group {
    const sim_cost *cost; /* borrowed */
    const char *device;   /* its name; borrowed */
    uint32_t nodes;
    uint32_t pages;      /* of KV in each node, each of all layers; where layers have windows, the node divides that
                            memory between their classes as the daemon does (kv/kv_pages.h) */
    uint32_t spare;      /* further nodes, numbered behind these, that are off until sim_cluster_join */
    uint32_t swap_pages; /* that a decode node's swap store would have of all layers; 0: dc.swap_pages */
    uint32_t model;      /* number of their model, from 0; only nodes of one model work together */
    const bt_dims *dims; /* of that model, borrowed; NULL: the options' model */
    bool can_prefill;    /* its decode nodes compute prompts, whatever the options say */
} sim_cluster_group;
enum { SIM_CLUSTER_MODELS = 8, SIM_CLUSTER_GATEWAYS = 8 };

typedef struct sim_cluster_options {
    uint64_t seed;
    uint32_t gateways;                         /* of each model, 1..8: its nodes serve them all */
    const sim_cluster_group *prefill, *decode; /* borrowed; decode nodes compute prompts too where can_prefill */
    size_t prefills, decodes;                  /* groups */
    bt_link link;                              /* of each host, both directions */
    const bt_dims *model;                      /* borrowed */
    uint32_t kv_elem_bytes, ctx_tokens;
    uint32_t prefill_slots, decode_slots, batch_rows, chunk_tokens; /* as the nodes' options of these names */
    bool can_prefill; /* decode nodes compute prompts: short ones (gw.local_below_tokens), or all without prefill nodes
                       */
    bool mixes;       /* ... in one step with decode rows, on devices without programs; else in turns */
    int64_t request_ns, token_ns; /* time of a gateway's one thread for a request, and for each further message of a
                                     node */
    int64_t timeout_ns;           /* a request is cancelled so long after its submission; 0: never */
    int64_t start_ns; /* from the start of a node that joins or changes its role until it greets; -1: its weights come
                         over its link */
    int64_t drain_ns; /* the drain timeout of a node that leaves or changes its role */
    bool is_full;     /* leaps nothing: every step and heartbeat is an event of its own */
    bool is_by_layer; /* each layer of a chunk is a message of its own, else they are grouped (inner.h); for comparison,
                         since it multiplies the steps of a node's brain */
    bool is_checked;  /* every message is encoded and decoded, books of pages are compared with themselves */
    gw_config gw;
    pf_config pf;
    dc_config dc; /* the brains' other settings: times, policies, limits */
} sim_cluster_options;
/* The brains' own defaults, 4 and 32 slots, 64 rows, chunks of 256, no CPU time, weights over the link, 30 s to drain;
 * the caller sets groups, link, model, kv_elem_bytes and ctx_tokens. */
sim_cluster_options sim_cluster_defaults(void);

typedef struct sim_cluster sim_cluster;
/* The client. Times are nanoseconds of the world. */
typedef struct sim_cluster_client {
    void *ud;
    /* Fills in a request that the gateway takes now; memory behind its pointers is read before the next call. */
    void (*fill)(void *ud, uint64_t request, gw_submit *ret);
    void (*tokens)(void *ud, uint64_t request, uint32_t count, int64_t now_ns);
    void (*end)(void *ud, uint64_t request, const gw_action *how, int64_t now_ns); /* DONE or FAIL, once */
    void (*due)(void *ud, uint64_t number, int64_t now_ns);                        /* of sim_cluster_at */
} sim_cluster_client;

/* BT_EARG, BT_ENOMEM. Nodes have greeted the gateway when it returns. */
bt_err sim_cluster_new(sim_cluster **ret, const sim_cluster_options *o, const sim_cluster_client *client,
                       bt_fault *fault);
void sim_cluster_free(sim_cluster *c);

int64_t sim_cluster_now_ns(const sim_cluster *c);
/* A request reaches gateway 0 now. Returns its number, from 1. */
uint64_t sim_cluster_submit(sim_cluster *c);
/* The same at another gateway: gateway i of n of model m has the number m n + i. */
uint64_t sim_cluster_submit_to(sim_cluster *c, uint32_t gateway);
/* `due` is called at at_ns. */
void sim_cluster_at(sim_cluster *c, int64_t at_ns, uint64_t number);
/* Runs until every submitted request has ended and no call of `due` is left, at most until until_ns. BT_ENOMEM;
 * BT_EFORMAT: with is_checked, a broken promise. */
bt_err sim_cluster_run(sim_cluster *c, int64_t until_ns, bt_fault *fault);

/* ---- faults: nodes are counted in their role, over all groups. A fault that makes no sense does nothing ---- */
void sim_cluster_kill(sim_cluster *c, bt_role role, uint32_t node);
void sim_cluster_start(sim_cluster *c, bt_role role, uint32_t node);    /* starts a killed node as a new process */
void sim_cluster_stop(sim_cluster *c, bt_role role, uint32_t node);     /* no step, while the clock goes on */
void sim_cluster_continue(sim_cluster *c, bt_role role, uint32_t node); /* takes first what came meanwhile */
/* Hosts: prefill nodes, then decode nodes. times 1: full speed. Messages under way keep their times. */
void sim_cluster_slow(sim_cluster *c, uint32_t host, uint32_t times);

/* ---- clusters that scale: nodes keep their first number and role as a name ---------- */
/* Powers a node that is off; it greets when it has loaded. False: the node is not off. */
bool sim_cluster_join(sim_cluster *c, bt_role role, uint32_t node);
/* As after SIGTERM: the node takes no more work, leaves when its work has ended, or after drain_ns, and is off then.
 * False: the node does not serve, or leaves already. */
bool sim_cluster_drain(sim_cluster *c, bt_role role, uint32_t node);
/* The gateway asks the node to serve as `as`: the node drains likewise, loads, and greets in its new role. */
void sim_cluster_role(sim_cluster *c, bt_role role, uint32_t node, bt_role as);

/* ---- for reports --- */
/* Sequences that lost their pages to older ones, by the fate of their rows. */
typedef struct sim_cluster_preempted {
    uint64_t all;
    uint64_t swapped;    /* to the swap store, and back */
    uint64_t recomputed; /* dropped, and computed again by the same node */
    uint64_t given_up;   /* the attempt was over, and the gateway began another */
} sim_cluster_preempted;
typedef struct sim_cluster_node {
    bt_role role, born; /* present role; first role, part of its name with number */
    uint32_t number;
    const char *id, *device;
    uint32_t model;
    const sim_cost *cost;
    bt_load load;
    sim_cost_work done[2];     /* as prefill and as decode node; ns: busy */
    uint64_t runs;             /* chunks or steps */
    uint64_t valid_rows, rows; /* of chunks: tokens of prompts, and those computed with padding */
    uint64_t again_rows; /* of prompts and answers, which a node had begun to compute before, this one or another */
    uint64_t sent_bytes; /* of KV, as prefill node */
    sim_cluster_preempted preempted;
} sim_cluster_node;
uint32_t sim_cluster_nodes(const sim_cluster *c);
sim_cluster_node sim_cluster_look(const sim_cluster *c, uint32_t host);
/* The same, with work up to that time, since which the node has begun nothing. */
sim_cluster_node sim_cluster_look_at(const sim_cluster *c, uint32_t host, int64_t at_ns);
typedef enum sim_cluster_state {
    SIM_CLUSTER_OFF = 0,
    SIM_CLUSTER_LOADING,
    SIM_CLUSTER_SERVING,
    SIM_CLUSTER_LEAVING,
    SIM_CLUSTER_DEAD, /* killed; its host is powered */
} sim_cluster_state;
sim_cluster_state sim_cluster_state_of(const sim_cluster *c, uint32_t host);
uint64_t sim_cluster_changes(const sim_cluster *c); /* how often a node's state changed, but for faults */
/* How long a host was powered in that role up to until_ns. */
int64_t sim_cluster_powered_ns(const sim_cluster *c, uint32_t host, bt_role role, int64_t until_ns);
/* How often a change of role was refused, and the reason of the first refusal. */
uint32_t sim_cluster_refused_roles(const sim_cluster *c, const char **ret_why);
uint32_t sim_cluster_waiting(const sim_cluster *c);                    /* at all gateways */
uint32_t sim_cluster_waiting_of(const sim_cluster *c, uint32_t model); /* at those of one model */
uint32_t sim_cluster_active(const sim_cluster *c);
typedef struct sim_cluster_gateway {
    uint32_t model;
    uint64_t requests, cpu_ns; /* its requests; its thread's time */
    uint32_t waiting, active;
} sim_cluster_gateway;
uint32_t sim_cluster_gateways(const sim_cluster *c);
sim_cluster_gateway sim_cluster_look_gateway(const sim_cluster *c, uint32_t number);
uint64_t sim_cluster_events(const sim_cluster *c);  /* brain steps */
uint64_t sim_cluster_choices(const sim_cluster *c); /* digest of requests to nodes and all refusals, in order */
uint64_t sim_cluster_digest(const sim_cluster *c);  /* of every message sent: who, when, what kind */
#endif
