/* Growth by doubling up to the limit; the memory always has one byte more, for the final 0. */
#include "base/buf.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bt_buf_init(bt_buf *b, size_t limit_bytes) { *b = (bt_buf){.limit_bytes = limit_bytes}; }

void bt_buf_done(bt_buf *b)
{
    free(b->data);
    bt_buf_init(b, b->limit_bytes);
}

void bt_buf_clear(bt_buf *b)
{
    b->len = 0;
    b->err = BT_OK;
    if (b->data) b->data[0] = 0;
}

bt_err bt_buf_reserve(bt_buf *b, size_t extra)
{
    if (b->err < 0) return b->err;
    size_t need;
    if (extra > b->limit_bytes - b->len || !bt_add_size(&need, b->len + extra, 1)) return b->err = BT_ELIMIT;
    if (need <= b->cap) return BT_OK;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need)
        if (!bt_mul_size(&cap, cap, 2)) cap = need;
    if (cap - 1 > b->limit_bytes) cap = b->limit_bytes + 1;
    uint8_t *data = realloc(b->data, cap);
    if (!data) return b->err = BT_ENOMEM;
    if (!b->data) data[0] = 0;
    b->data = data;
    b->cap = cap;
    return BT_OK;
}

bt_err bt_buf_add(bt_buf *b, const void *bytes, size_t n)
{
    bt_err e = bt_buf_reserve(b, n);
    if (e < 0) return e;
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
    return BT_OK;
}

bt_err bt_buf_byte(bt_buf *b, uint8_t byte) { return bt_buf_add(b, &byte, 1); }
bt_err bt_buf_str(bt_buf *b, const char *text) { return bt_buf_add(b, text, strlen(text)); }

bt_err bt_buf_vfmt(bt_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    bt_err e = n < 0 ? (b->err = BT_EARG) : bt_buf_reserve(b, (size_t)n);
    if (e == BT_OK) {
        vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return e;
}

bt_err bt_buf_fmt(bt_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bt_err e = bt_buf_vfmt(b, fmt, ap);
    va_end(ap);
    return e;
}

void bt_buf_drop_front(bt_buf *b, size_t n)
{
    if (n == 0) return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}
