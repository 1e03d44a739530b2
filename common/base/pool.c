/* Threads that meet at a generation counter. Fields below are written by the caller of bt_pool_run before it raises
 * `generation` (release) and read by the threads after they saw it (acquire); `remaining` brings the results back
 * the same way. Sleeping uses futexes on these two words, so nothing blocks while both sides are awake. */
#include "base/pool.h"
#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MAX 256u
#define SPIN_US     20

typedef struct worker {
    bt_pool  *pool;
    size_t    part;
    pthread_t thread;
} worker;

struct bt_pool {
    size_t           parts;
    size_t           started;          /* threads to join */
    bool             may_spin;         /* false when threads outnumber cores: spinning would delay the work itself */
    bt_pool_fn      *fn;               /* NULL: end */
    void            *ud;
    _Atomic uint32_t generation;       /* futex: threads wait for it to change */
    _Atomic uint32_t sleepers;         /* threads in, or about to enter, the futex */
    _Atomic uint32_t remaining;        /* futex: the caller waits for 0 */
    _Atomic uint32_t caller_sleeps;
    worker           workers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);   /* returns early at will; callers look again */
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin until *word is (or, with `change`, is no longer) value. False: gave up. */
static bool spin(const bt_pool *p, _Atomic uint32_t *word, uint32_t value, bool change)
{
    const int64_t end_us = bt_clock_us() + SPIN_US;
    do {
        for (int i = 0; i < 64; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) != value) == change) return true;
            if (!p->may_spin) return false;
            relax();
        }
    } while (bt_clock_us() < end_us);
    return false;
}

static void *worker_main(void *arg)
{
    const worker *w = arg;
    bt_pool *p = w->pool;
    for (uint32_t seen = 0;; seen++) {
        if (!spin(p, &p->generation, seen, true)) {
            /* Announce first, look again after: the caller raises first and looks for sleepers after. */
            atomic_fetch_add(&p->sleepers, 1);
            while (atomic_load(&p->generation) == seen) futex_wait(&p->generation, seen);
            atomic_fetch_sub(&p->sleepers, 1);
        }
        if (!p->fn) return NULL;
        p->fn(p->ud, w->part, p->parts);
        if (atomic_fetch_sub(&p->remaining, 1) == 1 && atomic_load(&p->caller_sleeps))
            futex_wake(&p->remaining, 1);
    }
}

static void raise_generation(bt_pool *p, bt_pool_fn *fn, void *ud)
{
    p->fn = fn;
    p->ud = ud;
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers)) futex_wake(&p->generation, INT32_MAX);
}

static size_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0) return 1;   /* more than 1024 cores: say how many by hand */
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (size_t)n;
}

bt_err bt_pool_new(bt_pool **ret, size_t threads, bt_fault *fault)
{
    const size_t cores = usable_cores();
    if (threads == 0) threads = cores < THREADS_MAX ? cores : THREADS_MAX;
    if (threads > THREADS_MAX) return bt_fail(fault, BT_EARG, "%zu threads, the limit is %u", threads, THREADS_MAX);
    bt_pool *p = calloc(1, sizeof *p + (threads - 1) * sizeof *p->workers);
    if (!p) return bt_fail(fault, BT_ENOMEM, "a pool of %zu threads", threads);
    p->parts = threads;
    p->may_spin = threads <= cores;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);      /* signals belong to the thread with the event loop */
    int err = 0;
    for (size_t i = 0; i + 1 < threads && !err; i++) {
        p->workers[i] = (worker){ .pool = p, .part = i + 1 };
        err = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (!err) p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        bt_pool_free(p);
        return bt_fail(fault, err == EAGAIN ? BT_ELIMIT : BT_EIO, "starting %zu threads: %s", threads, strerror(err));
    }
    *ret = p;
    return BT_OK;
}

void bt_pool_free(bt_pool *p)
{
    if (!p) return;
    raise_generation(p, NULL, NULL);
    for (size_t i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    free(p);
}

size_t bt_pool_threads(const bt_pool *p) { return p ? p->parts : 1; }

void bt_pool_run(bt_pool *p, bt_pool_fn *fn, void *ud)
{
    if (!p || p->parts == 1) {
        fn(ud, 0, 1);
        return;
    }
    atomic_store_explicit(&p->remaining, (uint32_t)(p->parts - 1), memory_order_relaxed);
    raise_generation(p, fn, ud);
    fn(ud, 0, p->parts);
    if (spin(p, &p->remaining, 0, false)) return;
    atomic_store(&p->caller_sleeps, 1);
    for (uint32_t left; (left = atomic_load(&p->remaining)) != 0;) futex_wait(&p->remaining, left);
    atomic_store(&p->caller_sleeps, 0);
}

void bt_pool_slice(size_t *begin, size_t *end, size_t count, size_t grain, size_t part, size_t parts)
{
    if (grain == 0) grain = 1;
    const size_t units = count / grain + (count % grain != 0);
    const size_t each = units / parts, extra = units % parts;      /* the first `extra` parts take one more */
    const size_t b = (part * each + (part < extra ? part : extra)) * grain;
    const size_t n = (each + (part < extra)) * grain;
    *begin = b < count ? b : count;
    *end = n < count - *begin ? *begin + n : count;
}
