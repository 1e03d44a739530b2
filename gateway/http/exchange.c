/* One request and its answer, from the first call of libmicrohttpd for it to the last. */
#include "base/clock.h"
#include "base/rng.h"
#include "gateway/http/cors.h"
#include "gateway/http/inside.h"
#include "rt/hangup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { LOOK_US = 1000000, LOOKS_A_TURN = 64 }; /* at clients that have closed their sending side */
enum { STREAM_MAX_BYTES = 1 << 30, READ_BLOCK_BYTES = 16 << 10 };

/* ---- exchanges ---------------------------------------------------------------------------------- */

static void resume(gw_http_exchange *x)
{
    if (!x->is_suspended) return;
    x->is_suspended = false;
    x->http->has_resumed = true;
    MHD_resume_connection(x->connection);
}

void gw_exchange_suspend(gw_http_exchange *x)
{
    x->is_suspended = true;
    MHD_suspend_connection(x->connection);
}

void gw_exchange_put_off(gw_http_exchange *x)
{
    gw_http *h = x->http;
    h->put_off_count += !x->was_put_off;
    x->place->is_put_off = x->was_put_off = true;
    x->next_put_off = NULL;
    if (h->last_put_off) h->last_put_off->next_put_off = x;
    else h->first_put_off = x;
    h->last_put_off = x;
    gw_exchange_suspend(x);
}

void gw_exchange_call_up(gw_http *h)
{
    for (int i = 0; h->first_put_off && i < GW_CALLED_UP_A_TURN; i++) {
        gw_http_exchange *x = h->first_put_off;
        h->first_put_off = x->next_put_off;
        if (!h->first_put_off) h->last_put_off = NULL;
        x->place->is_put_off = false;
        resume(x);
    }
}

/* One that is put off is suspended, so only the end of the server frees it. */
static void forget_put_off(gw_http_exchange *x)
{
    gw_http_exchange **at = &x->http->first_put_off, *before = NULL;
    if (!x->place->is_put_off) return;
    for (; *at != x; at = &(*at)->next_put_off) before = *at;
    *at = x->next_put_off;
    if (x->http->last_put_off == x) x->http->last_put_off = before;
}

static void unwatch(gw_http_exchange *x)
{
    if (x->is_watched) (void)epoll_ctl(x->http->watch_fd, EPOLL_CTL_DEL, x->place->fd, NULL);
    x->is_watched = false;
}

/* Nothing is freed before libmicrohttpd runs, so other events stay valid. A client may hang up once its whole
 * answer is sent or on its way. */
static void lose(gw_http_exchange *x)
{
    unwatch(x);
    if (!x->is_complete || x->is_suspended) gw_http_abandon(x);
}

/* Sends what every client skips that waits for an answer, so that a reset comes where nobody reads. Under TLS
 * it is a record of the session like any other. It goes out whole or not at all: nothing else waits to be
 * sent. */
static void nudge(const gw_http_exchange *x)
{
    static const char words[] = "HTTP/1.1 100 Continue\r\n\r\n";
    int unsent;
    if (!x->goes_on || x->status != 0 || ioctl(x->place->fd, SIOCOUTQ, &unsent) < 0 || unsent > 0) return;
    if (x->place->session) (void)gnutls_record_send(x->place->session, words, sizeof words - 1);
    else (void)send(x->place->fd, words, sizeof words - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A client that has closed its sending side alone gets its answer. One that is elsewhere, and would go on
 * with its connection, is sent what every such client skips, so that a reset comes at once where nobody
 * reads. False: nobody reads. */
static bool goes_on_half_closed(gw_http_exchange *x)
{
    struct epoll_event ev = {.events = 0, .data.ptr = &x->watch}; /* EPOLLHUP and EPOLLERR come anyway */
    const int fd = x->place->fd;
    const bt_hangup found = bt_hangup_look(fd);
    if (found == BT_HANGUP_GONE || epoll_ctl(x->http->watch_fd, EPOLL_CTL_MOD, fd, &ev) < 0) return false;
    if (found == BT_HANGUP_UNKNOWN) {
        bt_hangup_probe(fd);
        nudge(x);
    }
    x->is_half_closed = true;
    x->looked_us = bt_clock_us();
    x->http->half_closed++;
    return true;
}

static void on_hang_up(gw_watch *w, unsigned events)
{
    gw_http_exchange *x = (gw_http_exchange *)w;
    if (!(events & (EPOLLHUP | EPOLLERR)) && goes_on_half_closed(x)) return;
    lose(x);
}

void gw_exchange_look_again(gw_http *h, int64_t now_us)
{
    unsigned looks = 0;
    for (gw_http_exchange *x = h->half_closed ? h->first : NULL; x && looks < LOOKS_A_TURN; x = x->next) {
        if (!x->is_half_closed || now_us - x->looked_us < LOOK_US) continue;
        x->looked_us = now_us;
        looks++;
        if (bt_hangup_look(x->place->fd) == BT_HANGUP_GONE) lose(x);
    }
}

void gw_exchange_watch(gw_http_exchange *x)
{
    struct epoll_event ev = {.events = EPOLLRDHUP, .data.ptr = &x->watch};
    x->is_watched = epoll_ctl(x->http->watch_fd, EPOLL_CTL_ADD, x->place->fd, &ev) == 0;
}

/* Printable ASCII without spaces, so that an id can stand in a log line and in a header. */
static bool is_good_id(const char *id)
{
    const size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (id[i] <= ' ' || id[i] > '~') return false;
    return n > 0 && n <= GW_HTTP_MAX_ID_BYTES;
}

gw_http_exchange *gw_exchange_new(gw_http *h, struct MHD_Connection *c, const char *target)
{
    gw_http_exchange *x = calloc(1, sizeof *x);
    if (!x || !(x->target = strdup(target))) {
        free(x);
        return NULL;
    }
    x->watch.on_ready = on_hang_up;
    x->http = h;
    x->connection = c;
    x->path = gw_framing_path(x->target);
    x->place = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    bt_buf_init(&x->body, h->body_max_bytes);
    bt_buf_init(&x->out, STREAM_MAX_BYTES);
    const char *id = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "X-Request-Id");
    if (id && is_good_id(id)) (void)snprintf(x->id, sizeof x->id, "%s", id);
    else
        (void)snprintf(x->id, sizeof x->id, "%012llx-%llu", (unsigned long long)h->id_prefix,
                       (unsigned long long)++h->id_count);
    if ((x->next = h->first)) x->next->prev = x;
    h->first = x;
    return x;
}

void gw_exchange_drop_body(gw_http_exchange *x)
{
    x->http->bodies_bytes -= x->body.len;
    bt_buf_done(&x->body);
}

void gw_http_take_body(gw_http_exchange *x, bt_buf *ret)
{
    *ret = x->body;
    bt_buf_init(&x->body, ret->limit_bytes);
}

void gw_http_body_read(gw_http *h, size_t bytes) { h->bodies_bytes -= bytes; }

void gw_exchange_free(gw_http_exchange *x)
{
    unwatch(x);
    forget_put_off(x);
    x->http->half_closed -= x->is_half_closed;
    x->http->handler.leave(x->http->handler.ud, x->caller);
    gw_exchange_drop_body(x);
    bt_buf_done(&x->out);
    if (x->response) MHD_destroy_response(x->response);
    if (x->next) x->next->prev = x->prev;
    if (x->prev) x->prev->next = x->next;
    else x->http->first = x->next;
    free(x->target);
    free(x);
}

const char *gw_http_id(const gw_http_exchange *x) { return x->id; }
void gw_http_set_user(gw_http_exchange *x, void *user) { x->user = user; }
const char *gw_http_path(const gw_http_exchange *x) { return x->path; }
void *gw_http_user(const gw_http_exchange *x) { return x->user; }

/* ---- answers ------------------------------------------------------------------------------------ */

static bool add_header(struct MHD_Response *r, const char *name, const char *value)
{
    return !value || MHD_add_response_header(r, name, value) == MHD_YES;
}

/* Headers of every answer, errors and streams too. */
static bool add_common(struct MHD_Response *r, const gw_http_exchange *x)
{
    const char *cors = x->http->cors;
    /* So that a client does not send its next request into a connection that is about to end. */
    char idle[32];
    (void)snprintf(idle, sizeof idle, "timeout=%lld", (long long)(x->http->places.idle_us / 1000000));
    return add_header(r, "X-Request-Id", x->id) && add_header(r, "Request-Id", x->id) &&
           add_header(r, "Keep-Alive", x->goes_on && !x->must_close ? idle : NULL) &&
           add_header(r, "Connection", x->must_close ? "close" : NULL) &&
           add_header(r, "Access-Control-Allow-Origin", cors) &&
           add_header(r, "Access-Control-Expose-Headers",
                      cors ? "X-Request-Id, Request-Id, Retry-After" : NULL) &&
           add_header(r, "Vary", cors && strcmp(cors, "*") != 0 ? "Origin" : NULL);
}

/* Takes r, which may be NULL. */
static bt_err set_response(gw_http_exchange *x, struct MHD_Response *r, int status, bool is_whole, size_t len)
{
    if (!r || !add_common(r, x)) {
        if (r) MHD_destroy_response(r);
        return BT_ENOMEM;
    }
    x->response = r;
    x->status = status;
    x->is_complete = is_whole;
    x->is_stream = !is_whole;
    gw_connections_enter(x->http, x->place, is_whole ? GW_PHASE_SENDS : GW_PHASE_WAITS);
    gw_places_sends(&x->place->place, len);
    resume(x);
    return BT_OK;
}

static struct MHD_Response *drop_response(struct MHD_Response *r)
{
    if (r) MHD_destroy_response(r);
    return NULL;
}

bt_err gw_http_answer(gw_http_exchange *x, int status, const gw_http_headers *headers, bt_buf *body)
{
    const size_t len = body->len;
    struct MHD_Response *r = MHD_create_response_from_buffer(len, body->data, MHD_RESPMEM_MUST_FREE);
    if (r) bt_buf_init(body, body->limit_bytes); /* libmicrohttpd frees it */
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%u", headers->retry_after_s);
    if (r &&
        (!add_header(r, "Content-Type", headers->content_type) || !add_header(r, "Allow", headers->allow) ||
         !add_header(r, "WWW-Authenticate", headers->www_authenticate) ||
         !add_header(r, "Retry-After", headers->retry_after_s ? seconds : NULL)))
        r = drop_response(r);
    return set_response(x, r, status, true, len);
}

bt_err gw_exchange_preflight(gw_http_exchange *x)
{
    const char *asked =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (r && (!add_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS") ||
              !add_header(r, "Access-Control-Allow-Headers",
                          asked && *asked && gw_cors_is_header_list(asked) ? asked
                                                                           : "Authorization, Content-Type") ||
              !add_header(r, "Access-Control-Max-Age", "600")))
        r = drop_response(r);
    return set_response(x, r, MHD_HTTP_NO_CONTENT, true, 0);
}

/* Moving the rest to the front each time would cost a slow reader's whole backlog a read. */
static void forget_taken(gw_http_exchange *x, size_t n)
{
    x->out_taken += n;
    if (x->out_taken < x->out.len && x->out_taken < x->out.len / 2) return;
    bt_buf_drop_front(&x->out, x->out_taken);
    x->out_taken = 0;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    gw_http_exchange *x = cls;
    (void)pos;
    if (x->is_gone) return MHD_CONTENT_READER_END_WITH_ERROR;
    const size_t left = x->out.len - x->out_taken;
    if (left > 0) {
        const size_t n = left < max ? left : max;
        memcpy(buf, x->out.data + x->out_taken, n);
        forget_taken(x, n);
        x->http->moves++;
        gw_places_moved(&x->place->place, n, bt_clock_us());
        return (ssize_t)n;
    }
    if (x->is_complete) return MHD_CONTENT_READER_END_OF_STREAM;
    gw_connections_enter(x->http, x->place, GW_PHASE_WAITS); /* all of it was taken */
    gw_exchange_suspend(x);
    return 0;
}

bt_err gw_http_stream(gw_http_exchange *x, const char *content_type)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READ_BLOCK_BYTES, read_stream, x, NULL);
    if (r && (!add_header(r, "Content-Type", content_type) || !add_header(r, "Cache-Control", "no-cache") ||
              !add_header(r, "X-Accel-Buffering", "no")))
        r = drop_response(r);
    return set_response(x, r, MHD_HTTP_OK, false, 0);
}

bt_buf *gw_http_stream_buf(gw_http_exchange *x) { return &x->out; }

void gw_http_flush(gw_http_exchange *x)
{
    if (x->is_stream && x->place->place.phase == GW_PHASE_WAITS)
        gw_connections_enter(x->http, x->place, GW_PHASE_STREAMS);
    resume(x);
}

void gw_http_end(gw_http_exchange *x)
{
    x->is_complete = true;
    gw_http_flush(x);
}

void gw_http_abandon(gw_http_exchange *x)
{
    x->is_gone = true;
    resume(x);
}
