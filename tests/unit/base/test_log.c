/* The text that reaches stderr, read back through a pipe. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

static char line[8192];

/* Everything that `body` writes to stderr lands in `line`. */
#define CAPTURE(body) \
    do { \
        int pipe_fd[2], saved = dup(2); \
        assert_int_equal(pipe(pipe_fd), 0); \
        dup2(pipe_fd[1], 2); \
        close(pipe_fd[1]); \
        body; \
        dup2(saved, 2); \
        close(saved); \
        ssize_t got = read(pipe_fd[0], line, sizeof line - 1); \
        line[got < 0 ? 0 : got] = 0; \
        close(pipe_fd[0]); \
    } while (0)

/* The text behind the time stamp of 20 characters. */
static const char *after_time(void) { return strlen(line) > 21 ? line + 21 : line; }

static void writes_time_program_level_and_text(void **s)
{
    (void)s;
    bt_log_setup("prog", BT_LOG_INFO, false);
    CAPTURE(bt_log(BT_LOG_WARN, "disk %d%% full", 93));
    assert_string_equal(after_time(), "prog warn: disk 93% full\n");
    assert_int_equal(line[10], 'T');
    assert_int_equal(line[19], 'Z');
    CAPTURE(bt_log_request(BT_LOG_INFO, "7f", "done"));
    assert_string_equal(after_time(), "prog info: done (request 7f)\n");
}

static void leaves_out_what_is_below_the_level(void **s)
{
    (void)s;
    bt_log_setup("prog", BT_LOG_WARN, false);
    CAPTURE(bt_log(BT_LOG_INFO, "no"));
    assert_string_equal(line, "");
    assert_true(bt_log_wants(BT_LOG_ERROR));
    assert_false(bt_log_wants(BT_LOG_DEBUG));
}

static void verbose_is_debug_whatever_the_level_says(void **s)
{
    (void)s;
    bt_log_start("prog", &(bt_log_options){.level = BT_LOG_ERROR});
    assert_false(bt_log_wants(BT_LOG_WARN));
    bt_log_start("prog", &(bt_log_options){.level = BT_LOG_ERROR, .format = 1, .verbose = true});
    CAPTURE(bt_log(BT_LOG_DEBUG, "all"));
    assert_non_null(strstr(line, "\"level\":\"debug\""));
}

static void nobody_can_forge_a_line(void **s)
{
    (void)s;
    bt_log_setup("prog", BT_LOG_INFO, false);
    CAPTURE(bt_log(BT_LOG_INFO, "%s",
                   "a\nb\x1b[2J\xff"
                   "\xc3\xa9"));
    assert_string_equal(after_time(), "prog info: a\\x0ab\\x1b[2J\\xff\xc3\xa9\n");
}

static void json_lines_are_json(void **s)
{
    (void)s;
    bt_log_setup("prog", BT_LOG_INFO, true);
    CAPTURE(bt_log_request(BT_LOG_ERROR, "r\"1", "say \"%s\"", "a\\b\n\xff"));
    assert_memory_equal(line, "{\"time\":\"", 9);
    assert_string_equal(strchr(line, ',') + 1,
                        "\"level\":\"error\",\"program\":\"prog\",\"request\":\"r\\\"1\","
                        "\"message\":\"say \\\"a\\\\b\\u000a\\ufffd\\\"\"}\n");
}

static void long_lines_are_cut_and_stay_lines(void **s)
{
    (void)s;
    char text[5000];
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int json = 0; json < 2; json++) {
        bt_log_setup("prog", BT_LOG_INFO, json);
        CAPTURE(bt_log(BT_LOG_INFO, "%s", text));
        assert_in_range(strlen(line), 1950, 2048);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        assert_non_null(strstr(line, json ? "...\"}\n" : "...\n"));
    }
}

static void repeated_lines_are_counted_not_written(void **s)
{
    (void)s;
    bt_log_limit limit = {.every_ms = 1000000};
    bt_log_setup("prog", BT_LOG_INFO, false);
    CAPTURE(for (int i = 0; i < 5; i++) bt_log_ratelimited(&limit, BT_LOG_WARN, "again %d", i));
    assert_string_equal(after_time(), "prog warn: again 0\n");
    limit.next_ms = 0; /* as if the time had passed */
    CAPTURE(bt_log_ratelimited(&limit, BT_LOG_WARN, "again"));
    assert_string_equal(after_time(), "prog warn: again (and 4 more like this)\n");
}

/* ---- a log that nobody reads --------------------------------------------------------------------- */

enum { LINES = 2000 };

/* Reads what is there, without waiting. How many whole lines came, and whether one says that n were dropped.
 */
static unsigned drain(int fd, uint64_t *ret_said)
{
    static char text[1 << 20];
    size_t len = 0;
    unsigned lines = 0;
    for (struct pollfd p = {.fd = fd, .events = POLLIN};
         len + 1 < sizeof text && poll(&p, 1, 0) == 1 && (p.revents & POLLIN);) {
        const ssize_t n = read(fd, text + len, sizeof text - 1 - len);
        if (n <= 0) break;
        len += (size_t)n;
    }
    text[len] = 0;
    *ret_said = 0;
    assert_true(len == 0 || text[len - 1] == '\n');
    for (char *l = text, *end; (end = strchr(l, '\n')); l = end + 1) {
        const char *said = strstr(l, "prog warn: ");
        *end = 0;
        assert_int_equal(l[19], 'Z'); /* every line begins with its time: none is a piece of another */
        if (said && strstr(said, " lines of this log were dropped"))
            *ret_said += strtoull(said + 11, NULL, 10);
        else lines++;
    }
    return lines;
}

static void *write_lines(void *ud)
{
    (void)ud;
    for (int i = 0; i < LINES; i++) bt_log(BT_LOG_INFO, "line %d of those that nobody reads", i);
    return NULL;
}

/* Two threads write at once into something that is never read meanwhile; SIGALRM ends the program if they
 * wait. */
static void fill_and_read(const int ends[2])
{
    pthread_t other;
    uint64_t said = 0;
    const int saved = dup(2);
    const uint64_t before = bt_log_dropped();
    bt_log_setup("prog", BT_LOG_INFO, false);
    assert_int_equal(dup2(ends[1], 2), 2);
    (void)alarm(60);
    const int made = pthread_create(&other, NULL, write_lines, NULL);
    (void)write_lines(NULL);
    (void)pthread_join(other, NULL);
    const int flags = fcntl(2, F_GETFL);
    dup2(saved, 2);
    (void)alarm(0);
    assert_int_equal(made, 0);
    assert_int_equal(flags & O_NONBLOCK, 0); /* who shares stderr finds it as it was */
    const uint64_t lost = bt_log_dropped() - before;
    const unsigned there = drain(ends[0], &said);
    assert_true(there > 10 && lost > 100);
    assert_int_equal(there + lost, 2 * LINES);
    assert_int_equal(said, 0);
    assert_int_equal(dup2(ends[1], 2), 2);
    bt_log(BT_LOG_INFO, "somebody reads again");
    dup2(saved, 2);
    assert_int_equal(drain(ends[0], &said), 1);
    assert_int_equal(said, lost);
    close(saved);
    close(ends[0]);
    close(ends[1]);
}

static void a_pipe_that_nobody_reads_stops_nobody(void **s)
{
    int ends[2];
    (void)s;
    assert_int_equal(pipe(ends), 0);
    fill_and_read(ends);
}

static void a_socket_that_nobody_reads_stops_nobody(void **s)
{
    int ends[2];
    (void)s;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fill_and_read(ends);
}

/* A terminal takes lines until it is stopped (Ctrl-S). */
static void a_stopped_terminal_stops_nobody(void **s)
{
    uint64_t said;
    (void)s;
    const int ours = posix_openpt(O_RDWR | O_NOCTTY);
    if (ours < 0 || grantpt(ours) < 0 || unlockpt(ours) < 0) {
        print_message("no terminal can be made here\n");
        skip();
    }
    const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY), saved = dup(2);
    assert_true(theirs >= 0);
    const uint64_t before = bt_log_dropped();
    bt_log_setup("prog", BT_LOG_INFO, false);
    assert_int_equal(tcflow(theirs, TCOOFF), 0);
    dup2(theirs, 2);
    (void)alarm(60);
    bt_log(BT_LOG_INFO, "nobody sees this");
    (void)alarm(0);
    assert_int_equal(bt_log_dropped() - before, 1);
    assert_int_equal(tcflow(theirs, TCOON), 0);
    bt_log(BT_LOG_INFO, "but this");
    dup2(saved, 2);
    assert_int_equal(drain(ours, &said), 1);
    assert_int_equal(said, 1);
    close(saved);
    close(theirs);
    close(ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_time_program_level_and_text),
        cmocka_unit_test(leaves_out_what_is_below_the_level),
        cmocka_unit_test(verbose_is_debug_whatever_the_level_says),
        cmocka_unit_test(nobody_can_forge_a_line),
        cmocka_unit_test(json_lines_are_json),
        cmocka_unit_test(long_lines_are_cut_and_stay_lines),
        cmocka_unit_test(repeated_lines_are_counted_not_written),
        cmocka_unit_test(a_pipe_that_nobody_reads_stops_nobody),
        cmocka_unit_test(a_socket_that_nobody_reads_stops_nobody),
        cmocka_unit_test(a_stopped_terminal_stops_nobody),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
