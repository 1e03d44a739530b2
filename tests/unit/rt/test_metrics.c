/* The Prometheus text, byte by byte, and tables that are refused. */
#include "rt/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static const char *const outcomes[] = {"ok", "say \"no\"\\", NULL};
static const char *const sides[] = {"in", "out", NULL};
static const double bounds[] = {0.5, 2};
enum { REQUESTS, QUEUE, WAIT, BYTES, METRICS };
static const bt_metric table[METRICS] = {
    [REQUESTS] = {.name = "baton_requests_total", .help = "Requests by\noutcome", .type = BT_METRIC_COUNTER,
                  .label = "outcome", .values = outcomes},
    [QUEUE] = {.name = "baton_queue_requests", .help = "Waiting", .type = BT_METRIC_GAUGE},
    [WAIT] = {.name = "baton_wait_seconds", .help = "Wait", .type = BT_METRIC_HISTOGRAM, .label = "side",
              .values = sides, .buckets = bounds, .bucket_count = 2},
    [BYTES] = {.name = "baton_bytes_total", .help = "Bytes", .type = BT_METRIC_COUNTER, .label = "side",
               .values = sides, .label2 = "outcome", .values2 = sides},
};

static void renders_the_exposition_format(void **s)
{
    (void)s;
    bt_metrics *m;
    bt_buf b;
    bt_buf_init(&b, 100000);
    assert_int_equal(bt_metrics_new(&m, table, METRICS, NULL), BT_OK);
    bt_metrics_add(m, REQUESTS, 1, 0, 3);
    bt_metrics_set(m, QUEUE, 0, 0, -1.5);
    bt_metrics_observe(m, WAIT, 0, 0, 0.5);
    bt_metrics_observe(m, WAIT, 0, 0, 0.25);
    bt_metrics_observe(m, WAIT, 0, 0, 1);
    bt_metrics_observe(m, WAIT, 0, 0, 100);
    bt_metrics_add(m, BYTES, 1, 0, 5000000000);
    assert_true(bt_metrics_get(m, WAIT, 0, 0) == 4);
    assert_true(bt_metrics_get(m, REQUESTS, 1, 0) == 3);
    assert_int_equal(bt_metrics_render(m, &b), BT_OK);
    assert_string_equal(
        bt_buf_text(&b),
        "# HELP baton_requests_total Requests by\\noutcome\n# TYPE baton_requests_total counter\n"
        "baton_requests_total{outcome=\"ok\"} 0\n"
        "baton_requests_total{outcome=\"say \\\"no\\\"\\\\\"} 3\n"
        "# HELP baton_queue_requests Waiting\n# TYPE baton_queue_requests gauge\nbaton_queue_requests -1.5\n"
        "# HELP baton_wait_seconds Wait\n# TYPE baton_wait_seconds histogram\n"
        "baton_wait_seconds_bucket{side=\"in\",le=\"0.5\"} 2\n"
        "baton_wait_seconds_bucket{side=\"in\",le=\"2\"} 3\n"
        "baton_wait_seconds_bucket{side=\"in\",le=\"+Inf\"} 4\n"
        "baton_wait_seconds_sum{side=\"in\"} 101.75\n"
        "baton_wait_seconds_count{side=\"in\"} 4\n"
        "baton_wait_seconds_bucket{side=\"out\",le=\"0.5\"} 0\n"
        "baton_wait_seconds_bucket{side=\"out\",le=\"2\"} 0\n"
        "baton_wait_seconds_bucket{side=\"out\",le=\"+Inf\"} 0\n"
        "baton_wait_seconds_sum{side=\"out\"} 0\n"
        "baton_wait_seconds_count{side=\"out\"} 0\n"
        "# HELP baton_bytes_total Bytes\n# TYPE baton_bytes_total counter\n"
        "baton_bytes_total{side=\"in\",outcome=\"in\"} 0\n"
        "baton_bytes_total{side=\"in\",outcome=\"out\"} 0\n"
        "baton_bytes_total{side=\"out\",outcome=\"in\"} 5000000000\n"
        "baton_bytes_total{side=\"out\",outcome=\"out\"} 0\n");
    bt_buf_done(&b);
    bt_metrics_free(m);
}

static void a_histogram_without_labels_has_only_le(void **s)
{
    (void)s;
    static const bt_metric one = {.name = "x", .help = "h", .type = BT_METRIC_HISTOGRAM, .buckets = bounds,
                                  .bucket_count = 1};
    bt_metrics *m;
    bt_buf b;
    bt_buf_init(&b, 100000);
    assert_int_equal(bt_metrics_new(&m, &one, 1, NULL), BT_OK);
    assert_int_equal(bt_metrics_render(m, &b), BT_OK);
    assert_string_equal(bt_buf_text(&b), "# HELP x h\n# TYPE x histogram\nx_bucket{le=\"0.5\"} "
                                         "0\nx_bucket{le=\"+Inf\"} 0\nx_sum 0\nx_count 0\n");
    bt_buf_done(&b);
    bt_metrics_free(m);
}

static void refuses_tables_that_prometheus_would_refuse(void **s)
{
    (void)s;
    static const double down[] = {2, 1};
    static const bt_metric bad[] = {
        {.name = "1x", .help = "h"},
        {.name = "a-b", .help = "h"},
        {.name = "x"},
        {.name = "x", .help = "h", .label = "l"},
        {.name = "x", .help = "h", .label2 = "l", .values2 = sides},
        {.name = "x", .help = "h", .type = BT_METRIC_HISTOGRAM},
        {.name = "x", .help = "h", .type = BT_METRIC_HISTOGRAM, .buckets = down, .bucket_count = 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_metrics *m = NULL;
        assert_int_equal(bt_metrics_new(&m, &bad[i], 1, NULL), BT_EARG);
        assert_null(m);
    }
    bt_metrics_free(NULL);
}

static void a_full_buffer_is_an_error(void **s)
{
    (void)s;
    bt_metrics *m;
    bt_buf b;
    bt_buf_init(&b, 100);
    assert_int_equal(bt_metrics_new(&m, table, METRICS, NULL), BT_OK);
    assert_int_equal(bt_metrics_render(m, &b), BT_ELIMIT);
    bt_buf_done(&b);
    bt_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_the_exposition_format),
        cmocka_unit_test(a_histogram_without_labels_has_only_le),
        cmocka_unit_test(refuses_tables_that_prometheus_would_refuse),
        cmocka_unit_test(a_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
