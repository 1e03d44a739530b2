#ifndef BT_TOOLS_WIDE_H
#define BT_TOOLS_WIDE_H
#include <stddef.h>
#include <wchar.h>
#include "base/buf.h"

/* Between the bytes of a keyboard or file, which are UTF-8, and the wide characters of libedit. A byte that belongs to
 * no character becomes TOOL_WIDE_BAD + its value, which no text holds: the editor shows it and can delete it, and a
 * line that still has it is refused. Independent of the locale. */
enum { TOOL_WIDE_BAD = 0xDC00 };

/* How many bytes of bytes[0 .. len), len >= 1, make *ret; 0: the beginning of a character that is not whole. */
size_t tool_wide_take(wchar_t *ret, const char *bytes, size_t len);
/* Appends a character. BT_EFORMAT: c is none (TOOL_WIDE_BAD and the like); else as bt_buf_add. */
bt_err tool_wide_put(bt_buf *ret, wchar_t c);
/* The same for n of them, up to the first failure. */
bt_err tool_wide_put_all(bt_buf *ret, const wchar_t *text, size_t n);
/* How many bytes these characters are, those of TOOL_WIDE_BAD one each. */
size_t tool_wide_bytes(const wchar_t *text, size_t n);
/* Valid UTF-8 as a NUL-terminated text, which the caller frees; NULL: out of memory. */
wchar_t *tool_wide_dup(const char *text, size_t len);
#endif
