/* A crowd that wants nothing but places: connections that say nothing, that drip a head or a body, that read
 * nothing of what they asked for, and that send noise; each that is cut off comes again after a second.
 * Beside them one client that behaves, health and metrics. BATON_ATTACK=N: N such connections against the
 * default limit (100 against a limit of 32 if not set). BATON_ATTACK_MODEL=FILE: another model than the
 * little one. */
#include "base/clock.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/raw_http.h"
#include "tests/helpers/cluster/storm.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    READY_MS = 120000,
    ANSWER_MS = 60000,
    MAX_CROWD = 4096,
    MAX_TOKENS = 32,
    GROWTH_MAX_MB = 48,
    STEP_MS = 20,
    AGAIN_MS = 1000
};
typedef enum kind { IDLE, SLOW_HEAD, SLOW_BODY, SLOW_READER, NOISE, KINDS } kind;

static spawn *gateway, *prefill, *decode;
static char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
static uint64_t crowd, streams;

/* ---- the crowd, in a process of its own ---- */

typedef struct shared {
    volatile uint64_t dials;
} shared;
static shared *told;

static void say_first(int fd, kind k, uint64_t n)
{
    static const char metrics[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    char noise[200];
    if (k == SLOW_HEAD) (void)send(fd, "GET /v1/models HTTP/1.1\r\nHost: x\r\nX: ", 38, MSG_NOSIGNAL);
    if (k == SLOW_BODY)
        (void)send(fd, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n", 65,
                   MSG_NOSIGNAL);
    for (int i = 0; k == SLOW_READER && i < 4; i++) (void)send(fd, metrics, sizeof metrics - 1, MSG_NOSIGNAL);
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(i * 37 + n * 11);
    if (k == NOISE) (void)send(fd, noise, sizeof noise, MSG_NOSIGNAL);
}

/* False: it has ended. */
static bool go_on(int fd, kind k)
{
    char byte[512];
    if ((k == SLOW_HEAD || k == SLOW_BODY) && send(fd, "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno != EAGAIN)
        return false;
    if (k == SLOW_READER) return recv(fd, byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
    const ssize_t n = recv(fd, byte, sizeof byte, MSG_DONTWAIT);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static void be_a_crowd(void)
{
    static int fds[MAX_CROWD];
    static int64_t due_ms[MAX_CROWD];
    const struct timespec step = {0, STEP_MS * 1000000L};
    for (uint64_t i = 0; i < crowd; i++) fds[i] = -1;
    for (;; (void)nanosleep(&step, NULL))
        for (uint64_t i = 0; i < crowd; i++) {
            const kind k = (kind)(i % KINDS);
            if (fds[i] >= 0 && go_on(fds[i], k)) continue;
            if (fds[i] >= 0) {
                (void)close(fds[i]);
                fds[i] = -1;
                due_ms[i] = spawn_now_ms() + AGAIN_MS;
            }
            if (spawn_now_ms() < due_ms[i] || (fds[i] = raw_dial(url)) < 0) continue;
            told->dials++;
            say_first(fds[i], k, i);
        }
}

static pid_t begin_crowd(void)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_a_crowd();
    }
    return pid;
}

/* ---- the client that behaves ---- */

enum { MAX_GAPS = 8192 };
typedef struct figures {
    double ttft[MAX_GAPS], gaps[MAX_GAPS], health[MAX_GAPS]; /* ms */
    size_t ttft_len, gaps_len, health_len;
} figures;

static double ms_since(int64_t us) { return (double)(bt_clock_us() - us) / 1000; }

static void stream(figures *f)
{
    static char text[1 << 20];
    char request[512];
    static const char body[] = "{\"prompt\":\"The end of the day was\",\"max_tokens\":32,\"stream\":true,"
                               "\"temperature\":0,\"logit_bias\":{\"2\":-100,\"260\":-100}}";
    const int64_t begin = bt_clock_us();
    const int fd = raw_dial(url);
    assert_true(fd >= 0);
    (void)snprintf(
        request, sizeof request,
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        sizeof body - 1, body);
    assert_true(raw_say(fd, request, strlen(request)));
    size_t len = 0, events = 0;
    int64_t before = begin;
    for (;;) {
        const ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
        if (n <= 0) break;
        len += (size_t)n;
        text[len] = 0;
        const size_t seen = raw_count(text, "data: {");
        if (seen == events) continue;
        if (events == 0) f->ttft[f->ttft_len++] = ms_since(begin);
        else if (f->gaps_len < MAX_GAPS) f->gaps[f->gaps_len++] = ms_since(before);
        before = bt_clock_us();
        events = seen;
    }
    (void)close(fd);
    if (!strstr(text, "data: [DONE]")) fail_msg("no whole answer: %.400s", text);
}

static void look(figures *f, const char *path)
{
    static char text[1 << 17];
    char request[128];
    const int64_t begin = bt_clock_us();
    const int fd = raw_dial(url);
    assert_true(fd >= 0);
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    assert_true(raw_say(fd, request, strlen(request)));
    const bool is_whole = raw_hear_end(fd, text, sizeof text, spawn_patience(ANSWER_MS));
    (void)close(fd);
    if (!is_whole || !strstr(text, "HTTP/1.1 200")) fail_msg("%s: %.200s", path, text);
    f->health[f->health_len++] = ms_since(begin);
}

static void behave(figures *f)
{
    for (uint64_t i = 0; i < streams; i++) {
        stream(f);
        look(f, "/health");
        look(f, "/metrics");
    }
}

/* ---- figures ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(double *values, size_t len, double q)
{
    if (len == 0) return 0;
    qsort(values, len, sizeof *values, by_size);
    return values[(size_t)((double)(len - 1) * q + 0.5)];
}

static void print(const char *when, figures *f)
{
    printf("%s: first token p50 %.1f ms, p99 %.1f ms; between tokens p50 %.1f ms, p99 %.1f ms; health and "
           "metrics p50 "
           "%.1f ms, p99 %.1f ms, %zu of %zu answered\n",
           when, quantile(f->ttft, f->ttft_len, 0.5), quantile(f->ttft, f->ttft_len, 0.99),
           quantile(f->gaps, f->gaps_len, 0.5), quantile(f->gaps, f->gaps_len, 0.99),
           quantile(f->health, f->health_len, 0.5), quantile(f->health, f->health_len, 0.99), f->health_len,
           (size_t)(2 * streams));
}

static long rss_kb(void)
{
    char path[64];
    long pages = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)spawn_pid(gateway));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    (void)fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void a_crowd_that_wants_only_places_shuts_nobody_out(void **state)
{
    static figures warm, alone, among;
    (void)state;
    behave(&warm);
    const long before = rss_kb();
    behave(&alone);
    const pid_t pid = begin_crowd();
    for (const int64_t end = spawn_now_ms() + spawn_patience(20000);
         told->dials < crowd && spawn_before(end);)
        spawn_nap();
    behave(&among);
    const long during = rss_kb();
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    look(&warm, "/health");
    const long after = rss_kb();
    print("alone", &alone);
    print("in the crowd", &among);
    printf("%llu connections that want nothing, dialled %llu times; resident gateway %ld KB before, %ld "
           "during, %ld "
           "after\n",
           (unsigned long long)crowd, (unsigned long long)told->dials, before, during, after);
    assert_true(told->dials >= crowd);
    if (!spawn_is_sanitized()) assert_true(during - before < GROWTH_MAX_MB * 1024);
}

static int start(void **state)
{
    (void)state;
    const bool is_full = getenv("BATON_ATTACK") != NULL;
    crowd = storm_number("BATON_ATTACK", 100);
    if (crowd > MAX_CROWD) crowd = MAX_CROWD;
    const char *given = getenv("BATON_ATTACK_MODEL"), *model = given ? given : spawn_tiny_model(1);
    streams = is_full && !given ? 300 : 5;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!model || told == MAP_FAILED) return -1;
    gateway = SPAWN("baton-gateway", "-m", model, "--port", "0", "--control", "tcp://127.0.0.1:*",
                    "--max-connections", is_full ? "256" : "32");
    if (!cluster_find_gateway(url, control, gateway, spawn_patience(READY_MS))) return -1;
    decode = SPAWN("baton-decode", "-m", model, "--gateway", control, "--threads", "1", "--listen",
                   "tcp://127.0.0.1:*");
    prefill = SPAWN("baton-prefill", "-m", model, "--gateway", control, "--threads", "1");
    return cluster_wait_health(url, 200, spawn_patience(READY_MS)) ? 0 : -1;
}

static int stop(void **state)
{
    spawn *all[] = {prefill, decode, gateway};
    bool ended = true;
    for (size_t i = 0; i < 3; i++) ended = cluster_end(all[i], spawn_patience(10000)) && ended;
    return cluster_teardown(state) || !ended ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_crowd_that_wants_only_places_shuts_nobody_out)};
    spawn_setup();
    client_setup();
    const int rc = cmocka_run_group_tests(tests, start, stop);
    client_cleanup();
    spawn_cleanup();
    return rc;
}
