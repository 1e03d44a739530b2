/* A JSON object a line: Mooncake's rows with Dynamo's names, and Bailian's. */
#include "trace/private.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAILIAN_BLOCK = 16 };
#define ID_WORDS "is no whole number and no text"

/* ---- ids ---- */

/* A copy in which each whole number of 19 digits and more stands in quotes. */
static bool quote_long_numbers(bt_buf *out, const char *text, size_t len)
{
    bool is_text = false;
    for (size_t i = 0, n; i < len; i += n) {
        n = 1;
        if (is_text && text[i] == '\\') n = i + 1 < len ? 2 : 1;
        else if (text[i] == '"') is_text = !is_text;
        else if (!is_text && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))) {
            while (i + n < len && text[i + n] && strchr("0123456789.eE+-", text[i + n])) n++;
            const bool is_long = n >= 19 && !memchr(text + i, '.', n) && !memchr(text + i, 'e', n) &&
                                 !memchr(text + i, 'E', n);
            if (is_long) (void)bt_buf_byte(out, '"');
            (void)bt_buf_add(out, text + i, n);
            if (is_long) (void)bt_buf_byte(out, '"');
            continue;
        }
        (void)bt_buf_add(out, text + i, n);
    }
    return out->err == BT_OK;
}

json_t *bt_trace_json_load(const char *text, size_t len, size_t flags, json_error_t *why)
{
    json_t *o = json_loadb(text, len, flags, why);
    if (o || json_error_code(why) != json_error_numeric_overflow) return o;
    bt_buf copy;
    bt_buf_init(&copy, 2 * (size_t)BT_TRACE_MAX_PIECE_BYTES);
    if (quote_long_numbers(&copy, text, len))
        o = json_loadb((const char *)copy.data, copy.len, flags, why); /* else the first words stand */
    bt_buf_done(&copy);
    return o;
}

/* Beyond 2^53 not every whole number is a double, so that two ids could be one. */
static bool is_whole(const json_t *v)
{
    return json_is_real(v) && json_real_value(v) == floor(json_real_value(v)) &&
           fabs(json_real_value(v)) <= 9007199254740992.0;
}

/* Digits as JSON has them, of a number that fits 64 bits with or without a sign. */
static bool number_of_text(uint64_t *ret, const char *text)
{
    int64_t signed_one;
    const bool is_negative = *text == '-';
    const char *digits = text + is_negative;
    const size_t n = strlen(digits);
    if (n == 0 || n > 20 || strspn(digits, "0123456789") != n || (*digits == '0' && (n > 1 || is_negative)))
        return false;
    if (is_negative) {
        if (bt_num_int(&signed_one, text, INT64_MIN, -1, NULL) < 0) return false;
        *ret = (uint64_t)signed_one;
        return true;
    }
    errno = 0;
    *ret = strtoull(digits, NULL, 10);
    return errno == 0;
}

bool bt_trace_json_id(uint64_t *ret, const json_t *value)
{
    if (json_is_integer(value)) *ret = (uint64_t)json_integer_value(value);
    else if (is_whole(value)) *ret = (uint64_t)(int64_t)json_real_value(value);
    else if (!json_is_string(value) || json_string_length(value) == 0) return false;
    else if (!number_of_text(ret, json_string_value(value)))
        *ret = bt_hash64(json_string_value(value), json_string_length(value));
    return true;
}

bool bt_trace_json_name(char ret[BT_TRACE_MAX_NAME + 1], const json_t *value)
{
    const char *text = json_string_value(value);
    const size_t n = json_string_length(value);
    if (json_is_integer(value))
        (void)snprintf(ret, BT_TRACE_MAX_NAME + 1, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (is_whole(value)) (void)snprintf(ret, BT_TRACE_MAX_NAME + 1, "%.0f", json_real_value(value));
    else if (!text || n == 0 || n > BT_TRACE_MAX_NAME || strlen(text) != n) return false;
    else memcpy(ret, text, n + 1);
    return true;
}

/* ---- rows ---- */

bt_err bt_trace_room(bt_trace *t, size_t n, bt_fault *fault)
{
    if (n <= t->hash_cap) return BT_OK;
    if (n > BT_TRACE_MAX_HASHES)
        return bt_fail(fault, BT_EFORMAT, "line %llu, column 'hash_ids': has %zu ids; at most %d are allowed",
                       (unsigned long long)t->in.line, n, BT_TRACE_MAX_HASHES);
    uint64_t *more = reallocarray(t->hash, n, sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu hashes", n);
    t->hash = more;
    t->hash_cap = n;
    return BT_OK;
}

/* The value of a name or of its other name; NULL: neither is there. BT_EFORMAT: both are. */
static bt_err either(const json_t **ret, bt_trace_place *at, const json_t *o, const char *name,
                     const char *other, bt_fault *fault)
{
    const json_t *a = json_object_get(o, name), *b = json_object_get(o, other);
    if (a && json_is_null(a)) a = NULL;
    if (b && json_is_null(b)) b = NULL;
    at->column = b ? other : name;
    *ret = a ? a : b;
    if (a && b)
        return bt_fail(fault, BT_EFORMAT, "line %llu: has both '%s' and '%s'; one of the two is allowed",
                       (unsigned long long)at->line, name, other);
    return BT_OK;
}

static bt_err take_hashes(bt_trace_row *row, bt_trace *t, const json_t *o, bt_fault *fault)
{
    const json_t *list = json_object_get(o, "hash_ids");
    const bt_trace_place at = {t->in.line, "hash_ids"};
    if (!list || json_is_null(list)) return BT_OK;
    if (!json_is_array(list)) return bt_trace_bad_json(fault, at, list, "is no list of ids");
    const size_t n = json_array_size(list);
    const bt_err e = bt_trace_room(t, n, fault);
    if (e < 0) return e;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!bt_trace_json_id(&t->hash[i], id)) return bt_trace_bad_json(fault, at, id, ID_WORDS);
    }
    if (n > row->input_tokens)
        return bt_fail(fault, BT_EFORMAT, "line %llu, column 'hash_ids': has %zu blocks for %u tokens",
                       (unsigned long long)at.line, n, row->input_tokens);
    row->hash_ids = t->hash;
    row->hash_len = n;
    return BT_OK;
}

/* *ret stays as it is where there is none. */
static bt_err take_name(const char **ret, char *room, bt_trace *t, const json_t *o, const char *key,
                        bt_fault *fault)
{
    const json_t *name = json_object_get(o, key);
    const bt_trace_place at = {t->in.line, key};
    if (!name || json_is_null(name)) return BT_OK;
    if (!bt_trace_json_name(room, name))
        return bt_trace_bad_json(fault, at, name, "is no text of 1 to 256 bytes and no whole number");
    *ret = room;
    return BT_OK;
}

static bt_err mooncake(bt_trace_row *row, bt_trace *t, const json_t *o, bt_fault *fault)
{
    bt_trace_place at = {t->in.line, ""};
    const json_t *v;
    bt_err e = either(&v, &at, o, "input_length", "input_tokens", fault);
    if (e < 0 || (e = bt_trace_json_tokens(&row->input_tokens, at, v, fault)) < 0) return e;
    if ((e = either(&v, &at, o, "output_length", "output_tokens", fault)) < 0) return e;
    row->has_output = v != NULL;
    if (v && (e = bt_trace_json_tokens(&row->output_tokens, at, v, fault)) < 0) return e;
    if ((e = either(&v, &at, o, "timestamp", "created_time", fault)) < 0) return e;
    row->has_arrival = v != NULL;
    if (v && (e = bt_trace_json_time(&row->arrival_us, at, v, 1e3, fault)) < 0) return e;
    if ((e = either(&v, &at, o, "delay", "delay_ms", fault)) < 0) return e;
    row->has_delay = v != NULL;
    if (v && (e = bt_trace_json_time(&row->delay_us, at, v, 1e3, fault)) < 0) return e;
    if (row->delay_us < 0) return bt_trace_bad_json(fault, at, v, "is less than 0");
    if ((e = take_name(&row->session, t->session, t, o, "session_id", fault)) < 0) return e;
    if ((e = take_name(&row->model, t->model, t, o, "model", fault)) < 0) return e;
    if ((e = take_name(&row->key, t->key, t, o, "key", fault)) < 0) return e;
    if (row->key && strlen(row->key) > BT_TRACE_MAX_KEY)
        return bt_trace_bad_json(fault, (bt_trace_place){t->in.line, "key"}, json_object_get(o, "key"),
                                 "is no text of 1 to 64 bytes");
    if (row->has_delay && !row->session)
        return bt_trace_bad_json(
            fault, at, v,
            "is a delay, which needs a 'session_id': the delay begins at the session's request before");
    return take_hashes(row, t, o, fault);
}

static const uint64_t NO_PARENT = UINT64_MAX; /* -1 */

/* The first chat of the session that `chat` goes on with. */
static bt_err find_root(uint64_t *ret, bt_trace *t, uint64_t chat, uint64_t parent, bt_fault *fault)
{
    const uint64_t *root = parent == NO_PARENT ? NULL : bt_trace_map_find(&t->chats, parent);
    *ret = root ? *root : parent == NO_PARENT ? chat : parent;
    return bt_trace_map_put(&t->chats, chat, *ret, fault);
}

static bt_err bailian(bt_trace_row *row, bt_trace *t, const json_t *o, bt_fault *fault)
{
    bt_trace_place at = {t->in.line, "input_length"};
    const json_t *chat = json_object_get(o, "chat_id"), *parent = json_object_get(o, "parent_chat_id");
    uint64_t id, from = NO_PARENT;
    bt_err e = bt_trace_json_tokens(&row->input_tokens, at, json_object_get(o, at.column), fault);
    if (e < 0) return e;
    at.column = "output_length";
    if ((e = bt_trace_json_tokens(&row->output_tokens, at, json_object_get(o, at.column), fault)) < 0)
        return e;
    row->has_output = true;
    at.column = "timestamp";
    if ((e = bt_trace_json_time(&row->arrival_us, at, json_object_get(o, at.column), 1e6, fault)) < 0)
        return e;
    row->has_arrival = true;
    at.column = "chat_id";
    if (!bt_trace_json_id(&id, chat)) return bt_trace_bad_json(fault, at, chat, ID_WORDS);
    at.column = "parent_chat_id";
    if (parent && !json_is_null(parent) && !bt_trace_json_id(&from, parent))
        return bt_trace_bad_json(fault, at, parent, ID_WORDS);
    if ((e = take_hashes(row, t, o, fault)) < 0) return e;
    row->block_tokens = BAILIAN_BLOCK;
    uint64_t root;
    if ((e = find_root(&root, t, id, from, fault)) < 0) return e;
    (void)snprintf(t->session, sizeof t->session, "%llu", (unsigned long long)root);
    row->session = t->session;
    return BT_OK;
}

bt_err bt_trace_json_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    char *line;
    size_t len;
    json_error_t why;
    bt_err e = bt_trace_input_line(&line, &len, &t->in, fault);
    if (e < 0) return e;
    *is_end = !line;
    if (!line) return BT_OK;
    *ret = (bt_trace_row){.line = t->in.line};
    json_t *o = bt_trace_json_load(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!json_is_object(o))
        e = bt_fail(fault, BT_EFORMAT, "line %llu: %s", (unsigned long long)t->in.line,
                    o ? "no JSON object" : why.text);
    else e = t->facts.format == BT_TRACE_BAILIAN ? bailian(ret, t, o, fault) : mooncake(ret, t, o, fault);
    json_decref(o);
    return e;
}
