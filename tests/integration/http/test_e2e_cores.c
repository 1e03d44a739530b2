/* Real core dumps, and no key in them: API keys of a gateway that has just looked at some, and the secret
 * keys of a gateway and of a node that encrypt what they send. */
#include "crypto/keys.h"
#include "tests/helpers/cluster/cluster.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY_MS = 60000, DUMPED = 128 + SIGABRT };

/* A folder of its own for each program: that is where the kernel writes `core`. */
static spawn *start_in(char folder[PATH_MAX], const char *name, const char *const *argv)
{
    char here[PATH_MAX];
    (void)snprintf(folder, PATH_MAX, "%s", spawn_path(name));
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    spawn *s = spawn_start(argv);
    assert_int_equal(chdir(here), 0);
    return s;
}
#define START_IN(folder, name, ...) start_in((folder), (name), (const char *const[]){__VA_ARGS__, NULL})

/* Why this machine writes no core there; NULL: it does. */
static const char *why_no_cores(void)
{
    static const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    char pattern[256] = "";
    FILE *f = fopen("/proc/sys/kernel/core_pattern", "re");
    if (f) {
        if (!fgets(pattern, sizeof pattern, f)) pattern[0] = 0;
        (void)fclose(f);
    }
    if (spawn_is_sanitized()) return "sanitizers turn cores off";
    if (pattern[0] == '|') return "/proc/sys/kernel/core_pattern gives cores to a program";
    if (pattern[0] == 0 || pattern[0] == '\n' || strchr(pattern, '/'))
        return "/proc/sys/kernel/core_pattern names another folder";
    if (setrlimit(RLIMIT_CORE, &all) < 0) return "the limit of cores (ulimit -c) cannot be raised";
    return NULL;
}

static void skip_without_cores(void)
{
    const char *why = why_no_cores();
    if (!why) return;
    printf("skipped: no core can be looked at here: %s\n", why);
    skip();
}

/* The whole core of a program that has been killed in this folder; the caller frees it. */
static char *read_core(size_t *ret_len, spawn *s, const char *folder)
{
    char path[PATH_MAX] = "";
    struct stat st;
    spawn_signal(s, SIGABRT);
    assert_int_equal(spawn_wait(s, spawn_patience(READY_MS)), DUMPED);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') (void)snprintf(path, sizeof path, "%.2000s/%s", folder, e->d_name);
    (void)closedir(d);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_msg("no core in %s", folder);
    assert_int_equal(fstat(fd, &st), 0);
    char *core = malloc((size_t)st.st_size + 1);
    assert_non_null(core);
    size_t len = 0;
    for (ssize_t n; (n = read(fd, core + len, (size_t)st.st_size - len)) > 0;) len += (size_t)n;
    (void)close(fd);
    assert_int_equal(len, st.st_size);
    assert_true(len > 64 && memcmp(core, "\177ELF", 4) == 0);
    *ret_len = len;
    return core;
}

static bool holds(const char *core, size_t len, const void *bytes, size_t n)
{
    return memmem(core, len, bytes, n) != NULL;
}

static void a_core_of_a_gateway_holds_names_of_api_keys_and_no_key(void **state)
{
    (void)state;
    static const char one[] = "Kq93vT0pZr-one", two[] = "Kq93vT0pZr-two", wrong[] = "Kq93vT0pZr-wrong",
                      name[] = "a-name-that-is-known";
    char folder[PATH_MAX], url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES], text[128];
    size_t len;
    skip_without_cores();
    const char *file = spawn_path("api.txt");
    const int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const int n = snprintf(text, sizeof text, "%s name=%s\n%s role=admin\n", one, name, two);
    assert_int_equal(write(fd, text, (size_t)n), n);
    assert_int_equal(close(fd), 0);
    spawn *g = START_IN(folder, "of-a-gateway", "baton-gateway", "-m", spawn_tiny_model(1), "--port", "0",
                        "--control", "tcp://127.0.0.1:*", "--api-key-file", file);
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    static const char *const keys[] = {one, two, wrong};
    static const long want[] = {200, 200, 401};
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            client_use_key(keys[i]);
            client *x = client_get(url, "/v1/models");
            assert_true(client_wait(x, spawn_patience(READY_MS)));
            assert_int_equal(client_status(x), want[i]);
            if (round % 2) client_end(x); /* some connections are open when it dies */
        }
        spawn_signal(g, SIGHUP);
        char words[64];
        (void)snprintf(words, sizeof words, "API keys read again: 2");
        assert_true(spawn_wait_err(g, words, spawn_patience(READY_MS)));
    }
    client_use_key(one); /* one that waits for nodes */
    json_t *body = json_pack("{s:s}", "prompt", "the");
    (void)client_post(url, "/v1/completions", body);
    json_decref(body);
    for (const int64_t end = spawn_now_ms() + spawn_patience(READY_MS);
         !strstr(spawn_err(g), "request 1:");) {
        assert_true(spawn_before(end));
        client_step();
    }
    char *core = read_core(&len, g, folder);
    assert_true(holds(core, len, name, strlen(name)));
    assert_false(holds(core, len, one, strlen(one)));
    assert_false(holds(core, len, two, strlen(two)));
    assert_false(holds(core, len, wrong, strlen(wrong)));
    free(core);
}

/* The secret key of a process, as its file has it and as its 32 bytes, is not in its core. */
static void has_no_secret(spawn *s, const char *folder, const char *keys, const char *name)
{
    char path[PATH_MAX], z85[BT_KEYS_Z85_BYTES] = "", program[32];
    unsigned char raw[32];
    size_t len;
    bt_fault f;
    (void)snprintf(path, sizeof path, "%s/%s.secret", keys, name);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    assert_int_equal(fread(z85, 1, BT_KEYS_Z85_BYTES - 1, in), BT_KEYS_Z85_BYTES - 1);
    (void)fclose(in);
    assert_int_equal(bt_keys_from_z85(raw, z85, &f), BT_OK);
    char *core = read_core(&len, s, folder);
    (void)snprintf(program, sizeof program, "baton-%.*s", (int)strcspn(name, "-"), name);
    assert_true(holds(core, len, program, strlen(program))); /* the kernel's notes: it is that program's */
    assert_false(holds(core, len, z85, BT_KEYS_Z85_BYTES - 1));
    assert_false(holds(core, len, raw, sizeof raw));
    assert_false(holds(core, len, raw, sizeof raw / 2));
    free(core);
}

static void a_core_of_a_process_with_a_secret_key_does_not_hold_it(void **state)
{
    (void)state;
    char keys[PATH_MAX], gateway[PATH_MAX], node[PATH_MAX], url[CLUSTER_ADDRESS_BYTES],
        control[CLUSTER_ADDRESS_BYTES];
    skip_without_cores();
    (void)snprintf(keys, sizeof keys, "%s", spawn_path("keys"));
    spawn *made = SPAWN("baton", "keygen", keys);
    if (spawn_wait(made, spawn_patience(READY_MS)) != 0) fail_msg("keygen: %s", spawn_err(made));
    spawn *g = START_IN(gateway, "gateway", "baton-gateway", "-m", spawn_tiny_model(1), "--port", "0",
                        "--control", "tcp://127.0.0.1:*", "--keys", keys, "--key", "gateway");
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    spawn *d =
        START_IN(node, "node", "baton-decode", "-m", spawn_tiny_model(1), "--id", "decode-0", "--gateway",
                 control, "--listen", "tcp://127.0.0.1:*", "--keys", keys, "--key", "decode-0");
    assert_true(cluster_wait_node(url, "decode-0", "ready", 0, spawn_patience(READY_MS)));
    has_no_secret(d, node, keys, "decode-0");
    has_no_secret(g, gateway, keys, "gateway");
}

/* Programs are started from other folders. */
static int begin(void **state)
{
    char bin[PATH_MAX];
    const char *given = getenv("BATON_BIN");
    if (!realpath(given ? given : "bin", bin) || setenv("BATON_BIN", bin, 1) < 0) return -1;
    return cluster_group_begin(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_core_of_a_gateway_holds_names_of_api_keys_and_no_key, cluster_teardown),
        cmocka_unit_test_teardown(a_core_of_a_process_with_a_secret_key_does_not_hold_it, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, begin, cluster_group_end);
}
