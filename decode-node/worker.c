/* See worker.h. The thread sleeps only when no sequence can run. The I/O thread writes a slot's `is` and the
 * memory behind it while the slot is free; the ring hands the slot over. Afterwards the I/O thread only
 * appends to the page table, behind the pages that the worker knows. */
#include "decode-node/worker.h"
#include "base/clock.h"
#include "base/ring.h"
#include "decode-node/brain/batch.h"
#include "decode-node/brain/lookup.h"
#include "engine/mixed.h"
#include "engine/overflow.h"
#include "kv/kv_pack.h"
#include "node/node_device.h"
#include "node/node_setup.h"
#include "sample/sample.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    EVENT_RING = 4096,
    COMMANDS_A_SLOT = 8,
    PAGE_TOKENS = 64,
    CHUNK_TOKENS = 256,
    REPLAY_ROWS = 32,
    AHEAD_TOKENS = 32
};

typedef enum command_type { COMMAND_START = 1, COMMAND_GROW, COMMAND_WAKE, COMMAND_GO } command_type;
typedef struct command {
    command_type type;
    uint32_t slot;
    size_t tokens;
    int64_t now_us;
} command;

typedef struct sequence {
    dc_worker_start is;        /* its prompt, ids, bias and page table are those below */
    int32_t *ids;              /* [ctx + 1]: the prompt, then the answer; token p is run at position p */
    uint8_t **page;            /* [2 table_len]: those of window layers last */
    bt_sample_bias *bias;      /* [BT_SAMPLE_MAX_BIAS] */
    bt_constraint *constraint; /* NULL: the sampling has no program */
    size_t pages;              /* in the table; the I/O thread's */
    bt_fault wrong;            /* the fault of START; "": none */
    bool active;
    uint32_t known; /* tokens of the answer */
    uint32_t steps, mixed, drafted, accepted;
    dc_lookup lookup;
    uint32_t suffix;                          /* of the drafts that were offered; 0: none were */
    int64_t started_us, prefill_us, first_us; /* START or FIRST; first piece; first step */
    bt_report_work work;
    bt_msg_device_work device; /* not told yet: of the prompt here, or of steps since the last token */
} sequence;

/* The sampler's result for one item of a step. */
typedef struct outcome {
    uint32_t first_row, tokens;
    bt_overflow overflow;
    bt_err err;
    bt_fault fault;
} outcome;

struct dc_worker {
    dc_worker_config config;
    size_t vocab, ctx;
    dc_batch *batch;
    sequence *slot;    /* [slots] */
    atomic_bool *stop; /* [slots], set by the I/O thread */
    atomic_bool quit;
    atomic_uint posted;         /* commands in all; */
    unsigned taken;             /* and those that were popped */
    bt_ring *commands, *events; /* command; dc_worker_event */
    bool has_news;              /* events were added that the I/O thread was not woken for */
    bool is_held;               /* a STEP was sent that is not let go yet */
    int64_t due_us;             /* of the last one */
    int64_t free_us;            /* when it was let go, without a sleep since; 0: the device is idle */
    /* of one step */
    bt_decode_seq *seq;    /* [items] */
    outcome *outcome;      /* [items] */
    size_t mixed_rows;     /* of a mixed step; 0: there are no mixed steps */
    bt_prefill_seq *entry; /* [rows_max + DC_BATCH_PIECES], where there are mixed steps */
    const dc_batch_item *item;
    size_t items;
    float *logits;              /* [rows_max, V]; for mixed steps DC_BATCH_PIECES rows more */
    bt_sample_logprob *logprob; /* [rows_max] */
    bt_sample **sampler;        /* [threads] */
    bt_constraint_shelf shelf;
    dc_lookup_cost cost;
    size_t threads;
    pthread_t thread;
    bool has_thread;
};

/* ---- events ---- */

/* The I/O thread always drains, so a full ring empties by itself; until then this thread waits, which is
 * the back-pressure. */
static void push_event(dc_worker *w, const dc_worker_event *ev)
{
    while (!bt_ring_add(w->events, ev)) {
        if (atomic_load(&w->quit)) return;
        bt_ring_wake(w->events);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    w->has_news = true;
}

/* Once for all events of a step. */
static void wake(dc_worker *w)
{
    if (w->has_news) bt_ring_wake(w->events);
    w->has_news = false;
}

static void leave_slot(dc_worker *w, sequence *s, dc_worker_event_type type, bt_finish reason, bt_err code,
                       const char *text)
{
    const int64_t now = bt_clock_us();
    dc_worker_event ev = {.type = type,          .slot = s->is.slot,      .reason = reason,
                          .code = code,          .rows = s->is.rows,      .steps = s->steps,
                          .drafted = s->drafted, .accepted = s->accepted, .mixed = s->mixed};
    ev.wait_us = (uint64_t)((s->steps ? s->first_us : now) - s->started_us);
    ev.decode_us = s->steps ? (uint64_t)(now - s->first_us) : 0;
    snprintf(ev.u.text, sizeof ev.u.text, "%s", text);
    dc_batch_leave(w->batch, s->is.slot);
    s->active = false;
    bt_constraint_keep(&w->shelf, s->constraint);
    s->constraint = NULL;
    push_event(w, &ev);
}

static void end_slot(dc_worker *w, sequence *s, dc_worker_event_type type, bt_finish reason)
{
    leave_slot(w, s, type, reason, BT_OK, "");
}

static void fail_slot(dc_worker *w, sequence *s, bt_err code, const bt_fault *fault)
{
    leave_slot(w, s, DC_WORKER_ENDED, BT_FINISH_ERROR, code, fault->text);
}

static bool is_stop_id(const sequence *s, int32_t id)
{
    for (uint32_t i = 0; i < s->is.stop_ids_len; i++)
        if (s->is.stop_ids[i] == id) return true;
    return false;
}

/* Whether the last known token ends the sequence. */
static bool ends(dc_worker *w, sequence *s)
{
    if (is_stop_id(s, s->ids[s->is.prompt_tokens + s->known - 1]))
        end_slot(w, s, DC_WORKER_ENDED, BT_FINISH_STOP);
    else if (s->known >= s->is.max_tokens) end_slot(w, s, DC_WORKER_ENDED, BT_FINISH_LENGTH);
    return !s->active;
}

/* ---- commands ---- */

static void begin(dc_worker *w, uint32_t slot)
{
    sequence *s = &w->slot[slot];
    bt_fault fault = {""};
    s->active = true;
    s->known = s->is.ids_len;
    s->steps = s->mixed = s->drafted = s->accepted = s->suffix = 0;
    s->lookup = (dc_lookup){0};
    s->prefill_us = 0;
    s->work = (bt_report_work){0};
    s->device = (bt_msg_device_work){0};
    s->started_us = bt_clock_us();
    const bt_err e = bt_constraint_take(&s->constraint, &w->shelf, w->config.words, &s->is.sampling, &fault);
    if (s->wrong.text[0]) fail_slot(w, s, BT_EARG, &s->wrong);
    else if (e < 0) fail_slot(w, s, e, &fault);
    if (!s->active || (s->known && ends(w, s))) return;
    dc_batch_join_slot(w->batch, &(dc_batch_join){.slot = slot, .prompt_tokens = s->is.prompt_tokens,
                                                  .known = s->known, .rows = s->is.rows,
                                                  .capacity_tokens = (uint32_t)s->is.view.tokens_capacity,
                                                  .max_tokens = s->is.max_tokens});
}

static void grow(dc_worker *w, uint32_t slot, size_t tokens)
{
    sequence *s = &w->slot[slot];
    if (!s->active || tokens < s->is.view.tokens_capacity) return;
    s->is.view.tokens_capacity = tokens;
    dc_batch_grow(w->batch, slot, (uint32_t)tokens);
}

/* Popping an empty ring costs a system call: not on the way from token to token. */
static void take_commands(dc_worker *w, bool slept)
{
    command c;
    if (!slept && atomic_load(&w->posted) == w->taken) return;
    while (bt_ring_pop(w->commands, &c)) {
        w->taken++;
        if (c.type == COMMAND_START) begin(w, c.slot);
        else if (c.type == COMMAND_GROW) grow(w, c.slot, c.tokens);
        else if (c.type == COMMAND_GO) {
            w->is_held = false;
            w->free_us = c.now_us;
        }
    }
}

/* Waits until the device would have done the step: sequences that come meanwhile are in the next step.
 * Sequences without a token in this step report its lateness with their next token. */
static void wait_for_go(dc_worker *w, const dc_batch_plan *p)
{
    wake(w);
    while (w->is_held && !atomic_load(&w->quit)) {
        take_commands(w, true);
        if (w->is_held && !atomic_load(&w->quit)) (void)bt_ring_wait(w->commands, -1);
    }
    for (uint32_t i = 0; w->free_us > w->due_us && i < p->items_len; i++) {
        bt_msg_device_work *untold = &w->slot[p->items[i].slot].device;
        if (untold->ns) untold->late_us += (uint64_t)(w->free_us - w->due_us);
    }
}

/* ---- prices ---- */

static bt_work price_of(const dc_worker *w, const dc_batch_plan *p)
{
    const dc_worker_device *d = w->config.device;
    bt_price_step step = {0};
    if (!d) return (bt_work){0};
    for (uint32_t i = 0; i < p->items_len; i++)
        bt_work_step_add(&step, p->items[i].pos, p->items[i].count, p->items[i].out, d->model.window);
    return bt_work_of_step(&d->profile, &d->model, &step);
}

/* Gives each sequence its part of the step's price, and sends STEP. began_us: when the step began on the
 * host. */
static void tell_price(dc_worker *w, const dc_batch_plan *p, const bt_work *price, int64_t began_us)
{
    const dc_worker_device *d = w->config.device;
    dc_worker_event ev = {.type = DC_WORKER_STEP, .device = bt_node_device_work(price)};
    if (!d) return;
    ev.begin_us = w->free_us ? w->free_us : began_us;
    ev.due_us = d->pace.milli ? bt_pace_due_us(&d->pace, ev.begin_us, price->ns) : ev.begin_us;
    for (uint32_t i = 0; i < p->items_len; i++) {
        const bt_work part = bt_work_share(price, p->items[i].count, p->rows);
        bt_msg_device_work one = bt_node_device_work(&part);
        one.steps = 1;
        one.paced_us = (uint64_t)(ev.due_us - ev.begin_us);
        bt_msg_device_work_add(&w->slot[p->items[i].slot].device, &one);
    }
    w->due_us = ev.due_us;
    w->is_held = d->pace.milli > 0;
    push_event(w, &ev);
}

/* The slot's price since its last report. */
static bt_msg_device_work take_price(sequence *s)
{
    const bt_msg_device_work work = s->device;
    s->device = (bt_msg_device_work){0};
    return work;
}

static void let_go_of_stopped(dc_worker *w)
{
    for (uint32_t i = 0; i < w->config.slots; i++)
        if (w->slot[i].active && atomic_load(&w->stop[i]))
            end_slot(w, &w->slot[i], DC_WORKER_STOPPED, BT_FINISH_STOP);
}

static void tell_needs(dc_worker *w)
{
    dc_worker_event ev = {.type = DC_WORKER_NEED};
    while (dc_batch_needs(w->batch, &ev.slot, &ev.tokens)) push_event(w, &ev);
}

/* ---- a decode step ---- */

/* Drafts stand in ids behind the known tokens. They may repeat each other: the source runs on into them. */
static uint32_t draft(dc_worker *w, sequence *s, uint32_t rows)
{
    const size_t n = (size_t)s->is.prompt_tokens + s->known;
    const uint32_t left = s->is.max_tokens - s->known - 1;
    size_t place;
    const uint32_t suffix = dc_lookup_find(&place, s->ids, n);
    if (!suffix) return 0;
    const uint32_t count = dc_lookup_worth(&s->lookup, suffix, &w->cost, rows,
                                           left < w->config.draft_max ? left : w->config.draft_max);
    if (!count) dc_lookup_forget(&s->lookup);
    else s->suffix = suffix;
    for (uint32_t i = 0; i < count; i++) s->ids[n + i] = s->ids[place + i];
    dc_batch_offer(w->batch, s->is.slot, count);
    return count;
}

static void offer_drafts(dc_worker *w)
{
    uint32_t rows = 0;
    if (!w->config.draft_max) return;
    for (uint32_t i = 0; i < w->config.slots; i++) rows += w->slot[i].active;
    for (uint32_t i = 0; i < w->config.slots && rows < bt_decode_rows_max(w->config.engine); i++)
        if (w->slot[i].active && !w->slot[i].suffix && dc_batch_takes_drafts(w->batch, i))
            rows += draft(w, &w->slot[i], rows);
}

static void learn(sequence *s, const dc_batch_item *it, const outcome *o)
{
    if (it->drafts && o->tokens) {
        dc_lookup_learn(&s->lookup, s->suffix, it->drafts, o->tokens - 1);
        s->drafted += it->drafts;
        s->accepted += o->tokens - 1;
    }
    s->suffix = 0;
}

/* Token `index` of the answer, after those before it in ids. */
static bt_err sample(int32_t *ret_id, bt_sample_logprob *ret, bt_sample *sampler, sequence *s, uint32_t index,
                     const float *logits, bt_fault *fault)
{
    bt_sample_history history = {.prompt = s->ids, .prompt_len = s->is.prompt_tokens,
                                 .generated = s->ids + s->is.prompt_tokens, .generated_len = index};
    const bt_err e = bt_constraint_open(&history.open, s->constraint, &history, fault);
    return e < 0 ? e : bt_sample_token(ret_id, ret, sampler, &s->is.sampling, logits, &history, fault);
}

/* Whether numbers of a row before position `end` became infinite or NaN. Rows of a wrong draft do not matter.
 */
static bool lost_before(const dc_worker *w, const dc_batch_item *it, outcome *o, size_t end)
{
    bt_overflow_place at;
    if (!bt_overflow_get(&at, &o->overflow) || at.pos >= end) return false;
    o->err = bt_overflow_fail(&o->overflow, w->slot[it->slot].is.view.elem_bytes, &o->fault);
    return true;
}

/* Rows that make no token are replayed; each of the others is sampled with its own index, and a draft is
 * right where it equals the token that its row made. ids holds history and drafts in one array. */
static void sample_item(dc_worker *w, bt_sample *sampler, size_t i)
{
    const dc_batch_item *it = &w->item[i];
    outcome *o = &w->outcome[i];
    sequence *s = &w->slot[it->slot];
    if (o->err < 0 || lost_before(w, it, o, it->pos + it->count - it->out)) return;
    for (uint32_t r = 0; r < it->out; r++) {
        if (lost_before(w, it, o, it->pos + it->count - it->out + r + 1)) return;
        int32_t *at = &s->ids[s->is.prompt_tokens + s->known + r], id;
        o->err = sample(&id, &w->logprob[o->first_row + r], sampler, s, s->known + r,
                        w->logits + (o->first_row + r) * w->vocab, &o->fault);
        if (o->err < 0) return;
        o->tokens++;
        if (r < it->drafts && *at == id) continue;
        *at = id;
        return;
    }
}

static void sample_part(void *ud, size_t part, size_t parts)
{
    dc_worker *w = ud;
    for (size_t i = part; i < w->items; i += parts) sample_item(w, w->sampler[part], i);
}

static void take_outcome(dc_worker *w, const dc_batch_item *it, const outcome *o)
{
    sequence *s = &w->slot[it->slot];
    const uint32_t kept = it->count - it->drafts + (o->tokens ? o->tokens - 1 : 0);
    if (o->err >= 0) s->is.rows += kept;
    learn(s, it, o);
    for (uint32_t t = 0; t < o->tokens; t++) {
        dc_worker_event ev = {.type = DC_WORKER_TOKEN, .slot = it->slot, .index = s->known,
                              .id = s->ids[s->is.prompt_tokens + s->known]};
        ev.device = take_price(s);
        if ((ev.has_logprob = s->is.sampling.logprobs)) ev.logprob = w->logprob[o->first_row + t];
        push_event(w, &ev);
        s->known++;
        if (ends(w, s)) return;
    }
    if (o->err < 0) fail_slot(w, s, o->err, &o->fault);
    else dc_batch_ran(w->batch, it->slot, kept, o->tokens);
}

/* Sets the engine's rows for the first n items of a plan. */
static void set_rows(dc_worker *w, const dc_batch_plan *p, uint32_t n, int64_t now)
{
    uint32_t out = 0;
    w->item = p->items;
    w->items = n;
    for (uint32_t i = 0; i < n; i++) {
        const dc_batch_item *it = &p->items[i];
        sequence *s = &w->slot[it->slot];
        if (s->steps++ == 0) s->first_us = now;
        w->outcome[i] = (outcome){.first_row = out};
        w->seq[i] = (bt_decode_seq){.kv = &s->is.view,  .pos = it->pos, .tokens = s->ids + it->pos,
                                    .count = it->count, .out = it->out, .overflow = &w->outcome[i].overflow};
        out += it->out;
    }
}

static void sample_rows(dc_worker *w)
{
    if (w->items > 1) bt_pool_run(w->config.pool, sample_part, w);
    else sample_part(w, 0, 1);
}

static void step(dc_worker *w, const dc_batch_plan *p)
{
    bt_fault fault = {""};
    const int64_t now = bt_clock_us();
    const bt_work price = price_of(w, p);
    set_rows(w, p, p->items_len, now);
    const bt_err e = bt_decode_step(w->config.engine, w->seq, p->items_len, &w->quit, w->logits, &fault);
    if (e == BT_ECANCEL) return; /* only when all ends */
    if (e < 0)
        for (size_t i = 0; i < w->items; i++) fail_slot(w, &w->slot[w->item[i].slot], e, &fault);
    if (e < 0) return;
    sample_rows(w);
    dc_lookup_took(&w->cost, p->rows, (float)(bt_clock_us() - now));
    tell_price(w, p, &price, now);
    for (size_t i = 0; i < w->items; i++) take_outcome(w, &w->item[i], &w->outcome[i]);
}

/* ---- a piece of a prefill ---- */

/* Samples token 0 of a complete prompt without a known token. */
static bt_err first_token(dc_worker *w, sequence *s, const float *logits, bt_fault *fault)
{
    dc_worker_event ev = {.type = DC_WORKER_FIRST, .slot = s->is.slot};
    const int64_t now = bt_clock_us();
    bt_err e = sample(&ev.id, &ev.logprob, w->sampler[0], s, 0, logits, fault);
    if (e == BT_OK && !s->is.view.window_begin) /* else rows are gone, and there is none */
        e = bt_kv_pack_digest(ev.u.first.kv_digest.bytes, &s->is.view, s->is.prompt_tokens, fault);
    if (e < 0) return e;
    ev.has_logprob = s->is.sampling.logprobs;
    ev.u.first.top_len = bt_sample_top(ev.u.first.top_ids, w->sampler[0], BT_MSG_TOP_LOGITS, logits);
    for (uint32_t i = 0; i < ev.u.first.top_len; i++)
        ev.u.first.top_logits[i] = logits[ev.u.first.top_ids[i]];
    ev.u.first.work = bt_node_setup_work(&s->work);
    ev.device = take_price(s);
    ev.u.first.queue_us = (uint64_t)(s->prefill_us - s->started_us);
    ev.u.first.prefill_us = (uint64_t)(now - s->prefill_us);
    s->ids[s->is.prompt_tokens] = ev.id;
    s->known = 1;
    s->started_us = now;
    push_event(w, &ev);
    return BT_OK;
}

static void end_piece(dc_worker *w, const dc_batch_item *it, bt_err e, const float *logits, bt_fault *fault)
{
    sequence *s = &w->slot[it->slot];
    if (e == BT_ECANCEL) { /* its flag is seen before the next plan */
        dc_batch_ran(w->batch, it->slot, 0, 0);
        return;
    }
    if (e == BT_OK) s->is.rows += it->count;
    if (e == BT_OK && it->out) e = first_token(w, s, logits, fault);
    if (e < 0) fail_slot(w, s, e, fault);
    else if (!it->out || !ends(w, s)) dc_batch_ran(w->batch, it->slot, it->count, it->out);
    if (e == BT_OK && !it->out) push_event(w, &(dc_worker_event){.type = DC_WORKER_PIECE});
}

static void prefill(dc_worker *w, const dc_batch_plan *p)
{
    bt_fault fault = {""};
    const dc_batch_item *it = p->items;
    const int64_t began_us = bt_clock_us();
    const bt_work price = price_of(w, p);
    sequence *s = &w->slot[it->slot];
    const bt_prefill_hooks hooks = {.cancel = &w->stop[it->slot]};
    const bt_report_work before = bt_prefill_work(w->config.local);
    if (!s->prefill_us) s->prefill_us = bt_clock_us();
    const bt_err e = bt_prefill_run(w->config.local, &s->is.view, s->ids + it->pos, it->count, it->pos,
                                    &hooks, w->logits, BT_PREFILL_LAST, &fault);
    const bt_report_work after = bt_prefill_work(w->config.local);
    if (e != BT_ECANCEL) bt_report_work_add(&s->work, &before, &after);
    if (e == BT_OK) tell_price(w, p, &price, began_us);
    end_piece(w, it, e, w->logits, &fault);
}

/* ---- a mixed step ----------------------------------------- */

/* Lists the entries of the step's rows, then one for each piece. Returns the number of the former. */
static size_t list_entries(dc_worker *w, const dc_batch_plan *p, bt_prefill_hooks *hooks)
{
    size_t rows = 0;
    for (size_t i = 0; i < w->items; i++)
        rows += bt_mixed_entries(&w->entry[rows], &w->seq[i], w->logits + w->outcome[i].first_row * w->vocab,
                                 w->vocab);
    float *logits = w->logits + bt_decode_rows_max(w->config.engine) * w->vocab;
    for (uint32_t i = 0; i < p->pieces; i++, logits += w->vocab) {
        const dc_batch_item *it = &p->items[w->items + i];
        sequence *s = &w->slot[it->slot];
        hooks[i] = (bt_prefill_hooks){.cancel = &w->stop[it->slot]};
        w->entry[rows + i] =
            (bt_prefill_seq){.kv = &s->is.view, .ids = s->ids + it->pos, .n = it->count,
                             .pos0 = it->pos,   .hooks = &hooks[i],      .logits = it->out ? logits : NULL};
    }
    return rows;
}

/* Rows of pieces stand behind those of the step, of which there are `at`. */
static void tell_pieces(dc_worker *w, const dc_batch_plan *p, size_t rows, const bt_report_work *work)
{
    uint32_t at = p->rows;
    for (uint32_t i = 0; i < p->pieces; i++) at -= p->items[w->items + i].count;
    for (uint32_t i = 0; i < p->pieces; i++) {
        const dc_batch_item *it = &p->items[w->items + i];
        bt_prefill_seq *entry = &w->entry[rows + i];
        const bt_report_work none = {0}, part = bt_report_work_part(work, at, at + it->count, p->rows);
        at += it->count;
        bt_report_work_add(&w->slot[it->slot].work, &none, &part);
        end_piece(w, it, entry->result, entry->logits, &entry->fault);
    }
}

static void mixed(dc_worker *w, const dc_batch_plan *p)
{
    const int64_t now = bt_clock_us();
    const bt_work price = price_of(w, p);
    const bt_report_work before = bt_prefill_work(w->config.local);
    bt_prefill_hooks hooks[DC_BATCH_PIECES];
    bt_report_work work = {0};
    set_rows(w, p, p->items_len - p->pieces, now);
    for (size_t i = 0; i < p->items_len; i++) {
        sequence *s = &w->slot[p->items[i].slot];
        if (i < w->items) s->mixed++;
        else if (!s->prefill_us) s->prefill_us = now;
    }
    const size_t rows = list_entries(w, p, hooks);
    bt_prefill_run_batch(w->config.local, w->entry, rows + p->pieces);
    const bt_report_work after = bt_prefill_work(w->config.local);
    bt_report_work_add(&work, &before, &after);
    for (size_t i = 0, at = 0; i < w->items; i++)
        for (size_t k = 0; k < (w->seq[i].out ? w->seq[i].out : 1); k++, at++)
            if (w->entry[at].result < 0 && w->outcome[i].err == BT_OK) {
                w->outcome[i].err = w->entry[at].result;
                w->outcome[i].fault = w->entry[at].fault;
            }
    sample_rows(w);
    tell_price(w, p, &price, now);
    for (size_t i = 0; i < w->items; i++) take_outcome(w, &w->item[i], &w->outcome[i]);
    tell_pieces(w, p, rows, &work);
}

static void *run(void *ud)
{
    dc_worker *w = ud;
    bool slept = false;
    while (!atomic_load(&w->quit)) {
        take_commands(w, slept);
        let_go_of_stopped(w);
        tell_needs(w);
        wake(w);
        offer_drafts(w);
        const dc_batch_plan p = dc_batch_next(w->batch);
        slept = p.kind == DC_BATCH_NOTHING;
        if (slept) w->free_us = 0;
        if (p.kind == DC_BATCH_STEP) step(w, &p);
        else if (p.kind == DC_BATCH_PREFILL) prefill(w, &p);
        else if (p.kind == DC_BATCH_MIXED) mixed(w, &p);
        /* The command that wakes us for dc_worker_free may have been taken above: look before sleeping. */
        else if (!atomic_load(&w->quit)) (void)bt_ring_wait(w->commands, -1);
        if (w->is_held) wait_for_go(w, &p);
    }
    return NULL;
}

/* ---- start and end ---- */

/* Pages of the longest sequence, and one more. */
static size_t table_len(const dc_worker *w) { return w->ctx / w->config.page_tokens + 1; }

static bt_err make_slots(dc_worker *w, bt_fault *fault)
{
    const dc_worker_config *c = &w->config;
    w->slot = calloc(c->slots, sizeof *w->slot);
    w->stop = calloc(c->slots, sizeof *w->stop);
    for (uint32_t i = 0; w->slot && i < c->slots; i++) {
        sequence *s = &w->slot[i];
        s->ids = calloc(w->ctx + 1, sizeof *s->ids);
        s->page = calloc(2 * table_len(w), sizeof *s->page);
        s->bias = calloc(BT_SAMPLE_MAX_BIAS, sizeof *s->bias);
        if (!s->ids || !s->page || !s->bias)
            return bt_fail(fault, BT_ENOMEM, "out of memory for a slot of %zu tokens", w->ctx);
    }
    return w->slot && w->stop ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for %u slots", c->slots);
}

static bt_err make_step(dc_worker *w, bt_fault *fault)
{
    const size_t rows = bt_decode_rows_max(w->config.engine), slots = w->config.slots;
    const size_t items = rows < slots ? rows : slots;
    w->threads = bt_pool_threads(w->config.pool);
    w->seq = calloc(items, sizeof *w->seq);
    w->outcome = calloc(items, sizeof *w->outcome);
    _Static_assert((int)DC_BATCH_PIECES == (int)BT_MIXED_PIECES,
                   "the memory that is told before it is taken");
    w->logits = calloc((rows + (w->mixed_rows ? DC_BATCH_PIECES : 0)) * w->vocab, sizeof *w->logits);
    if (w->mixed_rows && !(w->entry = calloc(rows + DC_BATCH_PIECES, sizeof *w->entry)))
        return bt_fail(fault, BT_ENOMEM, "out of memory for the decode worker");
    w->sampler = calloc(w->threads, sizeof *w->sampler);
    w->logprob = calloc(rows, sizeof *w->logprob);
    if (!w->seq || !w->outcome || !w->logits || !w->logprob || !w->sampler)
        return bt_fail(fault, BT_ENOMEM, "out of memory for the decode worker");
    for (size_t i = 0; i < w->threads; i++) {
        const bt_err e = bt_sample_new(&w->sampler[i], bt_kernels_select(bt_decode_isa(w->config.engine)),
                                       w->vocab, fault);
        if (e < 0) return e;
    }
    return BT_OK;
}

/* Prefills here go on where the piece before ended. */
static bt_err check_pieces(const dc_worker_config *c, bt_fault *fault)
{
    const size_t grid = c->local ? bt_prefill_grid_rows(c->local) : 1;
    return c->chunk_tokens % grid == 0 ? BT_OK
                                       : bt_fail(fault, BT_EARG,
                                                 "--chunk-tokens %u is no multiple of %zu tokens, as the "
                                                 "engine of --local-prefill needs it",
                                                 c->chunk_tokens, grid);
}

/* No mixed steps where decode rows could fill more than half of one: prompts would get too little. */
static size_t mixed_rows(const dc_worker_config *c)
{
    const size_t rows = c->local ? bt_mixed_rows(c->local, c->engine) : 0;
    return rows >= 2 * bt_decode_rows_max(c->engine) ? rows : 0;
}

bt_err dc_worker_new(dc_worker **ret, const dc_worker_config *config, bt_fault *fault)
{
    dc_worker *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory for the decode worker");
    dc_worker_config *c = &w->config;
    *c = *config;
    if (!c->page_tokens) c->page_tokens = PAGE_TOKENS;
    if (!c->chunk_tokens) c->chunk_tokens = CHUNK_TOKENS;
    if (!c->replay_rows) c->replay_rows = REPLAY_ROWS;
    if (!c->ahead_tokens) c->ahead_tokens = AHEAD_TOKENS;
    w->vocab = bt_decode_vocab(c->engine);
    w->ctx = bt_decode_ctx_tokens(c->engine);
    w->mixed_rows = mixed_rows(c);
    const dc_batch_config bc = {.slots = c->slots,
                                .rows_max = (uint32_t)bt_decode_rows_max(c->engine),
                                .replay_rows = c->replay_rows,
                                .chunk_tokens = c->chunk_tokens,
                                .mixed_rows = (uint32_t)w->mixed_rows,
                                .ahead_tokens = c->ahead_tokens};
    bt_err e = check_pieces(c, fault);
    if (e == BT_OK) e = dc_batch_new(&w->batch, &bc, fault);
    if (e == BT_OK) e = make_slots(w, fault);
    if (e == BT_OK) e = make_step(w, fault);
    /* Two more places than slots use: dc_worker_go and the wake-up of dc_worker_free always fit. */
    if (e == BT_OK)
        e = bt_ring_new(&w->commands, sizeof(command), (size_t)c->slots * COMMANDS_A_SLOT + 2, fault);
    if (e == BT_OK) e = bt_ring_new(&w->events, sizeof(dc_worker_event), EVENT_RING, fault);
    const int why = e == BT_OK ? pthread_create(&w->thread, NULL, run, w) : 0;
    if (why) e = bt_fail_thread(fault, "the compute thread", why);
    if (e < 0) {
        dc_worker_free(w); /* the engines stay the caller's */
        return e;
    }
    w->has_thread = true;
    *ret = w;
    return BT_OK;
}

static void post(dc_worker *w, const command *c)
{
    if (bt_ring_push(w->commands, c)) atomic_fetch_add(&w->posted, 1);
}

void dc_worker_free(dc_worker *w)
{
    if (!w) return;
    if (w->has_thread) {
        atomic_store(&w->quit, true);
        for (uint32_t i = 0; i < w->config.slots; i++) atomic_store(&w->stop[i], true);
        post(w, &(command){.type = COMMAND_WAKE});
        pthread_join(w->thread, NULL);
        bt_prefill_free(w->config.local); /* it may read the other's weights */
        bt_decode_free(w->config.engine);
    }
    for (size_t i = 0; w->sampler && i < w->threads; i++) bt_sample_free(w->sampler[i]);
    for (uint32_t i = 0; w->slot && i < w->config.slots; i++) {
        free(w->slot[i].ids);
        free(w->slot[i].page);
        free(w->slot[i].bias);
        bt_constraint_free(w->slot[i].constraint);
    }
    bt_constraint_shelf_done(&w->shelf);
    dc_batch_free(w->batch);
    bt_ring_free(w->commands);
    bt_ring_free(w->events);
    free(w->sampler);
    free(w->logits);
    free(w->logprob);
    free(w->outcome);
    free(w->entry);
    free(w->seq);
    free(w->stop);
    free(w->slot);
    free(w);
}

/* ---- the I/O thread ---- */

/* Refuses everything that would make a step fail for its neighbours too. */
static bt_err check(const dc_worker *w, const dc_worker_start *a, bt_fault *fault)
{
    const uint64_t end = (uint64_t)a->prompt_tokens + a->max_tokens - 1;
    if (!a->prompt_tokens || a->ids_len > a->max_tokens || !a->max_tokens || end > w->ctx)
        return bt_fail(fault, BT_ELIMIT,
                       "a prompt of %u tokens and an answer of %u, %u of them known: the context holds %zu",
                       a->prompt_tokens, a->max_tokens, a->ids_len, w->ctx);
    if (a->rows > a->prompt_tokens + a->ids_len - 1)
        return bt_fail(fault, BT_EARG, "%u rows are in place, of %u prompt tokens and %u known tokens",
                       a->rows, a->prompt_tokens, a->ids_len);
    if (a->rows < a->prompt_tokens && (!w->config.local || !a->prompt))
        return bt_fail(fault, BT_EARG,
                       "%u of %u prompt rows are in place, and no engine here computes prompts", a->rows,
                       a->prompt_tokens);
    if (a->rows < a->prompt_tokens && a->prompt_tokens > bt_prefill_ctx_tokens(w->config.local))
        return bt_fail(fault, BT_ELIMIT, "a prompt of %u tokens: the prefill engine here takes %zu",
                       a->prompt_tokens, bt_prefill_ctx_tokens(w->config.local));
    if (a->view.page_tokens != w->config.page_tokens ||
        a->view.elem_bytes != bt_decode_kv_elem_bytes(w->config.engine) || a->rows > a->view.tokens_capacity)
        return bt_fail(fault, BT_EARG,
                       "a view of %zu pages' tokens, %u bytes an element, %zu tokens: not of this engine",
                       a->view.page_tokens, a->view.elem_bytes, a->view.tokens_capacity);
    for (uint32_t i = a->prompt ? 0 : a->prompt_tokens; i < a->prompt_tokens + a->ids_len; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without a prompt i begins behind it */
        const int32_t id = i < a->prompt_tokens ? a->prompt[i] : a->ids[i - a->prompt_tokens];
        if (id < 0 || (size_t)id >= w->vocab)
            return bt_fail(fault, BT_EARG, "token id %d: the vocabulary has %zu", id, w->vocab);
    }
    return BT_OK;
}

/* Appends the pages that the slot does not have yet; more than its table holds are of no use to any
 * sequence. */
static size_t take_pages(const dc_worker *w, sequence *s, const bt_kv_view *v)
{
    const size_t most = table_len(w);
    size_t pages = v->tokens_capacity / w->config.page_tokens;
    if (pages > most) pages = most;
    for (size_t i = s->pages; i < pages; i++) {
        s->page[i] = v->page[i];
        if (v->window_page) s->page[most + i] = v->window_page[i];
    }
    if (pages > s->pages) s->pages = pages;
    return s->pages * w->config.page_tokens;
}

void dc_worker_start_slot(dc_worker *w, const dc_worker_start *start)
{
    sequence *s = &w->slot[start->slot];
    const uint32_t n = start->prompt_tokens;
    s->is = *start;
    s->is.prompt = s->is.ids = NULL;
    s->wrong = (bt_fault){""};
    s->pages = 0;
    if (check(w, start, &s->wrong) == BT_OK) {
        if (start->prompt) memcpy(s->ids, start->prompt, n * sizeof *s->ids);
        else memset(s->ids, 0xff, n * sizeof *s->ids); /* -1: no token at all */
        if (start->ids_len) memcpy(s->ids + n, start->ids, start->ids_len * sizeof *s->ids);
        if (start->sampling.bias_len)
            memcpy(s->bias, start->sampling.bias, start->sampling.bias_len * sizeof *s->bias);
        s->is.sampling.bias = s->bias;
        s->is.view.tokens_capacity = take_pages(w, s, &start->view);
        s->is.view.page = s->page;
        s->is.view.window_page = start->view.window_page ? s->page + table_len(w) : NULL;
    }
    atomic_store(&w->stop[start->slot], false);
    post(w, &(command){.type = COMMAND_START, .slot = start->slot});
}

void dc_worker_grow_slot(dc_worker *w, uint32_t slot, const bt_kv_view *view)
{
    post(w, &(command){.type = COMMAND_GROW, .slot = slot, .tokens = take_pages(w, &w->slot[slot], view)});
}

void dc_worker_stop_slot(dc_worker *w, uint32_t slot)
{
    if (!atomic_exchange(&w->stop[slot], true)) post(w, &(command){.type = COMMAND_WAKE, .slot = slot});
}

void dc_worker_go(dc_worker *w, int64_t now_us) { post(w, &(command){.type = COMMAND_GO, .now_us = now_us}); }

int dc_worker_fd(const dc_worker *w) { return bt_ring_fd(w->events); }
bool dc_worker_next(dc_worker *w, dc_worker_event *ret) { return bt_ring_pop(w->events, ret); }
