/* Schemas that hold at once, as one: keyword by keyword, with nested parts left as allOf. */
#include "grammar/schema_private.h"

#include <math.h>
#include <string.h>

bool bt_schema_is_note(const char *keyword)
{
    static const char *const notes[] = {"title",      "description", "default",     "examples",
                                        "deprecated", "readOnly",    "writeOnly",   "$schema",
                                        "$id",        "$comment",    "definitions", "$defs"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (strcmp(notes[i], keyword) == 0) return true;
    return false;
}

static bool is_whole(json_t *v)
{
    return json_is_integer(v) || (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)));
}

bool bt_schema_is_of(json_t *value, const char *type)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return strcmp(type, "object") == 0;
    case JSON_ARRAY: return strcmp(type, "array") == 0;
    case JSON_STRING: return strcmp(type, "string") == 0;
    case JSON_INTEGER:
    case JSON_REAL: return strcmp(type, "number") == 0 || (is_whole(value) && strcmp(type, "integer") == 0);
    case JSON_TRUE:
    case JSON_FALSE: return strcmp(type, "boolean") == 0;
    case JSON_NULL: return strcmp(type, "null") == 0;
    }
    return false;
}

static json_t *both(json_t *a, json_t *b) { return json_pack("{s:[O,O]}", "allOf", a, b); }

/* Types as a list, whatever form they have. */
static json_t *type_list(json_t *type)
{
    return json_is_array(type) ? json_incref(type) : json_pack("[O]", type);
}

static json_t *merge_types(json_t *a, json_t *b)
{
    json_t *la = type_list(a), *lb = type_list(b), *out = json_array(), *x, *y;
    size_t i, k;
    json_array_foreach(la, i, x)
        json_array_foreach(lb, k, y) {
            const char *s = json_string_value(x), *t = json_string_value(y);
            if (!s || !t) continue;
            const bool is_int = (strcmp(s, "integer") == 0 && strcmp(t, "number") == 0) ||
                                (strcmp(t, "integer") == 0 && strcmp(s, "number") == 0);
            if (is_int) (void)json_array_append_new(out, json_string("integer"));
            else if (strcmp(s, t) == 0) (void)json_array_append(out, x);
        }
    json_decref(la);
    json_decref(lb);
    return out;
}

static json_t *merge_lists(json_t *a, json_t *b, bool is_union)
{
    json_t *out = json_array(), *x, *y;
    size_t i, k;
    if (is_union) (void)json_array_extend(out, a);
    json_array_foreach(b, i, x) {
        bool is_in = false;
        json_array_foreach(a, k, y) is_in |= json_equal(x, y) != 0;
        if (is_in != is_union) (void)json_array_append(out, x);
    }
    return out;
}

/* Adds to `out` the properties of a; one that b does not name must be an additional one of b's. */
static void add_properties(json_t *out, json_t *a, json_t *b)
{
    json_t *of_b = json_object_get(b, "properties"), *rest = json_object_get(b, "additionalProperties"),
           *value;
    const char *name;
    json_object_foreach(json_object_get(a, "properties"), name, value) {
        json_t *other = json_object_get(of_b, name);
        if (!other) other = rest;
        if (json_object_get(out, name)) continue;
        (void)json_object_set_new(out, name, other ? both(value, other) : json_incref(value));
    }
}

/* One keyword that a and b have; NULL: there is no way to say both. */
static json_t *merge_keyword(const char *name, json_t *a, json_t *b)
{
    static const char *const least[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems"};
    static const char *const most[] = {"minimum", "exclusiveMinimum", "minLength", "minItems"};
    if (json_equal(a, b)) return json_incref(a);
    for (size_t i = 0; i < 4; i++) {
        const bool is_a_less = json_number_value(a) < json_number_value(b);
        if (strcmp(name, least[i]) == 0) return json_incref(is_a_less ? a : b);
        if (strcmp(name, most[i]) == 0) return json_incref(is_a_less ? b : a);
    }
    if (strcmp(name, "type") == 0) return merge_types(a, b);
    if (strcmp(name, "required") == 0) return merge_lists(a, b, true);
    if (strcmp(name, "enum") == 0) return merge_lists(a, b, false);
    if (strcmp(name, "items") == 0 || strcmp(name, "additionalProperties") == 0) return both(a, b);
    return NULL;
}

bt_err bt_schema_merge(json_t **ret, json_t *a, json_t *b, bt_fault *fault)
{
    const char *name;
    json_t *value, *out = json_object();
    if (json_is_false(a) || json_is_false(b)) {
        json_decref(out);
        *ret = json_false();
        return BT_OK;
    }
    /* `items` are those behind the part's own prefixItems. */
    const bool has_a = json_object_get(a, "prefixItems") != NULL,
               has_b = json_object_get(b, "prefixItems") != NULL;
    if (has_a != has_b && json_object_get(has_a ? b : a, "items")) {
        json_decref(out);
        return bt_fail(fault, BT_EARG, "'items' beside 'prefixItems' of another part is not supported");
    }
    if (json_object_get(a, "properties") || json_object_get(b, "properties")) {
        json_t *all = json_object();
        add_properties(all, a, b);
        add_properties(all, b, a);
        (void)json_object_set_new(out, "properties", all);
    }
    json_object_foreach(a, name, value) {
        json_t *other = json_object_get(b, name);
        if (bt_schema_is_note(name) || strcmp(name, "properties") == 0) continue;
        json_t *one = other ? merge_keyword(name, value, other) : json_incref(value);
        if (!one) {
            json_decref(out);
            return bt_fail(fault, BT_EARG, "'%.40s' in two parts that hold at once is not supported", name);
        }
        (void)json_object_set_new(out, name, one);
    }
    json_object_foreach(b, name, value)
        if (!json_object_get(a, name) && !bt_schema_is_note(name) && strcmp(name, "properties") != 0)
            (void)json_object_set(out, name, value);
    *ret = out;
    return BT_OK;
}

/* ---- parts that never fit at once ----------------------------------------------------------------- */
static bool has_type(json_t *schema, const char *type)
{
    json_t *list = json_object_get(schema, "type"), *all = json_object_get(schema, "enum"), *v;
    json_t *one = json_object_get(schema, "const");
    size_t i;
    bool is = false;
    if (one) return bt_schema_is_of(one, type);
    if (all) {
        json_array_foreach(all, i, v) is |= bt_schema_is_of(v, type);
        return is;
    }
    if (!list) return true;
    list = type_list(list);
    json_array_foreach(list, i, v) {
        const char *t = json_string_value(v);
        is |= t && (strcmp(t, type) == 0 || (strcmp(t, "number") == 0 && strcmp(type, "integer") == 0));
    }
    json_decref(list);
    return is;
}

static bool have_constants(json_t *a, json_t *b)
{
    return (json_object_get(a, "const") || json_object_get(a, "enum")) &&
           (json_object_get(b, "const") || json_object_get(b, "enum"));
}

static bool share_constant(json_t *a, json_t *b)
{
    json_t *ca = json_object_get(a, "const"), *cb = json_object_get(b, "const"), *x, *y;
    json_t *la = ca ? json_pack("[O]", ca) : json_incref(json_object_get(a, "enum"));
    json_t *lb = cb ? json_pack("[O]", cb) : json_incref(json_object_get(b, "enum"));
    size_t i, k;
    bool is = false;
    json_array_foreach(la, i, x)
        json_array_foreach(lb, k, y)
            is |= json_equal(x, y) ||
                  (json_is_number(x) && json_is_number(y) && json_number_value(x) == json_number_value(y));
    json_decref(la);
    json_decref(lb);
    return is;
}

static bool requires(json_t *schema, const char *name)
{
    json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, v)
        if (json_is_string(v) && strcmp(json_string_value(v), name) == 0) return true;
    return false;
}

/* All values that are made of it are objects. */
static bool is_object(json_t *schema)
{
    json_t *type = json_object_get(schema, "type");
    return !type || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0);
}

bool bt_schema_are_apart(json_t *a, json_t *b)
{
    static const char *const types[] = {"object", "array", "string", "integer", "number", "boolean", "null"};
    const char *name;
    json_t *value;
    bool share_type = false;
    if (json_is_false(a) || json_is_false(b)) return true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        share_type |= has_type(a, types[i]) && has_type(b, types[i]);
    if (!share_type) return true;
    if (have_constants(a, b)) return !share_constant(a, b);
    json_object_foreach(json_object_get(a, "properties"), name, value) {
        json_t *other = json_object_get(json_object_get(b, "properties"), name);
        if (other && requires(a, name) && requires(b, name) && have_constants(value, other) &&
            !share_constant(value, other) && is_object(a))
            return true;
    }
    return false;
}
