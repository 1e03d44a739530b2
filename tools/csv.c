/* See csv.h. */
#include "tools/csv.h"

#include <stdbool.h>
#include <string.h>

/* A spreadsheet takes such a text for a formula: the list of OWASP's page "CSV Injection", with the bytes of
 * the wide forms U+FF0B (+), U+FF0D (-), U+FF1D (=) and U+FF20 (@). */
static bool is_formula(const char *text)
{
    static const char *const wide[] = {"\xEF\xBC\x8B", "\xEF\xBC\x8D", "\xEF\xBC\x9D", "\xEF\xBC\xA0"};
    if (*text && strchr("=+-@\t\r\n", *text)) return true;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strncmp(text, wide[i], strlen(wide[i])) == 0) return true;
    return false;
}

static bool is_plain(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:+ ";
    const size_t n = strlen(text);
    return strspn(text, plain) == n && (n == 0 || (text[0] != ' ' && text[n - 1] != ' '));
}

void tool_csv_text(FILE *out, const char *text)
{
    /* Some readers drop blanks around a field before they look at it. */
    const bool runs = is_formula(text + strspn(text, " "));
    if (!runs && is_plain(text)) {
        fputs(text, out);
        return;
    }
    fputs(runs ? "\"'" : "\"", out);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"') fputc('"', out);
        fputc((c < ' ' && !strchr("\t\r\n", c)) || c == 0x7F ? '?' : c, out);
    }
    fputc('"', out);
}
