#ifndef BT_JINJA_JJ_METHOD_H
#define BT_JINJA_JJ_METHOD_H
#include "text/jinja/jj_value.h"

/* Methods of text, lists and mappings. A method that would change a value gives an undefined one, as in the sandbox. */
bool bt_jj_method_of(jj_run *r, jj_value *ret, bool *is_there, const jj_value *of, const jj_str *name);

/* Runs a function of ours. Text that a method makes of markup is markup, by itself and in a list. */
bool bt_jj_method_run(jj_run *r, jj_value *ret, const jj_bound *b, const jj_call *call);

/* Functions that filters share with methods. Where a text is cut, the parts keep their origins. */
const jj_str *bt_jj_method_strip(jj_run *r, const jj_str *s, const jj_value *chars, bool front, bool back);
const jj_str *bt_jj_method_replace(jj_run *r, const jj_str *s, const jj_str *old, const jj_str *by, int64_t most);
bool bt_jj_method_lines(jj_run *r, jj_value *ret, const jj_str *s, bool keep_ends);
const jj_str *bt_jj_method_center(jj_run *r, const jj_str *s, int64_t width);
/* A whole argument, or `other` where it is missing; a failure where it is none. */
bool bt_jj_method_whole(jj_run *r, int64_t *ret, const jj_value *v, int64_t other);
#endif
