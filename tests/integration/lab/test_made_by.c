/* Results explain themselves: each says how it was made, two runs of one seed differ in clocks and their host
 * alone, and baton compare shows whatever else differs. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUN_MS = 60000 };

/* spawn_path keeps a few paths; tests here have more. */
static const char *path_of(const char *name)
{
    static char kept[16][512];
    static size_t next;
    char *path = kept[next++ % 16];
    (void)snprintf(path, sizeof kept[0], "%s", spawn_path(name));
    return path;
}

static const char *write_text(const char *name, const char *text) { return spawn_write(path_of(name), text); }

/* A result in a file, for baton compare. */
static const char *keep(const char *name, json_t *result)
{
    char *text = json_dumps(result, 0);
    const char *path = write_text(name, text);
    free(text);
    return path;
}

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = calloc(1, 1 << 20);
    assert_true(f && text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void check_made_by(const json_t *result, const char *command)
{
    static const char *const keys[] = {"version", "command", "date", "host", "cpu", "isa"};
    const json_t *m = json_object_get(result, "made_by");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_string_length(json_object_get(m, keys[i]))) fail_msg("%s: no made_by.%s", command, keys[i]);
    const json_t *commit = json_object_get(m, "commit");
    assert_true(json_is_null(commit) || json_string_length(commit) >= 7);
    assert_int_equal(strncmp(json_string_value(json_object_get(m, "command")), command, strlen(command)), 0);
    assert_true(json_object_size(json_object_get(m, "options")) > 0);
}

/* ---- twice the same ---- */

/* Clocks and the host, and what a program of virtual time makes of a clock. */
static void drop_clocks(json_t *o)
{
    json_t *made_by = json_object_get(o, "made_by");
    (void)json_object_del(made_by, "date");
    (void)json_object_del(made_by, "host");
    (void)json_object_del(o, "wall_seconds");
    (void)json_object_del(o, "events_per_second");
}

/* Numbers that a measurement makes of a clock: all that are not whole. */
static void drop_reals(json_t *value)
{
    const char *key;
    json_t *v;
    void *next;
    size_t i;
    json_object_foreach_safe(value, next, key, v)
    {
        drop_reals(v);
        if (json_is_real(v)) (void)json_object_del(value, key);
    }
    for (i = json_array_size(value); i-- > 0;) {
        drop_reals(json_array_get(value, i));
        if (json_is_real(json_array_get(value, i))) (void)json_array_remove(value, i);
    }
}

/* argv: of a command whose word is its first. also: keys that its clocks decide too; ends with NULL. */
static void expect_twice(bool is_measured, const char *const *also, const char *const *argv)
{
    json_t *run[2];
    char command[64];
    (void)snprintf(command, sizeof command, "baton %s", argv[1]);
    for (size_t i = 0; i < 2; i++) {
        run[i] = spawn_json(spawn_start(argv));
        check_made_by(run[i], command);
        drop_clocks(run[i]);
        if (is_measured) drop_reals(run[i]);
        for (const char *const *key = also; *key; key++) {
            json_t *v;
            size_t k;
            (void)json_object_del(run[i], *key);
            (void)json_object_del(json_object_get(run[i], "machine"), *key);
            json_array_foreach(json_object_get(run[i], "rows"), k, v) (void)json_object_del(v, *key);
        }
    }
    for (size_t i = 0; i < 2 && !json_equal(run[0], run[1]); i++)
        printf("%s\n", json_dumps(run[i], JSON_INDENT(1)));
    if (!json_equal(run[0], run[1])) fail_msg("two runs of %s differ", command);
    json_decref(run[0]);
    json_decref(run[1]);
}
#define LIST(...) \
    (const char *const[]) { __VA_ARGS__, NULL }
#define NOTHING \
    (const char *const[]) { NULL }

#define CLUSTER_OF(prefill, decode) \
    "simulate", "--json", "-q", "-m", "llama-3.1-8b", "-c", "16384", "--prefill", prefill, "--decode", decode
#define LOAD "--synthetic", "in:4000,out:60,rate:8,shared:1024", "--limit", "40"

static void two_simulations_differ_in_clocks_and_host_alone(void **state)
{
    (void)state;
    expect_twice(false, NOTHING, LIST("baton", CLUSTER_OF("2:h100", "2:h100"), LOAD));
    expect_twice(false, NOTHING,
                 LIST("baton", CLUSTER_OF("1..3:a100", "1..3:a100"), LOAD, "--slo", "ttft:900ms,tpot:24ms"));
    expect_twice(false, NOTHING,
                 LIST("baton", CLUSTER_OF("2:a100", "2:a100"), LOAD, "--slo", "ttft:900ms", "--ramp"));
}

static void so_do_two_plans_and_two_comparisons(void **state)
{
    (void)state;
    const char *trace = write_text("lengths", "40 300 1200 77\n");
    expect_twice(false, NOTHING,
                 LIST("baton", "plan", "-m", "smollm2-135m", "--prefill", "hexagon-v75", "--decode",
                      "adreno-750", "--trace", trace, "--json"));
    json_t *run = spawn_json(SPAWN("baton", CLUSTER_OF("1:h100", "1:h100"), LOAD));
    const char *one = keep("one.json", run);
    expect_twice(false, NOTHING, LIST("baton", "compare", one, one, "--json"));
    json_decref(run);
}

static void two_measurements_differ_in_what_clocks_say(void **state)
{
    (void)state;
    static const char line[] = "The quick brown fox jumps over the lazy dog. ";
    char text[sizeof line * 8] = "";
    for (size_t i = 0; i < 8; i++) strcat(text, line);
    const char *model = spawn_tiny_model(1), *file = write_text("text", text);
    expect_twice(false, LIST("tokens_per_second"),
                 LIST("baton", "perplexity", "-q", "--json", "--engine", "host", "-m", model, "-f", file,
                      "-c", "32", "--chunks", "2", "-t", "1"));
    expect_twice(true, LIST("limit", "core"), /* which limit is next, and how a trial of the kernels ended */
                 LIST("baton", "bench", "-q", "--json", "--engine", "host", "-m", model, "-p", "16", "-n",
                      "2", "-r", "1", "-t", "1"));
}

/* ---- replay, which tells nobody who its user is ---- */

static void a_replay_names_no_secret_and_repeats_itself(void **state)
{
    (void)state;
    cluster sys;
    char url[160];
    assert_true(CLUSTER(&sys, spawn_tiny_model(1), "--engine", "host", "--threads", "1"));
    (void)snprintf(url, sizeof url, "http://alibaba:sesame@%s", sys.url + strlen("http://"));
    const char *key = write_text("cellar.key", "0123456789abcdef0123456789abcdef\n"),
               *page = path_of("run.html");
    expect_twice(true, LIST("notes", "generator", "points"),
                 LIST("baton", "replay", "--json", "-m", spawn_tiny_model(1), "--url", url, "--api-key-file",
                      key, "--synthetic", "in:20-50,out:4", "--concurrency", "1", "--limit", "6", "--report",
                      page));
    spawn *s = SPAWN("baton", "replay", "--json", "-m", spawn_tiny_model(1), "--url", url, "--api-key-file",
                     key, "--synthetic", "in:20-50,out:4", "--concurrency", "1", "--limit", "6");
    json_t *run = spawn_json(s);
    assert_string_equal(json_string_value(json_object_get(run, "url")), sys.url);
    char *html = text_of(page);
    const char *const shown[] = {spawn_out(s), html};
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(strstr(shown[i], "--api-key-file ..."));
        assert_null(strstr(shown[i], "sesame"));
        assert_null(strstr(shown[i], "alibaba"));
        assert_null(strstr(shown[i], "cellar"));
    }
    assert_non_null(strstr(html, "How this page was made"));
    assert_non_null(strstr(html, "\n\"made_by\": {\"version\""));
    free(html);
    json_decref(run);
    assert_true(cluster_stop(&sys));
}

static void pages_say_how_they_were_made(void **state)
{
    (void)state;
    const char *run = path_of("sim.html"), *sweep = path_of("sweep.html"), *drawn = path_of("sweep.svg"),
               *plan = path_of("plan.html"), *trace = write_text("lengths", "40 300\n");
    json_decref(spawn_json(SPAWN("baton", CLUSTER_OF("1:h100", "1:h100"), LOAD, "--report", run)));
    for (size_t i = 0; i < 2; i++)
        json_decref(spawn_json(SPAWN("baton", CLUSTER_OF("1..2:a100", "1:a100"), LOAD, "--slo", "ttft:9s",
                                     "--plot", i ? sweep : drawn)));
    json_decref(spawn_json(SPAWN("baton", "plan", "-m", "smollm2-135m", "--prefill", "hexagon-v75",
                                 "--decode", "adreno-750", "--trace", trace, "--json", "-o", plan)));
    const char *const pages[] = {run, sweep, plan, drawn};
    for (size_t i = 0; i < 4; i++) {
        char *text = text_of(pages[i]);
        const char *data =
            i == 1 || i == 3 ? "<metadata>{&quot;version&quot;: " : "\"made_by\": {\"version\": ";
        if (!strstr(text, data)) fail_msg("%s has no made_by", pages[i]);
        if (i < 3) assert_non_null(strstr(text, "<td>command</td><td>baton "));
        free(text);
    }
}

/* ---- compare ---- */

static json_t *row(const json_t *compared, const char *name)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(compared, "rows"), i, v)
        if (strcmp(json_string_value(json_object_get(v, "row")), name) == 0)
            return json_object_get(v, "values");
    return NULL;
}

static void compare_shows_every_row_that_differs(void **state)
{
    (void)state;
    static const char *const differ[] = {"cached_tokens",
                                         "joules",
                                         "kv_exposed_ms.mean",
                                         "queue_ms.p99",
                                         "prefill_busy_ratio",
                                         "decode_busy_ratio",
                                         "nodes.decode-0.slots_used",
                                         "made_by.options.prefill"};
    json_t *a = spawn_json(SPAWN("baton", CLUSTER_OF("1:h100", "2:h100"), LOAD)),
           *b = spawn_json(SPAWN("baton", CLUSTER_OF("2:h100x4", "2:h100"), LOAD));
    const char *one = keep("a.json", a), *other = keep("b.json", b);
    json_t *c = spawn_json(SPAWN("baton", "compare", one, other, "--json"));
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) {
        if (!row(c, differ[i])) fail_msg("no row '%s'", differ[i]);
        assert_int_equal(json_array_size(row(c, differ[i])), 2);
    }
    assert_true(json_equal(json_array_get(row(c, "joules"), 1), json_object_get(b, "joules")));
    assert_null(row(c, "input_tokens"));        /* the same in both */
    assert_null(row(c, "requests_per_second")); /* among the first rows */
    assert_null(row(c, "made_by.date"));
    assert_true(json_equal(json_object_get(json_array_get(json_object_get(c, "runs"), 0), "made_by"),
                           json_object_get(a, "made_by")));
    spawn *s = SPAWN("baton", "compare", one, other);
    assert_int_equal(spawn_wait(s, spawn_patience(RUN_MS)), 0);
    assert_non_null(strstr(spawn_out(s), "\nprefill_busy_ratio "));
    assert_non_null(strstr(spawn_out(s), "\nmade_by.options.prefill "));
    json_decref(a);
    json_decref(b);
    json_decref(c);
}

static int compared(const char *one, const char *other, const char *words)
{
    spawn *s = SPAWN("baton", "compare", one, other, "--json");
    const int rc = spawn_wait(s, spawn_patience(RUN_MS));
    if (words && !strstr(spawn_err(s), words)) fail_msg("%s", spawn_err(s));
    return rc;
}

static void compare_refuses_goodputs_by_unlike_limits(void **state)
{
    (void)state;
    static const char *const slo[] = {"ttft:1s", "ttft:1000ms", "ttft:1s,tpot:20ms"};
    const char *path[4];
    for (size_t i = 0; i < 3; i++) {
        char name[16];
        json_t *run = spawn_json(SPAWN("baton", CLUSTER_OF("1:h100", "1:h100"), LOAD, "--slo", slo[i]));
        (void)snprintf(name, sizeof name, "%zu.json", i);
        path[i] = keep(name, run);
        json_decref(run);
    }
    json_t *bare = spawn_json(SPAWN("baton", CLUSTER_OF("1:h100", "1:h100"), LOAD));
    path[3] = keep("3.json", bare);
    assert_int_equal(compared(path[0], path[1], NULL), 0); /* the same, written otherwise */
    assert_int_equal(compared(path[0], path[2], "has --slo ttft:1s,tpot:20ms; run both with the same --slo"),
                     1);
    assert_int_equal(compared(path[3], path[0], "has no --slo"), 1);
    (void)json_object_del(bare, "made_by"); /* as older versions wrote: nobody knows its limits */
    assert_int_equal(compared(keep("old.json", bare), path[0], NULL), 0);
    json_decref(bare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(two_simulations_differ_in_clocks_and_host_alone, spawn_teardown),
        cmocka_unit_test_teardown(so_do_two_plans_and_two_comparisons, spawn_teardown),
        cmocka_unit_test_teardown(two_measurements_differ_in_what_clocks_say, spawn_teardown),
        cmocka_unit_test_teardown(a_replay_names_no_secret_and_repeats_itself, spawn_teardown),
        cmocka_unit_test_teardown(pages_say_how_they_were_made, spawn_teardown),
        cmocka_unit_test_teardown(compare_shows_every_row_that_differs, spawn_teardown),
        cmocka_unit_test_teardown(compare_refuses_goodputs_by_unlike_limits, spawn_teardown),
    };
    return cmocka_run_group_tests_name("how results are made", tests, cluster_group_begin, cluster_group_end);
}
