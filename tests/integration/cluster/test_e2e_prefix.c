/* A kept prefix changes nothing but the work: answers, log probabilities and KV of prompts that begin
 * alike, through the real programs, with both nodes cold, both warm, and each of them restarted beside a
 * warm one. */
#include "engine/costs.h"
#include "lab/simulate/play.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPTS = 3, ANSWER_MS = 60000, RESTART_MS = 60000, KV_MEMORY = 16 << 20 };

/* The report on a prompt's answer; the caller drops it. Prompts 0 and 1 differ at their end, 2 is 0, sampled.
 */
static json_t *ask(const cluster *c, int i)
{
    char prompt[1200];
    size_t len = 0;
    for (int k = 0; k < 6; k++)
        len += (size_t)snprintf(prompt + len, sizeof prompt - len,
                                "the end of a small thing is not %d but zebras; the day and the way; ", k);
    snprintf(prompt + len, sizeof prompt - len, "and number %d", i % 2);
    json_t *body = cluster_request(prompt, 12);
    if (i == 2) {
        json_object_set_new(body, "temperature", json_real(1.0));
        json_object_set_new(body, "seed", json_integer(7));
    }
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    assert_true(client_wait(x, spawn_patience(ANSWER_MS)));
    return client_told(x);
}

static int64_t number(const json_t *told, const char *key)
{
    return json_integer_value(json_object_get(told, key));
}

/* Ends the processes and waits until others have taken their places. */
static void restart(const cluster *c, const char *one, const char *other)
{
    const char *const id[] = {one, other};
    pid_t pid[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        if (id[i]) pid[i] = cluster_pid(c->url, id[i]);
    for (int i = 0; i < 2; i++)
        if (id[i]) assert_int_equal(kill(pid[i], SIGKILL), 0);
    for (int i = 0; i < 2; i++)
        if (id[i]) assert_true(cluster_wait_node(c->url, id[i], "ready", pid[i], spawn_patience(RESTART_MS)));
}

static void expect_same(const json_t *told, const json_t *cold, const char *when, int i)
{
    static const char *const keys[] = {"text", "token_ids", "first_logits", "kv_digest", "prompt_ids"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!json_equal(json_object_get(told, keys[k]), json_object_get(cold, keys[k])))
            fail_msg("%s, prompt %d: another %s", when, i, keys[k]);
}

static void ask_cold_warm_and_half_warm(const char *model, void (*look)(const cluster *c, const json_t *cold))
{
    cluster c;
    json_t *cold[PROMPTS];
    assert_true(CLUSTER(&c, model, "--prefill", "1", "--decode", "1", "--kv-memory", "16M"));
    for (int i = 0; i < PROMPTS; i++) {
        if (i > 0) restart(&c, "prefill-0", "decode-0");
        cold[i] = ask(&c, i);
        assert_true(number(cold[i], "prompt_tokens") > 128);
        assert_int_equal(number(cold[i], "cached_tokens"), 0);
        assert_int_equal(number(cold[i], "covered_tokens"), 0);
        if (look) look(&c, cold[i]);
    }
    static const struct {
        const char *when, *restarted;
        bool cached, covered;
    } cases[] = {
        {"both warm", NULL, true, true},
        {"decode node cold", "decode-0", true, false},
        {"prefill node cold", "prefill-0", false, true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int i = 0; i < PROMPTS; i++) {
            if (cases[k].restarted) restart(&c, cases[k].restarted, NULL);
            json_t *told = ask(&c, i);
            print_message("%s: of %lld prompt tokens %lld were cached, %lld covered, %lld bytes sent\n",
                          cases[k].when, (long long)number(told, "prompt_tokens"),
                          (long long)number(told, "cached_tokens"), (long long)number(told, "covered_tokens"),
                          (long long)number(told, "kv_bytes"));
            expect_same(told, cold[i], cases[k].when, i);
            assert_int_equal(number(told, "cached_tokens") >= 64, cases[k].cached);
            assert_int_equal(number(told, "covered_tokens") >= 64, cases[k].covered);
            if (cases[k].covered) assert_true(number(told, "kv_bytes") < number(cold[i], "kv_bytes"));
            json_decref(told);
        }
    }
    assert_true(cluster_wait_idle(c.url, spawn_patience(RESTART_MS)));
    for (int i = 0; i < PROMPTS; i++) json_decref(cold[i]);
    assert_true(cluster_stop(&c));
}

static void answers_are_the_same_cold_warm_and_half_warm(void **state)
{
    (void)state;
    ask_cold_warm_and_half_warm(spawn_tiny_model(3), NULL);
}

/* A simulated pair has as many pages of both classes as these processes, and sends as many bytes. */
static void simulate_the_same(const json_t *status, const json_t *cold)
{
    static const char gpu[] =
        "{\"name\": \"gpu\", \"title\": \"A GPU\", \"operators\": {}, \"companion\": true, "
        "\"time\": {\"stack\": \"s\", \"f16_ops_per_us\": 1000000, "
        "\"memory_bytes_per_us\": 100000}}";
    tool_simulate_setup s = {.weight_bits = 16,
                             .weight_permille = 2000,
                             .kv_elem_bytes = 2,
                             .seed = 1,
                             .kv_memory_bytes = KV_MEMORY,
                             .link = {.bits_per_us = 10000},
                             .cluster = sim_cluster_defaults()};
    const tool_replay_item item = {.prompt_tokens = (uint32_t)number(cold, "prompt_tokens"),
                                   .output_tokens = (uint32_t)number(cold, "completion_tokens"),
                                   .next = TOOL_REPLAY_NONE};
    const tool_replay_plan_options how = {.speed = 1};
    tool_simulate_bench *bench;
    tool_simulate_facts facts;
    tool_replay_plan plan;
    tool_replay_result result;
    bt_model *m;
    size_t i;
    const json_t *node;
    assert_int_equal(bt_model_open_head(&m, spawn_window_model("gemma3"), NULL), BT_OK);
    const bt_dims dims = bt_costs_dims(m);
    s.model = &dims;
    s.ctx_tokens = (uint32_t)number(json_array_get(json_object_get(status, "nodes"), 0), "ctx_tokens");
    s.prefill.len = s.decode.len = 1;
    s.prefill.group[0].least = s.prefill.group[0].most = 1;
    assert_int_equal(bt_profile_parse(&s.prefill.group[0].profile, gpu, sizeof gpu - 1, NULL), BT_OK);
    s.decode.group[0] = s.prefill.group[0];
    assert_int_equal(tool_replay_plan_begin(&plan, NULL), BT_OK);
    assert_int_equal(tool_replay_plan_add_item(&plan, &item, NULL), BT_OK);
    assert_int_equal(tool_replay_plan_end(&plan, &how, NULL), BT_OK);
    assert_int_equal(tool_replay_result_begin(&result, plan.len, NULL), BT_OK);
    assert_int_equal(tool_simulate_bench_new(&bench, &s, NULL), BT_OK);
    assert_int_equal(tool_simulate_play(&facts, &result, bench, &plan, NULL, NULL, NULL), BT_OK);
    assert_int_equal(facts.sent_bytes, number(cold, "kv_bytes"));
    json_array_foreach(json_object_get(status, "nodes"), i, node) {
        const bool is_decode = strcmp(json_string_value(json_object_get(node, "role")), "decode") == 0;
        assert_int_equal(number(node, "pages_total"), result.node[is_decode].pages);
        assert_int_equal(number(node, "window_pages_total"), result.node[is_decode].windows);
    }
    tool_simulate_bench_free(bench);
    tool_replay_result_done(&result);
    tool_replay_plan_done(&plan);
    bt_model_close(m);
}

/* Rows of window layers before the prompt's last window are not sent; pages of both classes are counted. */
static void look_at_windows(const cluster *c, const json_t *cold)
{
    const tiny_gguf_spec spec = tiny_gguf_default();
    const int64_t row = 2 * 2 * (int64_t)spec.kv_heads * spec.head_dim, n = number(cold, "prompt_tokens"),
                  first = (n - SPAWN_WINDOW) / 64 * 64;
    size_t i;
    json_t *status = cluster_status(c->url), *node;
    assert_true(first > 0);
    assert_int_equal(number(cold, "kv_bytes"), row * (n + SPAWN_WINDOW_LAYERS * (n - first)));
    json_array_foreach(json_object_get(status, "nodes"), i, node) {
        const int64_t all = number(node, "pages_total"), windows = number(node, "window_pages_total");
        if (number(node, "pages_cached") == 0) continue;
        assert_true(windows > 0);
        if (strcmp(json_string_value(json_object_get(node, "role")), "decode")) {
            assert_int_equal(windows, all);
            assert_int_equal(number(node, "window_pages_cached"), number(node, "pages_cached"));
        } else {
            assert_true(windows < all);
            assert_true(number(node, "window_pages_cached") < number(node, "pages_cached"));
            spawn *table = SPAWN("baton", "status", "--url", c->url);
            char want[64];
            (void)snprintf(want, sizeof want, " %lld+%lld ", (long long)number(node, "pages_cached"),
                           (long long)number(node, "window_pages_cached"));
            assert_int_equal(spawn_wait(table, spawn_patience(ANSWER_MS)), 0);
            if (!strstr(spawn_out(table), want)) fail_msg("no '%s' in\n%s", want, spawn_out(table));
        }
    }
    simulate_the_same(status, cold);
    json_decref(status);
}

static void so_they_are_where_layers_have_windows(void **state)
{
    (void)state;
    ask_cold_warm_and_half_warm(spawn_window_model("gemma3"), look_at_windows);
}

static void a_decode_node_that_prefills_too_computes_a_prefix_once(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        cluster c;
        assert_true(CLUSTER(&c, k ? spawn_window_model("gemma3") : spawn_tiny_model(3), "--prefill", "0",
                            "--decode", "1"));
        json_t *cold = ask(&c, 0), *warm = ask(&c, 0);
        assert_int_equal(number(cold, "cached_tokens"), 0);
        assert_true(number(warm, "cached_tokens") >= 64);
        expect_same(warm, cold, "local", 0);
        json_decref(cold);
        json_decref(warm);
        assert_true(cluster_stop(&c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(answers_are_the_same_cold_warm_and_half_warm, cluster_teardown),
        cmocka_unit_test_teardown(so_they_are_where_layers_have_windows, cluster_teardown),
        cmocka_unit_test_teardown(a_decode_node_that_prefills_too_computes_a_prefix_once, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
