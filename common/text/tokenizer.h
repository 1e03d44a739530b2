#ifndef BT_TEXT_TOKENIZER_H
#define BT_TEXT_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Text to token ids and back, by the vocabulary of a model file. Two kinds:
 *   llama   SentencePiece style: characters joined by highest score (leftmost first), bytes as <0xXX>
 *           tokens, a space in front of the text (and after each special token) where the file asks
 *   gpt2    byte-level BPE: the text is cut into words (pretok.h), each word's bytes are joined by lowest
 *           merge rank
 *
 * A tokenizer never changes after bt_tokenizer_new, but for a count: any number of threads may use one at once.
 * Encoding takes O(n log n) time and O(n) memory; nothing recurses.
 *
 * Bytes that the vocabulary has no token for become its unknown token, of type BT_TOKEN_UNKNOWN (in llama: one for a
 * row of such characters). Where it has none, gpt2 leaves such bytes out, as the models' own tokenizers do, and counts
 * them; llama refuses the text, and so does gpt2 with the pre-tokenizer tekken. */
enum {
    BT_TOKENIZER_MAX_TOKENS = 1 << 20,
    BT_TOKENIZER_MAX_MERGES = 1 << 21,
    BT_TOKENIZER_MAX_TOKEN_BYTES = 1024,
    BT_TOKENIZER_MAX_TEXT_BYTES = 16 << 20, /* of one encoding; it may use 64 times as much memory */
};

/* numbers of the file format */
typedef enum bt_token_type {
    BT_TOKEN_NORMAL = 1,
    BT_TOKEN_UNKNOWN,
    BT_TOKEN_CONTROL,
    BT_TOKEN_USER_DEFINED,
    BT_TOKEN_UNUSED,
    BT_TOKEN_BYTE,
} bt_token_type;

typedef struct bt_text_span {
    const char *ptr;
    size_t len;
} bt_text_span;

/* A vocabulary as plain data, untrusted: bt_tokenizer_new checks all of it. Callbacks get `ud` and an
 * index below the count; they must not fail. NULL callbacks: every score 0, every type normal. Ids are -1
 * where the file has none. */
typedef struct bt_vocab_source {
    bt_text_span model;              /* "llama" or "gpt2" */
    bt_text_span pre;                /* pre-tokenizer of gpt2; ignored for llama */
    size_t token_count, merge_count; /* merges: gpt2 only */
    bt_text_span (*token)(void *ud, size_t i);
    bt_text_span (*merge)(void *ud, size_t i); /* "left right" */
    float (*score)(void *ud, size_t i);
    int32_t (*type)(void *ud, size_t i); /* bt_token_type */
    void *ud;
    int64_t bos, eos, unk, eot, eom;
    /* 0, 1, or -1: the file does not say (then llama: 1, gpt2: 0; llama-bpe adds a BOS) */
    int add_bos, add_space_prefix;
} bt_vocab_source;

typedef struct bt_tokenizer bt_tokenizer;

/* Copies what it needs. The one with the lower id is used where two tokens have one text. A type that cannot be right
 * is taken for what the token must be. In gpt2, what merges make or a single byte is a word, and a name of an end (or
 * <|...|>) that no merge makes is a control token; in llama, <0x00> to <0xFF> are bytes. bt_tokenizer_remark then has
 * words. BT_EFORMAT names the key of the file that is wrong, BT_EVERSION the model kind or pre-tokenizer that is not
 * known, BT_ELIMIT a count or length beyond the limits above. */
bt_err bt_tokenizer_new(bt_tokenizer **ret, const bt_vocab_source *src, bt_fault *fault);
void bt_tokenizer_free(bt_tokenizer *tok); /* NULL is fine */

enum {
    BT_ENCODE_BOS = 1,     /* begin with BOS if the file asks for one (bt_tokenizer_adds_bos) */
    BT_ENCODE_SPECIAL = 2, /* the text may name control tokens; without it they are plain text */
};
/* *ret: at most 2 len + 2 ids, malloc'ed, for the caller to free (never NULL, also for a count of 0). User-defined
 * tokens are always recognised, control tokens only with BT_ENCODE_SPECIAL; the longest one at the leftmost place wins.
 * Errors: BT_EARG text is not UTF-8, or holds a byte that is refused (both with the offset); BT_ELIMIT text too long;
 * BT_ENOMEM. */
bt_err bt_tokenizer_encode(int32_t **ret, size_t *ret_count, const bt_tokenizer *tok, const char *text, size_t len,
                           unsigned flags, bt_fault *fault);

/* The same over pieces of one text. A control token is recognised only where it lies wholly inside a piece that
 * is_special, so a user's text, in an ordinary piece of its own, can never name one. Otherwise the ids are those of the
 * joined text: pieces do not cut words. BT_ENCODE_SPECIAL makes every piece special. */
typedef struct bt_text_piece {
    const char *text;
    size_t len;
    bool is_special;
} bt_text_piece;
bt_err bt_tokenizer_encode_pieces(int32_t **ret, size_t *ret_count, const bt_tokenizer *tok, const bt_text_piece *piece,
                                  size_t pieces, unsigned flags, bt_fault *fault);
/* The same with a limit of ids_max ids, so that a text that is far too long costs little. BT_ELIMIT where there are
 * more: the fault has words for BT_TOKENIZER_MAX_TEXT_BYTES, and an empty text for ids_max. gpt2 stops at the limit;
 * llama joins the whole text first. */
bt_err bt_tokenizer_encode_at_most(int32_t **ret, size_t *ret_count, const bt_tokenizer *tok,
                                   const bt_text_piece *piece, size_t pieces, unsigned flags, size_t ids_max,
                                   bt_fault *fault);

/* The fault of the vocabulary that is told once, after loading; NULL: there is none. Lives as long as the tokenizer. */
const char *bt_tokenizer_remark(const bt_tokenizer *tok);
/* Bytes that all encodings so far have left out. */
uint64_t bt_tokenizer_left_out_bytes(const bt_tokenizer *tok);

size_t bt_tokenizer_count(const bt_tokenizer *tok);
int32_t bt_tokenizer_bos(const bt_tokenizer *tok); /* -1: none; likewise below */
int32_t bt_tokenizer_eos(const bt_tokenizer *tok);
int32_t bt_tokenizer_eot(const bt_tokenizer *tok);
int32_t bt_tokenizer_unk(const bt_tokenizer *tok);
bool bt_tokenizer_adds_bos(const bt_tokenizer *tok);
bool bt_tokenizer_adds_space(const bt_tokenizer *tok); /* llama: a space in front, which decoding takes off */
/* Ends a generation: eos, eot, eom, and control or user-defined tokens whose name the field uses for it (<|im_end|>,
 * <|eot_id|>, <end_of_turn>, </s>, ...). Where there are <|return|> and <|call|>, <|end|> ends a message and no answer.
 * False for ids out of range. */
bool bt_tokenizer_is_eog(const bt_tokenizer *tok, int32_t id);
/* 0 for ids out of range. */
bt_token_type bt_tokenizer_type(const bt_tokenizer *tok, int32_t id);
/* The bytes that a token stands for (any bytes, not always UTF-8, not NUL-terminated): words with spaces
 * as spaces, a byte token as its byte, all others as the name in the file. {NULL, 0} for ids out of range.
 * Lives as long as the tokenizer. */
bt_text_span bt_tokenizer_piece(const bt_tokenizer *tok, int32_t id);
#endif
