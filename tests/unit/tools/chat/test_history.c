/* The file of what was typed: what goes in comes out, from several chats, within its bounds, and for nobody
 * else. */
#include "tools/chat/history.h"
#include "tests/helpers/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[TEMP_FOLDER_BYTES], path[512];

static int make_dir(void **state)
{
    (void)state;
    if (!temp_folder_new(dir)) return -1;
    snprintf(path, sizeof path, "%s/chat_history", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir);
}

typedef struct seen {
    char text[8][256];
    size_t count;
    char last[256];
} seen;

static void note(void *ud, const char *text, size_t len)
{
    seen *s = ud;
    assert_int_equal(strlen(text), len);
    if (s->count < 8) snprintf(s->text[s->count], sizeof s->text[0], "%s", text);
    snprintf(s->last, sizeof s->last, "%s", text);
    s->count++;
}

static void add(const char *text)
{
    bt_fault fault = {""};
    if (tool_history_add(path, text, strlen(text), &fault) < 0) fail_msg("%s", fault.text);
}

static off_t file_bytes(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void what_goes_in_comes_out(void **state)
{
    seen s = {.count = 0};
    (void)state;
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK); /* no file: no entries */
    assert_int_equal(s.count, 0);
    add("one");
    add("two\nlines \\n and \\ h\xC3\xA9");
    add("\\");
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.text[0], "one");
    assert_string_equal(s.text[1], "two\nlines \\n and \\ h\xC3\xA9");
    assert_string_equal(s.text[2], "\\");
}

static void the_file_is_the_users_alone(void **state)
{
    struct stat st;
    char deep[600];
    (void)state;
    const int fd = open(path, O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    close(fd);
    add("secret");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(deep, sizeof deep, "%s/a/b/chat_history", dir);
    assert_int_equal(tool_history_add(deep, "x", 1, NULL), BT_OK);
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)unlink(deep);
    *strrchr(deep, '/') = 0;
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    (void)rmdir(deep);
    *strrchr(deep, '/') = 0;
    assert_int_equal(rmdir(deep), 0);
}

static void a_full_file_loses_its_older_half(void **state)
{
    seen s = {.count = 0};
    char text[208];
    (void)state;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 6000; i++) {
        snprintf(text, sizeof text, "%d%0190d", i, 0);
        add(text);
        assert_true(file_bytes() <= TOOL_HISTORY_MAX_BYTES);
    }
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK);
    assert_string_equal(s.last, text);
    assert_true(s.count > 2500 && s.count < 6000);
    assert_int_equal(strlen(s.text[0]), strlen(text)); /* it begins with a whole entry */
}

static void a_long_entry_is_not_kept(void **state)
{
    seen s = {.count = 0};
    char *text = calloc(1, TOOL_HISTORY_MAX_ENTRY_BYTES + 2);
    (void)state;
    memset(text, '\n', TOOL_HISTORY_MAX_ENTRY_BYTES + 1); /* each is two bytes in the file */
    assert_int_equal(tool_history_add(path, text, TOOL_HISTORY_MAX_ENTRY_BYTES + 1, NULL), BT_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(tool_history_add(path, text, TOOL_HISTORY_MAX_ENTRY_BYTES, NULL), BT_OK);
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK);
    assert_int_equal(s.count, 1);
    free(text);
}

static void lines_that_are_no_text_are_left_out(void **state)
{
    static const char file[] = "good\nbad \xFF\nnul \0\n\nescape at the end \\\ncut";
    seen s = {.count = 0};
    (void)state;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, sizeof file - 1, f), sizeof file - 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.text[0], "good");
    assert_string_equal(s.text[1], "escape at the end \\");
}

static void a_file_of_another_kind_is_refused(void **state)
{
    bt_fault fault = {""};
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tool_history_add(path, "x", 1, &fault), BT_EIO);
    assert_non_null(strstr(fault.text, path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(tool_history_add(path, "x", 1, &fault), BT_EIO);
}

/* Four processes add 300 entries each while the file is being halved: every line that is there is whole. */
static void several_chats_add_at_once(void **state)
{
    enum { CHATS = 4, ENTRIES = 300 };
    seen s = {.count = 0};
    char text[2000];
    (void)state;
    for (int i = 0; i < CHATS; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0) continue;
        memset(text, 'a' + i, sizeof text);
        bool ok = true;
        for (int n = 0; n < ENTRIES; n++) ok = ok && tool_history_add(path, text, sizeof text, NULL) == BT_OK;
        _exit(!ok);
    }
    for (int i = 0, status; i < CHATS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK);
    assert_true(s.count >= 250);
    assert_int_equal((uint64_t)file_bytes(), s.count * (sizeof text + 1));
}

static void what_does_not_fit_is_taken_back_and_told(void **state)
{
    seen s = {.count = 0};
    struct rlimit before, little;
    bt_fault fault = {""};
    (void)state;
    add("one");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 8;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0); /* a write up to there is short */
    const bt_err e = tool_history_add(path, "two and more", 12, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(e, BT_EIO);
    assert_non_null(strstr(fault.text, "No space left"));
    assert_int_equal(file_bytes(), 4);
    add("three");
    assert_int_equal(tool_history_load(path, note, &s, NULL), BT_OK);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.text[1], "three");
}

static void the_place_follows_the_environment(void **state)
{
    char got[64];
    bt_fault fault = {""};
    (void)state;
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("XDG_STATE_HOME", "/state", 1);
    setenv("HOME", "/h", 1);
    assert_int_equal(tool_history_path(got, sizeof got, &fault), BT_OK);
    assert_string_equal(got, "/state/baton/chat_history");
    setenv("XDG_STATE_HOME", "relative", 1);
    assert_int_equal(tool_history_path(got, sizeof got, &fault), BT_OK);
    assert_string_equal(got, "/h/.local/state/baton/chat_history");
    assert_int_equal(tool_history_path(got, 10, &fault), BT_EIO);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_int_equal(tool_history_path(got, sizeof got, &fault), BT_EIO);
    if (home) setenv("HOME", home, 1);
    free(home);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(what_goes_in_comes_out),
        TEST(the_file_is_the_users_alone),
        TEST(a_full_file_loses_its_older_half),
        TEST(a_long_entry_is_not_kept),
        TEST(lines_that_are_no_text_are_left_out),
        TEST(a_file_of_another_kind_is_refused),
        TEST(several_chats_add_at_once),
        TEST(what_does_not_fit_is_taken_back_and_told),
        TEST(the_place_follows_the_environment),
    };
    return cmocka_run_group_tests_name("history of a chat", tests, NULL, NULL);
}
