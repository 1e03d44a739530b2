/* Keys between processes: with them three programs started by hand work over tcp; without the right one nobody joins, and a key serves
 * only for the role that it was made for. */
#include "tests/helpers/cluster.h"

#include <errno.h>
#include <fcntl.h>
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

enum { READY_MS = 15000 };
typedef struct by_hand { spawn *gateway; char url[128], control[128]; } by_hand;

static char keys[256], other[256];          /* two sets that have nothing to do with each other */

static int teardown(void **state)
{
    (void)client_teardown(state);
    return spawn_teardown(state);
}

static void make_keys(char *ret, size_t cap, const char *name)
{
    snprintf(ret, cap, "%s", spawn_path(name));
    spawn *s = SPAWN("baton", "keygen", ret);
    if (spawn_wait(s, spawn_patience(5000)) != 0) fail_msg("keygen: %s", spawn_err(s));
}

static void copy(const char *from_dir, const char *from, const char *to_dir, const char *to)
{
    char a[512], b[512], text[4096];
    snprintf(a, sizeof a, "%s/%s", from_dir, from);
    snprintf(b, sizeof b, "%s/%s", to_dir, to);
    FILE *in = fopen(a, "re");
    assert_non_null(in);
    const size_t n = fread(text, 1, sizeof text, in);
    fclose(in);
    (void)remove(b);
    const int fd = open(b, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
}

/* A gateway on tcp, alone; its addresses are taken from what it says. */
static void start_gateway(by_hand *h, const char *keys_dir)
{
    h->gateway = keys_dir ? SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control", "tcp://127.0.0.1:*", "--keys", keys_dir)
                          : SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(spawn_wait_err(h->gateway, "waiting for", spawn_patience(READY_MS)));
    const char *nodes = strstr(spawn_err(h->gateway), "nodes: "), *clients = strstr(spawn_err(h->gateway), "clients: ");
    assert_true(nodes && clients);
    assert_int_equal(sscanf(nodes, "nodes: %127[^, \n]", h->control), 1);
    assert_int_equal(sscanf(clients, "clients: %127[^, \n]", h->url), 1);
}

static spawn *start_node(const by_hand *h, const char *program, const char *id, const char *keys_dir)
{
    const char *argv[16] = { program, "-m", spawn_tiny_model(1), "--gateway", h->control, "--id", id, "--threads", "1" };
    size_t n = 9;
    if (keys_dir) {
        argv[n++] = "--keys";
        argv[n++] = keys_dir;
    }
    if (strcmp(program, "baton-decode") == 0) {
        argv[n++] = "--listen";
        argv[n++] = "tcp://127.0.0.1:*";
    }
    return spawn_start(argv);
}

static void end(spawn *s)
{
    spawn_signal(s, SIGTERM);
    const int rc = spawn_wait(s, spawn_patience(5000));
    if (rc != 0) fail_msg("exit %d: %s", rc, spawn_err(s));
}

static void expect_nobody(const by_hand *h, const char *id)
{
    json_t *status = cluster_status(h->url);
    assert_non_null(status);
    const json_t *nodes = json_object_get(status, "nodes");
    for (size_t i = 0; i < json_array_size(nodes); i++)
        assert_string_not_equal(json_string_value(json_object_get(json_array_get(nodes, i), "id")), id);
    json_decref(status);
    assert_true(cluster_wait_health(h->url, 503, spawn_patience(1000)));
}

static void three_programs_with_one_set_of_keys_serve(void **state)
{
    by_hand h;
    (void)state;
    start_gateway(&h, keys);
    spawn *decode = start_node(&h, "baton-decode", "d", keys), *prefill = start_node(&h, "baton-prefill", "p", keys);
    assert_true(cluster_wait_health(h.url, 200, spawn_patience(READY_MS)));
    for (int i = 0; i < 3; i++) assert_true(cluster_serves(h.url));
    json_t *status = cluster_status(h.url);
    assert_int_equal(strncmp(json_string_value(json_object_get(json_object_get(status, "gateway"), "control")), "tcp://", 6), 0);
    json_decref(status);
    end(prefill);
    end(decode);
    end(h.gateway);
}

static void a_strange_key_or_none_does_not_join(void **state)
{
    by_hand h;
    char mixed[256];
    (void)state;
    start_gateway(&h, keys);
    spawn *decode = start_node(&h, "baton-decode", "d", keys);
    assert_true(cluster_wait_node(h.url, "d", "ready", 0, spawn_patience(READY_MS)));
    /* Knows the gateway's public key, but its own is in no list here. */
    snprintf(mixed, sizeof mixed, "%s", spawn_path("mixed"));
    assert_true(mkdir(mixed, 0700) == 0 || errno == EEXIST);
    copy(other, "prefill.secret", mixed, "prefill.secret");
    copy(other, "allow", mixed, "allow");
    copy(keys, "gateway.public", mixed, "gateway.public");
    copy(keys, "decode.public", mixed, "decode.public");
    spawn *strange = start_node(&h, "baton-prefill", "strange", mixed);
    spawn *wrong = start_node(&h, "baton-prefill", "wrong", other);         /* takes another for the gateway */
    spawn *plain = start_node(&h, "baton-prefill", "plain", NULL);
    assert_true(spawn_wait_err(strange, "model", spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(wrong, "model", spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(plain, "model", spawn_patience(READY_MS)));
    /* They have had their chance when one with the right key, started after them, is in. */
    spawn *right = start_node(&h, "baton-prefill", "right", keys);
    assert_true(cluster_wait_node(h.url, "right", "ready", 0, spawn_patience(READY_MS)));
    assert_true(cluster_serves(h.url));
    end(right);
    assert_true(cluster_wait_health(h.url, 503, spawn_patience(10000)));
    expect_nobody(&h, "strange");
    expect_nobody(&h, "wrong");
    expect_nobody(&h, "plain");
    assert_null(strstr(spawn_err(strange), "info: ready"));
    assert_null(strstr(spawn_err(wrong), "info: ready"));
    assert_null(strstr(spawn_err(plain), "info: ready"));
    end(strange);
    end(wrong);
    end(plain);
    end(decode);
    end(h.gateway);
}

static void a_gateway_without_keys_is_not_joined_with_keys(void **state)
{
    by_hand h;
    (void)state;
    start_gateway(&h, NULL);
    spawn *locked = start_node(&h, "baton-decode", "locked", keys), *plain = start_node(&h, "baton-decode", "plain", NULL);
    assert_true(cluster_wait_node(h.url, "plain", "ready", 0, spawn_patience(READY_MS)));
    expect_nobody(&h, "locked");
    assert_null(strstr(spawn_err(locked), "info: ready"));
    end(locked);
    end(plain);
    end(h.gateway);
}

static void a_decode_key_is_not_good_for_a_prefill_node(void **state)
{
    by_hand h;
    char forged[256];
    (void)state;
    start_gateway(&h, keys);
    snprintf(forged, sizeof forged, "%s", spawn_path("forged"));
    assert_true(mkdir(forged, 0700) == 0 || errno == EEXIST);
    copy(keys, "decode.secret", forged, "prefill.secret");
    copy(keys, "allow", forged, "allow");
    copy(keys, "gateway.public", forged, "gateway.public");
    copy(keys, "decode.public", forged, "decode.public");
    spawn *decode = start_node(&h, "baton-decode", "d", keys);
    assert_true(cluster_wait_node(h.url, "d", "ready", 0, spawn_patience(READY_MS)));
    spawn *false_prefill = start_node(&h, "baton-prefill", "forged", forged);
    assert_true(spawn_wait_err(h.gateway, "a role that its key does not have", spawn_patience(READY_MS)));
    expect_nobody(&h, "forged");
    assert_null(strstr(spawn_err(false_prefill), "info: ready"));
    end(false_prefill);
    end(decode);
    end(h.gateway);
}

static void a_secret_that_others_may_read_is_refused(void **state)
{
    static const char *const programs[] = { "baton-gateway", "baton-prefill", "baton-decode" };
    char path[512];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s.secret", other, programs[i] + 6);
        assert_int_equal(chmod(path, 0640), 0);
        spawn *s = i == 0 ? SPAWN(programs[i], "-m", spawn_tiny_model(1), "--keys", other, "--port", "0", "--control", "tcp://127.0.0.1:*")
                          : SPAWN(programs[i], "-m", spawn_tiny_model(1), "--keys", other);
        const int rc = spawn_wait(s, spawn_patience(10000));
        if (rc != 1 || !strstr(spawn_err(s), programs[i] + 6) || !strstr(spawn_err(s), "read"))
            fail_msg("exit %d, said: %s", rc, spawn_err(s));
        assert_int_equal(chmod(path, 0600), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(three_programs_with_one_set_of_keys_serve, teardown),
        cmocka_unit_test_teardown(a_strange_key_or_none_does_not_join, teardown),
        cmocka_unit_test_teardown(a_gateway_without_keys_is_not_joined_with_keys, teardown),
        cmocka_unit_test_teardown(a_decode_key_is_not_good_for_a_prefill_node, teardown),
        cmocka_unit_test_teardown(a_secret_that_others_may_read_is_refused, teardown),
    };
    spawn_setup();
    client_setup();
    make_keys(keys, sizeof keys, "keys");
    make_keys(other, sizeof other, "other");
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    client_cleanup();
    spawn_cleanup();
    return rc;
}
