#ifndef PF_BRAIN_H
#define PF_BRAIN_H
#include "wire/msg.h"
#include "xfer/role.h"
#include "xfer/step.h"

/* The prefill node's decisions: which prompt is computed when and in which pages, which KV block goes out when, and
 * which messages. Rules of all brains: xfer/step.h. It allocates only for PREFILL (the prompt's ids; out of memory is
 * Refused).
 *
 * One attempt:  WAITING --worker free--> COMPUTING --COMPUTED--> SENDING --Committed--> COMMITTED --digest--> REPORTING
 * --acks--> forgotten. A slot (0..slots-1) is held from PREFILL to RELEASE: its KV pages and its place in the worker.
 * FIRST_TOKEN goes at COMPUTED; only PREFILL_DONE waits for the digest. Blocks go out while COMPUTING already, as chunk
 * x layer, in the order they exist, never more un-placed bytes than the link's grant; a prompt shorter than
 * min_overlap_tokens is sent when all of its rows exist, one block a layer. Abort, lease end and failure free the slot
 * at once, except that the brain first stops a worker busy with it (CANCEL) and waits for the answers to its
 * SEND_BLOCKs: pages that are read or written are never free.
 *
 * Short prompts run as a batch. The prompt that came first always starts; waiting prompts join it in order of arrival,
 * as long as all prompts of the batch have at most share_tokens left to compute. A prompt that does not fit, or that
 * would find whole pages of its own once another of the batch has computed them, waits on. So a prompt waits for at
 * most as many runs as prompts came before it, and each run is at most one chunk, or one longer prompt.
 *
 * A prompt with at most short_tokens left to compute is short, all others are long. Between two chunks of a long prompt
 * short ones that wait may run, in order of arrival and as batches. At any time at most as many tokens of others were
 * computed since a long prompt began as tokens of its own: it loses at most half of the tokens. A short prompt that has
 * no fewer tokens than the long one has left waits for its end. All other turns are by arrival, so prompts of one kind
 * run one after the other. The worker pauses at the end of a chunk (PAUSE, COMPUTE_PAUSED) and goes on later (RESUME).
 * Where every slot is held, it stays free after a short prompt for up to short_wait_us, since the next one needs that
 * slot; but for no longer than a 16th of the time that the long prompt has run since it went on.
 *
 * One slot in four, at least one of two or more, is kept for short prompts: HELLO names the number and short_tokens. A
 * long prompt that would take one of these is refused. The need of a prompt is counted without its kept prefix.
 *
 * Pages are numbers of a bt_kv_book. A prompt takes all of its pages when it is accepted and keeps them until RELEASE:
 * the pool is the send buffer, and no decode node may have more than half of it under way, unless it is empty
 * otherwise. Computed whole pages are kept as prefixes of other prompts, even those of an attempt that ends early. Kept
 * rows are not computed again (COMPUTE's from_row), and rows that the decode node has (PREFILL's covered_tokens) or
 * does not hold (bt_xfer_first_token) are not sent. Window layers have pages of their own, one for each page of the
 * others: their rows stay with them, because the digest is of all.
 *
 * Always true, in production by asserts, in tests/world by a look at everything:
 *   - a page is free, or held as often as tables name it; pages that are read or written are never free
 *   - no link has more bytes of blocks that are not placed than it was granted
 *   - from the begin of a long prompt on, no more tokens of others were computed than of it
 *   - at most `slots` attempts hold a slot, and no long prompt one that is kept for short ones
 *   - no message is about an attempt lower than the highest seen of its request before the step
 *
 * Bulk links: one for each decode node, dialled on demand (LINK), greeted with HELLO, used after WELCOME.
 * LINK_UP only means that messages may now be handed over; HELLO is repeated until WELCOME. A link that stalls is
 * greeted anew, in a new epoch: what was lost is found by Commit and Missing. A link that cannot be dialled or does not
 * open ends its attempts, so that their gateway looks for another way.
 *
 * FAILED says by its code whether another attempt may work (BT_EAGAIN, BT_EIO, BT_ECANCEL) or never will (BT_EFORMAT,
 * BT_EARG, BT_ELIMIT, BT_ERANGE); others are not used. */

enum { PF_BLOCK_TOKENS = 256 }; /* length of the longest block */

typedef struct pf_config {
    bt_incarnation self;
    bt_msg_hello hello;    /* role PREFILL, node_id, model_id, names, kv, ctx_tokens, kv_capacity_tokens, pid, engine
                              (borrowed); load is filled here */
    uint32_t gateways;     /* 1..BT_GATES_MAX control links, addressed by index */
    uint32_t slots;        /* attempts at once, 1..1024 */
    uint32_t workers;      /* runs at once, 1..slots; 1 where share_tokens or short_tokens are not 0 */
    uint32_t share_tokens; /* the most tokens of a batch; 0: each prompt runs alone */
    uint32_t short_tokens; /* of a short prompt, at most; 0: prompts run in order of arrival, and no slot is kept */
    uint32_t pages_total, page_tokens; /* the KV pool, and as many pages of window layers where hello.kv has a window; a
                                          page is a multiple of 16 tokens, at most 256 */
    bt_prompt_by prompts;              /* prefixes are known by ids, in simulations by hashes */
    uint32_t links_max;                /* decode nodes at once */
    uint32_t min_overlap_tokens;       /* 64; at most block_tokens */
    uint32_t block_tokens;             /* longest block, a multiple of 16; PF_BLOCK_TOKENS */
    uint32_t unsent_max;               /* SEND_BLOCKs of a link not yet answered by the shell; 8 */
    int64_t heartbeat_us, silence_us;  /* 0.5 s; a gateway silent for 2 s gets HELLO again */
    int64_t resend_us;                 /* 0.5 s: HELLO, Commit, reports */
    int64_t rejected_us;               /* 5 s: HELLO after a REJECT that names a mismatch */
    int64_t say_us;                    /* 1 s: PREFILL_ACCEPTED again while rows of the prompt appear */
    int64_t alive_us; /* 10 s: PREFILL_ACCEPTED again to who has heard nothing for so long, while the */
                      /* worker gets on: with a long chunk, or with the prompts before */
    int64_t dial_us;  /* 3 s: a link that is needed and not open for so long is given up */
    int64_t link_us;  /* 10 s: a transfer without progress fails */
    int64_t stall_us; /* 2 s: a transfer waits for the decode node (credit, its socket, the answer to a Commit), which
                         is silent: greet the link anew */
    int64_t idle_us;  /* 60 s: a link without work is closed */
    int64_t short_wait_us; /* 5 ms: the worker waits so long for the short prompt behind a short prompt */
} pf_config;
/* The figures above; slots, workers, gateways 1, page_tokens 64, links 32, share_tokens and short_tokens 0. The caller
 * sets self, hello, pages_total. */
enum { PF_SHARE_MAX = 64 }; /* prompts of one run */
pf_config pf_config_defaults(void);

/* A block on its way out; the shell builds its header and bytes from the slot's KV pages and copies them. */
typedef struct pf_block {
    bt_incarnation decode;
    uint32_t slot;
    bt_request_ref ref;
    bt_ticket ticket;
    uint32_t layer, token_begin, token_count;
    uint64_t bytes; /* of K and V rows, as counted against credit: token_count * 2 * kv_heads * head_dim * element */
    uint64_t epoch, end_bytes; /* of the link; body bytes sent in it so far, these included: for the header */
} pf_block;

typedef enum pf_event_type {
    PF_EV_TICK = 1,
    PF_EV_GATE_UP,  /* the connection to a gateway is up, for the first time or again */
    PF_EV_CONTROL,  /* a message on control link `gateway` */
    PF_EV_BULK,     /* a message on the bulk link to `decode` */
    PF_EV_KV_READY, /* worker: rows exist; for each layer in ascending, gapless order, edges on multiples of 16 or the
                       end */
    PF_EV_ALIVE,    /* worker: it is at a run that takes long, and no rows are ready. As often as the caller likes */
    PF_EV_COMPUTED, /* worker, after every KV_READY of the prompt */
    PF_EV_DIGEST,   /* worker, after COMPUTED: the digest of the prompt's KV */
    PF_EV_COMPUTE_FAILED,
    PF_EV_COMPUTE_STOPPED, /* worker, after CANCEL. Every COMPUTE and RESUME ends by exactly one of DIGEST,
                              COMPUTE_FAILED, COMPUTE_STOPPED and COMPUTE_PAUSED; FAILED and STOPPED may come after
                              COMPUTED as well */
    PF_EV_COMPUTE_PAUSED,  /* worker, after PAUSE, CANCEL or none, in place of COMPUTED */
    PF_EV_BLOCK_SENT,      /* the shell handed the block to the socket and needs its rows no more. Every */
    PF_EV_BLOCK_BLOCKED,   /* SEND_BLOCK is answered by one of these two, whatever became of its link */
    PF_EV_LINK_UP,
    PF_EV_LINK_FAILED, /* LINK could not be carried out; no UNLINK will follow */
    PF_EV_DRAIN,       /* refuse new work, change no role any more; EXIT when computations and transfers have ended */
    PF_EV_DRAIN_OVER,  /* the time is over: every attempt fails, EXIT */
} pf_event_type;
typedef struct pf_event {
    pf_event_type type;
    union {
        uint32_t gate; /* GATE_UP */
        struct {
            uint32_t gateway;
            const bt_msg *msg;
        } control;
        struct {
            bt_incarnation decode;
            const bt_msg *msg;
        } bulk;
        struct {
            uint32_t slot, layer, token_begin, token_count;
        } kv_ready;
        struct {
            uint32_t slot;
            int32_t token;
            uint32_t top_len;
            int32_t top_ids[BT_MSG_TOP_LOGITS];
            float top_logits[BT_MSG_TOP_LOGITS];
            uint64_t prefill_us;
            bt_msg_chunks chunks;
            bt_msg_work work;
            bool has_logprob;
            bt_msg_logprob logprob;
            bt_msg_device_work device; /* ns 0: no price */
            bt_msg_device_prompt device_prompt;
        } computed;
        struct {
            uint32_t slot;
            bt_digest16 kv_digest;
        } digest;
        struct {
            uint32_t slot;
            bt_err code;
            char text[BT_MSG_MAX_TEXT_BYTES + 1];
        } failed;
        uint32_t slot; /* COMPUTE_STOPPED */
        struct {
            uint32_t slot, tokens; /* whose rows are computed in every layer: the end of a chunk, not of the prompt */
        } paused;
        pf_block block;        /* BLOCK_SENT, BLOCK_BLOCKED: the action's own */
        bt_incarnation decode; /* LINK_UP */
        struct {
            bt_incarnation decode;
            char text[BT_MSG_MAX_TEXT_BYTES + 1];
        } link_failed;
    } u;
} pf_event;

typedef enum pf_action_type {
    PF_DO_SEND_CONTROL = 1, /* msg to gateway link `gateway`; may be dropped when it cannot be sent now */
    PF_DO_SEND_BULK,        /* msg to `decode`, in order with the blocks of that link; may be dropped */
    PF_DO_SEND_BLOCK,
    PF_DO_COMPUTE, /* start the prompt on the slot, in these pages; ids live until RELEASE of the slot */
    PF_DO_PAUSE,   /* let the slot's prompt pause at the first end of a chunk with so many tokens computed, or more */
    PF_DO_RESUME,  /* go on with the slot's prompt, which has paused; forgets earlier PAUSEs */
    PF_DO_CANCEL,  /* raise the slot's cancel flag; COMPUTE_STOPPED (or DIGEST, COMPUTE_FAILED) will follow, within one
                      layer */
    PF_DO_RELEASE, /* the slot's KV pages are free; the slot may be used by the next COMPUTE */
    PF_DO_LINK,    /* dial endpoint, answer LINK_UP */
    PF_DO_UNLINK,  /* close the link to `decode`; nothing is answered */
    PF_DO_LOG,
    PF_DO_DRAIN, /* the node drains because of ROLE, without DRAIN: let the drain timeout run */
    PF_DO_EXIT,  /* drained, once */
} pf_action_type;
typedef struct pf_action {
    pf_action_type type;
    union {
        struct {
            uint32_t gateway;
            bt_msg msg;
        } control;
        struct {
            bt_incarnation decode;
            bt_msg msg;
        } bulk;
        pf_block block;
        /* ids (NULL where the prompt has hashes alone) and sampling.bias are borrowed until the slot's end, pages
         * during the step: numbers in token order, the slot's until RELEASE. Rows of tokens below from_row are in
         * place, shared and read-only. from_row is a multiple of 16. with: the next so many actions are COMPUTEs of the
         * same batch, where it is 0. */
        struct {
            uint32_t slot, with;
            bt_request_ref ref; /* whose prompt it is, and which attempt */
            const int32_t *ids;
            uint32_t ids_len;
            const uint32_t *pages, *windows; /* windows: of window layers; NULL without a window */
            uint32_t pages_len, from_row;
            uint32_t covered_tokens; /* rows of these tokens are not sent */
            bool is_whole;           /* blocks go only when all rows are computed */
            bool may_pause;          /* PAUSE may come */
            bt_sampling sampling;
        } compute;
        uint32_t slot; /* CANCEL, RELEASE, RESUME */
        struct {
            uint32_t slot, tokens; /* UINT32_MAX: it does not pause */
        } pause;
        struct {
            bt_incarnation decode;
            bt_peer_key decode_key;
            char endpoint[BT_MSG_MAX_ENDPOINT_BYTES + 1];
        } link; /* LINK; UNLINK: decode alone */
        struct {
            bt_log_level level;
            char text[BT_STEP_TEXT_BYTES];
        } log;
        bt_role next_role; /* EXIT: the role in which the process goes on; 0: it ends */
    } u;
} pf_action;
typedef struct pf_actions {
    const pf_action *items;
    size_t len;
} pf_actions;

typedef struct pf_counters {
    uint64_t accepted, refused, completed, failed, aborted, leases_ended;
    uint64_t prefix_hits, prefix_tokens; /* prompts with a kept prefix; tokens of these prefixes, which were not
                                            computed */
    uint64_t batches, batched;           /* batched: prompts in batches */
    uint64_t passed, passed_tokens;      /* short prompts that ran between chunks of a long one, and their tokens */
    uint64_t prompt_tokens, blocks_sent, block_bytes_sent, blocks_blocked, blocks_again;
    uint64_t wrong_incarnation, stale_attempt, unexpected, repeats, resent;
} pf_counters;

typedef struct pf_brain pf_brain;
bt_err pf_brain_new(pf_brain **ret, const pf_config *config, bt_fault *fault);
void pf_brain_free(pf_brain *b);
/* random: ignored. */
pf_actions pf_brain_step(pf_brain *b, const pf_event *ev, int64_t now_us, const bt_random *random);
int64_t pf_brain_due_us(const pf_brain *b);

/* For a simulator that leaps heartbeats: bt_gates_rest and bt_gates_wake. */
void pf_brain_rest(pf_brain *b);
int64_t pf_brain_wake(pf_brain *b, int64_t now_us, int64_t heard_us);

bt_load pf_brain_load(const pf_brain *b);               /* for heartbeats */
void pf_brain_set_rss(pf_brain *b, uint64_t rss_bytes); /* for the next heartbeat */
/* the device time and energy of all work so far, for the next heartbeat */
void pf_brain_set_device(pf_brain *b, const bt_msg_device_work *sum);
/* whether the process may become a decode node; at first it may not */
void pf_brain_set_role_may(pf_brain *b, bt_role_may may);
bool pf_brain_is_welcome(const pf_brain *b); /* some gateway has sent WELCOME */
const pf_counters *pf_brain_counters(const pf_brain *b);
bool pf_brain_is_sound(const pf_brain *b); /* whether all counts agree: for tests and the simulator, O(pages) */
#endif
