/* A gateway's own records. A record half-written at the gateway's end is cut off and counted, never an error;
 * a record that was damaged in the middle is a bad row, and reading goes on with the next one. */
#include "trace/capture_format.h"
#include "trace/private.h"
#include "crypto/seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next part of a rotated capture; after the last number, the file itself. False: that was all. */
static bool open_next(bt_trace *t)
{
    char path[4096 + 16];
    if (!t->cap.path || t->cap.part == 0) return false;
    (void)snprintf(path, sizeof path, "%s.%u", t->cap.path, t->cap.part);
    FILE *f = fopen(path, "re");
    t->cap.part = f ? t->cap.part + 1 : 0;
    if (!f) f = fopen(t->cap.path, "re");
    if (!f) return false;
    (void)fclose(t->own);
    t->own = f;
    const uint64_t line = t->in.line;
    bt_trace_input_begin(&t->in, f);
    t->in.line = line;
    return true;
}

/* Passes over n bytes; lines count records here. */
static void pass(bt_trace *t, size_t n)
{
    t->in.at += n;
    t->in.offset += n;
}

/* From a place where no record is sound to the next "BTCP", or to the end. *ret: bytes passed. */
static bt_err find_next(uint64_t *ret, bool *is_found, bt_trace *t, bt_fault *fault)
{
    *ret = 1;
    *is_found = false;
    pass(t, 1);
    for (;;) {
        size_t have;
        const bt_err e = bt_trace_input_peek(&have, &t->in, 1 << 16, fault);
        if (e < 0) return e;
        const uint8_t *from = t->in.buf + t->in.at;
        const uint8_t *found = have >= BT_CAPTURE_MAGIC_BYTES
                                   ? memmem(from, have, BT_CAPTURE_MAGIC, BT_CAPTURE_MAGIC_BYTES)
                                   : NULL;
        const size_t keep = BT_CAPTURE_MAGIC_BYTES - 1;
        const size_t n = found ? (size_t)(found - from) : have > keep && !t->in.is_over ? have - keep : have;
        pass(t, n);
        *ret += n;
        *is_found = found != NULL;
        if (found || n == have) return BT_OK;
    }
}

/* The next whole record: its bytes stay until the next call. *ret NULL: the end of the last part. */
static bt_err next_record(const uint8_t **ret, size_t *ret_bytes, bt_trace *t, bt_fault *fault)
{
    for (;;) {
        size_t have, whole = 0;
        bt_fault why = {""};
        bt_err e = bt_trace_input_peek(&have, &t->in, BT_CAPTURE_HEAD_BYTES, fault);
        if (e < 0) return e;
        if (have == 0) {
            if (open_next(t)) continue;
            *ret = NULL;
            return BT_OK;
        }
        bt_err bad = bt_capture_measure(&whole, t->in.buf + t->in.at, have, &why);
        if (bad == BT_OK && whole == 0 && have >= BT_CAPTURE_HEAD_BYTES) {
            const size_t want = BT_CAPTURE_HEAD_BYTES + BT_CAPTURE_TAIL_BYTES +
                                (size_t)(t->in.buf[t->in.at + 8] | t->in.buf[t->in.at + 9] << 8 |
                                         t->in.buf[t->in.at + 10] << 16);
            if ((e = bt_trace_input_peek(&have, &t->in, want, fault)) < 0) return e;
            bad = bt_capture_measure(&whole, t->in.buf + t->in.at, have, &why);
        }
        if (bad == BT_OK && whole > 0 && bt_capture_is_sound(t->in.buf + t->in.at, whole)) {
            *ret = t->in.buf + t->in.at;
            *ret_bytes = whole;
            pass(t, whole);
            t->in.line++;
            return BT_OK;
        }
        const unsigned long long at = t->in.offset;
        uint64_t passed;
        bool is_found;
        if ((e = find_next(&passed, &is_found, t, fault)) < 0) return e;
        if (!is_found) { /* nothing behind it: it was being written */
            t->facts.torn_bytes += passed;
            continue;
        }
        t->in.line++;
        if (bad == BT_OK) (void)snprintf(why.text, sizeof why.text, "the checksum of a record is wrong");
        return bt_fail(fault, BT_EFORMAT,
                       "line %llu, column 'record': %.120s (at byte %llu, %llu bytes passed over)",
                       (unsigned long long)t->in.line, why.text, at, (unsigned long long)passed);
    }
}

/* The payload without its seal. */
static bt_err open_payload(const uint8_t **ret, size_t *ret_len, bt_trace *t, const uint8_t *record, size_t n,
                           bt_fault *fault)
{
    const uint8_t *payload = record + BT_CAPTURE_HEAD_BYTES;
    const size_t len = n - BT_CAPTURE_HEAD_BYTES - BT_CAPTURE_TAIL_BYTES;
    *ret = payload;
    *ret_len = len;
    if (!record[6]) return BT_OK;
    if (!t->o.secret_key)
        return bt_fail(fault, BT_EAUTH,
                       "the capture is sealed: name the secret key that opens it (--unseal NAME.secret)");
    if (len < BT_SEAL_BYTES)
        return bt_fail(fault, BT_EFORMAT, "line %llu, column 'record': too short for a seal",
                       (unsigned long long)t->in.line);
    uint8_t *plain = realloc(t->cap.plain, len);
    if (!plain) return bt_fail(fault, BT_ENOMEM, "out of memory for a record of %zu bytes", len);
    t->cap.plain = plain;
    *ret = plain;
    *ret_len = len - BT_SEAL_BYTES;
    return bt_seal_open(plain, payload, len, t->o.public_key, t->o.secret_key, fault);
}

static bt_err make_room(bt_trace *t, size_t n, bt_fault *fault)
{
    if (n <= t->cap.ids_cap) return BT_OK;
    uint64_t *hash = reallocarray(t->hash, n, sizeof *hash);
    if (hash) t->hash = hash;
    int32_t *ids = hash ? reallocarray(t->cap.ids, n, sizeof *ids) : NULL;
    if (!ids) return bt_fail(fault, BT_ENOMEM, "out of memory for a record of %zu numbers", n);
    t->hash_cap = t->cap.ids_cap = n;
    t->cap.ids = ids;
    return BT_OK;
}

static bt_err begin_start(bt_trace *t, const uint8_t *payload, size_t n, bt_fault *fault)
{
    bt_capture_start s;
    const bt_err e = bt_capture_get_start(&s, payload, n, fault);
    if (e < 0) return e;
    t->cap.start_us = s.wall_s * 1000000;
    if (!t->cap.has_first) t->cap.first_us = t->cap.start_us;
    t->cap.has_first = true;
    t->facts.starts++;
    return BT_OK;
}

static bt_err take_request(bt_trace_row *ret, bt_trace *t, uint8_t version, const uint8_t *payload, size_t n,
                           bt_fault *fault)
{
    bt_err e = make_room(t, bt_capture_room(n), fault);
    if (e < 0) return e;
    if (!t->cap.has_first) return bt_fail(fault, BT_EFORMAT, "a request comes before any start");
    if ((e = bt_capture_get_request(ret, &t->cap.captured, t->hash, t->cap.ids, version, payload, n, fault)) <
        0)
        return e;
    ret->line = t->in.line;
    ret->arrival_us += t->cap.start_us - t->cap.first_us;
    return BT_OK;
}

bt_err bt_trace_capture_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    for (;;) {
        const uint8_t *record, *payload;
        size_t n, len;
        uint64_t dropped = 0;
        bt_fault why = {""};
        bt_err e = next_record(&record, &n, t, fault);
        if (e < 0) return e;
        *is_end = !record;
        if (!record) return BT_OK;
        if ((e = open_payload(&payload, &len, t, record, n, fault)) < 0) return e;
        if (record[5] == BT_CAPTURE_START) e = begin_start(t, payload, len, &why);
        else if (record[5] == BT_CAPTURE_DROPPED) e = bt_capture_get_dropped(&dropped, payload, len, &why);
        else e = take_request(ret, t, record[4], payload, len, &why);
        if (e < 0)
            return e == BT_EFORMAT ? bt_fail(fault, e, "line %llu, column 'record': %.180s",
                                             (unsigned long long)t->in.line, why.text)
                                   : bt_fail(fault, e, "%s", why.text);
        t->facts.dropped += dropped;
        if (record[5] == BT_CAPTURE_REQUEST) return BT_OK;
    }
}
