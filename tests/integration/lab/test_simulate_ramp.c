/* baton simulate --ramp: the limit of a queue that is known by hand, and what a search of single runs finds.
 */
#include "tests/helpers/cluster/spawn.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RUN_MS = 60000, REQUESTS = 400 };
static const double SHARE = 0.9;

/* One prompt length, one request a second, nothing but the prefill node in the way. */
#define QUEUE(...) \
    SPAWN("baton", "simulate", "--json", "-q", spawn_path("even.jsonl"), "-m", "llama-3.2-1b", "-c", "8192", \
          "--prefill", "1:a100", "--decode", "4:a100", "--link", "10000,1us", "--request-cpu", "0", \
          "--token-cpu", "0", "--jitter", "0", "--max-queue", "1000", __VA_ARGS__)

static double number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_number(v)) fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static void write_trace(void)
{
    FILE *f = fopen(spawn_path("even.jsonl"), "we");
    assert_non_null(f);
    for (int i = 0; i < REQUESTS; i++)
        (void)fprintf(f, "{\"timestamp\":%d,\"input_length\":2000,\"output_length\":1}\n", 1000 * i);
    assert_int_equal(fclose(f), 0);
}

/* A prompt takes P on the one node. At a distance of D < P, request n waits n (P - D): with a limit of P and
 * a half for the first token, SHARE of N keep it down to D = P - P / 2 / (SHARE N). */
static void a_queue_with_one_server_carries_what_arithmetic_says(void **state)
{
    (void)state;
    char slo[64];
    write_trace();
    json_t *slow = spawn_json(QUEUE("--speed", "1"));
    const double p = json_number_value(json_object_get(json_object_get(slow, "ttft_ms"), "p50")) / 1e3;
    (void)snprintf(slo, sizeof slo, "ttft:%.0fus", 1.5e6 * p);
    json_t *j = spawn_json(QUEUE("--slo", slo, "--ramp", "--ramp-share", "0.9"));
    const double truth = 1 / (p - p / 2 / (SHARE * REQUESTS)), best = number(j, "best_rps");
    if (best > truth * 1.01 || best < truth / 1.06) fail_msg("%g requests/s of %g", best, truth);
    assert_true(number(j, "best_speed") / best > 0.99 && number(j, "best_speed") / best < 1.01);
    json_decref(slow);
    json_decref(j);
}

#define LOAD \
    "-m", "llama-3.2-1b", "-c", "8192", "--synthetic", "in:300-3000,out:40,rate:2", "--limit", "120", \
        "--prefill", "2:a100", "--decode", "1:a100", "--slo", "ttft:300ms,tpot:20ms"

static double share_at(double speed, double *ret_ttft)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.17g", speed);
    json_t *j = spawn_json(SPAWN("baton", "simulate", "--json", "-q", LOAD, "--speed", text));
    const double share = number(j, "goodput_rps") * number(j, "seconds") / number(j, "requests");
    *ret_ttft = number(json_object_get(j, "ttft_ms"), "p99");
    json_decref(j);
    return share;
}

/* Each step is the run of its speed alone; the answer keeps the limits, and a twentieth more does not. */
static void each_step_is_the_run_of_its_speed(void **state)
{
    (void)state;
    size_t i;
    json_t *one,
        *j = spawn_json(SPAWN("baton", "simulate", "--json", "-q", LOAD, "--ramp", "--ramp-share", "0.9"));
    const double best = number(j, "best_speed");
    double ttft, highest = 0, lowest = 1e300;
    assert_true(json_array_size(json_object_get(j, "steps")) >= 4);
    json_array_foreach(json_object_get(j, "steps"), i, one) {
        const double speed = number(one, "speed"), share = share_at(speed, &ttft);
        const bool is_carried = json_is_true(json_object_get(one, "is_carried"));
        assert_true(share - 1e-4 < number(one, "good") / number(one, "requests"));
        assert_true(share + 1e-4 > number(one, "good") / number(one, "requests"));
        assert_true(ttft == number(one, "ttft_p99_ms"));
        assert_int_equal(is_carried, share + 1e-4 >= SHARE);
        if (is_carried && speed > highest) highest = speed;
        if (!is_carried && speed < lowest) lowest = speed;
    }
    assert_true(best == highest && lowest <= best * 1.05);
    for (double speed = best / 8; speed < best; speed *= 1.4)
        assert_true(share_at(speed, &ttft) + 1e-4 >= SHARE);
    json_decref(j);
}

static void what_does_not_go_with_it_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *option, *value, *says;
    } bad[] = {{"--rate", "3", "finds the rate itself"},
               {"--concurrency", "3", "finds the rate itself"},
               {"--report", "r.html", "of one run"},
               {"--decode", "1..3:a100", "the cluster of one rate"},
               {"--slo", "", "--slo"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spawn *s = SPAWN("baton", "simulate", LOAD, "--ramp", bad[i].option, bad[i].value);
        const int rc = spawn_wait(s, spawn_patience(RUN_MS));
        if (rc != 2 || !strstr(spawn_err(s), bad[i].says))
            fail_msg("%s: %d: %s", bad[i].option, rc, spawn_err(s));
    }
    spawn *s = SPAWN("baton", "simulate", LOAD, "--ramp", "--slo", "ttft:1ms");
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 1);
    assert_non_null(strstr(spawn_out(s), "none of these rates keeps ttft:1ms"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_queue_with_one_server_carries_what_arithmetic_says, spawn_teardown),
        cmocka_unit_test_teardown(each_step_is_the_run_of_its_speed, spawn_teardown),
        cmocka_unit_test_teardown(what_does_not_go_with_it_is_refused, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, spawn_group_begin, spawn_group_end);
}
