#ifndef BT_CRYPTO_SEAL_H
#define BT_CRYPTO_SEAL_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Bytes that only the owner of a secret key can read (libsodium's crypto_box_seal: X25519, XSalsa20-Poly1305), and a
 * keyed hash (SipHash-2-4). Keys of crypto/keys.h fit. Thread-safe after bt_seal_start. */
enum { BT_SEAL_BYTES = 48, BT_SEAL_KEY_BYTES = 32, BT_KEYED_HASH_KEY_BYTES = 16 };

bt_err bt_seal_start(bt_fault *fault); /* before anything else; as often as you like. BT_EIO */
/* ret holds n + BT_SEAL_BYTES. BT_EARG: no key of this kind. */
bt_err bt_seal(uint8_t *ret, const uint8_t *bytes, size_t n, const unsigned char public_key[BT_SEAL_KEY_BYTES],
               bt_fault *fault);
/* ret holds n - BT_SEAL_BYTES. BT_EAUTH: sealed to another key, or changed. */
bt_err bt_seal_open(uint8_t *ret, const uint8_t *sealed, size_t n, const unsigned char public_key[BT_SEAL_KEY_BYTES],
                    const unsigned char secret_key[BT_SEAL_KEY_BYTES], bt_fault *fault);

/* Without the key nobody can compute or guess the hash of bytes. */
uint64_t bt_keyed_hash64(const uint8_t key[BT_KEYED_HASH_KEY_BYTES], const void *bytes, size_t n);
#endif
