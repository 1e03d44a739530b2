/* Grammars in GBNF. */
#include "tests/unit/grammar/kit.h"

static void rules_call_each_other_before_and_after_they_are_written(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_GBNF,
               "# sums\nroot ::= sum\nsum ::= product (\"+\" product)*  # more\nproduct ::= number\n"
               "number ::= [0-9]+ | \"(\" (sum\n)  \")\"",
               "y 1+2", "n ()", "p (", NULL);
    grammar_is(GRAMMAR_GBNF, "root ::= list |\n  \"-\"\nlist ::= \"a\" ( \",\"\n list)?", "y a,a", "y -",
               "p a,", NULL);
}

static void empty_rules_may_stand_anywhere(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_GBNF,
               "root ::= ws \"[\" ws (root (ws \",\" ws root)*)? ws \"]\" ws\nws ::= [ \\t\\n]*", "y []",
               "y  [ [ ] ,[]\n] ", "n [,]", NULL);
    grammar_is(GRAMMAR_GBNF, "root ::= a*\na ::= b?\nb ::= \"x\"", "y ", "y xx", "n y", NULL);
}

static void items_are_counted_and_escaped(void **state)
{
    (void)state;
    grammar_is(GRAMMAR_GBNF,
               "root ::= x{2,3} \"\\\"\\\\\\x41\\u00e9\\U0001F600\\n\"\nx ::= [^\\]a-c] | .{2} \"!\"",
               "y zz\"\\A\u00e9\U0001f600\n", "p zzz\"", "p ab!z", NULL);
}

static void faults_are_named_with_their_place(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "'root' is not defined"},
        {"a ::= \"x\"", "'root' is not defined"},
        {"root ::= b", "'b' is not defined"},
        {"root ::= \"x\"\nroot ::= \"y\"", "'root' is defined twice"},
        {"root = \"x\"", "::="},
        {"root ::= (\"x\"", "without its end"},
        {"root ::= \"x", "without its end"},
        {"root ::= \"x\")", "opening"},
        {"root ::= <x>", "no item"},
        {"root ::= \"\\q\"", "\\q"},
        {"root ::= root \"a\" | \"b\"", "left recursion"},
        {"root ::= a\na ::= \"x\" a", "no text"},
        {"root ::= [\\d]", "\\d"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        grammar_refuses(GRAMMAR_GBNF, bad[i][0], BT_EARG, bad[i][1]);
}

static void a_grammar_has_limits(void **state)
{
    (void)state;
    char *many = malloc(1 << 17);
    size_t n = (size_t)sprintf(many, "root ::= \"x\"\n");
    for (int i = 0; i < 4200; i++) n += (size_t)sprintf(many + n, "r%d ::= \"x\"\n", i);
    grammar_refuses(GRAMMAR_GBNF, many, BT_ELIMIT, "4096 rules");
    memset(many, ' ', 1 << 16);
    many[(1 << 16) + 1] = '\0';
    many[1 << 16] = ' ';
    grammar_refuses(GRAMMAR_GBNF, many, BT_ELIMIT, "65536");
    /* each rule holds the one before twice */
    n = (size_t)sprintf(many, "root ::= r30\nr0 ::= \"x\"\n");
    for (int i = 1; i <= 30; i++) n += (size_t)sprintf(many + n, "r%d ::= r%d r%d\n", i, i - 1, i - 1);
    bt_program *p = grammar(GRAMMAR_GBNF, many);
    assert_int_equal(grammar_says(p, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), 'p');
    bt_program_free(p);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_call_each_other_before_and_after_they_are_written),
        cmocka_unit_test(empty_rules_may_stand_anywhere),
        cmocka_unit_test(items_are_counted_and_escaped),
        cmocka_unit_test(faults_are_named_with_their_place),
        cmocka_unit_test(a_grammar_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
