/* A body as JSON, by jansson; its single values, with their type and range; the words for what is wrong. */
#include "gateway/api/read.h"
#include "gateway/api/json.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bt_err gw_read_no_memory(gw_reader *p)
{
    (void)gw_error_say(p->err, 500, "out_of_memory", NULL, "Out of memory while reading the request.");
    return BT_ENOMEM;
}

/* The same words for a NUL however it is written. */
static bt_err refuse_nul(gw_error *err, size_t before)
{
    return gw_error_say(err, 400, "invalid_json", NULL,
                        "The body has a NUL character before byte %zu; no text here may hold one.", before);
}

bt_err gw_read_object(json_t **ret, gw_reader *p, const char *body, size_t len)
{
    json_error_t je;
    size_t bad;
    if (!bt_utf8_valid(body, len, &bad))
        return gw_error_say(p->err, 400, "invalid_json", NULL, "The body is not valid UTF-8 at byte %zu.",
                            bad);
    const char *nul = memchr(body, 0, len);
    if (nul) return refuse_nul(p->err, (size_t)(nul - body) + 1);
    /* jansson bounds the depth of nesting at 2048 itself. */
    json_t *root = gw_json_load(body, len, "seed", &je);
    if (!root) {
        const enum json_error_code code = json_error_code(&je);
        if (code == json_error_out_of_memory) return gw_read_no_memory(p);
        if (code == json_error_null_character || code == json_error_null_byte_in_key)
            return refuse_nul(p->err, (size_t)je.position);
        return gw_error_say(p->err, 400, "invalid_json", NULL,
                            "The body is not valid JSON: line %d, column %d (byte %d): %s", je.line,
                            je.column, je.position, je.text);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return gw_error_say(p->err, 400, "invalid_json", NULL, "The body must be a JSON object.");
    }
    *ret = root;
    return BT_OK;
}

bt_err gw_read_wrong_type(gw_reader *p, const char *name, const char *wanted, const json_t *v)
{
    static const char *const kinds[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return gw_error_say(p->err, 400, "invalid_type", name, "Invalid type for '%s': expected %s, but got %s.",
                        name, wanted, kinds[json_typeof(v)]);
}

bt_err gw_read_unsupported(gw_reader *p, const char *name, const char *allowed)
{
    return gw_error_say(p->err, 400, "unsupported_parameter", name,
                        "'%s' is not supported by this server%s%s.", name,
                        *allowed ? "; leave it out or use " : "", allowed);
}

/* 40.0 is how some languages write 40. Beyond int64: its ends. */
static bool is_whole(int64_t *ret, const json_t *v)
{
    if (json_is_integer(v)) {
        *ret = json_integer_value(v);
        return true;
    }
    const double x = json_is_real(v) ? json_real_value(v) : 0.5;
    *ret = x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
    return !(floor(x) < x);
}

static bool is_beyond(const json_t *v)
{
    return json_is_real(v) && !(json_real_value(v) >= -0x1p63 && json_real_value(v) < 0x1p63);
}

bt_err gw_read_int(int64_t *ret, gw_reader *p, const char *name, const json_t *v, int64_t lo, int64_t hi)
{
    int64_t x;
    char shown[32];
    if (!is_whole(&x, v)) return gw_read_wrong_type(p, name, "an integer", v);
    if (x < lo || x > hi || is_beyond(v)) {
        if (is_beyond(v)) (void)snprintf(shown, sizeof shown, "%.16g", json_real_value(v));
        else (void)snprintf(shown, sizeof shown, "%lld", (long long)x);
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid value for '%s': %s is not in the range %lld to %lld.", name, shown,
                            (long long)lo, (long long)hi);
    }
    *ret = x;
    return BT_OK;
}

bt_err gw_read_float(float *ret, gw_reader *p, const char *name, const json_t *v, double lo, double hi)
{
    if (!json_is_number(v)) return gw_read_wrong_type(p, name, "a number", v);
    const double x = json_number_value(v);
    if (!(x >= lo && x <= hi))
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid value for '%s': %g is not in the range %g to %g.", name, x, lo, hi);
    *ret = (float)x;
    return BT_OK;
}

bt_err gw_read_bool(bool *ret, gw_reader *p, const char *name, const json_t *v)
{
    if (!json_is_boolean(v)) return gw_read_wrong_type(p, name, "true or false", v);
    *ret = json_is_true(v);
    return BT_OK;
}

bt_err gw_read_ids(int32_t **ret, size_t *ret_len, gw_reader *p, const char *name, const json_t *v)
{
    const size_t n = json_array_size(v);
    if (n > BT_MSG_MAX_PROMPT_TOKENS)
        return gw_error_say(p->err, 400, "invalid_value", name,
                            "Invalid '%s': %zu tokens; at most %d are allowed.", name, n,
                            BT_MSG_MAX_PROMPT_TOKENS);
    int32_t *ids = malloc((n ? n : 1) * sizeof *ids);
    if (!ids) return gw_read_no_memory(p);
    for (size_t i = 0; i < n; i++) {
        int64_t id = 0;
        const bt_err e = gw_read_int(&id, p, name, json_array_get(v, i), 0, (int64_t)p->limits->vocab - 1);
        if (e < 0) {
            free(ids);
            return e;
        }
        ids[i] = (int32_t)id;
    }
    *ret = ids;
    *ret_len = n;
    return BT_OK;
}

bt_err gw_read_model(gw_reader *p, const char *name, const json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, name, "a string", v);
    for (size_t i = 0; i < p->limits->names_len; i++)
        if (strcmp(json_string_value(v), p->limits->names[i]) == 0) return BT_OK;
    return gw_error_say(p->err, 404, "model_not_found", name,
                        "The model '%.200s' does not exist here; this server has '%s'.", json_string_value(v),
                        p->limits->names_len ? p->limits->names[0] : "");
}

bt_err gw_read_echo(gw_reader *p, const char *name, json_t *v)
{
    if (!p->r.echo) p->r.echo = json_object();
    return json_object_set(p->r.echo, name, v) < 0 ? gw_read_no_memory(p) : BT_OK;
}
