/* Streaming text: whole characters only, whatever the tokens' edges; the space in front; control tokens. */
#include "text/detok.h"
#include "text/utf8.h"
#include "tests/helpers/model/small_vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static small_vocab vocab;
static bt_tokenizer *spm, *bpe;

static int set_up(void **s)
{
    (void)s;
    small_bpe(&vocab, "gpt-2");
    if (bt_tokenizer_new(&bpe, &vocab.src, NULL) < 0) return -1;
    small_spm(&vocab);
    return bt_tokenizer_new(&spm, &vocab.src, NULL) < 0 ? -1 : 0;
}
static int tear_down(void **s)
{
    (void)s;
    bt_tokenizer_free(spm);
    bt_tokenizer_free(bpe);
    return 0;
}

/* Bytes of text as byte tokens, one push each; what each push gave, with '|' between. */
static void check_bytes(const char *bytes, size_t len, const char *want)
{
    bt_buf out;
    bt_detok d;
    bt_buf_init(&out, 1000);
    bt_detok_init(&d, spm, 0);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(bt_detok_push(&out, &d, 3 + (unsigned char)bytes[i], NULL), BT_OK);
        assert_true(bt_utf8_valid(bt_buf_text(&out), out.len, NULL));
        bt_buf_byte(&out, '|');
    }
    assert_int_equal(bt_detok_finish(&out, &d, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&out), want);
    bt_buf_done(&out);
}
#define CHECK_BYTES(text, want) check_bytes(text, sizeof(text) - 1, want)
#define FFFD                    "\xEF\xBF\xBD"

static void holds_a_character_until_it_is_whole(void **s)
{
    (void)s;
    CHECK_BYTES("a", "a|");
    CHECK_BYTES("\xC3\xA9z", "|\xC3\xA9|z|");
    CHECK_BYTES("\xF0\x9F\xA6\x99", "|||\xF0\x9F\xA6\x99|");
    CHECK_BYTES("", "");
}

static void puts_one_mark_for_each_maximal_bad_part(void **s)
{
    (void)s;
    CHECK_BYTES("\xFF", FFFD "|");
    CHECK_BYTES("\xF0\x9F\xA6", "|||" FFFD); /* the end comes first */
    CHECK_BYTES("\xF0\x9F\xA6z", "|||" FFFD "z|");
    CHECK_BYTES("\xE2\x96\xC3\xA9", "||" FFFD "|\xC3\xA9|");
    CHECK_BYTES("\xC0\x80", FFFD "|" FFFD "|");
    CHECK_BYTES("\xED\xA0\x80", "|" FFFD FFFD "|" FFFD "|"); /* a surrogate */
    CHECK_BYTES("\xF0\xF0\x9F\xA6\x99", "|" FFFD "||"
                                        "|\xF0\x9F\xA6\x99|");
}

static void takes_off_the_first_space_only_at_the_start_of_a_text(void **s)
{
    (void)s;
    bt_buf out;
    const int32_t ids[] = {1,
                           small_id(&vocab, "\xE2\x96\x81"
                                            "a"),
                           small_id(&vocab, "\xE2\x96\x81"), small_id(&vocab, "b")};
    bt_buf_init(&out, 1000);
    assert_int_equal(bt_detok_all(&out, spm, ids, 4, BT_DETOK_START, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&out), "a b");
    bt_buf_clear(&out);
    assert_int_equal(bt_detok_all(&out, spm, ids, 4, 0, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&out), " a b");
    bt_buf_clear(&out);
    const int32_t hello[] = {small_bpe_byte(' '), small_bpe_byte('x')}; /* the gpt2 kind adds none */
    assert_int_equal(bt_detok_all(&out, bpe, hello, 2, BT_DETOK_START, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&out), " x");
    bt_buf_done(&out);
}

static void shows_control_tokens_only_when_asked(void **s)
{
    (void)s;
    bt_buf out;
    const int32_t ids[] = {1, small_id(&vocab, "a"), 0, small_id(&vocab, "<tool>"), 2};
    bt_buf_init(&out, 1000);
    assert_int_equal(bt_detok_all(&out, spm, ids, 5, 0, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&out), "a<tool>");
    bt_buf_clear(&out);
    assert_int_equal(bt_detok_all(&out, spm, ids, 5, BT_DETOK_SPECIAL, NULL), BT_OK);
    assert_string_equal(bt_buf_text(&out), "<s>a<unk><tool></s>");
    bt_buf_done(&out);
}

static void refuses_ids_out_of_range_and_text_past_the_limit(void **s)
{
    (void)s;
    bt_buf out;
    bt_detok d;
    bt_fault f;
    bt_buf_init(&out, 2);
    bt_detok_init(&d, spm, 0);
    assert_int_equal(bt_detok_push(&out, &d, -1, &f), BT_EARG);
    assert_int_equal(bt_detok_push(&out, &d, (int32_t)vocab.src.token_count, &f), BT_EARG);
    assert_non_null(strstr(f.text, "the vocabulary has"));
    assert_int_equal(bt_detok_push(&out, &d, small_id(&vocab, "abc"), &f), BT_ELIMIT);
    assert_string_equal(bt_buf_text(&out), "ab");
    bt_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_a_character_until_it_is_whole),
        cmocka_unit_test(puts_one_mark_for_each_maximal_bad_part),
        cmocka_unit_test(takes_off_the_first_space_only_at_the_start_of_a_text),
        cmocka_unit_test(shows_control_tokens_only_when_asked),
        cmocka_unit_test(refuses_ids_out_of_range_and_text_past_the_limit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
