#ifndef BT_TOOLS_CSV_H
#define BT_TOOLS_CSV_H
#include <stdio.h>

/* Writes a text as one field of CSV (RFC 4180); the caller writes commas and ends of lines. A text with
 * anything but letters, digits and . _ - / : + and blanks within stands in quotes, quotes doubled. Names of
 * files, models and nodes come from others, and a spreadsheet runs a field that begins with = + - @, a tab or
 * a carriage return, so such a text gets a ' before it. Control characters other than tabs and ends of lines
 * become '?'. Numbers do not go through here: -3 stays -3. */
void tool_csv_text(FILE *out, const char *text);
#endif
