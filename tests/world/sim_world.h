#ifndef TESTS_WORLD_SIM_WORLD_H
#define TESTS_WORLD_SIM_WORLD_H
#include "decode-node/brain/brain.h"
#include "gateway/brain/brain.h"
#include "prefill-node/brain/brain.h"
#include "tests/world/sim_net.h"

#include <stdio.h>

/* Some gateways, prefill and decode nodes, all with their real brains, over a virtual clock, the virtual network and
 * toy engines. Every message is encoded, carried as bytes and decoded; every block has its real header and digest. The
 * world plays all clients and checks at every action that it keeps its promise: the right tokens, each once, in order,
 * and exactly one final answer a request; and what sim_check.c lists. The first broken promise is kept as text. With
 * is_bare nothing is encoded or checked. The same options and calls give the same run. */
enum { SIM_KEYS = 4 };
typedef struct sim_options {
    uint64_t seed;
    uint32_t gateways, prefills, decodes, slots; /* slots of each node */
    uint32_t ctx_tokens, pages_total;            /* pages of 64 tokens in each prefill node */
    uint32_t decode_pages, page_tokens;          /* in each decode node */
    uint32_t growth_tokens, swap_pages;          /* as in decode-node/brain/brain.h */
    uint32_t kv_window, global_every;            /* of the toy layers (sim_toy.h); 0: every layer sees all rows */
    uint32_t window_pages, swap_window_pages;    /* of window layers in each decode node, where there are such */
    bool can_prefill;                            /* decode nodes prefill too: */
    uint32_t local_below_tokens; /* such prompts, as in gateway/brain/brain.h; all of them where prefills is 0 */
    bool mixes;        /* ... in mixed steps with rows of answers (decode-node/brain/batch.h); else in turns */
    uint32_t prefixes; /* a prompt begins with one of so many prefixes, half of it long; 0: none */
    uint32_t salts;    /* a prompt has one of so many salts, or none instead of the first; 0 or 1: none has */
    uint32_t queue_max, active_max; /* as in gateway/brain/brain.h */
    uint32_t keys; /* clients have so many API keys, SIM_KEYS at most; key k weighs 1 + k % 3. 0: none, all are alike */
    uint64_t window_bytes; /* credit; small values make transfers wait for it */
    double blocked_ratio;  /* SEND_BLOCKs that the socket does not take at once */
    bt_role twins;         /* the last node of this role has the node_id of its first; 0: each has its own */
    uint32_t rules;        /* 2: every second prefill node computes prompts by another rule, and is of another class */
    double forge_ratio;    /* of blocks that somebody sends again before them, with other rows and a guessed ticket */
    uint32_t inbox_max;    /* packets that wait for a stopped process; more are lost, as behind a high-water mark */
    int64_t late_us;       /* a process looks at its timers up to so much too late */
    int64_t load_us;       /* from a node's leaving for another role until it greets */
    int64_t accept_us;     /* a pair that has been whole for so long must have taken a waiting request */
    sim_faults faults;
    gw_config gw;
    pf_config pf;
    dc_config dc; /* what is left of the brains' settings: times, policies, limits */
    /* Messages go as structs (sim_bare.h), blocks without digests, and nothing is checked: the same decisions, sooner.
     * Not where bytes are corrupted or forged: BT_EARG. */
    bool is_bare;
    FILE *trace; /* every event as a line; NULL: none */
} sim_options;
/* 1 + 1 + 1 processes, 1 slot, 512 tokens, 64 pages of 64, growth 64, no swap store, queue 64, active 64, 64 KiB, one
 * rule, no faults, 0.1 to 2 ms of delay, inboxes of 1,000, no lateness, 15 s to accept, the brains' own defaults. */
sim_options sim_options_defaults(uint64_t seed);

typedef enum sim_outcome { SIM_PENDING = 0, SIM_DONE, SIM_FAILED } sim_outcome;
typedef struct sim_request {
    sim_outcome outcome;
    /* max_tokens: what the nodes hold beside the prompt, where more was asked for. tokens: given to the client */
    uint32_t gateway, prompt_tokens, max_tokens, tokens;
    uint32_t key; /* 1..; 0: none */
    int32_t priority;
    int64_t submitted_us, heard_us, ended_us; /* heard: the last token, or the submission */
    bt_finish reason;
    gw_fail_kind kind;
    gw_stats stats;
    bool is_cut;    /* cancelled, or ended early by its client */
    bool is_orphan; /* its gateway died */
} sim_request;

typedef struct sim_world sim_world;
bt_err sim_world_new(sim_world **ret, const sim_options *o); /* BT_EARG, BT_ENOMEM */
void sim_world_free(sim_world *w);

/* ---- time: all of these stop at the first broken promise ---- */
int64_t sim_world_now_us(const sim_world *w);
void sim_world_run(sim_world *w, int64_t for_us);
/* Run until every request has its answer, at most for_us. True when they have. */
bool sim_world_run_answered(sim_world *w, int64_t for_us);
/* Run without clients until no node holds a slot, page, lease or attempt, at most for_us. True when so. */
bool sim_world_run_idle(sim_world *w, int64_t for_us);

/* ---- clients ---- */
/* The new request's number, from 1; 0 when out of memory or the gateway does not run. The prompt is drawn. */
uint64_t sim_world_submit(sim_world *w, uint32_t prompt_tokens, uint32_t max_tokens);
uint64_t sim_world_submit_to(sim_world *w, uint32_t gateway, uint32_t prompt_tokens, uint32_t max_tokens);
/* The same for a key; without one, where there are keys, the keys ask in turns. */
uint64_t sim_world_submit_as(sim_world *w, uint32_t key, int32_t priority, uint32_t gateway, uint32_t prompt_tokens,
                             uint32_t max_tokens);
void sim_world_cancel(sim_world *w, uint64_t request);
void sim_world_finish_early(sim_world *w, uint64_t request);
uint64_t sim_world_requests(const sim_world *w); /* how many there were */
const sim_request *sim_world_request(const sim_world *w, uint64_t request);

/* ---- processes: what makes no sense now (killing the dead, waking the running) does nothing ---- */
void sim_world_kill(sim_world *w, bt_role role, uint32_t index);  /* without a word; a gateway's clients go with it */
void sim_world_start(sim_world *w, bt_role role, uint32_t index); /* as a new incarnation */
/* no step, while the clock goes on; what comes waits */
void sim_world_stop(sim_world *w, bt_role role, uint32_t index);
void sim_world_continue(sim_world *w, bt_role role, uint32_t index);
void sim_world_drain(sim_world *w, bt_role role, uint32_t index);
/* a node that drains still, and runs, leaves at once */
void sim_world_drain_over(sim_world *w, bt_role role, uint32_t index);
/* A gateway asks a node to serve as `as`. Nodes go by the role that they began in. */
void sim_world_role(sim_world *w, uint32_t gateway, bt_role role, uint32_t index, bt_role as);
bt_role sim_world_role_of(const sim_world *w, bt_role role, uint32_t index);
/* A node that is dead or leaving is one of that role when it starts. */
void sim_world_set_role(sim_world *w, bt_role role, uint32_t index, bt_role as);
bool sim_world_is_alive(const sim_world *w, bt_role role, uint32_t index); /* false after EXIT, too */

bool sim_world_is_leaving(const sim_world *w, bt_role role, uint32_t index); /* asked to, and still here */

/* ---- the network ---- */
void sim_world_set_faults(sim_world *w, const sim_faults *f);
/* Process numbers: gateways, prefill nodes, decode nodes, in this order. */
void sim_world_cut(sim_world *w, uint32_t from, uint32_t to, int64_t for_us, bool holds); /* one way */
/* The connection between a gateway and a node (process numbers) ends, whether the node lives or not: the gateway
 * learns it as late as a packet comes at most, and the node that it is up again when no cut is between them. */
void sim_world_end_link(sim_world *w, uint32_t gateway, uint32_t node);
sim_net *sim_world_net(sim_world *w);
/* From now on everything works as it should: any failure later than accept_us after this is a broken promise. */
void sim_world_calm(sim_world *w);

/* ---- to look at ---- */
uint64_t sim_world_draw(sim_world *w);
uint64_t sim_world_steps(const sim_world *w);
uint64_t sim_world_faults(const sim_world *w);             /* that happened: packets, cuts, processes */
dc_counters sim_world_decode_counters(const sim_world *w); /* of all decode nodes that live */
const char *sim_world_error(const sim_world *w);           /* the first broken promise; NULL: none */
#endif
