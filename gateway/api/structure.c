/* See structure.h. */
#include "gateway/api/structure.h"
#include "base/hash.h"
#include "gateway/api/json.h"
#include "grammar/compile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields --------------------------------------------------------------------------------------- */

static bt_err set(gw_reader *p, const char *field, gw_structure_form form, json_t *value)
{
    gw_structure *s = &p->r.structure;
    if (s->form != GW_STRUCTURE_NONE)
        return gw_error_say(p->err, 400, "invalid_value", field,
                            "Invalid '%s': '%s' says already what the answer may be.", field, s->field);
    *s = (gw_structure){form, "", json_incref(value)};
    (void)snprintf(s->field, sizeof s->field, "%s", field);
    return BT_OK;
}

/* Or nothing at all. */
static bool is_schema(const json_t *v) { return !v || json_is_object(v) || json_is_boolean(v); }

static bt_err set_schema(gw_reader *p, const char *field, json_t *v)
{
    if (!is_schema(v)) return gw_read_wrong_type(p, field, "a JSON schema", v);
    return set(p, field, GW_STRUCTURE_SCHEMA, v);
}

bt_err gw_structure_json(gw_reader *p, const gw_field *f, json_t *v)
{
    if (!json_is_string(v)) return set_schema(p, f->name, v);
    json_error_t error;
    json_t *schema = gw_json_load(json_string_value(v), json_string_length(v), NULL, &error);
    if (!schema)
        return gw_error_say(p->err, 400, "invalid_value", f->name, "Invalid '%s': not JSON: %s.", f->name,
                            error.text);
    const bt_err e = set_schema(p, f->name, schema);
    json_decref(schema);
    return e;
}

static bt_err set_text(gw_reader *p, const char *field, gw_structure_form form, json_t *v)
{
    if (!json_is_string(v)) return gw_read_wrong_type(p, field, "a string", v);
    return json_string_length(v) ? set(p, field, form, v) : BT_OK;
}

bt_err gw_structure_object(gw_reader *p, const gw_field *f, json_t *v)
{
    (void)v;
    return set(p, f->name, GW_STRUCTURE_OBJECT, NULL);
}

bt_err gw_structure_regex(gw_reader *p, const gw_field *f, json_t *v)
{
    return set_text(p, f->name, GW_STRUCTURE_REGEX, v);
}

bt_err gw_structure_grammar(gw_reader *p, const gw_field *f, json_t *v)
{
    return set_text(p, f->name, GW_STRUCTURE_GRAMMAR, v);
}

bt_err gw_structure_choice(gw_reader *p, const gw_field *f, json_t *v)
{
    bool is_list = json_is_array(v) && json_array_size(v) > 0;
    for (size_t i = 0; is_list && i < json_array_size(v); i++) is_list = json_is_string(json_array_get(v, i));
    if (!is_list) return gw_read_wrong_type(p, f->name, "an array of strings, at least one", v);
    return set(p, f->name, GW_STRUCTURE_CHOICE, v);
}

/* A member that is null is one that is absent. */
static json_t *given(const json_t *object, const char *name)
{
    json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

static bt_err no_schema(gw_reader *p, const gw_field *f)
{
    return gw_error_say(p->err, 400, "missing_required_parameter", f->name,
                        "Invalid '%s': 'json_schema' has no 'schema'.", f->name);
}

/* {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema": {...}}}; llama.cpp's clients
 * write "schema" beside "json_object". */
bt_err gw_structure_field(gw_reader *p, const gw_field *f, json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!json_is_object(v) || !type)
        return gw_error_say(p->err, 400, "invalid_type", f->name,
                            "Invalid '%s': expected an object with a 'type'.", f->name);
    json_t *schema = given(v, "schema"), *named = given(v, "json_schema"), *own = given(named, "schema");
    const json_t *bad = !is_schema(schema) ? schema : own, *name = given(named, "name"),
                 *strict = given(named, "strict");
    if (named && !json_is_object(named)) return gw_read_wrong_type(p, f->name, "an object", named);
    if (named && !own) return no_schema(p, f);
    if (name && !json_is_string(name)) return gw_read_wrong_type(p, f->name, "a string", name);
    if (strict && !json_is_boolean(strict)) return gw_read_wrong_type(p, f->name, "true or false", strict);
    if (!is_schema(bad)) return gw_read_wrong_type(p, f->name, "a JSON schema", bad);
    if (strcmp(type, "text") == 0) return BT_OK;
    if (strcmp(type, "json_object") == 0)
        return schema ? set_schema(p, f->name, schema) : set(p, f->name, GW_STRUCTURE_OBJECT, NULL);
    if (strcmp(type, "json_schema") != 0)
        return gw_error_say(p->err, 400, "invalid_value", f->name,
                            "Invalid '%s': type '%.32s' is not one of text, json_object, json_schema.",
                            f->name, type);
    if (!named && !schema) return no_schema(p, f);
    return set_schema(p, f->name, named ? own : schema);
}

/* vLLM's: an object with one of these. */
bt_err gw_structure_fields(gw_reader *p, const gw_field *f, json_t *v)
{
    static const struct {
        const char *key;
        gw_field of;
    } parts[] = {
        {"json", {.name = "structured_outputs.json", .read = gw_structure_json}},
        {"regex", {.name = "structured_outputs.regex", .read = gw_structure_regex}},
        {"choice", {.name = "structured_outputs.choice", .read = gw_structure_choice}},
        {"grammar", {.name = "structured_outputs.grammar", .read = gw_structure_grammar}},
    };
    const char *key;
    json_t *item;
    if (!json_is_object(v)) return gw_read_wrong_type(p, f->name, "an object", v);
    json_object_foreach(v, key, item) {
        size_t i = 0;
        while (i < sizeof parts / sizeof *parts && strcmp(parts[i].key, key) != 0) i++;
        const bool is_known = i < sizeof parts / sizeof *parts;
        bt_err e = BT_OK;
        if (json_is_null(item) || (json_is_false(item) && strcmp(key, "json_object") == 0)) continue;
        if (is_known) e = parts[i].of.read(p, &parts[i].of, item);
        else if (strcmp(key, "json_object") == 0 && json_is_true(item))
            e = set(p, "structured_outputs.json_object", GW_STRUCTURE_OBJECT, NULL);
        else
            e = gw_error_say(p->err, 400, "unsupported_parameter", f->name,
                             "'%s.%.32s' is not supported by this server; leave it out or use json, "
                             "json_object, regex, choice or grammar.",
                             f->name, key);
        if (e < 0) return e;
    }
    return BT_OK;
}

/* ---- programs ------------------------------------------------------------------------------------- */

typedef struct kept {
    uint8_t hash[BT_HASH_BYTES]; /* of form and text */
    uint8_t *program;            /* NULL: a free place */
    uint32_t len;
    uint64_t used; /* when it was looked at last */
} kept;

struct gw_structures {
    pthread_mutex_t lock;
    uint64_t looks;
    kept at[GW_STRUCTURES_KEPT];
};

gw_structures *gw_structures_new(void)
{
    gw_structures *s = calloc(1, sizeof *s);
    if (s && pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void gw_structures_free(gw_structures *s)
{
    if (!s) return;
    for (size_t i = 0; i < GW_STRUCTURES_KEPT; i++) free(s->at[i].program);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The request gets a copy: another thread may let a kept one go. */
static bool give(gw_ask *r, const uint8_t *program, size_t len)
{
    if (!(r->program = malloc(len))) return false;
    memcpy(r->program, program, len);
    r->sampling.program = r->program;
    r->sampling.program_len = (uint32_t)len;
    return true;
}

/* True where it is kept; the request then has it, unless there was no memory. */
static bool find(gw_structures *s, gw_ask *r, const uint8_t hash[BT_HASH_BYTES])
{
    bool is_kept = false;
    pthread_mutex_lock(&s->lock);
    s->looks++;
    for (size_t i = 0; i < GW_STRUCTURES_KEPT && !is_kept; i++) {
        kept *k = &s->at[i];
        if (!k->program || memcmp(k->hash, hash, sizeof k->hash) != 0) continue;
        is_kept = true;
        k->used = s->looks;
        (void)give(r, k->program, k->len);
    }
    pthread_mutex_unlock(&s->lock);
    return is_kept;
}

/* Keeps a copy in the place of the one that was not looked at for longest. */
static void keep(gw_structures *s, const uint8_t hash[BT_HASH_BYTES], const bt_buf *b)
{
    uint8_t *program = malloc(b->len);
    if (!program) return; /* it is compiled again */
    memcpy(program, b->data, b->len);
    pthread_mutex_lock(&s->lock);
    kept *k = s->at;
    for (size_t i = 1; i < GW_STRUCTURES_KEPT; i++)
        if (s->at[i].used < k->used) k = &s->at[i];
    free(k->program);
    *k = (kept){.program = program, .len = (uint32_t)b->len, .used = s->looks};
    memcpy(k->hash, hash, sizeof k->hash);
    pthread_mutex_unlock(&s->lock);
}

static bt_err compile_choice(bt_buf *out, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    bt_syntax_span *word = calloc(n, sizeof *word);
    if (!word) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu choices", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        word[i] = (bt_syntax_span){json_string_value(item), json_string_length(item)};
    }
    const bt_err e = bt_regex_choices(out, word, n, fault);
    free(word);
    return e;
}

static bt_err compile_calls(bt_buf *out, const json_t *calls, bt_fault *fault)
{
    const bt_schema_frame frame = {.before = json_string_value(json_object_get(calls, "before")),
                                   .between = json_string_value(json_object_get(calls, "between")),
                                   .behind = json_string_value(json_object_get(calls, "behind")),
                                   .is_many = json_is_true(json_object_get(calls, "is_many"))};
    return bt_schema_compile_framed(out, json_object_get(calls, "schema"), &frame, fault);
}

static bt_err compile(bt_buf *out, const gw_structure *s, bt_fault *fault)
{
    const char *text = json_string_value(s->value);
    const size_t len = json_string_length(s->value);
    switch (s->form) {
    case GW_STRUCTURE_OBJECT: return bt_schema_any_object(out, fault);
    case GW_STRUCTURE_SCHEMA: return bt_schema_compile(out, s->value, fault);
    case GW_STRUCTURE_REGEX: return bt_regex_compile(out, text, len, fault);
    case GW_STRUCTURE_CHOICE: return compile_choice(out, s->value, fault);
    case GW_STRUCTURE_GRAMMAR: return bt_gbnf_compile(out, text, len, fault);
    case GW_STRUCTURE_CALLS: return compile_calls(out, s->value, fault);
    case GW_STRUCTURE_NONE: break;
    }
    return bt_fail(fault, BT_EARG, "no structure is asked for");
}

/* Members of a schema keep their order in the answer, so it counts here. */
static bool hash_of(uint8_t ret[BT_HASH_BYTES], const gw_structure *s)
{
    const uint8_t form = (uint8_t)s->form;
    char *text = s->value ? json_dumps(s->value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    bt_hash_stream h;
    if (s->value && !text) return false;
    bt_hash_begin(&h);
    bt_hash_add(&h, &form, 1);
    if (text) bt_hash_add(&h, text, strlen(text));
    bt_hash_end(ret, &h);
    free(text);
    return true;
}

bt_err gw_structures_compile(gw_structures *s, gw_ask *r, bool is_quick, gw_error *err)
{
    uint8_t hash[BT_HASH_BYTES];
    bt_fault fault = {""};
    bt_buf b;
    if (r->structure.form == GW_STRUCTURE_NONE) return BT_OK;
    if (!hash_of(hash, &r->structure)) return gw_error_no_memory(err);
    if (find(s, r, hash)) return r->program ? BT_OK : gw_error_no_memory(err);
    if (is_quick) return BT_EAGAIN;
    bt_buf_init(&b, BT_SAMPLE_MAX_PROGRAM);
    const bt_err e = compile(&b, &r->structure, &fault);
    if (e < 0) {
        bt_buf_done(&b);
        return e == BT_ENOMEM ? gw_error_no_memory(err)
                              : gw_error_say(err, 400, "invalid_value", r->structure.field,
                                             "Invalid '%s': %s.", r->structure.field, fault.text);
    }
    const bool is_given = give(r, b.data, b.len);
    keep(s, hash, &b);
    bt_buf_done(&b);
    return is_given ? BT_OK : gw_error_no_memory(err);
}
