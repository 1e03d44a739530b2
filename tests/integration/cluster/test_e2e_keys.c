/* Keys between processes: with them three programs started by hand work over tcp; without the right one
 * nobody joins, a key serves only for the roles of its line in the allow file, and that file may change
 * while everything runs. */
#include "tests/helpers/cluster/cluster.h"

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

enum { READY_MS = 60000 };
typedef struct by_hand {
    spawn *gateway;
    char url[128], control[128];
} by_hand;

static char keys[256], other[256]; /* two sets that have nothing to do with each other */

static void make_keys(char *ret, size_t cap, const char *name)
{
    snprintf(ret, cap, "%s", spawn_path(name));
    spawn *s = SPAWN("baton", "keygen", ret);
    if (spawn_wait(s, spawn_patience(20000)) != 0) fail_msg("keygen: %s", spawn_err(s));
}

static const char *file_in(const char *dir, const char *name)
{
    static char path[2][512];
    static int turn;
    snprintf(path[turn ^= 1], sizeof path[0], "%s/%s", dir, name);
    return path[turn];
}

static char *read_text(const char *path)
{
    static char text[2][8192];
    static int turn;
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    const size_t n = fread(text[turn ^= 1], 1, sizeof text[0] - 1, in);
    text[turn][n] = 0;
    fclose(in);
    return text[turn];
}

static void write_text(const char *path, const char *text)
{
    (void)remove(path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void copy(const char *from_dir, const char *from, const char *to_dir, const char *to)
{
    write_text(file_in(to_dir, to), read_text(file_in(from_dir, from)));
}

/* The line of the key `name` in an allow file's text. */
static const char *line_of(const char *text, const char *name)
{
    static char line[256], end[64];
    snprintf(end, sizeof end, " %s\n", name);
    const char *at = strstr(text, end), *begin = at;
    assert_non_null(at);
    while (begin > text && begin[-1] != '\n') begin--;
    snprintf(line, sizeof line, "%.*s%s", (int)(at - begin), begin, end);
    return line;
}

static void make_dir(char *ret, size_t cap, const char *name)
{
    snprintf(ret, cap, "%s", spawn_path(name));
    assert_true(mkdir(ret, 0700) == 0 || errno == EEXIST);
}

/* A gateway on tcp, alone; its addresses are taken from what it says. */
static void start_gateway(by_hand *h, const char *keys_dir)
{
    h->gateway = keys_dir ? SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                                  "tcp://127.0.0.1:*", "--keys", keys_dir, "--key", "gateway")
                          : SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                                  "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(h->url, h->control, h->gateway, spawn_patience(READY_MS)));
}

/* id NULL: the default; key NULL: the only one of keys_dir; keys_dir NULL: none; listen: of a decode node. */
static spawn *start_node_at(const by_hand *h, const char *program, const char *id, const char *keys_dir,
                            const char *key, const char *listen)
{
    const char *argv[20] = {program, "-m", spawn_tiny_model(1), "--gateway", h->control, "--threads", "1"};
    size_t n = 7;
    if (id) {
        argv[n++] = "--id";
        argv[n++] = id;
    }
    if (keys_dir) {
        argv[n++] = "--keys";
        argv[n++] = keys_dir;
    }
    if (key) {
        argv[n++] = "--key";
        argv[n++] = key;
    }
    if (strcmp(program, "baton-decode") == 0) {
        argv[n++] = "--listen";
        argv[n++] = listen;
    }
    return spawn_start(argv);
}

static spawn *start_node(const by_hand *h, const char *program, const char *id, const char *keys_dir,
                         const char *key)
{
    return start_node_at(h, program, id, keys_dir, key, "tcp://127.0.0.1:*");
}

static void end(spawn *s) { assert_true(cluster_end(s, spawn_patience(20000))); }

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
    spawn *decode = start_node(&h, "baton-decode", "d", keys, "decode-0"),
          *prefill = start_node(&h, "baton-prefill", "p", keys, "prefill-0");
    assert_true(cluster_wait_health(h.url, 200, spawn_patience(READY_MS)));
    for (int i = 0; i < 3; i++) assert_true(cluster_serves(h.url));
    json_t *status = cluster_status(h.url);
    assert_int_equal(
        strncmp(json_string_value(json_object_get(json_object_get(status, "gateway"), "control")), "tcp://",
                6),
        0);
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
    spawn *decode = start_node(&h, "baton-decode", "d", keys, "decode-0");
    assert_true(cluster_wait_node(h.url, "d", "ready", 0, spawn_patience(READY_MS)));
    /* Knows the gateway's public key, but its own is in no list but this. */
    make_dir(mixed, sizeof mixed, "mixed");
    copy(other, "prefill-0.secret", mixed, "prefill-0.secret");
    char list[1024];
    snprintf(list, sizeof list, "%s", line_of(read_text(file_in(keys, "allow")), "gateway"));
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s",
             line_of(read_text(file_in(other, "allow")), "prefill-0"));
    write_text(file_in(mixed, "allow"), list);
    spawn *strange = start_node(&h, "baton-prefill", "strange", mixed, NULL);
    /* takes another for the gateway */
    spawn *wrong = start_node(&h, "baton-prefill", "wrong", other, "prefill-0");
    spawn *plain = start_node(&h, "baton-prefill", "plain", NULL, NULL);
    assert_true(spawn_wait_err(strange, "model", spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(wrong, "model", spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(plain, "model", spawn_patience(READY_MS)));
    /* They have had their chance when one with the right key, started after them, is in. */
    spawn *right = start_node(&h, "baton-prefill", "right", keys, "prefill-0");
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
    spawn *locked = start_node(&h, "baton-decode", "locked", keys, "decode-0");
    assert_true(spawn_wait_err(locked, "model", spawn_patience(READY_MS))); /* it catches signals now */
    spawn *plain = start_node(&h, "baton-decode", "plain", NULL, NULL);
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
    char forged[256], list[1024], line[256];
    (void)state;
    start_gateway(&h, keys);
    spawn *decode = start_node(&h, "baton-decode", "d", keys, "decode-0");
    assert_true(cluster_wait_node(h.url, "d", "ready", 0, spawn_patience(READY_MS)));
    /* Its own program refuses. */
    spawn *mistaken = start_node(&h, "baton-prefill", "mistaken", keys, "decode-0");
    assert_int_equal(spawn_wait(mistaken, spawn_patience(10000)), 1);
    assert_non_null(strstr(spawn_err(mistaken), "does not give this process's key the role prefill"));
    /* With a list of its own making, the gateway does. */
    make_dir(forged, sizeof forged, "forged");
    copy(keys, "decode-0.secret", forged, "decode-0.secret");
    snprintf(line, sizeof line, "%s", line_of(read_text(file_in(keys, "allow")), "decode-0"));
    snprintf(list, sizeof list, "%s%.40s decode,prefill\n",
             line_of(read_text(file_in(keys, "allow")), "gateway"), line);
    write_text(file_in(forged, "allow"), list);
    spawn *false_prefill = start_node(&h, "baton-prefill", "forged", forged, NULL);
    assert_true(spawn_wait_err(h.gateway, "key does not have (decode-0)", spawn_patience(READY_MS)));
    expect_nobody(&h, "forged");
    assert_null(strstr(spawn_err(false_prefill), "info: ready"));
    end(false_prefill);
    end(decode);
    end(h.gateway);
}

static void a_node_is_called_as_its_key_and_not_as_another(void **state)
{
    by_hand h;
    char forged[256], list[1024];
    (void)state;
    start_gateway(&h, keys);
    spawn *decode = start_node(&h, "baton-decode", NULL, keys, "decode-0"),
          *prefill = start_node(&h, "baton-prefill", NULL, keys, "prefill-0");
    assert_true(cluster_wait_node(h.url, "decode-0", "ready", 0, spawn_patience(READY_MS)));
    assert_true(cluster_wait_node(h.url, "prefill-0", "ready", 0, spawn_patience(READY_MS)));
    /* Its own program refuses. */
    spawn *mistaken = start_node(&h, "baton-decode", "prefill-0", keys, "decode-0");
    assert_int_equal(spawn_wait(mistaken, spawn_patience(10000)), 1);
    assert_non_null(strstr(spawn_err(mistaken), "gives that name to another key"));
    assert_null(strstr(spawn_err(mistaken), "model"));
    /* With a list of its own that names nobody else, the gateway does; the folder's only key is the node's.
     */
    make_dir(forged, sizeof forged, "nameless");
    copy(keys, "decode-0.secret", forged, "decode-0.secret");
    snprintf(list, sizeof list, "%s", line_of(read_text(file_in(keys, "allow")), "gateway"));
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s",
             line_of(read_text(file_in(keys, "allow")), "decode-0"));
    write_text(file_in(forged, "allow"), list);
    spawn *forger = start_node(&h, "baton-decode", "prefill-0", forged, NULL);
    assert_true(spawn_wait_err(forger, "gives the name 'prefill-0' to another key",
                               spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(h.gateway, "gives the name 'prefill-0' to another key",
                               spawn_patience(10000)));
    assert_true(cluster_serves(h.url));
    end(forger);
    spawn *second = start_node(&h, "baton-decode", NULL, forged, NULL);
    assert_true(spawn_wait_err(second, "'decode-0' is process", spawn_patience(READY_MS)));
    assert_true(cluster_serves(h.url));
    end(second);
    end(prefill);
    end(decode);
    end(h.gateway);
}

/* They come one after the other, as on two machines with the default id. */
static void a_second_node_of_one_id_turns_nobody_out_and_stands_in_when_the_first_dies(void **state)
{
    by_hand h;
    (void)state;
    start_gateway(&h, NULL);
    spawn *prefill = start_node(&h, "baton-prefill", NULL, NULL, NULL),
          *first = start_node(&h, "baton-decode", NULL, NULL, NULL);
    assert_true(cluster_wait_health(h.url, 200, spawn_patience(READY_MS)));
    spawn *second = start_node(&h, "baton-decode", NULL, NULL, NULL);
    char one[64], two[64];
    snprintf(one, sizeof one, "is process %d at 127.0.0.1", (int)spawn_pid(first));
    snprintf(two, sizeof two, "not process %d at 127.0.0.1", (int)spawn_pid(second));
    assert_true(spawn_wait_err(h.gateway, two, spawn_patience(READY_MS)));
    assert_true(spawn_wait_err(second, one, spawn_patience(10000)));
    assert_non_null(strstr(spawn_err(h.gateway), one));
    assert_non_null(strstr(spawn_err(second), two));
    for (int i = 0; i < 3; i++) assert_true(cluster_serves(h.url));
    assert_null(strstr(spawn_err(second), "info: ready"));
    spawn_signal(first, SIGKILL);
    (void)spawn_wait(first, spawn_patience(10000));
    assert_true(spawn_wait_err(second, "info: ready", spawn_patience(20000)));
    assert_true(cluster_wait_health(h.url, 200, spawn_patience(10000)));
    assert_true(cluster_serves(h.url));
    end(second);
    end(prefill);
    end(h.gateway);
}

static void a_node_that_listens_everywhere_tells_the_address_towards_its_gateway(void **state)
{
    static const char *const everywhere[] = {"tcp://0.0.0.0:*", "tcp://*:*", "tcp://[::]:0"};
    by_hand h;
    (void)state;
    start_gateway(&h, keys);
    spawn *prefill = start_node(&h, "baton-prefill", "p", keys, "prefill-0");
    for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++) {
        if (strchr(everywhere[i], '[') && access("/proc/net/if_inet6", R_OK) < 0) continue; /* no IPv6 here */
        spawn *decode = start_node_at(&h, "baton-decode", "d", keys, "decode-0", everywhere[i]);
        assert_true(spawn_wait_err(decode, "told to dial tcp://127.0.0.1:", spawn_patience(READY_MS)));
        assert_true(cluster_wait_health(h.url, 200, spawn_patience(READY_MS)));
        assert_true(cluster_serves(h.url));
        end(decode);
        assert_true(cluster_wait_health(h.url, 503, spawn_patience(10000)));
    }
    end(prefill);
    end(h.gateway);
    snprintf(h.control, sizeof h.control, "ipc://%s", spawn_path("nobody"));
    spawn *lost = start_node_at(&h, "baton-decode", "d", keys, "decode-0", everywhere[0]);
    assert_int_equal(spawn_wait(lost, spawn_patience(10000)), 1);
    assert_non_null(strstr(spawn_err(lost), "give --advertise tcp://ADDRESS:PORT"));
    assert_null(strstr(spawn_err(lost), "model"));
}

static void a_node_is_added_and_removed_while_everything_runs(void **state)
{
    by_hand h;
    char dir[256], was[2048], less[2048], line[256];
    (void)state;
    make_keys(dir, sizeof dir, "changing");
    start_gateway(&h, dir);
    spawn *decode = start_node(&h, "baton-decode", "d", dir, "decode-0");
    spawn *prefill = start_node(&h, "baton-prefill", "p", dir, "prefill-0");
    assert_true(cluster_wait_health(h.url, 200, spawn_patience(READY_MS)));
    spawn *all[] = {h.gateway, decode, prefill};
    /* One more prefill node. */
    spawn *keygen = SPAWN("baton", "keygen", dir, "prefill-1");
    assert_int_equal(spawn_wait(keygen, spawn_patience(20000)), 0);
    for (size_t i = 0; i < 3; i++) spawn_signal(all[i], SIGHUP);
    for (size_t i = 0; i < 3; i++)
        assert_true(spawn_wait_err(all[i], "allow list read again: 4 keys", spawn_patience(20000)));
    spawn *added = start_node(&h, "baton-prefill", "added", dir, "prefill-1");
    assert_true(cluster_wait_node(h.url, "added", "ready", 0, spawn_patience(READY_MS)));
    /* A broken list changes nothing. */
    snprintf(was, sizeof was, "%s", read_text(file_in(dir, "allow")));
    write_text(file_in(dir, "allow"), "broken\n");
    for (size_t i = 0; i < 3; i++) spawn_signal(all[i], SIGHUP);
    for (size_t i = 0; i < 3; i++)
        assert_true(spawn_wait_err(all[i], "the allow list was not read again and stays as it was: line 1",
                                   spawn_patience(20000)));
    for (int i = 0; i < 3; i++) assert_true(cluster_serves(h.url));
    /* The first prefill node's key is taken out: it is heard no more. */
    snprintf(line, sizeof line, "%s", line_of(was, "prefill-0"));
    const char *at = strstr(was, line);
    snprintf(less, sizeof less, "%.*s%s", (int)(at - was), was, at + strlen(line));
    write_text(file_in(dir, "allow"), less);
    for (size_t i = 0; i < 2; i++) spawn_signal(all[i], SIGHUP);
    for (size_t i = 0; i < 2; i++)
        assert_true(spawn_wait_err(all[i], "allow list read again: 3 keys", spawn_patience(20000)));
    assert_true(spawn_wait_err(h.gateway, "key does not have the role for this link (not in the allow list)",
                               spawn_patience(20000)));
    assert_true(cluster_wait_node(h.url, "p", "gone", 0, spawn_patience(20000)));
    for (int i = 0; i < 3; i++) assert_true(cluster_serves(h.url));
    end(added);
    end(prefill);
    end(decode);
    end(h.gateway);
}

static void of_several_gateways_a_node_says_which(void **state)
{
    by_hand h;
    char dir[256];
    (void)state;
    snprintf(dir, sizeof dir, "%s", spawn_path("two-gateways"));
    spawn *keygen = SPAWN("baton", "keygen", dir, "--gateways", "2", "gateway:gateway");
    assert_int_equal(spawn_wait(keygen, spawn_patience(20000)), 0);
    keygen = SPAWN("baton", "keygen", dir, "decode-0");
    assert_int_equal(spawn_wait(keygen, spawn_patience(20000)), 0);
    start_gateway(&h, dir);
    spawn *lost = start_node(&h, "baton-decode", "lost", dir, "decode-0");
    assert_int_equal(spawn_wait(lost, spawn_patience(10000)), 1);
    assert_non_null(strstr(spawn_err(lost), "3 keys of the role gateway"));
    by_hand to = h;
    snprintf(to.control, sizeof to.control, "%.100s@gateway", h.control);
    spawn *right = start_node(&to, "baton-decode", "right", dir, "decode-0");
    assert_true(cluster_wait_node(h.url, "right", "ready", 0, spawn_patience(READY_MS)));
    end(right);
    end(h.gateway);
}

static void up_makes_the_keys_that_it_needs_and_passes_a_hangup_on(void **state)
{
    cluster c;
    char dir[256];
    (void)state;
    snprintf(dir, sizeof dir, "%s", spawn_path("up-keys"));
    for (int round = 0; round < 2; round++) { /* made by the first, taken by the second */
        assert_true(CLUSTER(&c, spawn_tiny_model(1), "--keys", dir, "--threads", "1"));
        for (int i = 0; i < 3; i++) assert_true(cluster_serves(c.url));
        spawn_signal(c.up, SIGHUP);
        for (int i = 0; i < 3; i++)
            assert_true(spawn_wait_err(c.up,
                                       i == 0 ? "baton-gateway info: allow list read again: 3 keys"
                                       : i == 1
                                           ? "baton-prefill prefill-0 info: allow list read again: 3 keys"
                                           : "baton-decode decode-0 info: allow list read again: 3 keys",
                                       spawn_patience(20000)));
        assert_true(cluster_serves(c.url));
        assert_true(cluster_stop(&c));
    }
}

static void what_others_may_read_or_write_is_refused(void **state)
{
    static const struct {
        const char *program, *key;
    } programs[] = {
        {"baton-gateway", "gateway"}, {"baton-prefill", "prefill-0"}, {"baton-decode", "decode-0"}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char secret[64];
        snprintf(secret, sizeof secret, "%s.secret", programs[i].key);
        for (int what = 0; what < 2; what++) {
            const char *path = file_in(other, what == 0 ? secret : "allow");
            assert_int_equal(chmod(path, what == 0 ? 0640 : 0664), 0);
            spawn *s = i == 0
                           ? SPAWN(programs[i].program, "-m", spawn_tiny_model(1), "--keys", other, "--key",
                                   programs[i].key, "--port", "0", "--control", "tcp://127.0.0.1:*")
                           : SPAWN(programs[i].program, "-m", spawn_tiny_model(1), "--keys", other, "--key",
                                   programs[i].key);
            const int rc = spawn_wait(s, spawn_patience(10000));
            if (rc != 1 ||
                !strstr(spawn_err(s), what == 0 ? "can be read by others" : "can be written by others"))
                fail_msg("exit %d, said: %s", rc, spawn_err(s));
            assert_int_equal(chmod(file_in(other, what == 0 ? secret : "allow"), what == 0 ? 0600 : 0644), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(three_programs_with_one_set_of_keys_serve, cluster_teardown),
        cmocka_unit_test_teardown(a_strange_key_or_none_does_not_join, cluster_teardown),
        cmocka_unit_test_teardown(a_gateway_without_keys_is_not_joined_with_keys, cluster_teardown),
        cmocka_unit_test_teardown(a_decode_key_is_not_good_for_a_prefill_node, cluster_teardown),
        cmocka_unit_test_teardown(a_node_is_called_as_its_key_and_not_as_another, cluster_teardown),
        cmocka_unit_test_teardown(a_second_node_of_one_id_turns_nobody_out_and_stands_in_when_the_first_dies,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_node_that_listens_everywhere_tells_the_address_towards_its_gateway,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_node_is_added_and_removed_while_everything_runs, cluster_teardown),
        cmocka_unit_test_teardown(of_several_gateways_a_node_says_which, cluster_teardown),
        cmocka_unit_test_teardown(up_makes_the_keys_that_it_needs_and_passes_a_hangup_on, cluster_teardown),
        cmocka_unit_test_teardown(what_others_may_read_or_write_is_refused, cluster_teardown),
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
