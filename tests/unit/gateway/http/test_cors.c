/* The origin in a header of every answer, and the headers that a page may ask for. */
#include "gateway/http/cors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void an_origin_is_a_scheme_and_a_host(void **state)
{
    (void)state;
    assert_true(gw_cors_is_origin("*"));
    assert_true(gw_cors_is_origin("https://chat.example"));
    assert_true(gw_cors_is_origin("http://localhost:3000"));
    assert_true(gw_cors_is_origin("http://[::1]:3000"));
    assert_true(gw_cors_is_origin("app://obsidian.md"));
    assert_false(gw_cors_is_origin(""));
    assert_false(gw_cors_is_origin("chat.example"));
    assert_false(gw_cors_is_origin("https://"));
    assert_false(gw_cors_is_origin("://x"));
    assert_false(gw_cors_is_origin("https://chat.example/"));
    assert_false(gw_cors_is_origin("https://a, https://b"));
    assert_false(gw_cors_is_origin("https://a\r\nX: y"));
}

static void names_of_headers_may_be_given_back_and_nothing_else(void **state)
{
    (void)state;
    char many[2048];
    assert_true(gw_cors_is_header_list("authorization,content-type, x-stainless-os"));
    assert_true(gw_cors_is_header_list(""));
    assert_false(gw_cors_is_header_list("a\r\nb: c"));
    assert_false(gw_cors_is_header_list("a:b"));
    memset(many, 'a', sizeof many);
    many[sizeof many - 1] = 0;
    assert_false(gw_cors_is_header_list(many));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_origin_is_a_scheme_and_a_host),
        cmocka_unit_test(names_of_headers_may_be_given_back_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
