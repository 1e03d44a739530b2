/* A JSON object a line: Mooncake's rows with Dynamo's names, and Bailian's. */
#include "trace/private.h"

#include <stdlib.h>
#include <string.h>

enum { BAILIAN_BLOCK = 16 };

bt_err bt_trace_room(bt_trace *t, size_t n, bt_fault *fault)
{
    if (n <= t->hash_cap) return BT_OK;
    if (n > BT_TRACE_MAX_HASHES)
        return bt_fail(fault, BT_EFORMAT, "line %llu, column 'hash_ids': %zu of them; at most %d",
                       (unsigned long long)t->in.line, n, BT_TRACE_MAX_HASHES);
    uint64_t *more = reallocarray(t->hash, n, sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "%zu hashes", n);
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
        return bt_fail(fault, BT_EFORMAT, "line %llu: both '%s' and '%s'", (unsigned long long)at->line, name,
                       other);
    return BT_OK;
}

static bt_err take_hashes(bt_trace_row *row, bt_trace *t, const json_t *o, bt_fault *fault)
{
    const json_t *list = json_object_get(o, "hash_ids");
    const bt_trace_place at = {t->in.line, "hash_ids"};
    if (!list || json_is_null(list)) return BT_OK;
    if (!json_is_array(list)) return bt_trace_bad_json(fault, at, list, "is no list of whole numbers");
    const size_t n = json_array_size(list);
    const bt_err e = bt_trace_room(t, n, fault);
    if (e < 0) return e;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return bt_trace_bad_json(fault, at, id, "is no whole number from 0");
        t->hash[i] = (uint64_t)json_integer_value(id);
    }
    if (n > row->input_tokens)
        return bt_fail(fault, BT_EFORMAT, "line %llu, column 'hash_ids': %zu blocks of %u tokens",
                       (unsigned long long)at.line, n, row->input_tokens);
    row->hash_ids = t->hash;
    row->hash_len = n;
    return BT_OK;
}

/* *ret stays as it is where there is none. */
static bt_err take_name(const char **ret, char *room, bt_trace *t, const json_t *o, const char *key,
                        bt_fault *fault)
{
    const json_t *id = json_object_get(o, key);
    const bt_trace_place at = {t->in.line, key};
    if (!id || json_is_null(id)) return BT_OK;
    const size_t n = json_string_length(id);
    if (!json_is_string(id) || n == 0 || n > BT_TRACE_MAX_NAME || strlen(json_string_value(id)) != n)
        return bt_trace_bad_json(fault, at, id, "is no text of 1 to 256 bytes");
    memcpy(room, json_string_value(id), n + 1);
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
    if (row->has_delay && !row->session)
        return bt_trace_bad_json(fault, at, v, "is a delay without a session_id, so after what?");
    return take_hashes(row, t, o, fault);
}

/* The first chat of the session that `chat` goes on with. */
static bt_err find_root(uint64_t *ret, bt_trace *t, uint64_t chat, json_int_t parent, bt_fault *fault)
{
    const uint64_t *root = parent < 0 ? NULL : bt_trace_map_find(&t->chats, (uint64_t)parent);
    *ret = root ? *root : parent < 0 ? chat : (uint64_t)parent;
    return bt_trace_map_put(&t->chats, chat, *ret, fault);
}

static bt_err bailian(bt_trace_row *row, bt_trace *t, const json_t *o, bt_fault *fault)
{
    bt_trace_place at = {t->in.line, "input_length"};
    const json_t *chat = json_object_get(o, "chat_id"), *parent = json_object_get(o, "parent_chat_id");
    const json_int_t from = parent && !json_is_null(parent) ? json_integer_value(parent) : -1;
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
    if (!json_is_integer(chat) || json_integer_value(chat) < 0)
        return bt_trace_bad_json(fault, at, chat, "is no whole number from 0");
    at.column = "parent_chat_id";
    if (parent && !json_is_null(parent) && (!json_is_integer(parent) || from < -1))
        return bt_trace_bad_json(fault, at, parent, "is no whole number from -1");
    if ((e = take_hashes(row, t, o, fault)) < 0) return e;
    row->block_tokens = BAILIAN_BLOCK;
    uint64_t root;
    if ((e = find_root(&root, t, (uint64_t)json_integer_value(chat), from, fault)) < 0) return e;
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
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!json_is_object(o))
        e = bt_fail(fault, BT_EFORMAT, "line %llu: %s", (unsigned long long)t->in.line,
                    o ? "no JSON object" : why.text);
    else e = t->facts.format == BT_TRACE_BAILIAN ? bailian(ret, t, o, fault) : mooncake(ret, t, o, fault);
    json_decref(o);
    return e;
}
