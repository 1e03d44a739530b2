/* The callbacks of libmicrohttpd. The first call for a request has its head and nothing of its body: a
 * request refused for its head, or for the announced size of its body, is answered in that call.
 * libmicrohttpd sends no `100 Continue` then and closes after the answer; the socket lingers, so that the
 * answer is read. */
#include "base/clock.h"
#include "crypto/secret.h"
#include "gateway/http/inside.h"

#include <string.h>
#include <strings.h>

/* Unwanted bodies: announced ones up to SKIP are read and dropped, so that the connection lives on; chunked
 * ones, whose length shows too late to answer early, up to DRAIN. */
enum { SKIP_MAX_BYTES = 64 << 10, DRAIN_MAX_BYTES = 256 << 20 };

/* As Anthropic's clients send a key. */
static const char API_KEY[] = "X-Api-Key";

static const char *header(const gw_http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static gw_http_request describe(const gw_http_exchange *x, const char *method)
{
    return (gw_http_request){.method = method,
                             .path = x->path,
                             .caller = x->caller,
                             .has_authorization = x->has_authorization,
                             .address = x->place->address,
                             .origin = header(x, MHD_HTTP_HEADER_ORIGIN),
                             .refusal = x->refusal};
}

/* ---- the head ----------------------------------------------------------------------------------- */

typedef struct head_fields {
    gw_framing_field items[GW_FRAMING_MAX_FIELDS];
    size_t len;
    bool has_more;
} head_fields;

static enum MHD_Result take_field(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                  const char *value, size_t value_len)
{
    head_fields *f = cls;
    (void)kind;
    if (f->len == GW_FRAMING_MAX_FIELDS) {
        f->has_more = true;
        return MHD_NO;
    }
    f->items[f->len++] = (gw_framing_field){name, value ? value : "", name_len, value ? value_len : 0};
    return MHD_YES;
}

static gw_http_refusal check_framing(gw_http_exchange *x, const char *target, const char *method,
                                     const char *version)
{
    head_fields f = {.len = 0};
    (void)MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, take_field, &f);
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const gw_framing_head head = {.method = method,
                                  .target = target,
                                  .version = version,
                                  .len = size ? size->header_size : 0,
                                  .fields = f.items,
                                  .fields_len = f.len,
                                  .has_more_fields = f.has_more};
    return gw_framing_check(&x->framing, &head);
}

static bool is_preflight(const gw_http_exchange *x, const char *method)
{
    return x->http->cors && strcmp(method, "OPTIONS") == 0 && header(x, MHD_HTTP_HEADER_ORIGIN) &&
           header(x, "Access-Control-Request-Method");
}

/* The value lies in libmicrohttpd's own memory, and nobody reads it again. */
static enum MHD_Result wipe_authorization(void *cls, enum MHD_ValueKind kind, const char *name,
                                          const char *value)
{
    (void)cls;
    (void)kind;
    if (value && (strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0 || strcasecmp(name, API_KEY) == 0))
        bt_secret_wipe((char *)(uintptr_t)value, strlen(value));
    return MHD_YES;
}

static void introduce(gw_http_exchange *x)
{
    const gw_http_handler *handler = &x->http->handler;
    const char *authorization = header(x, MHD_HTTP_HEADER_AUTHORIZATION), *api_key = header(x, API_KEY);
    x->has_authorization = authorization || api_key;
    x->caller = handler->introduce(handler->ud, authorization, api_key);
    if (x->has_authorization)
        (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, wipe_authorization, NULL);
}

/* The fate of a request whose head is good. */
static void judge(gw_http_exchange *x, const char *method)
{
    gw_http *h = x->http;
    const gw_framing *f = &x->framing;
    const bool has_body = f->is_chunked || f->body_bytes > 0;
    introduce(x);
    const gw_http_request r = describe(x, method);
    x->must_close = f->is_chunked; /* other programs may see another end of the chunks */
    const bool has_own_place = h->handler.has_own_place(h->handler.ud, &r);
    if (!has_own_place && !gw_connections_have_place(h)) x->refusal = GW_HTTP_NO_PLACE;
    if (x->refusal == GW_HTTP_FINE && has_body) {
        x->keeps_body = !is_preflight(x, method) && h->handler.wants_body(h->handler.ud, &r);
        if (!x->keeps_body) /* a request with a place of its own does not keep it for a body */
            x->is_early = f->is_chunked || f->has_expect || f->body_bytes > SKIP_MAX_BYTES || has_own_place;
        else if (f->is_encoded) x->refusal = GW_HTTP_ENCODED;
        else if (f->body_bytes > h->body_max_bytes) x->refusal = GW_HTTP_TOO_LARGE;
    }
    if (x->refusal != GW_HTTP_FINE) x->is_early = true;
}

/* ---- calls -------------------------------------------------------------------------------------- */

static void show(gw_http_exchange *x, const char *method)
{
    gw_http *h = x->http;
    if (x->keeps_body && x->refusal == GW_HTTP_FINE && !gw_connections_may_serve(h))
        x->refusal = GW_HTTP_NO_PLACE; /* they were taken while the body came */
    gw_http_request r = describe(x, method);
    r.body = bt_buf_text(&x->body);
    r.body_len = x->body.len;
    gw_connections_enter(h, x->place, GW_PHASE_WAITS);
    if (x->refusal == GW_HTTP_FINE && is_preflight(x, method)) {
        x->is_gone = gw_exchange_preflight(x) < 0;
    } else {
        x->is_shown = true;
        gw_exchange_watch(x);
        h->handler.request(h->handler.ud, x, &r);
    }
    gw_exchange_drop_body(x);
}

static enum MHD_Result give_answer(gw_http_exchange *x)
{
    if (x->is_gone) return MHD_NO;
    if (!x->response) {
        gw_exchange_suspend(x);
        return MHD_YES;
    }
    struct MHD_Response *response = x->response;
    x->response = NULL;
    const enum MHD_Result ok = MHD_queue_response(x->connection, (unsigned)x->status, response);
    MHD_destroy_response(response); /* libmicrohttpd holds its own reference */
    return ok;
}

static enum MHD_Result begin(gw_http_exchange *x, const char *target, const char *method, const char *version)
{
    x->refusal = check_framing(x, target, method, version);
    const char *wish = header(x, MHD_HTTP_HEADER_CONNECTION);
    x->goes_on = strcmp(version, MHD_HTTP_VERSION_1_1) == 0 && (!wish || strcasecmp(wish, "keep-alive") == 0);
    if (x->refusal == GW_HTTP_FINE) judge(x, method);
    else x->is_early = true;
    gw_connections_enter(x->http, x->place, GW_PHASE_BODY);
    if (x->framing.is_chunked) gw_connections_used(x->http, x->place);
    if (!x->is_early) return MHD_YES;
    x->must_close = true;
    show(x, method);
    return x->response ? give_answer(x) : MHD_NO; /* a refused request is answered at once */
}

/* True: another connection gave up its body's memory. Its body must not count as whole. */
static bool free_body(const gw_http_exchange *x)
{
    const gw_connection *c = gw_connections_cut_body(x->http, x->place);
    for (gw_http_exchange *y = x->http->first; c && y; y = y->next) {
        if (y->place != c) continue;
        if (y->refusal == GW_HTTP_FINE) y->refusal = GW_HTTP_TOO_BUSY;
        gw_exchange_drop_body(y);
    }
    return c;
}

static enum MHD_Result take_body(gw_http_exchange *x, const char *data, size_t len)
{
    gw_http *h = x->http;
    h->moves++;
    if (x->framing.is_chunked) gw_connections_used(x->http, x->place);
    gw_places_moved(&x->place->place, len, bt_clock_us());
    if (x->keeps_body && x->refusal == GW_HTTP_FINE) {
        bool is_busy;
        do is_busy = len > h->bodies_max_bytes - h->bodies_bytes;
        while (is_busy && free_body(x));
        if (!is_busy && bt_buf_add(&x->body, data, len) == BT_OK) {
            h->bodies_bytes += len;
            return MHD_YES;
        }
        x->refusal = !is_busy && x->body.err == BT_ELIMIT ? GW_HTTP_TOO_LARGE : GW_HTTP_TOO_BUSY;
        gw_exchange_drop_body(x);
    }
    /* Read on, so that the client sees the answer and not a reset; but not for ever. */
    x->discarded_bytes += len;
    return x->discarded_bytes > DRAIN_MAX_BYTES ? MHD_NO : MHD_YES;
}

enum MHD_Result gw_access_on_request(void *cls, struct MHD_Connection *c, const char *target,
                                     const char *method, const char *version, const char *data, size_t *len,
                                     void **con_cls)
{
    gw_http_exchange *x = *con_cls;
    const gw_http *h = cls;
    if (!x) {
        if (!(x = gw_exchange_new(cls, c, target))) return MHD_NO;
        *con_cls = x;
        return begin(x, target, method, version);
    }
    if (*len > 0) {
        const size_t n = *len;
        *len = 0;
        return take_body(x, data, n);
    }
    if (!x->is_shown && !x->response && !x->is_gone) {
        if (!h->handler.has_time(h->handler.ud)) {
            gw_exchange_put_off(x);
            return MHD_YES;
        }
        show(x, method);
    }
    return give_answer(x);
}

void gw_access_on_completed(void *cls, struct MHD_Connection *c, void **con_cls,
                            enum MHD_RequestTerminationCode code)
{
    gw_http *h = cls;
    gw_http_exchange *x = *con_cls;
    (void)c;
    if (!x) return;
    *con_cls = NULL;
    if (x->is_shown)
        h->handler.ended(h->handler.ud, x, code == MHD_REQUEST_TERMINATED_COMPLETED_OK && x->is_complete);
    if (x->is_early && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        gw_linger_begin(&h->lingers, x->place->fd, bt_clock_us());
    gw_connections_enter(h, x->place, GW_PHASE_HEAD);
    gw_exchange_free(x);
}
