/* Schemas to rules: one rule for each, made in the order in which they are met, so that nothing recurses. */
#include "grammar/schema_private.h"

#include "grammar/automaton.h"
#include "grammar/program.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 32 };

typedef struct task {
    json_t *schema; /* held */
    uint32_t rule;
} task;
typedef struct compiler {
    bt_syntax *s;
    json_t *root;
    bt_fault *f;
    task *task; /* all that were met; those from `done` on are still to be made */
    size_t tasks, task_cap, done;
    bt_auto_map rule_of; /* a schema's address -> task */
    uint32_t space, any, any_string, any_char, comma;
} compiler;

/* ---- pieces --------------------------------------------------------------------------------------- */
static uint32_t text(compiler *x, const char *t) { return bt_syntax_text(x->s, t, strlen(t)); }
static uint32_t join3(compiler *x, uint32_t a, uint32_t b, uint32_t c)
{
    return bt_syntax_join(x->s, a, bt_syntax_join(x->s, b, c));
}
static uint32_t maybe(compiler *x, uint32_t a) { return bt_syntax_repeat(x->s, a, 0, 1); }
static uint32_t call(compiler *x, uint32_t rule) { return bt_syntax_call(x->s, rule, 1, 1); }

/* open, nothing or `inside`, close. */
static uint32_t within(compiler *x, const char *open, uint32_t inside, const char *close)
{
    const uint32_t rest = bt_syntax_join(x->s, x->space, text(x, close));
    return join3(x, text(x, open), x->space,
                 inside == BT_SYNTAX_EMPTY ? text(x, close) : bt_syntax_join(x->s, inside, rest));
}

static uint32_t member_of(compiler *x, uint32_t key, uint32_t value)
{
    return bt_syntax_join(x->s, key, join3(x, text(x, ":"), x->space, value));
}

/* one, or several with commas. */
static uint32_t listed(compiler *x, uint32_t one)
{
    const uint32_t more = bt_syntax_join(x->s, x->comma, one);
    return bt_syntax_join(x->s, one, bt_syntax_repeat(x->s, more, 0, BT_SYNTAX_NO_END));
}

static uint32_t any_object(compiler *x)
{
    const uint32_t member = member_of(x, call(x, x->any_string), call(x, x->any));
    return bt_syntax_either(x->s, within(x, "{", BT_SYNTAX_EMPTY, "}"),
                            within(x, "{", listed(x, member), "}"));
}

static uint32_t any_array(compiler *x)
{
    return bt_syntax_either(x->s, within(x, "[", BT_SYNTAX_EMPTY, "]"),
                            within(x, "[", listed(x, call(x, x->any)), "]"));
}

static void define_basics(compiler *x)
{
    bt_syntax *s = x->s;
    const uint32_t blank = bt_syntax_either(s, text(x, " "), text(x, "\t")),
                   space = bt_syntax_rule(s, "white space");
    bt_syntax_define(s, space,
                     bt_syntax_either(s, text(x, " "),
                                      bt_syntax_join(s, text(x, "\n"),
                                                     bt_syntax_repeat(s, blank, 0, SPACES))));
    x->space = bt_syntax_call(s, space, 0, 1);
    x->comma = bt_syntax_join(s, text(x, ","), x->space);
    x->any_char = bt_syntax_rule(s, "a character");
    bt_syntax_define(s, x->any_char, bt_schema_char(s));
    x->any_string = bt_syntax_rule(s, "a string");
    bt_syntax_define(s, x->any_string, bt_syntax_repeat(s, bt_schema_char(s), 0, BT_SYNTAX_NO_END));
    bt_syntax_quote(s, x->any_string);
    const uint32_t number = bt_syntax_rule(s, "a number");
    uint32_t node = BT_SYNTAX_EMPTY;
    (void)bt_schema_number(&node, s, NULL, NULL);
    bt_syntax_define(s, number, node);
    x->any = bt_syntax_rule(s, "a value");
    node = bt_syntax_either(s, call(x, x->any_string), call(x, number));
    node = bt_syntax_either(s, node, bt_syntax_either(s, any_object(x), any_array(x)));
    node = bt_syntax_either(s, node, bt_syntax_either(s, text(x, "true"), text(x, "false")));
    bt_syntax_define(s, x->any, bt_syntax_either(s, node, text(x, "null")));
}

/* The rule of a schema, which is made later. Takes over a reference. */
static bt_err rule_of(uint32_t *ret, compiler *x, json_t *schema)
{
    if (!schema) return bt_fail(x->f, BT_ENOMEM, "a schema");
    const uint32_t at = bt_auto_map_get(&x->rule_of, (uint64_t)(uintptr_t)schema, (uint32_t)x->tasks);
    if (at != UINT32_MAX && at < x->tasks) {
        *ret = x->task[at].rule;
        json_decref(schema);
        return BT_OK;
    }
    if (at == UINT32_MAX || !bt_syntax_grow(&x->task, &x->task_cap, x->tasks, sizeof *x->task)) {
        json_decref(schema);
        return bt_fail(x->f, BT_ENOMEM, "a schema");
    }
    const uint32_t rule = bt_syntax_rule(x->s, "a part of the schema");
    x->task[x->tasks++] = (task){schema, rule};
    *ret = rule;
    return rule ? BT_OK : bt_fail(x->f, BT_ELIMIT, "a schema of over %d parts", BT_PROGRAM_RULES);
}

/* A node that is the schema's texts. */
static bt_err part(uint32_t *ret, compiler *x, json_t *schema)
{
    uint32_t rule;
    *ret = BT_SYNTAX_EMPTY;
    const bt_err e = rule_of(&rule, x, json_incref(schema));
    if (e == BT_OK) *ret = call(x, rule);
    return e;
}

/* ---- references and joined parts ------------------------------------------------------------------ */
/* The schema that #/a/b names; NULL: none. */
static json_t *pointed(json_t *at, const char *path)
{
    while (at && *path == '/') {
        char name[256];
        size_t n = 0;
        for (path++; *path && *path != '/' && n + 1 < sizeof name; path++) {
            char c = *path;
            if (c == '~' && (path[1] == '0' || path[1] == '1')) c = *++path == '0' ? '~' : '/';
            name[n++] = c;
        }
        name[n] = '\0';
        char *end;
        const unsigned long i = strtoul(name, &end, 10);
        at = json_is_array(at) ? (*end || n == 0 ? NULL : json_array_get(at, i)) : json_object_get(at, name);
    }
    return *path ? NULL : at;
}

static bool says_nothing_beside(json_t *schema, const char *keyword)
{
    const char *name;
    json_t *value;
    json_object_foreach(schema, name, value)
        if (strcmp(name, keyword) != 0 && !bt_schema_is_note(name)) return false;
    return true;
}

static bt_err follow_ref(json_t **ret, compiler *x, json_t *schema)
{
    json_t *ref = json_object_get(schema, "$ref");
    const char *path = json_string_value(ref);
    json_t *to = path && path[0] == '#' ? pointed(x->root, path + 1) : NULL;
    if (!json_is_object(to) && !json_is_boolean(to))
        return bt_fail(x->f, BT_EARG, "'$ref' to '%.100s', which is not in the schema",
                       path ? path : "no text");
    *ret = to;
    return BT_OK;
}

static bt_err flatten(json_t **ret, compiler *x, json_t *schema, size_t level);

static json_t *without(json_t *schema, const char *keyword)
{
    json_t *rest = json_copy(schema);
    if (rest) (void)json_object_del(rest, keyword);
    return rest;
}

/* a and b in one, both flattened first. */
static bt_err join_parts(json_t **ret, compiler *x, json_t *a, json_t *b, size_t level)
{
    json_t *fa = NULL, *fb = NULL;
    bt_err e = flatten(&fa, x, a, level + 1);
    if (e == BT_OK) e = flatten(&fb, x, b, level + 1);
    if (e == BT_OK) e = bt_schema_merge(ret, fa, fb, x->f);
    json_decref(fa);
    json_decref(fb);
    return e;
}

/* A schema without $ref and allOf at its top; the caller's. Recursion ends at BT_SCHEMA_LEVELS. */
static bt_err flatten(json_t **ret, compiler *x, json_t *schema, size_t level)
{
    json_t *all = json_object_get(schema, "allOf"), *to = NULL, *v;
    size_t i;
    bt_err e = BT_OK;
    if (level > BT_SCHEMA_LEVELS)
        return bt_fail(x->f, BT_ELIMIT, "over %d of '$ref' and 'allOf' in one another", BT_SCHEMA_LEVELS);
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return bt_fail(x->f, BT_EARG, "a schema that is no object");
    if (json_object_get(schema, "$ref")) {
        json_t *rest = without(schema, "$ref");
        e = follow_ref(&to, x, schema);
        if (e == BT_OK) e = join_parts(ret, x, to, rest, level);
        json_decref(rest);
        return e;
    }
    if (!all) {
        *ret = json_incref(schema);
        return BT_OK;
    }
    if (!json_is_array(all)) return bt_fail(x->f, BT_EARG, "'allOf' is no list");
    json_t *sum = without(schema, "allOf");
    json_array_foreach(all, i, v) {
        json_t *next = NULL;
        e = join_parts(&next, x, sum, v, level);
        if (e < 0) break;
        json_decref(sum);
        sum = next;
    }
    if (e == BT_OK) *ret = sum;
    else json_decref(sum);
    return e;
}

static bt_err alternatives(uint32_t *ret, compiler *x, json_t *schema, const char *keyword)
{
    json_t *list = json_object_get(schema, keyword), *rest = without(schema, keyword), *v;
    const bool is_one = strcmp(keyword, "oneOf") == 0;
    size_t i;
    bt_err e = json_is_array(list) && rest ? BT_OK : bt_fail(x->f, BT_EARG, "'%s' is no list", keyword);
    json_t *parts = json_array();
    *ret = bt_syntax_never(x->s);
    json_array_foreach(list, i, v) {
        json_t *one = NULL;
        uint32_t rule = 0;
        if (e < 0) break;
        /* Without anything beside it a part is itself, so that recursion ends. */
        const bool is_alone = says_nothing_beside(schema, keyword) && !is_one;
        if (is_alone) one = json_incref(v);
        else e = join_parts(&one, x, rest, v, 0);
        for (size_t k = 0; e == BT_OK && is_one && k < i; k++)
            if (!bt_schema_are_apart(json_array_get(parts, k), one))
                e = bt_fail(x->f, BT_EARG, "'oneOf' whose parts %zu and %zu may fit at once is not supported",
                            k, i);
        (void)json_array_append(parts, one);
        if (e == BT_OK) e = rule_of(&rule, x, json_incref(one));
        json_decref(one);
        if (e == BT_OK) bt_syntax_spread(x->s, rule);
        if (e == BT_OK) *ret = bt_syntax_either(x->s, *ret, call(x, rule));
    }
    json_decref(parts);
    json_decref(rest);
    return e;
}

/* ---- objects and arrays --------------------------------------------------------------------------- */
static bool is_required(json_t *required, const char *name)
{
    json_t *v;
    size_t i;
    json_array_foreach(required, i, v)
        if (json_is_string(v) && strcmp(json_string_value(v), name) == 0) return true;
    return false;
}

/* Declared properties, and then those that are required alone, whose schema is that of additional ones. */
static bt_err all_properties(json_t **ret, compiler *x, json_t *schema, json_t *rest)
{
    json_t *properties = json_object_get(schema, "properties"),
           *required = json_object_get(schema, "required"), *v;
    size_t i;
    if (properties && !json_is_object(properties)) return bt_fail(x->f, BT_EARG, "'properties' is no object");
    if (required && !json_is_array(required)) return bt_fail(x->f, BT_EARG, "'required' is no list");
    json_t *all = properties ? json_copy(properties) : json_object();
    json_array_foreach(required, i, v) {
        const char *name = json_string_value(v);
        if (!name) {
            json_decref(all);
            return bt_fail(x->f, BT_EARG, "'required' has a name that is no text");
        }
        if (!json_object_get(all, name)) (void)json_object_set(all, name, rest);
    }
    *ret = all;
    return BT_OK;
}

static bt_err property(uint32_t *ret, compiler *x, const char *name, json_t *schema)
{
    uint32_t value;
    json_t *key = json_string(name);
    char *quoted = key ? json_dumps(key, JSON_ENCODE_ANY) : NULL;
    bt_err e = quoted ? part(&value, x, schema) : bt_fail(x->f, BT_ENOMEM, "a key");
    if (e == BT_OK) *ret = member_of(x, text(x, quoted), value);
    free(quoted);
    json_decref(key);
    return e;
}

/* Members from behind the last to before the first: `more` is all from the one at hand on where one stands
 * before it, `first` where none does. */
static bt_err object(uint32_t *ret, compiler *x, json_t *schema)
{
    json_t *rest = json_object_get(schema, "additionalProperties"), *all = NULL,
           *required = json_object_get(schema, "required");
    json_t *otherwise = json_object_get(schema, "properties") ? json_false() : json_true();
    if (!rest) rest = otherwise;
    bt_err e = all_properties(&all, x, schema, rest);
    if (e < 0) return e;
    const size_t n = json_object_size(all);
    const char **name = calloc(n + 1, sizeof *name);
    uint32_t first = BT_SYNTAX_EMPTY, more = BT_SYNTAX_EMPTY, one;
    bool has_first = false, is_empty_in = true;
    size_t i = 0;
    for (void *it = json_object_iter(all); name && it; it = json_object_iter_next(all, it))
        name[i++] = json_object_iter_key(it);
    if (!name) e = bt_fail(x->f, BT_ENOMEM, "an object");
    if (e == BT_OK && !json_is_false(rest)) {
        e = part(&one, x, rest);
        if (e == BT_OK) {
            one = member_of(x, bt_schema_other_key(x->s, all), one);
            first = listed(x, one);
            more = bt_syntax_repeat(x->s, bt_syntax_join(x->s, x->comma, one), 0, BT_SYNTAX_NO_END);
            has_first = true;
        }
    }
    while (e == BT_OK && i-- > 0) {
        json_t *value = json_object_get(all, name[i]);
        const bool must = is_required(required, name[i]);
        if (!must && json_is_false(value)) continue;
        e = property(&one, x, name[i], value);
        if (e < 0) break;
        const uint32_t begin = bt_syntax_join(x->s, one, more);
        first = has_first && !must ? bt_syntax_either(x->s, begin, first) : begin;
        has_first = true;
        is_empty_in = is_empty_in && !must;
        const uint32_t next = bt_syntax_join(x->s, x->comma, one);
        more = bt_syntax_join(x->s, must ? next : maybe(x, next), more);
    }
    *ret = is_empty_in ? within(x, "{", BT_SYNTAX_EMPTY, "}") : bt_syntax_never(x->s);
    if (has_first) *ret = bt_syntax_either(x->s, *ret, within(x, "{", first, "}"));
    free(name);
    json_decref(all);
    json_decref(otherwise);
    return e;
}

/* Items from behind the last: a counted rule ", item" for those that `items` describes, before it
 * prefixItems. */
static bt_err array(uint32_t *ret, compiler *x, json_t *schema)
{
    json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    uint32_t min, max, one = BT_SYNTAX_EMPTY, more = BT_SYNTAX_EMPTY, first = BT_SYNTAX_EMPTY, rule = 0;
    const uint32_t before = (uint32_t)json_array_size(prefix);
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        return bt_fail(x->f, BT_EARG, "'uniqueItems' is not supported");
    if (json_is_array(items)) return bt_fail(x->f, BT_EARG, "'items' as a list is not supported");
    bt_err e = bt_schema_count(&min, schema, "minItems", 0, x->f);
    if (e == BT_OK) e = bt_schema_count(&max, schema, "maxItems", BT_SYNTAX_NO_END, x->f);
    if (e < 0) return e;
    if (json_is_false(items) && max > before) max = before;
    *ret = bt_syntax_never(x->s);
    if (max < min) return BT_OK;
    bool has_first = false; /* of an array with an item at hand */
    if (max > before) {
        e = items ? part(&one, x, items) : BT_OK;
        if (!items) one = call(x, x->any);
        rule = bt_syntax_rule(x->s, "a further item");
        bt_syntax_define(x->s, rule, bt_syntax_join(x->s, x->comma, one));
        const uint32_t least = min > before ? min - before : 0;
        const uint32_t most = max == BT_SYNTAX_NO_END ? max : max - before;
        more = bt_syntax_call(x->s, rule, least, most);
        first = bt_syntax_join(x->s, one,
                               bt_syntax_call(x->s, rule, least ? least - 1 : 0,
                                              most == BT_SYNTAX_NO_END ? most : most - 1));
        has_first = true;
    }
    for (uint32_t i = before < max ? before : max; e == BT_OK && i-- > 0;) {
        e = part(&one, x, json_array_get(prefix, i));
        if (e < 0) break;
        first = bt_syntax_join(x->s, one, more);
        has_first = true;
        const uint32_t next = bt_syntax_join(x->s, bt_syntax_join(x->s, x->comma, one), more);
        more = min > i ? next : maybe(x, next);
    }
    if (min == 0) *ret = within(x, "[", BT_SYNTAX_EMPTY, "]");
    if (has_first) *ret = bt_syntax_either(x->s, *ret, within(x, "[", first, "]"));
    return e;
}

/* ---- one schema ----------------------------------------------------------------------------------- */
static bt_err check_keywords(compiler *x, json_t *schema)
{
    static const char *const known[] = {"type",
                                        "enum",
                                        "const",
                                        "anyOf",
                                        "oneOf",
                                        "allOf",
                                        "$ref",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "items",
                                        "prefixItems",
                                        "minItems",
                                        "maxItems",
                                        "uniqueItems",
                                        "pattern",
                                        "format",
                                        "minLength",
                                        "maxLength",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum"};
    const char *name;
    json_t *value;
    json_object_foreach(schema, name, value) {
        bool is_known = bt_schema_is_note(name);
        for (size_t i = 0; !is_known && i < sizeof known / sizeof *known; i++)
            is_known = strcmp(known[i], name) == 0;
        if (!is_known) return bt_fail(x->f, BT_EARG, "'%.60s' is not supported", name);
    }
    return BT_OK;
}

static bt_err of_type(uint32_t *ret, compiler *x, json_t *schema, const char *type)
{
    if (strcmp(type, "object") == 0) return object(ret, x, schema);
    if (strcmp(type, "array") == 0) return array(ret, x, schema);
    if (strcmp(type, "string") == 0)
        return bt_schema_string(ret, x->s, schema, x->any_string, x->any_char, x->f);
    if (strcmp(type, "integer") == 0) return bt_schema_integer(ret, x->s, schema, x->f);
    if (strcmp(type, "number") == 0) return bt_schema_number(ret, x->s, schema, x->f);
    *ret = text(x, "null");
    if (strcmp(type, "null") == 0) return BT_OK;
    *ret = bt_syntax_either(x->s, text(x, "true"), text(x, "false"));
    if (strcmp(type, "boolean") == 0) return BT_OK;
    return bt_fail(x->f, BT_EARG, "the type '%.40s' is unknown", type);
}

/* The type that keywords speak of, where there is none; NULL: any value. */
static const char *type_by_keywords(json_t *schema)
{
    static const char *const of[][2] = {
        {"properties", "object"},
        {"required", "object"},
        {"additionalProperties", "object"},
        {"items", "array"},
        {"prefixItems", "array"},
        {"minItems", "array"},
        {"maxItems", "array"},
        {"uniqueItems", "array"},
        {"pattern", "string"},
        {"format", "string"},
        {"minLength", "string"},
        {"maxLength", "string"},
        {"minimum", "number"},
        {"maximum", "number"},
        {"exclusiveMinimum", "number"},
        {"exclusiveMaximum", "number"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (json_object_get(schema, of[i][0])) return of[i][1];
    return NULL;
}

/* const or enum: those values that the type allows; other keywords beside them are not looked at, but
 * refused. */
static bt_err constants(uint32_t *ret, compiler *x, json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *type = json_object_get(schema, "type"), *v, *t;
    json_t *list = one ? json_pack("[O]", one) : json_incref(json_object_get(schema, "enum"));
    json_t *types = !type || json_is_array(type) ? json_incref(type) : json_pack("[O]", type);
    const char *name;
    size_t i, k;
    bt_err e = json_is_array(list) ? BT_OK : bt_fail(x->f, BT_EARG, "'enum' is no list");
    json_object_foreach(schema, name, v)
        if (e == BT_OK && !bt_schema_is_note(name) && strcmp(name, "type") != 0 &&
            strcmp(name, one ? "const" : "enum") != 0)
            e = bt_fail(x->f, BT_EARG, "'%.40s' beside '%s' is not supported", name, one ? "const" : "enum");
    *ret = bt_syntax_never(x->s);
    json_array_foreach(list, i, v) {
        bool fits = !types;
        json_array_foreach(types, k, t) fits |= json_is_string(t) && bt_schema_is_of(v, json_string_value(t));
        if (e < 0 || !fits) continue;
        char *dump = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        if (!dump) e = bt_fail(x->f, BT_ENOMEM, "a constant");
        else *ret = bt_syntax_either(x->s, *ret, text(x, dump));
        free(dump);
    }
    json_decref(list);
    json_decref(types);
    return e;
}

static bt_err make(uint32_t *ret, compiler *x, json_t *schema)
{
    json_t *type = json_object_get(schema, "type"), *v, *flat = NULL;
    size_t i;
    uint32_t one, rule;
    bt_err e = check_keywords(x, schema);
    if (e < 0) return e;
    *ret = json_is_true(schema) ? call(x, x->any) : bt_syntax_never(x->s);
    if (json_is_boolean(schema)) return BT_OK;
    if (!json_is_object(schema)) return bt_fail(x->f, BT_EARG, "a schema that is no object");
    if (json_object_get(schema, "$ref") && says_nothing_beside(schema, "$ref")) {
        e = follow_ref(&v, x, schema);
        return e == BT_OK ? part(ret, x, v) : e;
    }
    if (json_object_get(schema, "$ref") || json_object_get(schema, "allOf")) {
        e = flatten(&flat, x, schema, 0);
        if (e == BT_OK) e = rule_of(&rule, x, flat);
        if (e == BT_OK) *ret = call(x, rule);
        return e;
    }
    if (json_object_get(schema, "anyOf")) return alternatives(ret, x, schema, "anyOf");
    if (json_object_get(schema, "oneOf")) return alternatives(ret, x, schema, "oneOf");
    if (json_object_get(schema, "const") || json_object_get(schema, "enum")) return constants(ret, x, schema);
    const char *guess = type_by_keywords(schema);
    if (json_is_string(type)) return of_type(ret, x, schema, json_string_value(type));
    if (!type) {
        if (guess) return of_type(ret, x, schema, guess);
        *ret = call(x, x->any);
        return BT_OK;
    }
    if (!json_is_array(type)) return bt_fail(x->f, BT_EARG, "'type' is neither a text nor a list");
    json_array_foreach(type, i, v) {
        if (!json_is_string(v)) return bt_fail(x->f, BT_EARG, "'type' has an item that is no text");
        e = of_type(&one, x, schema, json_string_value(v));
        if (e < 0) return e;
        *ret = bt_syntax_either(x->s, *ret, one);
    }
    return BT_OK;
}

static uint32_t framed(compiler *x, uint32_t node, const bt_schema_frame *frame)
{
    bt_syntax *s = x->s;
    node = bt_syntax_join(s, text(x, frame->before), bt_syntax_join(s, node, text(x, frame->behind)));
    if (!frame->is_many) return node;
    const uint32_t more = bt_syntax_join(s, text(x, frame->between), node);
    return bt_syntax_join(s, node, bt_syntax_repeat(s, more, 0, BT_SYNTAX_NO_END));
}

static bt_err compile(bt_buf *ret, json_t *schema, const bt_schema_frame *frame, bt_fault *fault)
{
    compiler x = {.root = schema, .f = fault};
    uint32_t rule, node;
    bt_err e = bt_syntax_new(&x.s, fault);
    if (e < 0) return e;
    define_basics(&x);
    if (!schema) {
        bt_syntax_define(x.s, 0, any_object(&x));
    } else {
        e = rule_of(&rule, &x, json_incref(schema));
        if (e == BT_OK) bt_syntax_define(x.s, 0, framed(&x, call(&x, rule), frame));
    }
    while (e == BT_OK && x.done < x.tasks) {
        const task t = x.task[x.done++];
        e = make(&node, &x, t.schema);
        if (e == BT_OK) bt_syntax_define(x.s, t.rule, node);
    }
    if (e == BT_OK) e = bt_syntax_assemble(ret, x.s, fault);
    for (size_t i = 0; i < x.tasks; i++) json_decref(x.task[i].schema);
    free(x.task);
    bt_auto_map_done(&x.rule_of);
    bt_syntax_free(x.s);
    return e;
}

bt_err bt_schema_compile(bt_buf *ret, json_t *schema, bt_fault *fault)
{
    return compile(ret, schema, &(bt_schema_frame){"", "", "", false}, fault);
}

bt_err bt_schema_compile_framed(bt_buf *ret, json_t *schema, const bt_schema_frame *frame, bt_fault *fault)
{
    return compile(ret, schema, frame, fault);
}

bt_err bt_schema_any_object(bt_buf *ret, bt_fault *fault) { return compile(ret, NULL, NULL, fault); }
