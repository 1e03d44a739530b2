/* Every reason of the HTTP layer has its words. */
#include "gateway/api/refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void every_refusal_has_a_status_a_code_and_words(void **state)
{
    (void)state;
    gw_error err;
    assert_false(gw_refusal_tell(&err, GW_HTTP_FINE, 1));
    for (gw_http_refusal r = GW_HTTP_FINE + 1; r < GW_HTTP_REFUSALS; r++) {
        memset(&err, 0, sizeof err);
        assert_true(gw_refusal_tell(&err, r, 4194304));
        assert_in_range(err.status, 400, 505);
        assert_true(strlen(err.message) > 10);
        assert_int_equal(err.retry_after_s != 0, err.status == 503);
    }
    (void)gw_refusal_tell(&err, GW_HTTP_TOO_LARGE, 4194304);
    assert_int_equal(err.status, 413);
    assert_non_null(strstr(err.message, "4194304 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_refusal_has_a_status_a_code_and_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
