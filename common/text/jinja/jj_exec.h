#ifndef BT_JINJA_JJ_EXEC_H
#define BT_JINJA_JJ_EXEC_H
#include "text/jinja/jj_eval.h"

/* Statements: text for w->out. */
bool bt_jj_exec(jj_world *w, const jj_nodes *body);
/* Calls of what is not ours: macros, recursive loops, joiners. */
bool bt_jj_exec_call(jj_run *r, jj_value *ret, const jj_value *callee, const jj_call *call);
#endif
