/* See http_head.h. */
#include "tests/helpers/cluster/http_head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: no whole line is left. */
static char *next_line(char **at, char *end)
{
    char *line = *at, *lf = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    if (!lf) return NULL;
    *lf = 0;
    if (lf > line && lf[-1] == '\r') lf[-1] = 0;
    *at = lf + 1;
    return line;
}

static bool parse_first(http_head *h, char *line, size_t len)
{
    char *first = memchr(line, ' ', len), *last = memrchr(line, ' ', len);
    if (!first || first == line) return false;
    char *target = first + 1 + strspn(first + 1, " ");
    if (last <= target || line + len - last - 1 != 8 || memcmp(last + 1, "HTTP/1.", 7) != 0) return false;
    if (last[8] < '0' || last[8] > '9') return false;
    *first = *last = 0;
    h->head.method = line;
    h->head.target = target;
    h->head.version = last + 1;
    return true;
}

static bool parse_field(http_head *h, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon) return false;
    *colon = 0;
    if (h->head.fields_len == GW_FRAMING_MAX_FIELDS) {
        h->head.has_more_fields = true;
        return true;
    }
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    h->fields[h->head.fields_len++] = (gw_framing_field){
        .name = line, .value = value, .name_len = strlen(line), .value_len = strlen(value)};
    return true;
}

static bool join(http_head *h, const char *line)
{
    gw_framing_field *f = &h->fields[h->head.fields_len - 1];
    char *name;
    if (h->joined_len == HTTP_HEAD_MAX_JOINED ||
        asprintf(&name, "%s%s", f->name, line + strspn(line, " \t")) < 0)
        return false;
    h->joined[h->joined_len++] = name;
    f->name = name;
    f->name_len = strlen(name);
    return true;
}

bool http_head_parse(http_head *ret, const char *wire, size_t len)
{
    http_head *h = ret;
    *h = (http_head){.head.fields = ret->fields};
    h->bytes = malloc(len ? len : 1);
    if (!h->bytes) abort();
    if (len) memcpy(h->bytes, wire, len);
    char *at = h->bytes, *end = h->bytes + len, *line;
    while ((line = next_line(&at, end)) && !*line) {} /* empty lines before the first */
    if (!line) return false;
    const bool has_cr = at - line >= 2 && wire[at - 2 - h->bytes] == '\r';
    if (!parse_first(h, line, (size_t)(at - 1 - line) - has_cr)) return false;
    for (;;) {
        if (!(line = next_line(&at, end))) return false;
        if (!*line) break;
        const bool is_more = (*line == ' ' || *line == '\t') && h->head.fields_len > 0;
        if (!(is_more ? join(h, line) : parse_field(h, line))) return false;
    }
    h->head.len = (size_t)(at - h->head.method);
    return true;
}

void http_head_free(http_head *h)
{
    for (size_t i = 0; i < h->joined_len; i++) free(h->joined[i]);
    free(h->bytes);
}
