/* Text with the origin of each byte. A text of one origin has no marks of its own; one that was put together
 * carries a mark for each byte, in the same room, so that what grows piece by piece is copied rarely. */
#include "text/jinja/jj_str.h"

#include <string.h>
#include <utf8proc.h>

/* bytes and marks of a text that may be continued where it ends */
struct jj_room {
    char *ptr;
    uint8_t *mark;
    size_t used, cap;
};

enum { ROOM_BYTES = 128 }; /* shorter texts are copied */

static bool is_too_long(jj_run *r, size_t len)
{
    if (len <= r->max_text_bytes) return false;
    bt_jj_fail(r, BT_ELIMIT, "a text or the rendering has more than %zu bytes", r->max_text_bytes);
    return true;
}

static bool make_room(jj_buf *b, size_t extra)
{
    if (extra <= b->cap - b->len) return true;
    const size_t need = b->len + extra;
    if (extra > b->run->max_text_bytes || is_too_long(b->run, need)) return false;
    const size_t cap = need < 32 ? 64 : 2 * need;
    char *ptr = bt_jj_take(b->run, 2 * cap);
    if (!ptr) return false;
    if (b->len) {
        memcpy(ptr, b->ptr, b->len);
        memcpy(ptr + cap, b->mark, b->len);
    }
    b->ptr = ptr;
    b->mark = (uint8_t *)ptr + cap;
    b->cap = cap;
    return true;
}

bool bt_jj_buf_bytes(jj_buf *b, const char *bytes, size_t len, bool is_template)
{
    if (len == 0) return true;
    if (!jj_step(b->run, len / 64) || !make_room(b, len)) return false;
    memcpy(b->ptr + b->len, bytes, len);
    memset(b->mark + b->len, is_template, len);
    b->len += len;
    if (is_template) b->has_template = true;
    else b->has_request = true;
    return true;
}

bool bt_jj_buf_text(jj_buf *b, const char *text, bool is_template)
{
    return bt_jj_buf_bytes(b, text, strlen(text), is_template);
}

bool bt_jj_buf_char(jj_buf *b, uint32_t code, bool is_template)
{
    char c[4];
    return bt_jj_buf_bytes(b, c, bt_jj_code_bytes(c, code), is_template);
}

bool bt_jj_buf_part(jj_buf *b, const jj_str *s, size_t begin, size_t end)
{
    const size_t len = end - begin;
    if (len == 0) return true;
    if (!s->mark) return bt_jj_buf_bytes(b, s->ptr + begin, len, s->is_template);
    if (!jj_step(b->run, len / 64) || !make_room(b, len)) return false;
    memcpy(b->ptr + b->len, s->ptr + begin, len);
    memcpy(b->mark + b->len, s->mark + begin, len);
    b->len += len;
    b->has_template = b->has_template || memchr(s->mark + begin, 1, len) != NULL;
    b->has_request = b->has_request || memchr(s->mark + begin, 0, len) != NULL;
    return true;
}

bool bt_jj_buf_add(jj_buf *b, const jj_str *s) { return bt_jj_buf_part(b, s, 0, s->len); }

const jj_str *bt_jj_buf_str(jj_buf *b, bool is_template)
{
    jj_str *s = bt_jj_take(b->run, sizeof *s);
    if (!s) return NULL;
    *s = (jj_str){b->len ? b->ptr : "", b->len, NULL, is_template, NULL};
    if (b->len) s->is_template = !b->has_request;
    if (b->has_template && b->has_request) s->mark = b->mark;
    return s;
}

const jj_str *bt_jj_str_new(jj_run *r, const char *ptr, size_t len, bool is_template)
{
    jj_str *s = bt_jj_take(r, sizeof *s);
    if (s) *s = (jj_str){ptr, len, NULL, is_template, NULL};
    return s;
}

const jj_str *bt_jj_str_part(jj_run *r, const jj_str *s, size_t begin, size_t end)
{
    if (begin == 0 && end == s->len) return s;
    jj_str *part = bt_jj_take(r, sizeof *part);
    if (!part) return NULL;
    const bool is_mixed = s->mark && end > begin;
    *part = (jj_str){s->ptr + begin, end - begin, is_mixed ? s->mark + begin : NULL, s->is_template, NULL};
    return part;
}

static void put_marks(uint8_t *to, const jj_str *s)
{
    if (s->mark) memcpy(to, s->mark, s->len);
    else memset(to, s->is_template, s->len);
}

/* a + b where a ends where its room is used up to: b goes behind it, and a stays what it was. */
static bool continue_in_room(jj_str *s, const jj_str *a, const jj_str *b)
{
    jj_room *room = a->room;
    if (!room || a->ptr + a->len != room->ptr + room->used || b->len > room->cap - room->used) return false;
    memcpy(room->ptr + room->used, b->ptr, b->len);
    put_marks(room->mark + room->used, b);
    room->used += b->len;
    *s = (jj_str){a->ptr, a->len + b->len, room->mark + (a->ptr - room->ptr), false, room};
    return true;
}

const jj_str *bt_jj_str_join(jj_run *r, const jj_str *a, const jj_str *b)
{
    if (b->len == 0) return a;
    if (a->len == 0) return b;
    if (a->len > r->max_text_bytes || is_too_long(r, a->len + b->len)) return NULL;
    jj_str *s = bt_jj_take(r, sizeof *s);
    if (!s || !jj_step_bytes(r, b->len)) return NULL;
    const bool is_uniform = !a->mark && !b->mark && a->is_template == b->is_template;
    if (continue_in_room(s, a, b)) {
        if (is_uniform) s->mark = NULL, s->is_template = a->is_template;
        return s;
    }
    const size_t len = a->len + b->len, cap = len < ROOM_BYTES ? len : 2 * len;
    char *ptr = bt_jj_take(r, 2 * cap);
    jj_room *room = len < ROOM_BYTES ? NULL : bt_jj_take(r, sizeof *room);
    if (!ptr || (len >= ROOM_BYTES && !room) || !jj_step_bytes(r, a->len)) return NULL;
    uint8_t *mark = (uint8_t *)ptr + cap;
    memcpy(ptr, a->ptr, a->len);
    memcpy(ptr + a->len, b->ptr, b->len);
    put_marks(mark, a);
    put_marks(mark + a->len, b);
    if (room) *room = (jj_room){ptr, mark, len, cap};
    *s = (jj_str){ptr, len, is_uniform ? NULL : mark, is_uniform && a->is_template, room};
    return s;
}

bool bt_jj_str_same(const jj_str *a, const jj_str *b) { return jj_str_is(a, b->ptr, b->len); }

int bt_jj_str_order(const jj_str *a, const jj_str *b)
{
    const size_t n = a->len < b->len ? a->len : b->len;
    const int c = n ? memcmp(a->ptr, b->ptr, n) : 0; /* UTF-8 sorts as its code points do */
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

bool bt_jj_str_is_template(const jj_str *s)
{
    return s->mark ? memchr(s->mark, 0, s->len) == NULL : s->is_template;
}

/* ---- code points ---- */

static bool is_inner(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

size_t bt_jj_str_chars(const jj_str *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) n += !is_inner(s->ptr[i]);
    return n;
}

size_t bt_jj_str_at(const jj_str *s, size_t index)
{
    size_t i = 0;
    for (; i < s->len; i++)
        if (!is_inner(s->ptr[i]) && index-- == 0) break;
    return i;
}

uint32_t bt_jj_code(const char *ptr, size_t len, size_t at, size_t *ret_bytes)
{
    const unsigned char first = (unsigned char)ptr[at];
    if (first < 0x80) {
        *ret_bytes = 1;
        return first;
    }
    utf8proc_int32_t code;
    const size_t left = len - at > 4 ? 4 : len - at;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)ptr + at, (utf8proc_ssize_t)left, &code);
    *ret_bytes = n > 0 ? (size_t)n : 1;
    return n > 0 ? (uint32_t)code : 0xfffd;
}

size_t bt_jj_code_bytes(char ret[4], uint32_t code)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)ret);
}

bool bt_jj_is_utf8(const char *ptr, size_t len, size_t *ret_bad)
{
    for (size_t i = 0; i < len;) {
        utf8proc_int32_t code;
        const size_t left = len - i > 4 ? 4 : len - i;
        const utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)ptr + i, (utf8proc_ssize_t)left, &code);
        if (n <= 0) {
            *ret_bad = i;
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

bool bt_jj_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool bt_jj_is_line_end(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool bt_jj_is_printable(uint32_t c)
{
    if (c < 0x80) return c >= ' ' && c < 0x7f;
    switch ((int)utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

size_t bt_jj_str_find(const jj_str *s, const jj_str *what, size_t begin, size_t end)
{
    if (begin > end || what->len > end - begin) return SIZE_MAX;
    if (what->len == 0) return begin;
    const char *p = memmem(s->ptr + begin, end - begin, what->ptr, what->len);
    return p ? (size_t)(p - s->ptr) : SIZE_MAX;
}

bool bt_jj_str_rfind(size_t *ret, jj_run *r, const jj_str *s, const jj_str *what, size_t begin, size_t end)
{
    *ret = SIZE_MAX;
    if (begin > end || what->len > end - begin) return true;
    if (what->len == 0) {
        *ret = end;
        return true;
    }
    if (!jj_step_bytes(r, end - begin)) return false;
    for (size_t at = end - what->len;; at--) {
        if (s->ptr[at] == what->ptr[0] && s->ptr[at + what->len - 1] == what->ptr[what->len - 1]) {
            if (!jj_step(r, what->len / 64)) return false;
            if (memcmp(s->ptr + at, what->ptr, what->len) == 0) {
                *ret = at;
                return true;
            }
        }
        if (at == begin) return true;
    }
}
