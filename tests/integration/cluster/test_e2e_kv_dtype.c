/* KV as int8 through the real programs: the same bits however a prompt is cut, fewer bytes on the way by
 * exactly the form's ratio, and still text. */
#include "model/model.h"
#include "tests/helpers/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The shapes of the two models, by which bytes are counted here. */
enum { TINY_HEADS = 2 * 2 * 2, TINY_DIM = 16, SMOLLM2_HEADS = 2 * 30 * 3, SMOLLM2_DIM = 64 };

static const char *smollm2(void)
{
    static char path[4096];
    const char *given = getenv("BATON_TEST_MODEL");
    bt_fault fault;
    if (given && *given) return given;
    if (bt_model_find(path, sizeof path, "smollm2", &fault) == BT_OK) return path;
    print_message("%s\n", fault.text);
    return NULL;
}

/* `baton run --json`: its object. The caller drops it. */
static json_t *run(const char *engine, const char *kv_dtype, const char *option, const char *value)
{
    static const char prompt[] = "the end of a small thing is not 42 but zebras; the day and the way to the "
                                 "end of the small day; the end "
                                 "of a small thing is not 42 but zebras; the day and the way to the end of "
                                 "the small day, and not the end";
    spawn *s = SPAWN("baton", "run", "--json", "-m", spawn_tiny_model(1), "-p", prompt, "-n", "12",
                     "--ctx-size", "700", "--engine", engine, "--kv-dtype", kv_dtype, option, value);
    const int rc = spawn_wait(s, spawn_patience(60000));
    if (rc != 0) fail_msg("exit %d: %s", rc, spawn_err(s));
    json_t *o = json_loads(spawn_out(s), 0, NULL);
    assert_non_null(o);
    return o;
}

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}
static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void cuts_and_threads_change_no_bit_and_bytes_shrink_to_the_ratio(const char *engine)
{
    static const char *const settings[][2] = {{"--shape-policy", "chunk:16"},
                                              {"--shape-policy", "chunk:64"},
                                              {"--shape-policy", "pow2"},
                                              {"--threads", "1"},
                                              {"--isa", "ref"}};
    static const char *const keys[] = {"kv_digest", "token_ids", "first_logits",
                                       "kv_bytes",  "text",      "prompt_ids"};
    json_t *f16 = run(engine, "f16", "--threads", "2"), *int8 = run(engine, "int8", "--threads", "2");
    const int64_t n = number(int8, "prompt_tokens");
    assert_true(n > 64);
    assert_int_equal(number(f16, "kv_bytes"), n * TINY_HEADS * 2 * TINY_DIM);
    assert_int_equal(number(int8, "kv_bytes"), n * TINY_HEADS * (TINY_DIM + 2));
    assert_string_not_equal(text(f16, "kv_digest"), text(int8, "kv_digest"));
    print_message("%s: KV digest %s as int8\n", engine, text(int8, "kv_digest"));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        json_t *other = run(engine, "int8", settings[i][0], settings[i][1]);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (!json_equal(json_object_get(int8, keys[k]), json_object_get(other, keys[k])))
                fail_msg("%s %s changes %s", settings[i][0], settings[i][1], keys[k]);
        json_decref(other);
    }
    json_decref(f16);
    json_decref(int8);
}

static void the_float_engine_says_the_same_however_it_is_cut(void **state)
{
    (void)state;
    cuts_and_threads_change_no_bit_and_bytes_shrink_to_the_ratio("host");
}

static void the_npu_says_the_same_however_it_is_cut(void **state)
{
    (void)state;
    cuts_and_threads_change_no_bit_and_bytes_shrink_to_the_ratio("npu");
}

/* A node's capacity and class are told in tokens and by name. */
static void check_nodes(const char *url, int64_t tokens)
{
    json_t *status = cluster_status(url), *node;
    size_t i;
    assert_non_null(status);
    assert_int_equal(json_array_size(json_object_get(status, "nodes")), 2);
    json_array_foreach(json_object_get(status, "nodes"), i, node) {
        assert_int_equal(number(node, "kv_capacity_tokens"), tokens);
        assert_non_null(strstr(text(node, "exactness"), " kv=int8 "));
    }
    json_decref(status);
}

static void the_default_model_still_knows_what_follows(void **state)
{
    static const struct {
        const char *prompt, *answer;
    } c[] = {
        {"The capital of France is Paris, and the capital of Italy is Rome. The capital of Germany is",
         " Berlin"},
        {"One, two, three, four, five, six,", " seven, eight"},
        {"The opposite of hot is cold. The opposite of big is", " small"},
    };
    cluster sys;
    (void)state;
    if (!smollm2()) skip();
    assert_true(CLUSTER(&sys, smollm2(), "--ctx-size", "1024", "--kv-memory", "64M", "--kv-dtype", "int8"));
    check_nodes(sys.url, (64 << 20) / (SMOLLM2_HEADS * (SMOLLM2_DIM + 2)) / 64 * 64);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char digest[2][40] = {"", ""};
        for (int again = 0; again < 2; again++) {
            json_t *request = cluster_request(c[i].prompt, spawn_is_sanitized() ? 4 : 16);
            client *call = client_post(sys.url, "/v1/completions", request);
            json_decref(request);
            assert_true(client_wait(call, spawn_patience(30000)));
            if (client_status(call) != 200) fail_msg("%s", client_body(call));
            const json_t *baton = client_baton(call);
            char *said = client_text(call);
            if (strncmp(said, c[i].answer, strlen(c[i].answer)) != 0)
                fail_msg("'%s': '%s'", c[i].prompt, said);
            assert_int_equal(number(baton, "kv_bytes"),
                             number(baton, "prompt_tokens") * SMOLLM2_HEADS * (SMOLLM2_DIM + 2));
            snprintf(digest[again], sizeof digest[0], "%s", text(baton, "kv_digest"));
            free(said);
            client_end(call);
        }
        assert_string_equal(digest[0], digest[1]);
    }
    assert_true(cluster_wait_idle(sys.url, spawn_patience(5000)));
    assert_true(cluster_stop(&sys));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_float_engine_says_the_same_however_it_is_cut, spawn_teardown),
        cmocka_unit_test_teardown(the_npu_says_the_same_however_it_is_cut, spawn_teardown),
        cmocka_unit_test_teardown(the_default_model_still_knows_what_follows, spawn_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
