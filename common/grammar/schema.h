#ifndef BT_GRAMMAR_SCHEMA_H
#define BT_GRAMMAR_SCHEMA_H
#include "grammar/syntax.h"

#include <jansson.h>

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
 * uniqueItems false; pattern (regex.h), format, minLength, maxLength; minimum, maximum, exclusiveMinimum,
 * exclusiveMaximum. Formats: date, time, date-time, uuid, email, ipv4, ipv6, hostname, uri, duration. Ignored: title,
 * description, default, examples, deprecated, readOnly, writeOnly, $schema, $id, $comment. Every other keyword is
 * refused by name. Limits: those of syntax.h and program.h, BT_SCHEMA_LEVELS of $ref and allOf in one another. */
enum { BT_SCHEMA_LEVELS = 16 };

/* Appends the program. BT_EARG names the keyword that is not supported or wrong, BT_ELIMIT the limit; BT_ENOMEM. The
 * schema (an object or a boolean) is borrowed. */
bt_err bt_schema_compile(bt_buf *ret, json_t *schema, bt_fault *fault);
/* The same of any JSON object (json_object). */
bt_err bt_schema_any_object(bt_buf *ret, bt_fault *fault);
#endif
