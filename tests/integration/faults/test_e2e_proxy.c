/* A gateway, two prefill and two decode nodes that meet only through the fault proxy: messages are delayed,
 * dropped, repeated, reordered and corrupted, links are cut, and with keys bytes are; no request fails, no
 * answer changes, and afterwards nothing is held. One link that hangs, is swallowed one way or is slow costs
 * nobody else anything.
 *
 * BATON_PROXY_SECONDS=N lets the faults go on for N seconds instead of a few, BATON_TEST_SEED takes
 * another seed. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/proxy.h"
#include "tests/helpers/cluster/storm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 4, READY_MS = 90000, IDLE_MS = 60000, SECONDS = 8, MORE = 8, OPTIONS = 40 };

typedef struct by_hand {
    const char *model, *keys;
    const char *more[MORE]; /* options of every node, NULL-terminated */
    proxy p;
    spawn *gateway, *node[NODES], *second; /* second: another gateway, which all nodes serve too, without the
                                              proxy; NULL: none */
    char url[128], control[128], second_url[128], second_control[128];
    bool has_second;
    uint16_t bulk[NODES];
} by_hand;

static const char *const ids[NODES] = {"prefill-0", "prefill-1", "decode-0", "decode-1"};

static void start_node(by_hand *h, size_t i)
{
    const bool is_decode = i >= 2;
    char gateway[64], listen[64], advertise[64], route[32];
    const char *argv[OPTIONS] = {is_decode ? "baton-decode" : "baton-prefill",
                                 "-m",
                                 h->model,
                                 "--gateway",
                                 gateway,
                                 "--id",
                                 ids[i],
                                 "--threads",
                                 "1",
                                 "--drain-timeout",
                                 "1s"};
    size_t n = 11;
    snprintf(route, sizeof route, "control-%s", ids[i]);
    snprintf(gateway, sizeof gateway, "tcp://%s", proxy_at(&h->p, route));
    if (is_decode) {
        snprintf(route, sizeof route, "bulk-%s", ids[i]);
        snprintf(listen, sizeof listen, "tcp://127.0.0.1:%u", h->bulk[i]);
        snprintf(advertise, sizeof advertise, "tcp://%s", proxy_at(&h->p, route));
        const char *const more[] = {"--listen", listen, "--advertise", advertise};
        for (size_t k = 0; k < 4; k++) argv[n++] = more[k];
    }
    for (size_t k = 0; h->more[k]; k++) argv[n++] = h->more[k];
    if (h->second) {
        argv[n++] = "--gateway";
        argv[n++] = h->second_control;
    }
    if (h->keys) {
        const char *const more[] = {"--keys", h->keys, "--key", ids[i]};
        for (size_t k = 0; k < 4; k++) argv[n++] = more[k];
    }
    h->node[i] = spawn_start(argv);
}

static spawn *start_gateway(const by_hand *h, char control[128], char url[128])
{
    spawn *g = h->keys
                   ? SPAWN("baton-gateway", "-m", h->model, "--port", "0", "--control", "tcp://127.0.0.1:*",
                           "--keys", h->keys, "--key", "gateway")
                   : SPAWN("baton-gateway", "-m", h->model, "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    return g;
}

/* The proxy stands on every link, and does nothing yet. */
static void start(by_hand *h, const char *const *faults)
{
    const char *options[OPTIONS] = {"--route", "control-prefill-0", "--route", "control-prefill-1",
                                    "--route", "control-decode-0",  "--route", "control-decode-1",
                                    "--route", "bulk-decode-0",     "--route", "bulk-decode-1"};
    size_t n = 12;
    while (*faults) options[n++] = *faults++;
    h->p = proxy_start(options);
    proxy_order(&h->p, "faults * off");
    h->gateway = start_gateway(h, h->control, h->url);
    if (h->has_second) h->second = start_gateway(h, h->second_control, h->second_url);
    proxy_order(&h->p, "target control-* %s", h->control + strlen("tcp://"));
    for (size_t i = 2; i < NODES; i++) {
        h->bulk[i] = cluster_free_port();
        proxy_order(&h->p, "target bulk-%s 127.0.0.1:%u", ids[i], h->bulk[i]);
    }
    for (size_t i = 0; i < NODES; i++) start_node(h, i);
    for (size_t i = 0; i < NODES; i++)
        assert_true(cluster_wait_node(h->url, ids[i], "ready", 0, spawn_patience(READY_MS)));
}
#define START(h, ...) start((h), (const char *const[]){__VA_ARGS__, NULL})

static void end(spawn *s) { assert_true(cluster_end(s, spawn_patience(10000))); }

/* Everything quiet again: nothing is held anywhere; then all end well. */
static void stop(by_hand *h)
{
    proxy_order(&h->p, "faults * off");
    proxy_order(&h->p, "hold * off");
    proxy_order(&h->p, "slow * 0");
    for (size_t i = 0; i < NODES; i++)
        assert_true(cluster_wait_node(h->url, ids[i], "ready", 0, spawn_patience(READY_MS)));
    if (!cluster_wait_idle(h->url, spawn_patience(IDLE_MS))) {
        json_t *status = cluster_status(h->url);
        char *text = json_dumps(status, JSON_INDENT(1));
        fail_msg("something is held: %s", text);
    }
    for (size_t i = 0; i < NODES; i++) end(h->node[i]);
    end(h->gateway);
    if (h->second) end(h->second);
    assert_true(proxy_stop(&h->p));
}

static void tell_all(by_hand *h)
{
    printf("gateway:\n%s", spawn_err(h->gateway));
    for (size_t i = 0; i < NODES; i++) printf("%s:\n%s", ids[i], spawn_err(h->node[i]));
}

/* Requests all the time, for so long, then what is in flight to its end. */
static void blow(by_hand *h, storm *s, int64_t seconds, const char *what)
{
    const int64_t until = spawn_now_ms() + seconds * 1000;
    proxy_order(&h->p, "faults * on");
    while (storm_step(s, spawn_now_ms() < until ? UINT64_MAX : 0)) {}
    storm_print(s, what);
    const bool is_well = s->failed == 0 && s->altered == 0 && s->whole > 0;
    if (!is_well) tell_all(h);
    storm_done(s);
    assert_true(is_well);
}

static const char *seed_text(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)storm_number("BATON_TEST_SEED", 1));
    return text;
}

#define FAULTS \
    "--seed", seed_text(), "--delay", "0.01", "--drop", "0.01", "--repeat", "0.01", "--reorder", "0.01", \
        "--corrupt", "0.01", "--cut-every", "10s"

static void a_network_that_loses_repeats_reorders_and_cuts_changes_nothing(by_hand *h, int max_tokens,
                                                                           int max_words, const char *what)
{
    storm s;
    START(h, FAULTS);
    assert_true(storm_learn(&s, h->url, storm_number("BATON_TEST_SEED", 1), max_tokens, max_words, NULL));
    blow(h, &s, (int64_t)storm_number("BATON_PROXY_SECONDS", SECONDS), what);
    stop(h);
}

static void faults_on_every_link_of_a_little_model_change_nothing(void **state)
{
    by_hand h = {.model = spawn_long_model(), .more = {"--isa", "ref"}};
    (void)state;
    a_network_that_loses_repeats_reorders_and_cuts_changes_nothing(&h, 400, 300, "proxy, little model");
}

static void faults_on_every_link_of_the_default_model_change_nothing(void **state)
{
    by_hand h = {.model = storm_model(), .more = {"--ctx-size", "2048"}};
    (void)state;
    if (!h.model || spawn_is_sanitized()) skip();
    a_network_that_loses_repeats_reorders_and_cuts_changes_nothing(&h, 32, 200, "proxy, default model");
}

/* Under keys a changed byte is a broken link, and nothing else. */
static void with_keys_bytes_are_corrupted_and_links_cut_and_nothing_changes(void **state)
{
    by_hand h = {.model = spawn_long_model(), .more = {"--isa", "ref"}, .keys = spawn_path("keys")};
    storm s;
    (void)state;
    spawn *keygen = SPAWN("baton", "keygen", h.keys, "--prefill-keys", "2", "--decode-keys", "2");
    if (spawn_wait(keygen, spawn_patience(5000)) != 0) fail_msg("keygen: %s", spawn_err(keygen));
    START(&h, "--mode", "bytes", "--seed", seed_text(), "--delay", "0.01", "--corrupt", "0.002",
          "--cut-every", "10s");
    assert_true(storm_learn(&s, h.url, storm_number("BATON_TEST_SEED", 1), 400, 300, NULL));
    blow(&h, &s, (int64_t)storm_number("BATON_PROXY_SECONDS", SECONDS), "proxy, keys");
    stop(&h);
}

/* ---- one link, one node ---- */

static json_t *pinned(const char *prompt, int max_tokens, const char *decode)
{
    json_t *r = cluster_request(prompt, max_tokens);
    json_object_set_new(r, "baton", json_pack("{s:s}", "decode", decode));
    return r;
}

/* A prompt whose greedy answer goes on for at least so many tokens; most lead a random model into a
 * circle, some to an early end. */
static const char *find_long(const by_hand *h, size_t tokens)
{
    static char prompt[2];
    for (*prompt = 'a'; *prompt <= 'z'; ++*prompt) {
        json_t *r = cluster_request(prompt, (int)tokens);
        client *c = client_post(h->url, "/v1/completions", r);
        json_decref(r);
        const bool is_long = client_wait(c, spawn_patience(60000)) &&
                             json_array_size(json_object_get(client_baton(c), "token_ids")) == tokens;
        client_end(c);
        if (is_long) return prompt;
    }
    fail_msg("no prompt gives a long answer");
    return NULL;
}

/* A stream that has begun to come. */
static client *begin_stream_on(const by_hand *h, const char *prompt, const char *decode, int max_tokens)
{
    json_t *r = pinned(prompt, max_tokens, decode);
    json_object_set_new(r, "stream", json_true());
    client *c = client_post(h->url, "/v1/completions", r);
    json_decref(r);
    const int64_t end = spawn_now_ms() + spawn_patience(20000);
    while (!client_is_over(c) && strlen(client_body(c)) < 4000 && spawn_now_ms() < end) client_step();
    assert_true(!client_is_over(c) && strlen(client_body(c)) >= 4000);
    return c;
}

/* The stream goes on after what was done to its node, within ms, and its end is that of an undisturbed
 * one. */
static void expect_going_on(client *c, const char *what, bool must_move)
{
    const int64_t begin = spawn_now_ms(), end = begin + spawn_patience(60000);
    int64_t last_ms = begin, gap_ms = 0;
    for (size_t len = strlen(client_body(c)); !client_is_over(c) && spawn_now_ms() < end; client_step()) {
        if (strlen(client_body(c)) == len) continue;
        len = strlen(client_body(c));
        if (spawn_now_ms() - last_ms > gap_ms) gap_ms = spawn_now_ms() - last_ms;
        last_ms = spawn_now_ms();
    }
    if (!client_is_done(c) || client_error(c)) {
        printf("%.300s ... %s\n", client_body(c), client_body(c) + strlen(client_body(c)) - 300);
        fail_msg("%s: the stream did not go on", what);
    }
    const json_t *baton = client_baton(c);
    printf("%s: the stream went on after %lld ms; %lld attempts, %zu tokens\n", what, (long long)gap_ms,
           (long long)json_integer_value(json_object_get(baton, "attempts")),
           json_array_size(json_object_get(baton, "token_ids")));
    if (must_move) assert_true(json_integer_value(json_object_get(baton, "attempts")) > 1);
}

static void streams_outlive_a_node_that_stops_or_is_cut_off(void **state)
{
    enum { TOKENS = 600 };
    static const char *const holds[] = {"both", "up", "down"};
    by_hand h = {.model = spawn_long_model(), .more = {"--isa", "ref"}};
    (void)state;
    START(&h, "--seed", "1");
    const char *prompt = find_long(&h, TOKENS);
    for (int i = 0; i < 4; i++) {
        client *c = begin_stream_on(&h, prompt, "decode-0", TOKENS);
        if (i < 3) proxy_order(&h.p, "hold control-decode-0 %s", holds[i]);
        else spawn_signal(h.node[2], SIGSTOP);
        /* what goes up needs no answer for a while */
        expect_going_on(c, i < 3 ? holds[i] : "stopped", i != 2);
        json_t *tokens = json_deep_copy(json_object_get(client_baton(c), "token_ids"));
        client_end(c);
        if (i < 3) proxy_order(&h.p, "hold control-decode-0 off");
        else spawn_signal(h.node[2], SIGCONT);
        assert_true(cluster_wait_node(h.url, ids[2], "ready", 0, spawn_patience(READY_MS)));
        c = begin_stream_on(&h, prompt, "decode-1", TOKENS); /* the same prompt as then, undisturbed */
        assert_true(client_wait(c, spawn_patience(60000)));
        assert_true(json_equal(tokens, json_object_get(client_baton(c), "token_ids")));
        json_decref(tokens);
        client_end(c);
    }
    stop(&h);
}

static json_int_t pages_used(const char *url, const char *id)
{
    json_t *status = cluster_status(url), *n;
    json_int_t pages = -1;
    size_t i;
    json_array_foreach(json_object_get(status, "nodes"), i, n)
        if (strcmp(json_string_value(json_object_get(n, "id")), id) == 0)
            pages = json_integer_value(json_object_get(n, "pages_used"));
    json_decref(status);
    return pages;
}

/* decode-0 runs on but its gateway cannot reach it, decode-1 is stopped for longer than a lease; the clients
 * leave meanwhile. The pages that they held are seen through another gateway. */
static void a_cut_off_or_stopped_node_frees_pages_at_the_end_of_the_lease(void **state)
{
    enum { LEASE_MS = 10000, SLACK_MS = 5000 };
    by_hand h = {.model = spawn_long_model(), .has_second = true};
    client *c[2];
    (void)state;
    START(&h, "--seed", "1");
    proxy_order(&h.p, "hold bulk-* both"); /* the prompts do not arrive, so that nothing ends by itself */
    for (size_t i = 0; i < 2; i++) {
        json_t *r = pinned("the day when she said that the end of the day", 8, ids[2 + i]);
        c[i] = client_post(h.url, "/v1/completions", r);
        json_decref(r);
    }
    const int64_t seen_end = spawn_now_ms() + spawn_patience(20000);
    while ((pages_used(h.second_url, ids[2]) <= 0 || pages_used(h.second_url, ids[3]) <= 0) &&
           spawn_before(seen_end))
        client_step();
    assert_true(pages_used(h.second_url, ids[2]) > 0 && pages_used(h.second_url, ids[3]) > 0);
    proxy_order(&h.p, "hold control-decode-0 both");
    spawn_signal(h.node[3], SIGSTOP);
    const int64_t begin = spawn_now_ms();
    for (size_t i = 0; i < 2; i++) client_end(c[i]);
    const int64_t end = begin + spawn_patience(LEASE_MS + SLACK_MS);
    while (pages_used(h.second_url, ids[2]) && spawn_before(end)) {}
    const int64_t cut_ms = spawn_now_ms() - begin;
    assert_int_equal(pages_used(h.second_url, ids[2]), 0);
    while (spawn_before(begin + LEASE_MS + 500)) {} /* the stopped one's lease is over too */
    spawn_signal(h.node[3], SIGCONT);
    const int64_t woken = spawn_now_ms(), woken_end = woken + spawn_patience(SLACK_MS);
    while (pages_used(h.second_url, ids[3]) && spawn_before(woken_end)) {}
    assert_true(cut_ms > LEASE_MS / 4); /* not because the answer was over */
    printf(
        "pages free %lld ms after the cut-off node's client left, %lld ms after the stopped node went on\n",
        (long long)cut_ms, (long long)(spawn_now_ms() - woken));
    assert_int_equal(pages_used(h.second_url, ids[3]), 0);
    stop(&h);
}

/* Answers to n short requests on one decode node, one after the other. */
static int64_t time_on(const by_hand *h, const char *decode, int n)
{
    static int number;
    const int64_t begin = spawn_now_ms();
    for (int i = 0; i < n; i++) {
        char prompt[64];
        snprintf(prompt, sizeof prompt, "short number %d", number++);
        json_t *r = pinned(prompt, 4, decode);
        client *c = client_post(h->url, "/v1/completions", r);
        json_decref(r);
        assert_true(client_wait(c, spawn_patience(60000)) && client_status(c) == 200);
        client_end(c);
    }
    return spawn_now_ms() - begin;
}

static void a_slow_decode_node_slows_its_own_requests_only(void **state)
{
    enum { SLOW = 4, SHORT = 10, BYTES_PER_S = 60000 };
    by_hand h = {.model = spawn_long_model(), .more = {"--prefill-slots", "16"}};
    client *slow[SLOW];
    char *prompt = malloc(8192);
    (void)state;
    assert_non_null(prompt);
    START(&h, "--seed", "1");
    (void)time_on(&h, ids[3], SHORT); /* links are there */
    const int64_t alone_ms = time_on(&h, ids[3], SHORT);
    proxy_order(&h.p, "slow bulk-decode-0 %d", BYTES_PER_S);
    for (int i = 0; i < SLOW; i++) {
        snprintf(prompt, 64, "%d ", i);
        for (int k = 0; k < 400; k++) strcat(prompt, "the day when she ");
        json_t *r = pinned(prompt, 4, ids[2]);
        json_object_set_new(r, "stream", json_true());
        slow[i] = client_post(h.url, "/v1/completions", r);
        json_decref(r);
    }
    for (int i = 0; i < SLOW; i++)
        assert_true(client_wait_text(slow[i], "data: ", spawn_patience(60000))); /* computed, not there */
    const int64_t beside_ms = time_on(&h, ids[3], SHORT);
    int still = 0;
    for (int i = 0; i < SLOW; i++) still += !client_is_over(slow[i]);
    printf("%d short answers by the other decode node: %lld ms alone, %lld ms beside a slow one; %d of %d "
           "were still on their way to that\n",
           SHORT, (long long)alone_ms, (long long)beside_ms, still, SLOW);
    assert_true(beside_ms < 10 * alone_ms + spawn_patience(2000));
    proxy_order(&h.p, "slow * 0");
    for (int i = 0; i < SLOW; i++) {
        if (!client_wait(slow[i], spawn_patience(120000)) || client_status(slow[i]) != 200)
            fail_msg("%ld %s", client_status(slow[i]), client_body(slow[i]));
        printf("slow request %d: %lld ms\n", i, (long long)client_ms(slow[i]));
        client_end(slow[i]);
    }
    free(prompt);
    stop(&h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(faults_on_every_link_of_a_little_model_change_nothing, cluster_teardown),
        cmocka_unit_test_teardown(faults_on_every_link_of_the_default_model_change_nothing, cluster_teardown),
        cmocka_unit_test_teardown(with_keys_bytes_are_corrupted_and_links_cut_and_nothing_changes,
                                  cluster_teardown),
        cmocka_unit_test_teardown(streams_outlive_a_node_that_stops_or_is_cut_off, cluster_teardown),
        cmocka_unit_test_teardown(a_cut_off_or_stopped_node_frees_pages_at_the_end_of_the_lease,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_slow_decode_node_slows_its_own_requests_only, cluster_teardown),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
