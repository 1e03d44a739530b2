#ifndef TESTS_BENCH_KIT_H
#define TESTS_BENCH_KIT_H
#include "tools/bench/bench_limits.h"

/* The functions that the benchmarks share besides tools/bench/bench_limits.h, whose calls are here by shorter names.
 * Failures end the program. */
typedef tool_machine machine; /* of which a benchmark sets kernels, pool and threads */

_Noreturn void bench_die(const char *what);
void *bench_bytes(size_t bytes); /* zeroed, 64-byte aligned */
double bench_measure(bt_pool *pool, bt_pool_fn *fn, void *ud);
double bench_median(double *samples, size_t n); /* sorts them */

double bench_peak_flops(const machine *m);
double bench_peak_flops_once(const machine *m); /* in some 10 ms */
double bench_peak_int8(const machine *m);
double bench_read_rate(const machine *m);
double bench_read_once(const machine *m); /* one pass */
#endif
