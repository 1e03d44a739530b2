/* Real processes that price their work, and that keep the pace of devices: every answer, /metrics and
 * /v1/status tell it; a paced system says the same, bit for bit, and no earlier than K times what its devices
 * would have taken. */
#include "tests/helpers/cluster/client.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/spawn.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ENDS_MS = 60000, TOKENS = 12, K = 12 };
static const char text[] =
    "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t";

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("%s is no number", key);
    return json_number_value(v);
}

/* The `baton` object of an answer; the caller drops it. */
static json_t *ask(const char *url, bool is_stream)
{
    json_t *body = cluster_request(text, TOKENS);
    (void)json_object_set_new(body, "ignore_eos", json_true());
    if (is_stream) (void)json_object_set_new(body, "stream", json_true());
    client *c = client_post(url, "/v1/completions", body);
    json_decref(body);
    if (!client_wait(c, spawn_patience(ENDS_MS)) || client_status(c) != 200)
        fail_msg("%ld: %s", client_status(c), client_body(c));
    json_t *baton = client_baton(c);
    assert_non_null(baton);
    json_incref(baton);
    client_end(c);
    return baton;
}

/* Waits for the heartbeat that tells it. */
static double metric_of(const char *url, const char *line, double at_least)
{
    for (int64_t end = spawn_now_ms() + spawn_patience(ENDS_MS);
         cluster_metric(url, line) < at_least && spawn_before(end);)
        spawn_nap();
    return cluster_metric(url, line);
}

static void every_answer_metrics_and_status_tell_what_the_devices_would_take(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--profile", "hexagon-v75", "--decode-profile", "a100",
                        "--link", "0.002,50us"));
    json_t *whole = ask(c.url, false), *stream = ask(c.url, true);
    const json_t *d = json_object_get(whole, "device"), *e = json_object_get(stream, "device");
    assert_string_equal(json_string_value(json_object_get(d, "profile")), "hexagon-v75");
    assert_string_equal(json_string_value(json_object_get(d, "decode_profile")), "a100");
    assert_string_equal(json_string_value(json_object_get(d, "link")), "0.002,50us");
    assert_true(number(d, "ttft_ms") > 0);
    assert_true(number(d, "ttft_ms") >= number(d, "npu_ms") + number(d, "npu_bubble_ms"));
    assert_true(number(d, "exposed_transfer_ms") > 0);
    assert_true(number(d, "exposed_transfer_ms") <= number(d, "transfer_ms"));
    assert_true(number(d, "decode_ms") > 0);
    assert_float_equal(number(d, "tpot_ms") * (TOKENS - 1), number(d, "decode_ms"), 1e-6);
    assert_true(json_is_null(json_object_get(d, "joules"))); /* nobody has published what Hexagon draws */
    assert_true(number(d, "utilisation") > 0 && number(d, "utilisation") < 1);
    assert_true(number(d, "decode_utilisation") > 0 && number(d, "decode_utilisation") < 1);
    assert_true(number(json_object_get(d, "host"), "prefill_ms") > 0);
    assert_true(json_is_null(json_object_get(d, "pace")));
    /* the same steps; the prompt's beginning was there already, so less of it was computed */
    assert_float_equal(number(e, "decode_ms"), number(d, "decode_ms"), 1e-6);
    assert_true(number(stream, "cached_tokens") > 0);
    assert_true(number(e, "transfer_ms") < number(d, "transfer_ms"));
    const double seconds = (number(d, "prefill_ms") + number(e, "prefill_ms")) / 1e3;
    assert_float_equal(metric_of(c.url, "baton_device_seconds_total{role=\"prefill\"} ", seconds * 0.999),
                       seconds, seconds * 1e-3);
    assert_true(cluster_metric(c.url, "baton_device_prefill_part_seconds_total{part=\"npu\"} ") > 0);
    assert_true(cluster_metric(c.url, "baton_device_bubble_seconds_total{engine=\"npu\"} ") > 0);
    const double steps = (number(d, "decode_ms") + number(e, "decode_ms")) / 1e3;
    assert_float_equal(metric_of(c.url, "baton_device_seconds_total{role=\"decode\"} ", steps * 0.999), steps,
                       steps * 1e-3);
    assert_true(cluster_metric(c.url, "baton_device_joules_total{role=\"decode\"} ") > 0); /* of a100's TDP */
    assert_true(cluster_metric(c.url, "baton_device_utilisation_ratio{role=\"prefill\"} ") > 0);
    assert_float_equal(cluster_metric(c.url, "\nbaton_device_transfer_exposed_seconds_total "),
                       (number(d, "exposed_transfer_ms") + number(e, "exposed_transfer_ms")) / 1e3, 1e-6);
    json_t *status = cluster_status(c.url);
    size_t i;
    json_t *node;
    json_array_foreach(json_object_get(status, "nodes"), i, node) {
        const bool is_decode = !strcmp(json_string_value(json_object_get(node, "role")), "decode");
        const json_t *device = json_object_get(node, "device");
        assert_string_equal(json_string_value(json_object_get(device, "profile")),
                            is_decode ? "a100" : "hexagon-v75");
        assert_true(number(device, "seconds") > 0);
    }
    assert_int_equal(i, 2);
    json_decref(status);
    json_decref(whole);
    json_decref(stream);
    assert_true(cluster_stop(&c));
}

static void a_paced_system_says_the_same_and_no_earlier(void **state)
{
    (void)state;
    json_t *run[2];
    for (int paced = 0; paced < 2; paced++) {
        cluster c;
        assert_true(CLUSTER(&c, spawn_tiny_model(1), "--profile", "hexagon-v75", "--decode-profile",
                            "adreno-750", "--link", "0.01", "--pace", paced ? "device:12" : "off"));
        run[paced] = ask(c.url, paced > 0);
        assert_true(cluster_stop(&c));
    }
    const json_t *d = json_object_get(run[1], "device"), *host = json_object_get(d, "host"),
                 *fast = json_object_get(run[0], "device");
    assert_true(json_equal(json_object_get(run[0], "token_ids"), json_object_get(run[1], "token_ids")));
    assert_true(json_equal(json_object_get(run[0], "kv_digest"), json_object_get(run[1], "kv_digest")));
    /* the price is of the work, however long it took */
    static const char *const same[] = {"ttft_ms", "transfer_ms", "exposed_transfer_ms", "decode_ms"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_float_equal(number(d, same[i]), number(fast, same[i]), 1e-9);
    assert_float_equal(number(d, "pace"), K, 0);
    assert_true(number(run[1], "ttft_ms") >= K * number(d, "ttft_ms"));
    /* from the last rows on, which go a little before the prompt is over */
    assert_true(number(host, "exposed_transfer_ms") >= K * number(d, "exposed_transfer_ms"));
    /* the worker is through with the last step before it is let go */
    assert_true(number(host, "decode_ms") >= K * (number(d, "decode_ms") - number(d, "tpot_ms")));
    assert_float_equal(number(d, "paced_ms"), K * (number(d, "ttft_ms") + number(d, "decode_ms")), 1);
    assert_true(number(d, "late_ms") >= 0);
    const bool is_late = number(d, "late_ms") > 0.01 * number(d, "paced_ms");
    assert_int_equal(json_is_true(json_object_get(d, "is_late")), is_late);
    json_decref(run[0]);
    json_decref(run[1]);
}

/* A prompt of minutes at this pace, of which the host is through at once. */
static void a_client_that_leaves_a_paced_system_leaves_nothing(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--profile", "hexagon-v75", "--decode-profile", "a100",
                        "--pace", "device:2000"));
    json_t *body = cluster_request(text, TOKENS);
    client *one = client_post(c.url, "/v1/completions", body);
    json_decref(body);
    json_t *status = NULL;
    int64_t used = 0;
    for (int64_t end = spawn_now_ms() + spawn_patience(ENDS_MS); !used && spawn_before(end); client_step()) {
        json_t *node;
        size_t i;
        json_decref(status);
        status = cluster_status(c.url);
        json_array_foreach(json_object_get(status, "nodes"), i, node) {
            if (!strcmp(json_string_value(json_object_get(node, "role")), "prefill"))
                used = json_integer_value(json_object_get(node, "slots_used"));
        }
    }
    json_decref(status);
    assert_int_equal(used, 1);
    assert_false(client_is_over(one));
    client_end(one);
    assert_true(cluster_wait_idle(c.url, spawn_patience(ENDS_MS)));
    assert_true(cluster_stop(&c));
}

static void a_decode_node_that_computes_prompts_prices_and_paces_them(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--prefill", "0", "--decode-profile", "a100", "--pace",
                        "device:200"));
    json_t *baton = ask(c.url, false);
    const json_t *d = json_object_get(baton, "device");
    assert_string_equal(json_string_value(json_object_get(d, "profile")), "a100");
    assert_true(number(d, "ttft_ms") > 0);
    assert_true(json_is_null(json_object_get(d, "transfer_ms")));
    assert_true(number(baton, "ttft_ms") >= 200 * number(d, "ttft_ms"));
    json_decref(baton);
    assert_true(cluster_stop(&c));
}

static void a_host_that_is_too_slow_says_how_far_that_moved_each_figure(void **state)
{
    (void)state;
    /* a thousandth of the devices' time */
    spawn *s = SPAWN("baton", "replay", "--synthetic", "in:40,out:6,rate:50", "--limit", "4", "-m",
                     spawn_tiny_model(1), "--profile", "hexagon-v75", "--decode-profile", "a100", "--pace",
                     "device:0.001", "-q", "--json");
    assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), 0);
    json_t *o = json_loads(spawn_out(s), 0, NULL);
    const json_t *pace = json_object_get(o, "pace");
    static const char *const times[] = {"ttft_ms", "tpot_ms", "e2e_ms"};
    assert_true(number(pace, "late_ratio") > 0.01);
    for (size_t i = 0; i < 3; i++) {
        const json_t *of = json_object_get(json_object_get(pace, "moved"), times[i]);
        assert_true(number(of, "most_ms") > 0);
        assert_float_equal(number(of, "most_ms"),
                           number(of, "most_ratio") * number(json_object_get(o, times[i]), "mean"), 1e-6);
    }
    char path[1024];
    assert_true((size_t)snprintf(path, sizeof path, "%s", spawn_path("late.json")) < sizeof path);
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);
    s = SPAWN("baton", "compare", path, path);
    assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), 0);
    assert_non_null(strstr(spawn_out(s), "late work moved its means by at most ttft_ms"));
    assert_non_null(strstr(spawn_out(s), "compared request by request"));
}

static void a_pace_without_devices_is_refused_by_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *program, *option, *value, *words;
        int code;
    } bad[] = {
        {"baton-prefill", "--pace", "device:4", "it takes --engine npu and a --profile with a time", 1},
        {"baton-decode", "--pace", "device:4", "it takes a --decode-profile, such as adreno-750", 1},
        {"baton-decode", "--decode-profile", "host", "profile 'host' has no time", 1},
        {"baton-prefill", "--pace", "device:0", "K from 0.001 to 1000000", 2},
        {"baton-decode", "--pace", "host:4", "pace 'host:4': off, or device:K", 2},
        {"baton-prefill", "--link", "fast", "link 'fast': Gbit/s from 0.001", 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spawn *s = SPAWN(bad[i].program, "-m", spawn_tiny_model(1), "--gateway", "tcp://127.0.0.1:1",
                         bad[i].option, bad[i].value);
        assert_int_equal(spawn_wait(s, spawn_patience(ENDS_MS)), bad[i].code);
        if (!strstr(spawn_err(s), bad[i].words))
            fail_msg("%s %s: %s", bad[i].option, bad[i].value, spawn_err(s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_answer_metrics_and_status_tell_what_the_devices_would_take,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_paced_system_says_the_same_and_no_earlier, cluster_teardown),
        cmocka_unit_test_teardown(a_client_that_leaves_a_paced_system_leaves_nothing, cluster_teardown),
        cmocka_unit_test_teardown(a_decode_node_that_computes_prompts_prices_and_paces_them,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_host_that_is_too_slow_says_how_far_that_moved_each_figure,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_pace_without_devices_is_refused_by_nodes, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
