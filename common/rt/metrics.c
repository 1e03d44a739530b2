/* One flat array of doubles: each series has one cell, a histogram's has one for each bucket, +Inf, and
 * the sum. */
#include "rt/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX 100000

struct bt_metrics {
    const bt_metric *table;
    size_t count;
    struct place {
        size_t first, values, values2; /* its first cell, and how many values its labels have */
    } * places;                        /* of each metric */
    double *cells;
};

static size_t list_len(const char *const *values)
{
    size_t n = 0;
    while (values && values[n]) n++;
    return n;
}

static size_t values_of(const bt_metric *d) { return d->label ? list_len(d->values) : 1; }
static size_t values2_of(const bt_metric *d) { return d->label2 ? list_len(d->values2) : 1; }
static size_t width(const bt_metric *d) { return d->type == BT_METRIC_HISTOGRAM ? d->bucket_count + 2 : 1; }

/* [a-zA-Z_][a-zA-Z0-9_]* ; colons are for recording rules, not for programs */
static bool good_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return name && *name && strspn(name, letters) == strlen(name) && (*name < '0' || *name > '9');
}

static bool good(const bt_metric *d)
{
    if (!good_name(d->name) || !d->help) return false;
    if (d->label && (!good_name(d->label) || !list_len(d->values))) return false;
    if (d->label2 && (!d->label || !good_name(d->label2) || !list_len(d->values2))) return false;
    if (d->type != BT_METRIC_HISTOGRAM) return d->bucket_count == 0;
    for (size_t i = 0; i < d->bucket_count; i++)
        if (!isfinite(d->buckets[i]) || (i && d->buckets[i] <= d->buckets[i - 1])) return false;
    return d->bucket_count > 0;
}

bt_err bt_metrics_new(bt_metrics **ret, const bt_metric *table, size_t count, bt_fault *fault)
{
    size_t cells = 0;
    bt_err e = BT_OK;
    bt_metrics *m = calloc(1, sizeof *m);
    if (!m || !(m->places = calloc(count + 1, sizeof *m->places))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the metrics");
        goto out;
    }
    m->table = table;
    m->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!good(&table[i])) {
            e = bt_fail(fault, BT_EARG, "metric %zu (%.60s) is not well-formed", i,
                        table[i].name ? table[i].name : "");
            goto out;
        }
        const struct place p = {cells, values_of(&table[i]), values2_of(&table[i])};
        m->places[i] = p;
        cells += p.values * p.values2 * width(&table[i]);
        if (cells > CELLS_MAX) {
            e = bt_fail(fault, BT_ELIMIT, "more than %d series", CELLS_MAX);
            goto out;
        }
    }
    if (!(m->cells = calloc(cells + 1, sizeof *m->cells)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the metrics");
out:
    if (e < 0) bt_metrics_free(m);
    else *ret = m;
    return e;
}

void bt_metrics_free(bt_metrics *m)
{
    if (!m) return;
    free(m->places);
    free(m->cells);
    free(m);
}

static double *cell(const bt_metrics *m, size_t metric, size_t value, size_t value2)
{
    assert(metric < m->count);
    const struct place *p = &m->places[metric];
    assert(value < p->values && value2 < p->values2);
    return m->cells + p->first + (value * p->values2 + value2) * width(&m->table[metric]);
}

void bt_metrics_add(bt_metrics *m, size_t metric, size_t value, size_t value2, double by)
{
    assert(m->table[metric].type != BT_METRIC_HISTOGRAM &&
           (by >= 0 || m->table[metric].type == BT_METRIC_GAUGE));
    *cell(m, metric, value, value2) += by;
}

void bt_metrics_set(bt_metrics *m, size_t metric, size_t value, size_t value2, double to)
{
    assert(m->table[metric].type == BT_METRIC_GAUGE);
    *cell(m, metric, value, value2) = to;
}

void bt_metrics_observe(bt_metrics *m, size_t metric, size_t value, size_t value2, double x)
{
    const bt_metric *d = &m->table[metric];
    double *c = cell(m, metric, value, value2);
    size_t b = 0;
    assert(d->type == BT_METRIC_HISTOGRAM);
    while (b < d->bucket_count && !(x <= d->buckets[b])) b++;
    c[b]++;
    c[d->bucket_count + 1] += x;
}

double bt_metrics_get(const bt_metrics *m, size_t metric, size_t value, size_t value2)
{
    const bt_metric *d = &m->table[metric];
    const double *c = cell(m, metric, value, value2);
    double sum = 0;
    for (size_t i = 0; i < (d->type == BT_METRIC_HISTOGRAM ? d->bucket_count + 1 : 1); i++) sum += c[i];
    return sum;
}

/* ---- text ---- */

static void put_escaped(bt_buf *out, const char *text, bool quotes)
{
    for (;; text++) {
        const size_t plain = strcspn(text, quotes ? "\n\\\"" : "\n\\");
        (void)bt_buf_add(out, text, plain);
        text += plain;
        if (!*text) return;
        (void)bt_buf_byte(out, '\\');
        (void)bt_buf_byte(out, *text == '\n' ? 'n' : (uint8_t)*text);
    }
}

/* Nearly all numbers; a gateway with thousands of keys has tens of thousands. */
static void put_whole(bt_buf *out, uint64_t v)
{
    char text[24];
    size_t at = sizeof text;
    do text[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    (void)bt_buf_add(out, text + at, sizeof text - at);
}

static void put_number(bt_buf *out, double v)
{
    if (v >= 0 && v < 1e15 && !(v > floor(v))) put_whole(out, (uint64_t)v);
    else if (isnan(v)) (void)bt_buf_str(out, "NaN");
    else if (isinf(v)) (void)bt_buf_str(out, v > 0 ? "+Inf" : "-Inf");
    else (void)bt_buf_fmt(out, "%.15g", v);
}

/* name_suffix{label="value",label2="value2",le="0.5"} number */
static void put_series(bt_buf *out, const bt_metric *d, const char *suffix, size_t value, size_t value2,
                       const double *le, double v)
{
    const char *sep = "{";
    (void)bt_buf_str(out, d->name);
    (void)bt_buf_str(out, suffix);
    if (d->label) {
        (void)bt_buf_byte(out, '{');
        (void)bt_buf_str(out, d->label);
        (void)bt_buf_str(out, "=\"");
        put_escaped(out, d->values[value], true);
        (void)bt_buf_byte(out, '"');
        sep = ",";
    }
    if (d->label2) {
        (void)bt_buf_byte(out, ',');
        (void)bt_buf_str(out, d->label2);
        (void)bt_buf_str(out, "=\"");
        put_escaped(out, d->values2[value2], true);
        (void)bt_buf_byte(out, '"');
    }
    if (le) {
        (void)bt_buf_fmt(out, "%sle=\"", sep);
        put_number(out, *le);
        (void)bt_buf_byte(out, '"');
        sep = ",";
    }
    (void)bt_buf_str(out, *sep == ',' ? "} " : " ");
    put_number(out, v);
    (void)bt_buf_byte(out, '\n');
}

static void put_histogram(bt_buf *out, const bt_metric *d, size_t value, size_t value2, const double *c)
{
    const double infinity = HUGE_VAL;
    double sum = 0;
    for (size_t i = 0; i <= d->bucket_count; i++) {
        sum += c[i];
        put_series(out, d, "_bucket", value, value2, i < d->bucket_count ? &d->buckets[i] : &infinity, sum);
    }
    put_series(out, d, "_sum", value, value2, NULL, c[d->bucket_count + 1]);
    put_series(out, d, "_count", value, value2, NULL, sum);
}

bt_err bt_metrics_render(const bt_metrics *m, bt_buf *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    for (size_t i = 0; i < m->count; i++) {
        const bt_metric *d = &m->table[i];
        (void)bt_buf_fmt(out, "# HELP %s ", d->name);
        put_escaped(out, d->help, false);
        (void)bt_buf_fmt(out, "\n# TYPE %s %s\n", d->name, types[d->type]);
        for (size_t v = 0; v < m->places[i].values; v++) {
            for (size_t w = 0; w < m->places[i].values2; w++) {
                const double *c = cell(m, i, v, w);
                if (d->type == BT_METRIC_HISTOGRAM) put_histogram(out, d, v, w, c);
                else put_series(out, d, "", v, w, NULL, *c);
            }
        }
    }
    return out->err;
}
