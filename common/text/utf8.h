#ifndef BT_TEXT_UTF8_H
#define BT_TEXT_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

/* UTF-8 as Unicode 3.9 table 3-7 defines it: no overlong forms, no surrogates, nothing past U+10FFFF. */

/* The character at the beginning of the bytes text[0 .. len), len >= 1:
 *    1 to 4   a whole character of so many bytes
 *    0        a beginning of one that needs more bytes than there are
 *   -1 to -3  no character: so many bytes (the "maximal subpart") stand for one U+FFFD */
int bt_utf8_next(const char *text, size_t len);

/* True when all of text[0 .. len) is valid; else *ret_bad_offset (if not NULL) is where the first bad
 * character begins. */
bool bt_utf8_valid(const char *text, size_t len, size_t *ret_bad_offset);

/* How many characters text[0 .. len) has, which is valid. */
size_t bt_utf8_count(const char *text, size_t len);

/* The normal form NFC of valid text (UAX 15, Unicode 9 as tokenizers have it): characters composed, marks in canonical
 * order. *ret is NULL where the text is in that form, else malloc'ed, for the caller to free; *ret_len is its length in
 * both cases. Time is linear in len whatever the order of marks; memory at most 16 bytes a byte. BT_ENOMEM. */
bt_err bt_utf8_nfc(char **ret, size_t *ret_len, const char *text, size_t len);

/* A name from outside, made fit for a message: printable ASCII stays, every other byte becomes '?', what
 * does not fit is cut. Always NUL-terminates; cap >= 1. Returns ret. */
char *bt_utf8_show(char *ret, size_t cap, const char *text, size_t len);
#endif
