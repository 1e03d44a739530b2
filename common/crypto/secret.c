/* Keeping, comparing and forgetting secrets, by libsodium. */
#include "crypto/secret.h"

#include <sodium.h>

_Static_assert((int)BT_SECRET_HASH_BYTES == (int)crypto_generichash_BYTES &&
                   (int)BT_SECRET_HASH_BYTES == (int)crypto_generichash_KEYBYTES,
               "the default sizes of BLAKE2b");

bool bt_secret_equal(const void *a, const void *b, size_t n) { return sodium_memcmp(a, b, n) == 0; }
void bt_secret_wipe(void *bytes, size_t n) { sodium_memzero(bytes, n); }

void *bt_secret_new(size_t n)
{
    void *bytes = sodium_init() < 0 ? NULL : sodium_malloc(n);
    if (bytes) sodium_memzero(bytes, n); /* sodium_malloc fills them */
    return bytes;
}

void bt_secret_free(void *bytes) { sodium_free(bytes); }

void bt_secret_hash(uint8_t ret[BT_SECRET_HASH_BYTES], const uint8_t key[BT_SECRET_HASH_BYTES],
                    const void *bytes, size_t n)
{
    (void)crypto_generichash(ret, BT_SECRET_HASH_BYTES, bytes, n, key, BT_SECRET_HASH_BYTES); /* fails for
                                                                                                 sizes out of
                                                                                                 range only */
}
