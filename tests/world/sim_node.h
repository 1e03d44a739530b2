#ifndef TESTS_WORLD_SIM_NODE_H
#define TESTS_WORLD_SIM_NODE_H
#include "decode-node/brain/batch.h"
#include "tests/world/sim_pages.h"
#include "tests/world/sim_toy.h"
#include "tests/world/sim_world.h"
#include "xfer/attempts.h"

/* The declarations that the files of the simulated world share: its processes and how they touch the network. For
 * sim_*.c only. */
typedef struct sim_run { /* a slot's work in an engine */
    bool is_busy, is_cancelled;
    bool is_ending; /* prefill: the brain hears in this step that it has ended */
    uint64_t run;   /* prefill: number of this piece of work: late calendar items are void */
    bt_sampling sampling;
    int32_t *ids;
    uint64_t *hashes;
    uint32_t ids_len;                  /* prefill: the prompt; decode: its answer; [ctx_tokens] */
    uint32_t chunk_begin, layer;       /* prefill */
    bool has_first;                    /* prefill: COMPUTED was said, the digest not yet */
    bool may_pause, has_paused;        /* prefill */
    uint32_t from_row, pause_at, lost; /* prefill; lost: tokens that others began to compute since it began */
    uint32_t prompt_tokens, max_tokens, known, rows; /* decode: tokens of the answer, rows in place */
} sim_run;

typedef struct sim_kv sim_kv; /* a prefill node's pages and who reads and writes them: sim_prefill.c */

typedef struct sim_route {
    uint32_t process;
    uint8_t socket[16];
    bt_incarnation peer;
    bool in_use;
} sim_route;

typedef struct sim_process {
    bt_role role, promised, next;                    /* promised: by ROLE_ANSWER; next: that it has left for */
    bool is_alive, is_stopped, is_draining, is_over; /* is_over: it was told that its drain takes too long */
    uint64_t life;
    int64_t due_us, wake_us;       /* when its brain wants a TICK; when it gets it */
    int64_t well_us;               /* has run since then; INT64_MAX: does not, or is leaving */
    int64_t runs_us;               /* was started, or went on, last; leaving or not */
    int64_t prefill_us, decode_us; /* gateway: when it last heard a node of each role that takes requests */
    sim_item *inbox, **inbox_end;
    uint32_t inbox_len; /* what came while it was stopped */
    bt_incarnation self;
    gw_brain *gw;
    pf_brain *pf;
    dc_brain *dc;
    sim_run *runs; /* [slots] */
    sim_kv *kv;    /* prefill */
    sim_pages *pages;
    dc_batch *batch;
    bool is_stepping;     /* decode; a turn of its worker is in the calendar */
    uint32_t routes_used; /* places of routes that were ever taken */
    sim_route *routes;    /* [routes_len] bulk: decode: how to answer a peer; prefill: who is dialled */
} sim_process;

typedef struct sim_answer {
    int32_t *ids;
    uint32_t len;
    bt_finish reason;
} sim_answer; /* what engines of one rule say */
typedef struct sim_turn {
    uint64_t life, came; /* of the node; how many RESERVEs of new attempts came to nodes before */
    int64_t at_us;
    uint32_t attempt, passed;
    bool has_tokens, has_begun;
} sim_turn; /* of the highest attempt that a decode node was asked to reserve for */
typedef struct sim_client {
    sim_request r;
    int32_t *ids;
    uint32_t salt;       /* 0: none */
    uint64_t seed, life; /* life: of its gateway */
    uint32_t attempt;
    int64_t attempt_us; /* the highest that was begun; when */
    uint32_t left;
    int64_t left_us;     /* the highest that ABORT was said of; when first */
    uint32_t *aborted;   /* [processes] the same for each node: an ABORT may be lost on its way to one of two */
    int64_t *aborted_us; /* [processes] */
    uint32_t *told;
    uint64_t *told_life;            /* [processes] the highest attempt that a node was told of, in which life of it */
    sim_turn *turns;                /* [processes] */
    uint64_t cost;                  /* of its tokens, as its gateway counts them */
    bool had_turn, was_reserving;   /* before this step of its gateway */
    bool saw_first, may_be_refused; /* the queue was full, or the gateway was leaving */
    sim_answer answers[SIM_TOY_RULES];
    unsigned may; /* may: by which rules the prompt may have been computed, as far as tokens tell */
} sim_client;

typedef struct sim_flight {
    uint64_t from_life, to_life, epoch, bytes, end;
} sim_flight; /* of blocks of a link's latest epoch: under way; sent in all */
typedef struct sim_end {
    uint64_t gateway_life, life; /* of the node; 0: nothing was told */
    bt_incarnation node;
    int64_t told_us;
    bt_incarnation named; /* that a CUT of the gateway was about */
    int64_t named_us;     /* the first since it was heard */
    uint64_t drains_life; /* of the node, when it last said so that it drains; 0: it does not */
    uint64_t up_life;     /* of the node, when its connection came up again */
    int64_t up_us;
    uint64_t heard_life; /* of the node, when it was heard last, as a node that the gateway knows */
    int64_t heard_us;
} sim_end; /* a gateway was told that the connection to a node has ended, and the node is dead */
typedef struct sim_whole {
    int64_t from_us, to_us;
    uint32_t gateway;
} sim_whole; /* a pair and its gateway could work together */

/* The holdings of a gateway's keys, and the tokens that they got while others waited (sim_shares.c). */
enum { SIM_GIVEN = 128 };
typedef struct sim_shares {
    uint64_t life;                                                          /* of the gateway */
    uint64_t passed[2][SIM_KEYS + 1][SIM_KEYS + 1], cost_max[SIM_KEYS + 1]; /* 1: where short prompts had turns */
    uint64_t given[SIM_GIVEN]; /* in this step: requests that got nodes, in order */
    uint32_t given_len;
    uint64_t refused, gave_way; /* in this step: for want of room; 0: none */
    bool has_failed;            /* in this step: any request */
} sim_shares;

enum { SIM_ROUTES_LEAST = 16 };
struct sim_world {
    sim_options o;
    sim_net *net;
    int64_t now_us, calm_us, look_us; /* calm: INT64_MAX while faults may come; look: when sim_check_all is next */
    uint64_t came;                    /* see sim_turn */
    uint64_t given;                   /* a request that got nodes in this step of its gateway */
    uint32_t givens;                  /* how many did */
    uint64_t lives, works, steps, answered, faults, undecodable;
    sim_process *processes;
    uint32_t processes_len; /* gateways, prefill nodes, decode nodes */
    uint32_t routes_len;    /* of each process: as many as there are processes, SIM_ROUTES_LEAST at least */
    bt_order wakes;         /* processes by wake_us; those that are dead or stopped leave it when their turn comes */
    bt_order selves;        /* ... by incarnation, the dead ones too */
    sim_client *clients;
    uint64_t clients_len, clients_cap, first_pending;
    sim_flight *flights; /* [processes][processes] */
    sim_end *ends;       /* [gateways][processes] */
    sim_shares *shares;  /* [gateways] */
    uint64_t asking;     /* the request that is submitted in this step, or 0 */
    bt_incarnation asked;
    bool was_asked; /* a gateway said something to that process, in the step that looked for an ended connection */
    sim_whole *wholes;
    size_t wholes_len, wholes_cap;
    uint8_t *frame;
    size_t frame_cap;
    bt_msg_buf buf;
    char error[400];
};

/* The order in which the files stand on each other, from here to the end: sim_node.c, sim_check.c, sim_shares.c,
 * sim_shell.c, then sim_worker.c, sim_decode.c and beside them sim_prefill.c and sim_clients.c; sim_world.c on top. */
void sim_broken(sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The random numbers of a step. Where the brain looks at none, none are computed, and the stream goes on as if they
 * were. */
bt_random sim_random(sim_world *w, bool is_looked_at);
uint32_t sim_rule_of(const sim_world *w, uint32_t process); /* by which it computes prompts */
/* The salt of the request whose attempt has the slot, by its client and not by any message. */
uint32_t sim_salt_of(const sim_world *w, const bt_attempts *t, uint32_t slot);
uint32_t sim_name_of(const sim_world *w, uint32_t process); /* N of its node_id "node-N"; of twins the first one's */
uint32_t sim_process_by_incarnation(const sim_world *w, const bt_incarnation *who); /* UINT32_MAX: nobody */
/* sim_check.c: checks what must hold. */
void sim_check_process(sim_world *w, uint32_t self); /* after each of its steps: cheap */
void sim_check_all(sim_world *w);                    /* now and then: everything */
void sim_check_fail(sim_world *w, const sim_client *c, const gw_action *a);
void sim_check_counted(sim_world *w, const sim_item *packet); /* a block is sent, and may be lost */
void sim_check_sent(sim_world *w, const sim_item *packet);    /* a block is under way; before it is posted */
void sim_check_gone(sim_world *w, const sim_item *packet);    /* ... has arrived, or never will */
/* A message is taken. True: it comes from *ret, a process that the gateway learned had ended. */
bool sim_check_came(bt_incarnation *ret, sim_world *w, const sim_item *packet);
void sim_check_place(sim_world *w, uint32_t self, const dc_block *b);             /* before its rows are copied */
void sim_check_said(sim_world *w, uint32_t from, const bt_msg *m);                /* a control message of a node */
void sim_check_comes(sim_world *w, uint32_t to, const bt_msg *m);                 /* one that comes to it */
void sim_check_told(sim_world *w, uint32_t to, const bt_msg *m);                  /* ... and has come */
void sim_check_cut(sim_world *w, const sim_item *news);                           /* SIM_CUT, before it is told */
void sim_check_named(sim_world *w, uint32_t gateway, const bt_incarnation *node); /* CUT of it, before it is told */
void sim_check_lost(sim_world *w, uint32_t gateway, const bt_incarnation *node);  /* it became GONE */
void sim_check_up(sim_world *w, const sim_item *news);                            /* SIM_UP, before it is told */
void sim_check_exit(sim_world *w, uint32_t self, bt_role next);
void sim_check_heard(sim_world *w, const sim_item *packet, const bt_msg *m); /* a gateway hears a node */
/* A gateway gives the name of a node to the process that greets it. */
void sim_check_renamed(sim_world *w, uint32_t gateway, const bt_incarnation *node);
void sim_check_chosen(sim_world *w, uint32_t gateway, uint64_t request, uint32_t node); /* for a new attempt */
void sim_roles_drain(sim_world *w, uint32_t self); /* sim_check.c: a node begins to drain for another role */
void sim_roles_exit(sim_world *w, uint32_t self, bt_role next);
void sim_check_breaking(sim_world *w); /* before a process or link stops working */
/* sim_shares.c: what keys get of a gateway. A request gets nodes; one fails; the step is over. */
void sim_shares_given(sim_world *w, uint32_t gateway, uint64_t request);
void sim_shares_failed(sim_world *w, uint32_t gateway, uint64_t request, gw_fail_kind kind);
void sim_shares_step(sim_world *w, uint32_t gateway);
static inline uint32_t sim_shares_weight(uint32_t key) { return 1 + key % 3; }
/* sim_shell.c: packets, and the end of a step. */
uint8_t *sim_frame(sim_world *w, size_t len); /* room for one, until the next call; NULL: out of memory */
void sim_say(sim_world *w, uint32_t from, uint32_t to, sim_channel channel, const uint8_t socket[16], const bt_msg *m);
void sim_send(sim_world *w, const sim_item *packet, const uint8_t *bytes, size_t len); /* life is set here */
void sim_wake_at(sim_world *w, sim_process *p, int64_t us);                            /* sets wake_us */
void sim_after(sim_world *w, uint32_t who); /* ends what a process was made to do: checks, timers */
/* sim_worker.c: the compute thread of a decode node. */
enum { SIM_TOLD_MAX = 256 };
typedef struct sim_told {
    dc_event ev[SIM_TOLD_MAX];
    uint32_t len;
    bt_msg_first_token first[DC_BATCH_PIECES];
    uint32_t firsts;
} sim_told; /* what a turn of the worker reports to the brain */
bt_err sim_worker_new(dc_batch **ret, const sim_options *o);
void sim_worker_start(sim_world *w, uint32_t self, const dc_action *a);
void sim_worker_grow(sim_world *w, uint32_t self, uint32_t slot);
void sim_worker_wake(sim_world *w, uint32_t self);
void sim_worker_turn(sim_told *ret, sim_world *w, uint32_t self);
/* sim_decode.c, sim_prefill.c: one event into the node's brain, its actions carried out, what they cause likewise. */
void sim_decode_step(sim_world *w, uint32_t self, const dc_event *ev);
void sim_decode_packet(sim_world *w, uint32_t self, const sim_item *it, const bt_msg *m);
void sim_decode_work(sim_world *w, uint32_t self);
bt_err sim_prefill_new(sim_kv **ret, const sim_options *o);
void sim_prefill_free(sim_kv *kv); /* NULL is fine */
void sim_prefill_step(sim_world *w, uint32_t self, const pf_event *ev);
void sim_prefill_packet(sim_world *w, uint32_t self, const sim_item *it, const bt_msg *m);
void sim_prefill_work(sim_world *w, uint32_t self, const sim_item *it);
/* sim_clients.c */
void sim_gateway_step(sim_world *w, uint32_t self, const gw_event *ev);
void sim_clients_orphan(sim_world *w, uint32_t gateway);
#endif
