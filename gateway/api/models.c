/* See models.h. */
#include "gateway/api/models.h"
#include "gateway/api/json.h"

static json_t *model(const char *name, int64_t created_s)
{
    return json_pack("{s:s,s:s,s:I,s:s}", "id", name, "object", "model", "created", (json_int_t)created_s,
                     "owned_by", "baton");
}

bt_err gw_models_list(bt_buf *out, const char *const *names, size_t names_len, int64_t created_s)
{
    json_t *data = json_array();
    for (size_t i = 0; data && i < names_len; i++)
        if (json_array_append_new(data, model(names[i], created_s)) < 0) {
            json_decref(data);
            data = NULL;
        }
    return gw_json_add(out, json_pack("{s:s,s:o}", "object", "list", "data", data), JSON_COMPACT);
}

bt_err gw_models_one(bt_buf *out, const char *name, int64_t created_s)
{
    return gw_json_add(out, model(name, created_s), JSON_COMPACT);
}
