/* Reads requests of the OpenAI API. What a field means, and which of the four lists it is in, is decided by
 * the one table at the end; jansson decides what is JSON. */
#include "gateway/door/openai.h"
#include "base/num.h"
#include "gateway/http/options.h"
#include "text/utf8.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BAD[] = "invalid_request_error";

typedef struct reader {
    gw_openai_request r;
    gw_openai_error *err;
    const gw_openai_limits *limits;
    uint32_t max_completion_tokens;
} reader;

typedef bt_err read_fn(reader *p, const char *name, json_t *v);

static void cut_at_character(char *text)
{
    size_t bad;
    if (!bt_utf8_valid(text, strlen(text), &bad)) text[bad] = 0;
}

bt_err gw_openai_fail(gw_openai_error *err, int status, const char *type, const char *code, const char *param,
                      const char *fmt, ...)
{
    *err = (gw_openai_error){.status = status, .type = type, .code = code};
    if (param) (void)snprintf(err->param, sizeof err->param, "%s", param);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    cut_at_character(err->param);
    cut_at_character(err->message);
    return BT_EARG;
}

static bt_err no_memory(reader *p)
{
    (void)gw_openai_fail(p->err, 500, "server_error", "out_of_memory", NULL,
                         "Out of memory while reading the request.");
    return BT_ENOMEM;
}

static bt_err wrong_type(reader *p, const char *name, const char *wanted, const json_t *v)
{
    static const char *const kinds[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return gw_openai_fail(p->err, 400, BAD, "invalid_type", name,
                          "Invalid type for '%s': expected %s, but got %s.", name, wanted,
                          kinds[json_typeof(v)]);
}

static bt_err not_supported(reader *p, const char *name, const char *allowed)
{
    return gw_openai_fail(p->err, 400, BAD, "unsupported_parameter", name,
                          "'%s' is not supported by this server%s%s.", name,
                          *allowed ? "; leave it out or use " : "", allowed);
}

/* ---- values ------------------------------------------------------------------------------------- */

static bt_err read_int(int64_t *ret, reader *p, const char *name, const json_t *v, int64_t lo, int64_t hi)
{
    if (!json_is_integer(v)) return wrong_type(p, name, "an integer", v);
    const int64_t x = json_integer_value(v);
    if (x < lo || x > hi)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid value for '%s': %lld is not in the range %lld to %lld.", name,
                              (long long)x, (long long)lo, (long long)hi);
    *ret = x;
    return BT_OK;
}

static bt_err read_float(float *ret, reader *p, const char *name, const json_t *v, double lo, double hi)
{
    if (!json_is_number(v)) return wrong_type(p, name, "a number", v);
    const double x = json_number_value(v);
    if (!(x >= lo && x <= hi))
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid value for '%s': %g is not in the range %g to %g.", name, x, lo, hi);
    *ret = (float)x;
    return BT_OK;
}

static bt_err read_bool(bool *ret, reader *p, const char *name, const json_t *v)
{
    if (!json_is_boolean(v)) return wrong_type(p, name, "true or false", v);
    *ret = json_is_true(v);
    return BT_OK;
}

/* ---- fields in use ------------------------------------------------------------------------------ */

static bt_err field_model(reader *p, const char *name, json_t *v)
{
    if (!json_is_string(v)) return wrong_type(p, name, "a string", v);
    for (size_t i = 0; i < p->limits->names_len; i++)
        if (strcmp(json_string_value(v), p->limits->names[i]) == 0) return BT_OK;
    return gw_openai_fail(p->err, 404, BAD, "model_not_found", name,
                          "The model '%.200s' does not exist here; this server has '%s'.",
                          json_string_value(v), p->limits->names_len ? p->limits->names[0] : "");
}

static bt_err field_max_tokens(reader *p, const char *name, json_t *v)
{
    int64_t x = 0;
    const bt_err e = read_int(&x, p, name, v, 1, BT_MSG_MAX_PROMPT_TOKENS);
    if (e < 0) return e;
    *(strcmp(name, "max_tokens") == 0 ? &p->r.max_tokens : &p->max_completion_tokens) = (uint32_t)x;
    return BT_OK;
}

static bt_err field_temperature(reader *p, const char *name, json_t *v)
{
    return read_float(&p->r.sampling.temperature, p, name, v, 0, 2);
}
static bt_err field_top_p(reader *p, const char *name, json_t *v)
{
    return read_float(&p->r.sampling.top_p, p, name, v, 0, 1);
}
static bt_err field_min_p(reader *p, const char *name, json_t *v)
{
    return read_float(&p->r.sampling.min_p, p, name, v, 0, 1);
}
static bt_err field_stream(reader *p, const char *name, json_t *v)
{
    return read_bool(&p->r.is_stream, p, name, v);
}

static bt_err field_top_k(reader *p, const char *name, json_t *v)
{
    int64_t x = 0;
    const bt_err e = read_int(&x, p, name, v, -1, INT32_MAX); /* -1 is how vLLM says "off" */
    if (e < 0) return e;
    p->r.sampling.top_k = x < 0 ? 0 : (uint32_t)x;
    return BT_OK;
}

static bt_err field_seed(reader *p, const char *name, json_t *v)
{
    int64_t x = 0;
    const bt_err e = read_int(&x, p, name, v, INT64_MIN, INT64_MAX);
    if (e < 0) return e;
    p->r.sampling.seed = (uint64_t)x;
    p->r.has_seed = true;
    return BT_OK;
}

static bt_err field_presence(reader *p, const char *name, json_t *v)
{
    return read_float(&p->r.sampling.presence_penalty, p, name, v, -2, 2);
}
static bt_err field_frequency(reader *p, const char *name, json_t *v)
{
    return read_float(&p->r.sampling.frequency_penalty, p, name, v, -2, 2);
}
static bt_err field_repetition(reader *p, const char *name, json_t *v)
{
    return read_float(&p->r.sampling.repetition_penalty, p, name, v, 0.01, 100);
}

static int by_id(const void *a, const void *b)
{
    const int32_t x = ((const bt_sample_bias *)a)->id, y = ((const bt_sample_bias *)b)->id;
    return (x > y) - (x < y);
}

/* A decimal id below the vocabulary's size, without a sign or leading zeros, so that no two keys name one
 * id. */
static bool read_id_key(int32_t *ret, const char *key, uint32_t vocab)
{
    uint64_t id = 0;
    if (!*key || (key[0] == '0' && key[1])) return false;
    for (const char *c = key; *c; c++) {
        if (*c < '0' || *c > '9' || (id = id * 10 + (uint64_t)(*c - '0')) >= vocab) return false;
    }
    *ret = (int32_t)id;
    return true;
}

static bt_err field_logit_bias(reader *p, const char *name, json_t *v)
{
    if (!json_is_object(v)) return wrong_type(p, name, "an object of token ids", v);
    const size_t n = json_object_size(v);
    if (n > BT_SAMPLE_MAX_BIAS)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': %zu entries; at most %d are allowed.", name, n,
                              BT_SAMPLE_MAX_BIAS);
    if (n == 0) return BT_OK;
    if (!(p->r.bias = malloc(n * sizeof *p->r.bias))) return no_memory(p);
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item) {
        bt_sample_bias *to = &p->r.bias[p->r.sampling.bias_len];
        if (!read_id_key(&to->id, key, p->limits->vocab))
            return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                                  "Invalid key in '%s': '%.32s' is not a token id from 0 to %u.", name, key,
                                  p->limits->vocab - 1);
        const bt_err e = read_float(&to->bias, p, name, item, -100, 100);
        if (e < 0) return e;
        p->r.sampling.bias_len++;
    }
    qsort(p->r.bias, n, sizeof *p->r.bias, by_id);
    p->r.sampling.bias = p->r.bias;
    return BT_OK;
}

/* A chat says true or false and, beside it, how many of the likeliest; a completion says how many. */
static bt_err field_logprobs(reader *p, const char *name, json_t *v)
{
    int64_t x = 0;
    if (p->r.is_chat || json_is_false(v)) return read_bool(&p->r.sampling.logprobs, p, name, v);
    const bt_err e = read_int(&x, p, name, v, 0, BT_SAMPLE_MAX_TOP);
    if (e < 0) return e;
    p->r.sampling.logprobs = true;
    p->r.sampling.top_logprobs = (uint32_t)x;
    return BT_OK;
}

static bt_err field_top_logprobs(reader *p, const char *name, json_t *v)
{
    int64_t x = 0;
    const bt_err e = read_int(&x, p, name, v, 0, BT_SAMPLE_MAX_TOP);
    if (e == BT_OK) p->r.sampling.top_logprobs = (uint32_t)x;
    return e;
}

static bt_err field_stop_ids(reader *p, const char *name, json_t *v)
{
    if (!json_is_array(v)) return wrong_type(p, name, "an array of token ids", v);
    if (json_array_size(v) > p->limits->stop_ids_max)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': %zu ids; at most %u are allowed beside the model's own.", name,
                              json_array_size(v), p->limits->stop_ids_max);
    for (size_t i = 0; i < json_array_size(v); i++) {
        int64_t id = 0;
        const bt_err e = read_int(&id, p, name, json_array_get(v, i), 0, (int64_t)p->limits->vocab - 1);
        if (e < 0) return e;
        p->r.stop_ids[p->r.stop_ids_len++] = (int32_t)id;
    }
    return BT_OK;
}

static bt_err field_stream_options(reader *p, const char *name, json_t *v)
{
    if (!json_is_object(v)) return wrong_type(p, name, "an object", v);
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item) {
        bool on = false;
        if (json_is_null(item)) continue;
        if (strcmp(key, "include_usage") != 0 && strcmp(key, "include_obfuscation") != 0)
            return gw_openai_fail(p->err, 400, BAD, "unknown_parameter", name,
                                  "Unrecognized request argument supplied: %s.%s", name, key);
        const bt_err e = read_bool(&on, p, key, item);
        if (e < 0) return e;
        if (strcmp(key, "include_usage") == 0) p->r.has_usage_chunk = on;
    }
    return BT_OK;
}

static bt_err read_policy(reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return wrong_type(p, name, "a string", v);
    for (int i = 0; gw_options_policies[i]; i++) {
        if (strcmp(gw_options_policies[i], json_string_value(v)) != 0) continue;
        p->r.policy = i + 1;
        return BT_OK;
    }
    return gw_openai_fail(
        p->err, 400, BAD, "invalid_value", name,
        "Invalid value for '%s': '%.64s'; supported are 'least-load', 'prefix', 'round-robin'.", name,
        json_string_value(v));
}

/* As HELLO carries it: 1 to 64 bytes of 0x21..0x7e. */
static bt_err read_node_id(char ret[BT_MSG_MAX_ID_BYTES + 1], reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return wrong_type(p, name, "a string", v);
    const char *id = json_string_value(v);
    const size_t len = json_string_length(v);
    size_t good = 0;
    while (good < len && id[good] > ' ' && id[good] <= '~') good++;
    if (len == 0 || len > BT_MSG_MAX_ID_BYTES || good < len)
        return gw_openai_fail(
            p->err, 400, BAD, "invalid_value", name,
            "Invalid '%s': a node's id has 1 to %d printable ASCII characters without spaces.", name,
            BT_MSG_MAX_ID_BYTES);
    memcpy(ret, id, len + 1);
    return BT_OK;
}

/* true: report how it went. An object: that, and which nodes are wished for. */
static bt_err field_baton(reader *p, const char *name, json_t *v)
{
    if (!json_is_object(v))
        return json_is_boolean(v) ? read_bool(&p->r.is_baton, p, name, v)
                                  : wrong_type(p, name, "true, false or an object", v);
    const char *key;
    json_t *item;
    p->r.is_baton = true;
    json_object_foreach(v, key, item) {
        bt_err e = BT_OK;
        if (json_is_null(item)) continue;
        if (strcmp(key, "policy") == 0) e = read_policy(p, "baton.policy", item);
        else if (strcmp(key, "prefill") == 0) e = read_node_id(p->r.prefer_prefill, p, "baton.prefill", item);
        else if (strcmp(key, "decode") == 0) e = read_node_id(p->r.prefer_decode, p, "baton.decode", item);
        else
            e = gw_openai_fail(p->err, 400, BAD, "unknown_parameter", name,
                               "Unrecognized request argument supplied: %s.%.64s", name, key);
        if (e < 0) return e;
    }
    return BT_OK;
}

static bt_err add_stop(reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return wrong_type(p, name, "a string or an array of strings", v);
    const size_t len = json_string_length(v);
    if (len == 0 || len > GW_OPENAI_MAX_STOP_BYTES)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': a string of %zu bytes; 1 to %d are allowed.", name, len,
                              GW_OPENAI_MAX_STOP_BYTES);
    p->r.stop[p->r.stops] = json_string_value(v);
    p->r.stop_len[p->r.stops++] = len;
    return BT_OK;
}

static bt_err field_stop(reader *p, const char *name, json_t *v)
{
    if (!json_is_array(v)) return add_stop(p, name, v);
    if (json_array_size(v) > GW_OPENAI_MAX_STOPS)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': %zu strings; at most %d are allowed.", name, json_array_size(v),
                              GW_OPENAI_MAX_STOPS);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const bt_err e = add_stop(p, name, json_array_get(v, i));
        if (e < 0) return e;
    }
    return BT_OK;
}

/* ---- messages ----------------------------------------------------------------------------------- */

/* An array of text parts becomes one string, which replaces it in the tree and so lives as long. */
static bt_err join_parts(reader *p, json_t *message, json_t *parts, const char *where)
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
        if (!bt_add_size(&total, total, json_string_length(text))) return no_memory(p);
    }
    char *joined = malloc(total + 1);
    if (!joined) return no_memory(p);
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    json_t *s = json_stringn_nocheck(joined, total); /* parts are UTF-8, so their sum is */
    free(joined);
    return !s || json_object_set_new(message, "content", s) < 0 ? no_memory(p) : BT_OK;
}

static bt_err check_message_keys(reader *p, const json_t *message, const char *where)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)message, key, v) {
        if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0 || json_is_null(v)) continue;
        if (strcmp(key, "name") == 0) {
            if (!json_is_string(v)) return wrong_type(p, key, "a string", v);
            continue;
        }
        /* What an assistant's message from another server may carry, empty. */
        if (strcmp(key, "tool_calls") == 0 || strcmp(key, "annotations") == 0) {
            if (json_is_array(v) && json_array_size(v) == 0) continue;
            return not_supported(p, key, "");
        }
        if (strcmp(key, "refusal") == 0 || strcmp(key, "audio") == 0 || strcmp(key, "function_call") == 0 ||
            strcmp(key, "tool_call_id") == 0)
            return not_supported(p, key, "");
        return gw_openai_fail(p->err, 400, BAD, "unknown_parameter", where,
                              "Unrecognized request argument supplied: %s.%s", where, key);
    }
    return BT_OK;
}

static bt_err read_message(reader *p, bt_chat_message *ret, json_t *m, size_t index)
{
    char where[48];
    (void)snprintf(where, sizeof where, "messages[%zu]", index);
    if (!json_is_object(m)) return wrong_type(p, where, "an object", m);
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
    if (!json_is_string(content)) return wrong_type(p, where, "a string or an array of text parts", content);
    *ret = (bt_chat_message){role, json_string_value(content), json_string_length(content)};
    return BT_OK;
}

static bt_err field_messages(reader *p, const char *name, json_t *v)
{
    if (!json_is_array(v)) return wrong_type(p, name, "an array", v);
    const size_t n = json_array_size(v);
    if (n == 0 || n > BT_CHAT_MAX_MESSAGES)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': %zu messages; 1 to %d are allowed.", name, n,
                              BT_CHAT_MAX_MESSAGES);
    if (!(p->r.message = calloc(n, sizeof *p->r.message))) return no_memory(p);
    p->r.messages = n;
    for (size_t i = 0; i < n; i++) {
        const bt_err e = read_message(p, &p->r.message[i], json_array_get(v, i), i);
        if (e < 0) return e;
    }
    return BT_OK;
}

/* ---- prompt ------------------------------------------------------------------------------------- */

static bt_err read_ids(reader *p, const char *name, const json_t *v)
{
    const size_t n = json_array_size(v);
    if (n > BT_MSG_MAX_PROMPT_TOKENS)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name,
                              "Invalid '%s': %zu tokens; at most %d are allowed.", name, n,
                              BT_MSG_MAX_PROMPT_TOKENS);
    if (!(p->r.prompt_ids = malloc(n * sizeof *p->r.prompt_ids))) return no_memory(p);
    p->r.prompt_ids_len = n;
    for (size_t i = 0; i < n; i++) {
        int64_t id = 0;
        const bt_err e = read_int(&id, p, name, json_array_get(v, i), 0, (int64_t)p->limits->vocab - 1);
        if (e < 0) return e;
        p->r.prompt_ids[i] = (int32_t)id;
    }
    return BT_OK;
}

static bt_err field_prompt(reader *p, const char *name, json_t *v)
{
    /* A list of one prompt is that prompt; a list of several would be several requests. */
    if (json_is_array(v) && json_array_size(v) > 0 && !json_is_integer(json_array_get(v, 0))) {
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
    if (!json_is_array(v)) return wrong_type(p, name, "a string or a list of token ids", v);
    if (json_array_size(v) == 0)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", name, "Invalid '%s': the list is empty.",
                              name);
    return read_ids(p, name, v);
}

/* ---- fields not in use -------------------------------------------------------------------------- */

static bt_err ignore(reader *p, const char *name, json_t *v)
{
    (void)p;
    (void)name;
    (void)v;
    return BT_OK;
}
static bt_err refuse(reader *p, const char *name, json_t *v)
{
    (void)v;
    return not_supported(p, name, "");
}

static bt_err refuse_not_empty(reader *p, const char *name, json_t *v)
{
    const bool is_empty = json_is_array(v)    ? json_array_size(v) == 0
                          : json_is_object(v) ? json_object_size(v) == 0
                                              : json_is_string(v) && json_string_length(v) == 0;
    return is_empty ? BT_OK : not_supported(p, name, "an empty one");
}
static bt_err refuse_not_false(reader *p, const char *name, json_t *v)
{
    return json_is_false(v) ? BT_OK : not_supported(p, name, "false");
}
static bt_err refuse_not_none(reader *p, const char *name, json_t *v)
{
    const char *s = json_string_value(v);
    return s && strcmp(s, "none") == 0 ? BT_OK : not_supported(p, name, "\"none\"");
}
static bt_err refuse_not_one(reader *p, const char *name, json_t *v)
{
    if (!json_is_integer(v)) return wrong_type(p, name, "an integer", v);
    return json_integer_value(v) == 1 ? BT_OK : not_supported(p, name, "1");
}
static bt_err refuse_not_text(reader *p, const char *name, json_t *v)
{
    const char *s =
        json_string_value(json_is_array(v) && json_array_size(v) == 1 ? json_array_get(v, 0)
                                                                      : json_object_get(v, "type"));
    return s && strcmp(s, "text") == 0 ? BT_OK : not_supported(p, name, "type text");
}

enum { CHAT = 1, TEXT = 2, BOTH = 3 };
static const struct {
    const char *name;
    unsigned where;
    read_fn *read;
} fields[] = {
    {"model", BOTH, field_model},
    {"messages", CHAT, field_messages},
    {"prompt", TEXT, field_prompt},
    {"max_tokens", BOTH, field_max_tokens},
    {"max_completion_tokens", BOTH, field_max_tokens},
    {"temperature", BOTH, field_temperature},
    {"top_p", BOTH, field_top_p},
    {"top_k", BOTH, field_top_k},
    {"min_p", BOTH, field_min_p},
    {"seed", BOTH, field_seed},
    {"presence_penalty", BOTH, field_presence},
    {"frequency_penalty", BOTH, field_frequency},
    {"repetition_penalty", BOTH, field_repetition},
    {"logit_bias", BOTH, field_logit_bias},
    {"logprobs", BOTH, field_logprobs},
    {"top_logprobs", CHAT, field_top_logprobs},
    {"stop", BOTH, field_stop},
    {"stop_token_ids", BOTH, field_stop_ids},
    {"stream", BOTH, field_stream},
    {"stream_options", BOTH, field_stream_options},
    {"baton", BOTH, field_baton},
    /* harmless: what they ask for is given anyway, or is nobody's business but the client's */
    {"user", BOTH, ignore},
    {"metadata", BOTH, ignore},
    {"store", BOTH, ignore},
    {"service_tier", BOTH, ignore},
    {"parallel_tool_calls", BOTH, ignore},
    {"prompt_cache_key", BOTH, ignore},
    {"prompt_cache_retention", BOTH, ignore},
    {"safety_identifier", BOTH, ignore},
    /* not supported: refused when they ask for something */
    {"n", BOTH, refuse_not_one},
    {"best_of", BOTH, refuse_not_one},
    {"echo", TEXT, refuse_not_false},
    {"suffix", TEXT, refuse_not_empty},
    {"tools", CHAT, refuse_not_empty},
    {"tool_choice", CHAT, refuse_not_none},
    {"functions", CHAT, refuse_not_empty},
    {"function_call", CHAT, refuse_not_none},
    {"response_format", BOTH, refuse_not_text},
    {"modalities", CHAT, refuse_not_text},
    {"audio", CHAT, refuse},
    {"prediction", CHAT, refuse},
    {"reasoning_effort", CHAT, refuse_not_none},
    {"verbosity", CHAT, refuse},
    {"web_search_options", CHAT, refuse},
};

static bt_err read_fields(reader *p, json_t *root)
{
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        size_t i = 0;
        const unsigned here = p->r.is_chat ? CHAT : TEXT;
        while (i < sizeof fields / sizeof *fields &&
               !((fields[i].where & here) && strcmp(fields[i].name, key) == 0))
            i++;
        if (i == sizeof fields / sizeof *fields)
            return gw_openai_fail(p->err, 400, BAD, "unknown_parameter", key,
                                  "Unrecognized request argument supplied: %s", key);
        const bt_err e = json_is_null(v) ? BT_OK : fields[i].read(p, key, v);
        if (e < 0) return e;
    }
    const char *missing = p->r.is_chat                     ? p->r.messages ? NULL : "messages"
                          : p->r.prompt || p->r.prompt_ids ? NULL
                                                           : "prompt";
    if (missing)
        return gw_openai_fail(p->err, 400, BAD, "missing_required_parameter", missing,
                              "Missing required parameter: '%s'.", missing);
    if (p->max_completion_tokens) {
        if (p->r.max_tokens && p->r.max_tokens != p->max_completion_tokens)
            return gw_openai_fail(p->err, 400, BAD, "invalid_value", "max_completion_tokens",
                                  "'max_tokens' is %u and 'max_completion_tokens' is %u: give one of them.",
                                  p->r.max_tokens, p->max_completion_tokens);
        p->r.max_tokens = p->max_completion_tokens;
    }
    if (p->r.sampling.top_logprobs && !p->r.sampling.logprobs)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", "top_logprobs",
                              "'top_logprobs' is %u, which is only allowed when 'logprobs' is true.",
                              p->r.sampling.top_logprobs);
    if (p->r.has_usage_chunk && !p->r.is_stream)
        return gw_openai_fail(p->err, 400, BAD, "invalid_value", "stream_options",
                              "'stream_options' is only allowed when 'stream' is true.");
    return BT_OK;
}

bt_err gw_openai_parse(gw_openai_request *ret, gw_openai_error *err, bool is_chat, const char *body,
                       size_t len, const gw_openai_limits *limits)
{
    reader p = {.err = err, .limits = limits};
    p.r.is_chat = is_chat;
    p.r.sampling = (bt_sampling){.temperature = 1, .top_p = 1};
    json_error_t je;
    size_t bad;
    if (!bt_utf8_valid(body, len, &bad))
        return gw_openai_fail(err, 400, BAD, "invalid_json", NULL, "The body is not valid UTF-8 at byte %zu.",
                              bad);
    /* jansson bounds the depth of nesting at 2048 itself, and refuses NUL characters. */
    p.r.root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &je);
    if (!p.r.root) {
        if (json_error_code(&je) == json_error_out_of_memory) return no_memory(&p);
        return gw_openai_fail(err, 400, BAD, "invalid_json", NULL,
                              "The body is not valid JSON: line %d, column %d (byte %d): %s", je.line,
                              je.column, je.position, je.text);
    }
    bt_err e = json_is_object(p.r.root)
                   ? read_fields(&p, p.r.root)
                   : gw_openai_fail(err, 400, BAD, "invalid_json", NULL, "The body must be a JSON object.");
    if (e < 0) {
        gw_openai_request_done(&p.r);
        return e;
    }
    *ret = p.r;
    return BT_OK;
}

void gw_openai_request_done(gw_openai_request *r)
{
    free(r->message);
    free(r->prompt_ids);
    free(r->bias);
    json_decref(r->root);
    *r = (gw_openai_request){0};
}

bt_err gw_openai_max_tokens(uint32_t *ret, gw_openai_error *err, const gw_openai_request *r,
                            size_t prompt_tokens, uint32_t ctx_tokens)
{
    const char *param = r->is_chat ? "messages" : "prompt";
    if (prompt_tokens >= ctx_tokens)
        return gw_openai_fail(
            err, 400, BAD, "context_length_exceeded", param,
            "The context is %u tokens long, but the prompt has %zu and needs room for one more.", ctx_tokens,
            prompt_tokens);
    const uint32_t room = ctx_tokens - (uint32_t)prompt_tokens;
    if (r->max_tokens > room)
        return gw_openai_fail(err, 400, BAD, "context_length_exceeded", param,
                              "The context is %u tokens long, but the prompt has %zu and max_tokens asks for "
                              "%u more (%zu in all).",
                              ctx_tokens, prompt_tokens, r->max_tokens, prompt_tokens + r->max_tokens);
    uint32_t n = r->max_tokens;
    if (n == 0)
        n = !r->is_chat && room > GW_OPENAI_DEFAULT_COMPLETION_TOKENS ? GW_OPENAI_DEFAULT_COMPLETION_TOKENS
                                                                      : room;
    *ret = n;
    return BT_OK;
}
