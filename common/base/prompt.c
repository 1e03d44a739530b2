/* Prefixes of prompts, by tokens or by hashes. See prompt.h. */
#include "base/prompt.h"
#include "base/hash.h"
#include "base/rng.h"

#include <string.h>

/* Inside a block the hash of the block and the place in it stand for the prefix: a prompt with another block
 * has another prefix. */
uint64_t bt_prompt_prefix(const bt_prompt_view *p, uint32_t tokens)
{
    const uint32_t block = p->hashes.block_tokens, whole = tokens / block, rest = tokens % block;
    return rest ? bt_rng_u64(p->hashes.of[whole], rest) : p->hashes.of[whole - 1];
}

static size_t hashes_bytes(const bt_prompt_view *p)
{
    return p->hashes.of ? bt_prompt_hashes_len(p->tokens, p->hashes.block_tokens) * sizeof *p->hashes.of : 0;
}

static const bt_prompt_salt no_salt;

bool bt_prompt_same_salt(const bt_prompt_view *a, const bt_prompt_view *b)
{
    return memcmp(&a->salt, &b->salt, sizeof a->salt) == 0;
}

uint64_t bt_prompt_salted(uint64_t value, const bt_prompt_salt *salt)
{
    struct {
        uint64_t value;
        bt_prompt_salt salt;
    } both = {value, *salt};
    return memcmp(salt, &no_salt, sizeof no_salt) == 0 ? value : bt_hash64(&both, sizeof both);
}

size_t bt_prompt_bytes(const bt_prompt_view *p)
{
    return hashes_bytes(p) + (p->ids ? (size_t)p->tokens * sizeof *p->ids : 0);
}

bt_prompt_view bt_prompt_copy(void *at, const bt_prompt_view *p)
{
    bt_prompt_view copy = *p;
    const size_t hashes = hashes_bytes(p);
    if (hashes) copy.hashes.of = memcpy(at, p->hashes.of, hashes);
    if (p->ids) copy.ids = memcpy((uint8_t *)at + hashes, p->ids, p->tokens * sizeof *p->ids);
    return copy;
}

void bt_prompt_hash(uint64_t *ret, const int32_t *ids, uint32_t tokens, uint32_t block_tokens)
{
    uint64_t link[2] = {0, 0};
    for (size_t i = 0; i < bt_prompt_hashes_len(tokens, block_tokens); i++) {
        const size_t begin = i * block_tokens, left = tokens - begin;
        link[1] = bt_hash64(ids + begin, (left < block_tokens ? left : block_tokens) * sizeof *ids);
        ret[i] = link[0] = bt_hash64(link, sizeof link);
    }
}
