/* Unpacking programs: the bodies of the pieces as one flat list, with the numbers of each piece's layer.
 * The programs of a file are unpacked when the file is opened, to be checked. A sketch has room for its
 * programs, and unpacks a program when somebody asks for it, since few are asked for. */
#include "npu/pkg/pkg_private.h"

#include <assert.h>
#include <stdlib.h>

/* The instructions and places of one distinct list of pieces. */
typedef struct flat {
    uint32_t constant, insts, places;
    bt_pkg_inst *inst;
    bt_pkg_place *place;
    bool is_full;
} flat;

/* The constants that pieces name. */
typedef struct bodies {
    const bt_pkg_inst *inst;
    const bt_pkg_place *place;
    const uint32_t *params;
    uint64_t insts, places, all_params;
    uint32_t layers;
} bodies;

struct bt_unpacked {
    size_t flats;
    flat *flat;
    flat **of; /* [programs]; NULL: not packed */
    bodies bodies;
};

bool bt_pkg_is_packed(const bt_pkg *p, uint32_t program)
{
    return bt_pkg_consts(p)[bt_pkg_programs(p)[program].code].kind == BT_PKG_CONST_PIECES;
}

/* ---- the bodies ---- */

static bt_err find_body(const void **ret, uint64_t *ret_n, const bt_pkg *p, uint32_t constant, uint32_t kind,
                        size_t elem_bytes, const char *name, bt_fault *fault)
{
    const bt_pkg_const *c = bt_pkg_consts(p);
    if (!constant) return BT_OK; /* none */
    if (constant >= bt_pkg_header_of(p)->consts.count || c[constant].kind != kind ||
        c[constant].bytes % elem_bytes)
        return bt_fail(fault, BT_EFORMAT, "header: %s %u names no constant", name, constant);
    *ret = bt_pkg_const_at(p, constant);
    *ret_n = c[constant].bytes / elem_bytes;
    return BT_OK;
}

static bt_err find_bodies(bodies *b, const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const void *inst = NULL, *place = NULL, *params = NULL;
    bt_err e =
        find_body(&inst, &b->insts, p, h->body_code, BT_PKG_CONST_CODE, sizeof *b->inst, "body_code", fault);
    if (e == BT_OK)
        e = find_body(&place, &b->places, p, h->body_plan, BT_PKG_CONST_PLAN, sizeof *b->place, "body_plan",
                      fault);
    if (e == BT_OK)
        e = find_body(&params, &b->all_params, p, h->body_params, BT_PKG_CONST_TABLE, sizeof *b->params,
                      "body_params", fault);
    b->inst = inst;
    b->place = place;
    b->params = params;
    b->layers = h->layers;
    return e;
}

/* ---- one program ---- */

/* Makes a body's instruction the piece's. false: a number is out of range. */
static bool unpack_inst(bt_pkg_inst *to, const bodies *b, const bt_pkg_piece *q)
{
    const bool in_layer = q->layer != UINT32_MAX;
    if (to->layer != (in_layer ? 0 : UINT32_MAX)) return false;
    to->layer = q->layer;
    if (in_layer && to->tensor != BT_PKG_NONE) {
        if (to->tensor >= BT_PKG_LAYER_TENSORS) return false;
        to->tensor += q->layer * BT_PKG_LAYER_TENSORS;
    }
    if (in_layer && to->site != BT_PKG_NONE) {
        if (to->site >= BT_PKG_LAYER_SITES) return false;
        to->site += q->layer * BT_PKG_LAYER_SITES;
    }
    if (to->cluster && __builtin_add_overflow(to->cluster, q->cluster, &to->cluster)) return false;
    if (!to->params || to->params == BT_PKG_NONE || to->op == BT_PKG_SESSION) return true;
    if (q->params >= b->all_params || to->params > b->all_params - q->params) return false;
    to->params = b->params[q->params + to->params - 1];
    return true;
}

static bool unpack_piece(flat *f, const bodies *b, const bt_pkg_piece *q)
{
    const uint32_t first = f->insts;
    if ((q->layer >= b->layers && q->layer != UINT32_MAX) || q->reserved) return false;
    for (uint32_t i = 0; i < q->insts; i++) {
        bt_pkg_inst *to = &f->inst[f->insts++];
        *to = b->inst[q->inst + i];
        if (!unpack_inst(to, b, q)) return false;
    }
    for (uint32_t i = 0; i < q->places; i++) {
        bt_pkg_place *to = &f->place[f->places++];
        *to = b->place[q->place + i];
        if (__builtin_add_overflow(to->first_inst, first, &to->first_inst) ||
            __builtin_add_overflow(to->last_inst, first, &to->last_inst))
            return false;
    }
    return true;
}

static const bt_pkg_piece *pieces_of(size_t *ret_n, const bt_pkg *p, uint32_t program)
{
    const bt_pkg_program *g = &bt_pkg_programs(p)[program];
    *ret_n = bt_pkg_consts(p)[g->code].bytes / sizeof(bt_pkg_piece);
    return bt_pkg_const_at(p, g->code);
}

static bt_err make_room(flat *f, const bt_pkg_program *g, bt_fault *fault)
{
    *f = (flat){.constant = g->code, .insts = g->insts, .places = g->places};
    f->inst = malloc(g->insts * sizeof *f->inst);
    f->place = malloc(g->places * sizeof *f->place);
    return f->inst && f->place ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory unpacking programs");
}

/* Unpacks a program. The instructions and places of its pieces add up to exactly those of the program. */
static bt_err unpack(flat *f, const bt_pkg *p, const bodies *b, uint32_t program, bt_fault *fault)
{
    size_t pieces;
    const bt_pkg_piece *q = pieces_of(&pieces, p, program);
    flat to = {.inst = f->inst, .place = f->place};
    for (size_t i = 0; i < pieces; i++) {
        if (!q[i].insts || q[i].insts > b->insts || q[i].inst > b->insts - q[i].insts ||
            q[i].places > b->places || q[i].place > b->places - q[i].places ||
            q[i].insts > f->insts - to.insts || q[i].places > f->places - to.places ||
            !unpack_piece(&to, b, &q[i]))
            return bt_fail(fault, BT_EFORMAT, "program %u: piece %zu is out of range", program, i);
    }
    if (to.insts != f->insts || to.places != f->places)
        return bt_fail(fault, BT_EFORMAT,
                       "program %u: the pieces have %u instructions and %u places, not %u and %u", program,
                       to.insts, to.places, f->insts, f->places);
    f->is_full = true;
    return BT_OK;
}

static const flat *flat_of(const bt_pkg *p, uint32_t program)
{
    flat *f = p->unpacked ? p->unpacked->of[program] : NULL;
    if (!f || f->is_full) return f;
    const bt_err e = unpack(f, p, &p->unpacked->bodies, program, NULL);
    assert(e == BT_OK); /* a sketch has the pieces that its writer made */
    (void)e;
    return f;
}

const bt_pkg_inst *bt_pkg_code(const bt_pkg *p, uint32_t program)
{
    const flat *f = flat_of(p, program);
    return f ? f->inst : bt_pkg_const_at(p, bt_pkg_programs(p)[program].code);
}

const bt_pkg_place *bt_pkg_plan(const bt_pkg *p, uint32_t program)
{
    const flat *f = flat_of(p, program);
    return f ? f->place : bt_pkg_const_at(p, bt_pkg_programs(p)[program].plan);
}

/* ---- two programs ---- */

static bool has_steps(const bt_pkg_inst *a, const bt_pkg_inst *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].op != b[i].op || a[i].unit != b[i].unit) return false;
    return true;
}

bool bt_pkg_has_steps_of(const bt_pkg *p, uint32_t a, uint32_t b)
{
    const bt_pkg_program *g = bt_pkg_programs(p);
    if (g[a].code == g[b].code) return true;
    if (g[a].insts != g[b].insts) return false;
    if (!p->unpacked || !p->unpacked->of[a] || !p->unpacked->of[b])
        return has_steps(bt_pkg_code(p, a), bt_pkg_code(p, b), g[a].insts);
    size_t pieces, others;
    const bt_pkg_inst *inst = p->unpacked->bodies.inst;
    const bt_pkg_piece *x = pieces_of(&pieces, p, a), *y = pieces_of(&others, p, b), *seen_x = x, *seen_y = y;
    if (pieces != others) return false;
    for (size_t i = 0; i < pieces; i++) {
        if (x[i].insts != y[i].insts) return false;
        const bool is_seen = i && x[i].inst == seen_x->inst && y[i].inst == seen_y->inst &&
                             x[i].insts == seen_x->insts; /* layers have the same bodies */
        if (!is_seen && !has_steps(inst + x[i].inst, inst + y[i].inst, x[i].insts)) return false;
        seen_x = &x[i];
        seen_y = &y[i];
    }
    return true;
}

/* ---- all ---- */

static flat *find(const bt_unpacked *u, const bt_pkg_program *g)
{
    for (size_t i = 0; i < u->flats; i++)
        if (u->flat[i].constant == g->code) return &u->flat[i];
    return NULL;
}

bt_err bt_unpacked_new(bt_unpacked **ret, const bt_pkg *p, bt_fault *fault)
{
    const uint32_t programs = bt_pkg_header_of(p)->programs.count;
    const bt_pkg_program *g = bt_pkg_programs(p);
    uint32_t packed = 0;
    uint64_t work = 0;
    bodies b = {0};
    bt_err e = find_bodies(&b, p, fault);
    if (e < 0) return e;
    for (uint32_t i = 0; i < programs; i++) packed += bt_pkg_is_packed(p, i);
    if (!packed) return BT_OK;
    bt_unpacked *u = calloc(1, sizeof *u);
    if (u) u->flat = calloc(packed, sizeof *u->flat);
    if (u) u->of = calloc(programs, sizeof *u->of);
    if (!u || !u->flat || !u->of) e = bt_fail(fault, BT_ENOMEM, "out of memory unpacking programs");
    else u->bodies = b;
    for (uint32_t i = 0; i < programs && e == BT_OK; i++) {
        if (!bt_pkg_is_packed(p, i)) continue;
        flat *f = find(u, &g[i]);
        if (!f) {
            work += (uint64_t)g[i].insts + g[i].places;
            if (work > BT_PKG_MAX_UNPACKED)
                e = bt_fail(fault, BT_EFORMAT, "program %u: more than %d instructions and places to unpack",
                            i, BT_PKG_MAX_UNPACKED);
            else e = make_room(&u->flat[u->flats++], &g[i], fault);
            if (e == BT_OK) f = &u->flat[u->flats - 1];
            if (e == BT_OK && !p->kept) e = unpack(f, p, &b, i, fault);
        } else if (f->insts != g[i].insts || f->places != g[i].places) {
            e = bt_fail(fault, BT_EFORMAT,
                        "program %u: insts %u or places %u is not that of the program with the same code", i,
                        g[i].insts, g[i].places);
        }
        u->of[i] = f;
    }
    if (e == BT_OK) *ret = u;
    else bt_unpacked_free(u);
    return e;
}

void bt_unpacked_free(bt_unpacked *u)
{
    if (!u) return;
    for (size_t i = 0; u->flat && i < u->flats; i++) {
        free(u->flat[i].inst);
        free(u->flat[i].place);
    }
    free(u->flat);
    free(u->of);
    free(u);
}
