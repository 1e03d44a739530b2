#ifndef BT_BASE_BUF_H
#define BT_BASE_BUF_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* A growable byte buffer with a hard limit.
 *
 * The bytes are data[0 .. len) and, once anything was added, data[len] is 0, so text can be passed on as a C string
 * (bt_buf_text, never NULL). An addition that fails adds nothing, and its error stays in `err`: later additions do
 * nothing and return it, so a series of additions needs one test at the end. bt_buf_clear forgets bytes and error. */
typedef struct bt_buf {
    uint8_t *data;
    size_t len;
    size_t cap;         /* allocated, private */
    size_t limit_bytes; /* len never exceeds it */
    bt_err err;
} bt_buf;

void bt_buf_init(bt_buf *b, size_t limit_bytes);
void bt_buf_done(bt_buf *b);  /* frees; the buffer can be used again, with the same limit */
void bt_buf_clear(bt_buf *b); /* keeps the memory */

/* BT_ELIMIT past the limit, BT_ENOMEM. Each addition makes older pointers into data void. */
bt_err bt_buf_reserve(bt_buf *b, size_t extra); /* room for `extra` more bytes at data + len */
bt_err bt_buf_add(bt_buf *b, const void *bytes, size_t n);
bt_err bt_buf_byte(bt_buf *b, uint8_t byte);
bt_err bt_buf_str(bt_buf *b, const char *text);
bt_err bt_buf_fmt(bt_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bt_err bt_buf_vfmt(bt_buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

void bt_buf_drop_front(bt_buf *b, size_t n); /* n <= len */
static inline const char *bt_buf_text(const bt_buf *b) { return b->data ? (const char *)b->data : ""; }
#endif
