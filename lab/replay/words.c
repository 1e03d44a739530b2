/* Which words prompts are made of, and which of them a prompt has. */
#include "lab/replay/words.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static const char *const common[] = {
    "the",   "of",   "and",  "to",    "in",    "is",   "that", "it",   "was",  "for",   "on",
    "are",   "as",   "with", "his",   "they",  "at",   "be",   "this", "from", "have",  "or",
    "by",    "one",  "had",  "not",   "but",   "what", "all",  "were", "when", "we",    "there",
    "can",   "an",   "your", "which", "their", "said", "if",   "do",   "will", "each",  "about",
    "how",   "up",   "out",  "them",  "then",  "she",  "many", "some", "so",   "these", "would",
    "other", "into", "has",  "more",  "her",   "two",  "like", "him",  "see"};
enum { COMMON = sizeof common / sizeof *common };

void tool_replay_words_done(tool_replay_words *w)
{
    free(w->text);
    free(w->id);
    *w = (tool_replay_words){0};
}

static bool is_word(bt_text_span s)
{
    if (s.len < 2 || s.len > 24 || s.ptr[0] != ' ') return false;
    for (size_t i = 1; i < s.len; i++)
        if (s.ptr[i] < 'a' || s.ptr[i] > 'z') return false;
    return true;
}

/* One token by itself, and one behind another word. */
static bool is_one(const bt_tokenizer *tok, bt_text_span s, int32_t id, bt_fault *fault)
{
    char two[64];
    int32_t *ids = NULL;
    size_t n = 0;
    const size_t half = s.len - 1;
    memcpy(two, s.ptr + 1, half);
    memcpy(two + half, s.ptr, s.len);
    bool ok =
        bt_tokenizer_encode(&ids, &n, tok, two, half + s.len, 0, fault) == BT_OK && n == 2 && ids[1] == id;
    free(ids);
    return ok;
}

static bt_err find_words(tool_replay_words *ret, const bt_tokenizer *tok, size_t count)
{
    bt_fault ignored;
    ret->text = calloc(TOOL_REPLAY_MAX_WORDS, sizeof *ret->text);
    ret->id = calloc(count > TOOL_REPLAY_MAX_WORDS ? count : TOOL_REPLAY_MAX_WORDS, sizeof *ret->id);
    if (!ret->text || !ret->id) return BT_ENOMEM;
    for (size_t i = 0; i < count && ret->len < TOOL_REPLAY_MAX_WORDS; i++) {
        const bt_text_span s = bt_tokenizer_piece(tok, (int32_t)i);
        if (bt_tokenizer_type(tok, (int32_t)i) != BT_TOKEN_NORMAL || !is_word(s) ||
            !is_one(tok, s, (int32_t)i, &ignored))
            continue;
        memcpy(ret->text[ret->len], s.ptr + 1, s.len - 1);
        ret->id[ret->len++] = (int32_t)i;
    }
    return BT_OK;
}

bt_err tool_replay_words_find(tool_replay_words *ret, const bt_tokenizer *tok, bt_fault *fault)
{
    tool_replay_words w = {0};
    bt_err e = BT_OK;
    if (tok) {
        const size_t count = bt_tokenizer_count(tok);
        e = find_words(&w, tok, count);
        if (e == BT_OK && w.len < TOOL_REPLAY_LEAST_WORDS) {
            w.len = 0;
            for (size_t i = 0; i < count; i++)
                if (bt_tokenizer_type(tok, (int32_t)i) == BT_TOKEN_NORMAL) w.id[w.len++] = (int32_t)i;
            free(w.text);
            w.text = NULL;
            if (w.len == 0)
                e = bt_fail(fault, BT_EFORMAT, "the vocabulary has no ordinary token to make prompts of");
        }
    } else if (!(w.text = calloc(COMMON, sizeof *w.text))) {
        e = BT_ENOMEM;
    } else {
        for (; w.len < COMMON; w.len++) strcpy(w.text[w.len], common[w.len]);
    }
    if (e == BT_ENOMEM) bt_fail(fault, e, "words for prompts");
    if (e < 0) tool_replay_words_done(&w);
    else *ret = w;
    return e;
}

void tool_replay_words_draw(uint32_t *ret, size_t n, const tool_replay_plan *p, const tool_replay_item *item,
                            const tool_replay_words *w, uint64_t seed)
{
    const uint64_t block = p->block_tokens, hashed = block * item->hash_len;
    for (size_t i = 0; i < n; i++) {
        uint64_t stream = item->stream, at = i;
        if (i < hashed) {
            stream = bt_rng_u64(p->hash[item->hash_at + i / block], 2);
            at = i % block;
        } else if (i < item->shared_tokens) {
            stream = 0;
        }
        ret[i] = (uint32_t)(bt_rng_u64(seed ^ stream, at) % w->len);
    }
}

/* As "%d" would, in a tenth of its time: prompts are thousands of ids. */
static void put_id(bt_buf *out, bool is_next, int32_t id)
{
    char text[16];
    size_t at = sizeof text;
    uint32_t left = (uint32_t)id;
    do text[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (is_next) text[--at] = ',';
    (void)bt_buf_add(out, text + at, sizeof text - at);
}

void tool_replay_words_ids(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n)
{
    (void)bt_buf_byte(out, '[');
    for (size_t i = 0; i < n; i++) put_id(out, i > 0, w->id[word[i]]);
    (void)bt_buf_byte(out, ']');
}

void tool_replay_words_text(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n)
{
    (void)bt_buf_byte(out, '"');
    for (size_t i = 0; i < n; i++) {
        if (i) (void)bt_buf_byte(out, ' ');
        (void)bt_buf_str(out, w->text[word[i]]);
    }
    (void)bt_buf_byte(out, '"');
}
