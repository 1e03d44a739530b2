#ifndef GW_OLLAMA_H
#define GW_OLLAMA_H
#include "gateway/api/dialect.h"
#include "gateway/api/models.h"
#include "gateway/api/words.h"

/* Answers to what ollama's clients ask about models. Pure: facts in, JSON out. n_ctx: the context that is served. */
bt_err gw_ollama_tags(bt_buf *out, const gw_model_facts *m);
bt_err gw_ollama_ps(bt_buf *out, const gw_model_facts *m, uint32_t n_ctx);
bt_err gw_ollama_version(bt_buf *out);
gw_words gw_ollama_show; /* {model, or name} */
#endif
