/* Two API keys of a real cluster: one with 200 streams, and one that asks one request at a time. */
#include "tests/helpers/cluster/cluster.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STREAMS = 200, TURNS = 4, ASKS = 12 };

static int set_up(void **state)
{
    (void)state;
    spawn_setup();
    client_setup();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client_cleanup();
    spawn_cleanup();
    return 0;
}

static const char *write_keys(void)
{
    static const char text[] = "flood-secret name=flood\none-secret name=one\n";
    const char *path = spawn_path("keys.txt");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    return path;
}

static void put_turn(FILE *f, const char *key, int session, int turn, int at_ms)
{
    (void)fprintf(f, "{\"session_id\": \"%s%d\", \"key\": \"%s\", \"%s\": %d, ", key, session, key,
                  turn ? "delay" : "timestamp", turn ? 0 : at_ms);
    (void)fprintf(f, "\"input_length\": 20, \"output_length\": 24}\n");
}

/* Each stream asks again as soon as it has its answer. */
static const char *write_trace(void)
{
    const char *path = spawn_path("keys.jsonl");
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    for (int t = 0; t < TURNS; t++)
        for (int s = 0; s < STREAMS; s++) put_turn(f, "flood", s, t, 0);
    for (int t = 0; t < ASKS; t++) put_turn(f, "one", 0, t, 100);
    assert_int_equal(fclose(f), 0);
    return path;
}

static json_t *of_key(const json_t *run, const char *name)
{
    size_t i;
    json_t *k;
    json_array_foreach(json_object_get(run, "keys"), i, k)
        if (strcmp(json_string_value(json_object_get(k, "key")), name) == 0) return k;
    fail_msg("the run has no key '%s'", name);
    return NULL;
}

static double ttft_ms(const json_t *run, const char *key, const char *what)
{
    return json_number_value(json_object_get(json_object_get(of_key(run, key), "ttft_ms"), what));
}

static long failed(const json_t *run, const char *key)
{
    return (long)json_integer_value(json_object_get(of_key(run, key), "failed"));
}

static json_t *play(const char *share_by, const char *room)
{
    cluster c;
    const char *keys = write_keys();
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--threads", "1", "--slots", "4",
                        "--max-queue", room, "--max-connections", "1000", "--api-key-file", keys,
                        "--share-by", share_by));
    json_t *run = spawn_json(SPAWN("baton", "replay", "--json", "-m", spawn_tiny_model(1), "--url", c.url,
                                   "--api-key-file", keys, write_trace()));
    assert_true(cluster_stop(&c));
    printf("--share-by %s: one alone %.0f ms at the median and %.0f ms at worst, of 200 streams %.0f ms\n",
           share_by, ttft_ms(run, "one", "p50"), ttft_ms(run, "one", "max"), ttft_ms(run, "flood", "p50"));
    return run;
}

static void one_at_a_time_does_not_wait_for_two_hundred_streams_of_another_key(void **state)
{
    (void)state;
    json_t *run = play("none", "400");
    const double without = ttft_ms(run, "one", "max");
    json_decref(run);
    run = play("key", "400");
    assert_int_equal(failed(run, "one") + failed(run, "flood"), 0);
    assert_true(ttft_ms(run, "one", "max") * 3 < without);
    assert_true(ttft_ms(run, "one", "p50") * 3 < ttft_ms(run, "flood", "p50"));
    json_decref(run);
}

static void a_waiting_room_full_of_one_key_has_a_place_for_another(void **state)
{
    (void)state;
    json_t *run = play("key", "16");
    assert_int_equal(failed(run, "one"), 0);
    assert_true(failed(run, "flood") > STREAMS / 2);
    json_decref(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time_does_not_wait_for_two_hundred_streams_of_another_key),
        cmocka_unit_test(a_waiting_room_full_of_one_key_has_a_place_for_another),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
