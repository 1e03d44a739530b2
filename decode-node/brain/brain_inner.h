#ifndef DC_BRAIN_INNER_H
#define DC_BRAIN_INNER_H
#include "decode-node/brain/brain.h"
#include "kv/kv_book.h"
#include "xfer/attempts.h"
#include "xfer/gates.h"
#include "xfer/xfer_credit.h"
#include "xfer/xfer_recv.h"

/* Shared by the files of the decode brain only. In reading order, each calls only those above it:
 *
 *   brain_inner.c   making actions, finding attempts
 *   memory.c        KV pages and the swap store
 *   attempt.c       the life of an attempt, and the messages to its owner
 *   orders.c        who waits, who is youngest, what is due: orders, so that no step looks at all attempts
 *   reserve.c       reservations
 *   preempt.c       who waits for pages, who must give pages up
 *   work.c          what the worker says
 *   blocks.c        bulk links, transfers
 *   brain.c         messages of gateways, time, the step
 * The worker uses lookup.c and batch.c. */

enum {
    DC_RESERVED = BT_ATTEMPT_OWN,
    DC_RUNNING,
    DC_PREEMPTING,
    DC_PREEMPTED,
    DC_WAITING
}; /* beside those of attempts.h */

typedef struct dc_record {
    bt_attempt *a;  /* attempts.all[the same index], never NULL. Its slot is the index of its sequence in the book */
    uint64_t age;   /* order of arrival, those whose answers had begun before all others: lower is older */
    uint64_t class; /* of the prompt's rows */
    uint32_t covered_tokens; /* of the prompt: kept rows with which it began */
    bt_msg_reserve wish;     /* its arrays are in `block` */
    bt_ticket ticket;
    bt_xfer_recv recv;    /* until DC_RUNNING */
    int32_t commit_token; /* token 0 in COMMIT */
    int64_t resend_us;
    void *block;               /* owns prompt, ids, log probabilities, bias and program */
    int32_t *ids;              /* [max_tokens] from index 0 */
    bt_msg_logprob *logprobs;  /* [max_tokens], where asked for */
    uint32_t ids_len, acked;   /* how many are known; the index that the gateway wants next */
    bt_msg_device_work device; /* of its steps here */
    bool has_prompt;           /* the prompt's rows are in place */
    bool is_behind;            /* DC_RUNNING: rows of known tokens are still computed; no token since START */
    int64_t alive_us;          /* when PREFILL_ACCEPTED was sent last; -1: not since START */
    uint32_t need_tokens;      /* DC_RUNNING: rows that the worker asked for; 0: none */
    uint32_t rows, swap_pages, swap_windows; /* DC_PREEMPTED: rows kept, and their pages in the swap store; 0: none */
    int64_t want_us;                         /* since when it waits for pages */
    uint32_t passed;                         /* DC_WAITING: reservations that began before it and came later */
    bool is_cautious;                        /* more growth is counted for it, since answers came back when it began */
    bool has_waited;                         /* its gateway got WAITS */
    bool owes_reserved; /* RESERVED came out of the line, and nothing shows that the gateway has heard it */
    bool first_told, owes_first, owes_done; /* local: FIRST_TOKEN and PREFILL_DONE were made; the first, the second is
                                               not acknowledged */
    bt_msg_first_token first;
    bt_digest16 kv_digest;
    bool ack_abort;              /* STOPPING: the gateway waits for ABORT_ACK */
    bool gives_up;               /* DC_PREEMPTING: it does not return; `failed` says why */
    bool is_finished, is_failed; /* REPORTING */
    bt_msg_finished finished;
    bt_msg_failed failed;
    /* Its places in the orders (orders.c) depend on these: pages counted beside those it holds; whether it counts in
     * dc_brain.leaving, .preempting, .reserved. */
    uint32_t counted_pages;
    bool is_counted_leaving, is_counted_preempting, is_counted_reserved;
} dc_record;

typedef struct dc_link {
    bool in_use;
    bt_incarnation peer;
    uint64_t class; /* class of the rows that it makes */
    bt_xfer_grant grant;
    uint64_t epoch, peer_epoch; /* a value of b->epochs, from 1; the number in HELLO */
    int64_t heard_us;
} dc_link;

struct dc_brain {
    dc_config cfg;
    bt_gates gates;
    bt_attempts attempts;
    dc_record *records; /* [attempts.len] */
    bt_kv_book *book;   /* a sequence a slot */
    uint64_t own_class; /* of this node's prefill engine */
    uint32_t swap_used, swap_windows_used;
    dc_link *links;
    bt_order peers;   /* links in use, by prefill node */
    bt_order waiting; /* sequences that wait for pages, the oldest first */
    bt_order running; /* running sequences, the youngest first */
    bt_order line;    /* reservations that wait, the oldest first */
    uint32_t line_len;
    bool line_changed;               /* since the last look at the line; at that look: */
    int64_t line_room, line_windows; /* pages free and not counted */
    uint32_t line_held;              /* slots held */
    bool line_held_up;               /* sequences waited for pages */
    uint64_t counted_pages; /* counted for reserved and running sequences beside the pages that they hold: until their
                               first tokens, and some growth; as many window pages */
    uint32_t waiting_len, leaving, preempting, reserved; /* leaving: will give pages back */
    int64_t cautious_until_us;                           /* more growth is counted until then */
    uint64_t epochs, ages, rss_bytes;
    bt_msg_device_work device;
    bt_kv_range missing[BT_MSG_MAX_RANGES];
    dc_action *acts;
    size_t acts_len, acts_cap;
    dc_counters n;
    int64_t now_us, worked_us; /* worked_us: the worker's last event of a running sequence */
    int64_t quiet_us;          /* since when the worker has work and makes no token */
    const bt_random *random;
};

static inline bool dc_is_quiet(const dc_brain *b, int64_t now_us) { return now_us - b->quiet_us >= b->cfg.alive_us; }

/* ---- brain_inner.c ---- */
dc_action *dc_act(dc_brain *b, dc_action_type type);
/* The functions of xfer/attempts.h for records; or NULL. dc_next walks over all that are not FREE or OVER:
 *   for (dc_record *r = NULL; (r = dc_next(b, r));) ...
 * The others note their result as touched, for dc_orders_settle. */
dc_record *dc_next(const dc_brain *b, const dc_record *r);
dc_record *dc_find(dc_brain *b, const bt_request_ref *ref);
dc_record *dc_by_slot(dc_brain *b, uint32_t slot);
dc_record *dc_unused(dc_brain *b);
dc_record *dc_abort(dc_brain *b, const bt_request_ref *ref);
dc_record *dc_touch(dc_brain *b, bt_attempt *a); /* the record of a, touched; NULL stays NULL */

/* ---- orders.c ---- */
bt_err dc_orders_new(dc_brain *b);
void dc_orders_free(dc_brain *b);
/* Puts everything that has changed since the last call to its places; called before anything below, a load or a due
 * time is read. */
void dc_orders_settle(dc_brain *b);
dc_record *dc_orders_oldest(dc_brain *b);   /* among those that wait for pages; NULL */
dc_record *dc_orders_youngest(dc_brain *b); /* among those that run; NULL */
bool dc_orders_agree(const dc_brain *b);    /* compares the orders with all records: for tests and the simulator */

/* ---- memory.c ---- */
/* whether there is room for the prompt and the growth counted for it; settled */
bool dc_memory_has_room(dc_brain *b, const bt_msg_reserve *w);
bool dc_memory_is_cautious(const dc_brain *b);
/* Pages free and not counted for anybody; less than 0: more are counted. _windows: of window layers; without windows
 * INT64_MAX. */
int64_t dc_memory_free(const dc_brain *b);
int64_t dc_memory_free_windows(const dc_brain *b);
/* gives r the pages of its prompt; returns the rows in place, in shared pages */
uint32_t dc_memory_place_prompt(dc_brain *b, dc_record *r);
/* `rows` rows are in place in every layer: keeps those of the prompt. */
void dc_memory_keep(dc_brain *b, const dc_record *r, uint32_t rows);
void dc_memory_drop(dc_brain *b, dc_record *r); /* pages and swapped rows */
bool dc_memory_waits(const dc_record *r);       /* for pages */
/* pages counted for a reserved or running r beside those it holds: until its first tokens, and some growth; else 0 */
uint32_t dc_memory_counted(const dc_brain *b, const dc_record *r);
uint32_t dc_memory_pages(const dc_brain *b, const dc_record *r); /* how many r holds */
/* Gives the window pages of a running r back that no later row sees. */
void dc_memory_forward(dc_brain *b, const dc_record *r);
bool dc_memory_grow(dc_brain *b, dc_record *r); /* gives r the pages that it waits for; false: too few are free */
/* For a preempted r. _swap_out: its rows go to the swap store, its pages become free; false: the store has no room.
 * _bring_back: r gets pages again; false: too few are free. *ret_rows: rows in place, swapped in or shared. */
bool dc_memory_swap_out(dc_brain *b, dc_record *r, uint32_t rows);
bool dc_memory_bring_back(dc_brain *b, dc_record *r, uint32_t *ret_rows);

/* ---- attempt.c ---- */
void dc_attempt_say_tokens(dc_brain *b, const dc_record *r, uint32_t from); /* sends the known tokens from this index on
                                                                             */
void dc_attempt_say_reserved(dc_brain *b, const dc_record *r);
void dc_attempt_say_first(dc_brain *b, const dc_record *r); /* of a local prefill: sends what is not acknowledged */
bool dc_attempt_wants_resend(const dc_record *r);
void dc_attempt_resend(dc_brain *b, dc_record *r);
/* at once, or when the copy or step in progress has ended */
void dc_attempt_stop(dc_brain *b, dc_record *r, bool ack_abort);
void dc_attempt_stopped(dc_brain *b, dc_record *r); /* nothing works on a STOPPING record any more */
void dc_attempt_finish(dc_brain *b, dc_record *r, const bt_msg_finished *f);    /* likewise; --> REPORTING */
void dc_attempt_fail(dc_brain *b, dc_record *r, bt_err code, const char *text); /* likewise; --> REPORTING */
void dc_attempt_bury(dc_brain *b, dc_record *r);
void dc_attempt_reap(dc_brain *b); /* frees what was buried in the step before */
void dc_attempt_renew(dc_brain *b, dc_record *r, uint32_t lease_ms);
void dc_attempt_complete_prompt(dc_brain *b, dc_record *r); /* all rows of the prompt are in place */
/* joins the batch, or ends at once where its last token is known */
void dc_attempt_launch(dc_brain *b, dc_record *r, uint32_t rows);
/* Commit: every row of the prompt is in place. False: r is over, since the prefill node made another token 0. */
bool dc_attempt_start(dc_brain *b, dc_record *r);

/* ---- reserve.c ---- */
void dc_reserve(dc_brain *b, const bt_msg *m);
/* at the end of a step: begins reservations of the line for which there is room; a drain refuses all */
void dc_reserve_settle(dc_brain *b);

/* ---- preempt.c ---- */
/* fails r once the worker has stopped it */
void dc_preempt_give_up(dc_brain *b, dc_record *r, bt_err code, const char *text);
void dc_preempt_stopped(dc_brain *b, dc_record *r, uint32_t rows); /* the worker has stopped r: swaps out, drops or
                                                                      gives up */
void dc_preempt_settle(dc_brain *b); /* at the end of a step: gives out pages, and preempts */

/* ---- work.c ---- */
void dc_work_first(dc_brain *b, const dc_event *ev);
void dc_work_token(dc_brain *b, const dc_event *ev);
void dc_work_tokens(dc_brain *b, const dc_event *ev);
void dc_work_alive(dc_brain *b);
void dc_work_need(dc_brain *b, uint32_t slot, uint32_t tokens);
void dc_work_ended(dc_brain *b, const dc_event *ev);
void dc_work_stopped(dc_brain *b, uint32_t slot, uint32_t rows);

/* ---- blocks.c ---- */
void dc_blocks_msg(dc_brain *b, const bt_msg *m);
void dc_blocks_block(dc_brain *b, const dc_block *in);
void dc_blocks_placed(dc_brain *b, const dc_block *in, bool is_good);
#endif
