/* Masks: token by token what the program accepts, along random walks, with a vocabulary of short texts. */
#include "tests/unit/grammar/kit.h"

#include "base/rng.h"
#include "grammar/mask.h"

enum { BYTES = 256, TOKENS = 3000, ENDS = 2, WALKS = 6, STEPS = 60 };

/* 0..255 bytes, then texts over what JSON and the grammars below are made of, some of them twice, then two
 * ends and a control token. */
typedef struct words {
    char text[TOKENS][16];
    size_t len[TOKENS];
} words;
static words vocabulary;

static void make_words(void)
{
    static const char letters[] = "{}[]\":, \n01.-aabcx\\u\xc3\xa9+()";
    for (size_t i = 0; i < TOKENS; i++) {
        words *w = &vocabulary;
        w->len[i] = i < BYTES ? 1 : 1 + bt_rng_u64(1, i) % 7;
        for (size_t k = 0; k < w->len[i]; k++)
            w->text[i][k] = i < BYTES ? (char)i : letters[bt_rng_u64(2 + k, i) % (sizeof letters - 1)];
    }
}

static bt_trie_kind kind(void *ud, size_t id)
{
    (void)ud;
    return id < TOKENS ? BT_TRIE_TEXT : id < TOKENS + ENDS ? BT_TRIE_END : BT_TRIE_NONE;
}

static const char *text(void *ud, size_t id, size_t *ret_len)
{
    (void)ud;
    *ret_len = vocabulary.len[id];
    return vocabulary.text[id];
}

static bt_trie *tree(void)
{
    bt_trie *t = NULL;
    const bt_trie_source source = {TOKENS + ENDS + 1, kind, text, NULL};
    make_words();
    assert_int_equal(bt_trie_new(&t, &source, NULL), BT_OK);
    return t;
}

static bool is_open(const uint64_t *bits, size_t id) { return bits[id / 64] >> (id % 64) & 1; }

/* The bits are what accepting each token by itself says. Returns how many are open. */
static size_t compare(const uint64_t *bits, const bt_program *p, const bt_program_state *s)
{
    size_t open = 0;
    for (size_t id = 0; id < TOKENS; id++) {
        bt_program_state next = *s;
        const bt_err e = bt_program_accept(&next, p, vocabulary.text[id], vocabulary.len[id], NULL);
        if (e != BT_ELIMIT && is_open(bits, id) != (e == BT_OK))
            fail_msg("token %zu '%.*s' is %d in %u", id, (int)vocabulary.len[id], vocabulary.text[id], e,
                     s->stack[0].state);
        open += is_open(bits, id);
    }
    for (size_t id = TOKENS; id < TOKENS + ENDS; id++)
        assert_int_equal(is_open(bits, id), bt_program_may_end(s, p));
    assert_false(is_open(bits, TOKENS + ENDS));
    return open;
}

static const struct {
    grammar_form form;
    const char *source;
} rows[] = {
    {GRAMMAR_SCHEMA, "{\"type\": \"object\"}"},
    {GRAMMAR_SCHEMA, "{\"properties\": {\"a\": {\"type\": \"string\"}, \"b\": {\"type\": \"array\", "
                     "\"items\": {\"type\": \"number\"}, \"maxItems\": 9}, "
                     "\"c\": {\"minLength\": 2, \"maxLength\": 12}}, \"required\": [\"a\"]}"},
    {GRAMMAR_SCHEMA, "{\"type\": \"array\", \"items\": {\"pattern\": \"^[a-c]+x\"}}"},
    {GRAMMAR_SCHEMA,
     "{\"type\": \"array\", \"items\": {\"minLength\": 20, \"maxLength\": 40}, \"minItems\": 3}"},
    {GRAMMAR_REGEX, "[a-c]{1,4}( [a-c0-1]+)*\u00e9?"},
    {GRAMMAR_GBNF, "root ::= sum\nsum ::= item (\"+\" item)*\nitem ::= [01]+ | \"(\" sum \")\""},
    {GRAMMAR_GBNF,
     "root ::= a b\na ::= \"a\" | \"a\" a | \"(\" root \")\"\nb ::= (\"a\" | \"b\")* \".\" | a \"x\""},
    {GRAMMAR_GBNF, "root ::= \"[\" root* \"]\" | \"x\""},
    /* rules that are read several times: one number of times a token, and several; an end within and behind
     */
    {GRAMMAR_GBNF,
     "root ::= part{3,30} (\"x\" part{1,2}){0,2} \".\"\npart ::= [a-w0-9 \\x80-\\xff] | \"\\\\\" [a-z]"},
    {GRAMMAR_GBNF,
     "root ::= part{2,9} \"a\" | part{3,5}\npart ::= \"a\" | \"aa\" | [b-z0-9 ] | \"(\" part{1,3} \")\""},
};

static void a_mask_is_what_accepting_each_token_says(void **state)
{
    (void)state;
    bt_trie *t = tree();
    uint64_t *bits = calloc(bt_mask_words(t->tokens), sizeof *bits);
    size_t ends = 0;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        bt_program *p = grammar(rows[r].form, rows[r].source);
        bt_mask *m = NULL;
        bt_fault f = {""};
        assert_int_equal(bt_mask_new(&m, p, t, &f), BT_OK);
        for (uint64_t walk = 0; walk < WALKS; walk++) {
            bt_program_state s;
            bt_program_begin(&s, p);
            for (uint64_t n = 0; n < STEPS; n++) {
                const bt_err e = bt_mask_fill(bits, m, &s, &f);
                if (e != BT_OK) fail_msg("%s: %s", rows[r].source, f.text);
                size_t open = compare(bits, p, &s), id = 0;
                ends += bt_program_may_end(&s, p);
                if (open == 0) break;
                open = bt_rng_u64(walk + 100 * r, n) % open;
                while (!is_open(bits, id) || open-- > 0) id++;
                if (bt_program_accept(&s, p, vocabulary.text[id], vocabulary.len[id], &f) == BT_ELIMIT) break;
            }
        }
        bt_mask_free(m);
        bt_program_free(p);
    }
    assert_true(ends > 20);
    free(bits);
    bt_trie_free(t);
}

static void nothing_but_the_end_is_open_where_a_text_is_whole(void **state)
{
    (void)state;
    bt_trie *t = tree();
    uint64_t *bits = calloc(bt_mask_words(t->tokens), sizeof *bits);
    bt_program *p = grammar(GRAMMAR_SCHEMA, "{\"const\": 10}");
    bt_mask *m = NULL;
    bt_program_state s;
    assert_int_equal(bt_mask_new(&m, p, t, NULL), BT_OK);
    bt_program_begin(&s, p);
    assert_int_equal(bt_program_accept(&s, p, "10", 2, NULL), BT_OK);
    assert_int_equal(bt_mask_fill(bits, m, &s, NULL), BT_OK);
    assert_int_equal(compare(bits, p, &s), 0);
    assert_true(is_open(bits, TOKENS));
    bt_mask_free(m);
    bt_program_free(p);
    free(bits);
    bt_trie_free(t);
}

static bt_trie_kind letters_alone(void *ud, size_t id)
{
    (void)ud;
    return id >= 'a' && id <= 'z' ? BT_TRIE_TEXT : BT_TRIE_NONE;
}

static void where_no_token_is_open_the_state_is_named(void **state)
{
    (void)state;
    bt_trie *t = NULL;
    bt_mask *m = NULL;
    bt_fault f = {""};
    uint64_t bits[BYTES / 64];
    const bt_trie_source source = {BYTES, letters_alone, text, NULL};
    bt_program *p = grammar(GRAMMAR_REGEX, "a7");
    bt_program_state s;
    make_words();
    assert_int_equal(bt_trie_new(&t, &source, NULL), BT_OK);
    assert_int_equal(bt_mask_new(&m, p, t, NULL), BT_OK);
    bt_program_begin(&s, p);
    assert_int_equal(bt_mask_fill(bits, m, &s, &f), BT_OK);
    assert_int_equal(bt_program_accept(&s, p, "a", 1, NULL), BT_OK);
    assert_int_equal(bt_mask_fill(bits, m, &s, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "state "));
    bt_mask_free(m);
    bt_program_free(p);
    bt_trie_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_is_what_accepting_each_token_says),
        cmocka_unit_test(nothing_but_the_end_is_open_where_a_text_is_whole),
        cmocka_unit_test(where_no_token_is_open_the_state_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
