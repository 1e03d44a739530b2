/* `baton role`: one process serves as decode node, as prefill node and as decode node again, and requests
 * go on meanwhile. */
#include "tests/helpers/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { READY_MS = 60000, ANSWER_MS = 60000, TOKENS = 24 };
typedef struct door {
    spawn *program;
    char url[128], control[128];
} door;

static void start_gateway(door *d, const char *model)
{
    d->program = SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(d->url, d->control, d->program, spawn_patience(READY_MS)));
}

static spawn *start_decode(const char *model, const char *id, const door *d, const char *option,
                           const char *value)
{
    return SPAWN("baton-decode", "-m", model, "--id", id, "--threads", "1", "--gateway", d->control,
                 "--listen", "tcp://127.0.0.1:*", "--kv-memory", "64M", "--drain-timeout", "60s", option,
                 value);
}

static spawn *start_prefill(const char *model, const char *id, const door *d)
{
    return SPAWN("baton-prefill", "-m", model, "--id", id, "--threads", "1", "--gateway", d->control,
                 "--engine", "host", "--kv-memory", "64M");
}

static void wait_ready(const door *d, const char *id)
{
    if (!cluster_wait_node(d->url, id, "ready", 0, spawn_patience(READY_MS)))
        fail_msg("%s does not join", id);
}

static void end(spawn *s) { assert_true(cluster_end(s, spawn_patience(30000))); }

/* `baton role`; its exit code, and what it says. */
static int role(const door *d, const char *id, const char *wanted, spawn **ret)
{
    *ret = SPAWN("baton", "role", id, wanted, "--url", d->url, "--json");
    const int rc = spawn_wait(*ret, spawn_patience(ANSWER_MS));
    if (rc < 0) fail_msg("baton role does not end");
    return rc;
}

static void expect_role(const door *d, const char *id, const char *wanted)
{
    spawn *s;
    if (role(d, id, wanted, &s) != 0) fail_msg("%s", spawn_err(s));
    json_t *j = json_loads(spawn_out(s), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "id")), id);
    assert_string_equal(json_string_value(json_object_get(j, "role")), wanted);
    assert_string_equal(json_string_value(json_object_get(j, "state")), "ready");
    json_decref(j);
}

static client *ask(const door *d, const char *prefill, const char *decode, int tokens)
{
    json_t *body = cluster_request("the end of a small thing", tokens);
    json_object_set_new(body, "baton", json_pack("{s:s?,s:s?}", "prefill", prefill, "decode", decode));
    client *c = client_post(d->url, "/v1/completions", body);
    json_decref(body);
    return c;
}

/* The answer's text; the caller frees it. prefill: who must have computed the prompt. */
static char *answer(client *c, const char *prefill)
{
    if (!client_wait(c, spawn_patience(ANSWER_MS)) || client_status(c) != 200)
        fail_msg("status %ld: %s", client_status(c), client_body(c));
    if (prefill)
        assert_string_equal(json_string_value(json_object_get(client_baton(c), "prefilled_by")), prefill);
    char *text = client_text(c);
    client_end(c);
    return text;
}

static void a_decode_node_serves_as_prefill_and_as_decode_again(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    start_gateway(&d, model);
    spawn *p = start_prefill(model, "prefill-0", &d),
          *d0 = start_decode(model, "decode-0", &d, "--prefill-engine", "host"),
          *d1 = start_decode(model, "decode-1", &d, "--prefill-engine", "host");
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    wait_ready(&d, "decode-1");
    char *expected = answer(ask(&d, "prefill-0", "decode-1", TOKENS), "prefill-0");

    for (int round = 0; round < 2; round++) {
        expect_role(&d, "decode-1", "prefill");
        assert_int_equal(cluster_pid(d.url, "decode-1"), spawn_pid(d1));
        char *text = answer(ask(&d, "decode-1", "decode-0", TOKENS), "decode-1");
        assert_string_equal(text, expected);
        free(text);
        expect_role(&d, "decode-1", "prefill"); /* it is that already */
        expect_role(&d, "decode-1", "decode");
        assert_int_equal(cluster_pid(d.url, "decode-1"), spawn_pid(d1));
        text = answer(ask(&d, "prefill-0", "decode-1", TOKENS), "prefill-0");
        assert_string_equal(text, expected);
        free(text);
    }
    assert_true(cluster_wait_idle(d.url, spawn_patience(READY_MS)));
    free(expected);
    end(d1);
    end(d0);
    end(p);
    end(d.program);
}

static void a_request_in_progress_ends_before_the_role_changes(void **state)
{
    (void)state;
    const char *model = spawn_long_model();
    door d;
    start_gateway(&d, model);
    spawn *p = start_prefill(model, "prefill-0", &d),
          *d0 = start_decode(model, "decode-0", &d, "--prefill-engine", "host");
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    char *expected = answer(ask(&d, NULL, NULL, 400), NULL);
    json_t *stream = cluster_request("the end of a small thing", 400);
    json_object_set_new(stream, "stream", json_true());
    client *running = client_post(d.url, "/v1/completions", stream);
    json_decref(stream);
    assert_true(client_wait_text(running, "data:", spawn_patience(ANSWER_MS)));
    json_t *body = json_pack("{s:s}", "role", "prefill");
    client *change = client_post(d.url, "/v1/nodes/decode-0/role", body);
    json_decref(body);
    assert_true(client_wait(change, spawn_patience(READY_MS)));
    if (client_status(change) != 200) fail_msg("%s", client_body(change));
    char *text = answer(running, NULL);
    assert_string_equal(text, expected);
    free(text);
    free(expected);
    expect_role(&d, "decode-0", "prefill");
    end(d0);
    end(p);
    end(d.program);
}

static void a_node_that_cannot_prefill_goes_back(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    spawn *s;
    start_gateway(&d, model);
    spawn *p = start_prefill(model, "prefill-0", &d),
          *d0 = start_decode(model, "decode-0", &d, "--package", spawn_path("no-such-package"));
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    assert_int_equal(role(&d, "decode-0", "prefill", &s), 1);
    assert_non_null(strstr(spawn_err(s), "could not serve as prefill and is what it was"));
    assert_non_null(strstr(spawn_err(d0), "going back to decode"));
    assert_int_equal(cluster_pid(d.url, "decode-0"), spawn_pid(d0));
    free(answer(ask(&d, "prefill-0", "decode-0", TOKENS), "prefill-0"));
    end(d0);
    end(p);
    end(d.program);
}

static void what_cannot_be_is_refused_with_words(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    spawn *s;
    start_gateway(&d, model);
    spawn *p = start_prefill(model, "prefill-0", &d);
    wait_ready(&d, "prefill-0");
    assert_int_equal(role(&d, "prefill-0", "decode", &s), 1);
    assert_non_null(strstr(spawn_err(s), "start it as baton-decode"));
    assert_int_equal(role(&d, "nobody", "decode", &s), 1);
    assert_non_null(strstr(spawn_err(s), "No node is called 'nobody'"));
    static const struct {
        const char *path, *body;
        long status;
    } wrong[] = {
        {"/v1/nodes/prefill-0/role", "{\"role\":\"gateway\"}", 400},
        {"/v1/nodes/prefill-0/role", "{}", 400},
        {"/v1/nodes/prefill-0/role", "{\"role\":\"decode\",\"x\":1}", 400},
        {"/v1/nodes/prefill-0/role", "[", 400},
        {"/v1/nodes//role", "{\"role\":\"decode\"}", 404},
        {"/v1/nodes/prefill-0", "{\"role\":\"decode\"}", 404},
        {"/v1/nodes/prefill-0/role", "{\"role\":\"decode\"}", 409},
        {"/v1/nodes/a%2Fb/role", "{\"role\":\"decode\"}", 404},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        client *c = client_begin(d.url, wrong[i].path, wrong[i].body, strlen(wrong[i].body));
        assert_true(client_wait(c, spawn_patience(READY_MS)));
        if (client_status(c) != wrong[i].status)
            fail_msg("case %zu: %ld: %s", i, client_status(c), client_body(c));
        assert_non_null(client_error(c));
        client_end(c);
    }
    client *odd = client_begin(d.url, "/v1/nodes/%FF%0A/role", wrong[6].body, strlen(wrong[6].body));
    assert_true(client_wait(odd, spawn_patience(READY_MS)));
    assert_non_null(strstr(client_body(odd), "No node is called '\?\?'; "));
    client_end(odd);
    client *get = client_get(d.url, "/v1/nodes/prefill-0/role");
    assert_true(client_wait(get, spawn_patience(READY_MS)));
    assert_int_equal(client_status(get), 405);
    client_end(get);
    end(p);
    end(d.program);
}

static void signal_and_wait(spawn *s, const char *words)
{
    spawn_signal(s, SIGHUP);
    assert_true(spawn_wait_err(s, words, spawn_patience(READY_MS)));
}

/* With keys: the node's line of the allow file decides, as it is when the node is asked. */
static void a_key_needs_both_roles(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    char keys[256], allow[300], text[4096], changed[4200];
    door d;
    spawn *s;
    snprintf(keys, sizeof keys, "%s", spawn_path("keys"));
    snprintf(allow, sizeof allow, "%s/allow", keys);
    spawn *made = SPAWN("baton", "keygen", keys, "gateway", "prefill-0", "decode-0", "decode-1");
    if (spawn_wait(made, spawn_patience(READY_MS)) != 0) fail_msg("%s", spawn_err(made));
    d.program = SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*", "--keys",
                      keys, "--key", "gateway");
    assert_true(cluster_find_gateway(d.url, d.control, d.program, spawn_patience(READY_MS)));
    spawn *node[3] = {
        SPAWN("baton-prefill", "-m", model, "--id", "prefill-0", "--gateway", d.control, "--keys", keys,
              "--key", "prefill-0", "--threads", "1", "--engine", "host"),
        SPAWN("baton-decode", "-m", model, "--id", "decode-0", "--gateway", d.control, "--keys", keys,
              "--key", "decode-0", "--threads", "1", "--listen", "tcp://127.0.0.1:*", "--prefill-engine",
              "host"),
        SPAWN("baton-decode", "-m", model, "--id", "decode-1", "--gateway", d.control, "--keys", keys,
              "--key", "decode-1", "--threads", "1", "--listen", "tcp://127.0.0.1:*", "--prefill-engine",
              "host"),
    };
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    wait_ready(&d, "decode-1");
    char *expected = answer(ask(&d, "prefill-0", "decode-0", TOKENS), "prefill-0");
    assert_int_equal(role(&d, "decode-1", "prefill", &s), 1);
    assert_non_null(strstr(spawn_err(s), "its key has not both roles"));

    FILE *f = fopen(allow, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *line = strstr(text, "decode decode-1");
    assert_non_null(line);
    snprintf(changed, sizeof changed, "%.*sprefill,%s", (int)(line - text), text, line);
    assert_non_null(f = fopen(allow, "we"));
    assert_true(fputs(changed, f) >= 0);
    assert_int_equal(fclose(f), 0);
    signal_and_wait(d.program, "allow list read again");
    for (int i = 0; i < 3; i++) signal_and_wait(node[i], "allow list read again");
    expect_role(&d, "decode-1", "prefill");
    char *now = answer(ask(&d, "decode-1", "decode-0", TOKENS), "decode-1");
    assert_string_equal(now, expected);
    expect_role(&d, "decode-1", "decode");
    free(now);
    now = answer(ask(&d, "prefill-0", "decode-1", TOKENS), "prefill-0");
    assert_string_equal(now, expected);
    free(now);
    free(expected);
    for (int i = 0; i < 3; i++) end(node[i]);
    end(d.program);
}

static void a_signal_while_it_drains_ends_the_process(void **state)
{
    (void)state;
    const char *model = spawn_long_model();
    door d;
    start_gateway(&d, model);
    spawn *p = start_prefill(model, "prefill-0", &d),
          *d0 = start_decode(model, "decode-0", &d, "--prefill-engine", "host");
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    client *running = cluster_begin_stream(d.url, 8000);
    assert_non_null(running);
    json_t *body = json_pack("{s:s}", "role", "prefill");
    client *change = client_post(d.url, "/v1/nodes/decode-0/role", body);
    json_decref(body);
    assert_true(client_wait(change, spawn_patience(READY_MS)));
    assert_int_equal(client_status(change), 200);
    spawn_signal(d0, SIGTERM);
    assert_true(spawn_wait_err(d0, "draining", spawn_patience(READY_MS)));
    client_end(running); /* nothing keeps it now */
    const int rc = spawn_wait(d0, spawn_patience(30000));
    if (rc != 0) fail_msg("exit %d: %s", rc, spawn_err(d0));
    assert_null(strstr(spawn_err(d0), "now a prefill node"));
    end(p);
    end(d.program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_decode_node_serves_as_prefill_and_as_decode_again, cluster_teardown),
        cmocka_unit_test_teardown(a_request_in_progress_ends_before_the_role_changes, cluster_teardown),
        cmocka_unit_test_teardown(a_node_that_cannot_prefill_goes_back, cluster_teardown),
        cmocka_unit_test_teardown(what_cannot_be_is_refused_with_words, cluster_teardown),
        cmocka_unit_test_teardown(a_key_needs_both_roles, cluster_teardown),
        cmocka_unit_test_teardown(a_signal_while_it_drains_ends_the_process, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
