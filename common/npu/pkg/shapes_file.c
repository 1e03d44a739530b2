/* Lists of shapes from JSON files: network specializations, and enumerated shapes. A file is taken whole or
 * refused; the fault names the place. jansson decides what is JSON. */
#include "npu/pkg/shapes.h"
#include "base/num.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    bt_shapes shapes;
    size_t ctx_tokens, given; /* given: shapes in the file, before equal ones become one */
    bt_fault *fault;
} reader;

/* A member's name as it may stand in a fault: faults reach terminals, which obey control characters. */
static const char *shown(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c < 0x20 || *c > 0x7e) return "?";
    return strlen(name) > 40 ? "?" : name;
}

/* Reads a number from 1 to `most`, or its decimal digits in a string. */
static bt_err whole(uint32_t *ret, const json_t *v, const char *where, const char *field, int most,
                    bt_fault *fault)
{
    int64_t n = -1;
    if (json_is_integer(v)) n = json_integer_value(v);
    else if (json_is_string(v) && bt_num_int(&n, json_string_value(v), 1, most, NULL) < 0) n = -1;
    if (n < 1 || n > most)
        return bt_fail(fault, BT_EFORMAT, "%s: %s must be a whole number from 1 to %d", where, field, most);
    *ret = (uint32_t)n;
    return BT_OK;
}

/* Adds a shape to the list. bt_shapes_arrange drops equal shapes later. */
static bt_err add_shape(reader *r, const char *where, uint32_t seq, uint32_t ctx, uint32_t batch)
{
    bt_shapes *p = &r->shapes;
    if (++r->given > BT_SHAPES_MAX)
        return bt_fail(r->fault, BT_ELIMIT, "%s: shape %zu; at most %d are allowed", where, r->given,
                       BT_SHAPES_MAX);
    if (ctx && seq > ctx)
        return bt_fail(r->fault, BT_EFORMAT, "%s: seq %u does not fit its ctx %u", where, (unsigned)seq,
                       (unsigned)ctx);
    if (ctx > r->ctx_tokens)
        return bt_fail(r->fault, BT_ELIMIT, "%s: ctx %u is beyond the context of %zu tokens", where,
                       (unsigned)ctx, r->ctx_tokens);
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): every field that was read is at least 1 */
    if (batch > BT_SHAPES_MAX_SEQ / seq)
        return bt_fail(r->fault, BT_ELIMIT, "%s: batch_size %u times seq_len %u; a run has at most %d rows",
                       where, (unsigned)batch, (unsigned)seq, BT_SHAPES_MAX_SEQ);
    p->shape[p->all++] = (bt_shape){seq, seq, ctx, batch};
    return BT_OK;
}

/* ---- network specializations ---- */

enum { BATCH, SEQ, CTX, FULL_BATCH, FIELDS };

/* Reads the fields of a row. field[FULL_BATCH]: 0: not given. */
static bt_err read_row(uint32_t field[FIELDS], const json_t *row, const char *where, bt_fault *fault)
{
    static const char *const names[FIELDS] = {"batch_size", "seq_len", "ctx_len", "full_batch_size"};
    const char *key;
    json_t *value;
    if (!json_is_object(row)) return bt_fail(fault, BT_EFORMAT, "%s: must be an object", where);
    json_object_foreach((json_t *)(uintptr_t)row, key, value) {
        int i = 0;
        while (i < FIELDS && strcmp(key, names[i]) != 0) i++;
        if (i == FIELDS)
            return bt_fail(fault, BT_EFORMAT,
                           "%s: '%s' is no field; those are batch_size, seq_len, ctx_len, full_batch_size",
                           where, shown(key));
    }
    for (int i = 0; i < FIELDS; i++) {
        const int most = i == BATCH || i == FULL_BATCH ? BT_SHAPES_MAX_BATCH : BT_SHAPES_MAX_SEQ;
        value = json_object_get(row, names[i]);
        field[i] = 0;
        if (!value && i == FULL_BATCH) continue;
        if (!value) return bt_fail(fault, BT_EFORMAT, "%s: %s is missing", where, names[i]);
        const bt_err e = whole(&field[i], value, where, names[i], most, fault);
        if (e < 0) return e;
    }
    return BT_OK;
}

/* The batch of a row. In a decode row batch_size and full_batch_size are equal, or one of them is 1. */
static bt_err batch_of(uint32_t *ret, const uint32_t f[FIELDS], const char *where, bt_fault *fault)
{
    const bool is_decode = f[SEQ] == 1;
    if (is_decode && f[FULL_BATCH] > 1 && f[BATCH] > 1 && f[BATCH] != f[FULL_BATCH])
        return bt_fail(fault, BT_EFORMAT,
                       "%s: batch_size %u and full_batch_size %u; a decode row (seq_len 1) has one batch",
                       where, (unsigned)f[BATCH], (unsigned)f[FULL_BATCH]);
    *ret = is_decode && f[FULL_BATCH] > f[BATCH] ? f[FULL_BATCH] : f[BATCH];
    return BT_OK;
}

static bt_err read_rows(reader *r, const json_t *root)
{
    const json_t *rows = root;
    if (json_is_object(root)) {
        rows = json_object_get(root, "specializations");
        if (!rows || json_object_size(root) != 1)
            return bt_fail(r->fault, BT_EFORMAT,
                           "the object of a network specialization has one member, 'specializations'");
    }
    const size_t n = json_array_size(rows);
    if (!json_is_array(rows) || n < 1)
        return bt_fail(r->fault, BT_EFORMAT, "not an array of specializations, or an empty one");
    for (size_t i = 0; i < n; i++) {
        char where[32];
        uint32_t f[FIELDS], batch = 0;
        snprintf(where, sizeof where, "row %zu", i + 1);
        bt_err e = read_row(f, json_array_get(rows, i), where, r->fault);
        if (e == BT_OK) e = batch_of(&batch, f, where, r->fault);
        if (e == BT_OK) e = add_shape(r, where, f[SEQ], f[CTX], batch);
        if (e < 0) return e;
    }
    return BT_OK;
}

/* ---- enumerated shapes ---- */

/* Reads one shape of an input: a length, or [seq, ctx]; ctx 0: not given. */
static bt_err read_entry(uint32_t *seq, uint32_t *ctx, const json_t *v, const char *where, bt_fault *fault)
{
    *ctx = 0;
    const int most = BT_SHAPES_MAX_SEQ;
    if (!json_is_array(v)) return whole(seq, v, where, "a length", most, fault);
    if (json_array_size(v) != 2) return bt_fail(fault, BT_EFORMAT, "%s: must be a pair [seq, ctx]", where);
    const bt_err e = whole(seq, json_array_get(v, 0), where, "seq", most, fault);
    return e < 0 ? e : whole(ctx, json_array_get(v, 1), where, "ctx", most, fault);
}

static bt_err check_inputs(const json_t *inputs, bt_fault *fault)
{
    const char *name, *first = NULL;
    json_t *list;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)inputs, name, list) {
        if (!json_is_array(list))
            return bt_fail(fault, BT_EFORMAT, "input '%s': must be an array of shapes", shown(name));
        if (first && json_array_size(list) != n)
            return bt_fail(fault, BT_EFORMAT,
                           "input '%s' has %zu shapes and '%s' has %zu; they are matched by index",
                           shown(name), json_array_size(list), shown(first), n);
        if (!first) first = name;
        n = json_array_size(list);
    }
    return first ? BT_OK : bt_fail(fault, BT_EFORMAT, "the file names no input");
}

/* Makes one shape of the i-th shapes of all inputs: they have one seq, and one ctx among those that give a
 * ctx. */
static bt_err match_inputs(uint32_t *seq, uint32_t *ctx, const json_t *inputs, size_t i, bt_fault *fault)
{
    const char *name;
    json_t *list;
    *seq = *ctx = 0;
    json_object_foreach((json_t *)(uintptr_t)inputs, name, list) {
        char where[96];
        uint32_t s, c;
        snprintf(where, sizeof where, "input '%s', shape %zu", shown(name), i + 1);
        const bt_err e = read_entry(&s, &c, json_array_get(list, i), where, fault);
        if (e < 0) return e;
        if ((*seq && s != *seq) || (*ctx && c && c != *ctx))
            return bt_fail(fault, BT_EFORMAT,
                           "%s: not the same as in the inputs before it; shapes are matched by index", where);
        *seq = s;
        if (c) *ctx = c;
    }
    return BT_OK;
}

static bt_err read_enumerated(reader *r, const json_t *root)
{
    const bool one = json_is_array(root);
    bt_err e = BT_OK;
    if (!one && !json_is_object(root))
        return bt_fail(r->fault, BT_EFORMAT, "neither an array of shapes nor an object of inputs");
    if (!one && (e = check_inputs(root, r->fault)) < 0) return e;
    const size_t n =
        json_array_size(one ? root : json_object_iter_value(json_object_iter((json_t *)(uintptr_t)root)));
    for (size_t i = 0; i < n; i++) {
        char where[32];
        uint32_t seq, ctx;
        snprintf(where, sizeof where, "shape %zu", i + 1);
        e = one ? read_entry(&seq, &ctx, json_array_get(root, i), where, r->fault)
                : match_inputs(&seq, &ctx, root, i, r->fault);
        if (e != BT_OK) return e;
        if (i > 0 && !ctx != !r->shapes.shape[0].ctx)
            return bt_fail(r->fault, BT_EFORMAT,
                           "%s: has a ctx where the shapes before have none, or none where they have one",
                           where);
        if ((e = add_shape(r, where, seq, ctx, 1)) < 0) return e;
    }
    return n ? BT_OK : bt_fail(r->fault, BT_EFORMAT, "the file has no shape");
}

bt_err bt_shapes_parse_bytes(bt_shapes *ret, const char *text, const char *json, size_t len,
                             size_t ctx_tokens, bt_fault *fault)
{
    bt_fault inner = {""};
    reader r = {.ctx_tokens = ctx_tokens, .fault = &inner};
    json_error_t je;
    bt_err e;
    const bool rows = !strncmp(text, "rows:", 5);
    if ((!rows && strncmp(text, "enumerated:", 11)) || strlen(text) >= sizeof r.shapes.text ||
        ctx_tokens < 1 || ctx_tokens > BT_SHAPES_MAX_SEQ)
        return bt_fail(fault, BT_EARG, "'%.40s' with a context of %zu tokens is no policy of a file", text,
                       ctx_tokens);
    if (len > BT_SHAPES_MAX_FILE_BYTES)
        return bt_fail(fault, BT_ELIMIT, "'%.60s' has %zu bytes; at most %d are allowed", text, len,
                       BT_SHAPES_MAX_FILE_BYTES);
    /* jansson bounds the depth of nesting and refuses NUL characters. */
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    if (!root) {
        for (char *c = je.text; *c; c++)
            if (*c < 0x20 || *c > 0x7e) *c = '?';
        return bt_fail(fault, BT_EFORMAT, "'%.60s', line %d: %.100s", text, je.line, je.text);
    }
    strcpy(r.shapes.text, text);
    e = rows ? read_rows(&r, root) : read_enumerated(&r, root);
    json_decref(root);
    if (e < 0) return bt_fail(fault, e, "'%.60s': %.180s", text, inner.text);
    bt_shapes_arrange(&r.shapes);
    *ret = r.shapes;
    return BT_OK;
}
