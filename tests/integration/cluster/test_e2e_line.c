/* A request that needs half of the decode node's KV, among small ones that never end: it is passed by some,
 * and then it is its turn. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SMALL = 24,        /* under way all the time: more than the KV holds */
    ANSWER = 250,      /* tokens of a small one */
    PASSED_MOST = 400, /* the large one waits in vain */
    STEPS = 5000
};

static client *post(const cluster *c, const char *prompt, int max_tokens)
{
    json_t *body = cluster_request(prompt, max_tokens);
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    return x;
}

static client *post_small(const cluster *c, int number)
{
    char prompt[64];
    snprintf(prompt, sizeof prompt, "%d small things", number);
    return post(c, prompt, ANSWER);
}

/* A number of node decode-0 in /v1/status. */
static long of_decode(const cluster *c, const char *key)
{
    size_t i;
    json_t *n, *status = cluster_status(c->url);
    long value = -1;
    json_array_foreach(json_object_get(status, "nodes"), i, n)
        if (strcmp(json_string_value(json_object_get(n, "id")), "decode-0") == 0)
            value = (long)json_integer_value(json_object_get(n, key));
    json_decref(status);
    return value;
}

/* As many words as make a prompt of half of the KV. */
static char *large_prompt(const cluster *c)
{
    const size_t tokens = (size_t)of_decode(c, "kv_capacity_tokens") / 2, word = strlen("1234 ");
    char *prompt = malloc(tokens * word + 1);
    assert_non_null(prompt);
    size_t len = 0;
    for (size_t k = 0; len + word < tokens; k++)
        len += (size_t)sprintf(prompt + len, "%04u ", (unsigned)(k % 10000));
    return prompt;
}

static void a_large_request_is_passed_by_so_many_small_ones_and_no_more(void **state)
{
    (void)state;
    cluster c;
    client *small[SMALL];
    int number = 0, passed = 0;
    assert_true(CLUSTER(&c, spawn_long_model(), "--prefill", "1", "--decode", "1", "--engine", "host",
                        "--kv-memory", "1M", "--ctx-size", "2048"));
    print_message("%ld tokens of KV\n", of_decode(&c, "kv_capacity_tokens"));
    char *prompt = large_prompt(&c);
    for (int i = 0; i < SMALL; i++) small[i] = post_small(&c, number++);
    while (cluster_metric(c.url, "\nbaton_requests_in_line ") < 1) client_step();
    const int came = number;
    client *large = post(&c, prompt, 1);
    int begun[SMALL] = {0};
    while (!client_is_over(large) && passed < PASSED_MOST) {
        client_step();
        for (int i = 0; i < SMALL; i++) {
            if (!client_is_over(small[i])) continue;
            json_decref(client_told(small[i]));
            passed += begun[i] >= came;
            begun[i] = number;
            small[i] = post_small(&c, number++);
        }
    }
    print_message("%d small ones came later and ended before it\n", passed);
    assert_true(passed < PASSED_MOST);
    double overtakes = 0; /* comes with a heartbeat; a slow machine may have had none */
    for (int i = 0; i < STEPS && overtakes < 1; i++, client_step())
        overtakes = cluster_metric(c.url, "\nbaton_overtakes_total ");
    assert_true(overtakes <= PASSED_MOST);
    json_decref(client_told(large));
    for (int i = 0; i < SMALL; i++) {
        assert_true(client_wait(small[i], spawn_patience(60000)));
        json_decref(client_told(small[i]));
    }
    free(prompt);
    assert_true(cluster_stop(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_large_request_is_passed_by_so_many_small_ones_and_no_more,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
