/* Engines that compute nothing useful, checkably. See sim_toy.h. */
#include "tests/world/sim_toy.h"
#include "base/num.h"
#include "base/rng.h"
#include "kernels/kv_view.h"

bt_kv_shape sim_toy_shape(uint32_t window, uint32_t global_every)
{
    return (bt_kv_shape){SIM_TOY_LAYERS, 1, 2, BT_KV_F16, window, window ? global_every : 0};
}

bool sim_toy_sees_all(const bt_kv_shape *shape, uint32_t layer)
{
    return !shape->window || bt_kv_sees_all(shape->global_every, layer);
}

void sim_toy_prefixes(uint64_t *hashes, const int32_t *ids, uint32_t len, uint32_t rule)
{
    uint64_t h = 1 + rule;
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

uint64_t sim_toy_mix(uint64_t digest, const uint8_t row[SIM_TOY_ROW_BYTES])
{
    return bt_rng_u64(digest, bt_get64(row));
}

uint64_t sim_toy_seen(uint64_t all, const bt_kv_shape *shape, uint32_t pos, sim_toy_row_fn *row,
                      const void *ud)
{
    for (uint32_t t = pos + 1 > shape->window ? pos + 1 - shape->window : 0; shape->window && t < pos; t++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++)
            if (!sim_toy_sees_all(shape, l)) all = sim_toy_mix(all, row(ud, l, t));
    return all;
}

void sim_toy_row(uint8_t ret[SIM_TOY_ROW_BYTES], uint64_t digest, int32_t id, uint32_t layer)
{
    const uint64_t row = bt_rng_u64(bt_rng_u64(digest, (uint64_t)(uint32_t)id), layer);
    bt_put32(ret, (uint32_t)row);
    bt_put32(ret + 4, (uint32_t)(row >> 32));
}

int32_t sim_toy_first(uint64_t prompt_hash, uint64_t seed)
{
    return (int32_t)(bt_rng_u64(prompt_hash, seed) % SIM_TOY_VOCAB);
}

int32_t sim_toy_next(uint64_t digest, uint32_t index, uint64_t seed)
{
    return (int32_t)(bt_rng_u64(bt_rng_u64(digest, seed), index) % SIM_TOY_VOCAB);
}
