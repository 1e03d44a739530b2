#ifndef BT_TOOLS_PASTE_H
#define BT_TOOLS_PASTE_H
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>
#include "base/err.h"

/* The characters that a terminal sends between ESC[200~ and ESC[201~ when something is pasted, as one text. A pure
 * machine: characters go in one at a time, and the end is seen wherever it stands. Line ends (CR, LF, either pair)
 * become LF, NUL is left out, all else stays as it is. */
#define TOOL_PASTE_BEGIN     L"\033[200~"
#define TOOL_PASTE_END       L"\033[201~"
#define TOOL_PASTE_END_CHARS 6

typedef struct tool_paste {
    wchar_t *text; /* NUL-terminated once anything came; NULL before */
    size_t len, cap;
    size_t bytes, limit_bytes; /* of the text as UTF-8 */
    bool is_too_long;          /* more than limit_bytes came: text is their beginning */
    wchar_t last;              /* of the line end just seen, CR or LF; 0: none */
    size_t matched;            /* how much of TOOL_PASTE_END the last characters are */
} tool_paste;

void tool_paste_init(tool_paste *p, size_t limit_bytes);
void tool_paste_done(tool_paste *p);  /* frees */
void tool_paste_clear(tool_paste *p); /* before the next paste; keeps the memory */
/* *ret_ended: c was the last character of the end. BT_ENOMEM. */
bt_err tool_paste_feed(tool_paste *p, wchar_t c, bool *ret_ended);
#endif
