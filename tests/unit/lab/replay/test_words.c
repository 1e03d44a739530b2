/* Words of prompts: one token each, the same for a seed, and shared where the trace says so. */
#include "lab/replay/wire.h"
#include "model/gguf.h"
#include "model/vocab.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 600 };

static bt_tokenizer *tiny_vocabulary(void)
{
    const tiny_gguf_spec spec = tiny_gguf_default();
    char path[] = "/tmp/baton-words-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_gguf_write(&spec, path);
    bt_gguf *g = NULL;
    bt_tokenizer *tok = NULL;
    assert_int_equal(bt_gguf_open(&g, path, NULL), BT_OK);
    assert_int_equal(bt_vocab_load(&tok, g, NULL), BT_OK);
    bt_gguf_close(g);
    (void)unlink(path);
    return tok;
}

static void words_of_a_model_are_one_token_each_also_as_a_text(void **state)
{
    (void)state;
    bt_tokenizer *tok = tiny_vocabulary();
    tool_replay_words w;
    const tool_replay_plan p = {0};
    const tool_replay_item item = {.stream = 9};
    uint32_t word[N];
    bt_buf text, ids;
    bt_buf_init(&text, 1 << 20);
    bt_buf_init(&ids, 1 << 20);
    assert_int_equal(tool_replay_words_find(&w, tok, NULL), BT_OK);
    assert_true(w.len >= TOOL_REPLAY_LEAST_WORDS && w.text && w.id);
    tool_replay_words_draw(word, N, &p, &item, &w, 3);
    tool_replay_words_text(&text, &w, word, N);
    int32_t *back = NULL;
    size_t n = 0;
    assert_int_equal(bt_tokenizer_encode(&back, &n, tok, bt_buf_text(&text) + 1, text.len - 2, 0, NULL),
                     BT_OK);
    assert_int_equal(n, N);
    tool_replay_words_ids(&ids, &w, word, N);
    const char *at = bt_buf_text(&ids);
    for (size_t i = 0; i < N; i++) {
        char *end;
        assert_int_equal(*at, i ? ',' : '[');
        const long id = strtol(at + 1, &end, 10);
        assert_int_equal(id, w.id[word[i]]);
        if (i) assert_int_equal(id, back[i]); /* the first has no space before it in a text */
        at = end;
    }
    assert_string_equal(at, "]");
    free(back);
    bt_buf_done(&text);
    bt_buf_done(&ids);
    tool_replay_words_done(&w);
    bt_tokenizer_free(tok);
}

static void without_a_model_there_are_common_words_and_no_ids(void **state)
{
    (void)state;
    tool_replay_words w;
    assert_int_equal(tool_replay_words_find(&w, NULL, NULL), BT_OK);
    assert_true(w.len >= TOOL_REPLAY_LEAST_WORDS);
    assert_non_null(w.text);
    assert_null(w.id);
    for (size_t i = 0; i < w.len; i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(w.text[i], w.text[k]);
    tool_replay_words_done(&w);
}

static size_t common(const uint32_t *a, const uint32_t *b)
{
    size_t n = 0;
    while (n < N && a[n] == b[n]) n++;
    return n;
}

static void prompts_share_as_many_blocks_as_their_hashes(void **state)
{
    (void)state;
    uint64_t hash[] = {11, 12, 13, 14, 11, 12, 15, 16, 12, 11};
    const tool_replay_plan p = {.hash = hash, .hash_len = 10, .block_tokens = 150};
    const tool_replay_item a = {.hash_at = 0, .hash_len = 4, .stream = 1},
                           b = {.hash_at = 4, .hash_len = 4, .stream = 2},
                           c = {.hash_at = 8, .hash_len = 2, .stream = 3};
    tool_replay_words w;
    uint32_t x[N], y[N], z[N], again[N], other[N];
    assert_int_equal(tool_replay_words_find(&w, NULL, NULL), BT_OK);
    tool_replay_words_draw(x, N, &p, &a, &w, 5);
    tool_replay_words_draw(y, N, &p, &b, &w, 5);
    tool_replay_words_draw(z, N, &p, &c, &w, 5);
    tool_replay_words_draw(again, N, &p, &a, &w, 5);
    tool_replay_words_draw(other, N, &p, &a, &w, 6);
    assert_true(common(x, y) >= 300 && common(x, y) < 310);
    assert_true(common(x, z) < 10);
    assert_memory_equal(z + 150, x, 150 * sizeof *x); /* a block is its hash's, wherever it stands */
    assert_memory_equal(x, again, sizeof x);
    assert_true(common(x, other) < 10);
    tool_replay_words_done(&w);
}

static void turns_of_a_talk_begin_alike_and_shared_tokens_are_everyones(void **state)
{
    (void)state;
    const tool_replay_plan p = {0};
    const tool_replay_item talk = {.stream = 4}, mine = {.stream = 5, .shared_tokens = 200},
                           yours = {.stream = 6, .shared_tokens = 200};
    tool_replay_words w;
    uint32_t x[N], y[N];
    assert_int_equal(tool_replay_words_find(&w, NULL, NULL), BT_OK);
    tool_replay_words_draw(x, 100, &p, &talk, &w, 5);
    tool_replay_words_draw(y, N, &p, &talk, &w, 5);
    assert_memory_equal(x, y, 100 * sizeof *x);
    tool_replay_words_draw(x, N, &p, &mine, &w, 5);
    tool_replay_words_draw(y, N, &p, &yours, &w, 5);
    assert_true(common(x, y) >= 200 && common(x, y) < 210);
    tool_replay_words_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_a_model_are_one_token_each_also_as_a_text),
        cmocka_unit_test(without_a_model_there_are_common_words_and_no_ids),
        cmocka_unit_test(prompts_share_as_many_blocks_as_their_hashes),
        cmocka_unit_test(turns_of_a_talk_begin_alike_and_shared_tokens_are_everyones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
