/* See worker.h. The thread sleeps only when no slot is active; a stop flag is looked at before each step and, by the
 * engine, between layers. */
#include "decode-node/worker.h"
#include "base/clock.h"
#include "base/ring.h"
#include "sample/sample.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENT_RING = 4096 };

typedef struct sequence {
    dc_worker_start job;
    bool active;
    int32_t last;                           /* the token to run next */
    uint32_t index;                         /* of the token that the next step makes */
    uint32_t steps;
    int64_t started_us, first_us;
} sequence;

struct dc_worker {
    dc_engine *engine;
    bt_sample *sampler;
    float *logits;                          /* [V] */
    uint32_t slots;
    sequence *slot;
    atomic_bool *stop;                      /* [slots], set by the I/O thread */
    atomic_bool quit;
    bt_ring *commands, *events;             /* dc_worker_start; dc_worker_event */
    pthread_t thread;
    bool has_thread;
};

/* The I/O thread always drains, so a full ring empties by itself; until then this thread waits, which is the back-pressure. */
static void push_event(dc_worker *w, const dc_worker_event *ev)
{
    while (!bt_ring_push(w->events, ev)) {
        if (atomic_load(&w->quit)) return;
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
}

static void end_slot(dc_worker *w, sequence *s, dc_worker_event_type type, bt_finish reason, const char *text)
{
    const int64_t now = bt_clock_us();
    dc_worker_event ev = { .type = type, .slot = s->job.slot, .reason = reason, .steps = s->steps };
    ev.wait_us = (uint64_t)((s->steps ? s->first_us : now) - s->started_us);
    ev.decode_us = s->steps ? (uint64_t)(now - s->first_us) : 0;
    snprintf(ev.text, sizeof ev.text, "%s", text);
    s->active = false;
    push_event(w, &ev);
}

static bool is_stop_id(const sequence *s, int32_t id)
{
    for (uint32_t i = 0; i < s->job.stop_ids_len; i++)
        if (s->job.stop_ids[i] == id) return true;
    return false;
}

/* True when token `id`, the index-th, was the last one. */
static bool ends_with(dc_worker *w, sequence *s, int32_t id, uint32_t index)
{
    if (is_stop_id(s, id)) end_slot(w, s, DC_WORKER_ENDED, BT_FINISH_STOP, "");
    else if (index + 1 >= s->job.max_tokens) end_slot(w, s, DC_WORKER_ENDED, BT_FINISH_LENGTH, "");
    return !s->active;
}

static void begin(dc_worker *w, const dc_worker_start *start)
{
    sequence *s = &w->slot[start->slot];
    *s = (sequence){ .job = *start, .active = true, .last = start->first_token, .index = 1,
                 .started_us = bt_clock_us() };
    /* Without the tokens so far there are no penalties, and the bias list is gone with the message. */
    s->job.sampling.repetition_penalty = s->job.sampling.presence_penalty = s->job.sampling.frequency_penalty = 0.0f;
    s->job.sampling.bias_len = 0;
    (void)ends_with(w, s, start->first_token, 0);
}

static void step(dc_worker *w, sequence *s)
{
    bt_fault fault = { "" };
    int32_t id;
    if (atomic_load(&w->stop[s->job.slot])) {
        end_slot(w, s, DC_WORKER_STOPPED, BT_FINISH_STOP, "");
        return;
    }
    if (s->steps == 0) s->first_us = bt_clock_us();
    s->steps++;
    const size_t pos = (size_t)s->job.prompt_tokens + s->index - 1;
    const dc_engine_seq seq = { .kv = &s->job.view, .pos = pos, .tokens = &s->last, .count = 1, .out = 1 };
    bt_err e = dc_engine_step(w->engine, &seq, 1, &w->stop[s->job.slot], w->logits, &fault);
    const bt_sample_history history = { .generated_len = s->index };
    if (e == BT_OK) e = bt_sample_token(&id, NULL, w->sampler, &s->job.sampling, w->logits, &history, &fault);
    if (e == BT_ECANCEL) {
        end_slot(w, s, DC_WORKER_STOPPED, BT_FINISH_STOP, "");
        return;
    }
    if (e != BT_OK) {
        end_slot(w, s, DC_WORKER_ENDED, BT_FINISH_ERROR, fault.text);
        return;
    }
    push_event(w, &(dc_worker_event){ .type = DC_WORKER_TOKEN, .slot = s->job.slot, .index = s->index, .id = id });
    if (ends_with(w, s, id, s->index)) return;
    s->last = id;
    s->index++;
}

static void *run(void *ud)
{
    dc_worker *w = ud;
    dc_worker_start start;
    while (!atomic_load(&w->quit)) {
        bool busy = false;
        while (bt_ring_pop(w->commands, &start))
            if (start.slot < w->slots) begin(w, &start);
        for (uint32_t i = 0; i < w->slots && !atomic_load(&w->quit); i++) {
            if (!w->slot[i].active) continue;
            step(w, &w->slot[i]);
            busy = true;
        }
        /* The command that wakes us for dc_worker_free may have been taken above: look before sleeping. */
        if (!busy && !atomic_load(&w->quit)) (void)bt_ring_wait(w->commands, -1);
    }
    return NULL;
}

bt_err dc_worker_new(dc_worker **ret, dc_engine *engine, uint32_t slots, bt_fault *fault)
{
    dc_worker *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "decode worker");
    w->slots = slots;
    w->engine = engine;
    w->slot = calloc(slots, sizeof *w->slot);
    w->stop = calloc(slots, sizeof *w->stop);
    w->logits = calloc(dc_engine_vocab(engine), sizeof *w->logits);
    bt_err e = w->slot && w->stop && w->logits ? BT_OK : bt_fail(fault, BT_ENOMEM, "decode worker");
    /* One more place than slots: the wake-up of dc_worker_free always fits. */
    if (e == BT_OK) e = bt_ring_new(&w->commands, sizeof(dc_worker_start), slots + 1, fault);
    if (e == BT_OK) e = bt_ring_new(&w->events, sizeof(dc_worker_event), EVENT_RING, fault);
    if (e == BT_OK) e = bt_sample_new(&w->sampler, dc_engine_vocab(engine), fault);
    if (e == BT_OK && pthread_create(&w->thread, NULL, run, w) != 0) e = bt_fail(fault, BT_EIO, "cannot start the compute thread");
    if (e < 0) {
        dc_worker_free(w);                  /* the engine stays the caller's */
        return e;
    }
    w->has_thread = true;
    *ret = w;
    return BT_OK;
}

void dc_worker_free(dc_worker *w)
{
    if (!w) return;
    if (w->has_thread) {
        atomic_store(&w->quit, true);
        for (uint32_t i = 0; i < w->slots; i++) atomic_store(&w->stop[i], true);
        (void)bt_ring_push(w->commands, &(dc_worker_start){ .slot = UINT32_MAX });
        pthread_join(w->thread, NULL);
        dc_engine_free(w->engine);
    }
    bt_sample_free(w->sampler);
    bt_ring_free(w->commands);
    bt_ring_free(w->events);
    free(w->logits);
    free(w->stop);
    free(w->slot);
    free(w);
}

void dc_worker_start_slot(dc_worker *w, const dc_worker_start *start)
{
    atomic_store(&w->stop[start->slot], false);
    (void)bt_ring_push(w->commands, start);     /* one command a slot: there is always room */
}

void dc_worker_stop_slot(dc_worker *w, uint32_t slot) { atomic_store(&w->stop[slot], true); }
int  dc_worker_fd(const dc_worker *w) { return bt_ring_fd(w->events); }
bool dc_worker_next(dc_worker *w, dc_worker_event *ret) { return bt_ring_pop(w->events, ret); }
