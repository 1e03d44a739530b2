#ifndef BT_LAB_REPLAY_WORDS_H
#define BT_LAB_REPLAY_WORDS_H
#include "base/buf.h"
#include "text/tokenizer.h"
#include "lab/replay/plan.h"

/* Prompts of a wanted length, reproducible by a seed. They are made of words that are one token each, so that a text of
 * n of them is n tokens long. */
typedef struct tool_replay_words {
    char (*text)[32]; /* without the space before it */
    int32_t *id;      /* with it; NULL: no model is known, so that only texts can be made */
    size_t len;
} tool_replay_words;

enum { TOOL_REPLAY_LEAST_WORDS = 8, TOOL_REPLAY_MAX_WORDS = 8192 };

/* Finds words of a model's vocabulary: small ASCII letters behind a space, which are one token by themselves and behind
 * another word. Where there are fewer than 8 of them, all ordinary ids serve, and no texts can be made: text is then
 * NULL. `tok` NULL: the most common words of English. tool_replay_words_done after success and failure. */
bt_err tool_replay_words_find(tool_replay_words *ret, const bt_tokenizer *tok, bt_fault *fault);
void tool_replay_words_done(tool_replay_words *w);

/* The numbers of n words of a prompt, below w->len: from its blocks where it has hashes, from the shared prefix, else
 * from its own stream. Equal hashes at the same block, and equal streams, give equal words. A captured prompt has none.
 */
void tool_replay_words_draw(uint32_t *ret, size_t n, const tool_replay_plan *p, const tool_replay_item *item,
                            const tool_replay_words *w, uint64_t seed);

/* JSON: a list of the ids of n words; a text of them in quotes. The error stays in the buffer. */
void tool_replay_words_ids(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n);
void tool_replay_words_text(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n);
#endif
