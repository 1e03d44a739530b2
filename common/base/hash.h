#ifndef BT_BASE_HASH_H
#define BT_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>

/* Content hashes: XXH3 with seed 0, in 64 and 128 bits. They find accidents, not attackers: whoever can choose the
 * bytes can make two texts with one hash. 128-bit results are 16 bytes in xxHash's canonical order (big-endian), so the
 * bytes are the same on every machine. */
#define BT_HASH_BYTES     16u
#define BT_HASH_HEX_CHARS 33u /* 32 digits and the final 0 */

uint64_t bt_hash64(const void *data, size_t len);
void bt_hash128(uint8_t ret[BT_HASH_BYTES], const void *data, size_t len);

/* The same 128 bits from pieces: begin, add as often as needed, end. Lives on the stack or in static memory (64-byte
 * aligned; an object on the heap that holds one needs aligned_alloc). `end` leaves the stream as it was. */
typedef struct bt_hash_stream {
    _Alignas(64) uint8_t state[576];
} bt_hash_stream;
void bt_hash_begin(bt_hash_stream *s);
void bt_hash_add(bt_hash_stream *s, const void *data, size_t len);
void bt_hash_end(uint8_t ret[BT_HASH_BYTES], const bt_hash_stream *s);

/* Lower-case hexadecimal text of 16 bytes. Returns ret. */
char *bt_hash_hex(char ret[BT_HASH_HEX_CHARS], const uint8_t hash[BT_HASH_BYTES]);
#endif
