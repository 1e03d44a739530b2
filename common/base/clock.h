#ifndef BT_BASE_CLOCK_H
#define BT_BASE_CLOCK_H
#include <stdint.h>

/* Monotonic time since an arbitrary moment of this machine; the only place that calls clock_gettime.
 * Never compare the values of two processes: send durations. */
int64_t bt_clock_us(void);
int64_t bt_clock_ns(void);
int64_t bt_clock_thread_us(void); /* time of processors that the calling thread has used */
static inline int64_t bt_clock_ms(void) { return bt_clock_us() / 1000; }
/* Seconds since 1970, for people and for the `created` field of HTTP answers; never for intervals. */
int64_t bt_clock_wall_s(void);
int64_t bt_clock_wall_us(void); /* the same, with the part of the second */
#endif
