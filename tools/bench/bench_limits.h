#ifndef BT_TOOLS_BENCH_LIMITS_H
#define BT_TOOLS_BENCH_LIMITS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/kernels.h"

/* The most that this machine could do, measured in the same run as the kernels that are held against it, and how a time
 * is taken. Peaks are of the widest instructions that the kernels of a row of the dispatch table use. */
typedef enum tool_limit { TOOL_INT8, TOOL_BF16, TOOL_FP32 } tool_limit;

typedef struct tool_machine {
    double int8_ops, bf16_flops, fma_flops; /* a second, in registers, with the threads of `pool`; 0: the kernels have
                                               no such instruction */
    double read_bytes;                      /* a second, loading 1 GiB with the same threads */
    bt_pool *pool;                          /* borrowed */
    size_t threads;
    const bt_kernels *kernels;
    uint64_t *memory; /* what is read; kept, so that a pass can stand directly before and after a timing */
} tool_machine;

/* Takes 1 GiB; nothing is measured yet. BT_ENOMEM. */
bt_err tool_machine_init(tool_machine *ret, const bt_kernels *kernels, bt_fault *fault);
void tool_machine_done(tool_machine *m); /* zeros are fine */
/* Sets pool and threads, and measures all four limits: about two seconds. */
void tool_machine_measure(tool_machine *m, bt_pool *pool);

/* Operations a second: a multiply and an add are two. 0: no such instruction. */
double tool_peak(const tool_machine *m, tool_limit limit);
double tool_peak_once(const tool_machine *m, tool_limit limit); /* in some 10 ms */
double tool_read_rate(const tool_machine *m);
double tool_read_once(const tool_machine *m); /* one pass; 0 where there is no memory to read */

/* Seconds of one call: the median of 7 samples of at least 20 ms. */
double tool_measure(bt_pool *pool, bt_pool_fn *fn, void *ud);
double tool_median(double *samples, size_t n); /* sorts them; of an even number the upper */
#endif
