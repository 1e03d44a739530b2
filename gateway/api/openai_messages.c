/* Reads the messages of a chat and the prompt of a completion. */
#include "gateway/api/openai_messages.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BAD[] = "invalid_request_error";

/* An array of text parts becomes one string, which replaces it in the tree and so lives as long. */
static bt_err join_parts(gw_reader *p, json_t *message, json_t *parts, const char *where)
{
    size_t total = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type)
            return gw_openai_fail(p->err, 400, BAD, "invalid_type", where,
                                  "Invalid '%s[%zu]': expected an object with a 'type'.", where, i);
        if (strcmp(type, "text") != 0)
            return gw_openai_fail(p->err, 400, BAD, "unsupported_parameter", where,
                                  "'%s[%zu]' is of type '%.64s'; this server takes only 'text'.", where, i,
                                  type);
        if (!json_is_string(text))
            return gw_openai_fail(p->err, 400, BAD, "invalid_type", where,
                                  "Invalid '%s[%zu].text': expected a string.", where, i);
        if (!bt_add_size(&total, total, json_string_length(text))) return gw_read_no_memory(p);
    }
    char *joined = malloc(total + 1);
    if (!joined) return gw_read_no_memory(p);
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    json_t *s = json_stringn_nocheck(joined, total); /* parts are UTF-8, so their sum is */
    free(joined);
    return !s || json_object_set_new(message, "content", s) < 0 ? gw_read_no_memory(p) : BT_OK;
}

static bt_err check_message_keys(gw_reader *p, const json_t *message, const char *where)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)message, key, v) {
        if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0 || json_is_null(v)) continue;
        /* reasoning_content: text that another server separated from an answer; no template shows it */
        if (strcmp(key, "name") == 0 || strcmp(key, "reasoning_content") == 0) {
            if (!json_is_string(v)) return gw_read_wrong_type(p, key, "a string", v);
            continue;
        }
        /* What an assistant's message from another server may carry, empty. */
        if (strcmp(key, "tool_calls") == 0 || strcmp(key, "annotations") == 0) {
            if (json_is_array(v) && json_array_size(v) == 0) continue;
            return gw_read_unsupported(p, key, "");
        }
        if (strcmp(key, "refusal") == 0 || strcmp(key, "audio") == 0 || strcmp(key, "function_call") == 0 ||
            strcmp(key, "tool_call_id") == 0)
            return gw_read_unsupported(p, key, "");
        return gw_openai_fail(p->err, 400, BAD, "unknown_parameter", where,
                              "Unrecognized request argument supplied: %s.%s", where, key);
    }
    return BT_OK;
}

static bt_err read_message(gw_reader *p, bt_chat_message *ret, json_t *m, size_t index)
{
    char where[48];
    (void)snprintf(where, sizeof where, "messages[%zu]", index);
    if (!json_is_object(m)) return gw_read_wrong_type(p, where, "an object", m);
    bt_err e = check_message_keys(p, m, where);
    if (e < 0) return e;

    (void)snprintf(where, sizeof where, "messages[%zu].role", index);
    const char *role = json_string_value(json_object_get(m, "role"));
    if (!role)
        return gw_openai_fail(p->err, 400, BAD, "missing_required_parameter", where,
                              "Missing required parameter: '%s', a string.", where);
    if (strcmp(role, "developer") == 0) role = "system";
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
        return gw_openai_fail(
            p->err, 400, BAD, "invalid_value", where,
            "Invalid value for '%s': '%.64s'; supported are 'system', 'developer', 'user', 'assistant'.",
            where, role);

    (void)snprintf(where, sizeof where, "messages[%zu].content", index);
    json_t *content = json_object_get(m, "content");
    if (!content || json_is_null(content))
        return gw_openai_fail(p->err, 400, BAD, "missing_required_parameter", where,
                              "Missing required parameter: '%s'.", where);
    if (json_is_array(content)) {
        if ((e = join_parts(p, m, content, where)) < 0) return e;
        content = json_object_get(m, "content");
    }
    if (!json_is_string(content))
        return gw_read_wrong_type(p, where, "a string or an array of text parts", content);
    *ret = (bt_chat_message){role, json_string_value(content), json_string_length(content)};
    return BT_OK;
}

bt_err gw_messages_chat(gw_reader *p, const char *name, json_t *v)
{
    if (!json_is_array(v)) return gw_read_wrong_type(p, name, "an array", v);
    const size_t n = json_array_size(v);
    if (n == 0 || n > BT_CHAT_MAX_MESSAGES)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': %zu messages; 1 to %d are allowed.", name, n,
                              BT_CHAT_MAX_MESSAGES);
    if (!(p->r.message = calloc(n, sizeof *p->r.message))) return gw_read_no_memory(p);
    p->r.messages = n;
    for (size_t i = 0; i < n; i++) {
        const bt_err e = read_message(p, &p->r.message[i], json_array_get(v, i), i);
        if (e < 0) return e;
    }
    return BT_OK;
}

bt_err gw_messages_prompt(gw_reader *p, const char *name, json_t *v)
{
    /* A list of one prompt is that prompt; a list of several would be several requests. */
    if (json_is_array(v) && json_array_size(v) > 0 && !json_is_number(json_array_get(v, 0))) {
        if (json_array_size(v) > 1)
            return gw_openai_fail(
                p->err, 400, BAD, "unsupported_parameter", name,
                "A list of %zu prompts is not supported by this server; send one request for each.",
                json_array_size(v));
        v = json_array_get(v, 0);
    }
    if (json_is_string(v)) {
        p->r.prompt = json_string_value(v);
        p->r.prompt_len = json_string_length(v);
        return BT_OK;
    }
    if (!json_is_array(v)) return gw_read_wrong_type(p, name, "a string or a list of token ids", v);
    if (json_array_size(v) == 0)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name, "Invalid '%s': the list is empty.",
                              name);
    return gw_read_ids(&p->r.prompt_ids, &p->r.prompt_ids_len, p, name, v);
}
