#ifndef GW_ERROR_H
#define GW_ERROR_H
#include <stdint.h>
#include "base/err.h"

/* An error of a request: its HTTP status, and what the dialect of the client makes a body of (dialect.h). Strings are
 * UTF-8. */
typedef struct gw_error {
    int status;
    const char *code; /* static text, a word for programs; may be NULL */
    char param[64];   /* the field at fault; "" for none */
    char message[1024];
    uint32_t retry_after_s; /* 0: no such header */
} gw_error;

/* Fills *err; message by format, cut at a character when too long; bytes that are no
 * UTF-8 become '?'. param may be NULL. Returns BT_EARG. */
bt_err gw_error_say(gw_error *err, int status, const char *code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
bt_err gw_error_no_memory(gw_error *err); /* a 500; returns BT_ENOMEM */
#endif
