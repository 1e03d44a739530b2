/* Frames: the fixed header, and the way from bt_msg to protobuf bytes and back. The kinds of messages are
 * tables in msg_link.c, msg_infer.c and msg_kv.c.
 *
 * Decoding never takes more memory than decode_memory() says, whatever the bytes: protobuf-c allocates from
 * one block that belongs to the bt_msg_buf, only ever forwards, and an allocation past its end makes the
 * message malformed. The block is kept from message to message, so a steady stream allocates nothing.
 * Encoding allocates nothing at all. */
#include "wire/msg.h"

#include "base/hash.h"
#include "base/num.h"
#include "wire/msg_body.h"

#include <stdlib.h>
#include <string.h>

static const bt_msg_kind *find_kind(unsigned type)
{
    static const struct {
        const bt_msg_kind *kinds;
        size_t len;
    } families[] = {
        {bt_msg_link_kinds, BT_MSG_LINK_KINDS},
        {bt_msg_infer_kinds, BT_MSG_INFER_KINDS},
        {bt_msg_kv_kinds, BT_MSG_KV_KINDS},
    };
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (size_t i = 0; i < families[f].len; i++)
            if ((unsigned)families[f].kinds[i].type == type) return &families[f].kinds[i];
    return NULL;
}

const char *bt_msg_type_name(bt_msg_type t)
{
    const bt_msg_kind *k = find_kind(t);
    return k ? k->name : "?";
}

/* The fields that every message must have, whatever its kind. */
static bt_err check(const bt_msg_kind *k, const bt_msg *m, bt_msg_checker *c)
{
    bt_msg_body_not_zero(c, "from", m->from.bytes);
    if (m->type != BT_MSG_HELLO) bt_msg_body_not_zero(c, "to", m->to.bytes);
    if (k->has_ref) {
        bt_msg_body_not_zero(c, "ref.owner", m->ref.owner.bytes);
        bt_msg_body_range(c, "ref.attempt", m->ref.attempt, 1, UINT32_MAX);
    }
    if (c->err == BT_OK && k->check) k->check(c, m);
    return c->err;
}

static uint64_t checksum(const uint8_t header[static 56], const uint8_t *body, size_t body_bytes)
{
    uint8_t all[64];
    memcpy(all, header, 56);
    bt_put64(all + 56, bt_hash64(body, body_bytes));
    return bt_hash64(all, sizeof all);
}

static size_t sampling_max(const bt_sampling *p) { return 9u * (size_t)p->bias_len + p->program_len; }

size_t bt_msg_encoded_max(const bt_msg *m)
{
    size_t n = BT_MSG_HEADER_BYTES + BT_MSG_SMALL_BODY_BYTES;
    if (m->type == BT_MSG_PREFILL)
        n += 5u * (size_t)m->u.prefill.ids_len + sampling_max(&m->u.prefill.sampling);
    if (m->type == BT_MSG_RESERVE)
        n += 5u * ((size_t)m->u.reserve.ids_len + m->u.reserve.generated_len) +
             sampling_max(&m->u.reserve.sampling);
    if (m->type == BT_MSG_TOKENS)
        n += (5u + (m->u.tokens.logprobs ? 5u + 9u * BT_SAMPLE_MAX_TOP : 0u)) * (size_t)m->u.tokens.ids_len;
    if (m->type == BT_MSG_MISSING) n += 14u * (size_t)m->u.missing.ranges_len;
    return n;
}

bt_err bt_msg_encode(size_t *ret_len, uint8_t *out, size_t cap, const bt_msg *m, bt_fault *fault)
{
    const bt_msg_kind *k = find_kind(m->type);
    if (!k) return bt_fail(fault, BT_EARG, "message type %u is unknown", (unsigned)m->type);
    bt_msg_checker c = {.name = k->name, .code = BT_EARG, .fault = fault};
    if (check(k, m, &c) < 0) return c.err;

    bt_msg_scratch s; /* each part is set before it is used */
    s.ref = (Bt__RequestRef)BT__REQUEST_REF__INIT;
    s.ref.owner = bt_msg_body_put16(m->ref.owner.bytes);
    s.ref.number = m->ref.number;
    s.ref.attempt = m->ref.attempt;
    const ProtobufCMessage *body = k->fill(&s, m);
    const bool fits = cap >= bt_msg_encoded_max(m);
    size_t n = fits ? 0 : protobuf_c_message_get_packed_size(body);
    if (!fits && (cap < BT_MSG_HEADER_BYTES || n > cap - BT_MSG_HEADER_BYTES))
        return bt_fail(fault, BT_ELIMIT, "%s: a body of %zu bytes, room for %zu", k->name, n,
                       cap < BT_MSG_HEADER_BYTES ? 0 : cap - BT_MSG_HEADER_BYTES);

    n = protobuf_c_message_pack(body, out + BT_MSG_HEADER_BYTES);
    if (n > k->max_body_bytes)
        return bt_fail(fault, BT_ELIMIT, "%s: a body of %zu bytes, limit %zu", k->name, n, k->max_body_bytes);
    memset(out, 0, BT_MSG_HEADER_BYTES);
    memcpy(out, "BTN1", 4);
    bt_put16(out + 4, BT_PROTOCOL_VERSION);
    bt_put16(out + 6, (uint16_t)m->type);
    bt_put32(out + 8, (uint32_t)n);
    memcpy(out + 16, m->from.bytes, 16);
    memcpy(out + 32, m->to.bytes, 16);
    bt_put64(out + 56, checksum(out, out + BT_MSG_HEADER_BYTES, n));
    *ret_len = BT_MSG_HEADER_BYTES + n;
    return BT_OK;
}

/* Enough for any legal body: ids take at most 4 bytes for each byte of it, and everything else fits the
 * constant part. */
static size_t decode_memory(size_t body_bytes) { return 4 * body_bytes + (256u << 10); }

typedef struct arena {
    uint8_t *bytes;
    size_t used, len;
} arena;

static void *arena_alloc(void *ud, size_t n)
{
    arena *a = ud;
    const size_t at = (a->used + 15) & ~(size_t)15;
    if (at > a->len || n > a->len - at) return NULL;
    a->used = at + n;
    return a->bytes + at;
}

static void arena_free(void *ud, void *p)
{
    (void)ud;
    (void)p;
}

static bt_err arena_reserve(bt_msg_buf *b, size_t n, bt_fault *fault)
{
    if (n <= b->cap) return BT_OK;
    void *p = malloc(n);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu bytes of a decoded message", n);
    free(b->block);
    b->block = p;
    b->cap = n;
    return BT_OK;
}

void bt_msg_buf_done(bt_msg_buf *b)
{
    free(b->block);
    *b = (bt_msg_buf){0};
}

/* Everything in the header that can be tested before the body is looked at. */
static bt_err check_frame(const bt_msg_kind **ret, const uint8_t *bytes, size_t len, bt_fault *fault)
{
    if (len < BT_MSG_HEADER_BYTES)
        return bt_fail(fault, BT_EFORMAT, "frame: %zu bytes, need at least %d", len, BT_MSG_HEADER_BYTES);
    if (len > (size_t)BT_MSG_HEADER_BYTES + BT_MSG_MAX_BODY_BYTES)
        return bt_fail(fault, BT_ELIMIT, "frame: %zu bytes, limit %d", len,
                       BT_MSG_HEADER_BYTES + BT_MSG_MAX_BODY_BYTES);
    const size_t body = len - BT_MSG_HEADER_BYTES;
    if (bt_get32(bytes + 8) != body)
        return bt_fail(fault, BT_EFORMAT, "frame: body_bytes is %u, the frame has %zu", bt_get32(bytes + 8),
                       body);
    if (bt_get64(bytes + 56) != checksum(bytes, bytes + BT_MSG_HEADER_BYTES, body))
        return bt_fail(fault, BT_EFORMAT, "frame: wrong checksum");
    if (memcmp(bytes, "BTN1", 4) != 0) return bt_fail(fault, BT_EFORMAT, "frame: wrong magic");
    if (bt_get16(bytes + 4) != BT_PROTOCOL_VERSION)
        return bt_fail(fault, BT_EVERSION, "frame: protocol version %u; this program speaks version %u",
                       (unsigned)bt_get16(bytes + 4), BT_PROTOCOL_VERSION);
    if (bt_get32(bytes + 12) != 0 || bt_get64(bytes + 48) != 0)
        return bt_fail(fault, BT_EFORMAT, "frame: a reserved field is not zero");
    const bt_msg_kind *k = find_kind(bt_get16(bytes + 6));
    if (!k)
        return bt_fail(fault, BT_EVERSION, "frame: message type %u is unknown",
                       (unsigned)bt_get16(bytes + 6));
    if (body > k->max_body_bytes)
        return bt_fail(fault, BT_ELIMIT, "%s: a body of %zu bytes, limit %zu", k->name, body,
                       k->max_body_bytes);
    *ret = k;
    return BT_OK;
}

bt_err bt_msg_decode(bt_msg *ret, bt_msg_buf *buf, const uint8_t *bytes, size_t len, bt_fault *fault)
{
    const bt_msg_kind *k = NULL;
    bt_err e = check_frame(&k, bytes, len, fault);
    if (e < 0) return e;
    const size_t body_bytes = len - BT_MSG_HEADER_BYTES;
    if ((e = arena_reserve(buf, decode_memory(body_bytes), fault)) < 0) return e;

    arena a = {.bytes = buf->block, .len = decode_memory(body_bytes)};
    ProtobufCAllocator from_arena = {.alloc = arena_alloc, .free = arena_free, .allocator_data = &a};
    bt_msg_checker c = {.name = k->name, .code = BT_EFORMAT, .fault = fault, .alloc = arena_alloc,
                        .alloc_ud = &a};
    const ProtobufCMessage *body =
        protobuf_c_message_unpack(k->desc, &from_arena, body_bytes, bytes + BT_MSG_HEADER_BYTES);
    if (!body)
        return bt_fail(fault, BT_EFORMAT, "%s: the body is not the protobuf message it should be", k->name);

    bt_msg m;
    bt_msg_begin(&m, k->type);
    memcpy(m.from.bytes, bytes + 16, 16);
    memcpy(m.to.bytes, bytes + 32, 16);
    k->read(&c, &m, body); /* nothing to free: it is all in the block */
    if (c.err < 0 || check(k, &m, &c) < 0) return c.err;
    memcpy(ret, &m, bt_msg_bytes(k->type));
    return BT_OK;
}
