/* Values: making them, comparing them, walking them, calling Baton's own functions. */
#include "text/jinja/jj_value.h"

#include "text/jinja/jinja.h"

#include <string.h>

/* ---- making ---- */

bool bt_jj_value_undefined(jj_run *r, jj_value *ret, const char *words)
{
    jj_undefined *u = bt_jj_take(r, sizeof *u);
    if (!u) return false;
    u->words = words;
    *ret = (jj_value){.kind = JJ_UNDEFINED, .is_template = true, .undefined = u};
    return true;
}

static const char *object_name(const jj_value *v)
{
    switch ((jj_kind)v->kind) {
    case JJ_NONE: return "None";
    case JJ_BOOL: return "bool object";
    case JJ_INT: return "int object";
    case JJ_FLOAT: return "float object";
    case JJ_STR: return "str object";
    case JJ_DICT: return "dict object";
    case JJ_LIST: break;
    case JJ_SPACE: return "jinja2.utils.Namespace object";
    case JJ_MACRO: return "jinja2.runtime.Macro object";
    case JJ_LOOP: return "jinja2.runtime.LoopContext object";
    case JJ_TURNS: return "jinja2.utils.Cycler object";
    case JJ_NATIVE: return "function object";
    case JJ_MISSING:
    case JJ_UNDEFINED: return "undefined";
    }
    switch ((jj_style)v->list->style) {
    case JJ_PLAIN: return "list object";
    case JJ_TUPLE: return "tuple object";
    case JJ_GROUP: return "jinja2.filters._GroupTuple object";
    case JJ_RANGE: return "range object";
    case JJ_KEYS: return "dict_keys object";
    case JJ_VALUES: return "dict_values object";
    case JJ_ITEMS: return "dict_items object";
    case JJ_ONCE: break;
    }
    return "generator object";
}

bool bt_jj_value_no_member(jj_run *r, jj_value *ret, const jj_value *object, const jj_value *name)
{
    jj_undefined *u = bt_jj_take(r, sizeof *u);
    if (!u) return false;
    *u = (jj_undefined){NULL, object_name(object), *name};
    *ret = (jj_value){.kind = JJ_UNDEFINED, .is_template = true, .undefined = u};
    return true;
}

bool bt_jj_value_cstr(jj_run *r, jj_value *ret, const char *text)
{
    return jj_give(ret, bt_jj_str_new(r, text, strlen(text), true));
}

bool bt_jj_list_new(jj_run *r, jj_value *ret, jj_style style, size_t cap)
{
    jj_list *l = bt_jj_take(r, sizeof *l);
    if (!l || cap > SIZE_MAX / sizeof *l->item || !(l->item = bt_jj_take(r, cap * sizeof *l->item)))
        return false;
    l->style = (uint8_t)style;
    *ret = (jj_value){.kind = JJ_LIST, .is_template = true, .list = l};
    return true;
}

bool bt_jj_list_add(jj_run *r, jj_list *l, size_t *cap, const jj_value *item)
{
    if (l->len == *cap) {
        const size_t more = *cap ? 2 * *cap : 8;
        jj_value *p = bt_jj_grow(r, l->item, l->len * sizeof *p, more * sizeof *p);
        if (!p) return false;
        l->item = p;
        *cap = more;
    }
    l->item[l->len++] = *item;
    return true;
}

bool bt_jj_dict_new(jj_run *r, jj_value *ret, jj_kind kind, size_t cap)
{
    jj_dict *d = bt_jj_take(r, sizeof *d);
    if (!d || !(d->key = bt_jj_take(r, cap * sizeof *d->key)) ||
        !(d->value = bt_jj_take(r, cap * sizeof *d->value)))
        return false;
    d->cap = cap;
    *ret = (jj_value){.kind = (uint8_t)kind, .is_template = true, .dict = d};
    return true;
}

bool bt_jj_dict_find(jj_run *r, const jj_value **ret, const jj_dict *d, const jj_str *key)
{
    *ret = NULL;
    if (!jj_step(r, d->len / 16 + d->len * (key->len / 64))) return false;
    for (size_t i = 0; i < d->len && !*ret; i++)
        if (d->key[i].kind == JJ_STR && bt_jj_str_same(d->key[i].s, key)) *ret = &d->value[i];
    return true;
}

/* Keys are values that Python can hash: no list or mapping, at any depth of a tuple. */
static bool check_key(jj_run *r, const jj_value *key)
{
    if (key->kind != JJ_LIST && key->kind != JJ_DICT) return true;
    if (key->kind == JJ_DICT || (key->list->style != JJ_TUPLE && key->list->style != JJ_GROUP))
        return bt_jj_fail(r, BT_EFORMAT, "unhashable type: '%s'", bt_jj_value_type(key));
    bool ok = bt_jj_enter(r) && jj_step(r, key->list->len / 16);
    for (size_t i = 0; ok && i < key->list->len; i++) ok = check_key(r, &key->list->item[i]);
    jj_leave(r);
    return ok;
}

bool bt_jj_dict_get(jj_run *r, const jj_value **ret, const jj_dict *d, const jj_value *key)
{
    *ret = NULL;
    if (key->kind == JJ_STR) return bt_jj_dict_find(r, ret, d, key->s);
    if (!jj_step(r, d->len / 16) || !check_key(r, key)) return false;
    for (size_t i = 0; i < d->len; i++) {
        bool same;
        if (!bt_jj_value_equal(r, &same, &d->key[i], key)) return false;
        if (same) {
            *ret = &d->value[i];
            return true;
        }
    }
    return true;
}

bool bt_jj_dict_set(jj_run *r, jj_dict *d, const jj_value *key, const jj_value *value)
{
    const jj_value *old;
    if (!bt_jj_dict_get(r, &old, d, key)) return false;
    if (old) {
        d->value[old - d->value] = *value;
        return true;
    }
    if (d->len == d->cap) {
        const size_t cap = d->cap ? 2 * d->cap : 8;
        jj_value *k = bt_jj_grow(r, d->key, d->len * sizeof *k, cap * sizeof *k);
        jj_value *v = bt_jj_grow(r, d->value, d->len * sizeof *v, cap * sizeof *v);
        if (!k || !v) return false;
        d->key = k;
        d->value = v;
        d->cap = cap;
    }
    d->key[d->len] = *key;
    d->value[d->len++] = *value;
    return true;
}

/* ---- from JSON ---- */

bool bt_jinja_is_role(const char *role, size_t len)
{
    static const char *const roles[] = {"assistant", "developer", "function", "ipython",
                                        "model",     "system",    "tool",     "user"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strlen(roles[i]) == len && memcmp(roles[i], role, len) == 0) return true;
    return false;
}

/* Levels that remain; a list of messages has roles one level down, in its objects. */
typedef struct json_way {
    int depth;
    bool is_template;
    enum { ROLES_NONE, ROLES_LIST, ROLES_OBJECT } roles;
} json_way;

static bool from_json(jj_run *r, jj_value *ret, const json_t *json, json_way way);

static bool from_json_array(jj_run *r, jj_value *ret, const json_t *json, json_way way)
{
    const size_t len = json_array_size(json);
    if (!bt_jj_list_new(r, ret, JJ_PLAIN, len)) return false;
    if (way.roles == ROLES_LIST) way.roles = ROLES_OBJECT;
    for (size_t i = 0; i < len; i++)
        if (!from_json(r, &ret->list->item[i], json_array_get(json, i), way)) return false;
    ret->list->len = len;
    return true;
}

static bool from_json_object(jj_run *r, jj_value *ret, const json_t *json, json_way way)
{
    if (!bt_jj_dict_new(r, ret, JJ_DICT, json_object_size(json))) return false;
    jj_dict *d = ret->dict;
    const bool has_role = way.roles == ROLES_OBJECT;
    way.roles = ROLES_NONE;
    json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators change nothing */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *value = json_object_iter_value(at);
        json_way inner = way;
        if (has_role && json_is_string(value) && strcmp(key, "role") == 0)
            inner.is_template =
                way.is_template || bt_jinja_is_role(json_string_value(value), json_string_length(value));
        if (!jj_give(&d->key[d->len], bt_jj_str_new(r, key, strlen(key), way.is_template)) ||
            !from_json(r, &d->value[d->len], value, inner))
            return false;
        d->len++;
    }
    return true;
}

/* Recursion ends with way.depth, which the request's nesting cannot pass. */
static bool from_json(jj_run *r, jj_value *ret, const json_t *json, json_way way)
{
    if (way.depth-- == 0)
        return bt_jj_fail(r, BT_ELIMIT, "a variable has lists and objects nested deeper than %d",
                          BT_JINJA_MAX_DEPTH);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        if (!from_json_object(r, ret, json, way)) return false;
        break;
    case JSON_ARRAY:
        if (!from_json_array(r, ret, json, way)) return false;
        break;
    case JSON_STRING:
        if (!jj_give(ret,
                     bt_jj_str_new(r, json_string_value(json), json_string_length(json), way.is_template)))
            return false;
        break;
    case JSON_INTEGER: *ret = jj_int(json_integer_value(json)); break;
    case JSON_REAL: *ret = jj_float(json_real_value(json)); break;
    case JSON_TRUE: *ret = jj_bool(true); break;
    case JSON_FALSE: *ret = jj_bool(false); break;
    case JSON_NULL: *ret = jj_none(); break;
    }
    ret->is_template = way.is_template;
    return true;
}

bool bt_jj_value_json(jj_run *r, jj_value *ret, const json_t *json, bool is_template, bool has_roles)
{
    return from_json(r, ret, json,
                     (json_way){BT_JINJA_MAX_DEPTH, is_template, has_roles ? ROLES_LIST : ROLES_NONE});
}

/* ---- asking ---- */

const char *bt_jj_value_type(const jj_value *v)
{
    switch ((jj_kind)v->kind) {
    case JJ_NONE: return "NoneType";
    case JJ_BOOL: return "bool";
    case JJ_INT: return "int";
    case JJ_FLOAT: return "float";
    case JJ_STR: return "str";
    case JJ_DICT: return "dict";
    case JJ_LIST: break;
    case JJ_SPACE: return "Namespace";
    case JJ_MACRO: return "Macro";
    case JJ_LOOP: return "LoopContext";
    case JJ_TURNS: return "Cycler";
    case JJ_NATIVE: return "function";
    case JJ_MISSING:
    case JJ_UNDEFINED: return "Undefined";
    }
    switch ((jj_style)v->list->style) {
    case JJ_PLAIN: return "list";
    case JJ_TUPLE:
    case JJ_GROUP: return "tuple";
    case JJ_RANGE: return "range";
    case JJ_KEYS: return "dict_keys";
    case JJ_VALUES: return "dict_values";
    case JJ_ITEMS: return "dict_items";
    case JJ_ONCE: break;
    }
    return "generator";
}

bool bt_jj_value_truth(const jj_value *v)
{
    switch ((jj_kind)v->kind) {
    case JJ_MISSING:
    case JJ_UNDEFINED:
    case JJ_NONE: return false;
    case JJ_BOOL: return v->b;
    case JJ_INT: return v->i != 0;
    case JJ_FLOAT: return v->f != 0;
    case JJ_STR: return v->s->len > 0;
    case JJ_LIST: return v->list->style == JJ_ONCE || v->list->len > 0;
    case JJ_DICT: return v->dict->len > 0;
    case JJ_SPACE:
    case JJ_NATIVE:
    case JJ_MACRO:
    case JJ_LOOP:
    case JJ_TURNS: break;
    }
    return true;
}

bool bt_jj_value_same(const jj_value *a, const jj_value *b)
{
    if (a->kind != b->kind) return false;
    switch ((jj_kind)a->kind) {
    case JJ_MISSING:
    case JJ_NONE: return true;
    case JJ_BOOL: return a->b == b->b;
    case JJ_INT: return a->i == b->i;
    case JJ_FLOAT: return a->f == b->f;
    case JJ_STR: return a->s == b->s || bt_jj_str_same(a->s, b->s);
    case JJ_UNDEFINED: return a->undefined == b->undefined;
    case JJ_LIST: return a->list == b->list;
    case JJ_DICT:
    case JJ_SPACE: return a->dict == b->dict;
    case JJ_NATIVE: return a->native == b->native;
    case JJ_MACRO: return a->macro == b->macro;
    case JJ_LOOP: return a->loop == b->loop;
    case JJ_TURNS: return a->turns == b->turns;
    }
    return false;
}

static bool equal_lists(jj_run *r, bool *ret, const jj_list *a, const jj_list *b)
{
    const bool is_tuple = a->style == JJ_TUPLE || a->style == JJ_GROUP;
    const bool is_other = b->style == JJ_TUPLE || b->style == JJ_GROUP;
    *ret = a == b;
    if (*ret || is_tuple != is_other || (!is_tuple && (a->style != b->style || a->style > JJ_RANGE)) ||
        a->len != b->len)
        return true;
    *ret = true;
    for (size_t i = 0; *ret && i < a->len; i++)
        if (!jj_step(r, 1) || !bt_jj_value_equal(r, ret, &a->item[i], &b->item[i])) return false;
    return true;
}

static bool equal_dicts(jj_run *r, bool *ret, const jj_dict *a, const jj_dict *b)
{
    *ret = a->len == b->len;
    for (size_t i = 0; *ret && i < a->len; i++) {
        const jj_value *other;
        if (!jj_step(r, 1) || !bt_jj_dict_get(r, &other, b, &a->key[i])) return false;
        *ret = other != NULL;
        if (other && !bt_jj_value_equal(r, ret, &a->value[i], other)) return false;
    }
    return true;
}

bool bt_jj_value_equal(jj_run *r, bool *ret, const jj_value *a, const jj_value *b)
{
    *ret = false;
    if (jj_is_number(a) && jj_is_number(b)) {
        *ret = jj_is_whole(a) && jj_is_whole(b) ? jj_whole(a) == jj_whole(b) : jj_real(a) == jj_real(b);
        return true;
    }
    if (a->kind != b->kind) return true;
    if (a->kind == JJ_UNDEFINED) *ret = true;
    else if (a->kind == JJ_STR) {
        *ret = bt_jj_str_same(a->s, b->s);
        return jj_step(r, a->s->len == b->s->len ? a->s->len / 64 : 0);
    } else if (a->kind == JJ_LIST || a->kind == JJ_DICT) {
        const bool ok = bt_jj_enter(r) && (a->kind == JJ_LIST ? equal_lists(r, ret, a->list, b->list)
                                                              : equal_dicts(r, ret, a->dict, b->dict));
        jj_leave(r);
        return ok;
    } else *ret = bt_jj_value_same(a, b);
    return true;
}

static bool order_lists(jj_run *r, int *ret, const jj_list *a, const jj_list *b, const char *op)
{
    for (size_t i = 0; i < a->len && i < b->len; i++) {
        bool same;
        if (!jj_step(r, 1) || !bt_jj_value_equal(r, &same, &a->item[i], &b->item[i])) return false;
        if (!same) return bt_jj_value_order(r, ret, &a->item[i], &b->item[i], op);
    }
    *ret = (a->len > b->len) - (a->len < b->len);
    return true;
}

bool bt_jj_value_order(jj_run *r, int *ret, const jj_value *a, const jj_value *b, const char *op)
{
    if (!bt_jj_value_fail_undefined(r, a) || !bt_jj_value_fail_undefined(r, b)) return false;
    if (jj_is_number(a) && jj_is_number(b)) {
        if (jj_is_whole(a) && jj_is_whole(b))
            *ret = (jj_whole(a) > jj_whole(b)) - (jj_whole(a) < jj_whole(b));
        else *ret = (jj_real(a) > jj_real(b)) - (jj_real(a) < jj_real(b));
        return true;
    }
    if (a->kind == JJ_STR && b->kind == JJ_STR) {
        *ret = bt_jj_str_order(a->s, b->s);
        return jj_step_bytes(r, a->s->len < b->s->len ? a->s->len : b->s->len);
    }
    const bool is_pair = a->kind == JJ_LIST && b->kind == JJ_LIST && a->list->style < JJ_RANGE &&
                         b->list->style < JJ_RANGE && !a->list->style == !b->list->style;
    if (!is_pair)
        return bt_jj_fail(r, BT_EFORMAT, "'%s' not supported between instances of '%s' and '%s'", op,
                          bt_jj_value_type(a), bt_jj_value_type(b));
    const bool ok = bt_jj_enter(r) && order_lists(r, ret, a->list, b->list, op);
    jj_leave(r);
    return ok;
}

int64_t bt_jj_value_len(const jj_value *v)
{
    switch ((jj_kind)v->kind) {
    case JJ_UNDEFINED: return 0;
    case JJ_STR: return (int64_t)bt_jj_str_chars(v->s);
    case JJ_LIST: return v->list->style == JJ_ONCE ? -1 : (int64_t)v->list->len;
    case JJ_DICT: return (int64_t)v->dict->len;
    case JJ_MISSING:
    case JJ_NONE:
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT:
    case JJ_SPACE:
    case JJ_NATIVE:
    case JJ_MACRO:
    case JJ_LOOP:
    case JJ_TURNS: break;
    }
    return -1;
}

bool bt_jj_value_fail_undefined(jj_run *r, const jj_value *v)
{
    if (v->kind != JJ_UNDEFINED) return true;
    const jj_undefined *u = v->undefined;
    if (!u) return bt_jj_fail(r, BT_EFORMAT, "an inline if without else has no value");
    if (u->words) return bt_jj_fail(r, BT_EFORMAT, "%s", u->words);
    if (u->name.kind != JJ_STR && u->name.kind == JJ_INT)
        return bt_jj_fail(r, BT_EFORMAT, "%s has no element %lld", u->object, (long long)u->name.i);
    if (u->name.kind != JJ_STR) return bt_jj_fail(r, BT_EFORMAT, "%s has no such element", u->object);
    const int len = u->name.s->len < 80 ? (int)u->name.s->len : 80;
    if (!u->object) return bt_jj_fail(r, BT_EFORMAT, "'%.*s' is undefined", len, u->name.s->ptr);
    return bt_jj_fail(r, BT_EFORMAT, "'%s' has no attribute '%.*s'", u->object, len, u->name.s->ptr);
}

/* ---- walking ---- */

bool bt_jj_value_is_iterable(const jj_value *v)
{
    return v->kind == JJ_STR || v->kind == JJ_LIST || v->kind == JJ_DICT || v->kind == JJ_UNDEFINED ||
           v->kind == JJ_LOOP;
}

bool bt_jj_walk_begin(jj_run *r, jj_walk *w, const jj_value *v)
{
    if (!bt_jj_value_is_iterable(v) || v->kind == JJ_LOOP)
        return bt_jj_fail(r, BT_EFORMAT, "'%s' object is not iterable", bt_jj_value_type(v));
    *w = (jj_walk){r, NULL, *v, 0};
    return true;
}

bool bt_jj_walk_next(jj_walk *w, jj_value *ret)
{
    const jj_value *v = &w->holder;
    if (v->kind == JJ_UNDEFINED || !jj_step(w->run, 1)) return false;
    if (v->kind == JJ_LIST) {
        size_t *at = v->list->style == JJ_ONCE ? &v->list->next : &w->at;
        if (*at == v->list->len) return false;
        *ret = v->list->item[(*at)++];
    } else if (v->kind == JJ_DICT) {
        if (w->at == v->dict->len) return false;
        *ret = v->dict->key[w->at++];
    } else {
        if (w->at == v->s->len) return false;
        size_t bytes;
        bt_jj_code(v->s->ptr, v->s->len, w->at, &bytes);
        const size_t begin = w->at;
        w->at += bytes;
        return jj_give(ret, bt_jj_str_part(w->run, v->s, begin, w->at));
    }
    return true;
}

bool bt_jj_value_list(jj_run *r, jj_value *ret, const jj_value *v, jj_style style)
{
    jj_walk w;
    jj_value list, item;
    size_t cap = v->kind == JJ_LIST ? v->list->len : v->kind == JJ_DICT ? v->dict->len : 0;
    if (!bt_jj_walk_begin(r, &w, v) || !bt_jj_list_new(r, &list, style, cap)) return false;
    while (bt_jj_walk_next(&w, &item))
        if (!bt_jj_list_add(r, list.list, &cap, &item)) return false;
    list.is_template = v->is_template;
    *ret = list;
    return r->err == BT_OK;
}

/* ---- calling what is ours ---- */

/* The index of a name in "one two three"; -1: not there. */
static int param_index(const char *params, const jj_str *name)
{
    int i = 0;
    for (const char *p = params; *p; i++) {
        const size_t len = strcspn(p, " ");
        if (jj_str_is(name, p, len)) return i;
        p += len + (p[len] == ' ');
    }
    return -1;
}

static int param_count(const char *params)
{
    int n = *params != '\0';
    for (const char *p = params; *p; p++) n += *p == ' ';
    return n;
}

bool bt_jj_value_run(jj_run *r, jj_value *ret, const jj_native *n, const jj_value *self, const jj_call *call)
{
    jj_value a[JJ_MAX_PARAMS] = {{0}};
    if (n->params[0] == '*') return n->run(r, ret, self, a, call);
    const size_t params = (size_t)param_count(n->params);
    if (call->args > params)
        return bt_jj_fail(r, BT_EFORMAT, "%s() takes at most %zu arguments (%zu given)", n->name, params,
                          call->args);
    for (size_t i = 0; i < call->args; i++) a[i] = call->arg[i];
    for (size_t i = 0; i < call->keywords; i++) {
        const jj_str *name = call->keyword[i].name;
        const int at = param_index(n->params, name);
        if (at < 0)
            return bt_jj_fail(r, BT_EFORMAT, "%s() got an unexpected keyword argument '%.*s'", n->name,
                              name->len < 60 ? (int)name->len : 60, name->ptr);
        if (a[at].kind != JJ_MISSING)
            return bt_jj_fail(r, BT_EFORMAT, "%s() got multiple values for argument '%.*s'", n->name,
                              (int)name->len, name->ptr);
        a[at] = call->keyword[i].value;
    }
    for (size_t i = 0; i < n->required; i++)
        if (a[i].kind == JJ_MISSING)
            return bt_jj_fail(r, BT_EFORMAT, "%s() needs %d argument%s", n->name, n->required,
                              n->required == 1 ? "" : "s");
    return n->run(r, ret, self, a, call);
}
