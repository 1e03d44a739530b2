/* A recursive descent that writes while it reads; false once anything is wrong. Values in one another are at
 * most source.depth deep. */
#include "text/calls/python.h"

#include <string.h>

typedef struct source {
    const char *at, *end;
    unsigned depth; /* that may still be gone down */
    bt_buf *out;
} source;

static bool value(source *s);

static void skip(source *s)
{
    while (s->at < s->end && (*s->at == ' ' || (*s->at >= '\t' && *s->at <= '\r'))) s->at++;
}

static bool take(source *s, char c)
{
    skip(s);
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

static bool put(source *s, const char *text) { return bt_buf_str(s->out, text) == BT_OK; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The length of the name that comes next, and where it begins; a tool's may have dots and dashes. 0: none. */
static size_t take_name(const char **ret, source *s, bool is_tool)
{
    skip(s);
    *ret = s->at;
    if (s->at == s->end || !is_letter(*s->at)) return 0;
    while (s->at < s->end &&
           (is_letter(*s->at) || is_digit(*s->at) || (is_tool && (*s->at == '.' || *s->at == '-'))))
        s->at++;
    return (size_t)(s->at - *ret);
}

static bool put_name(source *s, bool is_tool)
{
    const char *name;
    const size_t n = take_name(&name, s, is_tool);
    return n > 0 && put(s, "\"") && bt_buf_add(s->out, name, n) == BT_OK && put(s, "\"");
}

/* ---- strings ---- */

static bool put_char(source *s, char c)
{
    if (c == '"' || c == '\\') return bt_buf_fmt(s->out, "\\%c", c) == BT_OK;
    if ((unsigned char)c < ' ') return bt_buf_fmt(s->out, "\\u%04x", (unsigned)c) == BT_OK;
    return bt_buf_byte(s->out, (uint8_t)c) == BT_OK;
}

/* The character of n hexadecimal digits, as JSON writes it. */
static bool put_code(source *s, size_t n)
{
    unsigned long c = 0;
    if ((size_t)(s->end - s->at) < n) return false;
    for (size_t i = 0; i < n; i++) {
        const char x = *s->at++;
        const int d = is_digit(x)            ? x - '0'
                      : x >= 'a' && x <= 'f' ? x - 'a' + 10
                      : x >= 'A' && x <= 'F' ? x - 'A' + 10
                                             : -1;
        if (d < 0) return false;
        c = c * 16 + (unsigned long)d;
    }
    if (c > 0x10ffff) return false;
    if (c < 0x10000) return bt_buf_fmt(s->out, "\\u%04lx", c) == BT_OK;
    c -= 0x10000;
    return bt_buf_fmt(s->out, "\\u%04lx\\u%04lx", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff)) == BT_OK;
}

/* Behind a backslash. An escape that Python does not know stays as it is. */
static bool put_escape(source *s)
{
    static const char from[] = "nrtbfav\\'\"0", into[sizeof from] = "\n\r\t\b\f\a\v\\'\"";
    if (s->at == s->end) return false;
    const char c = *s->at++;
    const char *known = c ? strchr(from, c) : NULL;
    if (c == '\n') return true; /* the line goes on */
    if (c == 'x') return put_code(s, 2);
    if (c == 'u') return put_code(s, 4);
    if (c == 'U') return put_code(s, 8);
    return known ? put_char(s, into[known - from]) : put_char(s, '\\') && put_char(s, c);
}

static bool string(source *s)
{
    skip(s);
    if (s->at == s->end || (*s->at != '"' && *s->at != '\'')) return false;
    const char quote = *s->at++;
    bool is_good = put(s, "\"");
    while (is_good && s->at < s->end && *s->at != '\n') {
        const char c = *s->at++;
        if (c == quote) return put(s, "\"");
        is_good = c == '\\' ? put_escape(s) : put_char(s, c);
    }
    return false;
}

/* ---- numbers and words ---- */

static bool number(source *s)
{
    const char *first = s->at;
    char last = 0;
    if (s->at < s->end && *s->at == '+') s->at++;
    while (s->at < s->end && *s->at && (is_digit(*s->at) || strchr("+-.eE_", *s->at))) {
        const char c = *s->at++;
        if (c == '_') continue;
        if ((c == '.' && !is_digit(last)) || (last == '.' && !is_digit(c))) put(s, "0");
        if (put_char(s, c)) last = c;
    }
    return s->at > first && (last != '.' || put(s, "0"));
}

static bool word(source *s)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const char *at;
    const size_t n = take_name(&at, s, false);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i][0]) && memcmp(at, words[i][0], n) == 0) return put(s, words[i][1]);
    return false;
}

/* ---- what has members ---- */

static bool pair(source *s) { return string(s) && take(s, ':') && put(s, ":") && value(s); }
static bool argument(source *s) { return put_name(s, false) && take(s, '=') && put(s, ":") && value(s); }

/* Members with commas between, and perhaps one behind the last, up to the closing bracket. */
static bool members(source *s, bool (*member)(source *s), char close)
{
    for (bool is_first = true; !take(s, close); is_first = false) {
        if (!is_first && !put(s, ",")) return false;
        if (!member(s)) return false;
        if (take(s, ',')) continue;
        return take(s, close);
    }
    return true;
}

static bool list(source *s) { return put(s, "[") && members(s, value, ']') && put(s, "]"); }
/* One value in parentheses, without a comma, is that value. */
static bool tuple(source *s)
{
    const size_t at = s->out->len;
    if (take(s, ')')) return put(s, "[]");
    if (!put(s, " ") || !value(s)) return false;
    if (take(s, ')')) return true;
    s->out->data[at] = '[';
    return take(s, ',') && (take(s, ')') || (put(s, ",") && members(s, value, ')'))) && put(s, "]");
}

static bool dict(source *s) { return put(s, "{") && members(s, pair, '}') && put(s, "}"); }

static bool call(source *s)
{
    return put(s, "{\"name\":") && put_name(s, true) && put(s, ",\"arguments\":{") && take(s, '(') &&
           members(s, argument, ')') && put(s, "}}");
}

static bool value(source *s)
{
    skip(s);
    if (s->at == s->end || s->depth == 0) return false;
    s->depth--;
    const char c = *s->at;
    const bool is_good = c == '"' || c == '\'' ? string(s)
                         : is_letter(c)        ? word(s)
                         : take(s, '[')        ? list(s)
                         : take(s, '(')        ? tuple(s)
                         : take(s, '{')        ? dict(s)
                                               : number(s);
    s->depth++;
    return is_good;
}

bool bt_python_calls(bt_buf *out, const char *text, size_t len, unsigned depth)
{
    source s = {text, text + len, depth, out};
    if (!take(&s, '[') || !put(&s, "[") || !members(&s, call, ']') || !put(&s, "]")) return false;
    skip(&s);
    return s.at == s.end;
}
