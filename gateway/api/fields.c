/* The fields of a request: one table for fields that are read, accepted unread, or refused. */
#include "gateway/api/fields.h"
#include "base/opt.h"
#include "gateway/api/messages.h"
#include "gateway/api/structure.h"
#include "gateway/options.h"

#include <stdlib.h>
#include <string.h>

/* ---- single values ------------------------------------------------------------------------------ */

bt_err gw_field_number(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_read_float((float *)(void *)((char *)&p->r.sampling + f->at), p, f->name, v, f->lo, f->hi);
}

bt_err gw_field_any(gw_reader *p, const gw_field *f, json_t *v)
{
    (void)p;
    (void)f;
    (void)v;
    return BT_OK;
}

static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return !(json_number_value(a) < json_number_value(b) || json_number_value(a) > json_number_value(b));
    return json_equal(a, b) == 1;
}

/* Accepts only values that ask for what is done anyway. */
bt_err gw_field_only(gw_reader *p, const gw_field *f, json_t *v)
{
    json_t *list = json_loads(f->json, 0, NULL);
    if (!list) return gw_read_no_memory(p);
    bool is_taken = false;
    for (size_t i = 0; i < json_array_size(list); i++) is_taken |= is_same(json_array_get(list, i), v);
    char allowed[128];
    const size_t len = strlen(f->json) - 2; /* without the brackets */
    memcpy(allowed, f->json + 1, len < sizeof allowed ? len : sizeof allowed - 1);
    allowed[len < sizeof allowed ? len : sizeof allowed - 1] = 0;
    json_decref(list);
    return is_taken ? BT_OK : gw_read_unsupported(p, f->name, allowed);
}

/* llama.cpp's clients send -1 for no limit; a number beyond any context means the same, however large. */
static bt_err field_max_tokens(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = BT_MSG_MAX_PROMPT_TOKENS;
    const bool is_beyond = json_is_real(v) && json_real_value(v) >= 0x1p63;
    const bt_err e = is_beyond ? BT_OK : gw_read_int(&x, p, f->name, v, -1, INT64_MAX);
    if (e < 0 || x == -1) return e;
    if (x == 0)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid value for '%s': 0 is neither -1 nor at least 1.", f->name);
    const uint32_t n = x > BT_MSG_MAX_PROMPT_TOKENS ? BT_MSG_MAX_PROMPT_TOKENS : (uint32_t)x;
    if (p->r.max_tokens && p->r.max_tokens != n)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "'%s' is %u, but another limit of the answer says %u: give one of them.", f->name,
                            n, p->r.max_tokens);
    p->r.max_tokens = n;
    return BT_OK;
}

static bt_err field_stream(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_read_bool(&p->r.is_stream, p, f->name, v);
}

static bt_err field_ignore_eos(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_read_bool(&p->r.ignores_eos, p, f->name, v);
}

/* As llama.cpp's clients say where thoughts go. */
static bt_err field_reasoning_format(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *format = json_string_value(v);
    if (!format) return gw_read_wrong_type(p, f->name, "a string", v);
    p->r.keeps_thoughts = strcmp(format, "none") == 0;
    if (p->r.keeps_thoughts || strcmp(format, "auto") == 0 || strcmp(format, "deepseek") == 0) return BT_OK;
    return gw_error_say(p->err, 400, "invalid_value", f->name,
                        "Invalid value for '%s': '%.64s'; supported are 'auto', 'deepseek', 'none'.", f->name,
                        format);
}

static bt_err field_parse_special(gw_reader *p, const gw_field *f, json_t *v)
{
    bool on = true;
    const bt_err e = gw_read_bool(&on, p, f->name, v);
    p->r.is_plain = !on;
    return e;
}

static bt_err field_top_k(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = 0;
    const bt_err e = gw_read_int(&x, p, f->name, v, (int64_t)f->lo, (int64_t)f->hi);
    if (e < 0) return e;
    p->r.sampling.top_k = x < 0 ? 0 : (uint32_t)x; /* -1 is how vLLM says "off" */
    return BT_OK;
}

static bt_err field_priority(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = 0;
    const bt_err e = gw_read_int(&x, p, f->name, v, (int64_t)f->lo, (int64_t)f->hi);
    if (e < 0) return e;
    p->r.priority = (int32_t)x;
    return BT_OK;
}

static bt_err field_seed(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = 0;
    const double real = json_is_real(v) ? json_real_value(v) : 0;
    const bool is_unsigned = real >= 0x1p63 && real < 0x1p64;
    if (!is_unsigned && (real >= 0x1p63 || real < -0x1p63))
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid value for '%s': %.16g is not in the range -9223372036854775808 to "
                            "18446744073709551615.",
                            f->name, real);
    const bt_err e = is_unsigned ? BT_OK : gw_read_int(&x, p, f->name, v, INT64_MIN, INT64_MAX);
    if (e < 0) return e;
    p->r.sampling.seed = is_unsigned ? (uint64_t)real : (uint64_t)x;
    p->r.has_seed = true;
    return BT_OK;
}

static bt_err field_model(gw_reader *p, const gw_field *f, json_t *v) { return gw_read_model(p, f->name, v); }

/* ---- log probabilities, bias, stops ------------------------------------------------------------- */

/* A chat says true or false and, beside it, how many of the likeliest; a completion says how many. */
static bt_err field_logprobs(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_read_bool(&p->r.sampling.logprobs, p, f->name, v);
}

static bt_err field_top_logprobs(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = 0;
    const bt_err e = gw_read_int(&x, p, f->name, v, (int64_t)f->lo, (int64_t)f->hi);
    if (e == BT_OK) p->r.sampling.top_logprobs = (uint32_t)x;
    return e;
}

static bt_err field_logprobs_count(gw_reader *p, const gw_field *f, json_t *v)
{
    if (json_is_false(v)) return BT_OK;
    const bt_err e = field_top_logprobs(p, f, v);
    if (e == BT_OK) p->r.sampling.logprobs = true;
    return e;
}

/* How llama.cpp's clients ask for log probabilities; 0 asks for none. */
static bt_err field_n_probs(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = 0;
    const bt_err e = gw_read_int(&x, p, f->name, v, (int64_t)f->lo, (int64_t)f->hi);
    if (e < 0 || x == 0) return e;
    p->r.sampling.logprobs = true;
    p->r.sampling.top_logprobs = (uint32_t)x;
    return BT_OK;
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

static bt_err field_logit_bias(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *name = f->name;
    if (!json_is_object(v)) return gw_read_wrong_type(p, name, "an object of token ids", v);
    const size_t n = json_object_size(v);
    if (n > BT_SAMPLE_MAX_BIAS)
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid '%s': %zu entries; at most %d are allowed.", name, n,
                            BT_SAMPLE_MAX_BIAS);
    if (n == 0) return BT_OK;
    if (!(p->r.bias = malloc(n * sizeof *p->r.bias))) return gw_read_no_memory(p);
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item) {
        bt_sample_bias *to = &p->r.bias[p->r.sampling.bias_len];
        if (!read_id_key(&to->id, key, p->limits->vocab))
            return gw_error_say(p->err, 400, "invalid_value", name,
                                "Invalid key in '%s': '%.32s' is not a token id from 0 to %u.", name, key,
                                p->limits->vocab - 1);
        const bt_err e = gw_read_float(&to->bias, p, name, item, -100, 100);
        if (e < 0) return e;
        p->r.sampling.bias_len++;
    }
    qsort(p->r.bias, n, sizeof *p->r.bias, by_id);
    p->r.sampling.bias = p->r.bias;
    return BT_OK;
}

static bt_err field_stop_ids(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *name = f->name;
    if (!json_is_array(v)) return gw_read_wrong_type(p, name, "an array of token ids", v);
    if (json_array_size(v) > p->limits->stop_ids_max)
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid '%s': %zu ids; at most %u are allowed beside the model's own.", name,
                            json_array_size(v), p->limits->stop_ids_max);
    for (size_t i = 0; i < json_array_size(v); i++) {
        int64_t id = 0;
        const bt_err e = gw_read_int(&id, p, name, json_array_get(v, i), 0, (int64_t)p->limits->vocab - 1);
        if (e < 0) return e;
        p->r.stop_ids[p->r.stop_ids_len++] = (int32_t)id;
    }
    return BT_OK;
}

static bt_err field_stream_options(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *name = f->name;
    if (!json_is_object(v)) return gw_read_wrong_type(p, name, "an object", v);
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item) {
        bool on = false;
        if (json_is_null(item)) continue;
        if (strcmp(key, "include_usage") != 0 && strcmp(key, "include_obfuscation") != 0)
            return gw_error_say(p->err, 400, "unknown_parameter", name,
                                "Unrecognized request argument supplied: %s.%s", name, key);
        const bt_err e = gw_read_bool(&on, p, key, item);
        if (e < 0) return e;
        if (strcmp(key, "include_usage") == 0) p->r.has_usage_chunk = on;
    }
    return BT_OK;
}

static bt_err read_policy(gw_reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, name, "a string", v);
    for (int i = 0; gw_options_policies[i]; i++) {
        if (strcmp(gw_options_policies[i], json_string_value(v)) != 0) continue;
        p->r.policy = i + 1;
        return BT_OK;
    }
    return gw_error_say(
        p->err, 400, "invalid_value", name,
        "Invalid value for '%s': '%.64s'; supported are 'least-load', 'prefix', 'round-robin'.", name,
        json_string_value(v));
}

/* As HELLO carries it: 1 to 64 bytes of 0x21..0x7e. */
static bt_err read_node_id(char ret[BT_MSG_MAX_ID_BYTES + 1], gw_reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, name, "a string", v);
    const char *id = json_string_value(v);
    const size_t len = json_string_length(v);
    size_t good = 0;
    while (good < len && id[good] > ' ' && id[good] <= '~') good++;
    if (len == 0 || len > BT_MSG_MAX_ID_BYTES || good < len)
        return gw_error_say(
            p->err, 400, "invalid_value", name,
            "Invalid '%s': a node's id has 1 to %d printable ASCII characters without spaces.", name,
            BT_MSG_MAX_ID_BYTES);
    memcpy(ret, id, len + 1);
    return BT_OK;
}

/* true: adds the report. An object: adds it, and has wishes for nodes. */
static bt_err field_baton(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *name = f->name;
    if (!json_is_object(v))
        return json_is_boolean(v) ? gw_read_bool(&p->r.is_baton, p, name, v)
                                  : gw_read_wrong_type(p, name, "true, false or an object", v);
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
            e = gw_error_say(p->err, 400, "unknown_parameter", name,
                             "Unrecognized request argument supplied: %s.%.64s", name, key);
        if (e < 0) return e;
    }
    return BT_OK;
}

static bt_err add_stop(gw_reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, name, "a string or an array of strings", v);
    const size_t len = json_string_length(v);
    if (len == 0 || len > GW_ASK_MAX_STOP_BYTES)
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid '%s': a string of %zu bytes; 1 to %d are allowed.", name, len,
                            GW_ASK_MAX_STOP_BYTES);
    p->r.stop[p->r.stops] = json_string_value(v);
    p->r.stop_len[p->r.stops++] = len;
    return BT_OK;
}

bt_err gw_field_max_answer(gw_reader *p, const gw_field *f, json_t *v)
{
    int64_t x = 0;
    const bt_err e = gw_read_int(&x, p, f->name, v, 1, INT64_MAX);
    if (e == BT_OK) p->r.max_tokens = x < BT_MSG_MAX_PROMPT_TOKENS ? (uint32_t)x : BT_MSG_MAX_PROMPT_TOKENS;
    return e;
}

bt_err gw_field_stop(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *name = f->name;
    if (!json_is_array(v)) return add_stop(p, name, v);
    if (json_array_size(v) > GW_ASK_MAX_STOPS)
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid '%s': %zu strings; at most %d are allowed.", name, json_array_size(v),
                            GW_ASK_MAX_STOPS);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const bt_err e = add_stop(p, name, json_array_get(v, i));
        if (e < 0) return e;
    }
    return BT_OK;
}

static bt_err field_cache_salt(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, f->name, "a string", v);
    const size_t len = json_string_length(v);
    if (len == 0 || len > GW_ASK_MAX_CACHE_SALT_BYTES)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid '%s': a string of %zu bytes; 1 to %d are allowed.", f->name, len,
                            GW_ASK_MAX_CACHE_SALT_BYTES);
    memcpy(p->r.cache_salt, json_string_value(v), len + 1);
    return BT_OK;
}

static bt_err field_messages(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_messages_chat(p, f->name, v);
}
static bt_err field_tools(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_messages_objects(&p->r.talk.tools, p, f->name, v);
}
static bt_err field_documents(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_messages_objects(&p->r.talk.documents, p, f->name, v);
}
static bt_err field_template_kwargs(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_messages_kwargs(p, f->name, v);
}
static bt_err field_generation_prompt(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_read_bool(&p->r.talk.add_generation_prompt, p, f->name, v);
}
static bt_err field_reasoning_effort(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, f->name, "a string", v);
    p->effort = v;
    return BT_OK;
}
static bt_err field_tool_choice(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *choice = json_string_value(v);
    if (!choice && !json_is_object(v)) return gw_read_wrong_type(p, f->name, "a string or an object", v);
    p->r.has_no_calls = choice && strcmp(choice, "none") == 0;
    if (p->r.has_no_calls || (choice && strcmp(choice, "auto") == 0)) return BT_OK;
    const json_t *type = json_object_get(v, "type");
    const char *type_name = json_string_value(type);
    if (!type || (type_name && strcmp(type_name, "function") == 0))
        p->r.call = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    p->r.must_call = p->r.call || (choice && strcmp(choice, "required") == 0);
    if (p->r.must_call) return BT_OK;
    return gw_error_say(
        p->err, 400, "invalid_value", f->name,
        "Invalid '%s': expected 'auto', 'none', 'required' or {\"type\": \"function\", \"function\": "
        "{\"name\": ...}}.",
        f->name);
}
static bt_err field_parallel_calls(gw_reader *p, const gw_field *f, json_t *v)
{
    bool is_on = true;
    const bt_err e = gw_read_bool(&is_on, p, f->name, v);
    p->r.is_single_call = !is_on;
    return e;
}
static bt_err field_prompt(gw_reader *p, const gw_field *f, json_t *v)
{
    return gw_messages_prompt(p, f->name, v);
}

/* ---- the table ---------------------------------------------------------------------------------- */

#define CHAT      GW_FIELD_CHAT
#define TEXT      (GW_FIELD_TEXT | GW_FIELD_LLAMA)
#define BOTH      (CHAT | TEXT)
#define MESSAGES  GW_FIELD_MESSAGES
#define OLLAMA    (GW_FIELD_OLLAMA_CHAT | GW_FIELD_OLLAMA_TEXT)
#define OPTIONS   GW_FIELD_OLLAMA_OPTIONS
#define RESPONSES GW_FIELD_RESPONSES

static const char no_cache[] =
    "Taken and not looked at: prefixes of prompts are always kept and found; see cache_salt",
                  no_reasoning[] = "Taken and not looked at: the model decides",
                  of_client[] = "Taken and not looked at: the client's own business",
                  with_neutral[] = "Taken and not looked at: it means nothing beside the value that is taken";

// clang-format off
static const char messages_schema[] =
    "{\"type\":\"array\",\"minItems\":1,\"maxItems\":4096,\"items\":{\"$ref\":\"#/components/schemas/Message\"}}";
static const char tool_choice_schema[] =
    "{\"anyOf\":[{\"enum\":[\"auto\",\"none\",\"required\"]},{\"type\":\"object\",\"required\":[\"function\"],"
    "\"properties\":{\"type\":{\"const\":\"function\"},\"function\":{\"type\":\"object\",\"required\":[\"name\"],"
    "\"properties\":{\"name\":{\"type\":\"string\"}}}}}]}";
static const char objects_schema[] = "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}";
static const char prompt_schema[] =
    "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"minItems\":1,\"maxItems\":1048576,"
    "\"items\":{\"type\":\"integer\",\"minimum\":0}},"
    "{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,\"items\":{\"type\":\"string\"}}]}";
static const char tokens_schema[] =
    "{\"type\":\"integer\",\"anyOf\":[{\"const\":-1},{\"minimum\":1}]}";
static const char count_schema[] =
    "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":0,\"maximum\":20},{\"const\":false}]}";
static const char bias_schema[] =
    "{\"type\":\"object\",\"maxProperties\":300,\"propertyNames\":{\"pattern\":\"^(0|[1-9][0-9]*)$\"},"
    "\"additionalProperties\":{\"type\":\"number\",\"minimum\":-100,\"maximum\":100}}";
static const char schema_schema[] = "{\"type\":[\"object\",\"boolean\"]}";
static const char guided_json_schema[] = "{\"type\":[\"object\",\"boolean\",\"string\"]}";
static const char text_schema[] = "{\"type\":\"string\",\"maxLength\":65536}";
static const char choice_schema[] = "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\"}}";
static const char structured_outputs_schema[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
    "\"json\":{\"type\":[\"object\",\"boolean\",\"string\",\"null\"]},\"json_object\":{\"type\":[\"boolean\",\"null\"]},"
    "\"regex\":{\"type\":[\"string\",\"null\"]},\"grammar\":{\"type\":[\"string\",\"null\"]},"
    "\"choice\":{\"type\":[\"array\",\"null\"],\"minItems\":1,\"items\":{\"type\":\"string\"}}}}";
static const char response_format_schema[] =
    "{\"type\":\"object\",\"required\":[\"type\"],\"properties\":{"
    "\"type\":{\"enum\":[\"text\",\"json_object\",\"json_schema\"]},"
    "\"schema\":{\"type\":[\"object\",\"boolean\",\"null\"]},"
    "\"json_schema\":{\"type\":[\"object\",\"null\"],\"required\":[\"schema\"],\"properties\":{"
    "\"name\":{\"type\":[\"string\",\"null\"]},\"strict\":{\"type\":[\"boolean\",\"null\"]},"
    "\"schema\":{\"type\":[\"object\",\"boolean\"]}}}}}";
static const char stop_schema[] =
    "{\"anyOf\":[{\"type\":\"string\",\"minLength\":1,\"maxLength\":256},{\"type\":\"array\",\"maxItems\":16,"
    "\"items\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":256}}]}";
static const char cache_salt_schema[] = "{\"type\":\"string\",\"minLength\":1,\"maxLength\":256}";
static const char stop_ids_schema[] =
    "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}}";
static const char stream_options_schema[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
    "\"include_usage\":{\"type\":[\"boolean\",\"null\"]},\"include_obfuscation\":{\"type\":[\"boolean\",\"null\"]}}}";
static const char baton_schema[] =
    "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
    "\"policy\":{\"enum\":[null,\"least-load\",\"prefix\",\"round-robin\"]},"
    "\"prefill\":{\"type\":[\"string\",\"null\"],\"pattern\":\"^[!-~]{1,64}$\"},"
    "\"decode\":{\"type\":[\"string\",\"null\"],\"pattern\":\"^[!-~]{1,64}$\"}}}]}";

static const gw_field shared[] = {
    GW_OTHER("model", BOTH | MESSAGES | GW_FIELD_COUNT | RESPONSES, field_model, "{\"type\":\"string\"}",
             "A name of the model: an id or alias of /v1/models"),
    GW_REQUIRED("messages", CHAT, field_messages, messages_schema, "The conversation so far"),
    GW_REQUIRED("prompt", TEXT, field_prompt, prompt_schema, "A text, a list of token ids, or a list of one text"),
    GW_BOOLEAN("parse_special", TEXT, field_parse_special,
            "Names of control tokens in the text are the tokens (true, as without it) or letters"),
    GW_OTHER("reasoning_format", CHAT, field_reasoning_format, "{\"enum\":[\"auto\",\"deepseek\",\"none\"]}",
          "Thoughts between the model's marks are the message's reasoning_content (auto, as without it; deepseek) or "
          "stay in its content (none)"),
    GW_OTHER("tools", CHAT, field_tools, objects_schema,
          "What the chat template tells the model about tools; its calls of them are the answer's tool_calls"),
    GW_OTHER("tool_choice", CHAT, field_tool_choice, tool_choice_schema,
          "auto, as without it: calls are read from the answer; none: the answer is text; required, or a tool's name: "
          "the answer is calls, and their arguments follow the tools' schemas"),
    GW_BOOLEAN("parallel_tool_calls", CHAT, field_parallel_calls,
            "false: only the first call of an answer is given, and others are dropped"),
    GW_OTHER("documents", CHAT, field_documents, objects_schema,
             "What the chat template tells the model to answer from"),
    GW_OTHER("chat_template_kwargs", CHAT, field_template_kwargs, "{\"type\":\"object\",\"maxProperties\":64}",
          "Variables of the chat template, for example enable_thinking"),
    GW_OTHER("reasoning_effort", CHAT, field_reasoning_effort, "{\"type\":\"string\"}",
          "A variable of the chat template, unless chat_template_kwargs has it"),
    GW_HARMLESS("reasoning_effort", TEXT, no_reasoning),
    GW_BOOLEAN("add_generation_prompt", CHAT, field_generation_prompt,
            "The prompt ends with what opens an answer (true, as without it)"),
    GW_OTHER("max_tokens", BOTH, field_max_tokens, tokens_schema,
          "Tokens of the answer at most; what the context does not hold is cut; -1: as if it were not given"),
    GW_OTHER("max_completion_tokens", BOTH, field_max_tokens, tokens_schema, "The same as max_tokens"),
    GW_OTHER("n_predict", BOTH, field_max_tokens, tokens_schema, "The same as max_tokens"),
    GW_NUMBER("temperature", BOTH | MESSAGES | OPTIONS | RESPONSES, temperature, 0, 2,
              "0 is greedy; GET /props tells the default"),
    GW_NUMBER("top_p", BOTH | MESSAGES | OPTIONS | RESPONSES, top_p, 0, 1,
              "Sample from the likeliest tokens that together have this probability; 1: off"),
    GW_INTEGER("top_k", BOTH | MESSAGES | OPTIONS, field_top_k, -1, INT32_MAX,
               "Sample from so many of the likeliest tokens; 0 or -1: off"),
    GW_NUMBER("min_p", BOTH | OPTIONS, min_p, 0, 1,
              "Leave out tokens less likely than this times the likeliest; 0: off"),
    GW_INTEGER("seed", BOTH | OPTIONS | RESPONSES, field_seed, 0, 0,
               "Seed of the random draws, -2^63 to 2^64 - 1; without it one is drawn"),
    GW_NUMBER("presence_penalty", BOTH | OPTIONS, presence_penalty, -2, 2,
              "Off the logit of each token of the answer so far"),
    GW_NUMBER("frequency_penalty", BOTH | OPTIONS, frequency_penalty, -2, 2, "The same, times how often it came"),
    GW_NUMBER("repetition_penalty", BOTH, repetition_penalty, 0.01, 100,
           "Makes tokens of prompt and answer less likely (above 1) or more; 1: off"),
    GW_NUMBER("repeat_penalty", BOTH | OPTIONS, repetition_penalty, 0.01, 100, "The same as repetition_penalty"),
    GW_OTHER("logit_bias", BOTH, field_logit_bias, bias_schema, "Token ids, and what is added to the logit of each"),
    GW_BOOLEAN("logprobs", CHAT | OLLAMA, field_logprobs, "Tell the log probability of each token"),
    GW_INTEGER("top_logprobs", CHAT | OLLAMA | RESPONSES, field_top_logprobs, 0, BT_SAMPLE_MAX_TOP,
               "And of so many of the likeliest"),
    {"logprobs", GW_FIELD_TEXT, GW_FIELD_OTHER, field_logprobs_count, 0, BT_SAMPLE_MAX_TOP, count_schema, 0,
     "Tell the log probability of each token, and of so many of the likeliest", false},
    GW_INTEGER("n_probs", BOTH, field_n_probs, 0, BT_SAMPLE_MAX_TOP, "The same as logprobs with so many; 0: none"),
    GW_OTHER("stop", BOTH | OPTIONS, gw_field_stop, stop_schema,
             "The answer ends before this text, or the first of these"),
    GW_OTHER("stop_token_ids", BOTH, field_stop_ids, stop_ids_schema,
          "The answer ends with these ids too; 16 together with the model's own"),
    GW_BOOLEAN("ignore_eos", BOTH, field_ignore_eos,
            "The model's own ids that end an answer do not: it has max_tokens, or ends by stop and stop_token_ids"),
    GW_OTHER("response_format", BOTH, gw_structure_field, response_format_schema,
          "The answer is text, any JSON object, or JSON of a schema"),
    GW_OTHER("json_schema", BOTH, gw_structure_json, schema_schema, "The answer is JSON of this schema"),
    GW_OTHER("structured_outputs", BOTH, gw_structure_fields, structured_outputs_schema,
          "The answer is JSON of a schema, matches an expression, is one of some texts, or belongs to a grammar"),
    GW_OTHER("guided_json", BOTH, gw_structure_json, guided_json_schema, "The same as json_schema; text of JSON too"),
    GW_OTHER("guided_regex", BOTH, gw_structure_regex, text_schema,
             "The whole answer matches this regular expression"),
    GW_OTHER("guided_choice", BOTH, gw_structure_choice, choice_schema, "The answer is one of these texts"),
    GW_OTHER("guided_grammar", BOTH, gw_structure_grammar, text_schema, "The same as grammar"),
    GW_OTHER("grammar", BOTH, gw_structure_grammar, text_schema, "The answer belongs to this grammar, in GBNF"),
    GW_BOOLEAN("stream", BOTH | MESSAGES | OLLAMA | RESPONSES, field_stream, "Answer in pieces as they come"),
    GW_OTHER("stream_options", BOTH | RESPONSES, field_stream_options, stream_options_schema, "Only with stream"),
    GW_INTEGER("priority", BOTH | MESSAGES | OLLAMA | RESPONSES, field_priority, INT32_MIN, INT32_MAX,
            "Among waiting requests of one API key the lowest comes first; 0 without it"),
    GW_OTHER("cache_salt", BOTH | MESSAGES | OLLAMA | RESPONSES, field_cache_salt, cache_salt_schema,
          "The prompt shares kept prefixes with prompts of the same text alone; without it with those that have none"),
    GW_OTHER("baton", BOTH, field_baton, baton_schema, "Tell how it was computed, and wish for nodes"),

    GW_HARMLESS("user", BOTH | RESPONSES, of_client),
    GW_HARMLESS("metadata", BOTH, of_client),
    GW_HARMLESS("store", BOTH | RESPONSES, "Taken and not looked at: nothing is stored"),
    GW_HARMLESS("service_tier", BOTH | RESPONSES, "Taken and not looked at: there is one"),
    GW_HARMLESS("safety_identifier", BOTH | RESPONSES, of_client),
    GW_HARMLESS("request_id", BOTH, "Taken and not looked at: the header X-Request-Id is"),
    GW_HARMLESS("keep_alive", BOTH, "Taken and not looked at: the model stays loaded"),
    GW_HARMLESS("prompt_cache_key", BOTH | RESPONSES, no_cache),
    GW_HARMLESS("prompt_cache_retention", BOTH | RESPONSES, no_cache),
    GW_HARMLESS("cache_prompt", BOTH, no_cache),
    GW_HARMLESS("n_cache_reuse", BOTH, no_cache),
    GW_HARMLESS("id_slot", BOTH, "Taken and not looked at: nodes have no slots to choose"),
    GW_HARMLESS("n_keep", BOTH, "Taken and not looked at: no part of a context is dropped"),
    GW_HARMLESS("n_discard", BOTH, "Taken and not looked at: no part of a context is dropped"),
    GW_HARMLESS("parallel_tool_calls", TEXT | RESPONSES, "Taken and not looked at: no calls are read from answers"),
    GW_HARMLESS("reasoning_format", TEXT, "Taken and not looked at: thoughts stay in the text"),
    GW_HARMLESS("verbosity", BOTH, no_reasoning),
    GW_HARMLESS("timings_per_token", BOTH, "Taken and not looked at: the last chunk has the timings"),
    GW_HARMLESS("return_progress", BOTH, "Taken and not looked at: a comment is sent every 10 s"),
    GW_HARMLESS("samplers", BOTH,
                "Taken and not looked at: the order is penalties, top_k, top_p, min_p, temperature"),
    GW_HARMLESS("repeat_last_n", BOTH, "Taken and not looked at: penalties see the whole prompt and answer"),
    GW_HARMLESS("dynatemp_exponent", BOTH, with_neutral),
    GW_HARMLESS("xtc_threshold", BOTH, with_neutral),
    GW_HARMLESS("dry_base", BOTH, with_neutral),
    GW_HARMLESS("dry_allowed_length", BOTH, with_neutral),
    GW_HARMLESS("dry_penalty_last_n", BOTH, with_neutral),
    GW_HARMLESS("dry_sequence_breakers", BOTH, with_neutral),
    GW_HARMLESS("mirostat_tau", BOTH, with_neutral),
    GW_HARMLESS("mirostat_eta", BOTH, with_neutral),
    GW_HARMLESS("spaces_between_special_tokens", BOTH, "Taken and not looked at: text shows no special tokens"),

    GW_ONLY("n", BOTH, "[1]"),
    GW_ONLY("best_of", BOTH, "[1]"),
    GW_ONLY("echo", TEXT, "[false]"),
    GW_ONLY("suffix", TEXT, "[\"\"]"),
    GW_ONLY("functions", CHAT, "[[]]"),
    GW_ONLY("function_call", CHAT, "[\"none\"]"),
    GW_ONLY("modalities", CHAT, "[[\"text\"]]"),
    GW_ONLY("audio", CHAT, "[]"),
    GW_ONLY("prediction", CHAT, "[]"),
    GW_ONLY("web_search_options", CHAT, "[]"),
    GW_ONLY("parse_special", CHAT, "[false]"),
    GW_ONLY("think", CHAT, "[false]"),
    GW_ONLY("lora", BOTH, "[[]]"),
    GW_ONLY("min_tokens", BOTH, "[0]"),
    GW_ONLY("min_keep", BOTH, "[0,1]"),
    GW_ONLY("skip_special_tokens", BOTH, "[true]"),
    GW_ONLY("include_stop_str_in_output", BOTH, "[false]"),
    GW_ONLY("return_tokens", BOTH, "[false]"),
    GW_ONLY("post_sampling_probs", BOTH, "[false]"),
    GW_ONLY("use_beam_search", BOTH, "[false]"),
    GW_ONLY("length_penalty", BOTH, "[1]"),
    GW_ONLY("typical_p", BOTH, "[1]"),
    GW_ONLY("tfs_z", BOTH, "[1]"),
    GW_ONLY("top_a", BOTH, "[0]"),
    GW_ONLY("top_n_sigma", BOTH, "[-1,0]"),
    GW_ONLY("dynatemp_range", BOTH, "[0]"),
    GW_ONLY("xtc_probability", BOTH, "[0]"),
    GW_ONLY("dry_multiplier", BOTH, "[0]"),
    GW_ONLY("mirostat", BOTH, "[0]"),
};
// clang-format on
const gw_fields gw_fields_shared = {shared, sizeof shared / sizeof *shared};

const gw_field *gw_fields_next(size_t *at, const gw_fields *own, unsigned where)
{
    for (; *at < own->len + gw_fields_shared.len; ++*at) {
        const gw_field *f = *at < own->len ? &own->at[*at] : &shared[*at - own->len];
        if (!(f->where & where)) continue;
        ++*at;
        return f;
    }
    return NULL;
}

static const gw_field *find_field(const gw_reader *p, const char *name, unsigned where)
{
    size_t at = 0;
    const gw_field *f;
    while ((f = gw_fields_next(&at, p->own, where)) && strcmp(f->name, name) != 0) continue;
    return f;
}

enum { NAME_MAX_BYTES = 40, NAMES_MAX = 256 }; /* a longer name is no slip of a hand */
/* Refuses a field by its name, with the nearest known name where one is close. */
static bt_err unknown_field(gw_reader *p, const char *key, unsigned where)
{
    const char *names[NAMES_MAX + 1];
    size_t n = 0, at = 0;
    const gw_field *f;
    while (n < NAMES_MAX && (f = gw_fields_next(&at, p->own, where))) names[n++] = f->name;
    names[n] = NULL;
    const size_t len = strlen(key);
    const char *near = len > 2 && len <= NAME_MAX_BYTES ? bt_opt_nearest(key, names) : NULL;
    return gw_error_say(p->err, 400, "unknown_parameter", key,
                        "Unrecognized request argument supplied: %s%s%s%s", key,
                        near ? ". Did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bt_err find_missing(gw_reader *p, const json_t *root, unsigned where)
{
    size_t at = 0;
    const gw_field *f;
    while ((f = gw_fields_next(&at, p->own, where))) {
        const json_t *v = f->is_required ? json_object_get(root, f->name) : NULL;
        if (f->is_required && (!v || json_is_null(v)))
            return gw_error_say(p->err, 400, "missing_required_parameter", f->name,
                                "Missing required parameter: '%s'.", f->name);
    }
    return BT_OK;
}

bt_err gw_fields_read(gw_reader *p, json_t *root, unsigned where)
{
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        const gw_field *f = find_field(p, key, where);
        const bt_err e = !f ? unknown_field(p, key, where) : json_is_null(v) ? BT_OK : f->read(p, f, v);
        if (e < 0) return e;
    }
    return find_missing(p, root, where);
}
