/* What each process takes at most: its weights, its KV, and 100 MB for all else. The model's own file does
 * not count: whoever reads it lets go of it. */
#include "model/model.h"
#include "tests/helpers/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KV_KB = 64 << 10, ELSE_KB = 100 << 10, ROUNDS = 4 };

static const char *smollm2(void)
{
    static char path[4096];
    const char *given = getenv("BATON_TEST_MODEL");
    if (given && *given) return given;
    return bt_model_find(path, sizeof path, "smollm2", NULL) == BT_OK ? path : NULL;
}

/* The most that process `pid` has had in memory. */
static long peak_kb(pid_t pid)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (kb < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld kB", &kb) != 1) kb = -1;
    fclose(f);
    return kb;
}

/* Files of weights that it has mapped: packages and images of the cache. */
static long weights_kb(pid_t pid)
{
    char path[64], line[4352];
    unsigned long begin, end;
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if ((strstr(line, ".bpk") || strstr(line, ".btw")) && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            kb += (long)((end - begin) / 1024);
    fclose(f);
    return kb;
}

static void check(const cluster *c, const char *id, bool has_weights)
{
    const pid_t pid = cluster_pid(c->url, id);
    assert_true(pid > 0);
    const long peak = peak_kb(pid), weights = weights_kb(pid);
    print_message("%s: %ld KB at most, %ld KB of weights\n", id, peak, weights);
    assert_true(peak > 0 && (weights > 0) == has_weights);
    assert_true(peak <= weights + ELSE_KB + (has_weights ? KV_KB : 0));
}

static void no_process_takes_more_than_weights_kv_and_100_mb(void **state)
{
    (void)state;
    cluster c;
    const char *model = smollm2();
    if (!model || spawn_is_sanitized()) skip();
    /* what is made but once is made now */
    assert_true(CLUSTER(&c, model, "--kv-memory", "64M", "--ctx-size", "1024"));
    assert_true(cluster_stop(&c));
    assert_true(CLUSTER(&c, model, "--kv-memory", "64M", "--ctx-size", "1024"));
    for (int i = 0; i < ROUNDS; i++) assert_true(cluster_serves(c.url));
    check(&c, "gateway", false);
    check(&c, "prefill-0", true);
    check(&c, "decode-0", true);
    assert_true(cluster_stop(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_process_takes_more_than_weights_kv_and_100_mb, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
