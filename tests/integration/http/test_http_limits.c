/* A gateway without nodes at the ends of what it has: places, memory for bodies, descriptors; and small
 * things that a browser may say. */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/raw_http.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { READY_MS = 60000, SOON_MS = 10000, PLACES = 4, RESERVE = 256, BURST_BYTES = 200000, BODIES = 16 };

static char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];

static spawn *start(const char *option, const char *value)
{
    spawn *g = SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                     "tcp://127.0.0.1:*", option, value);
    assert_true(cluster_find_gateway(url, control, g, spawn_patience(READY_MS)));
    return g;
}

/* The server's answer to a whole request, in a connection of its own; "" where that did not come in time. */
static const char *ask(const char *request, int64_t ms)
{
    static char text[1 << 16];
    const int fd = raw_dial(url);
    assert_true(fd >= 0);
    text[0] = 0;
    if (raw_say(fd, request, strlen(request))) (void)raw_hear(fd, text, sizeof text, "\r\n\r\n", ms);
    (void)close(fd);
    return text;
}

static bool becomes(const char *request, const char *want)
{
    bool is_so = false;
    for (const int64_t end = spawn_now_ms() + spawn_patience(SOON_MS); !is_so && spawn_before(end);) {
        is_so = strstr(ask(request, spawn_patience(SOON_MS)), want) != NULL;
        if (!is_so) spawn_nap();
    }
    return is_so;
}

/* A body that begins with a burst and then says nothing. Its length stays below what is announced. */
static int begin_body(size_t announced, size_t burst)
{
    static char block[BURST_BYTES];
    char head[128];
    const int fd = raw_dial(url);
    assert_true(fd >= 0);
    (void)snprintf(head, sizeof head,
                   "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", announced);
    memset(block, ' ', sizeof block);
    if (raw_say(fd, head, strlen(head))) (void)raw_say(fd, block, burst);
    return fd;
}

static void a_burst_and_then_silence_shuts_nobody_out(void **state)
{
    static int fds[PLACES + RESERVE];
    (void)state;
    spawn *g = start("--max-connections", "4");
    for (size_t i = 0; i < PLACES + RESERVE; i++) fds[i] = begin_body(BURST_BYTES + 1, BURST_BYTES);
    const char *health =
        ask("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", spawn_patience(SOON_MS));
    assert_non_null(strstr(health, "HTTP/1.1 503"));
    assert_null(strstr(health, "overloaded"));
    /* and those that are silent give way to whoever comes */
    assert_true(becomes("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"));
    for (size_t i = 0; i < PLACES + RESERVE; i++) (void)close(fds[i]);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

static void stalled_bodies_leave_their_memory_to_another(void **state)
{
    int fds[BODIES];
    (void)state;
    spawn *g = start("--max-body", "200000");
    for (size_t i = 0; i < BODIES; i++) fds[i] = begin_body(BURST_BYTES, BURST_BYTES - 1);
    assert_true(becomes("POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        "Content-Length: 40\r\n\r\n                                        ",
                        "HTTP/1.1 400"));
    for (size_t i = 0; i < BODIES; i++) (void)close(fds[i]);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* How many descriptors below `limit` it has open. */
static unsigned open_descriptors(const spawn *g, unsigned limit)
{
    char path[64];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)spawn_pid(g));
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' && strtoul(e->d_name, NULL, 10) < limit;
    (void)closedir(d);
    return n;
}

/* Connections of nodes take all descriptors, and leave them. */
static void hears_again_when_descriptors_are_free_again(void **state)
{
    (void)state;
    static const char models[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    static char text[1 << 12];
    int nodes[64];
    unsigned n = 0;
    struct rlimit before;
    spawn *g = start("--max-connections", "4");
    const unsigned limit = open_descriptors(g, UINT_MAX) + 8; /* what a start needs for a while */
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {.rlim_cur = limit, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    g = start("--max-connections", "4");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (const int64_t at = spawn_now_ms() + spawn_patience(SOON_MS);
         open_descriptors(g, limit) < limit && n < 64 && spawn_before(at); spawn_nap())
        assert_true((nodes[n++] = raw_dial(control)) >= 0);
    assert_int_equal(open_descriptors(g, limit), limit);
    const int fd = raw_dial(url);
    assert_true(fd >= 0 && raw_say(fd, models, sizeof models - 1));
    assert_true(spawn_wait_err(g, "cannot accept a connection", spawn_patience(SOON_MS)));
    assert_false(raw_hear(fd, text, sizeof text, "HTTP", 500)); /* it tries on, and says so once */
    assert_int_equal(raw_count(spawn_err(g), "cannot accept a connection"), 1);
    while (n > 0) (void)close(nodes[--n]);
    assert_true(raw_hear(fd, text, sizeof text, "HTTP/1.1 200", spawn_patience(SOON_MS)));
    (void)close(fd);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* libmicrohttpd cannot read on: its buffer is full, and a line between the chunks has no end. */
static void a_connection_that_cannot_be_read_on_is_cut(void **state)
{
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char *const lines[] = {"1;", "1\r\n{\r\n1;", "1\r\n{\r\n1;x=", "1 "};
    enum { LINES = sizeof lines / sizeof *lines };
    static char extension[100000], text[1 << 12];
    int fds[LINES];
    (void)state;
    spawn *g = start("--idle-timeout", "1h");
    memset(extension, 'e', sizeof extension);
    for (size_t i = 0; i < LINES; i++) {
        assert_true((fds[i] = raw_dial(url)) >= 0);
        if (raw_say(fds[i], head, sizeof head - 1) && raw_say(fds[i], lines[i], strlen(lines[i])))
            (void)raw_say(fds[i], extension, sizeof extension);
    }
    /* One that reads on, and one that says nothing, are left alone. */
    const int slow = begin_body(100, 50), silent = raw_dial(url);
    assert_true(silent >= 0);
    for (size_t i = 0; i < LINES; i++) {
        assert_true(raw_hear_end(fds[i], text, sizeof text, spawn_patience(SOON_MS)));
        (void)close(fds[i]);
    }
    assert_true(raw_say(slow, extension, 50));
    assert_true(raw_hear(slow, text, sizeof text, "HTTP/1.1 400", spawn_patience(SOON_MS)));
    static const char models[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_true(raw_say(silent, models, sizeof models - 1));
    assert_true(raw_hear(silent, text, sizeof text, "HTTP/1.1 200", spawn_patience(SOON_MS)));
    (void)close(slow);
    (void)close(silent);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* A body of a great many chunks of one byte each, as fast as they go: 5 bytes of each are no body. */
static void a_body_in_small_chunks_is_read_to_its_end(void **state)
{
    enum { CHUNKS = 50000, CHUNK = 6 };
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    static char chunks[CHUNKS * CHUNK], text[1 << 12];
    (void)state;
    spawn *g = start("--max-queue", "64");
    for (size_t i = 0; i < CHUNKS; i++) memcpy(chunks + i * CHUNK, "1\r\n \r\n", CHUNK);
    const int fd = raw_dial(url);
    assert_true(fd >= 0 && raw_say(fd, head, sizeof head - 1) && raw_say(fd, chunks, sizeof chunks));
    assert_true(raw_say(fd, "0\r\n\r\n", 5));
    assert_true(raw_hear(fd, text, sizeof text, "HTTP/1.1 400", spawn_patience(SOON_MS)));
    (void)close(fd);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

/* A client that is refused often does not fill the log. */
static void refusals_beyond_some_a_second_are_counted_in_the_log(void **state)
{
    enum { ASKED = 300 };
    unsigned long more = 0;
    (void)state;
    spawn *g = start("--max-queue", "64");
    for (int i = 0; i < ASKED; i++)
        assert_non_null(strstr(ask("GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                                   spawn_patience(SOON_MS)),
                               "HTTP/1.1 404"));
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
    const char *log = spawn_err(g);
    const size_t lines = raw_count(log, "info: 404: ");
    for (const char *at = log; (at = strstr(at, " more requests were answered 4xx")); at++) {
        const char *number = at;
        while (number > log && number[-1] >= '0' && number[-1] <= '9') number--;
        more += strtoul(number, NULL, 10);
    }
    assert_int_equal(lines + more, ASKED);
    assert_true(lines >= 20);
    assert_true(more > 0 || spawn_is_sanitized()); /* a slow gateway answers fewer than 20 a second */
}

/* The gateway's stderr is a pipe that holds one page. The gateway serves on, counts what the pipe did not
 * take, and says so when somebody reads. */
static void a_log_that_nobody_reads_stops_nobody(void **state)
{
    static const char health[] = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static char log[1 << 16];
    char pipe_path[512], port[16];
    (void)state;
    (void)snprintf(pipe_path, sizeof pipe_path, "%s", spawn_path("log"));
    (void)snprintf(port, sizeof port, "%u", cluster_free_port());
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%s", port);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    const int fd = open(pipe_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0 && fcntl(fd, F_SETPIPE_SZ, 4096) >= 4096);
    const char *bin = getenv("BATON_BIN");
    char program[512];
    (void)snprintf(program, sizeof program, "%s/baton-gateway", bin && *bin ? bin : "bin");
    spawn *g = SPAWN("/bin/sh", "-c",
                     "exec \"$1\" -m \"$2\" --port \"$3\" --control 'tcp://127.0.0.1:*' -v 2> \"$4\"", "sh",
                     program, spawn_tiny_model(1), port, pipe_path);
    int there = -1; /* until it listens */
    for (const int64_t end = spawn_now_ms() + spawn_patience(READY_MS); there < 0 && spawn_before(end);)
        if ((there = raw_dial(url)) < 0) spawn_nap();
    assert_true(there >= 0);
    (void)close(there);
    /* A line each, since no node is ready; a page may be large. */
    for (int i = 0; cluster_metric(url, "\nbaton_log_lines_dropped_total ") < 20; i++) {
        assert_true(i < 2000);
        assert_non_null(strstr(ask(health, spawn_patience(SOON_MS)), "HTTP/1.1 503"));
    }
    assert_true(read(fd, log, sizeof log - 1) > 0);
    assert_non_null(strstr(ask(health, spawn_patience(SOON_MS)), "HTTP/1.1 503"));
    memset(log, 0, sizeof log);
    assert_true(read(fd, log, sizeof log - 1) > 0);
    assert_non_null(strstr(log, " lines of this log were dropped"));
    (void)close(fd);
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

static void a_web_page_without_a_key_changes_no_role_where_all_pages_may_ask(void **state)
{
    (void)state;
    spawn *g = start("--cors", "*");
    assert_non_null(strstr(ask("POST /v1/nodes/x/role HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\n"
                               "Authorization: Bearer anything\r\nContent-Length: 17\r\n\r\n"
                               "{\"role\":\"decode\"}",
                               spawn_patience(SOON_MS)),
                           "HTTP/1.1 403"));
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

static void a_page_that_asks_for_no_headers_is_answered(void **state)
{
    (void)state;
    spawn *g = start("--cors", "*");
    const char *text = ask("OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\n"
                           "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers:\r\n\r\n",
                           spawn_patience(SOON_MS));
    assert_non_null(strstr(text, "HTTP/1.1 204"));
    assert_non_null(strstr(text, "Access-Control-Allow-Headers: Authorization, Content-Type"));
    assert_non_null(strstr(text, "Access-Control-Expose-Headers: X-Request-Id, Request-Id, Retry-After"));
    assert_true(cluster_end(g, spawn_patience(SOON_MS)));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_burst_and_then_silence_shuts_nobody_out, cluster_teardown),
        cmocka_unit_test_teardown(stalled_bodies_leave_their_memory_to_another, cluster_teardown),
        cmocka_unit_test_teardown(hears_again_when_descriptors_are_free_again, cluster_teardown),
        cmocka_unit_test_teardown(a_connection_that_cannot_be_read_on_is_cut, cluster_teardown),
        cmocka_unit_test_teardown(a_body_in_small_chunks_is_read_to_its_end, cluster_teardown),
        cmocka_unit_test_teardown(refusals_beyond_some_a_second_are_counted_in_the_log, cluster_teardown),
        cmocka_unit_test_teardown(a_log_that_nobody_reads_stops_nobody, cluster_teardown),
        cmocka_unit_test_teardown(a_web_page_without_a_key_changes_no_role_where_all_pages_may_ask,
                                  cluster_teardown),
        cmocka_unit_test_teardown(a_page_that_asks_for_no_headers_is_answered, cluster_teardown),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, cluster_group_begin, cluster_group_end);
}
