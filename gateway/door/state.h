#ifndef GW_DOOR_STATE_H
#define GW_DOOR_STATE_H
#include "base/log.h"
#include "gateway/api/dialect.h"
#include "gateway/door/door.h"
#include "gateway/api/logprobs.h"
#include "trace/row.h"

/* The state that the files of the door share. The files in an order to read them: reply.h (whole answers), rights.h
 * (what a caller may do), pages.h (what GET shows), roles.h (other roles of nodes), live.h (the requests that are being
 * answered), bodies.h (how bodies become requests), answers.h (how answers end), door.c (one of them, from its arrival
 * to its end, and which path is whose). */

/* One request between SUBMIT and the brain's DONE or FAIL. Its exchange may end earlier (the client has gone) or later
 * (the answer is still being sent). */
typedef struct gw_live {
    struct gw_live *next, *prev; /* in the door's list */
    struct gw_live *same;        /* the next one of its bucket */
    struct gw_live *next_want;   /* valid while is_wanting */
    gw_door *door;
    uint64_t number;
    gw_http_exchange *x;       /* NULL: the client has gone */
    struct gw_written *unsent; /* answers.h; NULL: the end of its answer is not being written */
    struct gw_body *unread;    /* bodies.h; NULL: it was read */
    gw_answer head;
    gw_bound bound; /* of its tokens */
    gw_text_answer text;
    gw_logprobs logprobs;
    bt_buf ids; /* int32_t each, as given to the client */
    int32_t *prompt_ids;
    size_t prompt_len;
    uint32_t top_logprobs;
    bt_msg_first_token first;   /* zero until it is known */
    bt_trace_sampling sampling; /* for a capture; its seed is drawn later */
    int64_t arrived_us, wrote_us, token_us;
    gw_key *key;         /* whose request it is, held; NULL: no keys */
    uint64_t key_tokens; /* what it took from the key's tokens */
    uint64_t share;      /* of the brain's line; 0: the common one */
    bool is_counted;     /* among those in flight of the key */
    bool is_chat, is_stream, is_baton, has_begun;
    /* broken: out of memory in the middle of the answer */
    bool wants_finish, wants_cancel, is_wanting, is_late, is_broken;
} gw_live;

typedef struct gw_page gw_page; /* pages.c */

/* A client that asked for another role of a node and waits for its answer. */
typedef struct gw_asked {
    struct gw_asked *next;
    uint64_t token;
    gw_http_exchange *x;
    char id[BT_MSG_MAX_ID_BYTES + 1];
    bt_role role;
} gw_asked;

struct gw_door {
    gw_door_env env;
    gw_http *http; /* NULL: closed */
    const char *url;
    gw_live *first;
    gw_live **buckets; /* the same by number: as many as requests may be answered, a power of two */
    size_t bucket_mask;
    gw_live *first_want, *last_want; /* requests with an event for the brain */
    gw_asked *roles;
    gw_page *pages;                   /* being written, the first one first */
    struct gw_structures *structures; /* api/structure.h */
    bt_buf openapi; /* made when somebody asks for it first: it never changes, and takes milliseconds */
    uint64_t number;
    uint8_t id_key[8];
    size_t open_count, unread_count, unread_bytes; /* unread: bodies that a thread reads, or that wait for it */
    gw_key_pace pace;                              /* of requests that nodes had */
    bt_log_limit own_bos;                          /* warnings about prompts that bring their BOS */
    unsigned refusals, refusals_unsaid; /* requests answered 4xx since the last tick; those that the log left out */
    bool is_draining, has_told_left_out;
};

enum { GW_DOOR_ANSWER_MAX_BYTES = 256 << 20 }; /* of one whole answer */

/* The longest sequence as far as it is known: the nodes' limit, or the model's while there are no nodes. */
static inline uint32_t gw_door_context_tokens(const gw_door *d)
{
    const uint64_t nodes = gw_brain_limit_tokens(d->env.brain);
    return nodes > 0 && nodes < d->env.model->ctx_tokens ? (uint32_t)nodes : d->env.model->ctx_tokens;
}
#endif
