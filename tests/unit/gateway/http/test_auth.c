/* API keys: which files are taken, and who may come in. */
#include "gateway/http/auth.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char path[] = "/tmp/baton-auth-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}
static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static bt_err load(gw_auth **ret, const char *text, bt_fault *f)
{
    const int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
    return gw_auth_load(ret, path, f);
}

static void lets_in_the_keys_of_the_file_and_nobody_else(void **state)
{
    (void)state;
    gw_auth *a;
    bt_fault f;
    assert_int_equal(load(&a, "# ours\n\nkey-one\r\nkey-two", &f), BT_OK);
    assert_true(gw_auth_allows(a, "Bearer key-one"));
    assert_true(gw_auth_allows(a, "bearer key-two"));
    static const char *const wrong[] = {"",        "Bearer ",       "Bearer key-on", "Bearer key-one1",
                                        "key-one", "Basic key-one", "Bearer # ours"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(gw_auth_allows(a, wrong[i]));
    assert_false(gw_auth_allows(a, NULL));
    gw_auth_free(a);
    assert_true(gw_auth_allows(NULL, NULL));
}

static void refuses_files_without_a_good_key(void **state)
{
    (void)state;
    gw_auth *a = NULL;
    bt_fault f;
    assert_int_equal(load(&a, "# nothing\n", &f), BT_EFORMAT);
    assert_int_equal(load(&a, "good\nbad key\n", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "line 2"));
    assert_null(strstr(f.text, "bad key"));
    char *longest = malloc(GW_AUTH_MAX_FILE_BYTES + 2);
    assert_non_null(longest);
    memset(longest, 'a', GW_AUTH_MAX_FILE_BYTES + 1);
    longest[GW_AUTH_MAX_FILE_BYTES + 1] = 0;
    assert_int_equal(load(&a, longest, &f), BT_ELIMIT);
    free(longest);
    assert_int_equal(gw_auth_load(&a, "/nonexistent/key", &f), BT_EIO);
    assert_null(a);
}

static void refuses_a_file_that_everybody_can_read(void **state)
{
    (void)state;
    gw_auth *a = NULL;
    bt_fault f;
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(load(&a, "key\n", &f), BT_EAUTH);
    assert_int_equal(chmod(path, 0600), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_in_the_keys_of_the_file_and_nobody_else),
        cmocka_unit_test(refuses_files_without_a_good_key),
        cmocka_unit_test(refuses_a_file_that_everybody_can_read),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
