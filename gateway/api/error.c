/* Errors in words, always whole characters. */
#include "gateway/api/error.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes that are no character become '?', and a part of one at the end is cut. A client's text that was cut
 * inside a character leaves what stands behind it whole. */
static void make_whole(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const int n = bt_utf8_next(text, left);
        const size_t bytes = (size_t)(n < 0 ? -n : n);
        if (n == 0) *text = 0;
        if (n < 0) memset(text, '?', bytes);
        if (n == 0) return;
        text += bytes;
        left -= bytes;
    }
}

bt_err gw_error_say(gw_error *err, int status, const char *code, const char *param, const char *fmt, ...)
{
    *err = (gw_error){.status = status, .code = code};
    if (param) (void)snprintf(err->param, sizeof err->param, "%s", param);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    make_whole(err->param);
    make_whole(err->message);
    return BT_EARG;
}

bt_err gw_error_no_memory(gw_error *err)
{
    (void)gw_error_say(err, 500, "out_of_memory", NULL, "Out of memory.");
    return BT_ENOMEM;
}
