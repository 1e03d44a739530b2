/* The dispatch table: what it promises to those who choose from it. */
#include "kernels/cores.h"
#include "variants.h"

/* A trial of a core takes milliseconds. This test is the first, because a core is tried once in a process. */
static void no_core_is_tried_for_a_warning_or_for_the_plain_row(void **state)
{
    (void)state;
    enum { NEVER_CHOSEN = 12345 };
    bt_cores_now.copy_rows = NEVER_CHOSEN;
    (void)bt_kernels_warning();
    assert_ptr_equal(bt_kernels_select("ref"), ref_kernels());
    assert_int_equal(bt_cores_now.copy_rows, NEVER_CHOSEN);
    const bool is_tried = bt_kernels_select(NULL) != ref_kernels();
    assert_int_equal(bt_cores_now.copy_rows != NEVER_CHOSEN, is_tried);
    bt_cores_now.copy_rows = is_tried ? bt_cores_now.copy_rows : 0;
}

static void auto_takes_the_first_usable_row(void **state)
{
    (void)state;
    const bt_kernels *k = bt_kernels_select(NULL);
    assert_ptr_equal(k, bt_kernels_select("auto"));
    for (const bt_kernels *row = bt_kernels_table; row < k; row++) assert_false(row->usable());
    assert_true(k->usable());
}

static void a_row_is_found_by_name_only_where_it_can_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        const bt_kernels *row = &bt_kernels_table[i];
        assert_ptr_equal(bt_kernels_select(row->isa), row->usable() ? row : NULL);
        assert_non_null(strstr(BT_KERNELS_NAMES, row->isa));
    }
    assert_null(bt_kernels_select("sse2"));
    assert_null(bt_kernels_select(""));
}

static void ref_is_last_and_always_usable(void **state)
{
    (void)state;
    assert_string_equal(ref_kernels()->isa, "ref");
    assert_true(ref_kernels()->usable());
}

static void only_a_machine_with_nothing_but_ref_is_warned(void **state)
{
    (void)state;
    assert_int_equal(bt_kernels_warning() != NULL, bt_kernels_select(NULL) == ref_kernels());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_core_is_tried_for_a_warning_or_for_the_plain_row),
        cmocka_unit_test(auto_takes_the_first_usable_row),
        cmocka_unit_test(a_row_is_found_by_name_only_where_it_can_run),
        cmocka_unit_test(ref_is_last_and_always_usable),
        cmocka_unit_test(only_a_machine_with_nothing_but_ref_is_warned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
