#ifndef BT_KV_PACK_H
#define BT_KV_PACK_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/kv_view.h"
#include "kv/kv_header.h"

/* Rows between a sequence's pages and the neutral layout that travels. Bytes are copied, never converted: the
 * form of both sides is the view's, an int8 head's scale behind it as it lies in the page. A block body is K rows
 * [token][kv_head][head_bytes], then V rows the same.
 *
 * Every range is checked against the view (layer < layers, begin + count <= tokens_capacity, count >= 1, none of its
 * rows gone) and every size must be exact; otherwise BT_EARG and nothing is written. The buffer may have any alignment
 * and overlaps no page. */

/* Bytes of a block of that many tokens; 0 on overflow. */
size_t bt_kv_pack_bytes(const bt_kv_view *v, size_t token_count);

/* ret[ret_bytes] = the body of tokens [begin, begin + count) of `layer`. */
bt_err bt_kv_pack_take(uint8_t *ret, size_t ret_bytes, const bt_kv_view *v, size_t layer, size_t token_begin,
                       size_t token_count, bt_fault *fault);
/* The other way round: write a body's rows into the pages of v, and no other byte. */
bt_err bt_kv_pack_place(const bt_kv_view *v, size_t layer, size_t token_begin, size_t token_count, const uint8_t *body,
                        size_t body_bytes, bt_fault *fault);

/* Do the rows that lie in the pages of v, of h's layer and range, have h's digest? BT_EFORMAT: no. */
bt_err bt_kv_pack_check(const bt_kv_view *v, const bt_kv_header *h, bt_fault *fault);

/* XXH3-128, canonical bytes, of the KV of tokens [0, tokens) in the neutral layout of a whole prompt,
 * [layer][K|V][token][kv_head][head_bytes]: the same for any page size, chunking, class of pages and engine that made
 * equal rows. BT_EARG where rows are gone. */
bt_err bt_kv_pack_digest(uint8_t ret[static 16], const bt_kv_view *v, size_t tokens, bt_fault *fault);
#endif
