/* `baton role`: one process serves as one kind of node, as the other and as the first again, whichever it was
 * started as, and requests go on meanwhile. */
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

enum { READY_MS = 60000, ANSWER_MS = 60000, TOKENS = 24, LONG_PROMPT_BYTES = 12000, TRIES = 10 };
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

static spawn *start_prefill_with(const char *model, const char *id, const door *d, const char *option,
                                 const char *value)
{
    return SPAWN("baton-prefill", "-m", model, "--id", id, "--threads", "1", "--gateway", d->control,
                 "--engine", "host", "--kv-memory", "64M", "--drain-timeout", "60s", option, value);
}

static spawn *start_prefill(const char *model, const char *id, const door *d)
{
    return start_prefill_with(model, id, d, NULL, NULL);
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

/* The pair gives the text that is expected, prefilled where it was asked for. */
static void expect_text(const door *d, const char *prefill, const char *decode, const char *expected)
{
    char *text = answer(ask(d, prefill, decode, TOKENS), prefill);
    assert_string_equal(text, expected);
    free(text);
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
        expect_text(&d, "decode-1", "decode-0", expected);
        expect_role(&d, "decode-1", "prefill"); /* it is that already */
        expect_role(&d, "decode-1", "decode");
        assert_int_equal(cluster_pid(d.url, "decode-1"), spawn_pid(d1));
        expect_text(&d, "prefill-0", "decode-1", expected);
    }
    assert_true(cluster_wait_idle(d.url, spawn_patience(READY_MS)));
    free(expected);
    end(d1);
    end(d0);
    end(p);
    end(d.program);
}

static void a_prefill_node_serves_as_decode_and_as_prefill_again(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    start_gateway(&d, model);
    spawn *p0 = start_prefill(model, "prefill-0", &d), *p1 = start_prefill(model, "prefill-1", &d),
          *d0 = start_decode(model, "decode-0", &d, NULL, NULL);
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "prefill-1");
    wait_ready(&d, "decode-0");
    char *expected = answer(ask(&d, "prefill-0", "decode-0", TOKENS), "prefill-0");

    for (int round = 0; round < 2; round++) {
        expect_role(&d, "prefill-1", "decode");
        assert_int_equal(cluster_pid(d.url, "prefill-1"), spawn_pid(p1));
        expect_text(&d, "prefill-0", "prefill-1", expected);
        expect_role(&d, "prefill-1", "prefill");
        assert_int_equal(cluster_pid(d.url, "prefill-1"), spawn_pid(p1));
        expect_text(&d, "prefill-1", "decode-0", expected);
    }
    assert_true(cluster_wait_idle(d.url, spawn_patience(READY_MS)));
    free(expected);
    end(d0);
    end(p1);
    end(p0);
    end(d.program);
}

/* Each of the two becomes what the other was. */
static void two_nodes_change_places(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    start_gateway(&d, model);
    spawn *p0 = start_prefill(model, "prefill-0", &d),
          *d0 = start_decode(model, "decode-0", &d, "--prefill-engine", "host");
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    char *expected = answer(ask(&d, "prefill-0", "decode-0", TOKENS), "prefill-0");
    expect_role(&d, "decode-0", "prefill");
    expect_role(&d, "prefill-0", "decode");
    expect_text(&d, "decode-0", "prefill-0", expected);
    free(expected);
    end(d0);
    end(p0);
    end(d.program);
}

static client *ask_long(const door *d, const char *prefill)
{
    char *prompt = calloc(1, LONG_PROMPT_BYTES + 1);
    assert_non_null(prompt);
    for (size_t i = 0; i < LONG_PROMPT_BYTES; i++) prompt[i] = "the end of a small thing "[i % 25];
    json_t *body = cluster_request(prompt, TOKENS);
    json_object_set_new(body, "baton", json_pack("{s:s?}", "prefill", prefill));
    client *c = client_post(d->url, "/v1/completions", body);
    json_decref(body);
    free(prompt);
    return c;
}

/* As the node itself says it. */
static bool has_in_work(const door *d, const char *id, int count)
{
    json_t *status = cluster_status(d->url);
    bool has = false;
    size_t i;
    const json_t *n;
    json_array_foreach(json_object_get(status, "nodes"), i, n)
        if (strcmp(json_string_value(json_object_get(n, "id")), id) == 0)
            has = json_integer_value(json_object_get(n, "slots_used")) >= count;
    json_decref(status);
    return has;
}

/* Two long prompts at prefill-1 and one wherever the gateway sends it; prefill-1 is asked to decode
 * meanwhile. Each answer is the expected one. False if the two were over too soon for the change to come
 * between. */
static bool change_between_prompts(const door *d, const char *expected)
{
    client *running[3] = {ask_long(d, "prefill-1"), ask_long(d, "prefill-1")};
    for (const int64_t until = spawn_now_ms() + spawn_patience(READY_MS);
         !has_in_work(d, "prefill-1", 2) && !client_is_over(running[0]) && spawn_before(until);)
        client_step();
    running[2] = ask_long(d, NULL);
    json_t *body = json_pack("{s:s}", "role", "decode");
    client *change = client_post(d->url, "/v1/nodes/prefill-1/role", body);
    json_decref(body);
    assert_true(client_wait(change, spawn_patience(READY_MS)));
    if (client_status(change) != 200) fail_msg("%s", client_body(change));
    const bool between = !(client_is_over(running[0]) && client_is_over(running[1]));
    client_end(change);
    for (int i = 0; i < 3; i++) {
        char *text = answer(running[i], i < 2 ? "prefill-1" : NULL);
        assert_string_equal(text, expected);
        free(text);
    }
    expect_role(d, "prefill-1", "decode");
    return between;
}

/* Prompts that it has in work when it is asked go on to their end, and so do those that come meanwhile,
 * elsewhere. */
static void prompts_in_progress_end_before_a_prefill_node_becomes_a_decode_node(void **state)
{
    (void)state;
    const char *model = spawn_long_model();
    door d;
    start_gateway(&d, model);
    spawn *p0 = start_prefill(model, "prefill-0", &d), *p1 = start_prefill(model, "prefill-1", &d),
          *d0 = start_decode(model, "decode-0", &d, NULL, NULL);
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "prefill-1");
    wait_ready(&d, "decode-0");
    char *expected = answer(ask_long(&d, "prefill-0"), "prefill-0");
    for (int tries = 1; !change_between_prompts(&d, expected); tries++) { /* this machine may stand still */
        if (tries == TRIES) fail_msg("%d times the prompts were over before the node was asked", tries);
        expect_role(&d, "prefill-1", "prefill");
    }
    char *text = answer(ask(&d, "prefill-0", "prefill-1", TOKENS), "prefill-0");
    free(text);
    free(expected);
    end(d0);
    end(p1);
    end(p0);
    end(d.program);
}

static void a_prefill_node_that_cannot_decode_goes_back(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    spawn *s;
    start_gateway(&d, model);
    /* where it would listen, the gateway does */
    spawn *p = start_prefill_with(model, "prefill-0", &d, "--listen", d.control),
          *d0 = start_decode(model, "decode-0", &d, NULL, NULL);
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(role(&d, "prefill-0", "decode", &s), 1);
        assert_non_null(strstr(spawn_err(s), "could not serve as decode and is what it was"));
        assert_non_null(strstr(spawn_err(p), "goes back to prefill"));
        assert_int_equal(cluster_pid(d.url, "prefill-0"), spawn_pid(p));
        free(answer(ask(&d, "prefill-0", "decode-0", TOKENS), "prefill-0"));
    }
    end(d0);
    end(p);
    end(d.program);
}

static void expect_class(const door *d, const char *id, const char *begin)
{
    json_t *status = cluster_status(d->url);
    size_t i;
    const json_t *n;
    json_array_foreach(json_object_get(status, "nodes"), i, n) {
        const char *class = json_string_value(json_object_get(n, "exactness"));
        if (strcmp(json_string_value(json_object_get(n, "id")), id) != 0) continue;
        if (!class || strncmp(class, begin, strlen(begin)) != 0) fail_msg("%s is '%s'", id, class);
    }
    json_decref(status);
}

/* Unless told otherwise, and from the oracle to the oracle. */
static void the_engine_of_the_other_role_fits_that_of_the_first(void **state)
{
    (void)state;
    const char *model = spawn_tiny_model(1);
    door d;
    start_gateway(&d, model);
    spawn *p0 = start_prefill_with(model, "prefill-0", &d, "--engine", "reference"),
          *d0 = start_decode(model, "decode-0", &d, "--engine", "reference");
    wait_ready(&d, "prefill-0");
    wait_ready(&d, "decode-0");
    expect_role(&d, "decode-0", "prefill");
    expect_class(&d, "decode-0", "prefill reference");
    expect_role(&d, "prefill-0", "decode");
    expect_class(&d, "prefill-0", "decode reference");
    free(answer(ask(&d, "decode-0", "prefill-0", TOKENS), "decode-0"));
    end(d0);
    end(p0);
    p0 = start_prefill_with(model, "prefill-1", &d, "--decode-engine", "reference");
    d0 = start_decode(model, "decode-1", &d, "--local-prefill", "host");
    wait_ready(&d, "prefill-1");
    wait_ready(&d, "decode-1");
    expect_role(&d, "decode-1", "prefill");
    expect_class(&d, "decode-1", "prefill host");
    expect_role(&d, "prefill-1", "decode");
    expect_class(&d, "prefill-1", "decode reference");
    end(d0);
    end(p0);
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
    assert_non_null(strstr(spawn_err(d0), "goes back to decode"));
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
    client *odd = client_begin(d.url, "/v1/nodes/%FF%FE/role", wrong[6].body, strlen(wrong[6].body));
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

/* In the allow file, the key of this role and name gets both. */
static void give_both_roles(const char *allow, const char *role_and_name)
{
    char text[4096], changed[4200];
    FILE *f = fopen(allow, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *line = strstr(text, role_and_name);
    assert_non_null(line);
    const char *other = strncmp(role_and_name, "decode", 6) == 0 ? "prefill" : "decode";
    snprintf(changed, sizeof changed, "%.*s%s,%s", (int)(line - text), text, other, line);
    assert_non_null(f = fopen(allow, "we"));
    assert_true(fputs(changed, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static spawn *start_with_key(const door *d, const char *model, const char *id, const char *keys)
{
    const bool is_decode = strncmp(id, "decode", 6) == 0;
    return SPAWN(is_decode ? "baton-decode" : "baton-prefill", "-m", model, "--id", id, "--gateway",
                 d->control, "--keys", keys, "--key", id, "--threads", "1", "--listen", "tcp://127.0.0.1:*",
                 is_decode ? "--prefill-engine" : "--engine", "host");
}

/* With keys: the node's line of the allow file decides, as it is when the node is asked. */
static void a_key_needs_both_roles(void **state)
{
    static const char *const ids[] = {"prefill-0", "prefill-1", "decode-0", "decode-1"};
    (void)state;
    const char *model = spawn_tiny_model(1);
    char keys[256], allow[300];
    door d;
    spawn *s, *node[4];
    snprintf(keys, sizeof keys, "%s", spawn_path("keys"));
    snprintf(allow, sizeof allow, "%s/allow", keys);
    spawn *made = SPAWN("baton", "keygen", keys, "gateway", ids[0], ids[1], ids[2], ids[3]);
    if (spawn_wait(made, spawn_patience(READY_MS)) != 0) fail_msg("%s", spawn_err(made));
    d.program = SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*", "--keys",
                      keys, "--key", "gateway");
    assert_true(cluster_find_gateway(d.url, d.control, d.program, spawn_patience(READY_MS)));
    for (int i = 0; i < 4; i++) node[i] = start_with_key(&d, model, ids[i], keys);
    for (int i = 0; i < 4; i++) wait_ready(&d, ids[i]);
    char *expected = answer(ask(&d, "prefill-0", "decode-0", TOKENS), "prefill-0");
    assert_int_equal(role(&d, "decode-1", "prefill", &s), 1);
    assert_non_null(strstr(spawn_err(s), "the node's key does not have both roles"));
    assert_int_equal(role(&d, "prefill-1", "decode", &s), 1);
    assert_non_null(strstr(spawn_err(s), "the node's key does not have both roles"));

    give_both_roles(allow, "decode decode-1");
    give_both_roles(allow, "prefill prefill-1");
    signal_and_wait(d.program, "allow list read again");
    for (int i = 0; i < 4; i++) signal_and_wait(node[i], "allow list read again");
    expect_role(&d, "decode-1", "prefill");
    expect_role(&d, "prefill-1", "decode");
    static const char *const pairs[][2] = {
        {"decode-1", "decode-0"}, {"decode-1", "prefill-1"}, {"prefill-0", "prefill-1"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *text = answer(ask(&d, pairs[i][0], pairs[i][1], TOKENS), pairs[i][0]);
        assert_string_equal(text, expected);
        free(text);
    }
    expect_role(&d, "decode-1", "decode");
    expect_role(&d, "prefill-1", "prefill");
    expect_text(&d, "prefill-1", "decode-1", expected);
    free(expected);
    for (int i = 0; i < 4; i++) end(node[i]);
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
    assert_null(strstr(spawn_err(d0), "this node serves as a prefill node"));
    end(p);
    end(d.program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_decode_node_serves_as_prefill_and_as_decode_again, cluster_teardown),
        cmocka_unit_test_teardown(a_prefill_node_serves_as_decode_and_as_prefill_again, cluster_teardown),
        cmocka_unit_test_teardown(two_nodes_change_places, cluster_teardown),
        cmocka_unit_test_teardown(prompts_in_progress_end_before_a_prefill_node_becomes_a_decode_node,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_prefill_node_that_cannot_decode_goes_back, cluster_teardown),
        cmocka_unit_test_teardown(the_engine_of_the_other_role_fits_that_of_the_first, cluster_teardown),
        cmocka_unit_test_teardown(a_request_in_progress_ends_before_the_role_changes, cluster_teardown),
        cmocka_unit_test_teardown(a_node_that_cannot_prefill_goes_back, cluster_teardown),
        cmocka_unit_test_teardown(what_cannot_be_is_refused_with_words, cluster_teardown),
        cmocka_unit_test_teardown(a_key_needs_both_roles, cluster_teardown),
        cmocka_unit_test_teardown(a_signal_while_it_drains_ends_the_process, cluster_teardown),
    };
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
