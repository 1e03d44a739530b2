/* The settings of requests that do not give them, as JSON. */
#include "gateway/door/props.h"
#include "gateway/api/json.h"
#include "text/utf8.h"

#include <jansson.h>
#include <string.h>

/* Digits as people write them: 0.6 and not the float next to it. */
enum { DIGITS = 6 };

static json_t *defaults(const bt_defaults *d)
{
    json_t *all = json_object();
    for (int i = 0; all && i < BT_DEFAULT_FIELDS; i++) {
        const bt_default_field f = (bt_default_field)i;
        if (json_object_set_new(all, bt_defaults_name(f),
                                json_pack("{s:o,s:s}", "value", gw_json_number(d->value[f]), "from",
                                          bt_defaults_source_name(d->source[f]))) < 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *params(const bt_defaults *d, uint32_t max_answer)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:i,s:i,s:i}", "temperature",
                     gw_json_number(d->value[BT_DEFAULT_TEMPERATURE]), "top_p",
                     gw_json_number(d->value[BT_DEFAULT_TOP_P]), "top_k",
                     gw_json_number(d->value[BT_DEFAULT_TOP_K]), "min_p",
                     gw_json_number(d->value[BT_DEFAULT_MIN_P]), "repeat_penalty",
                     gw_json_number(d->value[BT_DEFAULT_REPETITION_PENALTY]), "presence_penalty", 0,
                     "frequency_penalty", 0, "seed", -1, "max_tokens", (int)max_answer, "n_predict",
                     (int)max_answer);
}

static uint64_t count_slots(const gw_brain *brain)
{
    const gw_registry *r = gw_brain_registry(brain);
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->used; i++)
        if (r->nodes[i].in_use && r->nodes[i].state != GW_NODE_GONE &&
            r->nodes[i].hello.role == BT_ROLE_DECODE)
            n += r->nodes[i].load.slots_total;
    return n;
}

bt_err gw_props_render(bt_buf *out, const gw_props_facts *f)
{
    char path[4096];
    json_t *j = json_pack(
        "{s:{s:I,s:o},s:I,s:s,s:s,s:I,s:s?,s:s?,s:{s:b,s:b},s:s,s:o,s:I,s:I}", "default_generation_settings",
        "n_ctx", (json_int_t)f->ctx_tokens, "params", params(f->defaults, f->max_answer), "total_slots",
        (json_int_t)count_slots(f->brain), "model_alias", f->alias, "model_path",
        bt_utf8_show(path, sizeof path, f->path, strlen(f->path)), "n_ctx", (json_int_t)f->ctx_tokens,
        "chat_template", f->text->chat_template, "chat_template_family",
        f->text->has_chat ? bt_chat_family_name(f->text->chat.family) : NULL, "modalities", "vision", 0,
        "audio", 0, "build_info", "baton " BT_VERSION, "defaults", defaults(f->defaults), "max_answer",
        (json_int_t)f->max_answer, "completion_tokens", (json_int_t)GW_OPENAI_DEFAULT_COMPLETION_TOKENS);
    return gw_json_add(out, j, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
}
