/* Methods: for each kind of value a table, with Python's arguments. */
#include "text/jinja/jj_method.h"

#include "text/jinja/jj_case.h"
#include "text/jinja/jj_show.h"

#include <string.h>

#define METHOD(name) \
    static bool name(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
#define UNUSED (void)r, (void)self, (void)a, (void)call

bool bt_jj_method_whole(jj_run *r, int64_t *ret, const jj_value *v, int64_t other)
{
    *ret = other;
    if (v->kind == JJ_MISSING) return true;
    if (!bt_jj_value_fail_undefined(r, v)) return false;
    if (!jj_is_whole(v))
        return bt_jj_fail(r, BT_EFORMAT, "'%s' object cannot be interpreted as an integer",
                          bt_jj_value_type(v));
    *ret = jj_whole(v);
    return true;
}

static bool want_text(jj_run *r, const jj_str **ret, const jj_value *v)
{
    *ret = v->s; /* no text, where it fails */
    if (!bt_jj_value_fail_undefined(r, v)) return false;
    if (v->kind == JJ_STR) return true;
    return bt_jj_fail(r, BT_EFORMAT, "must be str, not %s", bt_jj_value_type(v));
}

/* ---- strip ---- */

static bool is_among(uint32_t c, const jj_str *chars)
{
    if (!chars) return bt_jj_is_space(c);
    for (size_t i = 0, bytes; i < chars->len; i += bytes)
        if (bt_jj_code(chars->ptr, chars->len, i, &bytes) == c) return true;
    return false;
}

const jj_str *bt_jj_method_strip(jj_run *r, const jj_str *s, const jj_value *which, bool front, bool back)
{
    const jj_str *chars = NULL;
    if (which->kind != JJ_MISSING && which->kind != JJ_NONE && !want_text(r, &chars, which)) return NULL;
    size_t begin = 0, end = s->len, bytes;
    const uint64_t each = chars ? 1 + chars->len / 8 : 0;
    for (; front && begin < end; begin += bytes)
        if (!is_among(bt_jj_code(s->ptr, s->len, begin, &bytes), chars)) break;
        else if (!jj_step(r, each)) return NULL;
    while (back && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)s->ptr[at] & 0xc0) == 0x80) at--;
        if (!is_among(bt_jj_code(s->ptr, s->len, at, &bytes), chars)) break;
        if (!jj_step(r, each)) return NULL;
        end = at;
    }
    return jj_step(r, (begin + s->len - end) / 16) ? bt_jj_str_part(r, s, begin, end) : NULL;
}

METHOD(strip)
{
    (void)call;
    return jj_give(ret, bt_jj_method_strip(r, self->s, &a[0], true, true));
}
METHOD(lstrip)
{
    (void)call;
    return jj_give(ret, bt_jj_method_strip(r, self->s, &a[0], true, false));
}
METHOD(rstrip)
{
    (void)call;
    return jj_give(ret, bt_jj_method_strip(r, self->s, &a[0], false, true));
}

METHOD(removeprefix)
{
    UNUSED;
    const jj_str *p, *s = self->s;
    if (!want_text(r, &p, &a[0]) || !jj_step_bytes(r, p->len)) return false;
    const bool has = p->len <= s->len && jj_str_is(p, s->ptr, p->len);
    return jj_give(ret, bt_jj_str_part(r, s, has ? p->len : 0, s->len));
}
METHOD(removesuffix)
{
    UNUSED;
    const jj_str *p, *s = self->s;
    if (!want_text(r, &p, &a[0]) || !jj_step_bytes(r, p->len)) return false;
    const bool has = p->len <= s->len && p->len > 0 && jj_str_is(p, s->ptr + s->len - p->len, p->len);
    return jj_give(ret, bt_jj_str_part(r, s, 0, has ? s->len - p->len : s->len));
}

/* ---- split ---- */

static bool add_part(jj_run *r, jj_list *l, size_t *cap, const jj_str *s, size_t begin, size_t end)
{
    jj_value part;
    return jj_step(r, 1) && jj_give(&part, bt_jj_str_part(r, s, begin, end)) &&
           bt_jj_list_add(r, l, cap, &part);
}

static size_t skip(const jj_str *s, size_t at, bool over_space)
{
    for (size_t bytes; at < s->len; at += bytes)
        if (bt_jj_is_space(bt_jj_code(s->ptr, s->len, at, &bytes)) != over_space) break;
    return at;
}

static size_t skip_back(const jj_str *s, size_t at, bool over_space)
{
    while (at > 0) {
        size_t before = at - 1, bytes;
        while (before > 0 && ((unsigned char)s->ptr[before] & 0xc0) == 0x80) before--;
        if (bt_jj_is_space(bt_jj_code(s->ptr, s->len, before, &bytes)) != over_space) break;
        at = before;
    }
    return at;
}

static void turn_round(jj_list *l)
{
    for (size_t i = 0; i < l->len / 2; i++) {
        const jj_value v = l->item[i];
        l->item[i] = l->item[l->len - 1 - i];
        l->item[l->len - 1 - i] = v;
    }
}

static bool split_spaces(jj_run *r, jj_list *l, const jj_str *s, int64_t most, bool is_back)
{
    size_t cap = 0;
    if (!jj_step_bytes(r, s->len)) return false;
    if (!is_back) {
        for (size_t at = skip(s, 0, true); at < s->len;) {
            const bool is_rest = most >= 0 && (int64_t)l->len == most;
            const size_t end = is_rest ? s->len : skip(s, at, false);
            if (!add_part(r, l, &cap, s, at, end)) return false;
            at = is_rest ? s->len : skip(s, end, true);
        }
        return true;
    }
    for (size_t end = skip_back(s, s->len, true); end > 0;) {
        const bool is_rest = most >= 0 && (int64_t)l->len == most;
        const size_t at = is_rest ? 0 : skip_back(s, end, false);
        if (!add_part(r, l, &cap, s, at, end)) return false;
        end = is_rest ? 0 : skip_back(s, at, true);
    }
    turn_round(l);
    return true;
}

static bool split_by(jj_run *r, jj_list *l, const jj_str *s, const jj_str *sep, int64_t most, bool is_back)
{
    size_t cap = 0, begin = 0, end = s->len;
    if (sep->len == 0) return bt_jj_fail(r, BT_EFORMAT, "empty separator");
    if (!jj_step_bytes(r, s->len)) return false;
    while (!is_back && (most < 0 || (int64_t)l->len < most)) {
        const size_t at = bt_jj_str_find(s, sep, begin, end);
        if (at == SIZE_MAX) break;
        if (!jj_step(r, sep->len / 16) || !add_part(r, l, &cap, s, begin, at)) return false;
        begin = at + sep->len;
    }
    while (is_back && (most < 0 || (int64_t)l->len < most)) {
        size_t at;
        if (!bt_jj_str_rfind(&at, r, s, sep, 0, end)) return false;
        if (at == SIZE_MAX) break;
        if (!add_part(r, l, &cap, s, at + sep->len, end)) return false;
        end = at;
    }
    if (!add_part(r, l, &cap, s, begin, end)) return false;
    if (is_back) turn_round(l);
    return true;
}

static bool cut(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, bool is_back)
{
    int64_t most;
    const jj_str *sep;
    if (!bt_jj_method_whole(r, &most, &a[1], -1) || !bt_jj_list_new(r, ret, JJ_PLAIN, 0)) return false;
    if (a[0].kind == JJ_MISSING || a[0].kind == JJ_NONE)
        return split_spaces(r, ret->list, self->s, most, is_back);
    return want_text(r, &sep, &a[0]) && split_by(r, ret->list, self->s, sep, most, is_back);
}
METHOD(split)
{
    (void)call;
    return cut(r, ret, self, a, false);
}
METHOD(rsplit)
{
    (void)call;
    return cut(r, ret, self, a, true);
}

static bool part_in_three(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, bool is_back)
{
    const jj_str *s = self->s, *sep;
    size_t at, cap = 3;
    if (!want_text(r, &sep, &a[0]) || !bt_jj_list_new(r, ret, JJ_TUPLE, cap)) return false;
    if (sep->len == 0) return bt_jj_fail(r, BT_EFORMAT, "empty separator");
    if (!is_back) at = jj_step_bytes(r, s->len) ? bt_jj_str_find(s, sep, 0, s->len) : SIZE_MAX;
    else if (!bt_jj_str_rfind(&at, r, s, sep, 0, s->len)) return false;
    jj_list *l = ret->list;
    if (at != SIZE_MAX)
        return add_part(r, l, &cap, s, 0, at) && add_part(r, l, &cap, s, at, at + sep->len) &&
               add_part(r, l, &cap, s, at + sep->len, s->len);
    return (is_back || add_part(r, l, &cap, s, 0, s->len)) && add_part(r, l, &cap, s, 0, 0) &&
           add_part(r, l, &cap, s, 0, 0) && (!is_back || add_part(r, l, &cap, s, 0, s->len));
}
METHOD(partition)
{
    (void)call;
    return part_in_three(r, ret, self, a, false);
}
METHOD(rpartition)
{
    (void)call;
    return part_in_three(r, ret, self, a, true);
}

bool bt_jj_method_lines(jj_run *r, jj_value *ret, const jj_str *s, bool keep_ends)
{
    size_t cap = 0, begin = 0;
    if (!jj_step_bytes(r, s->len) || !bt_jj_list_new(r, ret, JJ_PLAIN, 0)) return false;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        if (!bt_jj_is_line_end(c)) continue;
        if (c == '\r' && i + 1 < s->len && s->ptr[i + 1] == '\n') bytes = 2;
        if (!add_part(r, ret->list, &cap, s, begin, keep_ends ? i + bytes : i)) return false;
        begin = i + bytes;
    }
    return begin == s->len || add_part(r, ret->list, &cap, s, begin, s->len);
}
METHOD(splitlines)
{
    (void)call;
    return bt_jj_method_lines(r, ret, self->s, bt_jj_value_truth(&a[0]));
}

/* ---- replace, join, pad ---- */

const jj_str *bt_jj_method_replace(jj_run *r, const jj_str *s, const jj_str *old, const jj_str *by,
                                   int64_t most)
{
    jj_buf b = jj_buf_of(r);
    size_t begin = 0, at = 0;
    if (!jj_step_bytes(r, s->len)) return NULL;
    for (int64_t n = 0; most < 0 || n < most; n++) {
        size_t bytes = 0;
        if (old->len > 0) {
            if ((at = bt_jj_str_find(s, old, begin, s->len)) == SIZE_MAX) break;
        } else if (n > 0) { /* between all characters, and at both ends */
            if (begin == s->len) break;
            bt_jj_code(s->ptr, s->len, begin, &bytes);
            at = begin + bytes;
        }
        if (!jj_step(r, 1 + old->len / 16) || !bt_jj_buf_part(&b, s, begin, at) || !bt_jj_buf_add(&b, by))
            return NULL;
        begin = at + old->len;
    }
    if (begin == 0 && b.len == 0) return s;
    return bt_jj_buf_part(&b, s, begin, s->len) ? bt_jj_buf_str(&b, s->is_template) : NULL;
}
METHOD(replace)
{
    (void)call;
    const jj_str *old, *by;
    int64_t most;
    jj_value markup = a[1];
    if (self->is_markup && !bt_jj_show_escaped(r, &markup, &a[1])) return false;
    return want_text(r, &old, &a[0]) && want_text(r, &by, &markup) &&
           bt_jj_method_whole(r, &most, &a[2], -1) &&
           jj_give(ret, bt_jj_method_replace(r, self->s, old, by, most));
}

METHOD(join)
{
    (void)call;
    jj_walk w;
    jj_value item;
    jj_buf b = jj_buf_of(r);
    size_t n = 0;
    if (!bt_jj_value_fail_undefined(r, &a[0]) || !bt_jj_walk_begin(r, &w, &a[0])) return false;
    for (; bt_jj_walk_next(&w, &item); n++) {
        if (self->is_markup && !bt_jj_show_escaped(r, &item, &item)) return false;
        if (item.kind != JJ_STR)
            return bt_jj_fail(r, BT_EFORMAT, "sequence item %zu: expected str instance, %s found", n,
                              bt_jj_value_type(&item));
        if ((n > 0 && !bt_jj_buf_add(&b, self->s)) || !bt_jj_buf_add(&b, item.s)) return false;
    }
    return r->err == BT_OK && jj_give(ret, bt_jj_buf_str(&b, true));
}

static const jj_str *pad(jj_run *r, const jj_str *s, int64_t before, int64_t after, const jj_str *fill)
{
    jj_buf b = jj_buf_of(r);
    for (int64_t i = 0; i < before; i++)
        if (!jj_step(r, 1) || !bt_jj_buf_add(&b, fill)) return NULL;
    if (!bt_jj_buf_add(&b, s)) return NULL;
    for (int64_t i = 0; i < after; i++)
        if (!jj_step(r, 1) || !bt_jj_buf_add(&b, fill)) return NULL;
    return bt_jj_buf_str(&b, s->is_template);
}

static const jj_str space = {" ", 1, NULL, true, NULL};

const jj_str *bt_jj_method_center(jj_run *r, const jj_str *s, int64_t width)
{
    if (!jj_step_bytes(r, s->len)) return NULL;
    const int64_t chars = (int64_t)bt_jj_str_chars(s), more = width > chars ? width - chars : 0;
    const int64_t left = more / 2 + (more & width & 1);
    return more > 0 ? pad(r, s, left, more - left, &space) : s;
}

static bool justify(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, int side)
{
    int64_t width;
    const jj_str *fill = &space;
    if (!bt_jj_method_whole(r, &width, &a[0], 0)) return false;
    if (a[1].kind != JJ_MISSING && !want_text(r, &fill, &a[1])) return false;
    if (!jj_step_bytes(r, self->s->len + fill->len)) return false;
    if (bt_jj_str_chars(fill) != 1)
        return bt_jj_fail(r, BT_EFORMAT, "The fill character must be exactly one character long");
    const int64_t chars = (int64_t)bt_jj_str_chars(self->s);
    if (width <= chars) return jj_give(ret, self->s);
    const int64_t more = width - chars;
    const int64_t left = side < 0 ? 0 : side > 0 ? more : more / 2 + (more & width & 1);
    return jj_give(ret, pad(r, self->s, left, more - left, fill));
}
METHOD(center)
{
    (void)call;
    return justify(r, ret, self, a, 0);
}
METHOD(ljust)
{
    (void)call;
    return justify(r, ret, self, a, -1);
}
METHOD(rjust)
{
    (void)call;
    return justify(r, ret, self, a, 1);
}
METHOD(zfill)
{
    (void)call;
    int64_t width;
    const jj_str *s = self->s;
    if (!bt_jj_method_whole(r, &width, &a[0], 0) || !jj_step_bytes(r, s->len)) return false;
    const size_t sign = s->len > 0 && (s->ptr[0] == '-' || s->ptr[0] == '+');
    jj_buf b = jj_buf_of(r);
    if (!bt_jj_buf_part(&b, s, 0, sign)) return false;
    for (int64_t i = (int64_t)bt_jj_str_chars(s); i < width; i++)
        if (!jj_step(r, 1) || !bt_jj_buf_text(&b, "0", s->is_template)) return false;
    return bt_jj_buf_part(&b, s, sign, s->len) && jj_give(ret, bt_jj_buf_str(&b, s->is_template));
}
METHOD(expandtabs)
{
    (void)call;
    int64_t width, column = 0;
    const jj_str *s = self->s;
    jj_buf b = jj_buf_of(r);
    if (!bt_jj_method_whole(r, &width, &a[0], 8) || !jj_step(r, s->len / 16)) return false;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        if (c != '\t') {
            column = c == '\n' || c == '\r' ? 0 : column + 1;
            if (!bt_jj_buf_part(&b, s, i, i + bytes)) return false;
            continue;
        }
        for (int64_t n = width > 0 ? width - column % width : 0; n > 0; n--, column++)
            if (!jj_step(r, 1) || !bt_jj_buf_text(&b, " ", jj_str_mark(s, i))) return false;
    }
    return jj_give(ret, bt_jj_buf_str(&b, s->is_template));
}

/* ---- searching ---- */

/* The bytes that s[a:b] stands for; *is_in false: a is beyond the end. */
static bool window(jj_run *r, const jj_str *s, const jj_value *a, size_t *begin, size_t *end, bool *is_in)
{
    int64_t from, to;
    jj_value none = {0};
    const jj_value *x = a[0].kind == JJ_NONE ? &none : &a[0], *y = a[1].kind == JJ_NONE ? &none : &a[1];
    *is_in = true;
    *begin = 0;
    *end = s->len;
    if (x->kind == JJ_MISSING && y->kind == JJ_MISSING) return true;
    const int64_t len = (int64_t)bt_jj_str_chars(s);
    if (!jj_step_bytes(r, s->len) || !bt_jj_method_whole(r, &from, x, 0) ||
        !bt_jj_method_whole(r, &to, y, len))
        return false;
    if (from < 0) from = from + len < 0 ? 0 : from + len;
    if (to < 0) to = to + len < 0 ? 0 : to + len;
    if (to > len) to = len;
    *is_in = from <= to && from <= len;
    *begin = bt_jj_str_at(s, (size_t)from);
    *end = bt_jj_str_at(s, (size_t)to);
    return true;
}

static bool find_in(jj_run *r, int64_t *ret, const jj_value *self, const jj_value *a, bool is_back)
{
    const jj_str *s = self->s, *what;
    size_t begin, end, at = SIZE_MAX;
    bool is_in;
    *ret = -1;
    if (!want_text(r, &what, &a[0]) || !window(r, s, a + 1, &begin, &end, &is_in) ||
        !jj_step_bytes(r, s->len))
        return false;
    if (!is_in) return true;
    if (!is_back) at = bt_jj_str_find(s, what, begin, end);
    else if (!bt_jj_str_rfind(&at, r, s, what, begin, end)) return false;
    if (at == SIZE_MAX) return true;
    const jj_str front = {s->ptr, at, NULL, true, NULL};
    *ret = (int64_t)bt_jj_str_chars(&front);
    return true;
}
static bool find_or_fail(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, bool is_back,
                         bool must)
{
    int64_t at;
    if (!find_in(r, &at, self, a, is_back)) return false;
    *ret = jj_int(at);
    return !must || at >= 0 || bt_jj_fail(r, BT_EFORMAT, "substring not found");
}
METHOD(find)
{
    (void)call;
    return find_or_fail(r, ret, self, a, false, false);
}
METHOD(rfind)
{
    (void)call;
    return find_or_fail(r, ret, self, a, true, false);
}
METHOD(index_of)
{
    (void)call;
    return find_or_fail(r, ret, self, a, false, true);
}
METHOD(rindex_of)
{
    (void)call;
    return find_or_fail(r, ret, self, a, true, true);
}
METHOD(count_text)
{
    (void)call;
    const jj_str *s = self->s, *what;
    size_t begin, end;
    bool is_in;
    int64_t n = 0;
    if (!want_text(r, &what, &a[0]) || !window(r, s, a + 1, &begin, &end, &is_in) ||
        !jj_step_bytes(r, s->len))
        return false;
    if (what->len == 0) {
        const jj_str inner = {s->ptr + begin, is_in ? end - begin : 0, NULL, true, NULL};
        n = is_in ? (int64_t)bt_jj_str_chars(&inner) + 1 : 0;
    }
    for (size_t at; is_in && what->len > 0 && (at = bt_jj_str_find(s, what, begin, end)) != SIZE_MAX; n++) {
        if (!jj_step(r, 1 + what->len / 16)) return false;
        begin = at + what->len;
    }
    *ret = jj_int(n);
    return true;
}

/* startswith, endswith: a text, or one of a tuple. */
static bool has_edge(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, bool is_back)
{
    const jj_str *s = self->s;
    size_t begin, end;
    bool is_in, has = false;
    const bool is_tuple = a[0].kind == JJ_LIST && a[0].list->style == JJ_TUPLE;
    if (!bt_jj_value_fail_undefined(r, &a[0]) || !window(r, s, a + 1, &begin, &end, &is_in)) return false;
    if (!is_tuple && a[0].kind != JJ_STR)
        return bt_jj_fail(r, BT_EFORMAT, "%s first arg must be str or a tuple of str, not %s",
                          is_back ? "endswith" : "startswith", bt_jj_value_type(&a[0]));
    for (size_t i = 0; !has && i < (is_tuple ? a[0].list->len : 1); i++) {
        const jj_str *p;
        if (!want_text(r, &p, is_tuple ? &a[0].list->item[i] : &a[0]) || !jj_step_bytes(r, p->len))
            return false;
        if (is_in && p->len <= end - begin)
            has = jj_str_is(p, s->ptr + (is_back ? end - p->len : begin), p->len);
    }
    *ret = jj_bool(has);
    return true;
}
METHOD(startswith)
{
    (void)call;
    return has_edge(r, ret, self, a, false);
}
METHOD(endswith)
{
    (void)call;
    return has_edge(r, ret, self, a, true);
}

/* ---- case and classes ---- */

#define CASE(name, to) \
    METHOD(name) \
    { \
        (void)a, (void)call; \
        return jj_give(ret, bt_jj_case(r, self->s, to)); \
    }
CASE(upper, JJ_UPPER)
CASE(lower, JJ_LOWER)
CASE(title, JJ_TITLE)
CASE(capitalize, JJ_CAPITAL)
CASE(swapcase, JJ_SWAP)
CASE(casefold, JJ_FOLD)
#define CLASS(name, what) \
    METHOD(name) \
    { \
        (void)a, (void)call; \
        *ret = jj_bool(bt_jj_case_is(self->s, what)); \
        return jj_step_bytes(r, self->s->len); \
    }
CLASS(isalpha_, JJ_ALPHA)
CLASS(isalnum_, JJ_ALNUM)
CLASS(isdigit_, JJ_DIGIT)
CLASS(isdecimal, JJ_DECIMAL)
CLASS(isnumeric, JJ_NUMERIC)
CLASS(isspace_, JJ_SPACES)
CLASS(isupper_, JJ_IS_UPPER)
CLASS(islower_, JJ_IS_LOWER)
CLASS(istitle, JJ_IS_TITLE)
CLASS(isascii_, JJ_ASCII)
CLASS(isprintable, JJ_PRINTABLE)

METHOD(format)
{
    (void)a;
    return bt_jj_format_braces(r, ret, self, call);
}

/* ---- lists ---- */

METHOD(list_index)
{
    (void)call;
    for (size_t i = 0; i < self->list->len; i++) {
        bool same;
        if (!jj_step(r, 1) || !bt_jj_value_equal(r, &same, &self->list->item[i], &a[0])) return false;
        if (!same) continue;
        *ret = jj_int((int64_t)i);
        return true;
    }
    return bt_jj_fail(r, BT_EFORMAT, "the value is not in the list");
}
METHOD(list_count)
{
    (void)call;
    int64_t n = 0;
    for (size_t i = 0; i < self->list->len; i++) {
        bool same;
        if (!jj_step(r, 1) || !bt_jj_value_equal(r, &same, &self->list->item[i], &a[0])) return false;
        n += same;
    }
    *ret = jj_int(n);
    return true;
}
METHOD(copy)
{
    UNUSED;
    *ret = *self;
    return true;
}

/* ---- mappings ---- */

METHOD(dict_get)
{
    (void)call;
    const jj_value *v;
    if (!bt_jj_dict_get(r, &v, self->dict, &a[0])) return false;
    *ret = v ? *v : a[1].kind != JJ_MISSING ? a[1] : jj_none();
    return true;
}

static bool view(jj_run *r, jj_value *ret, const jj_value *self, jj_style style)
{
    const jj_dict *d = self->dict;
    if (!jj_step(r, d->len) || !bt_jj_list_new(r, ret, style, d->len)) return false;
    for (size_t i = 0; i < d->len; i++) {
        jj_value *to = &ret->list->item[i];
        if (style != JJ_ITEMS) {
            *to = style == JJ_KEYS ? d->key[i] : d->value[i];
            continue;
        }
        if (!bt_jj_list_new(r, to, JJ_TUPLE, 2)) return false;
        to->list->item[0] = d->key[i];
        to->list->item[1] = d->value[i];
        to->list->len = 2;
        to->is_template = self->is_template;
    }
    ret->list->len = d->len;
    ret->is_template = self->is_template;
    return true;
}
METHOD(keys)
{
    (void)a, (void)call;
    return view(r, ret, self, JJ_KEYS);
}
METHOD(values)
{
    (void)a, (void)call;
    return view(r, ret, self, JJ_VALUES);
}
METHOD(items)
{
    (void)a, (void)call;
    return view(r, ret, self, JJ_ITEMS);
}

// clang-format off
static const jj_native text_methods[] = {
    {"strip", "chars", 0, strip}, {"lstrip", "chars", 0, lstrip}, {"rstrip", "chars", 0, rstrip},
    {"split", "sep maxsplit", 0, split}, {"rsplit", "sep maxsplit", 0, rsplit},
    {"splitlines", "keepends", 0, splitlines}, {"partition", "sep", 1, partition}, {"rpartition", "sep", 1, rpartition},
    {"startswith", "prefix start end", 1, startswith}, {"endswith", "suffix start end", 1, endswith},
    {"replace", "old new count", 2, replace}, {"join", "iterable", 1, join}, {"format", "*", 0, format},
    {"removeprefix", "prefix", 1, removeprefix}, {"removesuffix", "suffix", 1, removesuffix},
    {"find", "sub start end", 1, find}, {"rfind", "sub start end", 1, rfind},
    {"index", "sub start end", 1, index_of}, {"rindex", "sub start end", 1, rindex_of},
    {"count", "sub start end", 1, count_text},
    {"upper", "", 0, upper}, {"lower", "", 0, lower}, {"casefold", "", 0, casefold}, {"title", "", 0, title},
    {"capitalize", "", 0, capitalize}, {"swapcase", "", 0, swapcase},
    {"center", "width fillchar", 1, center}, {"ljust", "width fillchar", 1, ljust},
    {"rjust", "width fillchar", 1, rjust},
    {"zfill", "width", 1, zfill}, {"expandtabs", "tabsize", 0, expandtabs},
    {"isalpha", "", 0, isalpha_}, {"isalnum", "", 0, isalnum_}, {"isdigit", "", 0, isdigit_},
    {"isdecimal", "", 0, isdecimal}, {"isnumeric", "", 0, isnumeric}, {"isspace", "", 0, isspace_},
    {"isupper", "", 0, isupper_}, {"islower", "", 0, islower_}, {"istitle", "", 0, istitle},
    {"isascii", "", 0, isascii_}, {"isprintable", "", 0, isprintable}, {NULL, NULL, 0, NULL},
};
static const jj_native list_methods[] = {
    {"index", "value", 1, list_index}, {"count", "value", 1, list_count}, {"copy", "", 0, copy}, {NULL, NULL, 0, NULL},
};
static const jj_native dict_methods[] = {
    {"get", "key default", 1, dict_get}, {"items", "", 0, items}, {"keys", "", 0, keys}, {"values", "", 0, values},
    {"copy", "", 0, copy}, {NULL, NULL, 0, NULL},
};
// clang-format on
static const char *const list_changes[] = {"append", "clear",   "extend", "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};
static const char *const dict_changes[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};

bool bt_jj_method_of(jj_run *r, jj_value *ret, bool *is_there, const jj_value *of, const jj_str *name)
{
    const jj_native *m = NULL;
    const char *const *change = NULL;
    if (of->kind == JJ_STR) m = text_methods;
    else if (of->kind == JJ_DICT) m = dict_methods, change = dict_changes;
    else if (of->kind == JJ_LIST && of->list->style <= JJ_RANGE) m = list_methods;
    if (of->kind == JJ_LIST && of->list->style == JJ_PLAIN) change = list_changes;
    *is_there = true;
    for (; m && m->name; m++) {
        if (!jj_str_is(name, m->name, strlen(m->name))) continue;
        jj_bound *b = bt_jj_take(r, sizeof *b);
        if (!b) return false;
        *b = (jj_bound){m, *of};
        *ret = (jj_value){.kind = JJ_NATIVE, .is_template = true, .native = b};
        return true;
    }
    for (; change && *change; change++)
        if (jj_str_is(name, *change, strlen(*change)))
            return bt_jj_value_undefined(r, ret,
                                         of->kind == JJ_DICT
                                             ? "access to a method that changes a dict is unsafe."
                                             : "access to a method that changes a list is unsafe.");
    *is_there = false;
    return true;
}

bool bt_jj_method_run(jj_run *r, jj_value *ret, const jj_bound *b, const jj_call *call)
{
    if (!bt_jj_value_run(r, ret, b->native, &b->self, call)) return false;
    if (b->self.kind != JJ_STR || !b->self.is_markup) return true;
    if (ret->kind == JJ_STR) ret->is_markup = true;
    for (size_t i = 0; ret->kind == JJ_LIST && i < ret->list->len; i++) ret->list->item[i].is_markup = true;
    return true;
}
