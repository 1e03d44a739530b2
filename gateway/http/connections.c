/* The connections: places for connections_max ordinary ones, and GW_HTTP_RESERVE more, so that a newcomer is
 * always accepted: from connections_max on, idle and slow connections give way to newcomers (places.h).
 * access.c decides on a request's place when its head is known. */
#include "base/clock.h"
#include "base/log.h"
#include "gateway/http/inside.h"
#include "gateway/http/listen.h"

#include <errno.h>
#include <linux/tcp.h> /* that of the C library has a shorter tcp_info */
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A turn of the loop accepts at most so many, so that it stays short. */
enum { ACCEPTS_A_TURN = 64, SWEEP_US = 1000000, DEAF_US = 20000 };
enum { MOVING_RESERVE = GW_HTTP_RESERVE / 2 }; /* the other half is for heads, health and metrics */

/* libmicrohttpd sees a closed socket, and ends the connection as if the client had gone. */
static void cut(gw_http *h, gw_place *p, const char *why)
{
    gw_places_shut(&h->places, p);
    (void)shutdown(((gw_connection *)p)->fd, SHUT_RDWR);
    bt_log(BT_LOG_DEBUG, "http: a connection is cut: %s", why);
}

static void set_deaf(gw_http *h, bool is_deaf)
{
    struct epoll_event ev = {.events = is_deaf ? 0 : EPOLLIN, .data.ptr = &h->listener};
    if (h->is_deaf == is_deaf || epoll_ctl(h->watch_fd, EPOLL_CTL_MOD, h->listen_fd, &ev) < 0) return;
    h->is_deaf = is_deaf;
    if (is_deaf) h->sweep_us = bt_clock_us() + DEAF_US;
}

static bool make_room(gw_http *h)
{
    gw_place *p = gw_places_victim(&h->places, bt_clock_us());
    if (p) cut(h, p, "a new connection needs its place");
    return p;
}

static unsigned live(const gw_http *h) { return h->places.count - h->places.shut; }

/* True: there may be more to accept. */
static bool accept_one(gw_http *h)
{
    struct sockaddr_storage a;
    socklen_t alen = sizeof a;
    if (h->places.count >= h->connections_max + GW_HTTP_RESERVE) {
        unsigned rooms = 0;
        while (rooms < ACCEPTS_A_TURN && live(h) >= h->connections_max && make_room(h)) rooms++;
        if (rooms == 0 && h->places.shut == 0) set_deaf(h, true);
        return false; /* those that were cut are gone after libmicrohttpd's turn */
    }
    gw_connection *c = calloc(1, sizeof *c);
    const int fd = c ? accept4(h->listen_fd, (struct sockaddr *)&a, &alen, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;
    if (fd < 0) {
        const int why = c ? errno : ENOMEM;
        free(c);
        if (why == EAGAIN || why == EWOULDBLOCK) h->has_caller = false;
        if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM) {
            bt_log_ratelimited(&h->accept_limit, BT_LOG_WARN, "cannot accept a connection: %s",
                               strerror(why));
            (void)make_room(h);
            set_deaf(h, true);
            h->has_caller = false;
        }
        return why == ECONNABORTED || why == EINTR;
    }
    if (live(h) >= h->connections_max) (void)make_room(h);
    if (h->tls) {
        /* A handshake's answer is written in parts, each of which would wait for the one before to be
         * acknowledged. libmicrohttpd says what of an answer goes out together (TCP_CORK). */
        const int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    c->fd = fd;
    c->address = gw_listen_number((const struct sockaddr *)&a);
    h->fresh = c;
    if (MHD_add_connection(h->daemon, fd, (struct sockaddr *)&a, alen) != MHD_YES && h->fresh) free(h->fresh);
    h->fresh = NULL;
    return true;
}

void gw_connections_accept(gw_http *h)
{
    for (int i = 0; h->has_caller && i < ACCEPTS_A_TURN; i++)
        if (!accept_one(h)) return;
}

void gw_connections_on_change(void *cls, struct MHD_Connection *c, void **socket_cls,
                              enum MHD_ConnectionNotificationCode code)
{
    gw_http *h = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        h->moves++;
        *socket_cls = h->fresh;
        if (h->tls) {
            h->fresh->session = MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
            h->fresh->pair = gw_tls_hold(h->tls, h->fresh->session);
        }
        gw_places_add(&h->places, &h->fresh->place, bt_clock_us());
        h->fresh = NULL;
    } else {
        gw_connection *gone = *socket_cls;
        h->moves++;
        gw_places_remove(&h->places, &gone->place);
        gw_tls_give(gone->pair);
        free(gone);
        set_deaf(h, false);
    }
}

static bool gives_way(gw_http *h, gw_place *p)
{
    if (p) cut(h, p, "another request needs its place");
    return p;
}

bool gw_connections_may_serve(gw_http *h)
{
    return h->places.served < h->connections_max ||
           gives_way(h, gw_places_slow_stream(&h->places, bt_clock_us()));
}

bool gw_connections_have_place(gw_http *h)
{
    if (!gw_connections_may_serve(h)) return false;
    return h->places.served + h->places.moving < h->connections_max + MOVING_RESERVE ||
           gives_way(h, gw_places_slow(&h->places, bt_clock_us()));
}

const gw_connection *gw_connections_cut_body(gw_http *h, const gw_connection *c)
{
    gw_place *p = gw_places_slow_body(&h->places, bt_clock_us());
    if (!p || p == &c->place) return NULL;
    cut(h, p, "another body needs its memory");
    return (gw_connection *)p;
}

void gw_connections_enter(gw_http *h, gw_connection *c, gw_phase phase)
{
    h->moves++;
    gw_places_enter(&h->places, &c->place, phase, bt_clock_us());
}

typedef struct intake {
    uint64_t taken; /* bytes that were read from the connection so far, or somewhat more */
    bool is_exact;  /* false: bytes came in the very moment */
    bool has_more;  /* more bytes, or their end, are there to be read */
} intake;

/* Under TLS the bytes on the wire are counted: those of a record that has come in part are taken, and give
 * nothing to read yet. */
enum { TLS_RECORD_BYTES = (16 << 10) + 2048 + 5 };

static intake look(const gw_connection *c)
{
    enum { CLOSE_WAIT = 8 }; /* TCP_CLOSE_WAIT, which that header does not have */
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    int before, after;
    if (ioctl(c->fd, FIONREAD, &before) < 0 || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        ioctl(c->fd, FIONREAD, &after) < 0)
        return (intake){.taken = 0};
    const bool is_exact = before == after;
    if (c->session) after += (int)gnutls_record_check_pending(c->session); /* opened, and not read yet */
    return (intake){.taken = info.tcpi_bytes_received - (is_exact ? (uint64_t)after : 0),
                    .is_exact = is_exact, .has_more = after > 0 || info.tcpi_state == CLOSE_WAIT};
}

/* Once a turn: libmicrohttpd reads from a socket once a turn, and a turn may have thousands of small pieces.
 */
void gw_connections_used(const gw_http *h, gw_connection *c)
{
    if (c->used > 0 && c->used_turn_us == h->turn_us) return;
    c->used = look(c).taken;
    c->used_turn_us = h->turn_us;
}

static void cut_stuck(gw_http *h)
{
    const gw_phase reading[] = {GW_PHASE_HEAD, GW_PHASE_BODY};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++)
        for (gw_place *p = h->places.lists[reading[i]].first, *next; p; p = next) {
            gw_connection *c = (gw_connection *)p;
            next = p->next;
            if (c->is_put_off) continue;
            const intake now = look(c);
            const uint64_t most = GW_FRAMING_MAX_CHUNK_LINE_BYTES + (c->session ? TLS_RECORD_BYTES : 0);
            if (!now.is_exact) continue;
            c->looks = now.has_more && now.taken == c->taken ? c->looks + 1 : 0;
            c->taken = now.taken;
            if (c->looks >= GW_STUCK_LOOKS ||
                (p->phase == GW_PHASE_BODY && c->used > 0 && now.taken > c->used + most))
                cut(h, p, "it cannot be read on");
        }
}

void gw_connections_judge_turn(gw_http *h, int64_t now_us)
{
    MHD_UNSIGNED_LONG_LONG ms;
    const bool is_idle = h->moves == h->seen;
    h->seen = h->moves;
    h->turn_us = now_us;
    if (MHD_get_timeout(h->daemon, &ms) != MHD_YES || ms > 0) {
        h->idle_turns = h->asked_turns = 0;
        return;
    }
    if (++h->asked_turns % GW_LOOK_TURNS == 0) cut_stuck(h);
    if (is_idle && h->idle_turns < GW_IDLE_TURNS) h->idle_turns++;
    if (!is_idle && h->idle_turns > GW_IDLE_TURNS - GW_IDLE_TURNS_AGAIN)
        h->idle_turns = GW_IDLE_TURNS - GW_IDLE_TURNS_AGAIN;
}

void gw_connections_sweep(gw_http *h, int64_t now_us)
{
    gw_place *p;
    if (now_us < h->sweep_us) return;
    h->sweep_us = now_us + SWEEP_US;
    while ((p = gw_places_late(&h->places, now_us))) cut(h, p, "the client is idle or too slow");
    gw_linger_sweep(&h->lingers, now_us);
    set_deaf(h, false);
}

static void on_caller(gw_watch *w, unsigned events)
{
    gw_http *h = (void *)((char *)w - offsetof(gw_http, listener));
    (void)events;
    h->has_caller = true;
}

bt_err gw_connections_listen(gw_http *h, const char *host, uint16_t port, bt_fault *fault)
{
    const bt_err e = gw_listen(&h->listen_fd, &h->port, host, port, fault);
    if (e < 0) return e;
    h->listener.on_ready = on_caller;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &h->listener};
    if (epoll_ctl(h->watch_fd, EPOLL_CTL_ADD, h->listen_fd, &ev) < 0)
        return bt_fail(fault, BT_EIO, "cannot watch connections with epoll: %s", strerror(errno));
    return BT_OK;
}
