/* The lines on what a process waits for, as they reach a pipe and a terminal. */
#include "base/clock.h"
#include "base/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { PATIENCE_MS = 60000 };

static int kept_stderr;

/* stderr becomes fd, which is closed. */
static void take_stderr(int fd)
{
    kept_stderr = dup(STDERR_FILENO);
    assert_true(kept_stderr >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
}

static void give_stderr_back(void)
{
    assert_true(dup2(kept_stderr, STDERR_FILENO) >= 0);
    close(kept_stderr);
}

/* Appends what comes to text until `want` stands in it. */
static void read_until(int fd, char *text, size_t cap, const char *want)
{
    const int64_t end_ms = bt_clock_ms() + PATIENCE_MS;
    while (!strstr(text, want)) {
        const size_t n = strlen(text);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (bt_clock_ms() > end_ms || n + 1 >= cap) fail_msg("no '%s' in '%s'", want, text);
        if (poll(&p, 1, 100) <= 0) continue;
        const ssize_t got = read(fd, text + n, cap - 1 - n);
        assert_true(got > 0);
        text[n + (size_t)got] = '\0';
    }
}

static void a_pipe_gets_one_line_that_stays(void **state)
{
    (void)state;
    int fd[2];
    char text[1000] = "";
    assert_int_equal(pipe(fd), 0);
    take_stderr(fd[1]);
    bt_wait_setup(BT_WAIT_STDERR);
    bt_wait_tell(NULL, "too short to be told", 0, 0);
    bt_wait_end();
    bt_wait_tell(NULL, "starting the nodes", 0, 0);
    read_until(fd[0], text, sizeof text, "...\n");
    for (uint64_t i = 1; i < 100; i++) bt_wait_tell(NULL, "starting the nodes", i, 100);
    bt_wait_end();
    bt_wait_end(); /* nothing is told */
    bt_wait_setup(BT_WAIT_SILENT);
    bt_wait_tell(NULL, "silent", 0, 0);
    bt_wait_end();
    give_stderr_back();
    const size_t n = strlen(text);
    const ssize_t rest = read(fd[0], text + n, sizeof text - 1 - n);
    assert_int_equal(rest, 0);
    assert_string_equal(text, "starting the nodes ...\n");
    close(fd[0]);
}

static void a_terminal_gets_one_line_that_is_redrawn_and_erased(void **state)
{
    (void)state;
    int master, slave;
    char text[4000] = "", *at;
    const struct winsize size = {.ws_row = 24, .ws_col = 30};
    setenv("TERM", "xterm", 1);
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    take_stderr(slave);
    bt_wait_setup(BT_WAIT_STDERR);
    bt_wait_tell(NULL, "packing", 1, 4);
    read_until(master, text, sizeof text, "\r\033[Kpacking: 25 %");
    bt_wait_tell(NULL, "packing", 2, 4);
    read_until(master, text, sizeof text, "\r\033[Kpacking: 50 %");
    bt_wait_tell(NULL, "a text that is too wide for a terminal of 30 columns", 0, 0);
    read_until(master, text, sizeof text, "\r\033[Ka text that is too wide for ");
    bt_wait_end();
    at = strstr(text, "a text");
    read_until(master, at, sizeof text - (size_t)(at - text), "\r\033[K");
    bt_wait_setup(BT_WAIT_SILENT);
    give_stderr_back();
    assert_string_equal(at, "a text that is too wide for a\r\033[K");
    assert_null(strchr(text, '\n'));
    close(master);
}

static void a_dumb_terminal_gets_lines(void **state)
{
    (void)state;
    int master, slave;
    char text[1000] = "";
    setenv("TERM", "dumb", 1);
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    take_stderr(slave);
    bt_wait_setup(BT_WAIT_STDERR);
    bt_wait_tell(NULL, "packing", 0, 0);
    read_until(master, text, sizeof text, "\n");
    bt_wait_end();
    bt_wait_setup(BT_WAIT_SILENT);
    give_stderr_back();
    assert_string_equal(text, "packing ...\r\n");
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_gets_one_line_that_stays),
        cmocka_unit_test(a_terminal_gets_one_line_that_is_redrawn_and_erased),
        cmocka_unit_test(a_dumb_terminal_gets_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
