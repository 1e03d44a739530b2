/* See worker.h. */
#include "prefill-node/worker.h"
#include "base/clock.h"
#include "base/ring.h"
#include "kv/kv_header.h"
#include "kv/kv_pack.h"
#include "node/node_setup.h"
#include "prefill-node/chunks.h"
#include "sample/sample.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVENTS_OF_A_JOB = 2 }; /* COMPUTED and one that ends it */

struct pf_worker {
    bt_prefill *engine;
    bt_sample *sampler;
    float *logits; /* [V] */
    size_t vocab;
    uint32_t slots, layers;
    atomic_bool *cancel; /* [slots], set by the I/O thread */
    atomic_bool quit;
    bt_ring *jobs, *events;
    pthread_t thread;
    bool has_thread;
    uint32_t slot, ids_len; /* in work: the compute thread's */
    int64_t begin_us;       /* of it */
    pf_chunks chunks;
    atomic_uint at_slot; /* in work or worked on last; slots: none yet */
    atomic_uint *rows;   /* [slots][layers] tokens whose rows are final, as far as blocks may go */
    uint32_t *told;      /* [slots][layers] of these, told by KV_READY: the I/O thread's */
    bool has_end;
    pf_worker_event end; /* popped; KV_READYs of its slot go before it: the I/O thread's */
};

static void push_event(pf_worker *w, const pf_worker_event *ev)
{
    const bool has_room = bt_ring_push(w->events, ev); /* one job a slot that has not ended */
    assert(has_room);
    (void)has_room;
}

/* A block's edge is a multiple of BT_KV_UNIT_TOKENS or the prompt's end; a chunk's may be any, and then the
 * rows after the last such multiple go with the next chunk. */
static void on_kv(void *ud, uint32_t layer, size_t token_begin, size_t token_count)
{
    pf_worker *w = ud;
    size_t end = token_begin + token_count;
    if (end < w->ids_len) end -= end % BT_KV_UNIT_TOKENS;
    atomic_uint *rows = &w->rows[(size_t)w->slot * w->layers + layer];
    if (end <= atomic_load_explicit(rows, memory_order_relaxed)) return;
    atomic_store_explicit(rows, (unsigned)end, memory_order_release);
    bt_ring_wake(w->events);
}

static void on_chunk(void *ud, size_t token_begin, size_t token_count, bool is_end)
{
    pf_worker *w = ud;
    const int64_t now_us = bt_clock_us() - w->begin_us;
    if (is_end) pf_chunks_end(&w->chunks, token_begin, now_us);
    else pf_chunks_begin(&w->chunks, token_begin, token_count, now_us);
}

/* The next rows of a slot that were not told. */
static bool next_rows(pf_worker *w, uint32_t slot, pf_worker_event *ret)
{
    if (slot >= w->slots) return false;
    for (uint32_t l = 0; l < w->layers; l++) {
        const size_t i = (size_t)slot * w->layers + l;
        const uint32_t end = atomic_load_explicit(&w->rows[i], memory_order_acquire), begin = w->told[i];
        if (end == begin) continue;
        w->told[i] = end;
        *ret = (pf_worker_event){.type = PF_WORKER_KV_READY, .slot = slot, .layer = l, .token_begin = begin,
                                 .token_count = end - begin};
        return true;
    }
    return false;
}

static bt_err compute(pf_worker *w, const pf_worker_job *job, pf_worker_event *ev, bt_fault *fault)
{
    const bt_prefill_hooks hooks = {.on_kv = on_kv, .on_chunk = on_chunk, .ud = w,
                                    .cancel = &w->cancel[job->slot]};
    const bt_report_work before = bt_prefill_work(w->engine);
    bt_report_work work = {0};
    w->begin_us = bt_clock_us();
    w->chunks = (pf_chunks){.told.len = 0};
    const bt_err e =
        bt_prefill_run(w->engine, &job->view, job->ids + job->from_row, job->ids_len - job->from_row,
                       job->from_row, &hooks, w->logits, BT_PREFILL_LAST, fault);
    if (e < 0) return e;
    ev->prefill_us = (uint64_t)(bt_clock_us() - w->begin_us);
    ev->chunks = w->chunks.told;
    const bt_report_work after = bt_prefill_work(w->engine);
    bt_report_work_add(&work, &before, &after);
    ev->work = bt_node_setup_work(&work);
    ev->top_len = bt_sample_top(ev->top_ids, BT_MSG_TOP_LOGITS, w->logits, w->vocab);
    for (uint32_t i = 0; i < ev->top_len; i++) ev->top_logits[i] = w->logits[ev->top_ids[i]];
    const bt_sample_history history = {.prompt = job->ids, .prompt_len = job->ids_len};
    ev->has_logprob = job->sampling.logprobs;
    return bt_sample_token(&ev->token, &ev->logprob, w->sampler, &job->sampling, w->logits, &history, fault);
}

static void do_job(pf_worker *w, const pf_worker_job *job)
{
    const atomic_bool *cancel = &w->cancel[job->slot];
    bt_fault fault = {""};
    pf_worker_event ev = {.type = PF_WORKER_COMPUTED, .slot = job->slot};
    w->slot = job->slot;
    w->ids_len = job->ids_len;
    atomic_store(&w->at_slot, job->slot);
    bt_err e = atomic_load(cancel) ? BT_ECANCEL : compute(w, job, &ev, &fault);
    if (e == BT_OK) {
        push_event(w, &ev); /* token 0 waits for nothing more */
        ev = (pf_worker_event){.type = PF_WORKER_DIGEST, .slot = job->slot};
        e = atomic_load(cancel) ? BT_ECANCEL
                                : bt_kv_pack_digest(ev.kv_digest.bytes, &job->view, job->ids_len, &fault);
    }
    if (e < 0) {
        ev = (pf_worker_event){.type = e == BT_ECANCEL ? PF_WORKER_STOPPED : PF_WORKER_FAILED,
                               .slot = job->slot, .code = e};
        snprintf(ev.text, sizeof ev.text, "%s", fault.text);
    }
    push_event(w, &ev);
}

static void *run(void *ud)
{
    pf_worker *w = ud;
    pf_worker_job job;
    while (!atomic_load(&w->quit)) {
        if (!bt_ring_pop(w->jobs, &job)) (void)bt_ring_wait(w->jobs, -1);
        else if (job.slot < w->slots) do_job(w, &job);
    }
    return NULL;
}

bt_err pf_worker_new(pf_worker **ret, bt_prefill *engine, uint32_t slots, uint32_t layers, size_t vocab,
                     bt_fault *fault)
{
    pf_worker *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "prefill worker");
    w->slots = slots;
    w->layers = layers;
    w->vocab = vocab;
    w->cancel = calloc(slots, sizeof *w->cancel);
    w->rows = calloc((size_t)slots * layers, sizeof *w->rows);
    w->told = calloc((size_t)slots * layers, sizeof *w->told);
    w->logits = calloc(vocab, sizeof *w->logits);
    w->engine = engine;
    atomic_init(&w->at_slot, slots);
    bt_err e =
        w->cancel && w->rows && w->told && w->logits ? BT_OK : bt_fail(fault, BT_ENOMEM, "prefill worker");
    /* One more place than slots: the wake-up of pf_worker_free always fits. */
    if (e == BT_OK) e = bt_ring_new(&w->jobs, sizeof(pf_worker_job), slots + 1, fault);
    if (e == BT_OK)
        e = bt_ring_new(&w->events, sizeof(pf_worker_event), (size_t)slots * EVENTS_OF_A_JOB, fault);
    if (e == BT_OK) e = bt_sample_new(&w->sampler, vocab, fault);
    if (e == BT_OK && pthread_create(&w->thread, NULL, run, w) != 0)
        e = bt_fail(fault, BT_EIO, "cannot start the compute thread");
    if (e < 0) {
        pf_worker_free(w); /* the engine stays the caller's */
        return e;
    }
    w->has_thread = true;
    *ret = w;
    return BT_OK;
}

void pf_worker_free(pf_worker *w)
{
    if (!w) return;
    if (w->has_thread) {
        atomic_store(&w->quit, true);
        for (uint32_t i = 0; i < w->slots; i++) atomic_store(&w->cancel[i], true);
        (void)bt_ring_push(w->jobs, &(pf_worker_job){.slot = UINT32_MAX});
        pthread_join(w->thread, NULL);
        bt_prefill_free(w->engine);
    }
    bt_sample_free(w->sampler);
    bt_ring_free(w->jobs);
    bt_ring_free(w->events);
    free(w->logits);
    free(w->told);
    free(w->rows);
    free(w->cancel);
    free(w);
}

void pf_worker_compute(pf_worker *w, const pf_worker_job *job)
{
    for (uint32_t l = 0; l < w->layers; l++) {
        const size_t i = (size_t)job->slot * w->layers + l;
        w->told[i] = job->from_row;
        atomic_store(&w->rows[i], job->from_row);
    }
    atomic_store(&w->cancel[job->slot], false);
    (void)bt_ring_push(w->jobs, job); /* one job a slot: there is always room */
}

void pf_worker_cancel(pf_worker *w, uint32_t slot) { atomic_store(&w->cancel[slot], true); }
int pf_worker_fd(const pf_worker *w) { return bt_ring_fd(w->events); }
void pf_worker_again(pf_worker *w) { bt_ring_wake(w->events); }

bool pf_worker_next(pf_worker *w, pf_worker_event *ret)
{
    /* An empty ring quiets the descriptor, so the rows are looked at after it: what comes later wakes us
     * again. */
    if (!w->has_end) w->has_end = bt_ring_pop(w->events, &w->end);
    if (next_rows(w, w->has_end ? w->end.slot : atomic_load(&w->at_slot), ret)) return true;
    if (!w->has_end) return false;
    *ret = w->end;
    w->has_end = false;
    return true;
}
