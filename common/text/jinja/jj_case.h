#ifndef BT_JINJA_JJ_CASE_H
#define BT_JINJA_JJ_CASE_H
#include "text/jinja/jj_str.h"

/* Letters: their case, and what kind of character one is. Characters whose other case is several are mapped as
 * Python does where they are Latin or Greek; all others by utf8proc's single mappings. */
typedef enum jj_case { JJ_UPPER, JJ_LOWER, JJ_TITLE, JJ_CAPITAL, JJ_SWAP, JJ_FOLD } jj_case;
const jj_str *bt_jj_case(jj_run *r, const jj_str *s, jj_case to); /* NULL where it fails */

typedef enum jj_class {
    JJ_ALPHA,
    JJ_ALNUM,
    JJ_DIGIT,
    JJ_DECIMAL,
    JJ_NUMERIC,
    JJ_SPACES,
    JJ_IS_UPPER,
    JJ_IS_LOWER,
    JJ_IS_TITLE,
    JJ_ASCII,
    JJ_PRINTABLE,
} jj_class;
/* str.isalpha() and so on. */
bool bt_jj_case_is(const jj_str *s, jj_class c);
bool bt_jj_case_is_word(uint32_t code); /* \w of Python's expressions */
#endif
