/* Clients that leave: at random moments while their request waits, is computed, is handed over or is
 * answered, by closing, by reset or by closing one half only; both nodes give up what they held for it at
 * once. And a client that takes nothing, which slows nobody.
 *
 * BATON_LEAVE=N asks for N departures, BATON_TEST_SEED for another seed. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/proc_status.h"
#include "tests/helpers/cluster/storm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    LEAVES = 50,
    GONE_MS = 3000,
    SERVED_MS = 120000, /* the whole answer of a client that may still read */
    IDLE_MS = 20000,
    READY_MS = 60000,
    GROWTH_BYTES = 32 << 20,
    KV_BYTES = 256 << 20,
    HEAD_BYTES = 256,
    PIECE_BYTES = 4096
};

typedef enum moment { QUEUED, EARLY, LATE, MOMENTS } moment;
typedef enum manner { CLOSE, RESET, HALF, MANNERS } manner;
static const char *const moment_names[] = {"waiting", "in its first moments", "under way"};
static const char *const manner_names[] = {"close", "reset", "half-close"};

/* A connection under our own control, with a request on it. */
static int ask(const char *url, const json_t *request)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char host[64], head[HEAD_BYTES];
    unsigned port;
    assert_int_equal(sscanf(url, "http://%63[0-9.]:%u", host, &port), 2);
    assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
    at.sin_port = htons((uint16_t)port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0);
    char *body = json_dumps(request, JSON_COMPACT);
    snprintf(head, sizeof head,
             "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: "
             "application/json\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    assert_int_equal(send(fd, body, strlen(body), MSG_NOSIGNAL), strlen(body));
    free(body);
    return fd;
}

/* A half-closed one is closed by whoever has had its answer. */
static void leave(int fd, manner how)
{
    if (how == RESET)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    if (how == HALF) (void)shutdown(fd, SHUT_WR);
    else close(fd);
}

typedef struct held {
    json_int_t attempts, waiting, pages, reservations, leases, own_bytes, kept_bytes;
} held; /* own: memory without what is mapped from files; kept: for prompts to come */

static json_int_t own_bytes_of(const json_t *process)
{
    const json_int_t pid = json_integer_value(json_object_get(process, "pid"));
    const long kb = proc_status_kb((pid_t)pid, "RssAnon");
    assert_true(pid > 0 && kb > 0);
    return (json_int_t)kb * 1024;
}

static held look(const char *url)
{
    held h = {0};
    json_t *status = cluster_status(url), *n;
    size_t i;
    assert_non_null(status);
    h.waiting = json_integer_value(json_object_get(json_object_get(status, "queue"), "waiting"));
    h.own_bytes = own_bytes_of(json_object_get(status, "gateway"));
    json_array_foreach(json_object_get(status, "nodes"), i, n) {
        h.attempts += json_integer_value(json_object_get(n, "attempts"));
        h.pages += json_integer_value(json_object_get(n, "pages_used"));
        h.reservations += json_integer_value(json_object_get(n, "reservations"));
        h.leases += json_integer_value(json_object_get(n, "leases"));
        h.own_bytes += own_bytes_of(n);
        const json_int_t total = json_integer_value(json_object_get(n, "pages_total"));
        if (total)
            h.kept_bytes += json_integer_value(json_object_get(n, "pages_cached")) * (KV_BYTES / total);
    }
    json_decref(status);
    return h;
}

static void print_held(const char *when, const held *h)
{
    printf("%s: %lld pages, %lld reservations, %lld leases, %lld attempts, %lld waiting, memory of all "
           "processes %lld bytes, "
           "%lld of them kept prompts\n",
           when, (long long)h->pages, (long long)h->reservations, (long long)h->leases,
           (long long)h->attempts, (long long)h->waiting, (long long)h->own_bytes, (long long)h->kept_bytes);
}

static json_t *random_request(storm *s, int tokens, int words)
{
    static const char text[] = "the day when she said that the end of his words was near ";
    char prompt[8192] = "";
    const uint64_t count = 1 + storm_draw(s, (uint64_t)words);
    for (uint64_t i = 0; i < count && strlen(prompt) + sizeof text < sizeof prompt; i++) strcat(prompt, text);
    /* no prompt twice */
    snprintf(prompt + strlen(prompt), 32, "%llu", (unsigned long long)storm_draw(s, 1000000));
    json_t *r = cluster_request(prompt, tokens);
    if (storm_draw(s, 2)) json_object_set_new(r, "stream", json_true());
    return r;
}

/* The node has answered ABORT when the gateway's count of its attempts falls, and it answers when it has
 * freed: so the time until all counts are zero is never shorter than what the nodes took. */
static int64_t wait_gone(const char *url, bool is_waiting, int64_t limit_ms)
{
    const int64_t begin = spawn_now_ms(), end = begin + spawn_patience(limit_ms);
    for (held h = look(url); is_waiting ? h.waiting : h.attempts; h = look(url))
        if (spawn_now_ms() > end) {
            print_held("too late", &h);
            return -1;
        }
    return spawn_now_ms() - begin;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void depart(const char *model, uint64_t leaves, int words, const char *const *more)
{
    cluster sys;
    storm s = {.seed = storm_number("BATON_TEST_SEED", 3)};
    int64_t took[1000];
    uint64_t n = 0;
    held before = {0};
    assert_true(leaves <= sizeof took / sizeof *took);
    assert_true(cluster_start(&sys, model, more));
    for (uint64_t i = 0; i < leaves; i++) {
        if (i == leaves / 5) { /* buffers have their size now */
            assert_true(cluster_wait_idle(sys.url, spawn_patience(IDLE_MS)));
            before = look(sys.url);
        }
        const moment when = (moment)storm_draw(&s, MOMENTS);
        const manner how = (manner)storm_draw(&s, MANNERS);
        json_t *r = random_request(&s, 4000, words);
        const int other = when == QUEUED ? ask(sys.url, r) : -1; /* it has the only slot */
        for (const int64_t end = spawn_now_ms() + GONE_MS;
             other >= 0 && !look(sys.url).attempts && spawn_before(end);) {}
        const int fd = ask(sys.url, r);
        json_decref(r);
        const int64_t at = spawn_now_ms() + (int64_t)storm_draw(&s, when == LATE ? 400 : 60);
        while (spawn_before(at)) {}
        for (const int64_t end = spawn_now_ms() + GONE_MS;
             when == QUEUED && !look(sys.url).waiting && spawn_before(end);) {}
        leave(fd, how);
        took[n] = wait_gone(sys.url, when == QUEUED, how == HALF ? SERVED_MS : GONE_MS);
        if (took[n] < 0)
            fail_msg("seed %llu, departure %llu, %s, by %s: still there", (unsigned long long)s.seed,
                     (unsigned long long)i, moment_names[when], manner_names[how]);
        n++;
        if (how == HALF) close(fd);
        if (other < 0) continue;
        close(other);
        assert_true(wait_gone(sys.url, false, GONE_MS) >= 0);
    }
    assert_true(cluster_wait_idle(sys.url, spawn_patience(IDLE_MS)));
    const held after = look(sys.url);
    qsort(took, n, sizeof *took, by_size);
    print_held("after a fifth", &before);
    print_held("at the end", &after);
    printf("seed %llu, %llu departures; from leaving until no node holds anything, seen from outside: median "
           "%lld ms, slowest %lld ms\n",
           (unsigned long long)s.seed, (unsigned long long)n, (long long)took[n / 2], (long long)took[n - 1]);
    if (!spawn_is_sanitized())
        assert_true(after.own_bytes - after.kept_bytes <=
                    before.own_bytes - before.kept_bytes + GROWTH_BYTES);
    assert_true(cluster_serves(sys.url));
    assert_true(cluster_stop(&sys));
}
#define DEPART(model, leaves, words, ...) \
    depart(model, leaves, words, \
           (const char *const[]){"--threads", "1", "--slots", "1", "--kv-memory", "256M", __VA_ARGS__, \
                                 NULL})

static void a_client_that_leaves_takes_its_pages_with_it(void **state)
{
    (void)state;
    DEPART(spawn_long_model(), storm_number("BATON_LEAVE", LEAVES), 60, "--isa", "auto");
}

static void so_does_one_of_the_default_model(void **state)
{
    (void)state;
    const char *model = storm_model();
    if (!model || spawn_is_sanitized()) skip();
    DEPART(model, storm_number("BATON_LEAVE", LEAVES / 5), 20, "--ctx-size", "8192");
}

static int64_t time_of_a_few(const char *url)
{
    const int64_t begin = spawn_now_ms();
    for (int i = 0; i < 5; i++) assert_true(cluster_serves(url));
    return spawn_now_ms() - begin;
}

static void a_client_that_takes_nothing_slows_nobody(void **state)
{
    enum { LAZY = 4 };
    cluster sys;
    int fd[LAZY];
    (void)state;
    assert_true(CLUSTER(&sys, spawn_long_model(), "--threads", "1"));
    const int64_t alone_ms = time_of_a_few(sys.url);
    json_t *r = cluster_request("the end of", 4000);
    json_object_set_new(r, "stream", json_true());
    for (int i = 0; i < LAZY; i++) {
        fd[i] = ask(sys.url, r);
        (void)setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &(int){PIECE_BYTES}, sizeof(int));
    }
    json_decref(r);
    /* Their answers come to an end in the nodes all the same: nobody there waits for these clients. */
    const int64_t end = spawn_now_ms() + spawn_patience(IDLE_MS * 2);
    while (!look(sys.url).attempts && spawn_before(end)) {}
    while (look(sys.url).attempts && spawn_before(end)) {}
    assert_int_equal(look(sys.url).attempts, 0);
    const int64_t beside_ms = time_of_a_few(sys.url);
    printf("five short answers: %lld ms alone, %lld ms beside %d clients that take nothing\n",
           (long long)alone_ms, (long long)beside_ms, LAZY);
    assert_true(beside_ms < 10 * alone_ms + spawn_patience(1000));
    for (int i = 0; i < LAZY; i++) close(fd[i]);
    assert_true(cluster_wait_idle(sys.url, spawn_patience(IDLE_MS)));
    assert_true(cluster_stop(&sys));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_client_that_leaves_takes_its_pages_with_it, cluster_teardown),
        cmocka_unit_test_teardown(so_does_one_of_the_default_model, cluster_teardown),
        cmocka_unit_test_teardown(a_client_that_takes_nothing_slows_nobody, cluster_teardown),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
