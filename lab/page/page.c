/* The one place where JSON is written into pages. */
#include "lab/page/page.h"

#include <string.h>

static int put(const char *bytes, size_t n, void *ud)
{
    FILE *f = ud;
    const char *end = bytes + n, *to;
    for (; (to = memchr(bytes, '<', (size_t)(end - bytes))); bytes = to + 1) {
        fwrite(bytes, 1, (size_t)(to - bytes), f);
        fputs("\\u003c", f);
    }
    fwrite(bytes, 1, (size_t)(end - bytes), f);
    return ferror(f) ? -1 : 0;
}

bool tool_page_json(FILE *f, const json_t *value, size_t flags)
{
    return value && json_dump_callback(value, put, f, flags) == 0;
}

bool tool_page_text(FILE *f, const char *text)
{
    json_t *s = json_string(text);
    if (!s) s = json_string("(not UTF-8)");
    const bool ok = tool_page_json(f, s, JSON_ENCODE_ANY);
    json_decref(s);
    return ok;
}
