#ifndef GW_REQUEST_H
#define GW_REQUEST_H
#include "gateway/brain.h"

/* The life of one request inside the gateway's brain: states, messages about it, its two sides on nodes, its end. For
 * brain.c and request.c only; the states are explained in brain.h. */
typedef enum gw_state {
    GW_NONE = 0, GW_QUEUED, GW_RESERVING, GW_PREFILLING, GW_DECODING, GW_CLOSING,
    GW_RETURNING,                       /* refused for now: waits for ABORT_ACK, then QUEUED again */
    GW_ABORTING,                        /* the client has its answer; waits for ABORT_ACK, then nothing */
    GW_DEAD,                            /* over; its arrays are freed in the next step */
} gw_state;

/* What the request holds on one node. */
typedef struct gw_side {
    bt_incarnation node;
    bool is_open;                       /* counted in the node's attempts */
    bool is_told;                       /* the node has been asked: leaving it needs ABORT */
    bool is_aborting;                   /* ABORT sent, ABORT_ACK not seen */
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
    int64_t waiting_us;                 /* since when queue_us and no_node_us count */
    int64_t pause_us;                   /* before the next new attempt; doubles while no token comes */
    int64_t submitted_us, not_before_us, deadline_us, resend_us, renew_us;
    gw_stats stats;
} gw_request;

struct gw_brain {
    gw_config cfg;
    gw_registry registry;
    gw_router router;
    gw_request *requests; uint32_t requests_len;
    uint64_t last_request;
    uint32_t queued, active;
    bool pair_ready; int64_t no_pair_us;    /* and since when there is none */
    bool started, draining, exited;
    gw_action *acts; size_t acts_len, acts_cap;
    gw_counters n;
    int64_t now_us;
};

/* brain.c */
gw_action *gw_act(gw_brain *b, gw_action_type type);
bt_msg *gw_send(gw_brain *b, const bt_incarnation *peer, bt_msg_type type);

/* request.c */
gw_request *gw_request_find(gw_brain *b, uint64_t number);      /* not DEAD; NULL */
void gw_request_submit(gw_brain *b, const gw_submit *s, const bt_random *random);
void gw_request_assign(gw_brain *b, gw_request *r, const gw_route_choice *c);
void gw_request_msg(gw_brain *b, const bt_msg *m);              /* a message about a request, from a known node */
void gw_request_fail(gw_brain *b, gw_request *r, gw_fail_kind kind, bt_err code, uint32_t retry_after_ms, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
void gw_request_finish_early(gw_brain *b, gw_request *r);
/* is_back: a new process has taken its place; what had only been asked of the old one is asked again. */
void gw_request_node_lost(gw_brain *b, const bt_incarnation *node, const char *node_id, bool is_back);
void gw_request_expire(gw_brain *b, gw_request *r);
int64_t gw_request_due_us(const gw_brain *b, const gw_request *r);
bool gw_request_has_client(const gw_request *r);                /* neither DONE nor FAIL was said */
#endif
