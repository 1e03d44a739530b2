/* Refuses heads that libmicrohttpd lets through but two programs could read in two ways. libmicrohttpd folds
 * a continued header into the NAME of the header before it, ends lines with a bare LF, stops at a NUL, and
 * takes any first header of several. The places of the parts show all of that: in a plain head each part
 * begins where the one before it ended. */
#include "gateway/http/framing.h"

#include <string.h>
#include <strings.h>

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_token_char(text[i])) return false;
    return len > 0;
}

static bool is_value(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f) return false;
    return true;
}

static bool is_named(const gw_framing_field *f, const char *name)
{
    return strlen(name) == f->name_len && strncasecmp(f->name, name, f->name_len) == 0;
}

static bool is_valued(const gw_framing_field *f, const char *value)
{
    return strlen(value) == f->value_len && strncasecmp(f->value, value, f->value_len) == 0;
}

/* The last field of this name, and their number. */
static const gw_framing_field *find(const gw_framing_head *h, const char *name, size_t *ret_count)
{
    const gw_framing_field *found = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < h->fields_len; i++)
        if (is_named(&h->fields[i], name)) {
            found = &h->fields[i];
            ++*ret_count;
        }
    return found;
}

/* Steps over CR LF, both made 0. NULL: something else is there. */
static const char *after_line(const char *at, const char *end)
{
    return at && end - at >= 2 && !at[0] && !at[1] ? at + 2 : NULL;
}

/* Steps over name, colon, blanks and value. NULL: the field has another layout. */
static const char *after_field(const char *at, const char *end, const gw_framing_field *f)
{
    if (!at || f->name != at || f->name_len >= (size_t)(end - at)) return NULL;
    at += f->name_len;
    if (*at++) return NULL;
    while (at < end && at != f->value && (*at == ' ' || *at == '\t')) at++;
    return at == f->value && f->value_len <= (size_t)(end - at) ? at + f->value_len : NULL;
}

static gw_http_refusal check_layout(const gw_framing_head *h)
{
    const char *end = h->method + h->len;
    if (!is_token(h->method, strlen(h->method)) || h->target != h->method + strlen(h->method) + 1 ||
        h->target >= h->version || h->version + 8 >= end)
        return GW_HTTP_BAD_LINE;
    /* Where the target was unescaped, and its parameters were taken apart, there are zeros in it. */
    for (const char *c = h->target; c < h->version; c++)
        if (*c && !is_value(c, 1)) return GW_HTTP_BAD_LINE;
    const char *at = after_line(h->version + 8, end);
    if (!at) return GW_HTTP_BAD_LINE;
    for (size_t i = 0; i < h->fields_len; i++) at = after_line(after_field(at, end, &h->fields[i]), end);
    return after_line(at, end) == end ? GW_HTTP_FINE : GW_HTTP_BAD_LAYOUT;
}

/* Programs that make variables of headers take `_` for `-`. */
static bool is_lookalike(const gw_framing_field *f)
{
    static const char *const names[] = {"Transfer-Encoding", "Content-Length"};
    for (size_t i = 0; i < 2; i++) {
        size_t at = 0;
        const char *n = names[i];
        if (f->name_len != strlen(n) || is_named(f, n)) continue;
        while (at < f->name_len &&
               (f->name[at] == '_' ? n[at] == '-' : strncasecmp(f->name + at, n + at, 1) == 0))
            at++;
        if (at == f->name_len) return true;
    }
    return false;
}

static gw_http_refusal check_fields(const gw_framing_head *h)
{
    for (size_t i = 0; i < h->fields_len; i++)
        if (!is_token(h->fields[i].name, h->fields[i].name_len) || is_lookalike(&h->fields[i]) ||
            !is_value(h->fields[i].value, h->fields[i].value_len))
            return GW_HTTP_BAD_FIELD;
    return GW_HTTP_FINE;
}

static gw_http_refusal check_host(const gw_framing_head *h, bool is_1_1)
{
    size_t count;
    const gw_framing_field *host = find(h, "Host", &count);
    if (count > 1 || (is_1_1 && count == 0)) return GW_HTTP_BAD_HOST;
    for (size_t i = 0; host && i < host->value_len; i++)
        if (strchr(" \t,/?#@\\", host->value[i])) return GW_HTTP_BAD_HOST;
    return GW_HTTP_FINE;
}

static gw_http_refusal check_length(gw_framing *ret, const gw_framing_head *h, bool is_1_1)
{
    enum { MAX_DIGITS = 18 };
    size_t lengths, codings;
    const gw_framing_field *length = find(h, "Content-Length", &lengths),
                           *coding = find(h, "Transfer-Encoding", &codings);
    if (length && coding) return GW_HTTP_TWO_FRAMINGS;
    if (coding) {
        if (codings > 1 || !is_1_1 || !is_valued(coding, "chunked")) return GW_HTTP_BAD_CODING;
        ret->is_chunked = true;
    }
    if (!length) return GW_HTTP_FINE;
    if (lengths > 1 || length->value_len < 1 || length->value_len > MAX_DIGITS) return GW_HTTP_BAD_LENGTH;
    uint64_t n = 0;
    for (size_t i = 0; i < length->value_len; i++) {
        const char c = length->value[i];
        if (c < '0' || c > '9') return GW_HTTP_BAD_LENGTH;
        n = n * 10 + (uint64_t)(c - '0');
    }
    ret->body_bytes = n;
    return GW_HTTP_FINE;
}

gw_http_refusal gw_framing_check(gw_framing *ret, const gw_framing_head *h)
{
    gw_framing f = {0};
    size_t count;
    gw_http_refusal r;
    *ret = f;
    const bool is_1_1 = strcmp(h->version, "HTTP/1.1") == 0;
    if (!is_1_1 && strcmp(h->version, "HTTP/1.0") != 0) return GW_HTTP_BAD_VERSION;
    if (h->version - h->method > GW_FRAMING_MAX_LINE_BYTES) return GW_HTTP_LINE_TOO_LONG;
    if (h->len > GW_FRAMING_MAX_HEAD_BYTES || h->has_more_fields) return GW_HTTP_HEAD_TOO_LONG;
    if ((r = check_fields(h)) != GW_HTTP_FINE) return r;
    if ((r = check_layout(h)) != GW_HTTP_FINE) return r;
    if ((r = check_host(h, is_1_1)) != GW_HTTP_FINE) return r;
    if ((r = check_length(&f, h, is_1_1)) != GW_HTTP_FINE) return r;
    const gw_framing_field *encoding = find(h, "Content-Encoding", &count);
    f.is_encoded = encoding && (count > 1 || !is_valued(encoding, "identity"));
    const gw_framing_field *expect = find(h, "Expect", &count);
    f.has_expect = expect && is_1_1 && is_valued(expect, "100-continue");
    *ret = f;
    return GW_HTTP_FINE;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t gw_framing_unescape(char *target)
{
    char *to = target;
    for (const char *from = target; *from; from++) {
        const int high = *from == '%' ? hex_digit(from[1]) : -1, low = high >= 0 ? hex_digit(from[2]) : -1;
        const bool is_byte = low >= 0 && high * 16 + low > 0;
        *to++ = is_byte ? (char)(high * 16 + low) : *from;
        if (is_byte) from += 2;
    }
    *to = 0;
    return (size_t)(to - target);
}

const char *gw_framing_path(char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        const size_t n = strlen(schemes[i]);
        if (strncasecmp(target, schemes[i], n) != 0) continue;
        target = strchr(target + n, '/');
        if (!target) return "/";
        break;
    }
    size_t len = strlen(target);
    while (len > 1 && target[len - 1] == '/') target[--len] = 0;
    return target;
}
