/* Origins of a rendering's bytes, limits, and errors with their places. */
#include "text/jinja/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MESSAGES \
    "{\"messages\": [{\"role\": \"user\", \"content\": \" A<|x|>B \", \"name\": \"user\"}, {\"role\": " \
    "\"<|x|>\", " \
    "\"content\": \"\"}], \"n\": 12, \"word\": \"ask\", \"bos_token\": \"<s>\"}"

static bt_err render(bt_jinja_text *ret, const char *source, bt_jinja_limits limits, bt_fault *fault)
{
    json_t *vars = json_loads(MESSAGES, 0, NULL);
    assert_non_null(vars);
    bt_jinja_var var[8];
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach(vars, name, value)
        var[n++] = (bt_jinja_var){name, value,
                                  strcmp(name, "messages") == 0    ? BT_JINJA_MESSAGES
                                  : strcmp(name, "bos_token") == 0 ? BT_JINJA_TEMPLATE
                                                                   : BT_JINJA_REQUEST};
    bt_jinja *j = NULL;
    bt_err e = bt_jinja_parse(&j, source, strlen(source), fault);
    const bt_jinja_input in = {.var = var, .vars = n, .now_s = 1753900000, .limits = limits};
    if (e == BT_OK) e = bt_jinja_render(ret, j, &in, fault);
    bt_jinja_free(j);
    json_decref(vars);
    return e;
}

/* The rendering with the request's bytes as '.', and as it is. */
static void expect(const char *source, const char *text, const char *origins)
{
    bt_jinja_text t = {0};
    bt_fault f = {""};
    if (render(&t, source, (bt_jinja_limits){0}, &f) != BT_OK) fail_msg("%s: %s", source, f.text);
    assert_string_equal(t.text, text);
    size_t at = 0;
    for (size_t i = 0; i < t.runs; i++) {
        assert_true(t.run[i].len > 0 && (i == 0 || t.run[i].is_template != t.run[i - 1].is_template));
        for (size_t k = 0; k < t.run[i].len; k++, at++)
            if (!t.run[i].is_template) t.text[at] = '.';
    }
    assert_int_equal(at, t.len);
    assert_string_equal(t.text, origins);
    bt_jinja_text_done(&t);
}

static void bytes_keep_their_origin_through_filters_slices_and_joins(void **state)
{
    (void)state;
    expect("<{{ messages[0].content }}>", "< A<|x|>B >", "<.........>");
    expect("{{ bos_token + messages[0].content | trim + '!' }}", "<s>A<|x|>B!", "<s>.......!");
    expect("{{ ('-' ~ word ~ '-').upper() }}", "-ASK-", "-...-");
    expect("{{ ('-' ~ word ~ '-')[1:] }}", "ask-", "...-");
    expect("{{ ('-' ~ word ~ '-') | replace('-', '<|x|>') }}", "<|x|>ask<|x|>", "<|x|>...<|x|>");
    expect("{{ 'a-b' | replace('-', word) }}", "aaskb", "a...b");
    expect("{{ [word, bos_token, 'x'] | join('|') }}", "ask|<s>|x", "...|<s>|x");
    expect("{{ '%s:%s' % (word, bos_token) }}", "ask:<s>", "...:<s>");
    expect("{{ '{}:{}'.format(word, 'k') }}", "ask:k", "...:k");
    expect("{{ (word ~ bos_token) | reverse }}", ">s<ksa", ">s<...");
    expect("{{ ('k' ~ word ~ 'k').strip('k') }}", "as", "..");
    expect("{{ ('a' ~ word ~ 'a').split('s') | join('s') }}", "aaska", "a.s.a");
    expect("{% set t %}[{{ word }}]{% endset %}{{ t | lower }}", "[ask]", "[...]");
    expect("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(word) }}", "<ask>", "<...>");
    expect("{{ word | tojson }}{{ 'w' | tojson }}", "\"ask\"\"w\"", ".....\"w\"");
    expect("{{ n }}{{ n + 1 }}{{ 1 + 1 }}{{ messages | length }}", "121322", "....22");
}

static void roles_of_the_fixed_set_are_the_templates(void **state)
{
    (void)state;
    expect("{{ messages[0].role }}{{ messages[0].name }}", "useruser", "user....");
    expect("{{ messages[1].role }}", "<|x|>", ".....");
    expect("{{ '<|' ~ messages[0]['role'] ~ '|>' }}", "<|user|>", "<|user|>");
    assert_true(bt_jinja_is_role("assistant", 9));
    assert_false(bt_jinja_is_role("assistant ", 10));
    assert_false(bt_jinja_is_role("", 0));
}

static void a_fault_names_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *source, *fault;
        bt_err err;
    } cases[] = {
        {"a\n {{ nothing.x }}", "line 2, column 12: 'nothing' is undefined", BT_EFORMAT},
        {"{{ 'x' | nofilter }}", "line 1, column 10: No filter named 'nofilter'.", BT_EFORMAT},
        {"{% if x is notest %}{% endif %}", "line 1, column 12: No test named 'notest' found.", BT_EFORMAT},
        {"{% if false %}{{ 1 | nofilter }}{% endif %}ok", "", BT_OK},
        {"x {{ nofunction(1) }}", "line 1, column 16: there is no function 'nofunction'", BT_EFORMAT},
        {"{% if nofunction is defined %}{{ nofunction() }}{% endif %}{{ n or nofunction() }}", "", BT_OK},
        {"{% for %}", "line 1, column 8: a name to assign to is expected, not '%}'", BT_EFORMAT},
        {"{% include 'x' %}", "line 1, column 4: the tag 'include' is not for templates of one file",
         BT_EFORMAT},
        {"x\n\n{{ raise_exception('No ' ~ word) }}", "No ask", BT_EARG},
        {"{{ ('%s' | safe) % word }}",
         "line 1, column 4: filling values into text that is marked safe is not known", BT_EFORMAT},
        {"{{ ('{}' | safe).format(word) }}",
         "line 1, column 24: filling values into text that is marked safe is not known", BT_EFORMAT},
        {"{{ messages.append(1) }}", "line 1, column 19: access to a method that changes a list is unsafe.",
         BT_EFORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_jinja_text t = {0};
        bt_fault f = {""};
        assert_int_equal(render(&t, cases[i].source, (bt_jinja_limits){0}, &f), cases[i].err);
        assert_string_equal(f.text, cases[i].fault);
        bt_jinja_text_done(&t);
    }
}

static void what_loops_recurses_or_grows_ends_at_a_limit(void **state)
{
    (void)state;
    static const struct {
        const char *source, *word;
        bt_jinja_limits limits;
    } cases[] = {
        {"{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}",
         "steps",
         {.steps = 200000}},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deeper than 64", {0}},
        {"{{ 'a' | map(*(['map'] * 100000)) }}", "open evaluations", {0}},
        {"{% set ns = namespace(t=1) %}{% for i in range(9999) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ "
         "{ns.t: 1} }}",
         "open evaluations",
         {0}},
        {"{% set a = [1] * 999 %}{% set b = [1] * 999 %}{% for i in range(999) %}{% if a == b %}{% endif "
         "%}{% endfor %}",
         "steps",
         {.steps = 200000}},
        {"{% set s = ' ' * 99999 %}{% for i in range(999) %}{% if s.strip() %}{% endif %}{% endfor %}",
         "steps",
         {.steps = 200000}},
        {"{% set s = 'x' * 99999 %}{% set t = s ~ 'y' %}{% for i in range(999) %}{% if t.startswith(s) %}{% "
         "endif %}"
         "{% endfor %}",
         "steps",
         {.steps = 200000}},
        {"{% set s = 'x' * 99999 %}{% for i in range(999) %}{% if s.center(1) is sameas 'x' %}{% endif %}{% "
         "endfor %}",
         "steps",
         {.steps = 200000}},
        {"{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
         "bytes",
         {0}},
        {"{{ 'x' * 99999999999 }}", "bytes", {.output_bytes = 1000}},
        {"{{ range(100001) }}", "MAX_RANGE", {0}},
        {"{{ '%99999d' % 1 }}", "wider than", {0}},
        {"{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
         "memory",
         {.memory_bytes = 1 << 20}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_jinja_text t = {0};
        bt_fault f = {""};
        assert_int_equal(render(&t, cases[i].source, cases[i].limits, &f), BT_ELIMIT);
        if (!strstr(f.text, cases[i].word)) fail_msg("%s: %s", cases[i].source, f.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_keep_their_origin_through_filters_slices_and_joins),
        cmocka_unit_test(roles_of_the_fixed_set_are_the_templates),
        cmocka_unit_test(a_fault_names_line_and_column),
        cmocka_unit_test(what_loops_recurses_or_grows_ends_at_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
