/* The check of programs from outside, and their execution. */
#include "tests/unit/grammar/kit.h"

#include "base/num.h"

static void seal(uint8_t *bytes, size_t len)
{
    bt_hash_stream h;
    bt_hash_begin(&h);
    bt_hash_add(&h, bytes, 24);
    bt_hash_add(&h, bytes + BT_PROGRAM_HEADER_BYTES, len - BT_PROGRAM_HEADER_BYTES);
    bt_hash_end(bytes + 24, &h);
}

static bt_err check(const uint8_t *bytes, size_t len, bt_fault *f)
{
    bt_program *p = NULL;
    const bt_err e = bt_program_new(&p, bytes, len, f);
    bt_program_free(p);
    return e;
}

static void a_program_whose_bytes_were_changed_is_refused(void **state)
{
    (void)state;
    bt_buf b;
    bt_fault f;
    assert_int_equal(grammar_bytes(&b, GRAMMAR_GBNF, "root ::= \"[\" (root (\",\" root)*)? \"]\"", &f),
                     BT_OK);
    assert_int_equal(check(b.data, b.len, &f), BT_OK);
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] ^= 1;
        assert_int_not_equal(check(b.data, b.len, &f), BT_OK);
        b.data[i] ^= 1;
        assert_int_not_equal(check(b.data, i, &f), BT_OK);
    }
    bt_buf_done(&b);
}

/* Every value in every place of a small program, with the right hash: refused, or safe to run. */
static void no_number_of_a_program_is_followed_before_it_was_checked(void **state)
{
    (void)state;
    bt_buf b;
    bt_fault f;
    size_t accepted = 0;
    assert_int_equal(grammar_bytes(&b, GRAMMAR_GBNF, "root ::= \"a\" root{2,3} \"b\" | \"c\"", &f), BT_OK);
    for (size_t i = 0; i < b.len; i++) {
        const uint8_t was = b.data[i];
        for (int v = 0; v < 256; v++) {
            bt_program *p = NULL;
            b.data[i] = (uint8_t)v;
            seal(b.data, b.len);
            if (bt_program_new(&p, b.data, b.len, &f) < 0) continue;
            accepted++;
            (void)grammar_says(p, "aaccbcb");
            bt_program_free(p);
        }
        b.data[i] = was;
    }
    assert_true(accepted > b.len);
    bt_buf_done(&b);
}

static void rules_that_begin_with_themselves_are_refused(void **state)
{
    (void)state;
    bt_fault f = {""};
    /* one state that calls its own rule */
    uint8_t bytes[40 + 2 + 8 + 4 + 8] = "BTPD\1";
    bytes[8] = 1;
    bytes[10] = 2;
    bytes[12] = 1;
    bytes[16] = 1;
    bt_put16(bytes + 42, 1);
    bt_put16(bytes + 44, 1);
    bt_put16(bytes + 48, 32768);
    bt_put16(bytes + 52, 1);
    bt_put16(bytes + 56, 1);
    bt_put16(bytes + 58, 1);
    bt_put16(bytes + 60, 1);
    seal(bytes, sizeof bytes);
    assert_int_equal(check(bytes, sizeof bytes, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "left recursion"));
    grammar_refuses(GRAMMAR_GBNF, "root ::= \"x\" | more\nmore ::= \"y\"? root \"z\"", BT_EARG,
                    "left recursion");
}

static void what_nests_deeper_than_the_levels_does_not_belong_to_a_program(void **state)
{
    (void)state;
    char text[2 * BT_PROGRAM_LEVELS + 8];
    bt_program *p = grammar(GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"x\"");
    for (int n = BT_PROGRAM_LEVELS; n <= BT_PROGRAM_LEVELS + 1; n++) {
        memset(text, '(', (size_t)n);
        text[n] = 'x';
        memset(text + n + 1, ')', (size_t)n);
        text[2 * n + 1] = '\0';
        assert_int_equal(grammar_says(p, text), n == BT_PROGRAM_LEVELS ? 'y' : 'n');
    }
    bt_program_free(p);
}

static void recursion_at_the_end_of_a_rule_needs_no_levels(void **state)
{
    (void)state;
    char text[2003] = "";
    bt_program *p =
        grammar(GRAMMAR_GBNF, "root ::= item \",\" root | item\nitem ::= \"a\" | \"(\" root \")\"");
    for (int i = 0; i < 1000; i++) memcpy(text + 2 * i, "a,", 2);
    text[1999] = '\0';
    assert_int_equal(grammar_says(p, text), 'y');
    bt_program_free(p);
}

static void text_that_is_read_in_too_many_ways_is_refused_and_leaves_the_state(void **state)
{
    (void)state;
    bt_fault f = {""};
    bt_program_state s, before;
    bt_program *p =
        grammar(GRAMMAR_GBNF,
                "root ::= (x | x root)\nx ::= \"a\" x \"b\" | \"a\" y\ny ::= \"a\" | \"a\" y x | y2 x\n"
                "y2 ::= \"a\" y2 \"c\" | \"a\"");
    char text[200];
    memset(text, 'a', sizeof text);
    memset(&s, 0, sizeof s);
    bt_program_begin(&s, p);
    assert_int_equal(bt_program_accept(&s, p, text, 2, &f), BT_OK);
    before = s;
    assert_int_equal(bt_program_accept(&s, p, text, sizeof text, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "ways"));
    assert_int_equal(s.stacks, before.stacks);
    assert_memory_equal(&s, &before, sizeof s);
    bt_program_free(p);
}

static void a_state_is_a_function_of_the_text_however_it_is_cut(void **state)
{
    (void)state;
    const char text[] = "{\"a\": [1, {\"b\": \"\\u00e9\"}, null], \"c\": -1.5e3}";
    bt_program *p = grammar(GRAMMAR_SCHEMA, "{\"type\": \"object\"}");
    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        bt_program_state s;
        bt_program_begin(&s, p);
        assert_int_equal(bt_program_accept(&s, p, text, cut, NULL), BT_OK);
        assert_false(bt_program_may_end(&s, p));
        assert_int_equal(bt_program_accept(&s, p, "\x01", 1, NULL), BT_EFORMAT);
        assert_int_equal(bt_program_accept(&s, p, text + cut, sizeof text - 1 - cut, NULL), BT_OK);
        assert_true(bt_program_may_end(&s, p));
    }
    bt_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_whose_bytes_were_changed_is_refused),
        cmocka_unit_test(no_number_of_a_program_is_followed_before_it_was_checked),
        cmocka_unit_test(rules_that_begin_with_themselves_are_refused),
        cmocka_unit_test(what_nests_deeper_than_the_levels_does_not_belong_to_a_program),
        cmocka_unit_test(recursion_at_the_end_of_a_rule_needs_no_levels),
        cmocka_unit_test(text_that_is_read_in_too_many_ways_is_refused_and_leaves_the_state),
        cmocka_unit_test(a_state_is_a_function_of_the_text_however_it_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
