#ifndef BT_LAB_SIMULATE_PLAY_H
#define BT_LAB_SIMULATE_PLAY_H
#include "device/schedule.h"
#include "npu/pkg/pkg.h"
#include "simulate/cluster.h"
#include "lab/replay/print.h"
#include "lab/simulate/faults.h"
#include "lab/simulate/models.h"
#include "lab/simulate/scale.h"
#include "lab/simulate/side.h"

/* A plan of requests (lab/replay/plan.h) played on a simulated cluster, recorded as `baton replay` records a real
 * one. The same setup, plan and seed give the same records. */
enum { TOOL_SIMULATE_DOORS = TOOL_SIMULATE_MODELS * SIM_CLUSTER_GATEWAYS };
typedef struct tool_simulate_setup {
    tool_simulate_side prefill, decode;
    bool is_colocated; /* all nodes of both sides compute prompts and decode, on devices without programs in one step */
    const bt_dims *model;                          /* model of groups with number 0 */
    const bt_dims *more[TOOL_SIMULATE_MODELS - 1]; /* of the others, from 1 */
    uint32_t mores;
    bt_link link;
    bt_pace pace;                          /* of all nodes and links: K times slower than the devices */
    const char *shape_policy;              /* NULL: by device */
    bt_schedule_policy schedule;           /* of prompts on an NPU */
    size_t window;                         /* chunks under way at once, of schedules other than serial */
    const char *recipe;                    /* of programs on an NPU (npu/pkg/recipe.h); NULL: the default */
    const char *attention;                 /* likewise (npu/pkg/attention.h); NULL: dense, or the package's */
    const bt_pkg *package;                 /* the programs of nodes of its profile; NULL: made of sizes; borrowed */
    uint32_t weight_bits, weight_permille; /* of steps */
    bool is_float;                         /* as sim_cost_options */
    uint32_t kv_elem_bytes, ctx_tokens;
    bool is_kv_fp8;
    uint64_t kv_memory_bytes, swap_memory_bytes; /* of a node; kv 0: what its device has, 1 GiB where that is unknown */
    sim_cluster_options cluster;                 /* slots, rows, policies, times; the rest is set here */
    tool_simulate_faults faults;
    tool_simulate_scale scale;
    uint64_t seed;
    uint32_t concurrency; /* as in lab/replay/load.h */
    uint32_t streams;     /* likewise; 0: as many as come */
    uint32_t connections; /* that a gateway serves at a time: one more fails; 0: no limit */
    bool shares_prefixes; /* prompts of different keys share prefixes */
} tool_simulate_setup;

static inline const bt_dims *tool_simulate_dims(const tool_simulate_setup *s, uint32_t model)
{
    return model ? s->more[model - 1] : s->model;
}

enum { TOOL_SIMULATE_NO_JOULES = 128 };
/* Why a cluster with that device has no joules. false: the device is no reason. */
bool tool_simulate_lacks_joules(char ret[TOOL_SIMULATE_NO_JOULES], const bt_profile *device);

/* The figures of one model's nodes. */
typedef struct tool_simulate_share {
    double joules, busy_s[2], node_s[2]; /* prefill and decode nodes; joules below 0: not known */
    uint32_t nodes[2];                   /* to begin with */
} tool_simulate_share;
typedef struct tool_simulate_door {
    uint32_t model, most_waiting; /* when it was looked at */
    uint64_t requests, completed, failed;
    double busy;              /* of its thread's time */
    double queue_ms, ttft_ms; /* means of requests that came so far */
} tool_simulate_door;

typedef struct tool_simulate_facts {
    double virtual_s;
    uint64_t events, digest;
    char no_joules[TOOL_SIMULATE_NO_JOULES]; /* why there are none; "": there are */
    double joules, role_joules[2];           /* of nodes while they are powered; as prefill and as decode nodes */
    const char *joules_bound;                /* of all devices, as bt_energy_bound_both */
    double prefill_busy, decode_busy;        /* of the nodes' time */
    uint64_t valid_rows, rows;               /* of prefill chunks: tokens; rows computed with padding */
    uint64_t sent_bytes;                     /* of KV, by all prefill nodes */
    uint64_t again_rows;                     /* of all nodes: rows that some node had begun to compute before */
    sim_cluster_preempted preempted;         /* of all nodes */
    uint32_t prefill_nodes, decode_nodes;    /* to begin with */
    double prefill_node_s, decode_node_s;    /* powered as such, loading included */
    uint32_t least[2], most[2];              /* prefill and decode nodes that served at a time */
    tool_simulate_count_at count[TOOL_SIMULATE_COUNTS]; /* nodes over time */
    size_t counts;
    uint32_t refused_roles; /* changes that a node did not make, and why the first */
    char refused_why[200];
    bool is_overloaded;
    char overload[160]; /* how the overload shows */
    tool_simulate_share share[TOOL_SIMULATE_MODELS];
    tool_simulate_door door[TOOL_SIMULATE_DOORS]; /* gateways of one model stand together */
    uint32_t doors;
} tool_simulate_facts;

/* Sets s->ctx_tokens, as -c 0 asks: model_ctx (0: not known, then 131072), or the longest sequence that every device
 * and the package hold if that is less. BT_EARG, BT_ELIMIT: as tool_simulate_bench_new. */
bt_err tool_simulate_set_context(tool_simulate_setup *s, uint32_t model_ctx, bt_fault *fault);

/* The costs and pages of a setup: made once for many runs. */
typedef struct tool_simulate_bench tool_simulate_bench;
/* BT_EARG, BT_ELIMIT: a device cannot hold the model or a sequence of its context, with what it could hold. */
bt_err tool_simulate_bench_new(tool_simulate_bench **ret, const tool_simulate_setup *s, bt_fault *fault);
void tool_simulate_bench_free(tool_simulate_bench *b);
/* From here on its devices take what a draw of this number says (device/forecast.h). is_drawn false: what they are
 * priced at, as at first. */
void tool_simulate_bench_draw(tool_simulate_bench *b, bool is_drawn, uint64_t number);

/* Plays with nodes[i] nodes of group i (NULL: `least` of each). *r was begun for the plan's requests. */
bt_err tool_simulate_play(tool_simulate_facts *ret, tool_replay_result *r, const tool_simulate_bench *b,
                          const tool_replay_plan *plan, const uint32_t *prefill, const uint32_t *decode,
                          bt_fault *fault);
#endif
