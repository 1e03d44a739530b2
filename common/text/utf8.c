/* UTF-8 characters, bytes that are none, and the normal form. utf8proc knows each character's parts and
 * what composes; its own sorting of marks takes quadratic time, so marks are sorted here. */
#include "text/utf8.h"

#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int bt_utf8_next(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    const unsigned char b = p[0];
    if (b < 0x80) return 1;
    if (b < 0xC2 || b > 0xF4) return -1;
    const int need = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
    if (len < 2) return 0;
    /* The second byte rules out overlong forms, surrogates and what lies past U+10FFFF. */
    const unsigned char lo = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    const unsigned char hi = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < lo || p[1] > hi) return -1;
    for (int i = 2; i < need; i++) {
        if ((size_t)i == len) return 0;
        if ((p[i] & 0xC0) != 0x80) return -i;
    }
    return need;
}

bool bt_utf8_valid(const char *text, size_t len, size_t *ret_bad_offset)
{
    for (size_t i = 0; i < len;) {
        const int n = bt_utf8_next(text + i, len - i);
        if (n <= 0) {
            if (ret_bad_offset) *ret_bad_offset = i;
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

size_t bt_utf8_count(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* ---- NFC ---- */

enum { CLASSES = 256, CHAR_PARTS = 8, SHORT_RUN = 24 }; /* a character has at most 4 parts */

typedef struct points {
    int32_t *at, *sorted; /* [cap] each */
    size_t count, cap;
} points;

static unsigned class_of(int32_t c) { return (unsigned)utf8proc_get_property(c)->combining_class; }

/* Marks and second parts that came after Unicode 9, first and last of each row. The tables of the tokenizers
 * that models were made with (Hugging Face's) end there: to them these are characters like any other. */
static const struct {
    int32_t first, last;
} later[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

static bool is_later(int32_t c)
{
    size_t lo = 0, hi = sizeof later / sizeof *later;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (later[mid].last < c) lo = mid + 1;
        else hi = mid;
    }
    return lo < sizeof later / sizeof *later && later[lo].first <= c;
}

/* The first character of valid text, and its bytes. */
static size_t next_point(int32_t *ret, const char *text, size_t len)
{
    if ((unsigned char)text[0] < 0x80) {
        *ret = text[0];
        return 1;
    }
    return (size_t)utf8proc_iterate((const uint8_t *)text, (utf8proc_ssize_t)len, ret);
}

/* A character begins a row and joins none; does neither; or may change with what stands before it. */
typedef enum role { STARTS, STANDS_ALONE, JOINS } role;

static role role_of(int32_t c)
{
    if (c < 0x300) return STARTS;
    /* Vowels and finals of Hangul; U+11A7 is none, though utf8proc 2.8 takes it for one behind others. */
    if ((c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2)) return JOINS;
    const utf8proc_property_t *p = utf8proc_get_property(c);
    const bool has_parts = p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0;
    const bool is_second = p->comb_index != UINT16_MAX && p->comb_index >= 0x8000;
    if (p->combining_class == 0 && !has_parts && !is_second) return STARTS;
    return is_later(c) ? STANDS_ALONE : JOINS;
}

/* Marks of one run in the order of their classes; equals stay as they are. */
static void sort_marks(int32_t *mark, int32_t *sorted, size_t n)
{
    if (n <= SHORT_RUN) {
        for (size_t i = 1; i < n; i++) {
            const int32_t c = mark[i];
            size_t k = i;
            for (; k > 0 && class_of(mark[k - 1]) > class_of(c); k--) mark[k] = mark[k - 1];
            mark[k] = c;
        }
        return;
    }
    size_t next[CLASSES + 1] = {0};
    for (size_t i = 0; i < n; i++) next[class_of(mark[i]) + 1]++;
    for (size_t i = 1; i <= CLASSES; i++) next[i] += next[i - 1];
    for (size_t i = 0; i < n; i++) sorted[next[class_of(mark[i])]++] = mark[i];
    memcpy(mark, sorted, n * sizeof *mark);
}

static bt_err add_parts(points *p, int32_t c)
{
    if (p->cap - p->count < CHAR_PARTS) {
        const size_t cap = p->cap ? 2 * p->cap : 256;
        int32_t *at = realloc(p->at, cap * sizeof *at);
        if (at) p->at = at;
        int32_t *sorted = realloc(p->sorted, cap * sizeof *sorted);
        if (sorted) p->sorted = sorted;
        if (!at || !sorted) return BT_ENOMEM;
        p->cap = cap;
    }
    int last = UTF8PROC_BOUNDCLASS_START;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(c, p->at + p->count, CHAR_PARTS, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &last);
    if (n < 0 || n > CHAR_PARTS) return BT_EARG; /* no valid character */
    p->count += (size_t)n;
    return BT_OK;
}

/* The row text[0 .. len), of which all but the first JOINS, composed and added to out. */
static bt_err compose(bt_buf *out, points *p, const char *text, size_t len)
{
    bt_err e;
    p->count = 0;
    for (size_t i = 0; i < len;) {
        int32_t c;
        i += next_point(&c, text + i, len - i);
        if ((e = add_parts(p, c)) < 0) return e;
    }
    for (size_t i = 0, end; i < p->count; i = end) {
        for (end = i; end < p->count && class_of(p->at[end]) != 0;) end++;
        sort_marks(p->at + i, p->sorted, end - i);
        if (end == i) end++;
    }
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(p->at, (utf8proc_ssize_t)p->count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if ((e = bt_buf_reserve(out, 4 * (size_t)n)) < 0) return e;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out->len += (size_t)utf8proc_encode_char(p->at[i], out->data + out->len);
    return BT_OK;
}

bt_err bt_utf8_nfc(char **ret, size_t *ret_len, const char *text, size_t len)
{
    bt_err e = BT_OK;
    bt_buf out;
    points p = {0};
    size_t done = 0, row = 0; /* what is in out; where a row would begin */
    bt_buf_init(&out, SIZE_MAX);
    for (size_t i = 0, next; i < len; i = next) {
        int32_t c;
        next = i + next_point(&c, text + i, len - i);
        const role first = role_of(c);
        if (first != JOINS) {
            row = first == STARTS ? i : next;
            continue;
        }
        for (size_t n; next < len; next += n) {
            n = next_point(&c, text + next, len - next);
            if (role_of(c) != JOINS) break;
        }
        if ((e = bt_buf_add(&out, text + done, row - done)) < 0) goto out;
        if ((e = compose(&out, &p, text + row, next - row)) < 0) goto out;
        done = row = next;
    }
    *ret = NULL;
    *ret_len = len;
    if (out.len == 0) goto out;
    if ((e = bt_buf_add(&out, text + done, len - done)) < 0) goto out;
    *ret_len = out.len;
    *ret = (char *)out.data;
    bt_buf_init(&out, 0);
out:
    bt_buf_done(&out);
    free(p.at);
    free(p.sorted);
    return e;
}

char *bt_utf8_show(char *ret, size_t cap, const char *text, size_t len)
{
    const size_t n = len < cap - 1 ? len : cap - 1;
    for (size_t i = 0; i < n; i++) ret[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    ret[n] = '\0';
    return ret;
}
