/* JSON into a buffer. */
#include "gateway/api/json.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_bytes(const char *bytes, size_t len, void *ud)
{
    return bt_buf_add(ud, bytes, len) < 0 ? -1 : 0;
}

bt_err gw_json_add(bt_buf *out, json_t *j, size_t flags)
{
    const int failed = j ? json_dump_callback(j, add_bytes, out, flags) : -1;
    json_decref(j);
    return failed ? BT_ENOMEM : BT_OK;
}

json_t *gw_json_number(double v)
{
    const json_int_t whole = (json_int_t)v;
    return (double)whole < v || (double)whole > v ? json_real(v) : json_integer(whole);
}

/* ---- numbers that jansson refuses --------------------------------------------------------------- */

/* A text of JSON on the way through its strings and numbers; all else only counts as depth. */
typedef struct walk {
    char *text; /* NUL-terminated, with room for one byte more */
    size_t len, at, depth;
    size_t string, string_len; /* the last string, without its quotes */
    const char *bits;
} walk;

static void pass_string(walk *w)
{
    w->string = ++w->at;
    while (w->at < w->len && w->text[w->at] != '"') w->at += w->text[w->at] == '\\' ? 2 : 1;
    w->string_len = w->at < w->len ? w->at - w->string : 0;
    w->at++;
}

static bool is_bits(const walk *w)
{
    return w->bits && w->depth == 1 && strlen(w->bits) == w->string_len &&
           memcmp(w->text + w->string, w->bits, w->string_len) == 0;
}

/* Writes a number in place of the n bytes at w->at, padded with spaces. It is at most one byte longer, once.
 */
static void put(walk *w, size_t n, const char *number)
{
    const size_t needs = strlen(number);
    if (needs > n) {
        memmove(w->text + w->at + needs, w->text + w->at + n, w->len + 1 - w->at - n);
        w->len += needs - n;
        w->bits = NULL;
        n = needs;
    }
    memset(w->text + w->at, ' ', n);
    memcpy(w->text + w->at, number, needs);
    w->at += n;
}

static void pass_number(walk *w)
{
    char *literal = w->text + w->at, number[32];
    const size_t n = strspn(literal, "+-.0123456789eE");
    const bool is_negative = *literal == '-', is_whole = strcspn(literal, ".eE") >= n;
    const double x = strtod(literal, NULL);
    errno = 0;
    if (is_whole) (void)strtoll(literal, NULL, 10);
    if (is_whole ? errno != ERANGE : isfinite(x)) {
        w->at += n;
        return;
    }
    errno = 0;
    const uint64_t whole = is_whole && !is_negative && is_bits(w) ? strtoull(literal, NULL, 10) : 0;
    if (whole && errno != ERANGE) (void)snprintf(number, sizeof number, "%lld", (long long)whole);
    else if (isfinite(x)) (void)snprintf(number, sizeof number, "%.*e", (int)(n < 24 ? 12 : 16), x);
    else (void)snprintf(number, sizeof number, "%s9e307", is_negative ? "-" : "");
    put(w, n, number);
}

static void widen(walk *w)
{
    while (w->at < w->len) {
        const char c = w->text[w->at];
        if (c == '"') pass_string(w);
        else if (c == '-' || (c >= '0' && c <= '9')) pass_number(w);
        else {
            w->depth += c == '{' || c == '[';
            w->depth -= c == '}' || c == ']';
            w->at++;
        }
    }
}

json_t *gw_json_load(const char *text, size_t len, const char *bits, json_error_t *why)
{
    json_t *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, why);
    if (ret || json_error_code(why) != json_error_numeric_overflow) return ret;
    walk w = {.text = malloc(len + 2), .len = len, .bits = bits};
    if (!w.text) return NULL; /* *why names the number */
    memcpy(w.text, text, len);
    w.text[len] = 0;
    widen(&w);
    ret = json_loadb(w.text, w.len, JSON_REJECT_DUPLICATES, why);
    free(w.text);
    return ret;
}
