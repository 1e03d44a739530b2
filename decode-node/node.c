/* See node.h. One bulk ROUTER takes KV from all prefill nodes; blocks are copied from the frame straight
 * into the pages. */
#include "decode-node/node.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "decode-node/brain/brain.h"
#include "decode-node/store.h"
#include "decode-node/worker.h"
#include "engine/costs.h"
#include "engine/mixed.h"
#include "engine/needs.h"
#include "engine/options.h"
#include "kernels/cores.h"
#include "kv/kv_pack.h"
#include "node/node_device.h"
#include "node/node_setup.h"
#include "node/shell.h"
#include "rt/alarm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVE_BUDGET = 16, EVENT_BUDGET = 256 };

typedef struct node {
    const dc_options *o;
    bt_model *model;
    bt_shell *shell;
    dc_brain *brain;
    bt_pool *pool;
    bt_decode *engine; /* until the worker takes it */
    dc_worker *worker;
    bt_constraint_vocab *words;
    bt_prefill *local; /* likewise; NULL: this node does not prefill */
    dc_store *store;
    dc_worker_device *device; /* NULL: steps have no price */
    bt_msg_device device_about;
    bt_msg_device_work device_sum, step; /* of all steps; how late the last one was */
    /* with a pace: a step that is not due yet; later events of the worker wait behind it */
    bt_alarm *alarm;
    uint64_t worker_watch;
    bool is_held;
    dc_worker_event held;
    bt_msg_engine about; /* of the prefill engine; HELLO points to it */
    bt_link *bulk;
    uint64_t drafted, accepted; /* speculative decoding, of all sequences */
    uint64_t mixed;             /* steps of all sequences that prompts were in */
    const bt_kv_header *header; /* of the block in hand */
    const uint8_t *body;
} node;

static void step(node *n, const dc_event *ev);

/* ---- actions ---- */

/* The answer to PLACE. Nobody reads the rows yet, so the digest is tested over the rows in the pages: a fault
 * of the copy shows too. */
static dc_event place(node *n, const dc_block *block)
{
    bt_kv_view view;
    bt_fault fault;
    dc_store_view(&view, n->store, block->slot);
    bt_err e = bt_kv_pack_place(&view, block->layer, block->token_begin, block->token_count, n->body,
                                n->header->body_bytes, &fault);
    if (e == BT_OK) e = bt_kv_pack_check(&view, n->header, &fault);
    if (e < 0) bt_shell_on_bad(NULL, &fault);
    return (dc_event){.type = e < 0 ? DC_EV_CORRUPT : DC_EV_PLACED, .u.block = *block};
}

static void start(node *n, const dc_action *a)
{
    dc_worker_start job = {.slot = a->u.start.slot,
                           .prompt = a->u.start.prompt,
                           .prompt_tokens = a->u.start.prompt_tokens,
                           .ids = a->u.start.ids,
                           .ids_len = a->u.start.ids_len,
                           .rows = a->u.start.rows,
                           .max_tokens = a->u.start.max_tokens,
                           .sampling = a->u.start.sampling,
                           .stop_ids_len = a->u.start.stop_ids_len};
    memcpy(job.stop_ids, a->u.start.stop_ids, sizeof job.stop_ids);
    dc_store_view(&job.view, n->store, job.slot);
    dc_worker_start_slot(n->worker, &job);
}

static void move_pages(node *n, const dc_action *a)
{
    bt_fault fault = {""};
    if (dc_store_do(n->store, a, &fault) < 0) {
        bt_log(BT_LOG_ERROR, "KV pages that were counted as free are not there: %s", fault.text);
        abort(); /* our own bug, or no memory for a page table; rows would land nowhere */
    }
    if (a->type != DC_DO_SET_PAGES || !a->u.set.is_growth) return;
    bt_kv_view view;
    dc_store_view(&view, n->store, a->u.set.slot);
    dc_worker_grow_slot(n->worker, a->u.set.slot, &view);
}

static void act(node *n, const dc_action *a, dc_event *follow)
{
    bt_fault fault;
    switch (a->type) {
    case DC_DO_SEND_CONTROL: bt_shell_send_control(n->shell, a->u.control.gateway, &a->u.control.msg); break;
    case DC_DO_SEND_BULK:
        (void)bt_link_send(n->bulk, &a->u.bulk.msg, &fault);
        break; /* sent again until answered */
    case DC_DO_PLACE: *follow = place(n, &a->u.block); break;
    case DC_DO_DROP:
        bt_log(BT_LOG_DEBUG,
               "dropped a block, reason %d (1 unknown, 2 ticket, 3 range, 4 repeat, 5 busy, 6 class)",
               (int)a->u.drop.reason);
        break;
    case DC_DO_SET_PAGES:
    case DC_DO_SWAP_OUT:
    case DC_DO_SWAP_IN:
    case DC_DO_DROP_SWAP: move_pages(n, a); break;
    case DC_DO_START: start(n, a); break;
    case DC_DO_STOP: dc_worker_stop_slot(n->worker, a->u.slot); break;
    case DC_DO_LOG: bt_log(a->u.log.level, "%s", a->u.log.text); break;
    case DC_DO_DRAIN: bt_shell_drain(n->shell); break;
    case DC_DO_EXIT: bt_shell_leave(n->shell, a->u.next_role); break;
    }
}

static void step(node *n, const dc_event *ev)
{
    dc_event follow = {.type = DC_EV_TICK};
    const bool draws = ev->type == DC_EV_CONTROL && ev->u.control.msg->type == BT_MSG_RESERVE; /* a ticket */
    const bt_random random = draws ? bt_shell_random() : (bt_random){{0}};
    const dc_actions actions = dc_brain_step(n->brain, ev, bt_clock_us(), &random);
    for (size_t i = 0; i < actions.len; i++) act(n, &actions.items[i], &follow);
    if (follow.type != DC_EV_TICK) step(n, &follow); /* PLACED makes no PLACE: one level deep */
    else bt_shell_due(n->shell, dc_brain_due_us(n->brain));
}

/* ---- events ---- */

static void on_control(void *ud, uint32_t gateway, const bt_msg *m)
{
    node *n = ud;
    if (m->type == BT_MSG_ROLE) dc_brain_set_role_may(n->brain, bt_shell_role_may(n->shell));
    step(ud, &(dc_event){.type = DC_EV_CONTROL, .u.control = {gateway, m}});
}

static void on_bulk(void *ud, const bt_msg *m) { step(ud, &(dc_event){.type = DC_EV_BULK, .u.bulk = m}); }

static void on_block(void *ud, const bt_kv_header *h, const uint8_t *body, const bt_peer_key *from_key)
{
    node *n = ud;
    dc_event ev = {.type = DC_EV_BLOCK,
                   .u.block = {.layer = h->layer, .token_begin = h->token_begin,
                               .token_count = h->token_count, .bytes = h->body_bytes, .from_key = *from_key,
                               .link_epoch = h->link_epoch, .link_end = h->link_end}};
    memcpy(ev.u.block.from.bytes, h->from, sizeof h->from);
    memcpy(ev.u.block.ref.owner.bytes, h->owner, sizeof h->owner);
    memcpy(ev.u.block.ticket.bytes, h->ticket, sizeof h->ticket);
    ev.u.block.ref.number = h->number;
    ev.u.block.ref.attempt = h->attempt;
    if (memcmp(h->to, bt_shell_self(n->shell)->bytes, sizeof h->to) != 0) {
        bt_fault why;
        bt_fail(&why, BT_EFORMAT, "a block is meant for another incarnation of this node");
        bt_shell_on_bad(NULL, &why);
        return;
    }
    n->header = h;
    n->body = body;
    step(n, &ev);
    n->header = NULL;
    n->body = NULL;
}

static void on_bulk_ready(void *ud, unsigned events)
{
    node *n = ud;
    (void)events;
    bt_link_receive(n->bulk, RECEIVE_BUDGET);
}

static void on_first(node *n, const dc_worker_event *w)
{
    bt_msg_first_token first = {.token = w->id,
                                .top_len = w->u.first.top_len,
                                .queue_us = w->u.first.queue_us,
                                .prefill_us = w->u.first.prefill_us,
                                .work = w->u.first.work,
                                .device = w->device,
                                .has_logprob = w->has_logprob,
                                .logprob = w->logprob};
    first.device.steps = 0;
    if (w->device.ns) first.device.late_us += n->step.late_us;
    memcpy(first.top_ids, w->u.first.top_ids, sizeof first.top_ids);
    memcpy(first.top_logits, w->u.first.top_logits, sizeof first.top_logits);
    step(n, &(dc_event){.type = DC_EV_FIRST, .u.first = {w->slot, &first, w->u.first.kv_digest}});
}

static void on_ended(node *n, const dc_worker_event *w)
{
    dc_event ev = {.type = DC_EV_ENDED,
                   .u.ended = {.slot = w->slot, .reason = w->reason, .code = w->code, .wait_us = w->wait_us,
                               .decode_us = w->decode_us, .steps = w->steps}};
    memcpy(ev.u.ended.text, w->u.text, sizeof w->u.text);
    step(n, &ev);
}

static void on_token(node *n, dc_worker_event *w)
{
    const bool has_price = w->device.ns > 0;
    w->device.late_us += n->step.late_us;
    step(n, &(dc_event){.type = DC_EV_TOKEN,
                        .u.token = {w->slot, w->index, w->id, w->has_logprob ? &w->logprob : NULL,
                                    has_price ? &w->device : NULL}});
}

/* A step is over on the device too. */
static void end_step(node *n, const dc_worker_event *w)
{
    const int64_t now = bt_clock_us();
    bt_pace_count late = {0};
    n->step = w->device;
    if (n->alarm) {
        bt_pace_ended(&late, w->begin_us, w->due_us, now);
        dc_worker_go(n->worker, now);
    }
    n->step.paced_us = late.paced_us;
    n->step.late_us = late.late_us;
    bt_msg_device_work_add(&n->device_sum, &n->step);
    dc_brain_set_device(n->brain, &n->device_sum);
}

/* False: the step and all events behind it are kept back. The worker sends no more events before this step is
 * let go. */
static bool take_step(node *n, const dc_worker_event *w)
{
    n->is_held = n->alarm && w->due_us > bt_clock_us();
    if (!n->is_held) {
        end_step(n, w);
        return true;
    }
    n->held = *w;
    bt_loop_set_events(bt_shell_loop(n->shell), n->worker_watch, 0);
    bt_alarm_set(n->alarm, w->due_us);
    return false;
}

static void on_worker(void *ud, unsigned events)
{
    node *n = ud;
    dc_worker_event w;
    (void)events;
    for (int budget = EVENT_BUDGET; budget > 0 && !n->is_held && dc_worker_next(n->worker, &w); budget--) {
        switch (w.type) {
        case DC_WORKER_STEP:
            if (!take_step(n, &w)) return;
            break;
        case DC_WORKER_FIRST: on_first(n, &w); break;
        case DC_WORKER_TOKEN: on_token(n, &w); break;
        case DC_WORKER_PIECE: step(n, &(dc_event){.type = DC_EV_ALIVE}); break;
        case DC_WORKER_NEED: step(n, &(dc_event){.type = DC_EV_NEED, .u.need = {w.slot, w.tokens}}); break;
        case DC_WORKER_ENDED: on_ended(n, &w); break;
        case DC_WORKER_STOPPED:
            step(n, &(dc_event){.type = DC_EV_STOPPED, .u.stopped = {w.slot, w.rows}});
            break;
        }
        if (w.type == DC_WORKER_ENDED || w.type == DC_WORKER_STOPPED) {
            n->drafted += w.drafted;
            n->accepted += w.accepted;
            n->mixed += w.mixed;
        }
    }
}

static void on_alarm(void *ud, unsigned events)
{
    node *n = ud;
    if (!n->is_held) return;
    n->is_held = false;
    bt_loop_set_events(bt_shell_loop(n->shell), n->worker_watch, BT_LOOP_IN);
    end_step(n, &n->held);
    on_worker(n, events);
}

static void on_up(void *ud, uint32_t gateway)
{
    step(ud, &(dc_event){.type = DC_EV_GATE_UP, .u.gate = gateway});
}

/* A step that is kept back is one that the device is at. */
static void on_tick(void *ud)
{
    const node *n = ud;
    step(ud, &(dc_event){.type = n->is_held ? DC_EV_ALIVE : DC_EV_TICK});
}

static void on_drain(void *ud) { step(ud, &(dc_event){.type = DC_EV_DRAIN}); }
static void on_drain_over(void *ud) { step(ud, &(dc_event){.type = DC_EV_DRAIN_OVER}); }
static void on_rss(void *ud, uint64_t rss_bytes) { dc_brain_set_rss(((node *)ud)->brain, rss_bytes); }
static bool is_ready(void *ud) { return dc_brain_is_welcome(((node *)ud)->brain); }

/* ---- start and end ---- */

static bt_err open_bulk(node *n, char endpoint[BT_SOCK_ENDPOINT_BYTES], bt_fault *fault)
{
    const bt_link_handler handler = {.on_msg = on_bulk, .on_block = on_block, .on_bad = bt_shell_on_bad,
                                     .ud = n};
    uint64_t id;
    bt_err e = bt_net_listen(&n->bulk, endpoint, bt_shell_net(n->shell), BT_SOCK_BULK_ROUTER, n->o->listen,
                             BT_PEER_PREFILL, &handler, fault);
    if (e < 0) return e;
    e = bt_loop_add_socket(&id, bt_shell_loop(n->shell), bt_link_socket(n->bulk), BT_LOOP_IN, on_bulk_ready,
                           n);
    return e < 0 ? bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e))
                 : BT_OK;
}

static bt_err open_store(node *n, const bt_node_setup *setup, dc_config *bc, bt_fault *fault)
{
    bt_node_pages pages = {.total = 0}, swap = {.total = 0};
    bt_err e = bt_node_setup_pages(&pages, setup, fault);
    if (e == BT_OK) e = bt_node_setup_hello(&bc->hello, setup, pages.total, fault);
    if (e < 0) goto out;
    bc->pages_total = pages.total;
    bc->window_pages_total = pages.windows;
    bc->page_tokens = BT_NODE_PAGE_TOKENS;
    e = bt_node_setup_swap(&swap, setup, n->o->swap_memory_bytes, fault);
    bc->swap_pages = swap.total;
    bc->swap_window_pages = swap.windows;
    const size_t slot_pages = (bc->hello.ctx_tokens + (size_t)BT_NODE_PAGE_TOKENS - 1) / BT_NODE_PAGE_TOKENS;
    if (e == BT_OK)
        e = dc_store_new(&n->store, &pages.memory, &swap.memory, bc->slots, (uint32_t)slot_pages, fault);
out:
    if (e < 0) {
        bt_kv_memory_free(&pages.memory);
        bt_kv_memory_free(&swap.memory);
    }
    return e;
}

/* The prefill engine in HELLO; its class equals that of a prefill node with the same package. */
static void describe_local(node *n, dc_config *bc)
{
    if (!n->local) return;
    const bt_report_engine about = bt_prefill_about(n->local);
    n->about = bt_node_setup_engine(&about);
    bc->can_prefill = true;
    bc->hello.engine = &n->about;
    bt_node_setup_class(bc->hello.prefill_exactness, BT_ROLE_PREFILL, about.name, about.weights,
                        bc->hello.kv.dtype);
    bt_log(BT_LOG_INFO, "prefills too: engine %s, %s, as class '%s'", about.name, about.quant,
           bc->hello.prefill_exactness);
}

static bt_err open_brain(node *n, bt_fault *fault)
{
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
    dc_config bc = dc_config_defaults();
    bt_node_setup setup = {.role = BT_ROLE_DECODE,
                           .node_id = n->o->node->id,
                           .engine = bt_decode_name(n->engine),
                           .model = n->model,
                           .weights = bt_decode_weights(n->engine),
                           .kv_elem_bytes = bt_decode_kv_elem_bytes(n->engine),
                           .ctx_tokens = bt_decode_ctx_tokens(n->engine),
                           .kv_memory_bytes = n->o->node->kv_memory_bytes,
                           .sequences = (size_t)n->o->slots,
                           .growth_tokens = (size_t)n->o->growth_tokens};
    bc.self = *bt_shell_self(n->shell);
    bc.gateways = (uint32_t)n->o->node->gateways.count;
    bc.slots = (uint32_t)n->o->slots;
    bc.growth_tokens = (uint32_t)n->o->growth_tokens;
    bc.waiting_max = (uint32_t)n->o->waiting;
    bc.window_bytes = n->o->window_bytes;
    bt_err e = bt_overtake_read(&bc.overtake_max, &bc.overtake_us, n->o->overtake, fault);
    if (e == BT_OK) e = open_bulk(n, endpoint, fault);
    if (e == BT_OK && !n->o->advertise && bt_sock_endpoint_is_any(endpoint)) {
        char bound[BT_SOCK_ENDPOINT_BYTES];
        memcpy(bound, endpoint, sizeof bound);
        e = bt_shell_reachable(endpoint, n->shell, n->o->listen, bound, fault);
    }
    setup.kv_endpoint = n->o->advertise ? n->o->advertise : endpoint;
    if (e == BT_OK) bt_shell_warn_of_address(n->shell, setup.kv_endpoint);
    if (e == BT_OK) e = open_store(n, &setup, &bc, fault);
    if (e < 0) return e;
    bt_log(BT_LOG_INFO,
           "model %s, engine %s, isa %s, core %s, weights %s, %" PRIu64
           " tokens of %s KV, longest sequence %u, swap store %" PRIu64 " tokens",
           bc.hello.model_name, bt_decode_name(n->engine), bt_decode_isa(n->engine), bt_cores_used()->name,
           bt_decode_weights(n->engine), bc.hello.kv_capacity_tokens, bt_kv_dtype_name(bc.hello.kv.dtype),
           bc.hello.ctx_tokens, (uint64_t)bc.swap_pages * bc.page_tokens);
    bt_node_setup_say_short(&setup, (uint64_t)n->o->node->ctx_size);
    if (n->device) bc.hello.device = &n->device_about;
    describe_local(n, &bc);
    bt_log(BT_LOG_INFO, "taking KV at %s", bc.hello.kv_endpoint);
    const dc_worker_config wc = {.engine = n->engine,
                                 .local = n->local,
                                 .words = n->words,
                                 .pool = n->pool,
                                 .slots = bc.slots,
                                 .page_tokens = bc.page_tokens,
                                 .chunk_tokens = (uint32_t)n->o->chunk_tokens,
                                 .draft_max = (uint32_t)n->o->speculate,
                                 .device = n->device};
    if ((e = dc_brain_new(&n->brain, &bc, fault)) < 0 || (e = dc_worker_new(&n->worker, &wc, fault)) < 0)
        return e;
    n->engine = NULL;
    n->local = NULL;
    if (n->device && n->device->pace.milli) {
        e = bt_alarm_new(&n->alarm, bt_shell_loop(n->shell), on_alarm, n, fault);
        if (e < 0) return e;
    }
    e = bt_loop_add_fd(&n->worker_watch, bt_shell_loop(n->shell), dc_worker_fd(n->worker), BT_LOOP_IN,
                       on_worker, n);
    return e < 0 ? bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e))
                 : BT_OK;
}

/* --decode-profile. A profile that describes a companion or a GPU decodes as well. */
static bt_err open_device(node *n, bt_fault *fault)
{
    const bt_node_options *o = n->o->node;
    const bt_pace pace = bt_node_device_pace(o);
    if (!o->decode_profile && pace.milli)
        return bt_fail(fault, BT_EARG,
                       "--pace %s: nothing says how fast the steps of this node would be; it takes a "
                       "--decode-profile, such as adreno-750",
                       o->pace);
    if (!o->decode_profile) return BT_OK;
    dc_worker_device *d = n->device = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "out of memory for a profile");
    const bt_err e = bt_profile_load(&d->profile, o->decode_profile, fault);
    if (e < 0) return e;
    if (!d->profile.time.is_given)
        return bt_fail(fault, BT_EARG,
                       "profile '%s' has no time; --decode-profile takes one that has, such as adreno-750",
                       d->profile.name);
    d->model = bt_costs_decode(n->model, (bt_form)n->o->weights, bt_decode_kv_elem_bytes(n->engine));
    d->pace = pace;
    n->device_about = bt_node_device_about(&d->profile, NULL, pace);
    return bt_price_check_memory(&d->profile, &d->model, n->model->name, fault);
}

/* The engine that computes prompts here; NULL: none. */
static const char *local_prefill(const dc_options *o)
{
    return o->local_prefill ? bt_engine_chunked_names[o->local_prefill] : NULL;
}

/* Logged before any memory is taken. */
static bt_err check_memory(const node *n, bt_fault *fault)
{
    const dc_options *o = n->o;
    const char *prefill = local_prefill(o), *decode = bt_engine_decode_names[o->engine];
    const bt_needs_want want = {.prefill = prefill,
                                .decode = decode,
                                .weights = (bt_form)o->weights,
                                .want = o->want,
                                .kv_elem_bytes = bt_kv_dtype_wanted(o->node->kv_dtype),
                                .ctx_tokens = (size_t)o->node->ctx_size,
                                .kv_memory_bytes = o->node->kv_memory_bytes,
                                .rows = (size_t)o->batch_rows,
                                .threads = bt_pool_threads(n->pool),
                                .logits_rows = bt_mixed_logits(prefill, decode, (bt_form)o->weights)};
    char text[BT_NEEDS_TEXT_BYTES];
    const bt_err e = bt_needs_begin(text, n->model, &want, 1, fault);
    if (e == BT_OK) bt_log(BT_LOG_INFO, "%s", text);
    return e;
}

static bt_err open_engines(node *n, bt_fault *fault)
{
    const dc_options *o = n->o;
    const bt_decode_config ec = {.engine = bt_engine_decode_names[o->engine],
                                 .isa = o->node->isa,
                                 .want = *o->want,
                                 .weights = bt_weights_forms[o->weights],
                                 .kv_elem_bytes = bt_kv_dtype_wanted(o->node->kv_dtype),
                                 .pool = n->pool,
                                 .rows_max = (size_t)o->batch_rows,
                                 .ctx_tokens = (size_t)o->node->ctx_size,
                                 .kv_memory_bytes = o->node->kv_memory_bytes,
                                 .progress = bt_wait_tell};
    bt_wait_tell(NULL, "opening the engine", 0, 0);
    const bt_err e = bt_decode_new(&n->engine, n->model, &ec, fault);
    const char *local = local_prefill(o);
    if (e < 0 || !local) return e;
    const uint32_t elem_bytes = bt_decode_kv_elem_bytes(n->engine);
    if (bt_engine_kv(bt_engine_prefill(local), elem_bytes) != elem_bytes)
        return bt_fail(fault, BT_EARG, "--local-prefill %s makes no %s rows, which engine %s wants", local,
                       bt_kv_dtype_name(bt_kv_dtype_of(elem_bytes)), bt_decode_name(n->engine));
    const bt_prefill_config pc = {.engine = local,
                                  .isa = o->node->isa,
                                  .want = *o->want,
                                  .pkg = bt_decode_shared_package(n->engine),
                                  .kv_elem_bytes = bt_decode_kv_elem_bytes(n->engine),
                                  .ctx_tokens = bt_decode_ctx_tokens(n->engine),
                                  .pool = n->pool,
                                  .weights = bt_decode_shared_weights(n->engine),
                                  .progress = bt_wait_tell};
    return bt_prefill_new(&n->local, n->model, &pc, fault);
}

/* Before any memory is taken: an address that nobody else can dial is found out now. */
static bt_err check_address(const node *n, bt_fault *fault)
{
    const dc_options *o = n->o;
    if (o->advertise && !bt_sock_endpoint_can_be_dialled(o->advertise))
        return bt_fail(
            fault, BT_EARG,
            "--advertise '%.100s' is no address that prefill nodes can dial: give tcp://ADDRESS:PORT "
            "of this machine",
            o->advertise);
    if (o->advertise || !bt_sock_endpoint_is_any(o->listen)) return BT_OK;
    return bt_shell_reachable(NULL, n->shell, o->listen, NULL, fault);
}

static bt_err open_node(node *n, bt_fault *fault)
{
    char path[4096];
    const bt_shell_config sc = {.keys_dir = n->o->node->keys,
                                .key_name = n->o->node->key,
                                .node_id = n->o->node->id,
                                .role = BT_PEER_DECODE,
                                .gateways = n->o->node->gateways.items,
                                .gateways_len = n->o->node->gateways.count,
                                .drain_timeout_ms = n->o->node->drain_timeout_ms};
    const bt_shell_handler handler = {
        .on_control = on_control,       .on_up = on_up,   .on_tick = on_tick,   .on_drain = on_drain,
        .on_drain_over = on_drain_over, .on_rss = on_rss, .is_ready = is_ready, .ud = n};
    /* The shell first: it blocks signals before any thread is made. */
    bt_err e = bt_shell_new(&n->shell, &sc, &handler, fault);
    if (e == BT_OK) e = check_address(n, fault);
    if (e == BT_OK) e = bt_model_find(path, sizeof path, n->o->node->model, fault);
    bt_wait_tell(NULL, BT_MODEL_OPENING, 0, 0);
    if (e == BT_OK) e = bt_model_open(&n->model, path, fault);
    if (e == BT_OK) e = bt_pool_new(&n->pool, (size_t)n->o->node->threads, fault);
    if (e == BT_OK) e = check_memory(n, fault);
    if (e == BT_OK) e = open_engines(n, fault);
    if (e == BT_OK) e = open_device(n, fault);
    bt_wait_end();
    if (e == BT_OK) e = bt_node_setup_words(&n->words, n->model, fault);
    return e < 0 ? e : open_brain(n, fault);
}

/* A few lines with the node's counts at its end. */
static void log_counts(const node *n)
{
    const dc_counters *c = dc_brain_counters(n->brain);
    const uint64_t *drop = c->blocks_dropped;
    bt_log(BT_LOG_DEBUG,
           "sequences: reserved %" PRIu64 ", refused %" PRIu64 ", started %" PRIu64 ", finished %" PRIu64
           ", failed %" PRIu64 ", aborted %" PRIu64 ", leases ended %" PRIu64 ", tokens %" PRIu64,
           c->reserved, c->refused, c->started, c->finished, c->failed, c->aborted, c->leases_ended,
           c->tokens);
    bt_log(BT_LOG_DEBUG,
           "memory: preempted %" PRIu64 ", swapped out %" PRIu64 ", in %" PRIu64
           ", to be prefilled again %" PRIu64 ", given up %" PRIu64 ", tokens replayed %" PRIu64
           "; prefilled here %" PRIu64 "; of %" PRIu64 " prompt tokens %" PRIu64
           " were kept from earlier prompts, in %" PRIu64 " hits; drafts %" PRIu64 ", right %" PRIu64
           "; steps with prompts in them %" PRIu64,
           c->preempted, c->swapped_out, c->swapped_in, c->dropped, c->given_up, c->replayed_tokens,
           c->local_prefills, c->prompt_tokens, c->prefix_tokens, c->prefix_hits, n->drafted, n->accepted,
           n->mixed);
    bt_log(BT_LOG_DEBUG,
           "blocks: placed %" PRIu64 " (%" PRIu64 " bytes), corrupt %" PRIu64 ", of nothing here %" PRIu64
           ", wrong ticket %" PRIu64 ", wrong range %" PRIu64 ", repeated %" PRIu64 ", too early %" PRIu64
           ", of another class %" PRIu64,
           c->blocks_placed, c->block_bytes_placed, c->blocks_corrupt, drop[DC_DROP_UNKNOWN],
           drop[DC_DROP_TICKET], drop[DC_DROP_RANGE], drop[DC_DROP_REPEAT], drop[DC_DROP_BUSY],
           drop[DC_DROP_CLASS]);
    bt_log(BT_LOG_DEBUG,
           "messages: wrong incarnation %" PRIu64 ", stale %" PRIu64 ", unexpected %" PRIu64
           ", repeats %" PRIu64 ", sent again %" PRIu64,
           c->wrong_incarnation, c->stale_attempt, c->unexpected, c->repeats, c->resent);
}

static void close_node(node *n)
{
    dc_worker_free(n->worker); /* before the pages that it may be reading */
    bt_constraint_vocab_free(n->words);
    bt_prefill_free(n->local);
    bt_decode_free(n->engine);
    bt_pool_free(n->pool);
    dc_brain_free(n->brain);
    bt_link_free(n->bulk);
    dc_store_free(n->store);
    bt_alarm_free(n->alarm);
    bt_shell_free(n->shell);
    free(n->device);
    bt_model_close(n->model);
}

int dc_node_run(const dc_options *o, bt_role *ret_next)
{
    node n = {.o = o};
    bt_fault fault = {""};
    bt_err e = open_node(&n, &fault);
    if (e == BT_OK) e = bt_shell_run(n.shell, &fault);
    if (n.brain) log_counts(&n);
    if (n.shell) bt_shell_log_refused(n.shell, n.bulk);
    if (e < 0) bt_log(BT_LOG_ERROR, "%s", fault.text);
    else if (bt_shell_next(n.shell)) *ret_next = bt_shell_next(n.shell);
    close_node(&n);
    return e < 0;
}
