/* A lane's thread has at most one item, so that whoever waits can still be withdrawn. Items go to the thread
 * and come back through two rings. */
#include "rt/aside.h"
#include "base/ring.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { LOWER_PRIORITY = 5 };

typedef struct lane {
    bt_aside *work;
    pthread_t thread;
    bool has_thread, is_busy;
    bt_ring *out, *back;         /* of bt_aside_item *; out has a second place for NULL, the end */
    bt_aside_item *first, *last; /* in line */
    uint64_t watch;
} lane;

struct bt_aside {
    bt_loop *loop;
    void (*after)(void *ud);
    void *ud;
    unsigned lanes;
    lane lane[BT_ASIDE_MAX_LANES];
};

static void *thread_main(void *ud)
{
    lane *l = ud;
    bt_aside_item *item;
    (void)setpriority(PRIO_PROCESS, 0, LOWER_PRIORITY); /* on Linux of this thread alone; it may be refused */
    for (;;) {
        while (!bt_ring_pop(l->out, &item)) (void)bt_ring_wait(l->out, -1);
        if (!item) return NULL;
        item->run(item);
        (void)bt_ring_push(l->back, &item); /* there is room: it is the only one */
    }
}

static void take(lane *l, bt_aside_item *item)
{
    if (item->prev) item->prev->next = item->next;
    else l->first = item->next;
    if (item->next) item->next->prev = item->prev;
    else l->last = item->prev;
    item->waits = false;
}

static void start_next(lane *l)
{
    bt_aside_item *item = l->first;
    if (l->is_busy || !item) return;
    take(l, item);
    l->is_busy = true;
    (void)bt_ring_push(l->out, &item);
}

static bool finish(lane *l)
{
    bt_aside_item *item;
    if (!bt_ring_pop(l->back, &item)) return false;
    l->is_busy = false;
    start_next(l); /* before `done`, which may take its time */
    item->done(item);
    return true;
}

static void on_back(void *ud, unsigned events)
{
    lane *l = ud;
    const bt_aside *w = l->work;
    (void)events;
    if (finish(l) && w->after) w->after(w->ud);
}

static bt_err open_lane(lane *l, bt_aside *w, bt_fault *fault)
{
    sigset_t all, before;
    l->work = w;
    bt_err e = bt_ring_new(&l->out, sizeof(bt_aside_item *), 2, fault);
    if (e == BT_OK) e = bt_ring_new(&l->back, sizeof(bt_aside_item *), 1, fault);
    if (e < 0) return e;
    if ((e = bt_loop_add_fd(&l->watch, w->loop, bt_ring_fd(l->back), BT_LOOP_IN, on_back, l)) < 0)
        return bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e));
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals belong to the thread with the event loop */
    const int why = pthread_create(&l->thread, NULL, thread_main, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->has_thread = why == 0;
    return why ? bt_fail_thread(fault, "a thread of the event loop", why) : BT_OK;
}

bt_err bt_aside_new(bt_aside **ret, bt_loop *loop, unsigned lanes, void (*after)(void *ud), void *ud,
                    bt_fault *fault)
{
    if (lanes < 1 || lanes > BT_ASIDE_MAX_LANES)
        return bt_fail(fault, BT_EARG, "%u lanes of work beside a loop; 1 to %d are allowed", lanes,
                       BT_ASIDE_MAX_LANES);
    bt_aside *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory for %u lanes of work beside a loop", lanes);
    *w = (bt_aside){.loop = loop, .after = after, .ud = ud, .lanes = lanes};
    for (unsigned i = 0; i < lanes; i++) {
        const bt_err e = open_lane(&w->lane[i], w, fault);
        if (e < 0) {
            bt_aside_free(w);
            return e;
        }
    }
    *ret = w;
    return BT_OK;
}

void bt_aside_free(bt_aside *w)
{
    bt_aside_item *const end = NULL;
    if (!w) return;
    for (unsigned i = 0; i < w->lanes; i++) {
        lane *l = &w->lane[i];
        if (l->watch) bt_loop_remove(w->loop, l->watch);
        l->first = l->last = NULL;
        if (l->has_thread) {
            (void)bt_ring_push(l->out, &end);
            (void)pthread_join(l->thread, NULL);
            (void)finish(l);
        }
        bt_ring_free(l->out);
        bt_ring_free(l->back);
    }
    free(w);
}

void bt_aside_add(bt_aside *w, unsigned n, bt_aside_item *item)
{
    lane *l = &w->lane[n];
    item->lane = n;
    item->waits = true;
    item->next = NULL;
    item->prev = l->last;
    if (l->last) l->last->next = item;
    else l->first = item;
    l->last = item;
    start_next(l);
}

bool bt_aside_withdraw(bt_aside *w, bt_aside_item *item)
{
    if (!item->waits) return false;
    take(&w->lane[item->lane], item);
    return true;
}
