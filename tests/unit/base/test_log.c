/* What reaches stderr, read back through a pipe. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
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

/* What follows the time stamp of 20 characters. */
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
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
