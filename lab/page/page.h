#ifndef BT_LAB_PAGE_PAGE_H
#define BT_LAB_PAGE_PAGE_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* JSON that may stand inside <script> of an HTML page: each '<' is \u003c. A browser takes the rest of a page
 * for part of a script once the script holds "<!--" and "<script", and "</script" ends a script. '<' stands
 * only in JSON's texts, so the value that a reader parses is the same. All JSON of a page goes through here.
 */
bool tool_page_json(FILE *f, const json_t *value, size_t flags); /* flags: jansson's; false: not written */
/* Writes a page as far as `mark`, which it has, and returns what stands behind that. */
const char *tool_page_until(FILE *f, const char *page, const char *mark);
/* The object `made_by` of a result as a section with a table, for people. NULL: writes nothing. */
void tool_page_made_by(FILE *f, const json_t *made_by);
/* A text as such JSON. A text that is no UTF-8 becomes "(not UTF-8)": the name of a file may be any bytes. */
bool tool_page_text(FILE *f, const char *text);
#endif
