#ifndef GW_STATE_H
#define GW_STATE_H
#include "gateway/brain/brain.h"
#include "gateway/brain/debts.h"
#include "gateway/brain/shares.h"

/* All that the gateway's brain holds, for the files of this folder (and for tests/world, which looks inside to
 * check it).
 *
 * The files in an order to read them; each calls only those above it:
 *   registry, affinity, avoid, debts    tables of nodes: known nodes, who had which prompts, who fails, who owes what
 *   route             which nodes a request gets
 *   shares            whose request is next, and who gives way
 *   act.c             the actions of a step
 *   request_due.c     when a request is next due
 *   request.c         the table of requests, the queue, and what a request says to its nodes
 *   request_end.c     leaving nodes: the end, or back to the queue for another attempt
 *   request_time.c    deadlines
 *   request_queue.c   from SUBMIT to the queue, from the queue to nodes
 *   request_msg.c     messages of nodes about a request
 *   role.c            asking a node to change its role
 *   brain.c           nodes come and go; the step */
typedef enum gw_request_state {
    GW_NONE = 0,
    GW_QUEUED,
    GW_RESERVING,
    GW_PREFILLING,
    GW_DECODING,
    GW_CLOSING, /* see brain.h */
    GW_DEAD,    /* over; its arrays are freed in the next step */
} gw_request_state;

/* A request's hold on one node. */
typedef struct gw_side {
    bt_incarnation node;
    uint64_t name;           /* gw_node.name */
    bool is_open;            /* counted in the node's attempts */
    bool is_long;            /* ... and in its long ones */
    uint32_t waiting_tokens; /* counted in those of the node, until the prompt is computed or the side is closed */
    uint32_t held_tokens;    /* of a decode node, likewise while the side is open */
    bool is_told;            /* the node has been told of the attempt: leaving it needs ABORT */
} gw_side;

typedef struct gw_request {
    gw_request_state state;
    uint64_t number;  /* gw_submit.request */
    uint32_t same;    /* the next one in its chain of gw_brain.by_number */
    uint32_t attempt; /* from 1; 0: it has never had nodes */

    /* The client's request. One block: prompt, tokens, sampling.bias and .program. */
    void *block;
    bt_prompt_view prompt;
    int32_t *tokens; /* [max_tokens] */
    uint32_t max_tokens;
    bt_sampling sampling;
    uint32_t stop_ids_len;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
    gw_policy policy;
    char prefer_prefill[BT_MSG_MAX_ID_BYTES + 1], prefer_decode[BT_MSG_MAX_ID_BYTES + 1];
    uint64_t only_prefill, only_decode; /* gw_node.name of these two; 0 once a node was lost */
    uint32_t share;                     /* place in gw_brain.shares */
    int32_t priority;
    bool has_had_turn;    /* it has paid its share's tokens, and stands before all of its share that have not */
    uint32_t wants_at[2]; /* QUEUED: places in gw_brain.wanted of only_prefill and only_decode, + 1; 0: none */

    /* Progress. */
    uint32_t next_index;                  /* number of accepted tokens, a final stop id included */
    bt_finish ended;                      /* 0 until the end was seen */
    uint64_t prefill_class, decode_class; /* of the attempt that made token 0 (route.h) */
    gw_stats stats;

    /* This attempt. */
    gw_side prefill, decode; /* prefill is closed where the attempt is local */
    gw_local local;
    uint32_t base; /* next_index when the attempt began: the number of tokens that it replays */
    bt_msg_reserved reserved;
    bool is_in_line;                /* RESERVING: D said WAITS. prefill is closed until RESERVED comes */
    bool is_placed;                 /* RESERVING: D holds a place, and no prefill node is free */
    bool is_moved;                  /* RESERVE named another prefill node before */
    bool is_accepted;               /* PREFILL_ACCEPTED, or a later message, was seen */
    bool has_kv;                    /* PREFILL_DONE was seen */
    bool has_price;                 /* the price in FIRST_TOKEN is in stats */
    bt_msg_device_work decode_work; /* of its steps, from D's last message; in stats when the attempt is over */
    /* Messages of D that came before token 0, which comes from P: ids in tokens[max(base, 1)..], FINISHED. */
    uint32_t early_len;
    bool has_early_finished;
    bt_msg_finished early_finished;

    /* Earlier attempts. */
    uint32_t fruitless;                 /* attempts that failed since the last token */
    char why[BT_STEP_TEXT_BYTES / 2];   /* why the last of them failed */
    uint64_t shun_prefill, shun_decode; /* gw_node.name of what failed last (route.h) */

    /* Times. */
    int64_t submitted_us;
    int64_t waiting_us;    /* since when queue_us counts */
    int64_t not_before_us; /* QUEUED: the next attempt may begin then */
    int64_t asked_us;      /* when RESERVE was sent, before token 0 and without a RESERVED since; or -1 */
    int64_t lost_us;       /* when a node was lost, without an attempt accepted since; or -1 */
    int64_t stuck_us;      /* QUEUED: since when no ready nodes could serve it; -1: some could */
    uint64_t stuck_epoch;  /* gw_brain.epoch when that was last looked at */
    int64_t deadline_us, resend_us, renew_us;
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

/* Where a QUEUED request waits. READY and SHORT are in order of share, then come those that have had their turn, then
 * priority and number; STUCK and BUSY are in order of number. READY and SHORT are one line, but that requests of SHORT
 * go on where one of READY waits for a free slot. */
typedef enum gw_line {
    GW_LINE_READY = 0, /* its turn comes by its share */
    GW_LINE_SHORT,     /* the same of short prompts: slots are kept for them */
    GW_LINE_RESTING,   /* not before not_before_us; by that */
    GW_LINE_STUCK,     /* no nodes could serve it, until the state of a node changes */
    GW_LINE_BUSY,      /* choosy, and all nodes that could serve it were taken: until anything about nodes changes */
    GW_LINES
} gw_line;
/* Where a RESERVING request waits. */
typedef enum gw_parked {
    GW_PARKED_LINE = 0, /* is_in_line, and another decode node would do too */
    GW_PARKED_PLACED,   /* is_placed */
    GW_PARKEDS
} gw_parked;
enum { GW_PLACE_FREE, GW_PLACE_DEAD };

struct gw_brain {
    gw_config cfg;
    gw_registry registry;
    gw_router router;
    gw_debts debts;
    gw_request *requests;
    uint32_t requests_len;  /* places; GW_NONE is a free one */
    uint32_t requests_used; /* places that were ever taken */
    uint32_t *by_number; /* [numbers] requests that have not ended: chains of places + 1, by the number's last bits */
    uint32_t numbers;    /* a power of two */
    bt_order idle;       /* GW_PLACE_FREE, GW_PLACE_DEAD: places */
    bt_order due;        /* GW_DUE: by gw_request_due_us; GW_RIPE: what this step has still to look at, by place */
    bt_order sides;      /* open ones, by node: 2 * place + (is decode) */
    bt_order line;       /* those QUEUED, see gw_line */
    bt_order newest; /* those QUEUED that have never had nodes: by share, the least of it and of these the newest first
                      */
    gw_shares shares;
    gw_shares short_shares;  /* the same at the same places, in a round for slots that are kept for short prompts */
    bool in_short_round;     /* that one gives turns now */
    uint32_t in_line;        /* those RESERVING in the line of a node */
    bt_order parked;         /* those RESERVING that wait, see gw_parked; by number */
    uint64_t parked_changes; /* as busy_changes, when GW_PARKED_LINE was last looked at */
    uint32_t *wanted;        /* requests that wait for a node, by gw_registry_had_place */
    uint64_t line_epoch;     /* gw_brain.epoch when GW_LINE_STUCK was last moved on */
    uint32_t line_short;     /* tokens of a prompt of GW_LINE_SHORT at most */
    uint64_t busy_changes;   /* changes of nodes and of affinity when the first request came to GW_LINE_BUSY */
    int64_t busy_until_us;   /* when a refusal ends for which GW_LINE_BUSY waits */
    uint64_t last_request;   /* number of the last request taken */
    gw_role roles[GW_ROLES_MAX];
    uint32_t queued;
    uint32_t active;              /* those that hold nodes */
    uint64_t epoch;               /* how often the state of a node has changed */
    bool pair_ready;              /* some request would find nodes */
    int64_t begun_us;             /* the first step */
    int64_t no_pair_us;           /* else: since when none would find any */
    int64_t ended_us, between_us; /* the last DONE; mean time between two, 0: not known */
    bool started, draining, exited;
    gw_action *acts;
    size_t acts_len, acts_cap; /* of this step */
    gw_counters n;
    int64_t now_us; /* of this step */
};
#endif
