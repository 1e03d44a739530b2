/* The rights of each API key of a real cluster, and their limits: roles, /metrics, named nodes, limits with
 * their Retry-After, and a file that is read again. */
#include "tests/helpers/cluster/cluster.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWER_MS = 60000, OK = 200, BAD = 400, NO_KEY = 401, NO_ROLE = 403, NOT_FOUND = 404, LIMIT = 429 };

static const char *write_keys(const char *name, const char *text)
{
    const char *path = spawn_path(name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    return path;
}

#define START_WITH(c, model, ...) \
    assert_true(CLUSTER((c), (model), "--engine", "host", "--prefill", "1", "--decode", "1", "--threads", \
                        "1", __VA_ARGS__))
#define START(c, ...) START_WITH(c, spawn_tiny_model(1), __VA_ARGS__)

static client *come(client *x)
{
    if (!client_wait(x, spawn_patience(ANSWER_MS))) fail_msg("no answer: %s", client_body(x));
    return x;
}

static client *get(const cluster *c, const char *key, const char *path)
{
    client_use_key(key);
    return come(client_get(c->url, path));
}

static long status_of(const cluster *c, const char *key, const char *path)
{
    client *x = get(c, key, path);
    const long status = client_status(x);
    client_end(x);
    return status;
}

/* A prompt of so many ids, and an answer of so many tokens, whatever the model would say. */
static client *begin(const cluster *c, const char *key, int prompt, int answer, json_t *wishes)
{
    json_t *ids = json_array();
    for (int i = 0; i < prompt; i++) (void)json_array_append_new(ids, json_integer(10 + i % 90));
    json_t *body = json_pack("{s:o,s:i,s:i,s:b,s:o}", "prompt", ids, "max_tokens", answer, "temperature", 0,
                             "ignore_eos", 1, "baton", wishes ? wishes : json_true());
    client_use_key(key);
    client *x = client_post(c->url, "/v1/completions", body);
    json_decref(body);
    return x;
}

static client *ask(const cluster *c, const char *key, int prompt, int answer, json_t *wishes)
{
    return come(begin(c, key, prompt, answer, wishes));
}

static void is_error(client *x, long status, const char *code, const char *words)
{
    if (client_status(x) != status) fail_msg("status %ld: %s", client_status(x), client_body(x));
    assert_string_equal(json_string_value(json_object_get(client_error(x), "code")), code);
    const char *message = json_string_value(json_object_get(client_error(x), "message"));
    if (!strstr(message, words)) fail_msg("'%s' does not say '%s'", message, words);
}

static void ends_well(client *x)
{
    if (client_status(x) != OK) fail_msg("status %ld: %s", client_status(x), client_body(x));
    client_end(x);
}

static double metric(const cluster *c, const char *key, const char *line)
{
    client_use_key(key);
    return cluster_metric(c->url, line);
}

static void reaches(const cluster *c, const char *line, double least)
{
    for (const int64_t end = spawn_now_ms() + spawn_patience(ANSWER_MS); metric(c, NULL, line) < least;)
        assert_true(spawn_before(end));
}

static const char roles[] = "client-secret name=web\n"
                            "admin-secret name=boss role=admin\n"
                            "metrics-secret name=prometheus role=metrics\n";

static void each_role_has_its_endpoints_and_a_refusal_names_the_role(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        long client, metrics, admin, stranger;
    } paths[] = {
        {"/v1/models", OK, NO_ROLE, OK, NO_KEY},
        {"/props", OK, NO_ROLE, OK, NO_KEY},
        {"/v1/status", OK, NO_ROLE, OK, NO_KEY},
        {"/metrics", NO_ROLE, OK, OK, NO_KEY},
        {"/health", OK, OK, OK, OK},
        {"/openapi.json", OK, OK, OK, OK},
        {"/", OK, OK, OK, OK},
        {"/v1/nowhere", NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND},
    };
    cluster c;
    START(&c, "--api-key-file", write_keys("roles.txt", roles), "--metrics", "key");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(status_of(&c, "client-secret", paths[i].path), paths[i].client);
        assert_int_equal(status_of(&c, "metrics-secret", paths[i].path), paths[i].metrics);
        assert_int_equal(status_of(&c, "admin-secret", paths[i].path), paths[i].admin);
        assert_int_equal(status_of(&c, NULL, paths[i].path), paths[i].stranger);
        assert_int_equal(status_of(&c, "clientsecret", paths[i].path), paths[i].stranger);
    }
    ends_well(ask(&c, "client-secret", 4, 2, NULL));
    ends_well(ask(&c, "admin-secret", 4, 2, NULL));
    client *x = ask(&c, "metrics-secret", 4, 2, NULL);
    is_error(x, NO_ROLE, "insufficient_role",
             "role=client or role=admin; the key 'prometheus' has role=metrics");
    client_end(x);
    x = get(&c, "client-secret", "/metrics");
    is_error(x, NO_ROLE, "insufficient_role", "role=metrics or role=admin; the key 'web' has role=client");
    client_end(x);
    json_t *role = json_pack("{s:s}", "role", "prefill");
    client_use_key("client-secret");
    x = come(client_post(c.url, "/v1/nodes/decode-0/role", role));
    is_error(x, NO_ROLE, "insufficient_role",
             "needs an API key with role=admin; the key 'web' has role=client");
    client_end(x);
    client_use_key("admin-secret");
    x = come(client_post(c.url, "/v1/nodes/nobody/role", role));
    is_error(x, NOT_FOUND, "node_not_found", "nobody");
    client_end(x);
    json_decref(role);
    client_use_key(NULL);
    assert_true(cluster_stop(&c));
    assert_null(strstr(spawn_err(c.up), "-secret"));
}

static bool says(spawn *s, int rc, const char *words)
{
    const int was = spawn_wait(s, spawn_patience(ANSWER_MS));
    if (was == rc && (strstr(spawn_err(s), words) || strstr(spawn_out(s), words))) return true;
    printf("exit %d: %s%s\n", was, spawn_out(s), spawn_err(s));
    return false;
}

static void a_client_sees_nothing_of_the_nodes_and_the_commands_say_who_does(void **state)
{
    (void)state;
    static const char *const inner[] = {"\"pid\"", "\"endpoint\"", "\"incarnation\"", "\"nodes\":", "ipc://"};
    cluster c;
    START(&c, "--api-key-file", write_keys("roles.txt", roles));
    const char *own = write_keys("client.txt", "client-secret\n"),
               *admin = write_keys("admin.txt", "admin-secret role=admin\n");
    client *x = get(&c, "client-secret", "/v1/status");
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) assert_null(strstr(client_body(x), inner[i]));
    const json_t *counts = json_object_get(client_json(x), "counts");
    assert_int_equal(json_integer_value(json_object_get(counts, "prefill_nodes")), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, "decode_nodes")), 1);
    assert_true(json_is_true(json_object_get(client_json(x), "ready")));
    assert_true(json_is_string(json_object_get(json_object_get(client_json(x), "model"), "name")));
    client_end(x);
    x = get(&c, "admin-secret", "/v1/status");
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        assert_non_null(strstr(client_body(x), inner[i]));
    client_end(x);
    assert_int_equal(status_of(&c, NULL, "/metrics"), OK); /* open on loopback */
    assert_true(says(SPAWN("baton", "status", "--url", c.url, "--api-key-file", own), 1,
                     "shown to API keys with role=admin; the key 'web' has role=client"));
    assert_true(says(SPAWN("baton", "role", "decode-0", "prefill", "--url", c.url, "--api-key-file", own), 1,
                     "needs an API key with role=admin; the key 'web' has role=client"));
    assert_true(says(SPAWN("baton", "status", "--url", c.url, "--api-key-file", admin), 0, "decode-0"));
    assert_true(says(SPAWN("baton", "role", "decode-0", "decode", "--url", c.url, "--api-key-file", admin), 0,
                     "serves as"));
    client_use_key(NULL);
    assert_true(cluster_stop(&c));
}

static void nodes_are_named_by_admins_alone_where_there_are_keys(void **state)
{
    (void)state;
    cluster c;
    START(&c, "--api-key-file", write_keys("roles.txt", roles));
    ends_well(ask(&c, "admin-secret", 4, 2, json_pack("{s:s}", "decode", "decode-0")));
    ends_well(ask(&c, "client-secret", 4, 2, json_pack("{s:s}", "policy", "prefix")));
    client *x = ask(&c, "client-secret", 4, 2, json_pack("{s:s}", "decode", "decode-0"));
    is_error(x, NO_ROLE, "node_choice_not_allowed", "role=admin may name nodes here (--node-choice admin)");
    client_end(x);
    x = ask(&c, "client-secret", 4, 2, json_pack("{s:s}", "prefill", "nosuch"));
    is_error(x, NO_ROLE, "node_choice_not_allowed", "the key 'web' has role=client");
    client_end(x);
    assert_true(metric(&c, NULL, "\nbaton_key_refusals_total{key=\"web\",reason=\"role\"} ") == 2.0);
    client_use_key(NULL);
    assert_true(cluster_stop(&c));
    START(&c, "--node-choice", "none");
    x = ask(&c, NULL, 4, 2, json_pack("{s:s}", "decode", "decode-0"));
    is_error(x, NO_ROLE, "node_choice_not_allowed", "--node-choice none");
    client_end(x);
    assert_true(cluster_stop(&c));
}

static void a_key_over_a_limit_hears_when_to_come_again_and_others_go_on(void **state)
{
    (void)state;
    cluster c;
    START_WITH(&c, spawn_long_model(), "--api-key-file",
               write_keys("limits.txt", "free-secret name=free\n"
                                        "rate-secret name=rate requests-per-minute=1\n"
                                        "token-secret name=token tokens-per-minute=13\n"
                                        "once-secret name=once at-once=1\n"
                                        "short-secret name=short context=10\n"));
    ends_well(ask(&c, "rate-secret", 4, 2, NULL));
    client *x = ask(&c, "rate-secret", 4, 2, NULL);
    is_error(x, LIMIT, "rate_limit_exceeded", "'rate' may make 1 requests a minute (requests-per-minute)");
    assert_in_range(client_retry_after(x), 1, 60);
    client_end(x);

    ends_well(ask(&c, "token-secret", 4, 8, NULL)); /* 12 of 13 */
    x = ask(&c, "token-secret", 4, 8, NULL);
    is_error(x, LIMIT, "rate_limit_exceeded", "13 tokens a minute (tokens-per-minute)");
    assert_in_range(client_retry_after(x), 1, 51);
    client_end(x);

    client *held = begin(&c, "once-secret", 4, 16000, NULL);
    reaches(&c, "\nbaton_key_requests_in_flight{key=\"once\"} ", 1);
    x = ask(&c, "once-secret", 4, 2, NULL);
    assert_false(client_is_over(held));
    is_error(x, LIMIT, "rate_limit_exceeded", "'once' may have 1 requests at once (at-once)");
    assert_in_range(client_retry_after(x), 1, 60);
    client_end(x);
    client_end(held); /* its client goes */
    for (const int64_t end = spawn_now_ms() + spawn_patience(ANSWER_MS);
         metric(&c, NULL, "\nbaton_key_requests_in_flight{key=\"once\"} ") > 0.0;)
        assert_true(spawn_before(end));
    ends_well(ask(&c, "once-secret", 4, 2, NULL));

    x = ask(&c, "short-secret", 12, 2, NULL);
    is_error(x, BAD, "context_length_exceeded", "The API key 'short' has this limit (context).");
    client_end(x);
    x = ask(&c, "short-secret", 4, 100, NULL);
    assert_int_equal(client_status(x), OK);
    const json_t *usage = json_object_get(client_json(x), "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 6);
    client_end(x);

    for (int i = 0; i < 8; i++) ends_well(ask(&c, "free-secret", 4, 2, NULL));
    assert_true(metric(&c, NULL, "\nbaton_key_requests_total{key=\"free\"} ") == 8.0);
    assert_true(metric(&c, NULL, "\nbaton_key_tokens_total{key=\"free\",kind=\"prompt\"} ") == 32.0);
    assert_true(metric(&c, NULL, "\nbaton_key_tokens_total{key=\"free\",kind=\"answer\"} ") == 16.0);
    assert_true(metric(&c, NULL, "\nbaton_key_refusals_total{key=\"rate\",reason=\"requests\"} ") == 1.0);
    assert_true(metric(&c, NULL, "\nbaton_key_refusals_total{key=\"token\",reason=\"tokens\"} ") == 1.0);
    x = get(&c, NULL, "/metrics");
    assert_null(strstr(client_body(x), "secret"));
    client_end(x);
    assert_true(cluster_stop(&c));
}

/* Nothing ends but what the line is measured by: one request in some 100 ms at first, then none. */
static void a_full_queue_names_the_time_that_its_line_takes(void **state)
{
    (void)state;
    enum { ENDED = 5, QUEUE = 8 };
    cluster c;
    client *held[QUEUE + 1];
    START_WITH(&c, spawn_long_model(), "--slots", "1", "--max-queue", "8", "--api-key-file",
               write_keys("roles.txt", roles));
    const int64_t begun = spawn_now_ms();
    for (int i = 0; i < ENDED; i++) ends_well(ask(&c, "client-secret", 4, 200, NULL));
    held[0] = begin(&c, "client-secret", 4, 16000, NULL);
    reaches(&c, "\nbaton_requests_running ", 1);
    for (int i = 1; i <= QUEUE; i++) held[i] = begin(&c, "client-secret", 4, 16000, NULL);
    reaches(&c, "\nbaton_requests_waiting ", QUEUE);
    assert_true(metric(&c, NULL, "\nbaton_key_requests_waiting{key=\"web\"} ") == QUEUE);
    assert_true(metric(&c, NULL, "\nbaton_key_requests_waiting{key=\"boss\"} ") == 0.0);
    client *x = ask(&c, "client-secret", 4, 2, NULL);
    is_error(x, LIMIT, "queue_full", "8 requests are waiting already");
    /* The first end is younger than the test: so much for each that ended, at most, and 8 are in line. */
    const int64_t most_ms = (spawn_now_ms() - begun) * QUEUE / ENDED + 1000;
    assert_in_range(client_retry_after(x), 1, most_ms / 1000 + 1 < 60 ? most_ms / 1000 + 1 : 60);
    client_end(x);
    assert_true(metric(&c, NULL, "\nbaton_key_refusals_total{key=\"web\",reason=\"queue\"} ") == 1.0);
    for (int i = 0; i <= QUEUE; i++) client_end(held[i]);
    assert_true(cluster_stop(&c));
}

static void a_key_file_is_read_again_at_sighup_and_a_bad_one_changes_nothing(void **state)
{
    (void)state;
    cluster c;
    START(&c, "--api-key-file", write_keys("again.txt", "old-secret\n"));
    assert_int_equal(status_of(&c, "old-secret", "/v1/models"), OK);
    assert_int_equal(status_of(&c, "new-secret", "/v1/models"), NO_KEY);
    (void)write_keys("again.txt", "new-secret weight=0\n");
    spawn_signal(c.up, SIGHUP);
    assert_true(spawn_wait_err(c.up, "line 1: weight= is a whole number from 1 to 1000",
                               spawn_patience(ANSWER_MS)));
    assert_int_equal(status_of(&c, "old-secret", "/v1/models"), OK);
    (void)write_keys("again.txt", "new-secret\n# and\nthird-secret role=admin\n");
    spawn_signal(c.up, SIGHUP);
    assert_true(spawn_wait_err(c.up, "API keys read again: 2", spawn_patience(ANSWER_MS)));
    assert_int_equal(status_of(&c, "old-secret", "/v1/models"), NO_KEY);
    assert_int_equal(status_of(&c, "new-secret", "/v1/models"), OK);
    assert_int_equal(status_of(&c, "third-secret", "/v1/status"), OK);
    client_use_key(NULL);
    assert_true(cluster_stop(&c));
    assert_null(strstr(spawn_err(c.up), "-secret"));
}

/* Two clients, of whom the first asks for MANY answers before the second asks for a few. */
enum { MANY = 30, FEW = 4, LEFT = 10 };

static void the_second_waits_for_few_of_the_first(const cluster *c, const char *key, const char *other_key,
                                                  const char *address, const char *other_address)
{
    client *many[MANY], *few[FEW];
    int left = 0;
    client_use_address(address);
    for (int i = 0; i < MANY; i++) many[i] = begin(c, key, 4, 2000, NULL);
    reaches(c, "\nbaton_requests_waiting ", MANY / 2.0);
    client_use_address(other_address);
    for (int i = 0; i < FEW; i++) few[i] = begin(c, other_key, 4, 2000, NULL);
    for (int i = 0; i < FEW; i++) ends_well(come(few[i]));
    for (int i = 0; i < MANY; i++) left += !client_is_over(many[i]);
    if (left < LEFT) fail_msg("%d of %d of the first were left when the second had all", left, MANY);
    for (int i = 0; i < MANY; i++) client_end(many[i]);
    client_use_address(NULL);
    client_use_key(NULL);
}

static void a_client_with_many_requests_keeps_no_other_key_or_address_waiting(void **state)
{
    (void)state;
    cluster c;
    START_WITH(&c, spawn_long_model(), "--slots", "2", "--api-key-file", write_keys("roles.txt", roles));
    the_second_waits_for_few_of_the_first(&c, "client-secret", "admin-secret", NULL, NULL);
    assert_true(cluster_stop(&c));
    START_WITH(&c, spawn_long_model(), "--slots", "2", "--share-by", "address");
    the_second_waits_for_few_of_the_first(&c, NULL, NULL, "127.0.0.1", "127.0.0.2");
    assert_true(cluster_stop(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_role_has_its_endpoints_and_a_refusal_names_the_role, cluster_teardown),
        cmocka_unit_test_teardown(a_client_sees_nothing_of_the_nodes_and_the_commands_say_who_does,
                                  cluster_teardown),
        cmocka_unit_test_teardown(nodes_are_named_by_admins_alone_where_there_are_keys, cluster_teardown),
        cmocka_unit_test_teardown(a_key_over_a_limit_hears_when_to_come_again_and_others_go_on,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_client_with_many_requests_keeps_no_other_key_or_address_waiting,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_full_queue_names_the_time_that_its_line_takes, cluster_teardown),
        cmocka_unit_test_teardown(a_key_file_is_read_again_at_sighup_and_a_bad_one_changes_nothing,
                                  cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
