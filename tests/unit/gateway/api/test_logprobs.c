/* Log probabilities beside the text: each token once, when its text may be shown, and none of what a stop
 * string took away. */
#include "gateway/api/logprobs.h"
#include "tests/helpers/model/small_vocab.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct answer {
    gw_text text;
    gw_text_answer a;
    gw_logprobs p;
} answer;

static void begin(answer *ret, bool is_chat, uint32_t top, const char *stop)
{
    static small_vocab v;
    bt_fault f = {""};
    gw_ask r = {.is_chat = is_chat, .prompt = "x", .prompt_len = 1};
    memset(ret, 0, sizeof *ret);
    small_bpe(&v, "gpt-2");
    if (bt_tokenizer_new(&ret->text.tok, &v.src, &f) < 0) fail_msg("%s", f.text);
    if (stop) {
        r.stop[0] = stop;
        r.stop_len[0] = strlen(stop);
        r.stops = 1;
    }
    assert_int_equal(gw_text_begin(&ret->a, &ret->text, &r, NULL, 0, 64, &f), BT_OK);
    gw_logprobs_begin(&ret->p, ret->text.tok, is_chat ? GW_LOGPROBS_CHAT : GW_LOGPROBS_TEXT, top,
                      is_chat ? 0 : 10, 64);
}

static void end(answer *x)
{
    gw_logprobs_end(&x->p);
    gw_text_end(&x->a);
    bt_tokenizer_free(x->text.tok);
}

/* The tokens of the bytes of `text`, one each; the i-th of an answer has log probability -i. */
static void push(answer *x, const char *text)
{
    bt_fault f = {""};
    for (; *text; text++) {
        const size_t at = x->p.tokens.len ? x->p.tokens.len : 0, before = gw_text_made(&x->a);
        const bt_msg_logprob l = {.own = at ? -0.5f : -0.25f, .top_len = 2,
                                  .top_ids = {small_bpe_byte('z'), small_bpe_byte(0xc3)},
                                  .top = {-0.125f, -2.0f}};
        const int32_t id = small_bpe_byte((unsigned char)*text);
        assert_int_equal(gw_text_push(&x->a, id, &f), BT_OK);
        assert_int_equal(gw_logprobs_push(&x->p, &x->a, before, id, &l), BT_OK);
    }
}

static void told(answer *x, bool is_over, const char *want)
{
    json_t *j = gw_logprobs_tell(&x->p, &x->a, is_over);
    assert_non_null(j);
    char *got = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    assert_string_equal(got, want);
    free(got);
    json_decref(j);
}

#define TOP \
    "\"top_logprobs\":[{\"token\":\"z\",\"logprob\":-0.125,\"bytes\":[122]},{\"token\":\"?\",\"logprob\":-" \
    "2.0,\"bytes\":[195]}]"

static void what_was_told_can_be_told_again(void **state)
{
    (void)state;
    answer x;
    begin(&x, true, 1, NULL);
    push(&x, "abc");
    assert_int_equal(gw_logprobs_within(&x.p, 2), 2);
    assert_int_equal(gw_logprobs_within(&x.p, 9), 3);
    json_t *none = gw_logprobs_again(&x.p, 0, 3); /* nothing was told so far */
    assert_int_equal(json_array_size(none), 0);
    json_t *first = gw_logprobs_tell(&x.p, &x.a, true), *again = gw_logprobs_again(&x.p, 1, 3);
    const json_t *list = json_object_get(first, "content");
    assert_int_equal(json_array_size(again), 2);
    assert_true(json_equal(json_array_get(again, 0), json_array_get(list, 1)));
    assert_true(json_equal(json_array_get(again, 1), json_array_get(list, 2)));
    json_decref(none);
    json_decref(again);
    json_decref(first);
    end(&x);
}

static void a_list_has_ids_too(void **state)
{
    (void)state;
    answer x;
    begin(&x, false, 1, NULL);
    x.p.form = GW_LOGPROBS_LIST;
    push(&x, "a");
    char want[512], id[3][16];
    const int32_t ids[] = {small_bpe_byte('a'), small_bpe_byte('z'), small_bpe_byte(0xc3)};
    for (int i = 0; i < 3; i++) (void)snprintf(id[i], sizeof id[i], "%d", (int)ids[i]);
    (void)snprintf(
        want, sizeof want,
        "[{\"token\":\"a\",\"logprob\":-0.25,\"bytes\":[97],\"id\":%s,\"top_logprobs\":[{\"token\":"
        "\"z\",\"logprob\":-0.125,\"bytes\":[122],\"id\":%s},{\"token\":\"?\",\"logprob\":-2.0,"
        "\"bytes\":[195],\"id\":%s}]}]",
        id[0], id[1], id[2]);
    told(&x, true, want);
    end(&x);
}

static void a_chat_gets_token_logprob_bytes_and_the_likeliest(void **state)
{
    (void)state;
    answer x;
    begin(&x, true, 2, NULL);
    push(&x, "a");
    told(&x, false,
         "{\"content\":[{\"token\":\"a\",\"logprob\":-0.25,\"bytes\":[97]," TOP "}],\"refusal\":null}");
    told(&x, false, "{\"content\":[],\"refusal\":null}"); /* each once */
    push(&x, "\n");
    told(&x, false,
         "{\"content\":[{\"token\":\"\\n\",\"logprob\":-0.5,\"bytes\":[10]," TOP "}],\"refusal\":null}");
    assert_false(gw_logprobs_waits(&x.p, &x.a, true));
    end(&x);
}

#define EACH(own) "{\"z\":-0.125,\"?\":-2.0,\"" own "\":-0.5}"
#define FIRST     "{\"z\":-0.125,\"?\":-2.0,\"a\":-0.25}"
#define ALIKE     "{\"z\":-0.125,\"?\":-0.5}" /* the one that was drawn has the name */

static void a_completion_gets_four_lists_with_offsets_in_characters(void **state)
{
    (void)state;
    answer x;
    begin(&x, false, 2, NULL);
    push(&x, "a\xc3\xa9"
             "b"); /* the first byte of the second character shows nothing yet */
    told(&x, false,
         "{\"tokens\":[\"a\",\"?\",\"?\",\"b\"],\"token_logprobs\":[-0.25,-0.5,-0.5,-0.5],\"top_logprobs\":"
         "[" FIRST ",{\"z\":-0.125,\"?\":-2.0}," ALIKE "," EACH("b") "],\"text_offset\":[10,11,11,12]}");
    push(&x, "c");
    told(&x, true,
         "{\"tokens\":[\"c\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[" EACH(
             "c") "],\"text_offset\":[13]}");
    end(&x);
}

static void a_completion_that_asks_for_none_of_the_likeliest_gets_null_for_them(void **state)
{
    (void)state;
    answer x;
    begin(&x, false, 0, NULL);
    push(&x, "ab");
    told(&x, true,
         "{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-0.25,-0.5],\"top_logprobs\":null,\"text_offset\":["
         "10,11]}");
    end(&x);
}

static void tokens_wait_for_their_text_and_what_a_stop_string_took_away_is_never_told(void **state)
{
    (void)state;
    answer x;
    begin(&x, false, 2, "bcd");
    push(&x, "abc");
    assert_int_equal(x.a.text.len, 1);
    told(&x, false,
         "{\"tokens\":[\"a\"],\"token_logprobs\":[-0.25],\"top_logprobs\":[" FIRST "],\"text_offset\":[10]}");
    assert_false(gw_logprobs_waits(&x.p, &x.a, false));
    push(&x, "x"); /* no stop string after all */
    told(&x, false,
         "{\"tokens\":[\"b\",\"c\",\"x\"],\"token_logprobs\":[-0.5,-0.5,-0.5],\"top_logprobs\":[" EACH(
             "b") "," EACH("c") "," EACH("x") "],\"text_offset\":[11,12,13]}");
    push(&x, "ybcd");
    assert_true(x.a.is_stopped);
    assert_int_equal(x.a.text.len, 5);
    told(&x, true,
         "{\"tokens\":[\"y\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[" EACH(
             "y") "],\"text_offset\":[14]}");
    assert_false(gw_logprobs_waits(&x.p, &x.a, true));
    end(&x);
}

static void nobody_who_did_not_ask_gets_any(void **state)
{
    (void)state;
    answer x;
    begin(&x, true, 2, NULL);
    gw_logprobs none = {0};
    json_t *j = gw_logprobs_tell(&none, &x.a, true);
    assert_true(json_is_null(j));
    assert_false(gw_logprobs_waits(&none, &x.a, true));
    gw_logprobs_end(&none);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_ids_too),
        cmocka_unit_test(what_was_told_can_be_told_again),
        cmocka_unit_test(a_chat_gets_token_logprob_bytes_and_the_likeliest),
        cmocka_unit_test(a_completion_gets_four_lists_with_offsets_in_characters),
        cmocka_unit_test(a_completion_that_asks_for_none_of_the_likeliest_gets_null_for_them),
        cmocka_unit_test(tokens_wait_for_their_text_and_what_a_stop_string_took_away_is_never_told),
        cmocka_unit_test(nobody_who_did_not_ask_gets_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
