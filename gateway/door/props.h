#ifndef GW_PROPS_H
#define GW_PROPS_H
#include "base/buf.h"
#include "gateway/door/door.h"

/* The body of GET /props: the settings of requests that do not give them. Keys that llama.cpp's server also has are
 * named as there:
 *   {"default_generation_settings": {"n_ctx", "params": {temperature, top_p, top_k, min_p, repeat_penalty,
 *        presence_penalty, frequency_penalty, seed (-1: drawn), max_tokens and n_predict (of a chat)}},
 *    "total_slots": of all decode nodes, "model_alias", "model_path" (as -m was given), "n_ctx",
 *    "chat_template": the file's, or null, "chat_template_family": what Baton renders it as, or null,
 *    "modalities": {"vision": false, "audio": false}, "build_info",
 *    "defaults": {temperature and the others: {"value", "from": "option", "file" or "default"}},
 *    "max_answer": tokens of a chat without max_tokens, "completion_tokens": of a completion without it} */
typedef struct gw_props_facts {
    const gw_brain *brain;
    const gw_text *text;
    const bt_defaults *defaults;
    const char *alias, *path;
    uint32_t ctx_tokens; /* the longest sequence, as far as it is known */
    uint32_t max_answer;
} gw_props_facts;

bt_err gw_props_render(bt_buf *out, const gw_props_facts *f);
#endif
