/* Operators. A number that was computed with one of the request's is the request's. */
#include "text/jinja/jj_op.h"

#include "text/jinja/jj_loop.h"
#include "text/jinja/jj_method.h"
#include "text/jinja/jj_show.h"

#include <math.h>
#include <string.h>

static bool fail_types(jj_run *r, const char *op, const jj_value *a, const jj_value *b)
{
    return bt_jj_fail(r, BT_EFORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", op,
                      bt_jj_value_type(a), bt_jj_value_type(b));
}

static bool fail_wide(jj_run *r) { return bt_jj_fail(r, BT_EFORMAT, "an integer beyond 64 bits"); }

/* ---- arithmetic ---- */

static bool power(jj_run *r, jj_value *ret, int64_t a, int64_t b)
{
    if (b < 0) {
        if (a == 0) return bt_jj_fail(r, BT_EFORMAT, "0.0 cannot be raised to a negative power");
        *ret = jj_float(pow((double)a, (double)b));
        return true;
    }
    int64_t result = 1;
    for (; b > 0 && a != 1 && a != 0; b--) {
        if (a == -1) b = b % 2 ? 1 : 2;
        if (__builtin_mul_overflow(result, a, &result)) return fail_wide(r);
    }
    *ret = jj_int(b > 0 ? a : result);
    return true;
}

static bool whole_math(jj_run *r, jj_value *ret, jj_op op, int64_t a, int64_t b)
{
    int64_t n = 0;
    if ((op == JJ_FLOOR || op == JJ_MOD || op == JJ_DIV) && b == 0)
        return bt_jj_fail(r, BT_EFORMAT,
                          op == JJ_DIV ? "division by zero" : "integer division or modulo by zero");
    switch (op) {
    case JJ_ADD:
        if (__builtin_add_overflow(a, b, &n)) return fail_wide(r);
        break;
    case JJ_SUB:
        if (__builtin_sub_overflow(a, b, &n)) return fail_wide(r);
        break;
    case JJ_MUL:
        if (__builtin_mul_overflow(a, b, &n)) return fail_wide(r);
        break;
    case JJ_DIV: *ret = jj_float((double)a / (double)b); return true;
    case JJ_FLOOR:
        if (a == INT64_MIN && b == -1) return fail_wide(r);
        n = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case JJ_MOD:
        n = b == -1 ? 0 : a % b;
        if (n != 0 && (n < 0) != (b < 0)) n += b;
        break;
    case JJ_POW: return power(r, ret, a, b);
    case JJ_OP_NONE:
    case JJ_EQ:
    case JJ_NE:
    case JJ_LT:
    case JJ_LE:
    case JJ_GT:
    case JJ_GE:
    case JJ_IN:
    case JJ_NOT_IN: break;
    }
    *ret = jj_int(n);
    return true;
}

static bool real_math(jj_run *r, jj_value *ret, jj_op op, double a, double b)
{
    if ((op == JJ_DIV || op == JJ_FLOOR || op == JJ_MOD) && b == 0)
        return bt_jj_fail(r, BT_EFORMAT,
                          op == JJ_DIV ? "float division by zero" : "float floor division by zero");
    if (op == JJ_POW && a < 0 && b != floor(b))
        return bt_jj_fail(r, BT_EFORMAT, "complex numbers are not known");
    double mod = op == JJ_FLOOR || op == JJ_MOD ? fmod(a, b) : 0;
    if (mod != 0 && (b < 0) != (mod < 0)) mod += b;
    const double whole = op == JJ_FLOOR ? (a - mod) / b : 0, below = floor(whole),
                 floored = below + (whole - below > 0.5);
    *ret = jj_float(op == JJ_ADD   ? a + b
                    : op == JJ_SUB ? a - b
                    : op == JJ_MUL ? a * b
                    : op == JJ_DIV ? a / b
                    : op == JJ_POW ? pow(a, b)
                    : op == JJ_MOD ? (mod != 0 ? mod : copysign(0, b))
                                   : floored);
    return true;
}

static bool join_lists(jj_run *r, jj_value *ret, const jj_value *a, const jj_value *b)
{
    const jj_list *x = a->list, *y = b->list;
    if (!jj_step(r, x->len + y->len) ||
        !bt_jj_list_new(r, ret, x->style ? JJ_TUPLE : JJ_PLAIN, x->len + y->len))
        return false;
    if (x->len) memcpy(ret->list->item, x->item, x->len * sizeof *x->item);
    if (y->len) memcpy(ret->list->item + x->len, y->item, y->len * sizeof *y->item);
    ret->list->len = x->len + y->len;
    ret->is_template = a->is_template && b->is_template;
    return true;
}

static bool is_row(const jj_value *v) { return v->kind == JJ_LIST && v->list->style <= JJ_GROUP; }

/* text or a list, many times */
static bool repeat(jj_run *r, jj_value *ret, const jj_value *v, int64_t times)
{
    if (times < 0) times = 0;
    if (v->kind == JJ_STR) {
        jj_buf b = jj_buf_of(r);
        for (int64_t i = 0; i < times && v->s->len > 0; i++)
            if (!jj_step(r, 1) || !bt_jj_buf_add(&b, v->s)) return false;
        *ret = jj_text(bt_jj_buf_str(&b, v->s->is_template));
        ret->is_markup = v->is_markup;
        return ret->s != NULL;
    }
    size_t cap = 0;
    if (!bt_jj_list_new(r, ret, v->list->style ? JJ_TUPLE : JJ_PLAIN, 0)) return false;
    for (int64_t i = 0; i < times && v->list->len > 0; i++)
        for (size_t k = 0; k < v->list->len; k++)
            if (!jj_step(r, 1) || !bt_jj_list_add(r, ret->list, &cap, &v->list->item[k])) return false;
    ret->is_template = v->is_template;
    return true;
}

/* Markup and text: the text is escaped first. */
static bool join_texts(jj_run *r, jj_value *ret, const jj_value *a, const jj_value *b)
{
    jj_value x = *a, y = *b;
    const bool is_markup = a->is_markup || b->is_markup;
    if (is_markup && (!bt_jj_show_escaped(r, &x, a) || !bt_jj_show_escaped(r, &y, b))) return false;
    *ret = jj_text(bt_jj_str_join(r, x.s, y.s));
    ret->is_markup = is_markup;
    return ret->s != NULL;
}

bool bt_jj_op_math(jj_run *r, jj_value *ret, jj_op op, const jj_value *a, const jj_value *b)
{
    static const char *const names[] = {
        [JJ_ADD] = "+",    [JJ_SUB] = "-", [JJ_MUL] = "*",          [JJ_DIV] = "/",
        [JJ_FLOOR] = "//", [JJ_MOD] = "%", [JJ_POW] = "** or pow()"};
    if (op == JJ_ADD && a->kind == JJ_STR && b->kind == JJ_STR) return join_texts(r, ret, a, b);
    if (op == JJ_MOD && a->kind == JJ_STR) return bt_jj_format_percent(r, ret, a, b);
    if (!bt_jj_value_fail_undefined(r, a) || !bt_jj_value_fail_undefined(r, b)) return false;
    if (jj_is_number(a) && jj_is_number(b)) {
        const bool ok = jj_is_whole(a) && jj_is_whole(b) ? whole_math(r, ret, op, jj_whole(a), jj_whole(b))
                                                         : real_math(r, ret, op, jj_real(a), jj_real(b));
        ret->is_template = a->is_template && b->is_template;
        return ok;
    }
    if (op == JJ_ADD && is_row(a) && is_row(b) && !a->list->style == !b->list->style)
        return join_lists(r, ret, a, b);
    if (op == JJ_MUL && (a->kind == JJ_STR || is_row(a)) && jj_is_whole(b))
        return repeat(r, ret, a, jj_whole(b));
    if (op == JJ_MUL && (b->kind == JJ_STR || is_row(b)) && jj_is_whole(a))
        return repeat(r, ret, b, jj_whole(a));
    if (op == JJ_ADD && (a->kind == JJ_STR || is_row(a)))
        return bt_jj_fail(r, BT_EFORMAT, "can only concatenate %s (not \"%s\") to %s", bt_jj_value_type(a),
                          bt_jj_value_type(b), bt_jj_value_type(a));
    return fail_types(r, names[op], a, b);
}

bool bt_jj_op_sign(jj_run *r, jj_value *ret, const jj_value *v, bool is_minus)
{
    if (!bt_jj_value_fail_undefined(r, v)) return false;
    if (!jj_is_number(v))
        return bt_jj_fail(r, BT_EFORMAT, "bad operand type for unary %c: '%s'", is_minus ? '-' : '+',
                          bt_jj_value_type(v));
    if (v->kind == JJ_FLOAT) *ret = jj_float(is_minus ? -v->f : v->f);
    else if (is_minus && jj_whole(v) == INT64_MIN) return fail_wide(r);
    else *ret = jj_int(is_minus ? -jj_whole(v) : jj_whole(v));
    ret->is_template = v->is_template;
    return true;
}

/* ---- comparing ---- */

bool bt_jj_op_in(jj_run *r, bool *ret, const jj_value *item, const jj_value *of)
{
    *ret = false;
    if (of->kind == JJ_STR) {
        if (item->kind != JJ_STR)
            return bt_jj_fail(r, BT_EFORMAT, "'in <string>' requires string as left operand, not %s",
                              bt_jj_value_type(item));
        *ret = bt_jj_str_find(of->s, item->s, 0, of->s->len) != SIZE_MAX;
        return jj_step_bytes(r, of->s->len);
    }
    if (of->kind == JJ_DICT) {
        const jj_value *found;
        if (!bt_jj_dict_get(r, &found, of->dict, item)) return false;
        *ret = found != NULL;
        return true;
    }
    if (!bt_jj_value_is_iterable(of) || of->kind == JJ_LOOP)
        return bt_jj_fail(r, BT_EFORMAT, "argument of type '%s' is not iterable", bt_jj_value_type(of));
    jj_walk w;
    jj_value v;
    if (!bt_jj_walk_begin(r, &w, of)) return false;
    while (!*ret && bt_jj_walk_next(&w, &v))
        if (!bt_jj_value_equal(r, ret, &v, item)) return false;
    return r->err == BT_OK;
}

bool bt_jj_op_compare(jj_run *r, bool *ret, jj_op op, const jj_value *a, const jj_value *b)
{
    static const char *const names[] = {[JJ_LT] = "<", [JJ_LE] = "<=", [JJ_GT] = ">", [JJ_GE] = ">="};
    if (op == JJ_IN || op == JJ_NOT_IN || op == JJ_EQ || op == JJ_NE) {
        const bool ok =
            op == JJ_IN || op == JJ_NOT_IN ? bt_jj_op_in(r, ret, a, b) : bt_jj_value_equal(r, ret, a, b);
        if (op == JJ_NOT_IN || op == JJ_NE) *ret = !*ret;
        return ok;
    }
    int order;
    if (!bt_jj_value_order(r, &order, a, b, names[op])) return false;
    *ret = op == JJ_LT ? order < 0 : op == JJ_LE ? order <= 0 : op == JJ_GT ? order > 0 : order >= 0;
    if (jj_is_number(a) && jj_is_number(b) && (jj_real(a) != jj_real(a) || jj_real(b) != jj_real(b)))
        *ret = false;
    return true;
}

/* ---- members and elements ---- */

/* The attribute that Python's getattr() finds; *is_there false: none. */
static bool attribute(jj_run *r, jj_value *ret, bool *is_there, const jj_value *of, const jj_str *name)
{
    *is_there = true;
    if (of->kind == JJ_LOOP) return bt_jj_loop_member(r, ret, is_there, of->loop, name);
    if (of->kind == JJ_TURNS) return bt_jj_loop_turns_member(r, ret, is_there, of, name);
    if (of->kind == JJ_SPACE) {
        const jj_value *v;
        if (!bt_jj_dict_find(r, &v, of->dict, name)) return false;
        if (v) *ret = *v;
        *is_there = v != NULL;
        return true;
    }
    if (of->kind == JJ_LIST && of->list->style == JJ_GROUP && of->list->len == 2) {
        const bool is_list = jj_str_is(name, "list", 4);
        *is_there = is_list || jj_str_is(name, "grouper", 7);
        if (*is_there) *ret = of->list->item[is_list];
        if (*is_there) return true;
    }
    return bt_jj_method_of(r, ret, is_there, of, name);
}

bool bt_jj_op_member(jj_run *r, jj_value *ret, const jj_value *of, const jj_str *name)
{
    bool is_there;
    if (!bt_jj_value_fail_undefined(r, of) || !attribute(r, ret, &is_there, of, name)) return false;
    if (is_there) return true;
    const jj_value *v = NULL;
    if (of->kind == JJ_DICT && !bt_jj_dict_find(r, &v, of->dict, name)) return false;
    const jj_value key = jj_text(name);
    if (!v) return bt_jj_value_no_member(r, ret, of, &key);
    *ret = *v;
    return true;
}

/* obj[key] of Python; *is_there false: TypeError or LookupError. */
static bool subscript(jj_run *r, jj_value *ret, bool *is_there, const jj_value *of, const jj_value *key)
{
    *is_there = false;
    if (of->kind == JJ_DICT) {
        const bool is_odd = key->kind == JJ_DICT || (key->kind == JJ_LIST && key->list->style == JJ_PLAIN);
        const jj_value *v = NULL;
        if (!is_odd && !bt_jj_dict_get(r, &v, of->dict, key)) return false;
        if (v) *ret = *v;
        *is_there = v != NULL;
        return true;
    }
    const bool is_list = of->kind == JJ_LIST && of->list->style <= JJ_RANGE;
    if ((!is_list && of->kind != JJ_STR) || !jj_is_whole(key)) return true;
    if (of->kind == JJ_STR && !jj_step_bytes(r, of->s->len)) return false;
    const int64_t len = bt_jj_value_len(of), at = jj_whole(key) < 0 ? jj_whole(key) + len : jj_whole(key);
    if (at < 0 || at >= len) return true;
    *is_there = true;
    if (is_list) {
        *ret = of->list->item[at];
        return true;
    }
    size_t begin = bt_jj_str_at(of->s, (size_t)at), bytes;
    bt_jj_code(of->s->ptr, of->s->len, begin, &bytes);
    *ret = jj_text(bt_jj_str_part(r, of->s, begin, begin + bytes));
    ret->is_markup = of->is_markup;
    return ret->s != NULL;
}

bool bt_jj_op_element(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *key)
{
    bool is_there;
    if (!bt_jj_value_fail_undefined(r, of) || !subscript(r, ret, &is_there, of, key)) return false;
    if (!is_there && key->kind == JJ_STR && !attribute(r, ret, &is_there, of, key->s)) return false;
    return is_there || bt_jj_value_no_member(r, ret, of, key);
}

bool bt_jj_op_path(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *path)
{
    *ret = *of;
    if (path->kind == JJ_NONE || path->kind == JJ_MISSING) return true;
    if (path->kind != JJ_STR) return bt_jj_op_element(r, ret, of, path);
    const jj_str *s = path->s;
    if (!jj_step(r, s->len / 16)) return false;
    for (size_t at = 0; at <= s->len;) {
        const char *dot = memchr(s->ptr + at, '.', s->len - at);
        const size_t end = dot ? (size_t)(dot - s->ptr) : s->len;
        jj_value key, from = *ret;
        int64_t number = 0;
        bool is_number = end > at && end - at < 18;
        for (size_t i = at; i < end; i++) {
            is_number = is_number && s->ptr[i] >= '0' && s->ptr[i] <= '9';
            if (is_number) number = number * 10 + (s->ptr[i] - '0');
        }
        if (is_number) key = jj_int(number);
        else if (!jj_give(&key, bt_jj_str_part(r, s, at, end))) return false;
        if (!bt_jj_op_element(r, ret, &from, &key)) return false;
        at = end + 1;
    }
    return true;
}

/* ---- slices ---- */

static bool bound(jj_run *r, int64_t *ret, const jj_value *v, int64_t other)
{
    *ret = other;
    if (!v || v->kind == JJ_NONE) return true;
    if (!bt_jj_value_fail_undefined(r, v)) return false;
    if (!jj_is_whole(v)) return bt_jj_fail(r, BT_EFORMAT, "slice indices must be integers or None");
    *ret = jj_whole(v);
    return true;
}

static int64_t clamp(int64_t at, int64_t len, bool is_back)
{
    if (at < 0) at += len;
    const int64_t low = is_back ? -1 : 0, high = is_back ? len - 1 : len;
    return at < low ? low : at > high ? high : at;
}

static bool slice_text(jj_run *r, jj_value *ret, const jj_str *s, int64_t begin, int64_t step, int64_t count)
{
    if (!jj_step_bytes(r, s->len)) return false;
    if (step == 1) {
        const size_t first = bt_jj_str_at(s, (size_t)begin);
        const jj_str rest = {s->ptr + first, s->len - first, NULL, true, NULL};
        return jj_give(ret, bt_jj_str_part(r, s, first, first + bt_jj_str_at(&rest, (size_t)count)));
    }
    /* Where each character begins, so that steps back cost what steps ahead do. */
    const size_t chars = bt_jj_str_chars(s);
    size_t *at = bt_jj_take(r, (chars + 1) * sizeof *at), n = 0;
    if (!at || !jj_step(r, chars / 8)) return false;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        at[n++] = i;
        bt_jj_code(s->ptr, s->len, i, &bytes);
    }
    at[n] = s->len;
    jj_buf b = jj_buf_of(r);
    for (int64_t i = 0; i < count; i++, begin += step)
        if (!jj_step(r, 1) || !bt_jj_buf_part(&b, s, at[begin], at[begin + 1])) return false;
    return jj_give(ret, bt_jj_buf_str(&b, s->is_template));
}

bool bt_jj_op_slice(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *from, const jj_value *to,
                    const jj_value *by)
{
    if (!bt_jj_value_fail_undefined(r, of)) return false;
    const bool is_list = of->kind == JJ_LIST && of->list->style <= JJ_RANGE;
    if (!is_list && of->kind != JJ_STR)
        return bt_jj_fail(r, BT_EFORMAT, "'%s' object cannot be sliced", bt_jj_value_type(of));
    const int64_t len = bt_jj_value_len(of);
    int64_t step, begin, end, count = 0;
    if (!bound(r, &step, by, 1)) return false;
    if (step == 0) return bt_jj_fail(r, BT_EFORMAT, "slice step cannot be zero");
    const bool is_back = step < 0;
    if (step < -len - 1) step = -len - 1;
    if (step > len + 1) step = len + 1;
    if (!bound(r, &begin, from, is_back ? INT64_MAX : 0) ||
        !bound(r, &end, to, is_back ? INT64_MIN : INT64_MAX))
        return false;
    begin = clamp(begin, len, is_back);
    end = end == INT64_MIN ? -1 : clamp(end, len, is_back);
    if (is_back ? end < begin : begin < end)
        count = is_back ? (begin - end - 1) / -step + 1 : (end - begin - 1) / step + 1;
    if (!is_list) {
        const bool ok = slice_text(r, ret, of->s, begin, step, count);
        ret->is_markup = of->is_markup;
        return ok;
    }
    const jj_style style = of->list->style == JJ_GROUP ? JJ_TUPLE : (jj_style)of->list->style;
    if (!jj_step(r, (uint64_t)count) || !bt_jj_list_new(r, ret, style, (size_t)count)) return false;
    for (int64_t i = 0, at = begin; i < count; i++, at += step) ret->list->item[i] = of->list->item[at];
    ret->list->len = (size_t)count;
    ret->is_template = of->is_template;
    if (style != JJ_RANGE) return true;
    jj_list *l = ret->list;
    const __int128 each = of->list->step;
    return (!__builtin_add_overflow(each * begin, of->list->start, &l->start) &&
            !__builtin_add_overflow(each * end, of->list->start, &l->stop) &&
            !__builtin_mul_overflow(each, step, &l->step)) ||
           fail_wide(r);
}
