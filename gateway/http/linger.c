/* See linger.h. */
#include "gateway/http/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20, BLOCKS_A_TURN = 4 };

struct gw_linger {
    gw_watch watch; /* first: events come to it */
    gw_lingers *all;
    gw_linger *prev, *next;
    int fd;
    int64_t begin_us;
    uint64_t bytes;
    bool is_shut;
};

static void end(gw_linger *l)
{
    gw_lingers *s = l->all;
    if (l->prev) l->prev->next = l->next;
    else s->first = l->next;
    if (l->next) l->next->prev = l->prev;
    else s->last = l->prev;
    s->count--;
    (void)epoll_ctl(s->watch_fd, EPOLL_CTL_DEL, l->fd, NULL);
    (void)close(l->fd);
    free(l);
}

static void on_ready(gw_watch *w, unsigned events)
{
    gw_linger *l = (gw_linger *)w;
    (void)events;
    for (int i = 0; i < BLOCKS_A_TURN; i++) {
        const ssize_t n = recv(l->fd, NULL, BLOCK_BYTES, MSG_TRUNC | MSG_DONTWAIT); /* thrown away unread */
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n > 0 && (l->bytes += (uint64_t)n) <= GW_LINGER_MAX_BYTES) continue;
        end(l);
        return;
    }
}

void gw_linger_begin(gw_lingers *s, int fd, int64_t now_us)
{
    gw_linger *l = calloc(1, sizeof *l);
    if (!l) return;
    *l = (gw_linger){.watch.on_ready = on_ready, .all = s, .begin_us = now_us};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = &l->watch};
    l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (l->fd < 0 || epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, l->fd, &ev) < 0) {
        if (l->fd >= 0) (void)close(l->fd);
        free(l);
        return;
    }
    l->prev = s->last;
    if (l->prev) l->prev->next = l;
    else s->first = l;
    s->last = l;
    if (++s->count > GW_LINGER_MAX) end(s->first);
}

void gw_linger_shut(gw_lingers *s)
{
    for (gw_linger *l = s->last; l && !l->is_shut; l = l->prev) {
        l->is_shut = true;
        (void)shutdown(l->fd, SHUT_WR);
    }
}

void gw_linger_sweep(gw_lingers *s, int64_t now_us)
{
    gw_linger *next;
    for (gw_linger *l = s->first; l && now_us - l->begin_us >= (int64_t)GW_LINGER_MAX_S * 1000000; l = next) {
        next = l->next;
        end(l);
    }
}
