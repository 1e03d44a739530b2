/* Which path is whose, and which action of the brain goes where. */
#include "gateway/door/door.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "gateway/door/capture.h"
#include "gateway/door/grow.h"
#include "gateway/door/live.h"
#include "gateway/door/pages.h"
#include "gateway/api/refusal.h"
#include "gateway/door/reply.h"
#include "gateway/door/roles.h"
#include "gateway/door/submit.h"

#include <stdlib.h>
#include <string.h>

static const char BAD[] = "invalid_request_error";

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

void gw_door_free(gw_door *d)
{
    if (!d) return;
    while (d->first) gw_live_remove(d, d->first);
    gw_roles_free(d);
    free(d);
}

void gw_door_set_http(gw_door *d, const gw_http *http, const char *url)
{
    d->http = http;
    d->url = url;
}
void gw_door_drain(gw_door *d) { d->is_draining = true; }
size_t gw_door_open_count(const gw_door *d) { return d->open_count; }

static void post_chat(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    gw_submit_post(d, x, r, true);
}
static void post_text(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    gw_submit_post(d, x, r, false);
}

enum { GET, POST };
static const struct endpoint {
    const char *path;
    int method;
    bool is_open;
    void (*serve)(gw_door *d, gw_http_exchange *x, const gw_http_request *r);
} endpoints[] = {
#define X(path, method, open, serve, summary, request, answer) {path, method, open, serve},
#include "gateway/api/endpoints_table.h"
#undef X
};

/* {id} of the pattern takes at least one character. */
static bool matches(const char *pattern, const char *path)
{
    const char *id = strchr(pattern, '{');
    if (!id) return strcmp(pattern, path) == 0;
    const size_t before = (size_t)(id - pattern), after = strlen(id + 4), len = strlen(path);
    return len > before + after && memcmp(pattern, path, before) == 0 &&
           strcmp(id + 4, path + len - after) == 0;
}

static bool is_get(const char *method) { return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0; }

/* NULL: *err says why. */
static const struct endpoint *find_endpoint(const gw_door *d, const gw_http_request *r, gw_openai_error *err,
                                            const char **ret_allow)
{
    *ret_allow = NULL;
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        const struct endpoint *p = &endpoints[i];
        const bool is_post = p->method == POST;
        if (!matches(p->path, r->path)) continue;
        if (is_post ? strcmp(r->method, "POST") != 0 : !is_get(r->method)) {
            *ret_allow = is_post ? "POST" : "GET, HEAD";
            (void)gw_openai_fail(err, 405, BAD, "method_not_allowed", NULL,
                                 "%.32s is not allowed for %s; use %s.", r->method, p->path,
                                 is_post ? "POST" : "GET");
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
    return p && p->method == POST;
}

static bool has_own_place(void *ud, const gw_http_request *r)
{
    gw_openai_error err;
    const char *allow;
    const struct endpoint *p = find_endpoint(ud, r, &err, &allow);
    return p && (p->serve == gw_pages_health || p->serve == gw_pages_metrics);
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
    else gw_reply_error(d, x, &err, allow);
}

static void on_ended(void *ud, gw_http_exchange *x, bool was_sent)
{
    gw_door *d = ud;
    gw_live *l = gw_http_user(x);
    d->open_count--;
    gw_roles_forget(d, x);
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
        if (l->x && l->is_stream && gw_live_begin_stream(d, l)) gw_http_flush(l->x);
    } else if (a->type == GW_DO_TOKENS) {
        gw_grow_tokens(d, l, a);
    } else if (a->type == GW_DO_DONE) {
        gw_grow_done(d, l, a->u.done.reason, &a->u.done.stats);
        gw_capture_end(d, l, a);
        gw_live_remove(d, l);
    } else if (a->type == GW_DO_FAIL) {
        gw_grow_failed(d, l, a);
        gw_capture_end(d, l, a);
        gw_live_remove(d, l);
    }
}

bool gw_door_next_event(gw_door *d, gw_event *ret) { return gw_live_next_event(d, ret); }
void gw_door_tick(gw_door *d, int64_t now_us) { gw_live_tick(d, now_us); }
