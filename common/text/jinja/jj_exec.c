/* Statements to text. A {% for %}, a macro, a block with a body of its own open a scope; {% if %} does not.
 */
#include "text/jinja/jj_eval.h"

#include "text/jinja/jinja.h"
#include "text/jinja/jj_loop.h"
#include "text/jinja/jj_method.h"
#include "text/jinja/jj_show.h"

#include <string.h>

typedef enum flow { FAILED, WENT_ON, BROKE, CONTINUED } flow;

struct jj_macro {
    const jj_node *def; /* JJ_MACRO_DEF or JJ_CALL_BLOCK */
    jj_scope *scope;
};

static flow run_body(jj_world *w, const jj_nodes *body);

/* Runs a body in a scope of its own, and takes what it writes as a text; NULL where it fails. */
static const jj_str *capture(jj_world *w, jj_scope *scope, const jj_nodes *body)
{
    jj_buf b = jj_buf_of(&w->run), *out = w->out;
    jj_scope *outer = w->scope;
    w->out = &b;
    w->scope = scope;
    const flow f = run_body(w, body);
    w->scope = outer;
    w->out = out;
    return f == FAILED ? NULL : bt_jj_buf_str(&b, true);
}

/* ---- assigning ---- */

static bool assign_member(jj_world *w, const jj_node *target, const jj_value *v)
{
    jj_value space;
    const jj_node name = {.kind = JJ_NAME, .at = target->at, .name = target->name};
    if (!bt_jj_eval(w, &space, &name)) return false;
    if (space.kind != JJ_SPACE)
        return bt_jj_fail(&w->run, BT_EFORMAT, "cannot assign attribute on non-namespace object");
    return bt_jj_dict_set(&w->run, space.dict, &target->value, v);
}

static bool assign(jj_world *w, jj_scope *s, const jj_node *target, const jj_value *v)
{
    jj_run *r = &w->run;
    if (target->kind == JJ_NAME)
        return target->flag ? assign_member(w, target, v) : bt_jj_scope_set(w, s, target->name, v);
    jj_walk walk;
    jj_value item;
    size_t n = 0;
    r->at = target->at;
    if (v->kind == JJ_UNDEFINED && !bt_jj_value_fail_undefined(r, v)) return false;
    if (!bt_jj_walk_begin(r, &walk, v)) return false;
    const size_t want = target->kid.len;
    for (; bt_jj_walk_next(&walk, &item); n++) {
        if (n == want) return bt_jj_fail(r, BT_EFORMAT, "too many values to unpack (expected %zu)", want);
        if (!bt_jj_enter(r)) return false;
        const bool ok = assign(w, s, target->kid.node[n], &item);
        jj_leave(r);
        if (!ok) return false;
    }
    if (r->err != BT_OK || n == want) return r->err == BT_OK;
    return bt_jj_fail(r, BT_EFORMAT, "not enough values to unpack (expected %zu, got %zu)", want, n);
}

/* ---- for ---- */

typedef struct jj_for {
    jj_loop loop;
    jj_world *world;
    const jj_node *node;
    jj_scope *outer, test; /* test: the target's names while the loop's `if` is asked */
} jj_for;

static bool take_accepted(jj_loop *l, bool *is_there, jj_value *ret)
{
    jj_for *f = l->owner;
    jj_world *w = f->world;
    jj_scope *scope = w->scope;
    bool ok = true;
    while ((*is_there = bt_jj_walk_next(&l->walk, ret))) {
        jj_value cond;
        f->test.len = 0;
        w->scope = &f->test;
        ok = assign(w, &f->test, f->node->target, ret) && bt_jj_eval(w, &cond, f->node->kid.node[1]);
        w->scope = scope;
        if (!ok || bt_jj_value_truth(&cond)) break;
    }
    return ok && w->run.err == BT_OK;
}

static jj_scope *new_scope(jj_world *w, jj_scope *outer)
{
    jj_scope *s = bt_jj_take(&w->run, sizeof *s);
    if (s) s->outer = outer;
    return s;
}

static flow run_for(jj_world *w, const jj_node *n, const jj_value *over, jj_scope *outer, uint32_t depth0)
{
    jj_for *f = bt_jj_take(&w->run, sizeof *f);
    jj_scope *scope = new_scope(w, outer), *before = w->scope;
    if (!f || !scope || !bt_jj_loop_begin(&f->loop, &w->run, over)) return FAILED;
    f->world = w;
    f->node = n;
    f->outer = f->test.outer = outer;
    f->loop.owner = f;
    f->loop.depth0 = depth0;
    f->loop.recursive = n->flag ? n : NULL;
    if (n->kid.len > 1) f->loop.take = take_accepted;
    const jj_value self = {.kind = JJ_LOOP, .is_template = true, .loop = &f->loop};
    flow went = WENT_ON;
    for (;;) {
        bool is_there;
        jj_value item;
        w->scope = outer;
        if (!bt_jj_loop_next(&f->loop, &is_there, &item)) went = FAILED;
        if (went == FAILED || !is_there) break;
        if (scope->is_kept && !(scope = new_scope(w, outer))) return FAILED;
        scope->len = 0;
        w->scope = scope;
        if (!bt_jj_scope_set(w, scope, w->j->loop, &self) || !assign(w, scope, n->target, &item))
            went = FAILED;
        else went = run_body(w, &n->body);
        if (went == FAILED || went == BROKE) break;
    }
    if (went != FAILED && f->loop.index0 < 0 && n->other.len > 0) {
        scope->len = 0;
        w->scope = scope;
        went = run_body(w, &n->other);
        w->scope = before;
        return went;
    }
    w->scope = before;
    return went == FAILED ? FAILED : WENT_ON;
}

static flow exec_for(jj_world *w, const jj_node *n)
{
    jj_value over;
    if (!bt_jj_eval(w, &over, n->kid.node[0])) return FAILED;
    w->run.at = n->at;
    return run_for(w, n, &over, w->scope, 0);
}

/* ---- macros ---- */

static bool bind_rest(jj_world *w, jj_scope *s, const jj_macro *m, const jj_call *call, const bool *is_taken)
{
    jj_run *r = &w->run;
    const jj_params *p = m->def->params;
    jj_value rest, named, caller = jj_none();
    const size_t more = call->args > p->len ? call->args - p->len : 0;
    if (!bt_jj_dict_new(r, &named, JJ_DICT, call->keywords)) return false;
    bool has_caller = false;
    for (size_t i = 0; i < call->keywords; i++) {
        const jj_keyword *k = &call->keyword[i];
        if (is_taken[i]) continue;
        const jj_value key = jj_text(k->name);
        if (p->has_caller && jj_str_is(k->name, "caller", 6)) {
            caller = k->value;
            has_caller = true;
        } else if (!p->has_kwargs)
            return bt_jj_fail(r, BT_EFORMAT, "macro takes no keyword argument '%.*s'",
                              k->name->len < 60 ? (int)k->name->len : 60, k->name->ptr);
        else if (!bt_jj_dict_set(r, named.dict, &key, &k->value)) return false;
    }
    if (more > 0 && !p->has_varargs)
        return bt_jj_fail(r, BT_EFORMAT, "macro takes not more than %zu argument(s)", p->len);
    if (!bt_jj_list_new(r, &rest, JJ_TUPLE, more)) return false;
    for (size_t i = 0; i < more; i++) rest.list->item[i] = call->arg[p->len + i];
    rest.list->len = more;
    if (p->has_caller && !has_caller && !bt_jj_value_undefined(r, &caller, "No caller defined")) return false;
    return (!p->has_caller || bt_jj_scope_set(w, s, w->j->caller, &caller)) &&
           (!p->has_kwargs || bt_jj_scope_set(w, s, w->j->kwargs, &named)) &&
           (!p->has_varargs || bt_jj_scope_set(w, s, w->j->varargs, &rest));
}

static bool bind(jj_world *w, jj_scope *s, const jj_macro *m, const jj_call *call)
{
    jj_run *r = &w->run;
    const jj_params *p = m->def->params;
    bool *is_taken = bt_jj_take(r, call->keywords);
    if (!is_taken || !jj_step(r, call->keywords * (p->len + 1) / 16)) return false;
    for (size_t k = 0; k < call->keywords; k++)
        for (size_t i = call->args; i < p->len; i++)
            if (bt_jj_str_same(call->keyword[k].name, p->text[i])) is_taken[k] = true;
    if (!bind_rest(w, s, m, call, is_taken)) return false;
    for (size_t i = 0; i < p->len; i++) { /* in order: a default sees the parameters before it */
        jj_value v = {0};
        if (i < call->args) v = call->arg[i];
        for (size_t k = 0; i >= call->args && k < call->keywords; k++)
            if (bt_jj_str_same(call->keyword[k].name, p->text[i])) v = call->keyword[k].value;
        if (v.kind == JJ_MISSING && p->other[i]) {
            if (!bt_jj_eval(w, &v, p->other[i])) return false;
        } else if (v.kind == JJ_MISSING && !bt_jj_value_undefined(r, &v, "a parameter was not provided"))
            return false;
        if (!bt_jj_scope_set(w, s, p->name[i], &v)) return false;
    }
    return true;
}

static bool call_macro(jj_world *w, jj_value *ret, const jj_macro *m, const jj_call *call)
{
    jj_scope *s = new_scope(w, m->scope), *before = w->scope;
    if (!s) return false;
    w->scope = s;
    const bool ok = bind(w, s, m, call);
    w->scope = before;
    return ok && jj_give(ret, capture(w, s, &m->def->body));
}

static bool call_loop(jj_world *w, jj_value *ret, jj_loop *l, const jj_call *call)
{
    if (!l->recursive)
        return bt_jj_fail(&w->run, BT_EFORMAT,
                          "The loop must have the 'recursive' marker to be called recursively.");
    if (call->args != 1) return bt_jj_fail(&w->run, BT_EFORMAT, "loop() takes 1 argument");
    jj_for *f = l->owner;
    jj_buf b = jj_buf_of(&w->run), *out = w->out;
    w->out = &b;
    const flow went = run_for(w, l->recursive, &call->arg[0], f->outer, l->depth0 + 1);
    w->out = out;
    return went != FAILED && jj_give(ret, bt_jj_buf_str(&b, true));
}

bool bt_jj_exec_call(jj_run *r, jj_value *ret, const jj_value *callee, const jj_call *call)
{
    jj_world *w = (jj_world *)r;
    bool ok = false;
    if (!bt_jj_value_fail_undefined(r, callee)) return false;
    if (callee->kind == JJ_NATIVE) return bt_jj_method_run(r, ret, callee->native, call);
    if (callee->kind == JJ_TURNS) return bt_jj_loop_join(r, ret, callee->turns);
    if (callee->kind != JJ_MACRO && callee->kind != JJ_LOOP)
        return bt_jj_fail(r, BT_EFORMAT, "'%s' object is not callable", bt_jj_value_type(callee));
    if (++r->calls > BT_JINJA_MAX_DEPTH)
        bt_jj_fail(r, BT_ELIMIT, "calls of macros or loops are nested deeper than %d", BT_JINJA_MAX_DEPTH);
    else
        ok = callee->kind == JJ_MACRO ? call_macro(w, ret, callee->macro, call)
                                      : call_loop(w, ret, callee->loop, call);
    r->calls--;
    return ok;
}

static bool new_macro(jj_world *w, jj_value *ret, const jj_node *def)
{
    jj_macro *m = bt_jj_take(&w->run, sizeof *m);
    if (!m) return false;
    for (jj_scope *s = w->scope; s && !s->is_kept; s = s->outer) s->is_kept = true;
    *m = (jj_macro){def, w->scope};
    *ret = (jj_value){.kind = JJ_MACRO, .is_template = true, .macro = m};
    return true;
}

/* ---- the rest ---- */

static flow exec_if(jj_world *w, const jj_node *n)
{
    for (;;) {
        jj_value cond;
        if (!bt_jj_eval(w, &cond, n->kid.node[0])) return FAILED;
        if (bt_jj_value_truth(&cond)) return run_body(w, &n->body);
        if (n->other.len != 1 || n->other.node[0]->kind != JJ_IF) return run_body(w, &n->other);
        n = n->other.node[0];
    }
}

/* A body as a text, through the filters of its tag. */
static bool filtered(jj_world *w, jj_value *ret, const jj_node *filters, const jj_nodes *body)
{
    jj_scope *scope = new_scope(w, w->scope);
    if (!scope || !jj_give(ret, capture(w, scope, body))) return false;
    if (!filters) return true;
    const jj_value text = *ret, *hole = w->hole;
    w->hole = &text;
    const bool ok = bt_jj_eval(w, ret, filters);
    w->hole = hole;
    return ok;
}

static flow exec_with(jj_world *w, const jj_node *n)
{
    jj_scope *scope = new_scope(w, w->scope), *before = w->scope;
    if (!scope) return FAILED;
    for (size_t i = 0; i < n->kid.len; i++) {
        jj_value v;
        if (!bt_jj_eval(w, &v, n->kid.node[i]) || !assign(w, scope, n->target->kid.node[i], &v))
            return FAILED;
    }
    w->scope = scope;
    const flow f = run_body(w, &n->body);
    w->scope = before;
    return f;
}

static bool exec_call_block(jj_world *w, const jj_node *n)
{
    jj_value v;
    jj_keyword caller = {bt_jj_str_new(&w->run, "caller", 6, true), {0}};
    return caller.name && new_macro(w, &caller.value, n) && bt_jj_eval_call(w, &v, n->kid.node[0], &caller) &&
           bt_jj_show_add(w->out, &v);
}

static bool exec_print(jj_world *w, const jj_node *n)
{
    for (size_t i = 0; i < n->kid.len; i++) {
        jj_value v;
        if (!bt_jj_eval(w, &v, n->kid.node[i]) || !bt_jj_show_add(w->out, &v)) return false;
    }
    return true;
}

static flow exec_one(jj_world *w, const jj_node *n)
{
    jj_value v;
    bool ok = false;
    switch ((jj_node_kind)n->kind) {
    case JJ_DATA: return bt_jj_buf_add(w->out, n->value.s) ? WENT_ON : FAILED;
    case JJ_FOR: return exec_for(w, n);
    case JJ_IF: return exec_if(w, n);
    case JJ_WITH: return exec_with(w, n);
    case JJ_BREAK: return BROKE;
    case JJ_CONTINUE: return CONTINUED;
    case JJ_PRINT: ok = exec_print(w, n); break;
    case JJ_SET: ok = bt_jj_eval(w, &v, n->kid.node[0]) && assign(w, w->scope, n->target, &v); break;
    case JJ_SET_BLOCK:
        ok = filtered(w, &v, n->kid.len ? n->kid.node[0] : NULL, &n->body) &&
             assign(w, w->scope, n->target, &v);
        break;
    case JJ_FILTER_BLOCK: ok = filtered(w, &v, n->kid.node[0], &n->body) && bt_jj_show_add(w->out, &v); break;
    case JJ_SCOPE: ok = filtered(w, &v, NULL, &n->body) && bt_jj_show_add(w->out, &v); break;
    case JJ_MACRO_DEF: ok = new_macro(w, &v, n) && bt_jj_scope_set(w, w->scope, n->name, &v); break;
    case JJ_CALL_BLOCK: ok = exec_call_block(w, n); break;
    case JJ_CONST:
    case JJ_NAME:
    case JJ_MAKE_TUPLE:
    case JJ_MAKE_LIST:
    case JJ_MAKE_DICT:
    case JJ_MEMBER:
    case JJ_ELEMENT:
    case JJ_SLICE:
    case JJ_CALL:
    case JJ_FILTER:
    case JJ_TEST:
    case JJ_SIGN:
    case JJ_NOT:
    case JJ_MATH:
    case JJ_CONCAT:
    case JJ_COMPARE:
    case JJ_AND:
    case JJ_OR:
    case JJ_COND: break;
    }
    return ok ? WENT_ON : FAILED;
}

static flow run_body(jj_world *w, const jj_nodes *body)
{
    flow f = bt_jj_enter(&w->run) ? WENT_ON : FAILED;
    for (size_t i = 0; f == WENT_ON && i < body->len; i++) {
        w->run.at = body->node[i]->at;
        f = jj_step(&w->run, 1) ? exec_one(w, body->node[i]) : FAILED;
    }
    jj_leave(&w->run);
    return f;
}

bool bt_jj_exec(jj_world *w, const jj_nodes *body) { return run_body(w, body) != FAILED; }
