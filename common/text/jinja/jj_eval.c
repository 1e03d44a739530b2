/* Expressions to values. */
#include "text/jinja/jj_eval.h"

#include "text/jinja/jj_method.h"
#include "text/jinja/jj_op.h"
#include "text/jinja/jj_show.h"

#include <string.h>

/* ---- names ---- */

bool bt_jj_scope_set(jj_world *w, jj_scope *s, uint32_t name, const jj_value *v)
{
    size_t i = 0;
    if (!jj_step(&w->run, s->len / 16)) return false;
    while (i < s->len && s->name[i] != name) i++;
    if (i == s->cap) {
        const size_t cap = s->cap ? 2 * s->cap : 8;
        uint32_t *names = bt_jj_grow(&w->run, s->name, s->len * sizeof *names, cap * sizeof *names);
        jj_value *values = bt_jj_grow(&w->run, s->value, s->len * sizeof *values, cap * sizeof *values);
        if (!names || !values) return false;
        s->name = names;
        s->value = values;
        s->cap = cap;
    }
    s->name[i] = name;
    s->value[i] = *v;
    if (i == s->len) s->len++;
    return true;
}

static bool look_up(jj_world *w, jj_value *ret, uint32_t name)
{
    for (const jj_scope *s = w->scope; s; s = s->outer) {
        if (!jj_step(&w->run, s->len / 16)) return false;
        for (size_t i = 0; i < s->len; i++)
            if (s->name[i] == name) {
                *ret = s->value[i];
                return true;
            }
    }
    *ret = w->global[name];
    if (ret->kind != JJ_MISSING) return true;
    jj_undefined *u = bt_jj_take(&w->run, sizeof *u);
    if (!u) return false;
    *u = (jj_undefined){NULL, NULL, jj_text(w->j->name[name])};
    *ret = (jj_value){.kind = JJ_UNDEFINED, .is_template = true, .undefined = u};
    return true;
}

/* ---- calls ---- */

enum { FEW = 6 }; /* arguments that need no memory of their own */

typedef struct arguments {
    jj_call call;
    jj_value few[FEW];
    jj_keyword few_named[FEW];
} arguments;

static bool spread_named(jj_world *w, arguments *a, jj_keyword *to, const jj_value *more)
{
    jj_run *r = &w->run;
    if (more->kind != JJ_DICT) return bt_jj_fail(r, BT_EFORMAT, "argument after ** must be a mapping");
    for (size_t i = 0; i < more->dict->len; i++) {
        if (more->dict->key[i].kind != JJ_STR) return bt_jj_fail(r, BT_EFORMAT, "keywords must be strings");
        to[a->call.keywords++] = (jj_keyword){more->dict->key[i].s, more->dict->value[i]};
    }
    return true;
}

static bool arguments_of(jj_world *w, arguments *a, const jj_args *args, const jj_keyword *extra)
{
    jj_run *r = &w->run;
    jj_value more = {0}, more_named = {0};
    a->call = (jj_call){a->few, 0, a->few_named, 0};
    if (!args && !extra) return true;
    static const jj_args none;
    if (!args) args = &none;
    if (args->more) {
        jj_value v;
        if (!bt_jj_eval(w, &v, args->more) || !bt_jj_value_list(r, &more, &v, JJ_TUPLE)) return false;
    }
    if (args->more_named && !bt_jj_eval(w, &more_named, args->more_named)) return false;
    const size_t n = args->arg.len + (args->more ? more.list->len : 0);
    const size_t named =
        args->keywords + (more_named.kind == JJ_DICT ? more_named.dict->len : 0) + (extra != NULL);
    jj_value *arg = n <= FEW ? a->few : bt_jj_take(r, n * sizeof *arg);
    jj_keyword *keyword = named <= FEW ? a->few_named : bt_jj_take(r, named * sizeof *keyword);
    if (!arg || !keyword) return false;
    a->call = (jj_call){arg, 0, keyword, 0};
    for (size_t i = 0; i < args->arg.len; i++)
        if (!bt_jj_eval(w, &arg[a->call.args++], args->arg.node[i])) return false;
    for (size_t i = 0; args->more && i < more.list->len; i++) arg[a->call.args++] = more.list->item[i];
    for (size_t i = 0; i < args->keywords; i++) {
        jj_keyword *k = &keyword[a->call.keywords++];
        k->name = args->keyword[i].name;
        if (!bt_jj_eval(w, &k->value, args->keyword[i].node)) return false;
    }
    if (args->more_named && !spread_named(w, a, keyword, &more_named)) return false;
    if (extra) keyword[a->call.keywords++] = *extra;
    return true;
}

bool bt_jj_eval_call(jj_world *w, jj_value *ret, const jj_node *n, const jj_keyword *extra)
{
    jj_value callee;
    arguments a;
    if (!bt_jj_eval(w, &callee, n->kid.node[0]) || !arguments_of(w, &a, n->args, extra)) return false;
    w->run.at = n->at;
    if (callee.kind == JJ_NATIVE) return bt_jj_method_run(&w->run, ret, callee.native, &a.call);
    return w->run.call(&w->run, ret, &callee, &a.call);
}

static bool eval_native(jj_world *w, jj_value *ret, const jj_node *n)
{
    jj_value self;
    arguments a;
    if (!n->kid.node[0]) self = *w->hole;
    else if (!bt_jj_eval(w, &self, n->kid.node[0])) return false;
    if (!arguments_of(w, &a, n->args, NULL)) return false;
    w->run.at = n->at;
    if (!n->native)
        return bt_jj_fail(&w->run, BT_EFORMAT, "No %s named '%.*s' found.",
                          n->kind == JJ_FILTER ? "filter" : "test",
                          n->value.s->len < 60 ? (int)n->value.s->len : 60, n->value.s->ptr);
    if (!bt_jj_value_run(&w->run, ret, n->native, &self, &a.call)) return false;
    if (n->kind == JJ_TEST && n->flag) ret->b = !ret->b;
    return true;
}

/* ---- operators ---- */

static bool eval_display(jj_world *w, jj_value *ret, const jj_node *n)
{
    if (n->kind == JJ_MAKE_DICT) {
        if (!bt_jj_dict_new(&w->run, ret, JJ_DICT, n->kid.len / 2)) return false;
        for (size_t i = 0; i < n->kid.len; i += 2) {
            jj_value key, value;
            if (!bt_jj_eval(w, &key, n->kid.node[i]) || !bt_jj_eval(w, &value, n->kid.node[i + 1]) ||
                !bt_jj_dict_set(&w->run, ret->dict, &key, &value))
                return false;
        }
        return true;
    }
    if (!bt_jj_list_new(&w->run, ret, n->kind == JJ_MAKE_LIST ? JJ_PLAIN : JJ_TUPLE, n->kid.len))
        return false;
    for (size_t i = 0; i < n->kid.len; i++)
        if (!bt_jj_eval(w, &ret->list->item[i], n->kid.node[i])) return false;
    ret->list->len = n->kid.len;
    return true;
}

static bool eval_element(jj_world *w, jj_value *ret, const jj_node *n)
{
    const jj_node *arg = n->kid.node[1];
    jj_value of, key, part[3];
    const jj_value *given[3] = {NULL, NULL, NULL};
    if (!bt_jj_eval(w, &of, n->kid.node[0])) return false;
    if (arg->kind != JJ_SLICE) {
        if (!bt_jj_eval(w, &key, arg)) return false;
        w->run.at = n->at;
        return bt_jj_op_element(&w->run, ret, &of, &key);
    }
    for (size_t i = 0; i < 3; i++) {
        if (!arg->kid.node[i]) continue;
        if (!bt_jj_eval(w, &part[i], arg->kid.node[i])) return false;
        given[i] = &part[i];
    }
    w->run.at = n->at;
    return bt_jj_op_slice(&w->run, ret, &of, given[0], given[1], given[2]);
}

static bool eval_math(jj_world *w, jj_value *ret, const jj_node *n)
{
    jj_value left, right;
    if (!bt_jj_eval(w, &left, n->kid.node[0])) return false;
    for (size_t i = 1; i < n->kid.len; i++) {
        if (!bt_jj_eval(w, &right, n->kid.node[i])) return false;
        w->run.at = n->at;
        if (!bt_jj_op_math(&w->run, ret, (jj_op)n->op[i], &left, &right)) return false;
        left = *ret;
    }
    return true;
}

static bool eval_concat(jj_world *w, jj_value *ret, const jj_node *n)
{
    const jj_str *all = NULL;
    for (size_t i = 0; i < n->kid.len; i++) {
        jj_value v;
        if (!bt_jj_eval(w, &v, n->kid.node[i])) return false;
        const jj_str *s = bt_jj_show_str(&w->run, &v);
        if (!s || !(all = all ? bt_jj_str_join(&w->run, all, s) : s)) return false;
    }
    return jj_give(ret, all);
}

static bool eval_compare(jj_world *w, jj_value *ret, const jj_node *n)
{
    jj_value left, right;
    bool holds = true;
    if (!bt_jj_eval(w, &left, n->kid.node[0])) return false;
    for (size_t i = 1; holds && i < n->kid.len; i++) {
        if (!bt_jj_eval(w, &right, n->kid.node[i])) return false;
        w->run.at = n->at;
        if (!bt_jj_op_compare(&w->run, &holds, (jj_op)n->op[i], &left, &right)) return false;
        left = right;
    }
    *ret = jj_bool(holds);
    return true;
}

/* and, or: the value that decided it. */
static bool eval_choice(jj_world *w, jj_value *ret, const jj_node *n)
{
    for (size_t i = 0; i < n->kid.len; i++) {
        if (!bt_jj_eval(w, ret, n->kid.node[i])) return false;
        if (bt_jj_value_truth(ret) == (n->kind == JJ_OR)) break;
    }
    return true;
}

static bool eval_cond(jj_world *w, jj_value *ret, const jj_node *n)
{
    jj_value cond;
    if (!bt_jj_eval(w, &cond, n->kid.node[1])) return false;
    const jj_node *chosen = n->kid.node[bt_jj_value_truth(&cond) ? 0 : 2];
    if (chosen) return bt_jj_eval(w, ret, chosen);
    *ret = (jj_value){.kind = JJ_UNDEFINED, .is_template = true};
    return true;
}

static bool eval_inner(jj_world *w, jj_value *ret, const jj_node *n)
{
    jj_value v;
    switch ((jj_node_kind)n->kind) {
    case JJ_MAKE_TUPLE:
    case JJ_MAKE_LIST:
    case JJ_MAKE_DICT: return eval_display(w, ret, n);
    case JJ_MEMBER:
        if (!bt_jj_eval(w, &v, n->kid.node[0])) return false;
        w->run.at = n->at;
        return bt_jj_op_member(&w->run, ret, &v, n->value.s);
    case JJ_ELEMENT: return eval_element(w, ret, n);
    case JJ_CALL: return bt_jj_eval_call(w, ret, n, NULL);
    case JJ_FILTER:
    case JJ_TEST: return eval_native(w, ret, n);
    case JJ_SIGN:
        if (!bt_jj_eval(w, &v, n->kid.node[0])) return false;
        w->run.at = n->at;
        return bt_jj_op_sign(&w->run, ret, &v, n->flag);
    case JJ_NOT:
        if (!bt_jj_eval(w, &v, n->kid.node[0])) return false;
        *ret = jj_bool(!bt_jj_value_truth(&v));
        return true;
    case JJ_MATH: return eval_math(w, ret, n);
    case JJ_CONCAT: return eval_concat(w, ret, n);
    case JJ_COMPARE: return eval_compare(w, ret, n);
    case JJ_AND:
    case JJ_OR: return eval_choice(w, ret, n);
    case JJ_COND: return eval_cond(w, ret, n);
    case JJ_CONST:
    case JJ_NAME:
    case JJ_SLICE:
    case JJ_DATA:
    case JJ_PRINT:
    case JJ_FOR:
    case JJ_IF:
    case JJ_SET:
    case JJ_SET_BLOCK:
    case JJ_WITH:
    case JJ_MACRO_DEF:
    case JJ_CALL_BLOCK:
    case JJ_FILTER_BLOCK:
    case JJ_SCOPE:
    case JJ_BREAK:
    case JJ_CONTINUE: break;
    }
    return bt_jj_fail(&w->run, BT_EFORMAT, "a slice stands alone");
}

bool bt_jj_eval(jj_world *w, jj_value *ret, const jj_node *n)
{
    if (n->kind == JJ_CONST) {
        *ret = n->value;
        return jj_step(&w->run, 1);
    }
    w->run.at = n->at;
    if (n->kind == JJ_NAME) return jj_step(&w->run, 1) && look_up(w, ret, n->name);
    const bool ok = bt_jj_enter(&w->run) && eval_inner(w, ret, n);
    jj_leave(&w->run);
    return ok;
}
