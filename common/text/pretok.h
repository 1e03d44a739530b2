#ifndef BT_TEXT_PRETOK_H
#define BT_TEXT_PRETOK_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

/* Cuts text into the words inside which byte-level BPE joins bytes, by the Unicode regular expressions that
 * a model was trained with. White space is Unicode's White_Space, letters and numbers are the categories L
 * and N. */
typedef struct bt_pretok bt_pretok;

/* name, as files give it:
 *   gpt-2 (gpt2, phi-2)                              GPT-2
 *   llama-bpe (llama3, llama-v3, falcon3, lfm2)      Llama 3
 *   qwen2 (deepseek-r1-qwen)                         Qwen 2, 2.5 and 3
 *   smollm (starcoder, refact)                       SmolLM, StarCoder, Granite
 *   command-r, olmo                                  Command R; OLMo and GPT-NeoX
 *   dbrx (smaug-bpe)                                 DBRX, Phi-4: cl100k
 *   gpt-4o (llama4)                                  gpt-oss, Llama 4: o200k
 *   tekken                                           Mistral Nemo and later
 *   deepseek-llm, deepseek-coder, deepseek-v3        DeepSeek; v3 also R1 and V4
 *   (hunyuan-dense, as deepseek-v3)                  HunYuan
 * BT_EVERSION for another, with the known ones; BT_ENOMEM. */
bt_err bt_pretok_new(bt_pretok **ret, const char *name, size_t len, bt_fault *fault);
void bt_pretok_free(bt_pretok *p); /* NULL is fine */
/* Further traits that the tokenizers of a name's models have in common. */
enum {
    BT_PRETOK_WHOLE_WORDS = 1, /* a word that is a token as it stands is that token, whatever the merges say */
    BT_PRETOK_BOS = 2,         /* a BOS is added by default */
    BT_PRETOK_NFC = 4,         /* plain text is brought into NFC first (bt_utf8_nfc) */
    BT_PRETOK_REFUSES = 8,     /* a byte without a token is refused, not left out: so does tiktoken */
};
unsigned bt_pretok_traits(const bt_pretok *p);

/* Calls fn for each word in order; all words together are the text. text must be valid UTF-8. Stops at the first error
 * of fn and returns it. BT_ELIMIT when matching takes more steps than a bound linear in len. Threads may share p. */
typedef bt_err bt_pretok_word_fn(void *ud, const char *word, size_t len, bt_fault *fault);
bt_err bt_pretok_split(const bt_pretok *p, const char *text, size_t len, bt_pretok_word_fn *fn, void *ud,
                       bt_fault *fault);
#endif
