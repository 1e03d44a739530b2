#ifndef BT_JINJA_JJ_STR_H
#define BT_JINJA_JJ_STR_H
#include "text/jinja/jj_run.h"

/* Text whose every byte knows its origin. Valid UTF-8; never changed. */
typedef struct jj_room jj_room;
typedef struct jj_str {
    const char *ptr;
    size_t len;
    const uint8_t *mark; /* [len] 1 the template's, 0 the request's; NULL: all as is_template */
    bool is_template;    /* of an empty text too: what its quotes are */
    jj_room *room;       /* where the text lies with space behind it, or NULL */
} jj_str;

/* Text that grows. Without an addition since, `bt_jj_buf_str` gives what was added. */
typedef struct jj_buf {
    jj_run *run;
    char *ptr;
    uint8_t *mark;
    size_t len, cap;
    bool has_template, has_request;
} jj_buf;

static inline jj_buf jj_buf_of(jj_run *r) { return (jj_buf){.run = r}; }
bool bt_jj_buf_bytes(jj_buf *b, const char *bytes, size_t len, bool is_template);
bool bt_jj_buf_text(jj_buf *b, const char *text, bool is_template); /* NUL-terminated */
bool bt_jj_buf_char(jj_buf *b, uint32_t code, bool is_template);    /* a code point */
bool bt_jj_buf_add(jj_buf *b, const jj_str *s);
bool bt_jj_buf_part(jj_buf *b, const jj_str *s, size_t begin, size_t end); /* bytes */
/* NULL where it fails. is_template: of an empty text. */
const jj_str *bt_jj_buf_str(jj_buf *b, bool is_template);

/* NULL where they fail. */
const jj_str *bt_jj_str_new(jj_run *r, const char *ptr, size_t len, bool is_template); /* borrows ptr */
const jj_str *bt_jj_str_part(jj_run *r, const jj_str *s, size_t begin, size_t end);    /* bytes; shares them */
const jj_str *bt_jj_str_join(jj_run *r, const jj_str *a, const jj_str *b);

static inline bool jj_str_is(const jj_str *s, const char *text, size_t len)
{
    return s->len == len && (len == 0 || __builtin_memcmp(s->ptr, text, len) == 0);
}
bool bt_jj_str_same(const jj_str *a, const jj_str *b);
int bt_jj_str_order(const jj_str *a, const jj_str *b); /* by code points: < 0, 0, > 0 */
static inline bool jj_str_mark(const jj_str *s, size_t byte) { return s->mark ? s->mark[byte] : s->is_template; }
bool bt_jj_str_is_template(const jj_str *s); /* wholly */

/* ---- code points ---- */

size_t bt_jj_str_chars(const jj_str *s);
/* The byte where character `index` begins, at most s->len. */
size_t bt_jj_str_at(const jj_str *s, size_t index);
/* The code point at byte `at` < len, and how many bytes it has. */
uint32_t bt_jj_code(const char *ptr, size_t len, size_t at, size_t *ret_bytes);
size_t bt_jj_code_bytes(char ret[4], uint32_t code);
bool bt_jj_is_utf8(const char *ptr, size_t len, size_t *ret_bad);

/* As Python's str.isspace, isalpha and so on see a code point. */
bool bt_jj_is_space(uint32_t code);
bool bt_jj_is_line_end(uint32_t code); /* of str.splitlines */
bool bt_jj_is_printable(uint32_t code);

/* The first place of `what` in bytes [begin, end), or the last; SIZE_MAX: none. The steps of the first are the
 * caller's. */
size_t bt_jj_str_find(const jj_str *s, const jj_str *what, size_t begin, size_t end);
bool bt_jj_str_rfind(size_t *ret, jj_run *r, const jj_str *s, const jj_str *what, size_t begin, size_t end);
#endif
