/* Requests through `baton up` while its prefill and decode nodes are killed, stopped, continued and asked to
 * leave, again and again, at random moments: no request fails and no answer is another than the one that
 * nobody disturbed; where layers have windows, than that of one process.
 *
 * BATON_CHAOS=N asks for N requests instead of the usual few, BATON_TEST_SEED for another seed. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/storm.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 4, READY_MS = 60000, IDLE_MS = 60000 };

static const char *const ids[NODES] = {"prefill-0", "prefill-1", "decode-0", "decode-1"};

typedef struct chaos {
    cluster sys;
    storm s;
    int64_t next_ms, continue_ms[NODES]; /* continue_ms: when the stopped one goes on; 0: it runs */
    uint64_t kills, stops, terms;
} chaos;

/* The node's process, found below `baton up` by its own argument: a fresh one counts before anybody has
 * heard of it. 0: none. */
static pid_t find_node(const chaos *c, const char *id)
{
    char path[64], text[4096];
    pid_t found = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        int pid = 0, parent = 0;
        if (sscanf(e->d_name, "%d", &pid) != 1) continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *f = fopen(path, "re");
        const char *end = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        if (f) fclose(f);
        if (!end || sscanf(end, ") %*c %d", &parent) != 1 || parent != spawn_pid(c->sys.up)) continue;
        snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
        if (!(f = fopen(path, "re"))) continue;
        const size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = '\0';
        for (const char *arg = text; arg < text + n; arg += strlen(arg) + 1)
            if (strcmp(arg, id) == 0) found = pid;
    }
    if (d) closedir(d);
    return found;
}

static void go_on(chaos *c, size_t node)
{
    const pid_t pid = find_node(c, ids[node]);
    if (pid > 0) (void)kill(pid, SIGCONT);
    c->continue_ms[node] = 0;
}

/* One more thing happens to a node. A stop lasts long enough to be noticed, or not; one that lasts is the
 * hardest for those who wait. */
static void disturb(chaos *c, int most_ms)
{
    const size_t node = storm_draw(&c->s, NODES);
    const pid_t pid = find_node(c, ids[node]);
    const uint64_t what = storm_draw(&c->s, 3), stop_ms = storm_draw(&c->s, 2)
                                                              ? storm_draw(&c->s, 1500)
                                                              : storm_draw(&c->s, (uint64_t)most_ms);
    if (pid <= 0 || c->continue_ms[node]) return;
    if (what == 0) c->kills += kill(pid, SIGKILL) == 0;
    if (what == 1) c->terms += kill(pid, SIGTERM) == 0;
    if (what == 2 && kill(pid, SIGSTOP) == 0) {
        c->stops++;
        c->continue_ms[node] = spawn_now_ms() + 50 + (int64_t)stop_ms;
    }
}

typedef struct plan {
    const char *model;
    uint64_t requests;
    int max_tokens, max_words, gap_ms, stop_ms; /* the longest gap, the longest stop */
    const char *const *alone; /* `baton up` whose answers count; NULL: those before anything happens */
} plan;

/* The answers of another `baton up`, which ends before the one that is disturbed begins. */
static void learn(chaos *c, const plan *p)
{
    cluster one;
    json_t *endless = p->alone ? json_pack("{s:{s:i, s:i}}", "logit_bias", "2", -100, "260", -100) : NULL;
    if (p->alone) assert_true(cluster_start(&one, p->model, p->alone));
    assert_true(storm_learn(&c->s, p->alone ? one.url : c->sys.url, storm_number("BATON_TEST_SEED", 1),
                            p->max_tokens, p->max_words, endless));
    json_decref(endless);
    if (p->alone) assert_true(cluster_stop(&one));
}

static void run_chaos(const plan *p, const char *const *more)
{
    chaos c;
    memset(&c, 0, sizeof c);
    if (p->alone) learn(&c, p);
    assert_true(cluster_start(&c.sys, p->model, more));
    for (size_t i = 0; i < NODES; i++)
        assert_true(cluster_wait_node(c.sys.url, ids[i], "ready", 0, spawn_patience(READY_MS)));
    if (!p->alone) learn(&c, p);
    snprintf(c.s.url, sizeof c.s.url, "%s", c.sys.url);
    const int64_t begin = spawn_now_ms();
    while (storm_step(&c.s, p->requests)) {
        const int64_t now = spawn_now_ms();
        for (size_t i = 0; i < NODES; i++)
            if (c.continue_ms[i] && now >= c.continue_ms[i]) go_on(&c, i);
        if (now < c.next_ms) continue;
        if (c.next_ms) disturb(&c, p->stop_ms);
        c.next_ms = now + 100 + (int64_t)storm_draw(&c.s, (uint64_t)spawn_patience(p->gap_ms));
    }
    for (size_t i = 0; i < NODES; i++) go_on(&c, i);
    printf("%llu killed, %llu stopped for a while, %llu asked to leave, in %lld ms\n",
           (unsigned long long)c.kills, (unsigned long long)c.stops, (unsigned long long)c.terms,
           (long long)(spawn_now_ms() - begin));
    storm_print(&c.s, "chaos");
    const bool is_well = c.s.failed == 0 && c.s.altered == 0;
    if (!is_well) printf("%s\n", spawn_err(c.sys.up));
    storm_done(&c.s);
    assert_true(is_well);
    for (size_t i = 0; i < NODES; i++)
        assert_true(cluster_wait_node(c.sys.url, ids[i], "ready", 0, spawn_patience(READY_MS)));
    assert_true(cluster_wait_idle(c.sys.url, spawn_patience(IDLE_MS)));
    assert_true(cluster_stop(&c.sys));
}

#define NODES_AND(...) \
    ((const char *const[]){"--prefill", "2", "--decode", "2", "--threads", "1", __VA_ARGS__, NULL})

static void nodes_of_a_little_model_come_and_go_and_no_answer_changes(void **state)
{
    (void)state;
    run_chaos(&(plan){spawn_long_model(), storm_number("BATON_CHAOS", 30), 1500, 300, 1500, 9000, NULL},
              NODES_AND("--isa", "ref"));
}

/* Pages of window layers go back while a sequence runs, and come again with the node that repeats it. Memory
 * is short, so that sequences go to the swap store and return. */
static void windows(const char *arch, const char *weights, const char *kv)
{
    const char *const alone[] = {"--prefill",  "0",         "--decode", "1",          "--threads",
                                 "1",          "--weights", weights,    "--kv-dtype", kv,
                                 "--ctx-size", "1024",      NULL};
    run_chaos(&(plan){spawn_window_model(arch), storm_number("BATON_CHAOS", 32), 800, 60, 50, 2500, alone},
              NODES_AND("--weights", weights, "--kv-dtype", kv, "--ctx-size", "1024", "--speculate", "4",
                        "--kv-memory", "1M"));
}

static void so_they_do_with_windows_between_norms(void **state)
{
    (void)state;
    windows("gemma3", "int8", "int8");
}

static void so_they_do_with_windows_sinks_and_experts(void **state)
{
    (void)state;
    windows("gpt-oss", "fp4", "f16");
}

static void so_they_do_with_windows_of_all_layers_and_experts(void **state)
{
    (void)state;
    windows("mixtral", "f16", "f16");
}

static void nodes_of_the_default_model_come_and_go_and_no_answer_changes(void **state)
{
    (void)state;
    const char *model = storm_model();
    if (!model || spawn_is_sanitized()) skip();
    run_chaos(&(plan){model, storm_number("BATON_CHAOS", 8), 32, 200, 2500, 9000, NULL},
              NODES_AND("--ctx-size", "2048"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_of_a_little_model_come_and_go_and_no_answer_changes,
                                  cluster_teardown),
        cmocka_unit_test_teardown(so_they_do_with_windows_between_norms, cluster_teardown),
        cmocka_unit_test_teardown(so_they_do_with_windows_sinks_and_experts, cluster_teardown),
        cmocka_unit_test_teardown(so_they_do_with_windows_of_all_layers_and_experts, cluster_teardown),
        cmocka_unit_test_teardown(nodes_of_the_default_model_come_and_go_and_no_answer_changes,
                                  cluster_teardown),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
