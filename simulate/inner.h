#ifndef BT_SIMULATE_INNER_H
#define BT_SIMULATE_INNER_H
#include "decode-node/brain/batch.h"
#include "simulate/calendar.h"
#include "simulate/cluster.h"
#include "simulate/line.h"
#include "simulate/mail.h"
#include "simulate/wire.h"
#include "xfer/gates.h"

/* Shared by the files of the simulated cluster only: carry.c, rest.c, gateway.c, prefill.c, decode_tell.c, leap.c,
 * decode.c, member.c, roles.c, and cluster.c on top. */
enum { SIM_LEAP_STEPS = 256 };
_Static_assert((int)SIM_CLUSTER_GATEWAYS <= (int)BT_GATES_MAX, "a node serves them all");

/* A slot's prompt in a prefill node. */
typedef struct sim_prompt {
    bool is_busy;
    uint64_t run;                            /* number of this piece of work: late events are void */
    uint32_t len, begin, told, valid, chunk; /* chunk: where the latest begins */
    int64_t computed_ns;                     /* COMPUTE */
    int64_t begin_ns, end_ns;                /* of the latest chunk */
    int64_t layer_ns, layers_ns; /* of that chunk: when the rows of the first and of the last layer are there */
    bool is_whole;               /* its rows leave only when all are computed */
    sim_line line;               /* of a node with a schedule */
} sim_prompt;

/* A slot's sequence in a decode node. */
typedef struct sim_sequence {
    bool is_busy, is_cancelled, has_joined;
    bool has_told; /* a token has gone out: the gateway knows that it goes on */
    uint32_t gate; /* the gate of its request */
    uint32_t prompt, max, known, rows, capacity, steps;
    int64_t started_ns, first_ns, piece_ns;
} sim_sequence;

typedef struct sim_command {
    uint32_t slot, capacity;
    bool is_start;
} sim_command;

/* One sequence of a step under way. */
typedef struct sim_item {
    uint32_t slot, kept, made;
    uint32_t rank; /* among the step's items of the same gateway */
    bool is_piece;
} sim_item;

/* The fields that every step of a node reads lie together at the front: with a thousand nodes, each step finds its node
 * outside of the nearest caches. */
typedef struct sim_member {
    bool is_alive, is_stopped, has_left, is_stepping, is_turning;
    uint32_t place; /* in the cluster */
    uint64_t life;
    sim_item *items; /* decode */
    size_t items_len;
    sim_sequence *sequences;                /* decode, as all that follows */
    uint32_t prefilling, decoding, cancels; /* sequences that prefill, that decode, and that were asked to leave */
    uint32_t leapt;                         /* steps of `items` without messages so far */
    size_t commands_len;
    dc_batch *batch;
    int64_t *leap_ns;        /* [gates][SIM_LEAP_STEPS] when that gateway had taken the token of its first item */
    int64_t due_us, wake_us; /* when its brain's next TICK is due; the earliest timer in the calendar */
    const sim_cluster_group *group;
    sim_wire out, in;
    bt_incarnation self;
    bt_role role, born; /* present role; first role */
    sim_cost_work done;
    uint64_t busy_ns[2], runs, valid_rows, rows;
    pf_brain *pf;
    dc_brain *dc;
    bool rests; /* rest.c */
    bool is_on, is_loading, is_draining;
    bt_role next_role;               /* has_left: the role in which it goes on */
    int64_t since_ns, powered_ns[2]; /* as prefill and as decode node, up to since_ns */
    char id[32];
    sim_cluster_preempted preempted; /* in lives that are over */
    sim_event *inbox;                /* events that came while it was stopped */
    size_t inbox_len, inbox_cap;
    sim_prompt *prompts;   /* prefill, [slots] */
    int64_t *last_ns;      /* prefill, [hosts]: when the last block to that host arrives */
    sim_command *commands; /* decode, as all that follows */
    size_t commands_cap, items_cap;
    uint32_t *capacity_pages;          /* [slots] */
    const int64_t *late_ns;            /* times of the tokens that the brain gets now; NULL: none */
    uint32_t late_index, late_len;     /* the first of these tokens, and their number */
    uint32_t gate_items[BT_GATES_MAX]; /* items of a step by gateway */
    bt_msg *sent, *sent_last;          /* its TOKENS under way with several tokens, by sim_mail_next */
} sim_member;

/* A gateway: a process of one thread, in front of the nodes of one model. Its place is SIM_GATEWAY less its number. */
typedef struct sim_gate {
    gw_brain *brain;
    bt_incarnation self;
    uint32_t place, model;
    int64_t due_us, wake_us, busy_ns; /* busy_ns: until when its thread has work */
    uint64_t cpu_ns, requests;
    uint32_t resting; /* its resting nodes, where it is its model's only gateway */
} sim_gate;

struct sim_cluster {
    sim_cluster_options o;
    sim_cluster_client client;
    sim_calendar calendar;
    sim_mail *mail;
    int64_t now_ns;
    uint64_t lives, works, events, draws, digest, choices;
    sim_gate *gates; /* o.gateways for each model, model by model */
    uint32_t gates_len;
    uint64_t submitted, ended, callers, changes;
    bool *over; /* [submitted]: requests that have ended */
    size_t over_cap;
    uint32_t refused_roles;
    char refused_why[200];
    uint32_t keeps_for; /* TOKENS from this place and their answers are kept instead of sent; SIM_GATEWAY: from none */
    bt_msg **kept;
    size_t kept_len, kept_cap;
    sim_member *members;
    uint32_t hosts, prefills; /* prefills: hosts that began as prefill nodes */
    uint8_t *frame;
    size_t frame_cap;
    bt_msg_buf buf;
    bt_err broken;
    bt_fault fault;
};

enum { SIM_GATEWAY = UINT32_MAX }; /* the place of gateway 0; the next gateway's is one less */
enum { SIM_LATE_NS = 100000000 };  /* a gateway further behind may miss a deadline, so nothing is leapt */
static inline bool sim_is_gateway(const sim_cluster *c, uint32_t place) { return SIM_GATEWAY - place < c->gates_len; }
static inline sim_gate *sim_gate_at(sim_cluster *c, uint32_t place) { return &c->gates[SIM_GATEWAY - place]; }
/* The gateways of a node's model; they are o.gateways. */
static inline uint32_t sim_first_gate(const sim_cluster *c, const sim_member *m)
{
    return m->group->model * c->o.gateways;
}
static inline sim_gate *sim_gates_of(const sim_cluster *c, const sim_member *m)
{
    return &c->gates[sim_first_gate(c, m)];
}
static inline bool sim_gate_is_late(const sim_cluster *c, const sim_gate *g)
{
    return g->busy_ns - c->now_ns >= SIM_LATE_NS;
}
/* A gateway of the node's. */
static inline bool sim_cluster_is_late(const sim_cluster *c, const sim_member *m)
{
    const sim_gate *g = sim_gates_of(c, m);
    for (uint32_t i = 0; i < c->o.gateways; i++)
        if (sim_gate_is_late(c, &g[i])) return true;
    return false;
}

static inline int64_t sim_us(int64_t ns) { return ns / 1000; }
/* Random bits for a step that uses them; zero for others, which come by the million. */
bt_random sim_cluster_random(sim_cluster *c, bool is_looked_at);
void sim_cluster_break(sim_cluster *c, bt_err e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void sim_cluster_post(sim_cluster *c, const sim_event *e);                 /* life is set here */
bool sim_cluster_grow(void **array, size_t *cap, size_t len, size_t size); /* room for one more; false: no memory */
void sim_cluster_account(sim_member *m, const sim_cost_work *w);
uint32_t sim_cluster_place(const sim_cluster *c, const bt_incarnation *who); /* UINT32_MAX: nobody who lives */
/* From one place to another. not_before_ns: it goes behind what arrives then. */
void sim_cluster_send(sim_cluster *c, uint32_t from, uint32_t to, const bt_msg *m, bool is_bulk, int64_t not_before_ns);
/* A gateway's one thread takes one thing after the other: when it is done with one that arrives at at_ns. */
int64_t sim_cluster_gateway_takes(sim_gate *g, int64_t at_ns, int64_t cpu_ns);
/* TOKENS to a gateway whose tokens reached it one by one, at these times (leap.c). */
void sim_cluster_send_late(sim_cluster *c, uint32_t from, uint32_t to, const bt_msg *m, const int64_t *times,
                           size_t len);
/* Such TOKENS have come: they are not under way any more. */
void sim_cluster_late_came(sim_member *m, bt_msg *msg);
void sim_cluster_timer(sim_cluster *c, uint32_t place); /* after a step: its next timer */
/* DRAIN and EXIT of a node's brain, the gateway's ROLE_ANSWER */
void sim_cluster_drains(sim_cluster *c, sim_member *m);
void sim_cluster_exits(sim_cluster *c, sim_member *m, bt_role next);
void sim_cluster_role_answered(sim_cluster *c, const gw_action *a);

bt_err sim_cluster_prefill_new(sim_cluster *c, sim_member *m, bt_fault *fault);
void sim_cluster_prefill_step(sim_cluster *c, sim_member *m, const pf_event *ev);
void sim_cluster_prefill_chunk(sim_cluster *c, sim_member *m, const sim_event *e);
void sim_cluster_prefill_layer(sim_cluster *c, sim_member *m, const sim_event *e);
void sim_cluster_prefill_stopped(sim_cluster *c, sim_member *m, const sim_event *e);

bt_err sim_cluster_decode_new(sim_cluster *c, sim_member *m, bt_fault *fault);
void sim_cluster_decode_step(sim_cluster *c, sim_member *m, const dc_event *ev);
void sim_cluster_decode_done(sim_cluster *c, sim_member *m);

/* ---- decode_tell.c: tells the brain; what the brain does is carried out ---- */
void sim_cluster_decode_tell(sim_cluster *c, sim_member *m, const dc_event *ev);

/* ---- leap.c: steps that nobody is told of yet ---- */
/* The step that ends now can be one: then it is, and true is returned. */
bool sim_cluster_leap(sim_cluster *c, sim_member *m);
/* Tells the brain of the tokens of item `at`, those of steps that were leapt and, where `made`, the one of a step that
 * ends now. */
void sim_cluster_leap_tell(sim_cluster *c, sim_member *m, uint32_t at, uint32_t made);
void sim_cluster_leap_end(sim_cluster *c, sim_member *m); /* all items, between two steps */
/* Before it halts or dies: its tokens that gateways have taken by now are there, those under way travel one by one. */
void sim_cluster_leap_settle(sim_cluster *c, sim_member *m);
/* Likewise, before a gateway ends a request of that number; other requests' under way are left. */
void sim_cluster_leap_settle_of(sim_cluster *c, sim_member *m, uint64_t number);

/* ---- rest.c: heartbeats that are taken to come ---- */
void sim_cluster_rest(sim_cluster *c, uint32_t place); /* its gateway has just heard its heartbeat */
void sim_cluster_wake(sim_cluster *c, sim_member *m);  /* before anything happens to it or its link */
void sim_cluster_wake_late(sim_cluster *c);            /* resting nodes of gateways that are behind */

bt_err sim_cluster_gateways_new(sim_cluster *c, bt_fault *fault);
void sim_cluster_gateways_free(sim_cluster *c);
uint32_t sim_cluster_gate_of(const sim_cluster *c, const bt_incarnation *who); /* the number of a gateway */
void sim_cluster_gateway_step(sim_cluster *c, sim_gate *g, const gw_event *ev);
void sim_cluster_hello(const sim_cluster *c, const sim_member *m, bt_msg_hello *ret);

bt_incarnation sim_cluster_incarnation(const sim_cluster *c, uint32_t place, uint64_t life);
sim_member *sim_cluster_member(sim_cluster *c, bt_role role, uint32_t node); /* NULL: there is none */
void sim_cluster_drop_event(sim_cluster *c, const sim_event *e);             /* what it carries */
bt_err sim_cluster_begin_member(sim_cluster *c, sim_member *m, bt_fault *fault);
void sim_cluster_end_member(sim_cluster *c, sim_member *m);
sim_cluster_preempted sim_cluster_preempted_of(const sim_member *m); /* in all of its lives */
void sim_cluster_turn_page(sim_cluster *c, sim_member *m); /* before it is off, on, or another: closes what it was */

void sim_cluster_signal(sim_cluster *c, sim_member *m, bool is_over); /* to leave; that its time for it is over */
void sim_cluster_left(sim_cluster *c, sim_member *m);
void sim_cluster_loaded(sim_cluster *c, sim_member *m);
#endif
