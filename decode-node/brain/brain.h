#ifndef DC_BRAIN_H
#define DC_BRAIN_H
#include "wire/msg.h"
#include "xfer/role.h"
#include "xfer/step.h"

/* The decode node's decisions: which reservation it takes, which block it lets in, who holds which KV pages, when a
 * sequence starts, leaves and comes back, which tokens go again. Rules of all brains: xfer/step.h. It allocates only
 * for RESERVE (coverage, ids and log probabilities of the attempt, one block; out of memory is Refused).
 *
 * One attempt:
 *   WAITING --room--> RESERVED --Commit, all in place--> RUNNING --ENDED--> REPORTING --FinishedAck--> forgotten
 *   RUNNING --an older one has no free page--> PREEMPTING (waits for STOPPED) --> PREEMPTED --pages are free again-->
 *   RUNNING abort, lease end: --> STOPPING (waits for a copy or a step in progress) --> freed
 * A local attempt (Reserve.is_local: this node prefills) is RUNNING at once, with no row in place. FIRST brings token
 * 0, and unless it was known before, the gateway gets FIRST_TOKEN and PREFILL_DONE as from a prefill node, each again
 * until its ACK. Tokens of an earlier attempt (Reserve.generated) are known from the start: the worker replays them,
 * and none goes out again. While rows of known tokens are computed and the worker gets on with any sequence, the
 * gateway gets PREFILL_ACCEPTED: slow, but not stuck.
 *
 * Pages. The brain has the book of pages (kv/kv_book.h): which slot holds which, and which hold kept prefixes. The
 * shell only finds page `number` in its memory, so no action of pages can fail. "Free" pages below include those that
 * only the prefix index keeps.
 *   - Reserve takes a slot and every page of the prompt, and counts growth for min(max_tokens, growth_tokens) more. It
 *     waits while these do not fit beside the pages held by and counted for others, and while any sequence waits for
 *     pages.
 *   - Reservations that wait stand in one line: first those whose answers have begun (they come back from a preemption
 *     or from a lost node), then the others, each kind in the order in which they came. Its head begins as soon as it
 *     fits. One behind it that fits may begin before it, as long as each one that it passes has been passed fewer than
 *     overtake_max times and waits for less than overtake_us; nobody passes one whose answer has begun. From then on
 *     free pages are kept for the head. Only the first DC_LINE_LOOK behind the head are looked at. The line has
 *     waiting_max places; one more is refused. A reservation leaves it by ABORT, by the end of its lease, or by a
 *     drain, which refuses it.
 *   - Sequences that wait for pages, to grow or to come back, are served in the order of reservation (age), the oldest
 *     first. Where no page is free, the youngest RUNNING sequence is preempted if it is younger than the waiting one.
 *     So the oldest always gets on. The youngest itself sits out and keeps its pages, since nobody older wants them
 *     yet.
 *   - For DC_CAUTION_US after a preemption whose rows found no place in the swap store, DC_CAUTION times as much growth
 *     is counted for each reservation that begins.
 *   - The rows of a preempted sequence go to the swap store where that has room; else, where this node's prefill engine
 *     has the class of the prompt's rows, they are dropped, and later the prompt is prefilled and the tokens are
 *     replayed here; else the attempt is over: FAILED with BT_EAGAIN, and the gateway may begin another. A sequence in
 *     the middle of its prefill begins the prefill again. A sequence that waits for pages longer than preempted_us is
 *     over in the same way.
 *   - Prefixes of prompts are shared in whole pages, which nobody writes again. The whole pages of a prompt are kept
 *     when its rows are complete; when a transfer or a prefill ends early, the pages complete by then are kept, so that
 *     the next attempt begins there. Kept pages are found by their tokens and the class that made them: XXH3-64 of the
 *     exactness of a prefill engine, for a remote attempt Reserve.prefill_class. A remote attempt starts with the kept
 *     prefix (RESERVED.covered_tokens), up to the whole prompt; a local one with all but the last token at most, since
 *     the last token makes token 0. Rows that decoding made are never kept.
 *   - Window layers have pages of their own. A prompt that comes from a prefill node has them from bt_xfer_first_token
 *     on, one that is computed here has all until its digest is made. While a sequence grows, the
 *     window pages that no later row sees go back. A prefix is kept up to a boundary b for others as long as window
 *     pages are there for the window before b (kv/kv_book.h). Room means room for both kinds of page.
 *   - A block or COMMIT counts only from the incarnation and key that Reserve named, with the ticket, and from an
 *     engine of its class.
 *
 * Always true, in production by asserts, in tests/world by a look at everything:
 *   - a page is free, or held as often as tables name it; a page that is shared is never written
 *   - a row in place is never written again, and a block comes only from whom the reservation names, with its ticket
 *   - a reservation that waits was passed at most overtake_max times, and by none overtake_us after it came
 *   - at most waiting_max reservations wait, at most `slots` attempts hold a slot
 *   - no message is about an attempt lower than the highest seen of its request before the step
 * A slot (0..slots-1) is held from the Reserve until the attempt is over; an empty SET_PAGES frees its pages, DROP_SWAP
 * its rows in the swap store. */

typedef struct dc_config {
    bt_incarnation self;
    bt_msg_hello hello; /* role DECODE, node_id, model_id, names, kv, ctx_tokens, kv_capacity_tokens, kv_endpoint, pid;
                           load is filled here */
    uint32_t gateways;  /* 1..BT_GATES_MAX control links, addressed by index */
    uint32_t slots;     /* attempts at once, 1..1024 */
    uint32_t pages_total, page_tokens; /* page_tokens: a multiple of 16, at most 256 */
    uint32_t window_pages_total; /* of window layers: as many as a sequence of ctx_tokens has pages, or pages_total;
                                    0 where hello.kv has no window */
    bt_prompt_by prompts;        /* prefixes are known by ids, in simulations by hashes */
    uint32_t growth_tokens;      /* counted for each sequence beside its prompt */
    uint32_t waiting_max;        /* reservations that may wait for a slot or pages, 0..1024 */
    uint32_t overtake_max;       /* how often each of them may be passed, */
    int64_t overtake_us;         /* and for how long after it came */
    uint32_t swap_pages;         /* of the swap store; 0: there is none */
    uint32_t swap_window_pages;  /* of window layers in it; 0 where hello.kv has no window */
    bool can_prefill;            /* true: hello.prefill_exactness names the class */
    int64_t preempted_us;        /* the longest wait for pages; 20 s */
    int64_t alive_us;            /* 10 s: where the worker has made no token for so long and gets on, PREFILL_ACCEPTED
                                    goes for all that run */
    uint32_t links_max;          /* the most prefill nodes at a time; the one idle longest makes room */
    /* bytes of blocks that a link may have under way and not yet placed; at least eight blocks of 256 tokens */
    uint64_t window_bytes;
    uint32_t lease_max_ms; /* longer leases are cut to this; 60 s */
    /* 0.5 s, 2 s, 0.5 s, 5 s, as in prefill-node/brain/brain.h */
    int64_t heartbeat_us, silence_us, resend_us, rejected_us;
} dc_config;
enum { DC_LINE_LOOK = 32, DC_CAUTION = 4, DC_CAUTION_US = 60000000 };
/* The figures above; slots, gateways 1, page_tokens 64, growth 256 tokens, 256 may wait, be passed 32 times and for 2
 * s, no swap store, links 64, window 64 MiB. The caller sets self, hello, pages_total. */
dc_config dc_config_defaults(void);

/* A block that arrived; fields from its checked header. The shell drops blocks whose header names another
 * receiver. */
typedef struct dc_block {
    bt_incarnation from;  /* the prefill node */
    bt_peer_key from_key; /* proved by the transport; zero without keys */
    bt_request_ref ref;
    bt_ticket ticket;
    uint32_t layer, token_begin, token_count;
    uint64_t bytes;                /* of K and V rows */
    uint64_t link_epoch, link_end; /* for credit: xfer/xfer_credit.h */
    uint32_t slot;                 /* PLACE, PLACED, CORRUPT; set by the brain */
    uint64_t epoch; /* likewise: the link's epoch, so that an old copy gives no credit to a new epoch; 0: no credit */
} dc_block;

typedef enum dc_drop_reason {
    DC_DROP_UNKNOWN = 1, /* no such request or attempt, or it is over */
    DC_DROP_TICKET,      /* another ticket, another prefill node or key, or a link without HELLO */
    DC_DROP_RANGE,       /* outside the prompt or the model, edges off the grid, or bytes that do not fit them */
    DC_DROP_REPEAT,      /* some of its rows are in place already: rows are never written twice */
    DC_DROP_BUSY,        /* the slot's last PLACE is not answered yet */
    DC_DROP_CLASS,       /* the sender's class is not the reservation's */
} dc_drop_reason;

typedef enum dc_event_type {
    DC_EV_TICK = 1,
    DC_EV_GATE_UP, /* the connection to a gateway is up, for the first time or again */
    DC_EV_CONTROL, /* a message on control link `gateway` */
    DC_EV_BULK,    /* a message on the bulk socket; the shell has noted the route back to msg->from */
    DC_EV_BLOCK,   /* answered by exactly one PLACE or DROP action of the same step */
    /* after PLACE, before the slot's next BLOCK: the rows are copied and the pages have the digest */
    DC_EV_PLACED,
    DC_EV_CORRUPT,    /* ... or has not: the rows count as missing, and are asked for again */
    DC_EV_FIRST,      /* worker: new token 0 of a prompt that was prefilled here */
    DC_EV_TOKEN,      /* worker: token `index` (from 1) of the slot, each index once, ascending */
    DC_EV_TOKENS,     /* worker: `len` tokens from `index` on, of several steps, for one TOKENS */
    DC_EV_ALIVE,      /* worker: it has ended a step that made no token, or is at one that takes long */
    DC_EV_NEED,       /* worker: rows that the slot's pages should hold; answered by SET_PAGES or STOP */
    DC_EV_ENDED,      /* worker: the sequence ended by itself (stop id, length, error) */
    DC_EV_STOPPED,    /* worker, after STOP. Every START ends by exactly one ENDED or STOPPED */
    DC_EV_DRAIN,      /* refuse reservations, those that wait too, change no role any more; EXIT when all have ended and
                         their reports are      acknowledged */
    DC_EV_DRAIN_OVER, /* the time is over: every attempt ends with FAILED (BT_EAGAIN), then EXIT at once */
} dc_event_type;
typedef struct dc_event {
    dc_event_type type;
    union {
        uint32_t gate; /* GATE_UP */
        struct {
            uint32_t gateway;
            const bt_msg *msg;
        } control;
        const bt_msg *bulk;
        dc_block block; /* BLOCK, PLACED, CORRUPT */
        struct {
            uint32_t slot;
            const bt_msg_first_token *msg;
            bt_digest16 kv_digest;
        } first;
        struct {
            uint32_t slot, index;
            int32_t id;
            const bt_msg_logprob *logprob;
            const bt_msg_device_work *device;
        } token; /* logprob: where asked for, else NULL; device: of its steps since the token before, else NULL */
        struct {
            uint32_t slot, index, len; /* len: 1..BT_MSG_MAX_TOKENS_IDS */
            const int32_t *ids;
        } tokens; /* of a sequence without log probabilities */
        struct {
            uint32_t slot, tokens;
        } need;
        struct {
            uint32_t slot;
            bt_finish reason; /* ERROR: code and text say why; the gateway gets FAILED, with BT_EIO where it is not
                                 BT_ERANGE */
            bt_err code;
            uint64_t wait_us, decode_us;
            uint32_t steps; /* START to first step; first step to the end */
            char text[BT_MSG_MAX_TEXT_BYTES + 1];
        } ended;
        struct {
            uint32_t slot, rows;
        } stopped; /* rows in place */
    } u;
} dc_event;

typedef enum dc_action_type {
    DC_DO_SEND_CONTROL = 1, /* msg to gateway link `gateway`; may be dropped when it cannot be sent now */
    DC_DO_SEND_BULK,        /* msg to the prefill node `peer`; may be dropped */
    DC_DO_PLACE,            /* copy the block's rows into the slot's pages, then check the digest of these rows */
    DC_DO_DROP,             /* do not copy; the reason is for logs, it is already counted */
    DC_DO_SET_PAGES,        /* the slot's rows lie in these pages, in token order; no pages: it has no rows */
    DC_DO_SWAP_OUT,         /* keep the first `tokens` rows of the slot in the swap store, those of window layers from
                               window_begin on; an empty SET_PAGES follows */
    DC_DO_SWAP_IN,   /* put the `tokens` kept rows back into the slot's pages, just set, and forget them in the store */
    DC_DO_DROP_SWAP, /* forget the slot's rows in the swap store */
    DC_DO_START,     /* join the batch: `rows` rows are in place, of the prompt and then of ids[0 .. ids_len) */
    DC_DO_STOP,      /* leave the batch; STOPPED (or ENDED) will follow */
    DC_DO_LOG,
    DC_DO_DRAIN, /* the node drains because of ROLE, without DRAIN: let the drain timeout run */
    DC_DO_EXIT,  /* drained, once; no action comes after it, in any step */
} dc_action_type;
typedef struct dc_action {
    dc_action_type type;
    union {
        struct {
            uint32_t gateway;
            bt_msg msg;
        } control;
        struct {
            bt_incarnation peer;
            bt_msg msg;
        } bulk;
        dc_block block; /* PLACE */
        struct {
            dc_block block;
            dc_drop_reason reason;
        } drop;
        struct {
            uint32_t slot, pages_len;
            const uint32_t *pages, *windows; /* windows: of window layers, with BT_KV_NO_PAGE; NULL without a window */
            bool is_growth; /* of a running slot: its old pages and more; the shell passes them to the worker */
        } set;
        struct {
            uint32_t slot, tokens, window_begin; /* rows of window layers before it are not kept */
        } swap;                                  /* SWAP_OUT, SWAP_IN of the same numbers */
        uint32_t slot;                           /* DROP_SWAP, STOP */
        struct {
            uint32_t slot;
            const int32_t *prompt; /* lives until STOPPED or ENDED; NULL: the prompt has hashes alone */
            uint32_t prompt_tokens;
            const int32_t *ids;
            uint32_t ids_len;     /* tokens 0.. that are known; until the next step */
            uint32_t rows;        /* 0 .. prompt_tokens + ids_len - 1 */
            uint32_t max_tokens;  /* counts token 0; > ids_len */
            bt_sampling sampling; /* its bias and program live until STOPPED or ENDED */
            uint32_t stop_ids_len;
            int32_t stop_ids[BT_MSG_MAX_STOP_IDS]; /* a drawn stop id comes as TOKEN or FIRST, then ENDED */
        } start;
        struct {
            bt_log_level level;
            char text[BT_STEP_TEXT_BYTES];
        } log;
        bt_role next_role; /* EXIT: the role in which the process goes on; 0: it ends */
    } u;
} dc_action;
typedef struct dc_actions {
    const dc_action *items;
    size_t len;
} dc_actions;

typedef struct dc_counters {
    uint64_t reserved, waited, overtakes; /* waited: those that stood in line; overtakes: as in bt_load */
    uint64_t refused, started, finished, failed, aborted, leases_ended;
    uint64_t local_prefills;
    uint64_t prompt_tokens, prefix_hits, prefix_tokens; /* of all reservations; reservations that found a kept prefix;
                                                           tokens of these prefixes */
    /* dropped: to be prefilled again */
    uint64_t preempted, swapped_out, swapped_in, dropped, given_up, replayed_tokens;
    uint64_t tokens, blocks_placed, block_bytes_placed, blocks_corrupt;
    uint64_t blocks_dropped[DC_DROP_CLASS + 1]; /* by reason */
    uint64_t wrong_incarnation, stale_attempt, unexpected, repeats, resent;
} dc_counters;

typedef struct dc_brain dc_brain;
bt_err dc_brain_new(dc_brain **ret, const dc_config *config, bt_fault *fault);
void dc_brain_free(dc_brain *b);
/* random: fresh for RESERVE, ignored for others. */
dc_actions dc_brain_step(dc_brain *b, const dc_event *ev, int64_t now_us, const bt_random *random);
int64_t dc_brain_due_us(const dc_brain *b);

/* For a simulator that leaps heartbeats: bt_gates_rest and bt_gates_wake. */
void dc_brain_rest(dc_brain *b);
/* The request in a slot, and its attempt. Zero: the slot is free. */
bt_request_ref dc_brain_ref(const dc_brain *b, uint32_t slot);
/* Whether ALIVE would do anything now. */
bool dc_brain_wants_alive(const dc_brain *b, int64_t now_us);
int64_t dc_brain_wake(dc_brain *b, int64_t now_us, int64_t heard_us);

bt_load dc_brain_load(const dc_brain *b);               /* for heartbeats */
void dc_brain_set_rss(dc_brain *b, uint64_t rss_bytes); /* for the next heartbeat */
/* the device time and energy of all work so far, for the next heartbeat */
void dc_brain_set_device(dc_brain *b, const bt_msg_device_work *sum);
/* whether the process may become a prefill node; at first it may not */
void dc_brain_set_role_may(dc_brain *b, bt_role_may may);
bool dc_brain_is_welcome(const dc_brain *b); /* some gateway has sent WELCOME */
const dc_counters *dc_brain_counters(const dc_brain *b);
bool dc_brain_is_sound(const dc_brain *b); /* whether all counts agree: for tests and the simulator, O(pages) */
#endif
