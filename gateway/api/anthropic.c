/* Anthropic's messages, and the count of their tokens. Every event of a stream has its name: message_start,
 * for each block of content content_block_start, its deltas and content_block_stop, then message_delta with
 * the reason and the usage, and message_stop. Thoughts are blocks of the type thinking, before what is said.
 * A ping follows the first content_block_start, and stands for a sign of life. Errors are {"type": "error",
 * "error": {"type", "message"}}. */
#include "gateway/api/dialect.h"
#include "gateway/api/messages.h"
#include "gateway/api/structure.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- requests ------------------------------------------------------------------------------------- */

static const gw_message_part parts[] = {
    {"text", "text", false}, {"thinking", "thinking", true}, {NULL, NULL, false}};
static const gw_message_part texts[] = {{"text", "text", false}, {NULL, NULL, false}};

static bt_err field_system(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v) && !json_is_array(v))
        return gw_read_wrong_type(p, f->name, "a string or an array of text blocks", v);
    p->system = v;
    return BT_OK;
}

static bt_err field_messages(gw_reader *p, const gw_field *f, json_t *v)
{
    const size_t n = json_array_size(v);
    if (!json_is_array(v)) return gw_read_wrong_type(p, f->name, "an array", v);
    if (n == 0 || n >= BT_CHAT_MAX_MESSAGES)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid '%s': %zu messages; 1 to %d are allowed.", f->name, n,
                            BT_CHAT_MAX_MESSAGES - 1);
    p->messages = v;
    return BT_OK;
}

static bt_err field_stop_sequences(gw_reader *p, const gw_field *f, json_t *v)
{
    return json_is_array(v) ? gw_field_stop(p, f, v)
                            : gw_read_wrong_type(p, f->name, "an array of strings", v);
}

/* display: "summarized", which is whole here, or "omitted". */
static bt_err read_display(gw_reader *p, const gw_field *f, const json_t *v)
{
    const char *display = json_string_value(v);
    if (!v || json_is_null(v)) return BT_OK;
    p->r.hides_thoughts = display && strcmp(display, "omitted") == 0;
    if (p->r.hides_thoughts || (display && strcmp(display, "summarized") == 0)) return BT_OK;
    return gw_error_say(p->err, 400, "invalid_value", f->name,
                        "Invalid '%s.display': supported are 'summarized' and 'omitted'.", f->name);
}

/* {"type": "enabled", "budget_tokens"}, {"type": "disabled"} or {"type": "adaptive"}: a variable of the chat
 * template, and nothing where the model decides. */
static bt_err field_thinking(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type) return gw_read_wrong_type(p, f->name, "an object with a 'type'", v);
    const bt_err e = read_display(p, f, json_object_get(v, "display"));
    if (e < 0) return e;
    if (strcmp(type, "adaptive") == 0) return BT_OK;
    const bool on = strcmp(type, "enabled") == 0;
    if (on || strcmp(type, "disabled") == 0) {
        p->thinks = json_boolean(on);
        return BT_OK;
    }
    return gw_error_say(
        p->err, 400, "invalid_value", f->name,
        "Invalid value for '%s.type': '%.32s'; supported are 'enabled', 'disabled', 'adaptive'.", f->name,
        type);
}

/* {"type": "json_schema", "schema"} */
static bt_err field_format(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    json_t *schema = json_object_get(v, "schema");
    if (!type || strcmp(type, "json_schema") != 0 || !schema)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid '%s': expected {\"type\": \"json_schema\", \"schema\": ...}.", f->name);
    return gw_structure_json(p, f, schema);
}

static bt_err field_output(gw_reader *p, const gw_field *f, json_t *v)
{
    static const gw_field format = {.name = "output_config.format"};
    const char *key;
    json_t *item;
    if (!json_is_object(v)) return gw_read_wrong_type(p, f->name, "an object", v);
    json_object_foreach(v, key, item) {
        bt_err e = BT_OK;
        if (json_is_null(item)) continue;
        if (strcmp(key, "format") == 0) e = field_format(p, &format, item);
        else if (strcmp(key, "effort") != 0)
            e = gw_error_say(p->err, 400, "unknown_parameter", f->name,
                             "Unrecognized request argument supplied: %s.%.64s", f->name, key);
        else if (!json_is_string(item)) e = gw_read_wrong_type(p, "output_config.effort", "a string", item);
        else p->effort = item;
        if (e < 0) return e;
    }
    return BT_OK;
}

static bt_err add_message(gw_reader *p, json_t *talk, const json_t *m, size_t index)
{
    static const char *const roles[] = {"user", "system"};
    char where[48];
    const char *key;
    json_t *v;
    (void)snprintf(where, sizeof where, "messages[%zu]", index);
    if (!json_is_object(m)) return gw_read_wrong_type(p, where, "an object", m);
    json_object_foreach((json_t *)m, key, v) {
        if (strcmp(key, "role") != 0 && strcmp(key, "content") != 0)
            return gw_error_say(p->err, 400, "unknown_parameter", where,
                                "Unrecognized request argument supplied: %s.%.64s", where, key);
    }
    const char *role = json_string_value(json_object_get(m, "role"));
    const bool is_assistant = role && strcmp(role, "assistant") == 0;
    if (!is_assistant && (!role || (strcmp(role, roles[0]) != 0 && strcmp(role, roles[1]) != 0)))
        return gw_error_say(p->err, 400, "invalid_value", where,
                            "Invalid '%s.role': supported are 'user', 'assistant' and 'system'.", where);
    (void)snprintf(where, sizeof where, "messages[%zu].content", index);
    return gw_messages_add(p, talk, role, json_object_get(m, "content"), where, is_assistant ? parts : texts);
}

/* An empty text is none. */
static bt_err add_system(gw_reader *p, json_t *talk)
{
    const bt_err e = gw_messages_add(p, talk, "system", p->system, "system", texts);
    if (e == BT_OK && json_string_length(json_object_get(json_array_get(talk, 0), "content")) == 0)
        (void)json_array_clear(talk);
    return e;
}

static bt_err made(gw_reader *p, json_t *root)
{
    const size_t n = json_array_size(p->messages);
    json_t *talk = json_array();
    bt_err e = talk ? BT_OK : gw_read_no_memory(p);
    if (e == BT_OK && p->system) e = add_system(p, talk);
    for (size_t i = 0; i < n && e == BT_OK; i++) e = add_message(p, talk, json_array_get(p->messages, i), i);
    const char *last = json_string_value(json_object_get(json_array_get(p->messages, n - 1), "role"));
    if (e == BT_OK && strcmp(last, "assistant") == 0) /* last has a role by now */
        e = gw_error_say(
            p->err, 400, "unsupported_parameter", "messages",
            "The conversation must end with a message of the user: this server does not go on with "
            "an assistant's.");
    e = gw_messages_take(p, root, talk, e);
    return e < 0 ? e : gw_messages_pass(p, root);
}

#define ANSWER GW_FIELD_MESSAGES
#define COUNT  GW_FIELD_COUNT
#define BOTH   (ANSWER | COUNT)
static const char of_client[] = "Taken and not looked at: the client's own business",
                  no_cache[] = "Taken and not looked at: prefixes of prompts are always kept and found";

// clang-format off
static const char blocks_schema[] =
    "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"type\"],"
    "\"properties\":{\"type\":{\"const\":\"text\"},\"text\":{\"type\":\"string\"}}}}]}";
static const char messages_schema[] =
    "{\"type\":\"array\",\"minItems\":1,\"maxItems\":4095,\"items\":{\"type\":\"object\","
    "\"required\":[\"role\",\"content\"],\"additionalProperties\":false,\"properties\":{"
    "\"role\":{\"enum\":[\"user\",\"assistant\",\"system\"]},\"content\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\","
    "\"items\":{\"type\":\"object\",\"required\":[\"type\"],\"properties\":{\"type\":{\"enum\":[\"text\",\"thinking\"]},"
    "\"text\":{\"type\":\"string\"}}}}]}}}}";
static const char output_schema[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"effort\":{\"type\":[\"string\",\"null\"]},"
    "\"format\":{\"type\":[\"object\",\"null\"],\"required\":[\"type\",\"schema\"],\"properties\":{"
    "\"type\":{\"const\":\"json_schema\"},\"schema\":{\"type\":[\"object\",\"boolean\"]}}}}}";
static const char format_schema[] =
    "{\"type\":\"object\",\"required\":[\"type\",\"schema\"],\"properties\":{\"type\":{\"const\":\"json_schema\"},"
    "\"schema\":{\"type\":[\"object\",\"boolean\"]}}}";

static const gw_field fields[] = {
    GW_REQUIRED("messages", BOTH, field_messages, messages_schema,
                "The conversation so far, which ends with the user; contents are text or blocks of text"),
    GW_OTHER("system", BOTH, field_system, blocks_schema, "What stands before the conversation"),
    GW_REQUIRED("max_tokens", ANSWER, gw_field_max_answer, "{\"type\":\"integer\",\"minimum\":1}",
                "Tokens of the answer at most; what the context does not hold is cut"),
    GW_OTHER("stop_sequences", ANSWER, field_stop_sequences,
             "{\"type\":\"array\",\"maxItems\":16,\"items\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":256}}",
             "The answer ends before the first of these texts"),
    GW_OTHER("thinking", BOTH, field_thinking,
             "{\"type\":\"object\",\"required\":[\"type\"],\"properties\":{"
             "\"type\":{\"enum\":[\"enabled\",\"disabled\",\"adaptive\"]},"
             "\"display\":{\"enum\":[null,\"summarized\",\"omitted\"]}}}",
             "enable_thinking of the chat template, and whether thoughts are told; a budget is not looked at"),
    GW_OTHER("output_config", BOTH, field_output, output_schema,
             "format: the answer is JSON of a schema; effort: the variable reasoning_effort of the chat template"),
    GW_OTHER("output_format", BOTH, field_format, format_schema, "The same as output_config.format"),
    GW_ONLY("tools", BOTH, "[[]]"),
    GW_ONLY("tool_choice", BOTH, "[{\"type\":\"none\"}]"),
    GW_ONLY("mcp_servers", BOTH, "[[]]"),
    GW_ONLY("container", BOTH, "[]"),
    GW_HARMLESS("metadata", ANSWER, of_client),
    GW_HARMLESS("service_tier", ANSWER, "Taken and not looked at: there is one"),
    GW_HARMLESS("speed", BOTH, "Taken and not looked at: there is one"),
    GW_HARMLESS("inference_geo", ANSWER, "Taken and not looked at: there is one place"),
    GW_HARMLESS("cache_control", BOTH, no_cache),
    GW_HARMLESS("context_management", BOTH, "Taken and not looked at: no part of a conversation is left out"),
};
// clang-format on
static const gw_fields own = {fields, sizeof fields / sizeof *fields};

/* ---- answers -------------------------------------------------------------------------------------- */

static const char *const reasons[GW_ENDINGS] = {
    [GW_ENDING_STOP] = "end_turn",
    [GW_ENDING_LENGTH] = "max_tokens",
    [GW_ENDING_STRING] = "stop_sequence",
};

static const char *reason_of(const gw_answer_report *r)
{
    return r->ending == GW_ENDING_LENGTH && r->bound.is_context ? "model_context_window_exceeded"
                                                                : reasons[r->ending];
}

/* Tokens that were found again are counted apart. */
static json_t *usage(size_t prompt, size_t cached, size_t answer)
{
    return json_pack("{s:I,s:i,s:I,s:I}", "input_tokens", (json_int_t)(prompt - cached),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", (json_int_t)cached,
                     "output_tokens", (json_int_t)answer);
}

static json_t *stop_sequence(const gw_answer_report *r)
{
    return r->ending == GW_ENDING_STRING ? json_stringn(r->stop.ptr, r->stop.len) : json_null();
}

static json_t *block(bool is_thought, bt_text_span s)
{
    return is_thought
               ? json_pack("{s:s,s:s%,s:s}", "type", "thinking", "thinking", s.ptr, s.len, "signature", "")
               : json_pack("{s:s,s:s%}", "type", "text", "text", s.ptr, s.len);
}

static bt_text_span shown(const gw_answer *a, bt_text_span thoughts)
{
    return a->hides_thoughts ? (bt_text_span){"", 0} : thoughts;
}

static bt_err whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    json_t *content = json_array();
    int failed = 0;
    json_decref(logprobs);
    if (r->thoughts.len > 0) failed |= json_array_append_new(content, block(true, shown(a, r->thoughts)));
    if (r->said.len > 0) failed |= json_array_append_new(content, block(false, r->said));
    if (failed) {
        json_decref(content);
        content = NULL;
    }
    return gw_answer_add(out,
                         json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:o,s:o}", "id", a->id, "type", "message",
                                   "role", "assistant", "model", a->model, "content", content, "stop_reason",
                                   reason_of(r), "stop_sequence", stop_sequence(r), "usage",
                                   usage(r->prompt_tokens, r->cached_tokens, r->completion_tokens)),
                         "", "");
}

/* ---- streams -------------------------------------------------------------------------------------- */

static bt_err begin(bt_buf *out, gw_answer *a)
{
    json_t *message = json_pack("{s:s,s:s,s:s,s:s,s:[],s:n,s:n,s:o}", "id", a->id, "type", "message", "role",
                                "assistant", "model", a->model, "content", "stop_reason", "stop_sequence",
                                "usage", usage(a->prompt_tokens, a->cached_tokens, 0));
    return gw_answer_add(out, json_pack("{s:s,s:o}", "type", "message_start", "message", message),
                         "event: message_start\ndata: ", "\n\n");
}

static bt_err alive(bt_buf *out, gw_answer *a)
{
    (void)a;
    return bt_buf_str(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static bt_err close_block(bt_buf *out, gw_answer *a)
{
    if (a->open == GW_ANSWER_NOTHING) return BT_OK;
    a->open = GW_ANSWER_NOTHING;
    return gw_answer_add(out,
                         json_pack("{s:s,s:i}", "type", "content_block_stop", "index", (int)a->blocks - 1),
                         "event: content_block_stop\ndata: ", "\n\n");
}

static bt_err open_block(bt_buf *out, gw_answer *a, bool is_thought)
{
    const gw_answer_open wanted = is_thought ? GW_ANSWER_THOUGHT : GW_ANSWER_SAID;
    if (a->open == wanted) return BT_OK;
    bt_err e = close_block(out, a);
    if (e < 0) return e;
    a->open = wanted;
    e = gw_answer_add(out,
                      json_pack("{s:s,s:i,s:o}", "type", "content_block_start", "index", (int)a->blocks,
                                "content_block", block(is_thought, (bt_text_span){"", 0})),
                      "event: content_block_start\ndata: ", "\n\n");
    return e == BT_OK && a->blocks++ == 0 ? alive(out, a) : e;
}

static bt_err part(bt_buf *out, gw_answer *a, const bt_thoughts_part *s, json_t *logprobs)
{
    json_decref(logprobs);
    const bt_err e = open_block(out, a, s->is_thought);
    if (e < 0 || (s->is_thought && a->hides_thoughts)) return e;
    json_t *delta =
        s->is_thought
            ? json_pack("{s:s,s:s%}", "type", "thinking_delta", "thinking", s->text.ptr, s->text.len)
            : json_pack("{s:s,s:s%}", "type", "text_delta", "text", s->text.ptr, s->text.len);
    return gw_answer_add(out,
                         json_pack("{s:s,s:i,s:o}", "type", "content_block_delta", "index",
                                   (int)a->blocks - 1, "delta", delta),
                         "event: content_block_delta\ndata: ", "\n\n");
}

static bt_err end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    bt_err e = close_block(out, a);
    if (e < 0) return e;
    e = gw_answer_add(out,
                      json_pack("{s:s,s:{s:s,s:o},s:o}", "type", "message_delta", "delta", "stop_reason",
                                reason_of(r), "stop_sequence", stop_sequence(r), "usage",
                                usage(r->prompt_tokens, r->cached_tokens, r->completion_tokens)),
                      "event: message_delta\ndata: ", "\n\n");
    return e < 0 ? e : bt_buf_str(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

/* ---- errors --------------------------------------------------------------------------------------- */

static const gw_error_kind kinds[] = {
    {401, 401, "authentication_error"}, {403, 403, "permission_error"}, {404, 404, "not_found_error"},
    {413, 413, "request_too_large"},    {429, 429, "rate_limit_error"}, {400, 499, "invalid_request_error"},
    {503, 503, "overloaded_error"},     {504, 504, "timeout_error"},    {500, 599, "api_error"},
};

static json_t *error(const gw_error *err, const char *type)
{
    return json_pack("{s:s,s:{s:s,s:s}}", "type", "error", "error", "type", type, "message", err->message);
}

/* ---- the dialects --------------------------------------------------------------------------------- */

#define ANSWERS \
    .prompt = "messages", .is_chat = true, .own = &own, .made = made, .id = "msg_", \
    .stream_type = gw_dialect_events, .begin = begin, .part = part, .end = end, .alive = alive, \
    .whole = whole, .kinds = kinds, .error_schema = "MessagesError", .error = error, \
    .error_event = "event: error\ndata: ", .error_end = "\n\n"

const gw_dialect gw_dialect_messages = {.name = "messages", .request = "MessagesRequest",
                                        .where = GW_FIELD_MESSAGES, ANSWERS};
const gw_dialect gw_dialect_count = {.name = "count", .request = "CountRequest", .where = GW_FIELD_COUNT,
                                     ANSWERS};
