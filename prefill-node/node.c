/* See node.h. One bulk DEALER for each decode node, dialled when the brain asks for it. */
#include "prefill-node/node.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/wait.h"
#include "prefill-node/brain/brain.h"
#include "prefill-node/device.h"
#include "prefill-node/pace.h"
#include "prefill-node/worker.h"
#include "engine/needs.h"
#include "kernels/cores.h"
#include "node/node_setup.h"
#include "node/shell.h"
#include "rt/alarm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVE_BUDGET = 64, EVENT_BUDGET = 256 };

typedef struct node node;
/* link NULL: free. A link that its own message closes is freed when the handler has returned. */
typedef struct bulk {
    node *owner;
    bt_incarnation decode;
    bt_link *link;
    uint64_t watch;
    bool is_open, is_receiving;
} bulk;

/* A block that is on the modelled link until due_us. */
typedef struct held_block {
    pf_block block;
    int64_t begin_us, due_us;
} held_block;

/* A prompt or batch with its price. */
typedef struct priced {
    bt_work_run run;
    uint32_t told; /* prompts whose price was sent */
    uint64_t rows; /* of all prompts */
} priced;

struct node {
    const pf_options *o;
    bt_model *model;
    bt_shell *shell;
    pf_brain *brain;
    bt_prefill *engine; /* until the worker takes it */
    bt_constraint_vocab *words;
    pf_worker *worker;
    bt_node_pages pages;
    bt_kv_view *views;   /* [slots]: the pages of the last COMPUTE; zero: none */
    uint8_t **addresses; /* [slots][2 longest]: behind the views */
    size_t longest;      /* pages of the longest prompt */
    bulk *bulks;
    uint32_t bulks_len; /* links_max + 1 */
    pf_event *owed; /* [owed_max], a ring: answers to SEND_BLOCKs, given after the actions are carried out */
    size_t owed_max, owed_first, owed_len;
    bt_kv_dtype dtype;
    bt_msg_engine about; /* the engine in HELLO */
    pf_device device;
    bt_msg_device_work device_sum; /* of all prompts */
    priced run, paused;            /* in the worker; the prompt that has paused */
    uint32_t run_left;             /* COMPUTEs of the batch that are still to come */
    uint32_t *rows;                /* [slots]: of each prompt */
    /* with --pace; else NULL and none */
    pf_pace *pace;
    bt_alarm *alarm;
    bt_pace_link link;
    held_block *held; /* [owed_max], a ring: in the order in which they arrive */
    size_t held_first, held_len;
};

static void step(node *n, const pf_event *ev);

static void owe(node *n, const pf_event *ev)
{
    if (n->owed_len == n->owed_max) abort(); /* the brain never leaves more blocks unanswered */
    n->owed[(n->owed_first + n->owed_len++) % n->owed_max] = *ev;
}

/* ---- bulk links ---- */

static bulk *find_bulk(node *n, const bt_incarnation *decode)
{
    for (uint32_t i = 0; i < n->bulks_len; i++)
        if (n->bulks[i].is_open && bt_incarnation_equal(&n->bulks[i].decode, decode)) return &n->bulks[i];
    return NULL;
}

static void on_bulk(void *ud, const bt_msg *m)
{
    bulk *b = ud;
    pf_event ev = {.type = PF_EV_BULK};
    if (!b->is_open) return;
    ev.u.bulk.decode = b->decode;
    ev.u.bulk.msg = m;
    step(b->owner, &ev);
}

static void on_bulk_ready(void *ud, unsigned events)
{
    bulk *b = ud;
    node *n = b->owner;
    b->is_receiving = true;
    if (events & BT_LOOP_OUT) { /* connected: only now would a HELLO go anywhere */
        bt_loop_set_events(bt_shell_loop(n->shell), b->watch, BT_LOOP_IN);
        step(n, &(pf_event){.type = PF_EV_LINK_UP, .u.decode = b->decode});
    }
    if (b->is_open) bt_link_receive(b->link, RECEIVE_BUDGET);
    b->is_receiving = false;
    if (b->is_open) return;
    bt_link_free(b->link);
    b->link = NULL;
}

static bt_err dial(node *n, bulk *b, const bt_peer_key *server, const char *endpoint, bt_fault *fault)
{
    const bt_link_handler handler = {.on_msg = on_bulk, .on_bad = bt_shell_on_bad, .ud = b};
    bt_err e =
        bt_net_dial(&b->link, bt_shell_net(n->shell), BT_SOCK_BULK_DEALER, endpoint, server, &handler, fault);
    if (e < 0) return e;
    e = bt_loop_add_socket(&b->watch, bt_shell_loop(n->shell), bt_link_socket(b->link),
                           BT_LOOP_IN | BT_LOOP_OUT, on_bulk_ready, b);
    if (e < 0) {
        bt_link_free(b->link);
        b->link = NULL;
    }
    return e < 0 ? bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e))
                 : BT_OK;
}

static void link_up(node *n, const pf_action *a)
{
    bt_fault fault;
    bulk *b = NULL;
    for (uint32_t i = 0; i < n->bulks_len && !b; i++)
        if (!n->bulks[i].link) b = &n->bulks[i];
    if (!b) abort(); /* there is one more than the brain has links */
    *b = (bulk){.owner = n, .decode = a->u.link.decode};
    b->is_open = dial(n, b, &a->u.link.decode_key, a->u.link.endpoint, &fault) == BT_OK;
    if (b->is_open) return;
    pf_event ev = {.type = PF_EV_LINK_FAILED, .u.link_failed.decode = a->u.link.decode};
    snprintf(ev.u.link_failed.text, sizeof ev.u.link_failed.text, "%s", fault.text);
    bt_log(BT_LOG_WARN, "cannot reach the decode node at %s: %s", a->u.link.endpoint, fault.text);
    owe(n, &ev);
}

static void link_down(node *n, const bt_incarnation *decode)
{
    bulk *b = find_bulk(n, decode);
    if (!b) return;
    bt_loop_remove(bt_shell_loop(n->shell), b->watch);
    b->is_open = false;
    if (b->is_receiving) return;
    bt_link_free(b->link);
    b->link = NULL;
}

/* ---- actions ---- */

static void send_bulk(node *n, const bt_incarnation *decode, const bt_msg *m)
{
    bulk *b = find_bulk(n, decode);
    bt_fault fault;
    if (b) (void)bt_link_send(b->link, m, &fault); /* sent again until answered */
}

/* The answer to SEND_BLOCK. */
static pf_event send_block_now(node *n, const pf_block *block)
{
    const bt_hparams *p = &n->model->hp;
    bulk *b = find_bulk(n, &block->decode);
    const bt_kv_view *view = &n->views[block->slot];
    bt_fault fault;
    bt_kv_header h = {
        .number = block->ref.number,       .attempt = block->ref.attempt,     .layer = block->layer,
        .token_begin = block->token_begin, .token_count = block->token_count, .kv_heads = p->kv_heads,
        .head_dim = p->head_dim,           .dtype = (uint16_t)n->dtype,       .link_epoch = block->epoch,
        .link_end = block->end_bytes};
    memcpy(h.owner, block->ref.owner.bytes, sizeof h.owner);
    memcpy(h.ticket, block->ticket.bytes, sizeof h.ticket);
    memcpy(h.from, bt_shell_self(n->shell)->bytes, sizeof h.from);
    memcpy(h.to, block->decode.bytes, sizeof h.to);
    const bt_err e = b ? bt_link_send_block(b->link, &h, view, &fault) : BT_EAGAIN;
    if (e < 0 && e != BT_EAGAIN && e != BT_EIO) bt_shell_on_bad(NULL, &fault);
    return (pf_event){.type = e < 0 ? PF_EV_BLOCK_BLOCKED : PF_EV_BLOCK_SENT, .u.block = *block};
}

static void send_block(node *n, const pf_block *block)
{
    if (!n->pace || !n->device.costs->work.link.bits_per_us) {
        const pf_event ev = send_block_now(n, block);
        owe(n, &ev);
        return;
    }
    if (n->held_len == n->owed_max) abort(); /* the brain never leaves more blocks unanswered */
    held_block *h = &n->held[(n->held_first + n->held_len++) % n->owed_max];
    h->block = *block;
    h->due_us = bt_pace_link_take(&n->link, &h->begin_us, &n->device.pace, &n->device.costs->work.link,
                                  bt_clock_us(), block->bytes);
}

/* Prices the prompts of a batch, a[0 .. with]. */
static void price(node *n, const pf_action *a)
{
    bt_work_prompt prompt[PF_SHARE_MAX];
    const uint32_t prompts = a->u.compute.with + 1;
    n->run.rows = n->run.told = 0;
    for (uint32_t i = 0; i < prompts; i++) {
        prompt[i] =
            (bt_work_prompt){.first = a[i].u.compute.from_row, .end = a[i].u.compute.ids_len,
                             .covered = a[i].u.compute.covered_tokens, .is_whole = a[i].u.compute.is_whole};
        n->rows[a[i].u.compute.slot] = a[i].u.compute.ids_len - a[i].u.compute.from_row;
        n->run.rows += n->rows[a[i].u.compute.slot];
    }
    n->run.run = bt_work_of_prompts(&n->device.costs->work, prompt, prompts);
    if (n->pace) pf_pace_begin(n->pace, a->u.compute.slot, prompt, n->run.run.work.ns, bt_clock_us());
}

/* Logs, before a prompt begins, the KV that it will hold. The memory for work was taken at the start. */
static void tell_prompt(const node *n, const pf_action *a)
{
    char kv[32];
    bt_num_size_text(kv, sizeof kv,
                     (uint64_t)a->u.compute.pages_len * BT_NODE_PAGE_TOKENS *
                         bt_kv_memory_token_bytes(&n->pages.memory));
    bt_log(BT_LOG_INFO,
           "prompt of %" PRIu32 " tokens, attempt %" PRIu32 ": %s of KV, %" PRIu32 " of %" PRIu32
           " pages, %" PRIu32 " tokens kept",
           a->u.compute.ids_len, a->u.compute.ref.attempt, kv, a->u.compute.pages_len, n->pages.total,
           a->u.compute.from_row);
}

static void compute(node *n, const pf_action *a)
{
    const uint32_t slot = a->u.compute.slot;
    tell_prompt(n, a);
    bt_kv_memory_view(&n->views[slot], n->addresses + slot * 2 * n->longest, &n->pages.memory,
                      &(bt_kv_numbers){a->u.compute.pages, a->u.compute.windows, a->u.compute.pages_len});
    pf_worker_compute(n->worker,
                      &(pf_worker_job){.slot = slot, .with = a->u.compute.with, .view = n->views[slot],
                                       .ids = a->u.compute.ids, .ids_len = a->u.compute.ids_len,
                                       .from_row = a->u.compute.from_row, .sampling = a->u.compute.sampling,
                                       .may_pause = a->u.compute.may_pause});
    if (n->device.costs && !n->run_left) price(n, a);
    n->run_left = n->run_left ? n->run_left - 1 : a->u.compute.with;
}

static void cancel(node *n, uint32_t slot)
{
    pf_worker_cancel(n->worker, slot);
    if (n->pace) pf_pace_cancel(n->pace, slot);
}

static void act(node *n, const pf_action *a)
{
    switch (a->type) {
    case PF_DO_SEND_CONTROL: bt_shell_send_control(n->shell, a->u.control.gateway, &a->u.control.msg); break;
    case PF_DO_SEND_BULK: send_bulk(n, &a->u.bulk.decode, &a->u.bulk.msg); break;
    case PF_DO_SEND_BLOCK: send_block(n, &a->u.block); break;
    case PF_DO_COMPUTE: compute(n, a); break;
    case PF_DO_PAUSE: pf_worker_pause(n->worker, a->u.pause.slot, a->u.pause.tokens); break;
    case PF_DO_RESUME:
        n->run = n->paused;
        pf_worker_resume(n->worker, a->u.slot);
        break;
    case PF_DO_CANCEL: cancel(n, a->u.slot); break;
    case PF_DO_RELEASE: n->views[a->u.slot] = (bt_kv_view){0}; break;
    case PF_DO_LINK: link_up(n, a); break;
    case PF_DO_UNLINK: link_down(n, &a->u.link.decode); break;
    case PF_DO_LOG: bt_log(a->u.log.level, "%s", a->u.log.text); break;
    case PF_DO_DRAIN: bt_shell_drain(n->shell); break;
    case PF_DO_EXIT: bt_shell_leave(n->shell, a->u.next_role); break;
    }
}

/* Sets the alarm for the next event that was kept back. */
static void wake_in_time(node *n)
{
    if (!n->pace) return;
    const int64_t rows = pf_pace_due_us(n->pace, bt_clock_us()),
                  block = n->held_len ? n->held[n->held_first].due_us : INT64_MAX;
    bt_alarm_set(n->alarm, rows < block ? rows : block);
}

/* One event, then the answers that its actions owe, and theirs, in order. */
static void step(node *n, const pf_event *ev)
{
    pf_event now = *ev;
    for (;;) {
        const pf_actions actions = pf_brain_step(n->brain, &now, bt_clock_us(), &(bt_random){{0}});
        for (size_t i = 0; i < actions.len; i++) act(n, &actions.items[i]);
        if (n->owed_len == 0) break;
        now = n->owed[n->owed_first];
        n->owed_first = (n->owed_first + 1) % n->owed_max;
        n->owed_len--;
    }
    bt_shell_due(n->shell, pf_brain_due_us(n->brain));
    wake_in_time(n);
}

/* ---- events ---- */

static void on_control(void *ud, uint32_t gateway, const bt_msg *m)
{
    node *n = ud;
    if (m->type == BT_MSG_ROLE) pf_brain_set_role_may(n->brain, bt_shell_role_may(n->shell));
    step(ud, &(pf_event){.type = PF_EV_CONTROL, .u.control = {gateway, m}});
}

static pf_event event_of(const pf_worker_event *w)
{
    pf_event ev = {.type = PF_EV_COMPUTE_STOPPED};
    switch (w->type) {
    case PF_WORKER_KV_READY:
        ev.type = PF_EV_KV_READY;
        ev.u.kv_ready.slot = w->slot;
        ev.u.kv_ready.layer = w->layer;
        ev.u.kv_ready.token_begin = w->token_begin;
        ev.u.kv_ready.token_count = w->token_count;
        break;
    case PF_WORKER_COMPUTED:
        ev.type = PF_EV_COMPUTED;
        ev.u.computed.slot = w->slot;
        ev.u.computed.token = w->token;
        ev.u.computed.top_len = w->top_len;
        memcpy(ev.u.computed.top_ids, w->top_ids, sizeof w->top_ids);
        memcpy(ev.u.computed.top_logits, w->top_logits, sizeof w->top_logits);
        ev.u.computed.prefill_us = w->prefill_us;
        ev.u.computed.chunks = w->chunks;
        ev.u.computed.work = w->work;
        ev.u.computed.has_logprob = w->has_logprob;
        ev.u.computed.logprob = w->logprob;
        break;
    case PF_WORKER_DIGEST:
        ev.type = PF_EV_DIGEST;
        ev.u.digest.slot = w->slot;
        ev.u.digest.kv_digest = w->kv_digest;
        break;
    case PF_WORKER_FAILED:
        ev.type = PF_EV_COMPUTE_FAILED;
        ev.u.failed.slot = w->slot;
        ev.u.failed.code = w->code;
        memcpy(ev.u.failed.text, w->text, sizeof w->text);
        break;
    case PF_WORKER_STOPPED: ev.u.slot = w->slot; break;
    case PF_WORKER_PAUSED:
        ev.type = PF_EV_COMPUTE_PAUSED;
        ev.u.paused.slot = w->slot;
        ev.u.paused.tokens = w->token_count;
        break;
    }
    return ev;
}

/* To the brain, with its price. */
static void tell(node *n, const pf_worker_event *w, const bt_pace_count *late)
{
    pf_event ev = event_of(w);
    if (ev.type == PF_EV_COMPUTE_PAUSED) n->paused = n->run;
    if (ev.type == PF_EV_COMPUTED && n->device.costs) {
        pf_device_tell(&ev.u.computed.device, &ev.u.computed.device_prompt, &n->run.run);
        ev.u.computed.device.paced_us = late->paced_us;
        ev.u.computed.device.late_us = late->late_us;
        if (n->run.told++ == 0) bt_msg_device_work_add(&n->device_sum, &ev.u.computed.device);
        const bt_work part = bt_work_share(&n->run.run.work, n->rows[w->slot], n->run.rows);
        ev.u.computed.device.ideal_ns = part.ideal_ns;
        ev.u.computed.device.nj = part.nj;
    } else {
        n->device_sum.late_us += late->late_us;
    }
    pf_brain_set_device(n->brain, &n->device_sum);
    step(n, &ev);
}

/* Gives out kept-back events that are due. */
static void let_go(node *n)
{
    pf_worker_event w;
    bt_pace_count late;
    while (n->held_len && n->held[n->held_first].due_us <= bt_clock_us()) {
        const held_block h = n->held[n->held_first];
        bt_pace_count count = {0};
        n->held_first = (n->held_first + 1) % n->owed_max;
        n->held_len--;
        bt_pace_ended(&count, h.begin_us, h.due_us, bt_clock_us());
        n->device_sum.paced_us += count.paced_us;
        n->device_sum.late_us += count.late_us;
        pf_brain_set_device(n->brain, &n->device_sum); /* the last block of a prompt goes behind its digest */
        const pf_event ev = send_block_now(n, &h.block);
        step(n, &ev);
    }
    while (pf_pace_next(n->pace, &w, &late, bt_clock_us())) tell(n, &w, &late);
    wake_in_time(n);
}

static void on_alarm(void *ud, unsigned events)
{
    (void)events;
    let_go(ud);
}

static void on_worker(void *ud, unsigned events)
{
    node *n = ud;
    pf_worker_event w;
    (void)events;
    for (int budget = EVENT_BUDGET; pf_worker_next(n->worker, &w);) {
        if (n->pace) pf_pace_take(n->pace, &w);
        else tell(n, &w, &(bt_pace_count){0});
        if (--budget > 0) continue;
        pf_worker_again(n->worker);
        break;
    }
    if (n->pace) let_go(n);
}

static void on_up(void *ud, uint32_t gateway)
{
    step(ud, &(pf_event){.type = PF_EV_GATE_UP, .u.gate = gateway});
}

/* A device may be at one layer for longer than a gateway has patience. */
static void on_tick(void *ud)
{
    const node *n = ud;
    const bool is_at_it = n->pace && pf_pace_is_under_way(n->pace, bt_clock_us());
    step(ud, &(pf_event){.type = is_at_it ? PF_EV_ALIVE : PF_EV_TICK});
}

static void on_drain(void *ud) { step(ud, &(pf_event){.type = PF_EV_DRAIN}); }
static void on_drain_over(void *ud) { step(ud, &(pf_event){.type = PF_EV_DRAIN_OVER}); }
static void on_rss(void *ud, uint64_t rss_bytes) { pf_brain_set_rss(((node *)ud)->brain, rss_bytes); }
static bool is_ready(void *ud) { return pf_brain_is_welcome(((node *)ud)->brain); }

/* ---- start and end ---- */

static bt_err open_brain(node *n, bt_fault *fault)
{
    uint64_t id;
    pf_config bc = pf_config_defaults();
    const bt_report_engine about = bt_prefill_about(n->engine);
    n->about = bt_node_setup_engine(&about);
    const bt_node_setup setup = {.role = BT_ROLE_PREFILL,
                                 .node_id = n->o->node->id,
                                 .engine = about.name,
                                 .model = n->model,
                                 .weights = about.weights,
                                 .kv_elem_bytes = bt_prefill_kv_elem_bytes(n->engine),
                                 .ctx_tokens = bt_prefill_ctx_tokens(n->engine),
                                 .kv_memory_bytes = n->o->node->kv_memory_bytes};
    bt_err e = bt_node_setup_pages(&n->pages, &setup, fault);
    if (e == BT_OK) e = bt_node_setup_hello(&bc.hello, &setup, n->pages.total, fault);
    if (e < 0) return e;
    n->dtype = bc.hello.kv.dtype;
    bc.hello.engine = &n->about;
    if (n->device.costs) bc.hello.device = &n->device.about;
    bc.self = *bt_shell_self(n->shell);
    bc.gateways = (uint32_t)n->o->node->gateways.count;
    bc.slots = (uint32_t)n->o->slots;
    bc.pages_total = n->pages.total;
    bc.page_tokens = BT_NODE_PAGE_TOKENS;
    bc.min_overlap_tokens = (uint32_t)n->o->min_overlap_tokens;
    const uint64_t shared = bt_prefill_packed_rows(n->engine), most = (uint64_t)n->o->share_tokens;
    if (!n->device.pace.milli) { /* with a pace, prompts run alone and whole */
        bc.share_tokens = (uint32_t)(shared < most ? shared : most);
        bc.short_tokens = (uint32_t)n->o->short_tokens;
    }
    bt_log(BT_LOG_INFO,
           "model %s, engine %s, isa %s, core %s, %" PRIu64 " tokens of %s KV, longest prompt %u",
           bc.hello.model_name, about.name, bt_prefill_isa(n->engine), bt_cores_used()->name,
           bc.hello.kv_capacity_tokens, bt_kv_dtype_name(n->dtype), bc.hello.ctx_tokens);
    bt_node_setup_say_short(&setup, (uint64_t)n->o->node->ctx_size);
    n->bulks_len = bc.links_max + 1;                        /* one may be closed and still be receiving */
    n->owed_max = (size_t)bc.links_max * bc.unsent_max + 1; /* and the answer to LINK */
    n->longest = (bc.hello.ctx_tokens + (size_t)BT_NODE_PAGE_TOKENS - 1) / BT_NODE_PAGE_TOKENS;
    n->views = calloc(bc.slots, sizeof *n->views);
    n->rows = calloc(bc.slots, sizeof *n->rows);
    n->addresses = calloc(bc.slots * 2 * n->longest, sizeof *n->addresses);
    n->bulks = calloc(n->bulks_len, sizeof *n->bulks);
    n->owed = calloc(n->owed_max, sizeof *n->owed);
    n->held = calloc(n->owed_max, sizeof *n->held);
    if (!n->views || !n->rows || !n->addresses || !n->bulks || !n->owed || !n->held)
        return bt_fail(fault, BT_ENOMEM, "out of memory for the KV pages and links of the node");
    e = pf_brain_new(&n->brain, &bc, fault);
    if (e == BT_OK && n->device.pace.milli)
        e = pf_pace_new(&n->pace, n->device.pace, &n->device.costs->work, fault);
    if (e == BT_OK && n->pace) e = bt_alarm_new(&n->alarm, bt_shell_loop(n->shell), on_alarm, n, fault);
    if (e == BT_OK)
        e = pf_worker_new(&n->worker, n->engine, bc.slots, n->model->hp.layers, n->model->hp.vocab, n->words,
                          fault);
    if (e < 0) return e;
    n->engine = NULL;
    e = bt_loop_add_fd(&id, bt_shell_loop(n->shell), pf_worker_fd(n->worker), BT_LOOP_IN, on_worker, n);
    return e < 0 ? bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e))
                 : BT_OK;
}

/* Logged before any memory is taken. */
static bt_err check_memory(const node *n, bt_fault *fault)
{
    const pf_options *o = n->o;
    const bt_needs_want want = {.prefill = bt_engine_prefill_names[o->engine],
                                .want = o->want,
                                .schedule = o->schedule,
                                .kv_elem_bytes = bt_kv_dtype_wanted(o->node->kv_dtype),
                                .ctx_tokens = (size_t)o->node->ctx_size,
                                .kv_memory_bytes = o->node->kv_memory_bytes,
                                .threads = (size_t)o->node->threads};
    char text[BT_NEEDS_TEXT_BYTES];
    const bt_err e = bt_needs_begin(text, n->model, &want, 1, fault);
    if (e == BT_OK) bt_log(BT_LOG_INFO, "%s", text);
    return e;
}

static bt_err open_node(node *n, bt_fault *fault)
{
    char path[4096];
    const bt_shell_config sc = {.keys_dir = n->o->node->keys,
                                .key_name = n->o->node->key,
                                .node_id = n->o->node->id,
                                .role = BT_PEER_PREFILL,
                                .gateways = n->o->node->gateways.items,
                                .gateways_len = n->o->node->gateways.count,
                                .drain_timeout_ms = n->o->node->drain_timeout_ms};
    const bt_shell_handler handler = {
        .on_control = on_control,       .on_up = on_up,   .on_tick = on_tick,   .on_drain = on_drain,
        .on_drain_over = on_drain_over, .on_rss = on_rss, .is_ready = is_ready, .ud = n};
    const bt_prefill_config ec = {.engine = bt_engine_prefill_names[n->o->engine],
                                  .isa = n->o->node->isa,
                                  .want = *n->o->want,
                                  .schedule = (bt_schedule_policy)n->o->schedule,
                                  .kv_elem_bytes = bt_kv_dtype_wanted(n->o->node->kv_dtype),
                                  .threads = (size_t)n->o->node->threads,
                                  .ctx_tokens = (size_t)n->o->node->ctx_size,
                                  .kv_memory_bytes = n->o->node->kv_memory_bytes,
                                  .progress = bt_wait_tell};
    /* The shell first: it blocks signals before any thread is made. */
    bt_err e = bt_shell_new(&n->shell, &sc, &handler, fault);
    if (e == BT_OK) e = bt_model_find(path, sizeof path, n->o->node->model, fault);
    bt_wait_tell(NULL, BT_MODEL_OPENING, 0, 0);
    if (e == BT_OK) e = bt_model_open(&n->model, path, fault);
    bt_wait_tell(NULL, "opening the engine", 0, 0);
    if (e == BT_OK) e = check_memory(n, fault);
    if (e == BT_OK) e = bt_prefill_new(&n->engine, n->model, &ec, fault);
    bt_wait_end();
    if (e == BT_OK) e = pf_device_open(&n->device, n->o, n->engine, n->model, fault);
    if (e == BT_OK) e = bt_node_setup_words(&n->words, n->model, fault);
    return e < 0 ? e : open_brain(n, fault);
}

/* One line with the node's counts at its end. */
static void log_counts(const node *n)
{
    const pf_counters *c = pf_brain_counters(n->brain);
    bt_log(BT_LOG_DEBUG,
           "prompts: accepted %" PRIu64 ", refused %" PRIu64 ", completed %" PRIu64 ", failed %" PRIu64
           ", aborted %" PRIu64 ", leases ended %" PRIu64 ", tokens %" PRIu64 ", begun in kept pages %" PRIu64
           " (%" PRIu64 " tokens), in batches %" PRIu64 " (%" PRIu64
           " batches), between chunks of long ones %" PRIu64 " (%" PRIu64 " tokens)",
           c->accepted, c->refused, c->completed, c->failed, c->aborted, c->leases_ended, c->prompt_tokens,
           c->prefix_hits, c->prefix_tokens, c->batched, c->batches, c->passed, c->passed_tokens);
    bt_log(BT_LOG_DEBUG,
           "blocks: sent %" PRIu64 " (%" PRIu64 " bytes), blocked %" PRIu64 ", asked for again %" PRIu64
           "; messages: wrong incarnation %" PRIu64 ", stale %" PRIu64 ", unexpected %" PRIu64
           ", repeats %" PRIu64 ", sent again %" PRIu64,
           c->blocks_sent, c->block_bytes_sent, c->blocks_blocked, c->blocks_again, c->wrong_incarnation,
           c->stale_attempt, c->unexpected, c->repeats, c->resent);
}

static void close_node(node *n)
{
    pf_worker_free(n->worker); /* before the pages that it may be writing */
    bt_prefill_free(n->engine);
    bt_constraint_vocab_free(n->words);
    pf_brain_free(n->brain);
    for (uint32_t i = 0; n->bulks && i < n->bulks_len; i++) bt_link_free(n->bulks[i].link);
    free(n->bulks);
    free(n->owed);
    free(n->held);
    pf_pace_free(n->pace);
    pf_device_done(&n->device);
    bt_kv_memory_free(&n->pages.memory);
    free(n->addresses);
    free(n->views);
    free(n->rows);
    bt_alarm_free(n->alarm);
    bt_shell_free(n->shell);
    bt_model_close(n->model);
}

int pf_node_run(const pf_options *o, bt_role *ret_next)
{
    node n = {.o = o};
    bt_fault fault = {""};
    bt_err e = open_node(&n, &fault);
    if (e == BT_OK) e = bt_shell_run(n.shell, &fault);
    if (n.brain) log_counts(&n);
    if (n.shell) bt_shell_log_refused(n.shell, NULL);
    if (e < 0) bt_log(BT_LOG_ERROR, "%s", fault.text);
    else if (bt_shell_next(n.shell)) *ret_next = bt_shell_next(n.shell);
    close_node(&n);
    return e < 0;
}
