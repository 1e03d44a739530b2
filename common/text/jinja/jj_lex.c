/* Tokens of a template, by the rules of jinja2's lexer: where white space beside tags goes, what ends a tag
 * while brackets are open, how strings and numbers are written. */
#include "text/jinja/jj_lex.h"

#include "text/jinja/jinja.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bt_jj_lex_begin(jj_lex *l, jj_run *r, const char *source, size_t len)
{
    *l = (jj_lex){.run = r, .place = {1, 1}, .is_line_begin = true};
    r->at = l->place;
    if (len > BT_JINJA_MAX_SOURCE_BYTES)
        return bt_jj_fail(r, BT_ELIMIT, "the template has %zu bytes, more than %d", len,
                          BT_JINJA_MAX_SOURCE_BYTES);
    size_t bad;
    if (!bt_jj_is_utf8(source, len, &bad))
        return bt_jj_fail(r, BT_EFORMAT, "the template is not UTF-8 at byte %zu", bad);
    char *src = bt_jj_take(r, len + 1);
    if (!src) return false;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n') continue;
        src[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    l->src = src;
    l->len = n > 0 && src[n - 1] == '\n' ? n - 1 : n;
    return true;
}

/* The place of byte `at`, which never goes back. */
static jj_place place(jj_lex *l, size_t at)
{
    for (; l->placed < at; l->placed++) {
        if (l->src[l->placed] == '\n') l->place = (jj_place){l->place.line + 1, 1};
        else if (((unsigned char)l->src[l->placed] & 0xc0) != 0x80) l->place.column++;
    }
    return l->place;
}

static bool fail_at(jj_lex *l, size_t at, const char *words)
{
    l->run->at = place(l, at);
    return bt_jj_fail(l->run, BT_EFORMAT, "%s", words);
}

static bool starts(const jj_lex *l, size_t at, const char *with)
{
    const size_t n = strlen(with);
    return at <= l->len && n <= l->len - at && memcmp(l->src + at, with, n) == 0;
}

static size_t skip_space(const jj_lex *l, size_t at)
{
    for (size_t bytes; at < l->len; at += bytes)
        if (!bt_jj_is_space(bt_jj_code(l->src, l->len, at, &bytes))) break;
    return at;
}

/* Where the white space at the end of [begin, end) begins. */
static size_t strip_end(const jj_lex *l, size_t begin, size_t end)
{
    while (end > begin) {
        size_t at = end - 1, bytes;
        while (at > begin && ((unsigned char)l->src[at] & 0xc0) == 0x80) at--;
        if (!bt_jj_is_space(bt_jj_code(l->src, l->len, at, &bytes))) break;
        end = at;
    }
    return end;
}

/* Past a closing mark ("%}", "#}") at `at`, with its sign in front and the white space that goes with it; 0:
 * there is none. */
static size_t shut(const jj_lex *l, size_t at, const char *mark)
{
    if (starts(l, at, "-") && starts(l, at + 1, mark)) return skip_space(l, at + 3);
    if (starts(l, at, "+") && starts(l, at + 1, mark)) return at + 3;
    if (!starts(l, at, mark)) return 0;
    return starts(l, at + 2, "\n") ? at + 3 : at + 2;
}

/* Past "{% raw %}" or "{% endraw %}" at `at`; 0: there is none. */
static size_t raw_tag(const jj_lex *l, size_t at, const char *word)
{
    if (!starts(l, at, "{%")) return 0;
    at += 2;
    if (starts(l, at, "-") || starts(l, at, "+")) at++;
    at = skip_space(l, at);
    if (!starts(l, at, word)) return 0;
    at = skip_space(l, at + strlen(word));
    if (word[0] == 'e') return shut(l, at, "%}");
    if (starts(l, at, "-%}")) return skip_space(l, at + 3);
    return starts(l, at, "%}") ? at + 2 : 0;
}

/* Data [l->at, end) in front of a tag with this sign, less the white space that the sign and lstrip_blocks
 * take. */
static size_t data_end(const jj_lex *l, size_t end, char sign, bool is_print)
{
    if (sign == '-') return strip_end(l, l->at, end);
    if (sign == '+' || is_print) return end;
    const size_t space = strip_end(l, l->at, end);
    size_t line = end;
    while (line > l->at && l->src[line - 1] != '\n') line--;
    if (line == l->at && !l->is_line_begin) return end;
    return space <= line ? line : end;
}

static void went(jj_lex *l, size_t to)
{
    if (to > l->at) l->is_line_begin = l->src[to - 1] == '\n';
    l->at = to;
}

static char sign_at(const jj_lex *l, size_t at)
{
    return at < l->len && (l->src[at] == '-' || l->src[at] == '+') ? l->src[at] : '\0';
}

static bool skip_comment(jj_lex *l)
{
    const size_t begin = l->at;
    size_t at = begin + 2 + (sign_at(l, begin + 2) != '\0');
    for (; at < l->len; at++) {
        const size_t past = shut(l, at, "#}");
        if (past) {
            went(l, past);
            return true;
        }
    }
    return fail_at(l, begin, "Missing end of comment tag");
}

/* Data up to the tag after it, whose opening is the next token. Whole comments go with what stands before
 * them. */
static bool next_data(jj_lex *l, jj_token *ret)
{
    size_t open = l->at;
    while (open < l->len && !starts(l, open, "{%") && !starts(l, open, "{{") && !starts(l, open, "{#"))
        open++;
    const bool is_print = starts(l, open, "{{");
    const size_t end = open < l->len ? data_end(l, open, sign_at(l, open + 2), is_print) : l->len;
    const size_t raw = raw_tag(l, open, "raw");
    *ret = (jj_token){.kind = JJ_T_DATA, .at = place(l, l->at), .ptr = l->src + l->at, .len = end - l->at};
    if (open == l->len) {
        l->at = open;
        if (ret->len == 0) ret->kind = JJ_T_END;
        return true;
    }
    l->at = open;
    if (raw) {
        went(l, raw);
        l->state = JJ_IN_RAW;
        return true;
    }
    if (starts(l, open, "{#")) return skip_comment(l);
    l->state = is_print ? JJ_IN_PRINT : JJ_IN_TAG;
    return true;
}

static bool next_raw(jj_lex *l, jj_token *ret)
{
    for (size_t at = l->at; at < l->len; at++) {
        const size_t past = raw_tag(l, at, "endraw");
        if (!past) continue;
        const size_t end = data_end(l, at, sign_at(l, at + 2), false);
        *ret =
            (jj_token){.kind = JJ_T_DATA, .at = place(l, l->at), .ptr = l->src + l->at, .len = end - l->at};
        went(l, past);
        l->state = JJ_IN_DATA;
        return true;
    }
    return fail_at(l, l->at, "Missing end of raw directive");
}

/* ---- inside tags ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The backslash at s[*at] as Python's unicode-escape reads it; leaves *at behind it. */
static const char *unescape(jj_buf *b, const char *s, size_t len, size_t *at)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    const char c = s[*at + 1];
    *at += 2;
    if (c == '\n') return NULL;
    for (const char *p = plain; *p; p += 2)
        if (*p == c) return bt_jj_buf_bytes(b, p + 1, 1, true) ? NULL : "";
    uint32_t code = 0;
    if (c >= '0' && c <= '7') {
        code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < len && s[*at] >= '0' && s[*at] <= '7'; i++)
            code = code * 8 + (uint32_t)(s[(*at)++] - '0');
    } else if (c == 'x' || c == 'u' || c == 'U') {
        for (int i = c == 'x' ? 2 : c == 'u' ? 4 : 8; i > 0; i--) {
            const int digit = *at < len ? hex(s[*at]) : -1;
            if (digit < 0) return "a truncated escape in a string";
            if (code > 0x10ffff) break;
            code = code * 16 + (uint32_t)digit;
            (*at)++;
        }
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return "an escape that is no character";
    } else if (c == 'N') {
        return "names of characters (\\N{...}) are not known";
    } else if ((unsigned char)c < 0x80) { /* the backslash stays */
        *at -= 1;
        return bt_jj_buf_bytes(b, "\\", 1, true) ? NULL : "";
    } else { /* as jinja2 has it, by way of ASCII: the character's own escape, with the backslash before it */
        char text[16];
        size_t bytes;
        code = bt_jj_code(s, len, *at - 1, &bytes);
        snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
        *at += bytes - 1;
        return bt_jj_buf_text(b, text, true) ? NULL : "";
    }
    return bt_jj_buf_char(b, code, true) ? NULL : "";
}

static bool next_string(jj_lex *l, jj_token *ret)
{
    const char quote = l->src[l->at];
    size_t end = l->at + 1, escapes = 0;
    for (; end < l->len && l->src[end] != quote; end++)
        if (l->src[end] == '\\') end++, escapes++;
    if (end >= l->len) return fail_at(l, l->at, "a string that does not end");
    const char *s = l->src + l->at + 1;
    const size_t len = end - l->at - 1;
    ret->kind = JJ_T_STRING;
    ret->ptr = s;
    ret->len = len;
    if (escapes) {
        jj_buf b = jj_buf_of(l->run);
        for (size_t i = 0; i < len;) {
            if (s[i] == '\\') {
                const char *wrong = unescape(&b, s, len, &i);
                if (wrong) return fail_at(l, l->at, wrong);
            } else if (!bt_jj_buf_bytes(&b, s + i++, 1, true)) return false;
        }
        ret->ptr = b.len ? b.ptr : "";
        ret->len = b.len;
    }
    l->at = end + 1;
    return true;
}

static bool is_digit(const jj_lex *l, size_t at)
{
    return at < l->len && l->src[at] >= '0' && l->src[at] <= '9';
}

/* (\d+_)*\d+ at `at`: its end, or `at` itself. */
static size_t digits(const jj_lex *l, size_t at)
{
    while (is_digit(l, at) ||
           (at < l->len && l->src[at] == '_' && is_digit(l, at + 1) && is_digit(l, at - 1)))
        at++;
    return at;
}

/* The end of a float at `at`, or `at` itself where it is none. */
static size_t float_end(const jj_lex *l, size_t at)
{
    if (at > 0 && l->src[at - 1] == '.') return at;
    const size_t whole = digits(l, at);
    size_t end = whole;
    if (starts(l, end, ".") && is_digit(l, end + 1)) end = digits(l, end + 1);
    if (starts(l, end, "e") || starts(l, end, "E")) {
        const size_t power = end + 1 + (starts(l, end + 1, "+") || starts(l, end + 1, "-"));
        if (is_digit(l, power)) return digits(l, power);
    }
    return end > whole ? end : at;
}

static bool next_number(jj_lex *l, jj_token *ret)
{
    char text[400];
    size_t end = float_end(l, l->at), n = 0, begin = l->at;
    int base = 10;
    ret->kind = end > l->at ? JJ_T_FLOAT : JJ_T_INT;
    if (ret->kind == JJ_T_INT) {
        const char kind = begin + 1 < l->len ? (char)(l->src[begin + 1] | 0x20) : '\0';
        base = l->src[begin] != '0' ? 10 : kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        end = begin + (base == 10 ? 0 : 2);
        for (const size_t first = end; end < l->len; end++) {
            const int digit = hex(l->src[end]);
            const bool is_gap = l->src[end] == '_' && (end > first || base != 10) && end + 1 < l->len &&
                                hex(l->src[end + 1]) >= 0 && hex(l->src[end + 1]) < base;
            if (!is_gap && (digit < 0 || digit >= base)) break;
            if (base == 10 && l->src[begin] == '0' && l->src[end] != '0' && l->src[end] != '_') break;
        }
        if (base != 10 && end == begin + 2) end = begin + 1, base = 10; /* "0x" alone: a zero, then a name */
        else if (base != 10) begin += 2;
    }
    for (size_t i = begin; i < end; i++) {
        if (l->src[i] == '_') continue;
        if (n + 1 == sizeof text) return fail_at(l, l->at, "a number of too many digits");
        text[n++] = l->src[i];
    }
    text[n] = '\0';
    errno = 0;
    if (ret->kind == JJ_T_INT) {
        ret->whole = strtoll(text, NULL, base);
        if (errno == ERANGE) return fail_at(l, l->at, "an integer beyond 64 bits");
    } else ret->real = strtod(text, NULL);
    ret->ptr = l->src + l->at;
    ret->len = end - l->at;
    l->at = end;
    return true;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') ||
           (c & 0x80);
}

static bool next_operator(jj_lex *l, jj_token *ret)
{
    static const char *const twos[] = {"//", "**", "==", "!=", ">=", "<="};
    ret->kind = JJ_T_OP;
    ret->op[0] = l->src[l->at];
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        if (starts(l, l->at, twos[i])) ret->op[1] = l->src[l->at + 1];
    if (!ret->op[0] || !strchr("+-*/%~[](){}=<>!.:|,;", ret->op[0]) || (ret->op[0] == '!' && !ret->op[1]))
        return fail_at(l, l->at, "a character that stands for nothing here");
    if (strchr("([{", ret->op[0])) {
        if (l->brackets == sizeof l->bracket) {
            l->run->at = place(l, l->at);
            return bt_jj_fail(l->run, BT_ELIMIT, "more than %d brackets are open", BT_JINJA_MAX_DEPTH);
        }
        l->bracket[l->brackets++] = ret->op[0] == '(' ? ')' : ret->op[0] == '[' ? ']' : '}';
    } else if (strchr(")]}", ret->op[0])) {
        if (l->brackets == 0 || l->bracket[l->brackets - 1] != ret->op[0])
            return fail_at(l, l->at, "a bracket that was not opened");
        l->brackets--;
    }
    l->at += ret->op[1] ? 2 : 1;
    return true;
}

static bool next_inside(jj_lex *l, jj_token *ret)
{
    went(l, skip_space(l, l->at));
    *ret = (jj_token){.at = place(l, l->at)};
    if (l->at == l->len) {
        ret->kind = JJ_T_END;
        return true;
    }
    size_t past = 0;
    if (l->brackets == 0 && l->state == JJ_IN_TAG) past = shut(l, l->at, "%}");
    if (l->brackets == 0 && l->state == JJ_IN_PRINT)
        past = starts(l, l->at, "-}}") ? skip_space(l, l->at + 3) : starts(l, l->at, "}}") ? l->at + 2 : 0;
    if (past) {
        ret->kind = l->state == JJ_IN_TAG ? JJ_T_TAG_SHUT : JJ_T_PRINT_SHUT;
        went(l, past);
        l->state = JJ_IN_DATA;
        return true;
    }
    const char c = l->src[l->at];
    if (c == '\'' || c == '"') return next_string(l, ret);
    if (is_digit(l, l->at)) return next_number(l, ret);
    if (!is_name_byte(c)) return next_operator(l, ret);
    size_t end = l->at;
    while (end < l->len && is_name_byte(l->src[end])) end++;
    ret->kind = JJ_T_NAME;
    ret->ptr = l->src + l->at;
    ret->len = end - l->at;
    for (size_t i = 0, bytes; i < ret->len; i += bytes)
        if (bt_jj_is_space(bt_jj_code(ret->ptr, ret->len, i, &bytes)))
            return fail_at(l, l->at, "Invalid character in identifier");
    l->at = end;
    return true;
}

bool bt_jj_lex_next(jj_lex *l, jj_token *ret)
{
    for (;;) {
        if (l->state == JJ_IN_RAW) {
            if (!next_raw(l, ret)) return false;
        } else if (l->state == JJ_IN_DATA) {
            if (!next_data(l, ret)) return false;
        } else if (starts(l, l->at, l->state == JJ_IN_TAG ? "{%" : "{{") && !l->is_open) {
            *ret = (jj_token){.kind = l->state == JJ_IN_TAG ? JJ_T_TAG_OPEN : JJ_T_PRINT_OPEN,
                              .at = place(l, l->at)};
            l->at += 2 + (sign_at(l, l->at + 2) != '\0');
            l->is_open = true;
            l->is_line_begin = false;
            return true;
        } else {
            const bool ok = next_inside(l, ret);
            if (l->state == JJ_IN_DATA) l->is_open = false;
            return ok;
        }
        if (ret->kind == JJ_T_END || ret->len > 0) return true;
    }
}
