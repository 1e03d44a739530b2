/* The owner of each path, a request from the bytes of its POST to the last byte of its answer, and the way of
 * each action of the brain. */
#include "gateway/door/door.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "gateway/api/endpoints.h"
#include "gateway/api/ollama.h"
#include "gateway/api/refusal.h"
#include "gateway/api/structure.h"
#include "gateway/api/words.h"
#include "gateway/door/answers.h"
#include "gateway/door/bodies.h"
#include "gateway/door/capture.h"
#include "gateway/door/live.h"
#include "gateway/door/pages.h"
#include "gateway/door/reply.h"
#include "gateway/door/rights.h"
#include "gateway/door/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bt_err gw_door_new(gw_door **ret, const gw_door_env *env, bt_fault *fault)
{
    gw_door *d = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "out of memory for the HTTP door");
    const uint64_t most = (uint64_t)env->options->max_queue + (uint64_t)env->options->max_active;
    bt_err e = bt_rng_entropy(d->id_key, sizeof d->id_key, fault);
    if (e == BT_OK && !(d->structures = gw_structures_new()))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the HTTP door");
    if (e == BT_OK) e = gw_live_open(d, most, fault);
    if (e < 0) {
        gw_structures_free(d->structures);
        free(d);
        return e;
    }
    d->env = *env;
    d->own_bos.every_ms = 60000;
    bt_buf_init(&d->openapi, GW_DOOR_ANSWER_MAX_BYTES);
    *ret = d;
    return BT_OK;
}

void gw_door_free(gw_door *d)
{
    if (!d) return;
    gw_reply_tick(d);
    gw_live_close(d);
    gw_roles_free(d);
    gw_structures_free(d->structures);
    gw_pages_free(d);
    bt_buf_done(&d->openapi);
    free(d);
}

void gw_door_set_http(gw_door *d, gw_http *http, const char *url)
{
    d->http = http;
    d->url = url;
}
void gw_door_drain(gw_door *d) { d->is_draining = true; }
size_t gw_door_open_count(const gw_door *d) { return d->open_count; }
size_t gw_door_unread_count(const gw_door *d) { return d->unread_count; }

/* ---- a request: from the body of a POST to a SUBMIT for the brain ---- */

static void fill_live(gw_door *d, gw_live *l, const gw_dialect *t, const gw_ask *r)
{
    l->head = gw_dialect_answer(t, r);
    bt_buf_init(&l->ids, l->bound.tokens * sizeof(int32_t));
    if (r->sampling.logprobs)
        gw_logprobs_begin(&l->logprobs, d->env.text->tok, l->head.dialect->logprobs, r->sampling.top_logprobs,
                          l->text.prompt_chars, l->bound.tokens);
    l->number = ++d->number;
    l->wrote_us = l->token_us = bt_clock_us();
    l->is_chat = r->is_chat;
    l->is_stream = r->is_stream;
    l->is_baton = r->is_baton;
    l->top_logprobs = r->sampling.top_logprobs;
    gw_capture_begin(l, &r->sampling);
    l->head.model = d->env.model->names[0];
    l->head.created_us = bt_clock_wall_us();
    if (l->logprobs.tok) l->head.logprobs = &l->logprobs;
    l->head.prompt_tokens = l->prompt_len;
    uint64_t key;
    memcpy(&key, d->id_key, sizeof key);
    (void)snprintf(l->head.id, sizeof l->head.id, "%s%016llx%08llx", l->head.dialect->id,
                   (unsigned long long)key, (unsigned long long)l->number);
}

/* Who may find what the request's prompt leaves on nodes. */
static bt_prompt_salt salt_of(const gw_door *d, const gw_key *k, const gw_ask *r)
{
    const bool is_one_for_all = !k || d->env.options->shares_prefixes;
    return bt_prefix_salt(d->env.prefix_secret, is_one_for_all ? NULL : &k->owner, r->cache_salt);
}

/* Takes l. */
static void submit(gw_door *d, gw_live *l, const gw_dialect *t, const gw_ask *r)
{
    gw_http_exchange *x = l->x;
    fill_live(d, l, t, r);
    gw_submit s = {.request = l->number,
                   .ids = l->prompt_ids,
                   .ids_len = (uint32_t)l->prompt_len,
                   .max_tokens = l->bound.tokens,
                   .salt = salt_of(d, l->key, r),
                   .sampling = r->sampling,
                   .policy = (gw_policy)r->policy,
                   .draw_seed = !r->has_seed,
                   .share = l->share,
                   .priority = r->priority,
                   .weight = l->key ? l->key->facts.weight : 0,
                   .stop_ids_len = r->ignores_eos ? 0 : d->env.text->stop_ids_len};
    memcpy(s.prefer_prefill, r->prefer_prefill, sizeof s.prefer_prefill);
    memcpy(s.prefer_decode, r->prefer_decode, sizeof s.prefer_decode);
    memcpy(s.stop_ids, d->env.text->stop_ids, s.stop_ids_len * sizeof *s.stop_ids);
    for (uint32_t i = 0; i < r->stop_ids_len; i++) s.stop_ids[s.stop_ids_len++] = r->stop_ids[i];
    gw_live_add(d, l);
    gw_http_set_user(x, l);
    bt_log_request(BT_LOG_INFO, gw_http_id(x), "request %llu: %s, %zu prompt tokens, at most %u more%s",
                   (unsigned long long)l->number, t->name, l->prompt_len, l->bound.tokens,
                   r->is_stream ? ", streamed" : "");
    if (l->text.brings_bos)
        bt_log_ratelimited(&d->own_bos, BT_LOG_WARN,
                           "a prompt begins with the BOS token that the model's file asks for; no second one "
                           "is added (request %llu)",
                           (unsigned long long)l->number);
    d->env.step(d->env.ud, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s}); /* may free l already */
}

static void was_read(gw_body *b)
{
    gw_live *l = b->live;
    if (b->e == BT_EARG) gw_rights_name_context(l->key, b->ctx_tokens, &b->err);
    if (b->e == BT_OK) b->e = gw_rights_choose_nodes(b->door, l->key, &b->request, &b->err);
    if (b->e == BT_OK && !b->request.is_load) b->e = gw_rights_begin(l, &b->err);
    if (b->e < 0) {
        gw_http_set_user(l->x, NULL);
        gw_reply_error(b->door, l->x, &b->err, NULL);
        return;
    }
    if (b->request.is_load) {
        gw_http_set_user(l->x, NULL);
        gw_reply_json(b->door, l->x, &b->answer);
        return;
    }
    b->live = NULL;
    submit(b->door, l, b->dialect, &b->request);
}

static void post(gw_door *d, gw_http_exchange *x, const gw_http_request *r,
                 void (*read)(gw_body *b, const char *bytes))
{
    gw_error err;
    const bool is_closed = d->is_draining && gw_reply_not_ready(d, &err);
    if (is_closed || gw_rights_arrive(r->caller, &err) < 0) gw_reply_error(d, x, &err, NULL);
    else gw_bodies_read(d, x, r, read, was_read);
}

/* ---- its answer: from the first token to the last byte ---- */

/* is_over: the text has ended, and no log probability is held back any longer. */
static void show_fresh_text(gw_door *d, gw_live *l, bool is_over)
{
    bt_thoughts_part p = {.text = {"", 0}};
    bt_call call;
    const gw_dialect *t = l->head.dialect;
    if (!l->x || !l->is_stream || !gw_live_begin_stream(d, l)) return;
    bool has_more = gw_text_next(&p, &call, &l->text, is_over);
    if (!has_more && !(is_over && gw_logprobs_waits(&l->logprobs, &l->text, true))) return;
    l->head.now_us = bt_clock_wall_us();
    while (has_more || (is_over && gw_logprobs_waits(&l->logprobs, &l->text, true))) {
        bt_buf *out = gw_http_stream_buf(l->x);
        if (!has_more) p = (bt_thoughts_part){.text = {"", 0}}; /* for log probabilities that no part told */
        const bt_err e = call.name
                             ? t->call(out, &l->head, &call)
                             : t->part(out, &l->head, &p, gw_logprobs_tell(&l->logprobs, &l->text, is_over));
        if (e < 0 || l->text.said.err < 0) {
            gw_live_give_up(l);
            return;
        }
        if (has_more) has_more = gw_text_next(&p, &call, &l->text, is_over);
    }
    l->wrote_us = bt_clock_us();
    gw_http_flush(l->x);
}

/* A node sent an id that its model does not have: the client is told, and the request is over for both
 * nodes. */
static void refuse_node(gw_door *d, gw_live *l, const bt_fault *fault)
{
    gw_error err;
    l->is_broken = true;
    gw_live_want(l, true);
    if (!l->x) return;
    bt_log_request(BT_LOG_ERROR, gw_http_id(l->x),
                   "request %llu: a node sent a token that the model does not have: %s",
                   (unsigned long long)l->number, fault->text);
    (void)gw_error_say(&err, 502, "node_failed", NULL, "A node sent a token that the model does not have: %s",
                       fault->text);
    gw_http_set_user(l->x, NULL);
    if (!l->has_begun) gw_reply_error(d, l->x, &err, NULL);
    else if (gw_dialect_error_event(gw_http_stream_buf(l->x), l->head.dialect, &err) < 0)
        gw_http_abandon(l->x);
    else gw_http_end(l->x);
    l->x = NULL;
}

static bt_err take_token(gw_live *l, int32_t id, const bt_msg_logprob *logprob, bt_fault *fault)
{
    const size_t begin_bytes = gw_text_made(&l->text);
    if (gw_text_is_stop(&l->text, id)) return gw_text_stop(&l->text, id, fault);
    bt_err e = bt_buf_add(&l->ids, &id, sizeof id);
    if (e == BT_OK) e = gw_text_push(&l->text, id, fault);
    if (e == BT_OK && l->logprobs.tok && logprob)
        e = gw_logprobs_push(&l->logprobs, &l->text, begin_bytes, id, logprob);
    return e;
}

static void grow(gw_door *d, gw_live *l, const gw_action *a)
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
        const bt_err e = take_token(l, id, a->u.tokens.logprobs ? &a->u.tokens.logprobs[i] : NULL, &fault);
        if (e < 0) {
            if (e == BT_EARG) refuse_node(d, l, &fault);
            else gw_live_give_up(l);
            return;
        }
    }
    l->head.answer_tokens = l->ids.len / sizeof(int32_t);
    if (l->text.is_stopped) gw_live_want(l, false);
    show_fresh_text(d, l, false);
}

/* Not NULL: the end of the answer is still to be written. */
static gw_written *finish(gw_door *d, gw_live *l, bt_finish reason, const gw_stats *s)
{
    bt_fault fault;
    gw_metrics_done(d->env.metrics, reason, s);
    gw_key_pace_ended(&d->pace, bt_clock_us());
    gw_rights_end(l, s);
    if (!l->x) return NULL;
    if (gw_text_finish(&l->text, &fault) < 0) {
        gw_live_give_up(l);
        return NULL;
    }
    show_fresh_text(d, l, true);
    return l->x ? gw_answers_end(d, l, reason, s) : NULL;
}

static void fail_error(gw_error *err, const gw_live *l, const gw_action *a)
{
    static const struct {
        int status;
        const char *code;
    } kinds[] = {
        [GW_FAIL_NO_NODE] = {503, "no_node"},
        [GW_FAIL_OVERLOADED] = {429, "queue_full"},
        [GW_FAIL_NODE_LOST] = {502, "node_lost"},
        [GW_FAIL_TIMEOUT] = {504, "timeout"},
        [GW_FAIL_TOO_LONG] = {400, "context_length_exceeded"},
        [GW_FAIL_REFUSED] = {502, "node_failed"},
        [GW_FAIL_CANCELLED] = {504, "timeout"}, /* somebody listens, so it was our own deadline */
        [GW_FAIL_BAD] = {400, "invalid_value"},
        [GW_FAIL_UNKNOWN_NODE] = {404, "node_not_found"},
        [GW_FAIL_NOT_FINITE] = {500, "not_finite"},
    };
    const gw_fail_kind k = a->u.fail.kind;
    const char *param = k == GW_FAIL_TOO_LONG       ? l->head.dialect->prompt
                        : k == GW_FAIL_UNKNOWN_NODE ? "baton"
                                                    : NULL;
    (void)gw_error_say(err, kinds[k].status, kinds[k].code, param, "%s",
                       l->is_late ? "The request took longer than --timeout allows." : a->u.fail.text);
    if (a->u.fail.retry_after_ms || k == GW_FAIL_OVERLOADED || k == GW_FAIL_NO_NODE)
        err->retry_after_s = a->u.fail.retry_after_ms / 1000 + 1;
}

static void fail(gw_door *d, gw_live *l, const gw_action *a)
{
    gw_error err;
    gw_metrics_failed(d->env.metrics, l->is_late ? GW_FAIL_TIMEOUT : a->u.fail.kind, &a->u.fail.stats);
    if (a->u.fail.stats.attempts > 0) gw_key_pace_ended(&d->pace, bt_clock_us());
    if (a->u.fail.kind == GW_FAIL_OVERLOADED && l->key) l->key->refusals[GW_KEY_LIMITS]++;
    gw_rights_end(l, &a->u.fail.stats);
    if (!l->x) return;
    fail_error(&err, l, a);
    if (a->u.fail.kind == GW_FAIL_OVERLOADED) /* when the line would have been served at the pace of the last
                                                 ones */
        gw_rights_retry_after(&err,
                              gw_key_pace_wait_us(&d->pace, gw_brain_queued(d->env.brain), bt_clock_us()));
    gw_http_set_user(l->x, NULL);
    if (!l->has_begun) {
        gw_reply_error(d, l->x, &err, NULL);
        return;
    }
    bt_log_request(BT_LOG_WARN, gw_http_id(l->x), "request %llu failed in the middle of its stream: %s",
                   (unsigned long long)l->number, err.message);
    if (gw_dialect_error_event(gw_http_stream_buf(l->x), l->head.dialect, &err) < 0) gw_http_abandon(l->x);
    else gw_http_end(l->x);
}

/* ---- paths ---- */

static void post_answer(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post(d, x, r, gw_bodies_ask);
}

/* Answers that need no node: the body is read by the words' own function. */
static void was_answered(gw_body *b)
{
    gw_http_exchange *x = b->live->x;
    gw_http_set_user(x, NULL);
    if (b->e < 0) gw_reply_error(b->door, x, &b->err, NULL);
    else gw_reply_json(b->door, x, &b->answer);
}

static void read_words(gw_body *b, gw_words *words, const char *bytes)
{
    b->e = words(&b->answer, &b->err, b->door->env.text, bytes, b->len, &b->limits);
}

static void read_tokenize(gw_body *b, const char *bytes) { read_words(b, gw_words_tokenize, bytes); }
static void read_detokenize(gw_body *b, const char *bytes) { read_words(b, gw_words_detokenize, bytes); }

static void post_words(gw_door *d, gw_http_exchange *x, const gw_http_request *r,
                       void (*read)(gw_body *b, const char *bytes))
{
    gw_error err;
    if (gw_rights_arrive(r->caller, &err) < 0) gw_reply_error(d, x, &err, NULL);
    else gw_bodies_read(d, x, r, read, was_answered);
}

static void post_tokenize(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_words(d, x, r, read_tokenize);
}

static void post_detokenize(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_words(d, x, r, read_detokenize);
}

static void read_ollama_show(gw_body *b, const char *bytes) { read_words(b, gw_ollama_show, bytes); }

static void post_ollama_show(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_words(d, x, r, read_ollama_show);
}

static void post_count(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_words(d, x, r, gw_bodies_count);
}

static void post_template(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    post_words(d, x, r, gw_bodies_template);
}

static void (*const serve[])(gw_door *d, gw_http_exchange *x, const gw_http_request *r) = {
#define X(path, method, right, dialect, serve, summary, request, answer) serve,
#include "gateway/api/endpoints_table.h"
#undef X
};

static bool is_get(const char *method) { return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0; }

/* Its place in the table; gw_endpoints_len: *err says why it is none. */
static size_t find_endpoint(const gw_door *d, const gw_http_request *r, gw_error *err, const char **ret_allow)
{
    const size_t i = gw_endpoints_find(r->path);
    *ret_allow = NULL;
    if (i == gw_endpoints_len) {
        gw_endpoints_tell(err, r->path);
        return i;
    }
    const gw_endpoint *p = &gw_endpoints[i];
    const bool is_post = p->method == GW_POST;
    if (is_post ? strcmp(r->method, "POST") != 0 : !is_get(r->method)) {
        *ret_allow = is_post ? "POST" : "GET, HEAD";
        (void)gw_error_say(err, 405, "method_not_allowed", NULL, "%.32s is not allowed for %s; use %s.",
                           r->method, p->path, is_post ? "POST" : "GET");
        return gw_endpoints_len;
    }
    return gw_rights_may(d, r, p->right, err) ? i : gw_endpoints_len;
}

static bool is_post(size_t i) { return i < gw_endpoints_len && gw_endpoints[i].method == GW_POST; }

static void *introduce(void *ud, const char *authorization, const char *api_key)
{
    const gw_door *d = ud;
    if (!d->env.auth) return NULL;
    return gw_auth_take(d->env.auth, authorization, api_key);
}

static void leave(void *ud, void *caller)
{
    (void)ud;
    gw_auth_give(caller);
}

static bool wants_body(void *ud, const gw_http_request *r)
{
    gw_error err;
    const char *allow;
    return is_post(find_endpoint(ud, r, &err, &allow));
}

static bool has_own_place(void *ud, const gw_http_request *r)
{
    gw_error err;
    const char *allow;
    const size_t i = find_endpoint(ud, r, &err, &allow);
    return i < gw_endpoints_len && (serve[i] == gw_pages_health || serve[i] == gw_pages_metrics);
}

static void on_request(void *ud, gw_http_exchange *x, const gw_http_request *r)
{
    gw_door *d = ud;
    gw_error err;
    const char *allow = NULL;
    const bool is_refused = gw_refusal_tell(&err, r->refusal, (uint64_t)d->env.options->max_body_bytes);
    const size_t i = is_refused ? gw_endpoints_len : find_endpoint(d, r, &err, &allow);
    const gw_turn_part before = gw_turn_go(d->env.turn, is_post(i) ? GW_TURN_BODIES : GW_TURN_PAGES);
    gw_key *k = r->caller;
    d->open_count++;
    if (k && i == gw_endpoints_len && err.status == 403) k->refusals[GW_KEY_FINE]++;
    if (i < gw_endpoints_len) serve[i](d, x, r);
    else gw_reply_error(d, x, &err, allow);
    gw_turn_go(d->env.turn, before);
}

static void on_ended(void *ud, gw_http_exchange *x, bool was_sent)
{
    gw_door *d = ud;
    gw_live *l = gw_http_user(x);
    d->open_count--;
    gw_roles_forget(d, x);
    gw_pages_forget(d, x);
    if (!l) return;
    if (!was_sent) bt_log_request(BT_LOG_INFO, gw_http_id(x), "the client has gone");
    if (l->unread) {
        gw_bodies_forget(l->unread);
        return;
    }
    if (l->unsent) {
        gw_answers_forget(l->unsent);
        return;
    }
    l->x = NULL;
    gw_live_want(l, true);
}

/* One in each turn is served, however long the turn was before. */
static bool has_time(void *ud)
{
    const gw_turn *t = ((const gw_door *)ud)->env.turn;
    return gw_turn_has_time(t) || t->times[GW_TURN_BODIES] + t->times[GW_TURN_PAGES] == 0;
}

gw_http_handler gw_door_handler(gw_door *d)
{
    return (gw_http_handler){.ud = d,
                             .has_time = has_time,
                             .introduce = introduce,
                             .leave = leave,
                             .wants_body = wants_body,
                             .has_own_place = has_own_place,
                             .request = on_request,
                             .ended = on_ended};
}

/* ---- the brain ---- */

void gw_door_act(gw_door *d, const gw_action *a)
{
    if (a->type == GW_DO_ROLE_ANSWER) {
        gw_roles_answered(d, a);
        return;
    }
    gw_live *l = gw_live_find(d, a->request);
    if (!l) return;
    if (a->type == GW_DO_FIRST) {
        l->first = a->u.first.msg;
        l->head.cached_tokens = l->first.cached_tokens < l->prompt_len ? l->first.cached_tokens : 0;
        if (l->x && l->is_stream && gw_live_begin_stream(d, l)) gw_http_flush(l->x);
    } else if (a->type == GW_DO_TOKENS) {
        grow(d, l, a);
    } else if (a->type == GW_DO_DONE) {
        gw_written *w = finish(d, l, a->u.done.reason, &a->u.done.stats);
        gw_capture_end(d, l, a);
        if (w) gw_answers_begin(w);
        else gw_live_remove(d, l);
    } else if (a->type == GW_DO_FAIL) {
        fail(d, l, a);
        gw_capture_end(d, l, a);
        gw_live_remove(d, l);
    }
}

bool gw_door_has_pages(const gw_door *d) { return d->pages; }

void gw_door_go_on(gw_door *d)
{
    const gw_turn_part before = gw_turn_go(d->env.turn, GW_TURN_PAGES);
    gw_pages_go_on(d);
    gw_turn_go(d->env.turn, before);
}

bool gw_door_next_event(gw_door *d, gw_event *ret) { return gw_live_next_event(d, ret); }
void gw_door_tick(gw_door *d, int64_t now_us)
{
    gw_reply_tick(d);
    gw_live_tick(d, now_us);
}
