#ifndef BT_KV_HEADER_H
#define BT_KV_HEADER_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

/* The header of one KV block. A block is a token range of one layer of one prompt; it travels on the bulk
 * link as two frames, this header and the body. The body is the neutral layout of that range:
 *     K rows [token][kv_head][head], then V rows the same; after RoPE, no padding. A head is head_dim values of f16 or
 *     f32, little-endian; with int8 it is q[head_dim] and then an f16 scale s, little-endian: an element is q * s.
 * The header is BT_KV_HEADER_BYTES long; integers are little-endian.
 *
 *   off size field        valid
 *     0    4 magic        "BTKV"
 *     4    2 version      BT_KV_HEADER_VERSION
 *     6    2 flags        zero (must-reject)
 *     8   16 owner        the request: incarnation of the gateway that took it, not zero
 *    24    8 number       the request: that gateway's counter
 *    32    4 attempt      1..
 *    36    4 layer        < BT_KV_MAX_LAYERS
 *    40    4 token_begin  a multiple of BT_KV_UNIT_TOKENS
 *    44    4 token_count  1..BT_KV_MAX_BLOCK_TOKENS; token_begin + token_count <= BT_KV_MAX_TOKENS. The end
 *                         is a multiple of BT_KV_UNIT_TOKENS or the prompt's end, which only the receiver's
 *                         kv_cover can check
 *    48    4 kv_heads     1..BT_KV_MAX_HEADS
 *    52    4 head_dim     1..BT_KV_MAX_HEAD_DIM; even with int8
 *    56    2 dtype        1 f16, 2 f32, 3 int8 (bt_kv_dtype)
 *    58    2 reserved     zero (must-reject)
 *    60    4 body_bytes   2 * token_count * kv_heads * (2 head_dim, 4 head_dim or head_dim + 2),
 *                         <= BT_KV_MAX_BODY_BYTES
 *    64   16 ticket       drawn by D for this attempt
 *    80   16 digest       XXH3-128, canonical bytes, of header bytes 8..63 followed by the body
 *    96   16 from         incarnation of the sender, not zero
 *   112   16 to           incarnation of the meant receiver, not zero
 *   128    8 epoch        of the link: the number in HELLO
 *   136    8 end          body bytes sent on the link in this epoch, this block's included
 *   144    8 checksum     XXH3-64 of bytes 0..143, tested before any field but the length */
enum {
    BT_KV_HEADER_BYTES = 152,
    BT_KV_HEADER_VERSION = 2,
    BT_KV_UNIT_TOKENS = 16,
    BT_KV_MAX_BLOCK_TOKENS = 4096,
    BT_KV_MAX_TOKENS = 1 << 20,
    BT_KV_MAX_LAYERS = 256,
    BT_KV_MAX_HEADS = 256,
    BT_KV_MAX_HEAD_DIM = 256,
    BT_KV_MAX_BODY_BYTES = 64 << 20,
};

typedef struct bt_kv_header {
    uint8_t owner[16];
    uint64_t number;
    uint32_t attempt, layer, token_begin, token_count, kv_heads, head_dim;
    uint16_t dtype;
    uint32_t body_bytes;
    uint8_t ticket[16], digest[16], from[16], to[16];
    uint64_t link_epoch, link_end; /* for credit: xfer/xfer_credit.h */
} bt_kv_header;

/* Read a header from exactly len bytes; any bytes are safe. BT_EFORMAT (length, magic, checksum, a field out
 * of range), BT_EVERSION (with both numbers). *ret is untouched on failure. The digest is not tested: see
 * bt_kv_header_check_body. */
bt_err bt_kv_header_decode(bt_kv_header *ret, const uint8_t *bytes, size_t len, bt_fault *fault);
/* BT_EARG, and out untouched, when a field is out of the range above. */
bt_err bt_kv_header_encode(uint8_t out[static BT_KV_HEADER_BYTES], const bt_kv_header *h, bt_fault *fault);

/* The value that body_bytes must have. 0 when a number is out of range or the body would pass its limit. */
uint32_t bt_kv_header_body_bytes(uint32_t token_count, uint32_t kv_heads, uint32_t head_dim, uint16_t dtype);

/* The digest of h's request, range and shape and of h->body_bytes of body; h->digest is not looked at. */
void bt_kv_header_digest(uint8_t ret[static 16], const bt_kv_header *h, const void *body);
/* The same in pieces: begins s, to which the caller adds the body. */
void bt_kv_header_digest_begin(bt_hash_stream *s, const bt_kv_header *h);
/* BT_EFORMAT unless len is h->body_bytes and the digest is h->digest. */
bt_err bt_kv_header_check_body(const bt_kv_header *h, const void *body, size_t len, bt_fault *fault);
#endif
