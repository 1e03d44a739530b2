/* The whole check of a package file: where everything lies, the digest, the constants' hashes, the tables
 * that need no other table, then the data and the programs. No byte of the file can make the check read
 * outside the file. The layout is canonical: one order, no gaps but zero padding, so that equal contents are
 * equal files. */
#include "npu/pkg/pkg_private.h"
#include "base/checked.h"
#include "base/hash.h"
#include "model/model.h"
#include "npu/pkg/recipe.h"

#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

static bool is_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

/* Whether the next piece begins at the first multiple of 64 from *end on, with zeros between. Moves *end
 * behind the piece. */
static bool follows(const bt_pkg *p, uint64_t *end, uint64_t offset, uint64_t bytes)
{
    if (offset != bt_pkg_align(*end) || offset > p->len || bytes > p->len - offset) return false;
    if (!is_zero(p->bytes + *end, (size_t)(offset - *end))) return false;
    *end = offset + bytes;
    return true;
}

static bt_err check_head(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    if (p->len < sizeof h->magic || memcmp(p->bytes, BT_PKG_MAGIC, sizeof h->magic) != 0)
        return bt_fail(fault, BT_EFORMAT, "not a package file: the first bytes are others (magic)");
    if (p->len < sizeof *h)
        return bt_fail(fault, BT_EFORMAT, "the file has %zu bytes, and a header alone has %zu", p->len,
                       sizeof *h);
    if (h->version != BT_PKG_VERSION)
        return bt_fail(fault, BT_EVERSION,
                       "package version %u, this program reads version %d: compile the package again",
                       h->version, BT_PKG_VERSION);
    if (h->header_bytes != sizeof *h)
        return bt_fail(fault, BT_EFORMAT, "header_bytes is %u, not %zu", h->header_bytes, sizeof *h);
    if (h->file_bytes != p->len)
        return bt_fail(
            fault, BT_EFORMAT,
            "the file has %zu bytes, and its header says %llu: it was cut short, or something was appended",
            p->len, (unsigned long long)h->file_bytes);
    return BT_OK;
}

bt_err bt_pkg_check_layout(const bt_pkg *p, bt_fault *fault)
{
    const bt_err e = check_head(p, fault);
    if (e < 0) return e;
    bt_pkg_header h = *bt_pkg_header_of(p);
    for (int i = 0; i < BT_PKG_TABLES; i++) {
        const bt_pkg_table *t = bt_pkg_table_of(&h, (bt_pkg_table_id)i);
        const bt_pkg_table_rule *r = &bt_pkg_table_rules[i];
        if (t->elem_bytes != r->elem_bytes)
            return bt_fail(fault, BT_EFORMAT, "table %s: elements of %u bytes, not %u", r->name,
                           t->elem_bytes, r->elem_bytes);
        if (t->count > r->max_count)
            return bt_fail(fault, BT_EFORMAT, "table %s: %u elements, at most %u", r->name, t->count,
                           r->max_count);
    }
    if (h.consts.offset % BT_PKG_ALIGN || h.consts.offset > p->len ||
        (uint64_t)h.consts.count * sizeof(bt_pkg_const) > p->len - h.consts.offset)
        return bt_fail(fault, BT_EFORMAT,
                       "table constants: offset %llu is not aligned, or the table ends behind the file",
                       (unsigned long long)h.consts.offset);
    uint64_t end = sizeof h;
    const bt_pkg_const *c = bt_pkg_consts(p);
    for (uint32_t i = 0; i < h.consts.count; i++)
        if (!c[i].bytes || !follows(p, &end, c[i].offset, c[i].bytes))
            return bt_fail(fault, BT_EFORMAT,
                           "constant %u: offset %llu and size %llu do not follow the constant before, or end "
                           "behind the file",
                           i, (unsigned long long)c[i].offset, (unsigned long long)c[i].bytes);
    for (int i = 0; i < BT_PKG_TABLES; i++) {
        const bt_pkg_table *t = bt_pkg_table_of(&h, (bt_pkg_table_id)i);
        if (!follows(p, &end, t->offset, (uint64_t)t->count * t->elem_bytes))
            return bt_fail(
                fault, BT_EFORMAT,
                "table %s: offset %llu does not follow the table before, or the table ends behind the file",
                bt_pkg_table_rules[i].name, (unsigned long long)t->offset);
    }
    if (end != p->len)
        return bt_fail(fault, BT_EFORMAT, "the file has %llu bytes after the last table",
                       (unsigned long long)(p->len - end));
    return BT_OK;
}

/* ---- integrity ---- */

static bt_err check_digest(const bt_pkg *p, bt_fault *fault)
{
    uint8_t digest[16];
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const void *const table[BT_PKG_TABLES] = {bt_pkg_consts(p),  bt_pkg_tensors(p),  bt_pkg_sites(p),
                                              bt_pkg_rows(p),    bt_pkg_programs(p), bt_pkg_fallbacks(p),
                                              bt_pkg_sessions(p)};
    bt_pkg_digest(digest, h, table);
    if (memcmp(digest, h->digest, sizeof digest) != 0)
        return bt_fail(fault, BT_EFORMAT, "the header or a table is damaged: its digest is another");
    return BT_OK;
}

static bt_err check_bytes(const bt_pkg *p, uint32_t i, bt_fault *fault)
{
    uint8_t hash[16];
    const bt_pkg_const *c = &bt_pkg_consts(p)[i];
    bt_hash128(hash, p->bytes + c->offset, (size_t)c->bytes);
    return memcmp(hash, c->hash, sizeof hash) == 0
               ? BT_OK
               : bt_fail(fault, BT_EFORMAT, "constant %u is damaged (hash)", i);
}

static bt_err check_consts(const bt_pkg *p, bt_pool *pool, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_const *c = bt_pkg_consts(p);
    uint64_t weights = 0;
    bt_err e = p->is_known ? BT_OK : bt_pkg_check_each(p, h->consts.count, check_bytes, pool, fault);
    if (e < 0) return e;
    uint32_t *refs = calloc((size_t)h->consts.count + 1, sizeof *refs);
    if (!refs) return bt_fail(fault, BT_ENOMEM, "out of memory checking a package");
    bt_pkg_count_refs(refs, h, bt_pkg_tensors(p), bt_pkg_sites(p), bt_pkg_programs(p));
    for (uint32_t i = 0; i < h->consts.count && e == BT_OK; i++) {
        if (c[i].kind < BT_PKG_CONST_WEIGHT || c[i].kind > BT_PKG_CONST_PIECES)
            e = bt_fail(fault, BT_EFORMAT, "constant %u: kind %u is unknown", i, c[i].kind);
        else if (c[i].refs != refs[i])
            e = bt_fail(fault, BT_EFORMAT, "constant %u: refs is %u, and %u places name the constant", i,
                        c[i].refs, refs[i]);
        if (c[i].kind == BT_PKG_CONST_WEIGHT) weights += c[i].bytes;
    }
    if (e == BT_OK && weights != h->weights_bytes)
        e = bt_fail(fault, BT_EFORMAT, "header: weights_bytes is %llu, and the weights have %llu",
                    (unsigned long long)h->weights_bytes, (unsigned long long)weights);
    free(refs);
    return e;
}

/* ---- tables that need no other table ---- */

static bool holds_code(const bt_pkg_const *c, const bt_pkg_program *g)
{
    if (c->kind == BT_PKG_CONST_PIECES)
        return c->bytes % sizeof(bt_pkg_piece) == 0 && c->bytes / sizeof(bt_pkg_piece) <= g->insts;
    return c->kind == BT_PKG_CONST_CODE && c->bytes == (uint64_t)g->insts * sizeof(bt_pkg_inst);
}

static bt_err check_programs(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_program *g = bt_pkg_programs(p);
    const bt_pkg_const *c = bt_pkg_consts(p);
    uint64_t arena = 0, work = 0;
    if (!h->programs.count) return bt_fail(fault, BT_EFORMAT, "the package has no program");
    for (uint32_t i = 0; i < h->programs.count; i++, g++) {
        if (!g->seq || g->seq > h->max_seq)
            return bt_fail(fault, BT_EFORMAT, "program %u: seq %u is 0 or more than max_seq", i, g->seq);
        if (g->out && g->seq % g->out)
            return bt_fail(fault, BT_EFORMAT, "program %u: out %u does not divide seq %u", i, g->out, g->seq);
        if (!g->insts || g->insts > BT_PKG_MAX_INSTS || g->code >= h->consts.count ||
            !holds_code(&c[g->code], g))
            return bt_fail(fault, BT_EFORMAT, "program %u: code names no constant of insts %u", i, g->insts);
        const bool packed = bt_pkg_is_packed(p, i);
        if (!g->places || g->places > BT_PKG_MAX_PLACES ||
            (packed ? g->plan != BT_PKG_NONE
                    : g->plan >= h->consts.count || c[g->plan].kind != BT_PKG_CONST_PLAN ||
                          c[g->plan].bytes != (uint64_t)g->places * sizeof(bt_pkg_place)))
            return bt_fail(fault, BT_EFORMAT, "program %u: plan names no constant of places %u", i,
                           g->places);
        if (!g->arena_bytes || g->arena_bytes % BT_PKG_ALIGN || g->arena_bytes > BT_PKG_MAX_ARENA_BYTES)
            return bt_fail(fault, BT_EFORMAT, "program %u: arena_bytes %llu is 0, not aligned or too many", i,
                           (unsigned long long)g->arena_bytes);
        if (g->clusters > g->insts || g->ctx > h->ctx_tokens)
            return bt_fail(fault, BT_EFORMAT,
                           "program %u: clusters %u are more than insts, or ctx %u is more than ctx_tokens",
                           i, g->clusters, g->ctx);
        if (g->arena_bytes > arena) arena = g->arena_bytes;
        work += (uint64_t)g->insts + g->places;
    }
    if (work > BT_PKG_MAX_ALL_INSTS)
        return bt_fail(fault, BT_EFORMAT,
                       "the programs have %llu instructions and places; at most %llu are allowed",
                       (unsigned long long)work, (unsigned long long)BT_PKG_MAX_ALL_INSTS);
    if (arena != h->arena_bytes)
        return bt_fail(fault, BT_EFORMAT, "header: arena_bytes is %llu, and the largest program has %llu",
                       (unsigned long long)h->arena_bytes, (unsigned long long)arena);
    return BT_OK;
}

/* Rows ascend by batch, seq, ctx; no row is there twice. */
static bool row_after(const bt_pkg_row *a, const bt_pkg_row *b)
{
    if (a->batch != b->batch) return a->batch < b->batch;
    return a->seq != b->seq ? a->seq < b->seq : a->ctx < b->ctx;
}

static bt_err check_rows(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_row *r = bt_pkg_rows(p);
    const bt_pkg_program *g = bt_pkg_programs(p);
    uint32_t longest = 0;
    if (!h->rows.count) return bt_fail(fault, BT_EFORMAT, "the package has no row");
    for (uint32_t i = 0; i < h->rows.count; i++, r++) {
        if (!r->batch || r->batch > BT_PKG_MAX_BATCH || !r->seq_min || r->seq_min > r->seq ||
            r->seq > BT_MODEL_MAX_CTX / r->batch || (r->batch > 1 && r->seq_min < r->seq) || !r->ctx ||
            r->ctx > h->ctx_tokens || r->reserved)
            return bt_fail(fault, BT_EFORMAT,
                           "row %u: batch %u, seq %u-%u, ctx %u or a reserved field is out of range", i,
                           r->batch, r->seq_min, r->seq, r->ctx);
        if (i && !row_after(r - 1, r))
            return bt_fail(fault, BT_EFORMAT,
                           "row %u: does not come after the row before by batch, seq and ctx", i);
        const uint32_t rows = r->batch * r->seq, out[BT_PKG_OUTS] = {0, r->batch, rows};
        for (int o = 0; o < BT_PKG_OUTS; o++)
            if (r->program[o] >= h->programs.count || g[r->program[o]].seq != rows ||
                g[r->program[o]].out != out[o])
                return bt_fail(fault, BT_EFORMAT,
                               "row %u: program[%d] %u is not for seq %u with %u rows of logits", i, o,
                               r->program[o], rows, out[o]);
        for (int o = 0; o < BT_PKG_OUTS; o++)
            if (g[r->program[o]].ctx && g[r->program[o]].ctx != r->ctx)
                return bt_fail(fault, BT_EFORMAT, "row %u: ctx is %u, and program %u is for ctx %u", i,
                               r->ctx, r->program[o], g[r->program[o]].ctx);
        if (rows > longest) longest = rows;
    }
    if (longest != h->max_seq)
        return bt_fail(fault, BT_EFORMAT, "header: max_seq is %u, and the longest row has %u", h->max_seq,
                       longest);
    return BT_OK;
}

/* Whether a text has an end, zeros behind it, and no control characters, which a terminal would obey. */
static bool is_text(const char *s, size_t room)
{
    const char *end = memchr(s, 0, room);
    for (const char *c = s; end && c < end; c++)
        if ((uint8_t)*c < 0x20 || *c == 0x7f) return false;
    return end && is_zero((const uint8_t *)end, room - (size_t)(end - s));
}

/* Checks the constant of a long recipe. bt_pkg_look reads it too, so its hash is compared here. The text
 * fills its constant and is too long for the header. */
static bt_err check_recipe_text(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t at = h->recipe_text;
    if (!at) return BT_OK;
    if (at >= h->consts.count)
        return bt_fail(fault, BT_EFORMAT, "header: recipe_text names constant %u of %u", at, h->consts.count);
    const bt_pkg_const *c = &bt_pkg_consts(p)[at];
    if (c->bytes <= sizeof h->recipe || c->bytes > BT_RECIPE_MAX_TEXT)
        return bt_fail(fault, BT_EFORMAT, "header: recipe_text has %llu bytes, not %zu to %d",
                       (unsigned long long)c->bytes, sizeof h->recipe + 1, BT_RECIPE_MAX_TEXT);
    const char *text = (const char *)p->bytes + c->offset;
    const size_t bytes = (size_t)c->bytes;
    if (!is_text(text, bytes) || strlen(text) + 1 != bytes)
        return bt_fail(fault, BT_EFORMAT,
                       "header: recipe_text does not end with its one zero, or has control "
                       "characters");
    if (!is_zero((const uint8_t *)h->recipe, sizeof h->recipe))
        return bt_fail(fault, BT_EFORMAT, "header: has both a recipe and recipe_text");
    return check_bytes(p, at, fault);
}

static bt_err check_lists(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_fallback *f = bt_pkg_fallbacks(p);
    const bt_pkg_session *s = bt_pkg_sessions(p);
    for (uint32_t i = 0; i < h->fallbacks.count; i++, f++)
        if (!is_text(f->op, sizeof f->op) || !is_text(f->why, sizeof f->why) || f->layers > h->layers ||
            f->layers > f->count)
            return bt_fail(
                fault, BT_EFORMAT,
                "fallback %u: a text without an end or with control characters, or too many layers %u", i,
                f->layers);
    /* last_layer == layers: the output matrix */
    for (uint32_t i = 0; i < h->sessions.count; i++, s++)
        if (s->first_layer > s->last_layer || s->last_layer > h->layers ||
            (i && s->first_layer < s[-1].last_layer))
            return bt_fail(fault, BT_EFORMAT,
                           "session %u: layers %u to %u are no range, or overlap those before", i,
                           s->first_layer, s->last_layer);
    if (!is_text(h->model_name, sizeof h->model_name) || !is_text(h->recipe, sizeof h->recipe) ||
        !is_text(h->shape_policy, sizeof h->shape_policy) || !is_text(h->profile, sizeof h->profile))
        return bt_fail(fault, BT_EFORMAT, "header: a text without an end or with control characters");
    if (!is_zero(h->reserved, sizeof h->reserved))
        return bt_fail(fault, BT_EFORMAT, "header: reserved bytes are not zero");
    return check_recipe_text(p, fault);
}

bt_err bt_pkg_check_tables(const bt_pkg *p, bt_fault *fault)
{
    bt_err e;
    if ((e = bt_pkg_check_layout(p, fault)) < 0) return e;
    if ((e = check_digest(p, fault)) < 0) return e;
    if ((e = bt_pkg_check_dimensions(p, fault)) < 0) return e;
    return check_lists(p, fault);
}

typedef struct whole_check {
    bt_pkg *p;
    bt_pool *pool;
} whole_check;

static bt_err check_whole(void *ud, bt_fault *fault)
{
    const whole_check *c = ud;
    bt_pkg *p = c->p;
    bt_err e;
    if ((e = check_consts(p, c->pool, fault)) < 0) return e;
    if ((e = bt_pkg_check_data(p, c->pool, fault)) < 0) return e;
    if ((e = check_programs(p, fault)) < 0) return e;
    if ((e = check_rows(p, fault)) < 0) return e;
    if ((e = bt_unpacked_new(&p->unpacked, p, fault)) < 0) return e;
    return bt_pkg_check_code(p, fault);
}

bt_err bt_pkg_check(bt_pkg *p, bt_pool *pool, bt_fault *fault)
{
    whole_check c = {p, pool};
    bool ran = false;
    bt_err e = bt_pkg_check_tables(p, fault);
    if (e == BT_OK) e = bt_checked_once(&ran, &p->state, check_whole, &c, fault);
    if (e < 0 || ran) return e;
    p->is_known = true;
    return check_whole(&c, fault);
}
