/* One KV block's header: bytes to struct and back, and the digest that ties a body to its place. */
#include "kv/kv_header.h"

#include "base/hash.h"
#include "base/num.h"
#include "kernels/kv_view.h"
#include "kv/kv_dtype.h"

#include <stdbool.h>
#include <string.h>

enum {
    OFF_REQUEST = 8,
    OFF_TICKET = 64,
    OFF_DIGEST = 80,
    OFF_FROM = 96,
    OFF_TO = 112,
    OFF_EPOCH = 128,
    OFF_END = 136,
    OFF_CHECKSUM = 144
};

uint32_t bt_kv_header_body_bytes(uint32_t token_count, uint32_t kv_heads, uint32_t head_dim, uint16_t dtype)
{
    if (token_count - 1u >= BT_KV_MAX_BLOCK_TOKENS || kv_heads - 1u >= BT_KV_MAX_HEADS ||
        head_dim - 1u >= BT_KV_MAX_HEAD_DIM || bt_kv_dtype_elem_bytes(dtype) == 0 ||
        (dtype == BT_KV_INT8 && head_dim % 2))
        return 0;
    const uint64_t n =
        2ull * token_count * kv_heads * bt_kv_head_bytes(bt_kv_dtype_elem_bytes(dtype), head_dim);
    return n <= BT_KV_MAX_BODY_BYTES ? (uint32_t)n : 0;
}

static bool is_zero(const uint8_t b[static 16])
{
    static const uint8_t zero[16];
    return memcmp(b, zero, 16) == 0;
}

/* The ranges of the table in the header; `code` is what a field outside of them returns. */
static bt_err check(const bt_kv_header *h, bt_err code, bt_fault *fault)
{
    if (is_zero(h->owner) || is_zero(h->from) || is_zero(h->to))
        return bt_fail(fault, code, "kv header: owner, from or to is all zero");
    if (h->attempt == 0) return bt_fail(fault, code, "kv header: attempt is 0");
    if (h->layer >= BT_KV_MAX_LAYERS)
        return bt_fail(fault, code, "kv header: layer %u, must be 0..%d", h->layer, BT_KV_MAX_LAYERS - 1);
    if (h->token_begin % BT_KV_UNIT_TOKENS)
        return bt_fail(fault, code, "kv header: token_begin %u is not a multiple of %d", h->token_begin,
                       BT_KV_UNIT_TOKENS);
    if (h->token_count - 1u >= BT_KV_MAX_BLOCK_TOKENS)
        return bt_fail(fault, code, "kv header: token_count %u, must be 1..%d", h->token_count,
                       BT_KV_MAX_BLOCK_TOKENS);
    if ((uint64_t)h->token_begin + h->token_count > BT_KV_MAX_TOKENS)
        return bt_fail(fault, code, "kv header: %u tokens from %u pass the limit %d", h->token_count,
                       h->token_begin, BT_KV_MAX_TOKENS);
    const uint32_t body = bt_kv_header_body_bytes(h->token_count, h->kv_heads, h->head_dim, h->dtype);
    if (body == 0)
        return bt_fail(fault, code,
                       "kv header: no block of %u tokens x %u heads x %u elements of type %u (%s)",
                       h->token_count, h->kv_heads, h->head_dim, (unsigned)h->dtype,
                       bt_kv_dtype_name(h->dtype));
    if (h->body_bytes != body)
        return bt_fail(fault, code, "kv header: body_bytes %u, the shape says %u", h->body_bytes, body);
    return BT_OK;
}

/* Bytes 8..63: everything that the digest covers besides the body. */
static void put_covered(uint8_t *out, const bt_kv_header *h)
{
    memcpy(out, h->owner, 16);
    bt_put64(out + 16, h->number);
    bt_put32(out + 24, h->attempt);
    bt_put32(out + 28, h->layer);
    bt_put32(out + 32, h->token_begin);
    bt_put32(out + 36, h->token_count);
    bt_put32(out + 40, h->kv_heads);
    bt_put32(out + 44, h->head_dim);
    bt_put16(out + 48, h->dtype);
    bt_put16(out + 50, 0);
    bt_put32(out + 52, h->body_bytes);
}

bt_err bt_kv_header_encode(uint8_t out[static BT_KV_HEADER_BYTES], const bt_kv_header *h, bt_fault *fault)
{
    const bt_err e = check(h, BT_EARG, fault);
    if (e < 0) return e;
    memcpy(out, "BTKV", 4);
    bt_put16(out + 4, BT_KV_HEADER_VERSION);
    bt_put16(out + 6, 0);
    put_covered(out + OFF_REQUEST, h);
    memcpy(out + OFF_TICKET, h->ticket, 16);
    memcpy(out + OFF_DIGEST, h->digest, 16);
    memcpy(out + OFF_FROM, h->from, 16);
    memcpy(out + OFF_TO, h->to, 16);
    bt_put64(out + OFF_EPOCH, h->link_epoch);
    bt_put64(out + OFF_END, h->link_end);
    bt_put64(out + OFF_CHECKSUM, bt_hash64(out, OFF_CHECKSUM));
    return BT_OK;
}

bt_err bt_kv_header_decode(bt_kv_header *ret, const uint8_t *bytes, size_t len, bt_fault *fault)
{
    if (len != BT_KV_HEADER_BYTES)
        return bt_fail(fault, BT_EFORMAT, "kv header: %zu bytes, must be %d", len, BT_KV_HEADER_BYTES);
    if (bt_get64(bytes + OFF_CHECKSUM) != bt_hash64(bytes, OFF_CHECKSUM))
        return bt_fail(fault, BT_EFORMAT, "kv header: wrong checksum");
    if (memcmp(bytes, "BTKV", 4) != 0) return bt_fail(fault, BT_EFORMAT, "kv header: wrong magic");
    if (bt_get16(bytes + 4) != BT_KV_HEADER_VERSION)
        return bt_fail(fault, BT_EVERSION, "kv header: version %u; this program speaks version %d",
                       (unsigned)bt_get16(bytes + 4), BT_KV_HEADER_VERSION);
    if (bt_get16(bytes + 6) != 0 || bt_get16(bytes + 58) != 0)
        return bt_fail(fault, BT_EFORMAT, "kv header: flags or a reserved field is not zero");

    const uint8_t *p = bytes + OFF_REQUEST;
    bt_kv_header h = {
        .number = bt_get64(p + 16),
        .attempt = bt_get32(p + 24),
        .layer = bt_get32(p + 28),
        .token_begin = bt_get32(p + 32),
        .token_count = bt_get32(p + 36),
        .kv_heads = bt_get32(p + 40),
        .head_dim = bt_get32(p + 44),
        .dtype = bt_get16(p + 48),
        .body_bytes = bt_get32(p + 52),
        .link_epoch = bt_get64(bytes + OFF_EPOCH),
        .link_end = bt_get64(bytes + OFF_END),
    };
    memcpy(h.owner, p, 16);
    memcpy(h.ticket, bytes + OFF_TICKET, 16);
    memcpy(h.digest, bytes + OFF_DIGEST, 16);
    memcpy(h.from, bytes + OFF_FROM, 16);
    memcpy(h.to, bytes + OFF_TO, 16);
    const bt_err e = check(&h, BT_EFORMAT, fault);
    if (e < 0) return e;
    *ret = h;
    return BT_OK;
}

void bt_kv_header_digest_begin(bt_hash_stream *s, const bt_kv_header *h)
{
    uint8_t covered[OFF_TICKET - OFF_REQUEST];
    put_covered(covered, h);
    bt_hash_begin(s);
    bt_hash_add(s, covered, sizeof covered);
}

void bt_kv_header_digest(uint8_t ret[static 16], const bt_kv_header *h, const void *body)
{
    bt_hash_stream s;
    bt_kv_header_digest_begin(&s, h);
    bt_hash_add(&s, body, h->body_bytes);
    bt_hash_end(ret, &s);
}

bt_err bt_kv_header_check_body(const bt_kv_header *h, const void *body, size_t len, bt_fault *fault)
{
    if (len != h->body_bytes)
        return bt_fail(fault, BT_EFORMAT, "kv block: a body of %zu bytes, the header says %u", len,
                       h->body_bytes);
    uint8_t digest[16];
    bt_kv_header_digest(digest, h, body);
    if (memcmp(digest, h->digest, 16) != 0)
        return bt_fail(fault, BT_EFORMAT, "kv block: layer %u, tokens from %u: wrong digest", h->layer,
                       h->token_begin);
    return BT_OK;
}
