/* Names of errors, and the one way to fail with words. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

const char *bt_err_name(bt_err e)
{
    switch (e) {
    case BT_OK: return "ok";
    case BT_EARG: return "bad argument";
    case BT_ENOMEM: return "out of memory";
    case BT_EIO: return "i/o error";
    case BT_EFORMAT: return "malformed input";
    case BT_EVERSION: return "unsupported version";
    case BT_ELIMIT: return "limit exceeded";
    case BT_EAGAIN: return "try again";
    case BT_EAUTH: return "not authenticated";
    case BT_ECANCEL: return "cancelled";
    case BT_ERANGE: return "numbers out of range";
    }
    return "unknown error";
}

bt_err(bt_fail)(bt_fault *f, bt_err e, const char *fmt, ...)
{
    if (f) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(f->text, sizeof f->text, fmt, ap);
        va_end(ap);
    }
    return e;
}
