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

/* c after a letter, before two marks, out of order; then alone. */
static size_t put_triples(char *ret, uint32_t c)
{
    size_t n = put(ret, 'a');
    n += put(ret + n, c);
    n += put(ret + n, 0x301);
    n += put(ret + n, 0x323);
    n += put(ret + n, '\n');
    n += put(ret + n, c);
    return n + put(ret + n, '\n');
}

/* The hash is that of the same texts by normalizers.NFC of Hugging Face's tokenizers 0.23.3. */
static void composes_every_code_point_as_tokenizers_do(void **s)
{
    (void)s;
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    size_t changed = 0;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char text[32], *normal;
        size_t len;
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        const size_t n = put_triples(text, c);
        assert_int_equal(bt_utf8_nfc(&normal, &len, text, n), BT_OK);
        const char *p = normal ? normal : text;
        for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)p[i]) * 0x100000001B3u;
        changed += len != n || memcmp(p, text, n) != 0;
        free(normal);
    }
    assert_int_equal(changed, 1112064);
    assert_true(hash == 0x4EC3634C4793165Au);
}

static void composes_rows_of_characters(void **s)
{
    (void)s;
    static const char *const t[][2] = {
        {"", ""},
        {"plain \u00E9 \u6211", "plain \u00E9 \u6211"},
        {"cafe\u0301!", "caf\u00E9!"},
        {"\u1112\u1161\u11AB\u1100\u1173\u11AF", "\uD55C\uAE00"},
        {"\uAC00\u11A7", "\uAC00\u11A7"}, /* the place of no final */
        {"q\u0307\u0323", "q\u0323\u0307"},
        {"\u0301", "\u0301"},       /* with nothing before it */
        {"\u095B", "\u091C\u093C"}, /* parts that stay apart */
        {"\u212B\u2126", "\u00C5\u03A9"},
        {"a\u07FD\u0323", "a\u07FD\u0323"}, /* later than Unicode 9 */
        {"a\u0315\u0300\u05AE\u0300b", "\u00E0\u05AE\u0300\u0315b"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char *normal, *exact = malloc(strlen(t[i][0]) + 1);
        size_t len;
        memcpy(exact, t[i][0], strlen(t[i][0]));
        assert_int_equal(bt_utf8_nfc(&normal, &len, exact, strlen(t[i][0])), BT_OK);
        assert_int_equal(len, strlen(t[i][1]));
        assert_memory_equal(normal ? normal : exact, t[i][1], len);
        free(normal);
        free(exact);
    }
}

/* A long row of marks that are out of order at every second place: sorting must not step back over all of it.
 */
static void sorts_a_million_marks(void **s)
{
    (void)s;
    enum { PAIRS = 1 << 18 };
    char *text = malloc(1 + 4 * PAIRS), *normal;
    size_t n = put(text, 'q'), len;
    for (size_t i = 0; i < PAIRS; i++) {
        n += put(text + n, 0x307);
        n += put(text + n, 0x323);
    }
    assert_int_equal(bt_utf8_nfc(&normal, &len, text, n), BT_OK);
    assert_int_equal(len, n);
    for (size_t i = 0; i < 2 * PAIRS; i++)
        assert_memory_equal(normal + 1 + 2 * i, i < PAIRS ? "\u0323" : "\u0307", 2);
    free(normal);
    free(text);
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
        cmocka_unit_test(composes_every_code_point_as_tokenizers_do),
        cmocka_unit_test(composes_rows_of_characters),
        cmocka_unit_test(sorts_a_million_marks),
        cmocka_unit_test(shows_names_as_printable_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
