#ifndef GW_HTTP_H
#define GW_HTTP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "gateway/http/framing.h"
#include "gateway/http/tls.h"

/* HTTP/1.1 over libmicrohttpd, for one thread: reads whole requests within limits, gives each to the handler as an
 * exchange, and sends its answer, at once or later, whole or as a stream of events. This layer knows nothing of the
 * service.
 *
 * Driving    poll gw_http_fd for reading; call gw_http_run when it is readable and at gw_http_due_us. Never blocks.
 * Exchange   made by a request, answered once (gw_http_answer, or gw_http_stream and gw_http_end), ended by `ended`,
 *            which is called exactly once for each that the handler saw, after the last byte or when the client has
 *            gone. One that takes nothing for idle_s counts as gone; one that has closed its sending side alone does
 *            not (rt/hangup.h). After `ended` the exchange is void.
 * Refusals   a request that is not served is an exchange like others, with the reason (framing.h): it must be answered
 *            in the call. The connection is closed then, or goes on where the whole body was read.
 * TLS        where there is a certificate every connection speaks it (tls.h). Its handshake belongs to the first head:
 *            both have idle_s together, and give way like a head.
 * Limits     connections, bytes of the head, body bytes (of one request, and of all together), seconds and speed.
 *            Idle and slow connections give way to newcomers (places.h). Above connections_max there are
 *            GW_HTTP_RESERVE places more: half of them for bodies and answers on their way, the others for heads and
 *            for requests with places of their own. Keep-alive and pipelining work; pipelined requests are answered in
 *            order. */
typedef struct gw_http gw_http;
typedef struct gw_http_exchange gw_http_exchange;

enum { GW_HTTP_MAX_ID_BYTES = 128, GW_HTTP_RESERVE = 256 };

typedef struct gw_http_request {
    const char *method, *path; /* path without host, query, and slashes at its end */
    void *caller;              /* what `introduce` returned */
    bool has_authorization;    /* there is one of the headers of introduce */
    uint64_t address;          /* of the client, as gw_listen_number has it */
    const char *origin;        /* header, NULL: none; a web page in a browser asks */
    const char *body;
    size_t body_len;         /* in the call of `request` only; empty where it was refused */
    gw_http_refusal refusal; /* not FINE: the handler only answers this refusal */
} gw_http_request;

typedef struct gw_http_handler {
    void *ud;
    /* The caller, by the headers Authorization and X-Api-Key (NULL: none). Called once for each request whose head is
     * good; both are wiped behind it, so that a key does not stay in memory. The answer goes back to `leave` in the
     * end. */
    void *(*introduce)(void *ud, const char *authorization, const char *api_key);
    void (*leave)(void *ud, void *caller);
    /* Whether to keep the body. Called with method, path and caller alone, before the body is read. */
    bool (*wants_body)(void *ud, const gw_http_request *r);
    /* Whether the request always has a place. Called like wants_body. */
    bool (*has_own_place)(void *ud, const gw_http_request *r);
    /* Whether this turn of the loop has time for one more request. Requests for which it has none wait for the next
     * turns, in order of arrival. */
    bool (*has_time)(void *ud);
    /* Must answer, begin a stream, or keep the exchange for later. */
    void (*request)(void *ud, gw_http_exchange *x, const gw_http_request *r);
    /* was_sent: the whole answer went out. */
    void (*ended)(void *ud, gw_http_exchange *x, bool was_sent);
} gw_http_handler;

typedef struct gw_http_config {
    const char *host;
    uint16_t port; /* port 0: the system chooses */
    unsigned connections_max, idle_s;
    size_t body_max_bytes, bodies_max_bytes;
    const char *cors; /* origin of the pages that may read answers, `*` for all; NULL: none */
    gw_tls *tls;      /* borrowed; NULL: plain HTTP */
} gw_http_config;

/* BT_EIO with words for a port in use or an address of another machine. */
bt_err gw_http_open(gw_http **ret, const gw_http_config *config, const gw_http_handler *handler, bt_fault *fault);
void gw_http_close(gw_http *h); /* NULL is fine; open exchanges end unsent */
uint16_t gw_http_port(const gw_http *h);
int gw_http_fd(const gw_http *h);                   /* an epoll descriptor, owned by h */
int64_t gw_http_due_us(gw_http *h, int64_t now_us); /* INT64_MAX: no timer */
bt_err gw_http_run(gw_http *h, bt_fault *fault);
unsigned gw_http_connections(const gw_http *h);
const gw_tls *gw_http_tls(const gw_http *h);       /* of the config */
uint64_t gw_http_put_off(const gw_http *h);        /* requests that a turn had no time for, so far */
size_t gw_http_bodies_max_bytes(const gw_http *h); /* of the config */

/* The X-Request-Id of the client where it is printable and short enough, else a new one. It goes out with every answer,
 * as X-Request-Id and as Request-Id, which Anthropic's clients read. */
const char *gw_http_id(const gw_http_exchange *x);
const char *gw_http_path(const gw_http_exchange *x); /* as in its request */
void gw_http_set_user(gw_http_exchange *x, void *user);
void *gw_http_user(const gw_http_exchange *x);

/* Inside the call of `request`: the body becomes the caller's, so that it lives on behind the call, also without the
 * exchange. It counts among the bodies until gw_http_body_read says that its `bytes` are no longer needed. */
void gw_http_take_body(gw_http_exchange *x, bt_buf *ret);
void gw_http_body_read(gw_http *h, size_t bytes);

/* A whole answer; its body is taken out of the buffer, and copied nowhere. BT_ENOMEM: nothing was answered; end the
 * exchange with gw_http_abandon. */
typedef struct gw_http_headers {
    const char *content_type;
    const char *allow, *www_authenticate; /* NULL: none */
    uint32_t retry_after_s;               /* 0: none */
} gw_http_headers;
bt_err gw_http_answer(gw_http_exchange *x, int status, const gw_http_headers *headers, bt_buf *body);

/* 200 with this Content-Type; then add events to gw_http_stream_buf and call gw_http_flush. Bytes that the client has
 * not taken yet wait there. gw_http_end: no more events come. */
bt_err gw_http_stream(gw_http_exchange *x, const char *content_type);
bt_buf *gw_http_stream_buf(gw_http_exchange *x);
void gw_http_flush(gw_http_exchange *x);
void gw_http_end(gw_http_exchange *x);
/* Cuts the connection without an answer (or without the rest of it); `ended` follows in gw_http_run. */
void gw_http_abandon(gw_http_exchange *x);
#endif
