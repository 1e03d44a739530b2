/* Exact counts of small numbers; large numbers count by their first eleven bits. */
#include "trace/hist.h"

#include <math.h>
#include <stdlib.h>

enum { EXACT_BITS = 18, SUB_BITS = 10, EXACT = 1 << EXACT_BITS, SUB = 1 << SUB_BITS };
enum { BUCKETS = EXACT + (64 - EXACT_BITS) * SUB };

bt_err bt_trace_hist_begin(bt_trace_hist *h, bt_fault *fault)
{
    *h = (bt_trace_hist){.least = UINT64_MAX};
    h->count = calloc(BUCKETS, sizeof *h->count);
    return h->count ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a histogram");
}

void bt_trace_hist_done(bt_trace_hist *h)
{
    free(h->count);
    h->count = NULL;
}

static uint32_t bucket_of(uint64_t v)
{
    if (v < EXACT) return (uint32_t)v;
    const int top = 63 - __builtin_clzll(v);
    return (uint32_t)(EXACT + (top - EXACT_BITS) * SUB + (int)((v >> (top - SUB_BITS)) & (SUB - 1)));
}

/* The least value of a bucket. */
static uint64_t value_of(uint32_t bucket)
{
    if (bucket < EXACT) return bucket;
    const uint32_t i = bucket - EXACT;
    return (uint64_t)(SUB + i % SUB) << (i / SUB + EXACT_BITS - SUB_BITS);
}

void bt_trace_hist_add(bt_trace_hist *h, uint64_t value)
{
    h->count[bucket_of(value)]++;
    h->n++;
    h->sum += (double)value;
    if (value < h->least) h->least = value;
    if (value > h->largest) h->largest = value;
}

double bt_trace_hist_mean(const bt_trace_hist *h) { return h->n ? h->sum / (double)h->n : 0; }

uint64_t bt_trace_hist_at(const bt_trace_hist *h, double share)
{
    if (h->n == 0) return 0;
    const double rank = ceil((double)h->n * share);
    uint64_t left = rank < 1 ? 0 : rank < (double)h->n ? (uint64_t)rank - 1 : h->n - 1;
    if (left == h->n - 1) return h->largest;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        if (left < h->count[i]) return value_of(i);
        left -= h->count[i];
    }
    return h->largest;
}

uint64_t bt_trace_hist_below(const bt_trace_hist *h, uint64_t value)
{
    const uint32_t last = bucket_of(value);
    uint64_t n = 0;
    for (uint32_t i = 0; i <= last; i++) n += h->count[i];
    return n;
}
