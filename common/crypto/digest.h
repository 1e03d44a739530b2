#ifndef BT_CRYPTO_DIGEST_H
#define BT_CRYPTO_DIGEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The digest of a KV block: XXH3-128 over the bytes of its header fields, then its body. It finds damage and mixed-up
 * blocks; forgery is CURVE's business. Which header bytes it covers is said in kv/kv_header.h. */
#define BT_DIGEST_BYTES 16u
void bt_digest_block(uint8_t ret[BT_DIGEST_BYTES], const void *header, size_t header_bytes, const void *body, size_t body_bytes);
bool bt_digest_equal(const uint8_t a[BT_DIGEST_BYTES], const uint8_t b[BT_DIGEST_BYTES]);
#endif
