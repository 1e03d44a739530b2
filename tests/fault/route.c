/* See route.h. Sockets do not block; each event moves both directions of its connection on as far as they
 * go. */
#include "tests/fault/route.h"
#include "base/clock.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64, PIECE_BYTES = 64 << 10, PIECES = 8, SOCKET_BYTES = 256 << 10, LATER_MS = 3600 * 1000 };

/* Side 0 is the client, 1 the target; way w goes from side w to side 1 - w. */
typedef struct side {
    int fd;
    uint64_t watch;
    bool is_dead, is_at_end;
} side;

typedef struct conn {
    struct conn *next;
    route *r;
    side side[ROUTE_WAYS];
    flow flow[ROUTE_WAYS];
    uint64_t timer, life;            /* life: of the timer that cuts it; 0: none */
    bool is_connecting, is_by_reset; /* by_reset: how its own cut will look */
} conn;

static void move(conn *c);

static void end(conn *c, bool by_reset)
{
    route *r = c->r;
    conn **at = &r->first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    r->open--;
    for (size_t i = 0; i < ROUTE_WAYS; i++) {
        side *s = &c->side[i];
        bt_loop_remove(r->loop, s->watch);
        if (s->fd >= 0 && by_reset)
            (void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        if (s->fd >= 0) close(s->fd);
        flow_done(&c->flow[i]);
    }
    bt_loop_remove(r->loop, c->timer);
    bt_loop_remove(r->loop, c->life);
    free(c);
}

static void set_up(int fd)
{
    const int one = 1, bytes = SOCKET_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* what waits should wait where we see it */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static void on_side(void *ud, unsigned events)
{
    conn *c = ud;
    if (c->is_connecting && events & (BT_LOOP_OUT | BT_LOOP_ERR))
        c->is_connecting = false; /* a failure shows in the first write */
    move(c);
}

/* The target's side, as soon as there is somebody to dial and nothing holds it. False: the link is no
 * more. */
static bool dial(conn *c)
{
    route *r = c->r;
    side *s = &c->side[1];
    if (s->fd >= 0 || !r->has_target || r->is_held[ROUTE_UP] || r->is_held[ROUTE_DOWN]) return true;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd >= 0) set_up(s->fd);
    if (s->fd < 0 ||
        (connect(s->fd, (const struct sockaddr *)&r->target, sizeof r->target) < 0 && errno != EINPROGRESS) ||
        bt_loop_add_fd(&s->watch, r->loop, s->fd, BT_LOOP_OUT, on_side, c) < 0) {
        end(c, true);
        return false;
    }
    c->is_connecting = true;
    return true;
}

/* Reads what has come, while there is room. False: what came cannot be followed. */
static bool take(conn *c, int way, int64_t now_ms)
{
    static uint8_t piece[PIECE_BYTES];
    side *from = &c->side[way];
    for (int i = 0; i < PIECES && !from->is_at_end && flow_has_room(&c->flow[way]); i++) {
        const ssize_t n = recv(from->fd, piece, sizeof piece, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (n <= 0) {
            from->is_at_end = true;
            from->is_dead = n < 0;
            flow_flush(&c->flow[way], now_ms);
            return true;
        }
        if (flow_take(&c->flow[way], piece, (size_t)n, now_ms) < 0) return false;
    }
    return true;
}

static void give(conn *c, int way, int64_t now_ms)
{
    side *to = &c->side[1 - way];
    size_t len;
    for (const uint8_t *bytes; (bytes = flow_peek(&c->flow[way], &len, now_ms)) && len;) {
        const ssize_t n = to->is_dead ? (ssize_t)len : send(to->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) to->is_dead = to->is_at_end = true;
        else flow_wrote(&c->flow[way], (size_t)n);
    }
}

/* The events that each socket is watched for, and the time to look again without one. */
static void watch(conn *c, int64_t now_ms)
{
    int64_t due = now_ms + LATER_MS;
    for (int i = 0; i < ROUTE_WAYS; i++) {
        side *s = &c->side[i];
        unsigned events = 0;
        size_t len = 0;
        if (s->fd < 0) continue;
        if (!c->r->is_held[i] && !s->is_at_end && flow_has_room(&c->flow[i]) && c->side[1].fd >= 0)
            events |= BT_LOOP_IN;
        if (!c->r->is_held[1 - i] && !s->is_dead && flow_peek(&c->flow[1 - i], &len, now_ms) && len)
            events |= BT_LOOP_OUT;
        if (i == 1 && c->is_connecting) events |= BT_LOOP_OUT;
        bt_loop_set_events(c->r->loop, s->watch, events);
    }
    for (int w = 0; w < ROUTE_WAYS; w++) {
        const int64_t at = c->r->is_held[w] ? -1 : flow_due_ms(&c->flow[w], now_ms);
        if (at > now_ms && at < due) due = at;
    }
    bt_loop_set_timer(c->r->loop, c->timer, due - now_ms);
}

static void move(conn *c)
{
    const int64_t now = bt_clock_ms();
    if (!dial(c)) return;
    for (int w = 0; w < ROUTE_WAYS; w++) {
        flow *f = &c->flow[w];
        if (c->r->is_held[w] || c->side[1].fd < 0 || c->is_connecting) continue;
        if (!take(c, w, now)) {
            c->r->stats.malformed++;
            end(c, true);
            return;
        }
        give(c, w, now);
        if (flow_is_cut(f)) {
            c->r->stats.cuts++;
            end(c, c->is_by_reset);
            return;
        }
        if (c->side[w].is_at_end && (flow_is_empty(f) || c->side[1 - w].is_dead)) {
            end(c, false);
            return;
        }
    }
    watch(c, now);
}

static void on_timer(void *ud, unsigned events)
{
    (void)events;
    move(ud);
}

/* Half of the cuts come at once, half inside whatever passes next. */
static void on_life_end(void *ud, unsigned events)
{
    conn *c = ud;
    (void)events;
    if (c->r->is_held[ROUTE_UP] || c->r->is_held[ROUTE_DOWN] || c->flow[0].stream % 2) {
        c->r->stats.cuts++;
        end(c, c->is_by_reset);
        return;
    }
    flow_cut_next(&c->flow[c->flow[0].stream / 2 % 2]);
}

static bt_err begin_life(conn *c)
{
    const int64_t life_ms = c->r->script ? script_life_ms(c->r->script, c->flow[0].stream) : -1;
    return life_ms < 0 ? BT_OK : bt_loop_add_timer(&c->life, c->r->loop, life_ms, 0, on_life_end, c);
}

static void on_listener(void *ud, unsigned events)
{
    route *r = ud;
    (void)events;
    const int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    conn *c = fd >= 0 && r->open < ROUTE_CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        if (fd >= 0) close(fd);
        return;
    }
    set_up(fd);
    const uint64_t who = script_mix(r->number, r->stats.connections++);
    c->r = r;
    c->side[0].fd = fd;
    c->side[1].fd = -1;
    c->is_by_reset = who % 3 != 0;
    for (int w = 0; w < ROUTE_WAYS; w++) {
        flow_init(&c->flow[w], script_mix(who, (uint64_t)w), r->is_bytes, &r->stats.way[w]);
        flow_set_script(&c->flow[w], r->script);
        flow_set_rate(&c->flow[w], r->rate, bt_clock_ms());
    }
    c->next = r->first;
    r->first = c;
    r->open++;
    if (bt_loop_add_fd(&c->side[0].watch, r->loop, fd, 0, on_side, c) < 0 ||
        bt_loop_add_timer(&c->timer, r->loop, LATER_MS, LATER_MS, on_timer, c) < 0 || begin_life(c) < 0) {
        end(c, true);
        return;
    }
    move(c);
}

bt_err route_open(route *r, bt_loop *loop, const char *name, uint64_t number, bool is_bytes, const script *s,
                  bt_fault *fault)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", name);
    r->loop = loop;
    r->number = number;
    r->is_bytes = is_bytes;
    r->script = s;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->listener < 0 || bind(r->listener, (const struct sockaddr *)&at, sizeof at) < 0 ||
        listen(r->listener, BACKLOG) < 0 || getsockname(r->listener, (struct sockaddr *)&at, &len) < 0)
        return bt_fail(fault, BT_EIO, "listen for '%s': %s", name, strerror(errno));
    r->port = ntohs(at.sin_port);
    return bt_loop_add_fd(&r->watch, loop, r->listener, BT_LOOP_IN, on_listener, r);
}

void route_close(route *r)
{
    while (r->first) end(r->first, false);
    bt_loop_remove(r->loop, r->watch);
    if (r->listener >= 0) close(r->listener);
}

/* A step may end the link it moves, and no other. */
static void move_all(route *r)
{
    for (conn *c = r->first, *next; c; c = next) {
        next = c->next;
        move(c);
    }
}

bt_err route_set_target(route *r, const char *host_port, bt_fault *fault)
{
    char host[64];
    int64_t port;
    const char *colon = strrchr(host_port, ':');
    struct sockaddr_in at = {.sin_family = AF_INET};
    if (!colon || (size_t)(colon - host_port) >= sizeof host)
        return bt_fail(fault, BT_EARG, "'%.100s' is not an address such as 127.0.0.1:5600", host_port);
    snprintf(host, sizeof host, "%.*s", (int)(colon - host_port), host_port);
    const bt_err e = bt_num_int(&port, colon + 1, 1, 65535, fault);
    if (e < 0) return e;
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        return bt_fail(fault, BT_EARG, "'%s' is not an IPv4 address", host);
    at.sin_port = htons((uint16_t)port);
    r->target = at;
    r->has_target = true;
    move_all(r);
    return BT_OK;
}

void route_set_hold(route *r, bool up, bool down)
{
    r->is_held[ROUTE_UP] = up;
    r->is_held[ROUTE_DOWN] = down;
    move_all(r);
}

void route_set_rate(route *r, uint64_t bytes_per_s)
{
    r->rate = bytes_per_s;
    for (conn *c = r->first; c; c = c->next)
        for (int w = 0; w < ROUTE_WAYS; w++) flow_set_rate(&c->flow[w], bytes_per_s, bt_clock_ms());
    move_all(r);
}

void route_set_script(route *r, const script *s)
{
    r->script = s;
    for (conn *c = r->first; c; c = c->next) {
        for (int w = 0; w < ROUTE_WAYS; w++) flow_set_script(&c->flow[w], s);
        bt_loop_remove(r->loop, c->life);
        c->life = 0;
        (void)begin_life(c); /* without a timer it lives for ever */
    }
}

void route_cut(route *r)
{
    while (r->first) {
        r->stats.cuts++;
        end(r->first, true);
    }
}
