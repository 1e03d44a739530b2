/* See zmtp.h. A header is judged before a byte of its body is kept. */
#include "tests/fault/zmtp.h"

#include <string.h>

enum { MORE = 1, LONG = 2, COMMAND = 4, RESERVED = 0xf8, MECHANISM_AT = 12, MECHANISM_BYTES = 20 };

void zmtp_init(zmtp *z)
{
    memset(z, 0, sizeof *z);
    bt_buf_init(&z->message, ZMTP_UNIT_BYTES_MAX);
    bt_buf_init(&z->command, ZMTP_COMMAND_BYTES_MAX);
}

void zmtp_done(zmtp *z)
{
    bt_buf_done(&z->message);
    bt_buf_done(&z->command);
}

static size_t head_bytes(uint8_t flags) { return flags & LONG ? 9 : 2; }

static uint64_t body_bytes(const uint8_t *head)
{
    if (!(head[0] & LONG)) return head[1];
    uint64_t n = 0;
    for (size_t i = 1; i < 9; i++) n = n << 8 | head[i];
    return n;
}

static bool is_greeting(const uint8_t *g, size_t len)
{
    static const char mechanism[MECHANISM_BYTES] = "NULL";
    const size_t whole = MECHANISM_AT + MECHANISM_BYTES;
    return (len < 1 || g[0] == 0xff) && (len < 10 || g[9] == 0x7f) && (len < 11 || g[10] >= 3) &&
           (len < whole || memcmp(g + MECHANISM_AT, mechanism, sizeof mechanism) == 0);
}

static bt_err take_greeting(zmtp_unit *ret, zmtp *z, const uint8_t **at, size_t *left)
{
    const size_t missing = ZMTP_GREETING_BYTES - z->greeted, n = *left < missing ? *left : missing;
    memcpy(z->greeting + z->greeted, *at, n);
    if (!is_greeting(z->greeting, z->greeted + n)) return BT_EFORMAT;
    *ret = (zmtp_unit){ZMTP_GREETING, z->greeting + z->greeted, n};
    z->greeted += n;
    *at += n;
    *left -= n;
    return BT_OK;
}

/* A byte at a time until the header is whole; then it is the first part of its unit. */
static bt_err take_head(zmtp *z, const uint8_t **at, size_t *left)
{
    while (*left && (z->head_len < 1 || z->head_len < head_bytes(z->head[0]))) {
        z->head[z->head_len++] = *(*at)++;
        --*left;
    }
    const uint8_t flags = z->head[0];
    if (z->head_len && (flags & RESERVED || (flags & COMMAND && flags & MORE))) return BT_EFORMAT;
    if (z->head_len < 1 || z->head_len < head_bytes(flags)) return BT_OK;
    bt_buf *unit = flags & COMMAND ? &z->command : &z->message;
    const uint64_t body = body_bytes(z->head);
    const size_t room = unit->limit_bytes - unit->len;
    if (room < z->head_len || body > room - z->head_len) return BT_ELIMIT;
    const bt_err e = bt_buf_add(unit, z->head, z->head_len);
    z->body_left = (size_t)body;
    z->in_body = true;
    return e;
}

bt_err zmtp_next(zmtp_unit *ret, zmtp *z, const uint8_t **at, size_t *left)
{
    bt_err e = BT_OK;
    if (z->was_given) { /* the header of the frame given last tells which unit it was */
        bt_buf_clear(z->head[0] & COMMAND ? &z->command : &z->message);
        z->was_given = false;
    }
    *ret = (zmtp_unit){ZMTP_NONE, NULL, 0};
    if (*left && z->greeted < ZMTP_GREETING_BYTES) return take_greeting(ret, z, at, left);
    while (*left) {
        if (!z->in_body) {
            if ((e = take_head(z, at, left)) < 0) return e;
            if (!z->in_body) return BT_OK;
        }
        const bool is_command = z->head[0] & COMMAND;
        bt_buf *unit = is_command ? &z->command : &z->message;
        const size_t n = *left < z->body_left ? *left : z->body_left;
        if ((e = bt_buf_add(unit, *at, n)) < 0) return e;
        *at += n;
        *left -= n;
        z->body_left -= n;
        if (z->body_left) return BT_OK;
        z->in_body = false;
        z->head_len = 0;
        if (z->head[0] & MORE) continue;
        z->was_given = true;
        *ret = (zmtp_unit){is_command ? ZMTP_COMMAND : ZMTP_MESSAGE, unit->data, unit->len};
        return BT_OK;
    }
    return BT_OK;
}

size_t zmtp_payload_bytes(const uint8_t *message, size_t len)
{
    size_t sum = 0;
    for (size_t at = 0; at < len;) {
        const size_t body = (size_t)body_bytes(message + at);
        at += head_bytes(message[at]) + body;
        sum += body;
    }
    return sum;
}

size_t zmtp_payload_at(const uint8_t *message, size_t len, size_t n)
{
    for (size_t at = 0; at < len;) {
        const size_t head = head_bytes(message[at]), body = (size_t)body_bytes(message + at);
        if (n < body) return at + head + n;
        n -= body;
        at += head + body;
    }
    return len;
}
