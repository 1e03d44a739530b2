#ifndef GW_BRAIN_H
#define GW_BRAIN_H
#include "gateway/brain/registry.h"
#include "gateway/brain/route.h"
#include "wire/msg.h"
#include "xfer/step.h"

/* The gateway's decisions: which nodes are there, which request goes where and when, and how it ends. The
 * rules of all brains are in xfer/step.h.
 *
 * The brain owns every request it takes: prompt, parameters, seed, the tokens accepted so far, and the
 * attempt (one try on one set of nodes). It accepts only the token with the next index. It alone ends a
 * request, exactly once, by one DONE or one FAIL action.
 *
 *   QUEUED -nodes free-> RESERVING -RESERVED-> PREFILLING -token 0-> DECODING -end seen-> CLOSING -> ended
 *
 * A decode node without room says WAITS: the request stands in its line, still RESERVING. It holds no prefill node
 * meanwhile; one of the class that RESERVE named is chosen when RESERVED comes. It leaves the line for another decode
 * node where none of this gateway waits, and where there is room by what its attempts hold.
 *
 * Always true, in production by asserts, in tests/world by a look at everything:
 *   - a client gets tokens 0, 1, 2 .., each once, then one DONE or FAIL, and nothing after it
 *   - at most active_max requests hold nodes, and no more than the places of the table live
 *   - what a node has of this gateway is what the requests and debts say: attempts, those in its line, waiting tokens
 *   - an attempt is higher than all before it of its request
 *   - a share that wants nodes gets its part of the tokens (shares.h), and no prefix outweighs a load (route.h)
 *
 * Every state has a deadline: see gw_config below, and the table in proto/README.md. The end of a request waits for no
 * node. A node that was left still owes an ABORT_ACK; that debt is kept in debts.h, and ABORT goes again until the node
 * answers or its lease is over.
 *
 * Recovery. An attempt is left when a node that it needs
 *   - is lost: silent for gone_us, or for cut_us after its connection ended; restarted; or gone with BYE;
 *   - says FAILED with a code that may not hold on other nodes;
 * - does not answer, or makes no progress. The request then goes back to the queue, to its place by number, so before
 * all that came later. The next attempt goes to nodes of the same exactness classes (route.h) and replays the tokens
 * accepted so far. The client's tokens go on with the next index: none comes twice and none changes. If the replay
 * gives another token 0 than the accepted one, the request ends with FAIL refused.
 *
 * The next attempt begins at once. It begins later, 100 ms doubling to 1.6 s, where a decode node had no
 * room (FAILED with BT_EAGAIN) or where no token came since the loss before. The request ends with FAIL
 * node_lost when no nodes accept another attempt within recovery_us, or when 32 attempts in a row bring no
 * token (FAIL overloaded, if the last one found no room).
 *
 * A node that fails is avoided for a while by all requests (avoid.h), and by the request that it failed. A node that
 * refuses for now gets nothing until the time that it named is over. FAILED with BT_EFORMAT, BT_EARG, BT_ELIMIT,
 * BT_EVERSION or BT_ERANGE, and a refusal for good, end the request.
 *
 * Memory is taken at SUBMIT only, one block for the prompt and the answer's tokens, and freed in the step
 * after the request's end. The tables take address space for all that active_max and nodes_max allow, and memory as
 * their places are used.
 *
 * No step looks at all nodes or requests: what is due, and who is meant, is found by orders (base/order.h), so that a
 * step costs the same with 10 of each and with thousands. */

typedef struct gw_config {
    bt_incarnation self; /* not zero */
    char node_id[BT_MSG_MAX_ID_BYTES + 1];
    uint8_t model_id[16]; /* nodes must hold exactly this model */
    gw_policy policy;
    uint32_t local_below_tokens; /* a prompt with fewer tokens that the decode node has not had is local; 0: none is */
    uint32_t queue_max;   /* requests that may wait; one more gets FAIL overloaded, or where its share has less than
                             its part, one of the share that has most. A quarter may wait for one node */
    uint32_t active_max;  /* requests that may hold nodes, 1..65536; 4 times as many debts */
    uint32_t nodes_max;   /* 2..65536 */
    uint32_t lease_ms;    /* of attempts on nodes; renewed every quarter */
    int64_t heartbeat_us; /* between two HEARTBEATs to a node; up to 8 s to a silent one */
    int64_t suspect_us, gone_us, forget_us; /* silences of a node (registry.h) */
    int64_t cut_us;                         /* silence of a node whose connection has ended; more than heartbeat_us */
    int64_t resend_us;                      /* unanswered messages go again */
    int64_t recovery_us;                    /* from a loss until nodes accept another attempt; QUEUED while no */
                                            /* nodes are ready */
    int64_t queue_us;   /* QUEUED, and RESERVING in a line: since SUBMIT, or the first loss that no token followed */
    int64_t answer_us;  /* RESERVING; PREFILLING until PREFILL_ACCEPTED */
    int64_t prefill_us; /* PREFILLING, or DECODING while tokens are replayed: this time, */
    int64_t prefill_token_us; /* and this for each token of the prompt and each replayed token */
    int64_t progress_us;      /* DECODING without a new token; the first token of an attempt has */
                              /* prefill_token_us more for each row on its way or replayed */
    int64_t role_us;          /* ROLE to ROLE_ANSWER */
    int64_t grace_us;         /* CLOSING: for FINISHED and PREFILL_DONE to bring their figures */
} gw_config;
/* All limits and times of a gateway without options: queue 64, active 4096, nodes 1024, lease 10 s, heartbeat
 * 0.5 s, suspect 2 s, gone 6 s, cut 0.5 s, forget 60 s, resend 0.5 s, recovery 30 s, queue 600 s, answer 5 s, prefill
 * 30 s + 100 ms a token, progress 30 s, role 5 s, grace 1 s; LEAST_LOAD, no prompt is short. The caller
 * sets self, node_id, model_id. */
gw_config gw_config_defaults(void);

typedef struct gw_submit {
    uint64_t request; /* chosen by the caller: from 1, each greater than all before */
    const int32_t *ids;
    uint32_t ids_len;        /* copied; 1..BT_MSG_MAX_PROMPT_TOKENS */
    bt_prompt_hashes hashes; /* copied; ids may be NULL where they are there: for simulations */
    bt_prompt_salt salt;     /* prefixes are shared with prompts of this salt alone, in every attempt */
    uint32_t max_tokens;     /* 1..BT_MSG_MAX_PROMPT_TOKENS */
    bt_sampling sampling;
    gw_policy policy; /* 0: the configured one */
    /* share: the number of the request's share (shares.h), made of its key or its client's address; 0: the common one.
     * weight: of all requests of this share from now on, 1..GW_WEIGHT_MAX; 0: 1. Within a share the request of the
     * lowest priority comes first, then the oldest. */
    uint64_t share;
    uint32_t weight;
    int32_t priority;
    /* node_ids, "": any. No other node serves the request until a node was lost: FAIL no_node when the named one is not
     * ready for recovery_us. Where no node has had the name since the gateway began: at once FAIL unknown_node, or
     * no_node in the first GW_GREET_US. */
    char prefer_prefill[BT_MSG_MAX_ID_BYTES + 1], prefer_decode[BT_MSG_MAX_ID_BYTES + 1];
    bool draw_seed;        /* no seed was given: sampling.seed is drawn from `random` */
    uint32_t stop_ids_len; /* 0..BT_MSG_MAX_STOP_IDS */
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
} gw_submit;

typedef enum gw_event_type {
    GW_EV_TICK = 1,
    GW_EV_MSG, /* from the control socket, which knows the way back to msg->from */
    GW_EV_SUBMIT,
    GW_EV_CANCEL,       /* the client has gone (or its server gave up): ends with FAIL cancelled */
    GW_EV_FINISH_EARLY, /* a stop string was seen in the text: ends with DONE STOP */
    GW_EV_ROLE,         /* ask a node to change its role; one ROLE_ANSWER follows */
    GW_EV_CUT,          /* a connection of the control socket has ended. May be repeated, late, or untrue */
    GW_EV_DRAIN, /* take no more requests; EXIT when the last one has ended and no node that is not GONE owes anything.
                    May be repeated */
} gw_event_type;
typedef struct gw_event {
    gw_event_type type;
    union {
        const bt_msg *msg; /* MSG */
        const gw_submit *submit;
        /* role: PREFILL or DECODE. token: the caller's, comes back in ROLE_ANSWER. */
        struct {
            char node_id[BT_MSG_MAX_ID_BYTES + 1];
            bt_role role;
            uint64_t token;
        } role;
        uint64_t request; /* CANCEL, FINISH_EARLY; one that has ended is ignored */
        /* CUT: the node to which a message could not be handed over. Zero: not known; every node gets a HEARTBEAT at
         * once, so that the shell finds out. */
        bt_incarnation cut;
    } u;
} gw_event;

enum { GW_GREET_US = 2000000 }; /* the time in which nodes greet a gateway that has just begun */
typedef enum gw_fail_kind {
    GW_FAIL_NO_NODE = 1,  /* 503 */
    GW_FAIL_OVERLOADED,   /* 429 with retry_after_ms */
    GW_FAIL_NODE_LOST,    /* 502 */
    GW_FAIL_TIMEOUT,      /* 504; for the door's own deadline, the brain never says it */
    GW_FAIL_TOO_LONG,     /* 400; the text has both numbers */
    GW_FAIL_REFUSED,      /* 502: a node refused or failed the work; code and text are its own */
    GW_FAIL_CANCELLED,    /* nobody is listening */
    GW_FAIL_BAD,          /* 400: a SUBMIT outside the limits above */
    GW_FAIL_UNKNOWN_NODE, /* 404: no node has had a name that the request gives */
    GW_FAIL_NOT_FINITE, /* 500: the model's numbers become infinite or NaN on this prompt, on any node; the text has the
                           place */
    GW_FAILS
} gw_fail_kind;

/* Why an attempt was left for another one. */
typedef enum gw_cause {
    GW_CAUSE_GONE = 1,    /* a needed node was silent for gone_us, or for cut_us after a cut */
    GW_CAUSE_RESTARTED,   /* the node came back as another process */
    GW_CAUSE_LEFT,        /* the node sent BYE */
    GW_CAUSE_FAILED,      /* the node sent FAILED */
    GW_CAUSE_GAVE_UP,     /* the node sent FAILED for want of room (BT_EAGAIN) */
    GW_CAUSE_NO_ANSWER,   /* the node did not accept the attempt in time */
    GW_CAUSE_NO_PROGRESS, /* the node accepted, and then no row or token came in time */
} gw_cause;

/* Figures of an ended request. has_*: false when the request ended before they were known. */
typedef struct gw_stats {
    uint32_t prompt_tokens;
    uint32_t max_tokens;                         /* as submitted, or less where the nodes hold less beside the prompt */
    uint32_t completion_tokens;                  /* given to the client: a final stop id is not counted */
    int64_t gateway_queue_us, ttft_us, total_us; /* from SUBMIT to the first RESERVE, to token 0, to the end; -1: it did
                                                    not come so far */
    /* from RESERVE to RESERVED, refusals and silent nodes in between included, in all attempts up to token 0; -1: none
     */
    int64_t reserve_us;
    char prefilled_by[BT_MSG_MAX_ID_BYTES + 1]; /* node_id of the node that made token 0; "" none did */
    bool has_first;
    uint64_t queue_us, prefill_us;
    bt_msg_work work;              /* of that node */
    const bt_msg_engine *engine;   /* of the last node that computed the prompt; valid until the next step; */
                                   /* NULL: unknown, or the node is forgotten */
    gw_local local;                /* of the last attempt. A local attempt moves no KV: kv_bytes is 0 */
    uint32_t attempts, recoveries; /* recoveries: attempts that were left for one of gw_cause */
    /* Tokens of the prompt, in the attempt that made token 0: those that were not computed, and those that were not
     * sent, because the node (the decode node) had their rows from earlier prompts. */
    uint32_t cached_tokens, covered_tokens;
    bool has_kv;
    uint64_t kv_bytes, kv_blocks, kv_exposed_us, kv_transfer_us;
    bt_digest16 kv_digest;
    bool has_decode;
    uint64_t decode_wait_us, decode_us;
    uint32_t decode_steps;
    uint64_t seed;
    /* Time and energy on the nodes' devices, of all attempts together; ns 0: no price. device_prompt: the parts, and
     * device_first_ns: the time of the prompt in the attempt that made token 0; transfers in all attempts. */
    bt_msg_device_work device_prefill, device_decode;
    bt_msg_device_prompt device_prompt;
    uint64_t device_first_ns, device_transfer_ns, device_exposed_ns;
    const bt_msg_device *prefill_device, *decode_device; /* as `engine`; NULL: unknown */
} gw_stats;

typedef enum gw_action_type {
    GW_DO_SEND = 1, /* msg to `peer` on the control socket; dropped where there is no way to it */
    GW_DO_FIRST,    /* token 0 was made: its logits and timings. The first TOKENS, which has */
                    /* the token itself, follows */
    GW_DO_TOKENS,   /* the next ids for the client, without a stop id; never empty */
    GW_DO_DONE,
    GW_DO_FAIL,
    GW_DO_NODE_CHANGED, /* state of a node changed (readiness, metrics) */
    GW_DO_ROLE_ANSWER,  /* see role_answer below */
    GW_DO_LOG,
    GW_DO_EXIT, /* drained: no request is left; once */
} gw_action_type;
typedef struct gw_action {
    gw_action_type type;
    uint64_t request; /* FIRST, TOKENS, DONE, FAIL */
    union {
        struct {
            bt_incarnation peer;
            bt_msg msg;
        } send;
        struct {
            bt_msg_first_token msg;
            int64_t ttft_us;
        } first;
        struct {
            uint32_t first_index;
            const int32_t *ids;
            uint32_t ids_len;
            const bt_msg_logprob *logprobs;
        } tokens; /* [ids_len] or NULL; until the next step */
        struct {
            bt_finish reason;
            gw_stats stats;
        } done; /* reason: STOP or LENGTH */
        struct {
            gw_fail_kind kind;
            bt_err code;
            uint32_t retry_after_ms;
            char text[BT_STEP_TEXT_BYTES];
            gw_stats stats;
        } fail;
        struct {
            bt_incarnation incarnation;
            bt_role role;
            char node_id[BT_MSG_MAX_ID_BYTES + 1];
            gw_node_state state;
        } node;
        /* The answer to the ROLE with this token. Code 0: the node drains and then serves in the new role, or serves in
         * it already. Otherwise the node's own code and words, or BT_EARG: no such node; BT_EIO: no answer within
         * role_us; BT_EAGAIN: too many nodes are being asked, or this one went away. */
        struct {
            uint64_t token;
            int32_t code;
            char text[BT_MSG_MAX_TEXT_BYTES + 1];
        } role_answer;
        struct {
            bt_log_level level;
            char text[BT_STEP_TEXT_BYTES];
        } log;
    } u;
} gw_action;
typedef struct gw_actions {
    const gw_action *items;
    size_t len;
} gw_actions;

/* Counts since gw_brain_new, for metrics. */
typedef struct gw_counters {
    uint64_t submitted, failed[GW_FAILS]; /* by gw_fail_kind; [0] unused */
    uint64_t prompt_tokens, completion_tokens;
    uint64_t local_prefills[GW_LOCAL_NO_PREFILL_NODE + 1]; /* attempts, by gw_local; [0] unused */
    uint64_t local_refused;            /* attempts that were not local only because of a difference in class */
    uint64_t replays, replayed_tokens; /* attempts that continue an earlier one; tokens that they replay */
    uint64_t recoveries[GW_CAUSE_NO_PROGRESS + 1]; /* by gw_cause; [0] unused */
    uint64_t cached_tokens, covered_tokens;        /* as in gw_stats, summed over all prompts whose token 0 came */
    uint64_t debts_forgotten;                      /* dropped from a full table; the node's lease ends the attempt */
    uint64_t resent;
    /* Messages without effect. */
    uint64_t hellos_rejected;
    uint64_t unknown_peer, wrong_key; /* from a node without HELLO; with another key than its HELLO */
    uint64_t wrong_incarnation;       /* meant for another incarnation of the gateway */
    uint64_t stale_attempt;           /* of an attempt that was left */
    uint64_t unexpected, repeats;     /* not fit for the request's state; already known */
} gw_counters;

typedef struct gw_brain gw_brain;
bt_err gw_brain_new(gw_brain **ret, const gw_config *config, bt_fault *fault); /* BT_EARG, BT_ENOMEM */
void gw_brain_free(gw_brain *b);
/* random: fresh for SUBMIT, ignored for other events. */
gw_actions gw_brain_step(gw_brain *b, const gw_event *ev, int64_t now_us, const bt_random *random);
int64_t gw_brain_due_us(const gw_brain *b);

/* For a simulator that leaps heartbeats which change nothing; daemons never do. While a node rests, heartbeats in both
 * directions count as sent in time: none is sent, and silence has no effect. _rest does nothing for a node that is not
 * READY. _wake: the node goes on as if it had got all heartbeats due before now_us; returns the time of the last of
 * these; 0: it did not rest. _heard: sets when the node was heard last. */
bool gw_brain_rest(gw_brain *b, const bt_incarnation *node);
int64_t gw_brain_wake(gw_brain *b, const bt_incarnation *node, int64_t now_us);
void gw_brain_heard(gw_brain *b, const bt_incarnation *node, int64_t at_us);

/* To look at, between steps. */
/* Whether a request submitted now would find a ready pair, or a ready decode node that computes prompts itself. */
bool gw_brain_is_ready(const gw_brain *b);
uint64_t gw_brain_limit_tokens(const gw_brain *b); /* the most prompt + max tokens that any READY or SUSPECT node holds,
                                                    * or 0
                                                    */
uint32_t gw_brain_queued(const gw_brain *b);
uint32_t gw_brain_active(const gw_brain *b);  /* requests that hold nodes */
uint32_t gw_brain_in_line(const gw_brain *b); /* those of them that wait in the line of a decode node */
/* How many requests may hold nodes: active_max, or the slots of all ready decode nodes where those are fewer. */
uint32_t gw_brain_active_limit(const gw_brain *b);
uint32_t gw_brain_debts(const gw_brain *b); /* attempts that were left and whose ABORT_ACK is still to come */
/* Whether a token of this decode node would end its avoidance. Where not, tokens that come later than they were made
 * change no choice of nodes, as long as no deadline passes meanwhile: for a simulator that hands over several at once.
 */
bool gw_brain_waits_for_token(const gw_brain *b, const bt_incarnation *decode);
const bt_incarnation *gw_brain_decodes(gw_brain *b, uint64_t request); /* the node whose tokens the request takes; NULL:
                                                                          none */
/* The figures of a share, by its number; all 0: no requests, and none lately. tokens: of prompts and answers so far. */
typedef struct gw_share_figures {
    uint32_t weight, waiting, active;
    uint64_t tokens;
} gw_share_figures;
gw_share_figures gw_brain_share(const gw_brain *b, uint64_t share);
const gw_registry *gw_brain_registry(const gw_brain *b); /* for status: nodes[i] where in_use */
const gw_counters *gw_brain_counters(const gw_brain *b);
const char *gw_fail_name(gw_fail_kind k); /* "no_node" */
#endif
