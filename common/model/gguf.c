/* Reads the frame of a GGUF file: header, metadata, tensor table. Files and their parts: gguf_file.c. It
 * guarantees that whatever it hands out lies inside the file; what the values mean is for model.c and the
 * tokeniser. */
#include "model/gguf_private.h"

#include "base/num.h"
#include "model/quant.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- reading with a bound ---- */

typedef struct reader {
    const uint8_t *base;
    size_t len, at;
} reader;

static size_t remaining(const reader *r) { return r->len - r->at; }

static bool take(reader *r, const uint8_t **ret, uint64_t n)
{
    if (n > remaining(r)) return false;
    *ret = r->base + r->at;
    r->at += (size_t)n;
    return true;
}

static bool take32(reader *r, uint32_t *ret)
{
    const uint8_t *p;
    if (!take(r, &p, 4)) return false;
    *ret = bt_get32(p);
    return true;
}

static bool take64(reader *r, uint64_t *ret)
{
    const uint8_t *p;
    if (!take(r, &p, 8)) return false;
    *ret = bt_get64(p);
    return true;
}

static bt_err ended(const reader *r, const char *what, bt_fault *fault)
{
    return bt_fail(fault, BT_EFORMAT, "the file ends inside %s (offset %zu of %zu bytes)", what, r->at,
                   r->len);
}

/* A key or tensor name as a C string of our own. Names go into messages and terminals, so control bytes are
 * refused. */
static bt_err take_name(reader *r, char **ret, size_t max, const char *what, bt_fault *fault)
{
    const size_t at = r->at;
    uint64_t n;
    const uint8_t *p;
    if (!take64(r, &n)) return ended(r, what, fault);
    if (n == 0 || n > max)
        return bt_fail(fault, BT_EFORMAT, "%s at offset %zu has %llu bytes; 1 to %zu are allowed", what, at,
                       (unsigned long long)n, max);
    if (!take(r, &p, n)) return ended(r, what, fault);
    for (size_t i = 0; i < n; i++)
        if (p[i] < 0x20 || p[i] == 0x7f)
            return bt_fail(fault, BT_EFORMAT, "%s at offset %zu contains the control byte 0x%02x", what, at,
                           p[i]);
    char *s = malloc((size_t)n + 1);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory reading %s", what);
    memcpy(s, p, (size_t)n);
    s[n] = 0;
    *ret = s;
    return BT_OK;
}

/* ---- metadata ---- */

static size_t scalar_bytes(uint32_t type)
{
    switch (type) {
    case BT_GGUF_U8:
    case BT_GGUF_I8:
    case BT_GGUF_BOOL: return 1;
    case BT_GGUF_U16:
    case BT_GGUF_I16: return 2;
    case BT_GGUF_U32:
    case BT_GGUF_I32:
    case BT_GGUF_F32: return 4;
    case BT_GGUF_U64:
    case BT_GGUF_I64:
    case BT_GGUF_F64: return 8;
    default: return 0; /* strings, arrays, and numbers that are no type */
    }
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < sizeof names / sizeof *names ? names[type] : "unknown";
}

static bool bools_are_valid(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] > 1) return false;
    return true;
}

static bt_err read_strings(reader *r, const char *key, bt_gguf_array *a, bt_fault *fault)
{
    /* A string takes at least the 8 bytes of its length, so the table is never larger than the file. */
    if (a->count > remaining(r) / 8)
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' claims %zu strings; %zu bytes remain", key, a->count,
                       remaining(r));
    a->data = r->base + r->at;
    a->str_at = calloc(a->count ? a->count : 1, sizeof *a->str_at);
    if (!a->str_at)
        return bt_fail(fault, BT_ENOMEM, "out of memory for the %zu strings of key '%.100s'", a->count, key);
    for (size_t i = 0; i < a->count; i++) {
        uint64_t n;
        const uint8_t *p;
        a->str_at[i] = (size_t)(r->base + r->at - a->data);
        if (!take64(r, &n) || !take(r, &p, n))
            return bt_fail(fault, BT_EFORMAT, "string %zu of key '%.100s' runs past the end of the file", i,
                           key);
    }
    return BT_OK;
}

static bt_err read_array(reader *r, gguf_key *k, bt_fault *fault)
{
    bt_gguf_array *a = &k->array;
    uint32_t type;
    uint64_t count;
    if (!take32(r, &type) || !take64(r, &count)) return ended(r, "an array header", fault);
    if (type == BT_GGUF_ARRAY)
        return bt_fail(fault, BT_EVERSION,
                       "key '%.100s' is an array of arrays, which this build does not read", k->name);
    if (type != BT_GGUF_STRING && !scalar_bytes(type))
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' is an array of the unknown type %u", k->name, type);
    if (count > remaining(r))
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' claims %llu elements; %zu bytes remain", k->name,
                       (unsigned long long)count, remaining(r));
    a->type = (bt_gguf_type)type;
    a->count = (size_t)count;
    if (type == BT_GGUF_STRING) return read_strings(r, k->name, a, fault);
    size_t bytes;
    if (!bt_mul_size(&bytes, a->count, scalar_bytes(type)) || !take(r, &a->data, bytes))
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' claims %llu elements; %zu bytes remain", k->name,
                       (unsigned long long)count, remaining(r));
    if (type == BT_GGUF_BOOL && !bools_are_valid(a->data, a->count))
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' holds a bool that is neither 0 nor 1", k->name);
    return BT_OK;
}

static bt_err read_key(reader *r, gguf_key *k, bt_fault *fault)
{
    bt_err e = take_name(r, &k->name, BT_GGUF_MAX_KEY_BYTES, "a metadata key", fault);
    if (e < 0) return e;
    uint32_t type;
    if (!take32(r, &type)) return ended(r, "a metadata key", fault);
    k->type = (bt_gguf_type)type;
    if (type == BT_GGUF_ARRAY) return read_array(r, k, fault);
    k->val = r->base + r->at;
    const uint8_t *p;
    if (type == BT_GGUF_STRING) {
        uint64_t n;
        if (!take64(r, &n) || !take(r, &p, n))
            return bt_fail(fault, BT_EFORMAT, "the string of key '%.100s' runs past the end of the file",
                           k->name);
        return BT_OK;
    }
    const size_t bytes = scalar_bytes(type);
    if (!bytes) return bt_fail(fault, BT_EFORMAT, "key '%.100s' has the unknown type %u", k->name, type);
    if (!take(r, &p, bytes))
        return bt_fail(fault, BT_EFORMAT, "the value of key '%.100s' runs past the end of the file", k->name);
    if (type == BT_GGUF_BOOL && !bools_are_valid(p, 1))
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' holds a bool that is neither 0 nor 1", k->name);
    return BT_OK;
}

/* ---- sorted lookups ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gguf_index *)a)->name, ((const gguf_index *)b)->name);
}

static bt_err check_unique(gguf_index *x, size_t count, const char *what, bt_fault *fault)
{
    qsort(x, count, sizeof *x, by_name);
    for (size_t i = 1; i < count; i++)
        if (by_name(&x[i - 1], &x[i]) == 0)
            return bt_fail(fault, BT_EFORMAT, "%s '%.100s' appears twice", what, x[i].name);
    return BT_OK;
}

bt_err bt_gguf_index_tensors(bt_gguf *g, bt_fault *fault)
{
    for (size_t i = 0; i < g->tensor_count; i++) g->tensor_index[i] = (gguf_index){g->tensors[i].name, i};
    return check_unique(g->tensor_index, g->tensor_count, "tensor", fault);
}

static const gguf_index *look_up(const gguf_index *x, size_t count, const char *name)
{
    const gguf_index want = {name, 0};
    return count ? bsearch(&want, x, count, sizeof *x, by_name) : NULL;
}

/* ---- tensors ---- */

static bt_err tensor_sizes(bt_gguf_tensor *t, bt_fault *fault)
{
    const bt_quant_info *q = bt_quant_find(t->type);
    if (!q)
        return bt_fail(fault, BT_EVERSION, "tensor '%s' has type %s, which this build does not read", t->name,
                       bt_quant_type_name(t->type));
    if (t->dim[0] % q->block_elems)
        return bt_fail(fault, BT_EFORMAT, "tensor '%s' has rows of %llu elements; %s needs a multiple of %u",
                       t->name, (unsigned long long)t->dim[0], q->name, q->block_elems);
    size_t rows = 1;
    for (int d = 1; d < BT_GGUF_MAX_DIMS; d++)
        if (t->dim[d] > SIZE_MAX || !bt_mul_size(&rows, rows, (size_t)t->dim[d]))
            return bt_fail(fault, BT_EFORMAT, "tensor '%s' has more rows than memory could hold", t->name);
    t->rows = rows;
    if (t->dim[0] / q->block_elems > SIZE_MAX ||
        !bt_mul_size(&t->row_bytes, (size_t)(t->dim[0] / q->block_elems), q->block_bytes) ||
        !bt_mul_size(&t->bytes, rows, t->row_bytes))
        return bt_fail(fault, BT_EFORMAT, "tensor '%s' is larger than memory could hold", t->name);
    return BT_OK;
}

/* Leaves the tensor's offset within the data section in *ret_offset; data is placed once the section's start
 * is known. */
static bt_err read_tensor(reader *r, bt_gguf_tensor *t, char **name, uint64_t *ret_offset, bt_fault *fault)
{
    bt_err e = take_name(r, name, BT_GGUF_MAX_NAME_BYTES, "a tensor name", fault);
    if (e < 0) return e;
    t->name = *name;
    if (!take32(r, &t->n_dims)) return ended(r, "the tensor table", fault);
    if (t->n_dims == 0 || t->n_dims > BT_GGUF_MAX_DIMS)
        return bt_fail(fault, BT_EFORMAT, "tensor '%s' has %u dimensions; 1 to %d are allowed", t->name,
                       t->n_dims, BT_GGUF_MAX_DIMS);
    for (uint32_t d = 0; d < BT_GGUF_MAX_DIMS; d++) {
        t->dim[d] = 1;
        if (d < t->n_dims && !take64(r, &t->dim[d])) return ended(r, "the tensor table", fault);
        if (t->dim[d] == 0)
            return bt_fail(fault, BT_EFORMAT, "tensor '%s' has an empty dimension %u", t->name, d);
    }
    if (!take32(r, &t->type) || !take64(r, ret_offset)) return ended(r, "the tensor table", fault);
    return tensor_sizes(t, fault);
}

typedef struct span {
    size_t begin, end;
    const char *name;
} span;

static int by_begin(const void *a, const void *b)
{
    const size_t x = ((const span *)a)->begin, y = ((const span *)b)->begin;
    return (x > y) - (x < y);
}

/* offsets[i] (within the data section) -> tensors[i].data, after all checks. */
static bt_err place_tensors(bt_gguf *g, const uint64_t *offsets, size_t table_end, size_t align,
                            bt_fault *fault)
{
    bt_err e = BT_OK;
    /* table_end <= len, align <= 64 KiB: fits */
    const size_t start = table_end + (align - table_end % align) % align;
    span *s = calloc(g->tensor_count, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory checking %zu tensors", g->tensor_count);
    for (size_t i = 0; i < g->tensor_count; i++) {
        bt_gguf_tensor *t = &g->tensors[i];
        if (offsets[i] % align) {
            e = bt_fail(fault, BT_EFORMAT,
                        "tensor '%s' starts at offset %llu, no multiple of the alignment %zu", t->name,
                        (unsigned long long)offsets[i], align);
            goto out;
        }
        if (start > g->len || offsets[i] > g->len - start || t->bytes > g->len - start - offsets[i]) {
            e = bt_fail(
                fault, BT_EFORMAT,
                "tensor '%s' (%zu bytes at offset %zu + %llu) runs past the end of the file (%zu bytes)",
                t->name, t->bytes, start, (unsigned long long)offsets[i], g->len);
            goto out;
        }
        s[i] = (span){start + (size_t)offsets[i], start + (size_t)offsets[i] + t->bytes, t->name};
        t->data = g->base + s[i].begin;
    }
    qsort(s, g->tensor_count, sizeof *s, by_begin);
    for (size_t i = 1; i < g->tensor_count; i++)
        if (s[i].begin < s[i - 1].end) {
            e = bt_fail(fault, BT_EFORMAT, "tensors '%s' and '%s' overlap", s[i - 1].name, s[i].name);
            goto out;
        }
out:
    free(s);
    return e;
}

/* ---- the file ---- */

static bt_err read_header(bt_gguf *g, reader *r, bt_fault *fault)
{
    const uint8_t *magic;
    uint64_t tensors, keys;
    if (!take(r, &magic, 4) || memcmp(magic, "GGUF", 4) != 0)
        return bt_fail(fault, BT_EFORMAT, "not a GGUF file: it does not begin with 'GGUF'");
    if (!take32(r, &g->version)) return ended(r, "the header", fault);
    if (g->version == UINT32_C(0x02000000) || g->version == UINT32_C(0x03000000))
        return bt_fail(fault, BT_EVERSION, "a big-endian GGUF file; only little-endian ones are read");
    if (g->version != 2 && g->version != 3)
        return bt_fail(fault, BT_EVERSION, "GGUF version %u; this build reads 2 and 3", g->version);
    if (!take64(r, &tensors) || !take64(r, &keys)) return ended(r, "the header", fault);
    /* The shortest key (name of one byte, value of one) takes 14 bytes, the shortest tensor 33. */
    if (keys > BT_GGUF_MAX_KEYS || keys > remaining(r) / 14)
        return bt_fail(fault, BT_EFORMAT,
                       "%llu metadata keys claimed; at most %d, and what %zu bytes hold, are allowed",
                       (unsigned long long)keys, BT_GGUF_MAX_KEYS, remaining(r));
    if (tensors > BT_GGUF_MAX_TENSORS || tensors > remaining(r) / 33)
        return bt_fail(fault, BT_EFORMAT,
                       "%llu tensors claimed; at most %d, and what %zu bytes hold, are allowed",
                       (unsigned long long)tensors, BT_GGUF_MAX_TENSORS, remaining(r));
    g->key_count = (size_t)keys;
    g->tensor_count = g->own_tensors = (size_t)tensors;
    /* + 1: calloc(0) may answer NULL */
    g->keys = calloc(g->key_count + 1, sizeof *g->keys);
    g->key_index = calloc(g->key_count + 1, sizeof *g->key_index);
    g->tensors = calloc(g->tensor_count + 1, sizeof *g->tensors);
    g->tensor_names = calloc(g->tensor_count + 1, sizeof *g->tensor_names);
    g->tensor_index = calloc(g->tensor_count + 1, sizeof *g->tensor_index);
    if (!g->keys || !g->key_index || !g->tensors || !g->tensor_names || !g->tensor_index)
        return bt_fail(fault, BT_ENOMEM, "out of memory for %zu keys and %zu tensors", g->key_count,
                       g->tensor_count);
    return BT_OK;
}

static bt_err read_all_tensors(bt_gguf *g, reader *r, bt_fault *fault)
{
    uint64_t align;
    bt_err e = bt_gguf_u64_or(&align, g, "general.alignment", 32, fault);
    if (e < 0) return e;
    if (align == 0 || align > 65536 || (align & (align - 1)))
        return bt_fail(fault, BT_EFORMAT, "general.alignment is %llu; a power of two up to 65536 is needed",
                       (unsigned long long)align);
    if (g->tensor_count == 0) return BT_OK;
    uint64_t *offsets = calloc(g->tensor_count, sizeof *offsets);
    if (!offsets) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu tensors", g->tensor_count);
    for (size_t i = 0; i < g->tensor_count && e == BT_OK; i++)
        e = read_tensor(r, &g->tensors[i], &g->tensor_names[i], &offsets[i], fault);
    if (e == BT_OK) e = bt_gguf_index_tensors(g, fault);
    if (e == BT_OK && !g->is_head) e = place_tensors(g, offsets, r->at, (size_t)align, fault);
    free(offsets);
    return e;
}

static bt_err parse(bt_gguf *g, bt_fault *fault)
{
    reader r = {g->base, g->len, 0};
    bt_err e = read_header(g, &r, fault);
    for (size_t i = 0; e == BT_OK && i < g->key_count; i++) {
        e = read_key(&r, &g->keys[i], fault);
        g->key_index[i] = (gguf_index){g->keys[i].name, i};
    }
    if (e == BT_OK) e = check_unique(g->key_index, g->key_count, "key", fault);
    if (e == BT_OK) e = read_all_tensors(g, &r, fault);
    return e;
}

void bt_gguf_close(bt_gguf *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->parts; i++) bt_gguf_close(g->part[i]);
    for (size_t i = 0; g->keys && i < g->key_count; i++) {
        free(g->keys[i].name);
        free(g->keys[i].array.str_at);
    }
    for (size_t i = 0; g->tensor_names && i < g->own_tensors; i++) free(g->tensor_names[i]);
    free(g->keys);
    free(g->key_index);
    free(g->tensors);
    free(g->tensor_names);
    free(g->tensor_index);
    free(g->part);
    if (g->mapped) munmap((void *)(uintptr_t)g->base, g->len);
    free(g);
}

bt_err bt_gguf_parse(bt_gguf **ret, const uint8_t *bytes, size_t len, bool is_head, bt_fault *fault)
{
    bt_gguf *g = calloc(1, sizeof *g);
    if (!g) return bt_fail(fault, BT_ENOMEM, "out of memory opening a model file");
    g->base = bytes;
    g->len = len;
    g->is_head = is_head;
    const bt_err e = parse(g, fault);
    if (e < 0) {
        bt_gguf_close(g);
        return e;
    }
    *ret = g;
    return BT_OK;
}

bt_err bt_gguf_open_bytes(bt_gguf **ret, const uint8_t *bytes, size_t len, bt_fault *fault)
{
    return bt_gguf_parse(ret, bytes, len, false, fault);
}

bt_err bt_gguf_open_head_bytes(bt_gguf **ret, const uint8_t *bytes, size_t len, bt_fault *fault)
{
    return bt_gguf_parse(ret, bytes, len, true, fault);
}

/* ---- accessors ---- */

uint32_t bt_gguf_version(const bt_gguf *g) { return g->version; }

size_t bt_gguf_tensor_count(const bt_gguf *g) { return g->tensor_count; }
const bt_gguf_tensor *bt_gguf_tensor_at(const bt_gguf *g, size_t i) { return &g->tensors[i]; }
size_t bt_gguf_key_count(const bt_gguf *g) { return g->key_count; }
const char *bt_gguf_key_name(const bt_gguf *g, size_t i) { return g->keys[i].name; }

const bt_gguf_tensor *bt_gguf_find_tensor(const bt_gguf *g, const char *name)
{
    const gguf_index *x = look_up(g->tensor_index, g->tensor_count, name);
    return x ? &g->tensors[x->at] : NULL;
}

int64_t bt_gguf_find_key(const bt_gguf *g, const char *name)
{
    const gguf_index *x = look_up(g->key_index, g->key_count, name);
    return x ? (int64_t)x->at : -1;
}

static const gguf_key *find_key(const bt_gguf *g, const char *name)
{
    const gguf_index *x = look_up(g->key_index, g->key_count, name);
    return x ? &g->keys[x->at] : NULL;
}

static bt_err missing(const char *key, bt_fault *fault)
{
    return bt_fail(fault, BT_EFORMAT, "the file has no key '%.100s'", key);
}

static bt_err mistyped(const gguf_key *k, const char *wanted, bt_fault *fault)
{
    return bt_fail(fault, BT_EFORMAT, "key '%.100s' has type %s; %s is needed", k->name, type_name(k->type),
                   wanted);
}

static bt_err read_u64(uint64_t *ret, const gguf_key *k, bt_fault *fault)
{
    int64_t s = 0;
    uint64_t u = 0;
    switch (k->type) {
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a key that was read has a value */
    case BT_GGUF_U8: u = k->val[0]; break;
    case BT_GGUF_U16: u = bt_get16(k->val); break;
    case BT_GGUF_U32: u = bt_get32(k->val); break;
    case BT_GGUF_U64: u = bt_get64(k->val); break;
    case BT_GGUF_I8: s = (int8_t)k->val[0]; break;
    case BT_GGUF_I16: s = (int16_t)bt_get16(k->val); break;
    case BT_GGUF_I32: s = (int32_t)bt_get32(k->val); break;
    case BT_GGUF_I64: s = (int64_t)bt_get64(k->val); break;
    case BT_GGUF_F32:
    case BT_GGUF_BOOL:
    case BT_GGUF_STRING:
    case BT_GGUF_ARRAY:
    case BT_GGUF_F64: return mistyped(k, "an integer", fault);
    }
    if (s < 0)
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' is %lld; it cannot be negative", k->name,
                       (long long)s);
    *ret = u + (uint64_t)s; /* one of the two is 0 */
    return BT_OK;
}

bt_err bt_gguf_require_u64(uint64_t *ret, const bt_gguf *g, const char *key, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    return k ? read_u64(ret, k, fault) : missing(key, fault);
}

bt_err bt_gguf_u64_or(uint64_t *ret, const bt_gguf *g, const char *key, uint64_t dflt, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    if (k) return read_u64(ret, k, fault);
    *ret = dflt;
    return BT_OK;
}

static float get_f32(const uint8_t *p)
{
    const uint32_t u = bt_get32(p);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

bt_err bt_gguf_require_f32(float *ret, const bt_gguf *g, const char *key, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    if (!k) return missing(key, fault);
    if (k->type != BT_GGUF_F32) return mistyped(k, "f32", fault);
    *ret = get_f32(k->val);
    return BT_OK;
}

bt_err bt_gguf_f32_or(float *ret, const bt_gguf *g, const char *key, float dflt, bt_fault *fault)
{
    if (find_key(g, key)) return bt_gguf_require_f32(ret, g, key, fault);
    *ret = dflt;
    return BT_OK;
}

static double get_f64(const uint8_t *p)
{
    const uint64_t u = bt_get64(p);
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

bt_err bt_gguf_require_number(double *ret, const bt_gguf *g, const char *key, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    if (!k) return missing(key, fault);
    switch (k->type) {
    case BT_GGUF_U8: *ret = k->val[0]; break;
    case BT_GGUF_U16: *ret = bt_get16(k->val); break;
    case BT_GGUF_U32: *ret = bt_get32(k->val); break;
    case BT_GGUF_U64: *ret = (double)bt_get64(k->val); break;
    case BT_GGUF_I8: *ret = (int8_t)k->val[0]; break;
    case BT_GGUF_I16: *ret = (int16_t)bt_get16(k->val); break;
    case BT_GGUF_I32: *ret = (int32_t)bt_get32(k->val); break;
    case BT_GGUF_I64: *ret = (double)(int64_t)bt_get64(k->val); break;
    case BT_GGUF_F32: *ret = (double)get_f32(k->val); break;
    case BT_GGUF_F64: *ret = get_f64(k->val); break;
    case BT_GGUF_BOOL:
    case BT_GGUF_STRING:
    case BT_GGUF_ARRAY: return mistyped(k, "a number", fault);
    }
    return BT_OK;
}

bt_err bt_gguf_bool_or(bool *ret, const bt_gguf *g, const char *key, bool dflt, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    if (k && k->type != BT_GGUF_BOOL) return mistyped(k, "a bool", fault);
    *ret = k ? k->val[0] == 1 : dflt;
    return BT_OK;
}

static bt_gguf_str get_str(const uint8_t *p)
{
    return (bt_gguf_str){(const char *)p + 8, (size_t)bt_get64(p)};
}

bt_err bt_gguf_require_str(bt_gguf_str *ret, const bt_gguf *g, const char *key, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    if (!k) return missing(key, fault);
    if (k->type != BT_GGUF_STRING) return mistyped(k, "a string", fault);
    *ret = get_str(k->val);
    return BT_OK;
}

bt_err bt_gguf_str_or(bt_gguf_str *ret, const bt_gguf *g, const char *key, const char *dflt, bt_fault *fault)
{
    if (find_key(g, key)) return bt_gguf_require_str(ret, g, key, fault);
    *ret = (bt_gguf_str){dflt, strlen(dflt)};
    return BT_OK;
}

bt_err bt_gguf_find_array(const bt_gguf_array **ret, const bt_gguf *g, const char *key, bt_gguf_type type,
                          bool optional, bt_fault *fault)
{
    const gguf_key *k = find_key(g, key);
    if (!k && !optional) return missing(key, fault);
    if (k && k->type != BT_GGUF_ARRAY) return mistyped(k, "an array", fault);
    if (k && k->array.type != type)
        return bt_fail(fault, BT_EFORMAT, "key '%.100s' is an array of %s; one of %s is needed", key,
                       type_name(k->array.type), type_name(type));
    *ret = k ? &k->array : NULL;
    return BT_OK;
}

size_t bt_gguf_array_count(const bt_gguf_array *a) { return a ? a->count : 0; }
bt_gguf_str bt_gguf_array_str(const bt_gguf_array *a, size_t i) { return get_str(a->data + a->str_at[i]); }
float bt_gguf_array_f32(const bt_gguf_array *a, size_t i) { return get_f32(a->data + 4 * i); }
int32_t bt_gguf_array_i32(const bt_gguf_array *a, size_t i) { return (int32_t)bt_get32(a->data + 4 * i); }

size_t bt_gguf_key_text(char *ret, size_t cap, const bt_gguf *g, size_t i)
{
    const gguf_key *k = &g->keys[i];
    uint64_t u = 0;
    int n = 0;
    switch (k->type) {
    case BT_GGUF_ARRAY: n = snprintf(ret, cap, "%zu %s", k->array.count, type_name(k->array.type)); break;
    case BT_GGUF_STRING: {
        const bt_gguf_str s = get_str(k->val);
        n = snprintf(ret, cap, "%.*s", s.len > INT_MAX ? INT_MAX : (int)s.len, s.ptr);
        break;
    }
    case BT_GGUF_F32: n = snprintf(ret, cap, "%.9g", (double)get_f32(k->val)); break;
    case BT_GGUF_F64: n = snprintf(ret, cap, "%.17g", get_f64(k->val)); break;
    case BT_GGUF_BOOL: n = snprintf(ret, cap, "%s", k->val[0] ? "true" : "false"); break;
    case BT_GGUF_U8:
    case BT_GGUF_U16:
    case BT_GGUF_U32:
    case BT_GGUF_U64:
        (void)read_u64(&u, k, NULL); /* an unsigned integer: cannot fail */
        n = snprintf(ret, cap, "%llu", (unsigned long long)u);
        break;
    case BT_GGUF_I8: n = snprintf(ret, cap, "%d", (int8_t)k->val[0]); break;
    case BT_GGUF_I16: n = snprintf(ret, cap, "%d", (int16_t)bt_get16(k->val)); break;
    case BT_GGUF_I32: n = snprintf(ret, cap, "%d", (int32_t)bt_get32(k->val)); break;
    case BT_GGUF_I64: n = snprintf(ret, cap, "%lld", (long long)(int64_t)bt_get64(k->val)); break;
    }
    return n < 0 ? 0 : (size_t)n;
}
