/* SHA-256, by libsodium. */
#include "crypto/sha256.h"

#include <sodium.h>

_Static_assert(sizeof(crypto_hash_sha256_state) == sizeof(bt_sha256),
               "bt_sha256 must hold libsodium's state");
_Static_assert(_Alignof(crypto_hash_sha256_state) <= _Alignof(bt_sha256),
               "bt_sha256 must be aligned for libsodium's state");
_Static_assert((int)BT_SHA256_BYTES == (int)crypto_hash_sha256_BYTES, "a hash has 32 bytes");

static crypto_hash_sha256_state *state_of(bt_sha256 *s)
{
    return (crypto_hash_sha256_state *)(void *)s->state;
}

void bt_sha256_begin(bt_sha256 *s) { (void)crypto_hash_sha256_init(state_of(s)); /* none of them can fail */ }

void bt_sha256_add(bt_sha256 *s, const void *bytes, size_t n)
{
    (void)crypto_hash_sha256_update(state_of(s), bytes, n);
}

char *bt_sha256_end_hex(char ret[BT_SHA256_HEX_CHARS], bt_sha256 *s)
{
    unsigned char hash[BT_SHA256_BYTES];
    (void)crypto_hash_sha256_final(state_of(s), hash);
    return sodium_bin2hex(ret, BT_SHA256_HEX_CHARS, hash, sizeof hash);
}
