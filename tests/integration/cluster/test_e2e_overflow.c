/* A model whose numbers leave their range at one character: the request that has it ends with words, on no
 * second node, and nothing of it is kept; every other goes on. */
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ANSWER_MS = 60000 };

static const char beyond[] = "K is beyond what f16 KV holds (65,504)";

/* More than a page, then `end`. */
static const char *prompt_of(const char *end)
{
    static char prompt[1200];
    size_t len = 0;
    for (int i = 0; i < 5; i++)
        len += (size_t)snprintf(prompt + len, sizeof prompt - len,
                                "the end of a small thing is not %d but the day; ", i);
    snprintf(prompt + len, sizeof prompt - len, "%s", end);
    return prompt;
}

static client *ask(const cluster *c, const char *prompt, const char *bias)
{
    json_t *body = cluster_request(prompt, 8);
    if (bias) json_object_set_new(body, "logit_bias", json_pack("{s:i}", bias, 100));
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    assert_true(client_wait(x, spawn_patience(ANSWER_MS)));
    return x;
}

/* The caller drops it. */
static json_t *answer(const cluster *c, const char *prompt) { return client_told(ask(c, prompt, NULL)); }

static void expect_same(const json_t *told, const json_t *before)
{
    static const char *const keys[] = {"text", "token_ids", "first_logits", "kv_digest"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!json_equal(json_object_get(told, keys[k]), json_object_get(before, keys[k])))
            fail_msg("another %s", keys[k]);
}

static void refused(const cluster *c, const char *prompt, const char *bias)
{
    client *x = ask(c, prompt, bias);
    if (client_status(x) != 500 || !strstr(client_body(x), beyond) ||
        !strstr(client_body(x), "layer 0, token "))
        fail_msg("status %ld: %s", client_status(x), client_body(x));
    assert_string_equal(json_string_value(json_object_get(client_error(x), "code")), "not_finite");
    client_end(x);
}

static void such_a_prompt_ends_with_its_place_and_nothing_of_it_is_kept(const char *engine)
{
    static const char *const ids[] = {"prefill-0", "prefill-1", "decode-0", "decode-1"};
    cluster c;
    pid_t pid[4];
    assert_true(CLUSTER(&c, spawn_hot_model(), "--engine", engine, "--prefill", "2", "--decode", "2",
                        "--policy", "prefix", "--threads", "1"));
    for (int i = 0; i < 4; i++) {
        assert_true(cluster_wait_node(c.url, ids[i], "ready", 0, spawn_patience(ANSWER_MS)));
        pid[i] = cluster_pid(c.url, ids[i]);
    }
    refused(&c, prompt_of("and | of it"), NULL);
    assert_int_equal(cluster_metric(c.url, "\nbaton_request_attempts_total "), 1);
    json_t *cold = answer(&c, prompt_of("and the rest"));
    refused(&c, prompt_of("and | of it"), NULL);
    refused(&c, prompt_of("and | of it, and more"), NULL);
    refused(&c, prompt_of("and the rest|"), NULL);
    json_t *warm = answer(&c, prompt_of("and the rest"));
    expect_same(warm, cold);
    assert_true(json_integer_value(json_object_get(warm, "cached_tokens")) >= 64);
    /* token 0 is forced to be that character: the decode node runs it */
    refused(&c, prompt_of("and the rest"), "127");
    assert_int_equal(cluster_metric(c.url, "baton_request_failures_total{kind=\"not_finite\"} "), 5);
    assert_int_equal(cluster_metric(c.url, "\nbaton_request_attempts_total "), 7);
    for (int i = 0; i < 4; i++) assert_int_equal(cluster_pid(c.url, ids[i]), pid[i]);
    assert_true(cluster_wait_idle(c.url, spawn_patience(ANSWER_MS)));
    json_decref(cold);
    json_decref(warm);
    assert_true(cluster_stop(&c));
}

static void on_the_host_engine(void **state)
{
    (void)state;
    such_a_prompt_ends_with_its_place_and_nothing_of_it_is_kept("host");
}

static void on_the_npu(void **state)
{
    (void)state;
    such_a_prompt_ends_with_its_place_and_nothing_of_it_is_kept("npu");
}

/* A stream's text; the caller frees it. *ret_beside, where it is not NULL: others that began and ended in an
 * error while it ran, at most three. */
static char *stream_text(const cluster *c, int *ret_beside)
{
    client *x = cluster_begin_stream(c->url, 600);
    assert_non_null(x);
    for (int i = 0; ret_beside && i < 3 && !client_is_over(x); i++) {
        refused(c, "the day", "127");
        *ret_beside += !client_is_over(x);
    }
    assert_true(client_wait(x, spawn_patience(ANSWER_MS)));
    assert_true(client_is_done(x));
    char *text = client_text(x);
    client_end(x);
    return text;
}

static void the_other_sequences_of_the_batch_go_on_with_the_same_bits(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_hot_model(), "--engine", "host", "--prefill", "1", "--decode", "1",
                        "--threads", "1"));
    char *alone = stream_text(&c, NULL);
    int beside = 0;
    for (int tries = 0; tries < 10 && !beside; tries++) { /* a stream may be faster than the others' errors */
        char *text = stream_text(&c, &beside);
        assert_string_equal(alone, text);
        free(text);
    }
    assert_true(beside > 0);
    free(alone);
    assert_true(cluster_stop(&c));
}

static void a_decode_node_that_prefills_says_so_too(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_hot_model(), "--engine", "host", "--prefill", "0", "--decode", "1",
                        "--threads", "1"));
    refused(&c, prompt_of("and | of it"), NULL);
    refused(&c, prompt_of("and so on"), "127");
    json_decref(answer(&c, prompt_of("and so on")));
    assert_int_equal(cluster_metric(c.url, "baton_request_failures_total{kind=\"not_finite\"} "), 2);
    assert_true(cluster_stop(&c));
}

static void kv_of_int8_holds_what_f16_does_not(void **state)
{
    (void)state;
    cluster c;
    assert_true(CLUSTER(&c, spawn_hot_model(), "--engine", "host", "--kv-dtype", "int8", "--threads", "1"));
    json_decref(answer(&c, prompt_of("and | of it")));
    assert_true(cluster_stop(&c));
}

static void commands_say_so_and_fail(void **state)
{
    (void)state;
    const char *model = spawn_hot_model(), *file = spawn_path("hot.txt");
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    for (int i = 0; i < 40; i++) assert_true(fputs("the end | of a small day, ", f) >= 0);
    assert_int_equal(fclose(f), 0);
    spawn *of[] = {
        SPAWN("baton", "run", "-m", model, "--engine", "host", "-p", "the end | of it", "-n", "4",
              "--ctx-size", "256"),
        SPAWN("baton", "run", "-m", model, "--engine", "npu", "-p", "the end | of it", "-n", "4",
              "--ctx-size", "256"),
        SPAWN("baton", "perplexity", "-m", model, "--engine", "host", "-f", file, "-c", "64"),
        SPAWN("baton", "perplexity", "-m", model, "--engine", "npu", "-f", file, "-c", "64"),
        SPAWN("baton", "perplexity", "-m", model, "--engine", "decode", "-f", file, "-c", "64"),
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(spawn_wait(of[i], spawn_patience(ANSWER_MS)), 1);
        if (!strstr(spawn_err(of[i]), beyond)) fail_msg("command %zu: %s", i, spawn_err(of[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(on_the_host_engine, cluster_teardown),
        cmocka_unit_test_teardown(on_the_npu, cluster_teardown),
        cmocka_unit_test_teardown(the_other_sequences_of_the_batch_go_on_with_the_same_bits,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_decode_node_that_prefills_says_so_too, cluster_teardown),
        cmocka_unit_test_teardown(kv_of_int8_holds_what_f16_does_not, cluster_teardown),
        cmocka_unit_test_teardown(commands_say_so_and_fail, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
