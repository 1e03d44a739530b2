/* Expressions and tags, each beside the text that jinja2 gives (cases.py). */
#include "text/jinja/jinja.h"
#include "tests/unit/text/jinja/cases_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void every_case_has_the_text_that_jinja2_gives(void **state)
{
    (void)state;
    json_t *vars = json_loads(VARIABLES, 0, NULL);
    assert_non_null(vars);
    bt_jinja_var var[32];
    size_t n = 0, wrong = 0;
    const char *name;
    json_t *value;
    json_object_foreach(vars, name, value)
        if (n < sizeof var / sizeof *var) var[n++] = (bt_jinja_var){name, value, BT_JINJA_REQUEST};
    assert_int_equal(n, json_object_size(vars));
    const bt_jinja_input in = {.var = var, .vars = n, .now_s = 1753900000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_jinja *j = NULL;
        bt_jinja_text t = {0};
        bt_fault f = {""};
        bt_err e = bt_jinja_parse(&j, cases[i].source, strlen(cases[i].source), &f);
        if (e == BT_OK) e = bt_jinja_render(&t, j, &in, &f);
        if (e != BT_OK || strcmp(t.text, cases[i].text) != 0) {
            print_error("%s\n  is '%s'\n not '%s'\n", cases[i].source, e == BT_OK ? t.text : f.text,
                        cases[i].text);
            wrong++;
        }
        bt_jinja_text_done(&t);
        bt_jinja_free(j);
    }
    json_decref(vars);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_has_the_text_that_jinja2_gives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
