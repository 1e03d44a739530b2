#ifndef BT_GRAMMAR_REGEX_H
#define BT_GRAMMAR_REGEX_H
#include "grammar/syntax.h"

/* Regular expressions: ECMA-262's as JSON Schema's `pattern` and guided_regex have them, over characters of Unicode.
 *   .  [a-z]  [^a-z]  |  ( )  (?: )  (?<name> )  *  +  ?  {m}  {m,}  {m,n}, each lazy with a ? behind it (the texts
 *   are the same)  ^  $  \d \D \w \W \s \S (letters and digits of ASCII; all white space of Unicode)
 *   \n \r \t \v \f \0 \xHH \uHHHH \u{H...} \cX, and \ before any sign that is no letter or digit
 * A brace that begins no count is a plain character. Refused by name: look-around, back-references, \b \B, \p \P,
 * inline flags. reader.h has the limits. */

typedef enum bt_regex_form {
    BT_REGEX_WHOLE,  /* the text as a whole, plain UTF-8 */
    BT_REGEX_SEARCH, /* somewhere in a text, which stands in a JSON string without its quotes, escaped where it must be
                      */
} bt_regex_form;

/* *ret: a node, which belongs into a rule of its own: ^ and $ are true at that rule's ends. BT_EARG says what is wrong
 * and at which byte, BT_ELIMIT the limit. */
bt_err bt_regex_parse(uint32_t *ret, bt_syntax *s, const char *text, size_t len, bt_regex_form form, bt_fault *fault);
/* Appends the program of a whole text (guided_regex). */
bt_err bt_regex_compile(bt_buf *ret, const char *text, size_t len, bt_fault *fault);
/* Appends the program of exactly these texts (guided_choice). BT_ELIMIT; BT_EARG where there is none. */
bt_err bt_regex_choices(bt_buf *ret, const bt_syntax_span *word, size_t n, bt_fault *fault);
#endif
