#ifndef BT_RT_METRICS_H
#define BT_RT_METRICS_H
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

/* Counters, gauges and histograms from one static table, shown as Prometheus text (exposition format 0.0.4).
 *
 *   enum { GW_REQUESTS, GW_QUEUE, GW_TTFT, GW_METRICS };
 *   static const bt_metric table[GW_METRICS] = {
 *       [GW_REQUESTS] = { "baton_requests_total", "Requests by outcome", BT_METRIC_COUNTER, .label = "outcome", .values
 *         = outcomes },
 *       ...
 *
 * Label values come from short fixed lists, so the number of series is known at start: a metric has no label, one, or
 * two.
 * One owner: all calls of one bt_metrics come from one thread (other threads send numbers through base/ring.h). */
typedef enum bt_metric_type { BT_METRIC_COUNTER, BT_METRIC_GAUGE, BT_METRIC_HISTOGRAM } bt_metric_type;

typedef struct bt_metric {
    const char *name; /* baton_ + thing + unit, counters end with _total */
    const char *help;
    bt_metric_type type;
    const char *label;         /* NULL: none */
    const char *const *values; /* of label; ends with NULL */
    const char *label2;        /* NULL: none */
    const char *const *values2;
    const double *buckets; /* histograms: upper bounds, ascending, without +Inf */
    size_t bucket_count;
} bt_metric;

typedef struct bt_metrics bt_metrics;

/* The table must live on. BT_EARG: a name or label that Prometheus would refuse, a histogram without ascending
 * buckets. */
bt_err bt_metrics_new(bt_metrics **ret, const bt_metric *table, size_t count, bt_fault *fault);
void bt_metrics_free(bt_metrics *m); /* NULL is fine */

/* metric: index in the table. value: index in values (0 without label); value2 likewise. */
/* counter (by >= 0), gauge */
void bt_metrics_add(bt_metrics *m, size_t metric, size_t value, size_t value2, double by);
void bt_metrics_set(bt_metrics *m, size_t metric, size_t value, size_t value2, double to);    /* gauge */
void bt_metrics_observe(bt_metrics *m, size_t metric, size_t value, size_t value2, double x); /* histogram */
/* counter, gauge; histogram: count */
double bt_metrics_get(const bt_metrics *m, size_t metric, size_t value, size_t value2);

/* Appends all series, those of value 0 too, so that every series exists from the start. Content type:
 * BT_METRICS_CONTENT_TYPE. */
#define BT_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
bt_err bt_metrics_render(const bt_metrics *m, bt_buf *out);
#endif
