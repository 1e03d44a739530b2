/* Sealed bytes and keyed hashes, by libsodium. */
#include "crypto/seal.h"
#include "base/num.h"

#include <sodium.h>

_Static_assert(BT_SEAL_BYTES == crypto_box_SEALBYTES && BT_SEAL_KEY_BYTES == crypto_box_PUBLICKEYBYTES &&
                   BT_SEAL_KEY_BYTES == crypto_box_SECRETKEYBYTES,
               "sizes of libsodium's sealed boxes");
_Static_assert(BT_KEYED_HASH_KEY_BYTES == crypto_shorthash_siphash24_KEYBYTES &&
                   crypto_shorthash_siphash24_BYTES == 8,
               "sizes of SipHash-2-4");

bt_err bt_seal_start(bt_fault *fault)
{
    return sodium_init() < 0 ? bt_fail(fault, BT_EIO, "libsodium cannot start") : BT_OK;
}

bt_err bt_seal(uint8_t *ret, const uint8_t *bytes, size_t n,
               const unsigned char public_key[BT_SEAL_KEY_BYTES], bt_fault *fault)
{
    if (crypto_box_seal(ret, bytes, n, public_key) != 0)
        return bt_fail(fault, BT_EARG, "nothing can be sealed to this public key");
    return BT_OK;
}

bt_err bt_seal_open(uint8_t *ret, const uint8_t *sealed, size_t n,
                    const unsigned char public_key[BT_SEAL_KEY_BYTES],
                    const unsigned char secret_key[BT_SEAL_KEY_BYTES], bt_fault *fault)
{
    if (n < BT_SEAL_BYTES || crypto_box_seal_open(ret, sealed, n, public_key, secret_key) != 0)
        return bt_fail(fault, BT_EAUTH, "the record is sealed to another key");
    return BT_OK;
}

uint64_t bt_keyed_hash64(const uint8_t key[BT_KEYED_HASH_KEY_BYTES], const void *bytes, size_t n)
{
    unsigned char hash[crypto_shorthash_siphash24_BYTES];
    (void)crypto_shorthash_siphash24(hash, bytes, n, key); /* it has no way to fail */
    return bt_get64(hash);
}
