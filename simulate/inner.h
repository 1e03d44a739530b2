#ifndef BT_SIMULATE_INNER_H
#define BT_SIMULATE_INNER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decode-node/brain/batch.h"
#include "decode-node/brain/brain.h"
#include "device/link.h"
#include "simulate/cluster.h"
#include "simulate/cost.h"
#include "wire/msg.h"
#include "xfer/gates.h"

/* A host's link, one direction of it: what everybody sends over it shares its rate (contention).
 *
 * All layers of a chunk's block travel as one event. The layers are ready one after the other while the chunk is
 * computed, and each is a message of tx = bt_link_ns of its bytes. The last of L messages that are ready from `begin`
 * to `end` at equal distances arrives at
 *
 *   max(busy + L tx, begin + L tx, end + tx)
 *
 * because the longest wait of equal messages at equal distances begins with the first or the last of them. That is what
 * bt_link_chunk finds message by message. Several senders into one direction are a fluid: their work adds up in `busy`,
 * whose messages it is does not matter. */
typedef struct sim_wire {
    uint64_t busy_ns, tail_ns; /* when all work given so far is done; when the last message so far arrived */
    uint32_t slow;             /* times slower; 0 as 1 */
    uint64_t milli;            /* a pace (device/pace.h): K by 1000; 0: none */
} sim_wire;

/* From one host to another over both their links. layers messages of `bytes`, ready from begin_ns (the first) to
 * end_ns (the last); ns when the last has arrived, never before end_ns. */
uint64_t sim_wire_send(sim_wire *out, sim_wire *in, const bt_link *l, uint64_t begin_ns, uint64_t end_ns,
                       uint32_t layers, uint64_t bytes);
/* The time of a short message, which waits for no block: its own on the slower of two links. */
uint64_t sim_wire_short_ns(const sim_wire *out, const sim_wire *in, const bt_link *l, uint64_t bytes);

/* Messages under way, as structs: a copy with its arrays in one block, so that it outlives the step that made it. */
typedef struct sim_mail sim_mail;
bt_err sim_mail_new(sim_mail **ret);
void sim_mail_free(sim_mail *p);

/* Copies m; sim_mail_drop gives the copy back. times: when each token of a TOKENS with several tokens was made, kept
 * with the copy; len 0: no times. NULL: out of memory. */
bt_msg *sim_mail_copy(sim_mail *p, const bt_msg *m, const int64_t *times, size_t len);
const int64_t *sim_mail_times(const bt_msg *copy); /* NULL: none */
/* Cuts such a TOKENS: only its tokens from number `from` on, `len` of them, are left. */
void sim_mail_cut(bt_msg *copy, uint32_t from, uint32_t len);
bt_msg **sim_mail_next(bt_msg *copy); /* a copy's place for its caller's list of copies */
void sim_mail_drop(sim_mail *p, bt_msg *m);
/* About the bytes of m on a wire: its fields and arrays. */
uint64_t sim_mail_bytes(const bt_msg *m);
uint64_t sim_mail_token_bytes(void); /* the same for a TOKENS with one token */

/* A prompt under a schedule that has several chunks under way (sim_cost.play): when the layers of each chunk are there,
 * from the prompt's begin, with the node's pace. Its layers still travel as one event (sim_wire), as if they were
 * stored at equal distances from the first to the last. */
typedef struct sim_line_chunk {
    uint32_t end;               /* positions behind it */
    uint64_t first_ns, last_ns; /* its first layer stored, and its last */
} sim_line_chunk;
typedef struct sim_line {
    sim_line_chunk *chunk;
    size_t len, cap, at; /* at: the caller's */
    uint64_t ns;         /* all of it, the output matrix too */
} sim_line;
/* Positions [first, end). false: it cannot be played, or memory is out. */
bool sim_line_play(sim_line *l, const sim_cost *c, uint32_t first, uint32_t end);
void sim_line_done(sim_line *l);

/* Future events, in order of time, then of posting. */
typedef enum sim_when {
    SIM_WHEN_MSG = 1,    /* msg reaches `to`; is_bulk: on the bulk link of `from` */
    SIM_WHEN_BLOCK,      /* block reaches `to` */
    SIM_WHEN_CHUNK,      /* a prefill node has computed a chunk of `slot` */
    SIM_WHEN_LAYER,      /* ... layer `from` of it, where layers travel one by one */
    SIM_WHEN_ALIVE,      /* a node is at a chunk or step that takes long */
    SIM_WHEN_SENT,       /* block, on the wire for long, has left the host `to` */
    SIM_WHEN_STOPPED,    /* ... has let go of `slot` */
    SIM_WHEN_STEP,       /* a decode node's step is over */
    SIM_WHEN_WAKE,       /* a timer */
    SIM_WHEN_START,      /* a node that loads has loaded */
    SIM_WHEN_DRAIN,      /* a node is asked to leave */
    SIM_WHEN_DRAIN_OVER, /* ... and has had its time for it */
    SIM_WHEN_LEFT,       /* a node has sent BYE */
    SIM_WHEN_CUT,        /* the gateway learns that the connection to `from` has ended */
    SIM_WHEN_DEADLINE,   /* the timeout of request `run` at the gateway `to` */
    SIM_WHEN_CALLER,     /* the caller's own, `run` is its number */
} sim_when;

typedef struct sim_event {
    int64_t at_ns;
    uint64_t order; /* set by the calendar */
    sim_when what;
    uint32_t from, to, slot;
    uint64_t life, run; /* the life of `to` at posting; an event of an older life is void */
    bool is_bulk;
    union {
        bt_msg *msg;
        dc_block *block;
        pf_block *sent;
    } u;
} sim_event;

typedef struct sim_calendar {
    sim_event *heap;
    size_t len, cap;
    uint64_t orders;
} sim_calendar;
bt_err sim_calendar_post(sim_calendar *c, const sim_event *e); /* BT_ENOMEM */
/* The earliest, taken out. False: none is due by until_ns. */
bool sim_calendar_take(sim_event *ret, sim_calendar *c, int64_t until_ns);
void sim_calendar_done(sim_calendar *c); /* events left in it belong to the caller */

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
    int64_t line_ns;             /* when what `line` says began */
    sim_cost_work work;          /* of that chunk, as counted; of a batch, its first prompt's alone */
    uint64_t number;             /* of its request */
    bool is_shared;              /* it runs in a batch */
    bool is_whole;               /* its rows leave only when all are computed */
    bool may_pause;
    uint32_t pause_at; /* tokens */
    size_t last;       /* of a node with a schedule: chunks that end before it pauses */
    sim_line line;     /* of a node with a schedule */
} sim_prompt;

/* A slot's sequence in a decode node. */
typedef struct sim_sequence {
    bool is_busy, is_cancelled, has_joined;
    bool has_told; /* a token has gone out: the gateway knows that it goes on */
    uint32_t gate; /* the gate of its request */
    uint64_t number;
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
    bt_kv_shape kv; /* as its brain has it: a layer stands for several of the model */
    sim_wire out, in;
    bt_incarnation self;
    bt_role role, born;          /* present role; first role */
    sim_cost_work done[2], step; /* done: as prefill and as decode node; step: the one that began last, until
                                    step_end_ns */
    int64_t step_end_ns;
    uint64_t runs, valid_rows, rows, again_rows, sent_bytes;
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

/* An attempt that a gateway leaves: the node that may still run it, and the request. */
typedef struct sim_left {
    uint32_t place;
    uint64_t number;
} sim_left;

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
    uint32_t *begun; /* [submitted]: rows of the prompt that a node has begun to compute */
    size_t begun_cap;
    uint32_t refused_roles;
    char refused_why[200];
    uint32_t keeps_for; /* TOKENS from this place and their answers are kept instead of sent; SIM_GATEWAY: from none */
    bt_msg **kept;
    size_t kept_len, kept_cap;
    bool is_settling; /* leap.c gives gateways what they have taken */
    sim_left *left;   /* attempts that gateways left in this event */
    size_t left_len, left_cap;
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
void sim_cluster_post(sim_cluster *c, const sim_event *e);                      /* life is set here */
bool sim_cluster_make_room(void **array, size_t *cap, size_t len, size_t size); /* room for one more; false: no memory
                                                                                 */
void sim_cluster_account(sim_member *m, const sim_cost_work *w);
/* Work is counted when it begins. The last left_ns of it; takes a part off; takes it off what a node has done. */
sim_cost_work sim_cluster_end_of(const sim_cost_work *w, int64_t left_ns);
void sim_cluster_take_off(sim_cost_work *from, const sim_cost_work *w);
void sim_cluster_give_back(sim_member *m, const sim_cost_work *w);
/* The part of the node's work that was still to be done at that time, since which it has begun nothing. */
sim_cost_work sim_cluster_undone(const sim_cluster *c, const sim_member *m, int64_t at_ns);
/* A node begins to compute these rows of a request's prompt. */
void sim_cluster_count_rows(sim_cluster *c, sim_member *m, uint64_t number, uint32_t begin, uint32_t count);
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
void sim_cluster_prefill_alive(sim_cluster *c, sim_member *m, const sim_event *e);

bt_err sim_cluster_decode_new(sim_cluster *c, sim_member *m, bt_fault *fault);
void sim_cluster_decode_step(sim_cluster *c, sim_member *m, const dc_event *ev);
void sim_cluster_decode_done(sim_cluster *c, sim_member *m);
void sim_cluster_decode_alive(sim_cluster *c, sim_member *m, const sim_event *e);

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
/* A gateway has left an attempt of that request: it answers each token of it that it takes from then on. */
void sim_cluster_leap_left(sim_cluster *c, sim_member *m, uint64_t number);

/* ---- rest.c: heartbeats that are taken to come ---- */
void sim_cluster_rest(sim_cluster *c, uint32_t place); /* its gateway has just heard its heartbeat */
void sim_cluster_wake(sim_cluster *c, sim_member *m);  /* before anything happens to it or its link */
void sim_cluster_wake_late(sim_cluster *c);            /* resting nodes of gateways that are behind */

bt_err sim_cluster_gateways_new(sim_cluster *c, bt_fault *fault);
void sim_cluster_gateways_free(sim_cluster *c);
uint32_t sim_cluster_gate_of(const sim_cluster *c, const bt_incarnation *who); /* the number of a gateway */
void sim_cluster_gateway_step(sim_cluster *c, sim_gate *g, const gw_event *ev);
const bt_dims *sim_cluster_dims(const sim_cluster *c, const sim_member *m); /* of its model */
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
