/* Sweeps of baton simulate by its command: what trying every cluster finds; what was killed goes on; parts
 * are the whole. */
#include "tests/helpers/cluster/spawn.h"
#include "tests/helpers/temp_folder.h"

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RUN_MS = 120000, END_MS = 20000, GONE_MS = 5000, PREFILLS = 4, DECODES = 5 };

static json_int_t count(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

#define LOAD \
    "-m", "llama-3.1-8b", "-c", "16384", "--synthetic", "in:4000,out:120,rate:8", "--limit", "60", \
        "--max-queue", "1000"
#define SWEEP(...) \
    SPAWN("baton", "simulate", "--json", "-q", LOAD, "--prefill", "1..4:a100", "--decode", "1..5:a100", \
          __VA_ARGS__)
#define LIMITS "--slo", "ttft:900ms,tpot:24ms", "--slo-share", "0.9"

/* ---- against trying all -------------------------------------------------------------------------- */

static bool carries(const char *prefill, const char *decode, const char *slo, double share,
                    double *ret_joules)
{
    json_t *j = spawn_json(SPAWN("baton", "simulate", "--json", "-q", LOAD, "--prefill", prefill, "--decode",
                                 decode, "--slo", slo));
    const double good = json_number_value(json_object_get(j, "goodput_rps")),
                 all = json_number_value(json_object_get(j, "requests_per_second"));
    const double n = all > 0 ? good / all * (double)count(j, "completed") : 0,
                 of = (double)count(j, "requests");
    *ret_joules = json_number_value(json_object_get(j, "joules"));
    json_decref(j);
    return n + 1e-6 >= share * of;
}

static json_t *found_by(const char *slo, const char *cost)
{
    return spawn_json(SWEEP("--slo", slo, "--slo-share", "0.9", "--cost", cost, "--price", "a100:2"));
}

/* A file of a device whose power is known, also while it waits; its text goes to all[0] and all[1], behind
 * the nodes of the two ranges. */
static void write_device(char path[TEMP_FOLDER_BYTES + 16], char all[2][TEMP_FOLDER_BYTES + 32],
                         const char *folder)
{
    (void)snprintf(path, TEMP_FOLDER_BYTES + 16, "%s/card.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(
        "{\"name\": \"card\", \"title\": \"A card\", \"operators\": {}, \"companion\": true, "
        "\"memory_bytes\": 85899345920, \"time\": {\"stack\": \"none\", \"f16_ops_per_us\": 250000000, "
        "\"memory_bytes_per_us\": 2000000, \"dispatch_ns\": 8000000, \"idle_mw\": 50000, \"busy_mw\": "
        "200000}}",
        f);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(all[0], sizeof all[0], "1..%d:%s", PREFILLS, path);
    (void)snprintf(all[1], sizeof all[1], "1..%d:%s", DECODES, path);
}

/* The frontier of the whole grid, for limits that one cluster keeps and that nearly none does. */
static void bisection_finds_what_trying_every_cluster_finds(void **state)
{
    (void)state;
    static const char *const slos[] = {"ttft:900ms,tpot:24ms", "ttft:600ms,tpot:20ms", "ttft:3s,tpot:30ms",
                                       "e2e:2600ms"};
    char folder[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 16], all[2][TEMP_FOLDER_BYTES + 32];
    assert_true(temp_folder_new(folder));
    write_device(path, all, folder);
    for (size_t k = 0; k < sizeof slos / sizeof *slos; k++) {
        uint32_t least[PREFILLS + 1], before = DECODES + 1;
        size_t at = 0;
        double joules[PREFILLS + 1][DECODES + 1], cheapest = 1e300;
        for (uint32_t p = 1; p <= PREFILLS; p++) {
            least[p] = DECODES + 1;
            for (uint32_t d = 1; d <= DECODES; d++) {
                char prefill[sizeof path + 16], decode[sizeof path + 16];
                (void)snprintf(prefill, sizeof prefill, "%u:%s", p, path);
                (void)snprintf(decode, sizeof decode, "%u:%s", d, path);
                if (carries(prefill, decode, slos[k], 0.9, &joules[p][d]) && d < least[p]) least[p] = d;
            }
        }
        spawn *s = SPAWN("baton", "simulate", "--json", "-q", LOAD, "--prefill", all[0], "--decode", all[1],
                         "--slo", slos[k], "--slo-share", "0.9", "--cost", "joules");
        const int rc = spawn_wait(s, spawn_patience(RUN_MS));
        json_t *found = json_loads(spawn_out(s), 0, NULL);
        assert_non_null(found);
        const json_t *points = json_object_get(found, "points");
        for (uint32_t p = 1; p <= PREFILLS; p++) {
            if (least[p] >= before) continue; /* fewer of the others do */
            before = least[p];
            if (joules[p][least[p]] < cheapest) cheapest = joules[p][least[p]];
            const json_t *one = json_array_get(points, at++);
            assert_int_equal(count(one, "prefill"), p);
            assert_int_equal(count(one, "decode"), least[p]);
        }
        assert_int_equal(json_array_size(points), at);
        assert_int_equal(rc, at ? 0 : 1);
        if (at) {
            const json_t *best = json_object_get(found, "cheapest");
            assert_true(json_number_value(json_object_get(best, "joules")) <= cheapest * (1 + 1e-12));
        }
        json_decref(found);
    }
    assert_int_equal(temp_folder_remove(folder), 0);
}

static void the_cheapest_by_price_is_not_that_by_nodes(void **state)
{
    (void)state;
    json_t *nodes = found_by("ttft:900ms,tpot:24ms", "nodes"),
           *price = found_by("ttft:900ms,tpot:24ms", "price");
    const json_t *least = json_object_get(nodes, "cheapest"), *paid = json_object_get(price, "cheapest");
    assert_int_equal(json_number_value(json_object_get(least, "cost")),
                     count(least, "prefill") + count(least, "decode"));
    assert_true(json_number_value(json_object_get(paid, "cost")) ==
                2.0 * (double)(count(paid, "prefill") + count(paid, "decode")));
    json_decref(nodes);
    json_decref(price);
    /* decode nodes that cost ten times as much: as few of them as do it at all */
    json_t *j =
        spawn_json(SPAWN("baton", "simulate", "--json", "-q", LOAD, "--prefill", "1..4:a100", "--decode",
                         "1..5:h100", LIMITS, "--cost", "price", "--price", "a100:1,h100:100"));
    const json_t *points = json_object_get(j, "points"), *best = json_object_get(j, "cheapest");
    const json_t *last = json_array_get(points, json_array_size(points) - 1);
    assert_int_equal(count(best, "decode"), count(last, "decode"));
    assert_true(json_number_value(json_object_get(best, "cost")) ==
                (double)count(best, "prefill") + 100.0 * (double)count(best, "decode"));
    json_decref(j);
}

/* ---- files of points ----------------------------------------------------------------------------- */

static size_t lines_of(const char *path)
{
    FILE *f = fopen(path, "re");
    size_t n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
    if (f) (void)fclose(f);
    return n;
}

static void expect_same(const json_t *a, const json_t *b)
{
    assert_true(json_equal(json_object_get(a, "points"), json_object_get(b, "points")));
    assert_true(json_equal(json_object_get(a, "cheapest"), json_object_get(b, "cheapest")));
    assert_int_equal(count(a, "tried"), count(b, "tried"));
}

static void a_sweep_that_was_killed_goes_on_to_the_same_table(void **state)
{
    (void)state;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", spawn_path("points"));
    json_t *whole = spawn_json(SWEEP(LIMITS));
    spawn *s = SWEEP(LIMITS, "--points", path, "--jobs", "2");
    const int64_t end = spawn_now_ms() + spawn_patience(RUN_MS);
    while (lines_of(path) < 3 && spawn_before(end)) {}
    spawn_signal(s, SIGKILL);
    assert_int_equal(spawn_wait(s, spawn_patience(END_MS)), 128 + SIGKILL);
    assert_true(spawn_wait_all_gone(spawn_patience(END_MS)));
    const size_t before = lines_of(path);
    assert_in_range(before, 3, (uintmax_t)count(whole, "tried") - 1);
    json_t *rest = spawn_json(SWEEP(LIMITS, "--points", path));
    expect_same(whole, rest);
    assert_int_equal(count(rest, "read"), before);
    json_decref(rest);
    /* the last line torn in its middle: one is tried again, and then none */
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long bytes = ftell(f);
    (void)fclose(f);
    assert_int_equal(truncate(path, bytes - 40), 0);
    for (json_int_t left = 1; left >= 0; left--) {
        rest = spawn_json(SWEEP(LIMITS, "--points", path));
        expect_same(whole, rest);
        assert_int_equal(count(rest, "read"), count(whole, "tried") - left);
        json_decref(rest);
    }
    json_decref(whole);
}

static bool has_children(const spawn *s)
{
    char path[64], first[16] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)spawn_pid(s), (int)spawn_pid(s));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    const bool has = fgets(first, sizeof first, f) != NULL;
    (void)fclose(f);
    return has;
}

/* One cluster of this load takes far longer than the wait. */
static void processes_of_a_sweep_end_with_it(void **state)
{
    (void)state;
    spawn *s = SPAWN("baton", "simulate", "--json", "-q", "-m", "llama-3.1-8b", "-c", "16384", "--full",
                     "--synthetic", "in:100,out:1000,rate:8", "--limit", "100000", "--slo", "ttft:1s",
                     "--jobs", "2", "--prefill", "1..4:a100", "--decode", "1..5:a100");
    const int64_t end = spawn_now_ms() + spawn_patience(END_MS);
    while (!has_children(s) && spawn_before(end)) {}
    assert_true(has_children(s));
    spawn_signal(s, SIGKILL);
    assert_int_equal(spawn_wait(s, spawn_patience(END_MS)), 128 + SIGKILL);
    assert_true(spawn_wait_all_gone(GONE_MS));
}

static void parts_together_are_the_whole_and_no_row_is_in_two(void **state)
{
    (void)state;
    char all[512], part[512], name[32], number[16];
    json_t *whole = spawn_json(SWEEP(LIMITS, "--jobs", "1"));
    size_t tried = 0;
    (void)snprintf(all, sizeof all, "%s", spawn_path("all"));
    FILE *to = fopen(all, "we");
    assert_non_null(to);
    for (int i = 1; i <= 3; i++) {
        (void)snprintf(name, sizeof name, "part-%d", i);
        (void)snprintf(number, sizeof number, "%d/3", i);
        (void)snprintf(part, sizeof part, "%s", spawn_path(name));
        spawn *s = SWEEP(LIMITS, "--points", part, "--shard", number);
        const int rc = spawn_wait(s, spawn_patience(RUN_MS));
        assert_true(rc == 0 || rc == 1); /* a part in which nothing carries the load */
        tried += lines_of(part);
        FILE *from = fopen(part, "re");
        assert_non_null(from);
        for (int c; (c = fgetc(from)) != EOF;) (void)fputc(c, to);
        (void)fclose(from);
    }
    assert_int_equal(fclose(to), 0);
    assert_int_equal(tried, count(whole, "tried"));
    json_t *together = spawn_json(SWEEP(LIMITS, "--points", all));
    expect_same(whole, together);
    assert_int_equal(count(together, "read"), tried);
    json_decref(whole);
    json_decref(together);
}

/* One side alone has a range: colocated nodes, or prompts that decode nodes compute. */
static void a_row_of_alike_nodes_is_a_sweep_too(void **state)
{
    (void)state;
    json_t *j = spawn_json(SPAWN("baton", "simulate", "--json", "-q", LOAD, "--prefill", "0", "--decode",
                                 "1..16:a100", "--colocated", "--chunk-tokens", "1024", "--slo",
                                 "ttft:2s,tpot:80ms"));
    const json_t *best = json_object_get(j, "cheapest");
    char decode[16];
    assert_int_equal(count(best, "prefill"), 0);
    (void)snprintf(decode, sizeof decode, "%d:a100", (int)(count(best, "decode") % 100) - 1);
    if (count(best, "decode") > 1) {
        json_t *less =
            spawn_json(SPAWN("baton", "simulate", "--json", "-q", LOAD, "--prefill", "0", "--decode", decode,
                             "--colocated", "--chunk-tokens", "1024", "--slo", "ttft:2s,tpot:80ms"));
        assert_true(json_number_value(json_object_get(less, "goodput_rps")) <
                    0.99 * json_number_value(json_object_get(less, "requests_per_second")));
        json_decref(less);
    }
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(bisection_finds_what_trying_every_cluster_finds, spawn_teardown),
        cmocka_unit_test_teardown(the_cheapest_by_price_is_not_that_by_nodes, spawn_teardown),
        cmocka_unit_test_teardown(a_sweep_that_was_killed_goes_on_to_the_same_table, spawn_teardown),
        cmocka_unit_test_teardown(processes_of_a_sweep_end_with_it, spawn_teardown),
        cmocka_unit_test_teardown(parts_together_are_the_whole_and_no_row_is_in_two, spawn_teardown),
        cmocka_unit_test_teardown(a_row_of_alike_nodes_is_a_sweep_too, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, spawn_group_begin, spawn_group_end);
}
