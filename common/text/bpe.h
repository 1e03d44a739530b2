#ifndef BT_TEXT_BPE_H
#define BT_TEXT_BPE_H
#include "text/tokenizer_private.h"

/* The gpt2 kind of vocabulary; for common/text only. */

/* Ids of text without special tokens in it, len >= 1. Errors of bt_tokenizer_encode. */
bt_err bt_bpe_encode(bt_encoder *enc, const char *text, size_t len, bt_fault *fault);
/* The bytes of a token's name in the file, into ret[BT_TOKENIZER_MAX_TOKEN_BYTES]; their count, or -1 when the name
 * is not in the byte alphabet (then it can be no word). */
int bt_bpe_unmap(char *ret, const char *name, size_t len);
/* Reads src's merges into tok->merge; tok's words are known. BT_EFORMAT names the merge. */
bt_err bt_bpe_load_merges(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault);
#endif
