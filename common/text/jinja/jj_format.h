#ifndef BT_JINJA_JJ_FORMAT_H
#define BT_JINJA_JJ_FORMAT_H
#include "text/jinja/jj_value.h"

/* s % v, and s.format(...). */
bool bt_jj_format_percent(jj_run *r, jj_value *ret, const jj_str *s, const jj_value *v);
bool bt_jj_format_braces(jj_run *r, jj_value *ret, const jj_str *s, const jj_call *call);
#endif
