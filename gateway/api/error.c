/* Errors in words, always whole characters. */
#include "gateway/api/error.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void cut_at_character(char *text)
{
    size_t bad;
    if (!bt_utf8_valid(text, strlen(text), &bad)) text[bad] = 0;
}

bt_err gw_error_say(gw_error *err, int status, const char *code, const char *param, const char *fmt, ...)
{
    *err = (gw_error){.status = status, .code = code};
    if (param) (void)snprintf(err->param, sizeof err->param, "%s", param);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    cut_at_character(err->param);
    cut_at_character(err->message);
    return BT_EARG;
}

bt_err gw_error_no_memory(gw_error *err)
{
    (void)gw_error_say(err, 500, "out_of_memory", NULL, "Out of memory.");
    return BT_ENOMEM;
}
