/* The live line: on a terminal one that is redrawn and erased, elsewhere a line in ten seconds. */
#include "lab/replay/progress.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int kept = -1; /* stderr, while it is something else */

static void put_stderr(int fd)
{
    assert_int_equal(fflush(stderr), 0);
    kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && dup2(fd, STDERR_FILENO) >= 0);
}

static void get_stderr_back(void)
{
    assert_int_equal(fflush(stderr), 0);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

/* n looks, one every `every_us`, of a load of 40 pieces of text a look. */
static void tell_many(tool_replay_live *l, int n, int64_t every_us)
{
    for (int i = 1; i <= n; i++) {
        const tool_replay_progress now = {
            .now_us = i * every_us,    .sent = (size_t)i,        .of = 100,
            .ended = (size_t)i / 2,    .failed = (size_t)i / 10, .in_flight = (uint32_t)(i % 7),
            .pieces = (uint64_t)i * 40};
        tool_replay_live_tell(l, &now);
    }
}

static void a_file_gets_a_line_in_ten_seconds_and_nothing_is_erased(void **state)
{
    (void)state;
    char path[] = "/tmp/baton-progress-XXXXXX", text[4096] = "";
    const int fd = mkstemp(path);
    tool_replay_live l;
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    put_stderr(fd);
    tool_replay_live_begin(&l);
    tell_many(&l, 50, 500000); /* 25 s */
    tool_replay_live_end(&l);
    get_stderr_back();
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    close(fd);
    assert_string_equal(text,
                        "   10.0 s  20 of 100 sent, 10 ended, 2 failed, 6 in flight  80 pieces of text/s\n"
                        "   20.0 s  40 of 100 sent, 20 ended, 4 failed, 5 in flight  80 pieces of text/s\n");
}

static void a_terminal_gets_one_line_redrawn_with_a_plot_and_erased_at_the_end(void **state)
{
    (void)state;
    static const char erase[] = "\r\033[K";
    char text[8192] = "";
    size_t n = 0;
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (master < 0) skip(); /* no terminals here */
    assert_true(grantpt(master) == 0 && unlockpt(master) == 0);
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    tool_replay_live l;
    put_stderr(slave);
    tool_replay_live_begin(&l);
    tell_many(&l, 8, 250000);
    tool_replay_live_end(&l);
    get_stderr_back();
    for (ssize_t r; n < sizeof text - 1 && (r = read(master, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)r;
    close(slave);
    close(master);
    int drawn = 0;
    for (const char *at = text; (at = strstr(at, erase)); at++) drawn++;
    assert_int_equal(drawn, 9); /* each look, and the end */
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text, "    2.0 s  8 of 100 sent, 4 ended, 0 failed, 1 in flight |"));
    const char *fourth = strstr(text, "    1.0 s  4 of 100"), *rate = strstr(text, " pieces of text/s");
    assert_true(fourth && rate > fourth); /* nothing is known of the rate in the first second */
    assert_non_null(strstr(fourth, "160 pieces of text/s"));
    assert_string_equal(text + n - strlen(erase), erase);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_a_line_in_ten_seconds_and_nothing_is_erased),
        cmocka_unit_test(a_terminal_gets_one_line_redrawn_with_a_plot_and_erased_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
