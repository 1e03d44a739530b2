/* bt_exec: the program alone, and behind a runner's words. */
#include "base/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* The exit code of `path argv..` started with this runner, 99 where bt_exec came back. */
static int run(const char *runner, const char *path, const char *const *argv)
{
    int status = 0;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (runner) (void)setenv("BATON_RUNNER", runner, 1);
        else (void)unsetenv("BATON_RUNNER");
        bt_exec(path, argv);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void without_a_runner_the_program_gets_its_words(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "exit $1", "x", "7", NULL};
    assert_int_equal(run(NULL, "/bin/sh", argv), 7);
    assert_int_equal(run("", "/bin/sh", argv), 7);
}

static void a_runner_gets_its_words_then_the_path_then_the_rest(void **state)
{
    (void)state;
    const char *const argv[] = {"name", "-c", "exit 8", NULL};
    assert_int_equal(run("env A=1  nice -n 1", "/bin/sh", argv), 8);
    const char *const none[] = {"name", NULL};
    assert_int_equal(run("test -d", "/", none), 0); /* the path stands where argv[0] was */
    assert_int_equal(run("test -f", "/", none), 1);
}

static void a_runner_that_is_none_or_too_long_comes_back(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "exit 7", NULL};
    char many[2 * 16 + 1] = "", text[2000];
    for (int i = 0; i < 16; i++) strcat(many, "x ");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(run("/nowhere/runner", "/bin/sh", argv), 99);
    assert_int_equal(run(many, "/bin/sh", argv), 99);
    assert_int_equal(run(text, "/bin/sh", argv), 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_runner_the_program_gets_its_words),
        cmocka_unit_test(a_runner_gets_its_words_then_the_path_then_the_rest),
        cmocka_unit_test(a_runner_that_is_none_or_too_long_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
