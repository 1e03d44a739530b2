#ifndef GW_REQUEST_H
#define GW_REQUEST_H
#include "gateway/brain/brain.h"
#include "gateway/brain/debts.h"

/* The life of one request inside the gateway's brain, for brain.c and request*.c only; brain.h explains the states.
 *   request.c        from SUBMIT to RESERVE, and the deadlines
 *   request_msg.c    what nodes say
 *   request_end.c    leaving nodes: the end, or another attempt */
typedef enum gw_state {
    GW_NONE = 0, GW_QUEUED, GW_RESERVING, GW_PREFILLING, GW_DECODING, GW_CLOSING,
    GW_DEAD,                            /* over; its arrays are freed in the next step */
} gw_state;

/* What the request holds on one node. */
typedef struct gw_side {
    bt_incarnation node;
    uint64_t name;                      /* gw_node.name */
    bool is_open;                       /* counted in the node's attempts */
    bool is_told;                       /* the node has been asked: leaving it needs ABORT */
} gw_side;

typedef struct gw_request {
    gw_state state;
    uint64_t number;
    uint32_t attempt;
    int32_t *ids; uint32_t ids_len;     /* the prompt (and, behind the tokens, sampling.bias), */
    int32_t *tokens; uint32_t next_index;   /* and after it in one block [max_tokens] accepted so far, final stop
                                             * id included */
    uint32_t max_tokens;
    bt_sampling sampling;
    uint32_t stop_ids_len;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
    gw_side prefill, decode;            /* prefill is closed where the attempt is local */
    uint64_t only_prefill, only_decode; /* until a loss: what the client asked for (route.h) */
    char prefer_prefill[BT_MSG_MAX_ID_BYTES + 1], prefer_decode[BT_MSG_MAX_ID_BYTES + 1];
    uint64_t shun_prefill, shun_decode; /* what failed last */
    gw_policy policy;
    gw_local local;
    uint32_t base;                      /* next_index when this attempt began: what it replays */
    uint64_t prefill_class, decode_class;   /* of the attempt that made token 0 (route.h) */
    bool has_kv;                        /* PREFILL_DONE of this attempt was seen */
    bt_msg_reserved reserved;
    bool is_accepted;                   /* PREFILL_ACCEPTED, or what follows it, was seen */
    uint32_t early_len;                 /* ids in tokens[max(base, 1)..] that came before token 0: the nodes' links race */
    bool has_early_finished;
    bt_msg_finished early_finished;     /* likewise */
    bt_finish ended;                    /* 0 until the end was seen */
    int64_t waiting_us;                 /* since when queue_us counts */
    int64_t lost_us;                    /* a node was lost then and no nodes have accepted another attempt yet; -1 none */
    int64_t stuck_us;                   /* QUEUED: since when no ready nodes would do; -1 some would */
    uint64_t stuck_epoch;               /* and what the nodes were then (gw_brain.epoch) */
    uint32_t fruitless;                 /* attempts that failed since a token last came */
    char why[BT_STEP_TEXT_BYTES / 2];   /* the last of them did */
    int64_t submitted_us, not_before_us, deadline_us, resend_us, renew_us;
    gw_stats stats;
} gw_request;

/* A node that was asked to change its role. */
enum { GW_ROLES_MAX = 8 };
typedef struct gw_role {
    bool in_use;
    bt_incarnation node;
    bt_role role;
    uint64_t token;
    int64_t deadline_us, resend_us;
} gw_role;

struct gw_brain {
    gw_config cfg;
    gw_registry registry;
    gw_router router;
    gw_debts debts;
    gw_request *requests; uint32_t requests_len;
    uint64_t last_request;
    gw_role roles[GW_ROLES_MAX];
    uint32_t *queue; uint32_t queued;       /* places in requests, by number */
    uint32_t active;
    uint64_t epoch;                         /* of node states: counts their changes */
    bool pair_ready; int64_t no_pair_us;    /* and since when there is none */
    int64_t ended_us, between_us;           /* the last DONE; the mean time from one to the next, 0: not known */
    bool started, draining, exited;
    gw_action *acts; size_t acts_len, acts_cap;
    gw_counters n;
    int64_t now_us;
};

/* brain.c */
gw_action *gw_act(gw_brain *b, gw_action_type type);
bt_msg *gw_send(gw_brain *b, const bt_incarnation *peer, bt_msg_type type);

/* The index of the first token that the decode node makes in this attempt. */
static inline uint32_t gw_request_first_made(const gw_request *r) { return r->base ? r->base : 1; }

uint32_t gw_retry_ms(const gw_brain *b);                /* when half of those that wait now will have got on */

/* request.c */
gw_request *gw_request_find(gw_brain *b, uint64_t number);      /* not DEAD; NULL */
void gw_request_set_state(gw_brain *b, gw_request *r, gw_state s);
bt_msg *gw_request_tell(gw_brain *b, const gw_request *r, const gw_side *side, bt_msg_type type);
void gw_request_submit(gw_brain *b, const gw_submit *s, const bt_random *random);
void gw_request_assign(gw_brain *b, gw_request *r, const gw_route_choice *c);
void gw_request_say_prefill(gw_brain *b, gw_request *r);
/* Its deadline from now on: until nodes accept it; token 0, or rows of known tokens; the next token. */
void gw_request_await_answer(gw_brain *b, gw_request *r);
void gw_request_await_prompt(gw_brain *b, gw_request *r);
void gw_request_await_token(gw_brain *b, gw_request *r);
void gw_request_expire(gw_brain *b, gw_request *r);
int64_t gw_request_due_us(const gw_brain *b, const gw_request *r);

/* role.c */
void gw_role_ask(gw_brain *b, const gw_event *ev);
void gw_role_answered(gw_brain *b, const bt_msg *m);
void gw_role_expire(gw_brain *b);
int64_t gw_role_due_us(const gw_brain *b);

/* request_msg.c: a message about a request, from a known node. */
void gw_request_msg(gw_brain *b, const bt_msg *m);

/* request_end.c */
void gw_request_close_side(gw_brain *b, gw_side *side);         /* the node holds nothing of it any more */
bool gw_request_needs(const gw_request *r, const gw_side *side);
void gw_request_closing(gw_brain *b, gw_request *r);            /* the end was seen: wait a little for figures */
void gw_request_done(gw_brain *b, gw_request *r);
void gw_request_refuse(gw_brain *b, uint64_t request, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms,
                       const gw_stats *stats, const char *text);     /* FAIL of one that has no place here */
void gw_request_fail(gw_brain *b, gw_request *r, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* A needed node does not go on: leave both, and try again; or FAIL, when that was tried often enough. `blame` says whom to
 * avoid. */
typedef enum gw_blame { GW_BLAME_PREFILL = 1, GW_BLAME_DECODE = 2, GW_BLAME_PAIR = 3 } gw_blame;
void gw_request_recover(gw_brain *b, gw_request *r, gw_cause cause, gw_blame blame, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void gw_request_requeue(gw_brain *b, gw_request *r, int64_t wait_us);    /* leave both, and wait for another attempt */
void gw_request_finish_early(gw_brain *b, gw_request *r);
void gw_request_node_lost(gw_brain *b, const bt_incarnation *node, const char *node_id, gw_cause cause);
bool gw_request_settle(gw_brain *b, const bt_incarnation *node, const bt_request_ref *ref);  /* it has let go; false: it owed nothing */
void gw_request_expire_debts(gw_brain *b);
#endif
