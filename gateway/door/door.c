/* Requests from the client's side. A `live` is one request between SUBMIT and the brain's DONE or FAIL; its
 * exchange may end earlier (the client has gone) or later (the answer is still being sent). */
#include "gateway/door/door.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "gateway/door/answer.h"
#include "gateway/door/logprobs.h"
#include "gateway/door/refusal.h"
#include "gateway/door/role_http.h"
#include "gateway/door/status.h"
#include "rt/metrics.h"
#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIGN_OF_LIFE_US = 10000000, BODY_MAX_BYTES = 256 << 20 };
static const char BAD[] = "invalid_request_error", SERVER[] = "server_error";

typedef struct live {
    struct live *next;
    uint64_t number;
    gw_http_exchange *x; /* NULL: the client has gone */
    gw_answer_head head;
    gw_text_answer text;
    gw_logprobs logprobs;
    bt_buf ids; /* int32_t each, as given to the client */
    int32_t *prompt_ids;
    size_t prompt_len;
    size_t shown_bytes;       /* of text, already in the stream */
    bt_msg_first_token first; /* zero until it is known */
    int64_t arrived_us, wrote_us, token_us;
    bool is_stream, is_baton, has_begun;
    /* broken: out of memory in the middle of the answer */
    bool wants_finish, wants_cancel, is_late, is_broken;
} live;

/* A client that asked for another role of a node and waits for its answer. */
typedef struct asked {
    struct asked *next;
    uint64_t token;
    gw_http_exchange *x;
    char id[BT_MSG_MAX_ID_BYTES + 1];
    bt_role role;
} asked;

struct gw_door {
    gw_door_env env;
    const gw_http *http;
    const char *url;
    live *first;
    asked *roles;
    uint64_t number;
    uint8_t id_key[8];
    int64_t started_s;
    size_t open_count;
    bool is_draining;
};

bt_err gw_door_new(gw_door **ret, const gw_door_env *env, bt_fault *fault)
{
    gw_door *d = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "door");
    const bt_err e = bt_rng_entropy(d->id_key, sizeof d->id_key, fault);
    if (e < 0) {
        free(d);
        return e;
    }
    d->env = *env;
    d->started_s = bt_clock_wall_s();
    *ret = d;
    return BT_OK;
}

static void free_live(live *l)
{
    if (!l) return;
    gw_text_end(&l->text);
    gw_logprobs_end(&l->logprobs);
    bt_buf_done(&l->ids);
    free(l->prompt_ids);
    free(l);
}

void gw_door_free(gw_door *d)
{
    if (!d) return;
    while (d->first) {
        live *l = d->first;
        d->first = l->next;
        free_live(l);
    }
    while (d->roles) {
        asked *k = d->roles;
        d->roles = k->next;
        free(k);
    }
    free(d);
}

void gw_door_set_http(gw_door *d, const gw_http *http, const char *url)
{
    d->http = http;
    d->url = url;
}
void gw_door_drain(gw_door *d) { d->is_draining = true; }
size_t gw_door_open_count(const gw_door *d) { return d->open_count; }

/* ---- whole answers ------------------------------------------------------------------------------ */

static void answer_bytes(gw_door *d, gw_http_exchange *x, int status, const gw_http_headers *h,
                         const bt_buf *body)
{
    if (body->err < 0 || gw_http_answer(x, status, h, bt_buf_text(body), body->len) < 0) {
        gw_http_abandon(x);
        bt_log_request(BT_LOG_ERROR, gw_http_id(x), "out of memory: connection cut");
        return;
    }
    gw_metrics_answered(d->env.metrics, status);
}

static void answer_error(gw_door *d, gw_http_exchange *x, const gw_openai_error *err, const char *allow)
{
    bt_buf b;
    bt_buf_init(&b, BODY_MAX_BYTES);
    const gw_http_headers h = {.content_type = "application/json", .allow = allow,
                               .retry_after_s = err->retry_after_s,
                               .www_authenticate = err->status == 401 ? "Bearer" : NULL};
    if (gw_answer_error(&b, err) < 0) b.err = BT_ENOMEM;
    answer_bytes(d, x, err->status, &h, &b);
    bt_buf_done(&b);
    /* A 503 is what probes of /health get for minutes; that nodes are missing is logged once, when it
     * happens. */
    const bt_log_level level = err->status == 503   ? BT_LOG_DEBUG
                               : err->status >= 500 ? BT_LOG_WARN
                                                    : BT_LOG_INFO;
    bt_log_request(level, gw_http_id(x), "%d: %s", err->status, err->message);
}

/* What to say while no request would succeed; false: one would. */
static bool why_not(const gw_door *d, gw_openai_error *err)
{
    if (d->is_draining)
        (void)gw_openai_fail(err, 503, SERVER, "draining", NULL,
                             "The server is shutting down and takes no new requests.");
    else if (!gw_brain_is_ready(d->env.brain))
        (void)gw_openai_fail(err, 503, SERVER, "no_node", NULL,
                             "Neither a prefill node and a decode node that fit each other, nor a decode "
                             "node that computes prompts itself, are ready.");
    else return false;
    err->retry_after_s = 1;
    return true;
}

static void get_health(gw_door *d, gw_http_exchange *x)
{
    static const char ok[] = "{\"status\":\"ok\"}";
    gw_openai_error err;
    if (why_not(d, &err)) {
        answer_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, sizeof ok);
    (void)bt_buf_str(&b, ok);
    answer_bytes(d, x, 200, &(gw_http_headers){.content_type = "application/json"}, &b);
    bt_buf_done(&b);
}

static void get_metrics(gw_door *d, gw_http_exchange *x)
{
    gw_openai_error err;
    if (d->env.options->no_metrics) {
        (void)gw_openai_fail(&err, 404, BAD, "not_found", NULL, "This server was started with --no-metrics.");
        answer_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, BODY_MAX_BYTES);
    const bt_link_counters link = gw_node_link_counters(d->env.link);
    if (gw_metrics_render(d->env.metrics, &b, d->env.brain, &link, gw_http_connections(d->http)) < 0)
        b.err = BT_ENOMEM;
    answer_bytes(d, x, 200, &(gw_http_headers){.content_type = BT_METRICS_CONTENT_TYPE}, &b);
    bt_buf_done(&b);
}

static void get_models(gw_door *d, gw_http_exchange *x)
{
    bt_buf b;
    bt_buf_init(&b, BODY_MAX_BYTES);
    if (gw_answer_models(&b, d->env.names, d->env.names_len, d->started_s) < 0) b.err = BT_ENOMEM;
    answer_bytes(d, x, 200, &(gw_http_headers){.content_type = "application/json"}, &b);
    bt_buf_done(&b);
}

static void get_status(gw_door *d, gw_http_exchange *x)
{
    gw_status_facts f = {
        .brain = d->env.brain,
        .self = d->env.self,
        .node_id = d->env.node_id,
        .url = d->url,
        .state = d->is_draining                    ? "draining"
                 : gw_brain_is_ready(d->env.brain) ? "ready"
                                                   : "starting",
        .policy = gw_options_policies[d->env.options->policy],
        .control = gw_node_link_endpoint(d->env.link),
        .model_name = d->env.names[0],
        .ctx_tokens = d->env.ctx_tokens,
        .queue_max = (uint32_t)d->env.options->max_queue,
        .now_us = bt_clock_us(),
    };
    memcpy(f.model_id, d->env.model_id, sizeof f.model_id);
    bt_buf b;
    bt_buf_init(&b, BODY_MAX_BYTES);
    if (gw_status_render(&b, &f) < 0) b.err = BT_ENOMEM;
    answer_bytes(d, x, 200, &(gw_http_headers){.content_type = "application/json"}, &b);
    bt_buf_done(&b);
}

/* ---- a request comes ---------------------------------------------------------------------------- */

/* The limit of a sequence as far as it is known: the nodes', or the model's while there are none. */
static uint32_t context_limit(const gw_door *d)
{
    const uint64_t nodes = gw_brain_limit_tokens(d->env.brain);
    return nodes > 0 && nodes < d->env.ctx_tokens ? (uint32_t)nodes : d->env.ctx_tokens;
}

static bt_err fill_live(gw_door *d, live *l, gw_http_exchange *x, const gw_openai_request *r,
                        size_t max_tokens)
{
    bt_fault fault;
    const bt_err e = gw_text_begin(&l->text, d->env.text, r, max_tokens, &fault);
    if (e < 0) return e;
    bt_buf_init(&l->ids, max_tokens * sizeof(int32_t));
    if (r->sampling.logprobs) gw_logprobs_begin(&l->logprobs, d->env.text->tok, r->is_chat, max_tokens);
    l->x = x;
    l->number = ++d->number;
    l->arrived_us = l->wrote_us = l->token_us = bt_clock_us();
    l->is_stream = r->is_stream;
    l->is_baton = r->is_baton;
    l->head = (gw_answer_head){.is_chat = r->is_chat, .has_usage_chunk = r->has_usage_chunk,
                               .model = d->env.names[0], .created_s = bt_clock_wall_s()};
    uint64_t key;
    memcpy(&key, d->id_key, sizeof key);
    (void)snprintf(l->head.id, sizeof l->head.id, "%s-%016llx%08llx", r->is_chat ? "chatcmpl" : "cmpl",
                   (unsigned long long)key, (unsigned long long)l->number);
    return BT_OK;
}

static void submit(gw_door *d, gw_http_exchange *x, const gw_openai_request *r, gw_openai_error *err,
                   bt_err *ret)
{
    uint32_t max_tokens = 0;
    live *l = calloc(1, sizeof *l);
    bt_err e = l ? BT_OK : BT_ENOMEM;
    if (e == BT_OK) e = gw_text_prompt(&l->prompt_ids, &l->prompt_len, d->env.text, r, context_limit(d), err);
    if (e == BT_OK) e = gw_openai_max_tokens(&max_tokens, err, r, l->prompt_len, context_limit(d));
    if (e == BT_OK && (e = fill_live(d, l, x, r, max_tokens)) < 0) e = BT_ENOMEM;
    if (e < 0) {
        if (e == BT_ENOMEM) (void)gw_openai_fail(err, 500, SERVER, "out_of_memory", NULL, "Out of memory.");
        free_live(l);
        *ret = e;
        return;
    }
    gw_submit s = {.request = l->number,
                   .ids = l->prompt_ids,
                   .ids_len = (uint32_t)l->prompt_len,
                   .max_tokens = max_tokens,
                   .sampling = r->sampling,
                   .policy = (gw_policy)r->policy,
                   .draw_seed = !r->has_seed,
                   .stop_ids_len = d->env.text->stop_ids_len};
    memcpy(s.prefer_prefill, r->prefer_prefill, sizeof s.prefer_prefill);
    memcpy(s.prefer_decode, r->prefer_decode, sizeof s.prefer_decode);
    memcpy(s.stop_ids, d->env.text->stop_ids, sizeof s.stop_ids);
    for (uint32_t i = 0; i < r->stop_ids_len; i++) s.stop_ids[s.stop_ids_len++] = r->stop_ids[i];
    l->next = d->first;
    d->first = l;
    gw_http_set_user(x, l);
    bt_log_request(BT_LOG_INFO, gw_http_id(x), "request %llu: %s, %zu prompt tokens, at most %u more%s",
                   (unsigned long long)l->number, r->is_chat ? "chat" : "completion", l->prompt_len,
                   max_tokens, r->is_stream ? ", streamed" : "");
    *ret = BT_OK;
    d->env.step(d->env.ud, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s}); /* may free l already */
}

static void post_completion(gw_door *d, gw_http_exchange *x, const gw_http_request *r, bool is_chat)
{
    const gw_openai_limits limits = {d->env.names, d->env.names_len,
                                     (uint32_t)bt_tokenizer_count(d->env.text->tok),
                                     BT_MSG_MAX_STOP_IDS - d->env.text->stop_ids_len};
    gw_openai_error err;
    gw_openai_request request;
    bt_err e;
    if (d->is_draining && why_not(d, &err)) e = BT_EAGAIN;
    else if ((e = gw_openai_parse(&request, &err, is_chat, r->body, r->body_len, &limits)) == BT_OK) {
        submit(d, x, &request, &err, &e);
        gw_openai_request_done(&request);
    }
    if (e < 0) answer_error(d, x, &err, NULL);
}

static bool knows(const gw_door *d, const char *id)
{
    const gw_registry *r = gw_brain_registry(d->env.brain);
    for (uint32_t i = 0; i < r->cap; i++)
        if (r->nodes[i].in_use && r->nodes[i].state != GW_NODE_GONE &&
            strcmp(r->nodes[i].hello.node_id, id) == 0)
            return true;
    return false;
}

static void post_role(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    gw_event ev = {.type = GW_EV_ROLE};
    gw_openai_error err;
    asked *k = NULL;
    char shown[BT_MSG_MAX_ID_BYTES + 1];
    bt_err e;
    (void)gw_role_http_path(ev.u.role.node_id, r->path);
    if (r->origin && !r->authorization) /* a page that somebody looks at must not move nodes of this
                                                machine */
        e = gw_openai_fail(&err, 403, BAD, "forbidden", NULL,
                           "A web page may change a node's role only with an API key.");
    else if ((e = gw_role_http_parse(&ev.u.role.role, &err, r->body, r->body_len)) == BT_OK &&
             !knows(d, ev.u.role.node_id))
        e = gw_openai_fail(&err, 404, BAD, "node_not_found", NULL,
                           "No node is called '%s'; /v1/status lists those there are.",
                           bt_utf8_show(shown, sizeof shown, ev.u.role.node_id, strlen(ev.u.role.node_id)));
    else if (e == BT_OK && !(k = calloc(1, sizeof *k)))
        e = gw_openai_fail(&err, 500, SERVER, "out_of_memory", NULL, "Out of memory.");
    if (e < 0) {
        answer_error(d, x, &err, NULL);
        return;
    }
    ev.u.role.token = ++d->number;
    *k = (asked){.next = d->roles, .token = ev.u.role.token, .x = x, .role = ev.u.role.role};
    memcpy(k->id, ev.u.role.node_id, sizeof k->id);
    d->roles = k;
    bt_log_request(BT_LOG_INFO, gw_http_id(x), "asking node %s to serve as %s", k->id,
                   k->role == BT_ROLE_PREFILL ? "prefill" : "decode");
    d->env.step(d->env.ud, &ev); /* may answer already */
}

/* The brain's answer, to a client that may have gone. */
static void role_answered(gw_door *d, const gw_action *a)
{
    gw_openai_error err;
    bt_buf b;
    asked **at = &d->roles;
    while (*at && (*at)->token != a->u.role_answer.token) at = &(*at)->next;
    asked *k = *at;
    if (!k) return;
    *at = k->next;
    if (a->u.role_answer.code < 0) {
        gw_role_http_refused(&err, k->id, a->u.role_answer.code, a->u.role_answer.text);
        answer_error(d, k->x, &err, NULL);
    } else {
        bt_buf_init(&b, BODY_MAX_BYTES);
        if (gw_role_http_answer(&b, k->id, k->role, a->u.role_answer.text) < 0) b.err = BT_ENOMEM;
        answer_bytes(d, k->x, 200, &(gw_http_headers){.content_type = "application/json"}, &b);
        bt_buf_done(&b);
    }
    free(k);
}

static void forget_asked(gw_door *d, const gw_http_exchange *x)
{
    asked **at = &d->roles;
    while (*at && (*at)->x != x) at = &(*at)->next;
    asked *k = *at;
    if (!k) return;
    *at = k->next;
    free(k);
}

static void post_chat(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_completion(d, x, r, true);
}
static void post_text(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_completion(d, x, r, false);
}
static void health(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    get_health(d, x);
}
static void metrics(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    get_metrics(d, x);
}
static void models(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    get_models(d, x);
}
static void status(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    get_status(d, x);
}

static const struct endpoint {
    const char *path;
    bool is_post, is_open; /* open: no API key needed */
    void (*serve)(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
} endpoints[] = {
    {"/v1/chat/completions", true, false, post_chat},
    {"/v1/completions", true, false, post_text},
    {"/v1/nodes/{id}/role", true, false, post_role},
    {"/v1/models", false, false, models},
    {"/v1/status", false, false, status},
    {"/metrics", false, false, metrics},
    {"/health", false, true, health},
    {"/v1/health", false, true, health},
};

static bool is_get(const char *method) { return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0; }

/* NULL: *err says why. */
static const struct endpoint *find_endpoint(const gw_door *d, const gw_http_request *r, gw_openai_error *err,
                                            const char **ret_allow)
{
    *ret_allow = NULL;
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        const struct endpoint *p = &endpoints[i];
        if (p->serve == post_role ? !gw_role_http_path(NULL, r->path) : strcmp(p->path, r->path) != 0)
            continue;
        if (p->is_post ? strcmp(r->method, "POST") != 0 : !is_get(r->method)) {
            *ret_allow = p->is_post ? "POST" : "GET, HEAD";
            (void)gw_openai_fail(err, 405, BAD, "method_not_allowed", NULL,
                                 "%.32s is not allowed for %s; use %s.", r->method, p->path,
                                 p->is_post ? "POST" : "GET");
            return NULL;
        }
        if (!p->is_open && !gw_auth_allows(d->env.auth, r->authorization)) {
            (void)gw_openai_fail(err, 401, BAD, "invalid_api_key", NULL,
                                 r->authorization
                                     ? "The API key is not one of this server's."
                                     : "This server needs an API key: send 'Authorization: Bearer KEY'.");
            return NULL;
        }
        return p;
    }
    (void)gw_openai_fail(err, 404, BAD, "not_found", NULL, "There is nothing at %.100s.", r->path);
    return NULL;
}

static bool wants_body(void *ud, const gw_http_request *r)
{
    gw_openai_error err;
    const char *allow;
    const struct endpoint *p = find_endpoint(ud, r, &err, &allow);
    return p && p->is_post;
}

static bool has_own_place(void *ud, const gw_http_request *r)
{
    gw_openai_error err;
    const char *allow;
    const struct endpoint *p = find_endpoint(ud, r, &err, &allow);
    return p && (p->serve == health || p->serve == metrics);
}

static void on_request(void *ud, gw_http_exchange *x, const gw_http_request *r)
{
    gw_door *d = ud;
    gw_openai_error err;
    const char *allow = NULL;
    const bool is_refused = gw_refusal_tell(&err, r->refusal, (uint64_t)d->env.options->max_body_bytes);
    const struct endpoint *p = is_refused ? NULL : find_endpoint(d, r, &err, &allow);
    d->open_count++;
    if (p) p->serve(d, x, r);
    else answer_error(d, x, &err, allow);
}

static void on_ended(void *ud, gw_http_exchange *x, bool was_sent)
{
    gw_door *d = ud;
    live *l = gw_http_user(x);
    d->open_count--;
    forget_asked(d, x);
    if (!l) return;
    l->x = NULL;
    l->wants_cancel = true;
    if (!was_sent) bt_log_request(BT_LOG_INFO, gw_http_id(x), "the client has gone");
}

gw_http_handler gw_door_handler(gw_door *d)
{
    return (gw_http_handler){.ud = d, .wants_body = wants_body, .has_own_place = has_own_place,
                             .request = on_request, .ended = on_ended};
}

/* ---- an answer grows ---------------------------------------------------------------------------- */

static live *find_live(gw_door *d, uint64_t number)
{
    live *l = d->first;
    while (l && l->number != number) l = l->next;
    return l;
}

/* Out of memory in the middle: the client loses its connection, the brain the request. */
static void give_up(live *l)
{
    if (l->is_broken) return;
    l->is_broken = l->wants_cancel = true;
    if (!l->x) return;
    bt_log_request(BT_LOG_ERROR, gw_http_id(l->x), "out of memory: connection cut");
    gw_http_set_user(l->x, NULL);
    gw_http_abandon(l->x);
    l->x = NULL;
}

static bool begin_stream(gw_door *d, live *l)
{
    if (l->has_begun) return true;
    l->has_begun = true;
    if (gw_http_stream(l->x) < 0 || gw_answer_role(gw_http_stream_buf(l->x), &l->head) < 0) {
        give_up(l);
        return false;
    }
    gw_metrics_answered(d->env.metrics, 200);
    return true;
}

/* is_over: the text has ended, and with it what of its log probabilities was still held back. */
static void show_fresh_text(gw_door *d, live *l, bool is_over)
{
    const size_t fresh = l->text.text.len - l->shown_bytes;
    if (!l->x || !l->is_stream || !begin_stream(d, l)) return;
    if (fresh == 0 && !(is_over && gw_logprobs_waits(&l->logprobs, &l->text, true))) return;
    if (gw_answer_text(gw_http_stream_buf(l->x), &l->head, bt_buf_text(&l->text.text) + l->shown_bytes, fresh,
                       gw_logprobs_tell(&l->logprobs, &l->text, is_over)) < 0) {
        give_up(l);
        return;
    }
    l->shown_bytes += fresh;
    l->wrote_us = bt_clock_us();
    gw_http_flush(l->x);
}

/* A node sent an id that its model does not have: the client is told, and the request is over for both
 * nodes. */
static void refuse_node(gw_door *d, live *l, const bt_fault *fault)
{
    gw_openai_error err;
    l->is_broken = l->wants_cancel = true;
    if (!l->x) return;
    bt_log_request(BT_LOG_ERROR, gw_http_id(l->x), "request %llu: a node sent %s",
                   (unsigned long long)l->number, fault->text);
    (void)gw_openai_fail(&err, 502, SERVER, "node_failed", NULL, "A node sent what its model cannot say: %s",
                         fault->text);
    gw_http_set_user(l->x, NULL);
    if (!l->has_begun) answer_error(d, l->x, &err, NULL);
    else if (gw_answer_error_event(gw_http_stream_buf(l->x), &err) < 0) gw_http_abandon(l->x);
    else gw_http_end(l->x);
    l->x = NULL;
}

static void take_tokens(gw_door *d, live *l, const gw_action *a)
{
    const int64_t now = bt_clock_us();
    bt_fault fault;
    if (l->is_broken) return;
    if (a->u.tokens.first_index > 0)
        gw_metrics_between_tokens(d->env.metrics, now - l->token_us, a->u.tokens.ids_len);
    l->token_us = now;
    for (uint32_t i = 0; i < a->u.tokens.ids_len; i++) {
        const int32_t id = a->u.tokens.ids[i];
        if (l->text.is_stopped) break;
        const size_t begin_bytes = gw_text_made(&l->text);
        bt_err e = bt_buf_add(&l->ids, &id, sizeof id);
        if (e == BT_OK) e = gw_text_push(&l->text, id, &fault);
        if (e == BT_OK && l->logprobs.tok && a->u.tokens.logprobs)
            e = gw_logprobs_push(&l->logprobs, &l->text, begin_bytes, id, &a->u.tokens.logprobs[i]);
        if (e < 0) {
            if (e == BT_EARG) refuse_node(d, l, &fault);
            else give_up(l);
            return;
        }
    }
    l->wants_finish |= l->text.is_stopped;
    show_fresh_text(d, l, false);
}

static void fill_report(gw_answer_report *r, const live *l, bt_finish reason, const gw_stats *s)
{
    *r = (gw_answer_report){
        .finish_reason = reason == BT_FINISH_LENGTH && !l->text.is_stopped ? "length" : "stop",
        .prompt_ids = l->prompt_ids,
        .prompt_tokens = l->prompt_len,
        .token_ids = (const int32_t *)(const void *)l->ids.data,
        .completion_tokens = l->ids.len / sizeof(int32_t),
        .text = bt_buf_text(&l->text.text),
        .text_len = l->text.text.len,
        .ttft_us = s->ttft_us < 0 ? 0 : s->ttft_us,
        .has_prefill = s->has_first,
        .queue_us = s->queue_us,
        .prefill_us = s->prefill_us,
        .has_decode = s->has_decode,
        .decode_us = s->decode_us,
        .decode_steps = s->decode_steps,
        .has_kv = s->has_kv,
        .kv_bytes = s->kv_bytes,
        .kv_exposed_us = s->kv_exposed_us,
        .kv_digest = s->kv_digest,
        .work = s->work,
        .engine = s->engine,
        .prefilled_by = s->prefilled_by,
        .attempts = s->attempts,
        .recoveries = s->recoveries,
        .cached_tokens = s->cached_tokens < l->prompt_len ? s->cached_tokens : 0,
        .covered_tokens = s->covered_tokens,
        .top_len = l->first.top_len,
    };
    memcpy(r->top_ids, l->first.top_ids, sizeof r->top_ids);
    memcpy(r->top_logits, l->first.top_logits, sizeof r->top_logits);
}

static void send_whole(gw_door *d, live *l, const gw_answer_report *r)
{
    bt_buf b;
    bt_buf_init(&b, BODY_MAX_BYTES);
    if (gw_answer_whole(&b, &l->head, r, gw_logprobs_tell(&l->logprobs, &l->text, true), l->is_baton) < 0)
        b.err = BT_ENOMEM;
    answer_bytes(d, l->x, 200, &(gw_http_headers){.content_type = "application/json"}, &b);
    bt_buf_done(&b);
}

static void finish(gw_door *d, live *l, bt_finish reason, const gw_stats *s)
{
    gw_answer_report r;
    bt_fault fault;
    gw_metrics_done(d->env.metrics, reason, s);
    if (!l->x) return;
    if (gw_text_finish(&l->text, &fault) < 0) {
        give_up(l);
        return;
    }
    show_fresh_text(d, l, true);
    if (!l->x) return;
    fill_report(&r, l, reason, s);
    bt_log_request(BT_LOG_INFO, gw_http_id(l->x), "request %llu: done (%s), %zu tokens, first after %lld ms",
                   (unsigned long long)l->number, r.finish_reason, r.completion_tokens,
                   (long long)(r.ttft_us / 1000));
    gw_http_set_user(l->x, NULL);
    if (!l->is_stream) {
        send_whole(d, l, &r);
    } else if (!begin_stream(d, l) ||
               gw_answer_end(gw_http_stream_buf(l->x), &l->head, &r, l->is_baton) < 0) {
        give_up(l);
    } else {
        gw_http_end(l->x);
    }
}

static void fail_error(gw_openai_error *err, const live *l, const gw_action *a)
{
    static const struct {
        int status;
        const char *type, *code;
    } kinds[] = {
        [GW_FAIL_NO_NODE] = {503, SERVER, "no_node"},
        [GW_FAIL_OVERLOADED] = {429, "rate_limit_error", "queue_full"},
        [GW_FAIL_NODE_LOST] = {502, SERVER, "node_lost"},
        [GW_FAIL_TIMEOUT] = {504, SERVER, "timeout"},
        [GW_FAIL_TOO_LONG] = {400, BAD, "context_length_exceeded"},
        [GW_FAIL_REFUSED] = {502, SERVER, "node_failed"},
        [GW_FAIL_CANCELLED] = {504, SERVER, "timeout"}, /* somebody listens, so it was our own deadline */
        [GW_FAIL_BAD] = {400, BAD, "invalid_value"},
    };
    const gw_fail_kind k = a->u.fail.kind;
    const char *param = k == GW_FAIL_TOO_LONG ? (l->head.is_chat ? "messages" : "prompt") : NULL;
    (void)gw_openai_fail(err, kinds[k].status, kinds[k].type, kinds[k].code, param, "%s",
                         l->is_late ? "The request took longer than --timeout allows." : a->u.fail.text);
    if (a->u.fail.retry_after_ms || k == GW_FAIL_OVERLOADED || k == GW_FAIL_NO_NODE)
        err->retry_after_s = a->u.fail.retry_after_ms / 1000 + 1;
}

static void fail(gw_door *d, live *l, const gw_action *a)
{
    gw_openai_error err;
    gw_metrics_failed(d->env.metrics, l->is_late ? GW_FAIL_TIMEOUT : a->u.fail.kind, &a->u.fail.stats);
    if (!l->x) return;
    fail_error(&err, l, a);
    gw_http_set_user(l->x, NULL);
    if (!l->has_begun) {
        answer_error(d, l->x, &err, NULL);
        return;
    }
    bt_log_request(BT_LOG_WARN, gw_http_id(l->x), "request %llu failed in the middle of its stream: %s",
                   (unsigned long long)l->number, err.message);
    if (gw_answer_error_event(gw_http_stream_buf(l->x), &err) < 0) gw_http_abandon(l->x);
    else gw_http_end(l->x);
}

static void remove_live(gw_door *d, live *l)
{
    live **at = &d->first;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    free_live(l);
}

void gw_door_act(gw_door *d, const gw_action *a)
{
    if (a->type == GW_DO_ROLE_ANSWER) {
        role_answered(d, a);
        return;
    }
    live *l = find_live(d, a->request);
    if (!l) return;
    if (a->type == GW_DO_FIRST) {
        l->first = a->u.first.msg;
        if (l->x && l->is_stream && begin_stream(d, l)) gw_http_flush(l->x);
    } else if (a->type == GW_DO_TOKENS) {
        take_tokens(d, l, a);
    } else if (a->type == GW_DO_DONE) {
        finish(d, l, a->u.done.reason, &a->u.done.stats);
        remove_live(d, l);
    } else if (a->type == GW_DO_FAIL) {
        fail(d, l, a);
        remove_live(d, l);
    }
}

bool gw_door_next_event(gw_door *d, gw_event *ret)
{
    for (live *l = d->first; l; l = l->next) {
        if (!l->wants_cancel && !l->wants_finish) continue;
        *ret =
            (gw_event){.type = l->wants_cancel ? GW_EV_CANCEL : GW_EV_FINISH_EARLY, .u.request = l->number};
        l->wants_cancel = l->wants_finish = false;
        return true;
    }
    return false;
}

void gw_door_tick(gw_door *d, int64_t now_us)
{
    for (live *l = d->first; l; l = l->next) {
        if (!l->is_late && now_us - l->arrived_us >= d->env.options->timeout_ms * 1000)
            l->is_late = l->wants_cancel = true;
        if (!l->x || !l->is_stream || now_us - l->wrote_us < SIGN_OF_LIFE_US || !begin_stream(d, l)) continue;
        l->wrote_us = now_us;
        if (bt_buf_str(gw_http_stream_buf(l->x), ": keep-alive\n\n") < 0) give_up(l);
        else gw_http_flush(l->x);
    }
}
