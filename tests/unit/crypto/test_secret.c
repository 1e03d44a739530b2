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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(wiping_leaves_zeros_and_no_more),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
