/* Writing a package: constants stream to a temporary file beside the target, tables follow at the end, and
 * the file gets its name only when it is whole and on the disk. The same calls give the same bytes: padding
 * is zero, and no time, path or host name goes in. Constants with the same XXH3-128 and length are stored
 * once. Their bytes are not compared: two different constants with one hash are less likely than an error of
 * the disk. */
#include "npu/pkg/pkg.h"
#include "base/file.h"
#include "base/hash.h"
#include "npu/pkg/pkg_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct list {
    void *elem;
    size_t count, room;
} list;

struct bt_pkg_writer {
    bt_file_new file;
    bool has_file;
    const char *name;  /* for faults: the path, or words for a sketch */
    bt_pkg_kept *kept; /* what a sketch holds; NULL: the writer makes a file */
    size_t kept_room;
    uint64_t at; /* where the next bytes go */
    list table[BT_PKG_TABLES];
    uint32_t *slot; /* hash table over the constants: index + 1, 0 is free */
    size_t slots;   /* a power of two */
    bt_err failed;  /* the first failure */
    bt_fault why;
};

static bt_err keep(bt_pkg_writer *w, bt_err e)
{
    if (w->failed == BT_OK) w->failed = e;
    return e;
}

/* path NULL: a writer of a sketch. */
static bt_err make(bt_pkg_writer **ret, const char *path, bt_fault *fault)
{
    const char *name = path ? path : "a package's sketch";
    bt_pkg_writer *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory writing '%s'", name);
    bt_err e = BT_OK;
    w->at = sizeof(bt_pkg_header);
    w->slots = 1024;
    w->slot = calloc(w->slots, sizeof *w->slot);
    if (!w->slot) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory writing '%s'", name);
        goto out;
    }
    if (path && (e = bt_file_begin(&w->file, path, fault)) < 0) goto out;
    w->has_file = path != NULL;
    w->name = path ? w->file.path : name;
    if (!path && !(w->kept = calloc(1, sizeof *w->kept))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory writing '%s'", name);
        goto out;
    }
    *ret = w;
    w = NULL;
out:
    bt_pkg_writer_free(w);
    return e;
}

bt_err bt_pkg_writer_new(bt_pkg_writer **ret, const char *path, bt_fault *fault)
{
    return make(ret, path, fault);
}

bt_err bt_pkg_writer_sketch(bt_pkg_writer **ret, bt_fault *fault) { return make(ret, NULL, fault); }

void bt_pkg_writer_free(bt_pkg_writer *w)
{
    if (!w) return;
    if (w->has_file) bt_file_done(&w->file);
    bt_pkg_kept_free(w->kept);
    for (size_t i = 0; i < BT_PKG_TABLES; i++) free(w->table[i].elem);
    free(w->slot);
    free(w);
}

static bt_err put(bt_pkg_writer *w, const void *bytes, size_t n, uint64_t at)
{
    const uint8_t *p = bytes;
    while (n) {
        const ssize_t done = pwrite(w->file.fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0)
            return keep(w, bt_fail(&w->why, BT_EIO, "cannot write '%s': %s", w->file.path, strerror(errno)));
        p += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
    return BT_OK;
}

static uint32_t add(bt_pkg_writer *w, bt_pkg_table_id id, const void *elem)
{
    const bt_pkg_table_rule *r = &bt_pkg_table_rules[id];
    list *l = &w->table[id];
    if (w->failed < 0) return BT_PKG_NONE;
    if (l->count == r->max_count) {
        keep(w, bt_fail(&w->why, BT_ELIMIT, "'%s': more than %u %s", w->name, r->max_count, r->name));
        return BT_PKG_NONE;
    }
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        void *grown = realloc(l->elem, room * r->elem_bytes);
        if (!grown) {
            keep(w, bt_fail(&w->why, BT_ENOMEM, "out of memory writing '%s'", w->name));
            return BT_PKG_NONE;
        }
        l->elem = grown;
        l->room = room;
    }
    memcpy((uint8_t *)l->elem + l->count * r->elem_bytes, elem, r->elem_bytes);
    return (uint32_t)l->count++;
}

/* ---- constants, found by their hash ---- */

/* The slot of the constant with this hash and length, or the free slot where it belongs. */
static uint32_t *slot_of(const bt_pkg_writer *w, const uint8_t hash[16], uint64_t bytes)
{
    const bt_pkg_const *c = w->table[BT_PKG_TABLE_CONSTS].elem;
    uint64_t i;
    memcpy(&i, hash, sizeof i);
    for (;; i++) {
        uint32_t *s = &w->slot[i & (w->slots - 1)];
        if (!*s || (c[*s - 1].bytes == bytes && !memcmp(c[*s - 1].hash, hash, 16))) return s;
    }
}

static bt_err more_slots(bt_pkg_writer *w)
{
    const bt_pkg_const *c = w->table[BT_PKG_TABLE_CONSTS].elem;
    uint32_t *old = w->slot, *grown = calloc(w->slots * 2, sizeof *grown);
    if (!grown) return keep(w, bt_fail(&w->why, BT_ENOMEM, "out of memory writing '%s'", w->name));
    w->slot = grown;
    w->slots *= 2;
    for (size_t i = 0; i < w->table[BT_PKG_TABLE_CONSTS].count; i++)
        if (!w->kept || w->kept->constant[i]) *slot_of(w, c[i].hash, c[i].bytes) = (uint32_t)i + 1;
    free(old);
    return BT_OK;
}

/* Keeps a copy of the last constant, `index`. bytes NULL: the constant has no bytes. */
static bt_err keep_const(bt_pkg_writer *w, uint32_t index, const void *bytes, size_t len)
{
    bt_pkg_kept *k = w->kept;
    if (index >= w->kept_room) {
        const size_t room = w->kept_room ? 2 * w->kept_room : 256;
        void **grown = realloc(k->constant, room * sizeof *grown);
        if (!grown) return keep(w, bt_fail(&w->why, BT_ENOMEM, "out of memory writing '%s'", w->name));
        k->constant = grown;
        w->kept_room = room;
    }
    void *copy = bytes ? malloc(len) : NULL;
    if (bytes && !copy) return keep(w, bt_fail(&w->why, BT_ENOMEM, "out of memory writing '%s'", w->name));
    if (bytes) memcpy(copy, bytes, len);
    k->constant[k->constants++] = copy;
    return BT_OK;
}

/* Adds a constant behind all others. */
static uint32_t add_const(bt_pkg_writer *w, const bt_pkg_const *c, const void *bytes)
{
    if (w->has_file && put(w, bytes, (size_t)c->bytes, c->offset) < 0) return BT_PKG_NONE;
    const uint32_t index = add(w, BT_PKG_TABLE_CONSTS, c);
    if (index == BT_PKG_NONE) return index;
    if (w->kept && keep_const(w, index, bytes, (size_t)c->bytes) < 0) return BT_PKG_NONE;
    w->at = bt_pkg_align(c->offset + c->bytes); /* the gap is a hole in the file, and reads as zero */
    return index;
}

uint32_t bt_pkg_writer_const(bt_pkg_writer *w, bt_pkg_const_kind kind, const void *bytes, size_t len)
{
    bt_pkg_const c = {.offset = w->at, .bytes = len, .kind = (uint32_t)kind};
    if (w->failed < 0) return BT_PKG_NONE;
    if (!len) {
        keep(w, bt_fail(&w->why, BT_EARG, "'%s': a constant of no bytes", w->name));
        return BT_PKG_NONE;
    }
    if (!bytes) {
        assert(w->kept);
        return add_const(w, &c, NULL);
    }
    bt_hash128(c.hash, bytes, len);
    uint32_t *s = slot_of(w, c.hash, len);
    if (*s) return *s - 1;
    if (2 * w->table[BT_PKG_TABLE_CONSTS].count >= w->slots) {
        if (more_slots(w) < 0) return BT_PKG_NONE;
        s = slot_of(w, c.hash, len);
    }
    const uint32_t index = add_const(w, &c, bytes);
    if (index != BT_PKG_NONE) *s = index + 1;
    return index;
}

/* ---- tables ---- */

uint32_t bt_pkg_writer_tensor(bt_pkg_writer *w, const bt_pkg_tensor *t)
{
    return add(w, BT_PKG_TABLE_TENSORS, t);
}
uint32_t bt_pkg_writer_site(bt_pkg_writer *w, const bt_pkg_site *s) { return add(w, BT_PKG_TABLE_SITES, s); }
uint32_t bt_pkg_writer_program(bt_pkg_writer *w, const bt_pkg_program *p)
{
    return add(w, BT_PKG_TABLE_PROGRAMS, p);
}
uint32_t bt_pkg_writer_row(bt_pkg_writer *w, const bt_pkg_row *r) { return add(w, BT_PKG_TABLE_ROWS, r); }
uint32_t bt_pkg_writer_fallback(bt_pkg_writer *w, const bt_pkg_fallback *f)
{
    return add(w, BT_PKG_TABLE_FALLBACKS, f);
}
uint32_t bt_pkg_writer_session(bt_pkg_writer *w, const bt_pkg_session *s)
{
    return add(w, BT_PKG_TABLE_SESSIONS, s);
}

/* ---- finish ---- */

static uint64_t weights_bytes(const bt_pkg_const *c, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (c[i].kind == BT_PKG_CONST_WEIGHT) sum += c[i].bytes;
    return sum;
}

/* Sets the header's sizes and the places of the tables, and counts how often each constant is named. */
static bt_err close_tables(bt_pkg_writer *w, bt_pkg_header *h, const void *table[BT_PKG_TABLES])
{
    bt_pkg_const *c = w->table[BT_PKG_TABLE_CONSTS].elem;
    memcpy(h->magic, BT_PKG_MAGIC, sizeof h->magic);
    h->version = BT_PKG_VERSION;
    h->header_bytes = sizeof *h;
    uint64_t end = w->at;
    for (int i = 0; i < BT_PKG_TABLES; i++) {
        bt_pkg_table *t = bt_pkg_table_of(h, (bt_pkg_table_id)i);
        *t = (bt_pkg_table){bt_pkg_align(end), (uint32_t)w->table[i].count, bt_pkg_table_rules[i].elem_bytes};
        end = t->offset + (uint64_t)t->count * t->elem_bytes;
        table[i] = w->table[i].elem;
    }
    h->file_bytes = end;
    h->weights_bytes = weights_bytes(c, h->consts.count);
    uint32_t *refs = calloc((size_t)h->consts.count + 1, sizeof *refs);
    if (!refs) return keep(w, bt_fail(&w->why, BT_ENOMEM, "out of memory writing '%s'", w->name));
    bt_pkg_count_refs(refs, h, table[BT_PKG_TABLE_TENSORS], table[BT_PKG_TABLE_SITES],
                      table[BT_PKG_TABLE_PROGRAMS]);
    for (uint32_t i = 0; i < h->consts.count; i++) c[i].refs = refs[i];
    free(refs);
    return BT_OK;
}

static bt_err put_tables(bt_pkg_writer *w, const bt_pkg_header *given)
{
    bt_pkg_header h = *given;
    const void *table[BT_PKG_TABLES];
    bt_err e = close_tables(w, &h, table);
    if (e < 0) return e;
    bt_pkg_digest(h.digest, &h, table);
    for (int i = 0; i < BT_PKG_TABLES; i++) {
        const bt_pkg_table *t = bt_pkg_table_of(&h, (bt_pkg_table_id)i);
        if ((e = put(w, table[i], (size_t)t->count * t->elem_bytes, t->offset)) < 0) return e;
    }
    if ((e = put(w, &h, sizeof h, 0)) < 0) return e;
    if (ftruncate(w->file.fd, (off_t)h.file_bytes) < 0)
        return keep(w, bt_fail(&w->why, BT_EIO, "cannot write '%s': %s", w->file.path, strerror(errno)));
    return BT_OK;
}

void bt_pkg_writer_recipe(bt_pkg_writer *w, bt_pkg_header *header, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    if (bytes <= sizeof header->recipe) memcpy(header->recipe, text, bytes);
    else header->recipe_text = bt_pkg_writer_const(w, BT_PKG_CONST_TABLE, text, bytes);
}

bt_err bt_pkg_writer_finish(bt_pkg_writer *w, const bt_pkg_header *header, bt_fault *fault)
{
    if (w->failed == BT_OK && put_tables(w, header) == BT_OK) keep(w, bt_file_keep(&w->file, 0644, &w->why));
    return w->failed < 0 ? bt_fail(fault, w->failed, "%s", w->why.text) : BT_OK;
}

bt_err bt_pkg_writer_finish_sketch(bt_pkg **ret, bt_pkg_writer *w, const bt_pkg_header *header,
                                   bt_fault *fault)
{
    bt_pkg_header h = *header;
    const void *table[BT_PKG_TABLES];
    if (w->failed == BT_OK) (void)close_tables(w, &h, table); /* its failure stays */
    if (w->failed < 0) return bt_fail(fault, w->failed, "%s", w->why.text);
    bt_pkg_kept *k = w->kept;
    k->header = h;
    for (int i = 0; i < BT_PKG_TABLES; i++) { /* the sketch takes them */
        k->table[i] = w->table[i].elem;
        w->table[i] = (list){0};
    }
    w->kept = NULL;
    return bt_pkg_of_kept(ret, k, fault);
}
