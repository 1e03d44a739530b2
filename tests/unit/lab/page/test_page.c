/* No text in a page's JSON begins a comment or ends a script, and a reader gets the same text. */
#include "lab/page/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const texts[] = {"<!--<script>", "</script>", "</SCRIPT ", "<", "<<<",
                                    "a < b",        "\\<",       "]]>&amp;",  ""};
enum { TEXTS = sizeof texts / sizeof *texts };

static void a_text_reads_back_and_has_no_sign_that_begins_a_tag(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEXTS; i++) {
        char *out = NULL;
        size_t n;
        FILE *f = open_memstream(&out, &n);
        assert_true(tool_page_text(f, texts[i]));
        assert_int_equal(fclose(f), 0);
        assert_null(strchr(out, '<'));
        json_t *back = json_loads(out, JSON_DECODE_ANY, NULL);
        assert_string_equal(json_string_value(back), texts[i]);
        json_decref(back);
        free(out);
    }
}

static void an_object_is_escaped_in_keys_and_deep_inside(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:[s,{s:f}]}", "<!--", "<script", "</x", 0.1);
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    assert_true(tool_page_json(f, o, JSON_REAL_PRECISION(9)));
    assert_int_equal(fclose(f), 0);
    assert_null(strchr(out, '<'));
    json_t *back = json_loads(out, 0, NULL);
    assert_true(json_equal(back, o));
    json_decref(back);
    json_decref(o);
    free(out);
}

static void bytes_that_are_no_text_are_named_so(void **state)
{
    (void)state;
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    assert_true(tool_page_text(f, "a\xff"));
    assert_int_equal(fclose(f), 0);
    assert_string_equal(out, "\"(not UTF-8)\"");
    free(out);
    f = fopen("/dev/full", "we");
    assert_non_null(f);
    setbuf(f, NULL);
    assert_false(tool_page_text(f, "a"));
    assert_int_equal(fclose(f), 0);
    assert_false(tool_page_json(stdout, NULL, 0));
}

static void how_a_page_was_made_stands_there_for_people(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:s, s:n, s:s, s:{s:s, s:[s, s]}, s:[{s:s}, {s:s}]}", "command",
                          "baton plan <a> & b", "commit", "host", "box", "options", "seed", "1", "model", "x",
                          "</td>", "profiles", "name", "a100", "name", "<b>");
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    const char *rest = tool_page_until(f, "<p>@HERE@</p>", "@HERE@");
    tool_page_made_by(f, o);
    fputs(rest, f);
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(out, "<td>command</td><td>baton plan &lt;a> &amp; b</td>"));
    assert_non_null(strstr(out, "<td>options</td><td>--seed=1 --model=x --model=&lt;/td> </td>"));
    assert_non_null(strstr(out, "<td>profiles</td><td>a100, &lt;b></td>"));
    assert_null(strstr(out, "commit"));
    assert_true(strncmp(out, "<p><section", 11) == 0 && strcmp(out + n - 15, "</section>\n</p>") == 0);
    free(out);
    f = open_memstream(&out, &n);
    tool_page_made_by(f, NULL);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, 0);
    free(out);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_reads_back_and_has_no_sign_that_begins_a_tag),
        cmocka_unit_test(an_object_is_escaped_in_keys_and_deep_inside),
        cmocka_unit_test(bytes_that_are_no_text_are_named_so),
        cmocka_unit_test(how_a_page_was_made_stands_there_for_people),
    };
    return cmocka_run_group_tests_name("JSON of pages", tests, NULL, NULL);
}
