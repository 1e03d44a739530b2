#ifndef BT_TRACE_HIST_H
#define BT_TRACE_HIST_H
#include <stdint.h>
#include "base/err.h"

/* Counts of numbers in a fixed amount of memory (2.5 MiB): exact below 2^18, above that in buckets a thousandth of
 * their value wide. Sum, least and largest are always exact. */
typedef struct bt_trace_hist {
    uint64_t *count;
    uint64_t n, least, largest;
    double sum;
} bt_trace_hist;

bt_err bt_trace_hist_begin(bt_trace_hist *h, bt_fault *fault);
void bt_trace_hist_done(bt_trace_hist *h);
void bt_trace_hist_add(bt_trace_hist *h, uint64_t value);
double bt_trace_hist_mean(const bt_trace_hist *h); /* 0 without values */
/* The quantile `share` by nearest rank: the value numbered ceil(n * share) in ascending order, from 1. 0 without
 * values. */
uint64_t bt_trace_hist_at(const bt_trace_hist *h, double share);
/* How many values are at most `value`. */
uint64_t bt_trace_hist_below(const bt_trace_hist *h, uint64_t value);
#endif
