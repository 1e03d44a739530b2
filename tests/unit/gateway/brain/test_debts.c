/* The debts of nodes: found, paid, forgotten, and bounded. */
#include "gateway/brain/debts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const bt_incarnation A = {{1}}, B = {{2}};

static void debts_are_found_paid_and_forgotten(void **s)
{
    (void)s;
    gw_debts d;
    gw_debt gone;
    assert_int_equal(gw_debts_init(&d, 3), BT_OK);
    assert_true(gw_debts_due_us(&d) == INT64_MAX);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(gw_debts_add(&d, &gone,
                                  &(gw_debt){.node = i == 1 ? B : A, .number = 7, .attempt = i + 1,
                                             .is_long = i == 0, .due_us = 50, .until_us = 100 - i}));
    assert_int_equal(gw_debts_due_us(&d), 50);
    assert_null(gw_debts_find(&d, &B, 7, 1));
    assert_non_null(gw_debts_find(&d, &A, 7, 1));
    assert_true(gw_debts_add(
        &d, &gone, &(gw_debt){.node = A, .number = 8, .attempt = 1, .due_us = 50, .until_us = 200}));
    assert_int_equal(gone.attempt, 3); /* it would have ended first */
    gw_debts_remove(&d, gw_debts_find(&d, &B, 7, 2));
    assert_int_equal(d.len, 2);
    uint32_t owed_long;
    assert_int_equal(gw_debts_forget(&d, &owed_long, &A), 2);
    assert_int_equal(owed_long, 1);
    assert_int_equal(d.len, 0);
    gw_debts_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(debts_are_found_paid_and_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
