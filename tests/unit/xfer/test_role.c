/* The answer of a node that is asked to serve as another role: every case of wanted, own, allowed and
 * draining. */
#include "xfer/role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const bt_role P = BT_ROLE_PREFILL, D = BT_ROLE_DECODE;

static void every_case_has_its_answer(void **state)
{
    (void)state;
    static const struct {
        bt_role wanted, own;
        bt_role_may may;
        bool draining;
        bt_role next;
        int32_t code;
        bool begins;
        bt_role then;
        const char *words;
    } c[] = {
        {BT_ROLE_PREFILL, BT_ROLE_DECODE, BT_ROLE_MAY, false, 0, 0, true, BT_ROLE_PREFILL,
         "serves as prefill"},
        {BT_ROLE_DECODE, BT_ROLE_PREFILL, BT_ROLE_MAY, false, 0, 0, true, BT_ROLE_DECODE, "serves as decode"},
        {BT_ROLE_DECODE, BT_ROLE_DECODE, BT_ROLE_MAY, false, 0, 0, false, 0, "already"},
        {BT_ROLE_PREFILL, BT_ROLE_PREFILL, BT_ROLE_MAY_NOT, false, 0, 0, false, 0, "already"},
        {BT_ROLE_DECODE, BT_ROLE_PREFILL, BT_ROLE_MAY_NOT, false, 0, BT_EAUTH, false, 0, "allow file"},
        {BT_ROLE_PREFILL, BT_ROLE_DECODE, BT_ROLE_MAY_NOT, false, 0, BT_EAUTH, false, 0, "allow file"},
        /* asked again while the node drains for that */
        {BT_ROLE_PREFILL, BT_ROLE_DECODE, BT_ROLE_MAY, true, BT_ROLE_PREFILL, 0, false, BT_ROLE_PREFILL,
         "the node drains"},
        {BT_ROLE_DECODE, BT_ROLE_DECODE, BT_ROLE_MAY, true, BT_ROLE_PREFILL, BT_EAGAIN, false,
         BT_ROLE_PREFILL, "ask again"},
        /* on its way out */
        {BT_ROLE_PREFILL, BT_ROLE_DECODE, BT_ROLE_MAY, true, 0, BT_EAGAIN, false, 0, "leaving"},
        {BT_ROLE_DECODE, BT_ROLE_DECODE, BT_ROLE_MAY, true, 0, 0, false, 0, "already"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        bt_msg_role_answer a;
        bt_role next = c[i].next;
        memset(&a, 0x5a, sizeof a);
        assert_int_equal(bt_role_answer(&a, &next, c[i].wanted, c[i].own, c[i].may, c[i].draining),
                         c[i].begins);
        assert_int_equal(a.role, c[i].wanted);
        assert_int_equal(a.code, c[i].code);
        assert_int_equal(next, c[i].then);
        if (!strstr(a.text, c[i].words)) fail_msg("case %zu says '%s'", i, a.text);
    }
}

static void what_is_promised_is_said_the_same_again(void **state)
{
    (void)state;
    bt_msg_role_answer first, again;
    bt_role next = 0;
    assert_true(bt_role_answer(&first, &next, P, D, BT_ROLE_MAY, false));
    assert_false(bt_role_answer(&again, &next, P, D, BT_ROLE_MAY, true));
    assert_memory_equal(&first, &again, sizeof first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_has_its_answer),
        cmocka_unit_test(what_is_promised_is_said_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
