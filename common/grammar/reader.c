/* The common part of the parsers of expressions: characters, escapes and classes, counts, and lists of items.
 */
#include "grammar/reader.h"

#include <string.h>

bt_err bt_reader_bad(const bt_reader *p, const char *what)
{
    return bt_fail(p->f, BT_EARG, "%s at byte %zu of the %s", what, p->at, p->what);
}

bool bt_reader_is(const bt_reader *p, const char *text)
{
    const size_t n = strlen(text);
    return p->len - p->at >= n && memcmp(p->text + p->at, text, n) == 0;
}

/* ---- characters and classes ----------------------------------------------------------------------- */
static const bt_syntax_chars digits[] = {{'0', '9'}};
static const bt_syntax_chars words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const bt_syntax_chars spaces[] = {
    {9, 13},          {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};

static bt_err add_ranges(bt_reader *p, const bt_syntax_chars *set, size_t n)
{
    if (n > BT_READER_RANGES - p->sets)
        return bt_fail(p->f, BT_ELIMIT, "a class of over %d ranges in the %s", BT_READER_RANGES, p->what);
    memcpy(p->set + p->sets, set, n * sizeof *set);
    p->sets += n;
    return BT_OK;
}

/* The set that \d and its like stand for; false for any other letter. */
bool bt_reader_named(bt_reader *p, char letter, bt_err *ret)
{
    const bt_syntax_chars *set = p->is_gbnf                       ? NULL
                                 : letter == 'd' || letter == 'D' ? digits
                                 : letter == 'w' || letter == 'W' ? words
                                 : letter == 's' || letter == 'S' ? spaces
                                                                  : NULL;
    if (!set) return false;
    size_t n = set == digits ? 1 : set == words ? 4 : sizeof spaces / sizeof *spaces;
    bt_syntax_chars other[16];
    if (letter < 'a') {
        n = bt_syntax_chars_invert(other, set, n);
        set = other;
    }
    *ret = add_ranges(p, set, n);
    return true;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* n hexadecimal digits, or with n 0 those up to a closing brace. */
static bool read_hex(uint32_t *ret, bt_reader *p, size_t n)
{
    uint32_t v = 0;
    size_t i = 0;
    for (; p->at < p->len && (n == 0 || i < n) && hex(p->text[p->at]) >= 0 && v <= BT_READER_LAST_CHAR; i++)
        v = v << 4 | (uint32_t)hex(p->text[p->at++]);
    if (n == 0 ? i == 0 || !bt_reader_is(p, "}") : i < n) return false;
    p->at += n == 0;
    *ret = v;
    return v <= BT_READER_LAST_CHAR;
}

/* Behind \u: four digits, two such that are one character, or any number in braces. */
static bool read_unicode(uint32_t *ret, bt_reader *p)
{
    if (bt_reader_is(p, "{")) {
        p->at++;
        return read_hex(ret, p, 0);
    }
    uint32_t low;
    if (!read_hex(ret, p, 4)) return false;
    if (*ret < 0xd800 || *ret > 0xdbff || !bt_reader_is(p, "\\u")) return true;
    const size_t at = p->at;
    p->at += 2;
    if (read_hex(&low, p, 4) && low >= 0xdc00 && low <= 0xdfff)
        *ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
    else p->at = at;
    return true;
}

/* The character of an escape; p->at stands behind the backslash. */
bt_err bt_reader_escape(uint32_t *ret, bt_reader *p)
{
    static const char from[] = "nrtvf", to[] = "\n\r\t\v\f";
    const char c = p->at < p->len ? p->text[p->at] : '\0';
    const char *known = c ? strchr(from, c) : NULL;
    bool fine = true;
    if (p->at == p->len) return bt_reader_bad(p, "a backslash and nothing behind it");
    if (known) {
        *ret = (uint8_t)to[known - from];
        p->at++;
    } else if (c == '0' && !(p->at + 1 < p->len && p->text[p->at + 1] >= '0' && p->text[p->at + 1] <= '9')) {
        *ret = 0;
        p->at++;
    } else if (c == 'x' || c == 'u' || (c == 'U' && p->is_gbnf)) {
        p->at++;
        fine = c == 'u' ? read_unicode(ret, p) : read_hex(ret, p, c == 'x' ? 2 : 8);
    } else if (c == 'c' && p->at + 1 < p->len &&
               ((p->text[p->at + 1] | 32) >= 'a' && (p->text[p->at + 1] | 32) <= 'z')) {
        *ret = (uint32_t)p->text[p->at + 1] & 31;
        p->at += 2;
    } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        return bt_fail(p->f, BT_EARG, "\\%c at byte %zu of the %s is not supported", c, p->at - 1, p->what);
    } else {
        const size_t n = bt_syntax_next_char(ret, p->text + p->at, p->len - p->at);
        fine = n > 0;
        p->at += n;
    }
    return fine ? BT_OK : bt_reader_bad(p, "an escape that is no character");
}

/* One end of a range in a class: a character, or with *ret_is_set a set that was added. */
static bt_err read_member(uint32_t *ret, bool *ret_is_set, bt_reader *p)
{
    bt_err e = BT_OK;
    *ret_is_set = false;
    if (bt_reader_is(p, "\\")) {
        p->at++;
        if (bt_reader_is(p, "b")) {
            p->at++;
            *ret = '\b';
            return BT_OK;
        }
        if (bt_reader_is(p, "-")) {
            p->at++;
            *ret = '-';
            return BT_OK;
        }
        if (p->at < p->len && bt_reader_named(p, p->text[p->at], &e)) {
            p->at++;
            *ret_is_set = true;
            return e;
        }
        return bt_reader_escape(ret, p);
    }
    const size_t n = bt_syntax_next_char(ret, p->text + p->at, p->len - p->at);
    if (n == 0) return bt_reader_bad(p, p->at == p->len ? "a class without its end" : "no UTF-8");
    p->at += n;
    return BT_OK;
}

/* The class of which the bracket was read. */
bt_err bt_reader_class(uint32_t *ret, bt_reader *p)
{
    const bool is_out = bt_reader_is(p, "^");
    p->at += is_out;
    p->sets = 0;
    while (!bt_reader_is(p, "]")) {
        bt_syntax_chars r;
        bool is_set, is_last_set = false;
        bt_err e = read_member(&r.first, &is_set, p);
        if (e < 0) return e;
        if (is_set) continue;
        r.last = r.first;
        if (bt_reader_is(p, "-") && p->len - p->at > 1 && p->text[p->at + 1] != ']') {
            p->at++;
            e = read_member(&r.last, &is_last_set, p);
            if (e < 0) return e;
            if (is_last_set || r.last < r.first)
                return bt_reader_bad(p, "a range whose end is before its begin");
        }
        e = add_ranges(p, &r, 1);
        if (e < 0) return e;
    }
    p->at++;
    p->sets = bt_syntax_chars_sort(p->set, p->sets);
    if (is_out) {
        p->sets = bt_syntax_chars_invert(p->other, p->set, p->sets);
        *ret = bt_syntax_char(p->s, p->other, p->sets, p->is_json);
    } else {
        *ret = bt_syntax_char(p->s, p->set, p->sets, p->is_json);
    }
    return BT_OK;
}

/* ---- lists of items -------------------------------------------------------------------------------- */
uint32_t bt_reader_char(bt_reader *p, uint32_t c)
{
    return bt_syntax_char(p->s, &(bt_syntax_chars){c, c}, 1, p->is_json);
}

void bt_reader_take(bt_reader *p, bt_series *g)
{
    if (g->has_item) g->sequence = bt_syntax_join(p->s, g->sequence, g->item);
    g->has_item = false;
}

void bt_reader_item(bt_reader *p, bt_series *g, uint32_t node)
{
    bt_reader_take(p, g);
    g->item = node;
    g->has_item = true;
}

/* The node of a group that ends here. */
uint32_t bt_reader_close(bt_reader *p, bt_series *g)
{
    bt_reader_take(p, g);
    return g->has_either ? bt_syntax_either(p->s, g->either, g->sequence) : g->sequence;
}

static bool read_number(uint32_t *ret, bt_reader *p)
{
    uint32_t v = 0;
    const size_t from = p->at;
    for (; p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        if (v <= BT_READER_COUNT) v = v * 10 + (uint32_t)(p->text[p->at] - '0');
    *ret = v;
    return p->at > from;
}

/* {m}, {m,} or {m,n}; false, with nothing read, where it is none. */
static bool read_counts(uint32_t *ret_min, uint32_t *ret_max, bt_reader *p)
{
    const size_t from = p->at++;
    bool fine = read_number(ret_min, p);
    *ret_max = *ret_min;
    if (fine && bt_reader_is(p, ",")) {
        p->at++;
        if (!read_number(ret_max, p)) *ret_max = BT_SYNTAX_NO_END;
    }
    fine = fine && bt_reader_is(p, "}");
    p->at = fine ? p->at + 1 : from;
    return fine;
}

/* A quantifier at p->at, if one is there, around the last item. */
bt_err bt_reader_repeat(bool *ret, bt_reader *p, bt_series *g)
{
    uint32_t min, max;
    const char c = p->text[p->at];
    *ret = true;
    if (c == '*' || c == '+' || c == '?') {
        min = c == '+';
        max = c == '?' ? 1 : BT_SYNTAX_NO_END;
        p->at++;
    } else if (c != '{' || !read_counts(&min, &max, p)) {
        *ret = false;
        return BT_OK;
    }
    if (!g->has_item) return bt_reader_bad(p, "a quantifier with nothing before it");
    if (min > BT_READER_COUNT || (max != BT_SYNTAX_NO_END && max > BT_READER_COUNT))
        return bt_fail(p->f, BT_ELIMIT, "a count over %d in the %s", BT_READER_COUNT, p->what);
    if (max < min) return bt_reader_bad(p, "a count whose end is before its begin");
    p->at += bt_reader_is(p, "?");
    const uint32_t node = bt_syntax_repeat(p->s, g->item, min, max);
    g->sequence = bt_syntax_join(p->s, g->sequence, node);
    g->item = BT_SYNTAX_EMPTY;
    g->has_item = false;
    return BT_OK;
}
