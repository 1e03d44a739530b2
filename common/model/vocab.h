#ifndef BT_MODEL_VOCAB_H
#define BT_MODEL_VOCAB_H
#include "text/tokenizer.h"

typedef struct bt_gguf bt_gguf; /* model/gguf.h */

/* The tokenizer of a GGUF file, from its tokenizer.* keys. Copies what it needs: g may be closed afterwards. BT_EFORMAT
 * and BT_EVERSION name the key that is missing or wrong; BT_ELIMIT as in bt_tokenizer_new. */
bt_err bt_vocab_load(bt_tokenizer **ret, const bt_gguf *g, bt_fault *fault);
#endif
