#ifndef BT_PROMPT_H
#define BT_PROMPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A prompt as the brains see it: its length, and what its prefixes are known by. Daemons have the tokens and compare
 * them. A simulation of millions of prompts has a hash for each block of them instead, and no array of tokens exists
 * anywhere.
 *
 * hashes[i] stands for all tokens up to the end of block i: those before the block, and its own. Two prompts with one
 * hash have these tokens in common; two that differ anywhere before the end of a block have other hashes from that
 * block on. There are bt_prompt_hashes_len of them; the last may be of a block that the prompt's end cuts.
 *
 * A brain looks for prefixes of a whole number of its own pages or chunks. Where such a page is a whole number of
 * blocks, tokens and hashes find the same prefixes. Where it is not, a prefix that ends inside a block is found only by
 * prompts that have the whole block in common: never too much, at most a block too little. */
typedef struct bt_prompt_hashes {
    const uint64_t *of;    /* [bt_prompt_hashes_len]; NULL: there are none */
    uint32_t block_tokens; /* 1.. where there are */
} bt_prompt_hashes;

/* Prompts share prefixes with those of their own salt and with no others, whatever their tokens. All zero is the salt
 * of all prompts that are given none. */
typedef struct bt_prompt_salt {
    uint8_t bytes[16];
} bt_prompt_salt;

/* ids NULL: there are none. ids and hashes are borrowed. */
typedef struct bt_prompt_view {
    uint32_t tokens;
    const int32_t *ids; /* [tokens] */
    bt_prompt_hashes hashes;
    bt_prompt_salt salt;
} bt_prompt_view;

/* How a brain distinguishes prefixes. */
typedef enum bt_prompt_by { BT_PROMPT_BY_IDS = 0, BT_PROMPT_BY_HASHES } bt_prompt_by;

static inline size_t bt_prompt_hashes_len(uint32_t tokens, uint32_t block_tokens)
{
    return block_tokens ? ((size_t)tokens + block_tokens - 1) / block_tokens : 0;
}

/* A number that stands for the first `tokens` of the prompt, 1 .. p->tokens. The prompt has hashes. */
uint64_t bt_prompt_prefix(const bt_prompt_view *p, uint32_t tokens);

bool bt_prompt_same_salt(const bt_prompt_view *a, const bt_prompt_view *b);
/* `value` for the zero salt, else a number that stands for both. */
uint64_t bt_prompt_salted(uint64_t value, const bt_prompt_salt *salt);

/* Copies the ids and hashes that p has, so that a brain owns what it keeps. The copies lie in one block at `at`,
 * aligned to 8 bytes, of bt_prompt_bytes bytes (a multiple of 4), the ids last. Returns the view of the copies. */
size_t bt_prompt_bytes(const bt_prompt_view *p);
bt_prompt_view bt_prompt_copy(void *at, const bt_prompt_view *p);

/* Makes the bt_prompt_hashes_len(tokens, block_tokens) hashes of a prompt from its tokens. */
void bt_prompt_hash(uint64_t *ret, const int32_t *ids, uint32_t tokens, uint32_t block_tokens);
#endif
