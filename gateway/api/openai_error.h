#ifndef GW_OPENAI_ERROR_H
#define GW_OPENAI_ERROR_H
#include <stdint.h>
#include "base/err.h"

/* An error in the API's form: {"error": {"message", "type", "param", "code"}} under an HTTP status. Strings are UTF-8.
 */
typedef struct gw_openai_error {
    int status;
    const char *type, *code; /* static text; code may be NULL */
    char param[64];          /* the field at fault; "" for none */
    char message[512];
    uint32_t retry_after_s; /* 0: no such header */
} gw_openai_error;

/* Fills *err; message by format, cut at a character when too long. param may be NULL. Returns BT_EARG. */
bt_err gw_openai_fail(gw_openai_error *err, int status, const char *type, const char *code, const char *param,
                      const char *fmt, ...) __attribute__((format(printf, 6, 7)));
bt_err gw_openai_no_memory(gw_openai_error *err); /* a 500; returns BT_ENOMEM */
#endif
