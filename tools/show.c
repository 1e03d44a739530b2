/* See show.h. */
#include "tools/show.h"
#include "text/utf8.h"

void tool_show(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0, took; i < len; i += took) {
        const unsigned char *p = (const unsigned char *)text + i;
        const int n = bt_utf8_next(text + i, len - i);
        took = n > 0 ? (size_t)n : n < 0 ? (size_t)-n : len - i;
        if (n <= 0) fputs("\xEF\xBF\xBD", out);
        else if (n == 1 && (p[0] < ' ' || p[0] == 0x7F) && p[0] != '\n' && p[0] != '\t')
            fprintf(out, "\\x%02x", p[0]);
        else if (n == 2 && p[0] == 0xC2 && p[1] < 0xA0) fprintf(out, "\\u%04x", p[1]);
        else fwrite(p, 1, took, out);
    }
}
