/* The only reader of the system's clocks. */
#include "base/clock.h"

#include <time.h>

int64_t bt_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t bt_clock_us(void) { return bt_clock_ns() / 1000; }

int64_t bt_clock_thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* likewise */
    return ((int64_t)t.tv_sec * 1000000000 + t.tv_nsec) / 1000;
}

int64_t bt_clock_wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t bt_clock_wall_s(void) { return bt_clock_wall_us() / 1000000; }
