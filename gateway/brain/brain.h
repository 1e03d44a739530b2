#ifndef GW_BRAIN_H
#define GW_BRAIN_H
#include "gateway/brain/registry.h"
#include "gateway/brain/route.h"
#include "wire/msg.h"
#include "xfer/step.h"

/* The gateway's decisions: which nodes are there, which request goes where and when, how it ends. Rules of all
 * brains: xfer/step.h. It owns every request it takes: prompt, parameters, seed, tokens accepted so far,
 * attempt; it accepts only the next token index, and it alone ends a request, exactly once, by one DONE or one
 * FAIL action.
 *
 *   QUEUED --nodes free--> RESERVING --Reserved--> PREFILLING --token 0--> DECODING --end seen--> CLOSING --> ended
 * Every state has a deadline (below; proto/README.md has them all in one table). No node is waited for: what one that
 * was left still owes (ABORT_ACK) is kept apart (debts.h) and repeated until its lease is over.
 *
 * Recovery. Where a node that the attempt needs is lost (silent for gone_us, restarted, or gone with BYE), says FAILED
 * with a code that may work elsewhere, does not answer, or does not get on, the request goes back to the queue, to its own
 * place by number: before everything that came later. Its next attempt goes to nodes of the same classes and replays the
 * tokens accepted so far: the client's tokens go on with the next index, none is said twice, none changes. A token 0 that
 * is not the accepted one ends the request (FAIL refused). After a loss it is looked for nodes at once; 100 ms later,
 * doubling to 1.6 s, where a decode node had no room (FAILED, BT_EAGAIN) or no token came since the loss before. The
 * request ends with FAIL node_lost when no nodes accept another attempt within recovery_us, or when 32 attempts in a
 * row bring no token (overloaded, if the last one found no room).
 *
 * Who fails is avoided for a while (avoid.h), and by the request that it failed; who refuses for now gets nothing until
 * the time it named is over. FAILED of BT_EFORMAT, BT_EARG, BT_ELIMIT
 * or BT_EVERSION, and a refusal for good, end the request. route.h says when a decode node computes the prompt itself.
 * Allocates only in SUBMIT: one block for the prompt and the answer's tokens, freed in the step after the end. */

typedef struct gw_config {
    bt_incarnation self;                        /* not zero */
    char node_id[BT_MSG_MAX_ID_BYTES + 1];
    uint8_t model_id[16];                       /* nodes must hold exactly this model */
    gw_policy policy;
    uint32_t local_below_tokens;                /* shorter prompts are computed by the decode node; 0: none (route.h) */
    uint32_t queue_max;                         /* waiting requests; one more gets FAIL overloaded */
    uint32_t active_max;                        /* requests that hold nodes; nodes may owe ABORT_ACK for 4 times as many attempts */
    uint32_t nodes_max;
    uint32_t lease_ms;                          /* of attempts on nodes; renewed every quarter */
    int64_t heartbeat_us, suspect_us, gone_us, forget_us;
    int64_t resend_us;                          /* what is not answered goes again */
    int64_t recovery_us;                        /* from a loss to nodes that accept another attempt; QUEUED while no nodes are ready */
    int64_t queue_us;                           /* QUEUED since SUBMIT, or since a token last came before a new attempt */
    int64_t answer_us;                          /* RESERVING; PREFILLING until PREFILL_ACCEPTED */
    int64_t prefill_us, prefill_token_us;       /* PREFILLING: base and for each prompt token; replay: for each token */
    int64_t progress_us;                        /* DECODING without a new token; the first of an attempt: prefill_token_us more for each row on its way or run again */
    int64_t role_us;                            /* ROLE_ANSWER to ROLE */
    int64_t grace_us;                           /* CLOSING: for FINISHED and PREFILL_DONE to bring their figures */
} gw_config;
/* Design.md's figures: queue 64, active 64, nodes 256, lease 10 s, heartbeat 0.5 s, suspect 2 s, gone 6 s,
 * forget 60 s, resend 0.5 s, recovery 30 s, queue 600 s, answer 5 s, prefill 30 s + 100 ms a token, progress 30
 * s, role 5 s, grace 1 s, LEAST_LOAD. The caller sets self, node_id and model_id. */
gw_config gw_config_defaults(void);

typedef struct gw_submit {
    uint64_t request;                           /* chosen by the caller: from 1, each greater than all before */
    const int32_t *ids; uint32_t ids_len;       /* copied; 1..BT_MSG_MAX_PROMPT_TOKENS */
    uint32_t max_tokens;                        /* 1..BT_MSG_MAX_PROMPT_TOKENS */
    bt_sampling sampling;
    gw_policy policy;                           /* 0: the configured one */
    char prefer_prefill[BT_MSG_MAX_ID_BYTES + 1], prefer_decode[BT_MSG_MAX_ID_BYTES + 1];   /* node_ids; "": any. Until a
                                                 * node was lost no other will do; FAIL no_node when it is not ready for recovery_us */
    bool draw_seed;                             /* no seed was given: sampling.seed is drawn from `random` */
    uint32_t stop_ids_len;                      /* 0..BT_MSG_MAX_STOP_IDS */
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
} gw_submit;

typedef enum gw_event_type {
    GW_EV_TICK = 1,
    GW_EV_MSG,                  /* a decoded message from the control socket; the shell has already noted the route
                                 * back to msg->from */
    GW_EV_SUBMIT,
    GW_EV_CANCEL,               /* the client has gone (or its server gave up): ends with FAIL cancelled */
    GW_EV_FINISH_EARLY,         /* a stop string was seen in the text: both nodes are aborted, ends with DONE STOP */
    GW_EV_ROLE,                 /* ask a node to change its role; one ROLE_ANSWER follows */
    GW_EV_DRAIN,                /* take no more; EXIT follows when the last request has ended. May be repeated */
} gw_event_type;
typedef struct gw_event {
    gw_event_type type;
    union {
        const bt_msg *msg;      /* MSG */
        const gw_submit *submit;
        struct { char node_id[BT_MSG_MAX_ID_BYTES + 1]; bt_role role; uint64_t token; } role;   /* PREFILL or DECODE */
        uint64_t request;       /* CANCEL, FINISH_EARLY; one that has ended is ignored */
    } u;
} gw_event;

typedef enum gw_fail_kind {
    GW_FAIL_NO_NODE = 1,        /* 503 */
    GW_FAIL_OVERLOADED,         /* 429 with retry_after_ms */
    GW_FAIL_NODE_LOST,          /* 502 */
    GW_FAIL_TIMEOUT,            /* 504 */
    GW_FAIL_TOO_LONG,           /* 400; the text has both numbers */
    GW_FAIL_REFUSED,            /* 502: a node refused or failed the work; code and text are its own */
    GW_FAIL_CANCELLED,          /* nobody is listening */
    GW_FAIL_BAD,                /* 400: a SUBMIT outside the limits above */
} gw_fail_kind;

/* Why an attempt was left for another one. */
typedef enum gw_cause {
    GW_CAUSE_GONE = 1,          /* a needed node was silent for gone_us */
    GW_CAUSE_RESTARTED,         /* it came back as another process */
    GW_CAUSE_LEFT,              /* it said BYE */
    GW_CAUSE_FAILED,            /* it said FAILED */
    GW_CAUSE_GAVE_UP,           /* it said FAILED for want of room (BT_EAGAIN) */
    GW_CAUSE_NO_ANSWER,         /* it did not accept the attempt in time */
    GW_CAUSE_NO_PROGRESS,       /* it accepted, and then no row or token came in time */
} gw_cause;

/* Figures of an ended request. has_*: false when the request ended before they were known. */
typedef struct gw_stats {
    uint32_t prompt_tokens;
    uint32_t completion_tokens;                 /* given to the client: a final stop id is not counted */
    int64_t gateway_queue_us, ttft_us, total_us;    /* SUBMIT to first RESERVE, to token 0, to the end (-1: not
                                                     * reached) */
    bool has_first; uint64_t queue_us, prefill_us; bt_msg_work work;    /* in the node that made token 0 */
    const bt_msg_engine *engine;                /* of the node that computed the prompt, until the next step; NULL: not told, or the node is forgotten */
    char prefilled_by[BT_MSG_MAX_ID_BYTES + 1]; /* node_id of the node that made token 0; "" none did */
    gw_local local;                             /* of the last attempt; then has_kv comes with kv_bytes 0 */
    uint32_t attempts, recoveries;              /* recoveries: of these attempts, left for one of gw_cause */
    uint32_t cached_tokens, covered_tokens;     /* of the prompt, in the attempt that made token 0: not computed by P; in place in D beforehand */
    bool has_kv; uint64_t kv_bytes, kv_blocks, kv_exposed_us, kv_transfer_us; bt_digest16 kv_digest;
    bool has_decode; uint64_t decode_wait_us, decode_us; uint32_t decode_steps;
    uint64_t seed;
} gw_stats;

typedef enum gw_action_type {
    GW_DO_SEND = 1,             /* msg to peer on control, by the route noted for `peer` (unknown route: drop it) */
    GW_DO_FIRST,                /* token 0 was made: its logits and timings. Always before the first TOKENS; no
                                 * token in it */
    GW_DO_TOKENS,               /* the next ids for the client, stop id already removed; never empty */
    GW_DO_DONE,
    GW_DO_FAIL,
    GW_DO_NODE_CHANGED,         /* state of a node changed (readiness, metrics) */
    GW_DO_ROLE_ANSWER,          /* to the ROLE with that token: 0, it drains and then serves as the new role (or does already);
                                 * or a code and words: the node's own; BT_EARG no such node; BT_EIO no answer within role_us;
                                 * BT_EAGAIN too many are asked already, or the node went away */
    GW_DO_LOG,
    GW_DO_EXIT,                 /* drained: no request is left; once */
} gw_action_type;
typedef struct gw_action {
    gw_action_type type;
    uint64_t request;                                               /* FIRST, TOKENS, DONE, FAIL */
    union {
        struct { bt_incarnation peer; bt_msg msg; } send;
        struct { bt_msg_first_token msg; int64_t ttft_us; } first;
        struct { uint32_t first_index; const int32_t *ids; uint32_t ids_len;
                 const bt_msg_logprob *logprobs; } tokens;           /* [ids_len] or NULL; until the next step */
        struct { bt_finish reason; gw_stats stats; } done;           /* reason: STOP or LENGTH */
        struct { gw_fail_kind kind; bt_err code; uint32_t retry_after_ms; char text[BT_STEP_TEXT_BYTES]; gw_stats stats; } fail;
        struct { bt_incarnation incarnation; bt_role role; char node_id[BT_MSG_MAX_ID_BYTES + 1]; gw_node_state state; } node;
        struct { uint64_t token; int32_t code; char text[BT_MSG_MAX_TEXT_BYTES + 1]; } role_answer;
        struct { bt_log_level level; char text[BT_STEP_TEXT_BYTES]; } log;
    } u;
} gw_action;
typedef struct gw_actions { const gw_action *items; size_t len; } gw_actions;

/* Counted since _new, for metrics. */
typedef struct gw_counters {
    uint64_t submitted, failed[GW_FAIL_BAD + 1];    /* by gw_fail_kind; [0] unused */
    uint64_t prompt_tokens, completion_tokens;
    uint64_t local_prefills[GW_LOCAL_NO_PREFILL_NODE + 1];                  /* attempts, by gw_local; [0] unused */
    uint64_t local_refused;                     /* attempts that would have been local but for a difference in class */
    uint64_t replays, replayed_tokens;          /* attempts that continue an earlier one; tokens they brought */
    uint64_t recoveries[GW_CAUSE_NO_PROGRESS + 1];                          /* by gw_cause; [0] unused */
    uint64_t cached_tokens, covered_tokens;     /* of prompts whose token 0 came: see gw_stats */
    uint64_t debts_forgotten;                   /* the table was full: the node's lease ends these */
    uint64_t hellos_rejected, wrong_incarnation, unknown_peer, wrong_key, stale_attempt, unexpected, repeats, resent;
} gw_counters;

typedef struct gw_brain gw_brain;
bt_err gw_brain_new(gw_brain **ret, const gw_config *config, bt_fault *fault);     /* BT_EARG, BT_ENOMEM */
void gw_brain_free(gw_brain *b);
/* random: fresh for SUBMIT, not looked at for others. */
gw_actions gw_brain_step(gw_brain *b, const gw_event *ev, int64_t now_us, const bt_random *random);
int64_t gw_brain_due_us(const gw_brain *b);

/* To look at, between steps. */
bool gw_brain_is_ready(const gw_brain *b);              /* a request submitted now would find a ready pair, or a
                                                         * ready decode node that computes prompts itself */
uint64_t gw_brain_limit_tokens(const gw_brain *b);      /* prompt + max tokens that the best of them holds; 0
                                                         * none */
uint32_t gw_brain_queued(const gw_brain *b);
uint32_t gw_brain_active(const gw_brain *b);            /* hold nodes */
uint32_t gw_brain_debts(const gw_brain *b);             /* attempts that were left and whose ABORT_ACK is still to come */
const gw_registry *gw_brain_registry(const gw_brain *b);    /* nodes[i].in_use, for status */
const gw_counters *gw_brain_counters(const gw_brain *b);
const char *gw_fail_name(gw_fail_kind k);               /* "no_node" */
#endif
