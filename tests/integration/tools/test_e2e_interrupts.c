/* Whoever waits for a command of `baton` can end it, and is told what goes on without it; what was said at a
 * question is looked at again after the answer. */
#include "base/file.h"
#include "tests/helpers/cluster/cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY_MS = 60000, END_MS = 10000, INTERRUPTED = 130 };

/* A file that nobody writes: opening it takes for ever. */
static void a_signal_ends_what_opens_a_model(void **state)
{
    (void)state;
    const char *model = spawn_path("nobody-writes.gguf");
    assert_int_equal(mkfifo(model, 0600), 0);
    spawn *run = SPAWN("baton", "run", "-m", model, "-p", "a"),
          *up = SPAWN("baton", "up", "-m", model, "--port", "0");
    assert_true(spawn_wait_err(run, "opening the model", spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(up, "opening the model", spawn_patience(READY_MS)));
    spawn_signal(run, SIGINT);
    spawn_signal(up, SIGTERM);
    assert_int_equal(spawn_wait(run, spawn_patience(END_MS)), INTERRUPTED);
    assert_int_equal(spawn_wait(up, spawn_patience(END_MS)), 0);
    assert_null(strstr(spawn_err(run), "Interrupted system call"));
    unlink(model);
}

/* A port where connections are taken and nothing is said. */
static int listen_mutely(char url[64])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(url, 64, "http://127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

static bool wait_terminal(spawn *s, const char *text)
{
    const int64_t end = spawn_now_ms() + spawn_patience(READY_MS);
    while (!strstr(spawn_out(s), text) && spawn_before(end)) {}
    return strstr(spawn_out(s), text) != NULL;
}

static void chat_says_that_it_waits_for_a_gateway_and_ctrl_c_ends_it(void **state)
{
    (void)state;
    char url[64];
    const int fd = listen_mutely(url);
    const char *const argv[] = {"baton", "chat", "--url", url, NULL};
    spawn *s = spawn_in_terminal("xterm", argv);
    assert_true(wait_terminal(s, "waiting for the gateway's answer"));
    spawn_signal(s, SIGINT);
    assert_int_equal(spawn_wait(s, spawn_patience(END_MS)), INTERRUPTED);
    assert_true(spawn_terminal_is_cooked(s));
    close(fd);
}

static void role_says_what_goes_on_without_it(void **state)
{
    (void)state;
    const char *model = spawn_long_model();
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
    spawn *g = SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    spawn *p = SPAWN("baton-prefill", "-m", model, "--id", "p0", "--engine", "host", "--threads", "1",
                     "--gateway", control),
          *d = SPAWN("baton-decode", "-m", model, "--id", "d0", "--threads", "1", "--gateway", control,
                     "--isa", "ref", "--prefill-engine", "host");
    assert_true(cluster_wait_node(url, "p0", "ready", 0, spawn_patience(READY_MS)));
    assert_true(cluster_wait_node(url, "d0", "ready", 0, spawn_patience(READY_MS)));
    client *running = cluster_begin_stream(url, 8000);
    assert_non_null(running);
    spawn *s = SPAWN("baton", "role", "d0", "prefill", "--url", url);
    assert_true(spawn_wait_err(s, "waiting for d0 to drain", spawn_patience(READY_MS)));
    spawn_signal(s, SIGINT);
    assert_int_equal(spawn_wait(s, spawn_patience(END_MS)), INTERRUPTED);
    if (!strstr(spawn_err(s), "it goes on with the change")) fail_msg("%s", spawn_err(s));
    client_end(running);
    assert_true(cluster_wait_node(url, "d0", "ready", 0, spawn_patience(READY_MS)));
    assert_true(cluster_end(d, spawn_patience(READY_MS)));
    assert_true(cluster_end(p, spawn_patience(READY_MS)));
    assert_true(cluster_end(g, spawn_patience(READY_MS)));
}

#define KEY "0123456789abcdef0123456789abcdef"

/* Somebody begins to make it while the question stands. */
static void cache_clear_looks_again_after_its_question(void **state)
{
    (void)state;
    char package[700], lock[700], folder[600];
    const char *dir = spawn_path("cache-of-question");
    snprintf(folder, sizeof folder, "%s/packages", dir);
    snprintf(package, sizeof package, "%s/" KEY ".bpk", folder);
    snprintf(lock, sizeof lock, "%s/" KEY ".lock", folder);
    const char *before = getenv("BATON_CACHE_DIR");
    char *old = before ? strdup(before) : NULL;
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(bt_file_replace(package, "content", 7, 0600, NULL), BT_OK);
    assert_int_equal(setenv("BATON_CACHE_DIR", dir, 1), 0);
    const char *const argv[] = {"baton", "cache", "clear", NULL};
    spawn *s = spawn_in_terminal("xterm", argv);
    const int rc = old ? setenv("BATON_CACHE_DIR", old, 1) : unsetenv("BATON_CACHE_DIR");
    free(old);
    assert_int_equal(rc, 0);
    assert_true(wait_terminal(s, "Remove 1 file"));
    const int fd = bt_file_lock(lock, 0600, true);
    assert_true(fd >= 0);
    spawn_type(s, "y\n", 2);
    if (!wait_terminal(s, "): being made")) fail_msg("%s", spawn_out(s));
    assert_int_equal(spawn_wait(s, spawn_patience(END_MS)), 1);
    assert_int_equal(access(package, F_OK), 0);
    close(fd);
    unlink(lock);
    unlink(package);
    rmdir(folder);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_signal_ends_what_opens_a_model, cluster_teardown),
        cmocka_unit_test_teardown(chat_says_that_it_waits_for_a_gateway_and_ctrl_c_ends_it, cluster_teardown),
        cmocka_unit_test_teardown(role_says_what_goes_on_without_it, cluster_teardown),
        cmocka_unit_test_teardown(cache_clear_looks_again_after_its_question, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
