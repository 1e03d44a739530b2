/* A node on TCP dies without a word in the middle of a stream or of a prompt. The end of its connection is
 * news at once: the work goes on elsewhere long before anybody could call the node silent, with the tokens
 * of an undisturbed stream, which a program holds to a regular expression. BATON_KILLS=N kills so many (3
 * without) and prints the median silence. */
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

enum {
    READY_MS = 60000,
    ANSWER_MS = 60000,
    SILENCE_MS = 3500,
    TOKENS = 600,
    BEGUN_BYTES = 4000,
    KILLS_MAX = 100
};

typedef struct place {
    const char *model;
    spawn *gateway, *prefill[2], *decode[2];
    char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
} place;

static void start_decode(place *p, int i)
{
    const char *id = i ? "d1" : "d0";
    p->decode[i] = SPAWN("baton-decode", "-m", p->model, "--id", id, "--threads", "1", "--isa", "ref",
                         "--gateway", p->control, "--listen", "tcp://127.0.0.1:*");
    assert_true(cluster_wait_node(p->url, id, "ready", 0, spawn_patience(READY_MS)));
}

static void start_prefill(place *p, int i)
{
    const char *id = i ? "p1" : "p0";
    p->prefill[i] = SPAWN("baton-prefill", "-m", p->model, "--id", id, "--threads", "1", "--isa", "ref",
                          "--gateway", p->control);
    assert_true(cluster_wait_node(p->url, id, "ready", 0, spawn_patience(READY_MS)));
}

static void start(place *p)
{
    p->gateway = SPAWN("baton-gateway", "-m", p->model, "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(p->url, p->control, p->gateway, spawn_patience(READY_MS)));
    start_prefill(p, 0);
    for (int i = 0; i < 2; i++) start_decode(p, i);
}

static void end(place *p)
{
    for (int i = 0; i < 2; i++) {
        assert_true(cluster_end(p->decode[i], spawn_patience(30000)));
        if (p->prefill[i]) assert_true(cluster_end(p->prefill[i], spawn_patience(30000)));
    }
    assert_true(cluster_end(p->gateway, spawn_patience(30000)));
}

/* A stream by the node `id` of this role. */
static client *ask(const place *p, const char *role, const char *id)
{
    json_t *r = cluster_request("a", TOKENS);
    json_object_set_new(r, "stream", json_true());
    json_object_set_new(r, "logit_bias", json_pack("{s:i, s:i}", "2", -100, "260", -100));
    json_object_set_new(r, "guided_regex", json_string("([a-z]+[ ,.])+"));
    json_object_set_new(r, "baton", json_pack("{s:s}", role, id));
    client *c = client_post(p->url, "/v1/completions", r);
    json_decref(r);
    return c;
}

static void wait_bytes(client *c, size_t bytes)
{
    const int64_t end_ms = spawn_now_ms() + spawn_patience(ANSWER_MS);
    while (!client_is_over(c) && strlen(client_body(c)) < bytes && spawn_now_ms() < end_ms) client_step();
    if (client_is_over(c) || strlen(client_body(c)) < bytes) fail_msg("no stream: %s", client_body(c));
}

/* One on decode node i that has begun to come. */
static client *stream_on(const place *p, int i)
{
    client *c = ask(p, "decode", i ? "d1" : "d0");
    wait_bytes(c, BEGUN_BYTES);
    return c;
}

/* To its end; the longest time without a byte. */
static int64_t watch(client *c)
{
    const int64_t end_ms = spawn_now_ms() + spawn_patience(ANSWER_MS);
    int64_t last = spawn_now_ms(), longest = 0;
    for (size_t len = strlen(client_body(c)); !client_is_over(c) && spawn_now_ms() < end_ms;) {
        client_step();
        if (strlen(client_body(c)) == len) continue;
        len = strlen(client_body(c));
        if (spawn_now_ms() - last > longest) longest = spawn_now_ms() - last;
        last = spawn_now_ms();
    }
    if (!client_is_done(c) || client_error(c)) fail_msg("%s", client_body(c));
    return longest;
}

static int by_size(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

static void kill_decode_nodes(const char *model, int kills)
{
    place p = {.model = model};
    int64_t silence[KILLS_MAX];
    start(&p);
    client *whole = stream_on(&p, 0);
    const int64_t undisturbed = watch(whole);
    char *text = client_text(whole);
    assert_int_equal(strspn(text, "abcdefghijklmnopqrstuvwxyz ,."), strlen(text));
    free(text);
    for (int k = 0; k < kills; k++) {
        client *c = stream_on(&p, k % 2);
        spawn_signal(p.decode[k % 2], SIGKILL);
        silence[k] = watch(c);
        assert_true(json_integer_value(json_object_get(client_baton(c), "attempts")) == 2);
        assert_true(json_equal(json_object_get(client_baton(c), "token_ids"),
                               json_object_get(client_baton(whole), "token_ids")));
        client_end(c);
        (void)spawn_wait(p.decode[k % 2], spawn_patience(5000));
        start_decode(&p, k % 2);
    }
    client_end(whole);
    qsort(silence, (size_t)kills, sizeof *silence, by_size);
    print_message(
        "longest silence of an undisturbed stream %lld ms; of %d with a kill: median %lld ms, longest %lld\n",
        (long long)undisturbed, kills, (long long)silence[kills / 2], (long long)silence[kills - 1]);
    assert_true(silence[kills - 1] < spawn_patience(SILENCE_MS));
    end(&p);
}

static void a_stream_is_silent_for_about_a_second_when_its_decode_node_is_killed(void **state)
{
    (void)state;
    const char *wish = getenv("BATON_KILLS");
    kill_decode_nodes(spawn_long_model(),
                      wish && atoi(wish) >= 1 && atoi(wish) <= KILLS_MAX ? atoi(wish) : 3);
}

/* The tokens so far are run again over window pages that had gone back. */
static void so_it_is_where_layers_have_windows(void **state)
{
    (void)state;
    kill_decode_nodes(spawn_window_model("gemma3"), 1);
}

/* Attempts of node `id`, as the gateway counts them. */
static int64_t attempts_of(const place *p, const char *id)
{
    size_t i;
    json_t *status = cluster_status(p->url), *n;
    int64_t attempts = 0;
    json_array_foreach(json_object_get(status, "nodes"), i, n) {
        const char *name = json_string_value(json_object_get(n, "id"));
        if (name && strcmp(name, id) == 0) attempts = json_integer_value(json_object_get(n, "attempts"));
    }
    json_decref(status);
    return attempts;
}

/* The node holds still with the prompt, so that it is killed in the middle of it. */
static void a_prompt_goes_to_another_node_at_once_when_its_prefill_node_is_killed(void **state)
{
    (void)state;
    place p = {.model = spawn_long_model()};
    start(&p);
    start_prefill(&p, 1);
    client *whole = ask(&p, "prefill", "p1");
    (void)watch(whole);
    spawn_signal(p.prefill[0], SIGSTOP);
    client *c = ask(&p, "prefill", "p0");
    const int64_t end_ms = spawn_now_ms() + spawn_patience(ANSWER_MS);
    while (attempts_of(&p, "p0") == 0 && spawn_now_ms() < end_ms) client_step();
    spawn_signal(p.prefill[0], SIGKILL);
    const int64_t killed_ms = spawn_now_ms();
    wait_bytes(c, 1);
    const int64_t silence_ms = spawn_now_ms() - killed_ms;
    (void)watch(c);
    print_message("from the kill to the first token %lld ms\n", (long long)silence_ms);
    assert_true(silence_ms < spawn_patience(SILENCE_MS));
    assert_int_equal(json_integer_value(json_object_get(client_baton(c), "attempts")), 2);
    assert_true(json_equal(json_object_get(client_baton(c), "token_ids"),
                           json_object_get(client_baton(whole), "token_ids")));
    client_end(c);
    client_end(whole);
    (void)spawn_wait(p.prefill[0], spawn_patience(5000));
    p.prefill[0] = NULL;
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_stream_is_silent_for_about_a_second_when_its_decode_node_is_killed,
                                  cluster_teardown),
        cmocka_unit_test_teardown(so_it_is_where_layers_have_windows, cluster_teardown),
        cmocka_unit_test_teardown(a_prompt_goes_to_another_node_at_once_when_its_prefill_node_is_killed,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
