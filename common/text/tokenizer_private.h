#ifndef BT_TEXT_TOKENIZER_PRIVATE_H
#define BT_TEXT_TOKENIZER_PRIVATE_H
#include "text/merge.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

#include <stdatomic.h>

/* The tokenizer from inside, for common/text only. Each file stands on those above it:
 *
 *   merge.[ch], pretok.[ch], utf8.[ch]   joining symbols, cutting words, characters: no tokenizer yet
 *   tokenizer_tokens.c                   what a tokenizer knows about its tokens; the ids of an encoding
 *   spm.[ch], bpe.[ch]                   the two kinds: names of tokens in the file, and plain text to ids
 *   tokenizer_types.c                    what kind of thing each token is
 *   tokenizer_load.c                     a tokenizer from a vocabulary
 *   tokenizer.c                          whole texts, with special tokens in them */
#define BT_TOKENIZER_NO_PAIR UINT64_MAX

/* pair: left << 32 | right, or BT_TOKENIZER_NO_PAIR */
typedef struct bt_tokenizer_merge {
    uint64_t pair;
    uint32_t rank;
    int32_t id;
} bt_tokenizer_merge;

struct bt_tokenizer {
    bool is_spm, adds_bos, adds_space;
    int32_t bos, eos, eot, unk;
    int32_t fallback; /* for text without a token: unk where the file has one, else -1 */
    size_t count, max_word_bytes;
    char *arena;          /* bt_tokenizer_piece of each, end to end */
    uint32_t *begin;      /* [count + 1] offsets into arena */
    uint8_t *type;        /* [count] bt_token_type */
    bool *is_eog;         /* [count] */
    int32_t byte_id[256]; /* token of a single byte, or -1 */
    uint32_t *word;       /* open hash table of words: id + 1, 0 empty */
    size_t word_mask;
    uint32_t *special; /* control and user-defined tokens, sorted by name */
    size_t specials;
    bool has_user_defined, is_special_first[256];
    float *score;              /* llama: [count] */
    bt_pretok *pretok;         /* gpt2: cuts words */
    bt_tokenizer_merge *merge; /* gpt2: an open hash table of pairs */
    size_t merge_mask;
    atomic_uint_least64_t *left_out; /* bytes, of all encodings */
    bt_fault remark;                 /* bt_tokenizer_remark; "": none */
};

/* The state of one encoding: a growing list of ids, and scratch. */
typedef struct bt_encoder {
    const bt_tokenizer *tok;
    int32_t *id;
    size_t count, cap, count_max;
    size_t at;         /* where the plain text being encoded begins in the whole */
    const char *plain; /* gpt2: that text, as it is cut into words */
    size_t left_out;   /* bytes */
    bt_merge merge;
    char *scratch; /* spm: the text as it is joined */
    size_t scratch_cap;
} bt_encoder;

bt_err bt_tokenizer_emit(bt_encoder *enc, int32_t id, bt_fault *fault);
/* The word (a normal token) with exactly these bytes, or -1. */
int32_t bt_tokenizer_find_word(const bt_tokenizer *tok, const char *text, size_t len);
/* Sets tok->type of all tokens from src, of which only the count is checked; where a type cannot be right, the one that
 * it must be, with a remark. BT_ENOMEM. */
bt_err bt_tokenizer_read_types(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault);
bool bt_tokenizer_is_text(bt_text_span s, const char *text);
bool bt_tokenizer_is_end_name(bt_text_span name); /* the field uses it for the end of an answer */
/* Adds to tok->remark, as far as there is room. */
void bt_tokenizer_remark_on(bt_tokenizer *tok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* BT_EARG with words for a byte that the vocabulary cannot express, `at` bytes into the text. */
bt_err bt_tokenizer_no_token(unsigned char byte, size_t at, bt_fault *fault);
#endif
