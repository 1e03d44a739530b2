#ifndef GW_OPENAI_H
#define GW_OPENAI_H
#include "gateway/api/dialect.h"

/* The forms that OpenAI's dialects have in common with each other. */
extern const gw_error_kind gw_openai_kinds[];
struct json_t *gw_openai_error(const gw_error *err, const char *type); /* {"error": {message, type, param, code}} */
bt_err gw_openai_comment(bt_buf *out, gw_answer *a);                   /* a sign of life: a comment among the events */
#endif
