/* Filters of lists and mappings. A generator of Python is made at once and walked once. */
#include "text/jinja/jj_natives.h"

#include "text/jinja/jj_case.h"
#include "text/jinja/jj_op.h"
#include "text/jinja/jj_show.h"

#include <string.h>

#define FILTER(name) \
    static bool name(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call)
#define UNUSED (void)r, (void)self, (void)a, (void)call

static bool is_true(const jj_value *v) { return v->kind != JJ_MISSING && bt_jj_value_truth(v); }

/* The key that Jinja sorts and compares by: an attribute, in lower case unless case counts. */
static bool key_of(jj_run *r, jj_value *ret, const jj_value *item, const jj_value *path, bool is_exact)
{
    if (!bt_jj_op_path(r, ret, item, path)) return false;
    return is_exact || ret->kind != JJ_STR || jj_give(ret, bt_jj_case(r, ret->s, JJ_LOWER));
}

/* "a,b" as the list of what both lead to; of one path: that alone. */
static bool sort_key(jj_run *r, jj_value *ret, const jj_value *item, const jj_value *path, bool is_exact)
{
    if (path->kind != JJ_STR || !memchr(path->s->ptr, ',', path->s->len))
        return key_of(r, ret, item, path, is_exact);
    size_t cap = 4;
    if (!bt_jj_list_new(r, ret, JJ_TUPLE, cap)) return false;
    for (size_t at = 0; at <= path->s->len;) {
        const char *comma = memchr(path->s->ptr + at, ',', path->s->len - at);
        const size_t end = comma ? (size_t)(comma - path->s->ptr) : path->s->len;
        jj_value one, part;
        if (!jj_give(&one, bt_jj_str_part(r, path->s, at, end)) || !key_of(r, &part, item, &one, is_exact) ||
            !bt_jj_list_add(r, ret->list, &cap, &part))
            return false;
        at = end + 1;
    }
    return true;
}

/* Keys of `sort` are lists, of which Python compares only the first parts that differ: two undefined ones do
 * not. */
static bool order_keys(jj_run *r, int *ret, const jj_value *a, const jj_value *b, bool is_list)
{
    *ret = 0;
    return (is_list && a->kind == JJ_UNDEFINED && b->kind == JJ_UNDEFINED) ||
           bt_jj_value_order(r, ret, a, b, "<");
}

/* A stable merge sort of items by their keys; both are arrays of n. Longer runs from shorter ones, by turns
 * into the spare arrays. */
static bool sort_by(jj_run *r, jj_value *item, jj_value *key, size_t n, bool is_list, bool is_reverse)
{
    jj_value *spare = bt_jj_take(r, n * sizeof *spare), *spare_key = bt_jj_take(r, n * sizeof *spare_key);
    if (!spare || !spare_key) return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            const size_t mid = begin + width < n ? begin + width : n, end = mid + width < n ? mid + width : n;
            size_t left = begin, right = mid;
            for (size_t to = begin; to < end; to++) {
                bool is_left = right == end;
                int order = 0;
                if (left < mid && right < end) {
                    if (!jj_step(r, 1) || !order_keys(r, &order, &key[right], &key[left], is_list))
                        return false;
                    is_left = is_reverse ? order <= 0 : order >= 0;
                }
                const size_t from = is_left ? left++ : right++;
                spare[to] = item[from];
                spare_key[to] = key[from];
            }
        }
        memcpy(item, spare, n * sizeof *item);
        memcpy(key, spare_key, n * sizeof *key);
    }
    return true;
}

static bool sorted(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *path, bool is_exact,
                   bool is_reverse)
{
    if (!bt_jj_value_list(r, ret, of, JJ_PLAIN)) return false;
    const size_t n = ret->list->len;
    jj_value *key = bt_jj_take(r, n * sizeof *key);
    if (!key) return false;
    for (size_t i = 0; i < n; i++)
        if (!sort_key(r, &key[i], &ret->list->item[i], path, is_exact)) return false;
    return sort_by(r, ret->list->item, key, n, true, is_reverse);
}
FILTER(sort)
{
    (void)call;
    return sorted(r, ret, self, &a[2], is_true(&a[1]), is_true(&a[0]));
}

FILTER(dictsort)
{
    (void)call;
    jj_value items, path = jj_int(0);
    if (self->kind != JJ_DICT)
        return bt_jj_fail(r, BT_EFORMAT, "dictsort works on mappings, not %s", bt_jj_value_type(self));
    if (a[1].kind == JJ_STR && jj_str_is(a[1].s, "value", 5)) path = jj_int(1);
    else if (a[1].kind != JJ_MISSING && !(a[1].kind == JJ_STR && jj_str_is(a[1].s, "key", 3)))
        return bt_jj_fail(r, BT_EFORMAT, "You can only sort by either \"key\" or \"value\"");
    const jj_dict *d = self->dict;
    if (!bt_jj_list_new(r, &items, JJ_PLAIN, d->len)) return false;
    for (size_t i = 0; i < d->len; i++) {
        jj_value *pair = &items.list->item[i];
        if (!jj_step(r, 1) || !bt_jj_list_new(r, pair, JJ_TUPLE, 2)) return false;
        pair->list->item[0] = d->key[i];
        pair->list->item[1] = d->value[i];
        pair->list->len = 2;
        pair->is_template = self->is_template;
    }
    items.list->len = d->len;
    items.is_template = self->is_template;
    return sorted(r, ret, &items, &path, is_true(&a[0]), is_true(&a[2]));
}

FILTER(items)
{
    UNUSED;
    const jj_str name = {"items", 5, NULL, true, NULL};
    jj_value method;
    static const jj_call none;
    if (self->kind == JJ_UNDEFINED) return bt_jj_list_new(r, ret, JJ_ONCE, 0);
    if (self->kind != JJ_DICT) return bt_jj_fail(r, BT_EFORMAT, "Can only get item pairs from a mapping.");
    if (!bt_jj_op_member(r, &method, self, &name) ||
        !bt_jj_value_run(r, ret, method.native->native, self, &none))
        return false;
    ret->list->style = JJ_ONCE;
    return true;
}

FILTER(list)
{
    UNUSED;
    return bt_jj_value_list(r, ret, self, JJ_PLAIN);
}

FILTER(first)
{
    UNUSED;
    jj_walk w;
    if (!bt_jj_walk_begin(r, &w, self)) return false;
    if (bt_jj_walk_next(&w, ret)) return true;
    return r->err == BT_OK && bt_jj_value_undefined(r, ret, "No first item, sequence was empty.");
}
FILTER(last)
{
    UNUSED;
    if (self->kind == JJ_LIST && self->list->style == JJ_ONCE)
        return bt_jj_fail(r, BT_EFORMAT, "'generator' object is not reversible");
    jj_value all;
    const jj_value back = jj_int(-1);
    if (!bt_jj_value_list(r, &all, self, JJ_PLAIN)) return false;
    if (all.list->len == 0) return bt_jj_value_undefined(r, ret, "No last item, sequence was empty.");
    return bt_jj_op_element(r, ret, &all, &back);
}

FILTER(length)
{
    UNUSED;
    const int64_t n = bt_jj_value_len(self);
    if (n < 0) return bt_jj_fail(r, BT_EFORMAT, "object of type '%s' has no len()", bt_jj_value_type(self));
    *ret = jj_int(n);
    return self->kind != JJ_STR || jj_step_bytes(r, self->s->len);
}

FILTER(reverse)
{
    UNUSED;
    const jj_value back = jj_int(-1);
    if (self->kind == JJ_STR) return bt_jj_op_slice(r, ret, self, NULL, NULL, &back);
    jj_value all;
    if (!bt_jj_value_list(r, &all, self, JJ_PLAIN) || !bt_jj_op_slice(r, ret, &all, NULL, NULL, &back))
        return false;
    if (self->kind != JJ_LIST || self->list->style != JJ_ONCE) ret->list->style = JJ_ONCE;
    return true;
}

FILTER(join)
{
    (void)call;
    jj_walk w;
    jj_value item, part;
    jj_buf b = jj_buf_of(r);
    const jj_str *sep = a[0].kind == JJ_MISSING ? NULL : bt_jj_show_str(r, &a[0]);
    if ((a[0].kind != JJ_MISSING && !sep) || !bt_jj_walk_begin(r, &w, self)) return false;
    for (bool is_first = true; bt_jj_walk_next(&w, &item); is_first = false)
        if ((!is_first && sep && !bt_jj_buf_add(&b, sep)) || !bt_jj_op_path(r, &part, &item, &a[1]) ||
            !bt_jj_show_add(&b, &part))
            return false;
    return r->err == BT_OK && jj_give(ret, bt_jj_buf_str(&b, true));
}

FILTER(unique)
{
    (void)call;
    jj_walk w;
    jj_value item, seen, key;
    size_t cap = 0;
    const jj_value yes = jj_bool(true);
    if (!bt_jj_walk_begin(r, &w, self) || !bt_jj_list_new(r, ret, JJ_ONCE, 0) ||
        !bt_jj_dict_new(r, &seen, JJ_DICT, 0))
        return false;
    while (bt_jj_walk_next(&w, &item)) {
        const jj_value *old;
        if (!key_of(r, &key, &item, &a[1], is_true(&a[0])) || !bt_jj_dict_get(r, &old, seen.dict, &key))
            return false;
        if (!old && (!bt_jj_dict_set(r, seen.dict, &key, &yes) || !bt_jj_list_add(r, ret->list, &cap, &item)))
            return false;
    }
    return r->err == BT_OK;
}

static bool extreme(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, bool is_max)
{
    jj_walk w;
    jj_value item, key, best = {0};
    if (!bt_jj_walk_begin(r, &w, self)) return false;
    while (bt_jj_walk_next(&w, &item)) {
        int order = 0;
        if (!key_of(r, &key, &item, &a[1], is_true(&a[0]))) return false;
        if (best.kind != JJ_MISSING && !bt_jj_value_order(r, &order, &key, &best, is_max ? ">" : "<"))
            return false;
        if (best.kind != JJ_MISSING && (is_max ? order <= 0 : order >= 0)) continue;
        best = key;
        *ret = item;
    }
    if (r->err != BT_OK) return false;
    return best.kind != JJ_MISSING ||
           bt_jj_value_undefined(r, ret, "No aggregated item, sequence was empty.");
}
FILTER(min)
{
    (void)call;
    return extreme(r, ret, self, a, false);
}
FILTER(max)
{
    (void)call;
    return extreme(r, ret, self, a, true);
}

FILTER(sum)
{
    (void)call;
    jj_walk w;
    jj_value item, part, total = a[1].kind == JJ_MISSING ? jj_int(0) : a[1];
    if (!bt_jj_walk_begin(r, &w, self)) return false;
    if (total.kind == JJ_STR) return bt_jj_fail(r, BT_EFORMAT, "sum() can't sum strings");
    while (bt_jj_walk_next(&w, &item))
        if (!bt_jj_op_path(r, &part, &item, &a[0]) || !bt_jj_op_math(r, ret, JJ_ADD, &total, &part))
            return false;
        else total = *ret;
    *ret = total;
    return r->err == BT_OK;
}

/* ---- map, select and their kin ---- */

static bool name_of(jj_run *r, const jj_native **ret, const jj_value *name, bool is_filter)
{
    if (name->kind == JJ_STR) *ret = (is_filter ? r->filter : r->test)(name->s->ptr, name->s->len);
    if (name->kind == JJ_STR && *ret) return true;
    if (name->kind != JJ_STR)
        return bt_jj_fail(r, BT_EFORMAT, "the name of a %s is expected", is_filter ? "filter" : "test");
    return bt_jj_fail(r, BT_EFORMAT, "No %s named '%.*s'.", is_filter ? "filter" : "test",
                      name->s->len < 60 ? (int)name->s->len : 60, name->s->ptr);
}

/* A filter or test in the name of another, which may be of that kind too: each is one evaluation inside. */
static bool run_inner(jj_run *r, jj_value *ret, const jj_native *n, const jj_value *self, const jj_call *call)
{
    const bool ok = bt_jj_enter(r) && bt_jj_value_run(r, ret, n, self, call);
    jj_leave(r);
    return ok;
}

/* map(attribute=path, default=v) */
static bool map_attribute(jj_run *r, jj_value *ret, jj_walk *w, const jj_call *call)
{
    const jj_value *path = NULL, *other = NULL;
    jj_value item, part;
    size_t cap = 0;
    for (size_t i = 0; i < call->keywords; i++) {
        const jj_keyword *k = &call->keyword[i];
        if (jj_str_is(k->name, "attribute", 9)) path = &k->value;
        else if (jj_str_is(k->name, "default", 7)) other = &k->value;
        else
            return bt_jj_fail(r, BT_EFORMAT, "Unexpected keyword argument '%.*s'", (int)k->name->len,
                              k->name->ptr);
    }
    if (!path) return bt_jj_fail(r, BT_EFORMAT, "map requires a filter argument");
    while (bt_jj_walk_next(w, &item)) {
        if (!bt_jj_op_path(r, &part, &item, path)) return false;
        if (part.kind == JJ_UNDEFINED && other && other->kind != JJ_NONE) part = *other;
        if (!bt_jj_list_add(r, ret->list, &cap, &part)) return false;
    }
    return r->err == BT_OK;
}

FILTER(map)
{
    (void)a;
    jj_walk w;
    jj_value item, part;
    size_t cap = 0;
    const jj_native *n = NULL;
    if (!bt_jj_list_new(r, ret, JJ_ONCE, 0)) return false;
    if (!bt_jj_value_truth(self)) return true; /* `if value` stands before the loop, of None too */
    if (!bt_jj_walk_begin(r, &w, self)) return false;
    if (call->args == 0) return map_attribute(r, ret, &w, call);
    if (!name_of(r, &n, &call->arg[0], true)) return false;
    const jj_call rest = {call->arg + 1, call->args - 1, call->keyword, call->keywords};
    while (bt_jj_walk_next(&w, &item))
        if (!run_inner(r, &part, n, &item, &rest) || !bt_jj_list_add(r, ret->list, &cap, &part)) return false;
    return r->err == BT_OK;
}

static bool choose(jj_run *r, jj_value *ret, const jj_value *self, const jj_call *call, bool has_path,
                   bool wanted)
{
    jj_walk w;
    jj_value item, part, holds;
    size_t cap = 0, used = has_path;
    const jj_native *n = NULL;
    static const jj_value none;
    if (!bt_jj_list_new(r, ret, JJ_ONCE, 0)) return false;
    if (!bt_jj_value_truth(self)) return true;
    if (call->args < used) return bt_jj_fail(r, BT_EFORMAT, "Missing parameter for attribute name");
    if (call->args > used && !name_of(r, &n, &call->arg[used++], false)) return false;
    const jj_call rest = {call->arg + used, call->args - used, call->keyword, call->keywords};
    if (!bt_jj_walk_begin(r, &w, self)) return false;
    while (bt_jj_walk_next(&w, &item)) {
        if (!bt_jj_op_path(r, &part, &item, has_path ? &call->arg[0] : &none)) return false;
        holds = jj_bool(bt_jj_value_truth(&part));
        if (n && !run_inner(r, &holds, n, &part, &rest)) return false;
        if (holds.b == wanted && !bt_jj_list_add(r, ret->list, &cap, &item)) return false;
    }
    return r->err == BT_OK;
}
FILTER(select_)
{
    (void)a;
    return choose(r, ret, self, call, false, true);
}
FILTER(reject)
{
    (void)a;
    return choose(r, ret, self, call, false, false);
}
FILTER(selectattr)
{
    (void)a;
    return choose(r, ret, self, call, true, true);
}
FILTER(rejectattr)
{
    (void)a;
    return choose(r, ret, self, call, true, false);
}

/* ---- rows of rows ---- */

static bool want_count(jj_run *r, size_t *ret, const jj_value *v)
{
    if (!bt_jj_value_fail_undefined(r, v)) return false;
    if (!jj_is_whole(v) || jj_whole(v) < 1 || jj_whole(v) > 1 << 20)
        return bt_jj_fail(r, BT_EFORMAT, "a number from 1 is expected");
    *ret = (size_t)jj_whole(v);
    return true;
}

static bool is_fill(const jj_value *v) { return v->kind != JJ_MISSING && v->kind != JJ_NONE; }

FILTER(batch)
{
    (void)call;
    size_t width, cap = 0, row_cap = 0;
    jj_value all, row = {0};
    if (!want_count(r, &width, &a[0]) || !bt_jj_value_list(r, &all, self, JJ_PLAIN) ||
        !bt_jj_list_new(r, ret, JJ_ONCE, 0))
        return false;
    for (size_t i = 0; i < all.list->len; i++) {
        if (i % width == 0) {
            row_cap = 0;
            if (!bt_jj_list_new(r, &row, JJ_PLAIN, 0) || !bt_jj_list_add(r, ret->list, &cap, &row))
                return false;
        }
        if (!jj_step(r, 1) || !bt_jj_list_add(r, row.list, &row_cap, &all.list->item[i])) return false;
    }
    while (row.kind == JJ_LIST && is_fill(&a[1]) && row.list->len < width)
        if (!jj_step(r, 1) || !bt_jj_list_add(r, row.list, &row_cap, &a[1])) return false;
    return true;
}

FILTER(slice)
{
    (void)call;
    size_t slices, cap = 0, at = 0;
    jj_value all, row;
    if (!want_count(r, &slices, &a[0]) || !bt_jj_value_list(r, &all, self, JJ_PLAIN) ||
        !bt_jj_list_new(r, ret, JJ_ONCE, 0))
        return false;
    const size_t each = all.list->len / slices, longer = all.list->len % slices;
    for (size_t i = 0; i < slices; i++) {
        const size_t n = each + (i < longer);
        size_t row_cap = n + 1;
        if (!jj_step(r, n + 1) || !bt_jj_list_new(r, &row, JJ_PLAIN, row_cap)) return false;
        for (size_t k = 0; k < n; k++) row.list->item[row.list->len++] = all.list->item[at++];
        if (is_fill(&a[1]) && i >= longer && !bt_jj_list_add(r, row.list, &row_cap, &a[1])) return false;
        if (!bt_jj_list_add(r, ret->list, &cap, &row)) return false;
    }
    return true;
}

FILTER(groupby)
{
    (void)call;
    jj_value all, key, last = {0}, group, rows = {0};
    const bool is_exact = is_true(&a[2]);
    size_t cap = 0, row_cap = 0;
    if (!bt_jj_value_list(r, &all, self, JJ_PLAIN)) return false;
    const size_t n = all.list->len;
    jj_value *keys = bt_jj_take(r, n * sizeof *keys);
    if (!keys) return false;
    for (size_t i = 0; i < n; i++) {
        if (!key_of(r, &keys[i], &all.list->item[i], &a[0], is_exact)) return false;
        if (keys[i].kind == JJ_UNDEFINED && is_fill(&a[1])) keys[i] = a[1];
    }
    if (!sort_by(r, all.list->item, keys, n, false, false) || !bt_jj_list_new(r, ret, JJ_PLAIN, 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool same = false;
        if (i > 0 && !bt_jj_value_equal(r, &same, &last, &keys[i])) return false;
        last = keys[i];
        if (!same) {
            row_cap = 0;
            if (!bt_jj_op_path(r, &key, &all.list->item[i], &a[0])) return false;
            if (key.kind == JJ_UNDEFINED && is_fill(&a[1])) key = a[1];
            if (!bt_jj_list_new(r, &rows, JJ_PLAIN, 0) || !bt_jj_list_new(r, &group, JJ_GROUP, 2))
                return false;
            group.list->item[0] = key;
            group.list->item[1] = rows;
            group.list->len = 2;
            if (!bt_jj_list_add(r, ret->list, &cap, &group)) return false;
        }
        if (!bt_jj_list_add(r, rows.list, &row_cap, &all.list->item[i])) return false;
    }
    return true;
}

// clang-format off
const jj_native bt_jj_filter_seq[] = {
    {"batch", "linecount fill_with", 1, batch}, {"count", "", 0, length},
    {"dictsort", "case_sensitive by reverse", 0, dictsort}, {"first", "", 0, first},
    {"groupby", "attribute default case_sensitive", 1, groupby}, {"items", "", 0, items},
    {"join", "d attribute", 0, join}, {"last", "", 0, last}, {"length", "", 0, length}, {"list", "", 0, list},
    {"map", "*", 0, map}, {"max", "case_sensitive attribute", 0, max}, {"min", "case_sensitive attribute", 0, min},
    {"reject", "*", 0, reject}, {"rejectattr", "*", 0, rejectattr}, {"reverse", "", 0, reverse},
    {"select", "*", 0, select_}, {"selectattr", "*", 0, selectattr}, {"slice", "slices fill_with", 1, slice},
    {"sort", "reverse case_sensitive attribute", 0, sort}, {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique}, {NULL, NULL, 0, NULL},
};
// clang-format on
