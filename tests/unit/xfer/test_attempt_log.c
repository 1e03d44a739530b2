/* The log of attempts that are over, against a plain list that is searched from end to end. */
#include "base/rng.h"
#include "xfer/attempts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void remembers_the_last_requests_as_a_plain_list_does(void **state)
{
    (void)state;
    static bt_attempt_log log;
    static bt_request_ref list[BT_ATTEMPT_LOG_LEN];
    uint32_t len = 0, next = 0, forgotten = 0;
    for (uint32_t i = 0; i < 40000; i++) {
        const uint64_t r = bt_rng_u64(11, i);
        const bt_request_ref ref = {{{(uint8_t)(1 + r % 3)}}, (r >> 8) % 700, 1 + (uint32_t)(r >> 32) % 9};
        uint32_t at = 0;
        while (at < len && !bt_request_same(&list[at], &ref)) at++;
        assert_int_equal(bt_attempt_log_highest(&log, &ref), at < len ? list[at].attempt : 0);
        if (r >> 62 == 0) continue;
        bt_attempt_log_note(&log, &ref);
        if (at < len) {
            if (ref.attempt > list[at].attempt) list[at].attempt = ref.attempt;
            continue;
        }
        forgotten += len == BT_ATTEMPT_LOG_LEN;
        list[next] = ref;
        next = (next + 1) % BT_ATTEMPT_LOG_LEN;
        if (len < BT_ATTEMPT_LOG_LEN) len++;
    }
    assert_true(forgotten > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remembers_the_last_requests_as_a_plain_list_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
