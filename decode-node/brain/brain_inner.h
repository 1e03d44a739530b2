#ifndef DC_BRAIN_INNER_H
#define DC_BRAIN_INNER_H
#include "decode-node/brain/brain.h"
#include "kv/kv_book.h"
#include "xfer/attempt_log.h"
#include "xfer/greeting.h"
#include "xfer/xfer_credit.h"
#include "xfer/xfer_recv.h"

/* What the files of the decode brain share: brain.c (gateways, time, step), brain_attempt.c (life of an attempt, what is told of it, worker),
 * brain_memory.c (pages, preemption, return), blocks.c (bulk links, transfers). For these only. */
enum { DC_NO_SLOT = UINT32_MAX };

typedef enum dc_state {
    DC_NONE = 0, DC_RESERVED, DC_RUNNING, DC_PREEMPTING, DC_PREEMPTED, DC_STOPPING, DC_REPORTING, DC_DEAD
} dc_state;

typedef struct dc_record {
    dc_state state;
    bt_request_ref ref;
    uint64_t age;                       /* order of reservation: lower is older */
    uint32_t slot;                      /* DC_NO_SLOT: none. The slot's pages are those of the book's sequence `slot` */
    uint64_t class;                     /* of the prompt's rows */
    uint32_t covered_tokens;            /* of the prompt: kept rows that it began with */
    bt_msg_reserve wish;                /* its arrays are in `block` */
    bt_ticket ticket;
    bt_xfer_recv recv;                  /* until DC_RUNNING */
    int32_t commit_token;               /* token 0 as COMMIT has it */
    int64_t lease_us, lease_end_us, resend_us;
    void *block;                        /* owns log probabilities, bias, prompt and ids */
    int32_t *ids;                       /* [max_tokens] from index 0 */
    bt_msg_logprob *logprobs;           /* [max_tokens], where asked for */
    uint32_t ids_len, acked;            /* known; wanted next by the gateway */
    bool has_prompt;                    /* the prompt's rows are in place */
    bool is_behind;                     /* DC_RUNNING: rows of known tokens are computed first; no token since START */
    int64_t alive_us;                   /* when the gateway was last told that this gets on; -1: not since START */
    uint32_t need_tokens;               /* DC_RUNNING: rows that the worker asked for; 0: none */
    uint32_t rows, swap_pages;          /* DC_PREEMPTED: rows kept in so many pages of the swap store; 0: nothing is kept */
    int64_t want_us;                    /* waits for pages since then */
    bool first_told, owes_first, owes_done;     /* local: FIRST_TOKEN and PREFILL_DONE were made; are not acknowledged */
    bt_msg_first_token first;
    bt_digest16 kv_digest;
    bool ack_abort;                     /* DC_STOPPING: the gateway waits for ABORT_ACK */
    bool gives_up;                      /* DC_PREEMPTING: not to return, `failed` says why */
    bool is_finished, is_failed;        /* DC_REPORTING */
    bt_msg_finished finished;
    bt_msg_failed failed;
} dc_record;

typedef struct dc_link {
    bool in_use;
    bt_incarnation peer;
    uint64_t class;                     /* of the rows that it makes */
    bt_xfer_grant grant;
    uint64_t epoch, peer_epoch;         /* of b->epochs, from 1; as HELLO says it */
    int64_t heard_us;
} dc_link;

struct dc_brain {
    dc_config cfg;
    bt_greeting_times times;
    bt_greeting gates[DC_MAX_GATEWAYS];
    dc_record *records; uint32_t records_len;
    bool *slot_used;
    bt_kv_book *book;                   /* a sequence a slot */
    uint64_t own_class;                 /* of this node's prefill engine */
    uint32_t swap_used;
    dc_link *links;
    uint64_t epochs, ages, rss_bytes;
    bool draining, exited, started;
    bt_role_may role_may;
    bt_role next_role;                      /* what it drains for; 0: to end */
    bt_attempt_log log;
    bt_kv_range missing[BT_MSG_MAX_RANGES];
    dc_action *acts; size_t acts_len, acts_cap;
    dc_counters n;
    int64_t now_us, worked_us;          /* worked: when the worker last said anything of a running sequence */
    const bt_random *random;
};

/* brain.c */
dc_action *dc_act(dc_brain *b, dc_action_type type);
bt_msg *dc_to_owner(dc_brain *b, const bt_request_ref *ref, bt_msg_type type);    /* NULL when no link leads there now */

/* brain_attempt.c */
dc_record *dc_find(dc_brain *b, const bt_request_ref *ref);     /* the request's highest attempt, or NULL */
dc_record *dc_by_slot(dc_brain *b, uint32_t slot);
void dc_say_reserved(dc_brain *b, const dc_record *r);
void dc_say_failed(dc_brain *b, const bt_request_ref *ref, bt_err code, const char *text);
void dc_on_reserve(dc_brain *b, const bt_msg *m);
void dc_set_lease(dc_brain *b, dc_record *r, uint32_t lease_ms);
bool dc_start(dc_brain *b, dc_record *r);       /* every row of the prompt is in place; false: it is over, for the prefill node made another token 0 */
void dc_launch(dc_brain *b, dc_record *r, uint32_t rows);       /* join the batch, or end at once where its last token is known */
void dc_stop(dc_brain *b, dc_record *r, bool ack_abort);        /* end it: at once, or when the copy or step in progress lets go of it */
void dc_stopped(dc_brain *b, dc_record *r);                     /* nothing works on a STOPPING record any more */
void dc_fail(dc_brain *b, dc_record *r, bt_err code, const char *text);     /* likewise; --> REPORTING */
void dc_bury(dc_brain *b, dc_record *r);
void dc_reap(dc_brain *b);
bool dc_wants_resend(const dc_record *r);
void dc_resend(dc_brain *b, dc_record *r);
void dc_on_first(dc_brain *b, const dc_event *ev);
void dc_on_token(dc_brain *b, const dc_event *ev);
void dc_on_ended(dc_brain *b, const dc_event *ev);
void dc_on_stopped(dc_brain *b, uint32_t slot, uint32_t rows);

/* brain_memory.c */
bool dc_memory_has_room(dc_brain *b, const bt_msg_reserve *w);  /* for its prompt, and for what is counted beside it */
uint32_t dc_memory_place_prompt(dc_brain *b, dc_record *r);     /* pages of the prompt; returns the rows in place, shared ones */
void dc_memory_keep(dc_brain *b, const dc_record *r, uint32_t rows);    /* so many rows are in place in every layer: those of the prompt may be shared */
void dc_memory_drop(dc_brain *b, dc_record *r);                 /* pages and swapped rows */
void dc_memory_preempted(dc_brain *b, dc_record *r, uint32_t rows);     /* the worker has stopped: keep, drop or give up */
void dc_memory_need(dc_brain *b, uint32_t slot, uint32_t tokens);
bool dc_memory_waits(const dc_record *r);                       /* for pages */
void dc_memory_give_up(dc_brain *b, dc_record *r, bt_err code, const char *text);
void dc_memory_settle(dc_brain *b);                             /* at the end of a step: who gets pages, who must go */

/* blocks.c */
void dc_on_bulk(dc_brain *b, const bt_msg *m);
void dc_on_block(dc_brain *b, const dc_block *in);
void dc_on_placed(dc_brain *b, const dc_block *in, bool is_good);
#endif
