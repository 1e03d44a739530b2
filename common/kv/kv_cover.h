#ifndef BT_KV_COVER_H
#define BT_KV_COVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The rows of one prompt's KV that have come: a bit for each layer and unit of 16 tokens (the last unit may be
 * shorter). Pure, and bounded by the shape given at the start: layers * tokens / 128 bytes, at most 2 MiB. */
typedef struct bt_kv_cover bt_kv_cover;

typedef struct bt_kv_range {
    uint32_t layer, token_begin, token_count;
} bt_kv_range;

/* layers 1..BT_KV_MAX_LAYERS, tokens 1..BT_KV_MAX_TOKENS (kv_header.h). Starts empty. BT_EARG, BT_ENOMEM. */
bt_err bt_kv_cover_new(bt_kv_cover **ret, uint32_t layers, uint32_t tokens, bt_fault *fault);
void bt_kv_cover_free(bt_kv_cover *c); /* NULL is fine */

/* A legal range: layer < layers, token_count >= 1, token_begin a multiple of 16, its end a multiple of 16 or
 * the prompt's end. For any other, these fail with BT_EFORMAT (ranges come from outside) and change nothing.
 *
 * new_tokens: how many tokens of r are not covered yet. All of them: place the block. None: it is a
 *             duplicate. Some: place only the units for which bt_kv_cover_has is false, since rows in place are never
 *             written again.
 * mark:       r is covered from now on; marking again is harmless. */
bt_err bt_kv_cover_new_tokens(uint32_t *ret, const bt_kv_cover *c, const bt_kv_range *r, bt_fault *fault);
bt_err bt_kv_cover_mark(bt_kv_cover *c, const bt_kv_range *r, bt_fault *fault);

bool bt_kv_cover_has(const bt_kv_cover *c, uint32_t layer, uint32_t token); /* false outside the shape */
bool bt_kv_cover_is_complete(const bt_kv_cover *c);

/* Tokens from the first on that are covered in every layer. */
uint32_t bt_kv_cover_prefix(const bt_kv_cover *c);

/* Writes the first `cap` missing ranges by layer, then token, neighbours merged. Returns their count; 0: complete. */
size_t bt_kv_cover_missing(const bt_kv_cover *c, bt_kv_range *ret, size_t cap);
#endif
