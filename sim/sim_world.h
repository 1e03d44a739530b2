#ifndef SIM_WORLD_H
#define SIM_WORLD_H
#include "decode-node/brain.h"
#include "gateway/brain.h"
#include "prefill-node/brain.h"
#include "sim/sim_net.h"

/* One gateway, some prefill and decode nodes, all with their real brains, over a virtual clock, the virtual
 * network and toy engines. Every message is encoded, carried as bytes and decoded; every block has its real
 * header and digest. The world plays all clients and checks at every action that it keeps its promise: the
 * right tokens, each once, in order, and exactly one final answer a request. The first broken promise is kept
 * as text. The same options and calls give the same run. */
typedef struct sim_options {
    uint64_t seed;
    uint32_t prefills, decodes, slots;          /* slots of each node */
    uint32_t ctx_tokens, pages_total;           /* pages of 64 tokens in each prefill node */
    uint32_t decode_pages, page_tokens;         /* in each decode node */
    uint32_t growth_tokens, swap_pages;         /* as in decode-node/brain.h */
    bool can_prefill;                           /* decode nodes prefill too: */
    uint32_t local_below_tokens;                /* such prompts, as in gateway/brain.h; all of them where prefills is 0 */
    uint32_t prefixes;                          /* a prompt begins with one of so many beginnings, half of it long; 0: none */
    uint32_t queue_max;
    uint64_t window_bytes;                      /* credit; small values make transfers wait for it */
    double blocked_ratio;                       /* SEND_BLOCKs that the socket does not take at once */
    sim_faults faults;
} sim_options;
/* 1 + 1 nodes, 1 slot, 512 tokens, 64 pages of 64, growth 64, no swap store, queue 64, 64 KiB, no faults, 0.1 to 2 ms of delay. */
sim_options sim_options_defaults(uint64_t seed);

typedef enum sim_outcome { SIM_PENDING = 0, SIM_DONE, SIM_FAILED } sim_outcome;
typedef struct sim_request {
    sim_outcome outcome;
    uint32_t prompt_tokens, max_tokens, tokens; /* tokens: given to the client */
    int64_t submitted_us, ended_us;
    bt_finish reason;
    gw_fail_kind kind;
    gw_stats stats;
    bool is_cut;                                /* cancelled, or ended early by its client */
} sim_request;

typedef struct sim_world sim_world;
bt_err sim_world_new(sim_world **ret, const sim_options *o);
void   sim_world_free(sim_world *w);

int64_t sim_world_now_us(const sim_world *w);
void sim_world_run(sim_world *w, int64_t for_us);
/* Run until every request has its answer, at most for_us. True when they have. */
bool sim_world_run_answered(sim_world *w, int64_t for_us);
/* Run without clients until no node holds a slot, page, lease or attempt, at most for_us. True when so. */
bool sim_world_run_idle(sim_world *w, int64_t for_us);

/* The new request's number, from 1; 0 when out of memory. The prompt is drawn. */
uint64_t sim_world_submit(sim_world *w, uint32_t prompt_tokens, uint32_t max_tokens);
void sim_world_cancel(sim_world *w, uint64_t request);
void sim_world_finish_early(sim_world *w, uint64_t request);
const sim_request *sim_world_request(const sim_world *w, uint64_t request);

/* A process dies without a word; starts again as a new incarnation. Killing the dead and starting the living
 * does nothing. */
void sim_world_kill(sim_world *w, bt_role role, uint32_t index);
void sim_world_start(sim_world *w, bt_role role, uint32_t index);
void sim_world_drain(sim_world *w, bt_role role, uint32_t index);
bool sim_world_is_alive(const sim_world *w, bt_role role, uint32_t index);      /* false after EXIT, too */

void sim_world_set_faults(sim_world *w, const sim_faults *f);
uint64_t sim_world_draw(sim_world *w);
uint64_t sim_world_steps(const sim_world *w);
dc_counters sim_world_decode_counters(const sim_world *w);  /* of all decode nodes that live */
const gw_brain *sim_world_gateway(const sim_world *w);      /* NULL when dead */
const char *sim_world_error(const sim_world *w);            /* the first broken promise; NULL: none */
#endif
