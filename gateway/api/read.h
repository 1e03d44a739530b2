#ifndef GW_ASK_READ_H
#define GW_ASK_READ_H
#include <jansson.h>
#include "gateway/api/ask.h"

/* Private to the reading of requests: the state of a reader, and readers of single values. Each fills *p->err when it
 * fails, like gw_dialect_read (dialect.h); `name` is the field's. */
typedef struct gw_reader {
    gw_ask r;
    gw_error *err;
    const gw_ask_limits *limits;
    const struct gw_fields *own; /* its own fields */
    /* Become the conversation when all fields are read; in the tree; NULL: not given. */
    json_t *system, *messages;
    json_t *effort, *thinks; /* variables of the chat template: reasoning_effort, enable_thinking */
} gw_reader;

/* The body of a request, which must be one object: a new reference. */
bt_err gw_read_object(json_t **ret, gw_reader *p, const char *body, size_t len);
bt_err gw_read_int(int64_t *ret, gw_reader *p, const char *name, const json_t *v, int64_t lo, int64_t hi);
bt_err gw_read_float(float *ret, gw_reader *p, const char *name, const json_t *v, double lo, double hi);
bt_err gw_read_bool(bool *ret, gw_reader *p, const char *name, const json_t *v);

/* One of the model's names; 404 for any other. */
bt_err gw_read_model(gw_reader *p, const char *name, const json_t *v);
/* A list of token ids below the vocabulary's size, at most BT_MSG_MAX_PROMPT_TOKENS: malloc'ed. v is an array. */
bt_err gw_read_ids(int32_t **ret, size_t *ret_len, gw_reader *p, const char *name, const json_t *v);

/* Answers repeat v under the name. */
bt_err gw_read_echo(gw_reader *p, const char *name, json_t *v);
bt_err gw_read_no_memory(gw_reader *p);
bt_err gw_read_wrong_type(gw_reader *p, const char *name, const char *wanted, const json_t *v);
/* allowed: the values that the field may have, "" for none. */
bt_err gw_read_unsupported(gw_reader *p, const char *name, const char *allowed);
#endif
