/* Names of errors, and the one way to fail with words. */
#include "base/err.h"
#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
        char limit[BT_MEMORY_LIMIT_BYTES] = "";
        if (e == BT_ENOMEM) bt_memory_limit_text(limit);
        const size_t room = sizeof f->text - strlen(limit);
        const int n = vsnprintf(f->text, room, fmt, ap);
        const size_t len = n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
        memcpy(f->text + len, limit, strlen(limit) + 1);
        va_end(ap);
    }
    return e;
}

bt_err bt_fail_thread(bt_fault *f, const char *what, int error)
{
    const bt_err e = error == EAGAIN || error == ENOMEM ? BT_ENOMEM : BT_EIO;
    pthread_attr_t a;
    size_t stack = 0;
    if (pthread_attr_init(&a) == 0) {
        (void)pthread_attr_getstacksize(&a, &stack);
        (void)pthread_attr_destroy(&a);
    }
    return bt_fail(f, e, "cannot start %s, with a stack of %zu MiB each: %s", what, stack >> 20,
                   strerror(error));
}
