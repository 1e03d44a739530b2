#ifndef BT_TOOLS_SHOW_H
#define BT_TOOLS_SHOW_H
#include <stdio.h>

/* Writes text from a model or a gateway so that it cannot steer the terminal: line ends and tabs as they are, every
 * other control character as \x1b or \u009b, a byte that belongs to no UTF-8 character as U+FFFD. */
void tool_show(FILE *out, const char *text);
#endif
