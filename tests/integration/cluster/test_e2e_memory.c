/* The most memory that each process takes: its weights, its KV, and 100 MB for all else. The model's own file
 * does not count: whoever reads it lets go of it. */
#include "model/model.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/proc_status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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
    const long peak = proc_status_kb(pid, "VmHWM"), weights = weights_kb(pid);
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

/* The weights' image in process `pid`: its size, what of it is in memory, and the process's share of that, in
 * KB. */
static void image_kb(pid_t pid, long *ret_size, long *ret_rss, long *ret_pss)
{
    char path[64], line[4352];
    unsigned long begin, end;
    bool is_image = false;
    long kb;
    *ret_size = *ret_rss = *ret_pss = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2 && strchr(line, '-') < strchr(line, ' ')) {
            is_image = strstr(line, ".btw") != NULL;
            if (is_image) *ret_size += (long)((end - begin) / 1024);
        }
        if (is_image && sscanf(line, "Rss: %ld kB", &kb) == 1) *ret_rss += kb;
        if (is_image && sscanf(line, "Pss: %ld kB", &kb) == 1) *ret_pss += kb;
    }
    fclose(f);
}

static void nodes_of_one_machine_have_one_copy_of_the_weights(void **state)
{
    (void)state;
    cluster c;
    long size[2], rss[2], pss[2];
    const char *model = smollm2();
    if (!model || spawn_is_sanitized()) skip();
    assert_true(CLUSTER(&c, model, "--kv-memory", "64M", "--ctx-size", "1024", "--engine", "host"));
    for (int i = 0; i < ROUNDS; i++) assert_true(cluster_serves(c.url));
    image_kb(cluster_pid(c.url, "prefill-0"), &size[0], &rss[0], &pss[0]);
    image_kb(cluster_pid(c.url, "decode-0"), &size[1], &rss[1], &pss[1]);
    print_message("image of %ld KB; in memory %ld and %ld, shares %ld and %ld\n", size[0], rss[0], rss[1],
                  pss[0], pss[1]);
    assert_true(cluster_stop(&c));
    assert_true(size[0] > 0 && size[0] == size[1]);
    assert_true(rss[0] > size[0] * 9 / 10 && rss[1] > size[0] * 9 / 10); /* both have read all of it */
    assert_true(pss[0] + pss[1] < size[0] + size[0] / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_of_one_machine_have_one_copy_of_the_weights, cluster_teardown),
        cmocka_unit_test_teardown(no_process_takes_more_than_weights_kv_and_100_mb, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
