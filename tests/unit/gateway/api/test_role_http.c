/* The body of a request for another role. */
#include "gateway/api/role_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void reads_the_role(void **s)
{
    (void)s;
    static const char decode[] = "{\"role\":\"decode\"}", prefill[] = "{\"role\": \"prefill\"}";
    gw_error err;
    bt_role role;
    assert_int_equal(gw_role_http_parse(&role, &err, decode, sizeof decode - 1), BT_OK);
    assert_int_equal(role, BT_ROLE_DECODE);
    assert_int_equal(gw_role_http_parse(&role, &err, prefill, sizeof prefill - 1), BT_OK);
    assert_int_equal(role, BT_ROLE_PREFILL);
}

static void a_body_too_long_for_a_turn_of_the_loop_is_refused_unread(void **s)
{
    (void)s;
    char body[GW_ROLE_HTTP_MAX_BYTES + 2];
    gw_error err;
    bt_role role;
    (void)snprintf(body, sizeof body, "{\"role\":\"decode\"}%*s", GW_ROLE_HTTP_MAX_BYTES + 1 - 17, "");
    assert_int_equal(strlen(body), GW_ROLE_HTTP_MAX_BYTES + 1);
    assert_int_equal(gw_role_http_parse(&role, &err, body, GW_ROLE_HTTP_MAX_BYTES), BT_OK);
    assert_int_equal(gw_role_http_parse(&role, &err, body, GW_ROLE_HTTP_MAX_BYTES + 1), BT_EARG);
    assert_int_equal(err.status, 400);
    assert_string_equal(err.message, "The body has 1025 bytes; at most 1024 are allowed here.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_role),
        cmocka_unit_test(a_body_too_long_for_a_turn_of_the_loop_is_refused_unread),
    };
    return cmocka_run_group_tests_name("role_http", tests, NULL, NULL);
}
