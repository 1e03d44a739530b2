#ifndef GW_MODELS_H
#define GW_MODELS_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

/* The model that is served, as lists of models tell it. Pure: facts in, JSON out. n_ctx: the context that is served. */
typedef struct gw_model_facts { /* of the file, but for the names */
    const char *const *names;   /* that requests may give; the first one goes into answers */
    size_t names_len;
    char architecture[64], quantisation[32]; /* the latter: the type of most of its weights */
    uint64_t parameters, bytes;              /* bytes: of its weights */
    uint32_t vocab, dim, layers, ctx_tokens;
    uint8_t id[16];
    int64_t created_s; /* when the gateway began to serve it */
} gw_model_facts;

/* /v1/models: one entry, under the first name. An entry tells the context as vLLM (max_model_len), OpenRouter
 * (context_length) and llama.cpp (meta.n_ctx and n_ctx_train) do. */
bt_err gw_models_list(bt_buf *out, const gw_model_facts *m, uint32_t n_ctx);
bt_err gw_models_one(bt_buf *out, const gw_model_facts *m, const char *name, uint32_t n_ctx); /* under any name */
#endif
