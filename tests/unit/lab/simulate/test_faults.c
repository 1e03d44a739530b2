/* Faults as people write them: the values that are read, and the column that is wrong. */
#include "lab/simulate/faults.h"
#include "lab/simulate/side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void three_faults_are_read_with_their_times(void **state)
{
    (void)state;
    static tool_simulate_faults f;
    bt_fault fault = {""};
    assert_int_equal(tool_simulate_faults_read(
                         &f, "kill decode 3 at 600s; slow link 2 10x for 60s;stop prefill 1 for 20s at 5m;",
                         &fault),
                     BT_OK);
    assert_int_equal(f.len, 3);
    assert_int_equal(f.fault[0].what, TOOL_SIMULATE_KILL);
    assert_int_equal(f.fault[0].where, TOOL_SIMULATE_DECODE);
    assert_int_equal(f.fault[0].number, 3);
    assert_int_equal(f.fault[0].at_us, 600000000);
    assert_int_equal(f.fault[0].for_us, 0);
    assert_int_equal(f.fault[1].what, TOOL_SIMULATE_SLOW);
    assert_int_equal(f.fault[1].where, TOOL_SIMULATE_LINK);
    assert_int_equal(f.fault[1].times, 10);
    assert_int_equal(f.fault[1].at_us, 0);
    assert_int_equal(f.fault[1].for_us, 60000000);
    assert_int_equal(f.fault[2].what, TOOL_SIMULATE_STOP);
    assert_int_equal(f.fault[2].where, TOOL_SIMULATE_PREFILL);
    assert_int_equal(f.fault[2].at_us, 300000000);
    assert_int_equal(f.fault[2].for_us, 20000000);
    assert_int_equal(tool_simulate_faults_read(&f, " ;; ", &fault), BT_OK);
    assert_int_equal(f.len, 0);
}

static void what_is_wrong_is_named_by_its_column(void **state)
{
    (void)state;
    static tool_simulate_faults f;
    static const struct {
        const char *text, *column, *says;
    } bad[] = {
        {"kil decode 3", "column 1:", "did you mean 'kill'"},
        {"kill decod 3", "column 6:", "did you mean 'decode'"},
        {"kill decode", "column 12:", "a number"},
        {"kill decode -1", "column 13:", "a number"},
        {"kill decode 3 at 600", "column 18:", "600ms"},
        {"kill decode 3 at 99999999h", "column 18:", "1000h"},
        {"kill decode 3 at 1s at 2s", "column 21:", "'for TIME'"},
        {"kill decode 3; slow link 2", "column 27:", "10x"},
        {"slow link 2 1x", "column 13:", "10x"},
        {"slow decode 2 10x", "column 6:", "link"},
        {"stop prefill 1", "column 15:", "'for TIME'"},
        {"stop prefill 1 for 0s", "column 22:", "above 0"},
        {"kill decode 1 now", "column 15:", "'at TIME'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_fault fault = {""};
        assert_int_equal(tool_simulate_faults_read(&f, bad[i].text, &fault), BT_EARG);
        if (!strstr(fault.text, bad[i].column) || !strstr(fault.text, bad[i].says))
            fail_msg("'%s' is answered: %s", bad[i].text, fault.text);
    }
}

static void a_node_that_is_not_there_is_refused_with_the_last_that_is(void **state)
{
    (void)state;
    static tool_simulate_faults f;
    bt_fault fault = {""};
    assert_int_equal(tool_simulate_faults_read(&f, "kill decode 3; slow link 5 2x", &fault), BT_OK);
    assert_int_equal(tool_simulate_faults_check(&f, 2, 4, &fault), BT_OK);
    assert_int_equal(tool_simulate_faults_check(&f, 2, 3, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "no decode 3; the last is 2"));
    assert_int_equal(tool_simulate_faults_check(&f, 1, 4, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "no link 5; the last is 4"));
}

static void sides_are_numbers_of_devices(void **state)
{
    (void)state;
    static tool_simulate_side s;
    bt_fault fault = {""};
    assert_int_equal(tool_simulate_side_read(&s, "decode", "8:h100,4:m2-ultra,1..64", "a100", &fault), BT_OK);
    assert_int_equal(s.len, 3);
    assert_string_equal(s.group[0].profile.name, "h100");
    assert_int_equal(s.group[1].least, 4);
    assert_string_equal(s.group[1].profile.name, "m2-ultra-gpu"); /* the one name that begins so */
    assert_string_equal(s.group[2].profile.name, "a100");
    assert_int_equal(s.group[2].least, 1);
    assert_int_equal(s.group[2].most, 64);
    assert_int_equal(tool_simulate_side_read(&s, "prefill", "0", "a100", &fault), BT_OK);
    assert_int_equal(s.len, 0);
    static const char *const bad[] = {"",     "x",     "8:",     "8:h100,",   "5..2",
                                      "5000", "8h100", "8:host", "8:hexagon", "1..:h100"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tool_simulate_side_read(&s, "decode", bad[i], "a100", &fault) != BT_EARG ||
            !strstr(fault.text, "decode"))
            fail_msg("'%s' is taken, or answered: %s", bad[i], fault.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_faults_are_read_with_their_times),
        cmocka_unit_test(what_is_wrong_is_named_by_its_column),
        cmocka_unit_test(a_node_that_is_not_there_is_refused_with_the_last_that_is),
        cmocka_unit_test(sides_are_numbers_of_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
