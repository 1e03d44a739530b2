/* A node's link to its gateway, and its memory of attempts that are over. */
#include "xfer/greeting.h"
#include "xfer/attempts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const bt_greeting_times T = {500, 2000, 500, 5000};

static bt_greeting_says hear(bt_greeting *l, bt_msg_type type, uint8_t from, int32_t code, int64_t now_us,
                             bool *pass, bool *refused)
{
    bt_msg m = {.type = type, .from = {{from}}};
    if (type == BT_MSG_REJECT) m.u.reject.code = code;
    return bt_greeting_msg(l, &T, &m, now_us, pass, refused);
}

static void greets_until_welcome_beats_and_greets_again_after_silence(void **s)
{
    (void)s;
    bt_greeting l;
    bool pass, refused;
    bt_greeting_init(&l, 0);
    assert_int_equal(bt_greeting_tick(&l, &T, 0), BT_GREETING_HELLO);
    assert_int_equal(bt_greeting_tick(&l, &T, 499), BT_GREETING_NOTHING);
    assert_int_equal(bt_greeting_tick(&l, &T, 500), BT_GREETING_HELLO);
    assert_int_equal(hear(&l, BT_MSG_WELCOME, 1, 0, 600, &pass, &refused), BT_GREETING_HEARTBEAT);
    assert_int_equal(hear(&l, BT_MSG_WELCOME, 1, 0, 600, &pass, &refused), BT_GREETING_NOTHING);
    assert_int_equal(bt_greeting_tick(&l, &T, 1100), BT_GREETING_HEARTBEAT);
    hear(&l, BT_MSG_RESERVE, 1, 0, 1100, &pass, &refused);
    assert_true(pass);
    hear(&l, BT_MSG_HEARTBEAT, 1, 0, 1200, &pass, &refused);
    assert_false(pass);
    assert_int_equal(bt_greeting_tick(&l, &T, 3200), BT_GREETING_HELLO);
    assert_true(bt_greeting_is_owner(&l, &(bt_incarnation){{1}}));
}

static void greets_at_once_when_the_gateway_is_new_or_does_not_know_it_but_never_in_a_storm(void **s)
{
    (void)s;
    bt_greeting l;
    bool pass, refused;
    bt_greeting_init(&l, 0);
    hear(&l, BT_MSG_WELCOME, 1, 0, 0, &pass, &refused);
    assert_int_equal(hear(&l, BT_MSG_REJECT, 2, BT_EAGAIN, 10, &pass, &refused), BT_GREETING_HELLO);
    assert_false(refused);
    for (int i = 0; i < 100; i++)
        assert_int_equal(hear(&l, BT_MSG_REJECT, 2, BT_EAGAIN, 11, &pass, &refused), BT_GREETING_NOTHING);
    assert_int_equal(hear(&l, BT_MSG_WELCOME, 2, 0, 20, &pass, &refused), BT_GREETING_HEARTBEAT);
    assert_false(bt_greeting_is_owner(&l, &(bt_incarnation){{1}}));
    assert_int_equal(hear(&l, BT_MSG_RESERVE, 3, 0, 30, &pass, &refused), BT_GREETING_HELLO);
    assert_false(pass);
}

static void beats_or_greets_at_once_when_its_link_is_up_again(void **s)
{
    (void)s;
    bt_greeting l;
    bool pass, refused;
    bt_greeting_init(&l, 0);
    assert_int_equal(bt_greeting_tick(&l, &T, 0), BT_GREETING_HELLO);
    assert_int_equal(bt_greeting_up(&l, &T, 10), BT_GREETING_HELLO); /* the first may be lost with the link */
    assert_int_equal(bt_greeting_tick(&l, &T, 500), BT_GREETING_NOTHING);
    assert_int_equal(bt_greeting_tick(&l, &T, 510), BT_GREETING_HELLO);
    hear(&l, BT_MSG_WELCOME, 1, 0, 600, &pass, &refused);
    assert_int_equal(bt_greeting_up(&l, &T, 800), BT_GREETING_HEARTBEAT);
    assert_int_equal(bt_greeting_tick(&l, &T, 1100), BT_GREETING_NOTHING);
    assert_int_equal(bt_greeting_tick(&l, &T, 1300), BT_GREETING_HEARTBEAT);
}

static void tries_slowly_after_a_refusal_and_is_welcome_when_it_is_healed(void **s)
{
    (void)s;
    bt_greeting l;
    bool pass, refused;
    bt_greeting_init(&l, 0);
    assert_int_equal(bt_greeting_tick(&l, &T, 0), BT_GREETING_HELLO);
    hear(&l, BT_MSG_REJECT, 1, BT_EFORMAT, 10, &pass, &refused);
    assert_true(refused);
    assert_int_equal(bt_greeting_up(&l, &T, 20), BT_GREETING_NOTHING);
    assert_int_equal(bt_greeting_tick(&l, &T, 5009), BT_GREETING_NOTHING);
    assert_int_equal(bt_greeting_tick(&l, &T, 5010), BT_GREETING_HELLO);
    assert_int_equal(hear(&l, BT_MSG_WELCOME, 1, 0, 5011, &pass, &refused), BT_GREETING_HEARTBEAT);
    assert_int_equal(l.state, BT_GREETING_KNOWN);
}

static void remembers_the_highest_attempt_of_the_last_requests(void **s)
{
    (void)s;
    static bt_attempt_log log;
    bt_request_ref r = {{{1}}, 0, 1};
    for (uint64_t i = 1; i <= BT_ATTEMPT_LOG_LEN + 10; i++) {
        r.number = i;
        r.attempt = 3;
        bt_attempt_log_note(&log, &r);
        r.attempt = 2;
        bt_attempt_log_note(&log, &r);
        assert_int_equal(bt_attempt_log_highest(&log, &r), 3);
    }
    r.number = 10;
    assert_int_equal(bt_attempt_log_highest(&log, &r), 0);
    r.number = 11;
    assert_int_equal(bt_attempt_log_highest(&log, &r), 3);
    r.owner.bytes[0] = 2;
    assert_int_equal(bt_attempt_log_highest(&log, &r), 0);
}

static void one_that_rests_says_nothing_misses_nothing_and_goes_on_in_its_time(void **s)
{
    (void)s;
    bt_greeting l;
    bool pass, refused;
    bt_greeting_init(&l, 0);
    bt_greeting_rest(&l); /* not known yet */
    assert_int_equal(bt_greeting_tick(&l, &T, 0), BT_GREETING_HELLO);
    assert_int_equal(bt_greeting_wake(&l, &T, 100), 0);
    hear(&l, BT_MSG_WELCOME, 1, 0, 600, &pass, &refused);
    bt_greeting_rest(&l);
    assert_true(bt_greeting_due_us(&l, &T) == INT64_MAX);
    assert_int_equal(bt_greeting_tick(&l, &T, 9000), BT_GREETING_NOTHING);
    hear(&l, BT_MSG_RESERVE, 1, 0, 9000, &pass, &refused);
    assert_true(pass);                                      /* all else goes on */
    assert_int_equal(bt_greeting_wake(&l, &T, 9600), 9100); /* 600, 1100, ... 9100, not yet 9600 */
    assert_int_equal(bt_greeting_due_us(&l, &T), 9600);
    assert_int_equal(bt_greeting_tick(&l, &T, 9600), BT_GREETING_HEARTBEAT);
    bt_greeting_rest(&l);
    assert_int_equal(hear(&l, BT_MSG_REJECT, 1, BT_EAGAIN, 9700, &pass, &refused), BT_GREETING_HELLO);
    assert_int_equal(bt_greeting_tick(&l, &T, 10200), BT_GREETING_HELLO); /* it greets as ever */
    hear(&l, BT_MSG_WELCOME, 2, 0, 10300, &pass, &refused);
    assert_int_equal(bt_greeting_tick(&l, &T, 10800), BT_GREETING_HEARTBEAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greets_until_welcome_beats_and_greets_again_after_silence),
        cmocka_unit_test(greets_at_once_when_the_gateway_is_new_or_does_not_know_it_but_never_in_a_storm),
        cmocka_unit_test(beats_or_greets_at_once_when_its_link_is_up_again),
        cmocka_unit_test(tries_slowly_after_a_refusal_and_is_welcome_when_it_is_healed),
        cmocka_unit_test(one_that_rests_says_nothing_misses_nothing_and_goes_on_in_its_time),
        cmocka_unit_test(remembers_the_highest_attempt_of_the_last_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
