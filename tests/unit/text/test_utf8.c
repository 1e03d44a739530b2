/* UTF-8: every boundary of the table of well-formed byte sequences, and every way to be wrong. */
#include "text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* An encoder written from the definition, to check the decoder against every code point. */
static size_t put(char *ret, uint32_t c)
{
    if (c < 0x80) {
        ret[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        ret[0] = (char)(0xC0 | c >> 6);
        ret[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        ret[0] = (char)(0xE0 | c >> 12);
        ret[1] = (char)(0x80 | (c >> 6 & 63));
        ret[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    ret[0] = (char)(0xF0 | c >> 18);
    ret[1] = (char)(0x80 | (c >> 12 & 63));
    ret[2] = (char)(0x80 | (c >> 6 & 63));
    ret[3] = (char)(0x80 | (c & 63));
    return 4;
}

static void knows_every_code_point_and_every_beginning_of_one(void **s)
{
    (void)s;
    for (uint32_t c = 0; c < 0x140000; c++) {
        char b[4];
        const size_t n = put(b, c);
        const bool is_good = c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
        if (is_good) {
            if (bt_utf8_next(b, n) != (int)n) fail_msg("U+%X", c);
            for (size_t k = 1; k < n; k++)
                if (bt_utf8_next(b, k) != 0) fail_msg("U+%X cut to %zu", c, k);
        } else if (bt_utf8_next(b, n) >= 0) {
            fail_msg("U+%X is none", c);
        }
    }
}

static void refuses_overlong_forms_and_stray_bytes(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        size_t len;
        int next;
    } t[] = {
        {"\x80", 1, -1},
        {"\xBF", 1, -1},
        {"\xC0\x80", 2, -1},
        {"\xC1\xBF", 2, -1},
        {"\xE0\x9F\xBF", 3, -1},
        {"\xF0\x8F\xBF\xBF", 4, -1},
        {"\xF5\x80\x80\x80", 4, -1},
        {"\xFF", 1, -1},
        {"\xC3"
         "A",
         2, -1},
        {"\xE2\x96"
         "A",
         3, -2},
        {"\xF0\x9F\xA6"
         "A",
         4, -3},
        {"\xF0\x9F"
         "AB",
         4, -2},
        {"\xED\xA0\x80", 3, -1},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char *p = malloc(t[i].len); /* exact size: a read beyond is seen */
        memcpy(p, t[i].text, t[i].len);
        assert_int_equal(bt_utf8_next(p, t[i].len), t[i].next);
        free(p);
    }
}

static void says_where_the_first_bad_byte_is(void **s)
{
    (void)s;
    size_t at = 99;
    assert_true(bt_utf8_valid("", 0, &at));
    assert_true(bt_utf8_valid("a\0\xC3\xA9", 4, NULL));
    assert_int_equal(at, 99);
    assert_false(bt_utf8_valid("a\xC3\xA9\xFF", 4, &at));
    assert_int_equal(at, 3);
    assert_false(bt_utf8_valid("ab\xE2\x96", 4, &at));
    assert_int_equal(at, 2);
}

static void shows_names_as_printable_text(void **s)
{
    (void)s;
    char b[8];
    assert_string_equal(bt_utf8_show(b, sizeof b, "ab\n\xC3\0z~", 7), "ab???z~");
    assert_string_equal(bt_utf8_show(b, sizeof b, "abcdefghij", 10), "abcdefg");
    assert_string_equal(bt_utf8_show(b, 1, "abc", 3), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_every_code_point_and_every_beginning_of_one),
        cmocka_unit_test(refuses_overlong_forms_and_stray_bytes),
        cmocka_unit_test(says_where_the_first_bad_byte_is),
        cmocka_unit_test(shows_names_as_printable_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
