/* Equality of every byte, and that nothing is left. */
#include "crypto/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(wiping_leaves_zeros_and_no_more),
        cmocka_unit_test(secret_memory_is_zero_and_can_be_used_to_its_last_byte),
        cmocka_unit_test(a_hash_depends_on_the_key_and_on_every_byte),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
