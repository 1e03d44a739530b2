/* Programs that work for a command: what they write, how they end, and that none runs longer than it may. */
#include "tools/pull/child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { LONG_MS = 60000, MAX_SAID = 64 };

static bt_err keep(void *ud, const uint8_t *bytes, size_t n, bt_fault *fault)
{
    return bt_buf_add(ud, bytes, n) == BT_OK ? BT_OK : bt_fail(fault, BT_ELIMIT, "too much");
}

/* Runs a line of sh. */
static bt_err sh(int *ret_status, const char *line, const char *setting, bt_buf *out, bt_buf *said,
                 int64_t limit_ms, bt_fault *fault)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    return tool_child_run(ret_status, argv, setting, out ? keep : NULL, out, said, limit_ms, fault);
}

static void what_a_program_writes_comes_apart_and_its_exit_code_is_told(void **state)
{
    (void)state;
    bt_buf out, said;
    int status = -1;
    bt_buf_init(&out, 64);
    bt_buf_init(&said, MAX_SAID);
    assert_int_equal(sh(&status, "echo $A; echo oops >&2; exit 3", "A=one", &out, &said, LONG_MS, NULL),
                     BT_OK);
    assert_int_equal(status, 3);
    assert_string_equal(bt_buf_text(&out), "one\n");
    assert_string_equal(bt_buf_text(&said), "oops\n");
    bt_buf_clear(&said);
    assert_int_equal(sh(&status, "cat; echo one; kill -9 $$", NULL, NULL, &said, LONG_MS, NULL), BT_OK);
    assert_int_equal(status, 128 + SIGKILL);
    assert_string_equal(bt_buf_text(&said), "one\n");
    bt_buf_done(&out);
    bt_buf_done(&said);
}

static void a_program_that_is_not_there_has_its_own_code(void **state)
{
    (void)state;
    const char *const argv[] = {"no-such-program-anywhere", NULL};
    bt_buf said;
    int status = -1;
    bt_buf_init(&said, MAX_SAID);
    assert_int_equal(tool_child_run(&status, argv, NULL, NULL, NULL, &said, LONG_MS, NULL), BT_OK);
    assert_int_equal(status, TOOL_CHILD_NOT_FOUND);
    bt_buf_done(&said);
}

static void a_program_that_writes_too_much_or_takes_too_long_is_ended(void **state)
{
    (void)state;
    bt_buf out, said;
    bt_fault fault = {""};
    int status = -1;
    bt_buf_init(&out, 1000);
    bt_buf_init(&said, MAX_SAID);
    assert_int_equal(sh(&status, "exec yes", NULL, &out, &said, LONG_MS, &fault), BT_ELIMIT);
    assert_string_equal(fault.text, "too much");
    assert_int_equal(status, 128 + SIGKILL);
    assert_int_equal(sh(&status, "exec cat < /dev/zero > /dev/null", NULL, NULL, &said, 50, &fault),
                     BT_ELIMIT);
    assert_string_equal(fault.text, "sh took more than 0 s");
    assert_int_equal(status, 128 + SIGKILL);
    bt_buf_done(&out);
    bt_buf_done(&said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_program_writes_comes_apart_and_its_exit_code_is_told),
        cmocka_unit_test(a_program_that_is_not_there_has_its_own_code),
        cmocka_unit_test(a_program_that_writes_too_much_or_takes_too_long_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
