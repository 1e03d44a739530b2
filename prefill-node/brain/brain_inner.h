#ifndef PF_BRAIN_INNER_H
#define PF_BRAIN_INNER_H
#include "kv/kv_book.h"
#include "prefill-node/brain/brain.h"
#include "xfer/attempts.h"
#include "xfer/gates.h"
#include "xfer/xfer_credit.h"
#include "xfer/xfer_recv.h"
#include "xfer/xfer_send.h"

/* Shared by the files of the prefill brain only. In reading order, each calls only those above it:
 *
 *   brain_inner.c   making actions, finding attempts and links
 *   pages.c         KV pages
 *   attempt.c       the life of an attempt, and the messages to its owner
 *   orders.c        who waits, who has a block to send, what is due: orders, so that no step looks at all attempts or
 *                   links
 *   links.c         bulk links, transfers
 *   work.c          the worker's commands and events
 *   brain.c         messages of gateways, time, the step */

enum { PF_WAITING = BT_ATTEMPT_OWN, PF_COMPUTING, PF_SENDING, PF_COMMITTED }; /* beside those of attempts.h */

typedef struct pf_record {
    bt_attempt *a; /* attempts.all[the same index], never NULL. Its slot is the index of its transfer in `sends` and of
                      its sequence in the book */
    void *block;   /* owns the prompt, the bias and the program */
    bt_prompt_view prompt;             /* from 1 token on */
    uint32_t covered_tokens, from_row; /* tokens whose rows D has; tokens whose rows lie in shared pages */
    bt_incarnation decode;
    bt_ticket ticket;
    bt_sampling sampling;
    uint64_t turn;   /* order of arrival */
    uint64_t served; /* when its last block went, counted in blocks: the transfer served longest ago goes next */
    int64_t resend_us, commit_us;
    int64_t said_us;                                                       /* when PREFILL_ACCEPTED was sent last */
    int64_t accepted_us, started_us, rows_us, first_block_us, progress_us; /* rows_us: when the last rows were final */
    uint32_t missing_rounds;
    bool in_worker; /* from COMPUTE or RESUME to its end */
    bool is_long;   /* it was when it came: it holds no slot kept for short ones */
    /* of pf_brain.under_way: tokens computed; those of others meanwhile; of the last PAUSE */
    uint32_t computed, lost, pause_at;
    int64_t went_us, ran_us; /* when it began or went on last; how long it ran then until it paused */
    uint32_t lent;           /* SEND_BLOCKs that the shell has not answered: it may be reading the pages */
    bool ack_abort, is_failed;
    bool has_first, first_acked, done_acked;
    bt_msg_first_token first;
    bt_msg_prefill_done done;
    bt_msg_failed failed;
    /* Its places in the orders depend on these (orders.c). */
    uint32_t link;   /* the link of its transfer, + 1; 0: none */
    bool is_counted; /* counts in pf_brain.busy */
} pf_record;

typedef enum pf_link_state { PF_LINK_NONE = 0, PF_LINK_DIALLING, PF_LINK_GREETING, PF_LINK_OPEN } pf_link_state;

typedef struct pf_link {
    pf_link_state state;
    bt_incarnation decode;
    bt_peer_key key;
    bt_xfer_purse purse;
    uint64_t born, epoch; /* values of pf_brain.epochs when the link was made, and when it was greeted last */
    uint32_t unanswered;  /* SEND_BLOCKs since it was made */
    int64_t hello_us;     /* GREETING: next HELLO */
    int64_t paused_us;    /* the socket was full: next try */
    int64_t shut_us;      /* since when it is needed and not open; or NEVER */
    int64_t asked_us;     /* since when a transfer waits for a silent D; or NEVER */
    bool is_short, is_blocked, is_committing; /* a block waits for credit; the socket did not take the last one; a
                                                 Commit waits */
    int64_t used_us;                          /* when it was last needed; without meaning while it is needed */
    uint32_t needed;                          /* transfers that need it, as the orders count them */
} pf_link;

struct pf_brain {
    pf_config cfg;
    bt_gates gates;
    bt_attempts attempts;
    pf_record *records;  /* [attempts.len] */
    bt_xfer_send *sends; /* [slots] */
    pf_link *links;
    bt_order peers;                  /* links by decode node */
    bt_order unlinked;               /* free places of links, by place */
    bt_order waiting;                /* prompts by arrival */
    bt_order shorts;                 /* of these the short ones */
    bt_order sending, commits;       /* transfers by link: with a block to send, the one served longest ago first; to be
                                        committed */
    bt_order commit_now;             /* transfers whose COMMIT is to be sent now, by place */
    bt_order link_due;               /* PF_LINK_DUE: by time; PF_LINK_LOOK: due in the next step */
    bt_order link_pump;              /* links that may have something to send */
    pf_record *under_way;            /* the long prompt that has begun and is not computed; NULL: none */
    int64_t free_us;                 /* until when the worker waits for a short prompt; in the past: it does not */
    uint32_t short_slots, long_held; /* slots kept for short prompts; those held by long ones */
    uint32_t waiting_len, busy, links_needed; /* prompts that wait; prompts in the worker; links with a transfer */
    int64_t linked_us;                        /* when links were checked last: links needed then were in use then */
    int64_t alive_due_us;                     /* nobody has waited long for PREFILL_ACCEPTED before */
    bt_kv_book *book;
    uint64_t class;
    uint32_t *counted, counts; /* [pages_total] number of the last count of distinct pages that met this page */
    uint64_t turns, served, epochs, rss_bytes;
    bt_msg_device_work device;
    pf_action *acts;
    size_t acts_len, acts_cap;
    pf_counters n;
    int64_t now_us;
};

/* ---- brain_inner.c ---- */
pf_action *pf_act(pf_brain *b, pf_action_type type);
void pf_log(pf_brain *b, bt_log_level level, const char *text, const char *more);
/* The functions of xfer/attempts.h for records; or NULL. pf_next walks over all that are not FREE or OVER:
 *   for (pf_record *r = NULL; (r = pf_next(b, r));) ...
 * The others note their result as touched, for pf_orders_settle. */
pf_record *pf_next(const pf_brain *b, const pf_record *r);
pf_record *pf_find(pf_brain *b, const bt_request_ref *ref);
pf_record *pf_by_slot(pf_brain *b, uint32_t slot);
pf_record *pf_unused(pf_brain *b);
pf_record *pf_abort(pf_brain *b, const bt_request_ref *ref);
pf_record *pf_touch(pf_brain *b, bt_attempt *a); /* the record of a, touched; NULL stays NULL */
/* The link to this node; NULL: none. */
pf_link *pf_link_of(const pf_brain *b, const bt_incarnation *decode);
bool pf_has_transfer(const pf_record *r);
bool pf_is_commit_due(const pf_brain *b, const pf_record *r);
/* When its transfer fails for want of progress; NEVER: not while the shell holds a block of it, which goes when it may.
 */
static inline int64_t pf_stuck_us(const pf_brain *b, const pf_record *r)
{
    return r->a->state == PF_SENDING && r->lent == 0 ? r->progress_us + b->cfg.link_us : BT_STEP_NEVER;
}
static inline uint32_t pf_left_of(const pf_record *r) { return r->prompt.tokens - r->from_row; }

/* ---- orders.c ---- */
enum { PF_LINK_DUE, PF_LINK_LOOK };
bt_err pf_orders_new(pf_brain *b);
void pf_orders_free(pf_brain *b);
/* Puts everything that has changed since the last call to its places; called before anything below, a load or a due
 * time is read. */
void pf_orders_settle(pf_brain *b);
/* Called when a link has changed, was made, or is gone (its transfers are over and settled). */
void pf_orders_link(pf_brain *b, pf_link *l);
void pf_orders_link_made(pf_brain *b, pf_link *l);
void pf_orders_link_gone(pf_brain *b, pf_link *l);
pf_record *pf_orders_waiting(pf_brain *b);                    /* the prompt whose turn is next; NULL */
pf_record *pf_orders_behind(pf_brain *b, const pf_record *r); /* the waiting prompt behind the waiting r; NULL */
pf_record *pf_orders_short(pf_brain *b);                      /* the same of short prompts alone */
pf_record *pf_orders_short_behind(pf_brain *b, const pf_record *r);
pf_record *pf_orders_sending(pf_brain *b, const pf_link *l); /* the transfer whose block goes next; NULL */
int64_t pf_orders_due_us(const pf_brain *b);                 /* of attempts and links */
bool pf_orders_agree(const pf_brain *b); /* compares the orders with all records: for tests and the simulator */

/* ---- pages.c ---- */
bt_err pf_pages_new(pf_brain *b, bt_fault *fault);
void pf_pages_free(pf_brain *b);
/* Tokens of the prompt that it would compute itself, where it came now. */
uint32_t pf_pages_lacks(const pf_brain *b, const bt_prompt_view *prompt);
/* All pages of the prompt for r's slot, shared ones first. False: *ret_why says why, and the caller releases the slot's
 * pages. */
bool pf_pages_take(pf_brain *b, pf_record *r, const char **ret_why);
void pf_pages_look_again(pf_brain *b, pf_record *r); /* before r starts: shares what was computed since */
void pf_pages_keep(pf_brain *b, const pf_record *r); /* keeps the rows of r that exist in every layer */

/* ---- attempt.c ---- */
void pf_attempt_say(pf_brain *b, pf_record *r); /* sends what the owner has not acknowledged, and repeats it later */
bool pf_attempt_owes(const pf_record *r);       /* whether the owner has yet to acknowledge something */
void pf_attempt_stop(pf_brain *b, pf_record *r, bool ack_abort); /* at once, or when worker and shell have let go of its
                                                                    slot */
void pf_attempt_settle(pf_brain *b, pf_record *r);               /* worker or shell has let go of a part of its slot */
void pf_attempt_fail(pf_brain *b, pf_record *r, bt_err code, const char *text); /* does nothing where r is over already
                                                                                 */
void pf_attempt_committed(pf_brain *b, pf_record *r);                           /* the decode node has all rows of r */
void pf_attempt_bury(pf_brain *b, pf_record *r);
void pf_attempt_reap(pf_brain *b); /* frees what was buried in the step before */

/* ---- links.c ---- */
/* Makes sure of a link to this node. False: the table is full of links in use, or the link to this node has another
 * key; *ret_why says which. */
bool pf_links_want(pf_brain *b, const bt_incarnation *decode, const bt_peer_key *key, const char *endpoint,
                   const char **ret_why);
void pf_links_msg(pf_brain *b, const bt_incarnation *decode, const bt_msg *m);
void pf_links_block(pf_brain *b, const pf_block *block, bool is_sent);
void pf_links_up(pf_brain *b, const bt_incarnation *decode);
void pf_links_failed(pf_brain *b, const bt_incarnation *decode, const char *text);
void pf_links_expire(pf_brain *b);
void pf_links_pump(pf_brain *b); /* sends the blocks and Commits that may go now */

/* ---- work.c ---- */
void pf_work_kv_ready(pf_brain *b, const pf_event *ev);
void pf_work_alive(pf_brain *b);
void pf_work_computed(pf_brain *b, const pf_event *ev);
void pf_work_digest(pf_brain *b, const pf_event *ev);
void pf_work_over(pf_brain *b, uint32_t slot, bt_err code, const char *text); /* COMPUTE_FAILED, COMPUTE_STOPPED */
void pf_work_paused(pf_brain *b, const pf_event *ev);
/* Starts waiting prompts while a worker is free, in their turns, and lets the long prompt under way pause and go on. */
void pf_work_start(pf_brain *b);
int64_t pf_work_due_us(const pf_brain *b); /* when the worker waits no more */
#endif
