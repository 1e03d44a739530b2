/* Any bytes as keys of a terminal: they become wide characters, and those a paste. Compared with a second way
 * to the same text: the end is searched for first, and line ends are made one afterwards. */
#include "tools/chat/paste.h"
#include "tools/chat/wide.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Every byte is part of a character, or seen by itself; what is text comes back the same. */
static size_t to_wide(wchar_t *ret, const char *bytes, size_t len)
{
    size_t n = 0;
    bt_buf back;
    bt_buf_init(&back, len);
    for (size_t i = 0, took; i < len; i += took) {
        if (!(took = tool_wide_take(&ret[n], bytes + i, len - i))) break; /* cut in a character */
        const bool is_bad = ret[n] >= TOOL_WIDE_BAD && ret[n] < TOOL_WIDE_BAD + 256;
        back.len = 0;
        if (tool_wide_put(&back, ret[n]) != (is_bad ? BT_EFORMAT : BT_OK)) abort();
        if (!is_bad && (back.len != took || memcmp(back.data, bytes + i, took) != 0)) abort();
        n++;
    }
    bt_buf_done(&back);
    return n;
}

/* The text before the end mark; *ret_used: with the mark, or all n where there is none. */
static size_t expected(wchar_t *ret, const wchar_t *keys, size_t n, size_t *ret_used, bool *ret_ended)
{
    size_t end = 0, out = 0;
    while (end + TOOL_PASTE_END_CHARS <= n && wmemcmp(keys + end, TOOL_PASTE_END, TOOL_PASTE_END_CHARS) != 0)
        end++;
    *ret_ended = end + TOOL_PASTE_END_CHARS <= n;
    *ret_used = *ret_ended ? end + TOOL_PASTE_END_CHARS : n;
    if (!*ret_ended) end = n;
    for (size_t i = 0; i < end; i++) {
        const bool is_end = keys[i] == L'\r' || keys[i] == L'\n';
        if (is_end && i + 1 < end && (keys[i + 1] == L'\r' || keys[i + 1] == L'\n') && keys[i + 1] != keys[i])
            i++;
        if (keys[i] || is_end) ret[out++] = is_end ? L'\n' : keys[i];
    }
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    wchar_t *keys = calloc(len + 1, sizeof *keys), *want = calloc(len + 1, sizeof *want);
    size_t used = 0, want_used;
    bool has_ended = false, want_ended;
    tool_paste p;
    if (!keys || !want) abort();
    const size_t n = to_wide(keys, (const char *)data, len);
    const size_t want_len = expected(want, keys, n, &want_used, &want_ended);
    tool_paste_init(&p, LIMIT);
    while (!has_ended && used < n)
        if (tool_paste_feed(&p, keys[used++], &has_ended) < 0) abort();
    if (has_ended != want_ended || used != want_used) abort();
    size_t fits = 0;
    while (fits < want_len && tool_wide_bytes(want, fits + 1) <= LIMIT) fits++;
    const bool is_whole = has_ended; /* else the last keys may still become the mark */
    if (is_whole && p.is_too_long != (want_len > fits)) abort();
    if (is_whole && p.len != fits) abort();
    if (p.len > fits || p.bytes != tool_wide_bytes(want, p.len) ||
        (p.len && wmemcmp(p.text, want, p.len) != 0))
        abort();
    if (p.text && p.text[p.len] != 0) abort();
    tool_paste_done(&p);
    free(want);
    free(keys);
    return 0;
}
