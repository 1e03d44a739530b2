#ifndef GW_MODELS_H
#define GW_MODELS_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

/* The model that is served, as lists of models tell it. Pure: a struct in, JSON out. */
bt_err gw_models_list(bt_buf *out, const char *const *names, size_t names_len, int64_t created_s);
bt_err gw_models_one(bt_buf *out, const char *name, int64_t created_s); /* one entry of /v1/models */
#endif
