#ifndef BT_TEXT_SPM_H
#define BT_TEXT_SPM_H
#include "text/tokenizer_private.h"

/* The llama kind of vocabulary; for common/text only. */

/* Ids of text without special tokens in it, len >= 1. starts_text: at the beginning or right after a special token.
 * Errors of bt_tokenizer_encode. */
bt_err bt_spm_encode(bt_encoder *enc, const char *text, size_t len, bool starts_text, bt_fault *fault);
/* The bytes of a token's name in the file, into ret[BT_TOKENIZER_MAX_TOKEN_BYTES]; their count, or -1 when the name
 * has a plain space (then it can be no word). */
int bt_spm_unmap(char *ret, const char *name, size_t len);
/* "<0x0A>" -> 10, or -1. */
int bt_spm_byte(const char *name, size_t len);
#endif
