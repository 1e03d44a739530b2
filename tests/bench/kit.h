#ifndef TESTS_BENCH_KIT_H
#define TESTS_BENCH_KIT_H
#include <stddef.h>
#include <stdint.h>
#include "base/pool.h"
#include "kernels/kernels.h"

/* What the benchmarks share: the limits of the machine they run on, measured in the same run, how a time is taken, and a table of
 * figures held against those limits. Failures end the program. */
#define BENCH_CACHE_BYTES (32 << 20)        /* weights of up to so many bytes may stay in a cache between calls */

typedef struct machine {
    double fma_flops, int8_ops, read_bytes; /* a second, with the threads of `pool` */
    bt_pool *pool;
    size_t threads;
    const bt_kernels *kernels;
} machine;

typedef struct figure {
    const char *name, *bound;
    char shape[32];
    size_t t;
    double us, gflops, gbytes, ratio; /* ratio: time at the limit / time taken */
} figure;

_Noreturn void bench_die(const char *what);
void  *bench_bytes(size_t bytes);           /* zeroed, 64-byte aligned */
/* Seconds of one call: the median of 7 samples of at least 20 ms. */
double bench_measure(bt_pool *pool, bt_pool_fn *fn, void *ud);
double bench_median(double *samples, size_t n);     /* sorts them */

/* Multiply-adds of floats and of bytes in registers, and a load-only pass over 1 GiB; pool, threads and kernels are set. */
double bench_peak_flops(const machine *m);
double bench_peak_flops_once(const machine *m);     /* in some 10 ms */
double bench_peak_int8(const machine *m);
double bench_read_rate(const machine *m);
double bench_read_once(const machine *m);   /* one pass */

/* peak: of the operations that `flops` counts, named `limit`. touched: bytes until a call meets the same ones again. */
figure bench_rate_of(const machine *m, const char *name, double peak, const char *limit, size_t t, double flops, double bytes,
                     double touched, double seconds);
figure bench_rate(const machine *m, const char *name, size_t t, double flops, double bytes, double seconds);     /* peak: fma_flops */

void bench_print_machine(const machine *m, int json, int first);
void bench_print_figure(const figure *f, int json, int first);
#endif
