/* Filters of text and numbers, and the look-up of all. */
#include "text/jinja/jj_natives.h"

#include "text/jinja/jj_case.h"
#include "text/jinja/jj_method.h"
#include "text/jinja/jj_op.h"
#include "text/jinja/jj_show.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) \
    static bool name(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
#define UNUSED (void)r, (void)self, (void)a, (void)call

static bool is_true(const jj_value *v) { return v->kind != JJ_MISSING && bt_jj_value_truth(v); }

/* Text made of self: markup where self is. */
static bool give_like(jj_value *ret, const jj_value *self, const jj_str *s)
{
    *ret = jj_text(s);
    ret->is_markup = self->is_markup;
    return s != NULL;
}

/* ---- text ---- */

FILTER(trim)
{
    (void)call;
    const jj_str *s = bt_jj_show_str(r, self);
    return s && give_like(ret, self, bt_jj_method_strip(r, s, &a[0], true, true));
}

static bool in_case(jj_run *r, jj_value *ret, const jj_value *self, jj_case to)
{
    const jj_str *s = bt_jj_show_str(r, self);
    return s && give_like(ret, self, bt_jj_case(r, s, to));
}
FILTER(upper)
{
    UNUSED;
    return in_case(r, ret, self, JJ_UPPER);
}
FILTER(lower)
{
    UNUSED;
    return in_case(r, ret, self, JJ_LOWER);
}
FILTER(capitalize)
{
    UNUSED;
    return in_case(r, ret, self, JJ_CAPITAL);
}

/* Words end at white space and at - ( { [ <: not where str.title() ends them. */
FILTER(title)
{
    UNUSED;
    const jj_str *s = bt_jj_show_str(r, self);
    jj_buf b = jj_buf_of(r);
    if (!s) return false;
    for (size_t i = 0, begin = 0, bytes; i <= s->len; i += bytes) {
        const uint32_t c = i < s->len ? bt_jj_code(s->ptr, s->len, i, &bytes) : ' ';
        if (i == s->len) bytes = 1;
        const bool is_between = bt_jj_is_space(c) || (c < 0x80 && strchr("-({[<", (int)c));
        if (!is_between) continue;
        if (i > begin) {
            size_t head;
            bt_jj_code(s->ptr, s->len, begin, &head);
            const jj_str *first = bt_jj_str_part(r, s, begin, begin + head),
                         *rest = bt_jj_str_part(r, s, begin + head, i);
            if (!first || !rest || !(first = bt_jj_case(r, first, JJ_UPPER)) ||
                !(rest = bt_jj_case(r, rest, JJ_LOWER)) || !bt_jj_buf_add(&b, first) ||
                !bt_jj_buf_add(&b, rest))
                return false;
        }
        if (i < s->len && !bt_jj_buf_part(&b, s, i, i + bytes)) return false;
        begin = i + bytes;
    }
    return jj_give(ret, bt_jj_buf_str(&b, s->is_template));
}

FILTER(replace)
{
    (void)call;
    int64_t most = -1;
    const jj_str *s = bt_jj_show_str(r, self), *old = bt_jj_show_str(r, &a[0]),
                 *by = bt_jj_show_str(r, &a[1]);
    if (!s || !old || !by) return false;
    if (a[2].kind != JJ_NONE && !bt_jj_method_whole(r, &most, &a[2], -1)) return false;
    return jj_give(ret, bt_jj_method_replace(r, s, old, by, most));
}

FILTER(string)
{
    UNUSED;
    return give_like(ret, self, bt_jj_show_str(r, self));
}

FILTER(center)
{
    (void)call;
    int64_t width;
    const jj_str *s = bt_jj_show_str(r, self);
    return s && bt_jj_method_whole(r, &width, &a[0], 80) &&
           give_like(ret, self, bt_jj_method_center(r, s, width));
}

/* indent(width, first, blank): each line but the first and empty ones */
FILTER(indent)
{
    (void)call;
    jj_value lines;
    jj_buf b = jj_buf_of(r), pad = jj_buf_of(r);
    const jj_str *s, *by;
    int64_t width = 4;
    if (!bt_jj_value_fail_undefined(r, self)) return false;
    if (self->kind != JJ_STR)
        return bt_jj_fail(r, BT_EFORMAT, "indent works on text, not %s", bt_jj_value_type(self));
    if (a[0].kind != JJ_STR && !bt_jj_method_whole(r, &width, &a[0], 4)) return false;
    for (int64_t i = 0; a[0].kind != JJ_STR && i < width; i++)
        if (!jj_step(r, 1) || !bt_jj_buf_text(&pad, " ", true)) return false;
    by = a[0].kind == JJ_STR ? a[0].s : bt_jj_buf_str(&pad, true);
    const jj_str newline = {"\n", 1, NULL, true, NULL};
    if (!by || !(s = bt_jj_str_join(r, self->s, &newline)) || !bt_jj_method_lines(r, &lines, s, false))
        return false;
    if (is_true(&a[1]) && !bt_jj_buf_add(&b, by)) return false;
    for (size_t i = 0; i < lines.list->len; i++) {
        const jj_str *line = lines.list->item[i].s;
        if (i > 0 && !bt_jj_buf_add(&b, &newline)) return false;
        if (i > 0 && (line->len > 0 || is_true(&a[2])) && !bt_jj_buf_add(&b, by)) return false;
        if (!bt_jj_buf_add(&b, line)) return false;
    }
    return give_like(ret, self, bt_jj_buf_str(&b, self->s->is_template));
}

FILTER(escape)
{
    UNUSED;
    return bt_jj_show_escaped(r, ret, self);
}

FILTER(forceescape)
{
    UNUSED;
    jj_value plain = *self;
    plain.is_markup = false;
    return bt_jj_show_escaped(r, ret, &plain);
}

FILTER(safe)
{
    UNUSED;
    const jj_value markup = {.is_markup = true};
    return give_like(ret, &markup, bt_jj_show_str(r, self));
}

/* ---- without markup, as markupsafe 3.0.4 does it ---- */

static const char *const entities['z' - 'A' + 1] = {
#include "text/jinja/jj_entities_table.h"
};
/* Windows' characters, which HTML takes for the numbers 128 to 159; 0: none. */
static const uint16_t windows[32] = {0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                     0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                     0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                     0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

static bool is_wholly(const jj_str *s, size_t begin, size_t end)
{
    while (begin < end && jj_str_mark(s, begin)) begin++;
    return begin == end;
}

/* "&#233;" at byte `at`: its bytes, 0: it is none. */
static size_t number_at(uint32_t *ret, const jj_str *s, size_t at)
{
    const size_t digits = at + 2 < s->len && (s->ptr[at + 2] | 32) == 'x' ? at + 3 : at + 2;
    size_t i = digits;
    uint32_t v = 0;
    for (; i < s->len; i++) {
        const int c = (unsigned char)s->ptr[i];
        if (digits == at + 3 ? !isxdigit(c) : !isdigit(c)) break;
        if (v <= 0x10FFFF)
            v = digits == at + 2 ? v * 10 + (uint32_t)(c - '0')
                                 : v * 16 + (uint32_t)(isdigit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    *ret = v;
    return i == digits ? 0 : i + (i < s->len && s->ptr[i] == ';') - at;
}

static bool add_number(jj_buf *b, uint32_t v, bool is_template)
{
    const bool is_no_character = v < 9 || v == 0xB || (v >= 0xE && v < 0x20) || v == 0x7F ||
                                 (v >= 0xFDD0 && v < 0xFDF0) || (v & 0xFFFE) == 0xFFFE;
    if (v >= 0x80 && v < 0xA0 && windows[v - 0x80]) v = windows[v - 0x80];
    else if (v == 0 || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) v = 0xFFFD;
    else if (is_no_character) return true;
    return bt_jj_buf_char(b, v, is_template);
}

/* The name at byte `at`, behind an '&': its bytes, 0: it is none; *ret: its characters, up to a space. */
static size_t name_at(const char **ret, const jj_str *s, size_t at)
{
    const int first = at < s->len ? (unsigned char)s->ptr[at] : 0;
    size_t best = 0;
    const char *e = first >= 'A' && first <= 'z' ? entities[first - 'A'] : NULL;
    while (e && *e) {
        const bool is_bare = *e == '!';
        const char *name = e + is_bare, *value = strchr(name, ' ') + 1;
        const size_t n = (size_t)(value - 1 - name);
        e = strchr(value, ' ') + 1;
        if (n > s->len - at || memcmp(s->ptr + at, name, n) != 0) continue;
        const bool is_closed = at + n < s->len && s->ptr[at + n] == ';';
        if ((!is_closed && !is_bare) || n + is_closed <= best) continue;
        best = n + is_closed;
        *ret = value;
    }
    return best;
}

static const jj_str *unescape(jj_run *r, const jj_str *s)
{
    enum { MOST_NAMES = 4096 }; /* bytes of one letter */
    jj_buf b = jj_buf_of(r);
    for (size_t i = 0, n; i < s->len; i += n) {
        uint32_t v = 0;
        const char *name = NULL;
        const bool is_mark = s->ptr[i] == '&', is_number = is_mark && i + 1 < s->len && s->ptr[i + 1] == '#';
        if (is_mark && !jj_step_bytes(r, is_number ? s->len - i : MOST_NAMES)) return NULL;
        n = is_number ? number_at(&v, s, i) : is_mark ? name_at(&name, s, i + 1) : 0;
        if (name) n++;
        const bool is_template = is_wholly(s, i, i + n);
        if (n == 0) n = 1;
        if (name    ? !bt_jj_buf_bytes(&b, name, strcspn(name, " "), is_template)
            : n > 1 ? !add_number(&b, v, is_template)
                    : !bt_jj_buf_part(&b, s, i, i + 1))
            return NULL;
    }
    return bt_jj_buf_str(&b, s->is_template);
}

/* Comments and tags go, to the first that does not end, and white space becomes one space. */
static const jj_str *strip_tags(jj_run *r, const jj_str *s)
{
    jj_buf b = jj_buf_of(r);
    size_t space = SIZE_MAX; /* where white space began that is not written */
    bool has_tags = true;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        const bool is_tag = has_tags && c == '<';
        const bool is_comment = is_tag && s->len - i >= 4 && memcmp(s->ptr + i, "<!--", 4) == 0;
        const char *end = is_comment ? memmem(s->ptr + i + 4, s->len - i - 4, "-->", 3)
                          : is_tag   ? memchr(s->ptr + i, '>', s->len - i)
                                     : NULL;
        if (end) {
            bytes = (size_t)(end - s->ptr) - i + (is_comment ? 3 : 1);
            continue;
        }
        if (is_tag) has_tags = false;
        if (bt_jj_is_space(c)) {
            if (space == SIZE_MAX) space = i;
            continue;
        }
        if (space != SIZE_MAX && b.len > 0 && !bt_jj_buf_text(&b, " ", jj_str_mark(s, space))) return NULL;
        space = SIZE_MAX;
        if (!bt_jj_buf_part(&b, s, i, i + bytes)) return NULL;
    }
    return bt_jj_buf_str(&b, s->is_template);
}

FILTER(striptags)
{
    UNUSED;
    const jj_str *s = bt_jj_show_str(r, self);
    return s && jj_step_bytes(r, 4 * s->len) && (s = strip_tags(r, s)) && jj_give(ret, unescape(r, s));
}

FILTER(truncate_)
{
    (void)call;
    int64_t length, leeway = 5;
    const jj_str dots = {"...", 3, NULL, true, NULL}, *end = &dots, *s = self->s;
    if (!bt_jj_method_whole(r, &length, &a[0], 255)) return false;
    if (a[2].kind != JJ_MISSING && !(end = bt_jj_show_str(r, &a[2]))) return false;
    if (a[3].kind != JJ_NONE && !bt_jj_method_whole(r, &leeway, &a[3], 5)) return false;
    if (!jj_step_bytes(r, end->len + (self->kind == JJ_STR ? s->len : 0))) return false;
    const int64_t ends = (int64_t)bt_jj_str_chars(end);
    if (length < ends || leeway < 0)
        return bt_jj_fail(r, BT_EFORMAT, "truncate needs a length of at least its end's");
    const int64_t len = bt_jj_value_len(self);
    *ret = *self;
    if (len >= 0 && len - leeway <= length) return true;
    if (self->kind != JJ_STR)
        return bt_jj_fail(r, BT_EFORMAT, "truncate works on text, not %s", bt_jj_value_type(self));
    size_t cut = bt_jj_str_at(s, (size_t)(length - ends));
    if (!is_true(&a[1]))
        for (size_t i = cut; i > 0; i--)
            if (s->ptr[i - 1] == ' ') {
                cut = i - 1;
                break;
            }
    const jj_str *front = bt_jj_str_part(r, s, 0, cut);
    jj_value last = jj_text(end);
    if (self->is_markup && !bt_jj_show_escaped(r, &last, a[2].kind == JJ_MISSING ? &last : &a[2]))
        return false;
    return front && give_like(ret, self, bt_jj_str_join(r, front, last.s));
}

FILTER(wordcount)
{
    UNUSED;
    const jj_str *s = bt_jj_show_str(r, self);
    int64_t n = 0;
    bool is_inside = false;
    if (!s || !jj_step(r, s->len / 8)) return false;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const bool is_word = bt_jj_case_is_word(bt_jj_code(s->ptr, s->len, i, &bytes));
        n += is_word && !is_inside;
        is_inside = is_word;
    }
    *ret = jj_int(n);
    return true;
}

/* is_query: of a query, where a slash is written out and a space is a '+'. */
static bool quote(jj_run *r, jj_buf *b, const jj_value *v, bool is_query)
{
    const jj_str *s = bt_jj_show_str(r, v);
    for (size_t i = 0; s && i < s->len; i++) {
        const unsigned char c = (unsigned char)s->ptr[i];
        char text[4] = {(char)c};
        if (is_query && c == ' ') text[0] = '+';
        else if ((c >= 0x80 || !isalnum(c)) && (!c || !strchr(is_query ? "_.-~" : "_.-~/", c)))
            (void)snprintf(text, sizeof text, "%%%02X", c);
        if (!jj_step(r, 1) || !bt_jj_buf_text(b, text, jj_str_mark(s, i))) return false;
    }
    return s != NULL;
}

static bool quote_pair(jj_run *r, jj_buf *b, const jj_value *key, const jj_value *value, bool is_first)
{
    return (is_first || bt_jj_buf_text(b, "&", true)) && quote(r, b, key, true) &&
           bt_jj_buf_text(b, "=", true) && quote(r, b, value, true);
}

FILTER(urlencode)
{
    UNUSED;
    jj_buf b = jj_buf_of(r);
    jj_walk w;
    jj_value item, pair;
    bool ok = true, is_first = true;
    if (self->kind == JJ_DICT) {
        for (size_t i = 0; i < self->dict->len && ok; i++)
            ok = quote_pair(r, &b, &self->dict->key[i], &self->dict->value[i], i == 0);
    } else if (self->kind == JJ_LIST) {
        for (ok = bt_jj_walk_begin(r, &w, self); ok && bt_jj_walk_next(&w, &item); is_first = false) {
            if (!bt_jj_value_list(r, &pair, &item, JJ_PLAIN)) return false;
            if (pair.list->len != 2) return bt_jj_fail(r, BT_EFORMAT, "urlencode needs pairs");
            ok = quote_pair(r, &b, &pair.list->item[0], &pair.list->item[1], is_first);
        }
        ok = ok && r->err == BT_OK;
    } else {
        ok = quote(r, &b, self, false);
    }
    return ok && jj_give(ret, bt_jj_buf_str(&b, self->kind != JJ_STR || self->s->is_template));
}

/* ---- numbers ---- */

/* float() of a text, as Python reads it; false: it is none. */
static bool read_float(double *ret, const jj_str *s)
{
    char text[64];
    size_t begin = 0, end = s->len, n = 0;
    while (begin < end && bt_jj_is_space((unsigned char)s->ptr[begin])) begin++;
    while (end > begin && bt_jj_is_space((unsigned char)s->ptr[end - 1])) end--;
    for (size_t i = begin; i < end; i++) {
        const char c = s->ptr[i];
        const bool is_gap = c == '_' && i > begin && isdigit((unsigned char)s->ptr[i - 1]) && i + 1 < end &&
                            isdigit((unsigned char)s->ptr[i + 1]);
        if (is_gap) continue;
        if (!c || c == 'x' || c == 'X' || c == '(' || n + 1 == sizeof text) return false;
        text[n++] = c;
    }
    text[n] = '\0';
    char *rest;
    *ret = strtod(text, &rest);
    return n > 0 && *rest == '\0';
}

/* int() of a text in a base; false: it is none. *is_wide: it is one, beyond 64 bits. */
static bool read_int(int64_t *ret, bool *is_wide, const jj_str *s, int64_t base)
{
    char text[80];
    size_t begin = 0, end = s->len, n = 0;
    *is_wide = false;
    while (begin < end && bt_jj_is_space((unsigned char)s->ptr[begin])) begin++;
    while (end > begin && bt_jj_is_space((unsigned char)s->ptr[end - 1])) end--;
    if (begin < end && (s->ptr[begin] == '-' || s->ptr[begin] == '+')) text[n++] = s->ptr[begin++];
    if (end - begin > 2 && s->ptr[begin] == '0') {
        const char kind = (char)(s->ptr[begin + 1] | 0x20);
        const int64_t of = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        if (of && (base == of || base == 0)) {
            begin += 2;
            base = of;
        }
    }
    if (base == 0) base = 10;
    if (begin == end || base < 2 || base > 36) return false;
    for (size_t i = begin; i < end; i++) {
        const char c = s->ptr[i];
        if (c == '_' && i > begin && i + 1 < end && s->ptr[i - 1] != '_') continue;
        if (!isalnum((unsigned char)c) || n + 1 == sizeof text) return false;
        text[n++] = c;
    }
    text[n] = '\0';
    char *rest;
    errno = 0;
    *ret = strtoll(text, &rest, (int)base);
    *is_wide = errno == ERANGE;
    return *rest == '\0';
}

FILTER(to_int)
{
    (void)call;
    double f = 0;
    int64_t i = 0, base;
    bool is_wide = false, has = false;
    if (!bt_jj_value_fail_undefined(r, self) || !bt_jj_method_whole(r, &base, &a[1], 10) ||
        (self->kind == JJ_STR && !jj_step(r, self->s->len / 16)))
        return false;
    if (jj_is_whole(self)) i = jj_whole(self), has = true;
    else if (self->kind == JJ_STR && read_int(&i, &is_wide, self->s, base)) has = true;
    else if (self->kind == JJ_FLOAT || (self->kind == JJ_STR && read_float(&f, self->s))) {
        if (self->kind == JJ_FLOAT) f = self->f;
        if (self->kind == JJ_FLOAT && isinf(f))
            return bt_jj_fail(r, BT_EFORMAT, "cannot convert float infinity to integer");
        has = isfinite(f);
        is_wide = has && !(f >= -0x1p63 && f < 0x1p63);
        if (has && !is_wide) i = (int64_t)f;
    }
    if (is_wide) return bt_jj_fail(r, BT_EFORMAT, "an integer beyond 64 bits");
    *ret = has ? jj_int(i) : a[0].kind == JJ_MISSING ? jj_int(0) : a[0];
    if (has) ret->is_template = self->kind == JJ_STR ? bt_jj_str_is_template(self->s) : self->is_template;
    return true;
}

FILTER(to_float)
{
    (void)call;
    double f = 0;
    if (!bt_jj_value_fail_undefined(r, self) || (self->kind == JJ_STR && !jj_step(r, self->s->len / 16)))
        return false;
    const bool has = jj_is_number(self) || (self->kind == JJ_STR && read_float(&f, self->s));
    if (jj_is_number(self)) f = jj_real(self);
    *ret = has ? jj_float(f) : a[0].kind == JJ_MISSING ? jj_float(0) : a[0];
    if (has) ret->is_template = self->kind == JJ_STR ? bt_jj_str_is_template(self->s) : self->is_template;
    return true;
}

static bool want_number(jj_run *r, const jj_value *v, const char *what)
{
    if (!bt_jj_value_fail_undefined(r, v)) return false;
    return jj_is_number(v) ||
           bt_jj_fail(r, BT_EFORMAT, "%s works on numbers, not %s", what, bt_jj_value_type(v));
}

FILTER(abs_)
{
    UNUSED;
    if (!want_number(r, self, "abs")) return false;
    if (self->kind == JJ_FLOAT) *ret = jj_float(fabs(self->f));
    else if (jj_whole(self) == INT64_MIN) return bt_jj_fail(r, BT_EFORMAT, "an integer beyond 64 bits");
    else *ret = jj_int(jj_whole(self) < 0 ? -jj_whole(self) : jj_whole(self));
    ret->is_template = self->is_template;
    return true;
}

/* Python's round(): the nearest decimal of so many places, half to even, by the digits that the number has.
 */
static double round_places(double f, int64_t places)
{
    if (places > 22 || !isfinite(f)) return f;
    if (places < 0) {
        const double unit = pow(10, (double)-places), n = f / unit;
        return places < -308 ? 0 * f : rint(n) * unit;
    }
    char text[400];
    snprintf(text, sizeof text, "%.*f", (int)places, f);
    return strtod(text, NULL);
}

FILTER(round_)
{
    (void)call;
    int64_t places;
    if (!want_number(r, self, "round") || !bt_jj_method_whole(r, &places, &a[0], 0)) return false;
    const jj_str *way = a[1].kind == JJ_STR ? a[1].s : NULL;
    const bool is_common = a[1].kind == JJ_MISSING || (way && jj_str_is(way, "common", 6));
    const bool is_ceil = way && jj_str_is(way, "ceil", 4);
    if (!is_common && !is_ceil && !(way && jj_str_is(way, "floor", 5)))
        return bt_jj_fail(r, BT_EFORMAT, "method must be common, ceil or floor");
    if (is_common) {
        if (self->kind == JJ_FLOAT) *ret = jj_float(round_places(self->f, places));
        else if (places >= 0) *ret = jj_int(jj_whole(self));
        else {
            const double f = round_places((double)jj_whole(self), places);
            if (!(fabs(f) < 0x1p63)) return bt_jj_fail(r, BT_EFORMAT, "an integer beyond 64 bits");
            *ret = jj_int((int64_t)f);
        }
    } else {
        const double unit = pow(10, (double)places), n = jj_real(self) * unit;
        *ret = jj_float((is_ceil ? ceil(n) : floor(n)) / unit);
    }
    ret->is_template = self->is_template;
    return true;
}

FILTER(filesizeformat)
{
    (void)call;
    static const char units[] = "kMGTPEZY";
    const bool is_binary = is_true(&a[0]);
    const double base = is_binary ? 1024 : 1000;
    double n = 0;
    char text[64];
    if (self->kind == JJ_STR && !jj_step(r, self->s->len / 16)) return false;
    if (self->kind == JJ_STR ? !read_float(&n, self->s) : !jj_is_number(self))
        return bt_jj_fail(r, BT_EFORMAT, "filesizeformat works on numbers");
    if (self->kind != JJ_STR) n = jj_real(self);
    if (n == 1) strcpy(text, "1 Byte");
    else if (n < base) snprintf(text, sizeof text, "%.0f Bytes", trunc(n) + 0.0); /* no -0 */
    else {
        int i = 0;
        double unit = base * base;
        for (; i < 7 && n >= unit; i++) unit *= base;
        snprintf(text, sizeof text, "%.1f %c%s", base * n / unit, is_binary && i == 0 ? 'K' : units[i],
                 is_binary ? "iB" : "B");
    }
    jj_buf b = jj_buf_of(r);
    return bt_jj_buf_text(&b, text, self->is_template) && jj_give(ret, bt_jj_buf_str(&b, true));
}

/* ---- any value ---- */

FILTER(otherwise)
{
    (void)r, (void)call;
    const bool is_lacking = self->kind == JJ_UNDEFINED || (is_true(&a[1]) && !bt_jj_value_truth(self));
    if (!is_lacking) *ret = *self;
    else if (a[0].kind != JJ_MISSING) *ret = a[0];
    else return bt_jj_value_cstr(r, ret, "");
    return true;
}

FILTER(attr)
{
    (void)call;
    if (a[0].kind != JJ_STR) return bt_jj_fail(r, BT_EFORMAT, "attr needs a name");
    const jj_value *v = NULL;
    if (self->kind == JJ_DICT && !bt_jj_dict_find(r, &v, self->dict, a[0].s)) return false;
    if (v) return bt_jj_value_no_member(r, ret, self, &a[0]);
    return bt_jj_op_member(r, ret, self, a[0].s);
}

FILTER(format)
{
    (void)a;
    jj_value args, text = jj_text(bt_jj_show_str(r, self));
    text.is_markup = self->is_markup;
    if (!text.s) return false;
    if (call->keywords > 0) {
        if (call->args > 0)
            return bt_jj_fail(r, BT_EFORMAT,
                              "can't handle positional and keyword arguments at the same time");
        if (!bt_jj_dict_new(r, &args, JJ_DICT, call->keywords)) return false;
        for (size_t i = 0; i < call->keywords; i++) {
            const jj_value key = jj_text(call->keyword[i].name);
            if (!bt_jj_dict_set(r, args.dict, &key, &call->keyword[i].value)) return false;
        }
        return bt_jj_format_percent(r, ret, &text, &args);
    }
    if (!bt_jj_list_new(r, &args, JJ_TUPLE, call->args)) return false;
    for (size_t i = 0; i < call->args; i++) args.list->item[i] = call->arg[i];
    args.list->len = call->args;
    return bt_jj_format_percent(r, ret, &text, &args);
}

/* tojson(ensure_ascii, indent, separators, sort_keys), as transformers has it */
FILTER(tojson)
{
    (void)call;
    jj_json_form form = {.is_ascii = is_true(&a[0]), .is_sorted = is_true(&a[3])};
    jj_buf b = jj_buf_of(r), indent = jj_buf_of(r);
    if (a[1].kind == JJ_STR) form.indent = a[1].s;
    else if (a[1].kind != JJ_MISSING && a[1].kind != JJ_NONE) {
        int64_t width;
        if (!bt_jj_method_whole(r, &width, &a[1], 0)) return false;
        for (int64_t i = 0; i < width; i++)
            if (!jj_step(r, 1) || !bt_jj_buf_text(&indent, " ", true)) return false;
        if (!(form.indent = bt_jj_buf_str(&indent, true))) return false;
    }
    if (a[2].kind == JJ_LIST && a[2].list->len == 2 && a[2].list->item[0].kind == JJ_STR &&
        a[2].list->item[1].kind == JJ_STR) {
        form.item_end = a[2].list->item[0].s;
        form.key_end = a[2].list->item[1].s;
    } else if (a[2].kind != JJ_MISSING && a[2].kind != JJ_NONE)
        return bt_jj_fail(r, BT_EFORMAT, "separators are a pair of texts");
    if (!bt_jj_value_fail_undefined(r, self)) return false;
    return bt_jj_show_json(&b, self, &form) && jj_give(ret, bt_jj_buf_str(&b, true));
}

// clang-format off
static const jj_native filters[] = {
    {"abs", "", 0, abs_}, {"attr", "name", 1, attr}, {"capitalize", "", 0, capitalize}, {"center", "width", 0, center},
    {"d", "default_value boolean", 0, otherwise}, {"default", "default_value boolean", 0, otherwise},
    {"e", "", 0, escape}, {"escape", "", 0, escape}, {"filesizeformat", "binary", 0, filesizeformat},
    {"float", "default", 0, to_float}, {"forceescape", "", 0, forceescape}, {"format", "*", 0, format},
    {"indent", "width first blank", 0, indent}, {"int", "default base", 0, to_int}, {"lower", "", 0, lower},
    {"replace", "old new count", 2, replace}, {"round", "precision method", 0, round_}, {"safe", "", 0, safe},
    {"string", "", 0, string}, {"striptags", "", 0, striptags}, {"title", "", 0, title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, tojson}, {"trim", "chars", 0, trim},
    {"truncate", "length killwords end leeway", 0, truncate_}, {"upper", "", 0, upper},
    {"urlencode", "", 0, urlencode}, {"wordcount", "", 0, wordcount}, {NULL, NULL, 0, NULL},
};
// clang-format on

static const jj_native *find(const jj_native *n, const char *name, size_t len)
{
    for (; n->name; n++)
        if (strlen(n->name) == len && memcmp(n->name, name, len) == 0) return n;
    return NULL;
}

const jj_native *bt_jj_filter_find(const char *name, size_t len)
{
    const jj_native *n = find(filters, name, len);
    return n ? n : find(bt_jj_filter_seq, name, len);
}
