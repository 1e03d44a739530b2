/* Readiness messages from this process to itself, by path and by abstract name. */
#include "rt/notify.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void round_trip(const char *address)
{
    int fd = -1;
    char value[16];
    bt_notify_msg m;
    assert_int_equal(bt_notify_listen(&fd, address, NULL), BT_OK);
    setenv("NOTIFY_SOCKET", address, 1);
    assert_int_equal(bt_notify_recv(&m, fd), BT_EAGAIN);
    assert_int_equal(bt_notify_send("READY=1\nSTATUS=model loaded and more\nX=", NULL), BT_OK);
    assert_int_equal(bt_notify_recv(&m, fd), BT_OK);
    assert_int_equal(m.pid, getpid());
    assert_true(bt_notify_get(value, sizeof value, &m, "READY"));
    assert_string_equal(value, "1");
    assert_true(bt_notify_get(value, sizeof value, &m, "STATUS"));
    assert_string_equal(value, "model loaded an");
    assert_true(bt_notify_get(value, sizeof value, &m, "X"));
    assert_string_equal(value, "");
    assert_false(bt_notify_get(value, sizeof value, &m, "READ"));
    assert_false(bt_notify_get(value, sizeof value, &m, "STOPPING"));
    close(fd);
    unsetenv("NOTIFY_SOCKET");
}

static void works_by_path_and_by_abstract_name(void **s)
{
    (void)s;
    char dir[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 8];
    assert_true(temp_folder_new(dir));
    snprintf(path, sizeof path, "%s/n", dir);
    round_trip(path);
    assert_int_equal(temp_folder_remove(dir), 0);
    snprintf(path, sizeof path, "@baton-test-notify-%d", (int)getpid());
    round_trip(path);
}

static void without_a_supervisor_nothing_happens(void **s)
{
    (void)s;
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(bt_notify_send("READY=1", NULL), BT_OK);
    setenv("NOTIFY_SOCKET", "", 1);
    assert_int_equal(bt_notify_send("READY=1", NULL), BT_OK);
    unsetenv("NOTIFY_SOCKET");
}

static void refuses_addresses_and_messages_that_are_none(void **s)
{
    (void)s;
    static const char *const bad[] = {"", "@", "name", "tcp://x",
                                      "/012345678901234567890123456789012345678901234567890123456789012345678"
                                      "9012345678901234567890123456789012345678"};
    int fd = -1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bt_notify_listen(&fd, bad[i], NULL), BT_EARG);
    assert_int_equal(fd, -1);
    char address[64], text[BT_NOTIFY_BYTES_MAX + 2];
    bt_notify_msg m;
    snprintf(address, sizeof address, "@baton-test-notify2-%d", (int)getpid());
    setenv("NOTIFY_SOCKET", address, 1);
    assert_int_equal(bt_notify_send("READY=1", NULL), BT_EIO);
    assert_int_equal(bt_notify_listen(&fd, address, NULL), BT_OK);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(bt_notify_send(text, NULL), BT_OK);
    assert_int_equal(bt_notify_recv(&m, fd), BT_EFORMAT);
    text[BT_NOTIFY_BYTES_MAX] = 0;
    assert_int_equal(bt_notify_send(text, NULL), BT_OK);
    assert_int_equal(bt_notify_recv(&m, fd), BT_OK);
    assert_int_equal(strlen(m.text), BT_NOTIFY_BYTES_MAX);
    unsetenv("NOTIFY_SOCKET");
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_by_path_and_by_abstract_name),
        cmocka_unit_test(without_a_supervisor_nothing_happens),
        cmocka_unit_test(refuses_addresses_and_messages_that_are_none),
    };
    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
