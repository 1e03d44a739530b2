#ifndef BT_CRYPTO_SHA256_H
#define BT_CRYPTO_SHA256_H
#include <stddef.h>
#include <stdint.h>

/* SHA-256 of bytes that come piece by piece: for files that others publish with such a hash. */
enum { BT_SHA256_BYTES = 32, BT_SHA256_HEX_CHARS = 65 /* 64 digits and the final 0 */ };

typedef struct bt_sha256 {
    _Alignas(8) uint8_t state[104];
} bt_sha256;

void bt_sha256_begin(bt_sha256 *s);
void bt_sha256_add(bt_sha256 *s, const void *bytes, size_t n);
/* Lower-case hexadecimal digits. Ends the stream. Returns ret. */
char *bt_sha256_end_hex(char ret[BT_SHA256_HEX_CHARS], bt_sha256 *s);
#endif
