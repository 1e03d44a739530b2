#ifndef PF_WORKER_H
#define PF_WORKER_H
#include "kernels/kv_view.h"
#include "engine/prefill.h"
#include "sample/constraint.h"
#include "wire/msg.h"

/* The prefill node's compute thread. It owns the engine and the sampler, and never touches a socket. One run at a time,
 * in the order of the calls: one prompt, or a batch.
 *
 * A job runs from pf_worker_compute until exactly one DIGEST, FAILED or STOPPED; ids and pages must stay valid until
 * then.
 *   KV_READY   rows of a layer are final. It comes while later rows are computed, in order and without a gap for each
 *              layer
 *   COMPUTED   after all of them: token 0. Only the digest is still to be made
 *   DIGEST     after COMPUTED
 * A cancelled job ends within one layer, after COMPUTED too; a job in a batch ends when the batch's chunk has ended.
 *
 * A job that may pause lets others run between two of its chunks: after pf_worker_pause comes PAUSED, and the job waits
 * for pf_worker_resume. A job that ends before that never says PAUSED. Its rows, token 0 and digest are those of one
 * run. Each job of a batch has the times of the whole run, and a share of its work by the tokens that the job has
 * computed.
 *
 * The compute thread never waits for the I/O thread: the count of a layer's final rows is one number that later rows
 * raise, so that a slow reader gets fewer and longer KV_READYs. The ring of the other events has room for all that the
 * slots can cause. */
typedef struct pf_worker pf_worker;

enum { PF_WORKER_MOST = 64 }; /* jobs of a batch */
typedef struct pf_worker_job {
    uint32_t slot;
    uint32_t with;   /* the next `with` jobs make a batch with this one: fewer than PF_WORKER_MOST */
    bt_kv_view view; /* the page table behind it is borrowed */
    const int32_t *ids;
    uint32_t ids_len;     /* borrowed */
    uint32_t from_row;    /* rows of earlier tokens are in place: a multiple of BT_KV_UNIT_TOKENS, below ids_len */
    bool may_pause;       /* only without a batch */
    bool goes_on;         /* the worker's own */
    bt_sampling sampling; /* its bias and program are borrowed */
} pf_worker_job;

typedef enum pf_worker_event_type {
    PF_WORKER_KV_READY = 1,
    PF_WORKER_COMPUTED,
    PF_WORKER_DIGEST,
    PF_WORKER_FAILED,
    PF_WORKER_STOPPED,
    PF_WORKER_PAUSED, /* token_count: whose rows are computed */
} pf_worker_event_type;
typedef struct pf_worker_event {
    pf_worker_event_type type;
    uint32_t slot;
    uint32_t layer, token_begin, token_count; /* KV_READY; PAUSED */
    int32_t token;                            /* COMPUTED, with the fields below */
    bool has_logprob;
    bt_msg_logprob logprob; /* where the sampling asks for it */
    uint32_t top_len;
    int32_t top_ids[BT_MSG_TOP_LOGITS];
    float top_logits[BT_MSG_TOP_LOGITS];
    uint64_t prefill_us;
    bt_msg_chunks chunks;
    bt_msg_work work;
    bt_digest16 kv_digest; /* DIGEST: of the whole prompt, rows before from_row too */
    bt_err code;
    char text[BT_MSG_MAX_TEXT_BYTES + 1]; /* FAILED */
} pf_worker_event;

/* Takes ownership of the engine in success. slots: how many jobs may wait or run, 1..1024. layers, vocab: the model's.
 * words: of its vocabulary, borrowed; NULL: jobs with a program fail. */
bt_err pf_worker_new(pf_worker **ret, bt_prefill *engine, uint32_t slots, uint32_t layers, size_t vocab,
                     const bt_constraint_vocab *words, bt_fault *fault);
/* Cancels, joins the thread, frees the engine too. NULL is fine. */
void pf_worker_free(pf_worker *w);

/* For the I/O thread only. At most one job for a slot that has not ended. */
void pf_worker_compute(pf_worker *w, const pf_worker_job *job);
void pf_worker_cancel(pf_worker *w, uint32_t slot);
/* The job pauses at the first end of a chunk at which so many tokens of its prompt, or more, are computed. UINT32_MAX:
 * never, which holds from pf_worker_compute and pf_worker_resume on. */
void pf_worker_pause(pf_worker *w, uint32_t slot, uint32_t tokens);
void pf_worker_resume(pf_worker *w, uint32_t slot);      /* after PAUSED */
int pf_worker_fd(const pf_worker *w);                    /* readable when there may be an event */
bool pf_worker_next(pf_worker *w, pf_worker_event *ret); /* false: none, and the descriptor is quiet */
/* for a reader that stops before _next was false: makes the descriptor readable again */
void pf_worker_again(pf_worker *w);
#endif
