#ifndef BT_JINJA_JJ_SHOW_H
#define BT_JINJA_JJ_SHOW_H
#include "text/jinja/jj_value.h"

/* Values as text: str() and repr() of Python, JSON as json.dumps writes it, and values filled into a text. */

/* The text that {{ v }} adds. */
bool bt_jj_show_add(jj_buf *b, const jj_value *v);
bool bt_jj_show_repr(jj_buf *b, const jj_value *v);
/* str(v); text is given as it is. NULL where it fails. */
const jj_str *bt_jj_show_str(jj_run *r, const jj_value *v);
/* Markup: str(v) with & < > " ' as HTML names them; markup is given as it is. */
bool bt_jj_show_escaped(jj_run *r, jj_value *ret, const jj_value *v);

enum { JJ_FLOAT_BYTES = 40 };
void bt_jj_show_float(char ret[JJ_FLOAT_BYTES], double f); /* repr(): the fewest digits that give f again */

typedef struct jj_json_form {
    const jj_str *item_end, *key_end; /* NULL: ", " (or "," with an indent) and ": " */
    const jj_str *indent;             /* of one level; NULL: all on one line */
    bool is_ascii, is_sorted;
} jj_json_form;
bool bt_jj_show_json(jj_buf *b, const jj_value *v, const jj_json_form *form);

/* text % v, and text.format(...): jj_format.c. Markup is refused. */
bool bt_jj_format_percent(jj_run *r, jj_value *ret, const jj_value *text, const jj_value *v);
bool bt_jj_format_braces(jj_run *r, jj_value *ret, const jj_value *text, const jj_call *call);
#endif
