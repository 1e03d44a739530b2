/* Any bytes as the header of a KV block: what is accepted is reproduced byte for byte. The checksum would
 * hide the rest of the reader from a fuzzer, so the same bytes are tried again with a right one. */
#include "kv/kv_header.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void try(const uint8_t *data, size_t len)
{
    bt_kv_header h;
    if (bt_kv_header_decode(&h, data, len, NULL) < 0) return;
    uint8_t out[BT_KV_HEADER_BYTES];
    if (bt_kv_header_encode(out, &h, NULL) < 0 || memcmp(out, data, sizeof out) != 0) abort();
    if (h.body_bytes == 0 || h.body_bytes > BT_KV_MAX_BODY_BYTES) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    try(data, len);
    if (len != BT_KV_HEADER_BYTES) return 0;
    uint8_t sealed[BT_KV_HEADER_BYTES];
    memcpy(sealed, data, sizeof sealed);
    const uint64_t sum = XXH3_64bits(sealed, BT_KV_HEADER_BYTES - 8);
    for (int i = 0; i < 8; i++) sealed[BT_KV_HEADER_BYTES - 8 + i] = (uint8_t)(sum >> (8 * i));
    try(sealed, sizeof sealed);
    return 0;
}
