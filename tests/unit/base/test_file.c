/* Replacing a file whole, its mode, the limit on reading, and locks. */
#include "base/file.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 8];

static int make_dir(void **s)
{
    (void)s;
    if (!temp_folder_new(dir)) return -1;
    snprintf(path, sizeof path, "%s/f", dir);
    return 0;
}

static int remove_dir(void **s)
{
    (void)s;
    unlink(path);
    return rmdir(dir); /* fails if a temporary file was left */
}

static void replaces_the_content_and_sets_the_mode(void **s)
{
    (void)s;
    bt_buf b;
    struct stat st;
    bt_buf_init(&b, 100);
    assert_int_equal(bt_file_replace(path, "old and long", 12, 0644, NULL), BT_OK);
    assert_int_equal(bt_file_replace(path, "new", 3, 0600, NULL), BT_OK);
    assert_int_equal(bt_file_read(&b, path, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&b), "new");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    bt_buf_done(&b);
}

static void the_mode_is_less_the_umask(void **s)
{
    (void)s;
    struct stat st;
    const mode_t before = umask(027);
    const bt_err e = bt_file_replace(path, "new", 3, 0666, NULL);
    assert_int_equal(umask(before), 027);
    assert_int_equal(e, BT_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

static void refuses_a_file_past_the_limit(void **s)
{
    (void)s;
    bt_buf b;
    bt_fault f;
    bt_buf_init(&b, 11);
    assert_int_equal(bt_file_replace(path, "twelve bytes", 12, 0644, NULL), BT_OK);
    assert_int_equal(bt_file_read(&b, path, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "more than 11 bytes"));
    bt_buf_done(&b);
}

static void says_which_file_is_not_there(void **s)
{
    (void)s;
    bt_buf b;
    bt_fault f;
    bt_buf_init(&b, 11);
    assert_int_equal(bt_file_read(&b, "no-such-file", &f), BT_EIO);
    assert_non_null(strstr(f.text, "'no-such-file'"));
    assert_int_equal(bt_file_replace("no-such-dir/f", "", 0, 0600, &f), BT_EIO);
    bt_buf_done(&b);
}

static void a_directory_or_device_is_not_replaced(void **s)
{
    (void)s;
    bt_fault f;
    struct stat st;
    char pipe_path[600];
    snprintf(pipe_path, sizeof pipe_path, "%s.pipe", path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(bt_file_replace(pipe_path, "x", 1, 0600, &f), BT_EARG);
    assert_non_null(strstr(f.text, "is no regular file"));
    assert_int_equal(stat(pipe_path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    unlink(pipe_path);
    assert_int_equal(bt_file_replace(".", "x", 1, 0600, NULL), BT_EARG);
}

static void trying_tells_what_begin_would_and_leaves_nothing(void **s)
{
    (void)s;
    struct stat st;
    bt_fault f;
    char in_none[600];
    unlink(path);
    assert_int_equal(bt_file_try(path, NULL), BT_OK); /* and leaves nothing: see remove_dir */
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(bt_file_replace(path, "kept", 4, 0600, NULL), BT_OK);
    assert_int_equal(bt_file_try(path, NULL), BT_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 4);
    snprintf(in_none, sizeof in_none, "%s/none/x", dir);
    assert_int_equal(bt_file_try(in_none, &f), BT_EIO);
    assert_non_null(strstr(f.text, "No such file"));
    assert_int_equal(bt_file_try(dir, NULL), BT_EARG);
}

static int names_in_dir(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void a_new_file_has_no_name_until_it_is_kept(void **s)
{
    (void)s;
    bt_file_new f;
    struct stat st;
    const uint8_t *map;
    size_t bytes;
    unlink(path);
    assert_int_equal(bt_file_begin(&f, path, NULL), BT_OK);
    assert_int_equal(write(f.fd, "half", 4), 4);
    assert_int_equal(stat(path, &st), -1);
    bt_file_done(&f); /* and leaves nothing: see remove_dir */
    assert_int_equal(stat(path, &st), -1);

    assert_int_equal(bt_file_begin(&f, path, NULL), BT_OK);
    assert_int_equal(write(f.fd, "whole", 5), 5);
    assert_int_equal(bt_file_keep(&f, 0640, NULL), BT_OK);
    bt_file_done(&f);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(bt_file_map(&map, &bytes, NULL, path, NULL), BT_OK);
    assert_int_equal(bytes, 5);
    assert_memory_equal(map, "whole", 5);
    bt_file_unmap(map, bytes);
}

/* Also beside an older file of the name, which stays as it was. */
static void a_killed_writer_leaves_nothing(void **s)
{
    (void)s;
    for (int older = 0; older < 2; older++) {
        struct stat st;
        int status;
        unlink(path);
        if (older) assert_int_equal(bt_file_replace(path, "old", 3, 0600, NULL), BT_OK);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            bt_file_new f;
            if (bt_file_begin(&f, path, NULL) == BT_OK && write(f.fd, "half", 4) == 4) (void)raise(SIGKILL);
            _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(names_in_dir(), older);
        assert_int_equal(stat(path, &st), older ? 0 : -1);
        if (older) assert_int_equal(st.st_size, 3);
    }
}

static void maps_no_empty_file_and_no_folder(void **s)
{
    (void)s;
    const uint8_t *map;
    size_t bytes;
    unlink(path);
    assert_int_equal(bt_file_map(&map, &bytes, NULL, path, NULL), BT_EIO);
    assert_int_equal(bt_file_map(&map, &bytes, NULL, dir, NULL), BT_EFORMAT);
    assert_int_equal(bt_file_replace(path, "", 0, 0600, NULL), BT_OK);
    assert_int_equal(bt_file_map(&map, &bytes, NULL, path, NULL), BT_EFORMAT);
}

static void only_one_has_the_lock_of_a_file(void **s)
{
    (void)s;
    const int fd = bt_file_lock(path, 0644, false);
    assert_true(fd >= 0);
    assert_int_equal(bt_file_lock(path, 0644, false), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    close(fd);
    const int next = bt_file_lock(path, 0644, false);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(bt_file_lock(dir, 0644, false), -1);
    assert_true(errno == EISDIR || errno == EINVAL);
}

static void *wait_for_lock(void *ud)
{
    *(int *)ud = bt_file_lock(path, 0644, true);
    return NULL;
}

/* Whoever waited has the file that bears the name afterwards, however the two went in turn. */
static void the_lock_is_of_the_file_that_has_the_name(void **s)
{
    (void)s;
    for (int round = 0; round < 50; round++) {
        struct stat mine, named;
        pthread_t thread;
        int waited = -1;
        const int fd = bt_file_lock(path, 0644, true);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &waited), 0);
        if (round % 2) sched_yield();
        assert_int_equal(bt_file_replace(path, "new", 3, 0644, NULL), BT_OK);
        close(fd);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(fstat(waited, &mine), 0);
        assert_int_equal(stat(path, &named), 0);
        assert_int_equal(mine.st_ino, named.st_ino);
        close(waited);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_the_content_and_sets_the_mode),
        cmocka_unit_test(the_mode_is_less_the_umask),
        cmocka_unit_test(refuses_a_file_past_the_limit),
        cmocka_unit_test(says_which_file_is_not_there),
        cmocka_unit_test(a_directory_or_device_is_not_replaced),
        cmocka_unit_test(trying_tells_what_begin_would_and_leaves_nothing),
        cmocka_unit_test(a_new_file_has_no_name_until_it_is_kept),
        cmocka_unit_test(a_killed_writer_leaves_nothing),
        cmocka_unit_test(maps_no_empty_file_and_no_folder),
        cmocka_unit_test(only_one_has_the_lock_of_a_file),
        cmocka_unit_test(the_lock_is_of_the_file_that_has_the_name),
    };
    return cmocka_run_group_tests_name("file", tests, make_dir, remove_dir);
}
