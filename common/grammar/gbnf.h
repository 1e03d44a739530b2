#ifndef BT_GRAMMAR_GBNF_H
#define BT_GRAMMAR_GBNF_H
#include "grammar/syntax.h"

/* Grammars in GBNF, llama.cpp's form:
 *   name ::= item item | item    # a comment
 * An item is "text", [a-z], [^a-z], . (any character), a name, or ( ... ), with *, +, ?, {m}, {m,} or {m,n} behind it.
 * Escapes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH. A rule ends with its line, but inside parentheses and behind
 * | and ::=. Names have letters, digits, - and _. The whole is `root`. A rule may call any rule, but none may begin
 * with itself (left recursion). Texts of tokens (<...>) are not supported. reader.h has the limits. */

/* Appends the program. BT_EARG says what is wrong and at which byte, or names a rule that is missing, written twice or
 * left-recursive; BT_ELIMIT the limit. */
bt_err bt_gbnf_compile(bt_buf *ret, const char *text, size_t len, bt_fault *fault);
#endif
