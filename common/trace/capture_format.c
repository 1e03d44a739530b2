/* Records of a capture to bytes and back. Bytes of a file are checked field by field. */
#include "trace/capture_format.h"
#include "base/hash.h"
#include "base/num.h"
#include "crypto/seal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 3,
    TIMES_OF_1 = BT_TRACE_RESERVE,                                    /* that a record of version 1 has */
    FIXED_BYTES = 8 + 6 * 4 + TIMES_OF_1 * 8 + 6 * 4 + 2 * 4 + 8 + 4, /* at least */
};

/* ---- writing ------------------------------------------------------------------------------------- */

static void put32(bt_buf *b, uint32_t v)
{
    uint8_t bytes[4];
    bt_put32(bytes, v);
    (void)bt_buf_add(b, bytes, sizeof bytes); /* an error stays in the buffer; the same for all here */
}
static void put64(bt_buf *b, uint64_t v)
{
    uint8_t bytes[8];
    bt_put64(bytes, v);
    (void)bt_buf_add(b, bytes, sizeof bytes);
}
static void put_float(bt_buf *b, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put32(b, bits);
}
static void put_ids(bt_buf *b, const int32_t *ids, size_t n)
{
    put32(b, (uint32_t)n);
    for (size_t i = 0; i < n; i++) put32(b, (uint32_t)ids[i]);
}

/* The payload of *out behind `from` becomes a record; or *out is cut back to there. */
static bt_err close_record(bt_buf *out, size_t from, bt_capture_kind kind, const unsigned char *public_key,
                           bt_fault *fault)
{
    const size_t n = out->len - from - BT_CAPTURE_HEAD_BYTES, sealed = public_key ? n + BT_SEAL_BYTES : n;
    bt_err e = out->err;
    if (e == BT_OK && sealed > BT_CAPTURE_MAX_BYTES) e = BT_ELIMIT;
    if (e == BT_OK) e = bt_buf_reserve(out, BT_SEAL_BYTES + BT_CAPTURE_TAIL_BYTES);
    if (e < 0) goto fail;
    uint8_t *head = out->data + from, *payload = head + BT_CAPTURE_HEAD_BYTES;
    memset(head, 0, BT_CAPTURE_HEAD_BYTES);
    memcpy(head, BT_CAPTURE_MAGIC, BT_CAPTURE_MAGIC_BYTES);
    head[4] = VERSION;
    head[5] = (uint8_t)kind;
    head[6] = public_key != NULL;
    bt_put32(head + 8, (uint32_t)sealed);
    if (public_key) {
        uint8_t *plain = malloc(n ? n : 1);
        if (!plain) {
            e = BT_ENOMEM;
            goto fail;
        }
        memcpy(plain, payload, n);
        e = bt_seal(payload, plain, n, public_key, fault);
        free(plain);
        if (e < 0) {
            out->len = from;
            return e;
        }
    }
    out->len = from + BT_CAPTURE_HEAD_BYTES + sealed;
    put64(out, bt_hash64(head, BT_CAPTURE_HEAD_BYTES + sealed));
    return BT_OK;
fail:
    out->len = from;
    out->err = BT_OK;
    return bt_fail(fault, e, "a record would have %zu bytes; at most %d are allowed", sealed,
                   BT_CAPTURE_MAX_BYTES);
}

static size_t open_record(bt_buf *out)
{
    static const uint8_t none[BT_CAPTURE_HEAD_BYTES];
    const size_t from = out->len;
    (void)bt_buf_add(out, none, sizeof none);
    return from;
}

/* A buffer that could not even take the head. */
static bt_err is_open(const bt_buf *out, size_t from, bt_fault *fault)
{
    return out->len == from + BT_CAPTURE_HEAD_BYTES ? BT_OK
                                                    : bt_fail(fault, BT_ENOMEM, "out of memory for a record");
}

bt_err bt_capture_put_start(bt_buf *out, const bt_capture_start *s, const unsigned char *public_key,
                            bt_fault *fault)
{
    const size_t from = open_record(out), name = strnlen(s->model, BT_CAPTURE_MAX_MODEL);
    const bt_err e = is_open(out, from, fault);
    if (e < 0) return e;
    put64(out, (uint64_t)s->wall_s);
    put32(out, BT_TRACE_CAPTURE_BLOCK);
    put32(out, s->has_text);
    (void)bt_buf_byte(out, (uint8_t)name);
    (void)bt_buf_add(out, s->model, name);
    return close_record(out, from, BT_CAPTURE_START, public_key, fault);
}

bt_err bt_capture_put_dropped(bt_buf *out, uint64_t count, const unsigned char *public_key, bt_fault *fault)
{
    const size_t from = open_record(out);
    const bt_err e = is_open(out, from, fault);
    if (e < 0) return e;
    put64(out, count);
    return close_record(out, from, BT_CAPTURE_DROPPED, public_key, fault);
}

bt_err bt_capture_put_request(bt_buf *out, const bt_trace_row *row, const unsigned char *public_key,
                              bt_fault *fault)
{
    const bt_trace_captured *c = row->captured;
    const bt_trace_sampling *s = &c->sampling;
    const uint32_t counts[] = {row->input_tokens, row->output_tokens, c->max_tokens,
                               c->attempts,       c->cached_tokens,   c->covered_tokens};
    const float drawn[] = {s->temperature,      s->top_p, s->min_p, s->repeat_penalty, s->presence_penalty,
                           s->frequency_penalty};
    const size_t from = open_record(out);
    const bt_err e = is_open(out, from, fault);
    if (e < 0) return e;
    put64(out, (uint64_t)row->arrival_us);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) put32(out, counts[i]);
    for (size_t i = 0; i < BT_TRACE_TIMES; i++) put64(out, (uint64_t)c->time_us[i]);
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) put_float(out, drawn[i]);
    put32(out, s->top_k);
    put32(out, s->bias_len);
    put64(out, s->seed);
    const uint8_t facts[] = {(uint8_t)c->outcome, c->is_chat, c->is_stream, c->has_text};
    (void)bt_buf_add(out, facts, sizeof facts);
    const size_t name = row->key ? strnlen(row->key, BT_TRACE_MAX_KEY) : 0;
    (void)bt_buf_byte(out, (uint8_t)name);
    (void)bt_buf_add(out, row->key ? row->key : "", name);
    put32(out, (uint32_t)row->hash_len);
    for (size_t i = 0; i < row->hash_len; i++) put64(out, row->hash_ids[i]);
    if (c->has_text) {
        put_ids(out, c->prompt_ids, c->prompt_len);
        put_ids(out, c->answer_ids, c->answer_len);
        put32(out, (uint32_t)c->text_bytes);
        (void)bt_buf_add(out, c->text, c->text_bytes);
    }
    return close_record(out, from, BT_CAPTURE_REQUEST, public_key, fault);
}

void bt_capture_hash(uint64_t *ret, const uint8_t key[16], const int32_t *ids, size_t n)
{
    uint8_t block[8 + 4 * BT_TRACE_CAPTURE_BLOCK];
    uint64_t before = 0;
    for (size_t at = 0; at < n; at += BT_TRACE_CAPTURE_BLOCK) {
        const size_t len = n - at < BT_TRACE_CAPTURE_BLOCK ? n - at : BT_TRACE_CAPTURE_BLOCK;
        bt_put64(block, before);
        for (size_t i = 0; i < len; i++) bt_put32(block + 8 + 4 * i, (uint32_t)ids[at + i]);
        *ret++ = before = bt_keyed_hash64(key, block, 8 + 4 * len);
    }
}

/* ---- reading ------------------------------------------------------------------------------------- */

bt_err bt_capture_measure(size_t *ret_bytes, const uint8_t *bytes, size_t n, bt_fault *fault)
{
    *ret_bytes = 0;
    if (memcmp(bytes, BT_CAPTURE_MAGIC, n < BT_CAPTURE_MAGIC_BYTES ? n : BT_CAPTURE_MAGIC_BYTES) != 0)
        return bt_fail(fault, BT_EFORMAT, "no record begins here");
    if (n > BT_CAPTURE_MAGIC_BYTES && (bytes[4] < 1 || bytes[4] > VERSION))
        return bt_fail(fault, BT_EFORMAT, "a record has version %u; this program reads versions 1 to %d",
                       bytes[4], VERSION);
    if (n < BT_CAPTURE_HEAD_BYTES) return BT_OK;
    const uint32_t payload = bt_get32(bytes + 8);
    if (bytes[5] < BT_CAPTURE_START || bytes[5] > BT_CAPTURE_DROPPED || bytes[6] > 1 || bytes[7] != 0 ||
        bt_get32(bytes + 12) != 0 || payload > BT_CAPTURE_MAX_BYTES)
        return bt_fail(fault, BT_EFORMAT, "a record has kind %u and %u bytes", bytes[5], payload);
    const size_t whole = BT_CAPTURE_HEAD_BYTES + (size_t)payload + BT_CAPTURE_TAIL_BYTES;
    if (n >= whole) *ret_bytes = whole;
    return BT_OK;
}

bool bt_capture_is_sound(const uint8_t *record, size_t n)
{
    return n >= BT_CAPTURE_HEAD_BYTES + BT_CAPTURE_TAIL_BYTES &&
           bt_get64(record + n - BT_CAPTURE_TAIL_BYTES) == bt_hash64(record, n - BT_CAPTURE_TAIL_BYTES);
}

/* The unread rest of a payload; reading past its end gives zeros and sets is_short. */
typedef struct cursor {
    const uint8_t *at;
    size_t left;
    bool is_short;
} cursor;

static const uint8_t *take(cursor *c, size_t n)
{
    static const uint8_t zeros[8];
    if (c->left < n) {
        c->is_short = true;
        return n <= sizeof zeros ? zeros : NULL;
    }
    c->at += n;
    c->left -= n;
    return c->at - n;
}
static uint32_t take32(cursor *c) { return bt_get32(take(c, 4)); }
static uint64_t take64(cursor *c) { return bt_get64(take(c, 8)); }
/* A count of things of `bytes` each that must all be there. */
static size_t take_count(cursor *c, size_t bytes)
{
    const uint32_t n = take32(c);
    if (n > c->left / bytes) {
        c->is_short = true;
        return 0;
    }
    return n;
}

static bt_err is_whole(const cursor *c, bt_fault *fault)
{
    if (c->is_short) return bt_fail(fault, BT_EFORMAT, "a record ends too early");
    if (c->left) return bt_fail(fault, BT_EFORMAT, "a record has %zu bytes too many", c->left);
    return BT_OK;
}

bt_err bt_capture_get_start(bt_capture_start *ret, const uint8_t *payload, size_t n, bt_fault *fault)
{
    cursor c = {payload, n, false};
    bt_capture_start s = {.wall_s = (int64_t)take64(&c)};
    const uint32_t block = take32(&c), text = take32(&c);
    const size_t name = *take(&c, 1);
    const uint8_t *model = c.left >= name ? take(&c, name) : NULL;
    if (model) memcpy(s.model, model, name);
    else c.is_short = true;
    const bt_err e = is_whole(&c, fault);
    if (e < 0) return e;
    if (s.wall_s < 0 || s.wall_s > (int64_t)1 << 40)
        return bt_fail(fault, BT_EFORMAT, "a start lies %lld s after 1970", (long long)s.wall_s);
    if (block != BT_TRACE_CAPTURE_BLOCK)
        return bt_fail(fault, BT_EFORMAT, "blocks have %u tokens, not 64", block);
    s.has_text = text & 1;
    *ret = s;
    return BT_OK;
}

bt_err bt_capture_get_dropped(uint64_t *ret, const uint8_t *payload, size_t n, bt_fault *fault)
{
    cursor c = {payload, n, false};
    const uint64_t count = take64(&c);
    const bt_err e = is_whole(&c, fault);
    if (e == BT_OK) *ret = count;
    return e;
}

/* Bytes of a name that is no longer than that, as a string. */
static void take_name(char *ret, size_t most, cursor *c)
{
    const size_t n = *take(c, 1);
    const uint8_t *name = n <= most && c->left >= n ? take(c, n) : NULL;
    if (!name) c->is_short = true;
    else memcpy(ret, name, n);
    ret[name ? n : 0] = 0;
}

static bool take_floats(bt_trace_sampling *s, cursor *c)
{
    float *const into[] = {
        &s->temperature,      &s->top_p, &s->min_p, &s->repeat_penalty, &s->presence_penalty,
        &s->frequency_penalty};
    bool are_good = true;
    for (size_t i = 0; i < sizeof into / sizeof *into; i++) {
        const uint32_t bits = take32(c);
        memcpy(into[i], &bits, sizeof bits);
        are_good &= isfinite(*into[i]) != 0;
    }
    return are_good;
}

static const int32_t *take_ids(size_t *n, int32_t **ids, cursor *c)
{
    const int32_t *first = *ids;
    *n = take_count(c, 4);
    for (size_t i = 0; i < *n; i++) *(*ids)++ = (int32_t)take32(c);
    return first;
}

bt_err bt_capture_get_request(bt_trace_row *row, bt_trace_captured *captured, uint64_t *hash, int32_t *ids,
                              uint8_t version, const uint8_t *payload, size_t n, bt_fault *fault)
{
    const size_t times = version == 1 ? TIMES_OF_1 : BT_TRACE_TIMES;
    cursor c = {payload, n, false};
    bt_trace_row r = {.has_arrival = true, .has_output = true, .block_tokens = BT_TRACE_CAPTURE_BLOCK};
    bt_trace_captured k = {.has_text = false};
    if (n < FIXED_BYTES + 4) return bt_fail(fault, BT_EFORMAT, "a record ends too early");
    r.arrival_us = (int64_t)take64(&c);
    uint32_t *const counts[] = {&r.input_tokens, &r.output_tokens, &k.max_tokens,
                                &k.attempts,     &k.cached_tokens, &k.covered_tokens};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) *counts[i] = take32(&c);
    bool are_times = true;
    for (size_t i = 0; i < BT_TRACE_TIMES; i++) {
        k.time_us[i] = i < times ? (int64_t)take64(&c) : -1;
        are_times &= k.time_us[i] >= -1 && k.time_us[i] < (int64_t)1 << 50;
    }
    const bool are_floats = take_floats(&k.sampling, &c);
    k.sampling.top_k = take32(&c);
    k.sampling.bias_len = take32(&c);
    k.sampling.seed = take64(&c);
    const uint8_t *facts = take(&c, 4);
    if (r.arrival_us < 0 || r.arrival_us >= (int64_t)1 << 50 || !are_times)
        return bt_fail(fault, BT_EFORMAT, "a time is negative or beyond 2^50 us");
    if (r.input_tokens > BT_TRACE_MAX_TOKENS || r.output_tokens > BT_TRACE_MAX_TOKENS)
        return bt_fail(fault, BT_EFORMAT, "%u prompt and %u answer tokens; at most %d", r.input_tokens,
                       r.output_tokens, BT_TRACE_MAX_TOKENS);
    if (!are_floats) return bt_fail(fault, BT_EFORMAT, "a value of the sampling is no number");
    if (facts[0] >= BT_TRACE_OUTCOMES || facts[1] > 1 || facts[2] > 1 || facts[3] > 1)
        return bt_fail(fault, BT_EFORMAT, "outcome %u or a flag of the request is unknown", facts[0]);
    k.outcome = (bt_trace_outcome)facts[0];
    k.is_chat = facts[1];
    k.is_stream = facts[2];
    k.has_text = facts[3];
    r.is_failed = k.outcome > BT_TRACE_LENGTH;
    if (version >= 3) take_name(k.key, BT_TRACE_MAX_KEY, &c);
    r.hash_len = take_count(&c, 8);
    for (size_t i = 0; i < r.hash_len; i++) hash[i] = take64(&c);
    if (k.has_text) {
        k.prompt_ids = take_ids(&k.prompt_len, &ids, &c);
        k.answer_ids = take_ids(&k.answer_len, &ids, &c);
        k.text_bytes = take_count(&c, 1);
        k.text = (const char *)take(&c, k.text_bytes);
    }
    const bt_err e = is_whole(&c, fault);
    if (e < 0) return e;
    if (r.hash_len != 0 && r.hash_len != bt_capture_blocks(r.input_tokens))
        return bt_fail(fault, BT_EFORMAT, "a request has %zu hashes for %u tokens", r.hash_len,
                       r.input_tokens);
    if (k.has_text && k.prompt_len != r.input_tokens)
        return bt_fail(fault, BT_EFORMAT, "a request has %zu ids of a prompt of %u tokens", k.prompt_len,
                       r.input_tokens);
    r.hash_ids = hash;
    *captured = k;
    r.captured = captured;
    if (captured->key[0]) r.key = captured->key;
    *row = r;
    return BT_OK;
}
