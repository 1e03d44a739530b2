/* The checks and conversions that several kinds of messages share. The first complaint wins; later ones say
 * nothing. */
#include "wire/msg_body.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool bt_msg_body_fail(bt_msg_checker *c, const char *fmt, ...)
{
    if (c->err < 0) return false;
    char words[192];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    c->err = bt_fail(c->fault, c->code, "%s: %s", c->name, words);
    return false;
}

bool bt_msg_body_range(bt_msg_checker *c, const char *field, uint64_t value, uint64_t lo, uint64_t hi)
{
    if (value < lo || value > hi)
        return bt_msg_body_fail(c, "%s is %llu, must be %llu..%llu", field, (unsigned long long)value,
                                (unsigned long long)lo, (unsigned long long)hi);
    return c->err == BT_OK;
}

bool bt_msg_body_ids(bt_msg_checker *c, const char *field, const int32_t *ids, size_t n)
{
    if (n > 0 && !ids)
        return bt_msg_body_fail(c, "%s are not there: a prompt of hashes does not travel", field);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0) return bt_msg_body_fail(c, "%s[%zu] is %d, must not be negative", field, i, ids[i]);
    return c->err == BT_OK;
}

bool bt_msg_body_code(bt_msg_checker *c, int32_t code)
{
    if (code < -127 || code > -1) return bt_msg_body_fail(c, "code is %d, must be -127..-1", code);
    return c->err == BT_OK;
}

bool bt_msg_body_not_zero(bt_msg_checker *c, const char *field, const uint8_t bytes[static 16])
{
    static const uint8_t zero[16];
    if (memcmp(bytes, zero, 16) == 0) return bt_msg_body_fail(c, "%s is all zero", field);
    return c->err == BT_OK;
}

bool bt_msg_body_text(bt_msg_checker *c, const char *field, const char *text, size_t cap)
{
    if (!memchr(text, 0, cap)) return bt_msg_body_fail(c, "%s is longer than %zu bytes", field, cap - 1);
    return c->err == BT_OK;
}

bool bt_msg_body_name(bt_msg_checker *c, const char *field, const char *text, size_t cap)
{
    if (!bt_msg_body_text(c, field, text, cap)) return false;
    if (!text[0]) return bt_msg_body_fail(c, "%s is empty", field);
    for (const char *p = text; *p; p++)
        if (*p < 0x21 || *p > 0x7e)
            return bt_msg_body_fail(c, "%s holds byte 0x%02x, must be 0x21..0x7e", field,
                                    (unsigned)(uint8_t)*p);
    return c->err == BT_OK;
}

bool bt_msg_body_present(bt_msg_checker *c, const char *field, const void *part)
{
    if (!part) return bt_msg_body_fail(c, "%s is missing", field);
    return c->err == BT_OK;
}

bool bt_msg_body_get16(bt_msg_checker *c, const char *field, uint8_t ret[static 16], ProtobufCBinaryData b)
{
    if (b.len != 16) return bt_msg_body_fail(c, "%s is %zu bytes, must be 16", field, b.len);
    memcpy(ret, b.data, 16);
    return c->err == BT_OK;
}

bool bt_msg_body_get_key(bt_msg_checker *c, const char *field, bt_peer_key *ret, ProtobufCBinaryData b)
{
    if (b.len == 0) return c->err == BT_OK;
    if (b.len != sizeof ret->bytes)
        return bt_msg_body_fail(c, "%s is %zu bytes, must be %zu or none", field, b.len, sizeof ret->bytes);
    memcpy(ret->bytes, b.data, sizeof ret->bytes);
    return c->err == BT_OK;
}

bool bt_msg_body_get_salt(bt_msg_checker *c, bt_prompt_salt *ret, ProtobufCBinaryData b)
{
    return b.len == 0 ? c->err == BT_OK : bt_msg_body_get16(c, "salt", ret->bytes, b);
}

bool bt_msg_body_get_text(bt_msg_checker *c, const char *field, char *ret, size_t cap, ProtobufCBinaryData b)
{
    if (b.len >= cap) return bt_msg_body_fail(c, "%s is %zu bytes, at most %zu", field, b.len, cap - 1);
    if (b.len == 0) return c->err == BT_OK;
    if (memchr(b.data, 0, b.len)) return bt_msg_body_fail(c, "%s holds a zero byte", field);
    memcpy(ret, b.data, b.len);
    return c->err == BT_OK;
}

bool bt_msg_body_get_ref(bt_msg_checker *c, bt_request_ref *ret, const Bt__RequestRef *ref)
{
    if (!bt_msg_body_present(c, "ref", ref) ||
        !bt_msg_body_get16(c, "ref.owner", ret->owner.bytes, ref->owner))
        return false;
    ret->number = ref->number;
    ret->attempt = ref->attempt;
    return true;
}

ProtobufCMessage *bt_msg_body_fill_only(bt_msg_scratch *s, const bt_msg *m)
{
    (void)m;
    s->u.request_only = (Bt__RequestOnly)BT__REQUEST_ONLY__INIT;
    s->u.request_only.ref = &s->ref;
    return &s->u.request_only.base;
}

void bt_msg_body_read_only(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    bt_msg_body_get_ref(c, &m->ref, ((const Bt__RequestOnly *)body)->ref);
}

ProtobufCMessage *bt_msg_body_fill_failed(bt_msg_scratch *s, const bt_msg *m)
{
    s->u.failed = (Bt__Failed)BT__FAILED__INIT;
    s->u.failed.ref = &s->ref;
    s->u.failed.code = m->u.failed.code;
    s->u.failed.text = bt_msg_body_put_text(m->u.failed.text);
    return &s->u.failed.base;
}

void bt_msg_body_read_failed(bt_msg_checker *c, bt_msg *m, const ProtobufCMessage *body)
{
    const Bt__Failed *b = (const Bt__Failed *)body;
    bt_msg_body_get_ref(c, &m->ref, b->ref);
    m->u.failed.code = b->code;
    bt_msg_body_get_text(c, "text", m->u.failed.text, sizeof m->u.failed.text, b->text);
}

void bt_msg_body_check_failed(bt_msg_checker *c, const bt_msg *m)
{
    bt_msg_body_code(c, m->u.failed.code);
    bt_msg_body_text(c, "text", m->u.failed.text, sizeof m->u.failed.text);
}
