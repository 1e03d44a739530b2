/* Files are compared with their hashes once for each state: not again while nobody writes to them, always
 * after that, and always where there is no cache or the file is too new to have a name. */
#include "base/checked.h"
#include "tests/helpers/temp_folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[TEMP_FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    return temp_folder_new(dir) && setenv("BATON_CACHE_DIR", dir, 1) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return temp_folder_remove(dir);
}

typedef struct counted {
    atomic_int runs;
    bt_err answer;
} counted;

static bt_err count(void *ud, bt_fault *fault)
{
    counted *c = ud;
    atomic_fetch_add(&c->runs, 1);
    return c->answer < 0 ? bt_fail(fault, c->answer, "constant 3 is damaged") : BT_OK;
}

static bt_file_state named(uint8_t number, bool is_settled)
{
    bt_file_state s = {.is_settled = is_settled};
    memset(s.name, number, sizeof s.name);
    return s;
}

static void a_state_is_checked_once_and_another_anew(void **state)
{
    (void)state;
    counted c = {0};
    const bt_file_state one = named(1, true), two = named(2, true);
    bool ran;
    assert_int_equal(bt_checked_once(&ran, &one, count, &c, NULL), BT_OK);
    assert_true(ran && c.runs == 1);
    assert_int_equal(bt_checked_once(&ran, &one, count, &c, NULL), BT_OK);
    assert_true(!ran && c.runs == 1);
    assert_int_equal(bt_checked_once(&ran, &two, count, &c, NULL), BT_OK);
    assert_true(ran && c.runs == 2);
}

static void what_is_refused_is_refused_each_time_with_the_checks_words(void **state)
{
    (void)state;
    counted c = {.answer = BT_EFORMAT};
    const bt_file_state s = named(3, true);
    bool ran;
    for (int i = 1; i <= 2; i++) {
        bt_fault f = {""};
        assert_int_equal(bt_checked_once(&ran, &s, count, &c, &f), BT_EFORMAT);
        assert_string_equal(f.text, "constant 3 is damaged");
        assert_true(ran && c.runs == i);
    }
}

static void a_new_file_and_a_missing_cache_mean_that_it_runs(void **state)
{
    (void)state;
    counted c = {0};
    const bt_file_state fresh = named(4, false), s = named(5, true);
    bool ran;
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(bt_checked_once(&ran, &fresh, count, &c, NULL), BT_OK);
        assert_true(ran && c.runs == i);
    }
    assert_int_equal(setenv("BATON_CACHE_DIR", "/dev/null/none", 1), 0);
    for (int i = 3; i <= 4; i++) {
        assert_int_equal(bt_checked_once(&ran, &s, count, &c, NULL), BT_OK);
        assert_true(ran && c.runs == i);
    }
    assert_int_equal(setenv("BATON_CACHE_DIR", dir, 1), 0);
}

static void *check_on_a_thread(void *ud)
{
    const bt_file_state s = named(6, true);
    bool ran;
    assert_int_equal(bt_checked_once(&ran, &s, count, ud, NULL), BT_OK);
    return NULL;
}

static void who_opens_together_checks_once(void **state)
{
    (void)state;
    counted c = {0};
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, check_on_a_thread, &c), 0);
    for (size_t i = 0; i < 4; i++) pthread_join(t[i], NULL);
    assert_int_equal(c.runs, 1);
}

static void a_damaged_mark_is_no_mark(void **state)
{
    (void)state;
    counted c = {0};
    const bt_file_state s = named(7, true);
    char path[400];
    bool ran;
    assert_int_equal(bt_checked_once(&ran, &s, count, &c, NULL), BT_OK);
    snprintf(path, sizeof path, "%s/checked/07070707070707070707070707070707.ok1", dir);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(bt_checked_once(&ran, &s, count, &c, NULL), BT_OK);
    assert_true(ran && c.runs == 2);
}

/* The name of a real file's state: by everything that a write changes. */
static void a_write_gives_a_file_another_name(void **state)
{
    (void)state;
    char path[300];
    bt_file_state a, b;
    snprintf(path, sizeof path, "%s/file", dir);
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, "abc", 3) == 3);
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(bt_file_state_of(&a, fd, NULL), BT_OK);
    assert_false(a.is_settled);
    assert_int_equal(bt_file_state_of(&b, fd, NULL), BT_OK);
    assert_memory_equal(a.name, b.name, sizeof a.name);
    assert_int_equal(futimens(fd, old), 0); /* hides mtime; ctime stays now */
    assert_int_equal(bt_file_state_of(&b, fd, NULL), BT_OK);
    assert_false(b.is_settled);
    assert_memory_not_equal(a.name, b.name, sizeof a.name);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_checked_once_and_another_anew),
        cmocka_unit_test(what_is_refused_is_refused_each_time_with_the_checks_words),
        cmocka_unit_test(a_new_file_and_a_missing_cache_mean_that_it_runs),
        cmocka_unit_test(who_opens_together_checks_once),
        cmocka_unit_test(a_damaged_mark_is_no_mark),
        cmocka_unit_test(a_write_gives_a_file_another_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
