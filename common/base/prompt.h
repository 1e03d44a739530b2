#ifndef BT_PROMPT_H
#define BT_PROMPT_H
#include <stddef.h>
#include <stdint.h>

/* A prompt as the brains see it: how long it is, and what its beginnings are known by. Daemons have the tokens and
 * compare them. A simulation of millions of prompts has a hash for each block of them instead, and no array of tokens
 * exists anywhere.
 *
 * hashes[i] stands for all tokens up to the end of block i: those before the block, and its own. Two prompts with one
 * hash have these tokens in common; two that differ anywhere before the end of a block have other hashes from that
 * block on. There are bt_prompt_hashes_len of them; the last may be of a block that the prompt's end cuts.
 *
 * What a brain looks for are beginnings of a whole number of its own pages or chunks. Where such a page is a whole
 * number of blocks, tokens and hashes find the same beginnings. Where it is shorter, or no multiple, a beginning that
 * ends inside a block is found only by prompts that have the whole block in common: never too much, at most a block
 * too little. */
typedef struct bt_prompt_hashes {
    const uint64_t *of;    /* [bt_prompt_hashes_len]; NULL: there are none */
    uint32_t block_tokens; /* 1.. where there are */
} bt_prompt_hashes;

/* ids NULL: not there. Borrowed, both. */
typedef struct bt_prompt_view {
    uint32_t tokens;
    const int32_t *ids; /* [tokens] */
    bt_prompt_hashes hashes;
} bt_prompt_view;

/* What a brain tells beginnings apart by. */
typedef enum bt_prompt_by { BT_PROMPT_BY_IDS = 0, BT_PROMPT_BY_HASHES } bt_prompt_by;

static inline size_t bt_prompt_hashes_len(uint32_t tokens, uint32_t block_tokens)
{
    return block_tokens ? ((size_t)tokens + block_tokens - 1) / block_tokens : 0;
}

/* Stands for the first `tokens` of the prompt, 1 .. p->tokens; its hashes are there. */
uint64_t bt_prompt_beginning(const bt_prompt_view *p, uint32_t tokens);

/* Copies of what of p is there, so that a brain owns what it takes. They lie in one block from `at` on, which begins on
 * 8 bytes: _bytes of it, a multiple of 4, the ids last. Returns the view of the copies. */
size_t bt_prompt_bytes(const bt_prompt_view *p);
bt_prompt_view bt_prompt_copy(void *at, const bt_prompt_view *p);

/* hashes[i] for a prompt whose tokens are there: bt_prompt_hashes_len(tokens, block_tokens) of them. */
void bt_prompt_hash(uint64_t *ret, const int32_t *ids, uint32_t tokens, uint32_t block_tokens);
#endif
