#ifndef BT_JINJA_JJ_OP_H
#define BT_JINJA_JJ_OP_H
#include "text/jinja/jj_ast.h"

/* Operators on values, with Python's meaning and words. */
bool bt_jj_op_math(jj_run *r, jj_value *ret, jj_op op, const jj_value *a, const jj_value *b);
bool bt_jj_op_sign(jj_run *r, jj_value *ret, const jj_value *v, bool is_minus);
bool bt_jj_op_compare(jj_run *r, bool *ret, jj_op op, const jj_value *a, const jj_value *b);
bool bt_jj_op_in(jj_run *r, bool *ret, const jj_value *item, const jj_value *of);

/* x.name: a method, or else the element of that name. x[key]: the element, or else the method. Undefined where there
 * is neither; a failure where x is undefined. */
bool bt_jj_op_member(jj_run *r, jj_value *ret, const jj_value *of, const jj_str *name);
bool bt_jj_op_element(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *key);
/* x.a.b.0, as `attribute=` of filters has it. */
bool bt_jj_op_path(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *path);
/* Bounds are NULL where they are left out. */
bool bt_jj_op_slice(jj_run *r, jj_value *ret, const jj_value *of, const jj_value *begin, const jj_value *end,
                    const jj_value *step);
#endif
