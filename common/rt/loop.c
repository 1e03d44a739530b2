/* zmq_poll over everything, with timers beside it. Removal only marks; the arrays are tidied between rounds,
 * so handlers never move what the loop is walking over. */
#include "rt/loop.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#define WATCHES_MAX 4096
#define TIMERS_MAX  4096

typedef struct watch {
    uint64_t id;  /* 0: removed */
    void *socket; /* NULL: fd counts */
    int fd;
    unsigned events;
    bt_loop_fn *fn;
    void *ud;
} watch;

typedef struct timer {
    uint64_t id; /* 0: removed */
    int64_t due_us, every_us;
    bt_loop_fn *fn;
    void *ud;
} timer;

struct bt_loop {
    watch *watches;
    zmq_pollitem_t *items; /* as many as watches; built each round */
    size_t watch_count, watch_cap;
    timer *timers;
    size_t timer_count, timer_cap;
    uint64_t last_id;
    bool stopped;
    int signal_fd; /* -1: none */
    sigset_t mask_before;
    bt_loop_signal_fn *signal_fn;
    void *signal_ud;
    bt_loop_turn_fn *turn_fn; /* NULL: nobody asks */
    void *turn_ud;
};

bt_err bt_loop_new(bt_loop **ret, bt_fault *fault)
{
    bt_loop *l = calloc(1, sizeof *l);
    if (!l) return bt_fail(fault, BT_ENOMEM, "out of memory for an event loop");
    l->signal_fd = -1;
    *ret = l;
    return BT_OK;
}

void bt_loop_free(bt_loop *l)
{
    if (!l) return;
    if (l->signal_fd >= 0) {
        if (!sigismember(&l->mask_before, SIGTERM)) /* one left pending would kill us now */
            for (struct signalfd_siginfo info; read(l->signal_fd, &info, sizeof info) > 0;) {}
        close(l->signal_fd);
        pthread_sigmask(SIG_SETMASK, &l->mask_before, NULL);
    }
    free(l->watches);
    free(l->items);
    free(l->timers);
    free(l);
}

/* ---- watches ---- */

static bt_err add_watch(uint64_t *ret_id, bt_loop *l, watch w)
{
    if (l->watch_count == WATCHES_MAX) return BT_ELIMIT;
    if (l->watch_count == l->watch_cap) {
        const size_t cap = l->watch_cap ? 2 * l->watch_cap : 16;
        watch *watches = realloc(l->watches, cap * sizeof *watches);
        if (!watches) return BT_ENOMEM;
        l->watches = watches;
        zmq_pollitem_t *items = realloc(l->items, cap * sizeof *items);
        if (!items) return BT_ENOMEM;
        l->items = items;
        l->watch_cap = cap;
    }
    w.id = ++l->last_id;
    l->watches[l->watch_count++] = w;
    *ret_id = w.id;
    return BT_OK;
}

bt_err bt_loop_add_socket(uint64_t *ret_id, bt_loop *l, void *socket, unsigned events, bt_loop_fn *fn,
                          void *ud)
{
    return add_watch(ret_id, l, (watch){.socket = socket, .fd = -1, .events = events, .fn = fn, .ud = ud});
}

bt_err bt_loop_add_fd(uint64_t *ret_id, bt_loop *l, int fd, unsigned events, bt_loop_fn *fn, void *ud)
{
    return add_watch(ret_id, l, (watch){.fd = fd, .events = events, .fn = fn, .ud = ud});
}

static watch *find_watch(bt_loop *l, uint64_t id)
{
    for (size_t i = 0; id && i < l->watch_count; i++)
        if (l->watches[i].id == id) return &l->watches[i];
    return NULL;
}

void bt_loop_set_events(bt_loop *l, uint64_t id, unsigned events)
{
    watch *w = find_watch(l, id);
    if (w) w->events = events;
}

/* ---- timers ---- */

static int64_t after_us(int64_t ms)
{
    const int64_t now_us = bt_clock_us();
    if (ms < 0) ms = 0;
    return ms > (INT64_MAX - now_us) / 1000 ? INT64_MAX : now_us + ms * 1000;
}

bt_err bt_loop_add_timer(uint64_t *ret_id, bt_loop *l, int64_t delay_ms, int64_t every_ms, bt_loop_fn *fn,
                         void *ud)
{
    if (l->timer_count == TIMERS_MAX) return BT_ELIMIT;
    if (every_ms < 0 || every_ms > INT64_MAX / 2000) return BT_EARG;
    if (l->timer_count == l->timer_cap) {
        const size_t cap = l->timer_cap ? 2 * l->timer_cap : 16;
        timer *timers = realloc(l->timers, cap * sizeof *timers);
        if (!timers) return BT_ENOMEM;
        l->timers = timers;
        l->timer_cap = cap;
    }
    l->timers[l->timer_count++] = (timer){++l->last_id, after_us(delay_ms), every_ms * 1000, fn, ud};
    *ret_id = l->last_id;
    return BT_OK;
}

static timer *find_timer(bt_loop *l, uint64_t id)
{
    for (size_t i = 0; id && i < l->timer_count; i++)
        if (l->timers[i].id == id) return &l->timers[i];
    return NULL;
}

void bt_loop_set_timer(bt_loop *l, uint64_t id, int64_t delay_ms)
{
    timer *t = find_timer(l, id);
    if (t) t->due_us = after_us(delay_ms);
}

/* The first due timer not newer than last_id, or NULL. */
static timer *next_due(bt_loop *l, int64_t now_us, uint64_t last_id)
{
    timer *best = NULL;
    for (size_t i = 0; i < l->timer_count; i++) {
        timer *t = &l->timers[i];
        if (t->id && t->id <= last_id && t->due_us <= now_us && (!best || t->due_us < best->due_us)) best = t;
    }
    return best;
}

/* Runs what is due now; timers made meanwhile, or due again by then, wait for the next round. */
static void run_timers(bt_loop *l)
{
    const int64_t now_us = bt_clock_us();
    const uint64_t last_id = l->last_id;
    for (timer *t; (t = next_due(l, now_us, last_id)) != NULL;) {
        bt_loop_fn *fn = t->fn;
        void *ud = t->ud;
        if (t->every_us) {
            t->due_us += t->every_us;
            if (t->due_us <= now_us) t->due_us = now_us + t->every_us;
        } else {
            t->id = 0;
        }
        fn(ud, 0);
    }
}

void bt_loop_remove(bt_loop *l, uint64_t id)
{
    watch *w = find_watch(l, id);
    timer *t = find_timer(l, id);
    if (w) w->id = 0;
    if (t) t->id = 0;
}

/* ---- signals ---- */

static void read_signals(void *ud, unsigned events)
{
    bt_loop *l = ud;
    (void)events;
    for (struct signalfd_siginfo info; read(l->signal_fd, &info, sizeof info) == (ssize_t)sizeof info;)
        l->signal_fn(l->signal_ud, (int)info.ssi_signo);
}

static sigset_t life_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

bt_err bt_loop_on_signals(bt_loop *l, bt_loop_signal_fn *fn, void *ud, bt_fault *fault)
{
    if (l->signal_fd >= 0) return bt_fail(fault, BT_EARG, "an event loop watches signals already");
    const sigset_t set = life_signals();
    const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot make a signalfd: %s", strerror(errno));
    uint64_t id;
    const bt_err e = bt_loop_add_fd(&id, l, fd, BT_LOOP_IN, read_signals, l);
    if (e < 0) {
        close(fd);
        return bt_fail(fault, e, "the event loop cannot watch signals: %s", bt_err_name(e));
    }
    pthread_sigmask(SIG_BLOCK, &set, &l->mask_before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    l->signal_fd = fd;
    l->signal_fn = fn;
    l->signal_ud = ud;
    return BT_OK;
}

void bt_loop_hold_signals(void)
{
    const sigset_t set = life_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool bt_loop_held_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

void bt_loop_end_signals(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

/* ---- rounds ---- */

void bt_loop_on_turns(bt_loop *l, bt_loop_turn_fn *fn, void *ud)
{
    l->turn_fn = fn;
    l->turn_ud = ud;
}

static void tidy(bt_loop *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->watch_count; i++)
        if (l->watches[i].id) l->watches[n++] = l->watches[i];
    l->watch_count = n;
    n = 0;
    for (size_t i = 0; i < l->timer_count; i++)
        if (l->timers[i].id) l->timers[n++] = l->timers[i];
    l->timer_count = n;
}

/* Milliseconds to the first timer, rounded up so that it is due on waking; never more than limit (-1:
 * none). */
static long wait_ms(const bt_loop *l, int64_t limit_ms)
{
    int64_t due_us = INT64_MAX;
    for (size_t i = 0; i < l->timer_count; i++)
        if (l->timers[i].due_us < due_us) due_us = l->timers[i].due_us;
    if (due_us == INT64_MAX) return limit_ms < 0 ? -1 : (long)limit_ms;
    const int64_t now_us = bt_clock_us();
    const int64_t ms = due_us <= now_us ? 0 : (due_us - now_us - 1) / 1000 + 1;
    return (long)(limit_ms >= 0 && limit_ms < ms ? limit_ms : ms);
}

bt_err bt_loop_step(bt_loop *l, int64_t timeout_ms, bt_fault *fault)
{
    tidy(l);
    const size_t count = l->watch_count;
    for (size_t i = 0; i < count; i++) {
        const watch *w = &l->watches[i];
        const unsigned wanted = w->events;
        /* A descriptor without wishes is left out by a negative number; a socket simply has no events to
         * report. */
        l->items[i] = (zmq_pollitem_t){.socket = w->socket, .fd = wanted ? w->fd : -1};
        l->items[i].events =
            (short)((wanted & BT_LOOP_IN ? ZMQ_POLLIN : 0) | (wanted & BT_LOOP_OUT ? ZMQ_POLLOUT : 0));
        if (!w->socket && wanted) l->items[i].events |= ZMQ_POLLERR;
    }
    const int ready = zmq_poll(l->items, (int)count, wait_ms(l, timeout_ms));
    if (ready < 0 && errno != EINTR)
        return bt_fail(fault, BT_EIO, "cannot poll sockets: %s", zmq_strerror(errno));
    if (l->turn_fn) l->turn_fn(l->turn_ud, false);
    run_timers(l);
    for (size_t i = 0; ready > 0 && i < count; i++) {
        const watch w = l->watches[i]; /* a copy: adding may move the array */
        const short got = l->items[i].revents;
        const unsigned events = (got & ZMQ_POLLIN ? BT_LOOP_IN : 0u) |
                                (got & ZMQ_POLLOUT ? BT_LOOP_OUT : 0u) |
                                (got & ZMQ_POLLERR ? BT_LOOP_ERR : 0u);
        if (w.id && (events & (w.events | BT_LOOP_ERR))) w.fn(w.ud, events);
    }
    if (l->turn_fn) l->turn_fn(l->turn_ud, true);
    return BT_OK;
}

bt_err bt_loop_run(bt_loop *l, bt_fault *fault)
{
    bt_err e = BT_OK;
    l->stopped = false;
    while (!l->stopped && e == BT_OK) e = bt_loop_step(l, -1, fault);
    return e;
}

void bt_loop_stop(bt_loop *l) { l->stopped = true; }
