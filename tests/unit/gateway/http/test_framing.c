/* Where a request ends must be beyond doubt: each way to say it twice, or in another way, is refused. Heads
 * are written as they come over the wire, and put into memory as libmicrohttpd leaves them. */
#include "tests/helpers/cluster/http_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static gw_http_refusal check(gw_framing *ret, const char *wire, size_t len)
{
    http_head h;
    assert_true(http_head_parse(&h, wire, len));
    const gw_http_refusal r = gw_framing_check(ret, &h.head);
    http_head_free(&h);
    return r;
}

/* The head of a POST with these lines, which may hold a 0. */
#define POST(lines)      "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" lines "\r\n"
#define CHECK(ret, wire) check(ret, wire, sizeof(wire) - 1)

static void a_plain_head_is_fine_and_its_body_is_known(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, "GET /v1/models HTTP/1.1\r\nHost: x:8080\r\n\r\n"), GW_HTTP_FINE);
    assert_true(f.body_bytes == 0 && !f.is_chunked && !f.is_encoded && !f.has_expect);
    assert_int_equal(CHECK(&f, POST("content-length:5\r\nExpect: 100-Continue\r\n")), GW_HTTP_FINE);
    assert_true(f.body_bytes == 5 && !f.is_chunked && f.has_expect);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: \t Chunked\r\nX-Empty:\r\n")), GW_HTTP_FINE);
    assert_true(f.body_bytes == 0 && f.is_chunked);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.0\r\n\r\n"), GW_HTTP_FINE);
    assert_int_equal(CHECK(&f, POST("X: caf\xc3\xa9 \t\"quoted\", a=b\r\n")), GW_HTTP_FINE);
}

static void a_body_in_another_coding_is_told(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\r\nContent-Encoding: gzip\r\n")), GW_HTTP_FINE);
    assert_true(f.is_encoded);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\r\nContent-Encoding: identity\r\n")), GW_HTTP_FINE);
    assert_false(f.is_encoded);
}

static void two_ways_to_say_the_length_are_refused(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")),
                     GW_HTTP_TWO_FRAMINGS);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")),
                     GW_HTTP_TWO_FRAMINGS);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: x\r\nContent-Length: 5\r\n")), GW_HTTP_TWO_FRAMINGS);
    assert_true(f.body_bytes == 0 && !f.is_chunked);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\r\nContent-Length: 5\r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\r\nA: b\r\ncontent-length: 6\r\n")),
                     GW_HTTP_BAD_LENGTH);
}

static void a_length_is_digits_and_nothing_else(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("Content-Length: +5\r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length: -5\r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length: 0x5\r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5, 5\r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5 \r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length:\r\n")), GW_HTTP_BAD_LENGTH);
    assert_int_equal(CHECK(&f, POST("Content-Length: 99999999999999999999\r\n")), GW_HTTP_BAD_LENGTH);
}

static void only_chunked_is_a_transfer_coding(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: xchunked\r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: gzip, chunked\r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: chunked, identity\r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: \"chunked\"\r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: identity\r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: chunked \r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding:\r\n")), GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")),
                     GW_HTTP_BAD_CODING);
    assert_int_equal(CHECK(&f, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), GW_HTTP_BAD_CODING);
}

static void there_is_one_host(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\r\n\r\n"), GW_HTTP_BAD_HOST);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n"), GW_HTTP_BAD_HOST);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n"), GW_HTTP_BAD_HOST);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\r\nHost: x, y\r\n\r\n"), GW_HTTP_BAD_HOST);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"), GW_HTTP_BAD_HOST);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), GW_HTTP_FINE);
}

static void versions_are_1_0_and_1_1(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, "GET / HTTP/1.2\r\nHost: x\r\n\r\n"), GW_HTTP_BAD_VERSION);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.9\r\nHost: x\r\n\r\n"), GW_HTTP_BAD_VERSION);
}

static void names_are_words_and_values_hold_no_control_characters(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("Content-Length : 5\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("Content-Length\t: 5\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("\x0bTransfer-Encoding: chunked\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("Transf\x82r-Encoding: chunked\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("Transfer Encoding: chunked\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST(": 5\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("transfer_encoding: chunked\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("Content_Length: 5\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("Content_Lengths: 5\r\n")), GW_HTTP_FINE);
    assert_int_equal(CHECK(&f, POST("X: a\rTransfer-Encoding: chunked\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("X: a\x7f\r\n")), GW_HTTP_BAD_FIELD);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: \x0b"
                                    "chunked\r\n")),
                     GW_HTTP_BAD_FIELD);
}

static void a_header_that_goes_on_in_the_next_line_is_refused(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("X: a\r\n b\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("X: a\r\n\tb\r\nY: c\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("Content-: 5\r\n Length\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("Content-Length:\r\n 5\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("Transfer-Encoding: chunked\r\n x\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("X: a\r\n \r\n")), GW_HTTP_BAD_LAYOUT);
}

static void lines_end_with_cr_lf_and_a_nul_is_nowhere(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, POST("X: a\nContent-Length: 5\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\r\nHost: x\r\n\n"), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\nHost: x\r\n\r\n"), GW_HTTP_BAD_LINE);
    assert_int_equal(CHECK(&f, "GET / HTTP/1.1\nHost: x\n\n"), GW_HTTP_BAD_LINE);
    assert_int_equal(CHECK(&f, POST("X: a\0b\r\nContent-Length: 5\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("Content-Length: 5\0 6\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("X: a\r\n\0Content-Length: 5\r\n")), GW_HTTP_BAD_LAYOUT);
    assert_int_equal(CHECK(&f, POST("\0Content-Length: 5\r\n")), GW_HTTP_BAD_LAYOUT);
}

static void the_first_line_has_three_words(void **state)
{
    (void)state;
    gw_framing f;
    assert_int_equal(CHECK(&f, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n"), GW_HTTP_BAD_LINE);
    assert_int_equal(CHECK(&f, "GET /x HTTP/1.1\rX: y HTTP/1.1\r\nHost: x\r\n\r\n"), GW_HTTP_BAD_LINE);
    assert_int_equal(CHECK(&f, "G\tT / HTTP/1.1\r\nHost: x\r\n\r\n"), GW_HTTP_BAD_LINE);
    assert_int_equal(CHECK(&f, "GET\0X / HTTP/1.1\r\nHost: x\r\n\r\n"), GW_HTTP_BAD_LINE);
}

/* A head of that many bytes in all, with fields of 100. */
static gw_http_refusal check_long(size_t line, size_t fields, size_t each)
{
    char *wire = malloc(line + fields * (each + 8) + 64), *at = wire;
    assert_non_null(wire);
    at += sprintf(at, "GET /%0*d HTTP/1.1\r\nHost: x\r\n", (int)line, 0);
    for (size_t i = 0; i < fields; i++) at += sprintf(at, "X: %0*d\r\n", (int)each, 0);
    at += sprintf(at, "\r\n");
    gw_framing f;
    const gw_http_refusal r = check(&f, wire, (size_t)(at - wire));
    free(wire);
    return r;
}

static void long_heads_are_refused_and_the_longest_is_fine(void **state)
{
    (void)state;
    assert_int_equal(check_long(8000, 20, 1000), GW_HTTP_FINE);
    assert_int_equal(check_long(8200, 1, 10), GW_HTTP_LINE_TOO_LONG);
    assert_int_equal(check_long(10, 40, 1000), GW_HTTP_HEAD_TOO_LONG);
    assert_int_equal(check_long(10, 127, 100), GW_HTTP_FINE);
    assert_int_equal(check_long(10, 128, 100), GW_HTTP_HEAD_TOO_LONG);
}

static void path_is(const char *target, const char *path)
{
    char *copy = strdup(target);
    assert_non_null(copy);
    assert_string_equal(gw_framing_path(copy), path);
    free(copy);
}

static void a_path_is_without_host_and_without_slashes_at_its_end(void **state)
{
    (void)state;
    path_is("/v1/models", "/v1/models");
    path_is("/v1/models/", "/v1/models");
    path_is("/v1/models//", "/v1/models");
    path_is("http://host:8080/v1/models", "/v1/models");
    path_is("HTTPS://host/v1/models/", "/v1/models");
    path_is("http://host", "/");
    path_is("http://", "/");
    path_is("/", "/");
    path_is("///", "/");
    path_is("", "");
    path_is("*", "*");
}

static void unescaped_is(const char *text, const char *want)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    assert_int_equal(gw_framing_unescape(copy), strlen(want));
    assert_string_equal(copy, want);
    free(copy);
}

static void what_is_escaped_becomes_bytes_but_never_an_end(void **state)
{
    (void)state;
    unescaped_is("/v1/models/a%20b%2Fc%2f%25", "/v1/models/a b/c/%");
    unescaped_is("%ff%0a", "\xff\n");
    unescaped_is("/v1/models/tiny%00x", "/v1/models/tiny%00x");
    unescaped_is("%2500", "%00");
    unescaped_is("%", "%");
    unescaped_is("%4", "%4");
    unescaped_is("%g1%1g%41", "%g1%1gA");
    unescaped_is("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_head_is_fine_and_its_body_is_known),
        cmocka_unit_test(a_body_in_another_coding_is_told),
        cmocka_unit_test(two_ways_to_say_the_length_are_refused),
        cmocka_unit_test(a_length_is_digits_and_nothing_else),
        cmocka_unit_test(only_chunked_is_a_transfer_coding),
        cmocka_unit_test(there_is_one_host),
        cmocka_unit_test(versions_are_1_0_and_1_1),
        cmocka_unit_test(names_are_words_and_values_hold_no_control_characters),
        cmocka_unit_test(a_header_that_goes_on_in_the_next_line_is_refused),
        cmocka_unit_test(lines_end_with_cr_lf_and_a_nul_is_nowhere),
        cmocka_unit_test(the_first_line_has_three_words),
        cmocka_unit_test(long_heads_are_refused_and_the_longest_is_fine),
        cmocka_unit_test(a_path_is_without_host_and_without_slashes_at_its_end),
        cmocka_unit_test(what_is_escaped_becomes_bytes_but_never_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
