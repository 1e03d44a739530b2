/* Reads the messages of a chat and the prompt of a completion. */
#include "gateway/api/messages.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- contents ------------------------------------------------------------------------------------- */

static const gw_message_part *find_part(const gw_message_part *parts, const char *type)
{
    while (parts->type && strcmp(parts->type, type) != 0) parts++;
    return parts->type ? parts : NULL;
}

/* All parts are of known types, with their texts; adds up their bytes, of thoughts in [1]. */
static bt_err check_parts(size_t total[static 2], gw_reader *p, const json_t *list, const char *where,
                          const gw_message_part *parts)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(item, "type"));
        const gw_message_part *part = type ? find_part(parts, type) : NULL;
        const json_t *text = part ? json_object_get(item, part->text) : NULL;
        if (!type)
            return gw_error_say(p->err, 400, "invalid_type", where,
                                "Invalid '%s[%zu]': expected an object with a 'type'.", where, i);
        if (!part)
            return gw_error_say(p->err, 400, "unsupported_parameter", where,
                                "'%s[%zu]' is of type '%.64s'; this server takes only '%s'.", where, i, type,
                                parts->type);
        if (!json_is_string(text))
            return gw_error_say(p->err, 400, "invalid_type", where,
                                "Invalid '%s[%zu].%s': expected a string.", where, i, part->text);
        size_t *of = &total[part->is_thought];
        if (!bt_add_size(of, *of, json_string_length(text))) return gw_read_no_memory(p);
    }
    return BT_OK;
}

/* The texts of one kind, one after another; NULL without memory. */
static json_t *join(const json_t *list, const gw_message_part *parts, bool thoughts, size_t total)
{
    char *joined = malloc(total + 1);
    size_t at = 0;
    for (size_t i = 0; joined && i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const gw_message_part *part = find_part(parts, json_string_value(json_object_get(item, "type")));
        const json_t *text = json_object_get(item, part->text);
        if (part->is_thought != thoughts) continue;
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    json_t *s = joined ? json_stringn_nocheck(joined, total) : NULL; /* parts are UTF-8, so their sum is */
    free(joined);
    return s;
}

bt_err gw_messages_text(json_t **ret, json_t **ret_thoughts, gw_reader *p, json_t *content, const char *where,
                        const gw_message_part *parts)
{
    size_t total[2] = {0, 0};
    if (ret_thoughts) *ret_thoughts = NULL;
    if (!content)
        return gw_error_say(p->err, 400, "missing_required_parameter", where,
                            "Missing required parameter: '%s'.", where);
    if (json_is_string(content)) {
        *ret = json_incref(content);
        return BT_OK;
    }
    if (!json_is_array(content) || !parts)
        return gw_read_wrong_type(p, where, parts ? "a string or an array of text parts" : "a string",
                                  content);
    const bt_err e = check_parts(total, p, content, where, parts);
    if (e < 0) return e;
    json_t *said = join(content, parts, false, total[0]);
    json_t *thoughts = total[1] ? join(content, parts, true, total[1]) : NULL;
    if (!said || (total[1] && !thoughts)) {
        json_decref(said);
        json_decref(thoughts);
        return gw_read_no_memory(p);
    }
    *ret = said;
    if (ret_thoughts) *ret_thoughts = thoughts;
    else json_decref(thoughts);
    return BT_OK;
}

bt_err gw_messages_add(gw_reader *p, json_t *talk, const char *role, json_t *content, const char *where,
                       const gw_message_part *parts)
{
    json_t *said, *thoughts;
    const bt_err e = gw_messages_text(&said, &thoughts, p, content, where, parts);
    if (e < 0) return e;
    json_t *m = json_pack("{s:s,s:o}", "role", role, "content", said);
    if (m && thoughts) {
        if (json_object_set(m, "reasoning_content", thoughts) < 0) {
            json_decref(m);
            m = NULL;
        }
    }
    json_decref(thoughts);
    return json_array_append_new(talk, m) < 0 ? gw_read_no_memory(p) : BT_OK;
}

bt_err gw_messages_take(gw_reader *p, json_t *root, json_t *talk, bt_err e)
{
    static const char key[] = "messages";
    if (e < 0) {
        json_decref(talk);
        return e;
    }
    if (json_object_set_new(root, key, talk) < 0) return gw_read_no_memory(p);
    p->r.talk.messages = json_object_get(root, key);
    return BT_OK;
}

bt_err gw_messages_pass(gw_reader *p, json_t *root)
{
    static const char all[] = "chat_template_kwargs";
    const struct {
        const char *name;
        json_t *value;
    } more[] = {{"reasoning_effort", p->effort}, {"enable_thinking", p->thinks}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        if (!more[i].value || json_object_get(p->r.talk.kwargs, more[i].name)) continue;
        json_t *kwargs = p->r.talk.kwargs ? json_copy((json_t *)p->r.talk.kwargs) : json_object();
        const int failed = json_object_set(kwargs, more[i].name, more[i].value);
        if (json_object_set_new(root, all, kwargs) < 0 || failed) return gw_read_no_memory(p);
        p->r.talk.kwargs = json_object_get(root, all);
    }
    return BT_OK;
}

/* ---- chats ---------------------------------------------------------------------------------------- */

static const gw_message_part text_parts[] = {{"text", "text", false}, {NULL, NULL, false}};

/* An array of text parts becomes one string, which replaces it in the tree and so lives as long. */
static bt_err join_parts(gw_reader *p, json_t *message, json_t *parts, const char *where)
{
    json_t *said;
    const bt_err e = gw_messages_text(&said, NULL, p, parts, where, text_parts);
    if (e < 0) return e;
    return json_object_set_new(message, "content", said) < 0 ? gw_read_no_memory(p) : BT_OK;
}

/* An assistant's calls of tools, whose arguments are a text or an object. */
static bt_err check_calls(gw_reader *p, const json_t *calls, const char *where)
{
    size_t i;
    json_t *call;
    char at[64];
    if (!json_is_array(calls)) return gw_read_wrong_type(p, where, "an array", calls);
    json_array_foreach(calls, i, call) {
        const json_t *function = json_object_get(call, "function"),
                     *arguments = json_object_get(function, "arguments"), *id = json_object_get(call, "id");
        (void)snprintf(at, sizeof at, "%.40s[%zu]", where, i);
        if (!json_is_string(json_object_get(function, "name")))
            return gw_read_wrong_type(p, at, "an object with 'function', which has a 'name'", call);
        if (arguments && !json_is_string(arguments) && !json_is_object(arguments))
            return gw_read_wrong_type(p, at, "arguments that are a string or an object", arguments);
        if (id && !json_is_string(id)) return gw_read_wrong_type(p, at, "an id that is a string", id);
    }
    return BT_OK;
}

static bool is_one_of(const char *key, const char *const *names)
{
    while (*names && strcmp(key, *names) != 0) names++;
    return *names != NULL;
}

static bt_err check_message_keys(gw_reader *p, const json_t *message, const char *where)
{
    /* a thought has one of three names, as servers differ */
    static const char *const texts[] = {
        "name", "tool_call_id", "reasoning_content", "reasoning", "thinking", "tool_name", NULL};
    static const char *const refused[] = {"refusal", "audio", "function_call", "images", NULL};
    const char *key;
    char at[64];
    json_t *v;
    json_object_foreach((json_t *)message, key, v) {
        if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0 || json_is_null(v)) continue;
        if (is_one_of(key, texts)) {
            if (!json_is_string(v)) return gw_read_wrong_type(p, key, "a string", v);
        } else if (strcmp(key, "tool_calls") == 0) {
            (void)snprintf(at, sizeof at, "%.40s.tool_calls", where);
            const bt_err e = check_calls(p, v, at);
            if (e < 0) return e;
        } else if (is_one_of(key, refused)) {
            return gw_read_unsupported(p, key, "");
        } else if (strcmp(key, "annotations") == 0) {
            if (!json_is_array(v) || json_array_size(v) > 0) return gw_read_unsupported(p, key, "");
        } else {
            return gw_error_say(p->err, 400, "unknown_parameter", where,
                                "Unrecognized request argument supplied: %s.%s", where, key);
        }
    }
    return BT_OK;
}

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", NULL};
bool gw_messages_has_role(const char *role) { return is_one_of(role, roles); }

static bt_err check_message(gw_reader *p, json_t *m, size_t index)
{
    char where[48];
    (void)snprintf(where, sizeof where, "messages[%zu]", index);
    if (!json_is_object(m)) return gw_read_wrong_type(p, where, "an object", m);
    bt_err e = check_message_keys(p, m, where);
    if (e < 0) return e;

    (void)snprintf(where, sizeof where, "messages[%zu].role", index);
    const char *role = json_string_value(json_object_get(m, "role"));
    if (!role)
        return gw_error_say(p->err, 400, "missing_required_parameter", where,
                            "Missing required parameter: '%s', a string.", where);
    if (!is_one_of(role, roles))
        return gw_error_say(p->err, 400, "invalid_value", where,
                            "Invalid value for '%s': '%.64s'; supported are 'system', 'developer', 'user', "
                            "'assistant', 'tool'.",
                            where, role);

    (void)snprintf(where, sizeof where, "messages[%zu].content", index);
    json_t *content = json_object_get(m, "content");
    if (!content || json_is_null(content)) {
        if (json_array_size(json_object_get(m, "tool_calls")) > 0) return BT_OK;
        return gw_error_say(p->err, 400, "missing_required_parameter", where,
                            "Missing required parameter: '%s'.", where);
    }
    if (json_is_array(content)) {
        if ((e = join_parts(p, m, content, where)) < 0) return e;
        content = json_object_get(m, "content");
    }
    return json_is_string(content)
               ? BT_OK
               : gw_read_wrong_type(p, where, "a string or an array of text parts", content);
}

bt_err gw_messages_chat(gw_reader *p, const char *name, json_t *v)
{
    if (!json_is_array(v)) return gw_read_wrong_type(p, name, "an array", v);
    const size_t n = json_array_size(v);
    if (n == 0 || n > BT_CHAT_MAX_MESSAGES)
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid '%s': %zu messages; 1 to %d are allowed.", name, n,
                            BT_CHAT_MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        const bt_err e = check_message(p, json_array_get(v, i), i);
        if (e < 0) return e;
    }
    p->r.talk.messages = v;
    return BT_OK;
}

bt_err gw_messages_objects(const json_t **ret, gw_reader *p, const char *name, json_t *v)
{
    char where[48];
    if (!json_is_array(v)) return gw_read_wrong_type(p, name, "an array of objects", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        (void)snprintf(where, sizeof where, "%.24s[%zu]", name, i);
        if (!json_is_object(item)) return gw_read_wrong_type(p, where, "an object", item);
    }
    if (json_array_size(v) > 0) *ret = v;
    return BT_OK;
}

bt_err gw_messages_kwargs(gw_reader *p, const char *name, json_t *v)
{
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt", NULL};
    const char *key;
    json_t *item;
    if (!json_is_object(v)) return gw_read_wrong_type(p, name, "an object", v);
    json_object_foreach(v, key, item) {
        if (is_one_of(key, own))
            return gw_error_say(p->err, 400, "invalid_value", name,
                                "'%s' is a field of the request itself, and none of '%s'.", key, name);
    }
    p->r.talk.kwargs = v;
    return BT_OK;
}

bt_err gw_messages_prompt(gw_reader *p, const char *name, json_t *v)
{
    /* A list of one prompt is that prompt; a list of several would be several requests. */
    if (json_is_array(v) && json_array_size(v) > 0 && !json_is_number(json_array_get(v, 0))) {
        if (json_array_size(v) > 1)
            return gw_error_say(
                p->err, 400, "unsupported_parameter", name,
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
        return gw_error_say(p->err, 400, "invalid_value", name, "Invalid '%s': the list is empty.", name);
    return gw_read_ids(&p->r.prompt_ids, &p->r.prompt_ids_len, p, name, v);
}
