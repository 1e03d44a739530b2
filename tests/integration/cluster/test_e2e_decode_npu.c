/* Decode nodes with engine npu: an answer is the same wherever it is computed, and goes on at a node of its
 * class alone when the one that wrote it is killed. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POLICY "chunk:64+tail:1"
enum { READY_MS = 120000, ANSWER_MS = 60000, TOKENS = 2000, FEW_TOKENS = 48, BEGUN_BYTES = 4000 };

typedef struct place {
    spawn *gateway, *prefill, *decode[3];
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
} place;

static spawn *start_decode(const place *p, const char *id, const char *engine)
{
    spawn *s = SPAWN("baton-decode", "-m", spawn_long_model(), "--id", id, "--threads", "1", "--isa", "ref",
                     "--gateway", p->control, "--listen", "tcp://127.0.0.1:*", "--engine", engine,
                     "--shape-policy", POLICY, "--kv-memory", "64M");
    assert_true(cluster_wait_node(p->url, id, "ready", 0, spawn_patience(READY_MS)));
    return s;
}

/* Two decode nodes of one class and one of another. */
static void start(place *p)
{
    p->gateway = SPAWN("baton-gateway", "-m", spawn_long_model(), "--port", "0", "--control",
                       "tcp://127.0.0.1:*", "--recovery-timeout", "1s");
    assert_true(cluster_find_gateway(p->url, p->control, p->gateway, spawn_patience(READY_MS)));
    p->prefill = SPAWN("baton-prefill", "-m", spawn_long_model(), "--id", "p0", "--threads", "1", "--isa",
                       "ref", "--gateway", p->control, "--shape-policy", POLICY, "--kv-memory", "64M");
    assert_true(cluster_wait_node(p->url, "p0", "ready", 0, spawn_patience(READY_MS)));
    p->decode[0] = start_decode(p, "d0", "npu");
    p->decode[1] = start_decode(p, "d1", "npu");
    p->decode[2] = start_decode(p, "d2", "host");
}

static void end(spawn *s) { assert_true(cluster_end(s, spawn_patience(30000))); }

static client *stream(const place *p, const char *id)
{
    json_t *r = cluster_request("a", TOKENS);
    json_object_set_new(r, "stream", json_true());
    json_object_set_new(r, "logit_bias", json_pack("{s:i, s:i}", "2", -100, "260", -100));
    json_object_set_new(r, "baton", json_pack("{s:s}", "decode", id));
    client *c = client_post(p->url, "/v1/completions", r);
    json_decref(r);
    return c;
}

/* Until it is over, or has begun to come. */
static void wait_bytes(client *c, size_t bytes)
{
    const int64_t end_ms = spawn_now_ms() + spawn_patience(ANSWER_MS);
    while (!client_is_over(c) && strlen(client_body(c)) < bytes && spawn_now_ms() < end_ms) client_step();
}

static json_t *ids_of(client *c)
{
    if (!client_is_done(c) || client_error(c)) fail_msg("%s", client_body(c));
    return json_object_get(client_baton(c), "token_ids");
}

/* A member of node `id` in the gateway's status; the caller drops it. */
static json_t *of_node(const place *p, const char *id, const char *key)
{
    size_t i;
    json_t *status = cluster_status(p->url), *n, *ret = NULL;
    json_array_foreach(json_object_get(status, "nodes"), i, n) {
        const char *name = json_string_value(json_object_get(n, "id"));
        if (name && strcmp(name, id) == 0) ret = json_incref(json_object_get(n, key));
    }
    json_decref(status);
    assert_non_null(ret);
    return ret;
}

/* "decode npu package=DIGEST kv=f16 kernels=N", and that of the host. */
static void expect_classes(const place *p)
{
    json_t *a = of_node(p, "d0", "exactness"), *b = of_node(p, "d1", "exactness"),
           *host = of_node(p, "d2", "exactness"), *prompts = of_node(p, "p0", "exactness");
    const char *text = json_string_value(a), *package = strstr(json_string_value(prompts), "package=");
    assert_int_equal(strncmp(text, "decode npu package=", 19), 0);
    assert_non_null(package);
    assert_non_null(strstr(text, package)); /* the digest, KV and kernels of the prefill node's */
    assert_string_equal(text, json_string_value(b));
    assert_int_equal(strncmp(json_string_value(host), "decode host f16 ", 16), 0);
    json_decref(a);
    json_decref(b);
    json_decref(host);
    json_decref(prompts);
}

static void a_killed_node_is_followed_by_one_of_its_class_and_by_no_other(void **state)
{
    (void)state;
    place p = {0};
    start(&p);
    expect_classes(&p);
    client *whole = stream(&p, "d0"), *host = stream(&p, "d2");
    wait_bytes(whole, SIZE_MAX);
    wait_bytes(host, SIZE_MAX);
    assert_false(json_equal(ids_of(whole), ids_of(host))); /* or nobody would see who went on */
    client_end(host);

    client *c = stream(&p, "d0");
    wait_bytes(c, BEGUN_BYTES);
    assert_false(client_is_over(c));
    spawn_signal(p.decode[0], SIGKILL);
    wait_bytes(c, SIZE_MAX);
    assert_true(json_equal(ids_of(c), ids_of(whole)));
    assert_int_equal(json_integer_value(json_object_get(client_baton(c), "attempts")), 2);
    client_end(c);

    c = stream(&p, "d1"); /* then only another class is left: it waits, and fails */
    wait_bytes(c, BEGUN_BYTES);
    assert_false(client_is_over(c));
    spawn_signal(p.decode[1], SIGKILL);
    wait_bytes(c, SIZE_MAX);
    assert_non_null(client_error(c));
    assert_true(cluster_wait_node(p.url, "d2", "ready", 0, spawn_patience(READY_MS)));
    assert_non_null(strstr(json_string_value(json_object_get(client_error(c), "message")),
                           "no other attempt began"));
    client_end(c);
    client_end(whole);
    for (int i = 0; i < 2; i++) (void)spawn_wait(p.decode[i], spawn_patience(5000));
    end(p.decode[2]);
    end(p.prefill);
    end(p.gateway);
}

/* Files of packages that a process has mapped, each as often as it is. */
static int packages_of(pid_t pid)
{
    char path[64], line[4352];
    unsigned long long begin, end, offset;
    int maps = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strstr(line, ".bpk") && sscanf(line, "%llx-%llx %*s %llx", &begin, &end, &offset) == 3)
            maps += offset == 0;
    fclose(f);
    return maps;
}

static json_t *answer(const char *url)
{
    json_t *r = cluster_request("a small thing, and a small thing, and", FEW_TOKENS);
    client *c = client_post(url, "/v1/completions", r);
    json_decref(r);
    if (!client_wait(c, spawn_patience(ANSWER_MS)) || client_status(c) != 200)
        fail_msg("status %ld: %s", client_status(c), client_body(c));
    json_t *ids = json_incref(json_object_get(client_baton(c), "token_ids"));
    client_end(c);
    return ids;
}

static void one_process_or_two_and_drafts_write_the_same_with_one_package_each(void **state)
{
    (void)state;
    static const char *const more[][5] = {{NULL}, {"--prefill", "0", NULL}, {"--speculate", "6", NULL}};
    json_t *expected = NULL;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const char *options[16] = {"--decode-engine", "npu", "--shape-policy", POLICY,
                                   "--kv-memory",     "64M", "--threads",      "1"};
        for (size_t n = 8, j = 0; more[i][j]; j++) options[n++] = more[i][j];
        cluster c;
        assert_true(cluster_start(&c, spawn_tiny_model(1), options));
        json_t *ids = answer(c.url);
        assert_true(json_array_size(ids) == FEW_TOKENS);
        if (!expected) expected = json_incref(ids);
        assert_true(json_equal(ids, expected));
        json_decref(ids);
        assert_int_equal(packages_of(cluster_pid(c.url, "decode-0")), 1);
        assert_true(cluster_stop(&c));
    }
    json_decref(expected);
}

static void a_package_without_rows_of_one_token_is_refused_before_nodes_start(void **state)
{
    (void)state;
    spawn *s = SPAWN("baton", "run", "-q", "-m", spawn_tiny_model(1), "-p", "a", "--decode-engine", "npu");
    assert_int_equal(spawn_wait(s, spawn_patience(READY_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "has no program for one token"));
    assert_non_null(strstr(spawn_err(s), "--shape-policy chunk:256+tail:1"));
    s = SPAWN("baton", "run", "-q", "-m", spawn_tiny_model(1), "-p", "a", "--decode-engine", "reference");
    assert_int_equal(spawn_wait(s, spawn_patience(READY_MS)), 1);
    assert_non_null(strstr(spawn_err(s), "--decode-engine reference does not fit --engine npu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_killed_node_is_followed_by_one_of_its_class_and_by_no_other,
                                  cluster_teardown),
        cmocka_unit_test_teardown(one_process_or_two_and_drafts_write_the_same_with_one_package_each,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_package_without_rows_of_one_token_is_refused_before_nodes_start,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
