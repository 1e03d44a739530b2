/* XXH3 by libxxhash, behind types of our own. */
#define XXH_STATIC_LINKING_ONLY /* for the size of its state, so that a stream needs no heap */
#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) == sizeof(bt_hash_stream), "bt_hash_stream must hold an XXH3 state");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(bt_hash_stream),
               "bt_hash_stream must be aligned for an XXH3 state");
_Static_assert(sizeof(XXH128_canonical_t) == BT_HASH_BYTES, "128 bits");

static void canonical(uint8_t ret[BT_HASH_BYTES], XXH128_hash_t h)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, h);
    memcpy(ret, c.digest, BT_HASH_BYTES);
}

uint64_t bt_hash64(const void *data, size_t len) { return XXH3_64bits(data, len); }
void bt_hash128(uint8_t ret[BT_HASH_BYTES], const void *data, size_t len)
{
    canonical(ret, XXH3_128bits(data, len));
}

void bt_hash_begin(bt_hash_stream *s)
{
    memset(s, 0, sizeof *s);
    (void)XXH3_128bits_reset((XXH3_state_t *)s); /* fails for NULL only, as do the others */
}

void bt_hash_add(bt_hash_stream *s, const void *data, size_t len)
{
    if (len) (void)XXH3_128bits_update((XXH3_state_t *)s, data, len);
}

void bt_hash_end(uint8_t ret[BT_HASH_BYTES], const bt_hash_stream *s)
{
    canonical(ret, XXH3_128bits_digest((const XXH3_state_t *)s));
}

char *bt_hash_hex(char ret[BT_HASH_HEX_CHARS], const uint8_t hash[BT_HASH_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < BT_HASH_BYTES; i++) {
        ret[2 * i] = digits[hash[i] >> 4];
        ret[2 * i + 1] = digits[hash[i] & 15];
    }
    ret[BT_HASH_HEX_CHARS - 1] = 0;
    return ret;
}
