#ifndef BT_TEXT_PYTHON_H
#define BT_TEXT_PYTHON_H
#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"

/* Adds a list of Python's calls, [f(a=1, b="x"), g()], as JSON, [{"name":"f","arguments":{"a":1,"b":"x"}}, ...]:
 * arguments by name, whose values are literals (strings, numbers, True, False, None and JSON's words for them, lists,
 * tuples, dicts with texts as keys), perhaps in parentheses. False: the text is none, is deeper than `depth`, or memory
 * lacks; what out holds is void then. Numbers and the bytes of strings are not checked: the caller reads the JSON. */
bool bt_python_calls(bt_buf *out, const char *text, size_t len, unsigned depth);
#endif
