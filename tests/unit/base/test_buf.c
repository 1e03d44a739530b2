/* Growth, limits and the sticky error. */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void grows_and_stays_a_c_string(void **s)
{
    (void)s;
    bt_buf b;
    bt_buf_init(&b, 100000);
    assert_string_equal(bt_buf_text(&b), "");
    for (int i = 0; i < 1000; i++) assert_int_equal(bt_buf_fmt(&b, "%d,", i), BT_OK);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(bt_buf_text(&b)), b.len);
    assert_memory_equal(b.data, "0,1,2,3,", 8);
    bt_buf_drop_front(&b, b.len - 4);
    assert_string_equal(bt_buf_text(&b), "999,");
    bt_buf_clear(&b);
    assert_string_equal(bt_buf_text(&b), "");
    bt_buf_done(&b);
}

static void fills_to_the_limit_and_not_past_it(void **s)
{
    (void)s;
    bt_buf b;
    bt_buf_init(&b, 10);
    assert_int_equal(bt_buf_str(&b, "12345"), BT_OK);
    assert_int_equal(bt_buf_str(&b, "67890"), BT_OK);
    assert_int_equal(bt_buf_add(&b, NULL, 0), BT_OK);
    assert_int_equal(bt_buf_byte(&b, 'x'), BT_ELIMIT);
    assert_string_equal(bt_buf_text(&b), "1234567890");
    bt_buf_done(&b);
}

static void remembers_the_first_failure(void **s)
{
    (void)s;
    bt_buf b;
    bt_buf_init(&b, 4);
    assert_int_equal(bt_buf_str(&b, "ab"), BT_OK);
    assert_int_equal(bt_buf_fmt(&b, "%s", "cde"), BT_ELIMIT);
    assert_int_equal(bt_buf_str(&b, "c"), BT_ELIMIT);
    assert_int_equal(b.err, BT_ELIMIT);
    assert_string_equal(bt_buf_text(&b), "ab");
    bt_buf_clear(&b);
    assert_int_equal(bt_buf_str(&b, "c"), BT_OK);
    assert_string_equal(bt_buf_text(&b), "c");
    assert_int_equal(bt_buf_reserve(&b, SIZE_MAX), BT_ELIMIT);
    bt_buf_done(&b);
    assert_int_equal(bt_buf_str(&b, "again"), BT_ELIMIT);
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_stays_a_c_string),
        cmocka_unit_test(fills_to_the_limit_and_not_past_it),
        cmocka_unit_test(remembers_the_first_failure),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
