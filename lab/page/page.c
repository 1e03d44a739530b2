/* The one place where JSON is written into pages, and what all pages show alike. */
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

const char *tool_page_until(FILE *f, const char *page, const char *mark)
{
    const char *at = strstr(page, mark);
    fwrite(page, 1, (size_t)(at - page), f);
    return at + strlen(mark);
}

static void put_html(FILE *f, const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p == '&') fputs("&amp;", f);
        else if (*p == '<') fputs("&lt;", f);
        else fputc(*p, f);
}

static void put_option(FILE *f, const char *name, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++) put_option(f, name, json_array_get(value, i));
    if (!json_is_string(value)) return;
    fprintf(f, "--%s=", name);
    put_html(f, json_string_value(value));
    fputc(' ', f);
}

void tool_page_made_by(FILE *f, const json_t *made_by)
{
    static const char *const keys[] = {"command", "version", "commit", "date", "host", "cpu", "isa"};
    const json_t *profiles = json_object_get(made_by, "profiles");
    json_t *options = json_object_get(made_by, "options"), *value;
    const char *name;
    size_t k;
    if (!made_by) return;
    fputs("<section class=\"wide\"><h2>How this page was made</h2><table class=\"facts\">\n", f);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = json_string_value(json_object_get(made_by, keys[i]));
        if (!text) continue;
        fprintf(f, "<tr><td>%s</td><td>", keys[i]);
        put_html(f, text);
        fputs("</td></tr>\n", f);
    }
    if (profiles) fputs("<tr><td>profiles</td><td>", f);
    json_array_foreach(profiles, k, value) {
        if (k) fputs(", ", f);
        put_html(f, json_string_value(json_object_get(value, "name")));
    }
    if (profiles) fputs("</td></tr>\n", f);
    fputs("<tr><td>options</td><td>", f);
    json_object_foreach(options, name, value) put_option(f, name, value);
    fputs("</td></tr>\n</table></section>\n", f);
}
