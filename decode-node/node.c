/* See node.h. One bulk ROUTER takes KV from all prefill nodes; blocks are copied from the frame straight into the pages. */
#include "decode-node/node.h"
#include "base/clock.h"
#include "base/log.h"
#include "decode-node/brain.h"
#include "decode-node/worker.h"
#include "kv/kv_pack.h"
#include "xfer/node_setup.h"
#include "xfer/shell.h"

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
    dc_engine *engine;                      /* until the worker takes it */
    dc_worker *worker;
    bt_kv_pages *pages;
    bt_kv_seq *seq;                         /* [slots] */
    bt_link *bulk;
    const bt_kv_header *header;             /* of the block in hand */
    const uint8_t *body;
} node;

static void step(node *n, const dc_event *ev);

/* ---- actions ---- */

/* The answer to PLACE: the digest is tested first, so nothing wrong ever reaches a page. */
static dc_event place(node *n, const dc_block *block)
{
    bt_kv_view view;
    bt_fault fault;
    bt_kv_pages_view(&view, n->pages, &n->seq[block->slot]);
    bt_err e = bt_kv_header_check_body(n->header, n->body, n->header->body_bytes, &fault);
    if (e == BT_OK)
        e = bt_kv_pack_place(&view, block->layer, block->token_begin, block->token_count, n->body, n->header->body_bytes, &fault);
    if (e < 0) bt_shell_on_bad(NULL, &fault);
    return (dc_event){ .type = e < 0 ? DC_EV_CORRUPT : DC_EV_PLACED, .u.block = *block };
}

static void reserve(node *n, uint32_t slot, uint32_t tokens)
{
    bt_fault fault;
    if (bt_kv_pages_reserve(n->pages, &n->seq[slot], tokens, &fault) == BT_OK) return;
    bt_log(BT_LOG_ERROR, "pages that the brain counted are not there: %s", fault.text);
    abort();                                /* our own bug, and rows would land nowhere */
}

static void start(node *n, const dc_action *a)
{
    dc_worker_start job = { .slot = a->u.start.slot, .prompt = a->u.start.prompt, .prompt_tokens = a->u.start.prompt_tokens,
                            .ids = a->u.start.ids, .ids_len = a->u.start.ids_len, .rows = a->u.start.rows,
                            .max_tokens = a->u.start.max_tokens, .sampling = a->u.start.sampling, .stop_ids_len = a->u.start.stop_ids_len };
    memcpy(job.stop_ids, a->u.start.stop_ids, sizeof job.stop_ids);
    reserve(n, job.slot, job.prompt_tokens + job.max_tokens);       /* counted by the brain as growth */
    bt_kv_pages_view(&job.view, n->pages, &n->seq[job.slot]);
    dc_worker_start_slot(n->worker, &job);
}

static void act(node *n, const dc_action *a, dc_event *follow)
{
    bt_fault fault;
    switch (a->type) {
    case DC_DO_SEND_CONTROL:  bt_shell_send_control(n->shell, a->u.control.gateway, &a->u.control.msg); break;
    case DC_DO_SEND_BULK:     (void)bt_link_send(n->bulk, &a->u.bulk.msg, &fault); break;     /* sent again until answered */
    case DC_DO_PLACE:         *follow = place(n, &a->u.block); break;
    case DC_DO_DROP:          bt_log(BT_LOG_DEBUG, "dropped a block, reason %d", (int)a->u.drop.reason); break;
    case DC_DO_RESERVE_PAGES: reserve(n, a->u.pages.slot, a->u.pages.tokens); break;
    case DC_DO_FREE_PAGES:    bt_kv_pages_release(n->pages, &n->seq[a->u.slot]); break;
    case DC_DO_SHARE_PAGES:
    case DC_DO_GROW_PAGES:
    case DC_DO_SWAP_OUT:
    case DC_DO_SWAP_IN:
    case DC_DO_DROP_SWAP:     abort();      /* this node neither prefills nor swaps, and its sequences never grow */
    case DC_DO_START:         start(n, a); break;
    case DC_DO_STOP:          dc_worker_stop_slot(n->worker, a->u.slot); break;
    case DC_DO_LOG:           bt_log(a->u.log.level, "%s", a->u.log.text); break;
    case DC_DO_EXIT:          bt_shell_stop(n->shell); break;
    }
}

static void step(node *n, const dc_event *ev)
{
    dc_event follow = { .type = DC_EV_TICK };
    const bt_random random = bt_shell_random();
    const dc_actions actions = dc_brain_step(n->brain, ev, bt_clock_us(), &random);
    for (size_t i = 0; i < actions.len; i++) act(n, &actions.items[i], &follow);
    if (follow.type != DC_EV_TICK) step(n, &follow);            /* PLACED makes no PLACE: one level deep */
    else bt_shell_due(n->shell, dc_brain_due_us(n->brain));
}

/* ---- events ---- */

static void on_control(void *ud, uint32_t gateway, const bt_msg *m)
{
    step(ud, &(dc_event){ .type = DC_EV_CONTROL, .u.control = { gateway, m } });
}

static void on_bulk(void *ud, const bt_msg *m) { step(ud, &(dc_event){ .type = DC_EV_BULK, .u.bulk = m }); }

static void on_block(void *ud, const bt_kv_header *h, const uint8_t *body)
{
    node *n = ud;
    dc_event ev = { .type = DC_EV_BLOCK, .u.block = { .layer = h->layer, .token_begin = h->token_begin, .token_count = h->token_count,
                                                      .bytes = h->body_bytes } };
    memcpy(ev.u.block.from.bytes, h->from, sizeof h->from);
    memcpy(ev.u.block.ref.owner.bytes, h->owner, sizeof h->owner);
    memcpy(ev.u.block.ticket.bytes, h->ticket, sizeof h->ticket);
    ev.u.block.ref.number = h->number;
    ev.u.block.ref.attempt = h->attempt;
    if (memcmp(h->to, bt_shell_self(n->shell)->bytes, sizeof h->to) != 0) {
        bt_fault why;
        bt_fail(&why, BT_EFORMAT, "a block meant for another incarnation");
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

static void on_worker(void *ud, unsigned events)
{
    node *n = ud;
    dc_worker_event w;
    (void)events;
    for (int budget = EVENT_BUDGET; budget > 0 && dc_worker_next(n->worker, &w); budget--) {
        if (w.type == DC_WORKER_NEED) continue;                 /* every page was reserved: it is full by its own end */
        dc_event ev = { .type = w.type == DC_WORKER_TOKEN ? DC_EV_TOKEN : w.type == DC_WORKER_ENDED ? DC_EV_ENDED : DC_EV_STOPPED };
        if (w.type == DC_WORKER_TOKEN) {
            ev.u.token.slot = w.slot;
            ev.u.token.index = w.index;
            ev.u.token.id = w.id;
        } else if (w.type == DC_WORKER_STOPPED) {
            ev.u.stopped.slot = w.slot;
            ev.u.stopped.rows = w.rows;
        } else {
            ev.u.ended.slot = w.slot;
            ev.u.ended.reason = w.reason;
            ev.u.ended.wait_us = w.wait_us;
            ev.u.ended.decode_us = w.decode_us;
            ev.u.ended.steps = w.steps;
            memcpy(ev.u.ended.text, w.u.text, sizeof w.u.text);
        }
        step(n, &ev);
    }
}

static void on_tick(void *ud) { step(ud, &(dc_event){ .type = DC_EV_TICK }); }
static void on_drain(void *ud) { step(ud, &(dc_event){ .type = DC_EV_DRAIN }); }
static void on_rss(void *ud, uint64_t rss_bytes) { dc_brain_set_rss(((node *)ud)->brain, rss_bytes); }
static bool is_ready(void *ud) { return dc_brain_is_welcome(((node *)ud)->brain); }

/* ---- start and end ---- */

static bt_err open_bulk(node *n, char endpoint[BT_SOCK_ENDPOINT_BYTES], bt_fault *fault)
{
    const bt_link_handler handler = { .on_msg = on_bulk, .on_block = on_block, .on_bad = bt_shell_on_bad, .ud = n };
    uint64_t id;
    bt_err e = bt_net_listen(&n->bulk, endpoint, bt_shell_net(n->shell), BT_SOCK_BULK_ROUTER, n->o->listen, BT_PEER_PREFILL, &handler, fault);
    if (e < 0) return e;
    e = bt_loop_add_socket(&id, bt_shell_loop(n->shell), bt_link_socket(n->bulk), BT_LOOP_IN, on_bulk_ready, n);
    return e < 0 ? bt_fail(fault, e, "event loop") : BT_OK;
}

static bt_err open_brain(node *n, bt_fault *fault)
{
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
    uint64_t id;
    dc_config bc = dc_config_defaults();
    bt_node_setup setup = { .role = BT_ROLE_DECODE, .node_id = n->o->id, .engine = dc_engine_name(n->engine), .model = n->model,
                            .weights = dc_engine_weights(n->engine),
                            .kv_elem_bytes = dc_engine_kv_elem_bytes(n->engine), .ctx_tokens = dc_engine_ctx_tokens(n->engine),
                            .kv_memory_bytes = n->o->kv_memory_bytes };
    bt_err e = bt_node_setup_pages(&n->pages, &setup, fault);
    if (e == BT_OK && !(n->seq = calloc((size_t)n->o->slots, sizeof *n->seq))) e = bt_fail(fault, BT_ENOMEM, "sequences");
    if (e == BT_OK) e = open_bulk(n, endpoint, fault);
    setup.kv_endpoint = n->o->advertise ? n->o->advertise : endpoint;
    if (e == BT_OK) e = bt_node_setup_hello(&bc.hello, &setup, n->pages, fault);
    if (e < 0) return e;
    bc.self = *bt_shell_self(n->shell);
    bc.gateways = (uint32_t)n->o->gateways.count;
    bc.slots = (uint32_t)n->o->slots;
    bc.pages_total = (uint32_t)bt_kv_pages_total(n->pages);
    bc.page_tokens = BT_NODE_PAGE_TOKENS;
    bc.growth_tokens = bc.hello.ctx_tokens;
    bc.window_bytes = n->o->window_bytes;
    bt_log(BT_LOG_INFO, "model %s, engine %s, isa %s, %" PRIu64 " tokens of %s KV, longest sequence %u", bc.hello.model_name, dc_engine_name(n->engine),
           dc_engine_isa(n->engine), bc.hello.kv_capacity_tokens, bt_kv_dtype_name(bc.hello.kv.dtype), bc.hello.ctx_tokens);
    if (n->o->ctx_size == 0 && bc.hello.ctx_tokens < n->model->hp.ctx)
        bt_log(BT_LOG_INFO, "--kv-memory holds less than the model's context of %u tokens", n->model->hp.ctx);
    bt_log(BT_LOG_INFO, "taking KV at %s", bc.hello.kv_endpoint);
    const dc_worker_config wc = { .engine = n->engine, .pool = n->pool, .slots = bc.slots, .page_tokens = BT_NODE_PAGE_TOKENS };
    if ((e = dc_brain_new(&n->brain, &bc, fault)) < 0 || (e = dc_worker_new(&n->worker, &wc, fault)) < 0) return e;
    n->engine = NULL;
    e = bt_loop_add_fd(&id, bt_shell_loop(n->shell), dc_worker_fd(n->worker), BT_LOOP_IN, on_worker, n);
    return e < 0 ? bt_fail(fault, e, "event loop") : BT_OK;
}

static bt_err open_node(node *n, bt_fault *fault)
{
    char path[4096];
    const bt_shell_config sc = { .keys_dir = n->o->keys, .key_name = "decode", .gateways = n->o->gateways.items,
                                 .gateways_len = n->o->gateways.count, .drain_timeout_ms = n->o->drain_timeout_ms };
    const bt_shell_handler handler = { .on_control = on_control, .on_tick = on_tick, .on_drain = on_drain, .on_rss = on_rss, .is_ready = is_ready, .ud = n };
    dc_engine_config ec = { .engine = dc_options_engines[n->o->engine], .isa = n->o->isa, .kv_elem_bytes = bt_kv_dtype_wanted(n->o->kv_dtype),
                            .ctx_tokens = (size_t)n->o->ctx_size, .kv_memory_bytes = n->o->kv_memory_bytes };
    /* The shell first: it blocks signals before any thread is made. */
    bt_err e = bt_shell_new(&n->shell, &sc, &handler, fault);
    if (e == BT_OK) e = bt_model_find(path, sizeof path, n->o->model, fault);
    if (e == BT_OK) e = bt_model_open(&n->model, path, fault);
    if (e == BT_OK) e = bt_pool_new(&n->pool, (size_t)n->o->threads, fault);
    ec.pool = n->pool;
    if (e == BT_OK) e = dc_engine_new(&n->engine, n->model, &ec, fault);
    return e < 0 ? e : open_brain(n, fault);
}

/* A few lines at the end, for whoever asks what became of everything. */
static void log_counts(const node *n)
{
    const dc_counters *c = dc_brain_counters(n->brain);
    const uint64_t *drop = c->blocks_dropped;
    bt_log(BT_LOG_DEBUG, "sequences: reserved %" PRIu64 ", refused %" PRIu64 ", started %" PRIu64 ", finished %" PRIu64 ", failed %" PRIu64 ", aborted %" PRIu64
           ", leases ended %" PRIu64 ", tokens %" PRIu64, c->reserved, c->refused, c->started, c->finished, c->failed, c->aborted, c->leases_ended, c->tokens);
    bt_log(BT_LOG_DEBUG, "blocks: placed %" PRIu64 " (%" PRIu64 " bytes), corrupt %" PRIu64 ", of nothing here %" PRIu64 ", wrong ticket %" PRIu64
           ", wrong range %" PRIu64 ", repeated %" PRIu64 ", too early %" PRIu64, c->blocks_placed, c->block_bytes_placed, c->blocks_corrupt,
           drop[DC_DROP_UNKNOWN], drop[DC_DROP_TICKET], drop[DC_DROP_RANGE], drop[DC_DROP_REPEAT], drop[DC_DROP_BUSY]);
    bt_log(BT_LOG_DEBUG, "messages: wrong incarnation %" PRIu64 ", stale %" PRIu64 ", unexpected %" PRIu64 ", repeats %" PRIu64 ", sent again %" PRIu64,
           c->wrong_incarnation, c->stale_attempt, c->unexpected, c->repeats, c->resent);
}

static void close_node(node *n)
{
    dc_worker_free(n->worker);              /* before the pages that it may be reading */
    dc_engine_free(n->engine);
    bt_pool_free(n->pool);
    dc_brain_free(n->brain);
    bt_link_free(n->bulk);
    for (int64_t i = 0; n->seq && n->pages && i < n->o->slots; i++) bt_kv_pages_release(n->pages, &n->seq[i]);
    bt_kv_pages_free(n->pages);
    free(n->seq);
    bt_shell_free(n->shell);
    bt_model_close(n->model);
}

int dc_node_run(const dc_options *o)
{
    node n = { .o = o };
    bt_fault fault = { "" };
    bt_err e = open_node(&n, &fault);
    if (e == BT_OK) e = bt_shell_run(n.shell, &fault);
    if (n.brain) log_counts(&n);
    if (e < 0) bt_log(BT_LOG_ERROR, "%s", fault.text);
    close_node(&n);
    return e < 0;
}
