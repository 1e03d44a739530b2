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
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVENTS_OF_A_JOB = 2 }; /* COMPUTED and one that ends it */

/* The work behind a job that pauses; the compute thread's. */
typedef struct progress {
    size_t at;        /* tokens whose rows are there */
    int64_t begin_us; /* of its first run */
    bt_report_work work;
    pf_chunks chunks;
} progress;

/* A job in work: the compute thread's. */
typedef struct running {
    pf_worker *w;
    pf_worker_job job;
    progress *done; /* its slot's */
    bt_err e;
    bt_fault fault;
    float *logits; /* [V] */
    bt_prefill_hooks hooks;
    pf_worker_event computed;
} running;

struct pf_worker {
    bt_prefill *engine;
    bt_sample *sampler;
    const bt_constraint_vocab *words;
    bt_constraint_shelf shelf;
    size_t vocab;
    uint32_t slots, layers;
    atomic_bool *cancel; /* [slots], set by the I/O thread */
    atomic_uint *pause;  /* likewise */
    pf_worker_job *last; /* [slots]: of pf_worker_compute; the I/O thread's */
    progress *progress;  /* [slots] */
    atomic_bool quit;
    bt_ring *jobs, *events;
    pthread_t thread;
    bool has_thread;
    running *on; /* [most] */
    uint32_t most;
    float *logits;    /* [most, V] */
    int64_t begin_us; /* of the run in work */
    pf_chunks chunks; /* and its chunks, where it is of one job */
    atomic_uint *at;  /* [most] slots in work or worked on last, */
    atomic_uint at_len;
    atomic_uint *rows; /* [slots][layers] tokens whose rows are final, as far as blocks may go */
    uint32_t *told;    /* [slots][layers] of these, given out by KV_READY: the I/O thread's */
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
    const running *r = ud;
    pf_worker *w = r->w;
    size_t end = token_begin + token_count;
    if (end < r->job.ids_len) end -= end % BT_KV_UNIT_TOKENS;
    atomic_uint *rows = &w->rows[(size_t)r->job.slot * w->layers + layer];
    if (end <= atomic_load_explicit(rows, memory_order_relaxed)) return;
    atomic_store_explicit(rows, (unsigned)end, memory_order_release);
    bt_ring_wake(w->events);
}

static void on_chunk(void *ud, size_t token_begin, size_t token_count, bool is_end)
{
    pf_worker *w = ((const running *)ud)->w;
    const int64_t now_us = bt_clock_us() - w->begin_us;
    if (is_end) pf_chunks_end(&w->chunks, token_begin, now_us);
    else pf_chunks_begin(&w->chunks, token_begin, token_count, now_us);
}

/* The next final rows of a slot without a KV_READY. */
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

/* Token 0, from the logits. */
static bt_err sample(running *r)
{
    pf_worker *w = r->w;
    pf_worker_event *ev = &r->computed;
    bt_sample_history history = {.prompt = r->job.ids, .prompt_len = r->job.ids_len};
    bt_constraint *c = NULL;
    bt_err e = bt_constraint_take(&c, &w->shelf, w->words, &r->job.sampling, &r->fault);
    if (e == BT_OK) e = bt_constraint_open(&history.open, c, &history, &r->fault);
    bt_constraint_keep(&w->shelf, c); /* its open tokens stay until it is taken again */
    if (e < 0) return e;
    ev->top_len = bt_sample_top(ev->top_ids, w->sampler, BT_MSG_TOP_LOGITS, r->logits);
    for (uint32_t i = 0; i < ev->top_len; i++) ev->top_logits[i] = r->logits[ev->top_ids[i]];
    ev->has_logprob = r->job.sampling.logprobs;
    return bt_sample_token(&ev->token, &ev->logprob, w->sampler, &r->job.sampling, r->logits, &history,
                           &r->fault);
}

static uint32_t tokens_of(const running *r) { return r->job.ids_len - r->job.from_row; }
static bool is_cancelled(const running *r) { return atomic_load(&r->w->cancel[r->job.slot]); }

static void compute_alone(running *r)
{
    const pf_worker_job *job = &r->job;
    const size_t at = r->done->at;
    if (job->may_pause) {
        r->hooks.pause = &r->w->pause[job->slot];
        r->hooks.ret_paused = &r->done->at;
    }
    r->e = bt_prefill_run(r->w->engine, &job->view, job->ids + at, job->ids_len - at, at, &r->hooks,
                          r->logits, BT_PREFILL_LAST, &r->fault);
}

static void compute_batch(pf_worker *w, uint32_t n)
{
    bt_prefill_seq seq[PF_WORKER_MOST];
    uint32_t len = 0;
    for (running *r = w->on; r < w->on + n; r++)
        if (r->e == BT_OK)
            seq[len++] = (bt_prefill_seq){.kv = &r->job.view, .ids = r->job.ids + r->job.from_row,
                                          .n = tokens_of(r),  .pos0 = r->job.from_row,
                                          .hooks = &r->hooks, .logits = r->logits};
    bt_prefill_run_batch(w->engine, seq, len);
    len = 0;
    for (running *r = w->on; r < w->on + n; r++) {
        if (r->e < 0) continue;
        r->e = seq[len].result;
        r->fault = seq[len++].fault;
        if (r->e == BT_OK && is_cancelled(r)) r->e = BT_ECANCEL;
    }
}

/* Gives each job of the run its times and its part of the work. */
static void tell_work(pf_worker *w, uint32_t n, const bt_report_work *before)
{
    const bt_report_work after = bt_prefill_work(w->engine);
    const uint64_t took_us = (uint64_t)(bt_clock_us() - w->begin_us);
    bt_report_work work = n > 1 ? (bt_report_work){0} : w->on->done->work;
    uint64_t all = 0, at = 0;
    bt_report_work_add(&work, before, &after);
    if (w->on->e == BT_EAGAIN) {
        w->on->done->work = work;
        w->on->done->chunks = w->chunks;
        return;
    }
    for (const running *r = w->on; r < w->on + n; r++) all += r->e == BT_OK ? tokens_of(r) : 0;
    for (running *r = w->on; r < w->on + n; r++) {
        if (r->e < 0) continue;
        if (n > 1) {
            w->chunks = (pf_chunks){.told.len = 0};
            pf_chunks_begin(&w->chunks, r->job.from_row, tokens_of(r), 0);
            pf_chunks_end(&w->chunks, r->job.from_row, (int64_t)took_us);
        }
        const bt_report_work part = bt_report_work_part(&work, at, at + tokens_of(r), all);
        at += tokens_of(r);
        r->computed.prefill_us = took_us;
        r->computed.chunks = w->chunks.told;
        r->computed.work = bt_node_setup_work(&part);
    }
}

static void begin(running *r)
{
    const pf_worker_job *job = &r->job;
    if (job->goes_on) return;
    *r->done = (progress){.at = job->from_row, .begin_us = bt_clock_us()};
}

/* The event that ends the job, or its part of it. */
static void push_end(running *r)
{
    pf_worker_event ev = {.type = PF_WORKER_DIGEST, .slot = r->job.slot};
    if (r->e == BT_OK)
        r->e = is_cancelled(r)
                   ? BT_ECANCEL
                   : bt_kv_pack_digest(ev.kv_digest.bytes, &r->job.view, r->job.ids_len, &r->fault);
    if (r->e == BT_EAGAIN) {
        ev.type = PF_WORKER_PAUSED;
        ev.token_count = (uint32_t)r->done->at;
    } else if (r->e < 0) {
        ev.type = r->e == BT_ECANCEL ? PF_WORKER_STOPPED : PF_WORKER_FAILED;
        ev.code = r->e;
        snprintf(ev.text, sizeof ev.text, "%s", r->fault.text);
    }
    push_event(r->w, &ev);
}

/* n jobs in w->on. */
static void do_run(pf_worker *w, uint32_t n)
{
    atomic_store(&w->at_len, 0);
    for (uint32_t i = 0; i < n; i++) {
        running *r = &w->on[i];
        r->w = w;
        r->done = &w->progress[r->job.slot];
        r->fault.text[0] = 0;
        r->logits = w->logits + i * w->vocab;
        r->hooks = (bt_prefill_hooks){.on_kv = on_kv, .on_chunk = on_chunk, .ud = r,
                                      .cancel = &w->cancel[r->job.slot]};
        r->computed = (pf_worker_event){.type = PF_WORKER_COMPUTED, .slot = r->job.slot};
        r->e = is_cancelled(r) ? BT_ECANCEL : BT_OK;
        begin(r);
        atomic_store(&w->at[i], r->job.slot);
    }
    atomic_store(&w->at_len, n);
    const bt_report_work before = bt_prefill_work(w->engine);
    w->begin_us = w->on->done->begin_us;
    w->chunks = w->on->done->chunks;
    if (n > 1) compute_batch(w, n);
    else if (w->on->e == BT_OK) compute_alone(w->on);
    tell_work(w, n, &before);
    for (running *r = w->on; r < w->on + n; r++) {
        if (r->e == BT_OK) r->e = sample(r);
        if (r->e == BT_OK) push_event(w, &r->computed); /* token 0 waits for nothing more */
    }
    for (running *r = w->on; r < w->on + n; r++) push_end(r);
}

/* The next job; false: the thread ends. */
static bool take(pf_worker *w, pf_worker_job *ret)
{
    while (!atomic_load(&w->quit)) {
        if (bt_ring_pop(w->jobs, ret)) {
            if (ret->slot < w->slots) return true;
        } else {
            (void)bt_ring_wait(w->jobs, -1);
        }
    }
    return false;
}

static void *run(void *ud)
{
    pf_worker *w = ud;
    for (uint32_t n = 1; take(w, &w->on[0].job); n = 1) {
        while (n <= w->on[0].job.with && take(w, &w->on[n].job)) n++;
        if (n > w->on[0].job.with) do_run(w, n);
    }
    return NULL;
}

bt_err pf_worker_new(pf_worker **ret, bt_prefill *engine, uint32_t slots, uint32_t layers, size_t vocab,
                     const bt_constraint_vocab *words, bt_fault *fault)
{
    pf_worker *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory for the prefill worker");
    w->slots = slots;
    w->layers = layers;
    w->vocab = vocab;
    w->words = words;
    w->cancel = calloc(slots, sizeof *w->cancel);
    w->pause = calloc(slots, sizeof *w->pause);
    w->last = calloc(slots, sizeof *w->last);
    w->progress = calloc(slots, sizeof *w->progress);
    w->rows = calloc((size_t)slots * layers, sizeof *w->rows);
    w->told = calloc((size_t)slots * layers, sizeof *w->told);
    w->most = slots < PF_WORKER_MOST ? slots : PF_WORKER_MOST;
    w->on = calloc(w->most, sizeof *w->on);
    w->at = calloc(w->most, sizeof *w->at);
    w->logits = calloc(w->most, vocab * sizeof *w->logits);
    w->engine = engine;
    bt_err e =
        w->cancel && w->pause && w->last && w->progress && w->rows && w->told && w->on && w->at && w->logits
            ? BT_OK
            : bt_fail(fault, BT_ENOMEM, "out of memory for the prefill worker");
    /* One more place than slots: the wake-up of pf_worker_free always fits. */
    if (e == BT_OK) e = bt_ring_new(&w->jobs, sizeof(pf_worker_job), slots + 1, fault);
    if (e == BT_OK)
        e = bt_ring_new(&w->events, sizeof(pf_worker_event), (size_t)slots * EVENTS_OF_A_JOB, fault);
    if (e == BT_OK) e = bt_sample_new(&w->sampler, bt_kernels_select(bt_prefill_isa(engine)), vocab, fault);
    const int why = e == BT_OK ? pthread_create(&w->thread, NULL, run, w) : 0;
    if (why) e = bt_fail_thread(fault, "the compute thread", why);
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
    bt_constraint_shelf_done(&w->shelf);
    bt_ring_free(w->jobs);
    bt_ring_free(w->events);
    free(w->logits);
    free(w->on);
    free((void *)w->at);
    free(w->told);
    free(w->rows);
    free(w->cancel);
    free((void *)w->pause);
    free(w->last);
    free(w->progress);
    free(w);
}

static void push_job(pf_worker *w, const pf_worker_job *job)
{
    atomic_store(&w->pause[job->slot], UINT_MAX);
    (void)bt_ring_push(w->jobs, job); /* one job a slot: there is always room */
}

void pf_worker_compute(pf_worker *w, const pf_worker_job *job)
{
    for (uint32_t l = 0; l < w->layers; l++) {
        const size_t i = (size_t)job->slot * w->layers + l;
        w->told[i] = job->from_row;
        atomic_store(&w->rows[i], job->from_row);
    }
    atomic_store(&w->cancel[job->slot], false);
    w->last[job->slot] = *job;
    push_job(w, job);
}

void pf_worker_cancel(pf_worker *w, uint32_t slot) { atomic_store(&w->cancel[slot], true); }

void pf_worker_pause(pf_worker *w, uint32_t slot, uint32_t tokens) { atomic_store(&w->pause[slot], tokens); }

void pf_worker_resume(pf_worker *w, uint32_t slot)
{
    pf_worker_job job = w->last[slot];
    job.goes_on = true;
    push_job(w, &job);
}

int pf_worker_fd(const pf_worker *w) { return bt_ring_fd(w->events); }
void pf_worker_again(pf_worker *w) { bt_ring_wake(w->events); }

bool pf_worker_next(pf_worker *w, pf_worker_event *ret)
{
    /* An empty ring quiets the descriptor, so the rows are looked at after it: what comes later wakes us
     * again. */
    if (!w->has_end) w->has_end = bt_ring_pop(w->events, &w->end);
    if (w->has_end && next_rows(w, w->end.slot, ret)) return true;
    for (uint32_t i = 0, n = atomic_load(&w->at_len); i < n && !w->has_end; i++)
        if (next_rows(w, atomic_load(&w->at[i]), ret)) return true;
    if (!w->has_end) return false;
    *ret = w->end;
    w->has_end = false;
    return true;
}
