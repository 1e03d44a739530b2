/* See kit.h. */
#include "tests/bench/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void bench_die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

void *bench_bytes(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes)) bench_die("out of memory");
    memset(p, 0, bytes);
    return p;
}

double bench_measure(bt_pool *pool, bt_pool_fn *fn, void *ud) { return tool_measure(pool, fn, ud); }
double bench_median(double *samples, size_t n) { return tool_median(samples, n); }
double bench_peak_flops(const machine *m) { return tool_peak(m, TOOL_FP32); }
double bench_peak_flops_once(const machine *m) { return tool_peak_once(m, TOOL_FP32); }
double bench_peak_int8(const machine *m) { return tool_peak(m, TOOL_INT8); }

/* The benchmarks' machines share what they read. */
static machine readable(const machine *m)
{
    static machine reader;
    bt_fault fault;
    if (!reader.memory && tool_machine_init(&reader, m->kernels, &fault) < 0) bench_die(fault.text);
    machine ret = *m;
    ret.memory = reader.memory;
    return ret;
}

double bench_read_rate(const machine *m)
{
    const machine r = readable(m);
    return tool_read_rate(&r);
}

double bench_read_once(const machine *m)
{
    const machine r = readable(m);
    return tool_read_once(&r);
}
