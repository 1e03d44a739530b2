/* The table of known models: strict reading of its one format. */
#include "model/known.h"
#include "base/buf.h"
#include "base/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char built_in[] =
#include "model/models.json.h"
    ;

enum { MAX_FILE_NAME = 200, MAX_FILE_PATH = 255, SHA256_DIGITS = 64 };
static const uint64_t MAX_BYTES = UINT64_C(1) << 50;

/* Kinds of text. */
typedef enum kind { TEXT, NAME, FILE_NAME, FILE_PATH, SHA256 } kind;
static const char *const kind_words[] = {
    [TEXT] = "1 to 127 printable ASCII characters",
    [NAME] = "1 to 63 small letters, digits, '.', '-' and '_'",
    [FILE_NAME] = "a file's name without folders",
    [FILE_PATH] = "a path that leads down",
    [SHA256] = "64 hexadecimal digits in small letters",
};

static bool is_of(const char *s, size_t n, const char *also, bool has_capitals)
{
    for (size_t i = 0; i < n; i++) {
        const char c = s[i];
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                              (has_capitals && c >= 'A' && c <= 'Z') || (c && strchr(also, c));
        if (!is_plain) return false;
    }
    return n > 0;
}

static bool is_file_name(const char *s, size_t n)
{
    return n <= MAX_FILE_NAME && is_of(s, n, ".-_+", true) && s[0] != '.';
}

bool bt_known_is_file_name(const char *text) { return is_file_name(text, strlen(text)); }

bool bt_known_is_file_path(const char *text)
{
    if (strlen(text) > MAX_FILE_PATH) return false;
    for (;; text++) {
        const size_t n = strcspn(text, "/");
        if (!is_file_name(text, n)) return false;
        text += n;
        if (!*text) return true;
    }
}

static bool is_kind(const char *s, size_t n, kind k)
{
    if (k == SHA256) return n == SHA256_DIGITS && strspn(s, "0123456789abcdef") == n;
    if (k == FILE_NAME) return is_file_name(s, n) && n <= BT_KNOWN_MAX_TEXT;
    if (k == FILE_PATH) return bt_known_is_file_path(s);
    if (k == NAME) return n <= BT_KNOWN_MAX_NAME && is_of(s, n, ".-_", false) && s[0] != '.' && s[0] != '-';
    for (size_t i = 0; i < n; i++)
        if (s[i] < ' ' || s[i] > '~') return false;
    return n > 0 && n <= BT_KNOWN_MAX_TEXT;
}

static bt_err read_text(const char **ret, const json_t *o, const char *field, kind k, bool is_needed,
                        bt_fault *fault)
{
    const json_t *v = json_object_get(o, field);
    if (!v && !is_needed) return BT_OK;
    const char *s = json_string_value(v);
    if (!s || json_string_length(v) != strlen(s) || !is_kind(s, strlen(s), k))
        return bt_fail(fault, BT_EFORMAT, "field '%s': must be %s", field, kind_words[k]);
    *ret = s;
    return BT_OK;
}

static bt_err read_bytes(uint64_t *ret, const json_t *o, bt_fault *fault)
{
    const json_t *v = json_object_get(o, "bytes");
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 1 || (uint64_t)n > MAX_BYTES)
        return bt_fail(fault, BT_EFORMAT, "field 'bytes': must be a whole number from 1 to 2^50");
    *ret = (uint64_t)n;
    return BT_OK;
}

/* Every field is one of those; the list ends with NULL. */
static bt_err check_fields(json_t *o, const char *const *fields, bt_fault *fault)
{
    const char *key;
    json_t *value;
    if (!json_is_object(o)) return bt_fail(fault, BT_EFORMAT, "it must be an object");
    json_object_foreach(o, key, value) {
        size_t i = 0;
        while (fields[i] && strcmp(fields[i], key) != 0) i++;
        if (!fields[i])
            return is_kind(key, strlen(key), TEXT)
                       ? bt_fail(fault, BT_EFORMAT, "field '%.40s': there is no such field", key)
                       : bt_fail(fault, BT_EFORMAT, "a field has a name that is not %s", kind_words[TEXT]);
    }
    return BT_OK;
}

/* A wheel is named NAME-VERSION-TAGS.whl. */
static bool is_wheel(const char *s)
{
    const size_t n = strlen(s);
    const char *dash = strchr(s, '-');
    return n > 4 && strcmp(s + n - 4, ".whl") == 0 && dash && dash > s && strchr(dash + 1, '-') > dash + 1;
}

static bt_err read_part(bt_known_part *p, json_t *o, bt_fault *fault)
{
    static const char *const fields[] = {"wheel", "member", "bytes", "sha256", NULL};
    bt_err e = check_fields(o, fields, fault);
    if (e == BT_OK) e = read_text(&p->wheel, o, "wheel", FILE_NAME, true, fault);
    if (e == BT_OK && !is_wheel(p->wheel))
        e = bt_fail(fault, BT_EFORMAT, "field 'wheel': must have the form NAME-VERSION-TAGS.whl");
    if (e == BT_OK) e = read_text(&p->member, o, "member", FILE_PATH, true, fault);
    if (e == BT_OK) e = read_bytes(&p->bytes, o, fault);
    return e == BT_OK ? read_text(&p->sha256, o, "sha256", SHA256, true, fault) : e;
}

static bt_err read_parts(bt_known *m, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    bt_fault why = {""};
    if (n < 1 || n > BT_KNOWN_MAX_PARTS)
        return bt_fail(fault, BT_EFORMAT, "field 'parts': must be a list of 1 to %d wheels",
                       BT_KNOWN_MAX_PARTS);
    for (size_t i = 0; i < n; i++) {
        if (read_part(&m->part[i], json_array_get(list, i), &why) < 0)
            return bt_fail(fault, BT_EFORMAT, "part %zu: %.180s", i + 1, why.text);
        for (size_t k = 0; k < i; k++)
            if (strcmp(m->part[k].wheel, m->part[i].wheel) == 0)
                return bt_fail(fault, BT_EFORMAT, "parts %zu and %zu are the same wheel", k + 1, i + 1);
    }
    m->parts = n;
    return BT_OK;
}

static bt_err read_names(bt_known *m, const json_t *o, bt_fault *fault)
{
    const json_t *aliases = json_object_get(o, "aliases");
    const size_t n = json_array_size(aliases);
    const char *file = NULL;
    bt_err e = read_text(&m->name, o, "name", NAME, true, fault);
    if (e < 0) return e;
    if (aliases && (!json_is_array(aliases) || n > BT_KNOWN_MAX_ALIASES))
        return bt_fail(fault, BT_EFORMAT, "field 'aliases': must be a list of at most %d names",
                       BT_KNOWN_MAX_ALIASES);
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(aliases, i));
        if (!s || !is_kind(s, strlen(s), NAME))
            return bt_fail(fault, BT_EFORMAT, "field 'aliases': each must be %s", kind_words[NAME]);
        m->alias[i] = s;
    }
    if ((e = read_text(&file, o, "file", FILE_NAME, false, fault)) < 0) return e;
    if (file && (strlen(file) < 6 || strcmp(file + strlen(file) - 5, ".gguf") != 0))
        return bt_fail(fault, BT_EFORMAT, "field 'file': must end with .gguf");
    snprintf(m->file, sizeof m->file, "%s%s", file ? file : m->name, file ? "" : ".gguf");
    return BT_OK;
}

static bt_err read_model(bt_known *m, json_t *o, bt_fault *fault)
{
    static const char *const fields[] = {"name",         "aliases", "file",  "by",     "licence", "terms",
                                         "architecture", "weights", "bytes", "sha256", "parts",   NULL};
    bt_err e = check_fields(o, fields, fault);
    if (e == BT_OK) e = read_names(m, o, fault);
    if (e == BT_OK) e = read_text(&m->by, o, "by", TEXT, true, fault);
    if (e == BT_OK) e = read_text(&m->licence, o, "licence", TEXT, true, fault);
    if (e == BT_OK) e = read_text(&m->terms, o, "terms", TEXT, false, fault);
    if (e == BT_OK) e = read_text(&m->architecture, o, "architecture", TEXT, true, fault);
    if (e == BT_OK) e = read_text(&m->weights, o, "weights", TEXT, true, fault);
    if (e == BT_OK) e = read_bytes(&m->bytes, o, fault);
    if (e == BT_OK) e = read_text(&m->sha256, o, "sha256", SHA256, true, fault);
    return e == BT_OK ? read_parts(m, json_object_get(o, "parts"), fault) : e;
}

static bool answers_to(const bt_known *m, const char *name)
{
    if (strcmp(m->name, name) == 0) return true;
    for (size_t i = 0; i < BT_KNOWN_MAX_ALIASES && m->alias[i]; i++)
        if (strcmp(m->alias[i], name) == 0) return true;
    return false;
}

/* Two models with one name, or one file, would be each other. */
static bt_err check_unlike(const bt_known_table *t, const bt_known *m, bt_fault *fault)
{
    for (size_t i = 0; i < t->count; i++) {
        const bt_known *o = &t->model[i];
        bool is_like = answers_to(o, m->name) || strcmp(o->file, m->file) == 0;
        for (size_t k = 0; k < BT_KNOWN_MAX_ALIASES && m->alias[k]; k++)
            is_like = is_like || answers_to(o, m->alias[k]);
        if (is_like) return bt_fail(fault, BT_EFORMAT, "it shares a name or its file with %s", o->name);
    }
    return BT_OK;
}

static bt_err read_models(bt_known_table *t, const json_t *list, bt_fault *fault)
{
    const size_t n = json_array_size(list);
    if (n < 1 || n > BT_KNOWN_MAX_MODELS)
        return bt_fail(fault, BT_EFORMAT, "field 'models': must be a list of 1 to %d models",
                       BT_KNOWN_MAX_MODELS);
    t->model = calloc(n, sizeof *t->model);
    if (!t->model) return bt_fail(fault, BT_ENOMEM, "out of memory for a table of models");
    for (size_t i = 0; i < n; i++) {
        bt_fault why = {""};
        if (read_model(&t->model[i], json_array_get(list, i), &why) < 0 ||
            check_unlike(t, &t->model[i], &why) < 0)
            return bt_fail(fault, BT_EFORMAT, "model %zu: %.200s", i + 1, why.text);
        t->count = i + 1;
    }
    return BT_OK;
}

bt_err bt_known_parse(bt_known_table *ret, const char *json, size_t len, bt_fault *fault)
{
    static const char *const fields[] = {"models", NULL};
    bt_known_table t = {NULL, 0, NULL};
    json_error_t je;
    if (len > BT_KNOWN_MAX_TABLE_BYTES)
        return bt_fail(fault, BT_ELIMIT, "a table of models has at most %d bytes", BT_KNOWN_MAX_TABLE_BYTES);
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    t.root = root;
    bt_err e = root ? check_fields(root, fields, fault)
                    : bt_fail(fault, BT_EFORMAT, "not JSON: line %d, column %d", je.line, je.column);
    if (e == BT_OK) e = read_models(&t, json_object_get(root, "models"), fault);
    if (e == BT_OK) *ret = t;
    else bt_known_done(&t);
    return e;
}

bt_err bt_known_load(bt_known_table *ret, const char *path, bt_fault *fault)
{
    bt_buf text;
    bt_fault why = {""};
    if (!path) return bt_known_parse(ret, built_in, sizeof built_in - 1, fault);
    bt_buf_init(&text, BT_KNOWN_MAX_TABLE_BYTES);
    bt_err e = bt_file_read(&text, path, fault);
    if (e == BT_OK && (e = bt_known_parse(ret, bt_buf_text(&text), text.len, &why)) < 0)
        (void)bt_fail(fault, e, "%.60s: %.190s", path, why.text);
    bt_buf_done(&text);
    return e;
}

void bt_known_done(bt_known_table *t)
{
    free(t->model);
    json_decref(t->root);
    *t = (bt_known_table){NULL, 0, NULL};
}

const bt_known *bt_known_find(const bt_known_table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (answers_to(&t->model[i], name)) return &t->model[i];
    return NULL;
}
