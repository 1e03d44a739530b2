/* One stream over header and body. */
#include "crypto/digest.h"
#include "base/hash.h"

#include <string.h>

_Static_assert(BT_DIGEST_BYTES == BT_HASH_BYTES, "a digest is a 128-bit hash");

void bt_digest_block(uint8_t ret[BT_DIGEST_BYTES], const void *header, size_t header_bytes, const void *body, size_t body_bytes)
{
    bt_hash_stream s;
    bt_hash_begin(&s);
    bt_hash_add(&s, header, header_bytes);
    bt_hash_add(&s, body, body_bytes);
    bt_hash_end(ret, &s);
}

bool bt_digest_equal(const uint8_t a[BT_DIGEST_BYTES], const uint8_t b[BT_DIGEST_BYTES])
{
    return !memcmp(a, b, BT_DIGEST_BYTES);
}
