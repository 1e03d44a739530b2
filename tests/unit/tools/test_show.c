/* Text of a model cannot steer the terminal. */
#include "tools/show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_of(const char *text, size_t text_len, const char *shown)
{
    char *got = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&got, &len);
    assert_non_null(f);
    tool_show(f, text, text_len);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(got, shown);
    free(got);
}

#define expect(text, shown) expect_of(text, sizeof(text) - 1, shown)

static void text_stays_as_it_is(void **state)
{
    (void)state;
    expect("", "");
    expect("one\n\ttwo ~ h\xC3\xA9 \xC2\xA0 \xE4\xBD\xA0 \xF0\x9F\x98\x80",
           "one\n\ttwo ~ h\xC3\xA9 \xC2\xA0 \xE4\xBD\xA0 \xF0\x9F\x98\x80");
}

static void control_characters_are_spelt_out(void **state)
{
    (void)state;
    expect("a\x1b[2Jb\0", "a\\x1b[2Jb\\x00");
    expect("\x01\x07\x08\x0D\x1F\x7F!", "\\x01\\x07\\x08\\x0d\\x1f\\x7f!");
    expect("\xC2\x9B"
           "31m \xC2\x80 \xC2\x9F",
           "\\u009b31m \\u0080 \\u009f");
}

static void broken_utf8_is_replaced(void **state)
{
    (void)state;
    expect("a\xFF"
           "b",
           "a\xEF\xBF\xBD"
           "b");
    expect("\x9B"
           "31m",
           "\xEF\xBF\xBD"
           "31m"); /* a control character to a terminal of eight bits */
    expect("a\xE4\xBD", "a\xEF\xBF\xBD");
    expect("\xE4\xBD"
           "b",
           "\xEF\xBF\xBD"
           "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_stays_as_it_is),
        cmocka_unit_test(control_characters_are_spelt_out),
        cmocka_unit_test(broken_utf8_is_replaced),
    };
    return cmocka_run_group_tests_name("shown text", tests, NULL, NULL);
}
