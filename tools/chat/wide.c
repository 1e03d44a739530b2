/* See wide.h. The file text/utf8.h alone decides what a character is. */
#include "tools/chat/wide.h"
#include "text/utf8.h"

#include <stdlib.h>

size_t tool_wide_take(wchar_t *ret, const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const int n = bt_utf8_next(bytes, len);
    if (n == 0) return 0;
    if (n < 0) { /* byte by byte, so that each can be seen */
        *ret = TOOL_WIDE_BAD + p[0];
        return 1;
    }
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    wchar_t c = p[0] & first_bits[n];
    for (int i = 1; i < n; i++) c = (c << 6) | (p[i] & 0x3F);
    *ret = c;
    return (size_t)n;
}

bt_err tool_wide_put(bt_buf *ret, wchar_t c)
{
    char b[4];
    const uint32_t code = (uint32_t)c; /* wchar_t has a sign on x86 and none on AArch64 */
    size_t n = 0;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return BT_EFORMAT;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else {
        if (c < 0x800) b[n++] = (char)(0xC0 | (c >> 6));
        if (c >= 0x800 && c < 0x10000) b[n++] = (char)(0xE0 | (c >> 12));
        if (c >= 0x10000) {
            b[n++] = (char)(0xF0 | (c >> 18));
            b[n++] = (char)(0x80 | ((c >> 12) & 0x3F));
        }
        if (c >= 0x800) b[n++] = (char)(0x80 | ((c >> 6) & 0x3F));
        b[n++] = (char)(0x80 | (c & 0x3F));
    }
    return bt_buf_add(ret, b, n);
}

bt_err tool_wide_put_all(bt_buf *ret, const wchar_t *text, size_t n)
{
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < n; i++) e = tool_wide_put(ret, text[i]);
    return e;
}

size_t tool_wide_bytes(const wchar_t *text, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const wchar_t c = text[i];
        const bool is_bad = c >= TOOL_WIDE_BAD && c <= TOOL_WIDE_BAD + 0xFF;
        bytes += c < 0x80 || is_bad ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    }
    return bytes;
}

wchar_t *tool_wide_dup(const char *text, size_t len)
{
    wchar_t *ret = malloc((len + 1) * sizeof *ret);
    size_t n = 0;
    for (size_t i = 0, took; ret && i < len && (took = tool_wide_take(&ret[n], text + i, len - i)); i += took)
        n++;
    if (ret) ret[n] = 0;
    return ret;
}
