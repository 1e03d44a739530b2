/* Fields of CSV that every reader takes apart as they were put together, and that no spreadsheet runs. */
#include "tools/csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text, *field;
} cases[] = {
    {"", ""},
    {"smollm2-135m.gguf", "smollm2-135m.gguf"},
    {"tg512 x 16", "tg512 x 16"},
    {"a,b", "\"a,b\""},
    {"a;b", "\"a;b\""}, /* the sign between fields where a comma is in numbers */
    {"say \"so\"", "\"say \"\"so\"\"\""},
    {"two\nlines", "\"two\nlines\""},
    {"two\r\nlines", "\"two\r\nlines\""},
    {" blank", "\" blank\""},
    {"h\xC3\xA9", "\"h\xC3\xA9\""},
    {"\"", "\"\"\"\""},
    {"=1+1", "\"'=1+1\""},
    {"=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""},
    {"+1", "\"'+1\""},
    {"-1+1", "\"'-1+1\""},
    {"@SUM(A1)", "\"'@SUM(A1)\""},
    {"\t=1", "\"'\t=1\""},
    {"\r=1", "\"'\r=1\""},
    {"  =1", "\"'  =1\""},
    {"\xEF\xBC\x9D"
     "1",
     "\"'\xEF\xBC\x9D"
     "1\""},
    {"a=1", "\"a=1\""},
    {"'=1", "\"'=1\""},
    {"\x1b[2J", "\"?[2J\""},
};

static void a_field_is_quoted_and_harmless(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&got, &len);
        tool_csv_text(f, cases[i].text);
        assert_int_equal(fclose(f), 0);
        assert_string_equal(got, cases[i].field);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_quoted_and_harmless),
    };
    return cmocka_run_group_tests_name("fields of CSV", tests, NULL, NULL);
}
