#ifndef BT_CRYPTO_SECRET_H
#define BT_CRYPTO_SECRET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* For bytes that are secret, such as API keys. */
bool bt_secret_equal(const void *a, const void *b, size_t n); /* takes the same time whatever the bytes are */
void bt_secret_wipe(void *bytes, size_t n);                   /* the compiler does not leave it out */

/* `n` bytes, zero, in pages of their own that core dumps leave out, and that are not swapped as far as the process may
 * lock memory. NULL: out of memory, or libsodium cannot start. Costs system calls: for what lives long. */
void *bt_secret_new(size_t n);
void bt_secret_free(void *bytes); /* wipes; NULL is fine */

/* A regular file of at most max_bytes, whole, in memory of bt_secret_new with a 0 behind it; the caller frees it. Never
 * waits for a file's other side. others_may_read: it is no secret, and its permissions say nothing. BT_EIO: it cannot
 * be read; BT_EARG: it is no regular file; BT_EAUTH: others may read it, or a group may write it; BT_ELIMIT: it is
 * longer. The fault names the file. */
bt_err bt_secret_read(char **ret, size_t *ret_len, const char *path, size_t max_bytes, bool others_may_read,
                      bt_fault *fault);

/* BLAKE2b under a key: without the key nobody can say which bytes have which hash, nor choose bytes for a hash. */
enum { BT_SECRET_HASH_BYTES = 32 };
void bt_secret_hash(uint8_t ret[BT_SECRET_HASH_BYTES], const uint8_t key[BT_SECRET_HASH_BYTES], const void *bytes,
                    size_t n);
#endif
