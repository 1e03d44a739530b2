/* Values as text. Signs that stand for a value (digits, quotes, brackets) have the origin of the value. */
#include "text/jinja/jj_show.h"

#include "text/jinja/jinja.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bt_jj_show_float(char ret[JJ_FLOAT_BYTES], double f)
{
    if (isnan(f) || isinf(f)) {
        strcpy(ret, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    char text[JJ_FLOAT_BYTES];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, f);
        if (strtod(text, NULL) == f) break;
    }
    /* D.DDDe[+-]XX: taken apart, and written as Python does */
    char *e = strchr(text, 'e');
    const int exponent = atoi(e + 1);
    *e = '\0';
    const char *sign = text[0] == '-' ? "-" : "";
    char digit[20];
    int n = 0;
    for (const char *p = text + strlen(sign); *p; p++)
        if (*p != '.') digit[n++] = *p;
    while (n > 1 && digit[n - 1] == '0') n--;
    if (exponent < -4 || exponent >= 16)
        snprintf(ret, JJ_FLOAT_BYTES, "%s%c%s%.*se%c%02d", sign, digit[0], n > 1 ? "." : "", n - 1, digit + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(ret, JJ_FLOAT_BYTES, "%s0.%.*s%.*s", sign, -exponent - 1, "000", n, digit);
    else if (n <= exponent + 1)
        snprintf(ret, JJ_FLOAT_BYTES, "%s%.*s%.*s.0", sign, n, digit, exponent + 1 - n, "0000000000000000");
    else
        snprintf(ret, JJ_FLOAT_BYTES, "%s%.*s.%.*s", sign, exponent + 1, digit, n - exponent - 1,
                 digit + exponent + 1);
}

/* The quote that Python takes: ' unless the text has ' and no ". */
static bool repr_text(jj_buf *b, const jj_str *s)
{
    const bool whole = bt_jj_str_is_template(s);
    const char quote = memchr(s->ptr, '\'', s->len) && !memchr(s->ptr, '"', s->len) ? '"' : '\'';
    if (!bt_jj_buf_bytes(b, &quote, 1, whole)) return false;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        char esc[16] = "";
        if (c == (uint32_t)quote || c == '\\') snprintf(esc, sizeof esc, "\\%c", (char)c);
        else if (c == '\n') strcpy(esc, "\\n");
        else if (c == '\r') strcpy(esc, "\\r");
        else if (c == '\t') strcpy(esc, "\\t");
        else if (!bt_jj_is_printable(c))
            snprintf(esc, sizeof esc, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (!jj_step(b->run, 1)) return false;
        if (esc[0] ? !bt_jj_buf_text(b, esc, jj_str_mark(s, i)) : !bt_jj_buf_part(b, s, i, i + bytes))
            return false;
    }
    return bt_jj_buf_bytes(b, &quote, 1, whole);
}

static bool repr_list(jj_buf *b, const jj_value *v)
{
    static const char *const open[] = {"[", "(", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const shut[] = {"]", ")", ")", "", "])", "])", "])"};
    const jj_list *l = v->list;
    const bool mine = v->is_template;
    if (l->style == JJ_ONCE) return bt_jj_buf_text(b, "<generator object>", mine);
    if (l->style == JJ_RANGE) {
        char text[96];
        snprintf(text, sizeof text,
                 l->step == 1 ? "range(%" PRId64 ", %" PRId64 ")"
                              : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                 l->start, l->stop, l->step);
        return bt_jj_buf_text(b, text, mine);
    }
    if (!bt_jj_buf_text(b, open[l->style], mine)) return false;
    for (size_t i = 0; i < l->len; i++)
        if ((i > 0 && !bt_jj_buf_text(b, ", ", mine)) || !bt_jj_show_repr(b, &l->item[i])) return false;
    const bool is_single = l->len == 1 && (l->style == JJ_TUPLE || l->style == JJ_GROUP);
    return (!is_single || bt_jj_buf_text(b, ",", mine)) && bt_jj_buf_text(b, shut[l->style], mine);
}

static bool repr_dict(jj_buf *b, const jj_value *v)
{
    const bool mine = v->is_template;
    if (!bt_jj_buf_text(b, v->kind == JJ_SPACE ? "<Namespace {" : "{", mine)) return false;
    for (size_t i = 0; i < v->dict->len; i++)
        if ((i > 0 && !bt_jj_buf_text(b, ", ", mine)) || !bt_jj_show_repr(b, &v->dict->key[i]) ||
            !bt_jj_buf_text(b, ": ", mine) || !bt_jj_show_repr(b, &v->dict->value[i]))
            return false;
    return bt_jj_buf_text(b, v->kind == JJ_SPACE ? "}>" : "}", mine);
}

bool bt_jj_show_repr(jj_buf *b, const jj_value *v)
{
    char text[JJ_FLOAT_BYTES];
    bool ok = false;
    switch ((jj_kind)v->kind) {
    case JJ_MISSING: return true;
    case JJ_UNDEFINED: return bt_jj_buf_text(b, "Undefined", true);
    case JJ_NONE: return bt_jj_buf_text(b, "None", v->is_template);
    case JJ_BOOL: return bt_jj_buf_text(b, v->b ? "True" : "False", v->is_template);
    case JJ_INT:
        snprintf(text, sizeof text, "%" PRId64, v->i);
        return bt_jj_buf_text(b, text, v->is_template);
    case JJ_FLOAT: bt_jj_show_float(text, v->f); return bt_jj_buf_text(b, text, v->is_template);
    case JJ_STR: return repr_text(b, v->s);
    case JJ_LIST:
    case JJ_DICT:
    case JJ_SPACE:
        if (bt_jj_enter(b->run)) ok = v->kind == JJ_LIST ? repr_list(b, v) : repr_dict(b, v);
        jj_leave(b->run);
        return ok;
    case JJ_NATIVE: return bt_jj_buf_text(b, "<function>", true);
    case JJ_MACRO: return bt_jj_buf_text(b, "<Macro>", true);
    case JJ_LOOP: return bt_jj_buf_text(b, "<LoopContext>", true);
    case JJ_TURNS: return bt_jj_buf_text(b, "<Cycler>", true);
    }
    return false;
}

bool bt_jj_show_add(jj_buf *b, const jj_value *v)
{
    if (v->kind == JJ_STR) return bt_jj_buf_add(b, v->s);
    if (v->kind == JJ_UNDEFINED) return true;
    return bt_jj_show_repr(b, v);
}

const jj_str *bt_jj_show_str(jj_run *r, const jj_value *v)
{
    if (v->kind == JJ_STR) return v->s;
    jj_buf b = jj_buf_of(r);
    return bt_jj_show_add(&b, v) ? bt_jj_buf_str(&b, v->is_template) : NULL;
}

bool bt_jj_show_escaped(jj_run *r, jj_value *ret, const jj_value *v)
{
    *ret = *v;
    if (v->is_markup) return true;
    const jj_str *s = bt_jj_show_str(r, v);
    jj_buf b = jj_buf_of(r);
    if (!s || !jj_step_bytes(r, s->len)) return false;
    for (size_t i = 0; i < s->len; i++) {
        const char c = s->ptr[i], *by = c == '&'    ? "&amp;"
                                        : c == '<'  ? "&lt;"
                                        : c == '>'  ? "&gt;"
                                        : c == '"'  ? "&#34;"
                                        : c == '\'' ? "&#39;"
                                                    : NULL;
        if (by ? !bt_jj_buf_text(&b, by, jj_str_mark(s, i)) : !bt_jj_buf_part(&b, s, i, i + 1)) return false;
    }
    *ret = jj_text(bt_jj_buf_str(&b, s->is_template));
    ret->is_markup = true;
    return ret->s != NULL;
}

/* ---- JSON ---- */

static bool json_text(jj_buf *b, const jj_str *s, bool is_ascii)
{
    const bool whole = bt_jj_str_is_template(s);
    if (!bt_jj_buf_text(b, "\"", whole)) return false;
    size_t plain = 0; /* where the bytes begin that are written as they are */
    for (size_t i = 0, bytes = 1; i < s->len; i += bytes) {
        const unsigned char first = (unsigned char)s->ptr[i];
        bytes = 1;
        if (first >= ' ' && first != '"' && first != '\\' && (first < 0x7f || !is_ascii)) continue;
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        const char *p = c ? strchr("\"\"\\\\\nn\rr\tt\ff\bb", (int)c) : NULL;
        char esc[16];
        if (p && c < 0x80) snprintf(esc, sizeof esc, "\\%c", p[1]);
        else if (c < 0x10000) snprintf(esc, sizeof esc, "\\u%04x", c);
        else
            snprintf(esc, sizeof esc, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                     0xdc00 + ((c - 0x10000) & 0x3ff));
        if (!jj_step(b->run, 1) || !bt_jj_buf_part(b, s, plain, i) ||
            !bt_jj_buf_text(b, esc, jj_str_mark(s, i)))
            return false;
        plain = i + bytes;
    }
    return bt_jj_buf_part(b, s, plain, s->len) && bt_jj_buf_text(b, "\"", whole);
}

static bool json_number(jj_buf *b, const jj_value *v)
{
    char text[JJ_FLOAT_BYTES];
    if (v->kind == JJ_BOOL) strcpy(text, v->b ? "true" : "false");
    else if (v->kind == JJ_INT) snprintf(text, sizeof text, "%" PRId64, v->i);
    else if (isnan(v->f)) strcpy(text, "NaN");
    else if (isinf(v->f)) strcpy(text, v->f > 0 ? "Infinity" : "-Infinity");
    else bt_jj_show_float(text, v->f);
    return bt_jj_buf_text(b, text, v->is_template);
}

static bool json_value(jj_buf *b, const jj_value *v, const jj_json_form *form, size_t level);

/* The end of an item or the beginning of the first, and a line of its own where there is an indent. */
static bool json_gap(jj_buf *b, const jj_json_form *form, size_t level, bool is_next, bool mine)
{
    if (is_next && form->item_end && !bt_jj_buf_add(b, form->item_end)) return false;
    if (is_next && !form->item_end && !bt_jj_buf_text(b, form->indent ? "," : ", ", mine)) return false;
    if (!form->indent) return true;
    if (!bt_jj_buf_text(b, "\n", mine)) return false;
    for (size_t i = 0; i < level; i++)
        if (!bt_jj_buf_add(b, form->indent)) return false;
    return true;
}

static bool json_list(jj_buf *b, const jj_value *v, const jj_json_form *form, size_t level)
{
    const jj_list *l = v->list;
    const bool mine = v->is_template;
    if (l->len == 0) return bt_jj_buf_text(b, "[]", mine);
    if (!bt_jj_buf_text(b, "[", mine)) return false;
    for (size_t i = 0; i < l->len; i++)
        if (!json_gap(b, form, level + 1, i > 0, mine) || !json_value(b, &l->item[i], form, level + 1))
            return false;
    return (!form->indent || json_gap(b, form, level, false, mine)) && bt_jj_buf_text(b, "]", mine);
}

static bool json_key(jj_buf *b, const jj_value *key, const jj_json_form *form)
{
    if (key->kind == JJ_STR) return json_text(b, key->s, form->is_ascii);
    if (!jj_is_number(key) && key->kind != JJ_NONE)
        return bt_jj_fail(b->run, BT_EFORMAT, "keys must be str, int, float, bool or None, not %s",
                          bt_jj_value_type(key));
    return bt_jj_buf_text(b, "\"", key->is_template) && json_value(b, key, form, 0) &&
           bt_jj_buf_text(b, "\"", key->is_template);
}

/* The keys in order: an array of indices. */
static bool sorted_keys(jj_run *r, size_t **ret, const jj_dict *d)
{
    size_t *order = bt_jj_take(r, (d->len + 1) * sizeof *order);
    if (!order) return false;
    for (size_t i = 0; i < d->len; i++) {
        size_t at = i;
        for (int c; at > 0; at--) {
            if (!jj_step(r, 1) || !bt_jj_value_order(r, &c, &d->key[order[at - 1]], &d->key[i], "<"))
                return false;
            if (c <= 0) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    *ret = order;
    return true;
}

static bool json_dict(jj_buf *b, const jj_value *v, const jj_json_form *form, size_t level)
{
    const jj_dict *d = v->dict;
    const bool mine = v->is_template;
    size_t *order = NULL;
    if (d->len == 0) return bt_jj_buf_text(b, "{}", mine);
    if (form->is_sorted && !sorted_keys(b->run, &order, d)) return false;
    if (!bt_jj_buf_text(b, "{", mine)) return false;
    for (size_t n = 0; n < d->len; n++) {
        const size_t i = order ? order[n] : n;
        if (!json_gap(b, form, level + 1, n > 0, mine) || !json_key(b, &d->key[i], form)) return false;
        if (form->key_end ? !bt_jj_buf_add(b, form->key_end) : !bt_jj_buf_text(b, ": ", mine)) return false;
        if (!json_value(b, &d->value[i], form, level + 1)) return false;
    }
    return (!form->indent || json_gap(b, form, level, false, mine)) && bt_jj_buf_text(b, "}", mine);
}

static bool json_value(jj_buf *b, const jj_value *v, const jj_json_form *form, size_t level)
{
    if (v->kind == JJ_STR) return json_text(b, v->s, form->is_ascii);
    if (v->kind == JJ_NONE) return bt_jj_buf_text(b, "null", v->is_template);
    if (jj_is_number(v)) return json_number(b, v);
    const bool is_list = v->kind == JJ_LIST && v->list->style <= JJ_GROUP;
    if (!is_list && v->kind != JJ_DICT)
        return bt_jj_fail(b->run, BT_EFORMAT, "Object of type %s is not JSON serializable",
                          bt_jj_value_type(v));
    const bool ok =
        bt_jj_enter(b->run) && (is_list ? json_list(b, v, form, level) : json_dict(b, v, form, level));
    jj_leave(b->run);
    return ok;
}

bool bt_jj_show_json(jj_buf *b, const jj_value *v, const jj_json_form *form)
{
    return json_value(b, v, form, 0);
}
