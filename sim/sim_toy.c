/* Engines that compute nothing useful, checkably. See sim_toy.h. */
#include "sim/sim_toy.h"
#include "base/num.h"
#include "base/rng.h"

#include <string.h>

bt_kv_shape sim_toy_shape(void) { return (bt_kv_shape){SIM_TOY_LAYERS, 1, 2, BT_KV_F16}; }

void sim_toy_prefixes(uint64_t *hashes, const int32_t *ids, uint32_t len)
{
    uint64_t h = 1;
    for (uint32_t t = 0; t < len; t++) hashes[t] = h = bt_rng_u64(h, (uint64_t)(uint32_t)ids[t]);
}

void sim_toy_body(uint8_t *ret, const uint64_t *hashes, uint32_t layer, uint32_t begin, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t row = bt_rng_u64(hashes[begin + i], layer);
        bt_put32(ret + i * 4, (uint32_t)row);
        bt_put32(ret + (count + i) * 4, (uint32_t)(row >> 32));
    }
}

void sim_toy_place(uint8_t *rows, uint32_t ctx_tokens, const uint8_t *body, uint32_t layer, uint32_t begin,
                   uint32_t count)
{
    uint8_t *out = rows + ((size_t)layer * ctx_tokens + begin) * SIM_TOY_ROW_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(out + i * 8, body + i * 4, 4);
        memcpy(out + i * 8 + 4, body + (count + i) * 4, 4);
    }
}

uint64_t sim_toy_digest(const uint8_t *rows, uint32_t ctx_tokens, uint32_t tokens)
{
    uint64_t h = tokens;
    for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++)
        for (uint32_t t = 0; t < tokens; t++)
            h = bt_rng_u64(h, bt_get64(rows + ((size_t)l * ctx_tokens + t) * SIM_TOY_ROW_BYTES));
    return h;
}

int32_t sim_toy_first(uint64_t prompt_hash, uint64_t seed)
{
    return (int32_t)(bt_rng_u64(prompt_hash, seed) % SIM_TOY_VOCAB);
}

int32_t sim_toy_next(uint64_t kv_digest, int32_t previous, uint32_t index, uint64_t seed)
{
    uint64_t h = bt_rng_u64(kv_digest, seed);
    return (int32_t)(bt_rng_u64(h, (uint64_t)index << 32 | (uint32_t)previous) % SIM_TOY_VOCAB);
}
