#ifndef DC_WORKER_H
#define DC_WORKER_H
#include "base/pool.h"
#include "device/pace.h"
#include "engine/decode.h"
#include "engine/prefill.h"
#include "kernels/kv_view.h"
#include "sample/constraint.h"
#include "wire/msg.h"

/* The decode node's compute thread: the engine, the sampler and, where the node prefills too, the prefill engine;
 * batch.h says what runs next. It meets the I/O thread in two bounded rings (commands in, events out) and never touches
 * a socket.
 *
 * A slot runs from START until exactly one ENDED or STOPPED. The pages that its view names must stay valid until then;
 * the page table itself is copied. One engine step serves every sequence of a plan; a step that fails ends all of them,
 * each with an ENDED. Where `local` and `engine` are one engine (engine/mixed.h), rows of answers and pieces of prompts
 * share a call.
 *
 * Numbers: a sequence's tokens are a function of its prompt, its sampling and the engines alone. Neighbours, pieces,
 * replay, drafts, or a STOP and a START with the rows that STOPPED named, change no token. */
typedef struct dc_worker dc_worker;

/* The device whose steps, and pieces of prompts, the worker prices. With a pace the worker sends one STEP before all
 * other events of a step, and begins the next step at dc_worker_go: the reader keeps the events back until the STEP is
 * due. */
typedef struct dc_worker_device {
    bt_profile profile;
    bt_price_model model;
    bt_pace pace;
} dc_worker_device;

typedef struct dc_worker_config {
    bt_decode *engine;                /* taken in success; its rows_max is the most rows of a step */
    bt_prefill *local;                /* taken in success; NULL: this node does not prefill */
    const bt_constraint_vocab *words; /* borrowed; NULL: sequences with a program end with ERROR */
    bt_pool *pool;         /* for sampling; borrowed, outlives the worker, may be the engines' own; NULL: one thread */
    uint32_t slots;        /* how many may run at once, 1..1024 */
    uint32_t page_tokens;  /* of every view; 0: 64 */
    uint32_t chunk_tokens; /* of one piece of a prefill; 0: 256 */
    uint32_t replay_rows;  /* of one sequence in one step; 0: 32 */
    uint32_t ahead_tokens; /* NEED comes when less room is left; 0: 32 */
    uint32_t draft_max;    /* speculative decoding: drafts of one sequence in one step; 0: none */
    const dc_worker_device *device; /* borrowed, outlives the worker; NULL: steps have no price */
} dc_worker_config;

typedef struct dc_worker_start {
    uint32_t slot;
    bt_kv_view view;
    const int32_t *prompt;
    uint32_t prompt_tokens; /* the prompt is borrowed for the call, like ids and sampling.bias; sampling.program until
                               the slot has ended. NULL: not known; then all its rows are in place, and penalties and
                               drafts do without it */
    const int32_t *ids;
    uint32_t ids_len; /* tokens 0.. that are known: no events come for them. 0: this node prefills, from row `rows` on
                       */
    uint32_t rows;    /* KV rows in place, 0 .. prompt_tokens + ids_len - 1; less than prompt_tokens needs `local` */
    uint32_t max_tokens; /* counts token 0 */
    bt_sampling sampling;
    uint32_t stop_ids_len;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
} dc_worker_start;

typedef enum dc_worker_event_type {
    DC_WORKER_FIRST = 1, /* token 0 of a prompt prefilled here; only where no token was known */
    DC_WORKER_TOKEN,     /* index counts from 1 */
    DC_WORKER_NEED,      /* rows that the slot's pages should hold: grow the slot, or it sits out when they are full */
    DC_WORKER_ENDED,
    DC_WORKER_STOPPED,
    DC_WORKER_STEP,  /* without a slot, only with a device: a step, or a piece of a prompt, and its price */
    DC_WORKER_PIECE, /* without a slot: a piece of a prompt is computed, and more of the prompt follows */
} dc_worker_event_type;

typedef struct dc_worker_event {
    dc_worker_event_type type;
    uint32_t slot;
    uint32_t index;
    int32_t id; /* FIRST (0), TOKEN */
    bool has_logprob;
    bt_msg_logprob logprob; /* FIRST, TOKEN: where the sampling asks for it */
    uint32_t tokens;        /* NEED */
    uint32_t rows;          /* STOPPED: rows in place; a START with them and the tokens so far goes on */
    bt_finish reason;       /* ENDED; with ERROR, code and text say why */
    bt_err code;
    uint64_t wait_us, decode_us; /* START, or FIRST, to the first step; first step to the end */
    bt_msg_device_work device; /* STEP: of the step. FIRST: of the prompt. TOKEN: of the slot since its token before; ns
                                  0: no price, or a further token of the same step. late_us: without the last step,
                                  which is not over yet */
    int64_t begin_us, due_us;  /* STEP, with a pace */
    uint32_t steps, drafted, accepted; /* ENDED, STOPPED: steps of this sequence, drafts in them, and drafts that were
                                          right */
    uint32_t mixed;                    /* steps that were mixed */
    union {
        char text[BT_MSG_MAX_TEXT_BYTES + 1]; /* ENDED */
        struct {                              /* FIRST */
            uint64_t queue_us, prefill_us;    /* from START to the first piece; from there to the end of the last piece,
                                                 steps in between included */
            bt_msg_work work;
            uint32_t top_len;
            int32_t top_ids[BT_MSG_TOP_LOGITS];
            float top_logits[BT_MSG_TOP_LOGITS];
            bt_digest16 kv_digest; /* of the prompt's KV, bt_kv_pack_digest; 0 where rows of window layers are gone */
        } first;
    } u;
} dc_worker_event;

bt_err dc_worker_new(dc_worker **ret, const dc_worker_config *config, bt_fault *fault);
/* Stops the thread within one step and frees the engines too. NULL is fine. */
void dc_worker_free(dc_worker *w);

/* For the I/O thread only. At most one START for a slot that has not ended. A START that is wrong in itself (a view of
 * other pages or elements, a sequence longer than the engine's context, an id outside the vocabulary) gives ENDED
 * with ERROR. */
void dc_worker_start_slot(dc_worker *w, const dc_worker_start *start);
/* The slot's pages are now those of view, which begins with the slot's old pages; at most two calls for a NEED. Nothing
 * happens to a slot that has ended. */
void dc_worker_grow_slot(dc_worker *w, uint32_t slot, const bt_kv_view *view);
void dc_worker_stop_slot(dc_worker *w, uint32_t slot); /* takes effect before the next step; ends a prefill at the next
                                                          layer */
/* With a pace, once for each STEP: the step is over since now_us. */
void dc_worker_go(dc_worker *w, int64_t now_us);
int dc_worker_fd(const dc_worker *w); /* readable when there may be an event */
bool dc_worker_next(dc_worker *w, dc_worker_event *ret);
#endif
