/* Regular expressions: by hand, and against PCRE2 on every short text. */
#include "tests/unit/grammar/kit.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { SHORT = 5 };

/* Every text of up to SHORT letters: the expression matches the whole of it as PCRE2 says. */
static void compare(const char *pattern, const char *letters)
{
    int error;
    PCRE2_SIZE at;
    char whole[256];
    (void)snprintf(whole, sizeof whole, "\\A(?:%s)\\z", pattern);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
    assert_non_null(code);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    bt_program *p = grammar(GRAMMAR_REGEX, pattern);
    const size_t n = strlen(letters);
    size_t count = 1, yes = 0;
    for (int len = 0; len <= SHORT; len++, count *= n)
        for (size_t i = 0; i < count; i++) {
            char text[SHORT + 1] = "";
            size_t left = i;
            for (int k = 0; k < len; k++, left /= n) text[k] = letters[left % n];
            const bool want = pcre2_match(code, (PCRE2_SPTR)text, (PCRE2_SIZE)len, 0, 0, data, NULL) >= 0;
            if ((grammar_says(p, text) == 'y') != want) fail_msg("%s: '%s' is %d", pattern, text, want);
            yes += want;
        }
    assert_true(yes > 0);
    bt_program_free(p);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
}

static void expressions_match_what_pcre2_says(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "a",
        "ab|c",
        "(ab|a)*c?",
        "a{2,3}b",
        "(a|b){1,2}c*",
        "[^a]b",
        "[a-c]{3}",
        "(a*b*)*c",
        "a?b+?c*?",
        "(?:a|bc)(?<n>a)",
        "\\w{2}",
        "\\d|\\W",
        "[\\w-]+",
        "a{0}b",
        "(|a)b",
        "((a)|(b(c)?))+",
        "\\x61[\\u0062]",
        "^ab$",
        "^a|b$",
        "(^a)?b",
        "a(b$|c)",
        "[]a]|b",
        ".-.",
        "a{,2}|b",
        "[a\\-b]{2}",
        "(a|ab)(c|bcd)?(a*)",
        "[^\\d]a",
        "\\-\\.|a",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (patterns[i][1] != ']' && !strstr(patterns[i], "{,") && !strstr(patterns[i], "\\u"))
            compare(patterns[i], "abc-1");
}

static void characters_are_those_of_unicode(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_REGEX, "[^a]", "y \u00e9", "y \U0001d11e", "n a", "p \xf0\x9d", "n \xed\xa0", "n \xc0",
               NULL);
    grammar_is(GRAMMAR_REGEX, "[\u00e0-\u4e00]{2}", "y \u00e0\u4e00", "n \u00dfa", "p \u4dff", NULL);
    grammar_is(GRAMMAR_REGEX, "\\u{1F600}|\\uD83D\\uDE01|\\s", "y \U0001f600", "y \U0001f601", "y \u3000",
               "n x", NULL);
    grammar_is(GRAMMAR_REGEX, "\\n\\x41\\cJ\\/", "y \nA\n/", NULL);
    grammar_is(GRAMMAR_REGEX, ".{2}", "y \u00e9x", "n \nx", NULL);
    grammar_is(GRAMMAR_REGEX, "a{b}", "y a{b}", NULL);
}

static void what_cannot_be_is_refused_by_name_and_place(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"a(?=b)", "look-around"},
        {"\\bfoo", "\\b at byte 0"},
        {"(a)\\1", "\\1 at byte 3"},
        {"\\p{L}", "\\p"},
        {"a**", "quantifier"},
        {"*a", "quantifier"},
        {"a{3,2}", "before its begin"},
        {"[b-a]", "before its begin"},
        {"(a", "without its end"},
        {"a)", "opening"},
        {"[a", "without its end"},
        {"a\\", "backslash"},
        {"(?i)a", "flag"},
        {"\xff", "no UTF-8"},
        {"[]", "no text"},
        {"a^b", "no text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        grammar_refuses(GRAMMAR_REGEX, bad[i][0], BT_EARG, bad[i][1]);
}

static void what_explodes_is_refused_with_its_limit(void **state)
{
    (void)state;
    char deep[201] = "";
    memset(deep, '(', 100);
    memset(deep + 100, ')', 100);
    grammar_refuses(GRAMMAR_REGEX, deep, BT_ELIMIT, "64");
    grammar_refuses(GRAMMAR_REGEX, "a{20000}", BT_ELIMIT, "10000");
    grammar_refuses(GRAMMAR_REGEX, "(((a{100}){100}){100}){100}", BT_ELIMIT, "states");
    grammar_refuses(GRAMMAR_REGEX, "(a|b)*a(a|b){22}", BT_ELIMIT, "steps");
    grammar_refuses(GRAMMAR_REGEX, ".{0,5000}", BT_ELIMIT, "");
}

static void choices_are_those_texts_alone(void **state)
{
    (void)state;
    static const bt_syntax_span word[] = {{"yes", 3}, {"yesterday", 9}, {"no", 2}};
    bt_buf b;
    bt_fault f;
    bt_program *p;
    bt_buf_init(&b, BT_PROGRAM_BYTES);
    assert_int_equal(bt_regex_choices(&b, word, 3, &f), BT_OK);
    assert_int_equal(bt_program_new(&p, b.data, b.len, &f), BT_OK);
    assert_int_equal(grammar_says(p, "yes"), 'y');
    assert_int_equal(grammar_says(p, "yesterday"), 'y');
    assert_int_equal(grammar_says(p, "yester"), 'p');
    assert_int_equal(grammar_says(p, "nope"), 'n');
    bt_program_free(p);
    assert_int_equal(bt_regex_choices(&b, word, 0, &f), BT_EARG);
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_match_what_pcre2_says),
        cmocka_unit_test(characters_are_those_of_unicode),
        cmocka_unit_test(what_cannot_be_is_refused_by_name_and_place),
        cmocka_unit_test(what_explodes_is_refused_with_its_limit),
        cmocka_unit_test(choices_are_those_texts_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
