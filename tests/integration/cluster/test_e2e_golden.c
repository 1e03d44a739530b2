/* Real text through three processes: the default model says what independent engines say, and how a prompt is
 * cut, how many threads compute and which kernels they use changes no bit. */
#include "model/model.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/rows.h"
#include "tests/integration/cluster/golden_smollm2.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *smollm2(void)
{
    static char path[4096];
    bt_fault fault;
    const char *given = getenv("BATON_TEST_MODEL");
    if (given && *given) return given;
    if (bt_model_find(path, sizeof path, "smollm2", &fault) == BT_OK) return path;
    print_message("%s\n", fault.text);
    return NULL;
}

/* Ids are as they should be up to the first step where another rounding may choose otherwise; true: all of
 * them are. */
static bool check_ids(const golden_smollm2 *g, const json_t *ids, size_t n, bool is_exact)
{
    assert_true(json_array_size(ids) <= n);
    for (size_t i = 0; i < n; i++) {
        const bool same = i < json_array_size(ids) && json_integer_value(json_array_get(ids, i)) == g->ids[i];
        if (same) continue;
        if (is_exact || !(g->close >> i & 1))
            fail_msg("'%s': step %zu differs, and was not close", g->prompt, i);
        print_message("'%s': another token from step %zu on, where two were close\n", g->prompt, i);
        return false;
    }
    return true;
}

static void check_logits(const golden_smollm2 *g, const json_t *logits, double tolerance)
{
    if (!g->top5[0].id) return;
    assert_true(json_array_size(logits) >= 5);
    for (size_t k = 0; k < 5; k++) {
        double found = NAN;
        for (size_t i = 0; i < json_array_size(logits); i++)
            if (json_integer_value(json_array_get(json_array_get(logits, i), 0)) == g->top5[k].id)
                found = json_number_value(json_array_get(json_array_get(logits, i), 1));
        if (!(fabs(found - (double)g->top5[k].logit) <= tolerance))
            fail_msg("'%s': logit of %d is %.5f, not %.4f", g->prompt, g->top5[k].id, found,
                     (double)g->top5[k].logit);
    }
}

static void check(const golden_smollm2 *g, const json_t *baton, size_t asked, bool is_exact)
{
    const size_t n = asked < g->n ? asked : g->n;
    const char *text = json_string_value(json_object_get(baton, "text"));
    assert_non_null(text);
    check_logits(g, json_object_get(baton, "first_logits"), is_exact ? 0.001 : 0.05);
    if (!check_ids(g, json_object_get(baton, "token_ids"), n, is_exact)) return;
    if (n < g->n) {
        assert_memory_equal(g->text, text, strlen(text));
        assert_string_equal(json_string_value(json_object_get(baton, "finish_reason")), "length");
    } else {
        assert_string_equal(text, g->text);
        assert_string_equal(json_string_value(json_object_get(baton, "finish_reason")), g->finish_reason);
    }
    assert_int_equal(json_integer_value(json_object_get(baton, "completion_tokens")),
                     json_array_size(json_object_get(baton, "token_ids")));
    assert_true(json_integer_value(json_object_get(baton, "kv_bytes")) > 0);
}

/* `baton run --json ...more`: its object. The caller drops it. */
static json_t *run_json(const char *model, const char *prompt, const char *n, const char *const *more)
{
    const char *argv[40] = {"baton", "run", "--json", "-m", model, "-p", prompt, "-n", n};
    size_t k = 9;
    while (*more) argv[k++] = *more++;
    spawn *s = spawn_start(argv);
    const int rc = spawn_wait(s, spawn_patience(180000)); /* it may compile first */
    if (rc != 0) print_message("exit %d: %s\n", rc, spawn_err(s));
    assert_int_equal(rc, 0);
    json_t *baton = json_loads(spawn_out(s), 0, NULL);
    assert_non_null(baton);
    return baton;
}
#define RUN_JSON(model, prompt, n, ...) run_json(model, prompt, n, (const char *const[]){__VA_ARGS__, NULL})

static void one_system_says_what_independent_engines_say(void **state)
{
    (void)state;
    cluster c;
    if (!smollm2()) skip();
    assert_true(CLUSTER(&c, smollm2(), "--ctx-size", "1024", "--engine", "host"));
    const size_t asked = spawn_is_sanitized() ? 6 : 48;
    for (size_t i = 0; i < GOLDEN_SMOLLM2_COUNT; i++) {
        const golden_smollm2 *g = &golden_smollm2_cases[i];
        json_t *request = cluster_request(g->prompt, (int)asked);
        if (g->system) {
            json_object_del(request, "prompt");
            json_object_set_new(request, "messages",
                                json_pack("[{s:s, s:s}]", "role", "user", "content", g->prompt));
        }
        client *call = client_post(c.url, g->system ? "/v1/chat/completions" : "/v1/completions", request);
        assert_true(client_wait(call, spawn_patience(30000)));
        assert_int_equal(client_status(call), 200);
        check(g, client_baton(call), asked, false);
        client_end(call);
        json_decref(request);
    }
    assert_true(cluster_wait_idle(c.url, spawn_patience(5000)));
    assert_true(cluster_stop(&c));
}

static void the_command_says_the_same(void **state)
{
    (void)state;
    if (!smollm2()) skip();
    const char *n = spawn_is_sanitized() ? "4" : "20";
    json_t *baton =
        RUN_JSON(smollm2(), golden_smollm2_cases[0].prompt, n, "--ctx-size", "1024", "--engine", "host");
    check(&golden_smollm2_cases[0], baton, (size_t)atoi(n), false);
    json_decref(baton);
    assert_true(spawn_wait_all_gone(spawn_patience(1000)));
    assert_int_equal(spawn_count_leftovers(), 0);
}

static void the_reference_engine_says_exactly_that(void **state)
{
    (void)state;
    if (!smollm2()) skip();
    const char *n = spawn_is_sanitized() ? "2" : "12";
    json_t *baton =
        RUN_JSON(smollm2(), golden_smollm2_cases[1].prompt, n, "--ctx-size", "256", "--engine", "reference");
    check(&golden_smollm2_cases[1], baton, (size_t)atoi(n), true);
    json_decref(baton);
}

/* More than a chunk of 256 and its tail, of letters and words that the tiny vocabulary has and some that
 * it has not. */
static const char *long_prompt(size_t chars)
{
    static char text[2048];
    static const char part[] = "the end of a small thing is not 42 but zebras; ";
    for (size_t i = 0; i < chars; i++) text[i] = part[i % (sizeof part - 1)];
    text[chars] = '\0';
    return text;
}

static void expect_same(const json_t *a, const json_t *b, const char *what)
{
    static const char *const keys[] = {"kv_digest", "token_ids", "first_logits",
                                       "kv_bytes",  "text",      "prompt_ids"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            fail_msg("%s changes %s", what, keys[i]);
}

static void compare_settings(const char *model, const char *engine, const char *prompt, const char *n,
                             const char *const settings[][2], size_t count)
{
    json_t *first = RUN_JSON(model, prompt, n, "--engine", engine, "--threads", "2", "--ctx-size", "700");
    print_message("%s: %lld prompt tokens, KV digest %s\n", engine,
                  (long long)json_integer_value(json_object_get(first, "prompt_tokens")),
                  json_string_value(json_object_get(first, "kv_digest")));
    for (size_t i = 0; i < count; i++) {
        json_t *other = RUN_JSON(model, prompt, n, "--engine", engine, settings[i][0], settings[i][1],
                                 "--ctx-size", "700");
        expect_same(first, other, settings[i][1]);
        json_decref(other);
    }
    json_decref(first);
}

static void chunks_threads_and_kernels_change_no_bit(void **state)
{
    static const char *const settings[][2] = {
        {"--shape-policy", "chunk:16"},
        {"--shape-policy", "chunk:64"},
        {"--shape-policy", "chunk:256+tail"},
        {"--shape-policy", "chunk:256"},
        {"--shape-policy", "pow2"},
        {"--shape-policy", "range:1-300"},
        {"--shape-policy", "chunk:100"},
        {"--threads", "1"},
        {"--isa", "ref"},
        {"--isa", "avx2"},
    };
    (void)state;
    const bool has_avx2 = rows_select("avx2");
    compare_settings(spawn_tiny_model(1), "npu", long_prompt(600), "8", settings, has_avx2 ? 10 : 9);
    compare_settings(spawn_tiny_model(1), "host", long_prompt(600), "8", settings, has_avx2 ? 10 : 9);
}

static void neither_do_they_with_the_default_model(void **state)
{
    static const char *const settings[][2] = {
        {"--shape-policy", "chunk:64"}, {"--threads", "1"}, {"--isa", "ref"}};
    (void)state;
    if (!smollm2() || spawn_is_sanitized()) skip();
    compare_settings(smollm2(), "npu", long_prompt(1100), "4", settings, 2);
    compare_settings(smollm2(), "npu", long_prompt(80), "2", settings + 2, 1);
    compare_settings(smollm2(), "host", long_prompt(1100), "4", settings, 2);
}

/* The integer NPU's words are its own, but they are text, they are repeated exactly, and the answer tells how
 * it was computed. */
static void the_npu_says_text_and_tells_how_it_was_made(void **state)
{
    (void)state;
    cluster c;
    if (!smollm2() || spawn_is_sanitized()) skip();
    assert_true(CLUSTER(&c, smollm2(), "--ctx-size", "1024"));
    for (size_t i = 0; i < GOLDEN_SMOLLM2_COUNT; i++) {
        const golden_smollm2 *g = &golden_smollm2_cases[i];
        char digest[2][40] = {"", ""};
        for (size_t turn = 0; turn < 2 && !g->system; turn++) {
            json_t *request = cluster_request(g->prompt, 24);
            client *call = client_post(c.url, "/v1/completions", request);
            assert_true(client_wait(call, spawn_patience(30000)));
            assert_int_equal(client_status(call), 200);
            const json_t *b = client_baton(call);
            const char *text = json_string_value(json_object_get(b, "text"));
            size_t same = 0;
            while (same < 24 &&
                   json_integer_value(json_array_get(json_object_get(b, "token_ids"), same)) == g->ids[same])
                same++;
            if (turn == 0)
                print_message("'%s' ->%s   (leaves the float engines' ids at %zu)\n", g->prompt, text, same);
            assert_true(same >= 1); /* the first token of each of these prompts is far ahead of the second */
            snprintf(digest[turn], sizeof digest[turn], "%s",
                     json_string_value(json_object_get(b, "kv_digest")));
            assert_string_equal(json_string_value(json_object_get(b, "engine")), "npu");
            assert_string_equal(json_string_value(json_object_get(b, "quant")), "w8a8");
            assert_string_equal(json_string_value(json_object_get(b, "shape_policy")), "chunk:256+tail");
            assert_true(json_is_array(json_object_get(b, "fallbacks")));
            assert_int_equal(json_integer_value(json_object_get(b, "compilations")), 0);
            assert_true(json_is_integer(json_object_get(b, "compilations")));
            const json_int_t tokens = json_integer_value(json_object_get(b, "prompt_tokens"));
            assert_true(tokens <= 16); /* one chunk of 16 rows */
            assert_float_equal(json_real_value(json_object_get(b, "padding_ratio")), 1 - (double)tokens / 16,
                               1e-6);
            const double share = json_real_value(json_object_get(b, "npu_mac_ratio"));
            assert_true(share > 0.9 && share < 1);
            client_end(call);
            json_decref(request);
        }
        assert_string_equal(digest[0], digest[1]);
    }
    assert_true(cluster_wait_idle(c.url, spawn_patience(5000)));
    assert_true(cluster_stop(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_system_says_what_independent_engines_say, spawn_teardown),
        cmocka_unit_test_teardown(the_command_says_the_same, spawn_teardown),
        cmocka_unit_test_teardown(the_npu_says_text_and_tells_how_it_was_made, spawn_teardown),
        cmocka_unit_test_teardown(the_reference_engine_says_exactly_that, spawn_teardown),
        cmocka_unit_test_teardown(chunks_threads_and_kernels_change_no_bit, spawn_teardown),
        cmocka_unit_test_teardown(neither_do_they_with_the_default_model, spawn_teardown),
    };
    spawn_setup();
    client_setup();
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    client_cleanup();
    spawn_cleanup();
    return rc;
}
