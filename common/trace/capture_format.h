#ifndef BT_TRACE_CAPTURE_FORMAT_H
#define BT_TRACE_CAPTURE_FORMAT_H
#include "base/buf.h"
#include "trace/row.h"

/* The file of a capture: records, one after another, each whole in itself, so that a file cut anywhere can be read up
 * to the cut.
 *
 *   offset  bytes
 *        0      4  "BTCP"
 *        4      1  version, 3; read too: 2, without the name of the key, and 1, also without the reservation's time
 *        5      1  kind: 1 start, 2 request, 3 dropped
 *        6      1  1: the payload is sealed (crypto/seal.h), and so 48 bytes longer
 *        7      1  0
 *        8      4  bytes of the payload as it stands here, at most BT_CAPTURE_MAX_BYTES
 *       12      4  0
 *       16      n  payload
 *   16 + n      8  XXH3-64 of the 16 + n bytes before
 *
 * Payloads; all numbers little-endian, floats as their bits, times in microseconds:
 *   start    i64 seconds since 1970 | u32 tokens of a block, 64 | u32 1: with texts | u8 n, n bytes: the model's name.
 *            Every part of a capture begins with a start; a gateway that goes on with a file writes another one.
 *   request  i64 arrival, since the start | u32 prompt tokens, answer tokens, max_tokens, attempts, cached tokens,
 *            covered tokens | i64 times in the order of bt_trace_time | f32 temperature, top_p, min_p, repetition,
 *            presence and frequency penalty | u32 top_k, entries of logit_bias | u64 seed | u8 outcome, chat, streamed,
 *            with text | u8 n, n bytes: the name of the key that asked, at most 64 | u32 n, n x u64 hashes |
 *            with text: u32 n, n x i32 prompt ids | u32 n, n x i32 answer ids | u32 n, n bytes: the answer
 *   dropped  u64 requests since the record before that are missing because the disk was slow or full
 *
 * A hash stands for the prompt up to the end of its block: hash(0) = 0, hash(i + 1) = SipHash-2-4 of hash(i) as u64 and
 * the ids of block i as i32. The last block may be shorter. The key is drawn when the gateway begins and never written,
 * so that nobody can try texts against the hashes; ids of two starts share nothing. */
#define BT_CAPTURE_MAGIC "BTCP"
enum {
    BT_CAPTURE_MAGIC_BYTES = 4,
    BT_CAPTURE_HEAD_BYTES = 16,
    BT_CAPTURE_TAIL_BYTES = 8,
    BT_CAPTURE_MAX_BYTES = 8 << 20, /* of a payload */
    BT_CAPTURE_MAX_MODEL = 255,     /* bytes of a model's name */
};

typedef enum bt_capture_kind { BT_CAPTURE_START = 1, BT_CAPTURE_REQUEST, BT_CAPTURE_DROPPED } bt_capture_kind;
typedef struct bt_capture_start {
    int64_t wall_s;
    bool has_text;
    char model[BT_CAPTURE_MAX_MODEL + 1];
} bt_capture_start;

/* Adds one record to *out: sealed to public_key, or plain where it is NULL. A request takes arrival, tokens, key,
 * hashes and captured from the row. BT_ELIMIT: the record would be too long; BT_ENOMEM. On failure *out is as before.
 */
bt_err bt_capture_put_start(bt_buf *out, const bt_capture_start *s, const unsigned char *public_key, bt_fault *fault);
bt_err bt_capture_put_request(bt_buf *out, const bt_trace_row *row, const unsigned char *public_key, bt_fault *fault);
bt_err bt_capture_put_dropped(bt_buf *out, uint64_t count, const unsigned char *public_key, bt_fault *fault);

/* The record at bytes[n]: *ret_bytes is its whole length. 0: the record is not whole yet, or (BT_EFORMAT) no record
 * begins here. */
bt_err bt_capture_measure(size_t *ret_bytes, const uint8_t *bytes, size_t n, bt_fault *fault);
/* Whether a whole record has the right checksum. */
bool bt_capture_is_sound(const uint8_t *record, size_t n);

/* Read payloads without a seal, with every field checked; BT_EFORMAT says which field is bad. */
bt_err bt_capture_get_start(bt_capture_start *ret, const uint8_t *payload, size_t n, bt_fault *fault);
bt_err bt_capture_get_dropped(uint64_t *ret, const uint8_t *payload, size_t n, bt_fault *fault);
/* version: of the record. hash[] and ids[] hold `room` values each; bt_capture_room is the most that a payload can
 * have. The answer's text stays in the payload. row->captured is set to *captured. */
static inline size_t bt_capture_room(size_t payload_bytes) { return payload_bytes / 4 + 1; }
bt_err bt_capture_get_request(bt_trace_row *row, bt_trace_captured *captured, uint64_t *hash, int32_t *ids,
                              uint8_t version, const uint8_t *payload, size_t n, bt_fault *fault);

/* The hashes of a prompt: ret holds bt_capture_blocks(n) of them. */
static inline size_t bt_capture_blocks(size_t tokens)
{
    return (tokens + BT_TRACE_CAPTURE_BLOCK - 1) / BT_TRACE_CAPTURE_BLOCK;
}
void bt_capture_hash(uint64_t *ret, const uint8_t key[16], const int32_t *ids, size_t n);
#endif
