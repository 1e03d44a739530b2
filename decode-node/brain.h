#ifndef DC_BRAIN_H
#define DC_BRAIN_H
#include "wire/msg.h"
#include "xfer/step.h"

/* The decode node's decisions: which reservation it takes, which block it lets in, when a sequence starts and
 * stops, which tokens are told again. Rules of all brains: xfer/step.h. It allocates only for RESERVE (coverage
 * and tokens of the attempt; out of memory is Refused).
 *
 * One attempt:  RESERVED --Commit, all in place--> RUNNING --ENDED--> REPORTING --FinishedAck--> forgotten
 *                   abort, lease end: --> STOPPING (waits for a copy or a step in progress) --> freed
 * A slot (0..slots-1) is held from RESERVE_PAGES to FREE_PAGES. This version reserves every page of prompt +
 * max_tokens at once, so a sequence never grows and is never preempted; the brain counts pages itself, so
 * RESERVE_PAGES cannot fail. */

enum { DC_MAX_GATEWAYS = 8 };

typedef struct dc_config {
    bt_incarnation self;
    bt_msg_hello hello;             /* role DECODE, node_id, model_id, names, kv, ctx_tokens, kv_capacity_tokens,
                                     * kv_endpoint, pid; load is filled here */
    uint32_t gateways;              /* 1..DC_MAX_GATEWAYS control links, addressed by index */
    uint32_t slots;                 /* attempts at once, 1..1024 */
    uint32_t pages_total, page_tokens;
    uint32_t links_max;             /* prefill nodes greeted at once; the one idle longest makes room */
    uint64_t window_bytes;          /* un-placed bytes a link may have in flight; at least eight blocks of 256
                                     * tokens are given */
    uint32_t lease_max_ms;          /* longer leases are cut to this; 60 s */
    int64_t heartbeat_us, silence_us, resend_us, rejected_us;   /* 0.5 s, 2 s, 0.5 s, 5 s, as in
                                                                 * prefill-node/brain.h */
} dc_config;
/* The figures above; slots, gateways 1, page_tokens 64, links 64, window 64 MiB. The caller sets self, hello,
 * pages_total. */
dc_config dc_config_defaults(void);

/* A block that arrived; fields from its checked header. The shell drops blocks whose header names another
 * receiver. */
typedef struct dc_block {
    bt_incarnation from;            /* the prefill node */
    bt_request_ref ref;
    bt_ticket ticket;
    uint32_t layer, token_begin, token_count;
    uint64_t bytes;                 /* of K and V rows */
    uint32_t slot;                  /* PLACE, PLACED, CORRUPT; set by the brain */
    uint64_t epoch;                 /* likewise: the link's, so that an old copy gives no credit to a new epoch */
} dc_block;

typedef enum dc_drop_reason {
    DC_DROP_UNKNOWN = 1,            /* no such request or attempt, or it is over */
    DC_DROP_TICKET,                 /* not the ticket, not the prefill node, or a link that never said HELLO */
    DC_DROP_RANGE,                  /* outside the prompt or the model, edges off the grid, or bytes that do not
                                     * fit them */
    DC_DROP_REPEAT,                 /* some of its rows are in place already: rows are never written twice */
    DC_DROP_BUSY,                   /* the slot's last PLACE is not answered yet */
} dc_drop_reason;

typedef enum dc_event_type {
    DC_EV_TICK = 1,
    DC_EV_CONTROL,                  /* a message on control link `gateway` */
    DC_EV_BULK,                     /* a message on the bulk socket; the shell has noted the route back to
                                     * msg->from */
    DC_EV_BLOCK,                    /* answered by exactly one PLACE or DROP action of the same step */
    DC_EV_PLACED,                   /* after PLACE, before the slot's next BLOCK: digest right, rows copied. */
    DC_EV_CORRUPT,                  /* ... or digest wrong, nothing copied */
    DC_EV_TOKEN,                    /* worker: token `index` (from 1) of the slot, each index once, ascending */
    DC_EV_ENDED,                    /* worker: the sequence ended by itself (stop id, length, error) */
    DC_EV_STOPPED,                  /* worker, after STOP. Every START ends by exactly one ENDED or STOPPED */
    DC_EV_DRAIN,                    /* refuse new reservations; EXIT when all have ended and their reports are
                                     * taken */
} dc_event_type;
typedef struct dc_event {
    dc_event_type type;
    union {
        struct { uint32_t gateway; const bt_msg *msg; } control;
        const bt_msg *bulk;
        dc_block block;             /* BLOCK, PLACED, CORRUPT */
        struct { uint32_t slot, index; int32_t id; } token;
        struct {
            uint32_t slot; bt_finish reason;            /* ERROR: text says why; the gateway gets FAILED */
            uint64_t wait_us, decode_us; uint32_t steps;    /* START to first step; first step to the end */
            char text[BT_MSG_MAX_TEXT_BYTES + 1];
        } ended;
        uint32_t slot;              /* STOPPED */
    } u;
} dc_event;

typedef enum dc_action_type {
    DC_DO_SEND_CONTROL = 1,         /* msg to gateway link `gateway`; may be dropped when it cannot be sent now */
    DC_DO_SEND_BULK,                /* msg to the prefill node `peer`; may be dropped */
    DC_DO_PLACE,                    /* check the block's digest and copy its rows into the slot's pages */
    DC_DO_DROP,                     /* do not copy; the reason is for logs, it is already counted */
    DC_DO_RESERVE_PAGES,            /* give the slot pages for `tokens` rows a layer: cannot fail */
    DC_DO_FREE_PAGES,               /* the slot's pages are free */
    DC_DO_START,                    /* join the batch: the prompt's rows are in place, next is the step for token
                                     * index 1 */
    DC_DO_STOP,                     /* leave the batch; STOPPED (or ENDED) will follow */
    DC_DO_LOG,
    DC_DO_EXIT,                     /* drained, once */
} dc_action_type;
typedef struct dc_action {
    dc_action_type type;
    union {
        struct { uint32_t gateway; bt_msg msg; } control;
        struct { bt_incarnation peer; bt_msg msg; } bulk;
        dc_block block;                                     /* PLACE */
        struct { dc_block block; dc_drop_reason reason; } drop;
        struct { uint32_t slot, tokens; } reserve;
        uint32_t slot;                                      /* FREE_PAGES, STOP */
        struct {
            uint32_t slot, prompt_tokens; int32_t first_token; uint32_t max_tokens;     /* max_tokens counts token 0 */
            bt_sampling sampling;
            uint32_t stop_ids_len; int32_t stop_ids[BT_MSG_MAX_STOP_IDS];   /* the stop id drawn is given as TOKEN, then ENDED */
        } start;
        struct { bt_log_level level; char text[BT_STEP_TEXT_BYTES]; } log;
    } u;
} dc_action;
typedef struct dc_actions { const dc_action *items; size_t len; } dc_actions;

typedef struct dc_counters {
    uint64_t reserved, refused, started, finished, failed, aborted, leases_ended;
    uint64_t tokens, blocks_placed, block_bytes_placed, blocks_corrupt, blocks_dropped[DC_DROP_BUSY + 1];   /* by reason */
    uint64_t wrong_incarnation, stale_attempt, unexpected, repeats, resent;
} dc_counters;

typedef struct dc_brain dc_brain;
bt_err dc_brain_new(dc_brain **ret, const dc_config *config, bt_fault *fault);
void dc_brain_free(dc_brain *b);
dc_actions dc_brain_step(dc_brain *b, const dc_event *ev, int64_t now_us, const bt_random *random);
int64_t dc_brain_due_us(const dc_brain *b);

bt_load dc_brain_load(const dc_brain *b);               /* as heartbeats tell it */
void dc_brain_set_rss(dc_brain *b, uint64_t rss_bytes);     /* for the next heartbeat */
bool dc_brain_is_welcome(const dc_brain *b);            /* some gateway has taken this node in */
const dc_counters *dc_brain_counters(const dc_brain *b);
#endif
