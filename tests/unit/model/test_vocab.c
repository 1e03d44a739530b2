/* The default model's own tokenizer against facts from outside, and files that lie about their vocabulary. */
#include "model/gguf.h"
#include "model/templates.h"
#include "model/vocab.h"
#include "model/model.h"
#include "text/detok.h"
#include "tests/helpers/model/small_vocab.h"
#include "tests/helpers/model/tiny_gguf.h"
#include "tests/unit/model/smollm2_texts.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_tokenizer *smollm2;
static bt_templates templates; /* of the same file */

static int set_up(void **s)
{
    (void)s;
    char found[4096];
    const char *path = getenv("BATON_TEST_MODEL");
    bt_fault f = {""};
    bt_gguf *g = NULL;
    if (!path) {
        if (bt_model_find(found, sizeof found, "smollm2", &f) < 0) goto failed;
        path = found;
    }
    if (bt_gguf_open(&g, path, &f) < 0 || bt_vocab_load(&smollm2, g, &f) < 0 ||
        bt_templates_open(&templates, g, smollm2, NULL, &f) < 0)
        goto failed;
    bt_gguf_close(g); /* the tokenizer needs nothing of it */
    return 0;
failed:
    bt_gguf_close(g);
    print_error("%s\n", f.text);
    return -1;
}

static int tear_down(void **s)
{
    (void)s;
    bt_templates_close(&templates);
    bt_tokenizer_free(smollm2);
    return 0;
}

static void reads_what_the_default_model_says_of_itself(void **s)
{
    (void)s;
    assert_int_equal(bt_tokenizer_count(smollm2), 49152);
    assert_int_equal(bt_tokenizer_bos(smollm2), 1);
    assert_int_equal(bt_tokenizer_eos(smollm2), 2);
    assert_int_equal(bt_tokenizer_unk(smollm2), 0);
    assert_int_equal(bt_tokenizer_eot(smollm2), -1);
    assert_false(bt_tokenizer_adds_bos(smollm2));
    assert_false(bt_tokenizer_adds_space(smollm2));
    for (int32_t id = 0; id < 20; id++)
        assert_int_equal(bt_tokenizer_is_eog(smollm2, id), id == 0 || id == 2);
    for (int32_t id = 0; id < 20; id++)
        assert_int_equal(bt_tokenizer_type(smollm2, id), id < 17 ? BT_TOKEN_CONTROL : BT_TOKEN_NORMAL);
}

static void gives_the_ids_of_the_reference_tokenizer(void **s)
{
    (void)s;
    for (size_t i = 0; i < sizeof smollm2_texts / sizeof *smollm2_texts; i++) {
        const char *text = smollm2_texts[i].text;
        int32_t *ids;
        size_t n;
        bt_fault f;
        bt_buf out;
        if (bt_tokenizer_encode(&ids, &n, smollm2, text, strlen(text), 0, &f) < 0)
            fail_msg("'%s': %s", text, f.text);
        if (n != (size_t)smollm2_texts[i].count || memcmp(ids, smollm2_texts[i].ids, n * sizeof *ids) != 0)
            fail_msg("'%s' has other ids", text);
        bt_buf_init(&out, 1000);
        assert_int_equal(bt_detok_all(&out, smollm2, ids, n, BT_DETOK_START, NULL), BT_OK);
        assert_string_equal(bt_buf_text(&out), text);
        bt_buf_done(&out);
        free(ids);
    }
}

static void check_chat(json_t *messages, const int32_t *want, size_t want_n)
{
    bt_chat_prompt p;
    int32_t *ids;
    size_t n;
    const bt_chat_talk talk = {.messages = messages, .add_generation_prompt = true};
    assert_int_equal(bt_chat_render(&p, templates.chat, &talk, NULL), BT_OK);
    assert_int_equal(bt_tokenizer_encode_pieces(&ids, &n, smollm2, p.piece, p.pieces, 0, NULL), BT_OK);
    json_decref(messages);
    assert_int_equal(n, want_n);
    assert_memory_equal(ids, want, n * sizeof *ids);
    free(ids);
    bt_chat_prompt_done(&p);
}

static void writes_chats_as_the_reference_does(void **s)
{
    (void)s;
    static const int32_t italy[] = {1,    9690, 198,   2683, 359,  253,  5356, 5646,  11173, 3365,
                                    3511, 308,  34519, 28,   7018, 411,  407,  19712, 8182,  2,
                                    198,  1,    4093,  198,  1780, 314,  260,  3575,  282,   7158,
                                    47,   2,    198,   1,    520,  9531, 198};
    static const int32_t sky[] = {1,    9690, 198, 21350, 281,  582, 2229, 30,   2,   198,
                                  1,    4093, 198, 1780,  7302, 314, 260,  6376, 335, 253,
                                  2437, 1194, 47,  2,     198,  1,   520,  9531, 198};
    static const int32_t fruits[] = {1,     9690, 198,  2683, 359, 253,   5356, 5646, 11173, 3365, 3511, 308,
                                     34519, 28,   7018, 411,  407, 19712, 8182, 2,    198,   1,    4093, 198,
                                     5820,  1296, 5574, 30,   2,   198,   1,    520,  9531,  198};
    check_chat(json_pack("[{s:s,s:s}]", "role", "user", "content", "What is the capital of Italy?"), italy,
               sizeof italy / sizeof *italy);
    check_chat(json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", "Answer in one word.", "role",
                         "user", "content", "What colour is the sky on a clear day?"),
               sky, sizeof sky / sizeof *sky);
    check_chat(json_pack("[{s:s,s:s}]", "role", "user", "content", "Name three fruits."), fruits,
               sizeof fruits / sizeof *fruits);
}

static void recognises_control_tokens_only_when_asked(void **s)
{
    (void)s;
    int32_t *ids;
    size_t n;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, smollm2, "<|im_end|>", 10, BT_ENCODE_SPECIAL, NULL),
                     BT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 2);
    free(ids);
    assert_int_equal(bt_tokenizer_encode(&ids, &n, smollm2, "<|im_end|>", 10, 0, NULL), BT_OK);
    assert_true(n > 1);
    for (size_t i = 0; i < n; i++) assert_int_equal(bt_tokenizer_type(smollm2, ids[i]), BT_TOKEN_NORMAL);
    free(ids);
}

static void leaves_out_a_byte_for_which_the_model_has_no_token(void **s)
{
    (void)s;
    int32_t *ids;
    size_t n;
    assert_int_equal(bt_tokenizer_encode(&ids, &n, smollm2, "a\4b", 3, 0, NULL), BT_OK);
    assert_int_equal(n, 2);
    assert_true(ids[0] == 81 && ids[1] == 82); /* as its own tokenizer */
    free(ids);
}

/* ---- files that lie
 * ------------------------------------------------------------------------------------------------ */

typedef struct lie {
    const char *omit;
    void (*add)(tiny_gguf *w);
    bt_err want;
    const char *words;
} lie;

static small_vocab small;

/* The small llama vocabulary as a file, without one key, and with what a lie puts in its place. */
static uint8_t *file_of(const lie *l, size_t *ret_len)
{
    static const char *text[512];
    static float score[512];
    static int32_t type[512];
    small_spm(&small);
    const size_t n = small.src.token_count;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    for (size_t i = 0; i < n; i++) {
        text[i] = small.token[i].text;
        score[i] = small.token[i].score;
        type[i] = small.token[i].type;
    }
    const char *omit = l->omit ? l->omit : "";
    if (strcmp(omit, "model") != 0) tiny_gguf_str(w, "tokenizer.ggml.model", "llama");
    if (strcmp(omit, "tokens") != 0) tiny_gguf_strs(w, "tokenizer.ggml.tokens", text, n);
    if (strcmp(omit, "scores") != 0) tiny_gguf_f32s(w, "tokenizer.ggml.scores", score, n);
    if (strcmp(omit, "types") != 0) tiny_gguf_i32s(w, "tokenizer.ggml.token_type", type, n);
    if (strcmp(omit, "bos") != 0) tiny_gguf_u32(w, "tokenizer.ggml.bos_token_id", 1);
    if (l->add) l->add(w);
    return tiny_gguf_finish(w, ret_len);
}

static void model_number(tiny_gguf *w) { tiny_gguf_u32(w, "tokenizer.ggml.model", 1); }
static void model_bert(tiny_gguf *w) { tiny_gguf_str(w, "tokenizer.ggml.model", "bert"); }
static void model_gpt2(tiny_gguf *w) { tiny_gguf_str(w, "tokenizer.ggml.model", "gpt2"); }
static void model_gpt2_pre(tiny_gguf *w)
{
    model_gpt2(w);
    tiny_gguf_str(w, "tokenizer.ggml.pre", "gpt-2");
}
static void tokens_none(tiny_gguf *w) { tiny_gguf_strs(w, "tokenizer.ggml.tokens", NULL, 0); }
static void tokens_numbers(tiny_gguf *w)
{
    tiny_gguf_i32s(w, "tokenizer.ggml.tokens", (const int32_t[]){1}, 1);
}
static void scores_short(tiny_gguf *w) { tiny_gguf_f32s(w, "tokenizer.ggml.scores", (const float[]){1}, 1); }
static void types_short(tiny_gguf *w)
{
    tiny_gguf_i32s(w, "tokenizer.ggml.token_type", (const int32_t[]){1, 1}, 2);
}
static void bos_far(tiny_gguf *w) { tiny_gguf_u32(w, "tokenizer.ggml.bos_token_id", 4000000000u); }
static void bos_past(tiny_gguf *w) { tiny_gguf_u32(w, "tokenizer.ggml.bos_token_id", 400); }
static void bos_text(tiny_gguf *w) { tiny_gguf_str(w, "tokenizer.ggml.bos_token_id", "1"); }
static void eos_past(tiny_gguf *w) { tiny_gguf_u32(w, "tokenizer.ggml.eos_token_id", 999999); }
static void add_bos_number(tiny_gguf *w) { tiny_gguf_u32(w, "tokenizer.ggml.add_bos_token", 1); }
static void add_bos(tiny_gguf *w) { tiny_gguf_bool(w, "tokenizer.ggml.add_bos_token", true); }
static void eom_past(tiny_gguf *w) { tiny_gguf_u32(w, "tokenizer.ggml.eom_token_id", 999999); }

static void refuses_a_file_that_lies_and_names_the_key(void **s)
{
    (void)s;
    static const lie lies[] = {
        {NULL, NULL, BT_OK, ""},
        {"scores", NULL, BT_OK, ""},
        {"bos", NULL, BT_OK, ""},
        {"model", NULL, BT_EFORMAT, "tokenizer.ggml.model"},
        {"model", model_number, BT_EFORMAT, "tokenizer.ggml.model"},
        {"model", model_bert, BT_EVERSION, "tokenizer.ggml.model is 'bert'"},
        {"model", model_gpt2, BT_EFORMAT, "tokenizer.ggml.pre"},
        {"model", model_gpt2_pre, BT_EFORMAT, "tokenizer.ggml.merges"},
        {"tokens", NULL, BT_EFORMAT, "tokenizer.ggml.tokens"},
        {"tokens", tokens_none, BT_EFORMAT, "tokenizer.ggml."},
        {"tokens", tokens_numbers, BT_EFORMAT, "tokenizer.ggml.tokens"},
        {"scores", scores_short, BT_EFORMAT, "tokenizer.ggml.scores has 1 entries"},
        {"types", types_short, BT_EFORMAT, "tokenizer.ggml.token_type has 2 entries"},
        {"bos", bos_far, BT_EFORMAT, "tokenizer.ggml.bos_token_id is 4000000000"},
        {"bos", bos_past, BT_EFORMAT, "tokenizer.ggml.bos_token_id is 400, but there are"},
        {"bos", bos_text, BT_EFORMAT, "tokenizer.ggml.bos_token_id"},
        {"bos", add_bos, BT_EFORMAT, "tokenizer.ggml.add_bos_token"},
        {NULL, eos_past, BT_EFORMAT, "tokenizer.ggml.eos_token_id is 999999"},
        {NULL, add_bos_number, BT_EFORMAT, "tokenizer.ggml.add_bos_token"},
        {NULL, eom_past, BT_EFORMAT, "tokenizer.ggml.eom_token_id is 999999"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t len;
        uint8_t *bytes = file_of(&lies[i], &len);
        bt_gguf *g = NULL;
        bt_tokenizer *tok = NULL;
        bt_fault f = {""};
        if (bt_gguf_open_bytes(&g, bytes, len, &f) < 0) fail_msg("lie %zu: %s", i, f.text);
        const bt_err e = bt_vocab_load(&tok, g, &f);
        if (e != lies[i].want || !strstr(f.text, lies[i].words))
            fail_msg("lie %zu: %d '%s', expected %d '%s'", i, e, f.text, lies[i].want, lies[i].words);
        assert_int_equal(tok != NULL, e == BT_OK);
        bt_tokenizer_free(tok);
        bt_gguf_close(g);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_the_default_model_says_of_itself),
        cmocka_unit_test(gives_the_ids_of_the_reference_tokenizer),
        cmocka_unit_test(writes_chats_as_the_reference_does),
        cmocka_unit_test(recognises_control_tokens_only_when_asked),
        cmocka_unit_test(leaves_out_a_byte_for_which_the_model_has_no_token),
        cmocka_unit_test(refuses_a_file_that_lies_and_names_the_key),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
