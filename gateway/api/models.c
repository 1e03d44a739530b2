/* See models.h. */
#include "gateway/api/models.h"
#include "gateway/api/json.h"

static json_t *aliases(const gw_model_facts *m)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < m->names_len; i++)
        if (json_array_append_new(a, json_string(m->names[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *entry(const gw_model_facts *m, const char *name, uint32_t n_ctx)
{
    return json_pack("{s:s,s:s,s:I,s:s,s:o,s:I,s:I,s:{s:I,s:I,s:I,s:I,s:I,s:I}}", "id", name, "object",
                     "model", "created", (json_int_t)m->created_s, "owned_by", "baton", "aliases", aliases(m),
                     "max_model_len", (json_int_t)n_ctx, "context_length", (json_int_t)n_ctx, "meta", "n_ctx",
                     (json_int_t)n_ctx, "n_ctx_train", (json_int_t)m->ctx_tokens, "n_vocab",
                     (json_int_t)m->vocab, "n_embd", (json_int_t)m->dim, "n_params",
                     (json_int_t)m->parameters, "size", (json_int_t)m->bytes);
}

bt_err gw_models_list(bt_buf *out, const gw_model_facts *m, uint32_t n_ctx)
{
    return gw_json_add(out, json_pack("{s:s,s:[o]}", "object", "list", "data", entry(m, m->names[0], n_ctx)),
                       JSON_COMPACT);
}

bt_err gw_models_one(bt_buf *out, const gw_model_facts *m, const char *name, uint32_t n_ctx)
{
    return gw_json_add(out, entry(m, name, n_ctx), JSON_COMPACT);
}
