#ifndef BT_TOOLS_SHOW_H
#define BT_TOOLS_SHOW_H
#include <stddef.h>
#include <stdio.h>

/* Writes len bytes of text from a model or a gateway so that they cannot steer the terminal: line ends and tabs as they
 * are, every other control character as \x1b or \u009b, bytes that are no UTF-8 character as U+FFFD. */
void tool_show(FILE *out, const char *text, size_t len);
#endif
