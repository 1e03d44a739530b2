/* Upper, lower and title case by utf8proc, and the few characters that become several. */
#include "text/jinja/jj_case.h"

#include <string.h>
#include <utf8proc.h>

static const struct {
    uint32_t code;
    const char *upper, *title;
} several[] = {
    {0xdf, "SS", "Ss"},
    {0x149, "\xca\xbcN", "\xca\xbcN"},
    {0x1f0, "J\xcc\x8c", "J\xcc\x8c"},
    {0x587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"},
    {0x390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x3b0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"},
    {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"},
};

static int category(uint32_t c) { return (int)utf8proc_category((utf8proc_int32_t)c); }
static uint32_t lower_of(uint32_t c) { return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c); }
static uint32_t upper_of(uint32_t c) { return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c); }

static bool is_letter(uint32_t c)
{
    const int k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static bool is_upper(uint32_t c)
{
    return c < 0x80 ? c >= 'A' && c <= 'Z'
                    : category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c < 0x2170) ||
                          (c >= 0x24b6 && c < 0x24d0);
}

static bool is_lower(uint32_t c)
{
    return c < 0x80
               ? c >= 'a' && c <= 'z'
               : category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba ||
                     (c >= 0x2170 && c < 0x2180) || (c >= 0x24d0 && c < 0x24ea) || (c >= 0x2b0 && c <= 0x2b8);
}

static bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }

/* Sigma at the end of a word has a form of its own. */
static bool ends_word(const jj_str *s, size_t at, size_t bytes, bool is_after_letter)
{
    size_t n;
    return is_after_letter && (at + bytes >= s->len || !is_cased(bt_jj_code(s->ptr, s->len, at + bytes, &n)));
}

/* casefold(): lower case, but for what has several letters in upper case, and the sigma at the end of a word.
 */
static bool fold(jj_buf *b, uint32_t c, bool mine)
{
    for (size_t i = 0; c >= 0x80 && i < sizeof several / sizeof *several; i++) {
        if (several[i].code != c) continue;
        const size_t len = strlen(several[i].upper);
        for (size_t at = 0, bytes; at < len; at += bytes)
            if (!bt_jj_buf_char(b, lower_of(bt_jj_code(several[i].upper, len, at, &bytes)), mine))
                return false;
        return true;
    }
    return bt_jj_buf_char(b, c == 0x3c2 ? 0x3c3 : lower_of(c), mine);
}

static bool put(jj_buf *b, uint32_t c, jj_case to, bool mine)
{
    if (to == JJ_FOLD) return fold(b, c, mine);
    if (c >= 0x80 && to != JJ_LOWER)
        for (size_t i = 0; i < sizeof several / sizeof *several; i++)
            if (several[i].code == c)
                return bt_jj_buf_text(b, to == JJ_UPPER ? several[i].upper : several[i].title, mine);
    if (to == JJ_LOWER && c == 0x130) return bt_jj_buf_text(b, "i\xcc\x87", mine);
    uint32_t other = to == JJ_LOWER   ? lower_of(c)
                     : to == JJ_UPPER ? upper_of(c)
                                      : (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
    return bt_jj_buf_char(b, other, mine);
}

const jj_str *bt_jj_case(jj_run *r, const jj_str *s, jj_case to)
{
    jj_buf b = jj_buf_of(r);
    bool is_after = false; /* a cased character */
    if (!jj_step(r, s->len / 4)) return NULL;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        jj_case way = to;
        if (to == JJ_TITLE) way = is_after ? JJ_LOWER : JJ_TITLE;
        else if (to == JJ_CAPITAL) way = i > 0 ? JJ_LOWER : JJ_TITLE;
        else if (to == JJ_SWAP) way = is_upper(c) ? JJ_LOWER : JJ_UPPER;
        const bool mine = jj_str_mark(s, i);
        const bool is_final = c == 0x3a3 && way == JJ_LOWER && ends_word(s, i, bytes, is_after);
        is_after = is_cased(c);
        if (is_final ? !bt_jj_buf_char(&b, 0x3c2, mine) : !put(&b, c, way, mine)) return NULL;
    }
    return bt_jj_buf_str(&b, s->is_template);
}

bool bt_jj_case_is_word(uint32_t c)
{
    const int k = category(c);
    return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

static bool is_super_digit(uint32_t c)
{
    return c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

static bool is_of(uint32_t c, jj_class what)
{
    const int k = category(c);
    switch (what) {
    case JJ_ALPHA: return is_letter(c);
    case JJ_ALNUM: return is_letter(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
    case JJ_DECIMAL: return k == UTF8PROC_CATEGORY_ND;
    case JJ_DIGIT: return k == UTF8PROC_CATEGORY_ND || is_super_digit(c);
    case JJ_NUMERIC: return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
    case JJ_SPACES: return bt_jj_is_space(c);
    case JJ_ASCII: return c < 0x80;
    case JJ_PRINTABLE: return bt_jj_is_printable(c);
    case JJ_IS_UPPER:
    case JJ_IS_LOWER:
    case JJ_IS_TITLE: break;
    }
    return false;
}

bool bt_jj_case_is(const jj_str *s, jj_class what)
{
    bool has_cased = false, is_after = false;
    for (size_t i = 0, bytes; i < s->len; i += bytes) {
        const uint32_t c = bt_jj_code(s->ptr, s->len, i, &bytes);
        const bool up = is_upper(c) || category(c) == UTF8PROC_CATEGORY_LT, low = is_lower(c);
        if (what == JJ_IS_UPPER   ? low || category(c) == UTF8PROC_CATEGORY_LT
            : what == JJ_IS_LOWER ? up
                                  : false)
            return false;
        if (what == JJ_IS_TITLE && ((up && is_after) || (low && !is_after))) return false;
        if (what < JJ_IS_UPPER || what > JJ_IS_TITLE) {
            if (!is_of(c, what)) return false;
        }
        is_after = up || low;
        has_cased = has_cased || up || low;
    }
    if (what == JJ_ASCII || what == JJ_PRINTABLE) return true;
    return what >= JJ_IS_UPPER && what <= JJ_IS_TITLE ? has_cased : s->len > 0;
}
