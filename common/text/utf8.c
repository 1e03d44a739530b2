/* What is a UTF-8 character and what is not. */
#include "text/utf8.h"

int bt_utf8_next(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    const unsigned char b = p[0];
    if (b < 0x80) return 1;
    if (b < 0xC2 || b > 0xF4) return -1;
    const int need = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
    if (len < 2) return 0;
    /* The second byte rules out overlong forms, surrogates and what lies past U+10FFFF. */
    const unsigned char lo = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    const unsigned char hi = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < lo || p[1] > hi) return -1;
    for (int i = 2; i < need; i++) {
        if ((size_t)i == len) return 0;
        if ((p[i] & 0xC0) != 0x80) return -i;
    }
    return need;
}

bool bt_utf8_valid(const char *text, size_t len, size_t *ret_bad_offset)
{
    for (size_t i = 0; i < len;) {
        const int n = bt_utf8_next(text + i, len - i);
        if (n <= 0) {
            if (ret_bad_offset) *ret_bad_offset = i;
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

size_t bt_utf8_count(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

char *bt_utf8_show(char *ret, size_t cap, const char *text, size_t len)
{
    const size_t n = len < cap - 1 ? len : cap - 1;
    for (size_t i = 0; i < n; i++) ret[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    ret[n] = '\0';
    return ret;
}
