/* The shape of the work with libmicrohttpd: its epoll descriptor sits in ours, beside the sockets of clients
 * that wait for an answer. Those are suspended, so libmicrohttpd does not look at them; we watch them for
 * a hang-up ourselves. */
#include "gateway/http/http.h"
#include "base/log.h"
#include "base/rng.h"
#include "gateway/http/listen.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAM_MAX_BYTES = 1 << 30, DISCARD_MAX_BYTES = 64 << 20, READ_BLOCK_BYTES = 16 << 10 };

struct gw_http {
    gw_http_handler handler;
    struct MHD_Daemon *daemon;
    int watch_fd; /* epoll: libmicrohttpd's descriptor, and the sockets of waiting clients */
    uint16_t port;
    size_t body_max_bytes, bodies_max_bytes, bodies_bytes;
    gw_http_exchange *first; /* all exchanges */
    uint64_t id_prefix, id_count;
    bool has_resumed; /* libmicrohttpd must run again */
};

struct gw_http_exchange {
    gw_http *http;
    gw_http_exchange *prev, *next;
    struct MHD_Connection *connection;
    struct MHD_Response *response; /* made, not yet given to libmicrohttpd */
    int status, fd;
    void *user;
    bt_buf body, out;
    size_t discarded_bytes;
    bool keeps_body, is_too_large, is_too_busy;
    bool is_shown, is_suspended, is_watched, is_gone, is_stream, is_complete;
    char id[GW_HTTP_MAX_ID_BYTES + 1];
};

/* ---- exchanges ---------------------------------------------------------------------------------- */

static void resume(gw_http_exchange *x)
{
    if (!x->is_suspended) return;
    x->is_suspended = false;
    x->http->has_resumed = true;
    MHD_resume_connection(x->connection);
}

static void suspend(gw_http_exchange *x)
{
    x->is_suspended = true;
    MHD_suspend_connection(x->connection);
}

static void unwatch(gw_http_exchange *x)
{
    if (x->is_watched) (void)epoll_ctl(x->http->watch_fd, EPOLL_CTL_DEL, x->fd, NULL);
    x->is_watched = false;
}

static void watch(gw_http_exchange *x)
{
    struct epoll_event ev = {.events = EPOLLRDHUP, .data.ptr = x};
    x->is_watched = epoll_ctl(x->http->watch_fd, EPOLL_CTL_ADD, x->fd, &ev) == 0;
}

/* Printable ASCII without spaces, so that an id can stand in a log line and in a header. */
static bool is_good_id(const char *id)
{
    const size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (id[i] <= ' ' || id[i] > '~') return false;
    return n > 0 && n <= GW_HTTP_MAX_ID_BYTES;
}

static gw_http_exchange *new_exchange(gw_http *h, struct MHD_Connection *c)
{
    gw_http_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->http = h;
    x->connection = c;
    x->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
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

static void drop_body(gw_http_exchange *x)
{
    x->http->bodies_bytes -= x->body.len;
    bt_buf_done(&x->body);
}

static void free_exchange(gw_http_exchange *x)
{
    unwatch(x);
    drop_body(x);
    bt_buf_done(&x->out);
    if (x->response) MHD_destroy_response(x->response);
    if (x->next) x->next->prev = x->prev;
    if (x->prev) x->prev->next = x->next;
    else x->http->first = x->next;
    free(x);
}

const char *gw_http_id(const gw_http_exchange *x) { return x->id; }
void gw_http_set_user(gw_http_exchange *x, void *user) { x->user = user; }
void *gw_http_user(const gw_http_exchange *x) { return x->user; }

/* ---- answers ------------------------------------------------------------------------------------ */

static bool add_header(struct MHD_Response *r, const char *name, const char *value)
{
    return !value || MHD_add_response_header(r, name, value) == MHD_YES;
}

bt_err gw_http_answer(gw_http_exchange *x, int status, const gw_http_headers *headers, const void *body,
                      size_t len)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(len, (void *)body, MHD_RESPMEM_MUST_COPY);
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%u", headers->retry_after_s);
    if (!r || !add_header(r, "Content-Type", headers->content_type) ||
        !add_header(r, "X-Request-Id", x->id) || !add_header(r, "Allow", headers->allow) ||
        !add_header(r, "WWW-Authenticate", headers->www_authenticate) ||
        !add_header(r, "Retry-After", headers->retry_after_s ? seconds : NULL)) {
        if (r) MHD_destroy_response(r);
        return BT_ENOMEM;
    }
    x->response = r;
    x->status = status;
    x->is_complete = true;
    resume(x);
    return BT_OK;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    gw_http_exchange *x = cls;
    (void)pos;
    if (x->is_gone) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (x->out.len > 0) {
        const size_t n = x->out.len < max ? x->out.len : max;
        memcpy(buf, x->out.data, n);
        bt_buf_drop_front(&x->out, n);
        return (ssize_t)n;
    }
    if (x->is_complete) return MHD_CONTENT_READER_END_OF_STREAM;
    suspend(x);
    return 0;
}

bt_err gw_http_stream(gw_http_exchange *x)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READ_BLOCK_BYTES, read_stream, x, NULL);
    if (!r || !add_header(r, "Content-Type", "text/event-stream; charset=utf-8") ||
        !add_header(r, "Cache-Control", "no-cache") || !add_header(r, "X-Accel-Buffering", "no") ||
        !add_header(r, "X-Request-Id", x->id)) {
        if (r) MHD_destroy_response(r);
        return BT_ENOMEM;
    }
    x->response = r;
    x->status = MHD_HTTP_OK;
    x->is_stream = true;
    resume(x);
    return BT_OK;
}

bt_buf *gw_http_stream_buf(gw_http_exchange *x) { return &x->out; }
void gw_http_flush(gw_http_exchange *x) { resume(x); }

void gw_http_end(gw_http_exchange *x)
{
    x->is_complete = true;
    resume(x);
}

void gw_http_abandon(gw_http_exchange *x)
{
    x->is_gone = true;
    resume(x);
}

/* ---- libmicrohttpd's calls ---------------------------------------------------------------------- */

static void describe(gw_http_request *ret, struct MHD_Connection *c, const char *method, const char *path)
{
    *ret = (gw_http_request){.method = method, .path = path};
    ret->authorization = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    ret->origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
}

static enum MHD_Result take_body(gw_http_exchange *x, const char *data, size_t len)
{
    gw_http *h = x->http;
    if (x->keeps_body && !x->is_too_large && !x->is_too_busy) {
        x->is_too_busy = len > h->bodies_max_bytes - h->bodies_bytes;
        if (!x->is_too_busy) {
            if (bt_buf_add(&x->body, data, len) == BT_OK) {
                h->bodies_bytes += len;
                return MHD_YES;
            }
            x->is_too_large = x->body.err == BT_ELIMIT;
            x->is_too_busy = !x->is_too_large;
        }
        drop_body(x);
    }
    /* Read on, so that the client sees the answer and not a reset; but not for ever. */
    x->discarded_bytes += len;
    return x->discarded_bytes > DISCARD_MAX_BYTES ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *c, const char *path, const char *method,
                                 const char *version, const char *data, size_t *len, void **con_cls)
{
    gw_http *h = cls;
    gw_http_exchange *x = *con_cls;
    gw_http_request r;
    (void)version;
    describe(&r, c, method, path);
    if (!x) {
        if (!(x = new_exchange(h, c))) return MHD_NO;
        *con_cls = x;
        x->keeps_body = h->handler.wants_body(h->handler.ud, &r);
        return MHD_YES;
    }
    if (*len > 0) {
        const size_t n = *len;
        *len = 0;
        return take_body(x, data, n);
    }
    if (!x->is_shown) {
        x->is_shown = true;
        watch(x);
        r.body = bt_buf_text(&x->body);
        r.body_len = x->body.len;
        r.is_too_large = x->is_too_large;
        r.is_too_busy = x->is_too_busy;
        h->handler.request(h->handler.ud, x, &r);
        drop_body(x);
    }
    if (x->is_gone) return MHD_NO;
    if (!x->response) {
        suspend(x);
        return MHD_YES;
    }
    struct MHD_Response *response = x->response;
    x->response = NULL;
    const enum MHD_Result ok = MHD_queue_response(c, (unsigned)x->status, response);
    MHD_destroy_response(response); /* libmicrohttpd holds its own reference */
    return ok;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    gw_http *h = cls;
    gw_http_exchange *x = *con_cls;
    (void)c;
    if (!x) return;
    *con_cls = NULL;
    if (x->is_shown)
        h->handler.ended(h->handler.ud, x, code == MHD_REQUEST_TERMINATED_COMPLETED_OK && x->is_complete);
    free_exchange(x);
}

static void on_log(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void on_log(void *cls, const char *fmt, va_list ap)
{
    char line[512];
    (void)cls;
    (void)vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = 0;
    bt_log(BT_LOG_DEBUG, "http: %s", line);
}

/* ---- the server --------------------------------------------------------------------------------- */

bt_err gw_http_open(gw_http **ret, const gw_http_config *config, const gw_http_handler *handler,
                    bt_fault *fault)
{
    int fd = -1, family = AF_INET;
    socklen_t family_bytes = sizeof family;
    gw_http *h = calloc(1, sizeof *h);
    if (!h) return bt_fail(fault, BT_ENOMEM, "http server");
    h->watch_fd = -1;
    h->handler = *handler;
    h->body_max_bytes = config->body_max_bytes;
    h->bodies_max_bytes = config->bodies_max_bytes;
    bt_err e = bt_rng_entropy(&h->id_prefix, 6, fault);
    if (e < 0 || (e = gw_listen(&fd, &h->port, config->host, config->port, fault)) < 0) goto out;
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_bytes);

    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           (family == AF_INET6 ? MHD_USE_IPv6 : 0);
    h->daemon = MHD_start_daemon(flags, h->port, NULL, NULL, on_access, h, MHD_OPTION_EXTERNAL_LOGGER, on_log,
                                 NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                 config->connections_max, MHD_OPTION_CONNECTION_TIMEOUT, config->idle_s,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)GW_HTTP_HEADER_BYTES,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_STRICT_FOR_CLIENT,
                                 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (!h->daemon) {
        e = bt_fail(fault, BT_EIO, "cannot start the HTTP server: %s", strerror(errno));
        goto out;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event ev = {.events = EPOLLIN};
    if (!info || (h->watch_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        epoll_ctl(h->watch_fd, EPOLL_CTL_ADD, info->epoll_fd, &ev) < 0) {
        e = bt_fail(fault, BT_EIO, "epoll: %s", strerror(errno));
        goto out;
    }
    *ret = h;
    return BT_OK;
out:
    gw_http_close(h);
    return e;
}

void gw_http_close(gw_http *h)
{
    if (!h) return;
    if (h->daemon) {
        /* libmicrohttpd must not stop while a connection is suspended. */
        for (gw_http_exchange *x = h->first; x; x = x->next) gw_http_abandon(x);
        (void)MHD_run(h->daemon);
        MHD_stop_daemon(h->daemon);
    }
    if (h->watch_fd >= 0) (void)close(h->watch_fd);
    free(h);
}

uint16_t gw_http_port(const gw_http *h) { return h->port; }
int gw_http_fd(const gw_http *h) { return h->watch_fd; }
unsigned gw_http_connections(const gw_http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

int64_t gw_http_due_us(gw_http *h, int64_t now_us)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (h->has_resumed) return now_us;
    if (MHD_get_timeout(h->daemon, &ms) != MHD_YES) return INT64_MAX;
    return ms > 3600000 ? INT64_MAX : now_us + (int64_t)ms * 1000;
}

bt_err gw_http_run(gw_http *h, bt_fault *fault)
{
    struct epoll_event events[64];
    const int n = epoll_wait(h->watch_fd, events, 64, 0);
    if (n < 0 && errno != EINTR) return bt_fail(fault, BT_EIO, "epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        gw_http_exchange *x = events[i].data.ptr;
        if (!x) continue;
        /* Nothing is freed before libmicrohttpd runs, so the other events stay good. A client that has its
         * whole answer in hand, or on the way, may hang up as it likes. */
        unwatch(x);
        if (!x->is_complete || x->is_suspended) gw_http_abandon(x);
    }
    h->has_resumed = false;
    const unsigned before = gw_http_connections(h);
    if (MHD_run(h->daemon) != MHD_YES) return bt_fail(fault, BT_EIO, "the HTTP server failed");
    /* At its limit of connections libmicrohttpd stops listening, and starts again only in the run after
     * one has ended. */
    if (gw_http_connections(h) < before) h->has_resumed = true;
    return BT_OK;
}
