#ifndef BT_BASE_POOL_H
#define BT_BASE_POOL_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

/* A pool of compute threads for data-parallel loops. The thread that calls bt_pool_run takes part, so a
 * pool of n has n - 1 threads of its own; n = 1 has none and costs nothing.
 *
 * bt_pool_run calls fn(ud, part, parts) once for each part in [0, parts) with parts = bt_pool_threads, each part on one
 * thread, and returns when all have ended; everything written by a part is visible then. Work is split over independent
 * outputs only, never over a sum (rule of order). It neither allocates nor blocks in the system while work is short:
 * for a millisecond threads wait awake for the next run, most of that time yielding the core to others, then they
 * sleep. Where there are no more threads than cores, each thread keeps a core of its own. One caller at a time. */
typedef struct bt_pool bt_pool;
typedef void bt_pool_fn(void *ud, size_t part, size_t parts);

bt_err bt_pool_new(bt_pool **ret, size_t threads /* 1..256; 0 = cores this process may use */, bt_fault *fault);
void bt_pool_free(bt_pool *p);                          /* NULL is fine; joins the threads */
size_t bt_pool_cores(void);                             /* what 0 threads are */
size_t bt_pool_threads(const bt_pool *p);               /* NULL counts as 1 */
void bt_pool_run(bt_pool *p, bt_pool_fn *fn, void *ud); /* NULL runs fn(ud, 0, 1) */

/* Items [0, count) from which the parts of one run take `grain` at a time (at least 1; the last piece may be shorter),
 * so that none idles while another has several left. Set before the run, like all its input; each item is taken once.
 */
typedef struct bt_pool_range {
    atomic_size_t next;
    size_t count, grain;
} bt_pool_range;
static inline void bt_pool_range_init(bt_pool_range *r, size_t count, size_t grain)
{
    atomic_init(&r->next, 0);
    r->count = count;
    r->grain = grain ? grain : 1;
}
static inline bool bt_pool_range_take(bt_pool_range *r, size_t *begin, size_t *end)
{
    const size_t b = atomic_fetch_add_explicit(&r->next, r->grain, memory_order_relaxed);
    if (b >= r->count) return false;
    *begin = b;
    *end = r->grain < r->count - b ? b + r->grain : r->count;
    return true;
}

/* The range [*begin, *end) of `count` items, in units of `grain`, that belongs to `part` of `parts`. */
void bt_pool_slice(size_t *begin, size_t *end, size_t count, size_t grain, size_t part, size_t parts);
#endif
