/* Stop strings as defined in the header. `held` is always the longest end of the text so far that begins some
 * stop string, so every stop string that is complete is an end of it. */
#include "sample/stop.h"

#include <string.h>

void bt_stop_init(bt_stop *s) { memset(s, 0, sizeof *s); }

bt_err bt_stop_add_string(bt_stop *s, const char *text, size_t len, bt_fault *fault)
{
    if (len == 0) return bt_fail(fault, BT_EARG, "a stop string is empty");
    if (len > BT_STOP_MAX_BYTES)
        return bt_fail(fault, BT_ELIMIT, "a stop string of %zu bytes; at most %d are allowed", len,
                       BT_STOP_MAX_BYTES);
    if (s->string_count == BT_STOP_MAX_STRINGS)
        return bt_fail(fault, BT_ELIMIT, "more than %d stop strings", BT_STOP_MAX_STRINGS);
    memcpy(s->text[s->string_count], text, len);
    s->len[s->string_count++] = (uint16_t)len;
    return BT_OK;
}

/* The length of the longest stop string that held[0..n) ends with, which is s->found then; 0: none. */
static size_t complete(bt_stop *s, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; i < s->string_count; i++)
        if (s->len[i] <= n && s->len[i] > best &&
            memcmp(s->held + n - s->len[i], s->text[i], s->len[i]) == 0) {
            best = s->len[i];
            s->found = i;
        }
    return best;
}

static bool begins_one(const bt_stop *s, const char *p, size_t n)
{
    for (size_t i = 0; i < s->string_count; i++)
        if (n < s->len[i] && memcmp(p, s->text[i], n) == 0) return true;
    return false;
}

size_t bt_stop_push(bt_stop *s, char *out, const char *text, size_t len, bool *ret_stopped)
{
    size_t given = 0;
    for (size_t i = 0; i < len && !s->stopped; i++) {
        /* held is a proper beginning of a stop string, at most 255 bytes: one more fits */
        size_t n = s->held_bytes, drop = 0;
        s->held[n++] = text[i];
        const size_t found = complete(s, n);
        if (found) {
            s->stopped = true;
            drop = n - found;
        } else {
            while (drop < n && !begins_one(s, s->held + drop, n - drop)) drop++;
        }
        memcpy(out + given, s->held, drop);
        given += drop;
        s->held_bytes = s->stopped ? 0 : n - drop;
        memmove(s->held, s->held + drop, s->held_bytes);
    }
    *ret_stopped = s->stopped;
    return given;
}

size_t bt_stop_flush(bt_stop *s, char *out)
{
    const size_t n = s->held_bytes;
    memcpy(out, s->held, n);
    s->held_bytes = 0;
    return n;
}
