/* Threads that meet at a generation counter. Fields below are written by the caller of bt_pool_run before it
 * raises `generation` (release) and read by the threads after they saw it (acquire); `remaining` brings the
 * results back the same way. Sleeping uses futexes on these two words, so nothing blocks while both sides
 * are awake. */
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
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MAX 256u
#define SPIN_US     50
#define AWAKE_US    1000

typedef struct worker {
    _Alignas(64) bt_pool *pool;
    size_t part;
    pthread_t thread;
    _Atomic int cpu; /* where it last began a part, or was sent; -1: not known */
} worker;

struct bt_pool {
    size_t parts;
    size_t started; /* threads to join */
    bool may_spin;  /* false when threads outnumber cores: spinning would delay the work itself */
    bt_pool_fn *fn; /* NULL: end */
    void *ud;
    _Atomic uint32_t generation; /* futex: threads wait for it to change */
    _Atomic uint32_t sleepers;   /* threads in, or about to enter, the futex */
    _Atomic uint32_t remaining;  /* futex: the caller waits for 0 */
    _Atomic uint32_t caller_sleeps;
    int caller_cpu;    /* at the last run */
    cpu_set_t allowed; /* cores that threads may use */
    worker workers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    /* returns early at will; callers look again */
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
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

/* Wait awake until *word is (or, with `change`, is no longer) value. False: gave up. Waking a thread takes 30
 * to 90 us, more than most serial stretches between two runs, and a thread that slept through one would make
 * the other side sleep too. After SPIN_US the thread yields the core. */
static bool spin(const bt_pool *p, _Atomic uint32_t *word, uint32_t value, bool change)
{
    if (!p->may_spin) return (atomic_load_explicit(word, memory_order_acquire) != value) == change;
    const int64_t begin_us = bt_clock_us();
    for (int64_t spent_us = 0; spent_us < AWAKE_US; spent_us = bt_clock_us() - begin_us) {
        const bool yields = spent_us >= SPIN_US;
        for (int i = 0; i < (yields ? 1 : 64); i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) != value) == change) return true;
            if (yields) (void)sched_yield();
            else relax();
        }
    }
    return false;
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    bt_pool *p = w->pool;
    for (uint32_t seen = 0;; seen++) {
        if (!spin(p, &p->generation, seen, true)) {
            /* Announce first, look again after: the caller raises first and looks for sleepers after. */
            atomic_fetch_add(&p->sleepers, 1);
            while (atomic_load(&p->generation) == seen) futex_wait(&p->generation, seen);
            atomic_fetch_sub(&p->sleepers, 1);
        }
        if (!p->fn) return NULL;
        const int cpu = sched_getcpu();
        if (cpu != atomic_load_explicit(&w->cpu, memory_order_relaxed))
            atomic_store_explicit(&w->cpu, cpu, memory_order_relaxed);
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

/* Take the core out of the set; false where it was not in it. */
static bool take_core(cpu_set_t *set, int cpu)
{
    const bool had = cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, set);
    if (had) CPU_CLR(cpu, set);
    return had;
}

/* No two parts on one core while there are others: some schedulers wake a thread where its waker runs, or
 * pack threads onto few cores, and there a part begins only when the caller has ended its own. A thread on
 * another's core is sent to the cores that no part uses. */
static void keep_apart(bt_pool *p, int caller_cpu)
{
    cpu_set_t spare = p->allowed;
    bool in_the_way[THREADS_MAX] = {false};
    p->caller_cpu = caller_cpu;
    (void)take_core(&spare, caller_cpu);
    for (size_t i = 0; i < p->started; i++) {
        const int cpu = atomic_load_explicit(&p->workers[i].cpu, memory_order_relaxed);
        in_the_way[i] = cpu >= 0 && !take_core(&spare, cpu);
    }
    for (size_t i = 0; i < p->started && CPU_COUNT(&spare) > 0; i++) {
        worker *w = &p->workers[i];
        if (!in_the_way[i]) continue;
        (void)pthread_setaffinity_np(w->thread, sizeof spare, &spare);
        int to = 0;
        while (!take_core(&spare, to)) to++;
        atomic_store_explicit(&w->cpu, to, memory_order_relaxed); /* a guess until it says where it is */
    }
}

static size_t usable_cores(cpu_set_t *ret)
{
    CPU_ZERO(ret);
    if (sched_getaffinity(0, sizeof *ret, ret) < 0) return 1; /* more than 1024 cores: say how many by hand */
    const int n = CPU_COUNT(ret);
    return n < 1 ? 1 : (size_t)n;
}

static size_t most_threads(size_t cores) { return cores < THREADS_MAX ? cores : THREADS_MAX; }

size_t bt_pool_cores(void)
{
    cpu_set_t allowed;
    return most_threads(usable_cores(&allowed));
}

bt_err bt_pool_new(bt_pool **ret, size_t threads, bt_fault *fault)
{
    cpu_set_t allowed;
    const size_t cores = usable_cores(&allowed);
    if (threads == 0) threads = most_threads(cores);
    if (threads > THREADS_MAX)
        return bt_fail(fault, BT_EARG, "%zu threads; at most %u are allowed", threads, THREADS_MAX);
    bt_pool *p = aligned_alloc(64, sizeof *p + (threads - 1) * sizeof *p->workers);
    if (p) memset(p, 0, sizeof *p + (threads - 1) * sizeof *p->workers);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for a pool of %zu threads", threads);
    p->parts = threads;
    p->may_spin = threads <= cores;
    p->allowed = allowed;
    p->caller_cpu = -1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals belong to the thread with the event loop */
    int err = 0;
    for (size_t i = 0; i + 1 < threads && !err; i++) {
        p->workers[i] = (worker){.pool = p, .part = i + 1, .cpu = -1};
        err = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (!err) p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        bt_pool_free(p);
        char what[64];
        snprintf(what, sizeof what, "%zu threads", threads);
        const bt_err e = bt_fail_thread(fault, what, err);
        return err == EAGAIN ? BT_ELIMIT : e;
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
    const int cpu = sched_getcpu();
    if (p->may_spin && (cpu != p->caller_cpu || atomic_load_explicit(&p->sleepers, memory_order_relaxed)))
        keep_apart(p, cpu);
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
    const size_t each = units / parts, extra = units % parts; /* the first `extra` parts take one more */
    const size_t b = (part * each + (part < extra ? part : extra)) * grain;
    const size_t n = (each + (part < extra)) * grain;
    *begin = b < count ? b : count;
    *end = n < count - *begin ? *begin + n : count;
}
