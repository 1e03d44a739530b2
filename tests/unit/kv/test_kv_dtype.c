/* The forms of KV rows by number, name, bytes and choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kv/kv_dtype.h"

static void every_form_has_one_name_and_size(void **state)
{
    (void)state;
    static const struct {
        bt_kv_dtype dtype;
        const char *name;
        uint32_t elem_bytes;
    } c[] = {
        {(bt_kv_dtype)1, "f16", 2},
        {(bt_kv_dtype)2, "f32", 4},
        {(bt_kv_dtype)3, "int8", 1},
    };
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(bt_kv_dtype_name(c[i].dtype), c[i].name);
        assert_int_equal(bt_kv_dtype_elem_bytes(c[i].dtype), c[i].elem_bytes);
        assert_int_equal(bt_kv_dtype_of(c[i].elem_bytes), c[i].dtype);
    }
    assert_string_equal(bt_kv_dtype_name((bt_kv_dtype)0), "?");
    assert_int_equal(bt_kv_dtype_elem_bytes((bt_kv_dtype)4), 0);
}

static void the_choices_are_f16_the_default_and_int8(void **state)
{
    (void)state;
    assert_string_equal(bt_kv_dtype_choices[0], "f16");
    assert_int_equal(bt_kv_dtype_wanted(0), 0);
    assert_string_equal(bt_kv_dtype_choices[1], "int8");
    assert_int_equal(bt_kv_dtype_wanted(1), bt_kv_dtype_elem_bytes(BT_KV_INT8));
    assert_null(bt_kv_dtype_choices[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_has_one_name_and_size),
        cmocka_unit_test(the_choices_are_f16_the_default_and_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
