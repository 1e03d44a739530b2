/* The server as a whole: opening, driving, closing. See inside.h for what is where. */
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "gateway/http/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* For each connection: its head, libmicrohttpd's notes for each header, its body while it is read. */
enum { POOL_BYTES = 64 << 10 };

static void on_log(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void on_log(void *cls, const char *fmt, va_list ap)
{
    char line[512];
    (void)cls;
    (void)vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = 0;
    bt_log(BT_LOG_DEBUG, "http: %s", line);
}

static size_t unescape(void *cls, struct MHD_Connection *c, char *text)
{
    (void)cls;
    (void)c;
    return gw_framing_unescape(text);
}

/* For each handshake. The connection has held its pair since it began. */
static int show_pair(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                     gnutls_pcert_st **certs, unsigned *certs_len, gnutls_ocsp_data_st **ocsp,
                     unsigned *ocsp_len, gnutls_privkey_t *key, unsigned *flags)
{
    struct MHD_Connection *c = gnutls_session_get_ptr(session);
    const gw_connection *place =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    (void)info;
    *ocsp = NULL;
    *ocsp_len = *flags = 0;
    return gw_tls_show(place->pair, certs, certs_len, key);
}

static bt_err start_daemon(gw_http *h, unsigned idle_s, bt_fault *fault)
{
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           MHD_USE_NO_LISTEN_SOCKET | (h->tls ? MHD_USE_TLS : 0);
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)show_pair},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)GW_TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    if (strncmp(MHD_get_version(), "0.", 2) != 0)
        return bt_fail(
            fault, BT_EVERSION,
            "libmicrohttpd %s leaves requests in another form than version 0.9, which this gateway reads",
            MHD_get_version());
    if (h->tls && MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) != MHD_YES)
        return bt_fail(fault, BT_EVERSION,
                       "--tls-cert: this libmicrohttpd %s was built without TLS, or without asking for "
                       "certificates",
                       MHD_get_version());
    /* STRICT_FOR_CLIENT 0: with 1 libmicrohttpd answers a missing Host itself, twice. framing.h is stricter.
     */
    h->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, gw_access_on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log,
                         NULL, MHD_OPTION_CONNECTION_LIMIT, h->connections_max + GW_HTTP_RESERVE,
                         MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)POOL_BYTES, MHD_OPTION_NOTIFY_CONNECTION, gw_connections_on_change, h,
                         MHD_OPTION_NOTIFY_COMPLETED, gw_access_on_completed, h, MHD_OPTION_STRICT_FOR_CLIENT,
                         0, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP,
                         1, MHD_OPTION_ARRAY, h->tls ? tls : tls + 2, MHD_OPTION_END);
    if (!h->daemon) return bt_fail(fault, BT_EIO, "cannot start the HTTP server: %s", strerror(errno));
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event ev = {.events = EPOLLIN};
    if (!info || epoll_ctl(h->watch_fd, EPOLL_CTL_ADD, info->epoll_fd, &ev) < 0)
        return bt_fail(fault, BT_EIO, "cannot watch the HTTP server with epoll: %s", strerror(errno));
    return BT_OK;
}

bt_err gw_http_open(gw_http **ret, const gw_http_config *config, const gw_http_handler *handler,
                    bt_fault *fault)
{
    gw_http *h = calloc(1, sizeof *h);
    if (!h) return bt_fail(fault, BT_ENOMEM, "out of memory for the HTTP server");
    h->listen_fd = -1;
    h->handler = *handler;
    h->cors = config->cors;
    h->tls = config->tls;
    h->accept_limit.every_ms = 5000;
    h->connections_max = config->connections_max;
    h->body_max_bytes = config->body_max_bytes;
    h->bodies_max_bytes = config->bodies_max_bytes;
    h->places.idle_us = (int64_t)config->idle_s * 1000000;
    bt_err e = BT_OK;
    if ((h->lingers.watch_fd = h->watch_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        e = bt_fail(fault, BT_EIO, "cannot watch the HTTP server with epoll: %s", strerror(errno));
    if (e == BT_OK) e = bt_rng_entropy(&h->id_prefix, 6, fault);
    if (e == BT_OK) e = start_daemon(h, config->idle_s, fault);
    if (e == BT_OK) e = gw_connections_listen(h, config->host, config->port, fault);
    if (e < 0) gw_http_close(h);
    else *ret = h;
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
    gw_linger_sweep(&h->lingers, INT64_MAX);
    if (h->listen_fd >= 0) (void)close(h->listen_fd);
    if (h->watch_fd >= 0) (void)close(h->watch_fd);
    free(h);
}

uint16_t gw_http_port(const gw_http *h) { return h->port; }
int gw_http_fd(const gw_http *h) { return h->watch_fd; }
unsigned gw_http_connections(const gw_http *h) { return h->places.count; }
const gw_tls *gw_http_tls(const gw_http *h) { return h->tls; }
uint64_t gw_http_put_off(const gw_http *h) { return h->put_off_count; }
size_t gw_http_bodies_max_bytes(const gw_http *h) { return h->bodies_max_bytes; }

int64_t gw_http_due_us(gw_http *h, int64_t now_us)
{
    MHD_UNSIGNED_LONG_LONG ms;
    int64_t due = h->is_deaf || h->places.count + h->lingers.count > 0 ? h->sweep_us : INT64_MAX;
    if (h->has_resumed || h->first_put_off) return now_us;
    if (MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms <= 3600000) {
        const bool is_idle = ms == 0 && h->idle_turns == GW_IDLE_TURNS;
        const int64_t at = is_idle ? h->turn_us + GW_IDLE_TURN_US : now_us + (int64_t)ms * 1000;
        if (at < due) due = at;
    }
    return due;
}

bt_err gw_http_run(gw_http *h, bt_fault *fault)
{
    struct epoll_event events[64];
    const int n = epoll_wait(h->watch_fd, events, 64, 0);
    if (n < 0 && errno != EINTR)
        return bt_fail(fault, BT_EIO, "cannot wait for HTTP connections: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        gw_watch *w = events[i].data.ptr;
        if (w) w->on_ready(w, events[i].events);
        h->moves++; /* without w it is an event for libmicrohttpd */
    }
    if (h->first_put_off && h->handler.has_time(h->handler.ud)) gw_exchange_call_up(h);
    h->moves += h->has_resumed;
    h->has_resumed = false; /* what has arrived is read before anybody gives way */
    if (MHD_run(h->daemon) != MHD_YES)
        return bt_fail(fault, BT_EIO, "libmicrohttpd cannot go on with the HTTP connections");
    gw_linger_shut(&h->lingers);
    gw_connections_accept(h); /* libmicrohttpd's descriptor tells when a new one is to be read */
    const int64_t now_us = bt_clock_us();
    gw_connections_sweep(h, now_us);
    gw_exchange_look_again(h, now_us);
    gw_connections_judge_turn(h, now_us);
    return BT_OK;
}
