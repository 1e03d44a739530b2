/* Lines of keys and fields. Each error names the file, the line and what is allowed. */
#include "gateway/http/key_file.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 12, NEWS = 64 };

const char *const gw_key_roles[GW_KEY_ROLES + 1] = {"client", "metrics", "admin", NULL};

typedef struct reader {
    const char *path;
    size_t line;
    bt_fault *fault;
    gw_key_line *keys;
    size_t len, room;
} reader;

#define FAIL(r, fmt, ...) \
    bt_fail((r)->fault, BT_EFORMAT, "'%s', line %zu: " fmt, (r)->path, (r)->line, __VA_ARGS__)

/* ---- fields ---- */

typedef enum field_id { NAME, ROLE, WEIGHT, REQUESTS, TOKENS, AT_ONCE, CONTEXT, FIELDS } field_id;
static const struct field {
    const char *name;
    uint32_t lo, hi; /* of a number */
} fields[FIELDS] = {
    [NAME] = {"name", 0, 0},
    [ROLE] = {"role", 0, 0},
    [WEIGHT] = {"weight", 1, GW_KEY_MAX_WEIGHT},
    [REQUESTS] = {"requests-per-minute", 1, GW_KEY_MAX_PER_MINUTE},
    [TOKENS] = {"tokens-per-minute", 1, GW_KEY_MAX_PER_MINUTE},
    [AT_ONCE] = {"at-once", 1, GW_KEY_MAX_AT_ONCE},
    [CONTEXT] = {"context", 2, GW_KEY_MAX_CONTEXT},
};

static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
              c == '_' || c == '-'))
            return false;
    }
    return len > 0 && len < GW_KEY_NAME_BYTES;
}

static bt_err read_role(gw_key_role *ret, const reader *r, const char *text, size_t len)
{
    for (int i = 0; i < GW_KEY_ROLES; i++) {
        if (strlen(gw_key_roles[i]) != len || memcmp(gw_key_roles[i], text, len) != 0) continue;
        *ret = (gw_key_role)i;
        return BT_OK;
    }
    return FAIL(r, "role= is client, admin or metrics%s", "");
}

static bt_err read_number(uint32_t *ret, const reader *r, field_id id, const char *text, size_t len)
{
    const struct field *f = &fields[id];
    uint64_t n = 0;
    bool is_good = len > 0 && len <= DIGITS_MAX;
    for (size_t i = 0; is_good && i < len; i++) {
        is_good = text[i] >= '0' && text[i] <= '9';
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    if (!is_good || n < f->lo || n > f->hi)
        return FAIL(r, "%s= is a whole number from %u to %u", f->name, f->lo, f->hi);
    *ret = (uint32_t)n;
    return BT_OK;
}

static bt_err read_field(gw_key_facts *k, const reader *r, field_id id, const char *text, size_t len)
{
    switch (id) {
    case NAME:
        if (!is_name(text, len))
            return FAIL(r, "name= has 1 to %d of A-Z, a-z, 0-9, '.', '_' and '-'", GW_KEY_NAME_BYTES - 1);
        memcpy(k->name, text, len);
        k->name[len] = 0;
        k->is_named = true;
        return BT_OK;
    case ROLE: return read_role(&k->role, r, text, len);
    case WEIGHT: return read_number(&k->weight, r, id, text, len);
    case REQUESTS: return read_number(&k->limits.requests_per_minute, r, id, text, len);
    case TOKENS: return read_number(&k->limits.tokens_per_minute, r, id, text, len);
    case AT_ONCE: return read_number(&k->limits.at_once, r, id, text, len);
    case CONTEXT: return read_number(&k->limits.context_tokens, r, id, text, len);
    case FIELDS: break;
    }
    return BT_OK;
}

/* ---- lines ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* The next word of a line; false: there is none. */
static bool next_word(const char **at, const char *end, const char **ret, size_t *ret_len)
{
    const char *p = *at;
    while (p < end && is_blank(*p)) p++;
    *ret = p;
    while (p < end && !is_blank(*p)) p++;
    *at = p;
    *ret_len = (size_t)(p - *ret);
    return *ret_len > 0;
}

static bt_err read_word(gw_key_facts *k, const reader *r, unsigned *seen, const char *word, size_t len,
                        unsigned number)
{
    for (int i = 0; i < FIELDS; i++) {
        const size_t n = strlen(fields[i].name);
        if (len <= n || word[n] != '=' || memcmp(word, fields[i].name, n) != 0) continue;
        if (*seen & (1U << i)) return FAIL(r, "%s= stands twice", fields[i].name);
        *seen |= 1U << i;
        return read_field(k, r, (field_id)i, word + n + 1, len - n - 1);
    }
    return FAIL(r,
                "word %u is no field; behind a key may stand name=, role=, weight=, requests-per-minute=, "
                "tokens-per-minute=, at-once= and context=",
                number);
}

static bt_err add(reader *r, const gw_key_line *k)
{
    if (r->len == GW_KEYS_MAX)
        return bt_fail(r->fault, BT_ELIMIT, "'%s', line %zu: more than %d keys, the limit", r->path, r->line,
                       GW_KEYS_MAX);
    if (r->len == r->room) {
        gw_key_line *more = realloc(r->keys, (r->room + NEWS) * sizeof *more);
        if (!more) return bt_fail(r->fault, BT_ENOMEM, "out of memory for API keys");
        r->keys = more;
        r->room += NEWS;
    }
    r->keys[r->len++] = *k;
    return BT_OK;
}

static bt_err read_line(reader *r, const char *begin, const char *end)
{
    const char *at = begin, *word;
    size_t len;
    unsigned seen = 0, number = 1;
    gw_key_line k = {.line = r->line, .facts = {.weight = 1}};
    if (begin == end || *begin == '#') return BT_OK;
    for (const char *c = begin; c < end; c++)
        if ((*c < ' ' && *c != '\t') || *c > '~') return FAIL(r, "a key has printable characters only%s", "");
    if (!next_word(&at, end, &k.secret, &k.secret_len)) return BT_OK;
    if (k.secret != begin) return FAIL(r, "a line begins with its key, not with a space%s", "");
    if (k.secret_len > GW_KEY_MAX_BYTES) return FAIL(r, "a key has at most %d characters", GW_KEY_MAX_BYTES);
    while (next_word(&at, end, &word, &len)) {
        const bt_err e = read_word(&k.facts, r, &seen, word, len, ++number);
        if (e < 0) return e;
    }
    return add(r, &k);
}

/* ---- the whole file ---- */

static bool has_fields(const gw_key_line *k)
{
    const gw_key_limits *l = &k->facts.limits;
    return k->facts.name[0] || k->facts.role != GW_KEY_CLIENT || k->facts.weight != 1 ||
           l->requests_per_minute || l->tokens_per_minute || l->at_once || l->context_tokens;
}

static int by_secret(const void *a, const void *b)
{
    const gw_key_line *x = *(const gw_key_line *const *)a, *y = *(const gw_key_line *const *)b;
    const size_t n = x->secret_len < y->secret_len ? x->secret_len : y->secret_len;
    const int c = memcmp(x->secret, y->secret, n);
    if (c != 0) return c;
    if (x->secret_len != y->secret_len) return x->secret_len < y->secret_len ? -1 : 1;
    return x->line < y->line ? -1 : 1;
}

static int by_name(const void *a, const void *b)
{
    const gw_key_line *x = *(const gw_key_line *const *)a, *y = *(const gw_key_line *const *)b;
    const int c = strcmp(x->facts.name, y->facts.name);
    return c != 0 ? c : x->line < y->line ? -1 : 1;
}

static bool is_same_secret(const gw_key_line *a, const gw_key_line *b)
{
    return a->secret_len == b->secret_len && memcmp(a->secret, b->secret, a->secret_len) == 0;
}

/* Repeated keys become empty (secret_len 0). */
static bt_err find_repeated(const reader *r, gw_key_line **sorted)
{
    qsort(sorted, r->len, sizeof(gw_key_line *), by_secret);
    for (size_t i = 1, first = 0; i < r->len; i++) {
        if (!is_same_secret(sorted[first], sorted[i])) {
            first = i;
        } else if (has_fields(sorted[first]) || has_fields(sorted[i])) {
            return bt_fail(r->fault, BT_EFORMAT,
                           "'%s', lines %zu and %zu hold one key; with fields it stands once", r->path,
                           sorted[first]->line, sorted[i]->line);
        } else {
            sorted[i]->secret_len = 0;
        }
    }
    return BT_OK;
}

static void drop_repeated_and_name(reader *r)
{
    size_t len = 0;
    for (size_t i = 0; i < r->len; i++) {
        gw_key_line *k = &r->keys[len];
        if (r->keys[i].secret_len == 0) continue;
        *k = r->keys[i];
        len++;
        if (!k->facts.name[0]) (void)snprintf(k->facts.name, sizeof k->facts.name, "key-%zu", len);
    }
    r->len = len;
}

static bt_err check_names(const reader *r, gw_key_line **sorted)
{
    qsort(sorted, r->len, sizeof(gw_key_line *), by_name);
    for (size_t i = 1; i < r->len; i++)
        if (strcmp(sorted[i - 1]->facts.name, sorted[i]->facts.name) == 0)
            return bt_fail(r->fault, BT_EFORMAT, "'%s', lines %zu and %zu: both keys are called '%s'",
                           r->path, sorted[i - 1]->line, sorted[i]->line, sorted[i]->facts.name);
    return BT_OK;
}

static bt_err check_all(reader *r)
{
    gw_key_line **sorted = r->len ? malloc(r->len * sizeof(gw_key_line *)) : NULL;
    if (r->len == 0) return bt_fail(r->fault, BT_EFORMAT, "'%s' holds no key: write one a line", r->path);
    if (!sorted) return bt_fail(r->fault, BT_ENOMEM, "out of memory for API keys");
    for (size_t i = 0; i < r->len; i++) sorted[i] = &r->keys[i];
    bt_err e = find_repeated(r, sorted);
    if (e == BT_OK) {
        drop_repeated_and_name(r);
        for (size_t i = 0; i < r->len; i++) sorted[i] = &r->keys[i];
        e = check_names(r, sorted);
    }
    free(sorted);
    return e;
}

bt_err gw_key_file_parse(gw_key_line **ret, size_t *ret_len, const char *text, size_t len, const char *path,
                         bt_fault *fault)
{
    reader r = {.path = path, .fault = fault};
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < len;) {
        const char *begin = text + i, *end = memchr(begin, '\n', len - i);
        if (!end) end = text + len;
        i = (size_t)(end - text) + 1;
        r.line++;
        if (end > begin && end[-1] == '\r') end--;
        e = read_line(&r, begin, end);
    }
    if (e == BT_OK) e = check_all(&r);
    if (e < 0) {
        free(r.keys);
        return e;
    }
    *ret = r.keys;
    *ret_len = r.len;
    return BT_OK;
}
