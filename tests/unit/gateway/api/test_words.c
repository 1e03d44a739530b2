/* Texts to ids and back, as clients of llama.cpp's server ask for them. */
#include "gateway/api/words.h"
#include "model/gguf.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static gw_text text;
static const char *const names[] = {"tiny"};
static gw_ask_limits limits = {names, 1, 0, 4, NULL, NULL};

static int open_text(void **state)
{
    (void)state;
    size_t len;
    bt_gguf *g;
    bt_fault f;
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.add_bos = true;
    uint8_t *bytes = tiny_gguf_build(&spec, &len);
    if (bt_gguf_open_bytes(&g, bytes, len, &f) < 0 || gw_text_open(&text, g, NULL, &f) < 0)
        fail_msg("%s", f.text);
    limits.vocab = (uint32_t)bt_tokenizer_count(text.tok);
    bt_gguf_close(g);
    free(bytes);
    return 0;
}

static int close_text(void **state)
{
    (void)state;
    gw_text_close(&text);
    return 0;
}

static void gives(gw_words *words, const char *body, const char *want)
{
    gw_error err;
    bt_buf out;
    bt_buf_init(&out, 1 << 16);
    if (words(&out, &err, &text, body, strlen(body), &limits) < 0) fail_msg("%s: %s", body, err.message);
    assert_string_equal(bt_buf_text(&out), want);
    bt_buf_done(&out);
}

static void refuses(gw_words *words, const char *body, int status, const char *param, const char *why)
{
    gw_error err;
    bt_buf out;
    bt_buf_init(&out, 1 << 16);
    assert_int_equal(words(&out, &err, &text, body, strlen(body), &limits), BT_EARG);
    assert_int_equal(err.status, status);
    assert_string_equal(err.param, param);
    if (!strstr(err.message, why)) fail_msg("%s: says '%s'", body, err.message);
    assert_int_equal(out.len, 0);
    bt_buf_done(&out);
}

static void control_tokens_are_named_unless_the_request_says_letters(void **state)
{
    (void)state;
    gives(gw_words_tokenize, "{\"content\":\"<|im_start|><|im_end|>\"}", "{\"tokens\":[259,260]}");
    gives(gw_words_tokenize, "{\"content\":\"\",\"model\":\"tiny\",\"parse_special\":null}",
          "{\"tokens\":[]}");
    gw_error err;
    bt_buf out;
    bt_buf_init(&out, 1 << 16);
    static const char body[] = "{\"content\":\"<|im_end|>\",\"parse_special\":false}";
    assert_int_equal(gw_words_tokenize(&out, &err, &text, body, sizeof body - 1, &limits), BT_OK);
    assert_null(strstr(bt_buf_text(&out), "260"));
    bt_buf_done(&out);
}

static void a_bos_is_added_where_asked_for_and_never_twice(void **state)
{
    (void)state;
    gives(gw_words_tokenize, "{\"content\":\"<|im_end|>\",\"add_special\":true}", "{\"tokens\":[1,260]}");
    gives(gw_words_tokenize, "{\"content\":\"<s><|im_end|>\",\"add_special\":true}", "{\"tokens\":[1,260]}");
}

static void pieces_stand_beside_their_ids_as_text_or_as_bytes(void **state)
{
    (void)state;
    gives(gw_words_tokenize, "{\"content\":\"<|im_end|>\\u00e9\",\"with_pieces\":true}",
          "{\"tokens\":[{\"id\":260,\"piece\":\"<|im_end|>\"},{\"id\":261,\"piece\":\" \"},"
          "{\"id\":198,\"piece\":[195]},{\"id\":172,\"piece\":[169]}]}");
}

static void ids_become_text_with_the_names_of_control_tokens(void **state)
{
    (void)state;
    gives(gw_words_detokenize, "{\"tokens\":[259,100.0,198,172,13]}",
          "{\"content\":\"<|im_start|>a\xc3\xa9\\n\"}");
    gives(gw_words_detokenize, "{\"tokens\":[]}", "{\"content\":\"\"}");
}

static void bad_bodies_are_refused_by_their_fields(void **state)
{
    (void)state;
    refuses(gw_words_tokenize, "{}", 400, "content", "Missing");
    refuses(gw_words_tokenize, "{\"content\":5}", 400, "content", "expected a string");
    refuses(gw_words_tokenize, "{\"content\":\"a\",\"with_piece\":true}", 400, "with_piece", "Unrecognized");
    refuses(gw_words_tokenize, "{\"content\":\"a\",\"add_special\":1}", 400, "add_special", "true or false");
    refuses(gw_words_tokenize, "{\"content\":\"a\",\"model\":\"other\"}", 404, "model", "does not exist");
    refuses(gw_words_tokenize, "[", 400, "", "not valid JSON");
    refuses(gw_words_detokenize, "{\"tokens\":\"a\"}", 400, "tokens", "expected an array");
    refuses(gw_words_detokenize, "{\"tokens\":[100000]}", 400, "tokens", "not in the range");
    refuses(gw_words_detokenize, "{\"tokens\":[1.5]}", 400, "tokens", "expected an integer");
    refuses(gw_words_detokenize, "{\"tokens\":null}", 400, "tokens", "expected an array");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_tokens_are_named_unless_the_request_says_letters),
        cmocka_unit_test(a_bos_is_added_where_asked_for_and_never_twice),
        cmocka_unit_test(pieces_stand_beside_their_ids_as_text_or_as_bytes),
        cmocka_unit_test(ids_become_text_with_the_names_of_control_tokens),
        cmocka_unit_test(bad_bodies_are_refused_by_their_fields),
    };
    return cmocka_run_group_tests(tests, open_text, close_text);
}
