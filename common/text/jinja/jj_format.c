/* Python's two ways to fill in a text: "%s %d" % values, and "{} {name}".format(values). Literal parts keep
 * their origins, as do texts that are filled in; digits have the origin of their number, and padding that of
 * the directive. */
#include "text/jinja/jj_show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 4096, MAX_PRECISION = 100 };

/* The fields of a directive; 0: nothing. */
typedef struct form {
    char align, sign, type; /* '<', '>', '=', '^'; '+', ' ' */
    const char *fill;       /* one character of fill_len bytes */
    size_t fill_len;
    bool is_alternate, has_precision, mine;
    char group; /* ',' or '_' */
    int64_t width, precision;
} form;

static bool padded(jj_buf *b, const form *f, const jj_str *body, size_t sign)
{
    const int64_t more = f->width - (int64_t)bt_jj_str_chars(body);
    const int64_t left = more <= 0 || f->align == '<' || f->align == '=' ? 0
                         : f->align == '^'                               ? more / 2
                                                                         : more;
    for (int64_t i = 0; i < left; i++)
        if (!bt_jj_buf_bytes(b, f->fill, f->fill_len, f->mine)) return false;
    if (f->align != '=') sign = 0;
    if (!bt_jj_buf_part(b, body, 0, sign)) return false;
    for (int64_t i = 0; f->align == '=' && i < more; i++)
        if (!bt_jj_buf_bytes(b, f->fill, f->fill_len, f->mine)) return false;
    if (!bt_jj_buf_part(b, body, sign, body->len)) return false;
    for (int64_t i = left; f->align != '=' && i < more; i++)
        if (!bt_jj_buf_bytes(b, f->fill, f->fill_len, f->mine)) return false;
    return true;
}

static bool put_text(jj_buf *b, form f, const jj_str *s)
{
    if (f.has_precision) {
        const jj_str *front = bt_jj_str_part(b->run, s, 0, bt_jj_str_at(s, (size_t)f.precision));
        if (!front) return false;
        s = front;
    }
    if (!f.align) f.align = '<';
    return padded(b, &f, s, 0);
}

/* Digits in groups of three (of decimals) or four. */
static void grouped(char *ret, size_t cap, const char *digits, char mark, size_t each)
{
    size_t len = strspn(digits, "0123456789abcdefABCDEF"), n = 0;
    for (size_t i = 0; i < len && n + 2 < cap; i++) {
        if (i > 0 && (len - i) % each == 0) ret[n++] = mark;
        ret[n++] = digits[i];
    }
    snprintf(ret + n, cap - n, "%s", digits + len);
}

static bool put_digits(jj_buf *b, form f, const char *prefix, const char *digits, bool is_minus, bool mine)
{
    char text[512], with[640];
    const char *sign = is_minus ? "-" : f.sign == '+' ? "+" : f.sign == ' ' ? " " : "";
    if (f.group) {
        grouped(with, sizeof with, digits, f.group, strchr("xXob", f.type) && f.type ? 4 : 3);
        digits = with;
    }
    const int len = snprintf(text, sizeof text, "%s%s%s", sign, prefix, digits);
    if (len < 0 || (size_t)len >= sizeof text)
        return bt_jj_fail(b->run, BT_EFORMAT, "a number of too many digits");
    const jj_str body = {text, (size_t)len, NULL, mine, NULL};
    if (!f.align) f.align = '>';
    return padded(b, &f, &body, strlen(sign) + strlen(prefix));
}

static bool put_whole(jj_buf *b, form f, const jj_value *v)
{
    const int64_t i = jj_whole(v);
    const uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    char digits[400];
    const char *prefix = "";
    int n = 0;
    if (f.type == 'c') {
        if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000))
            return bt_jj_fail(b->run, BT_EFORMAT, "%%c arg not in range(0x110000)");
        char c[4];
        const jj_str s = {c, bt_jj_code_bytes(c, (uint32_t)i), NULL, v->is_template, NULL};
        return put_text(b, f, &s);
    }
    if (f.type == 'x' || f.type == 'X')
        n = snprintf(digits, sizeof digits, f.type == 'x' ? "%" PRIx64 : "%" PRIX64, size);
    else if (f.type == 'o') n = snprintf(digits, sizeof digits, "%" PRIo64, size);
    else if (f.type == 'b') {
        for (int bit = size ? 63 - __builtin_clzll(size) : 0; bit >= 0; bit--)
            digits[n++] = (char)('0' + (size >> bit & 1));
        digits[n] = '\0';
    } else n = snprintf(digits, sizeof digits, "%" PRIu64, size);
    if (f.is_alternate)
        prefix = f.type == 'x'   ? "0x"
                 : f.type == 'X' ? "0X"
                 : f.type == 'o' ? "0o"
                 : f.type == 'b' ? "0b"
                                 : "";
    if (f.has_precision && f.precision > n) {
        memmove(digits + f.precision - n, digits, (size_t)n + 1);
        memset(digits, '0', (size_t)(f.precision - n));
    }
    return put_digits(b, f, prefix, digits, i < 0, v->is_template);
}

static bool put_real(jj_buf *b, form f, const jj_value *v)
{
    double d = jj_real(v);
    char digits[512], way[16];
    const bool is_minus = signbit(d) && !isnan(d);
    const int precision = f.has_precision ? (int)f.precision : 6;
    d = fabs(d);
    if (f.type == '%') d *= 100;
    if (!f.type && !f.has_precision) bt_jj_show_float(digits, d);
    else {
        const char type = f.type == '%' ? 'f' : f.type == 'n' || !f.type ? 'g' : f.type;
        snprintf(way, sizeof way, "%%%s.*%c", f.is_alternate ? "#" : "", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(digits, sizeof digits - 1, way, precision, d);
#pragma GCC diagnostic pop
        if (!f.type && !strpbrk(digits, ".en")) strcat(digits, ".0");
    }
    if (f.type == '%') strcat(digits, "%");
    return put_digits(b, f, "", digits, is_minus, v->is_template);
}

static bool put_number(jj_buf *b, form f, const jj_value *v)
{
    if (!bt_jj_value_fail_undefined(b->run, v)) return false;
    if (!jj_is_number(v))
        return bt_jj_fail(b->run, BT_EFORMAT, "%%%c format: a real number is required, not %s",
                          f.type ? f.type : 'd', bt_jj_value_type(v));
    if (f.type && strchr("eEfFgG%", f.type)) return put_real(b, f, v);
    return put_whole(b, f, v);
}

static bool in_bounds(jj_run *r, int64_t width, int64_t precision)
{
    if (width <= MAX_WIDTH && precision <= MAX_PRECISION) return true;
    return bt_jj_fail(r, BT_ELIMIT, "a format is wider than %d or more precise than %d", MAX_WIDTH,
                      MAX_PRECISION);
}

/* ---- % ---- */

typedef struct percent {
    jj_run *run;
    jj_buf out;
    const jj_str *s;
    size_t at, used; /* values of a tuple that were taken */
    const jj_value *v;
    bool has_names;
} percent;

static bool next_value(percent *p, jj_value *ret)
{
    const bool is_tuple = p->v->kind == JJ_LIST && p->v->list->style == JJ_TUPLE;
    if (p->used >= (is_tuple ? p->v->list->len : 1))
        return bt_jj_fail(p->run, BT_EFORMAT, "not enough arguments for format string");
    *ret = is_tuple ? p->v->list->item[p->used] : *p->v;
    p->used++;
    return true;
}

static char peek(const percent *p) { return p->at < p->s->len ? p->s->ptr[p->at] : '\0'; }

static bool number(percent *p, int64_t *ret)
{
    jj_value v;
    *ret = 0;
    if (peek(p) == '*') {
        p->at++;
        if (!next_value(p, &v)) return false;
        if (!jj_is_whole(&v)) return bt_jj_fail(p->run, BT_EFORMAT, "* wants int");
        *ret = jj_whole(&v);
        return true;
    }
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        if (*ret <= MAX_WIDTH) *ret = *ret * 10 + (peek(p) - '0');
    return true;
}

/* One directive; p->at stands behind the %. */
static bool directive(percent *p)
{
    jj_run *r = p->run;
    form f = {.fill = " ", .fill_len = 1, .mine = jj_str_mark(p->s, p->at - 1)};
    jj_value v = {0};
    if (peek(p) == '(') {
        const char *end = memchr(p->s->ptr + p->at, ')', p->s->len - p->at);
        const jj_value *found;
        jj_value key;
        if (!end) return bt_jj_fail(r, BT_EFORMAT, "incomplete format key");
        if (p->v->kind != JJ_DICT) return bt_jj_fail(r, BT_EFORMAT, "format requires a mapping");
        const size_t close = (size_t)(end - p->s->ptr);
        if (!jj_give(&key, bt_jj_str_part(r, p->s, p->at + 1, close)) ||
            !bt_jj_dict_get(r, &found, p->v->dict, &key))
            return false;
        if (!found) return bt_jj_fail(r, BT_EFORMAT, "a key of the format is not in the mapping");
        v = *found;
        p->at = close + 1;
        p->has_names = true;
    }
    for (const char *at; peek(p) && (at = strchr("-+ 0#", peek(p))); p->at++) {
        if (*at == '-') f.align = '<';
        else if (*at == '0' && f.align != '<') f.align = '=', f.fill = "0";
        else if (*at == '+' || (*at == ' ' && f.sign != '+')) f.sign = *at;
        else if (*at == '#') f.is_alternate = true;
    }
    if (!number(p, &f.width)) return false;
    if (f.width < 0) f.align = '<', f.width = f.width < -MAX_WIDTH ? MAX_WIDTH + 1 : -f.width;
    if (peek(p) == '.') {
        p->at++;
        f.has_precision = true;
        if (!number(p, &f.precision)) return false;
        if (f.precision < 0) f.precision = 0;
    }
    if (!in_bounds(r, f.width, f.precision)) return false;
    while (peek(p) && strchr("hlL", peek(p))) p->at++;
    f.type = peek(p);
    if (!f.type) return bt_jj_fail(r, BT_EFORMAT, "incomplete format");
    p->at++;
    if (f.type == '%') return bt_jj_buf_bytes(&p->out, "%", 1, f.mine);
    if (v.kind == JJ_MISSING && !next_value(p, &v)) return false;
    if (f.align == '<' || f.fill[0] != '0') f.fill = " ";
    if (f.type == 's' || f.type == 'r' || f.type == 'a' || (f.type == 'c' && v.kind == JJ_STR)) {
        jj_buf b = jj_buf_of(r);
        const jj_str *s = NULL;
        if (f.type == 's' || f.type == 'c') s = bt_jj_show_str(r, &v);
        else if (bt_jj_show_repr(&b, &v)) s = bt_jj_buf_str(&b, v.is_template);
        f.fill = " ";
        f.align = f.align == '<' ? '<' : '>';
        return s && put_text(&p->out, f, s);
    }
    if (!strchr("diuxXoeEfFgGc", f.type))
        return bt_jj_fail(r, BT_EFORMAT, "unsupported format character '%c'",
                          f.type < ' ' || f.type > '~' ? '?' : f.type);
    if (strchr("diu", f.type) && v.kind == JJ_FLOAT) {
        if (!(fabs(v.f) < 0x1p63)) return bt_jj_fail(r, BT_EFORMAT, "an integer beyond 64 bits");
        v = (jj_value){.kind = JJ_INT, .is_template = v.is_template, .i = (int64_t)v.f};
    } else if (strchr("xXoc", f.type) && v.kind == JJ_FLOAT)
        return bt_jj_fail(r, BT_EFORMAT, "%%%c format: an integer is required, not float", f.type);
    return put_number(&p->out, f, &v);
}

static bool is_plain(jj_run *r, const jj_value *text)
{
    return !text->is_markup ||
           bt_jj_fail(r, BT_EFORMAT, "filling values into text that is marked safe is not known");
}

bool bt_jj_format_percent(jj_run *r, jj_value *ret, const jj_value *text, const jj_value *v)
{
    const jj_str *s = text->s;
    if (!is_plain(r, text)) return false;
    percent p = {r, jj_buf_of(r), s, 0, 0, v, false};
    while (p.at < s->len) {
        const char *sign = memchr(s->ptr + p.at, '%', s->len - p.at);
        const size_t end = sign ? (size_t)(sign - s->ptr) : s->len;
        if (!jj_step(r, 1) || !bt_jj_buf_part(&p.out, s, p.at, end)) return false;
        p.at = end + 1;
        if (sign && !directive(&p)) return false;
    }
    const bool is_tuple = v->kind == JJ_LIST && v->list->style == JJ_TUPLE;
    const bool is_map = v->kind == JJ_DICT || (v->kind == JJ_LIST && !is_tuple) || v->kind == JJ_UNDEFINED;
    if (is_tuple ? p.used < v->list->len : !is_map && p.used == 0 && !p.has_names)
        return bt_jj_fail(r, BT_EFORMAT, "not all arguments converted during string formatting");
    return jj_give(ret, bt_jj_buf_str(&p.out, s->is_template));
}

/* ---- {} ---- */

static bool read_count(const char *p, size_t len, size_t *at, int64_t *ret)
{
    const size_t begin = *at;
    *ret = 0;
    for (; *at < len && p[*at] >= '0' && p[*at] <= '9'; (*at)++)
        if (*ret <= MAX_WIDTH) *ret = *ret * 10 + (p[*at] - '0');
    return *at > begin;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool read_form(jj_run *r, form *f, const char *p, size_t len)
{
    size_t at = 0, bytes = 0;
    if (len > 0) bt_jj_code(p, len, 0, &bytes);
    if (bytes && bytes < len && strchr("<>=^", p[bytes])) {
        f->fill = p;
        f->fill_len = bytes;
        f->align = p[bytes];
        at = bytes + 1;
    } else if (len > 0 && p[0] && strchr("<>=^", p[0])) f->align = p[at++];
    if (at < len && (p[at] == '+' || p[at] == '-' || p[at] == ' ')) f->sign = p[at++];
    if (at < len && p[at] == '#') f->is_alternate = true, at++;
    if (at < len && p[at] == '0') {
        at++;
        if (!f->align) f->fill = "0", f->fill_len = 1, f->align = '=';
    }
    read_count(p, len, &at, &f->width);
    if (at < len && (p[at] == ',' || p[at] == '_')) f->group = p[at++];
    if (at < len && p[at] == '.') {
        at++;
        f->has_precision = true;
        if (!read_count(p, len, &at, &f->precision))
            return bt_jj_fail(r, BT_EFORMAT, "Format specifier missing precision");
    }
    if (at < len && strchr("bcdeEfFgGnosxX%", p[at])) f->type = p[at++];
    if (at < len) return bt_jj_fail(r, BT_EFORMAT, "Invalid format specifier");
    return in_bounds(r, f->width, f->precision);
}

/* is_bare: no form was given. */
static bool put_formatted(jj_buf *b, form f, bool is_bare, const jj_value *v)
{
    jj_run *r = b->run;
    if (v->kind == JJ_STR) {
        if (f.type && f.type != 's')
            return bt_jj_fail(r, BT_EFORMAT, "Unknown format code '%c' for object of type 'str'", f.type);
        return put_text(b, f, v->s);
    }
    if (jj_is_number(v) && !(v->kind == JJ_BOOL && is_bare)) {
        if (v->kind == JJ_FLOAT && f.type && strchr("bcdoxXs", f.type))
            return bt_jj_fail(r, BT_EFORMAT, "Unknown format code '%c' for object of type 'float'", f.type);
        if (v->kind != JJ_FLOAT && f.type == 's')
            return bt_jj_fail(r, BT_EFORMAT, "Unknown format code 's' for object of type 'int'");
        return v->kind == JJ_FLOAT ? put_real(b, f, v) : put_number(b, f, v);
    }
    if (!is_bare)
        return bt_jj_fail(r, BT_EFORMAT, "unsupported format string passed to %s.__format__",
                          bt_jj_value_type(v));
    const jj_str *s = bt_jj_show_str(r, v);
    return s && put_text(b, f, s);
}

/* A name, or a number, or nothing: the next value. */
static bool field_value(jj_run *r, jj_value *ret, const jj_str *s, size_t at, size_t end, const jj_call *call,
                        int64_t *next)
{
    const size_t stop = at + strcspn(s->ptr + at, ".[!:}");
    size_t past = stop < end ? stop : end, digits = at;
    int64_t index;
    const bool is_number = read_count(s->ptr, past, &digits, &index) && digits == past;
    if (past == at) index = (*next)++;
    if (past == at || is_number) {
        if (index < 0 || (size_t)index >= call->args)
            return bt_jj_fail(r, BT_EFORMAT,
                              "Replacement index %" PRId64 " out of range for positional args tuple", index);
        *ret = call->arg[index];
    } else {
        size_t k = 0;
        if (!jj_step(r, call->keywords / 16)) return false;
        while (k < call->keywords && !jj_str_is(call->keyword[k].name, s->ptr + at, past - at)) k++;
        if (k == call->keywords)
            return bt_jj_fail(r, BT_EFORMAT, "a name of the format is not among the arguments");
        *ret = call->keyword[k].value;
    }
    return past == end || bt_jj_fail(r, BT_EFORMAT, "members and elements inside of a format are not known");
}

/* {field!conversion:form}; [at, end) is what stands between the braces. */
static bool replacement(jj_buf *b, const jj_str *s, size_t at, size_t end, const jj_call *call, int64_t *next)
{
    jj_run *r = b->run;
    form f = {.fill = " ", .fill_len = 1, .mine = jj_str_mark(s, at - 1)};
    size_t name = at;
    while (name < end && s->ptr[name] != '!' && s->ptr[name] != ':') name++;
    jj_value v;
    if (!field_value(r, &v, s, at, name, call, next)) return false;
    if (name < end && s->ptr[name] == '!') {
        const char way = name + 1 < end ? s->ptr[name + 1] : '\0';
        jj_buf text = jj_buf_of(r);
        const jj_str *shown = NULL;
        if (way == 's') shown = bt_jj_show_str(r, &v);
        else if (way != 'r' && way != 'a')
            return bt_jj_fail(r, BT_EFORMAT, "an unknown conversion in a format");
        else if (bt_jj_show_repr(&text, &v)) shown = bt_jj_buf_str(&text, v.is_template);
        if (!shown) return false;
        v = jj_text(shown);
        name += 2;
    }
    if (name < end && s->ptr[name] != ':')
        return bt_jj_fail(r, BT_EFORMAT, "expected ':' after conversion specifier");
    if (name < end && !read_form(r, &f, s->ptr + name + 1, end - name - 1)) return false;
    return put_formatted(b, f, name + 1 >= end, &v);
}

bool bt_jj_format_braces(jj_run *r, jj_value *ret, const jj_value *text, const jj_call *call)
{
    const jj_str *s = text->s;
    if (!is_plain(r, text)) return false;
    jj_buf b = jj_buf_of(r);
    int64_t next = 0;
    for (size_t at = 0; at < s->len;) {
        size_t end = at;
        while (end < s->len && s->ptr[end] != '{' && s->ptr[end] != '}') end++;
        if (!jj_step(r, 1) || !bt_jj_buf_part(&b, s, at, end)) return false;
        if (end == s->len) break;
        if (end + 1 < s->len && s->ptr[end + 1] == s->ptr[end]) {
            if (!bt_jj_buf_part(&b, s, end, end + 1)) return false;
            at = end + 2;
            continue;
        }
        if (s->ptr[end] == '}') return bt_jj_fail(r, BT_EFORMAT, "Single '}' encountered in format string");
        const char *close = memchr(s->ptr + end, '}', s->len - end);
        if (!close) return bt_jj_fail(r, BT_EFORMAT, "Single '{' encountered in format string");
        const size_t past = (size_t)(close - s->ptr);
        if (memchr(s->ptr + end + 1, '{', past - end - 1))
            return bt_jj_fail(r, BT_EFORMAT, "formats inside of formats are not known");
        if (!replacement(&b, s, end + 1, past, call, &next)) return false;
        at = past + 1;
    }
    return jj_give(ret, bt_jj_buf_str(&b, s->is_template));
}
