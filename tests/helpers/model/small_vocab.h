#ifndef TESTS_HELPERS_SMALL_VOCAB_H
#define TESTS_HELPERS_SMALL_VOCAB_H
#include "text/tokenizer.h"

/* Vocabularies small enough to work out by hand, as the plain data that a tokenizer is made from.
 *
 * llama kind: 0 <unk>, 1 <s>, 2 </s>, 3 .. 258 the bytes, then small_spm_word[] from 259, with scores.
 * gpt2 kind: 0 .. 255 the bytes in the order of the byte alphabet (so byte b is small_bpe_byte(b)), then the results of
 * small_bpe_merge[] from 256, then <|end|>, <|im_start|>, <|im_end|> (control) and <think> (user-defined). */
enum { SMALL_SPM_WORDS = 259, SMALL_BPE_WORDS = 256 };

typedef struct small_word {
    const char *text;
    float score;
    int type;
} small_word;
extern const small_word small_spm_word[];
extern const size_t small_spm_words;
extern const char *const small_bpe_merge[];
extern const size_t small_bpe_merges;

/* The parts that may be changed before a tokenizer is made: tests bend one thing at a time. */
typedef struct small_vocab {
    bt_vocab_source src;
    struct {
        const char *text;
        size_t len;
        float score;
        int32_t type;
    } token[512];
    struct {
        const char *text;
        size_t len;
    } merge[128];
    char names[512 * 8];
} small_vocab;

/* All pairs of bytes are tokens, in an order that looks like none, and so are rows of 4, 8, .. 64 of each byte: what a
 * splitter leaves together shows in the ids, and rows join in many rounds. Ids: 0 .. 255 the bytes, 256 + k the pair
 * (k * 40503) mod 65536, high byte first, then the rows, those of 4 first. Lives as long as the program. */
void small_bpe_pairs(bt_vocab_source *ret, const char *pre);

void small_spm(small_vocab *v);
void small_bpe(small_vocab *v, const char *pre);
/* Ids by name of the two vocabularies above; -1 if there is none. */
int32_t small_id(const small_vocab *v, const char *name);
int32_t small_bpe_byte(unsigned char b);
#endif
