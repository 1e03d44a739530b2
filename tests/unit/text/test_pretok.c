/* Words: what each expression cuts, worked out by hand from its definition. */
#include "text/pretok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct joined {
    char text[512];
    size_t len, total;
} joined;

static bt_err collect(void *ud, const char *word, size_t len, bt_fault *fault)
{
    joined *j = ud;
    assert_true(len > 0);
    if (j->len + len + 1 > sizeof j->text) return bt_fail(fault, BT_ELIMIT, "full");
    memcpy(j->text + j->len, word, len);
    j->text[j->len + len] = '|';
    j->len += len + 1;
    return BT_OK;
}

static void check(const char *pre, const char *text, const char *words)
{
    bt_fault f;
    bt_pretok *p;
    joined j = {.len = 0};
    char *exact = malloc(strlen(text) + 1);
    memcpy(exact, text, strlen(text));
    if (bt_pretok_new(&p, pre, strlen(pre), &f) < 0) fail_msg("%s", f.text);
    if (bt_pretok_split(p, exact, strlen(text), collect, &j, &f) < 0) fail_msg("%s", f.text);
    j.text[j.len > 0 ? j.len - 1 : 0] = '\0';
    if (strcmp(j.text, words) != 0) fail_msg("%s: '%s', expected '%s'", pre, j.text, words);
    bt_pretok_free(p);
    free(exact);
}

static void cuts_as_each_model_was_trained(void **s)
{
    (void)s;
    const char *text = "I'm 1234 ok!!\n\n  x";
    check("gpt-2", text, "I|'m| 1234| ok|!!|\n\n | x");
    check("llama-bpe", text, "I|'m| |123|4| ok|!!\n\n| | x");
    check("qwen2", text, "I|'m| |1|2|3|4| ok|!!\n\n| | x");
    check("smollm", text, "I|'m| |1|2|3|4| ok|!!|\n\n | x");
    check("dbrx", text, "I|'m| |123|4| ok|!!\n\n| | x");
    check("gpt-4o", text, "I'm| |123|4| ok|!!\n\n| | x");
    check("tekken", text, "I|'m| |1|2|3|4| ok|!!\n\n| | x");
    check("deepseek-v3", text, "I|'m| |123|4| ok|!!\n\n| | x");
    check("hunyuan-dense", text, "I|'m| |123|4| ok|!!\n\n| | x");
    check("deepseek-llm", text, "I|'|m| |1|2|3|4| ok|!!|\n|\n| | x");
    check("deepseek-coder", text, "I|'|m| |1|2|3|4| ok|!!|\n|\n| | x");
    check("gpt-2", "", "");
    check("smollm", "", "");
}

static void looks_at_contractions_in_capitals_where_the_model_does(void **s)
{
    (void)s;
    check("gpt-2", "WE'LL we'll", "WE|'|LL| we|'ll");
    check("llama-bpe", "WE'LL we'll", "WE|'LL| we|'ll");
    check("qwen2", "I'D'Ve", "I|'D|'Ve");
}

static void takes_unicode_space_letters_and_numbers(void **s)
{
    (void)s;
    check("gpt-2", "a\u3000\u3000b", "a|\u3000|\u3000|b");
    check("gpt-2", "a\xC2\x85\u00A0", "a|\xC2\x85\u00A0");
    check("gpt-2", "a\u180Eb", "a|\u180E|b"); /* not white space */
    check("gpt-2", "\u00e9t\u00e9 \u6211\u60f3 \u0661\u0662", "\u00e9t\u00e9| \u6211\u60f3| \u0661\u0662");
    check("llama-bpe", "\u0661\u0662\u0663\u0664", "\u0661\u0662\u0663|\u0664");
    check("smollm", "\u0661\u0662x", "\u0661|\u0662|x");
    check("gpt-2", "e\u0301", "e|\u0301"); /* a mark is no letter */
}

static void sees_the_end_of_a_part_before_a_digit(void **s)
{
    (void)s;
    check("smollm", "a  3", "a|  |3"); /* cut out first, so both spaces end a part */
    check("gpt-2", "a  3", "a| | 3");
    check("smollm", "3  a", "3| | a");
    check("smollm", "33", "3|3");
}

static void cuts_before_capitals_and_around_scripts(void **s)
{
    (void)s;
    check("gpt-4o", "HTMLParser's a/b/\n", "HTMLParser's| a|/b|/\n");
    check("tekken", "fooBar FOO", "foo|Bar| FOO");
    check("deepseek-v3", "x=f(\u6211\u60f3 a\u0301)", "x|=f|(|\u6211\u60f3| a\u0301|)");
    check("deepseek-llm", "a   ", "a|   ");
    check("deepseek-llm", "a   \U0001F999", "a|   \U0001F999");
    check("deepseek-coder", "x \u6211\u60f3.", "x| |\u6211\u60f3|.");
}

/* PCRE2 10.42 ends at Unicode 14; U+31353 is a letter of 15, U+1E4F0 a number. */
static void knows_letters_and_numbers_of_unicode_16(void **s)
{
    (void)s;
    check("gpt-2", "a\U00031353", "a\U00031353");
    check("smollm", "1\U0001E4F0", "1|\U0001E4F0");
    check("deepseek-v3", "a\U0001F6DC", "a|\U0001F6DC");
}

static void joins_newlines_to_what_stands_before(void **s)
{
    (void)s;
    check("llama-bpe", ".\r\n\r\na", ".\r\n\r\n|a");
    check("llama-bpe", "a \n \n b", "a| \n \n| b");
    check("llama-bpe", "a   ", "a|   ");
    check("qwen2", "\n\n\n", "\n\n\n");
}

static void knows_other_names_of_the_same(void **s)
{
    (void)s;
    static const char *const names[] = {"gpt-2",     "gpt2",  "llama-bpe",        "llama3",
                                        "llama-v3",  "qwen2", "deepseek-r1-qwen", "smollm",
                                        "starcoder", "phi-2", "refact",           "smaug-bpe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bt_pretok *p = NULL;
        assert_int_equal(bt_pretok_new(&p, names[i], strlen(names[i]), NULL), BT_OK);
        const unsigned traits = bt_pretok_traits(p);
        assert_int_equal((traits & BT_PRETOK_WHOLE_WORDS) != 0, strncmp(names[i], "llama", 5) == 0);
        assert_int_equal((traits & BT_PRETOK_NFC) != 0, i == 5 || i == 6);
        bt_pretok_free(p);
    }
}

static void names_an_unknown_one_and_the_known(void **s)
{
    (void)s;
    bt_pretok *p = (bt_pretok *)&p;
    bt_fault f;
    assert_int_equal(bt_pretok_new(&p, "te\nkken", 7, &f), BT_EVERSION);
    assert_ptr_equal(p, &p);
    assert_string_equal(
        f.text,
        "tokenizer.ggml.pre is 'te?kken'; this build knows gpt-2, llama-bpe, qwen2, smollm, command-r, "
        "olmo, dbrx, gpt-4o, tekken, deepseek-v3, deepseek-llm and deepseek-coder");
    assert_int_equal(bt_pretok_new(&p, "gpt-", 4, &f), BT_EVERSION);
    assert_int_equal(bt_pretok_new(&p, NULL, 0, &f), BT_EVERSION);
    bt_pretok_free(NULL);
}

static bt_err stop(void *ud, const char *word, size_t len, bt_fault *fault)
{
    (void)word;
    (void)len;
    return ++*(int *)ud == 2 ? bt_fail(fault, BT_ECANCEL, "enough") : BT_OK;
}

static void stops_when_told(void **s)
{
    (void)s;
    static const char *const names[] = {"gpt-2", "smollm"};
    for (size_t i = 0; i < 2; i++) {
        bt_pretok *p;
        bt_fault f;
        int calls = 0;
        assert_int_equal(bt_pretok_new(&p, names[i], strlen(names[i]), NULL), BT_OK);
        assert_int_equal(bt_pretok_split(p, "a 1 b", 5, stop, &calls, &f), BT_ECANCEL);
        assert_int_equal(calls, 2);
        bt_pretok_free(p);
    }
}

static bt_err measure(void *ud, const char *word, size_t len, bt_fault *fault)
{
    (void)word;
    (void)fault;
    ((joined *)ud)->len++;
    ((joined *)ud)->total += len;
    return BT_OK;
}

/* Runs over which an expression must step back; the bound on steps is linear, so none may need more. */
static void takes_long_runs_in_linear_steps(void **s)
{
    (void)s;
    static const char *const names[] = {"gpt-2",     "llama-bpe",   "qwen2",        "smollm",
                                        "dbrx",      "gpt-4o",      "tekken",       "olmo",
                                        "command-r", "deepseek-v3", "deepseek-llm", "deepseek-coder"};
    static const char *const units[] = {
        " ",      "a",          "1",  "\n", " \n",    "!",   "'", "A", "\u0301", "\u6211", "    \U0001F999",
        "\u3000", "\U0001F999", " a", "'s", "\n   x", "\t\r"};
    enum { BYTES = 1 << 18 };
    char *text = malloc(BYTES + 16);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bt_pretok *p;
        assert_int_equal(bt_pretok_new(&p, names[i], strlen(names[i]), NULL), BT_OK);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            bt_fault f;
            joined j = {.len = 0};
            size_t n = 0;
            while (n < BYTES) {
                memcpy(text + n, units[u], strlen(units[u]));
                n += strlen(units[u]);
            }
            if (bt_pretok_split(p, text, n, measure, &j, &f) < 0)
                fail_msg("%s, unit %zu: %s", names[i], u, f.text);
            assert_int_equal(j.total, n);
        }
        bt_pretok_free(p);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_as_each_model_was_trained),
        cmocka_unit_test(looks_at_contractions_in_capitals_where_the_model_does),
        cmocka_unit_test(takes_unicode_space_letters_and_numbers),
        cmocka_unit_test(sees_the_end_of_a_part_before_a_digit),
        cmocka_unit_test(cuts_before_capitals_and_around_scripts),
        cmocka_unit_test(knows_letters_and_numbers_of_unicode_16),
        cmocka_unit_test(joins_newlines_to_what_stands_before),
        cmocka_unit_test(knows_other_names_of_the_same),
        cmocka_unit_test(names_an_unknown_one_and_the_known),
        cmocka_unit_test(stops_when_told),
        cmocka_unit_test(takes_long_runs_in_linear_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
