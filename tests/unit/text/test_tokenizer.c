/* Both kinds of vocabulary on texts small enough to encode by hand, hostile vocabularies, and special
 * tokens. */
#include "base/clock.h"
#include "text/detok.h"
#include "text/tokenizer.h"
#include "tests/helpers/model/small_vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static small_vocab vocab;

static bt_tokenizer *make(void)
{
    bt_tokenizer *tok = NULL;
    bt_fault f;
    if (bt_tokenizer_new(&tok, &vocab.src, &f) < 0) fail_msg("%s", f.text);
    return tok;
}
static bt_tokenizer *make_spm(void)
{
    small_spm(&vocab);
    return make();
}
static bt_tokenizer *make_bpe(const char *pre)
{
    small_bpe(&vocab, pre);
    return make();
}

static void rename_token(int32_t id, const char *name)
{
    vocab.token[id].text = name;
    vocab.token[id].len = strlen(name);
}

/* want: names of tokens, with "+" between them; bytes as <0xXX>. */
static void check(const bt_tokenizer *tok, const char *text, size_t len, unsigned flags, const char *want)
{
    bt_fault f;
    int32_t *ids = NULL;
    size_t n = 0;
    char have[512] = "";
    char *exact = malloc(len > 0 ? len : 1);
    memcpy(exact, text, len);
    if (bt_tokenizer_encode(&ids, &n, tok, exact, len, flags, &f) < 0) fail_msg("'%s': %s", text, f.text);
    for (size_t i = 0; i < n; i++) {
        assert_in_range(ids[i], 0, vocab.src.token_count - 1);
        if (i > 0) strcat(have, "+");
        strncat(have, vocab.token[ids[i]].text, vocab.token[ids[i]].len);
    }
    if (strcmp(have, want) != 0) fail_msg("'%s' is '%s', expected '%s'", text, have, want);
    free(ids);
    free(exact);
}
#define CHECK(tok, text, flags, want) check(tok, text, sizeof(text) - 1, flags, want)
#define SP                            "\xE2\x96\x81"

static void joins_the_highest_score_first_and_the_leftmost_of_equals(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_spm();
    CHECK(tok, "abc", 0, SP "a+bc");    /* bc -2, then _a -4 before abc -5 */
    CHECK(tok, "babc", 0, SP "+b+abc"); /* bc -2, then abc -5 */
    CHECK(tok, "aaa", 0, SP "a+aa");    /* _a -4 before aa -6 */
    CHECK(tok, "baaa", 0, SP "+b+aa+a");
    CHECK(tok, "  ab", 0, SP SP "+" SP "+ab"); /* three spaces: __ once, leftmost */
    CHECK(tok, "", 0, "");
    bt_tokenizer_free(tok);
}

static void puts_a_space_in_front_only_where_the_file_asks(void **s)
{
    (void)s;
    small_spm(&vocab);
    vocab.src.add_space_prefix = 0;
    bt_tokenizer *tok = make();
    assert_false(bt_tokenizer_adds_space(tok));
    CHECK(tok, "ab", 0, "ab");
    CHECK(tok, "<s>ab", BT_ENCODE_SPECIAL, "<s>+ab");
    bt_tokenizer_free(tok);
    tok = make_spm();
    assert_true(bt_tokenizer_adds_space(tok));
    CHECK(tok, "<s>ab<s>b", BT_ENCODE_SPECIAL, "<s>+" SP "+ab+<s>+" SP "+b");
    bt_tokenizer_free(tok);
}

static void falls_back_to_bytes(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_spm();
    CHECK(tok, "a\xC3\xA9", 0, SP "a+\xC3\xA9"); /* a token of its own */
    CHECK(tok, "a\xC3\xA8", 0, SP "a+<0xC3>+<0xA8>");
    CHECK(tok, "a\xF0\x9F\xA6\x99\0", 0, SP "a+<0xF0>+<0x9F>+<0xA6>+<0x99>+<0x00>");
    CHECK(tok, SP "ab", 0, SP SP "+ab"); /* the mark for a space in the text is a space */
    bt_tokenizer_free(tok);
}

static void falls_back_to_unknown_without_bytes(void **s)
{
    (void)s;
    small_spm(&vocab);
    for (int i = 3; i < SMALL_SPM_WORDS; i++) vocab.token[i].type = BT_TOKEN_UNUSED;
    bt_tokenizer *tok = make();
    CHECK(tok, "a\xF0\x9F\xA6\x99z", 0, SP "a+<unk>"); /* one for a row of them */
    CHECK(tok, "zaz", 0, SP "+<unk>+a+<unk>");
    bt_tokenizer_free(tok);
    vocab.src.unk = -1;
    tok = make();
    int32_t *ids = NULL;
    size_t n = 7;
    bt_fault f;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, "az", 2, 0, &f), BT_EARG);
    assert_string_equal(
        f.text, "the text has the byte 0x7A at byte 1, for which this model's vocabulary has no token");
    const char *far = "<s>" SP "a" SP "\xC3\xA8"; /* behind a special token and marks for spaces */
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, far, strlen(far), BT_ENCODE_SPECIAL, &f), BT_EARG);
    assert_string_equal(
        f.text, "the text has the byte 0xC3 at byte 10, for which this model's vocabulary has no token");
    assert_null(ids);
    assert_int_equal(n, 7);
    bt_tokenizer_free(tok);
}

static void never_makes_a_control_token_out_of_plain_text(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_spm();
    CHECK(tok, "<s>", 0, SP "+<s+>"); /* "<s" + ">" would be its name */
    CHECK(tok, "<0x41>", 0, SP "+<+<0x30>+<0x78>+<0x34>+<0x31>+>");
    CHECK(tok, "<unk>", BT_ENCODE_SPECIAL, SP "+<+<0x75>+<0x6E>+<0x6B>+>");
    bt_tokenizer_free(tok);
    tok = make_bpe("gpt-2");
    CHECK(tok, "<|end|>", 0, "<+|+e+n+d+|+>");
    bt_tokenizer_free(tok);
}

static void finds_special_tokens_where_asked_longest_and_leftmost(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_spm();
    CHECK(tok, "<s></s>", BT_ENCODE_SPECIAL, "<s>+</s>");
    CHECK(tok, "a<tool>xb", 0, SP "a+<tool>x+" SP "+b"); /* user-defined ones always */
    CHECK(tok, "<tool><tool>x", 0, "<tool>+<tool>x");
    CHECK(tok, "<<s>", BT_ENCODE_SPECIAL, SP "+<+<s>");
    CHECK(tok, "<too", BT_ENCODE_SPECIAL, SP "+<+<0x74>+<0x6F>+<0x6F>");
    bt_tokenizer_free(tok);
}

static void begins_with_bos_where_the_file_asks(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_spm();
    assert_true(bt_tokenizer_adds_bos(tok)); /* the llama kind does unless told otherwise */
    CHECK(tok, "ab", BT_ENCODE_BOS, "<s>+" SP "+ab");
    CHECK(tok, "", BT_ENCODE_BOS, "<s>");
    bt_tokenizer_free(tok);
    vocab.src.add_bos = 0;
    tok = make();
    assert_false(bt_tokenizer_adds_bos(tok));
    CHECK(tok, "", BT_ENCODE_BOS, "");
    bt_tokenizer_free(tok);
    static const struct {
        const char *pre;
        int says;
        bool adds;
    } t[] = {
        {"gpt-2", -1, false},    {"gpt-2", 1, true},   {"llama-bpe", -1, true},
        {"llama-bpe", 0, false}, {"qwen2", -1, false},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        small_bpe(&vocab, t[i].pre);
        vocab.src.add_bos = t[i].says;
        tok = make();
        assert_int_equal(bt_tokenizer_adds_bos(tok), t[i].adds);
        bt_tokenizer_free(tok);
    }
}

static void joins_bytes_by_merge_rank(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_bpe("gpt-2");
    CHECK(tok, "hello world", 0, "hello+\xC4\xA0wor+ld");
    CHECK(tok, "hell", 0, "hell");
    CHECK(tok, "elle", 0, "e+ll+e"); /* l l before e l */
    CHECK(tok, "aaaaa", 0, "aaaa+a");
    CHECK(tok, "he's", 0, "he+'s");
    CHECK(tok, "123123", 0, "123+123");
    CHECK(tok, "\xE3\x81\x82", 0, "\xC3\xA3\xC4\xA3+\xC4\xA4"); /* part of a character is a token */
    bt_tokenizer_free(tok);
    tok = make_bpe("smollm");
    CHECK(tok, "123", 0, "1+2+3"); /* digits never meet */
    bt_tokenizer_free(tok);
}

static void knows_the_byte_alphabet(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_bpe("gpt-2");
    for (int b = 0; b < 256; b++) {
        const bt_text_span p = bt_tokenizer_piece(tok, small_bpe_byte((unsigned char)b));
        assert_int_equal(p.len, 1);
        assert_int_equal((unsigned char)p.ptr[0], b);
    }
    assert_memory_equal(bt_tokenizer_piece(tok, small_id(&vocab, "\xC4\xA0wor")).ptr, " wor", 4);
    assert_null(bt_tokenizer_piece(tok, -1).ptr);
    assert_null(bt_tokenizer_piece(tok, (int32_t)vocab.src.token_count).ptr);
    bt_tokenizer_free(tok);
}

static void takes_a_whole_word_as_it_stands_for_llama3(void **s)
{
    (void)s;
    small_bpe(&vocab, "qwen2");
    const int32_t id = small_id(&vocab, "ld");
    vocab.token[id].text = "hel"; /* now a token that no merge makes */
    vocab.token[id].len = 3;
    vocab.merge[7].text = "e l"; /* was "l d" */
    bt_tokenizer *tok = make();
    CHECK(tok, "hel", 0, "he+l");
    bt_tokenizer_free(tok);
    vocab.src.pre = (bt_text_span){"llama-bpe", 9};
    tok = make();
    CHECK(tok, "hel", 0, "hel");
    bt_tokenizer_free(tok);
}

static void leaves_bytes_without_a_token_out_and_counts_them(void **s)
{
    (void)s;
    small_bpe(&vocab, "gpt-2");
    rename_token(small_bpe_byte(4), "\u6211"); /* outside the byte alphabet */
    rename_token(small_bpe_byte(0xA6), "\u6211");
    vocab.src.unk = vocab.src.eos; /* a control token: no stand-in for text */
    bt_tokenizer *tok = make();
    CHECK(tok, "he", 0, "he");
    assert_int_equal(bt_tokenizer_left_out_bytes(tok), 0);
    CHECK(tok, "a\4b\4", 0, "a+b");
    assert_int_equal(bt_tokenizer_left_out_bytes(tok), 2);
    CHECK(tok, "\4", 0, "");                           /* a word of nothing else */
    CHECK(tok, "\xE3\xA6\x81", 0, "\xC3\xA3\xC4\xA3"); /* what stands around it joins */
    assert_int_equal(bt_tokenizer_left_out_bytes(tok), 4);
    bt_tokenizer_free(tok);
    vocab.token[vocab.src.unk].type = BT_TOKEN_UNKNOWN;
    tok = make();
    CHECK(tok, "a\4", 0, "a+<|end|>");
    assert_int_equal(bt_tokenizer_left_out_bytes(tok), 0);
    bt_tokenizer_free(tok);
    small_bpe(&vocab, "tekken"); /* its reference refuses them */
    rename_token(small_bpe_byte(4), "\u6211");
    tok = make();
    int32_t *ids;
    size_t n;
    bt_fault f;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, "<|end|>a \4", 10, BT_ENCODE_SPECIAL, &f), BT_EARG);
    assert_string_equal(
        f.text, "the text has the byte 0x04 at byte 9, for which this model's vocabulary has no token");
    bt_tokenizer_free(tok);
}

static void composes_characters_where_the_model_was_trained_so(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_bpe("qwen2");
    CHECK(tok, "e\u0301", 0, "\xC3\x83+\xC2\xA9");               /* the bytes of U+00E9 */
    CHECK(tok, "<think>\u0338", 0, "<think>+\xC3\x8C+\xC2\xB8"); /* a special token's > composes with nothing
                                                                  */
    bt_tokenizer_free(tok);
    tok = make_bpe("llama-bpe");
    CHECK(tok, "e\u0301", 0, "e+\xC3\x8C+\xC4\xA3");
    bt_tokenizer_free(tok);
}

static void refuses_text_that_is_no_utf8(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_bpe("gpt-2");
    int32_t *ids = NULL;
    size_t n = 7;
    bt_fault f;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, "ab\xC3", 3, 0, &f), BT_EARG);
    assert_string_equal(f.text, "the text is not valid UTF-8 at byte 2");
    assert_null(ids);
    assert_int_equal(n, 7);
    const bt_text_piece far = {"", (size_t)BT_TOKENIZER_MAX_TEXT_BYTES + 1, false};
    assert_int_equal(bt_tokenizer_encode_pieces(&ids, &n, tok, &far, 1, 0, &f), BT_ELIMIT);
    bt_tokenizer_free(tok);
}

static void ends_a_generation_at_the_tokens_made_for_it(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_bpe("gpt-2");
    assert_true(bt_tokenizer_is_eog(tok, small_id(&vocab, "<|end|>")));
    assert_true(bt_tokenizer_is_eog(tok, small_id(&vocab, "<|im_end|>")));
    assert_false(bt_tokenizer_is_eog(tok, small_id(&vocab, "<|im_start|>")));
    assert_false(bt_tokenizer_is_eog(tok, 0));
    assert_false(bt_tokenizer_is_eog(tok, -1));
    assert_false(bt_tokenizer_is_eog(tok, INT32_MAX));
    bt_tokenizer_free(tok);
    vocab.token[small_id(&vocab, "<|im_end|>")].type = BT_TOKEN_USER_DEFINED;
    vocab.token[small_id(&vocab, "<|end|>")].type = BT_TOKEN_UNKNOWN; /* a name alone is not enough */
    vocab.src.eos = -1;
    vocab.src.eot = 5;
    vocab.src.eom = 6;
    tok = make();
    assert_true(bt_tokenizer_is_eog(tok, small_id(&vocab, "<|im_end|>")));
    assert_false(bt_tokenizer_is_eog(tok, small_id(&vocab, "<|end|>")));
    assert_true(bt_tokenizer_is_eog(tok, 5));
    assert_true(bt_tokenizer_is_eog(tok, 6));
    assert_int_equal(bt_tokenizer_eot(tok), 5);
    bt_tokenizer_free(tok);
}

static void keeps_control_tokens_inside_special_pieces(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_bpe("gpt-2");
    const bt_text_piece chat[] = {
        {"<|im_start|>he", 14, true},
        {"llo <|im_end|> <thi", 19, false},
        {"nk><|im", 7, true},
        {"_end|>", 6, true},
        {"", 0, false},
        {"<|im_end|>", 10, true},
    };
    int32_t *ids, *plain;
    size_t n, plain_n;
    assert_int_equal(bt_tokenizer_encode_pieces(&ids, &n, tok, chat, 6, 0, NULL), BT_OK);
    /* Words go across pieces ("hello"), user-defined tokens too (<think>), control tokens do not. */
    const char *text = "hello <|im_end|> ";
    assert_int_equal(bt_tokenizer_encode(&plain, &plain_n, tok, text, strlen(text), 0, NULL), BT_OK);
    assert_int_equal(ids[0], small_id(&vocab, "<|im_start|>"));
    assert_memory_equal(ids + 1, plain, plain_n * sizeof *ids);
    assert_int_equal(ids[1], small_id(&vocab, "hello"));
    assert_int_equal(ids[1 + plain_n], small_id(&vocab, "<think>"));
    assert_int_equal(ids[n - 1], small_id(&vocab, "<|im_end|>"));
    for (size_t i = 1; i + 1 < n; i++) assert_int_not_equal(ids[i], small_id(&vocab, "<|im_end|>"));
    free(ids);
    assert_int_equal(bt_tokenizer_encode_pieces(&ids, &n, tok, chat, 6, BT_ENCODE_SPECIAL, NULL), BT_OK);
    size_t ends = 0;
    for (size_t i = 0; i < n; i++) ends += ids[i] == small_id(&vocab, "<|im_end|>");
    assert_int_equal(ends, 3);
    free(ids);
    free(plain);
    assert_int_equal(bt_tokenizer_encode_pieces(&ids, &n, tok, NULL, 0, BT_ENCODE_SPECIAL, NULL), BT_OK);
    assert_int_equal(n, 0);
    free(ids);
    bt_tokenizer_free(tok);
}

static void refuses(bt_err want, const char *words)
{
    bt_tokenizer *tok = NULL;
    bt_fault f = {""};
    const bt_err e = bt_tokenizer_new(&tok, &vocab.src, &f);
    if (e != want || !strstr(f.text, words)) fail_msg("%d '%s', expected %d '%s'", e, f.text, want, words);
    assert_null(tok);
}

static char long_name[BT_TOKENIZER_MAX_TOKEN_BYTES + 1];

static void refuses_a_lying_llama_vocabulary_by_key(void **s)
{
    (void)s;
    small_spm(&vocab);
    vocab.src.model = (bt_text_span){"bert", 4};
    refuses(BT_EVERSION, "tokenizer.ggml.model is 'bert'; this build knows");
    small_spm(&vocab);
    vocab.src.token_count = 0;
    refuses(BT_EFORMAT, "tokenizer.ggml.tokens is missing or empty");
    small_spm(&vocab);
    vocab.src.token_count = (size_t)BT_TOKENIZER_MAX_TOKENS + 1;
    refuses(BT_ELIMIT, "tokenizer.ggml.tokens has 1048577 tokens; at most 1048576 are allowed");
    small_spm(&vocab);
    vocab.token[2].text = "\xA6";
    vocab.token[2].len = 1; /* would cut characters in two */
    refuses(BT_EFORMAT, "tokenizer.ggml.tokens[2] is a special token, but not UTF-8");
    small_spm(&vocab);
    vocab.token[260].score = NAN;
    refuses(BT_EFORMAT, "tokenizer.ggml.scores[260]");
    small_spm(&vocab);
    vocab.token[260].score = INFINITY;
    refuses(BT_EFORMAT, "tokenizer.ggml.scores[260]");
    small_spm(&vocab);
    vocab.token[260].text = long_name;
    vocab.token[260].len = sizeof long_name;
    refuses(BT_ELIMIT, "tokenizer.ggml.tokens[260] has 1025 bytes; at most 1024 are allowed");
    small_spm(&vocab);
    vocab.src.bos = 100000;
    refuses(BT_EFORMAT, "tokenizer.ggml.bos_token_id is 100000, but there are");
    small_spm(&vocab);
    vocab.src.eos = (int64_t)vocab.src.token_count;
    refuses(BT_EFORMAT, "tokenizer.ggml.eos_token_id");
    small_spm(&vocab);
    vocab.src.unk = -2;
    refuses(BT_EFORMAT, "tokenizer.ggml.unknown_token_id");
    small_spm(&vocab);
    vocab.src.eot = INT64_MAX;
    refuses(BT_EFORMAT, "tokenizer.ggml.eot_token_id");
    small_spm(&vocab);
    vocab.src.bos = -1;
    vocab.src.add_bos = 1;
    refuses(BT_EFORMAT, "tokenizer.ggml.add_bos_token");
    small_spm(&vocab);
    vocab.src.eom = 100000;
    refuses(BT_EFORMAT, "tokenizer.ggml.eom_token_id");
    bt_tokenizer_free(NULL);
}

static void set_merge(const char *text)
{
    small_bpe(&vocab, "gpt-2");
    vocab.merge[3].text = text;
    vocab.merge[3].len = strlen(text);
}

static void refuses_a_lying_gpt2_vocabulary_by_key(void **s)
{
    (void)s;
    small_bpe(&vocab, "none");
    refuses(BT_EVERSION, "tokenizer.ggml.pre is 'none'; this build knows");
    small_bpe(&vocab, "gpt-2");
    vocab.src.merge_count = 0;
    refuses(BT_EFORMAT, "tokenizer.ggml.merges is missing or empty");
    small_bpe(&vocab, "gpt-2");
    vocab.src.merge_count = SIZE_MAX;
    refuses(BT_ELIMIT, "tokenizer.ggml.merges");
    static const char *const bad[] = {"", " ", "hello", " hello", "hello ", "a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set_merge(bad[i]);
        refuses(BT_EFORMAT, "tokenizer.ggml.merges[3]: not two names and a space");
    }
    set_merge("h o");
    refuses(BT_EFORMAT, "tokenizer.ggml.merges[3]: a part or the whole is not in tokenizer.ggml.tokens");
    set_merge("zz z");
    refuses(BT_EFORMAT, "tokenizer.ggml.merges[3]: a part");
    set_merge("h \xE6\x88\x91");
    refuses(BT_EFORMAT, "tokenizer.ggml.merges[3]: has a character outside");
    set_merge("h e e");
    refuses(BT_EFORMAT, "tokenizer.ggml.merges[3]: has a character outside");
    set_merge("h \xC3");
    refuses(BT_EFORMAT, "tokenizer.ggml.merges[3]: has a character outside");
}

/* ---- vocabularies with faults that are mended ---- */

static void check_remark(const bt_tokenizer *tok, const char *want)
{
    const char *have = bt_tokenizer_remark(tok);
    if (!want) assert_null(have);
    else assert_string_equal(have ? have : "", want);
}

static void takes_the_lower_id_of_two_tokens_with_one_text(void **s)
{
    (void)s;
    bt_tokenizer *tok = make_spm();
    check_remark(tok, NULL);
    bt_tokenizer_free(tok);
    small_spm(&vocab);
    rename_token(small_id(&vocab, "bc"), "ab"); /* behind "ab" itself, and with a better score */
    rename_token(3 + 'z', "<0x41>");
    rename_token(2, "<s>");
    tok = make();
    const int32_t ab = small_id(&vocab, "ab");
    int32_t *ids;
    size_t n;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, "<s>bAb", 6, BT_ENCODE_SPECIAL, NULL), BT_OK);
    assert_int_equal(n, 5);
    assert_true(ids[0] == 1 && ids[3] == 3 + 'A');
    free(ids);
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, "bab", 3, 0, NULL), BT_OK);
    assert_int_equal(ids[2], ab);
    free(ids);
    assert_memory_equal(bt_tokenizer_piece(tok, ab + 1).ptr, "ab", 2); /* it may be answered all the same */
    check_remark(
        tok,
        "2 of the tokens of tokenizer.ggml.tokens have the text of an earlier one, which is used; token 125 "
        "that of token 68; 1 of the special tokens of tokenizer.ggml.tokens has the text of an earlier one, "
        "which is used; token 2 that of token 1");
    bt_tokenizer_free(tok);
}

static void takes_the_lower_id_where_a_merge_makes_both(void **s)
{
    (void)s;
    small_bpe(&vocab, "llama-bpe");
    const int32_t he = small_id(&vocab, "he"), think = small_id(&vocab, "<think>");
    rename_token(think, "he");
    vocab.token[think].type = BT_TOKEN_NORMAL;
    bt_tokenizer *tok = make();
    CHECK(tok, "he hell", 0, "he+\xC4\xA0+hell");
    int32_t *ids;
    size_t n;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, "he", 2, 0, NULL), BT_OK);
    assert_true(n == 1 && ids[0] == he);
    free(ids);
    check_remark(
        tok,
        "1 of the tokens of tokenizer.ggml.tokens has the text of an earlier one, which is used; token 275 "
        "that of token 256");
    bt_tokenizer_free(tok);
}

static void takes_marks_that_a_file_calls_words_for_control_tokens(void **s)
{
    (void)s;
    small_bpe(&vocab, "qwen2");
    const int32_t start = small_id(&vocab, "<|im_start|>"), end = small_id(&vocab, "<|im_end|>");
    vocab.token[start].type = BT_TOKEN_NORMAL;
    vocab.token[end].type = BT_TOKEN_UNUSED;
    bt_tokenizer *tok = make();
    assert_int_equal(bt_tokenizer_type(tok, start), BT_TOKEN_CONTROL);
    assert_int_equal(bt_tokenizer_type(tok, end), BT_TOKEN_CONTROL);
    assert_true(bt_tokenizer_is_eog(tok, end));
    CHECK(tok, "<|im_start|>he<|im_end|>", BT_ENCODE_SPECIAL, "<|im_start|>+he+<|im_end|>");
    CHECK(tok, "<|im_end|>", 0, "<+|+i+m+_+e+n+d+|+>"); /* and text never becomes one */
    check_remark(
        tok,
        "2 of tokenizer.ggml.token_type cannot be right; token 273, '<|im_start|>', is control, not normal");
    bt_tokenizer_free(tok);
    small_spm(&vocab);
    for (int32_t i = 0; i <= 2; i++) vocab.token[i].type = BT_TOKEN_NORMAL; /* told by their ids */
    tok = make();
    assert_int_equal(bt_tokenizer_type(tok, 0), BT_TOKEN_UNKNOWN);
    CHECK(tok, "<s>ab", BT_ENCODE_SPECIAL, "<s>+" SP "+ab");
    CHECK(tok, "<s>", 0, SP "+<s+>");
    check_remark(tok,
                 "3 of tokenizer.ggml.token_type cannot be right; token 0, '<unk>', is unknown, not normal");
    bt_tokenizer_free(tok);
}

static void leaves_a_word_that_merges_make_a_word_whatever_its_name(void **s)
{
    (void)s;
    small_bpe(&vocab, "gpt-2");
    const int32_t id = small_id(&vocab, "ld"), end = small_id(&vocab, "<|end|>");
    rename_token(id, "<s"); /* "< s", "<s >" */
    rename_token(end, "<s>");
    vocab.token[end].type = BT_TOKEN_NORMAL;
    vocab.merge[7].text = "< s";
    vocab.merge[15].text = "<s >";
    vocab.merge[15].len = 4;
    vocab.src.bos = vocab.src.eos = -1;
    bt_tokenizer *tok = make();
    CHECK(tok, "<s>", 0, "<+s+>"); /* the splitter parts them */
    assert_int_equal(bt_tokenizer_type(tok, end), BT_TOKEN_NORMAL);
    check_remark(tok, NULL);
    bt_tokenizer_free(tok);
}

static void takes_what_merges_make_for_words_whatever_the_file_calls_it(void **s)
{
    (void)s;
    static const int types[] = {BT_TOKEN_CONTROL, BT_TOKEN_UNUSED, BT_TOKEN_BYTE, BT_TOKEN_UNKNOWN, 0, 7, -1};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        small_bpe(&vocab, "gpt-2");
        vocab.token[small_bpe_byte('h')].type = types[i];
        vocab.token[small_id(&vocab, "hell")].type = types[i];
        bt_tokenizer *tok = make();
        assert_int_equal(bt_tokenizer_type(tok, small_id(&vocab, "hell")), BT_TOKEN_NORMAL);
        CHECK(tok, "hello hell", 0, "hello+\xC4\xA0+hell");
        assert_non_null(strstr(bt_tokenizer_remark(tok),
                               "2 of tokenizer.ggml.token_type cannot be right; token "));
        bt_tokenizer_free(tok);
    }
    small_bpe(&vocab, "gpt-2");
    vocab.token[small_id(&vocab, "hell")].type = BT_TOKEN_USER_DEFINED; /* found before merges join anything
                                                                         */
    bt_tokenizer *tok = make();
    CHECK(tok, "hello", 0, "hell+o");
    check_remark(tok, NULL);
    bt_tokenizer_free(tok);
}

static void knows_bytes_of_the_llama_kind_by_their_names(void **s)
{
    (void)s;
    static const int types[] = {BT_TOKEN_NORMAL, BT_TOKEN_CONTROL, BT_TOKEN_USER_DEFINED, 9};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        small_spm(&vocab);
        for (int b = 0; b < 256; b++) vocab.token[3 + b].type = types[i];
        bt_tokenizer *tok = make();
        CHECK(tok, "a\xC3\xA8", 0, SP "a+<0xC3>+<0xA8>");
        assert_memory_equal(bt_tokenizer_piece(tok, 3 + 0xC3).ptr, "\xC3", 1);
        assert_non_null(strstr(bt_tokenizer_remark(tok), "256 of tokenizer.ggml.token_type"));
        bt_tokenizer_free(tok);
    }
    small_spm(&vocab);
    vocab.token[small_id(&vocab, "abc")].type = BT_TOKEN_BYTE;
    bt_tokenizer *tok = make();
    CHECK(tok, "babc", 0, SP "+b+abc");
    check_remark(tok,
                 "1 of tokenizer.ggml.token_type cannot be right; token 265, 'abc', is normal, not byte");
    bt_tokenizer_free(tok);
    small_spm(&vocab);
    vocab.src.type = NULL;
    tok = make();
    CHECK(tok, "<s>a\xC3\xA8", BT_ENCODE_SPECIAL, "<s>+" SP "a+<0xC3>+<0xA8>");
    bt_tokenizer_free(tok);
}

/* ---- long texts ---- */

static size_t fill(char *text, const char *unit, size_t bytes)
{
    size_t len = 0;
    for (; len < bytes; len += strlen(unit)) memcpy(text + len, unit, strlen(unit));
    return len;
}

/* One character a million times: the text comes back. */
static void takes_long_monotonous_text(void **s)
{
    (void)s;
    static const char *const units[] = {"a", " ", "\xF0\x9F\xA6\x99", "abc", "<s", "\n", "hello "};
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES + 8);
    for (int kind = 0; kind < 2; kind++) {
        bt_tokenizer *tok = kind == 0 ? make_spm() : make_bpe("llama-bpe");
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            const size_t len = fill(text, units[u], BYTES);
            size_t n;
            int32_t *ids;
            bt_fault f;
            bt_buf out;
            if (bt_tokenizer_encode(&ids, &n, tok, text, len, BT_ENCODE_SPECIAL, &f) < 0)
                fail_msg("%s", f.text);
            bt_buf_init(&out, 2 * BYTES);
            assert_int_equal(bt_detok_all(&out, tok, ids, n, BT_DETOK_START, NULL), BT_OK);
            assert_int_equal(out.len, len);
            assert_memory_equal(out.data, text, len);
            bt_buf_done(&out);
            free(ids);
        }
        bt_tokenizer_free(tok);
    }
    free(text);
}

/* Microseconds of a processor, the least of a few. */
static int64_t encode_us(const bt_tokenizer *tok, const char *text, size_t len)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        int32_t *ids;
        size_t n;
        const int64_t begin = bt_clock_thread_us();
        assert_int_equal(bt_tokenizer_encode(&ids, &n, tok, text, len, 0, NULL), BT_OK);
        const int64_t us = bt_clock_thread_us() - begin;
        free(ids);
        if (us < least) least = us;
    }
    return least;
}

/* Sixteen times the text in well below 16 x 16 times the time, in rows that join in many rounds. */
static void takes_time_in_proportion_to_a_text_of_one_character(void **s)
{
    (void)s;
    static const char *const units[] = {"a", "\n", "7", "\u0301\u0323", "    \U0001F999"};
    static const char *const pres[] = {NULL, "llama-bpe", "qwen2", "gpt-4o"};
    enum { BYTES = 1 << 13, TIMES = 16 };
    char *text = malloc(TIMES * BYTES + 16);
    for (size_t p = 0; p < sizeof pres / sizeof *pres; p++) {
        bt_tokenizer *tok = NULL;
        bt_vocab_source src;
        if (pres[p]) small_bpe_pairs(&src, pres[p]);
        else small_spm(&vocab);
        assert_int_equal(bt_tokenizer_new(&tok, pres[p] ? &src : &vocab.src, NULL), BT_OK);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            const size_t len = fill(text, units[u], (size_t)TIMES * BYTES);
            const int64_t all = encode_us(tok, text, len), part = encode_us(tok, text, BYTES);
            if (all > 4 * TIMES * (part + 100))
                fail_msg("%s, unit %zu: %lld us, a part of it %lld", pres[p] ? pres[p] : "llama", u,
                         (long long)all, (long long)part);
        }
        bt_tokenizer_free(tok);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_the_highest_score_first_and_the_leftmost_of_equals),
        cmocka_unit_test(puts_a_space_in_front_only_where_the_file_asks),
        cmocka_unit_test(falls_back_to_bytes),
        cmocka_unit_test(falls_back_to_unknown_without_bytes),
        cmocka_unit_test(never_makes_a_control_token_out_of_plain_text),
        cmocka_unit_test(finds_special_tokens_where_asked_longest_and_leftmost),
        cmocka_unit_test(begins_with_bos_where_the_file_asks),
        cmocka_unit_test(joins_bytes_by_merge_rank),
        cmocka_unit_test(knows_the_byte_alphabet),
        cmocka_unit_test(takes_a_whole_word_as_it_stands_for_llama3),
        cmocka_unit_test(leaves_bytes_without_a_token_out_and_counts_them),
        cmocka_unit_test(composes_characters_where_the_model_was_trained_so),
        cmocka_unit_test(refuses_text_that_is_no_utf8),
        cmocka_unit_test(ends_a_generation_at_the_tokens_made_for_it),
        cmocka_unit_test(keeps_control_tokens_inside_special_pieces),
        cmocka_unit_test(refuses_a_lying_llama_vocabulary_by_key),
        cmocka_unit_test(refuses_a_lying_gpt2_vocabulary_by_key),
        cmocka_unit_test(takes_the_lower_id_of_two_tokens_with_one_text),
        cmocka_unit_test(takes_the_lower_id_where_a_merge_makes_both),
        cmocka_unit_test(takes_marks_that_a_file_calls_words_for_control_tokens),
        cmocka_unit_test(leaves_a_word_that_merges_make_a_word_whatever_its_name),
        cmocka_unit_test(takes_what_merges_make_for_words_whatever_the_file_calls_it),
        cmocka_unit_test(knows_bytes_of_the_llama_kind_by_their_names),
        cmocka_unit_test(takes_long_monotonous_text),
        cmocka_unit_test(takes_time_in_proportion_to_a_text_of_one_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
