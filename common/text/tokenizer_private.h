#ifndef BT_TEXT_TOKENIZER_IMPL_H
#define BT_TEXT_TOKENIZER_IMPL_H
/* What tokenizer.c, spm.c and bpe.c share; private to common/text. */
#include "text/merge.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

#define BT_BPE_NO_PAIR UINT64_MAX

/* pair: left << 32 | right */
typedef struct bt_bpe_merge { uint64_t pair; uint32_t rank; int32_t id; } bt_bpe_merge;

struct bt_tokenizer {
    bool is_spm, adds_bos, adds_space;
    int32_t bos, eos, eot, unk;
    int32_t fallback;                       /* for text without a token: unk where it can be meant so, else -1 */
    size_t count, max_word_bytes;
    char *arena;                            /* bt_tokenizer_piece of each, end to end */
    uint32_t *begin;                        /* [count + 1] offsets into arena */
    uint8_t *type;                          /* [count] bt_token_type */
    bool *is_eog;                           /* [count] */
    int32_t byte_id[256];                   /* token of a single byte, or -1 */
    uint32_t *word;                         /* open hash table of words: id + 1, 0 empty */
    size_t word_mask;
    uint32_t *special;                      /* control and user-defined tokens, sorted by name */
    size_t specials;
    bool has_user_defined, is_special_first[256];
    float *score;                           /* llama: [count] */
    bt_pretok *pretok;                      /* gpt2: with the merges, an open hash table */
    bt_bpe_merge *merge;
    size_t merge_mask;
    char *chat_template;
    size_t chat_template_len;
};

/* A growing list of ids, and what an encoding needs on its way. */
typedef struct bt_encoder {
    const bt_tokenizer *tok;
    int32_t *id;
    size_t count, cap, count_max;
    bt_merge merge;
    char *scratch;                          /* spm: the text as it is joined */
    size_t scratch_cap;
} bt_encoder;

bt_err bt_tokenizer_emit(bt_encoder *enc, int32_t id, bt_fault *fault);
/* The word (normal or user-defined token) with exactly these bytes, or -1. */
int32_t bt_tokenizer_find_word(const bt_tokenizer *tok, const char *text, size_t len);
/* BT_EARG with words for a byte that the vocabulary cannot express. */
bt_err bt_tokenizer_no_token(unsigned char byte, bt_fault *fault);

/* Text without special tokens in it, len >= 1. starts_text: at the beginning or right after a special
 * token. */
bt_err bt_spm_encode(bt_encoder *enc, const char *text, size_t len, bool starts_text, bt_fault *fault);
bt_err bt_bpe_encode(bt_encoder *enc, const char *text, size_t len, bt_fault *fault);

/* The bytes of a token's name in the file, into ret[BT_TOKENIZER_MAX_TOKEN_BYTES]; their count, or -1 when
 * the name is not in the byte alphabet of gpt2 (then it can be no word). For spm always a word unless it
 * has a plain space. */
int bt_bpe_unmap(char *ret, const char *name, size_t len);
int bt_spm_unmap(char *ret, const char *name, size_t len);
/* "<0x0A>" -> 10, or -1. */
int bt_spm_byte(const char *name, size_t len);
/* Reads src's merges into tok->merge; tok's words are known. */
bt_err bt_bpe_load_merges(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault);
#endif
