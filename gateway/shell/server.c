/* Ties sockets, clock and random numbers to the brain and the door, which have none. One thread; `step` is
 * the only way in to the brain. */
#include "gateway/shell/server.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "base/rng.h"
#include "gateway/brain/brain.h"
#include "gateway/door/door.h"
#include "gateway/door/metrics.h"
#include "gateway/api/text.h"
#include "gateway/http/auth.h"
#include "gateway/http/http.h"
#include "gateway/http/node_link.h"
#include "gateway/http/tls.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/quant.h"
#include "model/store.h"
#include "rt/loop.h"
#include "rt/notify.h"
#include "trace/capture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_NAMES = 4,
    NAME_BYTES = 128,
    TICK_US = 1000000,
    DRAIN_LOOK_US = 20000,
    LAST_WORDS_US = 60000,
    MAX_CUTS = 64
};

typedef struct server {
    const gw_options *options;
    bt_loop *loop;
    gw_brain *brain;
    gw_node_link *link;
    gw_http *http;
    gw_door *door;
    bt_aside *aside;
    gw_metrics *metrics;
    gw_turn turn;
    gw_auth *auth;
    gw_tls *tls; /* NULL: plain HTTP */
    bt_prefix_secret *prefix_secret;
    bt_capture *capture;
    gw_text text;
    gw_config config;
    char name[MAX_NAMES][NAME_BYTES];
    const char *names[MAX_NAMES];
    size_t names_len;
    gw_model_facts facts;
    bt_defaults defaults;
    char url[300];
    uint64_t timer;
    int64_t tick_due_us, drain_due_us, drained_us;
    bt_incarnation cut[MAX_CUTS]; /* nodes that a message could not reach, for the brain's next CUT events */
    size_t cuts;
    bool was_ready, has_announced, is_draining, has_told_drain, is_drained;
    bt_err failed;
    bt_fault fault;
} server;

static void stop_with(server *s, bt_err e, const bt_fault *f)
{
    if (s->failed == BT_OK) {
        s->failed = e;
        s->fault = *f;
    }
    bt_loop_stop(s->loop);
}

/* ---- readiness ---------------------------------------------------------------------------------- */

static void note_readiness(server *s)
{
    bt_fault f = {""};
    char text[512];
    const bool is_ready = gw_brain_is_ready(s->brain) && !s->is_draining;
    if (is_ready == s->was_ready) return;
    s->was_ready = is_ready;
    if (!is_ready) {
        if (!s->is_draining) bt_log(BT_LOG_WARN, "not ready: no prefill and decode node that fit each other");
        return;
    }
    bt_log(BT_LOG_INFO, "%s %s", s->has_announced ? "ready again" : "ready", s->url);
    s->has_announced = true;
    (void)snprintf(text, sizeof text, "READY=1\nSTATUS=%s", s->url);
    if (bt_notify_send(text, &f) < 0) bt_log(BT_LOG_WARN, "$NOTIFY_SOCKET was not told: %s", f.text);
}

/* ---- the brain ---------------------------------------------------------------------------------- */

/* Each once; what does not fit fails again with the next heartbeat. */
static void note_cut(server *s, const bt_incarnation *node)
{
    for (size_t i = 0; i < s->cuts; i++)
        if (bt_incarnation_equal(&s->cut[i], node)) return;
    if (s->cuts < MAX_CUTS) s->cut[s->cuts++] = *node;
}

static void act(server *s, const gw_action *a)
{
    switch (a->type) {
    case GW_DO_SEND:
        gw_turn_go(&s->turn, GW_TURN_SENDING);
        if (!gw_node_link_send(s->link, &a->u.send.msg)) note_cut(s, &a->u.send.msg.to);
        break;
    case GW_DO_FIRST:
    case GW_DO_TOKENS:
    case GW_DO_DONE:
    case GW_DO_FAIL:
    case GW_DO_ROLE_ANSWER:
        gw_turn_go(&s->turn, a->type == GW_DO_TOKENS ? GW_TURN_TEXT : GW_TURN_ANSWERS);
        gw_door_act(s->door, a);
        break;
    case GW_DO_NODE_CHANGED:
        bt_log(BT_LOG_INFO, "%s node %s is %s", a->u.node.role == BT_ROLE_DECODE ? "decode" : "prefill",
               a->u.node.node_id, gw_node_state_name(a->u.node.state));
        break;
    case GW_DO_LOG: bt_log(a->u.log.level, "%s", a->u.log.text); break;
    case GW_DO_EXIT: s->is_drained = true; break;
    }
}

/* One event and all events of the door that follow from it. */
static void step(void *ud, const gw_event *ev)
{
    server *s = ud;
    gw_event next;
    bool is_more;
    const gw_turn_part before = s->turn.part;
    do {
        bt_random random = {{0}};
        bt_fault f;
        const bt_err e = ev->type == GW_EV_SUBMIT ? bt_rng_entropy(&random, sizeof random, &f)
                                                  : BT_OK; /* it may draw a seed */
        if (e < 0) {
            stop_with(s, e, &f);
            return;
        }
        gw_turn_go(&s->turn, GW_TURN_DECISIONS);
        const gw_actions actions = gw_brain_step(s->brain, ev, bt_clock_us(), &random);
        for (size_t i = 0; i < actions.len; i++) act(s, &actions.items[i]);
        is_more = gw_door_next_event(s->door, &next);
        if (!is_more && s->cuts > 0) {
            next = (gw_event){.type = GW_EV_CUT, .u.cut = s->cut[--s->cuts]};
            is_more = true;
        }
        ev = &next;
    } while (is_more);
    note_readiness(s);
    gw_turn_go(&s->turn, before);
}

/* ---- the loop ----------------------------------------------------------------------------------- */

static bt_err run_http(server *s, bt_fault *fault)
{
    const gw_turn_part before = gw_turn_go(&s->turn, GW_TURN_CONNECTIONS);
    const bt_err e = gw_http_run(s->http, fault);
    gw_turn_go(&s->turn, before);
    return e;
}

/* After every handler: runs the HTTP side, gives its events to the brain, and sets the timer. */
static void settle(server *s)
{
    bt_fault f;
    gw_event ev;
    for (int rounds = 0; rounds < 4; rounds++) {
        const int64_t at = bt_clock_us();
        if (gw_http_due_us(s->http, at) > at || (rounds > 0 && !gw_turn_has_time(&s->turn))) break;
        const bt_err e = run_http(s, &f);
        if (e < 0) {
            stop_with(s, e, &f);
            return;
        }
    }
    while (gw_door_next_event(s->door, &ev)) step(s, &ev);
    if (s->is_draining && !s->has_told_drain && gw_door_unread_count(s->door) == 0) {
        s->has_told_drain = true;
        step(s, &(gw_event){.type = GW_EV_DRAIN});
    }

    const int64_t now = bt_clock_us();
    int64_t due = s->tick_due_us;
    const int64_t http = gw_http_due_us(s->http, now), brain = gw_brain_due_us(s->brain);
    if (http < due) due = http;
    if (brain < due) due = brain;
    if (gw_door_has_pages(s->door)) due = now;
    if (s->is_draining) {
        /* A node reads nothing more from a link that is closed, so the last acknowledgements get time to
         * be read. */
        const bool is_over = s->is_drained && gw_door_open_count(s->door) == 0;
        if (is_over && s->drained_us == 0) s->drained_us = now;
        if ((is_over && now - s->drained_us >= LAST_WORDS_US) || now >= s->drain_due_us) {
            bt_log(BT_LOG_INFO, "%s",
                   now >= s->drain_due_us ? "the drain timeout is over: some requests were cut off"
                                          : "drained");
            bt_loop_stop(s->loop);
            return;
        }
        if (due > now + DRAIN_LOOK_US) due = now + DRAIN_LOOK_US;
    }
    bt_loop_set_timer(s->loop, s->timer, due <= now ? 0 : (due - now + 999) / 1000);
}

static void on_timer(void *ud, unsigned events)
{
    server *s = ud;
    const int64_t now = bt_clock_us();
    (void)events;
    gw_turn_go(&s->turn, GW_TURN_TIMERS);
    if (gw_brain_due_us(s->brain) <= now) step(s, &(gw_event){.type = GW_EV_TICK});
    if (now >= s->tick_due_us) {
        gw_door_tick(s->door, now);
        s->tick_due_us = now + TICK_US;
    }
    gw_door_go_on(s->door);
    settle(s);
    gw_turn_go(&s->turn, GW_TURN_MESSAGES);
}

static void on_http(void *ud, unsigned events)
{
    server *s = ud;
    bt_fault f;
    (void)events;
    const bt_err e = run_http(s, &f);
    if (e < 0) stop_with(s, e, &f);
    settle(s);
}

static void on_work(void *ud) { settle(ud); }

static void on_turn(void *ud, bool is_over)
{
    server *s = ud;
    if (is_over) gw_turn_end(&s->turn);
    else gw_turn_begin(&s->turn);
}

static void on_message(void *ud, const bt_msg *msg)
{
    server *s = ud;
    step(s, &(gw_event){.type = GW_EV_MSG, .u.msg = msg});
    settle(s);
}

static void on_cut(void *ud)
{
    server *s = ud;
    step(s, &(gw_event){.type = GW_EV_CUT});
    settle(s);
}

/* SIGHUP: the key file is read again, to add clients or take them away. A bad file changes nothing. */
static void reload_api_keys(server *s)
{
    bt_fault f = {""};
    if (!s->auth) return;
    if (gw_auth_reload(s->auth, s->options->api_key_file, bt_clock_us(), &f) < 0)
        bt_log(BT_LOG_ERROR, "the API keys stay as they were: %s", f.text);
    else bt_log(BT_LOG_INFO, "API keys read again: %zu", gw_auth_count(s->auth));
}

/* Says until when the pair in use is good, and warns where it is not now. */
static void tell_certificate(server *s, const char *what)
{
    char from[32], to[32];
    struct tm tm;
    const gw_tls_facts f = gw_tls_facts_of(s->tls);
    const time_t begins = (time_t)f.begins_s, ends = (time_t)f.ends_s;
    const int64_t now = bt_clock_wall_s();
    (void)strftime(from, sizeof from, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&begins, &tm));
    (void)strftime(to, sizeof to, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&ends, &tm));
    bt_log(BT_LOG_INFO, "%s '%s', good from %s to %s", what, s->options->tls_cert, from, to);
    if (now < f.begins_s || now >= f.ends_s)
        bt_log(BT_LOG_WARN, "the certificate is %s: clients will refuse it",
               now < f.begins_s ? "not good yet" : "over");
}

/* SIGHUP: the certificate and its key are read again. Connections that are open keep the pair they have. */
static void reload_certificate(server *s)
{
    bt_fault f = {""};
    if (!s->tls) return;
    if (gw_tls_reload(s->tls, &f) < 0) bt_log(BT_LOG_ERROR, "the certificate stays as it was: %s", f.text);
    else tell_certificate(s, "certificate read again:");
}

static void on_signal(void *ud, int signo)
{
    server *s = ud;
    bt_fault f;
    if (signo == SIGHUP) {
        gw_node_link_reload(s->link);
        reload_api_keys(s);
        reload_certificate(s);
        return;
    }
    if (s->is_draining) {
        bt_log(BT_LOG_INFO, "second signal: leaving at once");
        bt_loop_stop(s->loop);
        return;
    }
    bt_log(BT_LOG_INFO, "draining: running requests have at most %lld ms to end",
           (long long)s->options->drain_ms);
    s->is_draining = true;
    s->drain_due_us = bt_clock_us() + s->options->drain_ms * 1000;
    if (bt_notify_send("STOPPING=1", &f) < 0) bt_log(BT_LOG_WARN, "$NOTIFY_SOCKET was not told: %s", f.text);
    gw_door_drain(s->door);
    settle(s); /* which tells the brain, once the bodies that have come are read */
}

/* ---- start and end ------------------------------------------------------------------------------ */

static void add_name(server *s, const char *name)
{
    for (size_t i = 0; i < s->names_len; i++)
        if (strcmp(s->names[i], name) == 0) return;
    if (!*name || strlen(name) >= NAME_BYTES || s->names_len == MAX_NAMES) return;
    (void)snprintf(s->name[s->names_len], NAME_BYTES, "%s", name);
    s->names[s->names_len] = s->name[s->names_len];
    s->names_len++;
}

/* The alias, the known name of the model, the name or file name that was given, and the name inside the
 * file. */
static void name_model(server *s, const char *path, const char *name_in_file)
{
    char stem[NAME_BYTES], known[BT_KNOWN_MAX_NAME + 1];
    const char *base = strrchr(s->options->model, '/');
    base = base ? base + 1 : s->options->model;
    size_t n = strlen(base);
    if (n > 5 && strcmp(base + n - 5, ".gguf") == 0) n -= 5;
    (void)snprintf(stem, sizeof stem, "%.*s", (int)(n < NAME_BYTES ? n : NAME_BYTES - 1), base);
    if (s->options->alias) add_name(s, s->options->alias);
    if (bt_store_name_of(known, path)) add_name(s, known);
    add_name(s, stem);
    add_name(s, name_in_file);
    if (s->names_len == 0) add_name(s, "model");
}

static void warn(void *ud, const char *text)
{
    (void)ud;
    bt_log(BT_LOG_WARN, "model file: %s", text);
}

/* The sampling of requests that do not give it: options before the file's values. */
static void read_defaults(server *s, const bt_gguf *file)
{
    const gw_options *o = s->options;
    s->defaults = bt_defaults_of(file, warn, NULL);
    for (int i = 0; i < BT_DEFAULT_FIELDS; i++) {
        const bt_default_field f = (bt_default_field)i;
        if (o->is_given[f]) bt_defaults_set(&s->defaults, f, gw_answer_option_value(&o->answers, f));
    }
}

/* The type of the most bytes of weights names the quantisation. */
static const char *quantisation(const bt_gguf *file)
{
    uint64_t bytes[256] = {0}, most = 0;
    uint32_t type = 0;
    for (size_t i = 0; i < bt_gguf_tensor_count(file); i++) {
        const bt_gguf_tensor *t = bt_gguf_tensor_at(file, i);
        if (t->type >= 256 || (bytes[t->type] += t->bytes) <= most) continue;
        most = bytes[t->type];
        type = t->type;
    }
    return bt_quant_type_name(type);
}

static void tell_facts(server *s, const bt_model *m)
{
    s->facts = (gw_model_facts){
        .names = s->names,         .names_len = s->names_len, .parameters = m->param_count,
        .bytes = m->weights_bytes, .vocab = m->hp.vocab,      .dim = m->hp.dim,
        .layers = m->hp.layers,    .ctx_tokens = m->hp.ctx,   .created_s = bt_clock_wall_s()};
    memcpy(s->facts.id, m->id, sizeof s->facts.id);
    (void)snprintf(s->facts.architecture, sizeof s->facts.architecture, "%s", bt_arch_of(m->hp.arch)->name);
    (void)snprintf(s->facts.quantisation, sizeof s->facts.quantisation, "%s", quantisation(m->file));
}

static bt_err open_model(server *s, bt_fault *fault)
{
    char path[4096];
    bt_model *m = NULL;
    bt_buf ends;
    bt_err e;
    if ((e = bt_model_find(path, sizeof path, s->options->model, fault)) < 0) return e;
    bt_wait_tell(NULL, BT_MODEL_OPENING, 0, 0);
    e = bt_model_open(&m, path, fault);
    if (e == BT_OK) e = gw_text_open(&s->text, m->file, s->options->chat_template, fault);
    bt_wait_end();
    if (e < 0) goto out;
    name_model(s, path, m->name);
    read_defaults(s, m->file);
    tell_facts(s, m);
    memcpy(s->config.model_id, m->id, sizeof s->config.model_id);
    bt_log(BT_LOG_INFO, "model '%s': vocabulary %zu, context %u tokens, chat template %s", s->names[0],
           bt_tokenizer_count(s->text.tok), s->facts.ctx_tokens,
           s->text.templates.chat ? s->text.templates.from : "none");
    if (bt_tokenizer_remark(s->text.tok)) warn(NULL, bt_tokenizer_remark(s->text.tok));
    if (s->text.calls) bt_log(BT_LOG_INFO, "calls of tools are read as %s", s->text.calls->name);
    else if (s->text.templates.chat)
        bt_log(BT_LOG_INFO,
               "the chat template writes calls of tools in no known form: requests with tools are refused");
    if (!s->text.templates.chat) bt_log(BT_LOG_WARN, "chats will be refused: %s", s->text.templates.why.text);
    bt_buf_init(&ends, 4096);
    gw_text_name_ends(&ends, &s->text);
    bt_log(BT_LOG_INFO, "an answer ends with %s",
           ends.len ? bt_buf_text(&ends) : "none of the model's tokens");
    bt_buf_done(&ends);
out:
    bt_model_close(m);
    return e;
}

static bt_err open_brain(server *s, bt_fault *fault)
{
    gw_config c = gw_config_defaults();
    memcpy(c.model_id, s->config.model_id, sizeof c.model_id);
    c.queue_max = (uint32_t)s->options->max_queue;
    c.active_max = (uint32_t)s->options->max_active;
    c.nodes_max = (uint32_t)s->options->max_nodes;
    c.policy = (gw_policy)(GW_POLICY_LEAST_LOAD + s->options->policy);
    c.local_below_tokens = (uint32_t)s->options->local_prefill_below;
    c.queue_us = s->options->timeout_ms * 1000;
    c.recovery_us = s->options->recovery_ms * 1000;
    (void)snprintf(c.node_id, sizeof c.node_id, "gateway-%d", (int)getpid());
    const bt_err e = bt_rng_entropy(c.self.bytes, sizeof c.self.bytes, fault);
    if (e < 0) return e;
    s->config = c;
    return gw_brain_new(&s->brain, &s->config, fault);
}

static bt_err open_http(server *s, bt_fault *fault)
{
    const gw_options *o = s->options;
    const gw_door_env env = {
        .options = o,
        .auth = s->auth,
        .prefix_secret = s->prefix_secret,
        .text = &s->text,
        .model = &s->facts,
        .defaults = &s->defaults,
        .brain = s->brain,
        .metrics = s->metrics,
        .turn = &s->turn,
        .aside = s->aside,
        .capture = s->capture,
        .link = s->link,
        .self = s->config.self,
        .node_id = s->config.node_id,
        .step = step,
        .ud = s,
    };
    const gw_http_config http = {.host = o->host,
                                 .port = (uint16_t)o->port,
                                 .connections_max = (unsigned)o->max_connections,
                                 .idle_s = (unsigned)((o->idle_ms + 999) / 1000),
                                 .body_max_bytes = (size_t)o->max_body_bytes,
                                 .bodies_max_bytes = 16 * (size_t)o->max_body_bytes,
                                 .cors = o->cors,
                                 .tls = s->tls};
    bt_err e = gw_door_new(&s->door, &env, fault);
    if (e < 0) return e;
    const gw_http_handler handler = gw_door_handler(s->door);
    if ((e = gw_http_open(&s->http, &http, &handler, fault)) < 0) return e;
    const bool is_ipv6 = strchr(o->host, ':') && o->host[0] != '[';
    (void)snprintf(s->url, sizeof s->url, "%s://%s%.250s%s:%u", s->tls ? "https" : "http", is_ipv6 ? "[" : "",
                   o->host, is_ipv6 ? "]" : "", gw_http_port(s->http));
    gw_door_set_http(s->door, s->http, s->url);
    bt_log(BT_LOG_INFO, "clients: %s%s", s->url, s->auth ? ", API key needed" : "");
    if (s->tls) tell_certificate(s, "certificate");
    return BT_OK;
}

static void tell_disk(const char *text) { bt_log(BT_LOG_WARN, "capture: %s", text); }

static bt_err open_capture(server *s, bt_fault *fault)
{
    const gw_options *o = s->options;
    const bt_capture_config c = {
        .path = o->capture,          .model = s->names[0],         .rotate_bytes = o->capture_rotate_bytes,
        .has_text = o->capture_text, .seal_file = o->capture_seal, .tell = tell_disk};
    uint64_t cut = 0;
    bt_fault why = {""};
    if (!o->capture) return BT_OK;
    const bt_err e = bt_capture_open(&s->capture, &cut, &c, &why);
    if (e < 0) return bt_fail(fault, e, "--capture: %.200s", why.text);
    if (cut)
        bt_log(BT_LOG_WARN, "capture: %llu bytes of a torn record were cut off", (unsigned long long)cut);
    bt_log(BT_LOG_INFO, "capturing to '%s'%s%s", o->capture, o->capture_text ? ", with texts" : "",
           o->capture_seal ? ", sealed" : "");
    return BT_OK;
}

static bt_err open_all(server *s, bt_fault *fault)
{
    const gw_options *o = s->options;
    uint64_t watch;
    bt_err e;
    if ((e = bt_loop_new(&s->loop, fault)) < 0) return e;
    if ((e = bt_loop_on_signals(s->loop, on_signal, s, fault)) < 0) return e;
    if ((e = bt_prefix_secret_open(&s->prefix_secret, o->keys, o->key, fault)) < 0) return e;
    if (o->api_key_file &&
        (e = gw_auth_load(&s->auth, o->api_key_file, s->prefix_secret, bt_clock_us(), fault)) < 0)
        return e;
    if (o->tls_cert && (e = gw_tls_open(&s->tls, o->tls_cert, o->tls_key, fault)) < 0) return e;
    if ((e = open_model(s, fault)) < 0) return e;
    if ((e = open_brain(s, fault)) < 0) return e;
    if ((e = gw_metrics_new(&s->metrics, s->names[0], fault)) < 0) return e;
    gw_turn_init(&s->turn, s->metrics);
    if ((e = bt_aside_new(&s->aside, s->loop, GW_LANES, on_work, s, fault)) < 0) return e;
    if ((e = open_capture(s, fault)) < 0) return e;
    if ((e = gw_node_link_open(&s->link, s->loop, (uint32_t)o->max_nodes, o->control, o->keys, o->key,
                               on_message, on_cut, s, fault)) < 0)
        return e;
    bt_log(BT_LOG_INFO, "nodes: %s%s, incarnation %02x%02x%02x%02x", gw_node_link_endpoint(s->link),
           o->keys ? ", encrypted" : "", s->config.self.bytes[0], s->config.self.bytes[1],
           s->config.self.bytes[2], s->config.self.bytes[3]);
    if ((e = open_http(s, fault)) < 0) return e;
    if ((e = bt_loop_add_fd(&watch, s->loop, gw_http_fd(s->http), BT_LOOP_IN, on_http, s)) < 0 ||
        (e = bt_loop_add_timer(&s->timer, s->loop, 0, TICK_US / 1000, on_timer, s)) < 0)
        return bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e));
    bt_loop_on_turns(s->loop, on_turn, s);
    bt_log(BT_LOG_INFO, "waiting for a prefill and a decode node, or a decode node that prefills itself");
    return BT_OK;
}

bt_err gw_server_run(const gw_options *o, bt_fault *fault)
{
    server *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory for the gateway");
    s->options = o;
    bt_err e = open_all(s, fault);
    if (e == BT_OK) e = bt_loop_run(s->loop, fault);
    if (e == BT_OK && s->failed < 0) {
        e = s->failed;
        if (fault) *fault = s->fault;
    }
    bt_loop_end_signals();
    gw_http_close(s->http);
    if (s->door) gw_door_set_http(s->door, NULL, s->url);
    bt_aside_free(s->aside);
    gw_door_free(s->door);
    if (!bt_capture_close(s->capture))
        bt_log(BT_LOG_WARN, "capture: the disk did not take the last records in time, and they are lost");
    gw_node_link_close(s->link);
    gw_brain_free(s->brain);
    gw_metrics_free(s->metrics);
    gw_auth_free(s->auth);
    gw_tls_free(s->tls);
    bt_prefix_secret_close(s->prefix_secret);
    gw_text_close(&s->text);
    bt_loop_free(s->loop);
    free(s);
    return e;
}
