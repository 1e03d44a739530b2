#ifndef GW_HTTP_INSIDE_H
#define GW_HTTP_INSIDE_H
#include <microhttpd.h>
#include "base/log.h"
#include "gateway/http/framing.h"
#include "gateway/http/http.h"
#include "gateway/http/linger.h"
#include "gateway/http/places.h"
#include "gateway/http/watch.h"

/* The declarations that the files of the HTTP server share, and nobody else sees. libmicrohttpd parses requests and
 * sends answers; everything around that is here: connections.c accepts and cuts off, access.c takes requests,
 * exchange.c answers.
 *
 * libmicrohttpd's epoll descriptor sits in watch_fd, beside the listening socket, lingering sockets, and the sockets of
 * clients that wait for an answer. Connections of such clients are suspended, so libmicrohttpd does not look at them;
 * watch_fd does, for a hang-up. */
typedef struct gw_connection {
    gw_place place;           /* first: a place is its connection */
    int fd;                   /* libmicrohttpd's */
    uint64_t address;         /* gw_listen_number of the client */
    uint64_t taken;           /* bytes that libmicrohttpd had read at the last look of gw_connections_judge_turn */
    uint64_t used;            /* the same when a chunked body began or a piece of it came */
    int64_t used_turn_us;     /* in the turn after this time */
    gnutls_session_t session; /* libmicrohttpd's; NULL: plain HTTP */
    gw_tls_pair *pair;        /* held; NULL: plain HTTP */
    bool is_put_off;          /* its request has come and waits for a turn, so libmicrohttpd reads nothing */
    unsigned looks;           /* at which more was there and it had not read on */
} gw_connection;

struct gw_http {
    gw_http_handler handler;
    struct MHD_Daemon *daemon;
    gw_watch listener;
    int watch_fd, listen_fd;
    uint16_t port;
    const char *cors; /* NULL: none */
    gw_tls *tls;      /* NULL: plain HTTP */
    size_t body_max_bytes, bodies_max_bytes, bodies_bytes;
    unsigned connections_max;
    gw_places places;
    gw_lingers lingers;
    bt_log_limit accept_limit;
    gw_connection *fresh; /* accepted, not yet given to libmicrohttpd */
    gw_http_exchange *first;
    gw_http_exchange *first_put_off, *last_put_off; /* whole requests that wait for a turn with time for them */
    unsigned half_closed;                           /* exchanges whose client has closed its sending side */
    uint64_t id_prefix, id_count;
    uint64_t put_off_count;
    int64_t sweep_us;         /* when deadlines are checked next */
    uint64_t moves, seen;     /* what turns have brought: events, bytes, phases; as many at the end of the last turn */
    unsigned asked_turns;     /* after which libmicrohttpd asked for the next at once, in a row */
    unsigned idle_turns;      /* of them those that brought nothing, up to GW_IDLE_TURNS */
    int64_t turn_us;          /* when the last turn ended */
    bool has_caller, is_deaf; /* deaf: no connection is accepted until one ends, or until the next sweep */
    bool has_resumed;         /* libmicrohttpd must run again */
};

struct gw_http_exchange {
    gw_watch watch; /* first */
    gw_http *http;
    gw_http_exchange *prev, *next;
    gw_http_exchange *next_put_off; /* valid while its place is_put_off */
    struct MHD_Connection *connection;
    gw_connection *place;
    struct MHD_Response *response; /* made, not yet given to libmicrohttpd */
    int status;
    void *user, *caller;
    char *target;     /* as the client sent it, unescaped */
    const char *path; /* in it */
    gw_framing framing;
    gw_http_refusal refusal;
    bt_buf body, out;
    size_t out_taken; /* of out, read by libmicrohttpd */
    size_t discarded_bytes;
    bool has_authorization;
    bool keeps_body, is_early; /* early: answered before its body was read, so its socket lingers */
    bool must_close, goes_on;  /* goes on: the client speaks HTTP/1.1, and may send more on this connection */
    bool is_half_closed;       /* its client has closed its sending side, and may read */
    int64_t looked_us;         /* when that was looked at last */
    bool was_put_off, is_shown, is_suspended, is_watched, is_gone, is_stream, is_complete;
    char id[GW_HTTP_MAX_ID_BYTES + 1];
};

/* exchange.c. new: NULL without memory. free: after the handler has heard that it ended. */
gw_http_exchange *gw_exchange_new(gw_http *h, struct MHD_Connection *c, const char *target);
void gw_exchange_free(gw_http_exchange *x);
void gw_exchange_drop_body(gw_http_exchange *x);
void gw_exchange_suspend(gw_http_exchange *x);
void gw_exchange_watch(gw_http_exchange *x);       /* for a hang-up while the request is served */
bt_err gw_exchange_preflight(gw_http_exchange *x); /* answers what a browser asks before a page's request */

/* Its whole request waits for another turn; libmicrohttpd asks again after gw_exchange_call_up, which takes those that
 * have waited for longest. */
enum { GW_CALLED_UP_A_TURN = 32 };
void gw_exchange_put_off(gw_http_exchange *x);
void gw_exchange_call_up(gw_http *h);

/* Looks at a part of the clients again that have closed their sending side, at each at most once a second. */
void gw_exchange_look_again(gw_http *h, int64_t now_us);

/* access.c: libmicrohttpd's calls. */
enum MHD_Result gw_access_on_request(void *cls, struct MHD_Connection *c, const char *target, const char *method,
                                     const char *version, const char *data, size_t *len, void **con_cls);
void gw_access_on_completed(void *cls, struct MHD_Connection *c, void **con_cls, enum MHD_RequestTerminationCode code);

/* connections.c. listen: from now on connections are taken by gw_connections_accept. */
bt_err gw_connections_listen(gw_http *h, const char *host, uint16_t port, bt_fault *fault);
void gw_connections_accept(gw_http *h);
void gw_connections_sweep(gw_http *h, int64_t now_us);
/* At the end of a turn. libmicrohttpd asks for the next turn at once while a connection has work, and one with a full
 * buffer and half a line of chunks counts as such for ever. So every GW_LOOK_TURNS turns of that kind each connection
 * whose request comes in is looked at. It is cut off where its socket has bytes, or the end, and libmicrohttpd has not
 * read on in GW_STUCK_LOOKS looks, or where GW_FRAMING_MAX_CHUNK_LINE_BYTES came without a byte of a chunked body.
 * After GW_IDLE_TURNS turns that brought nothing (GW_IDLE_TURNS_AGAIN where something came between) the next ones are
 * GW_IDLE_TURN_US apart. */
enum { GW_LOOK_TURNS = 4, GW_STUCK_LOOKS = 3, GW_IDLE_TURNS = 64, GW_IDLE_TURNS_AGAIN = 8, GW_IDLE_TURN_US = 5000 };
void gw_connections_judge_turn(gw_http *h, int64_t now_us);
void gw_connections_used(const gw_http *h, gw_connection *c); /* a chunked body begins, or a piece of it has come */
void gw_connections_on_change(void *cls, struct MHD_Connection *c, void **socket_cls,
                              enum MHD_ConnectionNotificationCode code);
/* Whether one more request, whose body has come, may be served. Cuts off a stream that nobody reads where that makes
 * room. */
bool gw_connections_may_serve(gw_http *h);
/* The same for a request whose head has come: bodies and answers on their way may also take half of the reserve. Cuts
 * off a slow connection where that makes room. */
bool gw_connections_have_place(gw_http *h);
/* Cuts off the connection with the slowest body and returns it; NULL: none is slow, or that of `c` is the slowest. */
const gw_connection *gw_connections_cut_body(gw_http *h, const gw_connection *c);
/* `c` enters a phase. */
void gw_connections_enter(gw_http *h, gw_connection *c, gw_phase phase);
#endif
