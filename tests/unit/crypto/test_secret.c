/* Equality of every byte, and that nothing is left. */
#include "crypto/secret.h"
#include "tests/helpers/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void every_byte_counts(void **s)
{
    (void)s;
    char a[32] = "0123456789abcdef0123456789abcde", b[32];
    memcpy(b, a, sizeof a);
    assert_true(bt_secret_equal(a, b, sizeof a));
    assert_true(bt_secret_equal(a, "x", 0));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 1;
        assert_false(bt_secret_equal(a, b, sizeof a));
        b[i] ^= 1;
    }
}

static void wiping_leaves_zeros_and_no_more(void **s)
{
    (void)s;
    char a[8] = "abcdefg";
    bt_secret_wipe(a, 4);
    assert_memory_equal(a, "\0\0\0\0efg", 8);
}

static void secret_memory_is_zero_and_can_be_used_to_its_last_byte(void **s)
{
    (void)s;
    static const size_t sizes[] = {1, 32, 4096, 100001};
    bt_secret_free(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *a = bt_secret_new(sizes[i]);
        assert_non_null(a);
        for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(a[at], 0);
        memset(a, 7, sizes[i]);
        bt_secret_free(a);
    }
}

static void a_hash_depends_on_the_key_and_on_every_byte(void **s)
{
    (void)s;
    uint8_t key[BT_SECRET_HASH_BYTES] = {1}, other[BT_SECRET_HASH_BYTES] = {2}, a[BT_SECRET_HASH_BYTES],
            b[BT_SECRET_HASH_BYTES];
    bt_secret_hash(a, key, "secret", 6);
    bt_secret_hash(b, key, "secret", 6);
    assert_memory_equal(a, b, sizeof a);
    bt_secret_hash(b, other, "secret", 6);
    assert_memory_not_equal(a, b, sizeof a);
    bt_secret_hash(b, key, "secreu", 6);
    assert_memory_not_equal(a, b, sizeof a);
    bt_secret_hash(b, key, "secret", 5);
    assert_memory_not_equal(a, b, sizeof a);
}

static void a_file_is_read_whole_and_by_its_owner_alone(void **s)
{
    (void)s;
    char folder[TEMP_FOLDER_BYTES], path[TEMP_FOLDER_BYTES + 8], pipe[TEMP_FOLDER_BYTES + 8], *text = NULL;
    size_t len = 99;
    bt_fault f = {""};
    assert_true(temp_folder_new(folder));
    (void)snprintf(path, sizeof path, "%s/file", folder);
    (void)snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, "0123456789", 10) == 10);
    assert_int_equal(bt_secret_read(&text, &len, path, 10, false, &f), BT_OK);
    assert_int_equal(len, 10);
    assert_string_equal(text, "0123456789");
    bt_secret_free(text);
    text = NULL;
    assert_int_equal(bt_secret_read(&text, &len, path, 9, false, &f), BT_ELIMIT);
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(bt_secret_read(&text, &len, path, 9, false, &f), BT_ELIMIT); /* a group may read it */
    assert_int_equal(fchmod(fd, 0604), 0);
    assert_int_equal(bt_secret_read(&text, &len, path, 10, false, &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "chmod 600"));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(bt_secret_read(&text, &len, pipe, 10, false, &f), BT_EARG); /* and does not wait */
    assert_int_equal(bt_secret_read(&text, &len, folder, 10, true, &f), BT_EARG);
    assert_int_equal(bt_secret_read(&text, &len, "/none/such", 10, true, &f), BT_EIO);
    assert_null(text);
    assert_int_equal(bt_secret_read(&text, &len, path, 10, true, &f), BT_OK);
    bt_secret_free(text);
    (void)close(fd);
    assert_int_equal(temp_folder_remove(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(wiping_leaves_zeros_and_no_more),
        cmocka_unit_test(secret_memory_is_zero_and_can_be_used_to_its_last_byte),
        cmocka_unit_test(a_file_is_read_whole_and_by_its_owner_alone),
        cmocka_unit_test(a_hash_depends_on_the_key_and_on_every_byte),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
