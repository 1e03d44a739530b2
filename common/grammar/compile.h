#ifndef BT_GRAMMAR_COMPILE_H
#define BT_GRAMMAR_COMPILE_H
#include "grammar/syntax.h"

#include <jansson.h>

/* The three languages in which people say what a text may be, each compiled to a program (program.h). All errors name
 * what is wrong; texts have at most 64 KiB (reader.h), and one program takes at most BT_SYNTAX_STEPS. */

/* ---- regular expressions ---- */

/* Regular expressions: ECMA-262's as JSON Schema's `pattern` and guided_regex have them, over characters of Unicode.
 *   .  [a-z]  [^a-z]  |  ( )  (?: )  (?<name> )  *  +  ?  {m}  {m,}  {m,n}, each lazy with a ? behind it (the texts
 *   are the same)  ^  $  \d \D \w \W \s \S (letters and digits of ASCII; all white space of Unicode)
 *   \n \r \t \v \f \0 \xHH \uHHHH \u{H...} \cX, and \ before any sign that is no letter or digit
 * A brace that begins no count is a plain character. Refused by name: look-around, back-references, \b \B, \p \P,
 * inline flags. reader.h has the limits. */

/* Appends the program of a whole text (guided_regex). */
bt_err bt_regex_compile(bt_buf *ret, const char *text, size_t len, bt_fault *fault);
/* Appends the program of exactly these texts (guided_choice). BT_ELIMIT; BT_EARG where there is none. */
bt_err bt_regex_choices(bt_buf *ret, const bt_syntax_span *word, size_t n, bt_fault *fault);

/* ---- GBNF ---- */

/* Grammars in GBNF, llama.cpp's form:
 *   name ::= item item | item    # a comment
 * An item is "text", [a-z], [^a-z], . (any character), a name, or ( ... ), with *, +, ?, {m}, {m,} or {m,n} behind it.
 * Escapes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH. A rule ends with its line, but inside parentheses and behind
 * | and ::=. Names have letters, digits, - and _. The whole is `root`. A rule may call any rule, but none may begin
 * with itself (left recursion). Texts of tokens (<...>) are not supported. reader.h has the limits. */

/* Appends the program. BT_EARG says what is wrong and at which byte, or names a rule that is missing, written twice or
 * left-recursive; BT_ELIMIT the limit. */
bt_err bt_gbnf_compile(bt_buf *ret, const char *text, size_t len, bt_fault *fault);

/* ---- JSON Schema ---- */

/* JSON Schema to a program. The texts are JSON that the schema allows, in one form:
 *   - Members come in the order of `properties`, then those that only `required` names, then additional ones; their
 *     keys are written without escapes, and none is a declared one. `additionalProperties` that is not there is false
 *     where there are `properties`, else true.
 *   - White space: behind { [ , : and before } ] there may be one space, or a line's end and up to 32 spaces or tabs.
 *     `const` and `enum` values that are lists or objects have none.
 *   - Integers have at most 18 digits. Numbers have at most 15 digits before the point, 15 behind it and 2 in the
 *     exponent; with bounds, no exponent and at most 8 digits behind the point. Numbers are never "-0" where 0 is out.
 *   - Strings with `pattern` or `format` escape what must be escaped, in the shortest form; others as they like, where
 *     surrogates come in pairs.
 * A schema without `type` gets it from its keywords (properties: object, items: array, pattern: string, minimum:
 * number); one without such allows any value.
 *
 * Supported: type, enum, const, anyOf, oneOf (where two parts never fit at once: other types, other constants, or a
 * required property with other constants; else refused), allOf (parts are joined keyword by keyword), $ref to # and
 * #/..., $defs, definitions; properties, required, additionalProperties; items, prefixItems, minItems, maxItems,
 * uniqueItems false; pattern, format, minLength, maxLength; minimum, maximum, exclusiveMinimum,
 * exclusiveMaximum. Formats: date, time, date-time, uuid, email, ipv4, ipv6, hostname, uri, duration. Ignored: title,
 * description, default, examples, deprecated, readOnly, writeOnly, $schema, $id, $comment. Every other keyword is
 * refused by name. Limits: those of syntax.h and program.h, BT_SCHEMA_LEVELS of $ref and allOf in one another. */
enum { BT_SCHEMA_LEVELS = 16 };

/* Appends the program. BT_EARG names the keyword that is not supported or wrong, BT_ELIMIT the limit; BT_ENOMEM. The
 * schema (an object or a boolean) is borrowed. */
bt_err bt_schema_compile(bt_buf *ret, json_t *schema, bt_fault *fault);
/* The same of a text that begins with `before` and ends with `behind`, the schema's between them; where is_many, of
 * one or several such texts with `between` between two. */
typedef struct bt_schema_frame {
    const char *before, *between, *behind;
    bool is_many;
} bt_schema_frame;
bt_err bt_schema_compile_framed(bt_buf *ret, json_t *schema, const bt_schema_frame *frame, bt_fault *fault);
/* The same of any JSON object (json_object). */
bt_err bt_schema_any_object(bt_buf *ret, bt_fault *fault);
#endif
