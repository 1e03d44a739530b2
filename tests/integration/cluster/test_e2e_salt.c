/* The kept prefixes that a prompt shares, through the real programs: those of its own key and cache_salt,
 * whatever other keys asked. The prompts of one key show another nothing, neither in counts, nor in bytes,
 * nor in times. */
#include "tests/helpers/cluster/cluster.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWER_MS = 60000, READY_MS = 60000, TOKENS = 2048, ROUNDS = 7 };
static const char ALICE[] = "secret-of-alice", BOB[] = "secret-of-bob";

static const char *write_keys(void)
{
    static const char text[] = "secret-of-alice name=alice\nsecret-of-bob name=bob\n";
    const char *path = spawn_path("api-keys.txt");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(close(fd), 0);
    return path;
}

/* The report on the answer to prompt `number`; all prompts are as long, and no two begin alike. */
static json_t *ask(const char *url, const char *key, int number, const char *cache_salt)
{
    json_t *ids = json_array();
    for (int i = 0; i < TOKENS; i++) (void)json_array_append_new(ids, json_integer(10 + (number + i) % 90));
    json_t *body = json_pack("{s:o,s:i,s:i,s:b,s:b,s:s*}", "prompt", ids, "max_tokens", 2, "temperature", 0,
                             "ignore_eos", 1, "baton", 1, "cache_salt", cache_salt);
    client_use_key(key);
    client *x = client_post(url, "/v1/completions", body);
    client_use_key(NULL);
    json_decref(body);
    if (!client_wait(x, spawn_patience(ANSWER_MS))) fail_msg("no answer: %s", client_body(x));
    return client_told(x);
}

static double number(const json_t *told, const char *name)
{
    return json_number_value(json_object_get(told, name));
}

/* How much of the prompt was there, on the node that computes it and on the node that answers. */
typedef struct found {
    int cached, covered;
    double kv_bytes, ttft_ms;
} found;

static found find(const char *url, const char *key, int prompt, const char *cache_salt)
{
    json_t *told = ask(url, key, prompt, cache_salt);
    const found f = {(int)number(told, "cached_tokens"), (int)number(told, "covered_tokens"),
                     number(told, "kv_bytes"), number(told, "ttft_ms")};
    json_decref(told);
    return f;
}

static void finds_nothing(found f)
{
    if (f.cached || f.covered) fail_msg("%d tokens were cached, %d covered", f.cached, f.covered);
}

static void finds_all(found f)
{
    if (f.cached < TOKENS - 64) fail_msg("only %d tokens were cached", f.cached);
}

/* The figure that other programs disturbed least. */
static double least(const double *all)
{
    double best = all[0];
    for (int i = 1; i < ROUNDS; i++)
        if (all[i] < best) best = all[i];
    return best;
}

/* Three kinds of prompts of a second key, in turn: one that the first key has asked, one that nobody has, and
 * its own again. The first two are alike in all that is told and in their time. */
static void run_strangers(const char *prefills)
{
    cluster c;
    double asked[ROUNDS], fresh[ROUNDS], again[ROUNDS];
    assert_true(CLUSTER(&c, spawn_long_model(), "--engine", "host", "--prefill", prefills, "--decode", "1",
                        "--threads", "1", "--api-key-file", write_keys()));
    for (int i = 0; i < ROUNDS; i++) {
        finds_nothing(find(c.url, ALICE, 3 * i, NULL));
        finds_all(find(c.url, ALICE, 3 * i, NULL));
        found of[2]; /* in turn, so that neither is always the first after a short one */
        for (int k = 0; k < 2; k++) of[(i + k) % 2] = find(c.url, BOB, 3 * i + (i + k) % 2, NULL);
        const found theirs = of[0], none = of[1], own = find(c.url, BOB, 3 * i, NULL);
        finds_nothing(theirs);
        finds_nothing(none);
        finds_all(own);
        assert_true(theirs.kv_bytes >= none.kv_bytes && theirs.kv_bytes <= none.kv_bytes);
        asked[i] = theirs.ttft_ms;
        fresh[i] = none.ttft_ms;
        again[i] = own.ttft_ms;
    }
    const double a = least(asked), f = least(fresh), o = least(again);
    print_message(
        "%s prefill nodes: %.1f ms to the first token of a prompt that another key asked, %.1f ms of one "
        "that nobody asked, %.1f ms of an own one\n",
        prefills, a, f, o);
    assert_true(a > f / 3 && a < f * 3 && o < f / 3);
    assert_true(cluster_stop(&c));
}

static void a_prompt_that_another_key_asked_is_as_new_as_one_that_nobody_asked(void **state)
{
    (void)state;
    run_strangers("1");
    run_strangers("0");
}

static void a_cache_salt_keeps_prompts_of_one_key_apart_and_those_without_keys_too(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_long_model(), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1", "--api-key-file", write_keys()));
    static const char *const salts[] = {NULL, "x", "y"};
    for (int i = 0; i < 3; i++) finds_nothing(find(c.url, ALICE, 0, salts[i]));
    for (int i = 0; i < 3; i++) finds_all(find(c.url, ALICE, 0, salts[i]));
    finds_nothing(find(c.url, BOB, 0, "x"));
    assert_true(cluster_stop(&c));
    assert_true(CLUSTER(&c, spawn_long_model(), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1"));
    for (int i = 0; i < 3; i++) finds_nothing(find(c.url, NULL, 0, salts[i]));
    for (int i = 0; i < 3; i++) finds_all(find(c.url, NULL, 0, salts[i]));
    assert_true(cluster_stop(&c));
}

static void with_share_prefixes_all_keys_find_what_any_of_them_asked(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_long_model(), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1", "--api-key-file", write_keys(), "--share-prefixes"));
    finds_nothing(find(c.url, ALICE, 0, NULL));
    finds_all(find(c.url, BOB, 0, NULL));
    finds_nothing(find(c.url, BOB, 0, "x")); /* who wants to be alone still is */
    assert_true(cluster_stop(&c));
}

/* Two gateways with keys of their own over the same decode node, one after the other. */
static void a_key_finds_at_one_gateway_what_it_asked_at_another_of_the_deployment(void **state)
{
    (void)state;
    char url[2][CLUSTER_ADDRESS_BYTES], control[2][CLUSTER_ADDRESS_BYTES],
        named[2][CLUSTER_ADDRESS_BYTES + 16], keys[256];
    spawn *gateway[2];
    snprintf(keys, sizeof keys, "%s", spawn_path("deployment"));
    spawn *made = SPAWN("baton", "keygen", keys, "--gateways", "2", "decode-0");
    assert_int_equal(spawn_wait(made, spawn_patience(READY_MS)), 0);
    for (int i = 0; i < 2; i++) {
        gateway[i] = SPAWN("baton-gateway", "-m", spawn_long_model(), "--keys", keys, "--key",
                           i ? "gateway-1" : "gateway-0", "--port", "0", "--control", "tcp://127.0.0.1:*",
                           "--api-key-file", write_keys());
        assert_true(cluster_find_gateway(url[i], control[i], gateway[i], spawn_patience(READY_MS)));
        snprintf(named[i], sizeof named[i], "%s@gateway-%d", control[i], i);
    }
    spawn *node =
        SPAWN("baton-decode", "-m", spawn_long_model(), "--keys", keys, "--key", "decode-0", "--gateway",
              named[0], "--gateway", named[1], "--id", "d", "--local-prefill", "host", "--threads", "1");
    for (int i = 0; i < 2; i++) assert_true(cluster_wait_health(url[i], 200, spawn_patience(READY_MS)));
    finds_nothing(find(url[0], ALICE, 0, NULL));
    finds_all(find(url[1], ALICE, 0, NULL));
    finds_nothing(find(url[1], BOB, 0, NULL));
    finds_all(find(url[0], BOB, 0, NULL));
    assert_true(cluster_end(node, spawn_patience(READY_MS)));
    for (int i = 0; i < 2; i++) assert_true(cluster_end(gateway[i], spawn_patience(READY_MS)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_prompt_that_another_key_asked_is_as_new_as_one_that_nobody_asked,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_cache_salt_keeps_prompts_of_one_key_apart_and_those_without_keys_too,
                                  cluster_teardown),
        cmocka_unit_test_teardown(with_share_prefixes_all_keys_find_what_any_of_them_asked, cluster_teardown),
        cmocka_unit_test_teardown(a_key_finds_at_one_gateway_what_it_asked_at_another_of_the_deployment,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
