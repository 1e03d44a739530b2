/* Keeping, comparing and forgetting secrets, by libsodium. */
#include "crypto/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static bt_err read_all(char *bytes, size_t *ret_len, const char *path, int fd, size_t max_bytes,
                       bool others_may_read, bt_fault *fault)
{
    struct stat st;
    size_t len = 0;
    if (fstat(fd, &st) < 0) return bt_fail(fault, BT_EIO, "cannot look at '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return bt_fail(fault, BT_EARG, "'%s' is not a regular file", path);
    if (!others_may_read && (st.st_mode & (S_IRWXO | S_IWGRP)))
        return bt_fail(fault, BT_EAUTH, "'%s' can be read by others; run 'chmod 600' on it", path);
    for (;;) {
        const ssize_t n = read(fd, bytes + len, max_bytes + 1 - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
        if (n == 0) break;
        len += (size_t)n;
        if (len > max_bytes)
            return bt_fail(fault, BT_ELIMIT, "'%s' has more than %zu bytes, the limit", path, max_bytes);
    }
    bytes[len] = 0;
    *ret_len = len;
    return BT_OK;
}

bt_err bt_secret_read(char **ret, size_t *ret_len, const char *path, size_t max_bytes, bool others_may_read,
                      bt_fault *fault)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno));
    char *bytes = bt_secret_new(max_bytes + 1);
    const bt_err e = bytes ? read_all(bytes, ret_len, path, fd, max_bytes, others_may_read, fault)
                           : bt_fail(fault, BT_ENOMEM, "out of memory for '%s'", path);
    (void)close(fd);
    if (e < 0 && bytes) bt_secret_free(bytes);
    if (e == BT_OK) *ret = bytes;
    return e;
}

void bt_secret_hash(uint8_t ret[BT_SECRET_HASH_BYTES], const uint8_t key[BT_SECRET_HASH_BYTES],
                    const void *bytes, size_t n)
{
    (void)crypto_generichash(ret, BT_SECRET_HASH_BYTES, bytes, n, key, BT_SECRET_HASH_BYTES); /* fails for
                                                                                                 sizes out of
                                                                                                 range only */
}
