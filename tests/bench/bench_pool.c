/* How long the threads of a pool take to begin and to end a run of nothing, one run after the other and after
 * a serial stretch of the caller, as a model's operators and steps leave between them.
 *
 *   bench_pool [--threads N] [--json]
 *
 * "begin": until the last part has begun; "whole": until bt_pool_run has returned. "awake": processor time
 * that the pool's threads use in a pause of 200 ms, in which they ought to sleep. */
#include "base/clock.h"
#include "tests/bench/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 4000, LONG_RUNS = 400, PARTS_MAX = 256, IDLE_US = 200000 };

typedef struct meeting {
    int64_t begun_ns[PARTS_MAX * 8];
} meeting; /* a cache line each */

static void note(void *ud, size_t part, size_t parts)
{
    (void)parts;
    ((meeting *)ud)->begun_ns[part * 8] = bt_clock_ns();
}

/* The caller works alone: it does not sleep. */
static void alone(int64_t us)
{
    for (const int64_t end_ns = bt_clock_ns() + 1000 * us; bt_clock_ns() < end_ns;) continue;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, int64_t pause_us, double *us, size_t n, bool json, bool first)
{
    qsort(us, n, sizeof *us, by_value);
    const double median = us[n / 2], p99 = us[n * 99 / 100];
    if (json)
        printf("%s    {\"what\": \"%s\", \"pause_us\": %lld, \"median_us\": %.2f, \"p99_us\": %.2f}",
               first ? "" : ",\n", what, (long long)pause_us, median, p99);
    else printf("%-6s %12lld %12.2f %12.2f\n", what, (long long)pause_us, median, p99);
}

static void measure(bt_pool *pool, int64_t pause_us, bool json, bool first)
{
    static double begin[RUNS], whole[RUNS];
    static meeting m;
    const size_t n = pause_us > 500 ? LONG_RUNS : RUNS;
    for (size_t i = 0; i < n; i++) {
        if (pause_us) alone(pause_us);
        const int64_t t0 = bt_clock_ns();
        bt_pool_run(pool, note, &m);
        const int64_t t1 = bt_clock_ns();
        int64_t last = t0;
        for (size_t p = 0; p < bt_pool_threads(pool); p++)
            if (m.begun_ns[p * 8] > last) last = m.begun_ns[p * 8];
        begin[i] = (double)(last - t0) * 1e-3;
        whole[i] = (double)(t1 - t0) * 1e-3;
    }
    print("begin", pause_us, begin, n, json, first);
    print("whole", pause_us, whole, n, json, false);
}

int main(int argc, char **argv)
{
    static const int64_t pauses_us[] = {0, 10, 50, 200, 500, 2000};
    size_t threads = 0;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) threads = strtoul(argv[++i], NULL, 10);
        else bench_die("usage: bench_pool [--threads N] [--json]");
    }
    bt_pool *pool = NULL;
    if (bt_pool_new(&pool, threads, NULL) < 0) bench_die("no pool");
    if (json) printf("{\"threads\": %zu, \"rows\": [\n", bt_pool_threads(pool));
    else
        printf("%zu threads\n%-6s %12s %12s %12s\n", bt_pool_threads(pool), "", "pause us", "median us",
               "p99 us");
    for (size_t i = 0; i < sizeof pauses_us / sizeof *pauses_us; i++)
        measure(pool, pauses_us[i], json, i == 0);
    const clock_t before = clock();
    const struct timespec idle = {.tv_nsec = IDLE_US * 1000};
    nanosleep(&idle, NULL);
    const double awake_us = (double)(clock() - before) / CLOCKS_PER_SEC * 1e6;
    if (json) printf("\n  ], \"awake_us\": %.0f}\n", awake_us);
    else printf("awake for %.0f us of a pause of %d ms\n", awake_us, IDLE_US / 1000);
    bt_pool_free(pool);
    return 0;
}
