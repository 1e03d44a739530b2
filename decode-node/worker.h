#ifndef DC_WORKER_H
#define DC_WORKER_H
#include "decode-node/engine/engine.h"
#include "kernels/kv_view.h"
#include "wire/msg.h"

/* The decode node's compute thread. It owns the engine, the sampler and nothing else; it meets the I/O thread in two bounded
 * rings (commands in, events out) and never touches a socket. Sequences in work take turns, one token each.
 *
 * A slot runs from START until exactly one ENDED or STOPPED. Its view, and the pages behind it, must stay valid until then. */
typedef struct dc_worker dc_worker;

typedef struct dc_worker_start {
    uint32_t slot;
    bt_kv_view view;                        /* the page table behind it is borrowed */
    uint32_t prompt_tokens, max_tokens;     /* max_tokens counts token 0, which was made elsewhere */
    int32_t first_token;
    bt_sampling sampling;
    uint32_t stop_ids_len;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
} dc_worker_start;

typedef enum dc_worker_event_type { DC_WORKER_TOKEN = 1, DC_WORKER_ENDED, DC_WORKER_STOPPED } dc_worker_event_type;
typedef struct dc_worker_event {
    dc_worker_event_type type;
    uint32_t slot;
    uint32_t index; int32_t id;             /* TOKEN: index counts from 1 */
    bt_finish reason;                       /* ENDED; with ERROR, text says why */
    uint64_t wait_us, decode_us;            /* START to the first step; first step to the end */
    uint32_t steps;
    char text[BT_MSG_MAX_TEXT_BYTES + 1];
} dc_worker_event;

/* Takes the engine in success. slots: how many may run at once, 1..1024. */
bt_err dc_worker_new(dc_worker **ret, dc_engine *engine, uint32_t slots, bt_fault *fault);
/* Stops the thread within one step and frees the engine too. NULL is fine. */
void   dc_worker_free(dc_worker *w);

/* For the I/O thread only. At most one START for a slot that has not ended. */
void dc_worker_start_slot(dc_worker *w, const dc_worker_start *start);
void dc_worker_stop_slot(dc_worker *w, uint32_t slot);      /* the step in progress is cut short at the next layer */
int  dc_worker_fd(const dc_worker *w);                      /* readable when there may be an event */
bool dc_worker_next(dc_worker *w, dc_worker_event *ret);
#endif
