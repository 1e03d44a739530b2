/* Makes the description of the API from the two tables; the forms of answers, which no table has, stand here.
 */
#include "gateway/api/openapi.h"
#include "gateway/api/json.h"
#include "gateway/api/endpoints.h"

#include <jansson.h>
#include <string.h>

// clang-format off
static const char schemas[] = "{"
"\"Message\":{\"type\":\"object\",\"required\":[\"role\"],\"additionalProperties\":false,\"properties\":{"
    "\"role\":{\"enum\":[\"system\",\"developer\",\"user\",\"assistant\",\"tool\"]},"
    "\"content\":{\"anyOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":\"array\",\"items\":{\"type\":\"object\","
        "\"required\":[\"type\",\"text\"],\"properties\":{\"type\":{\"const\":\"text\"},\"text\":{\"type\":\"string\"}}}}]},"
    "\"name\":{\"type\":[\"string\",\"null\"]},"
    "\"reasoning_content\":{\"type\":[\"string\",\"null\"],\"description\":\"A thought, for the chat template\"},"
    "\"reasoning\":{\"type\":[\"string\",\"null\"],\"description\":\"The same\"},"
    "\"thinking\":{\"type\":[\"string\",\"null\"],\"description\":\"The same\"},"
    "\"tool_calls\":{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\",\"required\":[\"function\"],"
        "\"properties\":{\"id\":{\"type\":\"string\"},\"function\":{\"type\":\"object\",\"required\":[\"name\"],"
        "\"properties\":{\"name\":{\"type\":\"string\"},\"arguments\":{\"type\":[\"string\",\"object\"]}}}}}},"
    "\"tool_call_id\":{\"type\":[\"string\",\"null\"]},\"annotations\":{\"enum\":[null,[]]},"
    "\"refusal\":{\"type\":\"null\"},\"audio\":{\"type\":\"null\"},\"function_call\":{\"type\":\"null\"}}},"
"\"RoleRequest\":{\"type\":\"object\",\"required\":[\"role\"],\"additionalProperties\":false,\"properties\":{"
    "\"role\":{\"enum\":[\"prefill\",\"decode\"]}}},"
"\"TokenizeRequest\":{\"type\":\"object\",\"required\":[\"content\"],\"additionalProperties\":false,\"properties\":{"
    "\"content\":{\"type\":\"string\"},\"add_special\":{\"type\":[\"boolean\",\"null\"],\"default\":false},"
    "\"parse_special\":{\"type\":[\"boolean\",\"null\"],\"default\":true},"
    "\"with_pieces\":{\"type\":[\"boolean\",\"null\"],\"default\":false},\"model\":{\"type\":[\"string\",\"null\"]}}},"
"\"DetokenizeRequest\":{\"type\":\"object\",\"required\":[\"tokens\"],\"additionalProperties\":false,\"properties\":{"
    "\"tokens\":{\"type\":\"array\",\"maxItems\":1048576,\"items\":{\"type\":\"integer\",\"minimum\":0}},"
    "\"model\":{\"type\":[\"string\",\"null\"]}}},"
"\"Usage\":{\"type\":\"object\",\"required\":[\"prompt_tokens\",\"completion_tokens\",\"total_tokens\"],\"properties\":{"
    "\"prompt_tokens\":{\"type\":\"integer\"},\"completion_tokens\":{\"type\":\"integer\"},"
    "\"total_tokens\":{\"type\":\"integer\"},\"prompt_tokens_details\":{\"type\":\"object\","
        "\"properties\":{\"cached_tokens\":{\"type\":\"integer\"}}}}},"
"\"FinishReason\":{\"enum\":[\"stop\",\"length\"]},"
"\"ChatFinishReason\":{\"enum\":[\"stop\",\"length\",\"tool_calls\"]},"
"\"ToolCall\":{\"type\":\"object\",\"required\":[\"id\",\"type\",\"function\"],\"properties\":{"
    "\"id\":{\"type\":\"string\"},\"type\":{\"const\":\"function\"},\"function\":{\"type\":\"object\","
        "\"required\":[\"name\",\"arguments\"],\"properties\":{\"name\":{\"type\":\"string\"},"
        "\"arguments\":{\"type\":\"string\",\"description\":\"A JSON object, as text\"}}}}},"
"\"ChatAnswer\":{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created\",\"model\",\"choices\",\"usage\"],"
    "\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"chat.completion\"},"
    "\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"
    "\"choices\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,\"items\":{\"type\":\"object\","
        "\"required\":[\"index\",\"message\",\"finish_reason\"],\"properties\":{\"index\":{\"const\":0},"
        "\"message\":{\"type\":\"object\",\"required\":[\"role\",\"content\"],\"properties\":{"
            "\"role\":{\"const\":\"assistant\"},"
            "\"content\":{\"type\":[\"string\",\"null\"],\"description\":\"null: nothing but calls of tools\"},"
            "\"tool_calls\":{\"type\":\"array\",\"minItems\":1,"
                "\"items\":{\"$ref\":\"#/components/schemas/ToolCall\"}},"
            "\"reasoning_content\":{\"type\":\"string\"},\"reasoning\":{\"type\":\"string\"}}},"
        "\"logprobs\":{\"type\":[\"object\",\"null\"]},"
        "\"finish_reason\":{\"$ref\":\"#/components/schemas/ChatFinishReason\"}}}},"
    "\"usage\":{\"$ref\":\"#/components/schemas/Usage\"},\"timings\":{\"type\":\"object\"},"
    "\"baton\":{\"type\":\"object\"}}},"
"\"TextAnswer\":{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created\",\"model\",\"choices\",\"usage\"],"
    "\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"text_completion\"},"
    "\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"
    "\"choices\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,\"items\":{\"type\":\"object\","
        "\"required\":[\"index\",\"text\",\"finish_reason\"],\"properties\":{\"index\":{\"const\":0},"
        "\"text\":{\"type\":\"string\"},\"logprobs\":{\"type\":[\"object\",\"null\"]},"
        "\"finish_reason\":{\"$ref\":\"#/components/schemas/FinishReason\"}}}},"
    "\"usage\":{\"$ref\":\"#/components/schemas/Usage\"},\"timings\":{\"type\":\"object\"},"
    "\"baton\":{\"type\":\"object\"}}},"
"\"Model\":{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created\",\"owned_by\"],\"properties\":{"
    "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"model\"},\"created\":{\"type\":\"integer\"},"
    "\"owned_by\":{\"type\":\"string\"},\"aliases\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
    "\"max_model_len\":{\"type\":\"integer\"},\"context_length\":{\"type\":\"integer\"},"
    "\"meta\":{\"type\":\"object\"}}},"
"\"Models\":{\"type\":\"object\",\"required\":[\"object\",\"data\"],\"properties\":{\"object\":{\"const\":\"list\"},"
    "\"data\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Model\"}}}},"
"\"MessagesAnswer\":{\"type\":\"object\",\"required\":[\"id\",\"type\",\"role\",\"content\",\"model\",\"stop_reason\","
    "\"stop_sequence\",\"usage\"],\"properties\":{\"id\":{\"type\":\"string\"},\"type\":{\"const\":\"message\"},"
    "\"role\":{\"const\":\"assistant\"},\"model\":{\"type\":\"string\"},\"content\":{\"type\":\"array\",\"items\":{"
        "\"type\":\"object\",\"required\":[\"type\"],\"properties\":{\"type\":{\"enum\":[\"text\",\"thinking\"]},"
        "\"text\":{\"type\":\"string\"},\"thinking\":{\"type\":\"string\"},\"signature\":{\"type\":\"string\"}}}},"
    "\"stop_reason\":{\"enum\":[\"end_turn\",\"max_tokens\",\"stop_sequence\",\"model_context_window_exceeded\"]},"
    "\"stop_sequence\":{\"type\":[\"string\",\"null\"]},\"usage\":{\"type\":\"object\"}}},"
"\"ResponsesAnswer\":{\"type\":\"object\",\"required\":[\"id\",\"object\",\"created_at\",\"model\",\"status\",\"output\","
    "\"usage\"],\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"response\"},"
    "\"created_at\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"
    "\"status\":{\"enum\":[\"completed\",\"incomplete\"]},\"output\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
        "\"required\":[\"id\",\"type\",\"content\"],\"properties\":{\"type\":{\"enum\":[\"reasoning\",\"message\"]},"
        "\"content\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"type\",\"text\"]}}}}},"
    "\"usage\":{\"type\":\"object\"}}},"
"\"OllamaAnswer\":{\"type\":\"object\",\"required\":[\"model\",\"created_at\",\"done\"],\"properties\":{"
    "\"model\":{\"type\":\"string\"},\"created_at\":{\"type\":\"string\"},\"done\":{\"type\":\"boolean\"},"
    "\"message\":{\"type\":\"object\",\"required\":[\"role\",\"content\"]},\"response\":{\"type\":\"string\"},"
    "\"thinking\":{\"type\":\"string\"},\"done_reason\":{\"enum\":[\"stop\",\"length\",\"load\"]}}},"
"\"LlamaAnswer\":{\"type\":\"object\",\"required\":[\"content\",\"stop\",\"tokens_predicted\",\"tokens_evaluated\"],"
    "\"properties\":{\"content\":{\"type\":\"string\"},\"stop\":{\"type\":\"boolean\"},"
    "\"stop_type\":{\"enum\":[\"eos\",\"limit\",\"word\"]},\"stopping_word\":{\"type\":\"string\"},"
    "\"timings\":{\"type\":\"object\"}}},"
"\"OllamaError\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"string\"}}},"
"\"MessagesError\":{\"type\":\"object\",\"required\":[\"type\",\"error\"],\"properties\":{\"type\":{\"const\":\"error\"},"
    "\"error\":{\"type\":\"object\",\"required\":[\"type\",\"message\"],\"properties\":{\"type\":{\"type\":\"string\"},"
    "\"message\":{\"type\":\"string\"}}}}},"
"\"Object\":{\"type\":\"object\"},"
"\"Error\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
    "\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{\"message\":{\"type\":\"string\"},"
    "\"type\":{\"type\":\"string\"},\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}}}}}}";
// clang-format on

/* Takes both references; what cannot be made is NULL from then on. */
static json_t *with(json_t *object, const char *key, json_t *value)
{
    if (object && value && json_object_set_new(object, key, value) == 0) return object;
    if (!object) json_decref(value);
    json_decref(object);
    return NULL;
}

static json_t *reference(const char *schema)
{
    json_t *name = json_sprintf("#/components/schemas/%s", schema);
    return name ? json_pack("{s:o}", "$ref", name) : NULL;
}

/* ---- fields of requests ------------------------------------------------------------------------- */

/* Whole bounds are written without a point. */
static json_t *ranged(const char *type, const gw_field *f)
{
    json_t *s = json_pack("{s:[s,s]}", "type", type, "null");
    if (f->lo < f->hi) s = with(with(s, "minimum", gw_json_number(f->lo)), "maximum", gw_json_number(f->hi));
    return s;
}

/* A null is a field that is absent, so every field that may be absent may be null. */
static json_t *or_null(json_t *schema)
{
    return schema ? json_pack("{s:[o,{s:s}]}", "anyOf", schema, "type", "null") : NULL;
}

static json_t *schema_of(const gw_field *f)
{
    switch (f->kind) {
    case GW_FIELD_NUMBER: return ranged("number", f);
    case GW_FIELD_INTEGER: return ranged("integer", f);
    case GW_FIELD_BOOLEAN: return json_pack("{s:[s,s]}", "type", "boolean", "null");
    case GW_FIELD_OTHER:
        return f->is_required ? json_loads(f->json, 0, NULL) : or_null(json_loads(f->json, 0, NULL));
    case GW_FIELD_ONLY: {
        json_t *values = json_loads(f->json, 0, NULL);
        if (values && json_array_insert_new(values, 0, json_null()) < 0) {
            json_decref(values);
            return NULL;
        }
        return values ? json_pack("{s:o}", "enum", values) : NULL;
    }
    case GW_FIELD_ANY: return json_object();
    }
    return NULL;
}

static json_t *request_schema(const gw_fields *own, unsigned where)
{
    json_t *fields = json_object(), *required = json_array();
    size_t at = 0;
    const gw_field *f;
    while ((f = gw_fields_next(&at, own, where))) {
        fields = with(fields, f->name, with(schema_of(f), "description", json_string(f->help)));
        if (f->is_required && json_array_append_new(required, json_string(f->name)) < 0)
            fields = with(fields, f->name, NULL);
    }
    return json_pack("{s:s,s:o,s:b,s:o}", "type", "object", "required", required, "additionalProperties", 0,
                     "properties", fields);
}

/* ---- paths -------------------------------------------------------------------------------------- */

static json_t *content(const char *type, json_t *schema)
{
    return schema ? json_pack("{s:{s:o}}", type, "schema", schema) : NULL;
}

static json_t *content_of(const gw_endpoint *e)
{
    json_t *c;
    if (!e->answer) return content("text/plain", json_pack("{s:s}", "type", "string"));
    c = content("application/json", reference(e->answer));
    if (e->request && strcmp(e->answer, "Object") != 0) /* an answer that may be a stream */
        c = with(c,
                 e->dialect->stream_type == gw_dialect_lines ? "application/x-ndjson" : "text/event-stream",
                 json_object());
    return c;
}

/* The role that an API key needs, in words; NULL: the summary says enough. */
static const char *const whom[] = {
    [GW_RIGHT_OPEN] = NULL,
    [GW_RIGHT_ADMIN] = "Where there are API keys: for those with role=admin",
    [GW_RIGHT_METRICS] =
        "With --metrics key: for API keys with role=metrics or role=admin; open and off: for all, for nobody",
    [GW_RIGHT_CLIENT] = "Where there are API keys: for those with role=client or role=admin",
};

static json_t *operation(const gw_endpoint *e)
{
    json_t *o =
        json_pack("{s:s,s:{s:{s:s,s:o},s:{s:s,s:o}}}", "summary", e->summary, "responses", "200",
                  "description", "It went well", "content", content_of(e), "default", "description",
                  "An error: 400 for what the request says, 401 without a key, 403 for a key without the "
                  "role, 404, 405, 413, 429 when the key's limits are reached or the queue is full, "
                  "5xx for the server's own",
                  "content", content("application/json", reference(e->dialect->error_schema)));
    if (e->request)
        o = with(o, "requestBody",
                 json_pack("{s:b,s:o}", "required", 1, "content",
                           content("application/json", reference(e->request))));
    if (strchr(e->path, '{'))
        o = with(o, "parameters",
                 json_pack("[{s:s,s:s,s:b,s:{s:s,s:i}}]", "name", "id", "in", "path", "required", 1, "schema",
                           "type", "string", "minLength", 1));
    const char *who = whom[e->right];
    if (who) o = with(o, "description", json_string(who));
    return e->right == GW_RIGHT_OPEN ? with(o, "security", json_array()) : o;
}

static json_t *paths(void)
{
    json_t *all = json_object();
    for (const gw_endpoint *e = gw_endpoints; e < gw_endpoints + gw_endpoints_len; e++)
        all = with(all, e->path, json_pack("{s:o}", e->method == GW_POST ? "post" : "get", operation(e)));
    return all;
}

static const gw_dialect *const dialects[] = {
#define X(name) &gw_dialect_##name,
#include "gateway/api/dialects_table.h"
#undef X
};

/* Objects of the table that are no request to nodes. */
static const struct {
    const char *name;
    unsigned where;
} objects[] = {{"OllamaOptions", GW_FIELD_OLLAMA_OPTIONS}, {"OllamaShowRequest", GW_FIELD_OLLAMA_SHOW}};

static json_t *document(void)
{
    json_t *components = json_loads(schemas, 0, NULL);
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        components =
            with(components, dialects[i]->request, request_schema(dialects[i]->own, dialects[i]->where));
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        components =
            with(components, objects[i].name, request_schema(gw_dialect_ollama_chat.own, objects[i].where));
    return json_pack(
        "{s:s,s:{s:s,s:s,s:s},s:[{s:s}],s:[{},{s:[]},{s:[]}],s:o,s:{s:o,s:{s:{s:s,s:s},s:{s:s,s:s,s:s}}}}",
        "openapi", "3.1.0", "info", "title", "Baton", "version", BT_VERSION, "description",
        "OpenAI's API for one model, and Anthropic's, ollama's and llama.cpp's beside it. "
        "Fields that no schema names are refused by their name.",
        "servers", "url", "/", "security", "bearer", "header", "paths", paths(), "components", "schemas",
        components, "securitySchemes", "bearer", "type", "http", "scheme", "bearer", "header", "type",
        "apiKey", "in", "header", "name", "X-Api-Key");
}

static bt_err render(bt_buf *out, size_t flags)
{
    return gw_json_add(out, document(), flags | JSON_REAL_PRECISION(9));
}

bt_err gw_openapi_render(bt_buf *out) { return render(out, JSON_COMPACT); }

bt_err gw_openapi_render_lines(bt_buf *out)
{
    const bt_err e = render(out, JSON_INDENT(1));
    return e < 0 ? e : bt_buf_str(out, "\n");
}
