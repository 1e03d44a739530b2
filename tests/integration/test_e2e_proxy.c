/* A gateway, two prefill and two decode nodes that meet only through the fault proxy: messages are delayed, dropped, repeated, reordered
 * and corrupted, links are cut, and with keys bytes are; no request fails, no answer changes, and afterwards nothing is held. One link
 * that hangs, is swallowed one way or is slow costs nobody else anything.
 *
 * BATON_PROXY_SECONDS=N lets the faults go on for N seconds instead of a few, BATON_TEST_SEED takes another seed. */
#include "tests/helpers/cluster.h"
#include "tests/helpers/proxy.h"
#include "tests/helpers/storm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 4, READY_MS = 90000, IDLE_MS = 60000, SECONDS = 15, MORE = 8, OPTIONS = 40 };

typedef struct by_hand {
    const char *model, *keys;
    const char *more[MORE];                 /* options of every node, NULL-terminated */
    proxy p;
    spawn *gateway, *node[NODES];
    char url[128], control[64];
    uint16_t bulk[NODES];
} by_hand;

static const char *const ids[NODES] = { "prefill-0", "prefill-1", "decode-0", "decode-1" };

/* A port that was free a moment ago: a decode node must be told its own, because the proxy's is the one that it tells others. */
static uint16_t free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    close(fd);
    return ntohs(at.sin_port);
}

static void start_node(by_hand *h, size_t i)
{
    const bool is_decode = i >= 2;
    char gateway[64], listen[64], advertise[64], route[32];
    const char *argv[OPTIONS] = { is_decode ? "baton-decode" : "baton-prefill", "-m", h->model, "--gateway", gateway, "--id", ids[i], "--threads", "1",
                                  "--drain-timeout", "1s" };
    size_t n = 11;
    snprintf(route, sizeof route, "control-%s", ids[i]);
    snprintf(gateway, sizeof gateway, "tcp://%s", proxy_at(&h->p, route));
    if (is_decode) {
        snprintf(route, sizeof route, "bulk-%s", ids[i]);
        snprintf(listen, sizeof listen, "tcp://127.0.0.1:%u", h->bulk[i]);
        snprintf(advertise, sizeof advertise, "tcp://%s", proxy_at(&h->p, route));
        const char *const more[] = { "--listen", listen, "--advertise", advertise };
        for (size_t k = 0; k < 4; k++) argv[n++] = more[k];
    }
    for (size_t k = 0; h->more[k]; k++) argv[n++] = h->more[k];
    if (h->keys) {
        argv[n++] = "--keys";
        argv[n++] = h->keys;
    }
    h->node[i] = spawn_start(argv);
}

/* The proxy stands on every link, and does nothing yet. */
static void start(by_hand *h, const char *const *faults)
{
    const char *options[OPTIONS] = { "--route", "control-prefill-0", "--route", "control-prefill-1", "--route", "control-decode-0", "--route",
                                     "control-decode-1", "--route", "bulk-decode-0", "--route", "bulk-decode-1" };
    size_t n = 12;
    while (*faults) options[n++] = *faults++;
    h->p = proxy_start(options);
    proxy_order(&h->p, "faults * off");
    h->gateway = h->keys ? SPAWN("baton-gateway", "-m", h->model, "--port", "0", "--control", "tcp://127.0.0.1:*", "--keys", h->keys)
                         : SPAWN("baton-gateway", "-m", h->model, "--port", "0", "--control", "tcp://127.0.0.1:*");
    assert_true(spawn_wait_err(h->gateway, "waiting for", spawn_patience(READY_MS)));
    const char *nodes = strstr(spawn_err(h->gateway), "nodes: "), *clients = strstr(spawn_err(h->gateway), "clients: ");
    assert_true(nodes && clients);
    assert_int_equal(sscanf(nodes, "nodes: tcp://%63[^, \n]", h->control), 1);
    assert_int_equal(sscanf(clients, "clients: %127[^, \n]", h->url), 1);
    proxy_order(&h->p, "target control-* %s", h->control);
    for (size_t i = 2; i < NODES; i++) {
        h->bulk[i] = free_port();
        proxy_order(&h->p, "target bulk-%s 127.0.0.1:%u", ids[i], h->bulk[i]);
    }
    for (size_t i = 0; i < NODES; i++) start_node(h, i);
    for (size_t i = 0; i < NODES; i++) assert_true(cluster_wait_node(h->url, ids[i], "ready", 0, spawn_patience(READY_MS)));
}
#define START(h, ...) start((h), (const char *const[]){ __VA_ARGS__, NULL })

static void end(spawn *s)
{
    spawn_signal(s, SIGTERM);
    const int rc = spawn_wait(s, spawn_patience(10000));
    if (rc != 0) fail_msg("exit %d: %s", rc, spawn_err(s));
}

/* Everything quiet again: nothing is held anywhere; then all end well. */
static void stop(by_hand *h)
{
    proxy_order(&h->p, "faults * off");
    proxy_order(&h->p, "hold * off");
    proxy_order(&h->p, "slow * 0");
    for (size_t i = 0; i < NODES; i++) assert_true(cluster_wait_node(h->url, ids[i], "ready", 0, spawn_patience(READY_MS)));
    if (!cluster_wait_idle(h->url, spawn_patience(IDLE_MS))) {
        json_t *status = cluster_status(h->url);
        char *text = json_dumps(status, JSON_INDENT(1));
        fail_msg("something is held: %s", text);
    }
    for (size_t i = 0; i < NODES; i++) end(h->node[i]);
    end(h->gateway);
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

#define FAULTS "--seed", seed_text(), "--delay", "0.01", "--drop", "0.01", "--repeat", "0.01", "--reorder", "0.01", "--corrupt", "0.01", "--cut-every", "10s"

static void a_network_that_loses_repeats_reorders_and_cuts_changes_nothing(by_hand *h, int max_tokens, int max_words, const char *what)
{
    storm s;
    START(h, FAULTS);
    assert_true(storm_learn(&s, h->url, storm_number("BATON_TEST_SEED", 1), max_tokens, max_words));
    blow(h, &s, (int64_t)storm_number("BATON_PROXY_SECONDS", SECONDS), what);
    stop(h);
}

static void faults_on_every_link_of_a_little_model_change_nothing(void **state)
{
    by_hand h = { .model = spawn_long_model(), .more = { "--isa", "ref" } };
    (void)state;
    a_network_that_loses_repeats_reorders_and_cuts_changes_nothing(&h, 400, 300, "proxy, little model");
}

static void faults_on_every_link_of_the_default_model_change_nothing(void **state)
{
    by_hand h = { .model = storm_model(), .more = { "--ctx-size", "2048" } };
    (void)state;
    if (!h.model || spawn_is_sanitized()) skip();
    a_network_that_loses_repeats_reorders_and_cuts_changes_nothing(&h, 32, 200, "proxy, default model");
}

/* Under keys a changed byte is a broken link, and nothing else. */
static void with_keys_bytes_are_corrupted_and_links_cut_and_nothing_changes(void **state)
{
    by_hand h = { .model = spawn_long_model(), .more = { "--isa", "ref" }, .keys = spawn_path("keys") };
    storm s;
    (void)state;
    spawn *keygen = SPAWN("baton", "keygen", h.keys);
    if (spawn_wait(keygen, spawn_patience(5000)) != 0) fail_msg("keygen: %s", spawn_err(keygen));
    START(&h, "--mode", "bytes", "--seed", seed_text(), "--delay", "0.01", "--corrupt", "0.002", "--cut-every", "10s");
    assert_true(storm_learn(&s, h.url, storm_number("BATON_TEST_SEED", 1), 400, 300));
    blow(&h, &s, (int64_t)storm_number("BATON_PROXY_SECONDS", SECONDS), "proxy, keys");
    stop(&h);
}

static int teardown(void **state)
{
    (void)client_teardown(state);
    return spawn_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(faults_on_every_link_of_a_little_model_change_nothing, teardown),
        cmocka_unit_test_teardown(faults_on_every_link_of_the_default_model_change_nothing, teardown),
        cmocka_unit_test_teardown(with_keys_bytes_are_corrupted_and_links_cut_and_nothing_changes, teardown),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    spawn_setup();
    client_setup();
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    client_cleanup();
    spawn_cleanup();
    return rc;
}
