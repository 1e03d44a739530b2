/* A bitmap of units for each layer, and the count of what is covered, so that "complete" is one comparison.
 */
#include "kv/kv_cover.h"

#include "kv/kv_header.h"

#include <stdlib.h>

struct bt_kv_cover {
    uint32_t layers, tokens, units; /* units of a layer */
    uint64_t covered;               /* tokens, over all layers */
    uint64_t bits[];                /* bit layer * units + unit */
};

bt_err bt_kv_cover_new(bt_kv_cover **ret, uint32_t layers, uint32_t tokens, bt_fault *fault)
{
    if (layers - 1u >= BT_KV_MAX_LAYERS || tokens - 1u >= BT_KV_MAX_TOKENS)
        return bt_fail(fault, BT_EARG, "kv cover: no prompt of %u tokens in %u layers", tokens, layers);
    const uint32_t units = (tokens - 1) / BT_KV_UNIT_TOKENS + 1;
    const size_t words = ((size_t)layers * units + 63) / 64;
    bt_kv_cover *c = calloc(1, sizeof *c + words * sizeof c->bits[0]);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for a KV cover");
    c->layers = layers;
    c->tokens = tokens;
    c->units = units;
    *ret = c;
    return BT_OK;
}

void bt_kv_cover_free(bt_kv_cover *c) { free(c); }

static bool has_unit(const bt_kv_cover *c, uint32_t layer, uint32_t unit)
{
    const size_t i = (size_t)layer * c->units + unit;
    return c->bits[i / 64] >> (i % 64) & 1;
}

static uint32_t unit_tokens(const bt_kv_cover *c, uint32_t unit)
{
    const uint32_t left = c->tokens - unit * BT_KV_UNIT_TOKENS;
    return left < BT_KV_UNIT_TOKENS ? left : BT_KV_UNIT_TOKENS;
}

/* The units [*begin, *end) of a legal range. */
static bt_err find_units(uint32_t *begin, uint32_t *end, const bt_kv_cover *c, const bt_kv_range *r,
                         bt_fault *fault)
{
    const uint64_t last = (uint64_t)r->token_begin + r->token_count;
    if (r->layer >= c->layers || r->token_count == 0 || last > c->tokens)
        return bt_fail(fault, BT_EFORMAT,
                       "kv range: %u tokens from %u of layer %u, the prompt has %u in %u layers",
                       r->token_count, r->token_begin, r->layer, c->tokens, c->layers);
    if (r->token_begin % BT_KV_UNIT_TOKENS || (last % BT_KV_UNIT_TOKENS && last != c->tokens))
        return bt_fail(fault, BT_EFORMAT,
                       "kv range: %u tokens from %u: an edge is neither a multiple of %d nor the end %u",
                       r->token_count, r->token_begin, BT_KV_UNIT_TOKENS, c->tokens);
    *begin = r->token_begin / BT_KV_UNIT_TOKENS;
    *end = (uint32_t)((last - 1) / BT_KV_UNIT_TOKENS + 1);
    return BT_OK;
}

bt_err bt_kv_cover_new_tokens(uint32_t *ret, const bt_kv_cover *c, const bt_kv_range *r, bt_fault *fault)
{
    uint32_t begin = 0, end = 0, n = 0;
    const bt_err e = find_units(&begin, &end, c, r, fault);
    if (e < 0) return e;
    for (uint32_t u = begin; u < end; u++)
        if (!has_unit(c, r->layer, u)) n += unit_tokens(c, u);
    *ret = n;
    return BT_OK;
}

bt_err bt_kv_cover_mark(bt_kv_cover *c, const bt_kv_range *r, bt_fault *fault)
{
    uint32_t begin = 0, end = 0;
    const bt_err e = find_units(&begin, &end, c, r, fault);
    if (e < 0) return e;
    for (uint32_t u = begin; u < end; u++) {
        if (has_unit(c, r->layer, u)) continue;
        const size_t i = (size_t)r->layer * c->units + u;
        c->bits[i / 64] |= 1ull << (i % 64);
        c->covered += unit_tokens(c, u);
    }
    return BT_OK;
}

bool bt_kv_cover_has(const bt_kv_cover *c, uint32_t layer, uint32_t token)
{
    return layer < c->layers && token < c->tokens && has_unit(c, layer, token / BT_KV_UNIT_TOKENS);
}

bool bt_kv_cover_is_complete(const bt_kv_cover *c) { return c->covered == (uint64_t)c->layers * c->tokens; }

uint32_t bt_kv_cover_prefix(const bt_kv_cover *c)
{
    for (uint32_t u = 0; u < c->units; u++)
        for (uint32_t layer = 0; layer < c->layers; layer++)
            if (!has_unit(c, layer, u)) return u * BT_KV_UNIT_TOKENS;
    return c->tokens;
}

size_t bt_kv_cover_missing(const bt_kv_cover *c, bt_kv_range *ret, size_t cap)
{
    size_t n = 0;
    for (uint32_t layer = 0; layer < c->layers; layer++)
        for (uint32_t u = 0; u < c->units; u++) {
            if (has_unit(c, layer, u)) continue;
            if (n == cap) return n;
            const uint32_t begin = u;
            while (u < c->units && !has_unit(c, layer, u)) u++;
            const uint32_t end = u < c->units ? u * BT_KV_UNIT_TOKENS : c->tokens;
            ret[n++] = (bt_kv_range){layer, begin * BT_KV_UNIT_TOKENS, end - begin * BT_KV_UNIT_TOKENS};
        }
    return n;
}
