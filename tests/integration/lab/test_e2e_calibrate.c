/* baton calibrate in front of a running system: it ends with a profile that baton simulate takes, and that
 * prices what was held out. A busy machine measures anything, which shows in the times of one length: the
 * quieter of two calibrations judges, unless the first says that nothing can be said, and what its times are
 * apart is no error of the profile. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 2 };                /* calibrations */
static const double QUIET = 0.03, /* how far the least time of a length lies below its median on a quiet
                                     machine */
    BUSY = 0.15;                  /* and where nothing can be said */

static json_int_t number(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static void a_running_system_becomes_a_profile_that_can_be_simulated(void **state)
{
    (void)state;
    cluster sys;
    char model[512], box[512], node[600];
    (void)snprintf(model, sizeof model, "%s", spawn_tiny_model(1));
    (void)snprintf(box, sizeof box, "%s", spawn_path("box.json"));
    assert_true(CLUSTER(&sys, model, "-c", "512", "--threads", "1"));
    json_t *measured = spawn_json(SPAWN("baton", "calibrate", sys.url, "-m", model, "-o", box, "--name",
                                        "box", "--json", "--longest", "256", "-n", "8", "--batch", "2"));
    assert_int_equal(number(measured, "failed"), 0);
    assert_true(json_array_size(json_object_get(measured, "prompts")) >= 9); /* more where they were uneven */
    /* 4 lengths, and their steps */
    assert_int_equal(number(json_object_get(measured, "held_out"), "points"), 8);
    assert_true(cluster_stop(&sys));
    (void)snprintf(node, sizeof node, "2:%s", box);
    json_t *run =
        spawn_json(SPAWN("baton", "simulate", "--json", "-q", "-m", model, "-c", "512", "--prefill", "0",
                         "--decode", node, "--chunk-tokens", "4096", "--request-cpu", "0", "--token-cpu", "0",
                         "--synthetic", "in:100,out:20,rate:1", "--limit", "20"));
    assert_int_equal(number(run, "completed"), 20);
    assert_true(json_number_value(json_object_get(json_object_get(run, "ttft_ms"), "p50")) > 0);
    assert_true(json_number_value(json_object_get(json_object_get(run, "tpot_ms"), "p50")) > 0);
    json_decref(measured);
    json_decref(run);
}

/* The engine pads prompts, so that lengths between its programs are the test. */
static void what_this_machine_takes_is_predicted_within_8_percent(void **state)
{
    (void)state;
    cluster sys;
    char box[512];
    const char *model = getenv("BATON_TEST_MODEL");
    double spread = 1, median = 1;
    char seed[8];
    if (!model || !*model || !getenv("BATON_TEST_QUIET")) skip(); /* make test-paced, on a quiet machine */
    (void)snprintf(box, sizeof box, "%s", spawn_path("box.json"));
    assert_true(CLUSTER(&sys, model, "-c", "512", "--threads", "1"));
    for (int i = 0; i < MOST && (i == 0 || (spread > QUIET && spread <= BUSY)); i++) {
        (void)snprintf(seed, sizeof seed, "%d", i + 1); /* other words: no prefix is kept */
        json_t *m = spawn_json(SPAWN("baton", "calibrate", sys.url, "-m", model, "-o", box, "--json",
                                     "--longest", "256", "-n", "8", "--batch", "2", "--seed", seed));
        const double apart = json_number_value(json_object_get(m, "spread")),
                     error =
                         json_number_value(json_object_get(json_object_get(m, "held_out"), "median_error"));
        char *programs = json_dumps(json_object_get(m, "program_rows"), JSON_COMPACT);
        assert_non_null(programs);
        print_message("spread %.3f, median error %.3f, programs %s\n", apart, error, programs);
        if (apart < spread) {
            spread = apart;
            median = error;
        }
        free(programs);
        json_decref(m);
    }
    assert_true(cluster_stop(&sys));
    if (spread > BUSY) skip();
    assert_true(median <= 0.08 + (spread > QUIET ? spread : 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_running_system_becomes_a_profile_that_can_be_simulated, spawn_teardown),
        cmocka_unit_test_teardown(what_this_machine_takes_is_predicted_within_8_percent, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
