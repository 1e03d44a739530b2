/* The promises of `baton up` and `baton run` to whoever sits in front of them. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/storm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY_MS = 60000, ARGS_BYTES = 8192 };

/* The arguments of a running process, a space behind each. */
static void read_args(char ret[ARGS_BYTES], pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    const size_t n = fread(ret, 1, ARGS_BYTES - 1, f);
    fclose(f);
    for (size_t i = 0; i < n; i++)
        if (!ret[i]) ret[i] = ' ';
    ret[n] = 0;
}

static void up_passes_on_what_is_the_gateways(void **state)
{
    (void)state;
    cluster c;
    char args[ARGS_BYTES];
    assert_int_equal(setenv("BATON_MAX_QUEUE", "3", 1), 0);
    const bool is_up = CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--threads", "1",
                               "--max-connections", "7", "--idle-timeout=5s", "-a", "little");
    assert_int_equal(unsetenv("BATON_MAX_QUEUE"), 0);
    assert_true(is_up);
    read_args(args, cluster_pid(c.url, "gateway"));
    static const char *const passed[] = {" --max-connections 7 ", " --idle-timeout 5s ", " --max-queue 3 ",
                                         " --alias little ", " --port 0 "};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (!strstr(args, passed[i])) fail_msg("not passed on:%s; the gateway has %s", passed[i], args);
    assert_null(strstr(args, "--recovery-timeout")); /* nobody gave it */
    assert_true(cluster_stop(&c));
}

/* Lines that only debug shows come at the end of a node, and from the gateway with the first odd request. */
static void every_daemon_takes_v(void **state)
{
    (void)state;
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
    const char *model = spawn_tiny_model(1);
    spawn *g = SPAWN("baton-gateway", "-m", model, "-v", "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    spawn *p = SPAWN("baton-prefill", "-m", model, "-v", "--engine", "host", "--threads", "1", "--gateway",
                     control),
          *d = SPAWN("baton-decode", "-m", model, "-v", "--threads", "1", "--gateway", control, "--listen",
                     "tcp://127.0.0.1:*");
    assert_true(cluster_wait_health(url, 200, spawn_patience(READY_MS)));
    assert_true(cluster_end(p, spawn_patience(READY_MS)));
    assert_true(cluster_end(d, spawn_patience(READY_MS)));
    assert_true(cluster_end(g, spawn_patience(READY_MS)));
    assert_non_null(strstr(spawn_err(p), "baton-prefill prefill-0 debug: "));
    assert_non_null(strstr(spawn_err(d), "baton-decode decode-0 debug: "));
    assert_non_null(strstr(spawn_err(g), "baton-gateway debug: "));
}

static void change_role(const cluster *c, const char *id, const char *role)
{
    spawn *s = SPAWN("baton", "role", id, role, "--url", c->url);
    if (spawn_wait(s, spawn_patience(READY_MS)) != 0) fail_msg("%s", spawn_err(s));
    assert_non_null(strstr(spawn_out(s), "serves as"));
}

static void answers_by(const cluster *c, const char *prefill, const char *decode)
{
    json_t *body = cluster_request("the end of", 4);
    json_object_set_new(body, "baton", json_pack("{s:s,s:s}", "prefill", prefill, "decode", decode));
    client *k = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    if (!client_wait(k, spawn_patience(READY_MS)) || client_status(k) != 200)
        fail_msg("%ld: %s", client_status(k), client_body(k));
    assert_string_equal(json_string_value(json_object_get(client_baton(k), "prefilled_by")), prefill);
    client_end(k);
}

static void roles_change_under_up(const char *option, const char *value)
{
    cluster c;
    assert_true(CLUSTER(&c, spawn_tiny_model(1), "--engine", "host", "--threads", "1", "--prefill", "2",
                        "--decode", "2", option, value));
    assert_true(cluster_wait_node(c.url, "decode-1", "ready", 0, spawn_patience(READY_MS)));
    assert_true(cluster_wait_node(c.url, "prefill-1", "ready", 0, spawn_patience(READY_MS)));
    change_role(&c, "decode-1", "prefill");
    change_role(&c, "prefill-1", "decode");
    answers_by(&c, "decode-1", "prefill-1");
    change_role(&c, "decode-1", "decode");
    change_role(&c, "prefill-1", "prefill");
    answers_by(&c, "prefill-1", "decode-1");
    assert_true(cluster_stop(&c));
}

static void nodes_of_up_change_their_roles(void **state)
{
    (void)state;
    roles_change_under_up(NULL, NULL);
}

static void keys_that_up_makes_have_both_roles(void **state)
{
    (void)state;
    roles_change_under_up("--keys", spawn_path("keys-of-up"));
}

static void the_first_signal_says_what_a_second_one_does(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_long_model(), "--engine", "host", "--threads", "1"));
    client *running = cluster_begin_stream(c.url, 8000);
    assert_non_null(running);
    spawn_signal(c.up, SIGINT);
    assert_true(spawn_wait_err(c.up, "a second Ctrl-C (or SIGTERM) leaves at once",
                               spawn_patience(READY_MS)));
    assert_null(strstr(spawn_err(c.up), "second signal"));
    spawn_signal(c.up, SIGINT);
    assert_true(spawn_wait_err(c.up, "second signal: leaving at once", spawn_patience(READY_MS)));
    assert_int_equal(spawn_wait(c.up, spawn_patience(5000)), 0);
    assert_true(spawn_wait_all_gone(spawn_patience(5000)));
    client_end(running);
}

static void run_tells_the_npus_share_and_what_fell_back(void **state)
{
    (void)state;
    char linears[64];
    snprintf(linears, sizeof linears, "/tmp/baton-linears-%d.json", (int)getpid());
    FILE *f = fopen(linears, "w");
    assert_non_null(f);
    fputs("{\"name\": \"linears\", \"title\": \"Linears only\", \"operators\": {\"linear\": [\"int8\"]}}", f);
    assert_int_equal(fclose(f), 0);
    const struct {
        const char *option, *value, *words[3];
    } c[] = {
        {"--npu-ops", "linear", {"npu         ", " % of the prompt's multiply-adds; nothing fell back"}},
        {"--profile", linears, {" % of the prompt's multiply-adds; the CPU did what fell back:", ", 4 x: "}},
        {"--profile",
         "npu4",
         {"npu        100.00 % of the prompt's multiply-adds; nothing fell back", " % in floats"}},
        {"--engine", "host", {"npu        none: engine host computed the prompt"}},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        spawn *s = SPAWN("baton", "run", "-m", spawn_tiny_model(1), "-p", "the end of", "-n", "2",
                         "--threads", "1", "--npu-ops",
                         strcmp(c[i].option, "--profile") == 0 ? "all" : "linear", c[i].option, c[i].value);
        if (spawn_wait(s, spawn_patience(READY_MS)) != 0) fail_msg("%s", spawn_err(s));
        for (size_t k = 0; k < 3 && c[i].words[k]; k++)
            if (!strstr(spawn_err(s), c[i].words[k]))
                fail_msg("'%s' is not in: %s", c[i].words[k], spawn_err(s));
    }
    unlink(linears);
}

/* `run` with a known model that is not here, at a terminal where somebody types the answer. */
static spawn *asked_by_run(const char *mirror, const char *answer)
{
    spawn *s = spawn_in_terminal("dumb", (const char *const[]){"baton", "run", "-m", "smollm2", "--mirror",
                                                               mirror, "--engine", "host", "--threads", "1",
                                                               "-p", "The end of", "-n", "1", NULL});
    if (!spawn_wait_out(s, "The model smollm2 is not here. Fetch it (98.4 MB, licence: Apache-2.0)? [y/N] ",
                        spawn_patience(READY_MS)))
        fail_msg("nobody was asked: %s", spawn_out(s));
    spawn_type(s, answer, strlen(answer));
    return s;
}

static void run_fetches_a_known_model_after_a_yes_alone(void **state)
{
    (void)state;
    static const char *const no[] = {"n\r", "\r", "\004"};
    char file[512], mirror[512];
    const char *model = storm_model();
    if (!model) skip();
    assert_int_equal(setenv("BATON_MODEL_DIR", spawn_path("models"), 1), 0);
    snprintf(file, sizeof file, "%s", spawn_path("models/SmolLM2-135M-Instruct.Q4_1.gguf"));
    snprintf(mirror, sizeof mirror, "file://%s", spawn_path("mirror"));
    assert_int_equal(mkdir(mirror + strlen("file://"), 0700), 0);
    assert_int_equal(symlink(model, spawn_path("mirror/SmolLM2-135M-Instruct.Q4_1.gguf")), 0);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        spawn *s = asked_by_run(mirror, no[i]);
        assert_int_equal(spawn_wait(s, spawn_patience(READY_MS)), 1);
        assert_non_null(strstr(spawn_out(s), "run 'baton pull smollm2' to fetch it"));
        assert_int_equal(access(file, F_OK), -1);
    }
    spawn *s = asked_by_run(mirror, "y\r");
    if (spawn_wait(s, spawn_patience(READY_MS)) != 0) fail_msg("%s", spawn_out(s));
    assert_non_null(strstr(spawn_out(s), "smollm2: 98.4 MB"));
    assert_int_equal(access(file, R_OK), 0);
    assert_int_equal(unsetenv("BATON_MODEL_DIR"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(up_passes_on_what_is_the_gateways, cluster_teardown),
        cmocka_unit_test_teardown(every_daemon_takes_v, cluster_teardown),
        cmocka_unit_test_teardown(nodes_of_up_change_their_roles, cluster_teardown),
        cmocka_unit_test_teardown(keys_that_up_makes_have_both_roles, cluster_teardown),
        cmocka_unit_test_teardown(the_first_signal_says_what_a_second_one_does, cluster_teardown),
        cmocka_unit_test_teardown(run_tells_the_npus_share_and_what_fell_back, cluster_teardown),
        cmocka_unit_test_teardown(run_fetches_a_known_model_after_a_yes_alone, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
