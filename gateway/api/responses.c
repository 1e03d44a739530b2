/* OpenAI's responses. An answer is a list of items: thoughts are an item of the type reasoning, before the
 * message. Each event of a stream has its name and a number: response.created and response.in_progress, for
 * each item output_item.added, content_part.added, deltas, and the same backwards as done, then
 * response.completed or response.incomplete with the whole answer. Nothing is stored. */
#include "gateway/api/messages.h"
#include "gateway/api/openai.h"
#include "gateway/api/structure.h"
#include "text/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- requests ------------------------------------------------------------------------------------- */

static const gw_message_part texts[] = {{"input_text", "text", false},
                                        {"output_text", "text", false},
                                        {"text", "text", false},
                                        {NULL, NULL, false}};
static const gw_message_part thoughts[] = {
    {"reasoning_text", "text", false}, {"summary_text", "text", false}, {NULL, NULL, false}};

static bt_err field_input(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v) && !json_is_array(v))
        return gw_read_wrong_type(p, f->name, "a string or an array of items", v);
    if (json_is_array(v) && (json_array_size(v) == 0 || json_array_size(v) >= BT_CHAT_MAX_MESSAGES))
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid '%s': %zu items; 1 to %d are allowed.", f->name, json_array_size(v),
                            BT_CHAT_MAX_MESSAGES - 1);
    p->messages = v;
    return BT_OK;
}

static bt_err field_instructions(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, f->name, "a string", v);
    if (json_string_length(v) > 0) p->system = v;
    return gw_read_echo(p, f->name, v);
}

/* OpenAI's limits. */
static bt_err field_metadata(gw_reader *p, const gw_field *f, json_t *v)
{
    enum { PAIRS = 16, KEY_CHARS = 64, VALUE_CHARS = 512 };
    const char *key;
    json_t *value;
    bool is_good = json_is_object(v) && json_object_size(v) <= PAIRS;
    json_object_foreach(v, key, value)
        is_good &= bt_utf8_count(key, strlen(key)) <= KEY_CHARS && json_is_string(value) &&
                   bt_utf8_count(json_string_value(value), json_string_length(value)) <= VALUE_CHARS;
    return is_good ? gw_read_echo(p, f->name, v)
                   : gw_error_say(p->err, 400, "invalid_value", f->name,
                                  "Invalid '%s': it is an object of at most %d strings, of at most %d "
                                  "characters each, under names of at most %d.",
                                  f->name, PAIRS, VALUE_CHARS, KEY_CHARS);
}

static bt_err field_reasoning(gw_reader *p, const gw_field *f, json_t *v)
{
    json_t *effort = json_object_get(v, "effort");
    if (!json_is_object(v)) return gw_read_wrong_type(p, f->name, "an object", v);
    if (!effort || json_is_null(effort)) return BT_OK;
    if (!json_is_string(effort)) return gw_read_wrong_type(p, "reasoning.effort", "a string", effort);
    p->effort = effort;
    return BT_OK;
}

static bt_err field_text(gw_reader *p, const gw_field *f, json_t *v)
{
    static const gw_field format = {.name = "text.format"};
    static const char *const names[] = {"type", "name", "description", "strict", "schema"};
    json_t *of = json_object_get(v, "format");
    if (!json_is_object(v)) return gw_read_wrong_type(p, f->name, "an object", v);
    if (!of || json_is_null(of)) return BT_OK;
    bt_err e = gw_structure_field(p, &format, of);
    json_t *told = json_object();
    for (size_t i = 0; e == BT_OK && i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(of, names[i]);
        if (value && json_object_set(told, names[i], value) < 0) e = gw_read_no_memory(p);
    }
    if (e == BT_OK) e = gw_read_echo(p, "format", told);
    json_decref(told);
    return e;
}

/* Parts of an answer beside its text that are asked for. */
static bt_err field_include(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_array(v)) return gw_read_wrong_type(p, f->name, "an array of strings", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *what = json_string_value(json_array_get(v, i));
        if (!what) return gw_read_wrong_type(p, f->name, "an array of strings", v);
        if (strcmp(what, "message.output_text.logprobs") == 0) p->r.sampling.logprobs = true;
        else if (strcmp(what, "reasoning.encrypted_content") != 0) /* thoughts are told as they are */
            return gw_error_say(
                p->err, 400, "invalid_value", f->name,
                "Invalid value for '%s': '%.64s'; supported are 'message.output_text.logprobs' "
                "and 'reasoning.encrypted_content'.",
                f->name, what);
    }
    return BT_OK;
}

/* A thought becomes the next message's. */
static bt_err add_item(gw_reader *p, json_t *talk, json_t *item, size_t index, json_t **thought)
{
    char where[48];
    (void)snprintf(where, sizeof where, "input[%zu]", index);
    if (!json_is_object(item)) return gw_read_wrong_type(p, where, "an object", item);
    const char *type = json_string_value(json_object_get(item, "type")),
               *role = json_string_value(json_object_get(item, "role"));
    if (!type && json_object_get(item, "type"))
        return gw_read_wrong_type(p, where, "an item with a 'type' that is a string", item);
    if (!type) type = "message";
    if (strcmp(type, "reasoning") == 0) {
        json_t *content = json_object_get(item, "content");
        if (json_array_size(content) == 0) content = json_object_get(item, "summary");
        json_decref(*thought);
        *thought = NULL;
        return json_array_size(content) ? gw_messages_text(thought, NULL, p, content, where, thoughts)
                                        : BT_OK;
    }
    if (strcmp(type, "message") != 0)
        return gw_error_say(p->err, 400, "unsupported_parameter", where,
                            "'%s' is of type '%.64s'; this server takes only 'message' and 'reasoning'.",
                            where, type);
    if (!role || !gw_messages_has_role(role))
        return gw_error_say(p->err, 400, "invalid_value", where,
                            "Invalid '%s.role': supported are 'system', 'developer', 'user', 'assistant'.",
                            where);
    (void)snprintf(where, sizeof where, "input[%zu].content", index);
    const bt_err e = gw_messages_add(p, talk, role, json_object_get(item, "content"), where, texts);
    if (e < 0 || !*thought) return e;
    json_t *m = json_array_get(talk, json_array_size(talk) - 1);
    const int failed = json_object_set(m, "reasoning_content", *thought);
    json_decref(*thought);
    *thought = NULL;
    return failed ? gw_read_no_memory(p) : BT_OK;
}

static bt_err made(gw_reader *p, json_t *root)
{
    json_t *talk = json_array(), *thought = NULL;
    bt_err e = talk ? BT_OK : gw_read_no_memory(p);
    if (p->r.sampling.top_logprobs && !p->r.sampling.logprobs) p->r.sampling.top_logprobs = 0;
    if (e == BT_OK && p->system) e = gw_messages_add(p, talk, "system", p->system, "instructions", texts);
    if (json_is_string(p->messages) && e == BT_OK)
        e = gw_messages_add(p, talk, "user", p->messages, "input", texts);
    for (size_t i = 0; i < json_array_size(p->messages) && e == BT_OK; i++)
        e = add_item(p, talk, json_array_get(p->messages, i), i, &thought);
    json_decref(thought);
    if (e == BT_OK && json_array_size(talk) == (p->system ? 1 : 0))
        e = gw_error_say(p->err, 400, "invalid_value", "input", "Invalid 'input': it has no message.");
    e = gw_messages_take(p, root, talk, e);
    return e < 0 ? e : gw_messages_pass(p, root);
}

#define HERE GW_FIELD_RESPONSES
// clang-format off
static const char input_schema[] =
    "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"minItems\":1,\"maxItems\":4095,\"items\":{\"type\":\"object\","
    "\"properties\":{\"type\":{\"enum\":[\"message\",\"reasoning\"]},\"role\":{\"enum\":[\"system\",\"developer\",\"user\","
    "\"assistant\"]},\"content\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\","
    "\"required\":[\"type\",\"text\"],\"properties\":{\"text\":{\"type\":\"string\"}}}}]}}}}]}";
static const char format_schema[] =
    "{\"type\":\"object\",\"properties\":{\"format\":{\"type\":[\"object\",\"null\"],\"required\":[\"type\"],"
    "\"properties\":{\"type\":{\"enum\":[\"text\",\"json_object\",\"json_schema\"]},\"schema\":{\"type\":[\"object\",\"boolean\",\"null\"]}}}}}";

static const char metadata_schema[] =
    "{\"type\":\"object\",\"maxProperties\":16,\"propertyNames\":{\"maxLength\":64},"
    "\"additionalProperties\":{\"type\":\"string\",\"maxLength\":512}}";

static const gw_field fields[] = {
    GW_REQUIRED("input", HERE, field_input, input_schema, "A message of the user, or the conversation so far"),
    GW_OTHER("instructions", HERE, field_instructions, "{\"type\":\"string\"}",
             "What stands before the conversation"),
    GW_OTHER("max_output_tokens", HERE, gw_field_max_answer, "{\"type\":\"integer\",\"minimum\":1}",
             "Tokens of the answer at most; what the context does not hold is cut"),
    GW_OTHER("reasoning", HERE, field_reasoning, "{\"type\":\"object\"}",
             "effort: the variable reasoning_effort of the chat template; thoughts are told as they are"),
    GW_OTHER("text", HERE, field_text, format_schema,
             "format: the answer is text, any JSON object, or JSON of a schema"),
    GW_OTHER("include", HERE, field_include,
             "{\"type\":\"array\",\"items\":{\"enum\":[\"message.output_text.logprobs\",\"reasoning.encrypted_content\"]}}",
             "Log probabilities of the message; thoughts are told as they are"),
    GW_OTHER("metadata", HERE, field_metadata, metadata_schema, "Pairs of texts that the answer repeats"),
    GW_ONLY("tools", HERE, "[[]]"),
    GW_ONLY("tool_choice", HERE, "[\"auto\",\"none\"]"),
    GW_ONLY("previous_response_id", HERE, "[]"),
    GW_ONLY("conversation", HERE, "[]"),
    GW_ONLY("background", HERE, "[false]"),
    GW_ONLY("prompt", HERE, "[]"),
    GW_ONLY("truncation", HERE, "[\"disabled\"]"),
    GW_ONLY("context_management", HERE, "[[]]"),
    GW_HARMLESS("max_tool_calls", HERE, "Taken and not looked at: there are no tools"),
};
// clang-format on
static const gw_fields own = {fields, sizeof fields / sizeof *fields};

/* ---- answers -------------------------------------------------------------------------------------- */

static const bt_text_span nothing = {"", 0};

/* Ids of items are made of the answer's. */
static json_t *item_id(const gw_answer *a, bool is_thought, unsigned index)
{
    return json_sprintf("%s_%s%u", is_thought ? "rs" : "msg", a->id + strlen(a->dialect->id), index);
}

static json_t *content(bool is_thought, bt_text_span s, json_t *logprobs)
{
    if (!is_thought)
        return json_pack("{s:s,s:s%,s:[],s:o}", "type", "output_text", "text", s.ptr, s.len, "annotations",
                         "logprobs", logprobs);
    json_decref(logprobs);
    return json_pack("{s:s,s:s%}", "type", "reasoning_text", "text", s.ptr, s.len);
}

/* The text of item i, and the log probabilities of its tokens; an item that has none yet is an empty message.
 */
static bt_text_span text_of(const gw_answer *a, size_t i)
{
    if (i >= gw_answer_runs(a)) return nothing;
    const gw_answer_run *r = gw_answer_run_at(a, i);
    return (bt_text_span){bt_buf_text(&a->kept[r->is_thought]) + r->begin_bytes,
                          r->end_bytes - r->begin_bytes};
}

static json_t *logprobs_of(const gw_answer *a, size_t i)
{
    if (!a->logprobs || i >= gw_answer_runs(a)) return json_array();
    const gw_answer_run *r = gw_answer_run_at(a, i);
    return gw_logprobs_again(a->logprobs, r->begin_tokens, r->end_tokens);
}

/* list: of its content, taken. */
static json_t *item(const gw_answer *a, bool is_thought, unsigned index, const char *status, json_t *list)
{
    return is_thought ? json_pack("{s:o,s:s,s:[],s:o,s:s}", "id", item_id(a, true, index), "type",
                                  "reasoning", "summary", "content", list, "status", status)
                      : json_pack("{s:o,s:s,s:s,s:s,s:o}", "id", item_id(a, false, index), "type", "message",
                                  "status", status, "role", "assistant", "content", list);
}

static json_t *usage(const gw_answer_report *r)
{
    return json_pack("{s:I,s:{s:I},s:I,s:{s:I},s:I}", "input_tokens", (json_int_t)r->prompt_tokens,
                     "input_tokens_details", "cached_tokens", (json_int_t)r->cached_tokens, "output_tokens",
                     (json_int_t)r->completion_tokens, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)r->thought_tokens, "total_tokens",
                     (json_int_t)(r->prompt_tokens + r->completion_tokens));
}

/* status: of the answer as a whole; output and used are taken, used NULL: there is none yet. */
static json_t *response(const gw_answer *a, const char *status, const char *incomplete, json_t *output,
                        json_t *used)
{
    json_t *why = incomplete ? json_pack("{s:s}", "reason", incomplete) : json_null(),
           *instructions = json_object_get(a->echo, "instructions"),
           *metadata = json_object_get(a->echo, "metadata"), *format = json_object_get(a->echo, "format");
    format = format ? json_incref(format) : json_pack("{s:s}", "type", "text");
    metadata = metadata ? json_incref(metadata) : json_object();
    return json_pack("{s:s,s:s,s:I,s:s,s:n,s:o,s:O?,s:o,s:s,s:o,s:b,s:n,s:b,s:o,s:{s:o},s:s,s:[],s:o,s:s,s:o,"
                     "s:o}",
                     "id", a->id, "object", "response", "created_at", (json_int_t)(a->created_us / 1000000),
                     "status", status, "error", "incomplete_details", why, "instructions", instructions,
                     "max_output_tokens", a->max_tokens ? json_integer(a->max_tokens) : json_null(), "model",
                     a->model, "output", output, "parallel_tool_calls", 0, "previous_response_id", "store", 0,
                     "temperature", gw_answer_number(a->sampling.temperature), "text", "format", format,
                     "tool_choice", "none", "tools", "top_p", gw_answer_number(a->sampling.top_p),
                     "truncation", "disabled", "usage", used ? used : json_null(), "metadata", metadata);
}

static const char *status_of(const gw_answer_report *r)
{
    return r->ending == GW_ENDING_LENGTH ? "incomplete" : "completed";
}

/* An answer that ends with thoughts, or has no text, has an empty message at its end. */
static json_t *ended(const gw_answer *a, const gw_answer_report *r)
{
    json_t *output = json_array();
    const size_t runs = gw_answer_runs(a),
                 items = runs + (runs == 0 || gw_answer_run_at(a, runs - 1)->is_thought);
    int failed = 0;
    for (size_t i = 0; i < items && !failed; i++) {
        const bool is_thought = i < runs && gw_answer_run_at(a, i)->is_thought;
        json_t *one = json_pack("[o]", content(is_thought, text_of(a, i), logprobs_of(a, i)));
        failed = json_array_append_new(output, item(a, is_thought, (unsigned)i,
                                                    i + 1 < items ? "completed" : status_of(r), one));
    }
    if (failed) {
        json_decref(output);
        output = NULL;
    }
    return response(a, status_of(r), r->ending == GW_ENDING_LENGTH ? "max_output_tokens" : NULL, output,
                    usage(r));
}

static bt_err whole(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs)
{
    json_decref(logprobs);
    return gw_answer_add(out, ended(a, r), "", "");
}

/* ---- streams -------------------------------------------------------------------------------------- */

/* Takes j, which has what the event of that name holds beside its name and number. */
static bt_err add_event(bt_buf *out, gw_answer *a, const char *name, json_t *j)
{
    char before[96];
    (void)snprintf(before, sizeof before, "event: %s\ndata: ", name);
    j = gw_answer_with(j, "type", json_string(name));
    return gw_answer_add(out, gw_answer_with(j, "sequence_number", json_integer(a->events++)), before,
                         "\n\n");
}

static bt_err begin(bt_buf *out, gw_answer *a)
{
    const bt_err e =
        add_event(out, a, "response.created",
                  json_pack("{s:o}", "response", response(a, "in_progress", NULL, json_array(), NULL)));
    return e < 0 ? e
                 : add_event(out, a, "response.in_progress",
                             json_pack("{s:o}", "response",
                                       response(a, "in_progress", NULL, json_array(), NULL)));
}

/* Where the open item is. */
static json_t *at(const gw_answer *a)
{
    return json_pack("{s:o,s:i,s:i}", "item_id", item_id(a, a->open == GW_ANSWER_THOUGHT, a->blocks - 1),
                     "output_index", (int)a->blocks - 1, "content_index", 0);
}

static json_t *with_item(const gw_answer *a, const char *status, json_t *list)
{
    return json_pack("{s:i,s:o}", "output_index", (int)a->blocks - 1, "item",
                     item(a, a->open == GW_ANSWER_THOUGHT, a->blocks - 1, status, list));
}

static bt_err close_item(bt_buf *out, gw_answer *a, const char *status)
{
    const bool is_thought = a->open == GW_ANSWER_THOUGHT;
    if (a->open == GW_ANSWER_NOTHING) return BT_OK;
    const size_t i = a->blocks - 1;
    const bt_text_span s = text_of(a, i);
    json_t *text = gw_answer_with(at(a), "text", json_stringn(s.ptr, s.len));
    if (!is_thought) text = gw_answer_with(text, "logprobs", logprobs_of(a, i));
    bt_err e =
        add_event(out, a, is_thought ? "response.reasoning_text.done" : "response.output_text.done", text);
    if (e == BT_OK)
        e = add_event(out, a, "response.content_part.done",
                      gw_answer_with(at(a), "part", content(is_thought, s, logprobs_of(a, i))));
    if (e == BT_OK)
        e = add_event(out, a, "response.output_item.done",
                      with_item(a, status, json_pack("[o]", content(is_thought, s, logprobs_of(a, i)))));
    a->open = GW_ANSWER_NOTHING;
    return e;
}

static bt_err open_item(bt_buf *out, gw_answer *a, bool is_thought)
{
    const gw_answer_open wanted = is_thought ? GW_ANSWER_THOUGHT : GW_ANSWER_SAID;
    if (a->open == wanted) return BT_OK;
    bt_err e = close_item(out, a, "completed");
    if (e < 0) return e;
    a->open = wanted;
    a->blocks++;
    e = add_event(out, a, "response.output_item.added", with_item(a, "in_progress", json_array()));
    return e < 0 ? e
                 : add_event(out, a, "response.content_part.added",
                             gw_answer_with(at(a), "part", content(is_thought, nothing, json_array())));
}

static bt_err part(bt_buf *out, gw_answer *a, const bt_thoughts_part *s, json_t *logprobs)
{
    bt_err e = open_item(out, a, s->is_thought);
    json_t *list = json_object_get(logprobs, "content");
    a->told_tokens += json_array_size(list);
    if (e == BT_OK) e = gw_answer_keep(a, s, a->told_tokens);
    json_t *j = gw_answer_with(at(a), "delta", json_stringn(s->text.ptr, s->text.len));
    if (!s->is_thought) j = gw_answer_with(j, "logprobs", list ? json_incref(list) : json_array());
    json_decref(logprobs);
    if (e == BT_OK)
        return add_event(out, a,
                         s->is_thought ? "response.reasoning_text.delta" : "response.output_text.delta", j);
    json_decref(j);
    return e;
}

/* An answer without a text is an empty message. */
static bt_err end(bt_buf *out, gw_answer *a, const gw_answer_report *r)
{
    bt_err e = a->open == GW_ANSWER_SAID ? BT_OK : open_item(out, a, false);
    if (e == BT_OK) e = close_item(out, a, status_of(r));
    if (e < 0) return e;
    return add_event(out, a, r->ending == GW_ENDING_LENGTH ? "response.incomplete" : "response.completed",
                     json_pack("{s:o}", "response", ended(a, r)));
}

const gw_dialect gw_dialect_responses = {
    .name = "response",
    .request = "ResponsesRequest",
    .prompt = "input",
    .where = GW_FIELD_RESPONSES,
    .own = &own,
    .is_chat = true,
    .made = made,
    .id = "resp_",
    .logprobs = GW_LOGPROBS_CHAT,
    .stream_type = gw_dialect_events,
    .begin = begin,
    .part = part,
    .end = end,
    .alive = gw_openai_comment,
    .whole = whole,
    .error_schema = "Error",
    .kinds = gw_openai_kinds,
    .error = gw_openai_error,
    .error_event = "event: error\ndata: ",
    .error_end = "\n\n",
};
