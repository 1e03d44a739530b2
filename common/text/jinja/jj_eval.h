#ifndef BT_JINJA_JJ_EVAL_H
#define BT_JINJA_JJ_EVAL_H
#include "text/jinja/jj_ast.h"

/* Names and their values, from the innermost {% for %} or macro outwards. */
typedef struct jj_scope jj_scope;
struct jj_scope {
    jj_scope *outer;
    uint32_t *name; /* [len], beside value */
    jj_value *value;
    size_t len, cap;
    bool is_kept; /* a macro remembers it */
};

/* One rendering. The run comes first: a jj_run * is its jj_world. */
typedef struct jj_world {
    jj_run run;
    const bt_jinja *j;
    jj_value *global; /* [j->names]: variables and functions; JJ_MISSING */
    jj_scope *scope;  /* innermost */
    jj_buf *out;
    const jj_value *hole; /* what a block's filters work on */
} jj_world;

bool bt_jj_eval(jj_world *w, jj_value *ret, const jj_node *n);
/* extra: one more keyword (a call block's caller), or NULL. n is a JJ_CALL. */
bool bt_jj_eval_call(jj_world *w, jj_value *ret, const jj_node *n, const jj_keyword *extra);
bool bt_jj_scope_set(jj_world *w, jj_scope *s, uint32_t name, const jj_value *v);

/* Statements: text for w->out. */
bool bt_jj_exec(jj_world *w, const jj_nodes *body);
/* Calls of what is not ours: macros, recursive loops, joiners. */
bool bt_jj_exec_call(jj_run *r, jj_value *ret, const jj_value *callee, const jj_call *call);
#endif
